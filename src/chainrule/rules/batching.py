"""How functions run on a batch: the table behind `vmap`, for what does not follow from the kind of a rule.

An entry gets the values of all runs, with the batch along their first axis, and gives the results in the same way.
Functions without an entry are lined up (elementwise, choices), moved by positions (`gather`), or run once for each.
"""

import inspect

import numpy as np

from chainrule.engine.batched import BATCHING, FORM, lined_up, looped, moved, ranked, spread
from chainrule.engine.boxed import Boxed
from chainrule.engine.indexing import getitem, picked, put, scatter, unpicked
from chainrule.engine.spec import cast_to, choose, real_part, shape_of, spread_to, sum_to
from chainrule.rules.complexes import imag_part
from chainrule.rules.creation import spaced
from chainrule.rules.elementwise import scale_of
from chainrule.rules.series import bessel_derivative, sinc_derivative
from chainrule.rules.shapes import diagonal_matrix, flatten, plain_of

# -- functions of the shape and dtype alone ---------------------------------------------------------------------


def size(a, axis=None):
    """Return the number of entries of one run, or the length of its axes."""
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([a.shape[i] for i in axes]))


FORM.update(
    {
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: len(a.shape),
        np.size: size,
        np.iscomplexobj: lambda x: x.dtype.kind == "c",
        np.isrealobj: lambda x: x.dtype.kind != "c",
        np.result_type: lambda *xs: np.result_type(*[x.dtype if isinstance(x, Boxed) else x for x in xs]),
        np.isscalar: lambda element: False,
    }
)

# -- functions of one array and an axis ------------------------------------------------------------------------


def along(default, flat=False):
    """Return how a function runs whose parameter `axis` counts an operand's axes.

    `default` is the axis it takes if none is given; with `flat` it then (or for None) takes the flattened array.
    """

    def how(rule, n, xs, flags, params):
        x, *rest = xs
        if any(flags[1:]) or not flags[0]:
            return looped(rule, n, xs, flags, params)
        if not params and not rest and default is None and not flat and len(x.shape) == 2:  # the usual case, at once
            return rule.apply((x,), {"axis": 1})
        names = list(inspect.signature(rule.fun).parameters)[1:] if rest else ()  # of plain arguments by position
        params = {**dict(zip(names, rest, strict=False)), **params}
        axis = params.get("axis", default)
        rank = len(x.shape) - 1
        if axis is None:
            if flat:
                y = rule.apply((x.reshape(n, -1),), {**params, "axis": 1})
                return y.reshape((n,) + (1,) * rank) if params.get("keepdims") is True else y
            else:
                axis = tuple(range(1, rank + 1))
                if params.get("keepdims") is True:
                    return rule.apply((x,), {**params, "axis": axis})
        elif isinstance(axis, tuple):
            axis = tuple([checked(a, rank) for a in axis])
        elif not rank:  # NumPy reduces a number along axis 0, and accumulates it into an array of one entry
            form = np.shape(rule.fun(np.ones((), x.dtype), **{**params, "axis": axis}))
            y = rule.apply((x.reshape(n, 1),), {**params, "axis": 1})
            return y.reshape((n, *form))
        else:
            axis = checked(axis, rank)
        where = params.get("where", True)
        if where is not True and shape_of(where):
            params["where"] = np.asarray(where)
        return rule.apply((x,), {**params, "axis": axis})

    return how


def checked(axis, rank):
    """Return an axis of one run as that of all."""
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return axis % rank + 1


for _fun in (np.sum, np.mean, np.prod, np.max, np.min, np.any, np.all, np.nanmax, np.nanmin, np.count_nonzero,
             np.amax, np.amin, np.nanmean):  # fmt: skip
    BATCHING[_fun] = along(None)
for _fun in (np.cumsum, np.cumprod, np.argmax, np.argmin):
    BATCHING[_fun] = along(None, flat=True)
for _fun in (np.argsort, np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft):
    BATCHING[_fun] = along(-1)

# -- the engine's primitives -----------------------------------------------------------------------------------


def last(x):
    """Move the batch axis behind the others, where a subscript leaves it alone."""
    return np.moveaxis(x, 0, -1)


def first(x):
    """Move the batch axis back."""
    return np.moveaxis(x, -1, 0)


