"""Products in machine code: `matmul`, `dot`, `inner`, `outer`, `vdot`, `tensordot`, and `einsum` of two operands.

Each is a sum over letters: ``out[b, i, j] = sum over k of x[b, i, k] * y[b, k, j]``, with any number of letters of each
of the four sorts. `terms_of` names the letters. `multiply` writes the code: neighbouring letters that lie in memory
like one become one, and what is left over is looped over, outside. What is inside is

- a loop nest of our own if it is small: rows of `x` times vectors of `y`, with sums in registers;
- otherwise a call of BLAS, at the address that SciPy's ``cython_blas`` exports. Transposed operands are passed as such,
  and strided ones by their leading dimension; only what has no axis of unit stride is copied first.

Without SciPy, or for a dtype that BLAS does not have, larger products are calls of NumPy between the kernels.
"""

import ctypes
import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.blocks import Blocks, count_of
from chainrule.program.native.builder import SIZES, Builder, Value, constant, lanes_of, with_lanes
from chainrule.program.native.values import Memory
from chainrule.rules.einsum import einsum2

PRODUCTS = {np.matmul, np.dot, np.inner, np.outer, np.vdot, np.tensordot, np.einsum, einsum2}
PREFIX = {"d": "d", "f": "s"}  # dtype -> of the names in BLAS
BLOCK = 512  # products that are added up one after the other
ROWS = 4  # rows of a block of our own loops
SUMS = 12  # vectors of sums in such a block, at most
FEW = 256  # entries of a copy on the stack of a call, where other memory is to be had
SCRATCH = 4096  # and where there is none
FAR, WIDE = 1 << 17, 128  # matrices by columns of more entries, with more rows, are multiplied by BLAS
NARROW = 24  # rows and columns that are too few for the copy of an operand
SMALL_OPERAND, SMALL_WORK = 1 << 16, 1 << 22  # measured: our loops do 50 GFLOP/s there, BLAS 40

HEAVY, LIGHT = 1 << 20, 1 << 16  # products of two numbers in a block: of matrices; of a matrix and a vector
MANY = 8  # matrices of a stack that is rather cut than each of them
EVEN = 16  # rows or columns of which a block has a multiple
MUCH = 4  # how much longer a sum is than any axis of the result, if it is cut


# -- which letters ---------------------------------------------------------------------------------------------


def terms_of(e: Equation) -> tuple | None:
    """Return the letters of the operands and of the result of a product of two arrays; None of anything else.

    A letter is any hashable. An axis of length 1 that is broadcast is the letter None, and is left out of the sum.
    """
    if e.__class__ is not Equation or e.fun not in PRODUCTS or len(e.inputs) not in (2, 3):
        return None
    xs = e.inputs[1:] if e.fun is np.einsum and e.inputs[0].__class__ is str else e.inputs
    if len(xs) != 2 or not all(x.__class__ is Symbol and x.dtype not in PYTHON and x.dtype is not None for x in xs):
        return None
    m, n = len(xs[0].shape), len(xs[1].shape)
    fun, params = e.fun, e.params
    if fun is np.einsum or fun is einsum2:
        return einsum_terms(e, m, n)
    x, y = [("x", k) for k in range(m)], [("y", k) for k in range(n)]
    if fun is np.tensordot:
        if not params.keys() <= {"axes"}:
            return None
        axes = params.get("axes", 2)
        a, b = (range(m - axes, m), range(axes)) if axes.__class__ is int else axes
        a, b = [[k] if isinstance(k, int | np.integer) else list(k) for k in (a, b)]
        for i, j in zip(a, b, strict=True):
            y[j] = x[i]
        a, b = [k % m for k in a], [k % n for k in b]
        return x, y, [c for k, c in enumerate(x) if k not in a] + [c for k, c in enumerate(y) if k not in b]
    if params:
        return None
    if fun in (np.outer, np.vdot) and (m != 1 or n != 1):
        return None
    if fun is np.outer:
        return x, y, x + y
    if m == 0 or n == 0:
        return None
    if fun in (np.inner, np.vdot):
        y[-1] = x[-1]
        return x, y, x[:-1] + y[:-1]
    y[-2 if n > 1 else -1] = x[-1]
    if fun is np.dot:
        return x, y, x[:-1] + [c for c in y if c != x[-1]]
    return matmul_terms(xs, x, y, e.output)


def matmul_terms(xs, x, y, s):
    """Return the letters of a product of stacks of matrices."""
    out = [("b", k) for k in range(len(s.shape))]
    batch = len(s.shape) - (len(x) > 1) - (len(y) > 1)
    if len(x) > 1:
        out[batch] = x[-2]
    if len(y) > 1:
        out[-1] = y[-1]
    for a, letters in zip(xs, (x, y), strict=True):
        count = len(letters) - 2
        for k in range(max(count, 0)):
            place = batch - count + k
            letters[k] = out[place] if a.shape[k] == s.shape[place] else None
    return x, y, out


