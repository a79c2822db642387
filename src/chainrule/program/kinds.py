"""Kinds of arguments: what a compiled function knows calls by, and the paths that it keeps for each.

The kind of a call is a key: the containers, shapes and dtypes of its arguments, and the values of those on which the
program may depend in any way. What is left are its points, the inputs of a program. For calls of one kind there is a
`Path` for each way that the function has been seen to take.
"""

from dataclasses import dataclass, field

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.program.arguments import ByIdentity, orders_of, typed
from chainrule.program.choice import Choice
from chainrule.program.ir import Program
from chainrule.program.surroundings import Surroundings

DYNAMIC = (float, complex, np.ndarray, np.generic)
BY_VALUE = frozenset({int, bool, str, bytes, type(None), range, frozenset, type(Ellipsis)})


@dataclass(eq=False, slots=True)
class Path:
    """One way through the function, compiled."""

    program: Program
    choice: Choice
    surroundings: Surroundings
    writes: list
    hits: int = 0


@dataclass(eq=False, slots=True)
class Kind:
    """What is known for arguments of one kind."""

    paths: list = field(default_factory=list)
    careful: list = field(default_factory=list)
    eager: str | None = None
    traces: int = 0
    impure: int = 0


def kind_of(args, kwargs, static, static_names, forget):
    """Return (kind, points) of any arguments; (None, why) if the program can't take them, where None is for boxes.

    `static` and `static_names` are the numbers and names of the static arguments. What is known by its identity tells
    `forget` when it is no more.
    """
    leaves, structure = tree.flatten((args, kwargs))
    flags = static_flags(args, kwargs, static, static_names)
    key, points = [structure, *orders_of(args, kwargs)], []
    for k, x in enumerate(leaves):
        c = x.__class__
        if isinstance(x, Boxed):
            return None, None
        if flags is not None and flags[k]:
            key.append((c, typed(x)))
        elif issubclass(c, DYNAMIC):
            if c is np.ndarray or issubclass(c, np.generic):
                if x.dtype.kind not in "fciub":
                    return None, f"it is called with an array of dtype {x.dtype}"
                layout = None if x.flags.c_contiguous else x.strides  # on which it depends what is a view
                key.append((c, x.shape, x.dtype, layout))
            elif c in (float, complex):
                key.append(c)
            else:  # a subclass
                return None, f"it is called with a {c.__name__}"
            points.append(x)
        elif c in BY_VALUE or isinstance(x, np.dtype | type):
            key.append((c, typed(x)))
        else:
            key.append((c, ByIdentity(x, forget)))
    key = tuple(key)
    try:
        hash(key)
    except TypeError:
        return None, "a static argument is not hashable"
    return key, points


def static_flags(args, kwargs, static, static_names):
    """Return for each value whether it belongs to a static argument; None if there is none."""
    if not static and not static_names:
        return None
    flags = []
    count = len(args)
    numbers = {n % count for n in static if -count <= n < count}
    for n, a in enumerate(args):
        flags += [n in numbers] * len(tree.flatten(a)[0])
    for name in sorted(kwargs):
        flags += [name in static_names] * len(tree.flatten(kwargs[name])[0])
    return flags
