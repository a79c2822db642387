"""Long nests and products in blocks, which threads may run at the same time.

A block is a stretch of the outermost loop of a nest, or of an axis of a product. How many there are, and where each
begins, depends on shapes only, and each has sums of its own, which are added up in order when all are done. So what is
computed does not depend on who runs a block, or when: results are the same, bit for bit, for any number of threads.

The code of a block is a function of its number. A loop over all blocks is what a kernel runs by itself; the driver may
give parts of it to threads instead (`chainrule.program.native.threads`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from chainrule.program.native.builder import Builder, Value, constant, with_lanes
from chainrule.program.native.counted import repeat
from chainrule.program.native.values import Memory

MOST = 64  # blocks
WORK = 1 << 19  # values that a block of a nest computes at least: 20 to 100 microseconds
SHARE = 16  # the sums of all blocks have at most one entry for so many that are read
EVEN = 512  # rounds of which a block of single entries has a multiple


def count_of(work: int, rounds: int, sums: int, least: int = WORK) -> int:
    """Return how many blocks to make.

    Parameters
    ----------
    work : int
        How many values are computed in all.
    rounds : int
        How many rounds there are to be shared out.
    sums : int
        How many entries the results have that each block computes a part of.
    least : int
        How many values a block computes at least.
    """
    most = work // (SHARE * sums) if sums > 1 else MOST
    return max(1, min(MOST, work // least, rounds, most))


@dataclass(eq=False, slots=True)
class Blocks:
    """The blocks of a nest or a product.

    Attributes
    ----------
    index : Value
        The number of the block at hand, an argument of the function.
    memory : callable
        Returns memory in the frame for so many entries of a dtype.
    count, length : int
        How many blocks there are, and how many rounds each has; one block is not cut.
    low, high : Value
        Where the block at hand begins and ends.
    later : list
        Of each result that blocks compute parts of `Parts`.
    """

    index: Value
    memory: Callable
    count: int = 1
    length: int = 0
    low: Value | None = None
    high: Value | None = None
    later: list = field(default_factory=list)

    def whole(self) -> None:
        """Let it be one block."""
        self.count = 1
        self.later.clear()

    def cut(self, b: Builder, count: int, rounds: int, even: int = 1) -> None:
        """Cut so many rounds into blocks, about as many as `count`, whose lengths are multiples of `even`."""
        self.length = -(-rounds // count)
        self.length = -(-self.length // even) * even
        self.count = -(-rounds // self.length)
        if self.count > 1:
            self.low = b.binary("mul", self.index, constant("i64", self.length))
            self.high = b.binary("add", self.low, constant("i64", self.length))

    def within(self, b: Builder, low: int, high: int, step: int) -> tuple:
        """Return the first round of ``range(low, high, step)`` in the block at hand, and where it ends there."""
        start, end, zero = constant("i64", low), constant("i64", high), constant("i64", 0)
        before = b.binary("sub", self.low, start)
        before = b.select(b.compare("sgt", before, zero), before, zero)
        if step > 1:
            before = b.binary("udiv", b.binary("add", before, constant("i64", step - 1)), constant("i64", step))
            before = b.binary("mul", before, constant("i64", step))
        last = b.select(b.compare("slt", self.high, end), self.high, end)
        return b.binary("add", start, before), last

    def has(self, b: Builder, index: int) -> Value:
        """Return whether a round is in the block at hand."""
        k = constant("i64", index)
        return b.binary("and", b.compare("sle", self.low, k), b.compare("sgt", self.high, k))

    def part(self, b: Builder, s, shape: tuple, how: Callable, divisor: int | None = None) -> Memory:
        """Return memory for the block's part of a result; `how` puts two parts together."""
        size = 1
        for n in shape:
            size *= n
        whole = self.memory(self.count * size, s.dtype)
        self.later.append(Parts(s, whole, size, self.count, how, divisor))
        first = b.offset(whole.type, whole.pointer, whole.offset)
        mine = b.offset(whole.type, first, b.binary("mul", self.index, constant("i64", size)))
        return Memory.of_rows(mine, shape, s.dtype)


@dataclass(eq=False, slots=True)
class Parts:
    """A result in parts: `count` of `size` entries each; the result is their combination, in order, over `divisor`."""

    s: object
    memory: Memory
    size: int
    count: int
    how: Callable
    divisor: int | None

    def join(self, b: Builder, target: Memory, lanes: int) -> None:
        """Write the code that puts the parts together, into memory without gaps."""
        kind, whole = target.type, self.memory
        first = b.offset(kind, whole.pointer, whole.offset)
        into = b.offset(kind, target.pointer, target.offset)

        def entries(at: Value, n: int):
            vector = with_lanes(kind, n)
            here = b.offset(kind, first, at)

            def more(k, found):
                step = b.binary("mul", b.binary("add", k, constant("i64", 1)), constant("i64", self.size))
                return [self.how(b, found[0], b.load(vector, b.offset(kind, here, step)))]

            x = b.load(vector, here)
            if self.count > 1:
                [x] = repeat(b, self.count - 1, more, [x])
            if self.divisor is not None:
                by = constant(kind, self.divisor)
                x = b.binary("fdiv", x, b.spread(by, n) if n > 1 else by)
            b.store(x, b.offset(kind, into, at))

        full = self.size // lanes
        if full:
            repeat(b, full, lambda i, _: entries(b.binary("mul", i, constant("i64", lanes)), lanes))
        for n in range(full * lanes, self.size):
            entries(constant("i64", n), 1)
