"""Derivative rules of reductions: sums, means, products, extrema, running sums and products.

Entries that tie for a maximum or minimum share its derivative equally. Products are differentiated without dividing by
factors that may be zero, so that zeros among them are right to every order. With ``where=``, what is left out gets an
exact zero. `chainrule.rules.statistics` goes on with the spread, order statistics and the versions that leave out NaN.
"""

import numpy as np

from chainrule.engine import calls
from chainrule.engine.boxed import Boxed, array_value, ordinary, value
from chainrule.engine.rule import composite, constant, linear, quick, rule
from chainrule.engine.spec import cast_to, choose, shape_of, spec_of, spread_to

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


# -- shapes ------------------------------------------------------------------------------------------------------------


def axes_of(x, axis):
    """Return the axes of a reduction, counted from the front."""
    if axis is None:
        return tuple(range(len(x.shape)))
    if axis.__class__ is not tuple:
        return (axis % len(x.shape),) if x.shape else ()  # NumPy takes axis 0 of a number
    return tuple([i % len(x.shape) for i in axis])


def kept(shape, axis):
    """Return the shape of a reduction that keeps the reduced axes with length 1."""
    if axis is None:
        return (1,) * len(shape)
    n = len(shape)
    if axis.__class__ is not tuple:
        axis = (axis,)
    gone = {i % n for i in axis} if n else ()
    return tuple([1 if i in gone else k for i, k in enumerate(shape)])


def restore(ybar, x, axis, keepdims):
    """Give a cotangent (or result) of a reduction back the axes it lost, with length 1."""
    if keepdims or axis is None:  # a number, which broadcasts as it is
        return ybar
    return ybar.reshape(kept(x.shape, axis))


def reduced(y, shape):
    """Drop the axes kept with length 1; a number is no array of no axes."""
    y = y.reshape(shape)
    return y if shape else y[()]


def count(x, axis, where=True):
    """Return how many entries are reduced into each: an int, or with a mask an array with the reduced axes kept."""
    if where is True:
        n = 1
        for i in axes_of(x, axis):
            n *= x.shape[i]
        return n
    mask = np.broadcast_to(value(where), x.shape)
    return np.add.reduce(mask, axis=axes_of(x, axis), keepdims=True, dtype=np.intp)


def over(v, n):
    """Divide by a count, in v's dtype; float16 by way of float32, which can hold a large count."""
    dtype = spec_of(v).dtype
    if dtype == HALF:
        return cast_to(over(cast_to(v, SINGLE), n), HALF)
    if n.__class__ is not int and dtype is not None:
        n = n.astype(np.finfo(dtype).dtype)
    return v / n


# -- sum and mean ------------------------------------------------------------------------------------------------------


def sum_adjoint(ybar, y, x, axis=None, dtype=None, keepdims=False, initial=None, where=True):
    """Each entry receives the cotangent of the sum it went into."""
    if ybar.__class__ is np.ndarray and axis.__class__ is int and where is True:  # the usual case, at once
        shape = x.shape
        xbar = np.empty(shape, ybar.dtype)
        if axis and not keepdims:  # a leading axis is put back by broadcasting
            axis %= len(shape)
            ybar = ybar.reshape(shape[:axis] + (1,) + shape[axis + 1 :])
        xbar[...] = ybar
        return xbar
    xbar = spread_to(restore(ybar, x, axis, keepdims), x.shape)
    return xbar if where is True else choose(np.broadcast_to(where, x.shape), xbar)


def mean_adjoint(ybar, y, x, axis=None, dtype=None, keepdims=False, where=True):
    """Each entry receives its share of the cotangent of the mean it went into."""
    share = over(restore(ybar, x, axis, keepdims), count(x, axis, where))
    if where is True:
        return spread_to(share, x.shape)
    return choose(np.broadcast_to(where, x.shape), spread_to(share, x.shape))


linear(np.sum, sum_adjoint, affine=("initial",))
linear(np.mean, mean_adjoint)
quick(np.sum, none=lambda x: np.add.reduce(x, axis=None), axis=lambda x, axis: np.add.reduce(x, axis=axis),
      axis_keepdims=lambda x, axis, keepdims: np.add.reduce(x, axis=axis, keepdims=keepdims))  # fmt: skip


