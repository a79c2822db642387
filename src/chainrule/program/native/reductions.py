"""Reductions and products of small arrays, unrolled.

Sums are made pair by pair, entry k with entry k + n/2, so their order depends on the shape alone. Products of vectors
and matrices run over the summed index, with multiply-and-add in one rounding where the processor has it.
"""

import math
import string

import numpy as np

from chainrule.engine.spec import sum_to
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native import lanes, scalars, target
from chainrule.program.native.builder import Value, constant, element_of, type_of
from chainrule.program.native.lanes import Lanes, entries_of, folded, packed, single, tree
from chainrule.program.native.library import library
from chainrule.program.native.moves import cast, static
from chainrule.program.native.scalars import FLOATS, NotLowered, add, converted, maximum, minimum, multiply
from chainrule.program.native.values import is_integer
from chainrule.rules.einsum import einsum2
from chainrule.rules.norms import length, tip
from chainrule.rules.products import cross3
from chainrule.rules.statistics import deviation_of, variance

MOST = 8192  # products and sums in one call


def rows_of(w, e, allowed=("axis", "keepdims", "dtype")) -> tuple:
    """Return (operand, its flat positions: a row for each result), or refuse parameters that are not known here."""
    static(e.params)
    if len(e.inputs) != 1 or e.params.keys() - set(allowed):
        raise NotLowered
    held = w.lanes(e.inputs[0])
    if held.dtype in PYTHON:
        raise NotLowered
    return held, grouped(held.shape, e.params.get("axis"))


def grouped(shape: tuple, axis) -> np.ndarray:
    """Return flat positions with the reduced axes last and flat, the others first and flat."""
    rank = len(shape)
    axes = (
        range(rank) if axis is None or not rank else [a % rank for a in (axis if axis.__class__ is tuple else (axis,))]
    )
    kept = [a for a in range(rank) if a not in set(axes)]
    grid = np.arange(math.prod(shape)).reshape(shape).transpose([*kept, *axes])
    return grid.reshape(math.prod([shape[a] for a in kept]), math.prod([shape[a] for a in axes]))


def reduced(w, e, held: Lanes, where: np.ndarray, combine, start) -> Lanes:
    """Combine the entries of each row of positions; `start` stands for no entry, or there must be one."""
    b, s = w.b, e.output
    kind = type_of(s.dtype)
    first = None if start is None else constant(kind, start)
    n, m = where.shape
    if n * m > MOST:
        raise NotLowered
    if n == 0:
        return Lanes([], s.shape, s.dtype)
    if m == 0:
        if start is None:
            raise NotLowered
        return Lanes([(first, -1)] * n, s.shape, s.dtype)
    have = element_of(held.refs[0][0].type)
    refs = held.refs
    signed = combine is add and kind in FLOATS

    def whole(blocks):
        y = tree(b, blocks, combine)
        return add(b, y, scalars.like(y, 0.0)) if signed else y  # NumPy begins with 0: a sum of zeros is never -0.0

    if n >= lanes.SCALAR or m < lanes.SCALAR:
        if n > lanes.WIDEST:
            raise NotLowered
        columns = [packed(b, [refs[p] for p in where[:, k].tolist()]) for k in range(m)]
        if have != kind:
            columns = [converted(b, c, kind) for c in columns]
        return Lanes(entries_of(whole(columns)), s.shape, s.dtype)
    made = []
    for row in where.tolist():
        blocks = []
        for k in range(0, m, lanes.WIDEST):
            block = packed(b, [refs[p] for p in row[k : k + lanes.WIDEST]])
            blocks.append(folded(b, converted(b, block, kind) if have != kind else block, combine))
        made.append((whole(blocks), -1))
    return Lanes(made, s.shape, s.dtype)


def summed(w, e):
    """Write np.sum."""
    return reduced(w, e, *rows_of(w, e), add, 0)


def averaged(w, e):
    """Write np.mean."""
    held, where = rows_of(w, e)
    kind = type_of(e.output.dtype)
    if kind not in FLOATS or not where.size:
        raise NotLowered
    total = reduced(w, e, held, where, add, 0)
    count = where.shape[1]
    if len(total.refs) < lanes.SCALAR:
        refs = [(w.b.binary("fdiv", single(w.b, r), constant(kind, count)), -1) for r in total.refs]
    else:
        v = packed(w.b, total.refs)
        refs = entries_of(w.b.binary("fdiv", v, scalars.like(v, count)))
    return Lanes(refs, total.shape, total.dtype)