def einsum_terms(e, m, n):
    """Return the letters of an einsum of two operands, each letter once in an operand."""
    text = e.inputs[0] if e.inputs[0].__class__ is str else e.params.get("subscripts")
    if text.__class__ is not str or "." in text or not e.params.keys() <= {"subscripts", "optimize"}:
        return None
    given, arrow, out = text.replace(" ", "").partition("->")
    x, _, y = given.partition(",")
    if not arrow:
        out = "".join(sorted(c for c in {*x, *y} if (x + y).count(c) == 1))
    if len(x) != m or len(y) != n or any(len(set(t)) != len(t) for t in (x, y, out)) or not {*out} <= {*x, *y}:
        return None
    if any(c not in out for c in {*x} ^ {*y}):  # a sum over one of the operands alone
        return None
    return list(x), list(y), list(out)


@dataclass(slots=True)
class Axis:
    """A letter: its length, and its stride in x, y and the result (None where it is not)."""

    count: int
    x: int | None
    y: int | None
    out: int | None

    def joined(self, inner: "Axis") -> "Axis | None":
        """Return this axis and the next one inside as one axis; None if they are not one in memory."""
        for a, b in ((self.x, inner.x), (self.y, inner.y), (self.out, inner.out)):
            if a is not None and a != b * inner.count:
                return None
        return Axis(self.count * inner.count, inner.x, inner.y, inner.out)


@dataclass(slots=True)
class Sum:
    """A product of two arrays as a sum over letters, sorted by where they are."""

    batch: list  # in both operands and the result
    rows: list  # in x and the result
    columns: list  # in y and the result
    inner: list  # in both operands

    @classmethod
    def of(cls, terms, x: Memory, y: Memory, out: Memory) -> "Sum":
        """Return the sum of three arrays in memory."""
        strides = []
        sizes = {}
        for letters, array in zip(terms, (x, y, out), strict=True):
            strides.append(dict(zip(letters, array.strides, strict=True)))
            sizes.update(zip(letters, array.shape, strict=True))
        found = cls([], [], [], [])
        order = [c for c in dict.fromkeys([*terms[2], *terms[0]]) if c is not None and sizes[c] != 1]
        for c in order:
            axis = Axis(sizes[c], *[s.get(c) for s in strides])
            if axis.out is None:
                found.inner.append(axis)
            elif axis.x is None:
                found.columns.append(axis)
            else:
                (found.rows if axis.y is None else found.batch).append(axis)
        for name in ("batch", "rows", "columns", "inner"):
            setattr(found, name, joined(getattr(found, name)))
        return found


def joined(axes: list) -> list:
    """Return axes with neighbours as one where memory allows."""
    made = []
    for a in axes:
        both = made[-1].joined(a) if made else None
        if both is not None:
            made[-1] = both
        else:
            made.append(a)
    return made


# -- BLAS ------------------------------------------------------------------------------------------------------


@functools.cache
def address(name: str) -> int | None:
    """Return the address of a function of BLAS, by its Fortran name; None if there is none to be had."""
    try:
        from scipy.linalg import cython_blas
    except ImportError:
        return None
    capsule = cython_blas.__pyx_capi__.get(name)
    if capsule is None:
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    if b"int *" not in signature or b"64" in signature or b"long" in signature:  # sizes are not 32 bits wide
        return None
    return api.PyCapsule_GetPointer(capsule, signature)


@functools.cache
def linked(name: str) -> str:
    """Make a function of BLAS known to LLVM; return its name there."""
    from llvmlite import binding

    binding.add_symbol(f"chainrule_blas_{name}", address(name))
    return f"chainrule_blas_{name}"


def has_blas(dtype) -> bool:
    """Tell whether BLAS can be called for a dtype."""
    return np.dtype(dtype).char in PREFIX and address(PREFIX[np.dtype(dtype).char] + "gemm") is not None


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


def work(terms, x, y) -> int:
    """Return the number of products of two numbers."""
    sizes = dict(zip(terms[0], x.shape, strict=True)) | dict(zip(terms[1], y.shape, strict=True))
    return math.prod(n for c, n in sizes.items() if c is not None)


# -- loops -----------------------------------------------------------------------------------------------------


def number(n: int) -> Value:
    """Return an integer constant."""
    return Value("i64", str(n))


