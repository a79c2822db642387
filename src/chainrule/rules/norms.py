"""Derivative rules of norms.

At a point where a norm is 0 it has no derivative; 0 is the subgradient taken, so that ``norm(x)**2`` has its gradient 0
there. Second derivatives at such a point are infinite, but those of ``norm(x)**2`` are not: they are found by a second
run in which x is moved by an infinitesimal (`chainrule.engine.splitting`), so that it has a direction and a length.
"""

import numpy as np

from chainrule.engine.boxed import ordinary, value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive, real_part, shape_of
from chainrule.engine.splitting import is_apart, split
from chainrule.rules.elementwise import reached, reciprocal_or_zero
from chainrule.rules.quotients import cotangent_over, reciprocal, rounding, tangent_over
from chainrule.rules.reductions import kept, restore


@primitive
def length(x, axis=None, keepdims=False):
    """Return the root of the sum of squares over `axis`: None for all, an int or a tuple."""
    if axis is None:
        y = np.linalg.norm(np.reshape(x, -1))
        return y.reshape((1,) * len(shape_of(x)))[()] if keepdims else y
    if axis.__class__ is int:
        return np.linalg.norm(x, None, axis, keepdims)
    square = x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x
    return np.sqrt(np.add.reduce(square, axis=axis, keepdims=keepdims))


@primitive
def unit(x, axis=None):
    """Return x / |x|; where |x| is 0 that is 0, and in a second run (see below) a fixed vector."""
    y = length(x, axis=axis, keepdims=True)
    if is_apart() and (y == 0).any():
        x = np.where(y == 0, x.dtype.type(1), x)
        y = length(x, axis=axis, keepdims=True)
    return x * reciprocal_or_zero(y)


def turned(xdot, u, axis):
    """Return what of a change of x turns it: what is not along the unit vector u."""
    along = np.conj(u) * xdot if u.dtype.kind == "c" else u * xdot
    return xdot - u * np.add.reduce(real_part(along) if u.dtype.kind == "c" else along, axis=axis, keepdims=True)


def straight(n, axis):
    """Return where no entry turns."""
    return ~np.any(value(n), axis=axis, keepdims=True)


def unit_jvp(xdot, y, x, axis=None):
    """Udot = (Xdot - U Re(U^H Xdot)) / |x|."""
    r = length(x, axis=axis, keepdims=True)
    lost, n = tipped(r), turned(xdot, y, axis)
    return tangent_over(n, reciprocal(r, lost), lost, 1, straight(n, axis))


def unit_vjp(ybar, y, x, axis=None):
    """Xbar = (Ubar - U^* Re(U^T Ubar)) / |x|."""
    r = length(x, axis=axis, keepdims=True)
    lost, n = tipped(r), turned(ybar, np.conj(y) if x.dtype.kind == "c" else y, axis)
    return cotangent_over(n, reciprocal(r, lost), lost, 1, np.abs(value(ybar)).max(initial=0))


rule(unit, jvp=unit_jvp, vjp=unit_vjp)


def tipped(r):
    """Return where a length is 0. A program is written for lengths that are not: else its results are not finite."""
    return np.False_ if ordinary(r) else value(r) == 0


def direction(y, x, axis, keepdims):
    """Return conj(x) / |x|, and 0 where |x| is 0."""
    if ordinary(y):
        along = x * reciprocal_or_zero(restore(y, x, axis, keepdims))
    elif (value(y) == 0).any():
        along = unit(x, axis=axis)
    else:
        along = x * (1 / restore(reached(y), x, axis, keepdims))  # of a norm that overflowed nothing is known
    return np.conj(along) if x.dtype.kind == "c" else along


def length_jvp(xdot, y, x, axis=None, keepdims=False):
    """Return the component of the tangent along x."""
    along = direction(y, x, axis, keepdims) * xdot
    return np.sum(real_part(along) if x.dtype.kind == "c" else along, axis=axis, keepdims=keepdims)


def length_vjp(ybar, y, x, axis=None, keepdims=False):
    """The gradient of the length is the unit vector."""
    return restore(ybar, x, axis, keepdims) * direction(y, x, axis, keepdims)


rule(length, jvp=length_jvp, vjp=length_vjp)


@primitive
def tip(x, axis=None, keepdims=False):
    """Return the length of x where that is 0: the tip of a cone that is not round, with derivative 0 and no second."""
    return length(x, axis=axis, keepdims=keepdims)


rule(
    tip,
    jvp=lambda xdot, y, x, axis=None, keepdims=False: (
        np.add.reduce(real_part(np.conj(x) * xdot), axis=axis, keepdims=keepdims) * reciprocal_or_zero(y)
    ),
    vjp=lambda ybar, y, x, axis=None, keepdims=False: (
        np.conj(x) * restore(ybar * reciprocal_or_zero(y), x, axis, keepdims)
    ),
)


