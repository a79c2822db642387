"""How a symbol of a program is held in machine code: as a `Number`, as `Entries`, or in `Memory`.

A number is one value of LLVM's. Entries are a small array as a list of such values, row by row: code for them is
unrolled. Memory is an array at an address. A view of memory is memory with other strides, and takes no code.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.program.native.builder import SIZES, Builder, Value, type_of

MOST_ENTRIES = 128  # arrays of more entries are not held as such


@dataclass(eq=False, slots=True)
class Number:
    """One value. `dtype` is NumPy's, or Python's type for a Python number."""

    value: Value
    dtype: Any

    shape = ()

    @property
    def values(self) -> list:
        """The value, as that of an array of one entry."""
        return [self.value]


@dataclass(eq=False, slots=True)
class Entries:
    """A small array: `values`, row by row."""

    values: list
    shape: tuple
    dtype: Any

    def array(self) -> np.ndarray:
        """Return the values as an array of objects, to be indexed and transposed as the array is."""
        array = np.empty(len(self.values), object)
        array[:] = self.values
        return array.reshape(self.shape)


def rows(shape: tuple) -> tuple:
    """Return the strides, in entries, of an array whose entries are stored row by row."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass(eq=False, slots=True)
class Memory:
    """An array at an address.

    Attributes
    ----------
    pointer : Value
        Of type ``ptr``: where the memory begins.
    shape : tuple
    strides : tuple
        In entries, not in bytes; 0 along an axis of equal entries.
    dtype
        NumPy's dtype.
    offset : int
        Where the first entry is, in entries after `pointer`.
    root
        What the memory belongs to: views of one array have the same.
    align : int
        What `pointer` is a multiple of, in bytes.
    """

    pointer: Value
    shape: tuple
    strides: tuple
    dtype: Any
    offset: int = 0
    root: Any = None
    align: int = 8

    @classmethod
    def of_rows(cls, pointer: Value, shape: tuple, dtype: Any, root: Any = None, align: int | None = None) -> "Memory":
        """Return memory whose entries are stored row by row."""
        dtype = np.dtype(dtype)
        return cls(pointer, tuple(shape), rows(shape), dtype, 0, root, align or dtype.itemsize)

    @property
    def type(self) -> str:
        """LLVM's type of an entry."""
        return type_of(self.dtype)

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def is_rows(self) -> bool:
        """Tell whether the entries are stored row by row, with nothing between."""
        return all(n == 1 or s == t for n, s, t in zip(self.shape, self.strides, rows(self.shape), strict=True))

    def like(self, shape, strides, offset=None) -> "Memory":
        """Return other memory of the same root."""
        offset = self.offset if offset is None else offset
        return Memory(self.pointer, tuple(shape), tuple(strides), self.dtype, offset, self.root, self.align)

    def index(self, index: Any) -> "Memory | None":
        """Return the view ``[index]`` for integers, slices, None and Ellipsis; None for all else."""
        parts = index if index.__class__ is tuple else (index,)
        for p in parts:
            if not (p is None or p is Ellipsis or p.__class__ is slice or is_integer(p)):
                return None
        if any(p.__class__ is slice and not all(v is None or is_integer(v) for v in (p.start, p.stop, p.step))
               for p in parts):  # fmt: skip
            return None
        left = len(self.shape) - sum(p is not None and p is not Ellipsis for p in parts)
        if Ellipsis in parts:
            k = parts.index(Ellipsis)
            parts = (*parts[:k], *[slice(None)] * left, *parts[k + 1 :])
        else:
            parts = (*parts, *[slice(None)] * left)
        shape, strides, offset, axis = [], [], self.offset, 0
        for p in parts:
            if p is None:
                shape.append(1)
                strides.append(0)
                continue
            n, s = self.shape[axis], self.strides[axis]
            axis += 1
            if p.__class__ is slice:
                start, stop, step = p.indices(n)
                count = len(range(start, stop, step))
                shape.append(count)
                strides.append(s * step)
                offset += start * s if count else 0
            else:
                offset += (int(p) + n if p < 0 else int(p)) * s
        return self.like(shape, strides, offset)

    def transpose(self, axes: Any = None) -> "Memory":
        """Return the view with its axes in another order; by default reversed."""
        axes = range(len(self.shape))[::-1] if axes is None else [a % len(self.shape) for a in axes]
        return self.like([self.shape[a] for a in axes], [self.strides[a] for a in axes])

    def broadcast(self, shape: tuple) -> "Memory":
        """Return the view broadcast to a shape: stride 0 along what is repeated."""
        new = len(shape) - len(self.shape)
        strides = [0] * new + [s if n == m else 0 for n, m, s in
                               zip(self.shape, shape[new:], self.strides, strict=True)]  # fmt: skip
        return self.like(shape, strides)

    def reshape(self, shape: tuple) -> "Memory | None":
        """Return the view with other axes over the same entries; None if only a copy has that shape."""
        size = self.size
        if -1 in shape:
            rest = -math.prod(shape)
            shape = tuple([size // rest if n == -1 else n for n in shape])
        if self.is_rows or not size:
            return self.like(shape, rows(shape))
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides, k = [], 0
        queue = [n for n in shape if n != 1]
        while queue:  # match runs of old axes with runs of new ones of the same size
            news, olds, a, b = [queue.pop(0)], [old[k]], 0, 0
            k += 1
            a, b = news[0], olds[0][0]
            while a != b:
                if a < b:
                    news.append(queue.pop(0))
                    a *= news[-1]
                else:
                    olds.append(old[k])
                    k += 1
                    b *= olds[-1][0]
            if any(s != olds[i + 1][1] * olds[i + 1][0] for i, (_, s) in enumerate(olds[:-1])):
                return None
            strides += [t * olds[-1][1] for t in rows(tuple(news))]
        placed = iter(strides)
        return self.like(shape, [0 if n == 1 else next(placed) for n in shape])

    def positions(self) -> list:
        """Return where its entries are, row by row: in entries after `pointer`."""
        grid = np.full(self.shape, self.offset, dtype=np.int64)
        for axis, (n, s) in enumerate(zip(self.shape, self.strides, strict=True)):
            step = [1] * len(self.shape)
            step[axis] = n
            grid = grid + (np.arange(n) * s).reshape(step)
        return grid.ravel().tolist()

    def load(self, b: Builder) -> list:
        """Load all entries, row by row; code for each."""
        return [b.load(self.type, b.offset(self.type, self.pointer, p)) for p in self.positions()]

    def store(self, b: Builder, values: list) -> None:
        """Store all entries, row by row; code for each."""
        for v, p in zip(values, self.positions(), strict=True):
            b.store(v, b.offset(self.type, self.pointer, p))

    @property
    def bytes(self) -> int:
        """Size of so many entries in bytes."""
        return self.size * SIZES[self.type]


def is_integer(x: Any) -> bool:
    """Tell whether a part of an index is a plain integer."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool | np.bool_)
