"""Whole matrices of derivatives: jacobian and hessian; and the product with a Hessian, which needs none."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.engine.spec import shape_of, spec_of, zeros_of
from chainrule.errors import HolomorphicError
from chainrule.transforms.at_once import all_at_once, some_units, units
from chainrule.transforms.common import Chosen, name_of, need_function, points
from chainrule.transforms.forward import jvp
from chainrule.transforms.reverse import Tape, grad

MODES = ("auto", "forward", "reverse")
LAYOUTS = ("numerator", "denominator")


@dataclass(frozen=True)
class Choice:
    """Which mode a Jacobian is computed in, and why."""

    mode: str
    inputs: int
    outputs: int
    reason: str

    def __str__(self):
        return f"{self.mode}: {self.reason}"


def choose_mode(mode, inputs, outputs):
    """Choose the mode by the sizes: forward mode gives a column for each input, reverse mode a row for each output.

    A column costs what a row does, as measured by benchmarks/modes.py; a single input needs no recorded run.
    """
    if mode != "auto":
        return Choice(mode, inputs, outputs, f"mode={mode!r} was asked for")
    columns = f"{inputs} column{'s' * (inputs != 1)} (one for each input)"
    rows = f"{outputs} row{'s' * (outputs != 1)} (one for each output)"
    if inputs == 1 or inputs < outputs:
        cost = "costs" if inputs == 1 else "cost"
        less = "less than" if inputs < outputs else "no more than"
        return Choice("forward", inputs, outputs, f"{columns} {cost} {less} {rows}")
    return Choice("reverse", inputs, outputs, f"{rows} {'costs' if outputs == 1 else 'cost'} no more than {columns}")


def jacobian(
    f: Callable,
    argnums: int | tuple[int, ...] | None = None,
    argnames: str | tuple[str, ...] | None = None,
    mode: str = "auto",
    layout: str = "numerator",
    holomorphic: bool = False,
    chunk: int | None = None,
) -> Callable:
    """Return a function that evaluates all partial derivatives of `f`.

    Parameters
    ----------
    f : callable
        Takes arrays, or containers of arrays, and returns an array or a container of arrays.
    argnums, argnames
        Which arguments to differentiate in, as for `grad`.
    mode : {"auto", "forward", "reverse"}
        Forward mode gives a column for each input, reverse mode a row for each output. A column costs about what a row
        does, so "auto" takes the smaller number; ask ``jacobian(f).choice(*args)`` which mode that is, and why.
    layout : {"numerator", "denominator"}
        ``J[i, j] = dy_i / dx_j``, of shape ``y.shape + x.shape``; or its transpose, of shape ``x.shape + y.shape``.
    holomorphic : bool
        For complex inputs of complex outputs: the complex derivatives, right if `f` is holomorphic. A real output of
        complex inputs gives ``dy/dRe(x) - i dy/dIm(x)``, as `grad` does, in reverse mode; a complex output of real
        inputs its complex derivatives, in either mode.
    chunk : int, optional
        How many rows (or columns) go through the function at once. All of them take the memory of that many runs; by
        default as many as keep each array below some 32 MB.

    Returns
    -------
    callable
        Takes the arguments of `f`. For containers the result is the container of the output, each value replaced by the
        container of the argument (the other way round in the denominator layout).

    Raises
    ------
    HolomorphicError
        If an output is complex and `holomorphic` is not set, for a complex input.

    Notes
    -----
    All columns, or rows, go through `f` together. So up to some 30 of them take hardly more time than one, and for
    small functions the mode matters little; for larger ones the cost is proportional to their number. How a column
    compares with a row depends on the function: between 0.5 (reads of single entries) and 1.4 (plain arithmetic).

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> J = cr.jacobian(lambda x: np.stack([x[0] * x[1], x[0], x[1]]))
    >>> J(np.array([2.0, 5.0]))
    array([[5., 2.],
           [1., 0.],
           [0., 1.]])
    >>> print(J.choice(np.array([2.0, 5.0])))
    forward: 2 columns (one for each input) cost less than 3 rows (one for each output)
    """
    need_function(f, "jacobian(f)(x)")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
    if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f"chunk must be a positive int, not {chunk!r}")
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, not {layout!r}")
    return evaluator(f, Chosen(f, argnums, argnames), mode, layout, holomorphic, chunk)


def evaluator(f, chosen, mode, layout, holomorphic, chunk, square=False):
    """Return the function that evaluates a Jacobian; `square` tells that the outputs are like the inputs."""

    def prepare(args, kwargs):
        record = Tape(f, chosen, args, kwargs)
        ins = [spec_of(x) for values in record.points for x in values]
        outs = [spec_of(y) for y in record.outputs]
        how = choose_mode(mode, sum(s.size for s in ins), sum(s.size for s in outs))
        complex_in = any(s.kind == "c" for s in ins)
        if complex_in and any(s.kind == "c" for s in outs) and not holomorphic:
            raise HolomorphicError(name_of(f), "hessian" if square else "jacobian")
        if complex_in and not all(s.kind == "c" for s in outs) and how.mode == "forward":
            if mode == "forward":
                raise HolomorphicError(name_of(f), "hessian" if square else "jacobian")
            how = Choice(
                "reverse",
                how.inputs,
                how.outputs,
                "a real output of complex inputs has a gradient in reverse mode only",
            )
        return record, ins, outs, how

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def evaluate(*args, **kwargs):
        if mode != "reverse":  # there may be no need of a recorded run to learn the sizes
            record = Arguments(f, chosen, args, kwargs)
            ins = [spec_of(x) for values in record.points for x in values]
            size = sum(s.size for s in ins)
            if (size and mode == "forward") or (size == 1 and not any(s.kind == "c" for s in ins)):
                blocks, outs = by_columns(f, args, kwargs, record, ins, chunk, ins if square else None)
                if any(s.kind == "c" for s in ins) and not (holomorphic and all(s.kind == "c" for s in outs)):
                    raise HolomorphicError(name_of(f), "hessian" if square else "jacobian")
                return assemble(record, blocks, outs, ins, layout)
        record, ins, outs, how = prepare(args, kwargs)
        if how.mode == "reverse":
            blocks = by_rows(record, ins, outs, chunk)
        else:
            blocks, outs = by_columns(f, args, kwargs, record, ins, chunk, outs)
        return assemble(record, blocks, outs, ins, layout)

    evaluate.choice = lambda *args, **kwargs: prepare(args, kwargs)[3]
    return evaluate


SMALL = 1 << 15  # entries of an array for all runs, up to which a call takes longer than its arithmetic
FIRST = 32  # how many columns go together before the size of the outputs is known


def runs_at_once(specs):
    """Return how many runs go together, so that none of the known arrays exceeds some 32 MB for all of them."""
    return max(1, (1 << 22) // max([1, *[s.size for s in specs]]))


def by_rows(record, ins, outs, chunk=None):
    """Return blocks[o][i]: one row for each entry of output o. Reverse passes over one tape, many rows in each."""
    step = runs_at_once([*ins, *outs]) if chunk is None else chunk
    blocks = []
    for o, spec in enumerate(outs):
        rows = [[] for _ in ins]
        for start in range(0, spec.size, step):
            basis = units(spec, start, min(start + step, spec.size))

            def pull(unit, o=o):
                bars = record.pull([unit if k == o else None for k in range(len(outs))])
                return [b for bs in bars for b in bs]

            bars = all_at_once(pull, [basis], record.f, [start])
            if spec.kind == "c" and any(s.kind != "c" for s in ins):  # a real input receives the real part of a row
                imaginary = all_at_once(pull, [-1j * basis], record.f, [start])
                bars = [b if s.kind == "c" else b + 1j * c for b, c, s in zip(bars, imaginary, ins, strict=True)]
            for row, bar in zip(rows, bars, strict=True):
                row.append(bar)
        blocks.append([joined(r, spec.shape, s, spec) for r, s in zip(rows, ins, strict=True)])
    return blocks


class Arguments:
    """The points of the chosen arguments of one call, and the container of its outputs as soon as that is known."""

    __slots__ = ("chosen", "out_structure", "points", "structures")

    def __init__(self, f, chosen, args, kwargs):
        self.chosen = chosen
        pairs = []
        for place in chosen.places(f, args, kwargs):
            x = kwargs[place] if place.__class__ is str else args[place]
            pairs.append(points(x, f"argument {place!r} of {name_of(f)}"))
        self.points = [p for p, _ in pairs]
        self.structures = [s for _, s in pairs]

    packed = Tape.packed


def by_columns(f, args, kwargs, record, ins, chunk=None, outs=None):
    """Return blocks[o][i] and the outputs: one column for each entry of input i, moved last, many in each forward pass.

    What is not known of the outputs before is learned from the first pass.
    """
    places = record.chosen.places(f, list(args), kwargs)

    def of_chosen(*values):
        full, named = list(args), dict(kwargs)
        for place, v in zip(places, values, strict=True):
            (named if place.__class__ is str else full)[place] = v
        return f(*full, **named)

    primals = tuple([tree.unflatten(s, v) for s, v in zip(record.structures, record.points, strict=True)])
    found, columns = [], None

    def push(*units):
        flat = [zeros_of(s) if unit is None else unit for unit, s in zip(units, ins, strict=True)]
        groups = split(flat, record.points)
        tangents = [tree.unflatten(s, vs) for s, vs in zip(record.structures, groups, strict=True)]
        y, ydot = jvp(of_chosen, primals, tuple(tangents))
        found.append(y)
        return [ydot] if isinstance(ydot, Boxed) else tree.flatten(ydot)[0]

    offsets = list(itertools.accumulate([s.size for s in ins], initial=0))
    total = offsets[-1]
    together = total * max([1, *[s.size for s in (*ins, *(outs or ()))]]) <= SMALL  # the columns of several inputs
    start = 0
    while start < total:
        if chunk is not None:
            count = chunk
        elif outs is None:  # the size of the outputs is not known yet
            count = FIRST
        else:
            count = runs_at_once([*ins, *outs])
        stop = min(start + count, total if together else next(k for k in offsets if k > start))
        parts = [some_units(s, start - at, stop - at) for s, at in zip(ins, offsets, strict=False)]
        dots = all_at_once(push, [basis for basis, _ in parts], f, [first for _, first in parts])
        if columns is None:
            y = found[0]
            leaves, record.out_structure = ([y], None) if isinstance(y, Boxed) else tree.flatten(y)
            outs = [spec_of(v) for v in leaves]
            columns = [[[] for _ in ins] for _ in outs]
        for column, part in zip(columns, dots, strict=True):
            for i, (basis, _) in enumerate(parts):
                if basis is not None:
                    low, high = max(offsets[i], start), min(offsets[i + 1], stop)
                    column[i].append(part if high - low == stop - start else part[low - start : high - start])
        start = stop
    if columns is None:  # there are no inputs
        columns = [[[] for _ in ins] for _ in outs]
    blocks = []
    for o, spec in enumerate(outs):
        row = []
        for i, s in enumerate(ins):
            block = joined(columns[o][i], s.shape, spec, spec)
            row.append(move_front_to_back(block, len(s.shape)))
        blocks.append(row)
    return blocks, outs


def joined(parts, lead, each, out):
    """Join chunks of arrays like `each` into one array of shape ``lead + each.shape``."""
    if not parts:
        return np.zeros(lead + each.shape, out.dtype)
    block = parts[0] if len(parts) == 1 else np.concatenate(parts)
    block = block[0] if lead == () else block.reshape(lead + each.shape)
    return block.copy() if block.__class__ is np.ndarray and not block.flags.writeable else block


def move_front_to_back(x, count):
    """Move the first `count` axes behind the others."""
    n = len(shape_of(x))
    if count == 0 or count == n:
        return x
    return np.transpose(x, (*range(count, n), *range(count)))


def assemble(record, blocks, outs, ins, layout):
    """Put the blocks into containers: output, then argument (numerator layout), or the other way round."""
    if layout == "numerator":
        by_output = []
        for row in blocks:
            by_output.append(record.packed(split(row, record.points)))
        return tree.unflatten(record.out_structure, by_output)
    turned = [[move_front_to_back(blocks[o][i], len(outs[o].shape)) for o in range(len(outs))] for i in range(len(ins))]
    return record.packed(split([tree.unflatten(record.out_structure, row) for row in turned], record.points))


def split(flat, groups):
    """Cut a flat list into lists as long as the groups."""
    out, at = [], 0
    for g in groups:
        out.append(flat[at : at + len(g)])
        at += len(g)
    return out


def hessian(
    f: Callable,
    argnums: int | tuple[int, ...] | None = None,
    argnames: str | tuple[str, ...] | None = None,
    holomorphic: bool = False,
    chunk: int | None = None,
) -> Callable:
    """Return a function that evaluates all second derivatives of a scalar function: forward over reverse mode.

    The result has the shape ``x.shape + x.shape``; for containers, or several arguments, it is the container of blocks.
    The cost is that of one gradient for each entry of the argument; `chunk` of them are computed at once, by one run on
    larger arrays (see `jacobian`).

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    need_function(f, "hessian(f)(x)")
    g = grad(f, argnums, argnames, holomorphic=holomorphic)
    if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f"chunk must be a positive int, not {chunk!r}")
    return evaluator(g, Chosen(g, argnums, argnames), "forward", "numerator", holomorphic, chunk, square=True)