def euclidean(x, axis=None, keepdims=False):
    """Return the length as it is given out: zeros as eps in a second run."""
    y = length(x, axis=axis, keepdims=keepdims)
    return split(y, value(y) == 0) if is_apart() else y


def vector_norm_of(x, p, axis, keepdims):
    """Return the p-norm over one axis, or over several taken as one (None: all)."""
    if isinstance(p, str):
        raise ValueError(f"Invalid norm order '{p}' for vectors")
    if p is None or p == 2:
        return euclidean(x, axis=axis, keepdims=keepdims)
    if p == np.inf:
        return np.max(np.abs(x), axis=axis, keepdims=keepdims)
    if p == -np.inf:
        return np.min(np.abs(x), axis=axis, keepdims=keepdims)
    if p == 0:
        return np.sum((value(x) != 0).astype(value(x).real.dtype), axis=axis, keepdims=keepdims)
    size = np.abs(x)
    if p == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if p > 0:
        kink = np.max(value(size), axis=axis, keepdims=True, initial=0) == 0
    else:  # one zero makes the norm 0
        kink = np.any(value(size) == 0, axis=axis, keepdims=True)
    if not ordinary(kink) and kink.any():
        return _power_norm_at_zero(x, size, kink, p, axis, keepdims)
    return np.sum(size**p, axis=axis, keepdims=keepdims) ** (1.0 / p)


def _power_norm_at_zero(x, size, kink, p, axis, keepdims):
    """Return the p-norm where it is 0 for some vectors: of those the length, which is 0, too.

    With p < 0 such vectors may have a length: take 0 of it. The least entry's absolute value has derivative 0 there.
    """
    zero = np.broadcast_to(kink, x.shape)
    if p < 0:
        x = np.where(zero, 0, x).astype(x.dtype)
    total = np.sum(np.where(zero, value(x).real.dtype.type(1), size) ** p, axis=axis, keepdims=keepdims) ** (1.0 / p)
    plain = kink if keepdims else kink.reshape(shape_of(total))
    return np.where(plain, tip(x, axis=axis, keepdims=keepdims), total)


def without_kinks(s):
    """Return singular values, of which those that are 0 (up to rounding) are constant: they are absolute values."""
    plain = value(s)
    at_zero = plain <= rounding(plain) * plain.max(axis=-1, keepdims=True, initial=0)
    return np.where(at_zero, plain, s) if ordinary(s) or at_zero.any() else s


def matrix_norm_of(x, p, axis, keepdims):
    """Return the norm of the matrices in two axes."""
    rows, columns = (i % x.ndim for i in axis)
    if rows == columns:
        raise ValueError("Duplicate axes given.")
    if p is None or p in ("fro", "f"):
        return euclidean(x, axis=(rows, columns), keepdims=keepdims)
    if p in (2, -2, "nuc"):
        s = np.linalg.svdvals(np.moveaxis(x, (rows, columns), (-2, -1)))
        s = without_kinks(s)
        y = np.sum(s, axis=-1) if p == "nuc" else np.max(s, axis=-1) if p == 2 else np.min(s, axis=-1)
    elif p in (1, -1, np.inf, -np.inf):
        summed, left = (rows, columns) if abs(p) == 1 else (columns, rows)
        sums = np.sum(np.abs(x), axis=summed)
        left -= left > summed
        y = np.max(sums, axis=left) if p > 0 else np.min(sums, axis=left)
    else:
        raise ValueError("Invalid norm order for matrices.")
    return y.reshape(kept(x.shape, (rows, columns))) if keepdims else y


@composite(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """Tell apart what NumPy's function does: of all entries, of vectors, of matrices."""
    if not x.size:
        return np.linalg.norm(value(x), ord, axis, keepdims)
    if axis is None:
        if ord is None or (ord == 2 and x.ndim == 1) or (ord in ("fro", "f") and x.ndim == 2):
            y = euclidean(x)
            return y.reshape((1,) * x.ndim) if keepdims else y
        axis = tuple(range(x.ndim))
    elif not isinstance(axis, tuple):
        try:
            axis = (axis.__index__(),)
        except AttributeError:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from None
    if len(axis) == 1:
        return vector_norm_of(x, ord, axis[0], keepdims)
    if len(axis) == 2:
        return matrix_norm_of(x, ord, axis, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@composite(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Take all axes given as one."""
    return vector_norm_of(x, ord, axis, keepdims)


@composite(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Take the last two axes."""
    return matrix_norm_of(x, ord, (-2, -1), keepdims)
