"""What a function and its gradient cost: operations, bytes and time for each of the user's lines.

The program of value and gradient is run call by call. Operations are additions and multiplications, and calls of
functions such as ``exp``, which count as one for each entry; calls that only move numbers count none. Bytes are those
of all operands read and results written, as if nothing stayed in the cache. Times are the best of several runs, those
of the calls alone: tracing and bookkeeping are not in them.
"""

import linecache
import time
from dataclasses import dataclass

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.engine.spec import ones_of, shape_of
from chainrule.explain import notation
from chainrule.program.flat import Noting, Pulled
from chainrule.program.ir import Equation, applied, replaced
from chainrule.program.record import run_recorded
from chainrule.transforms import vjp


@dataclass
class LineCost:
    """The cost of one line of the user's: operations, bytes and seconds, each for the forward and backward pass."""

    line: int | None
    source: str
    operations: list
    bytes: list
    seconds: list
    calls: list


@dataclass
class Cost:
    """The cost of a function and its gradient, by line. `total` has the sums; it prints as a table."""

    rows: list
    total: LineCost

    def __str__(self) -> str:
        head = ("line", "operations", "backward", "bytes", "backward", "time", "backward", "source")
        rows = [head, *[self._cells(r) for r in [*self.rows, self.total]]]
        widths = [max(len(r[k]) for r in rows) for k in range(len(head))]
        lines = [
            "   ".join([c.rjust(w) for c, w in zip(r[:-1], widths, strict=False)] + [r[-1][:50]]).rstrip() for r in rows
        ]
        rule = "   ".join("─" * w for w in widths[:-1]) + "   " + "─" * 6
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])

    __repr__ = __str__

    @staticmethod
    def _cells(r):
        return (
            "" if r.line is None else str(r.line),
            *[f"{n:,}" for n in r.operations],
            *[f"{n:,}" for n in r.bytes],
            *[duration(t) for t in r.seconds],
            r.source,
        )


def duration(t):
    """Write a time."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if t >= size:
            return f"{t / size:.3g} {unit}"
    return f"{t / 1e-6:.3g} µs"


def cost(explanation, repeat: int = 3) -> Cost:
    """Return the cost of an explanation's function and of its gradient (of the sum of its results)."""
    run = explanation.run

    f, points = run.arguments.closed(run.f)

    def both(*xs):
        y, pullback = vjp(f, *xs)
        return y, pullback(tree.tree_map(lambda v: ones_of(value(v)), y))

    with np.errstate(all="ignore"):
        program = run_recorded(both, points, {}, kind=Noting, through=True).program
    best = None
    for _ in range(repeat):
        measured = measure(program, points)
        best = (
            measured
            if best is None
            else [(e, a, min(t, u)) for (e, a, t), (_, _, u) in zip(best, measured, strict=True)]
        )
    rows, total = {}, LineCost(None, "in all", [0, 0], [0, 0], [0.0, 0.0], [0, 0])
    for e, (operations, moved), seconds in best or []:
        key = None if e.place is None else (e.place.file, e.place.line)
        if key not in rows:
            source = "" if key is None else linecache.getline(*key).strip()
            rows[key] = LineCost(key and key[1], source, [0, 0], [0, 0], [0.0, 0.0], [0, 0])
        side = int(e.place.__class__ is Pulled)
        for row in (rows[key], total):
            row.operations[side] += operations
            row.bytes[side] += moved
            row.seconds[side] += seconds
            row.calls[side] += 1
    return Cost([rows[k] for k in sorted(rows, key=lambda k: k or ("", 0))], total)


def measure(program, points):
    """Run a program call by call: (equation, (operations, bytes), seconds) of each."""
    values = dict(program.constants)
    values.update(zip(program.inputs, points, strict=True))
    made = []
    with np.errstate(all="ignore"):
        for e in program.equations:
            if e.__class__ is not Equation:
                continue
            xs, params = tuple([replaced(x, values) for x in e.inputs]), replaced(e.params, values)
            begun = time.perf_counter()
            y = applied(e.rule, xs, params)
            seconds = time.perf_counter() - begun
            outputs = y if isinstance(e.output, tuple) else (y,)
            for s, v in zip(e.output if isinstance(e.output, tuple) else (e.output,), outputs, strict=True):
                if s is not None:
                    values[s] = v
            moved = sum(nbytes(v) for v in (*flattened(xs), *outputs))
            made.append((e, (operations(e, xs, outputs), moved), seconds))
    return made


def flattened(xs):
    """Iterate over operands, and those in lists of them."""
    for x in xs:
        if isinstance(x, tuple | list):
            yield from flattened(x)
        else:
            yield x


def nbytes(x):
    """Return the bytes of an array; numbers count as eight."""
    return getattr(x, "nbytes", 8 if isinstance(x, int | float | complex) else 0)


REDUCED = {"sum", "prod", "mean", "max", "min", "amax", "amin", "cumsum", "cumprod", "sum_to", "var", "std"}
CUBIC = {
    "inv": 2,
    "solve": 1,
    "det": 1,
    "slogdet": 1,
    "cholesky": 1,
    "qr": 2,
    "eigh": 9,
    "eigvalsh": 4,
    "svd": 20,
    "eig": 25,
}


def operations(e, xs, outputs):
    """Estimate the arithmetic operations of a call from the shapes of its operands and results."""
    name = notation.tail(e.rule.name)
    size = sum(np.size(y) for y in outputs)
    shapes = [shape_of(x) for x in flattened(xs)]
    if name in ("matmul", "dot", "vdot", "inner") and len(shapes) == 2 and all(shapes):
        common = shapes[0][-1]
        return 2 * size * common - size if common else 0
    if name == "einsum":
        return einsum_operations(xs, e.params, size)
    if name == "tensordot":
        return 2 * int(np.sqrt(np.prod(shapes[0], dtype=float) * np.prod(shapes[1], dtype=float) * size))
    if name in REDUCED:
        return max([np.size(x) for x in flattened(xs)], default=0)
    if name in CUBIC and shapes and len(shapes[0]) >= 2:
        n = shapes[0][-1]
        return CUBIC[name] * n**3 * int(np.prod(shapes[0][:-2]))
    if e.rule.kind in ("gather",) or name in (
        "getitem",
        "scatter",
        "put",
        "spread_to",
        "cast_to",
        "reshape",
        "positive",
    ):
        return 0
    return size


def einsum_operations(xs, params, size):
    """Return twice the number of products of an einsum without a better order: of all labels' lengths."""
    labels = {}
    subscripts = next((p for p in params.values() if isinstance(p, str)), None)
    arrays = [x for x in flattened(xs) if shape_of(x)]
    if subscripts is None or "." in subscripts:
        return 2 * size
    for term, x in zip(subscripts.replace(" ", "").split("->")[0].split(","), arrays, strict=False):
        labels.update(zip(term, np.shape(x), strict=False))
    return 2 * int(np.prod(list(labels.values()), dtype=float))
