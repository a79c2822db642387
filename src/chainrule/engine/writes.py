"""Writing to arrays in place: ``x[i] = v``, ``x += v``, and whatever else NumPy writes to.

A box is a name for a value. A write makes a new value by a recorded operation, `put`, and rebinds the name to it;
recorded history is never rewritten. A view writes through to what it shows (`chainrule.engine.views`).

The new value need not be a new array: where nobody but the box holds its array (no residual, no view, no user), the
entries are changed in that array. So a loop that fills an array entry by entry takes time in proportion to what it
writes, forward and backward (see `put_pull`), and the array is copied once at most before it.
"""

from sys import getrefcount

import numpy as np

from chainrule.engine import cotangent, level
from chainrule.engine.batched import Batched
from chainrule.engine.boxed import Boxed, all_values, holds_box, value
from chainrule.engine.buffer import Buffer, buffer
from chainrule.engine.cotangent import Accumulator
from chainrule.engine.dispatch import PLAIN, array_of
from chainrule.engine.dual import Dual
from chainrule.engine.held import is_held
from chainrule.engine.indexing import (
    GETITEM,
    add_up,
    frozen,
    may_repeat,
    positions,
    positions_of,
    positions_of_runs,
    put,
    scatter,
    unpicked,
)
from chainrule.engine.rule import RULES
from chainrule.engine.spec import cast_to, fit, shape_of, spec_of, spread_to, sum_to
from chainrule.engine.tape import Node
from chainrule.engine.variable import Variable
from chainrule.engine.views import expire, live_views
from chainrule.errors import InPlaceError, OutArgumentError

WRITE_BACK = {}  # set by chainrule.rules: for views that show a part of each entry, (array, new part) -> new array
OVERLAPPING = set()  # set by chainrule.rules: functions whose views show an entry several times


OWNERS = frozenset({Batched, Buffer, Dual, Variable})  # boxes whose array may be changed; a Program records writes


def write(x, index, v):
    """Do ``x[index] = v`` on a box: its `__setitem__`."""
    kind = index.__class__
    if kind is not int and kind is not slice and written_in_runs(x, index, v):
        return
    index = frozen(index)
    check_writeable(x)
    if isinstance(v, list | tuple):
        v = array_of(v)
    if isinstance(v, Boxed):
        if getattr(v, "base", None) is not None and _shows(v, x, index):
            return  # `x[i] += a`: the view has written itself to x already
        v = cast_like(v.alias(), x)
    if overlaps(x):  # nothing but what `index` names is written
        owner, where = seen_in(x)
        write(owner, np.unravel_index(where[index], shape_of(owner)), v)
    elif not written_in_place(x, index, v):
        rebind(x, put(x, v, index))
        x.written = True


def written_in_runs(x, index, v):
    """Write at integers or a mask of a batch, which differ between the runs; tell whether `index` is such a one.

    A mask of a program is written at in the same way.
    A mask takes one value for all entries; numbers that name an entry twice, or integers written, are left to a loop.
    """
    mask = value(index)
    if isinstance(mask, Boxed) and mask.dtype.kind == "b":
        complex_too = x.dtype.kind == "c" or np.result_type(spec_of(v).dtype or type(v)).kind != "c"
        if mask.shape != shape_of(x) or shape_of(v) != () or not complex_too:
            return False
        check_writeable(x)
        new = np.where(mask, cast_like(v, x), x.alias())
        rebind(x, new if new.dtype == x.dtype else new.astype(x.dtype))
        return True
    where = positions_of_runs(index, shape_of(x)) if x.dtype.kind in "fc" else None
    if where is None or not len(where.data):
        return False
    check_writeable(x)
    flat = where.data.reshape(len(where.data), -1)
    flat = flat + np.arange(len(flat))[:, None] * x.size
    hits = add_up(flat, np.ones(flat.shape), (len(flat), *x.shape), np.dtype(float))
    if (hits > 1).any():
        return False
    hit = where.alias()
    hit.data = hits > 0
    v = array_of(v) if isinstance(v, list | tuple) else v
    v = cast_like(v.alias(), x) if isinstance(v, Boxed) else np.asarray(v).astype(x.dtype)
    extra = len(shape_of(v)) - len(where.shape)
    v = v.reshape(shape_of(v)[extra:]) if extra > 0 else v
    new = unpicked(np.broadcast_to(v, where.shape), where, shape=shape_of(x))
    rebind(x, np.where(hit, new, x.alias()))
    return True


