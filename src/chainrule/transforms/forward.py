"""Forward mode for functions: jvp and linearize."""

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine import splitting
from chainrule.engine.boxed import Boxed
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.spec import fit, spec_of, zeros_of
from chainrule.engine.tape import leaf, pull_back
from chainrule.engine.variable import Variable, fresh
from chainrule.errors import ShapeError
from chainrule.transforms.common import (
    Chosen,
    name_of,
    need_function,
    opened_aux,
    output_point,
    own,
    points,
    run,
    split_aux,
)
from chainrule.transforms.reverse import _JOIN, Node, Tape, seeds_like


def jvp(f: Callable, primals: tuple, tangents: tuple, has_aux: bool = False) -> tuple:
    """Evaluate `f` and its derivative along one direction: forward mode.

    Parameters
    ----------
    f : callable
        Takes arrays, or containers of arrays, and returns an array or a container of arrays.
    primals, tangents : tuple
        Where to evaluate, and the direction: one entry for each argument, in the same containers and shapes.
    has_aux : bool
        `f` returns ``(y, aux)``; `aux` is passed out as a third result.

    Returns
    -------
    y, ydot
        ``f(*primals)`` and the product of the Jacobian with the direction, of the same structure and shapes.

    Raises
    ------
    ShapeError
        If the tangents do not fit the primals.

    Notes
    -----
    One run of `f` that carries tangents along: about twice its cost. No memory is kept.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.jvp(np.sin, (0.0,), (1.0,))
    (np.float64(0.0), np.float64(1.0))
    """
    need_function(f, "jvp(f, (x,), (xdot,))")
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "jvp(f, primals, tangents): primals and tangents must be tuples, one entry for each argument of f"
        )
    if len(primals) != len(tangents):
        raise ShapeError(
            f"{len(primals)} primals, but {len(tangents)} tangents were given.", "give one for each argument."
        )
    before = splitting.events
    results = pushed(f, primals, tangents, has_aux)
    if splitting.events == before or any(isinstance(v, Boxed) for v in tree.flatten([*results[:2], tangents])[0]):
        return results  # (of an inner transform: the outermost one sees to it)
    again = pushed_apart(f, primals, tangents, has_aux, *results[:2])
    return results if again is None else (*again, *results[2:])


def pushed_apart(f, primals, tangents, has_aux, expected, first):
    """Return value and tangent by a second run with coinciding values set apart; None if that is no better.

    A rule met a quotient 0 / 0 that may have a limit: see `engine.splitting`.
    """
    seeds = tree.tree_map(lambda t: splitting.seed(np.asarray(t)[()]), list(tangents))
    try:
        with splitting.apart():
            y, ydot = pushed(f, primals, seeds, has_aux)[:2]
    except Exception:  # of a rule that does not take values set apart, or an iterator used up: the first run stands
        return None
    ys, (values, structure) = tree.flatten(y)[0], tree.flatten(expected)
    if not splitting.agree(ys, values):
        return None
    ydot = tree.tree_map(splitting.over_eps, ydot)
    if not splitting.better(tree.flatten(ydot)[0], tree.flatten(first)[0]):
        return None
    return tree.unflatten(structure, [splitting.mended(a, b) for a, b in zip(ys, values, strict=True)]), ydot


def pushed(f, primals, tangents, has_aux):
    """Return what `jvp` does, by one run."""
    with _level.running(f) as level:
        args, given = [], []  # the arrays of the caller, which no result may share
        for k, (x, t) in enumerate(zip(primals, tangents, strict=True)):
            values, structure = points(x, f"argument {k} of {name_of(f)}")
            dots = seeds_like(t, [spec_of(v) for v in values], structure, "tangent")
            dots = [d.alias() if isinstance(d, Boxed) else d for d in dots]
            given += [*values, *dots]
            args.append(tree.unflatten(structure, [make_dual(v, d, level) for v, d in zip(values, dots, strict=True)]))
        with _level.quiet():
            out = run(f, args, {})
        aux = None
        if has_aux:
            out, aux = split_aux(out, f)
            aux = opened_aux(aux, level)
        if isinstance(out, Boxed) or out is None:
            leaves, structure = [out], None
        else:
            leaves, structure = tree.flatten(out)
        ys, ydots = [], []
        handed = {id(v) for v in given}
        for y in leaves:
            y = output_point(y, f)
            if own(y, level, f, Dual):
                ys.append(unshared(y.data, handed))
                ydots.append(unshared(y.aux, handed))
            else:
                ys.append(y)
                ydots.append(zeros_of(spec_of(y)))
    y, ydot = tree.unflatten(structure, ys), tree.unflatten(structure, ydots)
    return (y, ydot, aux) if has_aux else (y, ydot)


def unshared(x, handed):
    """Return a result that may be written to: under a name, or in memory, of its own."""
    return x.alias() if isinstance(x, Boxed) else fresh(x, handed)


def linearize(f: Callable, *primals: Any) -> tuple:
    """Evaluate `f` and return its value and its derivative as a linear function, without running `f` again.

    Parameters
    ----------
    f : callable
        Takes arrays, or containers of arrays, and returns an array or a container of arrays.
    *primals
        Where to evaluate.

    Returns
    -------
    y
        ``f(*primals)``.
    pushforward : callable
        ``pushforward(xdot0, xdot1, ...) -> ydot``, the product of the Jacobian with a direction. Each call costs about
        as much as one pullback; the residuals are kept.

    Notes
    -----
    The pullback is linear in its cotangent; its own pullback is the pushforward. It is recorded once.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> y, pushforward = cr.linearize(lambda x: x**2, np.array([1.0, 3.0]))
    >>> pushforward(np.array([1.0, 0.0])), pushforward(np.array([0.0, 1.0]))
    (array([2., 0.]), array([0., 6.]))
    """
    need_function(f, "linearize(f, x)")
    record = Tape(f, Chosen(f, tuple(range(len(primals))), None), primals, {}, keep=True)
    specs = [[spec_of(x) for x in values] for values in record.points]
    out_specs = [spec_of(y) for y in record.outputs]
    with _level.running(f) as level:
        nodes = [leaf() for _ in out_specs]
        seeds = [Variable(zeros_of(s), n, level) for s, n in zip(out_specs, nodes, strict=True)]
        bars = record.pull(seeds)
    flat = [b for bs in bars for b in bs]
    roots = [b.aux if isinstance(b, Variable) and b.level == level else None for b in flat]

    def pushforward(*tangents):
        if len(tangents) != len(primals):
            raise ShapeError(
                f"{len(primals)} tangents are needed, {len(tangents)} were given.", "give one for each argument."
            )
        dots = []
        for t, s, structure in zip(tangents, specs, record.structures, strict=True):
            dots.extend(seeds_like(t, s, structure, "tangent"))
        pairs = [(r, d) for r, d in zip(roots, dots, strict=True) if r is not None]
        found = {}
        if pairs:
            join = Node(tuple([r for r, _ in pairs]), lambda ybar, saved: ybar, None, _JOIN)
            found = pull_back(join, [d for _, d in pairs])
        handed = {id(d) for d in dots}
        outs = [
            fit(fresh(found[n], handed), s) if n in found else zeros_of(s)
            for n, s in zip(nodes, out_specs, strict=True)
        ]
        return tree.unflatten(record.out_structure, outs)

    return record.value(), pushforward
