"""Reading parts of arrays, and the primitives behind writing them: `getitem`, `scatter`, `put`."""

import functools

import numpy as np

from chainrule.engine import cotangent, level
from chainrule.engine.boxed import Boxed, holds_box, known, value
from chainrule.engine.cotangent import Scatter
from chainrule.engine.dispatch import array_of, dispatch
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.rule import Rule
from chainrule.engine.spec import Spec, primitive, shape_of, spec_of, tangent_like
from chainrule.engine.tape import Node, tick
from chainrule.engine.variable import Variable
from chainrule.engine.views import note_view, noted

GETITEM = [None]  # set by chainrule.rules.primitives: the rule of `getitem`
_new = object.__new__


@primitive
def getitem(x, index):
    """Return ``x[index]``."""
    return x[index]


@primitive
def scatter(v, index, shape, dtype):
    """Return zeros of `shape` with `v` added at `index`; entries that `index` names twice receive both."""
    dtype = dtype or np.dtype(type(v))
    if not may_repeat(index):
        out = np.zeros(shape, dtype)
        out[index] = v
        return out
    where = positions_of(index, shape)
    return add_up(where, np.broadcast_to(v, where.shape), shape, dtype)


@primitive
def put(x, v, index):
    """Return a copy of `x` with ``[index]`` set to `v`: the write ``x[index] = v``."""
    y = np.array(x)
    y[index] = v
    return y


@primitive
def picked(x, where):
    """Return the entries of `x` at the flat positions `where`, which may differ between the runs of a batch."""
    return x.reshape(-1)[where]


@primitive
def unpicked(v, where, shape):
    """Return zeros of `shape` with `v` added at the flat positions `where`."""
    where = np.asarray(where)
    return add_up(where, v, shape, getattr(v, "dtype", None) or np.dtype(type(v)))


def add_up(where, v, shape, dtype):
    """Sum the values `v` into an array of `shape` at the flat positions `where`."""
    size = 1
    for n in shape:
        size *= n
    where, v = where.ravel(), np.asarray(v).ravel()
    if v.dtype.kind == "c":
        flat = np.bincount(where, v.real, size) + 1j * np.bincount(where, v.imag, size)
    elif v.dtype == np.longdouble:
        flat = np.zeros(size, v.dtype)
        np.add.at(flat, where, v)
    else:
        flat = np.bincount(where, v, size)
    return flat.reshape(shape).astype(dtype, copy=False)


def add_at(x, index, v):
    """Add `v` into the plain array `x` at `index`, in place; repeated entries add up."""
    if may_repeat(index):
        np.add.at(x, index, v)
    else:
        x[index] += v


def may_repeat(index):
    """Tell whether `index` may name an entry twice: only integer arrays (or lists) can."""
    kind = index.__class__
    if kind is int or kind is slice or index is None or index is Ellipsis:
        return False
    if kind is tuple:
        return any(may_repeat(i) for i in index)
    if isinstance(index, np.integer | np.bool_ | int):
        return False
    if isinstance(index, Boxed):
        return index.shape != ()
    return np.asarray(index).dtype.kind != "b"


def positions_of(index, shape):
    """Return the flat position of each entry that ``x[index]`` reads, for `x` of `shape`."""
    size = 1
    for n in shape:
        size *= n
    return np.arange(size).reshape(shape)[index]


@functools.lru_cache(512)
def _positions(fun, shape, params):
    size = 1
    for n in shape:
        size *= n
    return fun(np.arange(size).reshape(shape), **dict(params))


def positions(fun, shape, params):
    """Return the flat position in the argument of each entry of ``fun``'s result; those of small arrays are kept."""
    key = tuple(params.items())
    size = 1
    for n in shape:
        size *= n
    if size > 4096:
        return _positions.__wrapped__(fun, shape, key)
    try:
        return _positions(fun, shape, key)
    except TypeError:  # an argument that can't be hashed
        return _positions.__wrapped__(fun, shape, key)


def adjoint_by_positions(fun):
    """Return the adjoint of a function that only moves elements, from the function itself run on positions."""

    def adjoint(ybar, y, x, **params):
        where = positions(fun, x.shape, params)
        return scatter(ybar.reshape(-1), where.reshape(-1), (x.size,), x.dtype).reshape(x.shape)

    return adjoint


def written(index, shape):
    """Return which entries of a write ``x[index] = v`` are final (of repeated ones the last wins); None for all."""
    if not may_repeat(index):
        return None
    mask = final_entries(index, shape)
    return None if not isinstance(mask, Boxed) and mask.all() else mask


@primitive
def final_entries(index, shape):
    """Return which entries of a write ``x[index] = v`` are final."""
    where = positions_of(index, shape)
    last = np.full(int(np.prod(shape)), -1)
    order = np.arange(where.size).reshape(where.shape)
    last[where.ravel()] = order.ravel()
    return last[where] == order


# -- the subscript -------------------------------------------------------------------------------------------


def frozen(index):
    """Return an index that the user's later writes to its arrays can't change."""
    kind = index.__class__
    if kind is int or kind is slice:
        return index
    if kind is tuple:
        return tuple([frozen(i) for i in index])
    if isinstance(index, Boxed):
        plain = value(index)
        if isinstance(plain, Boxed):
            if plain.recorded and plain.dtype.kind in "iu":  # a program computes it anew
                return plain
            if plain.recorded and plain.dtype.kind == "b":  # what it reads has as many entries as the mask
                return known(plain)
            plain.item()  # of a batch: stops its run
        raise IndexError("a traced value can't be an index: take  chainrule.value(i).astype(int)")
    if isinstance(index, np.ndarray):
        return index.copy()
    if isinstance(index, list):
        if holds_box(index):
            return frozen(array_of(index))
        return np.asarray(index) if index else np.zeros(0, int)
    return index


