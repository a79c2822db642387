"""Plain arrays that a pullback keeps, and that the user may overwrite meanwhile.

A workspace filled anew in each turn of a loop would change the derivatives of the turns before. So a small array is
copied when the tape keeps it. A larger one is made read-only, together with the array it is a view of, until the tape
lets it go: overwriting it raises, and nothing is copied. Views of it made earlier by the user are not reached.
"""

import threading
import weakref

import numpy as np

SMALL = 1 << 14  # bytes: up to this size a copy costs less than a lock

_locked = {}  # id of an array -> [the array, how many residuals need it]; an array in here can't be freed
_guards = {}  # id of a weak reference to a residual -> (the reference, the arrays it locks)
_mutex = threading.RLock()  # reentrant: a residual may be freed at any allocation inside


def held(x):
    """Return the plain array `x` as a residual: its values stay what they are."""
    if x.nbytes <= SMALL:
        return x.copy()
    kept = x.view()
    kept.flags.writeable = False
    with _mutex:
        arrays = [a for a in (x.base, x) if a.__class__ is np.ndarray and (id(a) in _locked or a.flags.writeable)]
        if arrays:
            for a in arrays:
                _locked.setdefault(id(a), [a, 0])[1] += 1
                a.flags.writeable = False
            guard = weakref.ref(kept, _release)
            _guards[id(guard)] = guard, arrays
    return kept


def _release(guard):
    """Unlock what a residual that is no more had locked."""
    with _mutex:
        _, arrays = _guards.pop(id(guard))
        for a in arrays:  # the owner before its view, which can't be writeable without it
            entry = _locked[id(a)]
            entry[1] -= 1
            if not entry[1]:
                del _locked[id(a)]
                a.flags.writeable = True


def is_locked(error):
    """Tell whether an error may come from an attempt to overwrite an array that is locked here."""
    return bool(_locked) and isinstance(error, ValueError) and "read-only" in str(error)


def frozen_param(v):
    """Return a call's parameter as it may be kept: arrays and lists are copied, since their holder may change them."""
    kind = v.__class__
    return v.copy() if kind is np.ndarray or kind is list else v
