"""Equations that have a nest to themselves: running sums, the places of extrema, and writes that no other nest takes.

``alone(e)`` tells whether an equation is one; ``write_alone`` writes it. Running sums and places go entry by entry,
with the axis that they go along as the innermost loop: what they give depends on the order.
"""

import math

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.builder import SIZES, STORED, constant, splat, type_of
from chainrule.program.native.lanes import Lanes
from chainrule.program.native.maps import MAPS
from chainrule.program.native.nests_axes import loop_axes
from chainrule.program.native.nests_emit import Emit
from chainrule.program.native.nests_loops import Loops
from chainrule.program.native.nests_memory import address, store, times
from chainrule.program.native.nests_positions import Unfit, basic_parts, index_arrays
from chainrule.program.native.nests_roots import Added, positions_of, sweep
from chainrule.program.native.values import Memory, is_integer

RUNNING = {np.cumsum: np.add, np.cumprod: np.multiply}
PLACES = {np.argmax: "ogt", np.argmin: "olt"}
WRITES = {indexing.scatter, indexing.put}


def alone(e) -> bool:
    """Tell whether an equation is one of these."""
    if e.__class__ is not Equation or e.output.__class__ is not Symbol or not e.inputs:
        return False
    fun, s, x = function_of(e), e.output, e.inputs[0]
    if s.dtype in PYTHON or type_of(s.dtype) is None:
        return False
    if fun in WRITES:
        return s.shape != () and has_room(e) is not None
    if fun not in RUNNING and fun not in PLACES:
        return False
    if x.__class__ is not Symbol or x.dtype in PYTHON or type_of(x.dtype) in (None, "i1") or not x.size:
        return False
    axis = e.params.get("axis")
    if not e.params.keys() <= {"axis"} or not (axis is None or is_integer(axis)) or len(e.inputs) != 1:
        return False
    if fun in RUNNING:
        return (axis is not None or len(x.shape) == 1) and s.shape == x.shape
    return s.dtype == np.int64


def shape_alone(e) -> tuple:
    """Return the shape that the loops go over."""
    if function_of(e) in WRITES:
        return has_room(e)
    return e.inputs[0].shape


def has_room(e):
    """Return the shape of what a write writes to; None for an index of another kind."""
    s, index = e.output, e.params["index"]
    parts = basic_parts(index, s.shape)
    if parts is not None:
        shape = tuple([1 if p is None else p[2] for p in parts if p is None or p.__class__ is tuple])
    else:
        found = index_arrays(index, s.shape)
        if found is None:
            return None
        before, arrays, after = found
        block = np.broadcast_shapes(*[np.shape(a) if a.__class__ is not Symbol else a.shape for a in arrays])
        shape = (*s.shape[:before], *block, *s.shape[len(s.shape) - after :])
    v = e.inputs[1 if function_of(e) is indexing.put else 0]
    have = v.shape if v.__class__ is Symbol else np.shape(v)
    if isinstance(v, np.ndarray) and v.shape:
        return None
    if len(have) > len(shape) or math.prod(shape) == 0 or not shape:
        return None
    return shape


def write_alone(b, e, values: dict, memory, lanes: int):
    """Write an equation; return (emit, how its result is held)."""
    fun = function_of(e)
    if fun in WRITES:
        return write_write(b, e, values, memory, lanes)
    x = e.inputs[0]
    axis = e.params.get("axis")
    axes = list(range(len(x.shape)))
    if axis is not None:
        axes.append(axes.pop(int(axis) % len(axes)))
    emit = Emit(b, {}, values, memory, False, [x.shape[a] for a in axes], 1)
    root = (Running if fun in RUNNING else Place)(emit, e, axes, axis)
    write_rounds(emit, root)
    return emit, root.held()


def write_rounds(emit, root) -> None:
    """Write the loops of a root, one round after the other: it counts which one is first."""
    loops = Loops(emit, [set() for _ in emit.loops])
    loops.one_by_one = True
    loops.write(root.add, root.begin, root.end)


class Running:
    """A sum or a product of all entries so far along an axis."""

    def __init__(self, emit, e, axes, axis) -> None:
        self.emit, self.e, self.x, self.s = emit, e, e.inputs[0], e.output
        self.how = MAPS[RUNNING[function_of(e)]]
        self.start = constant(type_of(self.s.dtype), 0 if function_of(e) is np.cumsum else 1)
        [self.position] = positions_of(self.x.shape, axes)
        self.level = len(axes) - 1

    def begin(self, level):
        """Start anew on each line."""
        w = self.emit
        if level == 0:
            self.target = w.memory(self.s)
            self.total = w.b.alloca(self.start.type)
        if level == self.level:
            with w.at(level):
                w.b.store(self.start, self.total)

    def add(self):
        """Add an entry, and store."""
        w, b = self.emit, self.emit.b
        x = w.wide(w.cast(w.value(self.x, self.position), self.s.dtype), w.depth)
        pointer, _, step = address(w, self.target, self.position)
        with w.into(w.updates):
            y = self.how(b, b.load(self.start.type, self.total), x)
            b.store(y, self.total)
            b.store(y, b.offset(self.target.type, pointer, times(b, w.index[-1], step)))

    def end(self, level):
        """Nothing is left to do."""

    def held(self):
        """The memory."""
        return self.target