def repeat(b: Builder, count: int, body, carried=()) -> list:
    """Write `count` rounds, one or more. ``body(round, carried)`` returns what it hands on; return that of the last."""
    if count == 1:
        return body(number(0), list(carried)) or []
    before, label, done = b.current, b.block("round"), b.block("done")
    b.branch(label)
    b.start(label)
    phis = [b.phi("i64"), *[b.phi(v.type) for v in carried]]
    for p, v in zip(phis, (number(0), *carried), strict=True):
        p.add(v, before)
    last = body(phis[0].value, [p.value for p in phis[1:]]) or []
    following = b.binary("add", phis[0].value, number(1))
    for p, v in zip(phis, (following, *last), strict=True):
        p.add(v, b.current)
    b.condition(b.compare("slt", following, number(count)), label, done)
    b.start(done)
    return last


def moved(b: Builder, kind: str, pointer: Value, i: Value, stride: int) -> Value:
    """Return a pointer ``i * stride`` entries further on."""
    if stride == 0 or i.text == "0":
        return pointer
    if i.text.lstrip("-").isdigit():
        return b.offset(kind, pointer, int(i.text) * stride)
    return b.offset(kind, pointer, b.binary("mul", i, number(stride)) if stride != 1 else i)


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


# -- the code of a product ---------------------------------------------------------------------------------------


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


