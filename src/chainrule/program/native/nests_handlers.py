"""Which entries of its operands an entry of a result needs: a handler for each function.

``handler(w, e, position)`` is given a walk, an equation and a position in its result. It asks the walk for positions in
the operands (``w.value``), and hands on what it gets: views, slices, writes, concatenations and reshapes only change
positions, so that they take neither memory nor code. Where an entry comes from one operand or from another, depending
on the index of a loop, ``w.either`` decides. `nests_walk` has what all walks share, and says what a walk can be asked.
"""

import itertools
import math

import numpy as np

from chainrule.engine import indexing
from chainrule.engine.spec import spread_to
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.builder import type_of
from chainrule.program.native.nests_kinds import folded, is_elementwise
from chainrule.program.native.nests_positions import (
    MOST_SEGMENTS,
    At,
    Unfit,
    basic_parts,
    index_arrays,
    inverse,
    moved,
    project,
    regrouped,
)  # fmt: skip
from chainrule.program.native.values import is_integer

MOST_ADDED = 64  # entries that are added up without a loop


# -- entries by themselves ---------------------------------------------------------------------------------------------


def elementwise(w, e, position):
    """An elementwise call: the same entry of each operand."""
    shape = w.shape(e.output)
    if w.flat:
        xs = []
        for x in e.inputs:
            have = w.shape(x)
            if have not in (shape, (), (1,)):
                raise Unfit("not in flat order")
            xs.append(w.operand(x, position if have == shape else (0,) * len(have)))
    else:
        xs = [w.operand(x, project(position, shape, w.shape(x))) for x in e.inputs]
    return w.compute(e, xs)


# -- reads and writes --------------------------------------------------------------------------------------------------


def read(w, e, position):
    """``x[index]``."""
    x, index = e.inputs[0], e.params["index"]
    parts = basic_parts(index, w.shape(x))
    if parts is None:
        return gathered(w, e, position)
    entries, found = iter(position), []
    for p in parts:
        if p is None:
            next(entries)
        elif p.__class__ is tuple:
            found.append(moved(next(entries), p[0], p[1]))
        else:
            found.append(p)
    return w.value(x, tuple(found))


def gathered(w, e, position):
    """``x[i]`` with arrays of integers."""
    x = e.inputs[0]
    if w.flat or x in w.makers:
        raise Unfit("a read at integers of what the nest makes")
    found = index_arrays(e.params["index"], x.shape)
    if found is None:
        raise Unfit("an index of another kind")
    before, arrays, after = found
    block = np.broadcast_shapes(*[np.shape(p) if p.__class__ is not Symbol else p.shape for p in arrays])
    inner = position[before : before + len(block)]
    indices = []
    for p in arrays:
        if is_integer(p):
            indices.append(int(p) % x.shape[before + len(indices)])
            continue
        indices.append(w.index_value(p, project(inner, block, p.shape)))
    return w.gather(x, position[:before], indices, position[len(position) - after :])


def taken_flat(w, e, position):
    """``x.reshape(-1)[where]``."""
    x, where = e.inputs[0], e.inputs[1] if len(e.inputs) > 1 else e.params["where"]
    if w.flat or x in w.makers or where.__class__ is not Symbol:
        raise Unfit("a read at integers of what the nest makes")
    return w.gather_flat(x, w.index_value(where, position))


def write_into(w, e, position, value, otherwise):
    """Return the entry of an array after a write."""
    s = e.output
    parts = basic_parts(e.params["index"], s.shape)
    if parts is None:
        raise Unfit("a write at integers")
    tests, found = inverse(parts, position)
    shape = tuple([1 if p is None else p[2] for p in parts if p is None or p.__class__ is tuple])
    have = value.shape if value.__class__ is Symbol else np.shape(value)
    if len(have) > len(shape):
        if have[: len(have) - len(shape)] != (1,) * (len(have) - len(shape)):
            raise Unfit("a write of more axes")
        inner = (0,) * (len(have) - len(shape)) + project(found, shape, have[len(have) - len(shape) :])
    else:
        inner = project(found, shape, have)
    return w.either(tests, lambda: w.cast(w.operand(value, inner), s.dtype), otherwise)


def scatter(w, e, position):
    """Zeros with a write."""
    return write_into(w, e, position, e.inputs[0], lambda: w.zero(e.output.dtype))