class Place:
    """Where the largest or the smallest entry is: the first one, or the first NaN."""

    def __init__(self, emit, e, axes, axis) -> None:
        self.emit, self.x, self.s, self.axes, self.axis = emit, e.inputs[0], e.output, axes, axis
        self.how = PLACES[function_of(e)]
        self.kind = type_of(self.x.dtype)
        [self.position] = positions_of(self.x.shape, axes)
        self.level = 0 if axis is None else len(axes) - 1

    def begin(self, level):
        """Start with the worst there is."""
        w, b = self.emit, self.emit.b
        if level == 0:
            self.best, self.place = b.alloca(self.kind), b.alloca("i64")
            if self.axis is not None and self.s.shape:
                self.target = w.memory(self.s)
        if level == self.level:
            sign = -1 if self.how == "ogt" else 1
            if self.kind in ("double", "float"):
                worst = constant(self.kind, sign * math.inf)
            else:
                bits = 8 * SIZES[self.kind]
                worst = constant(self.kind, -(2 ** (bits - 1)) if sign < 0 else 2 ** (bits - 1) - 1)
            with w.at(level):
                b.store(worst, self.best)
                b.store(constant("i64", 0), self.place)

    def add(self):
        """Look at an entry."""
        w, b = self.emit, self.emit.b
        x = w.wide(w.value(self.x, self.position), w.depth)
        with w.into(w.updates):
            old = b.load(self.kind, self.best)
            if self.kind in ("double", "float"):
                better = b.compare(self.how, x, old)
                lost = b.binary("and", b.compare("uno", x, x), b.compare("ord", old, old))
                better = b.binary("or", better, lost)
                better = b.binary("and", better, b.compare("ord", old, old))
            else:
                better = b.compare("s" + self.how[1:], x, old)
            place = w.index[-1]
            if self.axis is None:
                place, step = None, 1
                for k in reversed(range(len(self.axes))):
                    part = times(b, w.index[k], step)
                    place = part if place is None else b.binary("add", place, part)
                    step *= self.x.shape[k]
            b.store(b.select(better, x, old), self.best)
            b.store(b.select(better, place, b.load("i64", self.place)), self.place)

    def end(self, level):
        """Store the place."""
        w, b = self.emit, self.emit.b
        if level != self.level:
            return
        self.result = b.load("i64", self.place)
        if self.axis is not None and self.s.shape:
            offset, pointer = self.target.offset, self.target.pointer
            rest = [p for a, p in enumerate(self.position) if a != int(self.axis) % len(self.axes)]
            for p, stride in zip(rest, self.target.strides, strict=True):
                pointer = b.offset("i64", pointer, times(b, w.index[p.loop], stride))
            b.store(self.result, b.offset("i64", pointer, offset))

    def held(self):
        """The memory, or a number."""
        if self.axis is not None and self.s.shape:
            return self.target
        return Lanes([(self.result, -1)], self.s.shape, self.s.dtype)


# -- writes ------------------------------------------------------------------------------------------------------------


def write_write(b, e, values, memory, lanes):
    """Write zeros or a copy of the operand, and then what is written."""
    s, shape = e.output, has_room(e)
    is_put = function_of(e) is indexing.put
    value = e.inputs[1 if is_put else 0]
    axes = loop_axes(shape, 7)
    emit = Emit(b, {}, values, memory, False, [shape[a] for a in axes], lanes)
    parts = basic_parts(e.params["index"], s.shape)
    if parts is None:
        root = Put(emit, e, value, shape, *index_arrays(e.params["index"], s.shape))
    else:
        root = Part(emit, e, value, shape)
    root.loop_axes = axes
    root.source = e.inputs[0] if is_put else None
    write_rounds(emit, root)
    return emit, root.held()


def fill(w, root) -> Memory:
    """Fill the memory of a result with zeros, or with its source."""
    b, target = w.b, w.memory(root.s)
    if root.source is None:
        zero = constant(target.type, 0)
        sweep(w, target, lambda pointer, lanes: b.store(splat(zero, lanes) if lanes > 1 else zero, pointer))
        return target
    if root.source.__class__ is not Symbol or root.source.dtype != root.s.dtype or root.source.shape != root.s.shape:
        raise Unfit("a write into what is converted")
    source = w.memory_of(root.source)
    if not source.is_rows or not target.is_rows:
        raise Unfit("a write into memory with gaps")
    with w.at(0):
        start = b.offset(source.type, source.pointer, source.offset)
        to = b.offset(target.type, target.pointer, target.offset)
        size = target.size * SIZES[STORED.get(target.type, target.type)]
        b.copy(to, start, size)
    return target


class Part:
    """A write to a part that slices name."""

    def __init__(self, emit, e, value, shape) -> None:
        self.emit, self.e, self.v, self.s, self.shape = emit, e, value, e.output, shape

    def begin(self, level):
        """Fill the memory."""
        if level == 0:
            self.target = fill(self.emit, self)
            self.part = self.target.index(self.e.params["index"])

    def add(self):
        """Store the entries of a round."""
        w = self.emit
        for position in positions_of(self.shape, self.loop_axes):
            have = self.v.shape if self.v.__class__ is Symbol else ()
            rest = position[len(position) - len(have) :]
            inner = tuple([0 if n == 1 else p for n, p in zip(have, rest, strict=True)])
            x = w.cast(w.operand(self.v, inner), self.s.dtype)
            store(w, self.part, position, x)

    def end(self, level):
        """Nothing is left to do."""

    def held(self):
        """The memory."""
        return self.target


class Put(Added):
    """A write at integers: of entries that are named twice the last one stays."""

    adds = False

    def begin(self, level):
        """Fill the memory."""
        if level == 0:
            self.arrays = [a if isinstance(a, np.ndarray | Symbol) else int(a) for a in self.arrays]
            self.target = fill(self.emit, self)
