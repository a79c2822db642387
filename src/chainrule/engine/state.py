"""What a user's object keeps between calls: seen, copied and compared.

A `Function` may leave values on itself in `forward` that `backward` reads: new attributes, entries of a dict, a list
that grows, an array written in place. These belong to one call. The functions here take an object's state apart, tell
what a call changed in it, and copy as much of it as a later call could overwrite.

Containers (dict, list, set, tuple), and objects that are nothing but their attributes, are looked into; all else is a
value. An array is compared by content if it is small; a large one is told by its identity.
"""

import copyreg
import types

import numpy as np

from chainrule.engine.boxed import Boxed, value

SMALL = 1 << 14  # bytes: arrays up to this size are copied to see whether they were written in place

_OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, Boxed, np.ndarray,
           np.generic)  # fmt: skip


def attributes(obj):
    """Return an object's attributes, those in slots too."""
    found = dict(obj.__dict__) if hasattr(obj, "__dict__") else {}
    for name in copyreg._slotnames(type(obj)):
        try:
            found[name] = object.__getattribute__(obj, name)
        except AttributeError:
            continue
    return found


def is_plain_object(v):
    """Tell whether `v` is nothing but its attributes: made by a Python class that does not say how it is copied."""
    kind = type(v)
    return (
        not isinstance(v, _OPAQUE)
        and hasattr(v, "__dict__")
        and kind.__module__ != "builtins"
        and kind.__reduce__ is object.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and not hasattr(kind, "__copy__")
        and not isinstance(v, dict | list | set | tuple | BaseException)
    )


def clone(obj, values=None):
    """Return a new object of the same class with the same attributes, or with those of `values`."""
    new = object.__new__(type(obj))
    for name, v in (attributes(obj) if values is None else values).items():
        object.__setattr__(new, name, v)
    return new


def isolated(v, memo, limit=SMALL):
    """Return `v` with its containers, plain objects and arrays of at most `limit` bytes copied; values are shared."""
    kind = v.__class__
    if kind in (int, float, str, bool, complex, type(None)) or isinstance(v, Boxed):
        return v
    if id(v) in memo:
        return memo[id(v)][1]
    if isinstance(v, np.ndarray):
        new = v.copy() if v.nbytes <= limit else v
    elif kind is tuple:
        new = tuple([isolated(x, memo, limit) for x in v])
    elif kind is dict:
        new = {}
        memo[id(v)] = (v, new)
        new.update({k: isolated(x, memo, limit) for k, x in v.items()})
    elif kind is list:
        new = []
        memo[id(v)] = (v, new)
        new.extend([isolated(x, memo, limit) for x in v])
    elif kind is set or kind is bytearray:
        new = v.copy()
    elif is_plain_object(v):
        new = object.__new__(kind)
        memo[id(v)] = (v, new)
        for name, x in attributes(v).items():
            object.__setattr__(new, name, isolated(x, memo, limit))
    else:
        new = v
    memo[id(v)] = (v, new)  # `v` too: its id must not be used again meanwhile
    return new


def parts(v):
    """Return what a container or plain object holds, as (key, value) pairs in order; None for a value."""
    kind = v.__class__
    if kind is dict:
        return list(v.items())
    if kind is list or kind is tuple:
        return list(enumerate(v))
    if is_plain_object(v):
        return list(attributes(v).items())
    return None


def unchanged(a, b, seen=None):
    """Tell whether `b` is what `a` was, where `a` was set aside by `isolate` before a call and `b` found after it."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if a.__class__ in (int, str, bool, bytes, bytearray, set):
        return a == b
    mine, yours = parts(a), parts(b)
    if mine is None or len(mine) != len(yours):
        return False
    seen = set() if seen is None else seen
    if id(b) in seen:
        return True
    seen.add(id(b))
    return all(j == k and unchanged(x, y, seen) for (j, x), (k, y) in zip(mine, yours, strict=True))


def any_part(test, v, seen=None):
    """Tell whether `test` holds for some value in `v`."""
    inner = parts(v)
    if inner is None:
        return test(v)
    seen = set() if seen is None else seen
    if id(v) in seen:
        return False
    seen.add(id(v))
    return any(any_part(test, x, seen) for _, x in inner)


def carries(v):
    """Tell whether a value may depend on the inputs smoothly: a float, an array of floats, or something unknown."""
    if v is None or isinstance(v, int | str | bytes | bytearray | slice | range | np.dtype | type | set):
        return False
    dtype = getattr(v, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind not in "iubSUmM"
    return not isinstance(v, types.FunctionType | types.BuiltinFunctionType | types.ModuleType)


def agrees(new, old):
    """Tell whether values made again, perhaps boxed, are those of the first time, up to rounding."""
    if new is old:
        return True
    if is_plain_object(new) and is_plain_object(old):  # attributes may be made at need only
        mine, yours = attributes(new), attributes(old)
        return all(agrees(mine[k], yours[k]) for k in mine.keys() & yours.keys() if not k.startswith("_Function__"))
    mine, yours = parts(new), parts(old)
    if mine is not None and yours is not None:
        return len(mine) == len(yours) and all(
            j == k and agrees(x, y) for (j, x), (k, y) in zip(mine, yours, strict=True)
        )
    new, old = value(new), value(old)
    if not (carries(new) and carries(old)):
        return True
    try:
        new, old = np.asarray(new), np.asarray(old)
        if new.shape != old.shape:
            return False
        if old.dtype.kind not in "fc":
            return True
        rtol = 1e3 * float(np.finfo(old.dtype).eps)
        return bool(
            np.allclose(new, old, rtol=rtol, atol=rtol * float(np.max(np.abs(old), initial=0.0)), equal_nan=True)
        )
    except (TypeError, ValueError):
        return True


def arrays_in(v):
    """Return the plain arrays that `v` holds."""
    found = []
    any_part(lambda x: found.append(x) if x.__class__ is np.ndarray else False, v)
    return found
