"""Derivative rules of the functions that read entries by index, and the functions that write them.

A reading function is a subscript: its cotangent is added up at the places read. A writing function writes through the
engine's subscript when its destination is traced. A plain destination would lose the derivative, and raises.
"""

import inspect
import sys

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from chainrule.engine import calls
from chainrule.engine.boxed import Boxed, all_values, array_value, value
from chainrule.engine.indexing import frozen, getitem, positions_of_runs, read_runs, scatter, unpicked
from chainrule.engine.rule import composite, constant
from chainrule.engine.spec import shape_of
from chainrule.engine.writes import overlaps, rebind, seen_in, write
from chainrule.errors import InPlaceError, OutArgumentError
from chainrule.rules.shapes import by_rows, laid_like

# -- reading ---------------------------------------------------------------------------------------------------


@composite(np.take)
def take(a, indices, axis=None, out=None, mode="raise"):
    """Read the entries, or along an axis the slices, at `indices`."""
    if out is not None:
        raise OutArgumentError("numpy.take")
    x = np.ravel(a) if axis is None or not shape_of(a) else a  # NumPy gives a number an axis
    k = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    return by_rows(subscript(x, (slice(None),) * k + (_indices(indices, x.shape[k], mode),)))


def subscript(x, index):
    """Return ``x[index]``, where `x` may be plain and `index` hold integers of a batch, or of a program."""
    if isinstance(x, Boxed):
        return x[index]
    y = read_runs(x, index)
    return getitem(x, index) if y is None else y


def _indices(indices, n, mode):
    """Return indices into an axis of length `n` that a subscript understands."""
    i = array_value(indices)
    if i.dtype.kind == "b" or not i.size:
        i = i.astype(int)
    if i.dtype.kind not in "iu":
        raise TypeError(f"Cannot cast array data from {i.dtype!r} to dtype('int64') according to the rule 'safe'")
    if mode == "wrap":
        i = i % n
    elif mode == "clip":
        i = i.clip(0, n - 1)
    return i if i.ndim or isinstance(i, Boxed) else int(i)


