"""Derivative rules of the functions that join arrays, and of those that take them apart or make them longer.

A joined array's cotangent is cut up again. Splitting is reading slices, so its parts are views, as NumPy's are.
"""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from chainrule.engine.boxed import Boxed, all_values, value
from chainrule.engine.dispatch import PLAIN
from chainrule.engine.indexing import put
from chainrule.engine.rule import composite, linear
from chainrule.engine.spec import cast_to, shape_of, spread_to
from chainrule.rules.creation import joined
from chainrule.rules.shapes import laid_like


def concatenate_back(ybar, y, xs, axis=0, dtype=None, casting="same_kind"):
    """Cut the cotangent where the operands met."""
    flat = axis is None
    k = 0 if flat else normalize_axis_index(axis, len(xs[0].shape))
    before = (slice(None),) * k
    start, parts = 0, []
    for x in xs:
        n = x.size if flat else x.shape[k]
        part = ybar[(*before, slice(start, start + n))]
        parts.append(part.reshape(x.shape) if flat else part)
        start += n
    return parts


def stack_back(ybar, y, xs, axis=0, dtype=None, casting="same_kind"):
    """Take the cotangent's layers."""
    if axis == 0:
        return list(ybar)
    k = normalize_axis_index(axis, len(xs[0].shape) + 1)
    before = (slice(None),) * k
    return [ybar[(*before, i)] for i in range(len(xs))]


linear(np.concatenate, concatenate_back, spread=True)


def fast_stack(xs, params):
    """Stack plain arrays or numbers along a new first axis in a third of `np.stack`'s time, with the same result."""
    if params:
        return np.stack(list(xs), **params)
    for x in xs:
        if x.__class__ is not np.ndarray and x.__class__ not in PLAIN:
            return np.stack(list(xs))
    return np.array(xs)


linear(np.stack, stack_back, spread=True, apply=fast_stack)


@composite(np.hstack)
def hstack(tup, *, dtype=None, casting="same_kind"):
    """Join along the second axis, vectors along their only one."""
    parts = [np.atleast_1d(x) for x in tup]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return np.concatenate(parts, axis, dtype=dtype, casting=casting)


@composite(np.vstack)
def vstack(tup, *, dtype=None, casting="same_kind"):
    """Join along the first axis; a vector is a row."""
    return np.concatenate([np.atleast_2d(x) for x in tup], 0, dtype=dtype, casting=casting)


@composite(np.dstack)
def dstack(tup):
    """Join along the third axis."""
    return np.concatenate([np.atleast_3d(x) for x in tup], 2)


@composite(np.column_stack)
def column_stack(tup):
    """Join along the second axis; a vector is a column."""
    parts = [np.reshape(x, (-1, 1)) if len(shape_of(x)) < 2 else x for x in tup]
    return np.concatenate(parts, 1)


@composite(np.append)
def append(arr, values, axis=None):
    """Join two, flat without an axis."""
    if axis is None:
        arr, values, axis = np.ravel(arr), np.ravel(values), 0
    return np.concatenate((arr, values), axis)


@composite(np.block)
def block(arrays):
    """Join nested lists: the innermost along the last axis, the outermost along the first of theirs."""
    depth = _depth(arrays)
    ndim = max([depth, *[len(shape_of(a)) for a in _leaves(arrays)]])

    def joined(part, level):
        if isinstance(part, list):
            return np.concatenate([joined(p, level + 1) for p in part], axis=level - depth)
        return np.reshape(part, (1,) * (ndim - len(shape_of(part))) + shape_of(part))

    y = joined(arrays, 0)
    return y if depth else np.copy(y)


def _depth(part):
    if isinstance(part, tuple):
        raise TypeError("np.block takes nested lists, and no tuples")
    if not isinstance(part, list):
        return 0
    if not part:
        raise ValueError("List depths are mismatched, or a list is empty")
    depths = {_depth(p) for p in part}
    if len(depths) > 1:
        raise ValueError(f"List depths are mismatched: {sorted(depths)}")
    return depths.pop() + 1


def _leaves(part):
    return [v for p in part for v in _leaves(p)] if isinstance(part, list) else [part]


# -- taking apart ----------------------------------------------------------------------------------------------


def _cut(x, k, pieces):
    """Return the slices of `x` along axis `k` that hold the given runs of positions."""
    before, start, parts = (slice(None),) * k, 0, []
    for run in pieces:
        start = int(run[0]) if run.size else start
        parts.append(x[(*before, slice(start, start + run.size))])
    return parts


@composite(np.split)
def split(ary, indices_or_sections, axis=0):
    """Cut into equal parts, or at the given indices."""
    k = normalize_axis_index(axis, ary.ndim)
    return _cut(ary, k, np.split(np.arange(ary.shape[k]), indices_or_sections))