def multiplied(w, e):
    """Write np.prod."""
    return reduced(w, e, *rows_of(w, e), multiply, 1)


def extreme(combine):
    """Return how np.max or np.min is written."""
    return lambda w, e: reduced(w, e, *rows_of(w, e, ("axis", "keepdims")), combine, None)


def asked(how: str, start: bool):
    """Return how np.any or np.all is written."""

    def write(w, e):
        held, where = rows_of(w, e, ("axis", "keepdims"))
        true = cast(w, held, "i1")
        return reduced(w, e, true, where, lambda b, x, y: b.binary(how, x, y), start)

    return write


def summed_to(w, e):
    """Write `sum_to`."""
    x, shape = w.lanes(e.inputs[0]), tuple(e.params["shape"])
    if x.shape == shape:
        return x
    extra = len(x.shape) - len(shape)
    axes = (*range(extra), *[i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1])
    if not axes:
        return Lanes(x.refs, shape, x.dtype)
    return reduced(w, e, x, grouped(x.shape, axes), add, 0)


def root_of_squares(w, e):
    """Write the length of vectors."""
    held, where = rows_of(w, e, ("axis", "keepdims"))
    kind = type_of(e.output.dtype)
    if not held.refs or element_of(held.refs[0][0].type) != kind or kind not in FLOATS:
        raise NotLowered
    b, refs = w.b, held.refs
    if len(refs) > lanes.WIDEST:
        raise NotLowered
    squares = packed(b, refs)
    y = reduced(w, e, Lanes(entries_of(multiply(b, squares, squares)), held.shape, held.dtype), where, add, 0)
    if len(y.refs) < lanes.SCALAR:
        return Lanes([(b.intrinsic("sqrt", single(b, r)), -1) for r in y.refs], y.shape, y.dtype)
    return Lanes(entries_of(b.intrinsic("sqrt", packed(b, y.refs))), y.shape, y.dtype)


def kept_axes(e) -> tuple:
    """Return the shape of a reduction whose axes stay with length 1."""
    shape = e.inputs[0].shape
    axis = e.params.get("axis")
    axes = (
        range(len(shape)) if axis is None else [a % len(shape) for a in (axis if axis.__class__ is tuple else (axis,))]
    )
    return tuple([1 if a in set(axes) else n for a, n in enumerate(shape)])


def held_as(w, held: Lanes) -> Symbol:
    """Return a symbol for entries, to be an operand."""
    s = Symbol("held", held.shape, held.dtype)
    w.values[s] = held
    return s


class Steps:
    """Writes a formula of several reductions over the same axes, and of what is done to the entries between them."""

    def __init__(self, w, e, allowed=("axis",)) -> None:
        self.w, self.e = w, e
        self.held, self.where = rows_of(w, e, allowed)
        self.dtype, self.kind = e.output.dtype, type_of(e.output.dtype)
        self.short = kept_axes(e)
        if self.kind not in FLOATS or not self.where.size or np.dtype(self.held.dtype) != np.dtype(self.dtype):
            raise NotLowered

    def over(self, held: Lanes, combine) -> Lanes:
        """Reduce; the axes stay with length 1."""
        like = Symbol("reduced", self.short, self.dtype)
        return reduced(self.w, Equation(self.e.rule, (), {}, like), held, self.where, combine, None)

    def map(self, how, *held: Lanes) -> Lanes:
        """Compute entry by entry."""
        shape = np.broadcast_shapes(*[h.shape for h in held])
        return self.w.mapped(how, [held_as(self.w, h) for h in held], [self.kind] * len(held), shape, self.dtype)

    def top(self) -> Lanes:
        """Return the greatest entries; 0 in place of infinite ones."""
        return self.map(
            lambda b, m: b.select(scalars.isfinite(b, m), m, scalars.like(m, 0.0)), self.over(self.held, maximum)
        )


def exp(b, x):
    """Return exp(x)."""
    return library(b, "exp", x)


