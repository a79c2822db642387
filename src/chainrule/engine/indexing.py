"""Reading and writing parts of arrays: the primitives behind ``x[i]``, ``x[i] = v`` and ``x += v``.

A box is a name for a value. A write makes a new value (`put`) and rebinds the name to it; recorded history is never
rewritten. A box that was read off another as a view remembers it and how, so that ``row = x[0]; row += 1`` reaches
``x``; a base knows its live views by weak references, and reads them anew after a write.
"""

import functools
import weakref

import numpy as np

from chainrule.engine import cotangent, level
from chainrule.engine.boxed import Boxed, dispatch, value
from chainrule.engine.cotangent import Scatter
from chainrule.engine.spec import Spec, cast_to, primitive, shape_of
from chainrule.engine.tape import Node, tick
from chainrule.engine.variable import Variable

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
    where = positions_of(index, shape)
    last = np.full(int(np.prod(shape)), -1)
    order = np.arange(where.size).reshape(where.shape)
    last[where.ravel()] = order.ravel()
    mask = last[where] == order
    return None if mask.all() else mask


# -- the subscript -------------------------------------------------------------------------------------------


def frozen(index):
    """Return an index that the user's later writes to its arrays can't change."""
    kind = index.__class__
    if kind is int or kind is slice:
        return index
    if kind is tuple:
        return tuple([frozen(i) for i in index])
    if isinstance(index, Boxed):
        raise IndexError("a traced value can't be an index: take  chainrule.value(i).astype(int)")
    if isinstance(index, np.ndarray):
        return index.copy()
    if isinstance(index, list):
        return np.asarray(index) if index else np.zeros(0, int)
    return index


def _getitem_pull(ybar, saved):
    return (Scatter(ybar, saved[2], saved[1]),)


def read(x, index):
    """Return ``x[index]`` of a box: its `__getitem__`."""
    if index.__class__ is not int and index.__class__ is not slice:
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
    y = dispatch(GETITEM[0], (x,), {"index": index})
    part = value(y)
    if part.__class__ is np.ndarray and is_view(part, value(x)):
        note_view(y, x, GETITEM[0], {"index": index})
    return y


def is_view(part, data):
    """Tell whether the array `part`, read off `data`, is a view of it (a copy may have a base of its own)."""
    base = part.base
    return base is not None and (base is data or base is data.base)


GETITEM = [None]  # set by chainrule.rules.primitives: the rule of `getitem`


def note_view(view, base, rule, params):
    """Remember that `view` shows what ``rule`` reads off `base`."""
    view.base = (base, rule, params)
    views = getattr(base, "views", None)
    if views is None:
        base.views = [weakref.ref(view)]
    else:
        n = len(views)
        if n >= 32 and n & (n - 1) == 0:  # at powers of two only, so that many live views cost no more each than few
            views[:] = [v for v in views if v() is not None]
        views.append(weakref.ref(view))


def noted(y, x, rule, params):
    """Return `y`, which `rule` made of `x` by moving elements; if NumPy made it a view of `x`, it remembers that."""
    a, b = y.data, x.data
    if isinstance(a, Boxed):
        a, b = value(a), value(b)
    if a is b:
        return x  # NumPy gave the very array back: the same name
    if a.__class__ is np.ndarray and b.__class__ is np.ndarray and is_view(a, b):
        note_view(y, x, rule, params)
    return y


def write(x, index, v):
    """Do ``x[index] = v`` on a box: its `__setitem__`."""
    index = frozen(index)
    check_writeable(x)
    if not shape_of(x) and index != () and index is not Ellipsis:
        raise IndexError("too many indices for a 0-d array")
    if getattr(v, "base", None) is not None and isinstance(v, Boxed) and _shows(v, x, index):
        return  # `x[i] += a`: the view has written itself to x already
    if isinstance(v, Boxed):
        v = v.alias()
    elif v.__class__ is np.ndarray:
        v = v.copy()
    rebind(x, put(x, cast_like(v, x), index))


