"""Plain arrays that a pullback keeps, and that the user may overwrite meanwhile.

A workspace filled anew in each turn of a loop would change the derivatives of the turns before. So a small array is
copied when the tape keeps it. A larger one is made read-only, together with the array it is a view of, until the tape
lets it go: overwriting it raises, and nothing is copied. A view of it that the user made before stays writeable, since
NumPy does not tell who has views of an array; so a few entries are remembered, and compared before the array is used.
"""

import contextlib
import mmap
import threading
import weakref

import numpy as np

from chainrule.errors import InPlaceError

WRITEABLE = 0x400  # the bit of ``flags.num``: reading ``flags.writeable`` warns for np.broadcast_arrays
SMALL = 1 << 14  # bytes: up to this size a copy costs less than a lock

_locked = {}  # id of an array -> [the array, how many residuals need it]; an array in here can't be freed
_guards = {}  # id of a weak reference to a residual -> (the reference, the arrays it locks, the residual's id)
_entries = {}  # id of a residual -> some of its entries
COPIES = {}  # level of a recording -> id of a residual -> (the residual, the array it stands for)
_mutex = threading.RLock()  # reentrant: a residual may be freed at any allocation inside


def held(x):
    """Return the plain array `x` as a residual: its values stay what they are."""
    if x.nbytes <= SMALL:
        kept = x.copy()
        if COPIES:
            note_copy(kept, x)
        return kept
    chain = (x,) if x.base is None else shown_by(x)
    if chain is None:
        return x.copy()
    kept = x.view()
    kept.flags.writeable = False
    if COPIES:
        note_copy(kept, x)
    with _mutex:
        arrays = [a for a in chain if id(a) in _locked or a.flags.num & WRITEABLE]
        if arrays:
            for a in arrays:
                _locked.setdefault(id(a), [a, 0])[1] += 1
                a.flags.writeable = False
            arrays.reverse()  # the owner is unlocked before its view, which can't be writeable without it
            guard = weakref.ref(kept, _release)
            _guards[id(guard)] = guard, arrays, id(kept)
            _entries[id(kept)] = some_entries(kept)
    return kept


def note_copy(kept, x):
    """Tell the recordings that run that a residual is a copy of `x`, or a view: a program reads `x` itself."""
    for copies in tuple(COPIES.values()):
        copies[id(kept)] = kept, x


def some_entries(x):
    """Return some 64 entries from all over an array, as bytes."""
    if x.flags.c_contiguous:
        return x.reshape(-1)[:: x.size // 64 + 1].tobytes()
    step = int((x.size / 64) ** (1 / x.ndim)) + 1
    return x[tuple([slice(n // 2 % step, None, step) for n in x.shape])].tobytes()


def check_kept(nodes):
    """Raise if an array that a node keeps was overwritten through a view of it that existed before."""
    if not _entries:
        return
    for n in nodes:
        saved = n.saved
        for x in saved if saved.__class__ is tuple or saved.__class__ is list else ():
            if x.__class__ is np.ndarray:
                before = _entries.get(id(x))
                if before is not None and some_entries(x) != before:
                    raise InPlaceError(
                        f"an array that {n.rule.name} still needs for its derivative was overwritten through a view.",
                        "make a new array instead:  work = work + 1, not  work += 1;",
                        "copy it before its use:  y = x * work.copy().",
                    )


def _release(guard):
    """Unlock what a residual that is no more had locked."""
    with _mutex:
        _, arrays, kept = _guards.pop(id(guard))
        _entries.pop(kept, None)
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