def overlaps(x):
    """Tell whether `x` is a view, or a view of one, that shows entries several times."""
    base = getattr(x, "base", None)
    while base is not None:
        owner, rule, _ = base
        if rule.fun in WRITE_BACK:
            return False
        if rule.fun in OVERLAPPING:
            return True
        base = getattr(owner, "base", None)
    return False


def seen_in(x):
    """Return the array that a view shows in the end, and the flat position there of each entry of the view."""
    base = getattr(x, "base", None)
    if base is None or base[1].fun in WRITE_BACK:
        return x, positions_of(Ellipsis, shape_of(x))
    owner, rule, params = base
    root, where = seen_in(owner)
    return root, where.ravel()[positions(rule.fun, shape_of(owner), params)]


def written_in_place(x, index, v):
    """Write into the array (or the lower box) that `x` stands for, if nobody else holds it; tell whether."""
    if level.paused or getattr(x, "base", None) is not None or may_repeat(index):
        return False
    kind = x.__class__
    if kind not in OWNERS:
        return False
    node = tangent = None
    if v.__class__ in PLAIN:
        inner, tangent = v, 0.0
    elif not isinstance(v, Boxed):
        return False
    elif v.level < x.level:
        inner, tangent = (v.data if v.__class__ is Buffer else v), 0.0
    elif v.level == x.level and v.__class__ is kind:
        inner = v.data
        node = tangent = v.aux
    else:
        return False
    if index.__class__ is not int and not isinstance(x.data, Boxed) and holds_box((index,)):
        return False  # of a program: no plain array can be written to at a place that is recorded
    expire(x)
    if getrefcount(x.data) != SOLE or not takes(x.data, inner):
        return False
    if kind is Dual:
        if getrefcount(x.aux) != SOLE or not takes(x.aux, tangent):
            return False
        x.data[index] = inner
        x.aux[index] = tangent
    elif kind is Variable:
        spec = spec_of(x.data)
        x.data[index] = inner
        saved = (None, spec, None if node is None else spec_of(inner), index)
        x.aux = Node((x.aux, node), put_pull, saved, RULES[put])
    elif kind is Batched:
        if not written_in_all(x.data, index, inner, v.__class__ is Batched and v.level == x.level):
            return False
        x.aux = None
    else:
        x.data[index] = inner
    x.written = True
    return True


def written_in_all(data, index, v, mine):
    """Write into the array of all runs, if the subscript is of numbers and slices; tell whether.

    `mine` tells whether `v` has values of its own for each run, along its first axis.
    """
    index = index if index.__class__ is tuple else (index,)
    if data.__class__ is not np.ndarray or any(i.__class__ is not int and i.__class__ is not slice for i in index):
        return False
    part = data[(slice(None), *index)]
    rank = v.ndim if v.__class__ is np.ndarray else 0
    if rank != part.ndim if mine else rank >= part.ndim:
        return False
    part[...] = v
    return True


def takes(data, v):
    """Tell whether `v` can be written into `data`: any value into a box, a plain one into an array of its own."""
    if isinstance(data, Boxed):
        return changeable(data)
    return (
        data.__class__ is np.ndarray
        and data.base is None
        and data.ndim > 0
        and data.flags.writeable
        and not isinstance(v, Boxed)
    )


class _Probe:
    __slots__ = ("data",)


_probe = _Probe()
_probe.data = np.zeros(1)
SOLE = getrefcount(_probe.data)  # what it is for an array that a slot alone holds; Python versions differ


def put_pull(ybar, saved):
    """Pull a cotangent back through one write: what was overwritten gets zero, what was written gets its place's.

    Along a chain of writes one array is handed on, as an `Accumulator`: each write reads and clears its own entries.
    """
    _, spec, of_v, index = saved
    if ybar.__class__ is Accumulator:
        total = ybar
    elif not isinstance(ybar, Boxed):
        total = Accumulator(np.array(ybar), spec)  # of an array without axes it is a number
    elif ybar.__class__ is Variable and ybar.is_input:  # the user's seed, which is not to be written to
        total = Accumulator(+ybar, spec)
    else:
        total = Accumulator(ybar.alias(), spec)
    if index.__class__ is not int and holds_box((index,)):  # of a program: reads and writes there are recorded
        total.value = buffer(total.value)
    vbar = None
    if of_v is not None:
        part = total.value[index]
        vbar = part.copy() if part.__class__ is np.ndarray else part.alias() if isinstance(part, Boxed) else part
        vbar = fit(back_to(vbar, of_v.shape), of_v)
    total.value[index] = 0.0
    return total, vbar


