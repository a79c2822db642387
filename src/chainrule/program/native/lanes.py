"""Small arrays as lanes of LLVM's vectors: what moves entries takes no code until they are needed in another order.

An entry is a pair (value, lane): lane n of a vector, or a number, with lane -1. `Lanes` is an array of entries, row by
row. `packed` makes one vector of entries, by a shuffle where they are in another; `single` makes a number of one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.program.native.builder import Builder, Value, element_of, lanes_of, with_lanes
from chainrule.program.native.scalars import NotLowered
from chainrule.program.native.values import Memory

WIDEST = 128  # lanes of one vector: LLVM splits it into registers
SCALAR = 4  # arrays of fewer entries are computed number by number
MOST = 1024  # entries of an array that is held as such


@dataclass(eq=False, slots=True)
class Lanes:
    """A small array or a number: its entries, row by row. `dtype` is Python's type for a Python number."""

    refs: list
    shape: tuple
    dtype: Any

    def taken(self, positions: np.ndarray, dtype: Any = None) -> "Lanes":
        """Return the entries at some flat positions, in the shape of these."""
        refs = self.refs
        return Lanes([refs[k] for k in positions.ravel().tolist()], positions.shape, dtype or self.dtype)

    @property
    def positions(self) -> np.ndarray:
        """The flat positions of the entries, in the array's shape."""
        return np.arange(len(self.refs)).reshape(self.shape)


def entries_of(vector: Value) -> list:
    """Return the entries of a vector, or of a number."""
    n = lanes_of(vector.type)
    return [(vector, k) for k in range(n)] if vector.type[0] == "<" else [(vector, -1)]


def number(x: Value) -> list:
    """Return a number as entries."""
    return [(x, -1)]


def single(b: Builder, ref: tuple) -> Value:
    """Return an entry as a number."""
    value, lane = ref
    if lane < 0:
        return value
    return b.lane(value, lane)


def vector_type(kind: str, n: int) -> str:
    """Return the type of a vector, also of one lane."""
    return f"<{n} x {kind}>"


def packed(b: Builder, refs: list) -> Value:
    """Return entries as one vector (of one entry as a number)."""
    n = len(refs)
    first, lane = refs[0]
    if n == 1:
        return single(b, refs[0])
    if lane == 0 and lanes_of(first.type) == n and all(v is first and k == i for i, (v, k) in enumerate(refs)):
        return first
    kind = element_of(first.type)
    if all(k < 0 for _, k in refs):
        values = [v for v, _ in refs]
        if all(v.text == first.text for v in values):
            return b.spread(first, n)
        return b.pack(values)
    sources: dict[Value, list] = {}
    for i, (v, k) in enumerate(refs):
        sources.setdefault(v, []).append((i, k))
    result = None
    for v, used in sources.items():
        if used[0][1] < 0:
            for i, _ in used:
                start = result or f"{vector_type(kind, n)} poison"
                result = b.write(vector_type(kind, n), f"insertelement {start}, {v}, i64 {i}")
            continue
        mask = ["poison"] * n
        for i, k in used:
            mask[i] = str(k)
        if result is None or len(sources) == 1:
            wide = shuffled(b, v, None, mask)
            result = wide if result is None else blended(b, result, wide, used, n)
        elif lanes_of(v.type) == n:  # one shuffle of both
            both = [str(i) for i in range(n)]
            for i, k in used:
                both[i] = str(n + k)
            result = shuffled(b, result, v, both)
        else:
            result = blended(b, result, shuffled(b, v, None, mask), used, n)
    return result


def blended(b: Builder, x: Value, y: Value, used: list, n: int) -> Value:
    """Return x with some lanes of y."""
    mask = [str(i) for i in range(n)]
    for i, _ in used:
        mask[i] = str(n + i)
    return shuffled(b, x, y, mask)


