"""Loops of a program as loops of machine code.

The state is in variables, which LLVM's passes turn into registers. What a forward round keeps for the backward loop is
a record on a stack in the frame: the way that the round took, if there are several, and the entries. If the number of
rounds is known, the stack is part of the frame; otherwise its memory may grow: a full stack ends the run, and it begins
anew with more.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.program.ir import Guard, Symbol
from chainrule.program.loops.ir import Exit, Fork, blocks_of
from chainrule.program.native import lanes
from chainrule.program.native.builder import SIZES, STORED, Value, constant, type_of, with_lanes
from chainrule.program.native.functions import FULL
from chainrule.program.native.lanes import Lanes, entries_of, packed, single
from chainrule.program.native.scalars import NotLowered, converted, truth
from chainrule.program.native.values import Memory

MOST_WORDS = 1 << 22  # of a stack in the frame; the memory of larger ones grows
MOST_BYTES = 1 << 20  # of a constant table


def i64(n: int) -> Value:
    """Return an integer."""
    return constant("i64", n)


@dataclass(eq=False, slots=True)
class Stack:
    """What the rounds of a loop keep.

    `depth` is the place in the frame of the number of rounds, `base` that of the records, or of the address of these if
    the stack may grow; `words` is the length of a record. `ways` has for each way what is kept: (place in the record,
    symbol), or (None, an operand that is known without it).
    """

    depth: int
    base: int
    words: int
    grows: bool
    ways: dict = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Tell whether a record begins with its way."""
        return len(self.ways) > 1


@dataclass(eq=False, slots=True)
class Variable:
    """Entries that change: vectors and numbers in memory of their own, each an (address, type)."""

    cells: list
    kind: str
    shape: tuple
    dtype: Any

    @classmethod
    def of(cls, w, s: Symbol) -> "Variable":
        """Return a variable for the values of a symbol."""
        kind = type_of(s.dtype)
        if kind is None or s.size > lanes.MOST:
            raise NotLowered
        stored = STORED.get(kind, kind)
        cells = [(w.b.alloca(with_lanes(stored, n)), with_lanes(kind, n)) for n in pieces(s.size)]
        return cls(cells, kind, s.shape, s.dtype)

    def set(self, w, x) -> None:
        """Store the value of an operand."""
        for (cell, _), y in zip(self.cells, self.parts(w, x), strict=True):
            w.b.store(y, cell)

    def parts(self, w, x) -> list:
        """Return an operand as what the cells hold."""
        held = w.lanes(x)
        if held.shape != self.shape:
            raise NotLowered
        made, k = [], 0
        for n in pieces(len(held.refs)):
            made.append(converted(w.b, packed(w.b, held.refs[k : k + n]), self.kind))
            k += n
        return made

    def get(self, w) -> Lanes:
        """Load the value."""
        refs = [r for cell, kind in self.cells for r in entries_of(w.b.load(kind, cell))]
        return Lanes(refs, self.shape, self.dtype)

    def follow(self, w, x, others):
        """Return the function that stores the value of the next round; what it reads is read before."""
        parts = self.parts(w, x)

        def store():
            for (cell, _), y in zip(self.cells, parts, strict=True):
                w.b.store(y, cell)

        return store


def pieces(size: int) -> list:
    """Return how many entries each part of an array has: numbers of short arrays, vectors of others."""
    if size < lanes.SCALAR:
        return [1] * size
    return [min(lanes.WIDEST, size - k) for k in range(0, size, lanes.WIDEST)]


def words_of(s) -> int:
    """Return how many doubles the entries of a symbol take."""
    kind = type_of(s.dtype)
    if kind is None:
        raise NotLowered
    return (s.size * SIZES[STORED.get(kind, kind)] + 7) // 8


def kept_as_memory(w, s, place: Value) -> Memory:
    """Return a symbol's entries in a record as memory."""
    return Memory.of_rows(place, s.shape, np.dtype(s.dtype))


# -- the loop ----------------------------------------------------------------------------------------------------------


def write_loop(w, e) -> None:
    """Write a loop."""
    if e.pushes is not None and len(w.scopes) > 1:
        raise NotLowered
    Writing(w, e).write()


