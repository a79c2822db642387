"""Linear interpolation, and angles made continuous.

Between two knots `np.interp` is a line, so its derivatives in the place, in the knots and in their values follow from
the formula of that line. At a knot the line to the right of it is taken, at the last knot the one to the left.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, all_values, ordinary, value
from chainrule.engine.indexing import picked, scatter
from chainrule.engine.rule import composite, linear, rule
from chainrule.engine.spec import primitive, shape_of
from chainrule.rules.differences import as_array

DOUBLE = np.dtype(float)


def as_double(x, complex_too=False):
    """Return numbers, or lists of them, as double precision: what `np.interp` calculates in."""
    x = as_array(x)
    kind = x.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError("np.interp takes complex numbers for the values `fp` only")
    wanted = np.dtype(complex) if kind == "c" else DOUBLE
    return x if x.dtype == wanted else x.astype(wanted)


@primitive
def through_values(fp, x=None, xp=None, left=None, right=None):
    """Return np.interp of plain places and knots: linear in the values at the knots."""
    return np.interp(x, xp, fp, left, right)


BLOCK = 1 << 16  # places that are looked up together: the weights of all of them would take five times their memory


def shares(x, xp, left, right):
    """Return, for places x, the knot before each and the weights of it and of the next."""
    start = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, max(len(xp) - 2, 0))
    if len(xp) == 1:
        after = np.zeros(x.shape)
    else:
        after = np.clip((x - xp[start]) / (xp[start + 1] - xp[start]), 0.0, 1.0)
    before = 1.0 - after
    for given, outside in ((left, x < xp[0]), (right, x > xp[-1])):
        if given is not None:  # a constant there
            before, after = np.where(outside, 0.0, before), np.where(outside, 0.0, after)
    return start, before, after


def through_values_back(ybar, y, fp, x=None, xp=None, left=None, right=None):
    """Each value at a knot gets its share of the cotangents of the places beside it."""
    places, n = np.asarray(x, float).reshape(-1), fp.shape[0]
    flat = ybar.reshape(-1) if shape_of(ybar) else np.stack([ybar])
    step = BLOCK if flat.__class__ is np.ndarray else max(places.size, 1)
    bar = np.zeros(n, fp.dtype)
    for k in range(0, places.size, step):
        start, before, after = shares(places[k : k + step], xp, left, right)
        part = flat[k : k + step]
        bar = bar + scatter(part * before, (start,), (n,), fp.dtype)
        bar = bar + scatter(part * after, (np.minimum(start + 1, n - 1),), (n,), fp.dtype)
    return bar


def entries(x, where):
    """Return ``x[where]`` of a flat array, where `where` may be a batch."""
    return picked(x, where) if isinstance(where, Boxed) else x[where]


def zeroed(v):
    """Return what stands for a constant `left` or `right` in a tangent."""
    return None if v is None else 0.0


linear(through_values, through_values_back, affine={"left": zeroed, "right": zeroed})


@composite(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    """Return the value, at `x`, of the line between the two knots around it; `left` and `right` of all, constants."""
    x, xp, fp = as_double(x), as_double(xp), as_double(fp, complex_too=True)
    if len(shape_of(xp)) != 1 or len(shape_of(fp)) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if xp.shape[0] != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    if not xp.shape[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if not ordinary(period) and value(period) == 0:
            raise ValueError("period must be a non-zero value")
        left = right = None
        period = abs(period)
        x, xp = x % period, xp % period
        order = np.argsort(xp)
        xp, fp = entries(xp, order), entries(fp, order)
        xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
        fp = np.concatenate((fp[-1:], fp, fp[:1]))
    if not any(isinstance(v, Boxed) for v in (x, xp, left, right)):
        return through_values(fp, x=x, xp=xp, left=left, right=right)
    places, knots = value(x), value(xp)
    last = len(knots) - 1
    before, after = places < knots[0], places > knots[-1]
    start = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, max(last - 1, 0))
    at_end = places == knots[-1]
    ends = ordinary(at_end) or np.any(all_values(at_end))
    anchor = np.where(at_end, last, start) if ends else start  # so that the last knot gives its very value
    if last:
        slope = (fp[1:] - fp[:-1]) / (xp[1:] - xp[:-1])
        y = entries(slope, start) * (x - entries(xp, anchor)) + entries(fp, anchor)
    else:
        y = entries(fp, anchor) + 0 * x
    for outside, given, end in ((before, left, fp[0]), (after, right, fp[-1])):
        if ordinary(outside) or np.any(all_values(outside)):
            y = np.where(outside, end if given is None else given, y)
    return y if shape_of(y) else y[()]  # a number for a number


# What is added to an angle is a multiple of the period, and jumps only.
rule(
    np.unwrap,
    jvp=lambda xdot, y, x, discont=None, axis=-1, period=None: xdot,
    vjp=lambda ybar, y, x, discont=None, axis=-1, period=None: ybar,
    complex=False,
)