@composite(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    """Cut into parts as equal as can be."""
    k = normalize_axis_index(axis, ary.ndim)
    return _cut(ary, k, np.array_split(np.arange(ary.shape[k]), indices_or_sections))


@composite(np.hsplit)
def hsplit(ary, indices_or_sections):
    """Cut along the second axis, a vector along its only one."""
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return np.split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@composite(np.vsplit)
def vsplit(ary, indices_or_sections):
    """Cut along the first axis."""
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return np.split(ary, indices_or_sections, 0)


@composite(np.dsplit)
def dsplit(ary, indices_or_sections):
    """Cut along the third axis."""
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return np.split(ary, indices_or_sections, 2)


if hasattr(np, "unstack"):  # NumPy 2.1

    @composite(np.unstack)
    def unstack(x, /, *, axis=0):
        """Read the layers along an axis."""
        if x.ndim == 0:
            raise ValueError("Input array must be at least 1-d.")
        before = (slice(None),) * normalize_axis_index(axis, x.ndim)
        return tuple([x[(*before, i)] for i in range(x.shape[len(before)])])


# -- making shorter and longer ---------------------------------------------------------------------------------


FEW = 8  # pieces


@composite(np.delete)
def delete(arr, obj, axis=None):
    """Take out the entries at `obj`: read the others."""
    x = np.ravel(arr) if axis is None else arr
    k = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    kept = np.delete(np.arange(x.shape[k]), obj)
    before, ends = (slice(None),) * k, np.flatnonzero(np.diff(kept) != 1)
    if not kept.size or ends.size > FEW:
        return laid_like(x[(*before, kept)], x)
    starts, stops = np.append(0, ends + 1), np.append(ends, kept.size - 1)
    pieces = [x[(*before, slice(a, b + 1))] for a, b in zip(kept[starts].tolist(), kept[stops].tolist(), strict=True)]
    return laid_like(np.concatenate(pieces, axis=k), x)  # which keeps no table of places


@composite(np.insert)
def insert(arr, obj, values, axis=None):
    """Put values before the indices `obj`: read from both, at the places where NumPy puts their positions."""
    if axis is None:
        arr, axis = np.ravel(arr), 0
    dtype = arr.dtype
    if dtype.kind not in "fc":
        return np.insert(value(arr), obj, value(values), axis)
    v = values if hasattr(values, "shape") else np.asarray(values, dtype)
    if isinstance(v, Boxed) and v.dtype != dtype:
        if v.dtype.kind == "c":
            raise TypeError("complex values can't be inserted into a real array: insert np.real(values)")
        v = cast_to(v, dtype)
    if isinstance(obj, int | np.integer) and len(v.shape) <= arr.ndim != 0:
        return _insert_one(arr, int(obj), v, normalize_axis_index(axis, arr.ndim))
    n = value(arr).size
    places = np.insert(np.arange(n).reshape(arr.shape), obj, n + np.arange(v.size).reshape(v.shape), axis)
    return np.concatenate((np.ravel(arr), np.ravel(v)), dtype=dtype)[places]


def _insert_one(x, i, v, k):
    """Put values, one slice or several, before one index: join what is before, the values, and what is after."""
    n = x.shape[k]
    if not -n <= i <= n:
        raise IndexError(f"index {i} is out of bounds for axis {k} with size {n}")
    i = i + n if i < 0 else i
    v = np.moveaxis(np.reshape(v, (1,) * (x.ndim - len(v.shape)) + v.shape), 0, k)
    v = np.broadcast_to(v, (*x.shape[:k], v.shape[k], *x.shape[k + 1 :]))
    before = (slice(None),) * k
    return np.concatenate((x[(*before, slice(0, i))], v, x[(*before, slice(i, n))]), axis=k, dtype=x.dtype)


def _widths(pad_width, ndim):
    """Return one pair (before, after) per axis."""
    if isinstance(pad_width, dict):  # NumPy 2.2
        widths = [(0, 0)] * ndim
        for axis, w in pad_width.items():
            widths[normalize_axis_index(axis, ndim)] = tuple(np.broadcast_to(w, (2,)).tolist())
        return widths
    return [tuple(w) for w in np.broadcast_to(np.asarray(pad_width), (ndim, 2)).tolist()]


@composite(np.pad)
def pad(array, pad_width, mode="constant", **kwargs):
    """Make longer at both ends of each axis."""
    if not shape_of(array):  # a number has no ends
        return np.copy(array)
    return laid_like(_padded(array, pad_width, mode, kwargs), array)


def _padded(x, pad_width, mode, kwargs):
    """Return `x` made longer."""
    widths = _widths(pad_width, len(shape_of(x)))
    if callable(mode):
        return _pad_by(mode, _pad_constant(x, widths, 0), widths, kwargs)
    checked = {k: all_values(joined(v)) for k, v in kwargs.items()}
    np.pad(np.zeros((1,) * len(widths), x.dtype), widths, mode, **checked)  # raises what NumPy would
    if mode in ("constant", "empty"):
        constants = joined(kwargs.get("constant_values", 0))
        if isinstance(constants, Boxed) and constants.shape:
            return _pad_ends(x, widths, constants, _level)
        return _pad_constant(x, widths, constants)
    odd = kwargs.get("reflect_type", "even") == "odd"
    if mode in ("edge", "wrap") or (mode in ("reflect", "symmetric") and not odd):
        places = np.pad(np.arange(value(x).size).reshape(x.shape), widths, mode)
        return np.ravel(x)[places]
    ends = joined(kwargs.get("end_values"))
    if mode == "linear_ramp":
        ends = np.zeros((1, 1)) if ends is None else ends
        return _pad_ends(x, widths, ends, _ramp)
    y = x
    for k, (before, after) in enumerate(widths):
        if before or after:
            own = {name: _of_axis(v, k, len(widths)) if name != "reflect_type" else v for name, v in kwargs.items()}
            y = _pad_axis(y, k, before, after, mode, own)
    return np.copy(y) if y is x else y


def _of_axis(v, k, ndim):
    """Return the pair of axis `k` of a keyword that may be given per axis and side."""
    if v is None:
        return None
    return tuple(np.broadcast_to(np.asarray(v), (ndim, 2))[k].tolist())


def _pad_constant(x, widths, values):
    """Write `x` into the middle of an array of the constants."""
    inner = tuple([slice(b, b + n) for (b, _), n in zip(widths, x.shape, strict=True)])
    shape = tuple([b + n + a for (b, a), n in zip(widths, x.shape, strict=True)])
    if isinstance(values, Boxed):
        frame = spread_to(values if values.dtype == x.dtype else cast_to(values, x.dtype), shape)
    else:
        frame = np.pad(np.zeros(x.shape, x.dtype), widths, constant_values=values)
    return put(frame, x, inner) if x.size else np.copy(frame)


def _pad_by(function, y, widths, kwargs):
    """Let a function write the border: it is given each line, the widths of its ends, its axis and the keywords."""
    for k, width in enumerate(widths):
        lines = np.moveaxis(y, k, -1)
        for index in np.ndindex(lines.shape[:-1]):
            function(lines[(*index, Ellipsis)], width, k, kwargs)
    return y


def _pad_ends(x, widths, values, border):
    """Put a border made of traced values, one for each end of each axis, around one axis after the other."""
    values = np.broadcast_to(values, (len(widths), 2))
    y = x
    for k, counts in enumerate(widths):
        lead, last = (slice(None),) * k, y.shape[k] - 1
        parts = [y]
        for side, count in enumerate(counts):
            edge = y[(*lead, slice(last, None) if side else slice(0, 1))]
            edge = np.repeat(edge, count, axis=k) if count else edge[(*lead, slice(0, 0))]
            part = border(edge, values[k, side], count, k)
            parts.insert(2 if side else 0, np.flip(part, k) if side else part)
        y = np.concatenate(parts, axis=k)
    return y


def _level(edge, end, count, k):
    """Return `end` throughout."""
    return spread_to(end if end.dtype == edge.dtype else cast_to(end, edge.dtype), edge.shape)


def _ramp(edge, end, count, k):
    """Return what leads in even steps from `end` to the edge, which is not reached."""
    t = (np.arange(count) / max(count, 1)).astype(edge.dtype).reshape((-1,) + (1,) * (edge.ndim - k - 1))
    return cast_to(end + (edge - end) * t, edge.dtype)


STATISTICS = {"maximum": np.max, "mean": np.mean, "median": np.median, "minimum": np.min}


def _pad_axis(x, k, before, after, mode, kwargs):
    """Pad one axis by a statistic of the entries at its ends, or by reflecting them there as a point is."""
    n = x.shape[k]
    lead = (slice(None),) * k
    if mode in STATISTICS:
        statistic = STATISTICS[mode]
        lengths = kwargs.get("stat_length") or (n, n)
        ends = (x[(*lead, slice(0, lengths[0]))], x[(*lead, slice(max(n - lengths[1], 0), n))])
        border = [
            np.repeat(statistic(end, axis=k, keepdims=True), count, axis=k)
            for end, count in zip(ends, (before, after), strict=True)
        ]
        return np.concatenate((border[0], x, border[1]), axis=k)
    if n == 1:
        return x[(*lead, np.zeros(before + 1 + after, int))]
    period = 2 * n if mode == "symmetric" else 2 * n - 2
    return np.concatenate(
        (
            _mirrored(x, lead, np.arange(-before, 0), n, period),
            x,
            _mirrored(x, lead, np.arange(n, n + after), n, period),
        ),
        axis=k,
    )


def _mirrored(x, lead, places, n, period):
    """Return the entries of `x`, reflected at both ends as a point is, at places beyond them.

    A reflection at an end gives 2 end - x; two, one at each end, move by a period and add twice their difference.
    """
    turns, place = np.divmod(places, period)
    back = place >= n
    source = np.where(back, period - place - (period == 2 * n), place)
    shape = (-1,) + (1,) * (len(x.shape) - len(lead) - 1)
    sign, first, last = (c.astype(x.dtype).reshape(shape) for c in (1 - 2 * back, -2 * turns, 2 * (turns + back)))
    ends = x[(*lead, slice(0, 1))], x[(*lead, slice(n - 1, n))]
    return sign * x[(*lead, source)] + first * ends[0] + last * ends[1]