class Writing:
    """Writes one loop."""

    def __init__(self, w, e) -> None:
        self.w, self.e, self.b = w, e, w.b
        self.outer = set(w.values)
        self.exits = any(b.end.__class__ is Exit for root in e.blocks for b in blocks_of(root))

    def write(self) -> None:
        """Write the loop."""
        w, e = self.w, self.e
        self.tables = [self.table(s, list(t)) for s, t in e.tables]
        if len(self.b.lines) > w.limit and len(w.scopes) == 1:  # the loop gets a function of its own
            w.begin()
        b = self.b = w.b
        b.has_loops = True
        self.popped = w.values[e.pops] if e.pops is not None else None
        self.pushed = self.new_stack() if e.pushes is not None else None
        self.state = [w.variable(s) for s in e.state]
        for cell, x in zip(self.state, e.init, strict=True):
            cell.set(w, x)
        self.results = [w.variable(s) for s in e.output] if self.exits else []
        self.count = b.alloca("i64")
        b.store(i64(0), self.count)
        for stack, name in ((self.popped, "given"), (self.pushed, "depth")):
            setattr(self, name, b.alloca("i64") if stack is not None else None)
        if self.popped is not None:
            depth = b.load("i64", w.at(self.popped.depth))
            b.store(depth, self.given)
            w.leave(b.compare("slt", depth, i64(e.left)), self.failure(None))
            self.given_base = base_of(w, self.popped)
        if self.pushed is not None:
            b.store(i64(0), self.depth)
            self.base = base_of(w, self.pushed)
            self.room = b.load("i64", w.at(self.pushed.base + 1)) if self.pushed.grows else None
        self.head, self.body, self.again, self.done = map(b.block, ("head", "body", "again", "done"))
        b.branch(self.head)
        b.start(self.head)
        self.question()
        b.start(self.body)
        w.scopes.append({})
        self.round()
        w.scopes.pop()
        b.start(self.again)
        b.store(b.binary("add", b.load("i64", self.count), i64(1)), self.count)
        b.branch(self.head)
        b.start(self.done)
        if self.popped is not None:
            b.store(b.load("i64", self.given), w.at(self.popped.depth))
        if self.pushed is not None:
            b.store(b.load("i64", self.depth), w.at(self.pushed.depth))
            w.values[e.pushes] = self.pushed
        if self.exits:
            cells = self.results
        else:
            cells = [self.state[i] for i in e.finals]
        for s, cell in zip(e.output, cells, strict=True):
            w.values[s] = cell.get(w)

    def question(self) -> None:
        """Write whether there is another round."""
        b, e = self.b, self.e
        if e.pops is not None:
            b.condition(b.compare("sgt", b.load("i64", self.given), i64(e.left)), self.body, self.done)
        elif e.count is not None:
            b.condition(b.compare("slt", b.load("i64", self.count), i64(e.count)), self.body, self.done)
        else:
            b.branch(self.body)

    def failure(self, seen) -> int:
        """Return the number of the guard for a stack with rounds that were never seen."""
        self.w.guards.append(Guard(self.e.pops, "value", seen, self.e.place))
        return len(self.w.guards)

    # -- stacks ------------------------------------------------------------------------------------------------

    def new_stack(self) -> Stack:
        """Plan the records of the stack that the loop makes, and take its place in the frame."""
        w, e = self.w, self.e
        ends = [b.end for root in e.blocks for b in blocks_of(root) if b.end.__class__ is not Fork]
        several = len({end.way for end in ends}) > 1
        ways, words = {}, 0
        for end in ends:
            at, kept = int(several), []
            for x in end.kept:
                if x.__class__ is Symbol and x not in self.outer:
                    kept.append((at, x))
                    at += words_of(x)
                else:
                    kept.append((None, x))
            if end.way in ways and ways[end.way] != kept:
                raise NotLowered
            ways[end.way] = kept
            words = max(words, at)
        depth = w.place(1)
        if e.count is not None and e.count * words <= MOST_WORDS:
            return Stack(depth, w.place(e.count * words), words, False, ways)
        base = w.place(2)
        w.stacks.append((base, max(words, 1)))
        return Stack(depth, base, words, True, ways)

    def push(self, end) -> None:
        """Write a record."""
        w, b, stack = self.w, self.b, self.pushed
        depth = b.load("i64", self.depth)
        if stack.grows:
            w.leave(b.compare("sge", depth, self.room), FULL)
        record = b.offset("double", self.base, b.binary("mul", depth, i64(stack.words)))
        if stack.several:
            b.store(i64(end.way), record)
        for at, s in stack.ways[end.way]:
            if at is not None:
                w.put(s, kept_as_memory(w, s, b.offset("double", record, at)))
        b.store(b.binary("add", depth, i64(1)), self.depth)

    # -- tables ------------------------------------------------------------------------------------------------

    def table(self, s: Symbol, items: list):
        """Return a function that gives the operand of the round at hand."""
        w, b = self.w, self.b
        kind = type_of(s.dtype)
        if kind is None:
            raise NotLowered
        if not any(x.__class__ is Symbol for x in items):
            if kind == "i64" and s.shape == ():
                if not all(-(2**62) < x < 2**62 for x in items):
                    raise NotLowered
                w.ranges[s] = int(min(items)), int(max(items))
            whole = np.array(items, dtype=np.dtype(s.dtype)).reshape(len(items), *s.shape)
            if whole.nbytes > MOST_BYTES:
                raise NotLowered
            start = w.module.table(whole)
            return lambda k: self.at_row(start, s, k)
        held = [w.values.get(x) if x.__class__ is Symbol else None for x in items]
        first = held[0]
        if all(h.__class__ is Memory and h.strides == first.strides and h.dtype == first.dtype for h in held):
            steps = {p.offset - q.offset for p, q in zip(held[1:], held[:-1], strict=True)}
            if len(steps) <= 1 and all(h.pointer == first.pointer for h in held):
                return lambda k: self.shifted(first, k, next(iter(steps), 0))
            place = w.place(len(items))  # addresses
            for n, h in enumerate(held):
                h = w.local(h)
                b.store(b.offset(kind, h.pointer, h.offset), w.at(place + n))
            return lambda k: self.addressed(first, place, k)
        words = words_of(s)
        place = w.place(len(items) * words)
        for n, x in enumerate(items):
            cell = w.lanes(x)
            refs = [(converted(b, single(b, r), kind), -1) if b_type(r) != kind else r for r in cell.refs]
            memory = kept_as_memory(w, s, w.at(place + n * words))
            lanes.store(b, memory, list(range(len(refs))), refs)
        return lambda k: self.at_place(place, words, s, k)

    def at_row(self, start: Value, s: Symbol, k: Value) -> Memory:
        """Return one row of a constant table."""
        b = self.b
        return kept_as_memory(self.w, s, b.offset(type_of(s.dtype), start, b.binary("mul", k, i64(s.size))))

    def at_place(self, place: int, words: int, s: Symbol, k: Value) -> Memory:
        """Return one row of a table in the frame."""
        b = self.b
        return kept_as_memory(self.w, s, b.offset("double", self.w.at(place), b.binary("mul", k, i64(words))))

    def shifted(self, first: Memory, k: Value, step: int) -> Memory:
        """Return one of several views of an array, at equal steps."""
        b, memory = self.b, self.w.local(first)
        return self.moved(memory, b.offset(memory.type, memory.pointer, b.binary("mul", k, i64(step))))

    def addressed(self, first: Memory, place: int, k: Value) -> Memory:
        """Return one of several arrays, whose addresses are in the frame."""
        b = self.b
        pointer = b.load("ptr", b.offset("ptr", self.w.at(place), k))
        ends, size = [(n - 1) * t for n, t in zip(first.shape, first.strides, strict=True)], first.dtype.itemsize
        low, high = sum([min(t, 0) for t in ends]) * size, (sum([max(t, 0) for t in ends]) + 1) * size
        pointer = self.w.module.based(pointer, high, "one of several arrays", low)
        return self.moved(first.like(first.shape, first.strides, 0), pointer)

    def moved(self, memory: Memory, pointer: Value) -> Memory:
        """Return memory with another address."""
        return Memory(pointer, memory.shape, memory.strides, memory.dtype, memory.offset, None, memory.dtype.itemsize)

    # -- a round -----------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Write a round."""
        w, e, b = self.w, self.e, self.b
        for s, cell in zip(e.state, self.state, strict=True):
            w.values[s] = cell.get(w)
        if self.tables:
            k = b.load("i64", self.count)
            for (s, _), row in zip(e.tables, self.tables, strict=True):
                w.values[s] = row(k)
        if self.popped is None:
            self.block(e.blocks[0])
            return
        stack = self.popped
        depth = b.binary("sub", b.load("i64", self.given), i64(1))
        b.store(depth, self.given)
        record = b.offset("double", self.given_base, b.binary("mul", depth, i64(stack.words)))
        if not stack.several:
            (way,) = stack.ways
            self.taken(way, record)
            return
        known = {way: b.block("way") for way in stack.ways if way < len(e.blocks) and e.blocks[way] is not None}
        other = b.block("other")
        b.switch(b.load("i64", record), other, known)
        for way, label in known.items():
            b.start(label)
            w.scopes.append({})
            self.taken(way, record)
            w.scopes.pop()
        b.start(other)
        b.ret(constant("i32", self.failure(-1)))

    def taken(self, way: int, record: Value) -> None:
        """Write the block of a way, with what it takes off the stack."""
        w, e = self.w, self.e
        block = e.blocks[way] if way < len(e.blocks) else None
        if block is None:
            raise NotLowered
        received(w, self.popped, way, record, block.takes)
        self.block(block)

    def block(self, block) -> None:
        """Write a block and what follows it."""
        w, e, b = self.w, self.e, self.b
        w.steps(block, e.state)
        end = block.end
        if end.__class__ is Fork:
            self.fork(end)
            return
        if self.pushed is not None:
            self.push(end)
        if end.__class__ is Exit:
            for cell, x in zip(self.results, end.values, strict=True):
                cell.set(w, x)
            b.branch(self.done)
            return
        others = {s for s, x in zip(e.state, end.state, strict=True) if s is not x}
        for store in [cell.follow(w, x, others) for cell, x in zip(self.state, end.state, strict=True)]:
            store()
        b.branch(self.again)

    def fork(self, end) -> None:
        """Write a question that a round asked."""
        w, b = self.w, self.b
        if end.yes is None or end.no is None:
            w.guards.append(end.guard)
            w.leave(w.fails(Guard(end.guard.symbol, "bool", end.no is None, end.guard.place)), len(w.guards))
            self.block(end.yes or end.no)
            return
        held = w.lanes(end.guard.symbol)
        if len(held.refs) != 1:
            raise NotLowered
        yes, no = b.block("yes"), b.block("no")
        b.condition(truth(b, single(b, held.refs[0])), yes, no)
        for label, block in ((yes, end.yes), (no, end.no)):
            b.start(label)
            w.scopes.append({})
            self.block(block)
            w.scopes.pop()


