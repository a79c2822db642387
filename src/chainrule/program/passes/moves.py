"""Rewrites of what only moves elements: reshapes, transposes, casts, parts of arrays and writes to them.

A gradient is full of these, since what a slice read is scattered back, and what was broadcast is summed. The table is
part of that of `algebra`.
"""

import numpy as np

from chainrule.engine.indexing import getitem, put, scatter
from chainrule.engine.spec import cast_to, choose, real_part, spread_to, sum_to
from chainrule.program.ir import Symbol
from chainrule.program.passes.common import key_of
from chainrule.program.passes.exactness import stands_for
from chainrule.program.passes.sweep import alike, call
from chainrule.rules.shapes import flatten

# -- shapes ------------------------------------------------------------------------------------------------------------


def same_shape(sweep, e, x, shape=None):
    """Leave a sum to the shape that is there."""
    return (x,) if x.__class__ is Symbol and alike(x, e.output) else None  # the function returns its operand


def spread_to_same(sweep, e, x, shape=None):
    """Leave a broadcast to the shape that is there; one to no shape would make a 0-d array."""
    return stands_for(sweep, x, e) if e.output.shape else None


def reshaped(sweep, e, x, shape=None, order="C", copy=None):
    """Rewrite a reshape of a reshape as one, and one to the shape that is there as nothing."""
    y = e.output
    if x.__class__ is not Symbol or order != "C" or copy is not None or not y.shape:
        return None
    if x.shape == y.shape:
        return stands_for(sweep, x, e)
    made = sweep.maker(x, np.reshape) or sweep.maker(x, np.ravel) or sweep.maker(x, flatten)
    if made is None or made.params.get("order", "C") != "C" or made.params.get("copy") is not None:
        return None
    base = made.inputs[0]
    if base.__class__ is not Symbol or not sweep.by_rows(base) or e.output in sweep.sensitive:
        return None
    return call(e, np.reshape, base, shape=y.shape)


def transposed(sweep, e, x, axes=None):
    """Rewrite a transpose of a transpose as one, and one that leaves the axes as they are as nothing: all are views."""
    if x.__class__ is not Symbol:
        return None
    order = order_of(axes, len(x.shape))
    if order == tuple(range(len(x.shape))):
        return (x,) if x.shape else None
    made = sweep.maker(x, np.transpose) or sweep.maker(x, np.matrix_transpose) or sweep.maker(x, np.swapaxes)
    if made is None or made.inputs[0].__class__ is not Symbol:
        return None
    inner = axes_of(made)
    both = tuple([inner[k] for k in order])
    base = made.inputs[0]
    return (base,) if both == tuple(range(len(both))) else call(e, np.transpose, base, axes=both)


def swapped(sweep, e, x, axis1=None, axis2=None):
    """Take an exchange of two axes as the transpose that it is, if it is one of a transpose."""
    return transposed(sweep, e, x, axes_of(e)) if axis1.__class__ is int and axis2.__class__ is int else None


def matrix_transposed(sweep, e, x):
    """Take a transpose of matrices as one of all axes, if it is one of a transpose."""
    return transposed(sweep, e, x, axes_of(e))


def order_of(axes, ndim):
    """Return the axes of a transpose, counted from the front."""
    return tuple(range(ndim))[::-1] if axes is None else tuple([int(k) % ndim for k in axes])


def axes_of(e):
    """Return the order of axes that a transpose, or an exchange of two axes, makes."""
    ndim = len(e.inputs[0].shape)
    if e.rule.fun is np.transpose:
        return order_of(e.params.get("axes"), ndim)
    i, j = (-1, -2) if e.rule.fun is np.matrix_transpose else (e.params["axis1"], e.params["axis2"])
    order = list(range(ndim))
    order[i], order[j] = order[j], order[i]
    return tuple(order)


# -- dtypes ------------------------------------------------------------------------------------------------------------


def cast(sweep, e, x, dtype=None):
    """Leave a cast to the dtype that is there, and a cast to a wider one on the way."""
    if x.__class__ is not Symbol:
        return None
    if alike(x, e.output):
        return stands_for(sweep, x, e) if x.shape else (x,)
    made = sweep.maker(x, cast_to)
    inner = made.inputs[0] if made is not None else None
    if inner.__class__ is not Symbol or inner.dtype.__class__ is type or inner.dtype.kind not in "fc":
        return None
    if x.dtype.kind not in "fc" or not np.can_cast(inner.dtype, x.dtype, "safe"):
        return None
    return call(e, cast_to, inner, dtype=dtype)


