"""Arguments and results of compiled functions, value by value."""

import collections
import dataclasses
import functools
import inspect
import math
import types
import weakref

import numpy as np

from chainrule.transforms.common import name_of

ARRAY, DOUBLE = np.ndarray, np.dtype(float)


def refuse_generators(f):
    """Raise for a generator or coroutine function: what it returns has not run yet."""
    inner = f
    while isinstance(inner, functools.partial | types.MethodType):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
    for what, is_one in (
        ("generator", inspect.isgeneratorfunction), ("coroutine", inspect.iscoroutinefunction),
        ("asynchronous generator", inspect.isasyncgenfunction),
    ):  # fmt: skip
        if is_one(inner):
            raise TypeError(
                f"compile needs a function that returns its result, but {name_of(f)} is a {what} function; "
                "compile the functions that it calls"
            )


def static_arguments(f, numbers, names):
    """Return the numbers and the names of the static arguments: each way in which they can be given."""
    numbers = {numbers} if isinstance(numbers, int) else set(numbers)
    names = {names} if isinstance(names, str) else set(names)
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for n in list(numbers):
        if n < 0 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            n += len(positional)
        names.update(positional[n : n + 1] if n >= 0 else ())
    numbers.update(positional.index(name) for name in list(names) if name in positional)
    return frozenset(numbers), frozenset(names)


class ByIdentity:
    """An object in the key of a kind of arguments: by its identity, and not kept alive."""

    __slots__ = ("__weakref__", "hash", "ref")

    def __init__(self, x, forget):
        self.hash = id(x)
        me = weakref.ref(self)
        try:
            self.ref = weakref.ref(x, lambda _: me() is not None and forget(me()))
        except TypeError:  # some have no weak references
            self.ref = lambda: x

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        x = self.ref()
        return self is other or (x is not None and other.__class__ is ByIdentity and other.ref() is x)


def typed(x):
    """Return what stands for a plain value in a key: equal only for the same value of the same type.

    1 and True and 1.0 are equal in Python, and so are 0.0 and -0.0, and ranges with the same numbers.
    """
    c = x.__class__
    if c is str:
        return x
    if c is float or c is complex:
        return c, repr(x)
    if c is range or c is slice:
        return c, typed(x.start), typed(x.stop), typed(x.step)
    if c is tuple:
        return c, *map(typed, x)
    if c is frozenset:
        return c, frozenset(map(typed, x))
    return c, x


def orders_of(args, kwargs):
    """Return the keys of dicts in the order in which they stand there, which is the one that a loop over them takes."""
    found, stack = [], [*args, kwargs] if kwargs else list(args)
    while stack:
        x = stack.pop()
        c = x.__class__
        if c is ARRAY or c is float:
            continue
        if isinstance(x, dict):
            found.append(tuple(map(typed, x)))
            stack += x.values()
        elif c is list or isinstance(x, tuple | collections.deque):
            stack += x
        elif dataclasses.is_dataclass(c):
            stack += [getattr(x, f.name, None) for f in dataclasses.fields(c)]
    return found


def inexact_leaf(x):
    """Tell whether a value of the arguments is a float or complex number or array."""
    if x.__class__ in (float, complex):
        return True
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind in "fc"


def locked(x):
    """Return an array as a view that can't be written to."""
    if x.__class__ is ARRAY and x.flags.writeable:
        x = x.view()
        x.flags.writeable = False
    return x


def can_write(points, writes):
    """Tell whether arrays may be written to: none is read-only, and none shares memory with another."""
    for k in writes:
        x = points[k]
        if not x.flags.writeable:
            return False
        if any(n != k and y.__class__ is ARRAY and np.may_share_memory(x, y) for n, y in enumerate(points)):
            return False
    return True


def fresh(y):
    """Return a result of a recorded run as one that nobody else holds."""
    return y.copy() if y.__class__ is np.ndarray else y


class Sound(list):
    """Outputs of a run that made sure that the arrays among them are finite."""

    __slots__ = ()


def finite(outputs):
    """Tell whether all numbers are finite; in most cases the sum of their squares tells."""
    sound = outputs.__class__ is Sound
    for y in outputs:
        c = y.__class__
        if c is ARRAY:
            if sound:
                continue
            dtype = y.dtype
            if dtype is DOUBLE:
                flat = y if y.ndim == 1 else y.reshape(-1)
                total = flat.dot(flat)
                if not math.isfinite(total) and not np.isfinite(y).all():
                    return False
            elif dtype.kind in "fc" and not np.isfinite(y).all():
                return False
        elif c is float or c is np.float64:
            if not math.isfinite(y):
                return False
        elif (c is complex or isinstance(y, np.inexact)) and not np.isfinite(y):
            return False
    return True