def base_of(w, stack: Stack) -> Value:
    """Return the address of a stack's records."""
    if not stack.grows:
        return w.at(stack.base)
    b = w.b
    base = b.load("ptr", w.at(stack.base))
    if w.module.checks is None:
        return base
    size = b.binary("mul", b.load("i64", w.at(stack.base + 1)), i64(8 * stack.words))
    return w.module.based(base, size, "the records of a loop")


def b_type(ref: tuple) -> str:
    """Return the type of an entry."""
    return lanes.element_of(ref[0].type)


def received(w, stack: Stack, way: int, record: Value, symbols) -> None:
    """Let symbols stand for what a record has."""
    for s, (at, x) in zip(symbols, stack.ways[way], strict=True):
        if s is None:
            continue
        if at is None and x.__class__ is Symbol:
            w.values[s] = w.values[x]
        elif at is None:
            held = w.lanes(x)
            w.values[s] = Lanes([(converted(w.b, single(w.b, r), type_of(s.dtype)), -1) for r in held.refs], s.shape,
                                s.dtype)  # fmt: skip
        else:
            memory = kept_as_memory(w, x, w.b.offset("double", record, at))
            w.values[s] = memory if w.is_stored(s) else w.loaded(s, memory)


def write_pop(w, e) -> None:
    """Take a round off a stack."""
    stack, b = w.values[e.stack], w.b
    if e.way not in stack.ways:
        raise NotLowered
    depth = b.load("i64", w.at(stack.depth))
    w.guards.append(Guard(e.stack, "value", e.way, e.place))
    w.leave(b.compare("slt", depth, i64(1)), len(w.guards))
    depth = b.binary("sub", depth, i64(1))
    b.store(depth, w.at(stack.depth))
    base = base_of(w, stack)
    record = b.offset("double", base, b.binary("mul", depth, i64(stack.words)))
    if stack.several:
        w.leave(b.compare("ne", b.load("i64", record), i64(e.way)), len(w.guards))
    received(w, stack, e.way, record, e.output)
