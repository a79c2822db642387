"""What a nest makes: results that are stored, reductions, writes that add at integers.

A root has ``begin(level)`` and ``end(level)``, which write what stands before and after the loops inside a level,
``add()``, which writes a round, and ``flushes()``: functions that empty accumulators. ``held()`` is how the result is
held at the end.
"""

import contextlib
import itertools
import math

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Symbol
from chainrule.program.native.builder import (
    STORED,
    constant,
    element_of,
    first_lanes,
    lanes_of,
    splat,
    type_of,
    with_lanes,
)
from chainrule.program.native.lanes import Lanes
from chainrule.program.native.maps import MAPS
from chainrule.program.native.nests_kinds import FOLDS
from chainrule.program.native.nests_loops import loop, run
from chainrule.program.native.nests_memory import (
    address,
    checked,
    flat_view,
    lane_addresses,
    lane_pointers,
    load_row,
    store,
    store_row,
    times,
)
from chainrule.program.native.nests_positions import At, Unfit

START = {np.add: 0, np.multiply: 1, np.maximum: -math.inf, np.minimum: math.inf, np.logical_or: False,
         np.logical_and: True}  # fmt: skip


BITS = {"double": ("i64", 0x7FF << 52, 1 << 52), "float": ("i32", 0xFF << 23, 1 << 23)}  # of the exponent