def put(w, e, position):
    """A copy with a write."""
    x = e.inputs[0]
    return write_into(w, e, position, e.inputs[1], lambda: w.cast(w.operand(x, position), e.output.dtype))


# -- arrays together, and in another order -----------------------------------------------------------------------------


def axis_of(e, rank, default=0):
    """Return the axis of a call."""
    axis = e.params.get("axis", default)
    if not is_integer(axis) or not e.params.keys() <= {"axis"}:
        raise Unfit("an axis of another kind")
    return int(axis) % rank


def concatenate(w, e, position):
    """One of several pieces."""
    axis = axis_of(e, len(e.output.shape))
    pieces, start = [], 0
    for x in e.inputs:
        n = np.shape(x)[axis] if x.__class__ is not Symbol else x.shape[axis]
        if n:
            pieces.append((x, start, n))
        start += n

    def piece(k):
        x, first, n = pieces[k]
        entry = moved(position[axis], -first)
        inner = (*position[:axis], entry, *position[axis + 1 :])

        def here():
            return w.cast(w.operand(x, inner), e.output.dtype)

        return here() if k == len(pieces) - 1 else w.either([(entry, 0, n)], here, lambda: piece(k + 1))

    return piece(0)


def stack(w, e, position):
    """One of several arrays, by the place along the new axis."""
    axis = axis_of(e, len(e.output.shape))
    inner = (*position[:axis], *position[axis + 1 :])

    def piece(k):
        def here():
            return w.cast(w.operand(e.inputs[k], inner), e.output.dtype)

        if k == len(e.inputs) - 1:
            return here()
        return w.either([(position[axis], k, k + 1)], here, lambda: piece(k + 1))

    if position[axis].__class__ is At and len(e.inputs) > MOST_SEGMENTS:
        raise Unfit("a loop over stacked arrays")
    return piece(0)


def transpose(w, e, position):
    """Axes in another order."""
    x, fun, p = e.inputs[0], function_of(e), e.params
    order = np.empty(x.shape, np.bool_)
    rank = len(x.shape)
    if fun is np.transpose:
        axes = p.get("axes")
        axes = range(rank)[::-1] if axes is None else [int(a) % rank for a in axes]
    else:
        marks = np.broadcast_to(order, x.shape)
        lengths = np.lib.stride_tricks.as_strided(marks, x.shape, tuple(range(1, rank + 1)))
        axes = [s - 1 for s in fun(lengths, **p).strides]
    inner = [0] * rank
    for k, a in enumerate(axes):
        inner[a] = position[k]
    return w.value(x, tuple(inner))


def reshape(w, e, position):
    """The same entries with other axes."""
    x = e.inputs[0]
    if x.__class__ is not Symbol:
        return w.operand(x, ())
    if e.params.get("order", "C") != "C":
        raise Unfit("another order")
    if w.flat:
        return w.value(x, position if x.shape else ())
    return w.value(x, regrouped(position, e.output.shape, x.shape))


def spread(w, e, position):
    """A broadcast operand."""
    x = e.inputs[0]
    if x.__class__ is not Symbol:
        return w.cast(w.operand(x, ()), e.output.dtype)
    if w.flat:
        if w.shape(x) not in ((), (1,), w.shape(e.output)):
            raise Unfit("not in flat order")
        same = w.shape(x) == w.shape(e.output)
        return w.value(x, position if same else (0,) * len(w.shape(x)))
    return w.value(x, project(position, e.output.shape, x.shape))


def flip(w, e, position):
    """Axes the other way round."""
    x = e.inputs[0]
    axis = e.params.get("axis")
    rank = len(x.shape)
    axes = range(rank) if axis is None else [int(a) % rank for a in (axis if axis.__class__ is tuple else (axis,))]
    return w.value(x, tuple([moved(p, x.shape[k] - 1, -1) if k in axes else p for k, p in enumerate(position)]))


def roll(w, e, position):
    """An axis from another place on."""
    x, by = e.inputs[0], e.params.get("shift", e.inputs[1] if len(e.inputs) > 1 else None)
    axis = e.params.get("axis")
    if not is_integer(by) or (axis is None and len(x.shape) != 1) or not (axis is None or is_integer(axis)):
        raise Unfit("several shifts")
    axis = int(axis or 0) % len(x.shape)
    n = x.shape[axis]
    by = int(by) % n

    def at(shift):
        return w.value(x, (*position[:axis], moved(position[axis], shift), *position[axis + 1 :]))

    return w.either([(position[axis], 0, by)], lambda: at(n - by), lambda: at(-by))


