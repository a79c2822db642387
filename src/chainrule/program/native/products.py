"""Products in machine code: `matmul`, `dot`, `inner`, `outer`, `vdot`, `tensordot`, and `einsum` of two operands.

Each is a sum over letters, which `chainrule.program.native.products_terms` names and sorts. `multiply` writes the code:
letters that are not those of a matrix are looped over, outside. What is inside is

- a loop nest of our own if it is small: `chainrule.program.native.products_loops`;
- otherwise a call of BLAS: `chainrule.program.native.blas`. Only what has no axis of unit stride is copied first.

Without SciPy, or for a dtype that BLAS does not have, larger products are calls of NumPy between the kernels. How long
ones are cut for threads: `chainrule.program.native.products_blocks`.
"""

import math
from typing import Any

from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.blas import PREFIX, Blas, has_blas, leading
from chainrule.program.native.builder import Builder, constant
from chainrule.program.native.products_loops import SMALL_OPERAND, Loops, over
from chainrule.program.native.products_terms import Axis, Sum, flipped, matrix_of, terms_of, work
from chainrule.program.native.values import Memory

FAR, WIDE = 1 << 17, 128  # matrices by columns of more entries, with more rows, are multiplied by BLAS
NARROW = 24  # rows and columns that are too few for the copy of an operand
SMALL_WORK = 1 << 22  # measured: up to here our loops do 50 GFLOP/s on small operands, BLAS 40


def lowerable(e: Equation) -> bool:
    """Tell whether `multiply` writes an equation."""
    terms = terms_of(e)
    if terms is None or e.output.__class__ is not Symbol or e.output.dtype in PYTHON:
        return False
    x, y = [v for v in e.inputs if v.__class__ is Symbol]
    sizes = dict(zip(terms[0], x.shape, strict=True))
    if any(c is not None and sizes.get(c, n) != n for c, n in zip(terms[1], y.shape, strict=True)):
        return False
    if x.dtype != y.dtype or x.dtype != e.output.dtype or x.dtype.char not in PREFIX:
        return False
    return work(terms, x, y) <= 32**3 or has_blas(x.dtype)


def multiply(b: Builder, e: Equation, x: Memory, y: Memory, out: Memory, scratch=None, width: int = 64) -> None:
    """Write a product: ``out = x @ y``, or what else the equation `e` says.

    Parameters
    ----------
    b : Builder
    e : Equation
        One for which `lowerable` holds.
    x, y, out : Memory
        `out` overlaps neither of the others.
    scratch : callable or None
        Returns a pointer to so many entries of the dtype, which are used within the code of this product only. Without
        it they stand on the call's stack, as far as they are few.
    width : int
        Bytes of a vector.
    """
    product(b, terms_of(e), x, y, out, scratch, width)


def product(b, terms, x, y, out, scratch=None, width=64) -> None:
    """Write a product of known letters."""
    if not out.size:
        return
    kind = out.type
    total = Sum.of(terms, x, y, out)
    pointers = [b.offset(kind, a.pointer, a.offset) for a in (x, y, out)]
    if 0 in (x.size, y.size):
        strides = [Axis(n, None, None, s) for n, s in zip(out.shape, out.strides, strict=True)]
        zero = constant(kind, 0.0)
        over(b, kind, strides, pointers, lambda ps: b.store(zero, ps[2]))
        return
    Writer(b, kind, scratch, width).write(total, pointers)


