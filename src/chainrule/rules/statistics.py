"""Derivative rules of statistics: variance, standard deviation, medians and quantiles, and the versions without NaN.

The standard deviation has derivative 0 where the variance is 0, and NaN where it overflowed. A quantile is an average
of one or two of the sorted entries, and only those receive its cotangent. Versions that leave out NaN are the same
rules with a mask.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, all_values, array_value, ordinary, value
from chainrule.engine.indexing import picked, scatter, unpicked
from chainrule.engine.rule import composite, constant, rule
from chainrule.engine.spec import cast_to, choose, primitive, real_part, shape_of, spec_of
from chainrule.errors import OutArgumentError, UnsupportedArgumentError
from chainrule.rules.elementwise import reached, reciprocal_or_zero
from chainrule.rules.indexing import subscript
from chainrule.rules.norms import euclidean
from chainrule.rules.reductions import HALF, SINGLE, axes_of, count, mean_adjoint, over, reduced, restore

# -- var and std -------------------------------------------------------------------------------------------------------


def deviation(x, axis, where):
    """Return x minus its mean, zero where masked out."""
    d = (
        x - np.mean(x, axis=axis, keepdims=True, where=where)
        if where is not True
        else x - np.mean(x, axis, keepdims=True)
    )
    return d if where is True else choose(np.broadcast_to(where, x.shape), d)


def freedom(x, axis, ddof, where):
    """Return the number of entries less `ddof`, and not below 0."""
    n = count(x, axis, where)
    return np.maximum(n - ddof, 0).astype(float)


def scaled(v, n):
    """Return 2 / n times v, in v's dtype."""
    dtype = spec_of(v).dtype
    if dtype == HALF:
        return cast_to(scaled(cast_to(v, SINGLE), n), HALF)
    return v * (2 / n).astype(np.finfo(dtype).dtype)