@composite(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    """Divide the weighted sum by the sum of the weights."""
    if weights is None:
        avg = np.mean(a, axis=axis, keepdims=keepdims)
        total = np.asarray(count(a if hasattr(a, "shape") else np.asarray(a), axis), spec_of(avg).dtype)[()]
    else:
        a = a if hasattr(a, "shape") else np.asarray(a)
        weights = weights if hasattr(weights, "shape") else np.asarray(weights)
        if weights.shape != a.shape:
            weights = _along(weights, a, axis)
        total = np.sum(weights, axis=axis, keepdims=keepdims, dtype=np.result_type(a.dtype, weights.dtype))
        if not ordinary(total) and np.any(value(total) == 0.0):  # else it shows in the result
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        avg = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    if not returned:
        return avg
    return avg, spread_to(total, avg.shape) if shape_of(total) != avg.shape else total


def _along(weights, a, axis):
    """Lay the weights of one or several axes out along those axes of `a`."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axes_of(a, axis)
    if weights.shape != tuple(a.shape[i] for i in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    weights = np.transpose(weights, np.argsort(axes))
    return weights.reshape([n if i in axes else 1 for i, n in enumerate(a.shape)])


# -- prod --------------------------------------------------------------------------------------------------------------


def products_of_others(x):
    """Return, for each entry along the last axis, the product of all others there.

    By halves: what the others of a pair multiply to, times the pair's other entry. Nothing is divided, so zeros
    need no care, and the derivatives of this are right to every order.
    """
    n = x.shape[-1]
    if n <= 1:
        return np.ones_like(value(x)) if n else x
    if n % 2:
        rest, last = x[..., :-1], x[..., -1:]
        inner = products_of_others(rest)
        return np.concatenate([inner * last, inner[..., :1] * rest[..., :1]], axis=-1)
    even, odd = x[..., ::2], x[..., 1::2]
    if n == 2:
        return np.concatenate([odd, even], axis=-1)
    inner = products_of_others(even * odd)
    return np.stack([inner * odd, inner * even], axis=-1).reshape(x.shape)


def prod_partial(y, x, axis, dtype, initial, where):
    """Return dy/dx for each entry: the product of the others. `y` has the reduced axes kept."""
    if where is not True:
        where = np.broadcast_to(where, x.shape)
    plain = value(y)
    unasked = where is True and dtype is None and initial is None and plain.size and not ordinary(y)
    if unasked and _normal(plain):
        return y / x  # no zero factor, no underflow: exact, and so are its derivatives
    if dtype is not None and x.dtype != dtype:
        x = cast_to(x, np.dtype(dtype))
    if where is not True:
        x = np.where(where, x, x.dtype.type(1))
    axes = axes_of(x, axis)
    front = [i for i in range(len(x.shape)) if i not in axes]
    order = front + list(axes)
    moved = x.transpose(order)
    rows = products_of_others(moved.reshape((*moved.shape[: len(front)], _size(moved.shape[len(front) :]))))
    partial = rows.reshape(moved.shape).transpose([order.index(i) for i in range(len(order))])
    if initial is not None:
        partial = partial * initial
    return partial if where is True else choose(where, partial)


def _size(shape):
    size = 1
    for n in shape:
        size *= n
    return size


def _normal(y):
    size = np.abs(y)
    return bool(np.all(size > np.finfo(y.dtype).tiny) and np.all(size < np.inf))


def prod_jvp(xdot, y, x, axis=None, dtype=None, keepdims=False, initial=None, where=True):
    """Sum what each factor contributes."""
    if initial is np._NoValue:
        initial = None
    partial = prod_partial(_with_axes(y, x, axis, keepdims), x, axis, dtype, initial, where)
    return np.sum(xdot * partial, axis=axis, keepdims=keepdims, dtype=spec_of(y).dtype)


def prod_vjp(ybar, y, x, axis=None, dtype=None, keepdims=False, initial=None, where=True):
    """Multiply by the product of the other factors."""
    if initial is np._NoValue:
        initial = None
    return restore(ybar, x, axis, keepdims) * prod_partial(
        _with_axes(y, x, axis, keepdims), x, axis, dtype, initial, where
    )


def _with_axes(y, x, axis, keepdims):
    return y if keepdims else y.reshape(kept(x.shape, axis))


rule(np.prod, jvp=prod_jvp, vjp=prod_vjp)


# -- running sums and products -----------------------------------------------------------------------------------------


def backwards(x, axis):
    """Reverse `x` along `axis`."""
    return x[(slice(None),) * axis + (slice(None, None, -1),)]


def cumsum_adjoint(ybar, y, x, axis=None, dtype=None):
    """An entry reaches all later sums: sum the cotangent from the end."""
    i = 0 if axis is None else axis % max(len(x.shape), 1)
    xbar = backwards(np.cumsum(backwards(ybar, i), axis=i), i)
    return xbar.reshape(x.shape)


def _parts(x, axis, cut):
    before = (slice(None),) * axis
    return x[(*before, slice(None, cut))], x[(*before, slice(cut, None))], x[(*before, slice(None, -cut))]


def _line(x, axis, dtype):
    """Return what a running product runs along: `x` in its dtype, flat if no axis is given; and the axis."""
    if dtype is not None and x.dtype != dtype:
        x = cast_to(x, np.dtype(dtype))
    if axis is None or not x.shape:
        return x.reshape(-1), 0
    return x, axis % len(x.shape)


def divisible(y, x):
    """Tell whether running products may be divided by their factors: all of them far from 0, and from overflow."""
    plain, factors = value(y), value(x)
    if plain.dtype == HALF or ordinary(plain):
        return False
    info = np.finfo(plain.dtype)
    sizes = np.abs(plain), np.abs(factors)
    return all(bool((a > info.tiny / info.eps).all() and (a < info.max * info.eps).all()) for a in sizes)


def cumprod_jvp(xdot, y, x, axis=None, dtype=None):
    """Doubling: after step d, entry k is the product of the d factors up to k, and its tangent goes along."""
    x, i = _line(x, axis, dtype)
    xdot, _ = _line(xdot, axis, dtype)
    if divisible(y, x):
        return y * np.cumsum(xdot / x, axis=i)
    d = 1
    while d < x.shape[i]:
        head, tail, before = _parts(x, i, d)
        head_dot, tail_dot, before_dot = _parts(xdot, i, d)
        xdot = np.concatenate([head_dot, tail_dot * before + tail * before_dot], axis=i)
        x = np.concatenate([head, tail * before], axis=i)
        d *= 2
    return xdot


def cumprod_vjp(ybar, y, x, axis=None, dtype=None):
    """Doubling, backwards: each step was ``y[k] = x[k] * x[k - d]``."""
    shape = x.shape
    x, i = _line(x, axis, dtype)
    if divisible(y, x):
        return (backwards(np.cumsum(backwards(ybar * y, i), axis=i), i) / x).reshape(shape)
    steps = []
    d = 1
    while d < x.shape[i]:
        head, tail, before = _parts(x, i, d)
        steps.append((d, tail, before))
        x = np.concatenate([head, tail * before], axis=i)
        d *= 2
    for d, tail, before in reversed(steps):
        head_bar, tail_bar, _ = _parts(ybar, i, d)
        later = tail_bar * tail
        nothing = np.zeros(shape_of(head_bar), spec_of(ybar).dtype)
        ybar = np.concatenate([head_bar, tail_bar * before], axis=i) + np.concatenate([later, nothing], axis=i)
    return ybar.reshape(shape)


linear(np.cumsum, cumsum_adjoint)
rule(np.cumprod, jvp=cumprod_jvp, vjp=cumprod_vjp)


@composite(np.cumulative_sum) if hasattr(np, "cumulative_sum") else lambda f: f
def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sum along an axis, with a zero in front if asked."""
    return _cumulative(np.cumsum, x, axis, dtype, include_initial, 0)


@composite(np.cumulative_prod) if hasattr(np, "cumulative_prod") else lambda f: f
def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Multiply along an axis, with a one in front if asked."""
    return _cumulative(np.cumprod, x, axis, dtype, include_initial, 1)


def _cumulative(fun, x, axis, dtype, include_initial, first):
    if axis is None:
        if len(x.shape) > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    y = fun(x, axis=axis, dtype=dtype)
    if not include_initial:
        return y
    shape = list(y.shape)
    shape[axis] = 1
    return np.concatenate([np.full(shape, first, y.dtype), y], axis=axis)


# -- extrema -----------------------------------------------------------------------------------------------------------


def ties(y, x, axis, keepdims, initial, where):
    """Return which entries attain the extremum, and how many do, `initial` included."""
    x, y = value(x), array_value(y).reshape(kept(x.shape, axis))
    hit = x == y
    if where is not True:
        hit = hit & where
    n = count(x, axis, hit)
    if ordinary(hit) or (not n.all() and np.isnan(y).any()):  # the extremum of a line with NaN is NaN
        hit = hit | (np.isnan(x) & np.isnan(y))
        if where is not True:
            hit = hit & where
        n = count(x, axis, hit)
    if initial is not None and initial is not np._NoValue:
        n = n + (y == initial)
    return hit, np.maximum(n, 1)


def extremum_jvp(xdot, y, x, axis=None, keepdims=False, initial=None, where=True):
    """Average over the entries that attain it."""
    hit, n = ties(y, x, axis, keepdims, initial, where)
    wide = SINGLE if xdot.dtype == HALF else None
    if isinstance(hit, Boxed):  # which differ between the runs of a batch
        total = np.sum(choose(hit, xdot), axis=axis, keepdims=True, dtype=wide)
    else:
        total = np.sum(xdot, axis=axis, keepdims=True, where=hit, dtype=wide)
    ydot = over(total, n)
    return ydot if keepdims else reduced(ydot, shape_of(y))


def extremum_vjp(ybar, y, x, axis=None, keepdims=False, initial=None, where=True):
    """Share among the entries that attain it."""
    hit, n = ties(y, x, axis, keepdims, initial, where)
    return choose(hit, over(restore(ybar, x, axis, keepdims), n))


for _fun in {np.max, np.amax, np.min, np.amin, np.nanmax, np.nanmin}:
    rule(_fun, jvp=extremum_jvp, vjp=extremum_vjp, takes=True)


@composite(np.ptp)
def ptp(a, axis=None, *, keepdims=False):
    """Subtract the minimum from the maximum."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


constant(np.any, np.all)


# -- the same as methods of ufuncs -------------------------------------------------------------------------------------

for _ufunc, _reduce, _accumulate in (
    (np.add, np.sum, np.cumsum),
    (np.multiply, np.prod, np.cumprod),
    (np.maximum, np.max, None),
    (np.minimum, np.min, None),
    (np.fmax, np.nanmax, None),
    (np.fmin, np.nanmin, None),
):
    calls.UFUNC_METHODS.setdefault((_ufunc, "reduce"), _reduce)
    if _accumulate is not None:
        calls.UFUNC_METHODS.setdefault((_ufunc, "accumulate"), _accumulate)
