"""Positions: which entry of an array is meant, and how views, slices and reshapes change it.

A position in an array has a number for each axis, or an `At`: ``step * i + shift`` with the index i of a loop. The
functions here take positions, shapes and indices, and nothing else: no equation and no code. `nests_handlers` applies
them to the functions of NumPy. The other modules of the family import from here; this one imports from none of them.
"""

import math
from typing import NamedTuple

import numpy as np

from chainrule.program.ir import Symbol
from chainrule.program.native.builder import type_of
from chainrule.program.native.values import is_integer

MOST_SEGMENTS = 9  # pieces that a loop may be cut into


class Unfit(Exception):
    """There is no nest of this kind for an equation."""


class At(NamedTuple):
    """The place ``step * i + shift`` along an axis, with the index i of a loop."""

    loop: int
    shift: int = 0
    step: int = 1


def moved(entry, shift, step=1):
    """Return ``shift + step * entry``."""
    if entry.__class__ is At:
        return At(entry.loop, shift + step * entry.shift, step * entry.step)
    return shift + step * entry


def cuts_of(entry, start, stop):
    """Return the indices of the loop at which a place enters and leaves ``start:stop``."""
    t, m = entry.shift, entry.step
    if m > 0:
        return -((t - start) // m), -((t - stop) // m)
    return (t - start) // -m + 1, (t - stop) // -m + 1


# -- indices -----------------------------------------------------------------------------------------------------------


def basic_parts(index, shape) -> list | None:
    """Return the parts of an index of integers, slices and None; None if there are others.

    A part is None, an integer, or (start, step, count).
    """
    parts = index if index.__class__ is tuple else (index,)
    for p in parts:
        if not (p is None or p is Ellipsis or p.__class__ is slice or is_integer(p)):
            return None
        if p.__class__ is slice and not all(v is None or is_integer(v) for v in (p.start, p.stop, p.step)):
            return None
    left = len(shape) - sum(p is not None and p is not Ellipsis for p in parts)
    if left < 0:
        return None
    where = [k for k, p in enumerate(parts) if p is Ellipsis]
    cut = where[0] if where else len(parts)
    parts = [*parts[:cut], *[slice(None)] * left, *parts[cut + 1 :]]
    found, axis = [], 0
    for p in parts:
        if p is None:
            found.append(None)
            continue
        n = shape[axis]
        axis += 1
        if p.__class__ is slice:
            start, stop, step = p.indices(n)
            found.append((start, step, len(range(start, stop, step))))
        else:
            found.append(int(p) % n if -n <= p < n else n)
    return found


def index_arrays(index, shape):
    """Return (axes before, arrays, axes after) of an index with arrays of integers; None of others.

    The arrays must stand together, and all else must be whole slices.
    """
    parts = list(index) if index.__class__ is tuple else [index]
    if any(p is None for p in parts):
        return None
    places = [k for k, p in enumerate(parts) if p is Ellipsis]
    if places:
        left = len(shape) - len(parts) + 1
        parts[places[0] : places[0] + 1] = [slice(None)] * left
    parts += [slice(None)] * (len(shape) - len(parts))
    if len(parts) != len(shape):
        return None
    named = [k for k, p in enumerate(parts) if p.__class__ is not slice]
    if not named or named[-1] - named[0] != len(named) - 1:
        return None
    arrays = [parts[k] for k in named]
    for p in arrays:
        if is_integer(p):
            continue
        if not isinstance(p, np.ndarray | Symbol) or np.dtype(p.dtype).kind not in "iu" or type_of(p.dtype) is None:
            return None
    if any(p.__class__ is slice and p != slice(None) for p in parts):
        return None
    return named[0], arrays, len(shape) - named[-1] - 1


def inverse(parts, position):
    """Return (tests, position in what is written) of a write at an index."""
    entries, tests, found = iter(position), [], []
    for p in parts:
        if p is None:
            found.append(0)
            continue
        entry = next(entries)
        if p.__class__ is not tuple:
            tests.append((entry, p, p + 1))
            continue
        start, step, count = p
        if step == 1:
            tests.append((entry, start, start + count))
            found.append(moved(entry, -start))
        elif step == -1:
            tests.append((entry, start - count + 1, start + 1))
            found.append(moved(entry, start, -1))
        elif entry.__class__ is At:
            raise Unfit("a write with steps")
        else:
            k, rest = divmod(entry - start, step)
            tests.append((0 if rest or not 0 <= k < count else 1, 1, 2))
            found.append(k)
    return tests, tuple(found)


# -- shapes ------------------------------------------------------------------------------------------------------------


def project(position, shape, to):
    """Return the position in an operand of shape `to` that is broadcast to `shape`."""
    rest = position[len(shape) - len(to) :]
    return tuple([0 if n == 1 else p for n, p in zip(to, rest, strict=True)])


def regrouped(position, new, old):
    """Return the position in an array of shape `old` that was reshaped to `new`."""
    news = [(n, p) for n, p in zip(new, position, strict=True) if n != 1]
    olds = [n for n in old if n != 1]
    found = []
    while olds:
        sizes, entries, run = [news[0][0]], [news.pop(0)[1]], [olds.pop(0)]
        a, b = sizes[0], run[0]
        while a != b:
            if a < b:
                n, p = news.pop(0)
                sizes.append(n)
                entries.append(p)
                a *= n
            else:
                run.append(olds.pop(0))
                b *= run[-1]
        if len(sizes) == len(run) == 1:
            found.append(entries[0])
            continue
        flat, step, loop = 0, 1, None
        for n, p in zip(reversed(sizes), reversed(entries), strict=True):
            if p.__class__ is At:
                if loop is not None:
                    raise Unfit("a reshape of two loops")
                loop = At(p.loop, 0, p.step * step)
                flat += p.shift * step
            else:
                flat += p * step
            step *= n
        found += split(flat, loop, run)
    placed = iter(found)
    return tuple([0 if n == 1 else next(placed) for n in old])


def split(flat, loop, run):
    """Return the entries along axes of lengths `run` of a position in what they are together."""
    entries, step = [], math.prod(run)
    for n in run:
        step //= n
        if loop is not None and loop.step % step == 0 and (step == 1 or len(entries) == 0):
            entries.append(At(loop.loop, flat // step, loop.step // step))
            loop = None
        elif loop is not None and (loop.step >= step * n or step > 1):
            raise Unfit("a reshape of part of a loop")
        else:
            entries.append(flat // step)
        flat %= step
    if loop is not None:
        raise Unfit("a reshape of part of a loop")
    return entries
