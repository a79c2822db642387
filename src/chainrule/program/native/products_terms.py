"""Which letters a product has, and where these are: a product as a sum over letters.

``out[b, i, j] = sum over k of x[b, i, k] * y[b, k, j]``, with any number of letters of each of the four sorts, is what
every product here says. `terms_of` reads the letters off an equation. A `Sum` sorts them, with the strides that arrays
in memory give them: neighbouring letters that lie in memory like one become one `Axis`. `matrix_of` picks those of the
matrices that are multiplied in one go; the others are looped over, outside.

Nothing is written here: that is for `chainrule.program.native.products`.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.values import Memory
from chainrule.rules.einsum import einsum2

PRODUCTS = {np.matmul, np.dot, np.inner, np.outer, np.vdot, np.tensordot, np.einsum, einsum2}


# -- letters -----------------------------------------------------------------------------------------------------------


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


def work(terms, x, y) -> int:
    """Return the number of products of two numbers."""
    sizes = dict(zip(terms[0], x.shape, strict=True)) | dict(zip(terms[1], y.shape, strict=True))
    return math.prod(n for c, n in sizes.items() if c is not None)


# -- axes --------------------------------------------------------------------------------------------------------------


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

    def scattered(self, which: int) -> bool:
        """Tell whether the letters that are summed over are not one axis of an operand."""
        strides = [(a.count, (a.x, a.y)[which]) for a in self.inner]
        return any(s != t * n for (_, s), (n, t) in itertools.pairwise(strides))

    def joined(self) -> "Sum":
        """Return the sum with its letters joined anew."""
        return Sum(joined(self.batch), joined(self.rows), joined(self.columns), joined(self.inner))


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
