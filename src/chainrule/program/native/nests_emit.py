"""Code of a loop nest: the walk of `nests_walk`, writing instructions.

What depends on the indices of the first k loops only is written at level k, before the loop inside it: once for all of
that loop's rounds. The innermost loop takes vectors of neighbouring entries; what is left at its end is a vector with a
mask. Each piece of a loop between two cuts has a body of its own.

Sums and other reductions over the innermost loop have one accumulator for each lane. Accumulators of sums of many
entries are emptied into totals every `BLOCK` rounds; at the end lane n and lane n + half are added up, and so on. So
the order depends on the shapes and on the processor's lanes, and on nothing else. A reduction over outer loops only is
added up row by row in memory.
"""

import contextlib
import itertools
import math

import numpy as np

from chainrule.engine.spec import cast_to, choose
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
)  # fmt: skip
from chainrule.program.native.lanes import Lanes, single
from chainrule.program.native.nests_kinds import FOLDS, dtype_of
from chainrule.program.native.nests_positions import At, Unfit
from chainrule.program.native.nests_walk import Walk
from chainrule.program.native.scalars import MAPS, clip, computes_in, converted, how_of, literal, truth
from chainrule.program.native.values import Entries, Memory, Number, rows

FEW, SEVERAL = 100, 250  # lines of rounds that are taken in turns: four or three, and two
SMALL = 1 / 8  # of all rounds: pieces with fewer are not worth more code
BLOCK = 128  # rounds after which an accumulator is emptied into its total


