"""The loops of a nest, around the rounds that are written by `nests_emit`.

Each piece of a loop between two cuts has a body of its own. The innermost loop takes vectors of neighbouring entries;
what is left at its end is a vector with a mask. Of short rounds several are taken in turns.

Sums and other reductions over the innermost loop have one accumulator for each lane (`nests_roots`). Accumulators of
sums of many entries are emptied into totals every `BLOCK` rounds; at the end lane n and lane n + half are added up, and
so on. So the order depends on the shapes and on the processor's lanes, and on nothing else. A reduction over outer
loops only is added up row by row in memory.
"""

import itertools
import math

from chainrule.program.native.builder import constant
from chainrule.program.native.nests_positions import At

FEW, SEVERAL = 100, 250  # lines of rounds that are taken in turns: four or three, and two
SMALL = 1 / 8  # of all rounds: pieces with fewer are not worth more code
BLOCK = 128  # rounds after which an accumulator is emptied into its total


def run(b, first, last, step, write):
    """Write a loop from one index up to another; of constants it has a round."""
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


def loop(b, low, high, step, write, blocks=None):
    """Write a loop, or the part of it that is in a block; ``write(index, first index)`` its body."""
    if blocks is None:
        run(b, constant("i64", low), constant("i64", high), step, write)
    else:
        run(b, *blocks.within(b, low, high, step), step, write)


