"""Derivative rules of the functions that change an array's shape, or the places of its elements.

The cotangent goes back the way its element came. A `gather` is declared by name only where every entry of the result
is an entry of the argument; the hot ones give their adjoint by hand. Functions that fill in zeros or sum are `linear`.
"""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from chainrule.engine.boxed import Boxed, all_values, value
from chainrule.engine.indexing import put, scatter
from chainrule.engine.rule import RULES, composite, gather, linear, make_binder, quick
from chainrule.engine.spec import cast_to, primitive, shape_of, spread_to, sum_to
from chainrule.errors import UnsupportedArgumentError


@primitive
def flatten(x, order="C"):
    """Return a flat copy of `x`: ndarray's method."""
    return np.array(x).flatten(order)


# -- how results lie in memory -----------------------------------------------------------------------------------
#
# On that it depends whether np.ravel and reshape give a view of a result, by which it can be written to, or a copy.


def plain_of(x):
    """Return the plain value of `x`; of a batch that of one run."""
    rank, x = len(shape_of(x)), all_values(x)
    while x.ndim > rank and len(x):
        x = x[0]
    return x


def by_rows(y):
    """Return `y`, or a copy, with its elements row by row."""
    if len(shape_of(y)) < 2 or plain_of(y).flags.c_contiguous:
        return y
    return np.copy(y, order="C")


def laid_like(y, x):
    """Return `y`, or a copy, with its elements column by column if those of `x` are."""
    if len(shape_of(y)) < 2 or plain_of(y).flags.f_contiguous or not plain_of(x).flags.fnc:
        return y
    return np.copy(y, order="F")


# -- the same elements in another shape or order ---------------------------------------------------------------


def shaped_back(ybar, y, x, shape=None, order="C", newshape=None, copy=None):
    """Give the cotangent the operand's shape, read in the same order."""
    return ybar.reshape(x.shape) if order == "C" else np.reshape(ybar, x.shape, order=order)


def flat_back(ybar, y, x, order="C"):
    """Give a flat cotangent the operand's shape."""
    return ybar.reshape(x.shape) if order == "C" else np.reshape(ybar, x.shape, order=order)


def axes_back(ybar, y, x, axes=None):
    """Permute the axes back."""
    if axes is None:
        return ybar.transpose()
    back = [0] * len(axes)
    for i, a in enumerate(axes):
        back[a] = i
    return ybar.transpose(tuple(back))


def reinsert(ybar, y, x, axis=None):
    """Put in, or take out, axes of length 1."""
    return ybar.reshape(x.shape)


def spread_back(ybar, y, x, shape=None):
    """Sum the copies: the adjoint of broadcasting."""
    return sum_to(ybar, x.shape)