def check_writeable(x):
    """Raise if `x` may not be changed in place: a recorded input, or what NumPy made read-only."""
    x.refuse_write()
    data = value(x)
    if data.__class__ is np.ndarray and not data.flags.writeable:
        raise ValueError("assignment destination is read-only")


def _shows(view, x, index):
    base, rule, params = view.base
    return base is x and rule is GETITEM[0] and _same_index(params["index"], index)


def _same_index(a, b):
    if a.__class__ is tuple or b.__class__ is tuple:
        return (
            a.__class__ is b.__class__
            and len(a) == len(b)
            and all(_same_index(p, q) for p, q in zip(a, b, strict=True))
        )
    return a.__class__ is b.__class__ and a.__class__ in (int, slice, type(None), type(Ellipsis)) and a == b


def cast_like(v, x):
    """Give a traced value that is written into `x` the dtype of `x`, as NumPy does."""
    if not isinstance(v, Boxed) or v.dtype == x.dtype:
        return v
    if v.dtype.kind == "c" and x.dtype.kind == "f":
        raise TypeError("a complex value can't be written into a real array: write np.real(v)")
    return cast_to(v, x.dtype)


WRITE_BACK = {}  # set by chainrule.rules: for views that show a part of each entry, (array, new part) -> new array


def rebind(x, new):
    """Make the name `x` stand for the value `new`: what every write comes down to.

    A view writes to the array it shows. Whatever shows a part of the changed array, `x` itself included if it is a
    view, is read off it anew, so that all names agree, as in NumPy.
    """
    if not isinstance(new, Boxed):
        raise TypeError("a write must give a traced value")
    base = getattr(x, "base", None)
    if base is not None:
        owner, rule, params = base
        check_writeable(owner)
        back = WRITE_BACK.get(rule.fun)
        if back is not None:
            rebind(owner, back(owner.alias(), new.alias()))
            return x
        rebind(owner, put(owner, new.alias(), places(rule, shape_of(owner), params)))
    elif x.__class__ is Variable and x.is_input and x.level != int(x.level):  # an input, under no_grad
        x.data = new.data
        renew(x, recorded=True)
    else:
        x.become(new)
        renew(x)
    return x


def renew(x, recorded=False):
    """Read the live views of `x` anew. Views of an input keep their node: what it says of them still holds."""
    views = getattr(x, "views", None)
    if views is None:
        return
    x.views = [v for v in views if v() is not None] or None
    for ref in x.views or ():
        view = ref()
        if view is None:
            continue
        _, rule, params = view.base
        if recorded:
            view.data = rule.apply((x.data,), params)
        else:
            view.become(dispatch(rule, (x,), params))
        renew(view, recorded)


def places(rule, shape, params):
    """Return the subscript that names, in an array of `shape`, the entries that the view ``rule(array)`` shows."""
    if rule is GETITEM[0]:
        return params["index"]
    return np.unravel_index(positions(rule.fun, shape, params), shape)


def in_place(plain, name):
    """Return the in-place operator of the plain one of that name: `x += v` as `x = x + v` under the same name.

    On a number it makes a new name, on an array all names of the array see the change, as in NumPy.
    """

    def operator(x, other):
        call = getattr(Boxed, plain)
        inner = value(x)
        if inner.__class__ is not np.ndarray:
            x.refuse_write()
            if x.__class__ is not Variable or not x.is_input or x.level == int(x.level):
                return call(x, other)
        check_writeable(x)
        if isinstance(other, Boxed) and other is not x:
            other = other.alias()
        new = call(x, other)
        if new is NotImplemented:
            return new
        if new.shape != x.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast shape {new.shape}"
            )
        if new.dtype != x.dtype:
            if not np.can_cast(new.dtype, x.dtype, "same_kind"):
                raise TypeError(
                    f"Cannot cast {name} output from {new.dtype!r} to {x.dtype!r} with casting rule 'same_kind'"
                )
            new = cast_to(new, x.dtype)
        return rebind(x, new)

    operator.__name__ = name
    return operator


cotangent.SCATTER[0] = scatter
cotangent.ADD_AT[0] = add_at