put_pull.takes_sums = True


def back_to(vbar, shape):
    """Give the cotangent of what was written its shape: sum what was broadcast, put back leading axes of length 1."""
    have = shape_of(vbar)
    if have == shape:
        return vbar
    extra = len(shape) - len(have)
    vbar = sum_to(vbar, shape[extra:] if extra > 0 else shape)
    return vbar.reshape(shape) if extra > 0 else vbar


def add_into(x, index, v):
    """Return `x` with `v` added at `index`; `x` may be written to. Of boxed cotangents (`Accumulator`)."""
    if not isinstance(x, Boxed):
        x = buffer(x)
    if may_repeat(index):
        return x + scatter(v, index, x.shape, x.dtype)
    x[index] = x[index] + v
    return x


def check_writeable(x):
    """Raise if `x` may not be changed in place: a recorded input, or what NumPy made read-only.

    An array that a residual holds may: the box gets a new one.
    """
    x.refuse_write()
    if not changeable(x):
        raise ValueError("assignment destination is read-only")


def changeable(x):
    """Tell whether the array of a box may be written to, as far as NumPy is concerned."""
    data = all_values(x)
    return data.__class__ is not np.ndarray or data.flags.writeable or is_held(data)


def is_array(x):
    """Tell whether a box stands for an array, whose names all see a write, or for a number, which is replaced."""
    inner = value(x)
    return inner.__class__ is np.ndarray or (isinstance(inner, Boxed) and (inner.shape != () or hasattr(x, "base")))


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


def rebind(x, new):
    """Make the name `x` stand for the value `new`: what every write comes down to.

    A view writes to the array it shows, and is then read off it anew as all other views of it, so that all names agree,
    as in NumPy.
    """
    if not isinstance(new, Boxed):
        raise TypeError("a write must give a traced value")
    base = getattr(x, "base", None)
    if base is not None:
        owner, rule, params = base
        check_writeable(owner)
        back = WRITE_BACK.get(rule.fun)
        if back is not None:
            if overlaps(owner):
                raise InPlaceError(
                    f"{rule.name} of windows that overlap was written to.",
                    "write to the array that the windows show:  np.real(x)[...] = v.",
                )
            rebind(owner, back(owner.alias(), new.alias()))
            return x
        write(owner, params["index"] if rule is GETITEM[0] else places(rule, shape_of(owner), params), new)
    elif x.__class__ is Variable and x.is_input and x.level != int(x.level):  # an input, under no_grad
        x.data = new.data
        show_anew(x)
    else:
        x.become(new)
        expire(x)
    return x


def show_anew(x):
    """Let the views of an input, which was updated under `no_grad`, show the new data. They keep their nodes."""
    for view in live_views(x):
        _, rule, params = view.base
        view.data = rule.apply((x.data,), params)
        show_anew(view)


def into(out, y, name, where=True):
    """Write the result `y` into the destination `out`, as NumPy's ``out=`` does, and return `out`."""
    if not isinstance(out, Boxed):
        raise OutArgumentError(name)
    if not is_array(out):
        raise TypeError("return arrays must be of ArrayType")
    shape = shape_of(y)
    if np.broadcast_shapes(shape, out.shape) != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {shape}"
        )
    dtype = y.dtype if hasattr(y, "dtype") else np.asarray(y).dtype
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"Cannot cast {name} output from {dtype!r} to {out.dtype!r} with casting rule 'same_kind'")
    if where is True:
        write(out, Ellipsis, y)
        return out
    mask = np.broadcast_to(np.asarray(value(where), bool), out.shape)
    write(out, mask, (y if shape == out.shape else spread_to(y, out.shape))[mask])
    return out


def places(rule, shape, params):
    """Return the subscript that names, in an array of `shape`, the entries that the view ``rule(array)`` shows."""
    return np.unravel_index(positions(rule.fun, shape, params), shape)


def in_place(plain, name):
    """Return the in-place operator of the plain one of that name: `x += v` as `x = x + v` under the same name.

    On a number it makes a new name, on an array all names of the array see the change, as in NumPy.
    """

    def operator(x, other):
        call = getattr(Boxed, plain)
        if not is_array(x):
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


cotangent.ADD_INTO[0] = add_into
