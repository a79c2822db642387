"""Calls of the C library's mathematics, and of libmvec's for vectors.

A vector goes to libmvec as registers of the processor, whatever its number of lanes; with `config.exact_math`, and for
functions that libmvec does not have, entry by entry to the C library.
"""

from collections.abc import Callable

from chainrule.program.native import target
from chainrule.program.native.builder import Builder, Value, element_of, lanes_of, with_lanes
from chainrule.settings import config


def library(b: Builder, name: str, *xs: Value) -> Value:
    """Call a function of the C library; for vectors of any number of lanes that of libmvec, or entry by entry."""
    kind = xs[0].type
    if kind[0] != "<":
        return b.call(name if kind == "double" else f"{name}f", kind, *xs, pure=True)
    n, short = lanes_of(kind), element_of(kind)
    whole = 1 << (n - 1).bit_length()
    most = target.host().lanes * (1 if short == "double" else 2)
    if config.exact_math or target.vector_name(name, short, most, len(xs)) is None or n == 1:
        return b.pack([library(b, name, *[b.lane(x, k) for x in xs]) for k in range(n)])
    if n > most:  # registers first, then the rest
        parts = [
            library(b, name, *[b.shuffle(x, None, range(k, min(k + most, n))) for x in xs]) for k in range(0, n, most)
        ]
        while len(parts) > 1:
            parts = [joined(b, *parts[k : k + 2]) for k in range(0, len(parts), 2)]
        return parts[0]
    vector = target.vector_name(name, short, max(whole, 2), len(xs))
    if vector is None:  # a shorter vector than there is: fill it up
        whole = next(w for w in (2, 4, 8, 16) if w > n and target.vector_name(name, short, w, len(xs)))
        vector = target.vector_name(name, short, whole, len(xs))
    if whole == n:
        return b.call(vector, kind, *xs, pure=True)
    fill = [*range(n), *[n - 1] * (whole - n)]  # what is computed beside is a valid entry, too
    wide = b.call(vector, with_lanes(short, whole), *[b.shuffle(x, None, fill) for x in xs], pure=True)
    return b.shuffle(wide, None, range(n))


def joined(b: Builder, x: Value, y: Value | None = None) -> Value:
    """Return the lanes of two vectors as one."""
    if y is None:
        return x
    n, m = lanes_of(x.type), lanes_of(y.type)
    if m == 1:
        wide = b.shuffle(x, None, [*range(n), n - 1])
        return b.write(wide.type, f"insertelement {wide}, {y}, i64 {n}")
    if m < n:
        y = b.shuffle(y, None, [*range(m), *[m - 1] * (n - m)])
    return b.shuffle(x, y, range(n + m))


def of_library(name: str) -> Callable:
    """Return how a function of the C library is written."""
    return lambda b, *xs: library(b, name, *xs)