def var_jvp(xdot, y, x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Return 2 / n sum((x - mean) xdot): what the mean itself adds cancels."""
    d, n = deviation(x, axis, where), freedom(x, axis, ddof, where)
    terms = real_part(np.conj(d) * xdot) if x.dtype.kind == "c" else d * xdot
    if terms.dtype == HALF:
        terms = cast_to(terms, SINGLE)
    total = scaled(np.sum(terms, axis=axis, keepdims=True), n)
    return total if keepdims else reduced(total, shape_of(y))


def var_vjp(ybar, y, x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Return 2 / n (x - mean) ybar."""
    d, n = deviation(x, axis, where), freedom(x, axis, ddof, where)
    if x.dtype.kind == "c":
        d = np.conj(d)
    return d * scaled(restore(ybar, x, axis, keepdims), n)


def std_jvp(xdot, y, x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Return vardot / (2 std)."""
    return 0.5 * var_jvp(xdot, y, x, axis, dtype, ddof, keepdims, where) * reciprocal_or_zero(reached(y))


def std_vjp(ybar, y, x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Pull ybar / (2 std) back through the variance."""
    return var_vjp(0.5 * ybar * reciprocal_or_zero(reached(y)), y, x, axis, dtype, ddof, keepdims, where)


@primitive
def variance(x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Return np.var of plain arguments."""
    return np.var(x, axis, dtype, None, ddof, keepdims, where=where)


@primitive
def deviation_of(x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
    """Return np.std of plain arguments."""
    return np.std(x, axis, dtype, None, ddof, keepdims, where=where)


rule(variance, jvp=var_jvp, vjp=var_vjp)
rule(deviation_of, jvp=std_jvp, vjp=std_vjp)
_NO = np._NoValue


def at_zero(y, x, axis, ddof, keepdims):
    """Return a standard deviation; where it is 0, as the length of the deviations, whose square is smooth there."""
    if ordinary(y):
        return y
    zero = array_value(value(y) == 0)
    if not np.any(all_values(zero)) or spec_of(y).dtype == HALF:
        return y
    root = value(y).real.dtype.type(freedom(x, axis, ddof, True) ** 0.5)
    length = euclidean(deviation(x, axis, True), axis, keepdims) / root
    if zero.all():
        return length
    lines = np.broadcast_to(restore(zero, x, axis, keepdims), x.shape)
    ramp = np.arange(value(x).size).reshape(x.shape).astype(value(x).dtype)  # has a derivative, which is not used
    return np.where(zero, length, deviation_of(np.where(lines, ramp, x), axis=axis, ddof=ddof, keepdims=keepdims))


def masked_mean(x, axis, mask):
    """Return the mean of what a mask of a batch holds, with the reduced axes kept."""
    return over(np.sum(np.where(mask, x, x.dtype.type(0)), axis=axis, keepdims=True), count(x, axis, mask))


def _written(fun, root):
    """Return np.var or np.std: the rule, or with a traced ``mean=`` the definition."""

    def call(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=_NO, correction=_NO):
        if out is not None:
            raise OutArgumentError(f"numpy.{'std' if root else 'var'}")
        if correction is not _NO:
            if ddof != 0:
                raise ValueError("ddof and correction can't be provided simultaneously.")
            ddof = correction
        keepdims = keepdims is not _NO and keepdims
        where = True if where is _NO else where
        if isinstance(where, Boxed) and dtype is None:  # of a batch: what is left out is put to the mean
            where = np.broadcast_to(value(where), a.shape)
            mean = masked_mean(a, axis, where) if mean is _NO or mean is None else mean
            a = np.where(where, a, mean)
        if mean is _NO or mean is None:
            y = fun(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where)
            return at_zero(y, a, axis, ddof, keepdims) if root and where is True and dtype is None else y
        if dtype is not None:
            raise UnsupportedArgumentError("numpy.var or numpy.std", "dtype", "is not supported together with mean=")
        d = a - mean
        square = real_part(d * np.conj(d)) if d.dtype.kind == "c" else d * d
        n = np.maximum(count(a, axis, where) - ddof, 0)
        if isinstance(where, Boxed):
            where, n = True, n.astype(square.dtype)
        total = np.sum(square, axis=axis, keepdims=True, where=where) / (
            n if isinstance(n, Boxed) else np.asarray(n, square.dtype)
        )
        y = total if keepdims else reduced(total, shape_of(np.sum(value(square), axis=axis)))
        if not root:
            return y
        flat = value(y) == 0  # where all entries are the mean the derivative is 0, as that of the rule
        if not ordinary(y) and not np.any(flat):
            return np.sqrt(y)
        return np.where(flat, y.dtype.type(0), np.sqrt(np.where(flat, y.dtype.type(1), y)))

    call.__name__ = call.__qualname__ = "std" if root else "var"
    return call


var = composite(np.var)(_written(variance, root=False))
std = composite(np.std)(_written(deviation_of, root=True))


# -- without NaN -------------------------------------------------------------------------------------------------------


def given(x):
    """Return the mask of the entries that are no NaN."""
    return ~np.isnan(value(x))


def nanmean_jvp(xdot, y, x, axis=None, dtype=None, keepdims=False, where=True):
    """Average the tangents of what is no NaN."""
    mask = given(x) & where
    if isinstance(mask, Boxed):
        total = masked_mean(xdot, axis, mask)
        return total if keepdims else reduced(total, shape_of(y))
    return np.mean(xdot, axis=axis, dtype=dtype, keepdims=keepdims, where=mask)


def nanmean_vjp(ybar, y, x, axis=None, dtype=None, keepdims=False, where=True):
    """Share among what is no NaN."""
    return mean_adjoint(ybar, y, x, axis, dtype, keepdims, given(x) & where)


rule(np.nanmean, jvp=nanmean_jvp, vjp=nanmean_vjp, takes=True)


@composite(np.nansum)
def nansum(a, **options):
    """Sum what is no NaN."""
    return np.sum(np.where(given(a), a, a.dtype.type(0)), **options)


@composite(np.nanprod)
def nanprod(a, **options):
    """Multiply what is no NaN."""
    return np.prod(np.where(given(a), a, a.dtype.type(1)), **options)


@composite(np.nancumsum)
def nancumsum(a, axis=None, dtype=None):
    """Take NaN as 0."""
    return np.cumsum(np.where(given(a), a, a.dtype.type(0)), axis=axis, dtype=dtype)


@composite(np.nancumprod)
def nancumprod(a, axis=None, dtype=None):
    """Take NaN as 1."""
    return np.cumprod(np.where(given(a), a, a.dtype.type(1)), axis=axis, dtype=dtype)


@composite(np.nanvar)
def nanvar(a, axis=None, *, where=True, **options):
    """Take the variance of what is no NaN."""
    return np.var(a, axis=axis, where=given(a) & where, **options)


@composite(np.nanstd)
def nanstd(a, axis=None, *, where=True, **options):
    """Take the standard deviation of what is no NaN."""
    return np.std(a, axis=axis, where=given(a) & where, **options)


# -- order statistics --------------------------------------------------------------------------------------------------


FEW = 8  # so many ranks are found faster than all


def places(x, q, axis, method, leave_nan):
    """Return, for each value of q (in front), which two entries of flat `x` the quantile lies between, and how far.

    NumPy itself says where in the sorted entries a quantile lies: it is the quantile of their numbers 0, 1, 2, ...
    """
    axes = axes_of(x, axis)
    front = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(front + list(axes)).reshape([x.shape[i] for i in front] + [count(x, axis)])
    flat = np.arange(x.size).reshape(x.shape).transpose(front + list(axes)).reshape(rows.shape)
    n = np.full(rows.shape[:-1], rows.shape[-1])
    if leave_nan:
        n = n - np.isnan(rows).sum(axis=-1)
    q = np.asarray(q, float)
    number = np.zeros(q.shape + n.shape)
    for k in np.unique(n[n > 0]):
        at = np.quantile(np.arange(float(k)), q, method=method)
        number[..., n == k] = np.asarray(at)[..., None]
    low = np.floor(number).astype(np.intp)
    high = np.minimum(low + 1, np.maximum(n - 1, 0))
    if not leave_nan:  # the quantile of a line with NaN is NaN: its derivative goes there
        last = np.isnan(rows).any(axis=-1)
        low, high = (np.where(last, n - 1, i) for i in (low, high))
    ranks = np.unique(np.concatenate((low, high), axis=None))
    if ranks.size <= FEW:  # NaN comes last in both
        order = np.argpartition(rows, ranks, axis=-1)
    else:
        order = np.argsort(rows, axis=-1, kind="stable")

    def entries(i):
        by_row = np.moveaxis(i.reshape((q.size, *n.shape)), 0, -1)
        found = np.take_along_axis(flat, np.take_along_axis(order, by_row, axis=-1), axis=-1)
        return np.moveaxis(found, -1, 0).reshape(i.shape)

    return entries(low), entries(high), number - np.floor(number)


@primitive
def neighbours(x, q=0.5, axis=None, method="linear", leave_nan=False):
    """Return `places`, of a batch for each run."""
    return places(x, q, axis, method, leave_nan)


constant(neighbours)


def _shares(y, x, q, axis, keepdims, method, leave_nan):
    low, high, part = neighbours(value(x), q=q, axis=axis, method=method, leave_nan=leave_nan)
    part = part.astype(value(y).real.dtype).reshape(shape_of(y))
    return low.reshape(shape_of(y)), high.reshape(shape_of(y)), part


def fraction(q, x, percent):
    """Return `q` as a fraction, divided in the dtype in which NumPy does it."""
    dtype = spec_of(x).dtype
    return np.true_divide(q, dtype.type(100) if dtype.kind == "f" else 100) if percent else q


def quantile_jvp(xdot, y, x, q=0.5, axis=None, keepdims=False, method="linear", leave_nan=False, percent=False):
    """Average the tangents of the two entries it lies between."""
    q = fraction(q, x, percent)
    low, high, part = _shares(y, x, q, axis, keepdims, method, leave_nan)
    line = xdot.reshape(-1)
    if isinstance(low, Boxed):
        return picked(line, low) * (1 - part) + picked(line, high) * part
    return line[low] * (1 - part) + line[high] * part


def quantile_vjp(ybar, y, x, q=0.5, axis=None, keepdims=False, method="linear", leave_nan=False, percent=False):
    """Share between the two entries it lies between."""
    q = fraction(q, x, percent)
    low, high, part = _shares(y, x, q, axis, keepdims, method, leave_nan)
    size, dtype = (value(x).size,), spec_of(x).dtype
    if isinstance(low, Boxed):
        xbar = unpicked(ybar * (1 - part), low, shape=size) + unpicked(ybar * part, high, shape=size)
    else:
        xbar = scatter(ybar * (1 - part), low, size, dtype) + scatter(ybar * part, high, size, dtype)
    return xbar.reshape(x.shape)


@primitive
def quantile_of(x, q=0.5, axis=None, keepdims=False, method="linear", leave_nan=False, percent=False):
    """Return a quantile by NumPy's function: with `q` in percent or not, without NaN or not."""
    fun = (
        (np.nanpercentile if leave_nan else np.percentile) if percent else np.nanquantile if leave_nan else np.quantile
    )
    return fun(x, q, axis, method=method, keepdims=keepdims)


@primitive
def median_of(x, axis=None, keepdims=False, leave_nan=False):
    """Return the median, or without NaN."""
    return (np.nanmedian if leave_nan else np.median)(x, axis, keepdims=keepdims)


def median_jvp(xdot, y, x, axis=None, keepdims=False, leave_nan=False):
    """The median is the quantile of one half."""
    return quantile_jvp(xdot, y, x, 0.5, axis, keepdims, "linear", leave_nan)


def median_vjp(ybar, y, x, axis=None, keepdims=False, leave_nan=False):
    """The median is the quantile of one half."""
    return quantile_vjp(ybar, y, x, 0.5, axis, keepdims, "linear", leave_nan)


rule(quantile_of, jvp=quantile_jvp, vjp=quantile_vjp, takes=True)
rule(median_of, jvp=median_jvp, vjp=median_vjp, takes=True)


# methods continuous in q, with a and b: among n entries the quantile has the number n q + a + q (1 - a - b) - 1
CONTINUOUS = {
    "linear": (1, 1), "weibull": (0, 0), "hazen": (0.5, 0.5), "interpolated_inverted_cdf": (0, 1),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip


def of_one_run(x):
    """Return a plain value as an array; one of a program as it is, and one of a batch stops that."""
    return x if ordinary(x) else np.asarray(x)


def moved(y, a, q, percent, axis, keepdims, method, leave_nan):
    """Return zero, with the derivative in `q`: the step between the two entries, times how fast their number grows."""
    x = a if hasattr(a, "shape") else np.asarray(a)
    plain, known = value(x), of_one_run(fraction(value(q), x, percent))
    first, second = CONTINUOUS[method]
    n = of_one_run(count(plain, axis, ~np.isnan(plain) if leave_nan else True)).reshape(-1)  # one, or one for each line
    line = known.reshape((*known.shape, 1))
    number = n * line + first + line * (1 - first - second) - 1
    rate = np.where((number >= 0) & (number <= n - 1), n + 1 - first - second, 0.0) / (100 if percent else 1)
    last = (number >= n - 1).any(axis=-1)  # at the last entry the step is that before it
    earlier = np.where(last, known - 0.25 / n.max(), known)
    low, high, _ = neighbours(plain, earlier, axis, method, leave_nan)
    low, high = (i.reshape((*known.shape, -1)) for i in (low, high))
    entries = np.ravel(x)
    steps = (subscript(entries, high) - subscript(entries, low)) * rate
    change = np.reshape(q - value(q), known.shape + (1,) * (len(shape_of(y)) - known.ndim))
    term = change * np.reshape(steps, shape_of(y))
    return term if term.dtype == y.dtype else cast_to(term, y.dtype)


def read_weighted(fun, a, q, axis, method, keepdims, weights):
    """Read a weighted quantile, which is one of the entries (NumPy has no other method): the first of that value."""
    x = value(a)
    y = fun(x, value(q), axis, method=method, keepdims=True, weights=value(weights))
    axes = axes_of(x, axis)
    front = [i for i in range(x.ndim) if i not in axes]
    flat = np.arange(x.size).reshape(x.shape).transpose(front + list(axes))
    flat = flat.reshape([x.shape[i] for i in front] + [-1])
    wanted = y.reshape((*np.shape(q), *flat.shape[:-1], 1))
    entries = x.reshape(-1)[flat]
    place = np.argmax((entries == wanted) | (np.isnan(entries) & np.isnan(wanted)), axis=-1)
    where = np.take_along_axis(np.broadcast_to(flat, (*place.shape, flat.shape[-1])), place[..., None], -1)
    shape = y.shape if keepdims else np.shape(q) + tuple(x.shape[i] for i in front)
    return np.ravel(a)[where.reshape(shape)]


def _declare(leave_nan, median, quantile, percentile):
    @composite(median)
    def declared_median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
        _refuse(median, out)
        return median_of(a, axis=axis, keepdims=keepdims is True, leave_nan=leave_nan)

    def at(fun, percent):
        @composite(fun)
        def declared_quantile(
            a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None
        ):
            _refuse(fun, out)
            if weights is not None:
                return read_weighted(fun, a, q, axis, method, keepdims is True, weights)
            options = {"axis": axis, "keepdims": keepdims is True, "method": method, "leave_nan": leave_nan}
            y = quantile_of(a, q=value(q), percent=percent, **options)
            return y + moved(y, a, q, percent, **options) if isinstance(q, Boxed) and method in CONTINUOUS else y

    at(quantile, False)
    at(percentile, True)


def _refuse(fun, out):
    if out is not None:
        raise OutArgumentError(f"numpy.{fun.__name__}")


_declare(False, np.median, np.quantile, np.percentile)
_declare(True, np.nanmedian, np.nanquantile, np.nanpercentile)
