"""Plain arrays that a pullback keeps, and that the user may overwrite meanwhile.

A workspace filled anew in each turn of a loop would change the derivatives of the turns before. So a small array is
copied when the tape keeps it. A larger one is made read-only, together with the array it is a view of, until the tape
lets it go: overwriting it raises, and nothing is copied. Views of it made earlier by the user are not reached.
"""

import contextlib
import mmap
import threading
import weakref

import numpy as np

WRITEABLE = 0x400  # the bit of ``flags.num``: reading ``flags.writeable`` warns for np.broadcast_arrays
SMALL = 1 << 14  # bytes: up to this size a copy costs less than a lock

_locked = {}  # id of an array -> [the array, how many residuals need it]; an array in here can't be freed
_guards = {}  # id of a weak reference to a residual -> (the reference, the arrays it locks)
_mutex = threading.RLock()  # reentrant: a residual may be freed at any allocation inside


def held(x):
    """Return the plain array `x` as a residual: its values stay what they are."""
    if x.nbytes <= SMALL:
        return x.copy()
    chain = (x,) if x.base is None else shown_by(x)
    if chain is None:
        return x.copy()
    kept = x.view()
    kept.flags.writeable = False
    with _mutex:
        arrays = [a for a in chain if id(a) in _locked or a.flags.num & WRITEABLE]
        if arrays:
            for a in arrays:
                _locked.setdefault(id(a), [a, 0])[1] += 1
                a.flags.writeable = False
            arrays.reverse()  # the owner is unlocked before its view, which can't be writeable without it
            guard = weakref.ref(kept, _release)
            _guards[id(guard)] = guard, arrays
    return kept


def _release(guard):
    """Unlock what a residual that is no more had locked."""
    with _mutex:
        _, arrays = _guards.pop(id(guard))
        for a in arrays:
            entry = _locked[id(a)]
            entry[1] -= 1
            if not entry[1]:
                del _locked[id(a)]
                with contextlib.suppress(ValueError):  # which NumPy raises for np.broadcast_arrays
                    a.flags.writeable = True


def shown_by(x):
    """Return the arrays whose memory `x` shows, from `x` to the owner; None if it is memory that can't be locked.

    `sliding_window_view` and `as_strided` put an object between a view and its base; memory may also be that of a
    bytearray, say, which Python code can write to. (A file mapped by `memmap` is locked by its arrays.)
    """
    chain = []
    while x is not None:
        if isinstance(x, np.ndarray):
            chain.append(x)
            x = x.base
        elif x.__class__ is memoryview:
            x = x.obj
        elif isinstance(getattr(x, "base", None), np.ndarray):
            x = x.base
        else:
            return chain if isinstance(x, mmap.mmap) or not is_open(x) else None
    return chain


def is_open(x):
    """Tell whether Python code can write to the memory of the object `x`."""
    try:
        return not memoryview(x).readonly
    except TypeError:
        return False


def is_held(x):
    """Tell whether the array `x` is read-only because a residual needs it."""
    return id(x) in _locked


def is_locked(error):
    """Tell whether an error may come from an attempt to overwrite an array that is locked here."""
    return bool(_locked) and isinstance(error, ValueError) and "read-only" in str(error)


def frozen_param(v):
    """Return a call's parameter as it may be kept: arrays and lists are copied, since their holder may change them."""
    kind = v.__class__
    if kind is tuple or kind is list:
        return kind([frozen_param(part) for part in v])
    return v.copy() if kind is np.ndarray else v
