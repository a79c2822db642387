"""Whether this run is traced: only then an array that code makes need be one that takes traced values."""

import threading
import types
from typing import ClassVar

import numpy as np

from chainrule.engine import level
from chainrule.engine.boxed import Boxed
from chainrule.engine.state import attributes

OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ndarray, np.generic)
ENOUGH = 1000  # values looked at; larger arguments are taken for traced ones


class Here(threading.local):
    """What this thread runs: the session of each package, and whether a traced value was given to one of them."""

    sessions: ClassVar[dict] = {}  # replaced, never changed
    traced = False

    def __reduce__(self):
        return "here"


here = Here()


def traced():
    """Tell whether a traced value may meet what is made now: a transform is running, or the call was given one."""
    return here.traced or bool(level._open)


def holds_traced(values):
    """Tell whether a box is among the values, in their containers, or in the attributes of objects."""
    seen = set()
    waiting = list(values)
    while waiting:
        v = waiting.pop()
        kind = v.__class__
        if kind is float or kind is int or kind is str:
            continue
        if isinstance(v, Boxed):
            return True
        if id(v) in seen:
            continue
        if kind is list or kind is tuple or kind is set:
            inner = v
        elif kind is dict:
            inner = v.values()
        elif isinstance(v, OPAQUE):
            continue
        else:
            inner = attributes(v).values()
        seen.add(id(v))
        if len(inner) + len(seen) + len(waiting) > ENOUGH:
            return True
        waiting.extend(inner)
    return False