def soft_max(w, e):
    """exp(x) / sum(exp(x)), by differences to the greatest."""
    s = Steps(w, e)
    y = s.map(lambda b, x, m: exp(b, b.binary("fsub", x, m)), s.held, s.over(s.held, maximum))
    return s.map(lambda b, y, t: b.binary("fdiv", y, t), y, s.over(y, add))


def log_of_sum(w, e):
    """log(sum(exp(x))), by differences to the greatest; the axes stay."""
    s = Steps(w, e)
    top = s.top()
    total = s.over(s.map(lambda b, x, m: exp(b, b.binary("fsub", x, m)), s.held, top), add)
    return s.map(lambda b, t, m: b.binary("fadd", library(b, "log", t), m), total, top)


def log_soft_max(w, e):
    """x - log(sum(exp(x)))."""
    s = Steps(w, e)
    d = s.map(lambda b, x, m: b.binary("fsub", x, m), s.held, s.top())
    total = s.over(s.map(exp, d), add)
    return s.map(lambda b, d, t: b.binary("fsub", d, library(b, "log", t)), d, total)


def squares_of_deviations(w, e, root: bool):
    """Write np.var or np.std."""
    if e.params.get("dtype") not in (None, e.output.dtype) or e.params.get("where", True) is not True:
        raise NotLowered
    s = Steps(w, e, ("axis", "ddof", "keepdims", "dtype", "where"))
    n = s.where.shape[1]
    free = n - e.params.get("ddof", 0)
    if free.__class__ not in (int, float) or free <= 0:
        raise NotLowered
    mean = s.map(lambda b, t: b.binary("fdiv", t, scalars.like(t, n)), s.over(s.held, add))
    d = s.map(lambda b, x, m: scalars.square(b, b.binary("fsub", x, m)), s.held, mean)
    y = s.map(lambda b, t: b.binary("fdiv", t, scalars.like(t, free)), s.over(d, add))
    y = s.map(lambda b, v: b.intrinsic("sqrt", v), y) if root else y
    return Lanes(y.refs, e.output.shape, s.dtype)


def first_of(real: str, whole: str):
    """Return how np.argmax or np.argmin is written: the first of the best, and of NaN the first."""

    def write(w, e):
        held, where = rows_of(w, e, ("axis", "keepdims"))
        b, made = w.b, []
        if not where.shape[1] or where.size > lanes.MOST:
            raise NotLowered
        for row in where.tolist():
            best, at = single(b, held.refs[row[0]]), constant("i64", 0)
            for k, p in enumerate(row[1:], start=1):
                x = single(b, held.refs[p])
                if scalars.is_float(x):
                    better = b.binary("or", b.compare(real, x, best), b.compare("uno", x, x))
                    better = b.binary("and", better, b.compare("ord", best, best))
                else:
                    better = b.compare(f"u{whole[1:]}" if scalars.is_truth(x) else whole, x, best)
                best, at = b.select(better, x, best), b.select(better, constant("i64", k), at)
            made.append((at, -1))
        return Lanes(made, e.output.shape, e.output.dtype)

    return write


def counted(w, e):
    """Write np.count_nonzero."""
    held, where = rows_of(w, e, ("axis", "keepdims"))
    return reduced(w, e, cast(w, held, "i1"), where, add, 0)


def running(combine):
    """Return how np.cumsum or np.cumprod is written."""

    def write(w, e):
        static(e.params)
        if e.params.keys() - {"axis"} or len(e.inputs) != 1:
            raise NotLowered
        held, axis = w.lanes(e.inputs[0]), e.params.get("axis")
        b = w.b
        kind = type_of(e.output.dtype)
        flat = axis is None or not held.shape  # NumPy takes a number as an array of one entry
        grid = held.positions.ravel() if flat else held.positions
        moved = np.moveaxis(grid, 0 if flat else axis, -1)
        refs = [None] * grid.size
        for row in moved.reshape(-1, moved.shape[-1]).tolist() if grid.size else []:
            total = None
            for p in row:
                x = converted(b, single(b, held.refs[p]), kind)
                total = x if total is None else combine(b, total, x)
                refs[p] = (total, -1)
        return Lanes(refs, grid.shape, e.output.dtype)

    return write


