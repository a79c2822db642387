"""How our own functions behind `chainrule.scipy` run on a batch. Loaded with it only: SciPy is no requirement."""

import numpy as np

from chainrule.engine.batched import BATCHING, lined_up, looped, ranked, spread
from chainrule.engine.spec import shape_of
from chainrule.rules import scipy_linalg, scipy_sums
from chainrule.rules.batching import along, as_it_is


def triangle_solved(rule, n, xs, flags, params):
    """Solve triangular systems: a right-hand side that is a vector gets a second axis."""
    a, b = [x if m else spread(x, n) for x, m in zip(xs, flags, strict=True)]
    if len(b.shape) == 2:
        return rule.apply((a, ranked(b[..., None], len(a.shape) - 1)), params)[..., 0]
    rank = max(len(a.shape), len(b.shape)) - 1
    return rule.apply((ranked(a, rank), ranked(b, rank)), params)


def of_stacks(rule, n, xs, flags, params):
    """Run SciPy's function of a matrix, if it takes stacks: not all do, in all versions."""
    (x,) = xs
    shape = shape_of(x)
    try:
        rule.fun.plain(np.broadcast_to(np.eye(shape[-1]), (2, *shape[-2:])))
    except ValueError:
        return looped(rule, n, xs, flags, params)
    return rule.apply((x,), params)


BATCHING.update(
    {
        scipy_linalg.solve_triangle: triangle_solved,
        scipy_linalg.solve_sylvester: lined_up,
        scipy_linalg.sqrtm: as_it_is,
        scipy_sums.log_of_sum: along(None),
        scipy_sums.soft_max: along(None),
        scipy_sums.log_soft_max: along(None),
    }
)
for _name in ("expm", "logm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm"):
    BATCHING[getattr(scipy_linalg, _name)] = of_stacks
