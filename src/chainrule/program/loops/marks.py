"""Where the user's loops come round: marks on a recording, each with what the local variables stood for.

While a function is traced, Python tells of each backward jump in the user's code (`loops.listening`). A mark notes how
many equations were recorded by then, and the symbols behind the local variables: what one round hands on to the next.
Backward passes have marks, too: where they cross those of the forward run, the cotangents at hand are noted.
"""

import array
import collections.abc
import dis
import functools
import pickle
import random
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.engine.boxed import Boxed
from chainrule.engine.dual import Dual

ROUNDS = 4  # fewer are not worth a loop
LARGE = 1 << 16  # bytes of an array that are compared
CHANGEABLE = (  # in ways that can't be seen
    set, bytearray, memoryview, list, dict, array.array, collections.deque, collections.abc.Iterator,
)  # fmt: skip
NOT_USERS = frozenset({"chainrule", "numpy", "scipy", *sys.stdlib_module_names})
RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
CALLED = types.FunctionType | types.MethodType | functools.partial
MOST = 200  # values that are looked at in one set of local variables


@dataclass(eq=False, slots=True)
class Mark:
    """One backward jump.

    `position` counts the equations before it, `symbols` has what the local variables stand for, `plain` what else they
    are.
    """

    position: int
    symbols: dict
    plain: dict


@dataclass(eq=False, slots=True)
class Marked:
    """One run of one loop of the user's: its code, the place it jumps to, and its marks."""

    code: Any
    target: int
    marks: list = field(default_factory=list)

    @property
    def counted(self) -> bool:
        """Whether it is a ``for``: it ends when its iterator does."""
        return targets(self.code)[self.target]


@functools.lru_cache(1024)
def targets(code):
    """Return, for a code object, where its backward jumps go to: offset -> whether that is the head of a ``for``."""
    names, wide = {}, []
    for i in dis.get_instructions(code):  # an EXTENDED_ARG belongs to the instruction after it
        wide.append(i.offset)
        if i.opname != "EXTENDED_ARG":
            names.update(dict.fromkeys(wide, i.opname))
            wide = []
    found = {}
    for i in dis.get_instructions(code):
        if "JUMP_BACKWARD" in i.opname and "NO_INTERRUPT" not in i.opname:
            found[i.argval] = names.get(i.argval, "").startswith("FOR_ITER")
    return found


@functools.lru_cache(1024)
def jumps_within_a_line(code):
    """Return offset -> target of the backward jumps within a line: since Python 3.13 it is told at the jump."""
    lines = {i.offset: i.positions.lineno for i in dis.get_instructions(code) if i.positions}
    return {
        i.offset: i.argval for i in dis.get_instructions(code)
        if i.argval in targets(code) and "JUMP_BACKWARD" in i.opname and lines.get(i.offset) == lines.get(i.argval)
    }  # fmt: skip


@functools.lru_cache(1024)
def heads(code):
    """Return the lines on which a ``for`` of a code object stands."""
    counted = {t for t, is_for in targets(code).items() if is_for}
    return frozenset([i.positions.lineno for i in dis.get_instructions(code) if i.offset in counted and i.positions])


def looked_at(variables, recording):
    """Return what local variables stand for: path -> symbol, and path -> plain value (an object by its identity)."""
    symbols, plain, seen = {}, {}, {}
    stack = [((name,), v) for name, v in variables.items()]
    while stack:
        path, v = stack.pop()
        if len(symbols) + len(plain) > MOST or (isinstance(v, list | tuple | dict) and len(v) > MOST):
            plain["more"] = object()  # unlike that of any other mark
            break
        if isinstance(v, Boxed):
            for way, s in symbols_of(v, recording, plain, path):
                symbols[(*path, *way)] = s
        elif type(v) is list or isinstance(v, tuple):
            plain[path] = type(v), len(v)
            stack += [((*path, i), part) for i, part in enumerate(v)]
        elif type(v) is dict:
            plain[path] = dict, len(v)
            stack += [((*path, k), part) for k, part in v.items()]
        elif isinstance(v, bool | int | float | complex | str | bytes | np.generic) or v is None:
            plain[path] = type(v), v
        elif type(v) is np.ndarray:
            plain[path] = id(v), v.shape, hash(v.tobytes()) if v.nbytes <= LARGE and not v.dtype.hasobject else object()
        elif isinstance(v, CHANGEABLE):
            plain[path] = object()
        elif isinstance(v, RANDOM):
            plain[path] = type(v), id(v), hash(pickle.dumps(v))
        else:
            plain[path] = type(v), id(v)
            if id(v) not in seen:
                seen[id(v)] = v
                inside = held(v, variables) if isinstance(v, CALLED) else attributes(v)
                stack += [((*path, name), part) for name, part in inside]
    return symbols, plain


def held(f, variables):
    """Return (name, value) of what a function, method or partial call of the user's keeps, and may change.

    Variables of the loop's own function that it closes over are looked at as such.
    """
    if isinstance(f, types.MethodType):
        return [("__self__", f.__self__), ("__func__", f.__func__)]
    if isinstance(f, functools.partial):
        return [("func", f.func), ("args", f.args), ("keywords", f.keywords)]
    root = (f.__module__ or "").partition(".")[0]
    if root != "__main__" and root in NOT_USERS:
        return []
    found = [(n, getattr(f, n)) for n in ("__defaults__", "__kwdefaults__") if getattr(f, n)]
    found += list(f.__dict__.items())
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            v = cell.cell_contents
        except ValueError:  # not set yet
            continue
        if name not in variables or variables[name] is not v:
            found.append((name, v))
    return found


def attributes(v):
    """Return (name, value) of the attributes of an object of a user's class, or of the class, which code may set."""
    kind = v if isinstance(v, type) else type(v)
    root = getattr(kind, "__module__", "").partition(".")[0]
    if kind is not types.SimpleNamespace and root != "__main__" and root in NOT_USERS:
        return []
    found = [] if kind is v else list(getattr(v, "__dict__", {}).items())
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] not in NOT_USERS or base.__module__ == "__main__":
            found += [(n, x) for n, x in vars(base).items() if not n.startswith("__") and not callable(x)]
        if kind is v:
            continue
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{base.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(v, name):
                found.append((name, getattr(v, name)))
    return found


def symbols_of(box, recording, plain=None, path=()):
    """Find the symbols in a box: its value, and of a dual its tangent. What is plain in it is put into `plain`."""
    stack = [((), box)]
    while stack:
        way, x = stack.pop()
        kind = type(x)
        if getattr(kind, "recorded", False) and x.level == recording.level:
            if x.aux is not None:
                yield (*way, "value"), x.aux
        elif isinstance(x, Boxed):
            stack.append(((*way, "data"), x.data))
            if kind is Dual:
                stack.append(((*way, "tangent"), x.aux))
        elif plain is not None:
            plain[*path, *way] = kind, x.tobytes() if isinstance(x, np.ndarray) else x