# -- products ----------------------------------------------------------------------------------------------------------


def product(w, e, subscripts, flat: bool = False, known=("subscripts",)) -> Lanes:
    """Write a product of two arrays, given as for np.einsum; of `flat` ones without their axes."""
    b, s = w.b, e.output
    kind = type_of(s.dtype)
    if e.params.keys() - set(known) or kind == "i1" or len(e.inputs) != 2:
        raise NotLowered
    x, y = [cast(w, w.lanes(v), kind) for v in e.inputs]
    if flat:
        x, y = [Lanes(v.refs, (len(v.refs),), v.dtype) for v in (x, y)]
    first, second, out = subscripts(x, y)
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise NotLowered
    sizes: dict[str, int] = {}
    for letters, v in ((first, x), (second, y)):
        for c, n in zip(letters, v.shape, strict=True):
            sizes[c] = max(sizes.get(c, 1), n) if 0 not in (n, sizes.get(c, 1)) else 0
    inner = [c for c in dict.fromkeys(first + second) if c not in out]
    order = [*out, *inner]
    where = [spread(letters, v, order, sizes) for letters, v in ((first, x), (second, y))]
    n, m = math.prod([sizes[c] for c in out]), math.prod([sizes[c] for c in inner])
    if n * m > MOST or n > lanes.WIDEST:
        raise NotLowered
    if n == 0 or m == 0:
        return Lanes([(constant(kind, 0), -1)] * n, s.shape, s.dtype)
    p, q = [g.reshape(n, m) for g in where]
    if n < lanes.SCALAR <= m:
        made = []
        for i in range(n):
            blocks = []
            for k in range(0, m, lanes.WIDEST):
                u = packed(b, [x.refs[j] for j in p[i, k : k + lanes.WIDEST].tolist()])
                v = packed(b, [y.refs[j] for j in q[i, k : k + lanes.WIDEST].tolist()])
                blocks.append(folded(b, multiply(b, u, v), add))
            made.append((tree(b, blocks, add), -1))
        return Lanes(made, s.shape, s.dtype)
    if n < lanes.SCALAR:
        rows = [(sole(b, x, p[i]), sole(b, y, q[i])) for i in range(n)]
        return Lanes([(dot(b, us, vs), -1) for us, vs in rows], s.shape, s.dtype)
    us = [packed(b, [x.refs[j] for j in p[:, k].tolist()]) for k in range(m)]
    vs = [packed(b, [y.refs[j] for j in q[:, k].tolist()]) for k in range(m)]
    return Lanes(entries_of(dot(b, us, vs)), s.shape, s.dtype)


def sole(b, held: Lanes, positions: np.ndarray) -> list:
    """Return the entries at some positions as numbers."""
    return [single(b, held.refs[j]) for j in positions.tolist()]


def dot(b, xs: list, ys: list) -> Value:
    """Return the sum of products, from the first to the last."""
    total = multiply(b, xs[0], ys[0])
    fused = scalars.is_float(total) and target.host().fma
    for x, y in zip(xs[1:], ys[1:], strict=True):
        total = b.intrinsic("fma", x, y, total) if fused else add(b, total, multiply(b, x, y))
    return total


def spread(letters: str, v: Lanes, order: list, sizes: dict) -> np.ndarray:
    """Return an operand's flat positions over all indices in order."""
    grid = v.positions.transpose([letters.index(c) for c in order if c in letters])
    shape = [grid.shape[[d for d in order if d in letters].index(c)] if c in letters else 1 for c in order]
    return np.broadcast_to(grid.reshape(shape), [sizes[c] for c in order])


def tensordot(w, e):
    """Write np.tensordot."""
    axes = e.params.get("axes", 2)

    def subscripts(x, y):
        n, m = len(x.shape), len(y.shape)
        pair = (range(n - axes, n), range(axes)) if is_integer(axes) else axes
        first, second = [[p] if is_integer(p) else list(p) for p in pair]
        a, c = list(LETTERS[:n]), list(LETTERS[20 : 20 + m])
        for i, j in zip(first, second, strict=True):
            c[j % m] = a[i % n]
        out = [d for d in a if d not in c] + [d for d in c if d not in a]
        return "".join(a), "".join(c), "".join(out)

    if e.params.keys() - {"axes"}:
        raise NotLowered
    return product(w, e, subscripts, known=("axes",))


