"""Calls of BLAS, at the addresses that SciPy's ``cython_blas`` exports.

Transposed operands are passed as such, and strided ones by their leading dimension: `leading` tells how BLAS reads a
matrix. All numbers are passed as pointers to tables of the module, as Fortran has it. Which products are BLAS's is
decided in `chainrule.program.native.products`.
"""

import ctypes
import functools
from typing import Any

import numpy as np

from chainrule.program.native.builder import SIZES, Builder, Value
from chainrule.program.native.products_terms import Axis

PREFIX = {"d": "d", "f": "s"}  # dtype -> of the names in BLAS


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


def reach(name: str, *axes: Axis) -> int:
    """Return how many entries of an operand lie between its first and its last one, with these two."""
    return sum([(a.count - 1) * getattr(a, name) for a in axes]) + 1


class Blas:
    """Writes the calls of one product's matrices: x with axes `row` and `inner`, y with `inner` and `column`."""

    def __init__(self, b: Builder | None, kind: str) -> None:
        self.b: Any = b
        self.kind = kind
        self.letter = "d" if kind == "double" else "s"

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

    def gemv(self, row: Axis, inner: Axis, pointers: list) -> None:
        """Write the product of a matrix and a vector."""
        m, k = row.count, inner.count
        flag, ld = leading(row, inner, "x")  # row-major matrices are transposed ones to BLAS
        sizes = (k, m) if flag == "T" else (m, k)
        self.checked(pointers, reach("x", row, inner), reach("y", inner), reach("out", row))
        self.call("gemv", flag, *sizes, 1.0, pointers[0], ld, pointers[1], inner.y, 0.0, pointers[2], row.out)

    def gemm(self, row, column, inner, pointers, ldc) -> None:
        """Write the product of two matrices: of a result row by row, BLAS computes the transpose."""
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