class Total:
    """A reduction over loops, as a root of a nest; `kept` are the loops that remain, `axes` those of the operand."""

    def __init__(self, emit, e, axes, loop_axes) -> None:
        self.emit, self.e = emit, e
        self.fun = function_of(e)
        self.x, self.s = e.inputs[0], e.output
        self.base = FOLDS[self.fun]
        if emit.flat:
            shape, keep = emit.shape(self.x), False
            axes = (0,)
        else:
            shape, keep = self.x.shape, len(self.s.shape) == len(self.x.shape)
        self.shape, self.axes, self.keep = shape, axes, keep
        self.loop_axes = loop_axes
        self.lengths = [shape[a] for a in loop_axes]
        self.count = math.prod(shape[a] for a in axes)
        kept = [k for k, a in enumerate(loop_axes) if a not in axes]
        self.level = max(kept, default=-1) + 1
        self.inside = self.level < emit.depth  # accumulators are lanes
        self.partial = kept != list(range(self.level)) or not self.inside  # results of a round are added in memory
        self.apart = emit.blocks is not None and 0 not in kept  # each block has a part of the result
        truths = self.base in (np.logical_or, np.logical_and)
        self.kind = "i1" if truths else type_of(self.s.dtype)
        self.start = constant(self.kind, START[self.base])
        self.combinations = list(itertools.product(*[
            range(shape[a]) for a in range(len(shape)) if a not in axes and a not in loop_axes]))  # fmt: skip
        self.results = {}
        # of a result in memory that blocks have rows of: how many rows there are
        self.rows = self.lengths[0] if emit.blocks is not None and not self.apart else None
        self.divisor = self.count if self.fun is np.mean else None

    def position(self, combination, reduced):
        """Return a position in the operand."""
        some, rest = iter(combination), iter(reduced)
        place = {a: k for k, a in enumerate(self.loop_axes)}
        return tuple([At(place[a]) if a in place else next(rest) if a in self.axes else next(some)
                      for a in range(len(self.shape))])  # fmt: skip

    def target_position(self, combination):
        """Return the position in the result."""
        some = iter(combination)
        place = {a: k for k, a in enumerate(self.loop_axes)}
        entries = []
        for a in range(len(self.shape)):
            if a in self.axes:
                if self.keep:
                    entries.append(0)
            else:
                entries.append(At(place[a]) if a in place else next(some))
        if not self.keep and len(entries) < len(self.s.shape):  # a sum to a shape with axes of length 1
            raise Unfit("axes of length 1")
        return tuple(entries)

    def covers(self, level=None):
        """Tell whether the pieces at hand belong to the operand."""
        level = self.emit.depth if level is None else level
        return all(self.emit.ranges[k][1] <= n for k, n in enumerate(self.lengths[:level]))

    def begin(self, level):
        """Write the start: accumulators at their level, or memory filled with the neutral element."""
        b, w = self.emit.b, self.emit
        if self.inside and level == self.level and self.covers(level):
            self.lanes, self.totals, self.singles = {}, {}, {}
            with w.at(level):
                for c in self.combinations:
                    for group, lanes in ((self.lanes, w.most), (self.totals, w.most), (self.singles, 1)):
                        kind = with_lanes(self.kind, lanes)
                        group[c] = b.alloca(STORED.get(kind, kind) if lanes == 1 else memory_kind(kind))
                        b.store(splat(self.start, lanes) if lanes > 1 else self.start, group[c], 8)
        if level == 0 and self.apart:
            shape = self.s.shape if self.partial or self.level else (len(self.combinations),)
            self.target = w.blocks.part(b, self.s, shape, MAPS[self.base], self.divisor)
        elif level == 0 and (self.partial or self.level):
            self.target = w.memory(self.s)
        if level == 0 and self.partial:
            sweep(w, self.target, lambda pointer, lanes: b.store(
                splat(self.start, lanes) if lanes > 1 else self.start, pointer), rows=self.rows)  # fmt: skip

    def add(self):
        """Write a round."""
        w, b = self.emit, self.emit.b
        if not self.covers():
            return
        for c in self.combinations:
            reduced = itertools.product(*[range(self.shape[a]) for a in self.axes if a not in self.loop_axes])
            values = [w.value(self.x, self.position(c, r)) for r in reduced]
            x = w.fold(self.fun if self.fun is not np.mean else np.sum, values, self.s.dtype, self.x.dtype, False)
            x = w.wide(w.cast(x, bool if self.kind == "i1" else self.s.dtype), w.depth)
            if not self.inside:
                self.add_in_memory(c, x)
                continue
            group = self.singles if w.lanes == 1 else self.lanes
            kind = with_lanes(self.kind, w.lanes)
            with w.into(w.updates):
                old = b.load(kind, group[c], 8)
                new = MAPS[self.base](b, old, x)
                if w.live < w.lanes:
                    new = b.select(first_lanes(w.live, w.lanes), new, old)
                b.store(new, group[c], 8)

    def add_in_memory(self, c, x):
        """Add a round to a row of sums in memory."""
        w, b = self.emit, self.emit.b
        position = self.target_position(c)
        pointer, _, step = address(w, self.target, position)
        how, kind = MAPS[self.base], self.target.type
        with w.into(w.updates):
            if step != 1:
                for n, p in enumerate(lane_pointers(w, self.target, pointer, step)):
                    b.store(how(b, b.load(kind, p), b.lane(x, n) if w.lanes > 1 else x), p)
                return
            here = b.offset(self.target.type, pointer, w.index[-1])
            old = b.load(self.target.type, here) if w.lanes == 1 else load_row(w, self.target.type, here)
            new = how(b, old, x)
            if w.lanes == 1:
                b.store(new, here)
            else:
                store_row(w, new, here)

    def flushes(self):
        """Return the functions that empty the accumulators of a sum into the totals."""
        w, b = self.emit, self.emit.b
        if not self.inside or self.base is not np.add or not self.covers():
            return []

        def flush(c):
            kind = with_lanes(self.kind, w.most)
            b.store(
                b.binary(self.adds, b.load(kind, self.totals[c], 8), b.load(kind, self.lanes[c], 8)), self.totals[c], 8
            )
            b.store(splat(self.start, w.most), self.lanes[c], 8)

        return [lambda c=c: flush(c) for c in self.combinations]

    @property
    def adds(self):
        """The instruction that adds."""
        return "fadd" if self.kind in ("double", "float") else "add"

    def end(self, level):
        """Write the end: lanes together, and into the result."""
        w, b = self.emit, self.emit.b
        if self.inside and level == self.level and self.covers(level):
            how = MAPS[self.base]
            for c in self.combinations:
                kind = with_lanes(self.kind, w.most)
                x = b.load(kind, self.lanes[c], 8)
                if self.base is np.add:
                    x = how(b, b.load(kind, self.totals[c], 8), x)
                half = w.most // 2
                while half:
                    low = b.shuffle(x, None, range(half)) if half > 1 else b.lane(x, 0)
                    high = b.shuffle(x, None, range(half, 2 * half)) if half > 1 else b.lane(x, 1)
                    x = how(b, low, high)
                    half //= 2
                x = how(b, x, b.load(self.kind, self.singles[c], 8))
                if self.divisor and not self.partial and not self.apart:
                    x = b.binary("fdiv", x, constant(self.kind, self.count))
                self.results[c] = x
                if self.level:
                    self.store_row_result(c, x)
                elif self.apart and not self.partial:
                    b.store(x, b.offset(self.kind, self.target.pointer, self.combinations.index(c)))
        if self.partial and level == 0 and self.divisor and not self.apart:
            count = constant(self.kind, self.count)

            def divide(pointer, lanes):
                kind = with_lanes(self.kind, lanes)
                by = splat(count, lanes) if lanes > 1 else count
                b.store(b.binary("fdiv", b.load(kind, pointer), by), pointer)

            sweep(w, self.target, divide, after=True, rows=self.rows)

    def store_row_result(self, c, x):
        """Store the result of a row."""
        w, b = self.emit, self.emit.b
        memory = self.target
        offset = memory.offset
        pointer = memory.pointer
        for p, stride in zip(self.target_position(c), memory.strides, strict=True):
            if p.__class__ is At:
                offset += p.shift * stride
                pointer = b.offset(memory.type, pointer, times(b, w.index[p.loop], stride * p.step))
            else:
                offset += p * stride
        here = b.offset(memory.type, pointer, offset)
        if self.partial:
            x = MAPS[self.base](b, b.load(memory.type, here), x)
        b.store(x, here)

    def held(self):
        """Return how the result is held; of one that blocks have parts of, nothing."""
        if self.apart:
            return None
        if self.partial or self.level:
            return self.target
        return Lanes([(self.results[c], -1) for c in self.combinations], self.s.shape, self.s.dtype)