def spelled(index, rank):
    """Return a subscript with slices in place of ``...``, so that the batch axis behind is not taken by it."""
    parts = index if index.__class__ is tuple else (index,)
    for k, part in enumerate(parts):
        if part is Ellipsis:
            taken = sum(consumed(p) for p in parts if p is not Ellipsis)
            return (*parts[:k], *(slice(None),) * (rank - taken), *parts[k + 1 :])
    return parts


def consumed(part):
    """Return how many axes one part of a subscript takes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def plain_front(index):
    """Tell whether a subscript may be applied behind a full slice: no arrays that move their axes to the front."""
    return not any(isinstance(p, np.ndarray | list) for p in index)


def read(rule, n, xs, flags, params):
    """Read the same entries of each run."""
    (x,) = xs
    index = spelled(params["index"], len(x.shape) - 1)
    if plain_front(index):
        return getitem(x, (slice(None), *index))
    return runs_outside(first(getitem(last(x), index)))


def runs_outside(y):
    """Return a batch, or a copy, in which each run lies in memory for itself, its axes in the order that they have."""
    plain = plain_of(y)
    if plain.flags.c_contiguous:
        return y
    order = (0, *sorted(range(1, plain.ndim), key=lambda k: -plain.strides[k]))
    y = np.copy(y.transpose(order), order="C")
    return y.transpose(tuple(order.index(k) for k in range(len(order))))


def scattered(rule, n, xs, flags, params):
    """Scatter the values of each run."""
    (v,) = xs
    shape, dtype = params["shape"], params["dtype"]
    index = spelled(params["index"], len(shape))
    if plain_front(index):
        return scatter(v, (slice(None), *index), (n, *shape), dtype)
    return first(scatter(last(v), index, (*shape, n), dtype))


def written_all(rule, n, xs, flags, params):
    """Write to the same entries of each run."""
    x, v = xs
    if not flags[0]:
        x = spread(x, n)
    index = spelled(params["index"], len(x.shape) - 1)
    rank = np.broadcast_to(np.int8(0), x.shape[1:])[index].ndim
    if not plain_front(index):
        return first(put(last(x), last(fitted(v, rank)) if flags[1] else np.expand_dims(v, -1), index))
    return put(x, fitted(v, rank) if flags[1] else v, (slice(None), *index))


def fitted(v, rank):
    """Give each run's value `rank` axes: axes of length 1 are put in front, or dropped there."""
    extra = len(v.shape) - 1 - rank
    return v.reshape(v.shape[:1] + v.shape[1 + extra :]) if extra > 0 else ranked(v, rank)


def summed_to(rule, n, xs, flags, params):
    """Sum each run down to a shape."""
    (x,) = xs
    shape = params["shape"]
    have = x.shape[1:]
    extra = len(have) - len(shape)
    axes = tuple(range(1, extra + 1))
    kept = tuple([i + extra + 1 for i, k in enumerate(shape) if k == 1 != have[i + extra]])
    if axes + kept:
        x = np.sum(x, axis=axes + kept)
    return x.reshape(n, *shape)


def spread_all(rule, n, xs, flags, params):
    """Broadcast each run to a shape."""
    (x,) = xs
    shape = params["shape"]
    return spread_to(ranked(x, len(shape)), (n, *shape))


def as_it_is(rule, n, xs, flags, params):
    """Run a function that does not look at axes."""
    return rule.apply(xs, params)


def with_parameters(rule, n, xs, flags, params):
    """Run an elementwise function of one operand that broadcasts it with its parameters."""
    (x,) = xs
    return rule.apply((ranked(x, max([np.ndim(p) for p in params.values()], default=0)),), params)


BATCHING.update(
    {
        getitem: read,
        scatter: scattered,
        put: written_all,
        sum_to: summed_to,
        spread_to: spread_all,
        cast_to: as_it_is,
        real_part: as_it_is,
        choose: lined_up,
        np.conjugate: as_it_is,
        np.ndarray.astype: as_it_is,
    }
)


# -- shapes ----------------------------------------------------------------------------------------------------


