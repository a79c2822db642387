"""Products as loops of our own: for the small ones, and for what BLAS does not do.

Two matrices are multiplied in blocks of a few rows of `x` and a few vectors of columns of `y`, with the sums in
registers; a matrix and a vector, and two vectors, as sums of vectors whose lanes are added up at the end. An operand
that would be read entry by entry, again and again, is copied first, to memory for the call.
"""

from typing import Any

from chainrule.program.native.builder import Builder, Value, constant, lanes_of, with_lanes
from chainrule.program.native.counted import moved, number, repeat
from chainrule.program.native.products_terms import Axis, flipped

BLOCK = 512  # products that are added up one after the other
ROWS = 4  # rows of a block of our own loops
SUMS = 12  # vectors of sums in such a block, at most
FEW = 256  # entries of a copy on the stack of a call, where other memory is to be had
SCRATCH = 4096  # and where there is none
SMALL_OPERAND = 1 << 16  # entries of an operand that stays in the second cache


def over(b: Builder, kind: str, axes: list, pointers: list, body) -> None:
    """Loop over axes, with the pointers moved along their strides (x, y, out), and write the body inside."""
    if not axes:
        body(pointers)
        return
    axis = axes[0]
    strides = [s or 0 for s in (axis.x, axis.y, axis.out)]

    def inside(i, _):
        over(b, kind, axes[1:], [moved(b, kind, p, i, s) for p, s in zip(pointers, strides, strict=True)], body)

    repeat(b, axis.count, inside)


