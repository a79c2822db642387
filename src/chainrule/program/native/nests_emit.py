"""Code of the rounds of a loop nest: the walk of `nests_walk`, writing instructions.

What depends on the indices of the first k loops only is written at level k, before the loop inside it: once for all of
that loop's rounds. A value is known with its level; at the innermost one it is a vector, of as many lanes as the round
at hand has. `nests_memory` loads what comes from outside; `nests_loops` writes the loops, and asks for their rounds.
"""

import contextlib

import numpy as np

from chainrule.engine.spec import cast_to, choose
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Symbol
from chainrule.program.native.builder import STORED, constant, element_of, lanes_of, splat, type_of
from chainrule.program.native.lanes import Lanes, single
from chainrule.program.native.maps import MAPS, computes_in, how_of
from chainrule.program.native.nests_kinds import FOLDS, dtype_of
from chainrule.program.native.nests_memory import checked, flat_view, load, load_at
from chainrule.program.native.nests_positions import At, Unfit
from chainrule.program.native.nests_walk import Walk
from chainrule.program.native.scalars import FLOATS, clip, converted, literal, truth
from chainrule.program.native.values import Entries, Memory, Number, rows


class Emit(Walk):
    """Writes the rounds of one nest.

    Attributes
    ----------
    values : dict
        How symbols from outside are held.
    memory : callable
        Tells where results are stored.
    loops, depth
        How long the loops are, and how many.
    code, env : list
        For each level its lines, and what is known there.
    index : list
        The index of each loop in the round at hand.
    lanes, live, most : int
        Of the vector at hand, how many of them count, and of a full one.
    bad : Value or None
        Where it is noted that an index was out of bounds.
    blocks : Blocks or None
        Those of the outermost loop, if threads may run them.
    updates : list
        What a round writes and the next one reads: accumulators.
    """

    def __init__(self, b, makers, values, memory, flat, loops, lanes) -> None:
        super().__init__(makers, flat, [(0, n) for n in loops])
        self.b, self.values, self.memory = b, values, memory
        self.loops, self.most = loops, lanes
        self.depth = len(loops)
        self.code = [[] for _ in range(self.depth + 1)]
        self.env = [{} for _ in range(self.depth + 1)]
        self.index = [None] * self.depth
        self.lanes, self.live = lanes, lanes
        self.spilled, self.views, self.singles = {}, {}, {}
        self.bad = self.blocks = None
        self.updates = []

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

    # -- values: (value, level), or a plain number -----------------------------------------------------------

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

    def fold(self, fun, values, out, dtype, whole=True):
        """Write a reduction of values that are at hand, from the first to the last; `whole` if it is all of it."""
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
        if (
            whole and base is np.add and element_of(total.type) in FLOATS
        ):  # NumPy begins with 0: a sum of zeros is never -0.0
            with self.at(level):
                total = b.binary("fadd", total, self.wide((constant(element_of(total.type), 0.0), 0), level))
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

    # -- what comes from outside -----------------------------------------------------------------------------

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
        return load(self, flat_view(held) if self.flat else held, position)

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

    # -- reads at integers -----------------------------------------------------------------------------------

    def index_value(self, x, position):
        """Return an index out of an array of integers."""
        if x.__class__ is not Symbol:
            pointer = self.b.module.table(np.ascontiguousarray(x))
            table = self.views.setdefault(id(x), (x, Memory.of_rows(pointer, x.shape, x.dtype)))
            return self.cast(load(self, table[1], position), np.int64)
        return self.cast(self.value(x, position), np.int64)

    def gather(self, x, before, indices, after):
        """Load entries at integers."""
        memory = self.memory_of(x)
        position = [*before, *[i if i.__class__ is int else 0 for i in indices], *after]
        pieces = []
        for k, i in enumerate(indices):
            if i.__class__ is tuple:
                pieces.append((checked(self, i, x.shape[len(before) + k]), memory.strides[len(before) + k]))
        return load_at(self, memory, tuple(position), pieces)

    def gather_flat(self, x, where):
        """Load entries at flat positions."""
        memory = flat_view(self.memory_of(x))
        return load_at(self, memory, (0,), [(checked(self, where, x.size), 1)])

    def memory_of(self, x):
        """Return the memory of a symbol from outside."""
        held = self.held(x)
        if held.__class__ is Number:
            raise Unfit("a number is read at integers")
        return self.spill(x, held) if held.__class__ is Entries else held