def memory_kind(kind):
    """Return the type that a vector has in memory."""
    return with_lanes(STORED.get(element_of(kind), element_of(kind)), lanes_of(kind))


def sweep(w, memory, write, after=False, rows=None):
    """Write a loop over all entries of memory without gaps: ``write(pointer, lanes)``.

    In blocks, with the number of `rows`, it is over those rows that the block at hand has.
    """
    b = w.b
    if not memory.is_rows:
        raise Unfit("sums in strided memory")
    with contextlib.nullcontext() if after else w.at(0):
        size, lanes = memory.size, w.most
        start = b.offset(memory.type, memory.pointer, memory.offset)
        if rows is not None:
            first, last = w.blocks.within(b, 0, rows, 1)
            first, last = times(b, first, size // rows), times(b, last, size // rows)
            rest = b.binary("srem", b.binary("sub", last, first), constant("i64", lanes))
            full = b.binary("sub", last, rest)
            run(b, first, full, lanes, lambda index, _: write(b.offset(memory.type, start, index), lanes))
            run(b, full, last, 1, lambda index, _: write(b.offset(memory.type, start, index), 1))
            return
        full = size // lanes * lanes
        if full:
            loop(b, 0, full, lanes, lambda index, _: write(b.offset(memory.type, start, index), lanes))
        for n in range(full, size):
            write(b.offset(memory.type, start, n), 1)


class Added:
    """A write that adds at integers (`scatter`, `unpicked`), as a root of a nest."""

    adds = True

    def __init__(self, emit, e, value, shape, before, arrays, after) -> None:
        self.emit, self.e, self.v, self.s = emit, e, value, e.output
        self.shape = shape  # of what is added
        self.before, self.arrays, self.after = before, arrays, after

    def begin(self, level):
        """Fill the result with zeros."""
        w, b = self.emit, self.emit.b
        if level == 0:
            self.target = w.memory(self.s)
            zero = constant(self.target.type, 0)
            sweep(w, self.target, lambda pointer, lanes: b.store(splat(zero, lanes) if lanes > 1 else zero, pointer))

    def add(self):
        """Write a round: one lane after the other."""
        w, b = self.emit, self.emit.b
        for position in positions_of(self.shape, self.loop_axes):
            if not all(
                w.ranges[p.loop][1] <= n for p, n in zip(position, self.shape, strict=True) if p.__class__ is At
            ):
                continue
            have = self.v.shape if self.v.__class__ is Symbol else ()
            inner = tuple(
                [0 if n == 1 else p for n, p in zip(have, position[len(position) - len(have) :], strict=True)]
            )
            x = w.wide(w.cast(w.operand(self.v, inner), self.s.dtype), w.depth)
            block = position[self.before : len(position) - self.after]
            target, place, pieces = self.target, [], []
            if function_of(self.e) is indexing.unpicked:
                target = flat_view(target)
            for k, array in enumerate(self.arrays):
                n = target.shape[self.before + k]
                if array.__class__ is int:
                    place.append(array % n)
                    continue
                place.append(0)
                shape = array.shape
                inner = tuple(
                    [0 if m == 1 else p for m, p in zip(shape, block[len(block) - len(shape) :], strict=True)]
                )
                pieces.append((checked(w, w.index_value(array, inner), n), target.strides[self.before + k]))
            full = (*position[: self.before], *place, *position[len(position) - self.after :])
            pieces = [(i if i.__class__ is tuple else (constant("i64", i), 0), s) for i, s in pieces]
            pieces = [((w.wide(i, w.depth), w.depth), s) for i, s in pieces]
            pointers, _ = lane_addresses(w, target, full, pieces)
            with w.into(w.updates):
                for n, p in enumerate(pointers):
                    more = b.lane(x, n) if w.lanes > 1 else x
                    if self.adds:
                        more = MAPS[np.add](b, b.load(target.type, p), more)
                    b.store(more, p)

    def end(self, level):
        """Nothing is left to do."""

    def flushes(self):
        """Nothing is emptied."""
        return []

    def held(self):
        """The memory."""
        return self.target


def positions_of(shape, loop_axes):
    """Return the positions of an array's entries in a round: `At` along the loops, numbers along other axes."""
    place = {a: k for k, a in enumerate(loop_axes)}
    rest = itertools.product(*[range(n) for a, n in enumerate(shape) if a not in place])
    found = []
    for some in rest:
        entries = iter(some)
        found.append(tuple([At(place[a]) if a in place else next(entries) for a in range(len(shape))]))
    return found


class Stored:
    """A result that is stored, as a root of a nest.

    ``strange(b, truth)``, if it is given, writes down whether some entry is not finite: then all bits of its exponent
    are set, so that one more there carries over into the sign.
    """

    def __init__(self, emit, s, loop_axes, target=None, strange=None) -> None:
        self.emit, self.s, self.loop_axes = emit, s, loop_axes
        self.target, self.given, self.strange = target, target is not None, strange
        self.seen = {}

    def begin(self, level):
        """Ask for memory."""
        w, b = self.emit, self.emit.b
        if level == 0 and self.target is None:
            self.target = w.memory(self.s)
        if level == 0 and self.strange is not None:
            self.kind, self.bits, self.one = BITS[type_of(self.s.dtype)]
            for lanes in {1, w.most}:
                kind = with_lanes(self.kind, lanes)
                self.seen[lanes] = b.alloca(kind)
                with w.at(0):
                    b.store(self.whole(0, lanes), self.seen[lanes], 8)

    def whole(self, n, lanes):
        """Return a vector of equal integers."""
        return splat(constant(self.kind, n), lanes) if lanes > 1 else constant(self.kind, n)

    def look(self, x):
        """Note the signs that tell of entries which are not finite."""
        w, b = self.emit, self.emit.b
        lanes, kind = w.lanes, with_lanes(self.kind, w.lanes)
        with w.at(w.depth):
            t = b.binary("and", b.cast("bitcast", x, kind), self.whole(self.bits, lanes))
            t = b.binary("add", t, self.whole(self.one, lanes))
            if w.live < lanes:
                t = b.select(first_lanes(w.live, lanes), t, self.whole(0, lanes))
        with w.into(w.updates):
            b.store(b.binary("or", b.load(kind, self.seen[lanes], 8), t), self.seen[lanes], 8)

    def add(self):
        """Write a round."""
        w = self.emit
        shape = w.shape(self.s)
        target = flat_view(self.target) if w.flat and not self.given else self.target
        for position in positions_of(shape, self.loop_axes):
            if all(w.ranges[p.loop][1] <= n for p, n in zip(position, shape, strict=True) if p.__class__ is At):
                x = w.value(self.s, position)
                store(w, target, position, x)
                if self.strange is not None:
                    self.look(w.wide(w.cast(x, self.s.dtype), w.depth))

    def end(self, level):
        """Tell whether some entry is not finite."""
        w, b = self.emit, self.emit.b
        if level == 0 and self.strange is not None:
            total = b.load(self.kind, self.seen[1], 8)
            if w.most > 1:
                x = b.load(with_lanes(self.kind, w.most), self.seen[w.most], 8)
                total = b.binary("or", total, b.call(f"llvm.vector.reduce.or.v{w.most}{self.kind}", self.kind, x))
            self.strange(b, b.compare("slt", total, constant(self.kind, 0)))

    def flushes(self):
        """Nothing is emptied."""
        return []

    def held(self):
        """The memory."""
        return self.target