def triangle(w, e, position):
    """The entries below or above a diagonal."""
    x, k = e.inputs[0], e.params.get("k", 0)
    if not is_integer(k) or w.shape(x) != w.shape(e.output) or x.dtype != e.output.dtype:
        raise Unfit("a triangle of another kind")
    i, j = position[-2:]
    lower = function_of(e) is np.tril
    if i.__class__ is not At and j.__class__ is not At:
        return w.value(x, position) if (j - i <= k if lower else j - i >= k) else w.zero(e.output.dtype)
    return w.masked(w.value(x, position), i, j, "sle" if lower else "sge", int(k), e.output.dtype)


# -- several entries in one --------------------------------------------------------------------------------------------


def fold(w, e, position):
    """A reduction over short axes, entry by entry."""
    x, (axes, keep) = e.inputs[0], folded(e)
    if w.flat:
        raise Unfit("not in flat order")
    kept = iter(position)
    template = []
    for k in range(len(x.shape)):
        if k in axes:
            template.append(None)
            if keep:
                next(kept)
        else:
            template.append(next(kept))
    counts = [x.shape[k] for k in axes]
    if math.prod(counts) > MOST_ADDED or 0 in counts:
        raise Unfit("a sum over a long axis")
    values = []
    for some in itertools.product(*map(range, counts)):
        rest = iter(some)
        values.append(w.value(x, tuple([next(rest) if p is None else p for p in template])))
    return w.fold(function_of(e), values, e.output.dtype, x.dtype)


def matmul(w, e, position):
    """A product with few terms."""
    x, y = e.inputs
    if w.flat or e.params or x.__class__ is not Symbol or y.__class__ is not Symbol:
        raise Unfit("a product")
    if function_of(e) is np.dot and max(len(x.shape), len(y.shape)) > 2:
        raise Unfit("a product")
    a, b = x.shape, y.shape
    if not a or not b or not a[-1] or a[-1] > MOST_ADDED // 2 or e.output.dtype.kind != "f":
        raise Unfit("a long product")
    tail = list(position)
    column = tail.pop() if len(b) > 1 else None
    row = tail.pop() if len(a) > 1 else None
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    left = [*project(tuple(tail), batch, a[:-2]), *([row] if len(a) > 1 else [])]
    right = project(tuple(tail), batch, b[:-2])
    terms = []
    for k in range(a[-1]):
        p = w.value(x, (*left, k))
        q = w.value(y, (*right, k, *([column] if len(b) > 1 else [])))
        terms.append((p, q))
    return w.products(terms, e.output.dtype)


def outer(w, e, position):
    """An outer product."""
    x, y = e.inputs
    if w.flat or x.__class__ is not Symbol or y.__class__ is not Symbol or len(x.shape) != 1 or len(y.shape) != 1:
        raise Unfit("an outer product")
    return w.products([(w.value(x, position[:1]), w.value(y, position[1:]))], e.output.dtype)


# fmt: off
HANDLERS = {
    indexing.getitem: read, indexing.scatter: scatter, indexing.put: put, indexing.picked: taken_flat,
    np.concatenate: concatenate, np.stack: stack, np.flip: flip, np.roll: roll,
    np.transpose: transpose, np.swapaxes: transpose, np.moveaxis: transpose,
    np.reshape: reshape, np.ravel: reshape, np.expand_dims: reshape, np.squeeze: reshape,
    np.broadcast_to: spread, spread_to: spread, np.copy: spread,
    np.matmul: matmul, np.dot: matmul, np.outer: outer, np.tril: triangle, np.triu: triangle,
}
# fmt: on
FLAT = {reshape, spread}


def can_walk(e) -> bool:
    """Tell whether there is a handler for an equation (which may still find it unfit)."""
    if e.__class__ is not Equation or e.output.__class__ is not Symbol:
        return False
    s = e.output
    if s.dtype in PYTHON or s.dtype is None or type_of(s.dtype) is None or not s.shape:
        return False
    fun = function_of(e)
    if fun in HANDLERS:
        known = [x.dtype is not None and type_of(x.dtype) is not None for x in e.inputs if x.__class__ is Symbol]
        return all(known) and not e.params.get("order")
    return folded(e) is not None or is_elementwise(e)
