"""Linear functions of many vectors at once, such as the unit vectors of a matrix of derivatives."""

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine import splitting
from chainrule.engine.batched import STOPPED, Batched, NeedsLoop, batched, note_loops
from chainrule.engine.spec import shape_of
from chainrule.errors import raised_in
from chainrule.transforms.common import own


def units(spec, start=0, stop=None):
    """Return a basis of the space of arrays like `spec`, or some of it: one array more, each with one entry 1."""
    stop = spec.size if stop is None else stop
    basis = np.zeros((stop - start) * spec.size, spec.dtype or (complex if spec.kind == "c" else float))
    basis[start :: spec.size + 1] = 1
    return basis.reshape(stop - start, *spec.shape)


def some_units(spec, start, stop):
    """Return unit vectors as `units` does, with zeros for numbers out of range, and the first number.

    The basis is None if all are out of range, the number if some are.
    """
    low, high = max(start, 0), min(stop, spec.size)
    if low >= high:
        return None, None
    basis = units(spec, low, high)
    if high - low == stop - start:
        return basis, start
    padded = np.zeros((stop - start, *spec.shape), basis.dtype)
    padded[low - start : high - start] = basis
    return padded, None


def all_at_once(linear, bases, f, starts):
    """Return ``linear`` of each row of the `bases`, stacked, from one call on batches; of one row alone without one.

    A basis may be None. Its start tells that its rows are multiples of unit vectors, from that number on.
    """
    n = max([len(b) for b in bases if b is not None])

    def of_row(k):
        return linear(*[None if b is None else single(b[k]) for b in bases])

    if n == 1:
        return [y.reshape((1, *shape_of(y))) if shape_of(y) else np.stack([y]) for y in of_row(0)]
    before = splitting.events
    try:
        with _level.running(f) as level:
            results = linear(*[
                None if b is None else batched(b, level, start if b.ndim == 2 else None)
                for b, start in zip(bases, starts, strict=True)
            ])  # fmt: skip
            if level in STOPPED:
                raise NeedsLoop(level, "a value that differs between the runs")
            if splitting.events != before:  # a quotient 0 / 0 that may have a limit: found for each by itself
                raise NeedsLoop(level, "a second run with values set apart")
            return [y.data if own(y, level, f, Batched) else np.broadcast_to(y, (n, *shape_of(y))) for y in results]
    except NeedsLoop as stop:
        if stop.level is not None and stop.level != level:
            raise
        note_loops((f"the derivative itself: {stop.what}, {raised_in(stop)}",))
    finally:
        STOPPED.discard(level)
    return [np.stack(parts) for parts in zip(*[of_row(k) for k in range(n)], strict=True)]


def single(unit):
    """Return an array without axes as a number."""
    return unit if unit.shape else unit[()]
