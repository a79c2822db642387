"""Which entries of its operands an entry of a result needs: a walk over the equations of a nest, from the results back.

A position in an array has a number for each axis, or an `At`: ``step * i + shift`` with the index i of a loop. From
``(y, position)`` the handler of y's equation asks for positions in its operands; views, slices, writes, concatenations
and reshapes only change positions, so that they take neither memory nor code. Where an entry comes from one operand or
from another, depending on i, the loop is cut there: between two cuts the answer is one and the same.

`Plan` walks to find the cuts, and whether there is a way at all (`Unfit`); `nests_emit` walks once more, and writes.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine import indexing
from chainrule.engine.spec import cast_to, choose, spread_to, sum_to
from chainrule.program.backend.arrays import plain_sum, summed_axes
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.builder import type_of
from chainrule.program.native.scalars import MATHEMATICS, NotLowered, computes_in, how_of
from chainrule.program.native.values import is_integer

MOST_VALUES = 2000  # values that the body of a nest may have
APART = 16  # lines of code that load a vector of entries which are no neighbours, about
MOST_SEGMENTS = 9  # pieces that a loop may be cut into
MOST_ADDED = 64  # entries that are added up without a loop
FOLDS = {np.sum: np.add, np.mean: np.add, np.prod: np.multiply, np.max: np.maximum, np.min: np.minimum,
         np.any: np.logical_or, np.all: np.logical_and, sum_to: np.add}  # fmt: skip
WIDE = {"bool": "i1"}


class Unfit(Exception):
    """There is no nest of this kind for an equation."""


class Need(Exception):
    """An entry must be planned before the one at hand."""


class At(NamedTuple):
    """The place ``step * i + shift`` along an axis, with the index i of a loop."""

    loop: int
    shift: int = 0
    step: int = 1


def moved(entry, shift, step=1):
    """Return ``shift + step * entry``."""
    if entry.__class__ is At:
        return At(entry.loop, shift + step * entry.shift, step * entry.step)
    return shift + step * entry


# -- which equations ---------------------------------------------------------------------------------------------------


def is_elementwise(e) -> bool:
    """Tell whether an equation is an elementwise call that there is code for."""
    fun, s = function_of(e), e.output
    if s.__class__ is not Symbol or s.dtype in PYTHON or type_of(s.dtype) is None:
        return False
    if any(x.__class__ in (list, tuple, np.ndarray) for x in e.inputs):
        return False
    if any(x is not None and x.__class__ is not Symbol and x.__class__ not in PYTHON and not isinstance(x, np.generic)
           for x in e.inputs):  # fmt: skip
        return False
    if any(x.__class__ is Symbol and x.dtype is not None and type_of(x.dtype) is None for x in e.inputs):
        return False
    if fun is cast_to:
        return True
    if e.params:
        return False
    if fun in (np.where, choose):
        return len(e.inputs) == (3 if fun is np.where else 2)
    if fun is np.clip:
        return type_of(s.dtype) in ("double", "float")
    if how_of(fun) is None or any(x is None for x in e.inputs):
        return False
    try:
        kind = computes_in(fun, s.dtype, [dtype_of(x) for x in e.inputs])
    except (NotLowered, TypeError, ValueError, OverflowError):
        return False
    if kind in ("double", "float"):
        return fun not in WHOLE
    if fun in WHOLE or fun in (np.absolute, np.sign) or (kind != "i1" and fun in ARITHMETIC):
        return True
    return (kind == "i1" and fun in TRUTHS) or (kind != "i1" and type_of(s.dtype) == "i1")


TRUTHS = {np.add, np.multiply, np.equal, np.not_equal, np.maximum, np.minimum, np.logical_not, np.logical_and,
          np.logical_or, np.logical_xor}  # fmt: skip
WHOLE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert}
ARITHMETIC = {np.add, np.subtract, np.multiply, np.negative, np.square, np.maximum, np.minimum, np.remainder,
              np.floor_divide, np.positive}  # fmt: skip


def dtype_of(x) -> Any:
    """Return the dtype of an operand; of a Python number its type."""
    if x.__class__ is Symbol:
        return x.dtype
    return x.dtype if isinstance(x, np.generic) else x.__class__


def folded(e):
    """Return (axes, whether they are kept as axes of length 1) of a reduction; None of anything else."""
    fun = function_of(e)
    if e.__class__ is not Equation or fun not in FOLDS or not e.inputs:
        return None
    x = e.inputs[0]
    if x.__class__ is not Symbol or not x.shape or e.output.__class__ is not Symbol or type_of(x.dtype) is None:
        return None
    if type_of(e.output.dtype) is None or e.output.dtype in PYTHON:
        return None
    if fun is sum_to:
        return summed_axes(x, e.output.shape) if x.dtype.kind == "f" and x.shape != e.output.shape else None
    truths = fun in (np.any, np.all)
    if truths and x.dtype.kind != "b":
        return None
    if truths or (fun is np.sum and x.dtype.kind in "bi" and e.output.dtype == np.int64):
        if not e.params.keys() <= {"axis", "keepdims", "dtype"} or len(e.inputs) != 1:
            return None
        if e.params.get("dtype") is not None and np.dtype(e.params["dtype"]) != e.output.dtype:
            return None
        axis = e.params.get("axis")
        axes = range(len(x.shape)) if axis is None else axis if axis.__class__ is tuple else (axis,)
        return tuple(sorted(int(a) % len(x.shape) for a in axes)), bool(e.params.get("keepdims", False))
    if x.dtype.kind != "f":
        return None
    return plain_sum(e, x)


# -- indices -----------------------------------------------------------------------------------------------------------


def basic_parts(index, shape) -> list | None:
    """Return the parts of an index of integers, slices and None; None if there are others.

    A part is None, an integer, or (start, step, count).
    """
    parts = index if index.__class__ is tuple else (index,)
    for p in parts:
        if not (p is None or p is Ellipsis or p.__class__ is slice or is_integer(p)):
            return None
        if p.__class__ is slice and not all(v is None or is_integer(v) for v in (p.start, p.stop, p.step)):
            return None
    left = len(shape) - sum(p is not None and p is not Ellipsis for p in parts)
    if left < 0:
        return None
    where = [k for k, p in enumerate(parts) if p is Ellipsis]
    cut = where[0] if where else len(parts)
    parts = [*parts[:cut], *[slice(None)] * left, *parts[cut + 1 :]]
    found, axis = [], 0
    for p in parts:
        if p is None:
            found.append(None)
            continue
        n = shape[axis]
        axis += 1
        if p.__class__ is slice:
            start, stop, step = p.indices(n)
            found.append((start, step, len(range(start, stop, step))))
        else:
            found.append(int(p) % n if -n <= p < n else n)
    return found


def project(position, shape, to):
    """Return the position in an operand of shape `to` that is broadcast to `shape`."""
    rest = position[len(shape) - len(to) :]
    return tuple([0 if n == 1 else p for n, p in zip(to, rest, strict=True)])


def regrouped(position, new, old):
    """Return the position in an array of shape `old` that was reshaped to `new`."""
    news = [(n, p) for n, p in zip(new, position, strict=True) if n != 1]
    olds = [n for n in old if n != 1]
    found = []
    while olds:
        sizes, entries, run = [news[0][0]], [news.pop(0)[1]], [olds.pop(0)]
        a, b = sizes[0], run[0]
        while a != b:
            if a < b:
                n, p = news.pop(0)
                sizes.append(n)
                entries.append(p)
                a *= n
            else:
                run.append(olds.pop(0))
                b *= run[-1]
        if len(sizes) == len(run) == 1:
            found.append(entries[0])
            continue
        flat, step, loop = 0, 1, None
        for n, p in zip(reversed(sizes), reversed(entries), strict=True):
            if p.__class__ is At:
                if loop is not None:
                    raise Unfit("a reshape of two loops")
                loop = At(p.loop, 0, p.step * step)
                flat += p.shift * step
            else:
                flat += p * step
            step *= n
        found += split(flat, loop, run)
    placed = iter(found)
    return tuple([0 if n == 1 else next(placed) for n in old])


def split(flat, loop, run):
    """Return the entries along axes of lengths `run` of a position in what they are together."""
    entries, step = [], math.prod(run)
    for n in run:
        step //= n
        if loop is not None and loop.step % step == 0 and (step == 1 or len(entries) == 0):
            entries.append(At(loop.loop, flat // step, loop.step // step))
            loop = None
        elif loop is not None and (loop.step >= step * n or step > 1):
            raise Unfit("a reshape of part of a loop")
        else:
            entries.append(flat // step)
        flat %= step
    if loop is not None:
        raise Unfit("a reshape of part of a loop")
    return entries


# -- the walk ----------------------------------------------------------------------------------------------------------


class Walk:
    """A walk over equations. `makers`: symbol -> its equation, for those of the nest; others come from outside.

    `flat`: all arrays are taken as one row of entries. `ranges` has for each loop from where to where it goes now.
    """

    def __init__(self, makers: dict, flat: bool, ranges: list) -> None:
        self.makers, self.flat, self.ranges = makers, flat, ranges

    def shape(self, x) -> tuple:
        """Return the shape in which positions in an operand are given."""
        if x.__class__ is not Symbol:
            return np.shape(x) if x is not None else ()
        return (x.size,) if self.flat and x.shape else x.shape

    def visit(self, s, position):
        """Return the value of an entry of a symbol that an equation of the nest makes."""
        e = self.makers[s]
        fun = function_of(e)
        handler = HANDLERS.get(fun)
        if handler is None:
            handler = fold if fun in FOLDS and folded(e) is not None else elementwise
        elif self.flat and handler not in FLAT:
            raise Unfit("not in flat order")
        return handler(self, e, position)

    def operand(self, x, position):
        """Return the value of an operand: an entry of a symbol, or a number as it is."""
        if x.__class__ is Symbol:
            return self.value(x, position)
        if isinstance(x, np.ndarray):
            if x.size and (x == x.flat[0]).all():
                return self.plain(x.flat[0].item())
            raise Unfit("an array in the program")
        return self.plain(x)

    def where(self, entry, start, stop):
        """Tell whether a place lies in ``start:stop`` for all of the current range; None if for a part of it."""
        if entry.__class__ is not At:
            return start <= entry < stop
        low, high = self.ranges[entry.loop]
        if high <= low:
            return True
        ends = moved(low, entry.shift, entry.step), moved(high - 1, entry.shift, entry.step)
        first, last = min(ends), max(ends)
        if start <= first and last < stop:
            return True
        if last < start or first >= stop:
            return False
        return None

    def either(self, tests, yes, no):
        """Return ``yes()`` where all places lie in their slices, otherwise ``no()``. `tests`: (place, start, stop)."""
        answers = [self.where(*t) for t in tests]
        if False in answers:
            return no()
        if None not in answers:
            return yes()
        return self.undecided([t for t, a in zip(tests, answers, strict=True) if a is None], yes, no)


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


def index_arrays(index, shape):
    """Return (axes before, arrays, axes after) of an index with arrays of integers; None of others.

    The arrays must stand together, and all else must be whole slices.
    """
    parts = list(index) if index.__class__ is tuple else [index]
    if any(p is None for p in parts):
        return None
    places = [k for k, p in enumerate(parts) if p is Ellipsis]
    if places:
        left = len(shape) - len(parts) + 1
        parts[places[0] : places[0] + 1] = [slice(None)] * left
    parts += [slice(None)] * (len(shape) - len(parts))
    if len(parts) != len(shape):
        return None
    named = [k for k, p in enumerate(parts) if p.__class__ is not slice]
    if not named or named[-1] - named[0] != len(named) - 1:
        return None
    arrays = [parts[k] for k in named]
    for p in arrays:
        if is_integer(p):
            continue
        if not isinstance(p, np.ndarray | Symbol) or np.dtype(p.dtype).kind not in "iu" or type_of(p.dtype) is None:
            return None
    if any(p.__class__ is slice and p != slice(None) for p in parts):
        return None
    return named[0], arrays, len(shape) - named[-1] - 1


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


def inverse(parts, position):
    """Return (tests, position in what is written) of a write at an index."""
    entries, tests, found = iter(position), [], []
    for p in parts:
        if p is None:
            found.append(0)
            continue
        entry = next(entries)
        if p.__class__ is not tuple:
            tests.append((entry, p, p + 1))
            continue
        start, step, count = p
        if step == 1:
            tests.append((entry, start, start + count))
            found.append(moved(entry, -start))
        elif step == -1:
            tests.append((entry, start - count + 1, start + 1))
            found.append(moved(entry, start, -1))
        elif entry.__class__ is At:
            raise Unfit("a write with steps")
        else:
            k, rest = divmod(entry - start, step)
            tests.append((0 if rest or not 0 <= k < count else 1, 1, 2))
            found.append(k)
    return tests, tuple(found)


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
LINES = {indexing.picked}


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


# -- plans -------------------------------------------------------------------------------------------------------------


class Plan(Walk):
    """Finds out whether a nest is possible, and where its loops are cut.

    Attributes
    ----------
    cuts : list of set
        For each loop, indices at which something else begins.
    outside : set
        Symbols that are read and not made here.
    count : int
        How many values the body has.
    lines, room : int
        How long the body is, about, and how long it may be.
    """

    def __init__(self, makers, flat, loops) -> None:
        super().__init__(makers, flat, [(0, n) for n in loops])
        self.cuts = [set() for _ in loops]
        self.known, self.outside, self.count, self.lines, self.room = set(), set(), 0, 0, math.inf
        self.shifts = {}
        self.waiting, self.order = [], []

    def value(self, s, position):
        """Note an entry; None stands for its value.

        Entries that it needs come first, from a list of what waits: chains are longer than Python's stack is deep.
        """
        key = s, position, tuple(self.ranges)
        if key in self.known:
            return
        if self.waiting:
            self.waiting.append(key)
            raise Need
        self.waiting.append(key)
        try:
            while self.waiting:
                self.look(self.waiting[-1])
        finally:
            self.waiting.clear()
            self.ranges[:] = key[2]

    def look(self, key):
        """Look at what waits last: it is done, or another entry waits after it."""
        s, position, ranges = key
        if s in self.makers:
            self.ranges[:] = ranges
            try:
                self.visit(s, position)
            except Need:
                return
        self.waiting.pop()
        self.note(s, position)
        self.known.add(key)
        self.order.append(key)

    def note(self, s, position):
        """Count an entry."""
        self.count += 1
        e = self.makers.get(s)
        self.lines += 1 if e is not None or self.is_row(s, position) else APART
        if self.count > MOST_VALUES or self.lines > self.room:
            raise Unfit("too long")
        if e is None:
            self.outside.add(s)
        elif function_of(e) in MATHEMATICS or function_of(e) is np.power:
            seen = self.shifts.setdefault(s, set())
            seen.add(tuple([p for p in position if p.__class__ is At]))
            if len(seen) > 1:
                raise Unfit("computed twice")

    def is_row(self, s, position) -> bool:
        """Tell whether a vector of entries is loaded at once: they are neighbours, or one and the same."""
        inner = len(self.ranges) - 1
        along = [k for k, p in enumerate(position) if p.__class__ is At and p.loop == inner]
        return not along or self.flat or all(n == 1 for n in s.shape[along[-1] + 1 :])

    def undecided(self, tests, yes, no):
        """Note the cuts, and both ways."""
        before = list(self.ranges)
        for entry, start, stop in tests:
            low, high = self.ranges[entry.loop]
            cuts = [cut for cut in cuts_of(entry, start, stop) if low < cut < high]
            self.cuts[entry.loop].update(cuts)
            if len(self.cuts[entry.loop]) >= 2 * MOST_SEGMENTS:
                raise Unfit("too many pieces")
            bounds = [low, *sorted(cuts), high]
            inside = [
                (a, b) for a, b in itertools.pairwise(bounds) if start <= moved(a, entry.shift, entry.step) < stop
            ]
            self.ranges[entry.loop] = (inside[0][0], inside[-1][1]) if inside else (low, low)
        yes()
        self.ranges[:] = before
        if len(tests) == 1:
            entry, start, stop = tests[0]
            low, high = self.ranges[entry.loop]
            bounds = [low, *sorted(c for c in cuts_of(entry, start, stop) if low < c < high), high]
            out = [(a, b) for a, b in itertools.pairwise(bounds)
                   if not start <= moved(a, entry.shift, entry.step) < stop]  # fmt: skip
            for part in out:
                self.ranges[entry.loop] = part
                no()
            self.ranges[:] = before
        else:
            no()

    def index_value(self, x, position):
        """Note an index."""
        if x.__class__ is Symbol:
            self.value(x, position)

    def gather(self, x, before, indices, after):
        """Note a read at integers."""
        self.outside.add(x)

    def gather_flat(self, x, where):
        """Note a read at flat positions."""
        self.outside.add(x)

    def nothing(self, *args):
        """Return no value."""

    plain = compute = cast = zero = fold = products = masked = nothing


def cuts_of(entry, start, stop):
    """Return the indices of the loop at which a place enters and leaves ``start:stop``."""
    t, m = entry.shift, entry.step
    if m > 0:
        return -((t - start) // m), -((t - stop) // m)
    return (t - start) // -m + 1, (t - stop) // -m + 1