def reshaped(rule, n, xs, flags, params):
    """Give each run another shape."""
    (x,) = xs
    shape = params.get("shape", params.get("newshape"))
    if params.get("order", "C") != "C":
        return moved(rule, n, xs, flags, params)
    shape = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    if -1 in shape and x.size:
        known = -int(np.prod(shape))
        shape = tuple([x.size // n // known if k == -1 else k for k in shape])
    return x.reshape(n, *shape)


def flattened(rule, n, xs, flags, params):
    """Flatten each run."""
    if params.get("order", "C") != "C":
        return moved(rule, n, xs, flags, params)
    return xs[0].reshape(n, -1)


def flattened_copy(rule, n, xs, flags, params):
    """Flatten each run into an array of its own: what is written to it is not written to the other."""
    return np.copy(flattened(rule, n, xs, flags, params))


def permuted(rule, n, xs, flags, params):
    """Permute the axes of each run."""
    (x,) = xs
    rank = len(x.shape) - 1
    axes = params.get("axes")
    axes = range(rank)[::-1] if axes is None else [a % rank for a in axes]
    return np.transpose(x, (0, *[a + 1 for a in axes]))


def broadcast(rule, n, xs, flags, params):
    """Broadcast each run."""
    (x,) = xs
    shape = params["shape"]
    shape = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    return np.broadcast_to(ranked(x, len(shape)), (n, *shape))


def swapped(rule, n, xs, flags, params):
    """Swap two axes of each run."""
    (x,) = xs
    rank = len(x.shape) - 1
    return np.swapaxes(x, params["axis1"] % rank + 1, params["axis2"] % rank + 1)


BATCHING.update(
    {
        np.reshape: reshaped,
        np.ravel: flattened,
        flatten: flattened_copy,
        np.transpose: permuted,
        np.broadcast_to: broadcast,
        np.swapaxes: swapped,
        np.copy: as_it_is,
    }
)


# -- joining ---------------------------------------------------------------------------------------------------


def joined(new):
    """Return how arrays are joined along an old axis, or (`new`) along a new one."""

    def how(rule, n, xs, flags, params):
        params = dict(params)
        parts = [x if m else spread(x, n) for x, m in zip(xs, flags, strict=True)]
        axis = params.get("axis", 0)
        if axis is None:
            parts, axis = [p.reshape(n, -1) for p in parts], 0
        rank = len(parts[0].shape) - 1 + new
        params["axis"] = axis % rank + 1 if -rank <= axis < rank else axis + (axis >= 0)
        return rule.apply(tuple(parts), params)

    return how


BATCHING[np.concatenate] = joined(0)
BATCHING[np.stack] = joined(1)


def on_diagonals(rule, n, xs, flags, params):
    """Put the vector of each run on a diagonal."""
    (v,) = xs
    k = params.get("k", 0)
    count = v.shape[1]
    places = np.arange(count)
    size = count + abs(k)
    return scatter(v, (slice(None), places + max(-k, 0), places + max(k, 0)), (n, size, size), v.dtype)


def spaced_out(rule, n, xs, flags, params):
    """Space values evenly between the ends of each run."""
    ranks = [len(shape_of(x)) - m for x, m in zip(xs, flags, strict=True)]
    xs = [ranked(x, max(ranks)) if m else x for x, m in zip(xs, flags, strict=True)]
    return rule.apply(tuple(xs), {**params, "axis": checked(params.get("axis", 0), max(ranks) + 1)})


BATCHING.update(
    {
        np.isclose: lined_up,
        np.round: as_it_is,
        diagonal_matrix: on_diagonals,
        imag_part: as_it_is,
        sinc_derivative: as_it_is,
        bessel_derivative: as_it_is,
        np.ldexp: with_parameters,
        scale_of: as_it_is,
        spaced: spaced_out,
    }
)


# -- entries at positions of each run ----------------------------------------------------------------------------


def in_all_runs(where, n, size, flag):
    """Return flat positions in one run, of `size` entries, as those in all runs, one after the other."""
    starts = np.arange(n) * size
    if flag:
        return where + starts.reshape((n,) + (1,) * (len(where.shape) - 1))
    return starts.reshape((n,) + (1,) * len(shape_of(where))) + where


def picked_all(rule, n, xs, flags, params):
    """Read the entries of each run at its own positions."""
    x, where = xs
    if not flags[0]:
        return picked(x, where)
    return picked(x.reshape(-1), in_all_runs(where, n, int(np.prod(x.shape[1:])), flags[1]))


def unpicked_all(rule, n, xs, flags, params):
    """Add the entries of each run at its own positions."""
    v, where = xs
    shape = params["shape"]
    size = int(np.prod(shape))
    where = in_all_runs(where, n, size, flags[1])
    v = v if flags[0] else np.broadcast_to(v, where.shape)
    return unpicked(v.reshape(-1), where.reshape(-1), shape=(n * size,)).reshape(n, *shape)


BATCHING.update({picked: picked_all, unpicked: unpicked_all})