class Loops:
    """Writes the loops of one product, on numbers and vectors of a type.

    Pointers are those to x, y and the result.
    """

    def __init__(self, b: Builder | None, kind: str, scratch, width: int) -> None:
        self.b: Any = b
        self.kind, self.scratch = kind, scratch
        self.lanes = width // (8 if kind == "double" else 4)

    # -- pieces ------------------------------------------------------------------------------------------------

    def memory(self, count: int) -> Value:
        """Return memory for a copy of an operand."""
        if self.scratch is not None and count > FEW:
            return self.scratch(count)
        if count > SCRATCH:
            raise ValueError(f"a product needs memory for a copy of {count} entries")
        return self.b.alloca(self.kind, count)

    def move(self, axes: list, source: Value, target: Value) -> None:
        """Copy entries, with strides as those of x, to others, with strides as those of the result."""
        *outside, last = axes

        def line(ps):
            self.parts(last.count, lambda at, lanes: self.put(self.vector_of(ps[0], at, last.x, lanes), ps[2], at,
                                                              last.out))  # fmt: skip

        over(self.b, self.kind, outside, [source, source, target], line)

    def parts(self, count: int, part) -> None:
        """Go along an axis in vectors: ``part(start, lanes)``."""
        full, rest = divmod(count, self.lanes)
        if full:
            repeat(self.b, full, lambda i, _: part(self.times(i, self.lanes), self.lanes))
        if rest:
            part(number(full * self.lanes), rest)

    def times(self, i: Value, n: int) -> Value:
        """Return ``i * n``."""
        return number(int(i.text) * n) if i.is_constant else self.b.binary("mul", i, number(n))

    def spread(self, x: Value, lanes: int) -> Value:
        """Return a vector of equal lanes; one lane is the number."""
        return self.b.spread(x, lanes) if lanes > 1 else x

    def vector_of(self, pointer: Value, start: Value, stride: int, lanes: int) -> Value:
        """Load a vector of entries that are `stride` apart."""
        b, kind = self.b, self.kind
        pointer = moved(b, kind, pointer, start, stride)
        if stride == 0:
            return self.spread(b.load(kind, pointer), lanes)
        if stride == 1 or lanes == 1:
            return b.load(with_lanes(kind, lanes), pointer)
        return b.pack([b.load(kind, b.offset(kind, pointer, n * stride)) for n in range(lanes)])

    def put(self, vector: Value, pointer: Value, start: Value, stride: int) -> None:
        """Store a vector as entries that are `stride` apart."""
        b, kind, lanes = self.b, self.kind, lanes_of(vector.type)
        pointer = moved(b, kind, pointer, start, stride)
        if stride == 1 or lanes == 1:
            b.store(vector, pointer)
            return
        for n in range(lanes):
            b.store(b.lane(vector, n), b.offset(kind, pointer, n * stride))

    def plus(self, a: Value, x: Value, y: Value) -> Value:
        """Return ``a + x * y``, rounded once where the processor has such an instruction."""
        return self.b.intrinsic("fmuladd", x, y, a)

    def total(self, vector: Value) -> Value:
        """Return the sum of a vector's lanes, by halves."""
        b, lanes = self.b, lanes_of(vector.type)
        if lanes == 1:
            return vector
        half, odd = lanes // 2, lanes % 2
        low = b.shuffle(vector, None, range(half)) if half > 1 else b.lane(vector, 0)
        high = b.shuffle(vector, None, range(half, 2 * half)) if half > 1 else b.lane(vector, 1)
        found = self.total(b.binary("fadd", low, high))
        return b.binary("fadd", found, b.lane(vector, lanes - 1)) if odd else found

    # -- products of numbers and vectors -------------------------------------------------------------------------

    def entries(self, axis: Axis, pointers: list) -> None:
        """Write ``out[i] = x[i] * y[i]``."""
        b, kind = self.b, self.kind

        def times(ps):
            b.store(b.binary("fmul", b.load(kind, ps[0]), b.load(kind, ps[1])), ps[2])

        over(b, kind, [axis], pointers, times)

    def outer(self, row: Axis, column: Axis, pointers: list) -> None:
        """Write ``out[i, j] = x[i] * y[j]``."""
        if abs(column.out or 0) != 1 and abs(row.out or 0) == 1:
            row, column, pointers = flipped(row, column, pointers)
        b, kind = self.b, self.kind

        def line(ps):
            x = b.load(kind, ps[0])

            def part(start, lanes, ps):
                y = self.vector_of(ps[1], start, column.y, lanes)
                self.put(b.binary("fmul", self.spread(x, lanes), y), ps[2], start, column.out)

            self.parts(column.count, lambda start, lanes: part(start, lanes, ps))

        over(b, kind, [row], pointers, line)

    def dot(self, inner: Axis, pointers: list) -> None:
        """Write the product of two vectors: four sums of vectors, then the rest."""
        self.dots([(pointers[0], inner.x)], pointers[1], inner.y, inner.count, [pointers[2]])

    def dots(self, lines: list, y: Value, stride: int, count: int, targets: list) -> None:
        """Write the products of several vectors (pointer, stride) with one."""
        b, kind, lanes = self.b, self.kind, self.lanes
        many = max(1, 4 // len(lines))
        full, rest = divmod(count, many * lanes)
        zero = b.spread(constant(kind, 0.0), lanes)
        sums = [zero] * (len(lines) * many)
        if full:

            def step(i, sums):
                start = self.times(i, many * lanes)
                found = []
                ys = [
                    self.vector_of(moved(b, kind, y, number(u * lanes), stride), start, stride, lanes)
                    for u in range(many)
                ]
                for p, s in lines:
                    for u in range(many):
                        v = self.vector_of(moved(b, kind, p, number(u * lanes), s), start, s, lanes)
                        found.append(self.plus(sums[len(found)], v, ys[u]))
                return found

            sums = repeat(b, full, step, sums)
        done = full * many * lanes
        for n, ((p, s), target) in enumerate(zip(lines, targets, strict=True)):
            mine = sums[n * many : (n + 1) * many]
            at = done
            for u in range(rest // lanes):
                v, w = self.vector_of(p, number(at), s, lanes), self.vector_of(y, number(at), stride, lanes)
                mine[u] = self.plus(mine[u], v, w)
                at += lanes
            while len(mine) > 1:
                mine = [b.binary("fadd", mine[i], mine[i + 1]) for i in range(0, len(mine), 2)]
            found = self.total(mine[0]) if full or rest >= lanes else None
            if at < count:
                v, w = self.vector_of(p, number(at), s, count - at), self.vector_of(y, number(at), stride, count - at)
                part = self.total(b.binary("fmul", v, w))
                found = part if found is None else b.binary("fadd", found, part)
            b.store(found, target)

    def lines(self, row: Axis, inner: Axis, pointers: list) -> None:
        """Write the product of a matrix and a vector, a few rows at once."""
        b, kind = self.b, self.kind

        def some(at, rows):
            x, out = moved(b, kind, pointers[0], at, row.x), moved(b, kind, pointers[2], at, row.out)
            lines = [(b.offset(kind, x, r * row.x), inner.x) for r in range(rows)]
            self.dots(lines, pointers[1], inner.y, inner.count, [b.offset(kind, out, r * row.out) for r in range(rows)])

        full, rest = divmod(row.count, ROWS)
        if full:
            repeat(b, full, lambda i, _: some(self.times(i, ROWS), ROWS))
        if rest:
            some(number(full * ROWS), rest)

    # -- products of matrices ------------------------------------------------------------------------------------

    def small(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write a product in blocks of a few rows and vectors of columns, with the sums in registers."""
        if (column.y != 1 and row.x == 1) or (column.y == 1 and row.x == 1 and column.out != 1 and row.out == 1):
            row, column, pointers = flipped(row, column, pointers)
            inner = Axis(inner.count, inner.y, inner.x, None)
        m, k, n = row.count, inner.count, column.count
        most = SCRATCH if self.scratch is None else SMALL_OPERAND
        if column.y != 1 and n > m and row.x != 1 and (column.out != 1 or k * n > most):
            row, column, pointers = flipped(row, column, pointers)
            inner = Axis(inner.count, inner.y, inner.x, None)
            m, n = n, m
        b = self.b
        if column.y != 1 and m > 2 and k * n <= most:
            target, (sk, sn) = self.memory(k * n), (n, 1)

            self.move([Axis(k, inner.y, None, sk), Axis(n, column.y, None, sn)], pointers[1], target)
            pointers = [pointers[0], target, pointers[2]]
            inner, column = Axis(k, inner.x, sk, None), Axis(n, None, sn, column.out)
        widths = [self.lanes] * (n // self.lanes) + [n % self.lanes] * (n % self.lanes > 0)
        most = max(1, SUMS // min(m, ROWS))
        full = n // (most * self.lanes)
        step = most * self.lanes

        def panels(i, _):
            self.panel(row, column, inner, pointers, self.times(i, step), widths[:most])

        if full:
            repeat(b, full, panels)
        if full * most < len(widths):
            self.panel(row, column, inner, pointers, number(full * step), widths[full * most :])

    def panel(self, row, column, inner, pointers, start, group) -> None:
        """Write all rows of some columns."""
        full, rest = divmod(row.count, ROWS)
        b, kind = self.b, self.kind
        base = [
            pointers[0],
            moved(b, kind, pointers[1], start, column.y),
            moved(b, kind, pointers[2], start, column.out),
        ]
        if full:

            def block(i, _):
                at = self.times(i, ROWS)
                moved_to = [moved(b, kind, base[0], at, row.x), base[1], moved(b, kind, base[2], at, row.out)]
                self.block(row, column, inner, moved_to, ROWS, group)

            repeat(b, full, block)
        if rest:
            at = number(full * ROWS)
            moved_to = [moved(b, kind, base[0], at, row.x), base[1], moved(b, kind, base[2], at, row.out)]
            self.block(row, column, inner, moved_to, rest, group)

    def block(self, row, column, inner, pointers, rows, group) -> None:
        """Write a few rows of a few vectors."""
        b, kind = self.b, self.kind
        starts = [sum(group[:g]) for g in range(len(group))]
        sums = [self.spread(constant(kind, 0.0), w) for _ in range(rows) for w in group]

        def step(i, sums, pointers):
            x, y = moved(b, kind, pointers[0], i, inner.x), moved(b, kind, pointers[1], i, inner.y)
            ys = [self.vector_of(y, number(s), column.y, w) for s, w in zip(starts, group, strict=True)]
            found = []
            for r in range(rows):
                v = b.load(kind, b.offset(kind, x, r * row.x))
                for w, z in zip(group, ys, strict=True):
                    found.append(self.plus(sums[len(found)], self.spread(v, w), z))
            return found

        sums = self.summed(inner, pointers, step, sums)
        for r in range(rows):
            line = b.offset(kind, pointers[2], r * row.out)
            for g, s in enumerate(starts):
                self.put(sums[r * len(group) + g], line, number(s), column.out)

    def summed(self, inner: Axis, pointers: list, step, zeros: list) -> list:
        """Sum over an axis; long sums are sums of those of blocks, which rounds less."""
        b, kind = self.b, self.kind
        full, rest = divmod(inner.count, BLOCK)
        if full < 2:
            return repeat(b, inner.count, lambda i, sums: step(i, sums, pointers), zeros)

        def part(at, count, totals):
            x, y = moved(b, kind, pointers[0], at, inner.x), moved(b, kind, pointers[1], at, inner.y)
            sums = repeat(b, count, lambda i, sums: step(i, sums, [x, y]), zeros)
            return [b.binary("fadd", t, s) for t, s in zip(totals, sums, strict=True)]

        totals = repeat(b, full, lambda i, totals: part(self.times(i, BLOCK), BLOCK, totals), zeros)
        return part(number(full * BLOCK), rest, totals) if rest else totals