def resize_back(ybar, y, x, new_shape=None):
    """Sum the copies that `np.resize` made; of an empty array it makes zeros."""
    n, flat = x.size, ybar.reshape(-1)
    if n == 0 or flat.size == 0:
        return np.zeros(x.shape, x.dtype)
    whole = -(-flat.size // n) * n
    if whole != flat.size:
        flat = put(np.zeros(whole, x.dtype), flat, slice(0, flat.size))
    return flat.reshape(-1, n).sum(axis=0).reshape(x.shape)


def repeat_back(ybar, y, x, repeats=None, axis=None):
    """Sum the copies of each element."""
    shape = x.shape if axis is not None and x.shape else (x.size,)  # NumPy gives a number an axis
    k = normalize_axis_index(axis, len(shape)) if axis is not None else 0
    counts = np.broadcast_to(np.asarray(repeats), (shape[k],))
    if shape[k] and (counts == counts[0]).all():
        r = int(counts[0])
        xbar = ybar.reshape(*shape[:k], shape[k], r, *shape[k + 1 :]).sum(axis=k + 1)
    else:
        source = np.repeat(np.arange(shape[k]), counts)
        xbar = scatter(ybar, (slice(None),) * k + (source,), shape, x.dtype)
    return xbar.reshape(x.shape)


gather(np.reshape, adjoint=shaped_back)
gather(np.ravel, adjoint=flat_back)
gather(flatten, adjoint=flat_back)
gather(np.transpose, adjoint=axes_back)
gather(np.squeeze, adjoint=reinsert)
gather(np.expand_dims, adjoint=reinsert)
gather(np.broadcast_to, adjoint=spread_back)
gather(np.matrix_transpose, adjoint=lambda ybar, y, x: np.matrix_transpose(ybar))
gather(np.swapaxes, adjoint=lambda ybar, y, x, axis1=None, axis2=None: ybar.swapaxes(axis1, axis2))
gather(np.moveaxis, adjoint=lambda ybar, y, x, source=None, destination=None: np.moveaxis(ybar, destination, source))
gather(np.flip, adjoint=lambda ybar, y, x, axis=None: np.flip(ybar, axis))
gather(np.fliplr, adjoint=lambda ybar, y, x: np.fliplr(ybar))
gather(np.flipud, adjoint=lambda ybar, y, x: np.flipud(ybar))
gather(np.roll, adjoint=lambda ybar, y, x, shift=None, axis=None: np.roll(ybar, _negative(shift), axis))
gather(np.rot90, adjoint=lambda ybar, y, x, k=1, axes=(0, 1): np.rot90(ybar, -k, axes))
gather(np.repeat, adjoint=repeat_back)
gather(np.resize, adjoint=resize_back)
gather(np.copy, adjoint=lambda ybar, y, x, order="K": ybar)
gather(np.tile, np.rollaxis)


def _negative(shift):
    return tuple(-int(s) for s in shift) if np.ndim(shift) else -int(shift)


quick(np.reshape, shape=lambda x, shape: x.reshape(shape), newshape=lambda x, shape: x.reshape(shape))
quick(np.ravel, none=lambda x: x.ravel(), order=lambda x, order: x.ravel(order))
quick(np.transpose, none=lambda x: x.transpose(), axes=lambda x, axes: x.transpose(axes))
quick(np.squeeze, none=lambda x: x.squeeze(), axis=lambda x, axis: x.squeeze(axis))
quick(np.swapaxes, axis1_axis2=lambda x, axis1, axis2: x.swapaxes(axis1, axis2))
quick(np.copy, none=lambda x: x.copy("K"))


def resolve_order(fun):
    """Make a function's binder replace the orders ``"A"`` and ``"K"`` by what they mean for the value at hand.

    They ask for the order in memory, which the cotangent's own array need not share.
    """
    rule = RULES[fun]

    def first(*args, **kwargs):
        named = make_binder(rule)

        def bind(*args, **kwargs):
            operands, params = named(*args, **kwargs)
            if params.get("order", "C") not in ("C", "F"):
                params["order"] = memory_order(value(operands[0]), rule.name, params["order"])
            return operands, params

        rule.bind = bind
        return bind(*args, **kwargs)

    rule.bind = first


def memory_order(x, name, order):
    """Return "C" or "F", whichever the orders "A" and "K" mean for the array `x`."""
    flags = getattr(x, "flags", None)
    if flags is None or flags.c_contiguous:
        return "C"
    if flags.f_contiguous:
        return "F"
    if order == "A":
        return "C"
    raise UnsupportedArgumentError(
        name, "order", "is 'K' for an array that is neither C- nor F-contiguous", "give order='C' or order='F'."
    )


for _fun in (np.reshape, np.ravel, flatten):
    resolve_order(_fun)


@composite(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    """Broadcast each to the common shape, as read-only views."""
    shape = np.broadcast_shapes(*[shape_of(a) for a in args])
    return tuple([a if shape_of(a) == shape and hasattr(a, "shape") else np.broadcast_to(a, shape) for a in args])


@composite(np.atleast_1d)
def atleast_1d(*arys):
    """Give a number an axis."""
    return _each(arys, lambda a: np.reshape(a, (1,)) if not shape_of(a) else a)


@composite(np.atleast_2d)
def atleast_2d(*arys):
    """Add axes in front, up to two."""
    return _each(arys, lambda a: np.reshape(a, (1,) * (2 - n) + shape_of(a)) if (n := len(shape_of(a))) < 2 else a)


@composite(np.atleast_3d)
def atleast_3d(*arys):
    """Add axes, up to three: a vector lies along the middle one."""

    def three(a):
        s = shape_of(a)
        return np.reshape(a, ((1, 1, 1), (1, *s, 1), (*s, 1))[len(s)]) if len(s) < 3 else a

    return _each(arys, three)


def _each(arys, function):
    arys = [a if hasattr(a, "shape") else np.asarray(a) for a in arys]
    parts = tuple([function(a) for a in arys])
    return parts[0] if len(parts) == 1 else parts


@composite(np.trim_zeros)
def trim_zeros(filt, trim="fb", axis=None):
    """Cut the zeros off the ends: where they are is read off the values, and has derivative zero."""
    if not shape_of(filt):
        return filt
    x = value(filt)
    where = np.nonzero(x != 0)  # a program binds to the mask, not to the values
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    index = [slice(None)] * x.ndim
    trim = trim.lower()
    for a in axes:
        n, w = x.shape[a], where[a]
        if w.size:
            start, stop = (int(w.min()) if "f" in trim else 0), (int(w.max()) + 1 if "b" in trim else n)
        else:
            start = stop = 0
        index[a] = slice(start, stop)
    return filt[tuple(index)]


def astype(x, dtype, /, *, copy=True, device=None):
    """Cast. Integers and bools have no derivative, and are plain."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fc":
        x = value(x)
        if isinstance(x, Boxed):  # of a batch, of a program
            cast = (np.ndarray.astype, (x, dtype)) if x.shape else (dtype.type, (x,))  # NumPy's scalars are no arrays
            return x.run_constant(*cast, {}, x.level)
        return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)
    if x.dtype != dtype:
        return cast_to(x, dtype)
    return np.copy(x) if copy else x


if hasattr(np, "astype"):  # NumPy 2.1
    composite(np.astype)(astype)


# -- diagonals and triangles -----------------------------------------------------------------------------------


def diagonal_back(ybar, y, x, offset=0, axis1=0, axis2=1):
    """Put the cotangent on the diagonal of zeros."""
    axis1, axis2 = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    shape = tuple([n for i, n in enumerate(x.shape) if i not in (axis1, axis2)]) + (x.shape[axis1], x.shape[axis2])
    rows = np.arange(ybar.shape[-1]) + max(-offset, 0)
    xbar = put(np.zeros(shape, x.dtype), ybar, (Ellipsis, rows, rows + offset))
    return np.moveaxis(xbar, (-2, -1), (axis1, axis2))


@primitive
def diagonal_matrix(v, k=0):
    """Return the matrix with the vector `v` on its diagonal number `k`."""
    return np.diag(v, k)


@composite(np.diag)
def diag(v, k=0):
    """Put a vector on a diagonal, or show the diagonal of a matrix."""
    if len(shape_of(v)) == 1:
        return diagonal_matrix(v, k)
    if len(shape_of(v)) == 2:
        return np.diagonal(v, k)
    raise ValueError("Input must be 1- or 2-d.")


gather(np.diagonal, adjoint=diagonal_back)
linear(diagonal_matrix, lambda ybar, y, x, k=0: np.diagonal(ybar, k))
linear(np.tril, lambda ybar, y, x, k=0: sum_to(np.tril(ybar, k), x.shape))
linear(np.triu, lambda ybar, y, x, k=0: sum_to(np.triu(ybar, k), x.shape))


@composite(np.diagflat)
def diagflat(v, k=0):
    """Put all elements on a diagonal."""
    return np.diag(np.ravel(v), k)


@composite(np.ix_)
def ix_(*args):
    """Give each vector an axis of its own. Booleans become indices, as always."""
    parts = []
    for k, a in enumerate(args):
        if not isinstance(a, Boxed):
            a = np.ix_(a)[0]
        if len(a.shape) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        parts.append(a.reshape((1,) * k + (-1,) + (1,) * (len(args) - k - 1)))
    return tuple(parts)


@composite(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Broadcast vectors against each other, each along an axis of its own."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = 1, 0
    grids = []
    for i, x in enumerate(xi):
        shape = [1] * n
        shape[order[i]] = -1
        grids.append(np.reshape(x, shape))
    full = np.broadcast_shapes(*[shape_of(g) for g in grids])
    if not sparse:
        grids = [np.broadcast_to(g, full) if not copy else spread_to(g, full) for g in grids]
    elif copy:
        grids = [np.copy(g) for g in grids]
    return tuple(grids)