def real_of_real(sweep, e, x):
    """Leave the real part of what is real: the function returns its operand."""
    return (x,) if x.__class__ is Symbol and alike(x, e.output) else None


# -- parts of arrays ---------------------------------------------------------------------------------------------------


def plain(index):
    """Tell whether a subscript is made of numbers and slices: it names no entry twice, and depends on no input."""
    parts = index if index.__class__ is tuple else (index,)
    return all(p is None or p is Ellipsis or p.__class__ is slice or p.__class__ is int for p in parts)


def same_index(a, b):
    """Tell whether two subscripts of numbers and slices name the same entries."""
    return plain(a) and plain(b) and key_of(a) == key_of(b)


def read_back(sweep, e, x, index=None):
    """Rewrite a part of what was just put in that place as what was put there."""
    for fun, place in ((scatter, 0), (put, 1)):
        made = sweep.maker(x, fun)
        if made is not None and same_index(made.params.get("index"), index):
            v = made.inputs[place]
            if v.__class__ is Symbol and sweep.by_rows(v):
                return stands_for(sweep, v, e)
    return None


def put_again(sweep, e, x, v, index=None):
    """Rewrite a write over what was put in that place before: into zeros it is the only one."""
    made = sweep.maker(x, scatter)
    if made is not None and same_index(made.params.get("index"), index) and fits(v, e.output.dtype):
        return call(e, scatter, v, index=index, shape=e.output.shape, dtype=e.output.dtype)
    made = sweep.maker(x, put)
    if made is not None and same_index(made.params.get("index"), index):
        return call(e, put, made.inputs[0], v, index=index)
    return None


def fits(v, dtype):
    """Tell whether `scatter` takes the value `v` of a write."""
    return v.__class__ is Symbol and v.dtype.__class__ is not type and v.dtype == dtype


def sum_of_scatters(sweep, e, a, b):
    """Rewrite a sum of two values, each put into zeros at one place, as the sum put there."""
    p, q = sweep.maker(a, scatter), sweep.maker(b, scatter)
    if p is None or q is None or not alike(a, b) or not alike(a, e.output):
        return None
    v, w = p.inputs[0], q.inputs[0]
    if not same_index(p.params.get("index"), q.params.get("index")) or v.__class__ is not Symbol:
        return None
    if w.__class__ is not Symbol or not alike(v, w) or not fits(v, a.dtype):
        return None
    total = sweep.emit(e, np.add, v, w)
    return call(e, scatter, total, **p.params)


# -- choices -----------------------------------------------------------------------------------------------------------


def chosen(sweep, e, mask, x):
    """Leave a choice that takes everything."""
    return stands_for(sweep, x, e) if all_true(sweep, mask) else None


def where(sweep, e, condition, *operands):
    """Leave a choice between a value and itself, and one that takes all of the first."""
    if not operands:  # it gives the places where the condition holds
        return None
    x, y = operands
    if x is y or all_true(sweep, condition):
        return stands_for(sweep, x, e) if e.output.shape else None
    return None


def all_true(sweep, mask):
    """Tell whether a mask is known to be true throughout."""
    if mask.__class__ is Symbol:
        return mask in sweep.fixed and mask.dtype == np.dtype(bool) and bool(sweep.constants[mask].all())
    return mask is True or (isinstance(mask, np.bool_) and bool(mask))


# fmt: off
TABLE = {
    sum_to:              (same_shape,),
    spread_to:           (spread_to_same,),
    np.broadcast_to:     (spread_to_same,),
    np.reshape:          (reshaped,),
    np.ravel:            (reshaped,),
    flatten:             (reshaped,),
    np.transpose:        (transposed,),
    np.swapaxes:         (swapped,),
    np.matrix_transpose: (matrix_transposed,),
    cast_to:             (cast,),
    real_part:           (real_of_real,),
    getitem:             (read_back,),
    put:                 (put_again,),
    choose:              (chosen,),
    np.where:            (where,),
}
# fmt: on