def along_axis(indices, shape, axis):
    """Return the subscript that reads `indices` along `axis`, and the same places along all others."""
    indices = array_value(indices)
    if indices.ndim != len(shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    index = []
    for i, n in enumerate(shape):
        index.append(indices if i == axis else np.arange(n).reshape([-1 if j == i else 1 for j in range(len(shape))]))
    return tuple(index)


@composite(np.take_along_axis)
def take_along_axis(arr, indices, axis=-1):
    """Read one entry per entry of `indices`."""
    x = np.ravel(arr) if axis is None else arr
    k = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    return subscript(x, along_axis(value(indices), x.shape, k))


@composite(np.compress)
def compress(condition, a, axis=None, out=None):
    """Read the slices where the condition holds."""
    return np.take(a, np.flatnonzero(value(condition)), axis, out)


@composite(np.extract)
def extract(condition, arr):
    """Read the entries where the condition holds."""
    return np.ravel(arr)[np.flatnonzero(value(condition))]


@composite(np.choose)
def choose(a, choices, out=None, mode="raise"):
    """Take each entry from the choice whose number is there."""
    if out is not None:
        raise OutArgumentError("numpy.choose")
    parts = [c if hasattr(c, "shape") else np.asarray(c) for c in choices]
    number = array_value(a)
    shape = np.broadcast_shapes(number.shape, *[shape_of(c) for c in parts])
    which = np.broadcast_to(_indices(number, len(parts), mode), shape)
    known = all_values(which)
    if known.size and not (known.min() >= 0 and known.max() < len(parts)):
        raise ValueError("invalid entry in choice array")
    return subscript(np.stack([np.broadcast_to(c, shape) for c in parts]), (which, *np.indices(shape, sparse=True)))


# -- order: a sorted array is the same elements, in the order of their values ----------------------------------


@composite(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """Sort; of equal elements the first in `a` comes first."""
    x = np.ravel(a) if axis is None else a
    k = -1 if axis is None else axis
    return laid_like(np.take_along_axis(x, np.argsort(value(x), axis=k, kind="stable", order=order), k), x)


@composite(np.sort_complex)
def sort_complex(a):
    """Sort a flat array, or the last axis, as complex numbers."""
    y = np.sort(a)
    if y.dtype.kind == "c":
        return y
    return y.astype(np.clongdouble if y.dtype == np.longdouble else complex)


@composite(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """Sort as far as the element `kth`."""
    x = np.ravel(a) if axis is None else a
    k = -1 if axis is None else axis
    before = value(x)
    after = np.partition(before, kth=value(kth), axis=k, kind=kind, order=order)
    rank = np.argsort(np.argsort(after, axis=k, kind="stable"), axis=k)  # argpartition may leave another order
    where = np.take_along_axis(np.argsort(before, axis=k, kind="stable"), rank, k)
    return laid_like(np.take_along_axis(x, where, k), x)


FULL_LIKE = inspect.unwrap(np.full_like).__code__

# -- writing ---------------------------------------------------------------------------------------------------


def destination(x, name):
    """Return `x`, which is to be written to, if it can hold a derivative."""
    if isinstance(x, Boxed):
        return x
    if name == "np.copyto" and filling():
        raise InPlaceError(
            "np.full_like of a plain array makes a plain array, which can't hold the derivative of its fill value.",
            "make the array like the value:  a = np.full(shape, value, like=value);",
            "if it is not written to:  a = np.broadcast_to(value, shape).",
        )
    raise InPlaceError(
        f"{name} would write traced values into a plain array, which can't hold their derivative.",
        "make the array a traced one:  a = np.zeros(n, like=x)  or  a = np.array(a, like=x);",
        "make it with chainrule.numpy:  a = chainrule.numpy.zeros(n).",
    )


def filling():
    """Tell whether a call of NumPy's own `full_like` is on the stack: it is written with `copyto`."""
    frame = sys._getframe()
    while frame is not None and frame.f_code is not FULL_LIKE:
        frame = frame.f_back
    return frame is not None


def write_flat(x, where, v):
    """Write `v`, used over and over, to the entries of `x` at the flat positions `where`."""
    v = np.ravel(v) if hasattr(v, "shape") else np.asarray(v).ravel()
    if not where.size:
        return
    if v.size == 0:
        raise ValueError("cannot write from an empty array")
    write(x, np.unravel_index(where, x.shape), v[np.arange(where.size) % v.size])


@composite(np.put)
def put(a, ind, v, mode="raise"):
    """Write to flat positions."""
    x = destination(a, "np.put")
    where = np.asarray(value(ind)).ravel()
    n = x.size
    if mode == "raise" and where.size and not (-n <= where.min() and where.max() < n):
        raise IndexError(f"an index is out of bounds for size {n}")
    where = where.clip(0, n - 1) if mode == "clip" else where % n if where.size else where.astype(int)
    write_flat(x, where, v)


@composite(np.place)
def place(arr, mask, vals):
    """Write the values in turn where the mask holds."""
    write_flat(destination(arr, "np.place"), np.flatnonzero(value(mask)), vals)


@composite(np.putmask)
def putmask(a, mask, values):
    """Write, where the mask holds, the value of the same place."""
    x = destination(a, "np.putmask")
    v = np.ravel(values)
    where = np.flatnonzero(value(mask))
    if where.size:
        write(x, np.unravel_index(where, x.shape), v[where % v.size])


@composite(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    """Write all entries, or those where a mask holds."""
    x = destination(dst, "np.copyto")
    given = src if hasattr(src, "dtype") else np.asarray(src)
    if not isinstance(src, int | float | complex) and not np.can_cast(given.dtype, x.dtype, casting):
        raise TypeError(f"Cannot cast from {given.dtype!r} to {x.dtype!r} according to the rule {casting!r}")
    if where is True:
        write(x, Ellipsis, src)
    else:
        mask = np.broadcast_to(np.asarray(value(where), bool), x.shape)
        extra = len(given.shape) - x.ndim
        if extra > 0 and set(given.shape[:extra]) == {1}:
            src = given.reshape(given.shape[extra:])
        write(x, mask, np.broadcast_to(src, x.shape)[mask])


@composite(np.put_along_axis)
def put_along_axis(arr, indices, values, axis=-1):
    """Write one entry per entry of `indices`."""
    x = destination(arr, "np.put_along_axis")
    indices = array_value(indices)
    if axis is None:
        write_flat_as(x, indices, values)
    else:
        write(x, along_axis(indices, x.shape, normalize_axis_index(axis, x.ndim)), values)


def write_flat_as(x, indices, values):
    """Write at flat positions, with NumPy's broadcasting of a subscript."""
    write(x, np.unravel_index(indices % x.size, x.shape), values)


@composite(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    """Write to the diagonal."""
    x = destination(a, "np.fill_diagonal")
    mark = np.zeros(x.shape, bool)
    np.fill_diagonal(mark, True, wrap)
    write_flat(x, np.flatnonzero(mark), val)


def add_at(ufunc):
    """Return ``ufunc.at`` for addition or subtraction: repeated indices add up."""

    def at(x, index, v):
        x = destination(x, f"np.{ufunc.__name__}.at")
        where = positions_of_runs(index, x.shape) if x.dtype.kind in "fc" and not overlaps(x) else None
        if where is not None:
            x.refuse_write()
            part = np.broadcast_to(v, where.shape) if shape_of(v) != where.shape else v
            rebind(x, ufunc(x, unpicked(part, where, shape=x.shape)))
            return
        index = frozen(index)
        x.refuse_write()
        if overlaps(x):
            x, where = seen_in(x)
            index = np.unravel_index(where[index], x.shape)
        shape = np.broadcast_to(np.int8(0), x.shape)[index].shape
        part = np.broadcast_to(v, shape) if shape_of(v) != shape else v
        rebind(x, ufunc(x, scatter(part, index, x.shape, x.dtype)))

    return at


calls.UFUNC_METHODS[np.add, "at"] = add_at(np.add)
calls.UFUNC_METHODS[np.subtract, "at"] = add_at(np.subtract)


# -- functions of the shape or the order, whose results have no derivative --------------------------------------

# fmt: off
constant(np.argmax, np.argmin, np.nanargmax, np.nanargmin)
constant(np.argsort, np.argpartition, np.lexsort, np.searchsorted, np.digitize)
constant(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from)
constant(np.argwhere, np.nonzero, np.flatnonzero, np.count_nonzero)
constant(np.einsum_path)
constant(np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.min_scalar_type, np.common_type)
constant(np.iscomplexobj, np.isrealobj, np.shares_memory, np.may_share_memory)
constant(np.array_equal, np.array_equiv, np.allclose, np.isclose)
constant(np.array_repr, np.array_str, np.array2string)
# fmt: on