class Loops:
    """Writes the loops of a nest, whose rounds an `Emit` writes.

    Attributes
    ----------
    emit : Emit
        Holds the lines of each level, and at which lanes and in which ranges the round at hand is.
    cuts : list of set
        For each loop, indices at which something else begins.
    order : list
        Entries in an order in which they can be written, if there are many.
    size : int
        How many values a round has.
    stores : bool
        Whether a round only stores: then it may be made twice.
    one_by_one : bool
        Whether none is taken in turns with others, since it counts which one is first.
    flushes : callable
        Returns functions that empty accumulators.
    """

    def __init__(self, emit, cuts) -> None:
        self.emit, self.cuts = emit, cuts
        self.order, self.size = [], 0
        self.stores = self.one_by_one = False
        self.flushes = list  # there are none

    def pieces(self, k):
        """Return the ranges of a loop between its cuts."""
        n = self.emit.loops[k]
        bounds = [0, *sorted(c for c in self.cuts[k] if 0 < c < n), n]
        return [(a, z) for a, z in itertools.pairwise(bounds) if z > a]

    def write(self, body, begin, end):
        """Write all loops.

        ``body()`` writes a round of the innermost loop, ``begin(k)`` and ``end(k)`` what stands before and after the
        loops inside level k.
        """
        w, b = self.emit, self.emit.b
        self.body, self.begin, self.end = body, begin, end
        begin(0)
        lines = self.nest(0)
        after = []
        with w.into(after):
            end(0)
        b.lines += w.code[0]
        if lines:
            first, last = lines[0], b.block("done")
            b.branch(first)
            for part in lines[1]:
                b.lines += part
            b.branch(last)
            b.start(last)
        b.lines += after

    def nest(self, k):
        """Return (label of the first block, its lines and those after it) of the loops from number k on."""
        w = self.emit
        if k == w.depth or not all(w.loops):
            return ()
        b, parts = w.b, []
        label = first = b.block("piece")
        for low, high in self.pieces(k):
            w.ranges[k] = low, high
            following = b.block("piece")
            lines = []
            with w.into(lines):
                b.start(label)
                if k == w.depth - 1:
                    self.inner(low, high)
                else:
                    self.outer(k, low, high)
                b.branch(following)
            parts.append(lines)
            label = following
        w.ranges[k] = 0, w.loops[k]
        last = []
        with w.into(last):
            b.start(label)
        parts.append(last)
        return first, parts

    def outer(self, k, low, high):
        """Write a piece of a loop that has loops inside."""
        w, b = self.emit, self.emit.b

        def round_of(index):
            w.index[k] = index
            w.code[k + 1], w.env[k + 1] = [], {}
            after = []
            self.begin(k + 1)
            inside = self.nest(k + 1)
            with w.into(after):
                self.end(k + 1)
            b.lines += w.code[k + 1]
            b.branch(inside[0])
            for part in inside[1]:
                b.lines += part
            b.lines += after

        blocks = w.blocks if k == 0 else None
        if high - low == 1:
            self.alone(low, blocks, lambda: round_of(constant("i64", low)))
        else:
            loop(b, low, high, 1, lambda index, _: round_of(index), blocks)

    def alone(self, index, blocks, write):
        """Write a round that is by itself."""
        b = self.emit.b
        if blocks is None:
            write()
            return
        mine, others = b.block("mine"), b.block("others")
        b.condition(blocks.has(b, index), mine, others)
        b.start(mine)
        write()
        b.branch(others)
        b.start(others)

    def once(self, index, blocks):
        """Write a round of the innermost loop that is by itself; in blocks, for the one that has it."""
        self.alone(index, blocks, lambda: self.round_of(constant("i64", index)))

    def inner(self, low, high):
        """Write a piece of the innermost loop: vectors, and the rest."""
        w, b = self.emit, self.emit.b
        blocks = w.blocks if w.depth == 1 else None
        if high - low == 1:
            w.lanes = w.live = 1
            self.once(low, blocks)
            w.lanes = w.live = w.most
            return
        lanes = w.most
        full = low + (high - low) // lanes * lanes
        rounds = (full - low) // lanes
        if self.stores and blocks is None and rounds and full < high:
            turns = self.turns(rounds)
            if turns > 1:
                first, low = low, low + rounds // turns * turns * lanes
                loop(b, first, low, turns * lanes, self.in_turns(turns))
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
                loop(b, low, first, lanes, lambda index, _: self.round_of(index), blocks)
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

            loop(b, low, full, step, with_flushes, blocks)
        if full < high:
            w.live = high - full
            self.once(full, blocks)
            w.live = lanes

    def overlapping(self, low, last):
        """Write rounds up to one that begins at `last`, which may store some entries of the one before it again."""
        w, b, end = self.emit, self.emit.b, constant("i64", last)
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
        following = b.write("i64", f"add nuw nsw i64 {index.text}, {w.lanes}")
        b.store(b.select(b.compare("ult", following, end), following, end), counter)
        b.condition(b.compare("ult", index, end), head, after)
        b.start(after)

    def turns(self, rounds) -> int:
        """Return how many rounds are taken in turns: of short bodies several, of those that call the library more."""
        if self.one_by_one or self.size > SEVERAL or rounds < 8 or self.part() < SMALL:
            return 1
        lines: list[str] = []
        with self.emit.into(lines):  # a round that is not kept: how long it is
            self.round_of(constant("i64", 0))
        calls = any("_ZGV" in line for line in lines)
        most = (4 if calls else 3) if len(lines) <= FEW else 2 if calls and len(lines) <= SEVERAL else 1
        return most if rounds >= 4 * most else 1

    def part(self) -> float:
        """Return which part of all rounds the pieces at hand have."""
        lengths = [high - low for low, high in self.emit.ranges]
        return math.prod(lengths) / math.prod(self.emit.loops)

    def in_turns(self, turns):
        """Return how so many rounds are written."""
        w = self.emit

        def write(index, _=None):
            later = [w.b.binary("add", index, constant("i64", k * w.lanes)) for k in range(1, turns)]
            self.round_of(index, *later)

        return write

    def round_of(self, *indices):
        """Write a round of the innermost loop; or several, their instructions taken in turns.

        Functions of the library wait for their operands: of two rounds in turns one is computed while the other waits.
        """
        w, codes, updates = self.emit, [], []
        for index in indices:
            w.index[-1] = index
            w.code[-1], w.env[-1], w.updates = [], {}, []
            self.prepare()
            self.body()
            codes.append(w.code[-1])
            updates += w.updates
        for lines in itertools.zip_longest(*codes):
            w.b.lines += [line for line in lines if line is not None]
        w.b.lines += updates

    def prepare(self):
        """Write the values of a long round in the order in which they were planned, so that none asks for many."""
        w = self.emit
        for s, position, ranges in self.order:
            inside = True
            for p in position:
                if p.__class__ is At:
                    low, high = w.ranges[p.loop]
                    inside = inside and ranges[p.loop][0] <= low and high <= ranges[p.loop][1]
            if inside:
                w.value(s, position)