def positions_of_runs(index, shape):
    """Return the flat positions that a subscript with arrays of integers of a batch names in each run, as a batch.

    None for all other subscripts. For the runs' own arrays, with the batch axis in front, and all others together NumPy
    puts one block of axes into the result: in the place of the first of them, or in front if a slice stands between.
    """
    parts = index if index.__class__ is tuple else (index,)
    runs = [value(p) for p in parts if isinstance(p, Boxed)]
    if not runs:
        return None
    first = runs[0]
    for p in runs:
        if not isinstance(p, Boxed) or not p.batch or p.level != first.level or p.data.__class__ is not np.ndarray:
            return None
        if p.data.dtype.kind not in "iu":
            return None
    spelled = spelled_out(parts, len(shape))
    if spelled is None:
        return None
    arrays = [p for p in spelled if not (p is None or p.__class__ is slice)]
    rank = max(len(p.shape) if isinstance(p, Boxed) else np.ndim(p) for p in arrays)
    lined, places = [], []
    for k, p in enumerate(spelled):
        if isinstance(p, Boxed):
            p = value(p).data
            p = p.reshape(p.shape[:1] + (1,) * (rank + 1 - p.ndim) + p.shape[1:])
        if not (p is None or p.__class__ is slice):
            places.append(k)
        lined.append(p)
    together = places[-1] - places[0] == len(places) - 1
    box = first.alias()
    box.data = np.moveaxis(positions_of(tuple(lined), shape), places[0] if together else 0, 0)
    return box


def spelled_out(parts, rank):
    """Return the parts of a subscript with slices for what it leaves out, and integers for masks; None if it is odd."""
    spelled, gap = [], None
    for p in parts:
        if p is Ellipsis:
            gap = len(spelled)
        elif isinstance(p, bool | np.bool_):
            return None
        elif isinstance(p, np.ndarray | list):
            p = np.asarray(p)
            spelled += p.nonzero() if p.dtype.kind == "b" else [p]
        else:
            spelled.append(p)
    left = rank - sum(p is not None for p in spelled)
    if left < 0:
        return None
    gap = len(spelled) if gap is None else gap
    return [*spelled[:gap], *[slice(None)] * left, *spelled[gap:]]


def by_numbers(x, index):
    """Stands for reading a view by numbers of each run: run again, after a write, it stops the runs of the batch."""
    index.item()


BY_NUMBERS = Rule(by_numbers, "gather", 1)


def read_runs(x, index):
    """Return ``x[index]`` for arrays of integers of a batch in `index`; None for all other subscripts.

    Where that is a view in each run, a later write to it or to `x` stops the batch.
    """
    where = positions_of_runs(index, shape_of(x))
    if where is None:
        return None
    y = picked(x, where)
    parts = index if index.__class__ is tuple else (index,)
    numbers = all(isinstance(p, int | np.integer) or shape_of(p) == () for p in parts if named(p))
    if numbers and isinstance(x, Boxed) and (len(parts) < len(x.shape) or not all(map(named, parts))):
        note_view(y, x, BY_NUMBERS, {"index": value(next(p for p in parts if isinstance(p, Boxed)))})
    return y


def named(part):
    """Tell whether a part of a subscript is a number or an array."""
    return not (part is None or part is Ellipsis or part.__class__ is slice)


def _getitem_pull(ybar, saved):
    return (Scatter(ybar, saved[2], saved[1]),)


def opened_read(x, index):
    """Return ``x[index]`` of a box by reading its parts, without a dispatched call; None where that takes more."""
    if level.paused:
        return None
    kind, data = x.__class__, x.data
    if kind is Dual and data.__class__ is np.ndarray:
        part = data[index]
        tangent = x.aux
        dot = opened_read(tangent, index) if isinstance(tangent, Boxed) and tangent.batch else None  # a view of no name
        return make_dual(part, tangent_like(tangent[index] if dot is None else dot, part), x.level)
    if kind is Variable and data.__class__ is Dual:
        part = data[index]
        n = Node((x.aux,), _getitem_pull, (None, spec_of(data), index), GETITEM[0])
        return Variable(part, n, x.level)
    if kind.batch and data.__class__ is np.ndarray and (index.__class__ is int or index.__class__ is slice):
        part = x.alias()
        part.data, part.aux = data[:, index], None
        return part
    return None


def read(x, index):
    """Return ``x[index]`` of a box: its `__getitem__`."""
    if index.__class__ is not int and index.__class__ is not slice:
        y = read_runs(x, index)
        if y is not None:
            return y
        index = frozen(index)
    if x.__class__ is Variable and x.data.__class__ is np.ndarray and not level.paused:
        data = x.data
        part = data[index]
        n = _new(Node)
        n.parents = (x.aux,)
        n.pull = _getitem_pull
        dtype = data.dtype
        n.saved = (None, Spec(data.shape, dtype, dtype.kind), index)
        n.rule = GETITEM[0]
        n.serial = tick()
        y = _new(Variable)
        y.data = part
        y.aux = n
        y.level = x.level
        if part.__class__ is np.ndarray:
            base = part.base
            if base is not None and (base is data or base is data.base):
                note_view(y, x, GETITEM[0], {"index": index})
        return y
    y = opened_read(x, index)
    if y is not None:
        return noted(y, x, GETITEM[0], {"index": index})
    return noted(dispatch(GETITEM[0], (x,), {"index": index}), x, GETITEM[0], {"index": index})


cotangent.SCATTER[0] = scatter
cotangent.ADD_AT[0] = add_at