def hvp(f: Callable, x: Any, v: Any) -> Any:
    """Multiply the Hessian of `f` at `x` by `v`, without forming the Hessian.

    The Hessian is symmetric, so its product with ``v`` is the directional derivative, along ``v``, of the gradient:
    forward mode over reverse mode. The cost is a small multiple of that of ``f``, whatever the size of ``x``.

    Parameters
    ----------
    f : callable
        A function of one argument that returns a scalar.
    x, v : array_like, shape (...), or containers of these
        Where to evaluate, and the vector; any shape, the same for both.

    Returns
    -------
    ndarray, shape (...)
        Entry ``i`` is ``sum_j d2f/dx_i dx_j * v_j``.

    Raises
    ------
    NotScalarError
        If ``f`` returns an array with axes.
    ShapeError
        If ``v`` does not have the shape of ``x``.

    References
    ----------
    .. [1] B. A. Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6(1), 1994.

    Examples
    --------
    >>> import numpy as np
    >>> import chainrule as cr
    >>> f = lambda x: x[0] ** 2 * x[1]
    >>> cr.hvp(f, np.array([3.0, 5.0]), np.array([1.0, 0.0]))
    array([10.,  6.])
    """
    need_function(f, "hvp(f, x, v)")
    return jvp(grad(f), (x,), (v,))[1]


__all__ = ["Choice", "choose_mode", "hessian", "hvp", "jacobian"]