def cross(w, e):
    """Write a product of 3-vectors."""
    static(e.params)
    if e.params or len(e.inputs) != 2:
        raise NotLowered
    kind = type_of(e.output.dtype)
    parts = []
    for v in e.inputs:
        held = cast(w, w.lanes(v), kind)
        parts.append([held_as(w, held.taken(held.positions[..., which])) for which in ([1, 2, 0], [2, 0, 1])])
    (a1, a2), (b1, b2) = parts

    def how(b, p, q, r, s):
        return b.binary("fsub", b.binary("fmul", p, q), b.binary("fmul", r, s))

    return w.mapped(how, [a1, b2, a2, b1], [kind] * 4, e.output.shape, e.output.dtype)


LETTERS = string.ascii_letters


def matmul(w, e):
    """Write np.matmul."""

    def subscripts(x, y):
        batch = max(len(x.shape), len(y.shape), 2) - 2
        front = LETTERS[3 : 3 + batch]
        if not x.shape or not y.shape:
            raise NotLowered
        a = "b" if len(x.shape) == 1 else f"{front[batch - len(x.shape) + 2 :]}ab"
        c = "b" if len(y.shape) == 1 else f"{front[batch - len(y.shape) + 2 :]}bc"
        return a, c, f"{front}{'a' if len(x.shape) > 1 else ''}{'c' if len(y.shape) > 1 else ''}"

    return product(w, e, subscripts)


def np_dot(w, e):
    """Write np.dot: the last axis of x with the last but one of y."""

    def subscripts(x, y):
        if not x.shape or not y.shape:
            return LETTERS[: len(x.shape)], LETTERS[: len(y.shape)], LETTERS[: max(len(x.shape), len(y.shape))]
        a = LETTERS[1 : len(x.shape)]
        c = LETTERS[20 : 20 + len(y.shape) - 1]
        return a + "a", (c[:-1] + "a" + c[-1:] if c else "a"), a + c

    return product(w, e, subscripts)


def inner(w, e):
    """Write np.inner: the last axes of both."""

    def subscripts(x, y):
        if not x.shape or not y.shape:
            raise NotLowered
        a, c = LETTERS[1 : len(x.shape)], LETTERS[20 : 20 + len(y.shape) - 1]
        return a + "a", c + "a", a + c

    return product(w, e, subscripts)


def outer(w, e):
    """Write np.outer."""

    return product(w, e, lambda x, y: ("a", "b", "ab"), flat=True)


def einsum(w, e):
    """Write `einsum2`."""
    if e.params.keys() != {"subscripts"}:
        raise NotLowered
    operands, out = e.params["subscripts"].replace(" ", "").split("->")
    first, second = operands.split(",")
    return product(w, e, lambda x, y: (first, second, out))


REDUCTIONS = {
    np.sum: summed, np.mean: averaged, np.prod: multiplied, np.max: extreme(maximum), np.min: extreme(minimum),
    np.any: asked("or", False), np.all: asked("and", True), sum_to: summed_to, length: root_of_squares,
    tip: root_of_squares, np.argmax: first_of("ogt", "sgt"), np.argmin: first_of("olt", "slt"),
    np.count_nonzero: counted, np.cumsum: running(add), np.cumprod: running(multiply),
    np.matmul: matmul, np.dot: np_dot, np.inner: inner, np.outer: outer, einsum2: einsum, np.tensordot: tensordot,
    cross3: cross,
    variance: lambda w, e: squares_of_deviations(w, e, False),
    deviation_of: lambda w, e: squares_of_deviations(w, e, True),
}  # fmt: skip
OF_SCIPY = {
    "soft_max": soft_max,
    "log_of_sum": log_of_sum,
    "log_soft_max": log_soft_max,
}  # found by name: see `special`


def reduction_of(fun):
    """Return how a reduction or a product is written; None if `fun` is none."""
    how = REDUCTIONS.get(fun)
    if how is None and getattr(fun, "__module__", None) == "chainrule.rules.scipy_sums":
        how = OF_SCIPY.get(fun.__name__)
    return how
