"""The methods of ufuncs that are functions of their own: ``np.add.reduce`` sums, ``np.add.accumulate`` sums up to each.

The reductions and running sums that have a function of the same meaning are listed in `rules.reductions`. Here are
those that have none, and the rest, which has no derivative.
"""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from chainrule.engine import calls
from chainrule.engine.boxed import value
from chainrule.engine.indexing import scatter
from chainrule.engine.rule import RULES
from chainrule.engine.spec import shape_of
from chainrule.engine.writes import overlaps, seen_in
from chainrule.errors import UnsupportedArgumentError
from chainrule.rules.indexing import destination
from chainrule.rules.reductions import kept, reduced


def log_sum_exp(exp, log):
    """Return the reduction of logaddexp or logaddexp2, given the functions of its base."""

    def reduce(x, axis=0, dtype=None, keepdims=False, initial=None, where=True):
        """Shift by the largest term, so that nothing overflows; a line of -inf gives -inf, with derivative 0."""
        if dtype is not None:
            x = x.astype(dtype)
        shape = shape_of(x)
        if initial is np._NoValue:
            initial = None
        plain = value(x)
        low = -np.inf if initial is None else value(initial)
        top = np.max(plain, axis=axis, keepdims=True, initial=low, where=where)
        shift = np.where(np.isfinite(top), top, 0).astype(plain.dtype)
        terms = exp(x - shift)
        total = np.sum(terms, axis=axis, keepdims=True, where=where)
        if initial is not None:
            total = total + exp(initial - shift)
        empty = value(total) == 0
        y = log(np.where(empty, 1, total)) + np.where(empty, plain.dtype.type(-np.inf), shift)
        gone = [k == 1 for k in kept(tuple(n + 2 for n in shape), axis)]  # whatever the lengths, only these become 1
        return y if keepdims else reduced(y, tuple(n for n, g in zip(shape, gone, strict=True) if not g))

    return reduce


def running(ufunc):
    """Return ``ufunc.accumulate``, one call for each step along the axis."""

    def accumulate(x, axis=0, dtype=None):
        """Apply the function to what has come out so far and the next entry."""
        steps = list(_steps(ufunc, x, axis, dtype))
        return np.stack(steps, axis=axis) if steps else x

    return accumulate


def folded(ufunc):
    """Return ``ufunc.reduce``, one call for each step along the axis."""

    def reduce(x, axis=0, dtype=None, keepdims=False, initial=None):
        """Apply the function to what has come out so far and the next entry; keep the last."""
        if axis is None or axis.__class__ is tuple:
            axes = range(len(shape_of(x))) if axis is None else axis
            if len(axes) != 1:
                raise UnsupportedArgumentError(
                    f"numpy.{ufunc.__name__}.reduce", "axis", "names several axes", "reduce one axis after the other."
                )
            axis = axes[0]
        steps = list(_steps(ufunc, x, axis, dtype, None if initial is np._NoValue else initial))
        if not steps:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        return np.expand_dims(steps[-1], axis) if keepdims else steps[-1]

    return reduce


def _steps(ufunc, x, axis, dtype, first=None):
    x = x if dtype is None else x.astype(dtype)
    y = first
    for part in np.moveaxis(x, axis, 0):
        y = part if y is None else ufunc(y, part)
        yield y


def segmented(ufunc):
    """Return ``ufunc.reduceat``, one reduction for each segment."""

    def reduceat(x, indices, axis=0, dtype=None):
        """Reduce from each index up to the next; where that is not larger, read the entry."""
        k = normalize_axis_index(axis, len(x.shape))
        starts = np.asarray(value(indices))
        if starts.size and not (starts.min() >= 0 and starts.max() < x.shape[k]):
            raise IndexError(f"an index is out of bounds for an axis of length {x.shape[k]}")
        x = x if dtype is None else x.astype(dtype)
        if ufunc is np.add:
            return sums(x, starts, k)
        before, parts = (slice(None),) * k, []
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), x.shape[k]], strict=True):
            alone = start >= stop
            part = x[(*before, start if alone else slice(start, stop))]
            parts.append(part if alone else ufunc.reduce(part, axis=k))
        return np.stack(parts, axis=k) if parts else x[(*before, slice(0, 0))]

    return reduceat


def sums(x, starts, k):
    """Return the sum of each segment along axis `k`: all entries that are read, added up at the places of theirs."""
    stops = np.append(starts[1:], x.shape[k])
    lengths = np.maximum(stops - starts, 1)
    segment = np.repeat(np.arange(starts.size), lengths)
    first = np.cumsum(lengths) - lengths  # where each segment begins among the entries read
    read = np.arange(segment.size) + (starts - first)[segment]
    before = (slice(None),) * k
    shape = (*x.shape[:k], starts.size, *x.shape[k + 1 :])
    return scatter(x[(*before, read)], (*before, segment), shape, x.dtype)


def written_at(ufunc):
    """Return ``ufunc.at``, which writes: entries that are named several times are changed as often, in turn."""

    def at(x, indices, *operands):
        """Change all entries named, then those named a second time, and so on."""
        x = destination(x, f"np.{ufunc.__name__}.at")
        x, where = seen_in(x) if overlaps(x) else (x, np.arange(x.size).reshape(x.shape))
        where = where[indices]
        operands = [np.reshape(np.broadcast_to(v, where.shape), (-1,)) for v in operands]
        where = where.reshape(-1)
        order = np.argsort(where, kind="stable")
        turn = np.empty(where.shape, np.intp)  # how often each was named before
        turn[order] = np.arange(where.size) - np.searchsorted(where[order], where[order])
        for k in range(turn.max(initial=-1) + 1):
            now = np.flatnonzero(turn == k)
            index = np.unravel_index(where[now], x.shape)
            x[index] = ufunc(x[index], *[v[now] for v in operands])

    return at


def on_values(ufunc, method):
    """Return a method of a function without derivative, run on the values."""

    def call(*inputs, **kwargs):
        return getattr(ufunc, method)(*[value(x) for x in inputs], **kwargs)

    return call


def install():
    """Enter what is not entered yet."""
    table = calls.UFUNC_METHODS
    for ufunc, exp, log in ((np.logaddexp, np.exp, np.log), (np.logaddexp2, np.exp2, np.log2)):
        table[ufunc, "reduce"] = log_sum_exp(exp, log)
    for ufunc, rule in list(RULES.items()):
        if not isinstance(ufunc, np.ufunc) or ufunc.nin > 2 or ufunc.nout != 1 or ufunc.signature is not None:
            continue
        if rule.kind in ("elementwise", "select"):
            table.setdefault((ufunc, "at"), written_at(ufunc))
        if ufunc.nin != 2:
            continue
        if rule.kind == "constant":
            for method in ("reduce", "accumulate", "reduceat", "outer"):
                table.setdefault((ufunc, method), on_values(ufunc, method))
        elif rule.kind in ("elementwise", "select"):
            table.setdefault((ufunc, "reduce"), folded(ufunc))
            table.setdefault((ufunc, "accumulate"), running(ufunc))
            table.setdefault((ufunc, "reduceat"), segmented(ufunc))


install()
