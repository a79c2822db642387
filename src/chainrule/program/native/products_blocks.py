"""Long products in blocks, which threads may run at the same time.

A product that is loops of our own is cut along one of its axes; BLAS has threads of its own. Where what is summed over
is much longer than the result, that is cut, and the blocks' results are parts that are added up in order. What a block
is, and who runs it: `chainrule.program.native.blocks`.
"""

import math
from dataclasses import dataclass, replace

from chainrule.program.ir import Equation
from chainrule.program.native.blocks import Blocks, count_of
from chainrule.program.native.builder import Builder
from chainrule.program.native.counted import moved, number
from chainrule.program.native.products import Writer
from chainrule.program.native.products_loops import BLOCK
from chainrule.program.native.products_terms import Sum, terms_of
from chainrule.program.native.values import Memory

HEAVY, LIGHT = 1 << 20, 1 << 16  # products of two numbers in a block: of matrices; of a matrix and a vector
MANY = 8  # matrices of a stack that is rather cut than each of them
EVEN = 16  # rows or columns of which a block has a multiple
MUCH = 4  # how much longer a sum is than any axis of the result, if it is cut


@dataclass(slots=True)
class Cut:
    """How a product is cut into blocks: along which axis of a `Sum`, of so many, with lengths that are even."""

    letters: str  # batch, rows, columns or inner
    place: int  # among these
    rounds: int
    count: int
    even: int

    @property
    def adds(self) -> bool:
        """Tell whether the blocks' results are parts that are to be added up."""
        return self.letters == "inner"


def cut_of(e: Equation, x: Memory, y: Memory, out: Memory, width: int = 64) -> Cut | None:
    """Return how a product is cut into blocks; None if it is short, or BLAS's."""
    total = Sum.of(terms_of(e), x, y, out)
    axes = [(a.count, name, k) for name in ("batch", "rows", "columns") for k, a in enumerate(getattr(total, name))]
    if 0 in (x.size, y.size, out.size) or len(total.inner) > 1:
        return None
    if Writer(None, out.type, None, width).calls_blas(total):
        return None
    work = math.prod([a.count for a in (*total.batch, *total.rows, *total.columns, *total.inner)])
    least = HEAVY if total.rows and total.columns and total.inner else LIGHT
    longest = max([a for a in axes if a[0] >= MANY and a[1] == "batch"] or axes, default=(1, "", 0))
    inner = total.inner[0].count if total.inner else 1
    if inner > MUCH * longest[0]:
        found = Cut("inner", 0, inner, count_of(work, inner // BLOCK, out.size, least), BLOCK)
    else:
        even = 1 if longest[1] == "batch" else EVEN
        found = Cut(longest[1], longest[2], longest[0], count_of(work, longest[0] // even, 1, least), even)
    return found if found.count > 1 else None


def multiply_block(b: Builder, e: Equation, x, y, out, cut: Cut, blocks: Blocks, scratch, width: int) -> None:
    """Write one block of a product; of a cut through what is summed over, `out` is memory for this block's part."""
    kind = out.type
    total = Sum.of(terms_of(e), x, y, out)
    axis = getattr(total, cut.letters)[cut.place]
    pointers = []
    for array, stride in zip((x, y, out), (axis.x, axis.y, axis.out), strict=True):
        first = b.offset(kind, array.pointer, array.offset)
        pointers.append(moved(b, kind, first, blocks.low, stride) if stride else first)

    def part(count: int) -> None:
        axes = list(getattr(total, cut.letters))
        axes[cut.place] = replace(axis, count=count)
        writer = Writer(b, kind, scratch, width)
        writer.blas = False  # what is cut is not BLAS's, nor are its parts
        writer.write(replace(total, **{cut.letters: axes}), list(pointers))

    rest = cut.rounds - (blocks.count - 1) * blocks.length
    if rest == blocks.length:
        part(rest)
        return
    last, others, done = b.block("last"), b.block("others"), b.block("done")
    b.condition(b.compare("eq", blocks.index, number(blocks.count - 1)), last, others)
    for label, count in ((last, rest), (others, blocks.length)):
        b.start(label)
        part(count)
        b.branch(done)
    b.start(done)