def shuffled(b: Builder, x: Value, y: Value | None, mask: list) -> Value:
    """Write a shuffle; an entry of `mask` may be ``poison``."""
    if y is None and lanes_of(x.type) == len(mask) and mask == [str(k) for k in range(len(mask))]:
        return x
    other = "poison" if y is None else y.text
    inner = ", ".join([f"i32 {m}" for m in mask])
    kind = vector_type(element_of(x.type), len(mask))
    return b.write(kind, f"shufflevector {x}, {x.type} {other}, <{len(mask)} x i32> <{inner}>")


def folded(b: Builder, vector: Value, combine) -> Value:
    """Combine all lanes of a vector, by halves: lane k with lane k + n/2, n a power of 2."""
    n = lanes_of(vector.type)
    half = (1 << (n - 1).bit_length()) // 2
    if n != 2 * half:  # lanes behind the first `half` are combined with the first lanes
        m, low = n - half, shuffled(b, vector, None, counted(0, half)) if half > 1 else b.lane(vector, 0)
        if m == 1:
            some = combine(b, b.lane(vector, 0), b.lane(vector, half))
            vector = b.write(low.type, f"insertelement {low}, {some}, i64 0")
        else:
            some = combine(b, shuffled(b, vector, None, counted(0, m)), shuffled(b, vector, None, counted(half, n)))
            wide = shuffled(b, some, None, counted(0, m) + ["poison"] * (half - m))
            vector = shuffled(b, low, wide, counted(half, half + m) + counted(m, half))
        n = half
    while n > 2:
        n //= 2
        vector = combine(b, shuffled(b, vector, None, counted(0, n)), shuffled(b, vector, None, counted(n, 2 * n)))
    return combine(b, b.lane(vector, 0), b.lane(vector, 1))


def counted(start: int, stop: int) -> list:
    """Return numbers as text."""
    return [str(k) for k in range(start, stop)]


def tree(b: Builder, values: list, combine) -> Value:
    """Combine values, or vectors, pair by pair."""
    while len(values) > 1:
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        values = [combine(b, *p) if len(p) == 2 else p[0] for p in pairs]
    return values[0]


def runs_of(positions: list) -> list:
    """Return (start, length) of the runs of rising positions, none longer than the widest vector."""
    runs = []
    for k, p in enumerate(positions):
        if k and p == positions[k - 1] + 1 and runs[-1][1] < WIDEST:
            runs[-1][1] += 1
        else:
            runs.append([k, 1])
    return runs


def load(b: Builder, memory: Memory, positions: list) -> list:
    """Load entries at positions in memory, neighbours as vectors; return them as entries."""
    if len(positions) > MOST:
        raise NotLowered
    kind, size, refs = memory.type, len(positions), []
    for start, n in runs_of(positions):
        pointer = b.offset(kind, memory.pointer, positions[start])
        if n < SCALAR and (n == 1 or size < SCALAR):
            refs += [(b.load(kind, b.offset(kind, pointer, k)), -1) for k in range(n)]
        else:
            refs += entries_of(b.load(with_lanes(kind, n), pointer))
    return refs


def store(b: Builder, memory: Memory, positions: list, refs: list) -> None:
    """Store entries at positions in memory: what is in one vector and goes side by side at once."""
    kind, k = memory.type, 0
    while k < len(refs):
        value, lane = refs[k]
        n = 1
        if lane >= 0:
            while (
                k + n < len(refs) and n < WIDEST and refs[k + n][0] is value and refs[k + n][1] == lane + n
                and positions[k + n] == positions[k] + n
            ):  # fmt: skip
                n += 1
        else:  # numbers: constants side by side
            while (
                k + n < len(refs) and n < WIDEST and refs[k + n][1] < 0 and refs[k + n][0].is_constant
                and value.is_constant and positions[k + n] == positions[k] + n
            ):  # fmt: skip
                n += 1
        b.store(packed(b, refs[k : k + n]), b.offset(kind, memory.pointer, positions[k]))
        k += n