class Emit(Walk):
    """Writes one nest. `values` has the symbols from outside, `memory` tells where results are stored."""

    def __init__(self, b, makers, values, memory, flat, loops, cuts, lanes) -> None:
        super().__init__(makers, flat, [(0, n) for n in loops])
        self.b, self.values, self.memory = b, values, memory
        self.loops, self.cuts, self.most = loops, cuts, lanes
        self.depth = len(loops)
        self.code = [[] for _ in range(self.depth + 1)]
        self.post = [[] for _ in range(self.depth + 1)]
        self.env = [{} for _ in range(self.depth + 1)]
        self.index = [None] * self.depth
        self.lanes, self.live = lanes, lanes  # of the vector at hand; how many of them count
        self.spilled, self.views, self.singles = {}, {}, {}
        self.bad = None
        self.order = []  # entries in an order in which they can be written, if there are many
        self.size = 0  # how many values a round has
        self.stores = False  # whether a round only stores: then it may be made twice
        self.blocks = None  # of the outermost loop, if threads may run them
        self.updates = []  # what a round writes and the next one reads: accumulators

    @contextlib.contextmanager
    def into(self, lines):
        """Write to other lines."""
        before, self.b.lines = self.b.lines, lines
        try:
            yield
        finally:
            self.b.lines = before

    def at(self, level):
        """Write at a level."""
        return self.into(self.code[level])

    # -- values: (value, level), or a plain number -------------------------------------------------------------

    def value(self, s, position):
        """Return an entry of a symbol."""
        key = s, position
        for env in self.env:
            if key in env:
                return env[key]
        if s in self.makers:
            with self.b.module.noted(self.makers[s]):
                made = self.visit(s, position)
        else:
            made = self.external(s, position)
        if made.__class__ is not tuple:
            made = (literal(made, type_of(s.dtype)), 0)
        # which piece of a loop it is for may matter, even if the value does not depend on the loop
        level = max([made[1], *[p.loop + 1 for p in position if p.__class__ is At]])
        self.env[level][key] = made
        return made

    def plain(self, x):
        """Return a number as it is."""
        return x

    def zero(self, dtype):
        """Return the zero of a dtype."""
        return constant(type_of(dtype), 0), 0

    def undecided(self, tests, yes, no):
        """All is decided between two cuts."""
        raise Unfit("a loop is not cut")

    def level_of(self, xs) -> int:
        """Return the level at which values are known."""
        return max([x[1] for x in xs if x.__class__ is tuple], default=0)

    def wide(self, x, level, kind=None):
        """Return a value as an operand at a level: spread over the lanes there; `kind` is the type of numbers."""
        value = literal(x, kind) if x.__class__ is not tuple else x[0]
        if level < self.depth or self.lanes == 1 or lanes_of(value.type) > 1:
            return value
        if value.is_constant:
            return splat(value, self.lanes)
        below = x[1]
        key = "wide", value.text, self.lanes
        env = self.env[below]
        if key not in env:
            with self.at(below):
                env[key] = self.b.spread(value, self.lanes)
        return env[key]

    def cast(self, x, dtype):
        """Return a value in another dtype."""
        kind = type_of(dtype)
        if x.__class__ is not tuple:
            return literal(x, kind), 0
        value, level = x
        if element_of(value.type) == kind:
            return x
        with self.at(level):
            return converted(self.b, value, kind), level

    def compute(self, e, xs):
        """Write an elementwise call."""
        fun, s = function_of(e), e.output
        if fun is cast_to:
            return self.cast(xs[0], s.dtype)
        level, b = self.level_of(xs), self.b
        if fun in (np.where, choose):
            kind = type_of(s.dtype)
            mask = xs[0] if xs[0].__class__ is tuple else (literal(bool(xs[0]), "i1"), 0)
            rest = [self.cast(x, s.dtype) for x in xs[1:]] + [self.zero(s.dtype)] * (fun is choose)
            with self.at(level):
                mask = truth(b, self.wide(mask, level))
            x, y = [self.wide(x, level) for x in rest]
            with self.at(level):
                return b.select(mask, x, y), level
        if fun is np.clip:
            xs = [x if x is None else self.cast(x, s.dtype) for x in xs]
            operands = [None if x is None else self.wide(x, level) for x in xs]
            with self.at(level):
                return clip(b, *operands), level
        kind = computes_in(fun, s.dtype, [dtype_of(x) for x in e.inputs])
        xs = [(literal(x, kind), 0) if x.__class__ is not tuple else x for x in xs]
        operands = []
        for x in xs:
            value, below = x
            if element_of(value.type) != kind:
                with self.at(below):
                    value = converted(b, value, kind)
            operands.append(self.wide((value, below), level))
        if not any(x[1] == self.depth for x in xs) and level == self.depth:
            raise AssertionError
        with self.at(level):
            y = how_of(fun)(b, *operands)
            if element_of(y.type) != type_of(s.dtype):
                y = converted(b, y, type_of(s.dtype))
        return y, level

    def fold(self, fun, values, out, dtype):
        """Write a reduction of values that are at hand, from the first to the last."""
        base, b = FOLDS[fun], self.b
        level = self.level_of(values)
        total = None
        for x in values:
            x = self.cast(x, bool if base in (np.logical_or, np.logical_and) else out)
            x = self.wide(x, level)
            if total is None:
                total = x
            else:
                with self.at(level):
                    total = MAPS[base](b, total, x)
        if fun is np.mean:
            with self.at(level):
                count = self.wide((constant(element_of(total.type), len(values)), 0), level)
                total = b.binary("fdiv", total, count)
        return total, level

    def products(self, terms, dtype):
        """Write a sum of products."""
        b = self.b
        terms = [(self.cast(x, dtype), self.cast(y, dtype)) for x, y in terms]
        level = self.level_of([x for t in terms for x in t])
        total = None
        for x, y in terms:
            x, y = self.wide(x, level), self.wide(y, level)
            with self.at(level):
                p = b.binary("fmul", x, y)
                total = p if total is None else b.binary("fadd", total, p)
        return total, level

    def place(self, entry):
        """Return a place along an axis as a value at its level: for the innermost loop one for each lane."""
        b = self.b
        if entry.__class__ is not At:
            return constant("i64", entry), 0
        level = entry.loop + 1
        with self.at(level):
            index = self.index[entry.loop]
            if level == self.depth and self.lanes > 1:
                lanes = b.pack([constant("i64", n) for n in range(self.lanes)])
                index = b.binary("add", b.spread(index, self.lanes), lanes)
            kind = index.type
            step, shift = [splat(constant("i64", n), lanes_of(kind)) if lanes_of(kind) > 1 else constant("i64", n)
                           for n in (entry.step, entry.shift)]  # fmt: skip
            return b.binary("add", b.binary("mul", index, step), shift), level

    def masked(self, x, i, j, how, k, dtype):
        """Return x where ``j - i`` compares with k, otherwise zero."""
        b, zero = self.b, self.zero(dtype)
        i, j, k = self.place(i), self.place(j), (constant("i64", k), 0)
        level = self.level_of([x, i, j])
        x, zero, i, j, k = [self.wide(v, level) for v in (x, zero, i, j, k)]
        with self.at(level):
            return b.select(b.compare(how, b.binary("sub", j, i), k), x, zero), level

    # -- memory ------------------------------------------------------------------------------------------------

    def external(self, s, position):
        """Return an entry of a symbol from outside."""
        held = self.held(s)
        if held.__class__ is Number:
            return held.value, 0
        if held.__class__ is Entries:
            if self.flat and len(held.values) == 1:
                return held.values[0], 0
            if not self.flat and all(p.__class__ is not At for p in position):
                return held.values[sum(p * t for p, t in zip(position, rows(held.shape), strict=True))], 0
            held = self.spill(s, held)
        return self.load(self.flat_view(held) if self.flat else held, position)

    def held(self, s):
        """Return how a symbol from outside is held: entries as numbers."""
        held = self.values[s]
        if held.__class__ is not Lanes:
            return held
        if s not in self.singles:
            with self.at(0):
                found = [single(self.b, ref) for ref in held.refs]
            self.singles[s] = Entries(found, s.shape, s.dtype) if s.shape else Number(found[0], s.dtype)
        return self.singles[s]

    def flat_view(self, held):
        """Return memory as one row."""
        if not held.is_rows:
            raise Unfit("memory with gaps, in flat order")
        return held.like((held.size,), (1,))

    def spill(self, s, held):
        """Store entries, to be read by index."""
        if s not in self.spilled:
            kind = held.values[0].type
            with self.at(0):
                pointer = self.b.alloca(STORED.get(kind, kind), len(held.values))
                memory = Memory.of_rows(pointer, held.shape, held.dtype)
                memory.store(self.b, held.values)
            self.spilled[s] = memory
        return self.spilled[s]

    def address(self, memory, position):
        """Return (pointer at the lowest level possible, that level, stride along the innermost loop)."""
        fixed, steps = memory.offset, [0] * self.depth
        for p, stride in zip(position, memory.strides, strict=True):
            if p.__class__ is At:
                fixed += p.shift * stride
                steps[p.loop] += p.step * stride
            else:
                fixed += p * stride
        pointer, level = memory.pointer, 0
        for k in range(self.depth - 1):
            if steps[k]:
                key = "row", pointer, memory.type, k, steps[k]
                env = self.env[k + 1]
                if key not in env:
                    with self.at(k + 1):
                        env[key] = self.b.offset(memory.type, pointer, self.times(self.index[k], steps[k]))
                pointer, level = env[key], k + 1
        if fixed:
            key = "shift", pointer, memory.type, fixed
            env = self.env[level]
            if key not in env:
                with self.at(level):
                    env[key] = self.b.offset(memory.type, pointer, fixed)
            pointer = env[key]
        return pointer, level, steps[-1] if steps else 0

    def times(self, index, step):
        """Return an index times a number."""
        if step == 1:
            return index
        if index.is_constant:
            return constant("i64", int(index.text) * step)
        return self.b.binary("mul", index, constant("i64", step))

    def lane_pointers(self, memory, pointer, step):
        """Return the pointers of the live lanes of a strided vector."""
        b = self.b
        first = b.offset(memory.type, pointer, self.times(self.index[-1], step))
        return [b.offset(memory.type, first, n * step) for n in range(self.live)]

    def load(self, memory, position):
        """Load an entry, or a vector of entries."""
        b = self.b
        pointer, level, step = self.address(memory, position)
        if step == 0 or self.depth == 0:
            key = "load", pointer, memory.type
            env = self.env[level]
            if key not in env:
                with self.at(level):
                    env[key] = b.load(memory.type, pointer), level
            return env[key]
        key = "load", pointer, memory.type, step
        env = self.env[self.depth]
        if key in env:
            return env[key]
        with self.at(self.depth):
            if self.lanes == 1:
                x = b.load(memory.type, b.offset(memory.type, pointer, self.times(self.index[-1], step)))
            elif step == 1:
                x = self.load_row(memory.type, b.offset(memory.type, pointer, self.index[-1]))
            elif step == -1 and self.live == self.lanes:
                back = b.binary("sub", constant("i64", 1 - self.lanes), self.index[-1])
                x = self.load_row(memory.type, b.offset(memory.type, pointer, back))
                x = b.shuffle(x, None, range(self.lanes)[::-1])
            else:
                xs = [b.load(memory.type, p) for p in self.lane_pointers(memory, pointer, step)]
                x = b.pack(xs + [constant(memory.type, 1)] * (self.lanes - self.live))
        env[key] = x, self.depth
        return env[key]

    def load_row(self, kind, pointer):
        """Load neighbouring entries; lanes that do not count are 1."""
        if self.live == self.lanes:
            return self.b.load(with_lanes(kind, self.lanes), pointer)
        return self.b.load_some(kind, pointer, self.live, self.lanes)

    def store(self, memory, position, x):
        """Store an entry, or the live lanes of a vector."""
        b = self.b
        value, level = self.cast(x, memory.dtype)
        pointer, below, step = self.address(memory, position)
        deep = self.depth if step else max(level, below)
        if not step:
            raise Unfit("a store outside the innermost loop")
        value = self.wide((value, level), deep)
        kind = memory.type
        with self.at(deep):
            if self.lanes == 1:
                b.store(value, b.offset(kind, pointer, self.times(self.index[-1], step)))
            elif step == 1:
                self.store_row(value, b.offset(kind, pointer, self.index[-1]))
            elif step == -1 and self.live == self.lanes:
                back = b.binary("sub", constant("i64", 1 - self.lanes), self.index[-1])
                value = b.shuffle(value, None, range(self.lanes)[::-1])
                self.store_row(value, b.offset(kind, pointer, back))
            else:
                for n, p in enumerate(self.lane_pointers(memory, pointer, step)):
                    b.store(b.lane(value, n), p)

    def store_row(self, value, pointer):
        """Store the live lanes in neighbouring entries."""
        if self.live == self.lanes:
            self.b.store(value, pointer)
        else:
            self.b.store_some(value, pointer, self.live)

    # -- integers ----------------------------------------------------------------------------------------------

    def index_value(self, x, position):
        """Return an index out of an array of integers."""
        if x.__class__ is not Symbol:
            pointer = self.b.module.table(np.ascontiguousarray(x))
            table = self.views.setdefault(id(x), (x, Memory.of_rows(pointer, x.shape, x.dtype)))
            return self.cast(self.load(table[1], position), np.int64)
        return self.cast(self.value(x, position), np.int64)

    def checked(self, index, n, certain=False):
        """Return an index from 0 on, as a value at its level; what is out of bounds is noted, and becomes 0."""
        b = self.b
        if index.__class__ is not tuple:
            return index
        value, level = index
        lanes = lanes_of(value.type)

        def number(k):
            return splat(constant("i64", k), lanes) if lanes > 1 else constant("i64", k)

        with self.at(level):
            value = b.select(b.compare("slt", value, number(0)), b.binary("add", value, number(n)), value)
            wrong = b.compare("uge", value, number(n))
            if lanes > 1 and self.live < lanes:
                wrong = b.binary("and", wrong, first_lanes(self.live, self.lanes))
            value = b.select(wrong, number(0), value)
            if self.bad is None:
                self.bad = b.alloca("i64")
                first = []
                with self.into(first):
                    b.store(constant("i64", 0), self.bad)
                self.code[0][:0] = first
            some = wrong
            if lanes > 1:
                some = b.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", wrong)
        with self.into(self.updates) if level == self.depth else self.at(level):
            b.store(b.binary("or", b.load("i64", self.bad), b.cast("zext", some, "i64")), self.bad)
        return value, level

    def gather(self, x, before, indices, after):
        """Load entries at integers."""
        memory = self.memory_of(x)
        position = [*before, *[i if i.__class__ is int else 0 for i in indices], *after]
        pieces = []
        for k, i in enumerate(indices):
            if i.__class__ is tuple:
                pieces.append((self.checked(i, x.shape[len(before) + k]), memory.strides[len(before) + k]))
        return self.load_at(memory, tuple(position), pieces)

    def gather_flat(self, x, where):
        """Load entries at flat positions."""
        memory = self.flat_view(self.memory_of(x))
        return self.load_at(memory, (0,), [(self.checked(where, x.size), 1)])

    def memory_of(self, x):
        """Return the memory of a symbol from outside."""
        held = self.held(x)
        if held.__class__ is Number:
            raise Unfit("a number is read at integers")
        return self.spill(x, held) if held.__class__ is Entries else held

    def lane_addresses(self, memory, position, pieces):
        """Return (pointers of the lanes, level): a position, and more along axes by integers."""
        b = self.b
        pointer, below, step = self.address(memory, position)
        level = max(below, self.depth if step else 0, self.level_of([i for i, _ in pieces]))
        total = None
        for i, stride in pieces:
            part = self.wide(i, level)
            with self.at(level):
                if stride != 1:
                    part = b.binary("mul", part, self.wide((constant("i64", stride), 0), level))
                total = part if total is None else b.binary("add", total, part)
        with self.at(level):
            if lanes_of(total.type) == 1:
                if step:
                    total = b.binary("add", total, self.times(self.index[-1], step))
                return [b.offset(memory.type, pointer, total)], level
            pointers = []
            for n in range(self.live):
                here = b.offset(memory.type, pointer, b.lane(total, n))
                if step:
                    here = b.offset(memory.type, here, self.times(self.index[-1], step))
                    here = b.offset(memory.type, here, n * step)
                pointers.append(here)
        return pointers, level

    def load_at(self, memory, position, pieces):
        """Load entries at a position, and more along axes by integers."""
        b = self.b
        pointers, level = self.lane_addresses(memory, position, pieces)
        with self.at(level):
            xs = [b.load(memory.type, p) for p in pointers]
            if level < self.depth or self.lanes == 1:
                return xs[0], level
            return b.pack(xs + [constant(memory.type, 1)] * (self.lanes - self.live)), level

    # -- loops -------------------------------------------------------------------------------------------------

    def pieces(self, k):
        """Return the ranges of a loop between its cuts."""
        bounds = [0, *sorted(c for c in self.cuts[k] if 0 < c < self.loops[k]), self.loops[k]]
        return [(a, z) for a, z in itertools.pairwise(bounds) if z > a]

    def write(self, body, begin, end):
        """Write all loops.

        ``body()`` writes a round of the innermost loop, ``begin(k)`` and ``end(k)`` what stands before and after the
        loops inside level k.
        """
        self.body, self.begin, self.end = body, begin, end
        begin(0)
        lines = self.nest(0)
        with self.into(self.post[0]):
            end(0)
        b = self.b
        b.lines += self.code[0]
        if lines:
            first, last = lines[0], b.block("done")
            b.branch(first)
            for part in lines[1]:
                b.lines += part
            b.branch(last)
            b.start(last)
        b.lines += self.post[0]

    def nest(self, k):
        """Return (label of the first block, its lines and those after it) of the loops from number k on."""
        if k == self.depth or not all(self.loops):
            return ()
        b, parts = self.b, []
        label = first = b.block("piece")
        for low, high in self.pieces(k):
            self.ranges[k] = low, high
            following = b.block("piece")
            lines = []
            with self.into(lines):
                b.start(label)
                if k == self.depth - 1:
                    self.inner(low, high)
                else:
                    self.outer(k, low, high)
                b.branch(following)
            parts.append(lines)
            label = following
        self.ranges[k] = 0, self.loops[k]
        last = []
        with self.into(last):
            b.start(label)
        parts.append(last)
        return first, parts

    def loop(self, low, high, step, write, blocks=None):
        """Write a loop, or the part of it that is in a block; ``write(index, first index)`` its body."""
        if blocks is None:
            self.run(constant("i64", low), constant("i64", high), step, write)
        else:
            self.run(*blocks.within(self.b, low, high, step), step, write)

    def run(self, first, last, step, write):
        """Write a loop from one index up to another; of constants it has a round."""
        b = self.b
        head, after = b.block("loop"), b.block("after")
        counter = b.alloca("i64")
        b.store(first, counter)
        if first.is_constant and last.is_constant:
            b.branch(head)
        else:
            b.condition(b.compare("slt", first, last), head, after)
        b.start(head)
        index = b.load("i64", counter)
        write(index, first)
        following = b.write("i64", f"add nuw nsw i64 {index.text}, {step}")
        b.store(following, counter)
        b.condition(b.compare("ult", following, last), head, after)
        b.start(after)

    def once(self, index, blocks):
        """Write a round of the innermost loop that is by itself; in blocks, for the one that has it."""
        self.alone(index, blocks, lambda: self.round_of(constant("i64", index)))

    def alone(self, index, blocks, write):
        """Write a round that is by itself."""
        b = self.b
        if blocks is None:
            write()
            return
        mine, others = b.block("mine"), b.block("others")
        b.condition(blocks.has(b, index), mine, others)
        b.start(mine)
        write()
        b.branch(others)
        b.start(others)

    def outer(self, k, low, high):
        """Write a piece of a loop that has loops inside."""
        b = self.b

        def round_of(index):
            self.index[k] = index
            self.code[k + 1], self.post[k + 1], self.env[k + 1] = [], [], {}
            self.begin(k + 1)
            inside = self.nest(k + 1)
            with self.into(self.post[k + 1]):
                self.end(k + 1)
            b.lines += self.code[k + 1]
            b.branch(inside[0])
            for part in inside[1]:
                b.lines += part
            b.lines += self.post[k + 1]

        blocks = self.blocks if k == 0 else None
        if high - low == 1:
            self.alone(low, blocks, lambda: round_of(constant("i64", low)))
        else:
            self.loop(low, high, 1, lambda index, _: round_of(index), blocks)

    def round_of(self, *indices):
        """Write a round of the innermost loop; or several, their instructions taken in turns.

        Functions of the library wait for their operands: of two rounds in turns one is computed while the other waits.
        """
        codes, updates = [], []
        for index in indices:
            self.index[-1] = index
            self.code[-1], self.env[-1], self.updates = [], {}, []
            self.prepare()
            self.body()
            codes.append(self.code[-1])
            updates += self.updates
        for lines in itertools.zip_longest(*codes):
            self.b.lines += [line for line in lines if line is not None]
        self.b.lines += updates

    def prepare(self):
        """Write the values of a long round in the order in which they were planned, so that none asks for many."""
        for s, position, ranges in self.order:
            inside = True
            for p in position:
                if p.__class__ is At:
                    low, high = self.ranges[p.loop]
                    inside = inside and ranges[p.loop][0] <= low and high <= ranges[p.loop][1]
            if inside:
                self.value(s, position)

    def inner(self, low, high):
        """Write a piece of the innermost loop: vectors, and the rest."""
        b, blocks = self.b, self.blocks if self.depth == 1 else None
        if high - low == 1:
            self.lanes = self.live = 1
            self.once(low, blocks)
            self.lanes = self.live = self.most
            return
        lanes = self.most
        full = low + (high - low) // lanes * lanes
        rounds = (full - low) // lanes
        if self.stores and blocks is None and rounds and full < high:
            turns = self.turns(rounds)
            if turns > 1:
                first, low = low, low + rounds // turns * turns * lanes
                self.loop(first, low, turns * lanes, self.in_turns(turns))
            self.overlapping(low, high - lanes)
            return
        if rounds == 1:
            self.once(low, blocks)
        elif rounds > 1:
            emptied = self.flushes() if rounds > 2 * BLOCK else []
            turns = self.turns(rounds)
            step = turns * lanes
            first = low + rounds % turns * lanes
            if first - low > lanes:
                self.loop(low, first, lanes, lambda index, _: self.round_of(index), blocks)
            elif first > low:
                self.once(low, blocks)
            low = first

            write = self.in_turns(turns)

            def with_flushes(index, start):
                write(index)
                if not emptied:
                    return
                now, on = b.block("flush"), b.block("on")
                done = b.binary("add", b.binary("sub", index, start), constant("i64", step))
                rest = b.binary("urem", done, constant("i64", BLOCK * lanes))
                b.condition(b.compare("eq", rest, constant("i64", 0)), now, on)
                b.start(now)
                for flush in emptied:
                    flush()
                b.branch(on)
                b.start(on)

            self.loop(low, full, step, with_flushes, blocks)
        if full < high:
            self.live = high - full
            self.once(full, blocks)
            self.live = lanes

    def in_turns(self, turns):
        """Return how so many rounds are written."""

        def write(index, _=None):
            later = [self.b.binary("add", index, constant("i64", k * self.lanes)) for k in range(1, turns)]
            self.round_of(index, *later)

        return write

    def overlapping(self, low, last):
        """Write rounds up to one that begins at `last`, which may store some entries of the one before it again."""
        b, end = self.b, constant("i64", last)
        if low >= last:
            self.round_of(end)
            return
        head, after = b.block("loop"), b.block("after")
        counter = b.alloca("i64")
        b.store(constant("i64", low), counter)
        b.branch(head)
        b.start(head)
        index = b.load("i64", counter)
        self.round_of(index)
        following = b.write("i64", f"add nuw nsw i64 {index.text}, {self.lanes}")
        b.store(b.select(b.compare("ult", following, end), following, end), counter)
        b.condition(b.compare("ult", index, end), head, after)
        b.start(after)

    def turns(self, rounds) -> int:
        """Return how many rounds are taken in turns: of short bodies several, of those that call the library more."""
        if self.size > SEVERAL or rounds < 8 or self.part() < SMALL:
            return 1
        lines: list[str] = []
        with self.into(lines):  # a round that is not kept: how long it is
            self.round_of(constant("i64", 0))
        calls = any("_ZGV" in line for line in lines)
        most = (4 if calls else 3) if len(lines) <= FEW else 2 if calls and len(lines) <= SEVERAL else 1
        return most if rounds >= 4 * most else 1

    def part(self) -> float:
        """Return which part of all rounds the pieces at hand have."""
        lengths = [high - low for low, high in self.ranges]
        return math.prod(lengths) / math.prod(self.loops)

    def flushes(self):
        """Return functions that empty accumulators; set by the reductions."""
        return []