class Writer:
    """Writes the code of one product: what is looped over, and whether our loops or BLAS do the rest."""

    def __init__(self, b: Builder | None, kind: str, scratch, width: int) -> None:
        self.b: Any = b
        self.kind = kind
        self.blas = has_blas("d" if kind == "double" else "f")
        self.loops, self.calls = Loops(b, kind, scratch, width), Blas(b, kind)

    def write(self, total: Sum, pointers: list) -> None:
        """Write the loops around, and the product inside."""
        b, kind = self.b, self.kind
        if len(total.inner) > 1:  # what is summed over in one go is one axis; where it isn't, a copy is
            for which in (0, 1):
                if total.scattered(which):
                    self.copied(total, which, pointers)
            total = total.joined()
        rows, columns, row, column, inner = matrix_of(total)
        outside = [*total.batch, *rows, *columns]
        if total.batch and not rows and not columns and row.count == column.count == inner.count == 1:
            outside, row = total.batch[:-1], total.batch[-1]  # a product entry by entry
            over(b, kind, outside, pointers, lambda ps: self.loops.entries(row, ps))
            return
        over(b, kind, outside, pointers, lambda ps: self.matrices(row, column, inner, ps))

    def copied(self, total: Sum, which: int, pointers: list) -> None:
        """Copy an operand row by row; its axes get the new strides."""
        name = ("x", "y")[which]
        axes = [*total.batch, *(total.rows, total.columns)[which], *total.inner]
        axes = [a for a in axes if getattr(a, name) is not None]
        source, target = pointers[which], self.loops.memory(math.prod(a.count for a in axes))
        step, strides = 1, []
        for a in reversed(axes):
            strides.insert(0, step)
            step *= a.count
        moves = [Axis(a.count, getattr(a, name), None, s) for a, s in zip(axes, strides, strict=True)]
        self.loops.move(moves, source, target)
        for a, s in zip(axes, strides, strict=True):
            setattr(a, name, s)
        pointers[which] = target

    def matrices(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write ``out[i, j] = sum over k of x[i, k] * y[k, j]``."""
        m, k, n = row.count, inner.count, column.count
        if k == 1:
            self.loops.outer(row, column, pointers)
        elif m == n == 1:
            self.loops.dot(inner, pointers)
        elif n == 1 or m == 1:
            self.vector(row, column, inner, pointers)
        elif self.by_gemm(row, column, k):
            self.large(row, column, inner, pointers)
        else:
            self.loops.small(row, column, inner, pointers)

    def vector(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write the product of a matrix and a vector."""
        if row.count == 1:
            row, column, pointers = flipped(row, column, pointers)
            inner = Axis(inner.count, inner.y, inner.x, None)
        if self.by_gemv(row, inner):
            self.calls.gemv(row, inner, pointers)
        elif row.x == 1:  # along the columns
            row, column, pointers = flipped(row, column, pointers)
            self.loops.small(row, column, Axis(inner.count, inner.y, inner.x, None), pointers)
        else:
            self.loops.lines(row, inner, pointers)

    def large(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write a product of matrices as a call of gemm."""
        m, n = row.count, column.count
        total = Sum([], [row], [column], [inner])
        pointers = list(pointers)
        if leading(row, inner, "x") is None:
            self.copied(total, 0, pointers)
        if leading(inner, column, "y") is None:
            self.copied(total, 1, pointers)
        ldc = leading(row, column, "out")
        if ldc is None:
            target = self.loops.memory(m * n)
            self.calls.gemm(row, column, inner, (pointers[0], pointers[1], target), ("T", n))
            moves = [Axis(m, n, None, row.out), Axis(n, 1, None, column.out)]
            self.loops.move(moves, target, pointers[2])
        else:
            self.calls.gemm(row, column, inner, pointers, ldc)

    # -- which of the two ----------------------------------------------------------------------------------------

    def calls_blas(self, total: Sum) -> bool:
        """Tell whether the code of a product with one inner axis calls BLAS."""
        _, _, row, column, inner = matrix_of(total)
        m, k, n = row.count, inner.count, column.count
        if k == 1 or m == n == 1:
            return False
        if m == 1:
            row, column, _ = flipped(row, column, [None] * 3)
            inner = Axis(k, inner.y, inner.x, None)
        return self.by_gemv(row, inner) if 1 in (m, n) else self.by_gemm(row, column, k)

    def by_gemm(self, row: Axis, column: Axis, k: int) -> bool:
        """Tell whether BLAS multiplies two matrices."""
        small = self.is_small(row.count, k, column.count) and not self.is_narrow(row, column, k)
        return self.blas and not small

    def by_gemv(self, row: Axis, inner: Axis) -> bool:
        """Tell whether BLAS multiplies a matrix and a vector."""
        m, k = row.count, inner.count
        known = leading(row, inner, "x") is not None and inner.y is not None and inner.y > 0 and row.out > 0
        return self.blas and known and m * k > FAR and m > WIDE and row.x == 1

    def is_small(self, m: int, k: int, n: int) -> bool:
        """Tell whether our own loops are faster than BLAS: while an operand stays in the second cache."""
        return min(m, n) * k <= SMALL_OPERAND and m * k * n <= SMALL_WORK

    def is_narrow(self, row: Axis, column: Axis, k: int) -> bool:
        """Tell whether a product of few long rows with few long columns would copy more than it computes."""
        return row.x != 1 and column.y != 1 and max(row.count, column.count) <= NARROW and k > NARROW
