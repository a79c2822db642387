"""Where the user's loops come round: marks on a recording, each with what the local variables stood for.

While a function is traced, Python tells of each backward jump in the user's code. A mark notes how many equations were
recorded by then, and the symbols behind the local variables: what one round hands on to the next. Backward passes have
marks, too: where they cross those of the forward run, the cotangents at hand are noted.

Nothing is marked while a debugger or a coverage tool listens.
"""

import array
import bisect
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
from chainrule.program.places import users

LARGE = 1 << 16  # bytes of an array that are compared
CHANGEABLE = (  # in ways that can't be seen
    set, bytearray, memoryview, list, dict, array.array, collections.deque, collections.abc.Iterator,
)  # fmt: skip
NOT_USERS = frozenset({"chainrule", "numpy", "scipy", *sys.stdlib_module_names})
RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
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


class listening:
    """Context in which a recording is told of backward jumps in the user's code."""

    def __init__(self, recording):
        self.recording = recording
        self.frames = {}  # id of a running frame -> number of the call
        self.calls = 0
        self.entries = {}  # (number of the call, line) -> where the line was reached
        self.running = {}  # number of the call -> {where a loop jumps to: its marks}

    def __enter__(self):
        self.before = sys.gettrace()
        self.active = self.before is None or isinstance(getattr(self.before, "__self__", None), listening)
        if self.active:
            sys.settrace(self.called)
        return self

    def __exit__(self, *exc):
        if self.active:
            sys.settrace(self.before)
        return False

    def called(self, frame, event, arg):
        """Listen to the user's functions that have loops."""
        code = frame.f_code
        module = frame.f_globals.get("__name__", "")
        root = module.partition(".")[0]
        if root in ("", "chainrule") or root in sys.stdlib_module_names or not users(code, module):
            return None
        self.calls += 1
        self.recording.codes.setdefault(code, len(self.recording.program.equations))
        self.recording.frames.setdefault(code, frame.f_globals)
        if not targets(code):
            return None
        self.frames[id(frame)] = self.calls
        return self.line

    def line(self, frame, event, arg):
        """Take note of a backward jump."""
        if event == "line":
            where = frame.f_lasti
            where = jumps_within_a_line(frame.f_code).get(where, where)
            if where in targets(frame.f_code):
                self.mark(frame, where)
            elif frame.f_lineno in heads(frame.f_code):  # where a loop may begin
                self.entries[self.frames[id(frame)], frame.f_lineno] = self.here(frame)
        return self.line

    def here(self, frame):
        """Return a mark for the place that is reached."""
        symbols, plain = looked_at(frame.f_locals, self.recording)
        return Mark(len(self.recording.program.equations), symbols, plain)

    def mark(self, frame, where):
        """Take note of a backward jump, at the first one also of where the loop was entered."""
        call = self.frames[id(frame)]
        running = self.running.setdefault(call, {})
        for inner in [t for t in running if t > where]:  # begins anew in the next round
            del running[inner]
        if where not in running:
            made = running[where] = Marked(frame.f_code, where)
            self.recording.loops.append(made)
            entry = self.entries.pop((call, frame.f_lineno), None)
            if entry is not None and made.counted:
                made.marks.append(entry)
                bisect.insort(self.recording.positions, entry.position)
        here = self.here(frame)
        running[where].marks.append(here)
        self.recording.positions.append(here.position)


def looked_at(variables, recording):
    """Return what local variables stand for: path -> symbol, and path -> plain value (an object by its identity)."""
    symbols, plain, seen = {}, {}, {}
    stack = [((name,), v) for name, v in variables.items()]
    while stack:
        path, v = stack.pop()
        if len(symbols) + len(plain) > MOST:
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
                stack += [((*path, name), part) for name, part in attributes(v)]
    return symbols, plain


def attributes(v):
    """Return (name, value) of the attributes of an object of a user's class, which its methods may set."""
    kind = type(v)
    root = getattr(kind, "__module__", "").partition(".")[0]
    if kind is not types.SimpleNamespace and root != "__main__" and root in NOT_USERS:
        return []
    found = list(getattr(v, "__dict__", {}).items())
    for base in kind.__mro__:
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