class Writer:
    """Writes the code of one product."""

    def __init__(self, b: Builder | None, kind: str, scratch, width: int) -> None:
        self.b: Any = b
        self.kind, self.scratch = kind, scratch
        self.lanes = width // (8 if kind == "double" else 4)
        self.blas = has_blas("d" if kind == "double" else "f")
        self.letter = "d" if kind == "double" else "s"

    def memory(self, count: int) -> Value:
        """Return memory for a copy of an operand."""
        if self.scratch is not None and count > FEW:
            return self.scratch(count)
        if count > SCRATCH:
            raise ValueError(f"a product needs memory for a copy of {count} entries")
        return self.b.alloca(self.kind, count)

    def write(self, total: Sum, pointers: list) -> None:
        """Write the loops around, and the product inside."""
        b, kind = self.b, self.kind
        if len(total.inner) > 1:  # what is summed over in one go is one axis; where it isn't, a copy is
            for which in (0, 1):
                if self.scattered(total, which):
                    self.copied(total, which, pointers)
            total = self.joined(total)
        rows, columns, row, column, inner = matrix_of(total)
        outside = [*total.batch, *rows, *columns]
        if total.batch and not rows and not columns and row.count == column.count == inner.count == 1:
            outside, row = total.batch[:-1], total.batch[-1]  # a product entry by entry
            over(b, kind, outside, pointers, lambda ps: self.entries(row, ps))
            return
        over(b, kind, outside, pointers, lambda ps: self.matrices(row, column, inner, ps))

    def scattered(self, total: Sum, which: int) -> bool:
        """Tell whether the letters that are summed over are not one axis of an operand."""
        strides = [(a.count, (a.x, a.y)[which]) for a in total.inner]
        return any(s != t * n for (_, s), (n, t) in itertools.pairwise(strides))

    def copied(self, total: Sum, which: int, pointers: list) -> None:
        """Copy an operand row by row; its axes get the new strides."""
        name = ("x", "y")[which]
        axes = [*total.batch, *(total.rows, total.columns)[which], *total.inner]
        axes = [a for a in axes if getattr(a, name) is not None]
        source, target = pointers[which], self.memory(math.prod(a.count for a in axes))
        step, strides = 1, []
        for a in reversed(axes):
            strides.insert(0, step)
            step *= a.count
        moves = [Axis(a.count, getattr(a, name), None, s) for a, s in zip(axes, strides, strict=True)]
        self.move(moves, source, target)
        for a, s in zip(axes, strides, strict=True):
            setattr(a, name, s)
        pointers[which] = target

    def move(self, axes: list, source: Value, target: Value) -> None:
        """Copy entries, with strides as those of x, to others, with strides as those of the result."""
        *outside, last = axes

        def line(ps):
            self.parts(last.count, lambda at, lanes: self.put(self.vector_of(ps[0], at, last.x, lanes), ps[2], at,
                                                              last.out))  # fmt: skip

        over(self.b, self.kind, outside, [source, source, target], line)

    def joined(self, total: Sum) -> Sum:
        """Return a sum with its letters joined anew."""
        return Sum(joined(total.batch), joined(total.rows), joined(total.columns), joined(total.inner))

    def matrices(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write ``out[i, j] = sum over k of x[i, k] * y[k, j]``."""
        m, k, n = row.count, inner.count, column.count
        if k == 1:
            self.outer(row, column, pointers)
        elif m == n == 1:
            self.dot(inner, pointers)
        elif n == 1 or m == 1:
            self.vector(row, column, inner, pointers)
        elif self.by_gemm(row, column, k):
            self.large(row, column, inner, pointers)
        else:
            self.small(row, column, inner, pointers)

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

    # -- our own loops -------------------------------------------------------------------------------------------

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

    # -- calls of BLAS -------------------------------------------------------------------------------------------

    def whole(self, x) -> Value:
        """Return a pointer to an integer, a letter or a number, as BLAS takes them."""
        if x.__class__ is str:
            return self.b.module.table(np.frombuffer(x.encode().ljust(4), np.int32))
        if x.__class__ is float:
            return self.b.module.table(np.array([x], "d" if self.kind == "double" else "f"))
        return self.b.module.table(np.array([x], np.int32))

    def call(self, name: str, *xs) -> None:
        """Call a function of BLAS."""
        self.b.call(linked(self.letter + name), "void", *[x if x.__class__ is Value else self.whole(x) for x in xs])

    def checked(self, pointers: list, *entries: int) -> None:
        """Write the checks of what BLAS reads and writes: so many entries of x, of y and of the result."""
        for p, n, what in zip(pointers, entries, ("load", "load", "store"), strict=True):
            self.b.check(p, n * SIZES[self.kind], what)

    def vector(self, row: Axis, column: Axis, inner: Axis, pointers: list) -> None:
        """Write the product of a matrix and a vector."""
        if row.count == 1:
            row, column, pointers = flipped(row, column, pointers)
            inner = Axis(inner.count, inner.y, inner.x, None)
        m, k = row.count, inner.count
        if self.by_gemv(row, inner):
            flag, ld = leading(row, inner, "x")  # row-major matrices are transposed ones to BLAS
            sizes = (k, m) if flag == "T" else (m, k)
            self.checked(pointers, reach("x", row, inner), reach("y", inner), reach("out", row))
            self.call("gemv", flag, *sizes, 1.0, pointers[0], ld, pointers[1], inner.y, 0.0, pointers[2], row.out)
        elif row.x == 1:  # along the columns
            row, column, pointers = flipped(row, column, pointers)
            self.small(row, column, Axis(k, inner.y, inner.x, None), pointers)
        else:
            self.lines(row, inner, pointers)

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
            target = self.memory(m * n)
            self.gemm(row, column, inner, (pointers[0], pointers[1], target), ("T", n))
            moves = [Axis(m, n, None, row.out), Axis(n, 1, None, column.out)]
            self.move(moves, target, pointers[2])
        else:
            self.gemm(row, column, inner, pointers, ldc)

    def gemm(self, row, column, inner, pointers, ldc) -> None:
        """Write the call: of a result row by row, BLAS computes the transpose."""
        m, k, n = row.count, inner.count, column.count
        x, y, out = pointers
        last = (m - 1) * ldc[1] + n if ldc[0] == "T" else (n - 1) * ldc[1] + m
        self.checked(pointers, reach("x", row, inner), reach("y", inner, column), last)
        (ta, lda), (tb, ldb) = leading(row, inner, "x"), leading(inner, column, "y")
        if ldc[0] == "T":
            other = {"T": "N", "N": "T"}
            self.call("gemm", other[tb], other[ta], n, m, k, 1.0, y, ldb, x, lda, 0.0, out, ldc[1])
        else:
            self.call("gemm", ta, tb, m, n, k, 1.0, x, lda, y, ldb, 0.0, out, ldc[1])


def reach(name: str, *axes: Axis) -> int:
    """Return how many entries of an operand lie between its first and its last one, with these two."""
    return sum([(a.count - 1) * getattr(a, name) for a in axes]) + 1


def matrix_of(total: Sum) -> tuple:
    """Return the axes of rows and of columns that are looped over, and the row, column and inner axis of a matrix."""
    rows, row = split(total.rows, "x", "out")
    columns, column = split(total.columns, "y", "out")
    inner = total.inner[0] if total.inner else Axis(1, 0, 0, None)
    return rows, columns, row or Axis(1, 0, None, 0), column or Axis(1, None, 0, 0), inner


def split(axes: list, *names: str) -> tuple:
    """Return the axes to be looped over, and that of a matrix: one of unit stride if there is one, else the longest."""
    if not axes:
        return [], None
    best = max(axes, key=lambda a: (any(getattr(a, n) == 1 for n in names), a.count))
    return [a for a in axes if a is not best], best


def flipped(row: Axis, column: Axis, pointers: list) -> tuple:
    """Return the product as that of the transposes."""
    return (
        Axis(column.count, column.y, None, column.out),
        Axis(row.count, None, row.x, row.out),
        [pointers[1], pointers[0], pointers[2]],
    )


def leading(first: Axis, second: Axis, name: str) -> tuple | None:
    """Return how BLAS reads a matrix (T: its rows are stored one by one, N: its columns) and its leading dimension.

    None if neither axis has unit stride.
    """
    a, b = getattr(first, name), getattr(second, name)
    if b == 1 and a >= second.count:
        return "T", a
    if a == 1 and b >= first.count:
        return "N", b
    return None
