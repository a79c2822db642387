"""How functions of order run on a batch: quantiles, searching, sorting by several keys, interpolation.

The entries are of the form told in `chainrule.rules.batching`.
"""

import numpy as np

from chainrule.engine.batched import BATCHING, looped, spread
from chainrule.engine.boxed import Boxed, all_values
from chainrule.engine.spec import shape_of
from chainrule.rules import statistics
from chainrule.rules.batching import along, as_it_is, checked
from chainrule.rules.interpolation import shares, through_values

# -- quantiles ---------------------------------------------------------------------------------------------------


def of_quantiles(rule, n, xs, flags, params):
    """Take quantiles of each run: those of several fractions lie along axes in front."""
    y = along(None)(rule, n, xs, flags, params)
    front = np.ndim(params.get("q", 0.5))
    return np.moveaxis(y, front, 0) if front else y


def neighbours_of_runs(rule, n, xs, flags, params):
    """Return the positions in each run of the entries beside its quantiles."""
    (x,) = xs
    low, high, part = along(None)(rule, n, xs, flags, params)
    front, size = np.ndim(params.get("q", 0.5)), int(np.prod(x.shape[1:]))
    low, high, part = [np.moveaxis(v, front, 0) if front else v for v in (low, high, part)]
    starts = (np.arange(n) * size).reshape((n,) + (1,) * (len(low.shape) - 1))
    return low - starts, high - starts, part


BATCHING[statistics.quantile_of] = of_quantiles
BATCHING[statistics.neighbours] = neighbours_of_runs

# -- searching ---------------------------------------------------------------------------------------------------


def searched(rule, n, xs, flags, params):
    """Search in the sorted array of each run, or in one for all runs."""
    params = {**dict(zip(("side", "sorter"), xs[2:], strict=False)), **params}
    a, v = xs[:2]
    mine, theirs = flags[:2]
    side, sorter = params.get("side", "left"), params.get("sorter")
    if not mine and not isinstance(sorter, Boxed):
        return np.searchsorted(a, v, side=side, sorter=sorter)
    if isinstance(sorter, Boxed) or side not in ("left", "right") or len(a.shape) != 2:
        return looped(rule, n, xs, flags, params)
    if sorter is not None:
        a = a[:, sorter]
    shape = shape_of(v)[theirs:]
    v = v.reshape(n, -1) if theirs else spread(np.reshape(v, (-1,)), n)
    return places_among(a, v, side).reshape((n, *shape))


def places_among(a, v, side):
    """Return where the entries of each row of `v` belong in the sorted row of `a`: by sorting both together."""
    if side == "left":  # of equal entries those of `v` come first
        order = np.argsort(np.concatenate((v, a), axis=1), axis=1, kind="stable")
        ours = order >= v.shape[1]
    else:
        order = np.argsort(np.concatenate((a, v), axis=1), axis=1, kind="stable")
        ours = order < a.shape[1]
    before = np.cumsum(ours, axis=1)  # how many entries of `a` lie in front
    found = np.take_along_axis(before, np.argsort(order, axis=1), axis=1)
    return found[:, : v.shape[1]] if side == "left" else found[:, a.shape[1] :]


def digitized(rule, n, xs, flags, params):
    """Find the bins: by `searchsorted`, if they rise."""
    params = {**dict(zip(("right",), xs[2:], strict=False)), **params}
    x, bins = xs[:2]
    right = params.get("right", False)
    if not flags[1]:
        return np.digitize(x, bins, right)
    known = all_values(bins)
    if known.ndim != 2 or not (known[:, 1:] >= known[:, :-1]).all():
        return looped(rule, n, [x, bins], flags[:2], params)
    return searched(rule, n, [bins, x], [True, flags[0]], {"side": "left" if right else "right"})


BATCHING[np.searchsorted] = searched
BATCHING[np.digitize] = digitized

# -- sorting -----------------------------------------------------------------------------------------------------


def with_kth(rule, n, xs, flags, params):
    """Run `partition` or `argpartition`, whose second argument is not an axis."""
    params = {**dict(zip(("kth", "axis", "kind", "order"), xs[1:], strict=False)), **params}
    return along(-1, flat=True)(rule, n, xs[:1], flags[:1], params)


def by_keys(rule, n, xs, flags, params):
    """Sort by several keys: by each in turn, the last of them last."""
    keys = xs[0]
    if keys.ndim < 3:  # keys that are numbers
        return looped(rule, n, xs, flags, params)
    axis = params.get("axis", xs[1] if len(xs) > 1 else -1)
    axis = checked(axis, len(keys.shape) - 2)
    order = np.argsort(keys[:, 0], axis=axis, kind="stable")
    for k in range(1, keys.shape[1]):
        step = np.argsort(np.take_along_axis(keys[:, k], order, axis), axis=axis, kind="stable")
        order = np.take_along_axis(order, step, axis)
    return order


BATCHING[np.lexsort] = by_keys
BATCHING[np.partition] = BATCHING[np.argpartition] = with_kth
BATCHING[np.unwrap] = along(-1)
for _fun in (np.argmax, np.argmin, np.nanargmax, np.nanargmin):
    BATCHING[_fun] = along(None, flat=True)
for _fun in (np.isreal, np.iscomplex):
    BATCHING[_fun] = as_it_is

# -- interpolation -----------------------------------------------------------------------------------------------


def interpolated(rule, n, xs, flags, params):
    """Interpolate the values of each run at the same places, by the same weights."""
    (fp,) = xs
    if not np.isfinite(all_values(fp)).all():  # an infinite value of weight 0 would give NaN
        return looped(rule, n, xs, flags, params)
    x, xp = np.asarray(params["x"], float), params["xp"]
    start, before, after = shares(x.reshape(-1), xp, params.get("left"), params.get("right"))
    y = fp[:, start] * before + fp[:, np.minimum(start + 1, len(xp) - 1)] * after
    flat = x.reshape(-1)
    for given, outside in ((params.get("left"), flat < xp[0]), (params.get("right"), flat > xp[-1])):
        if given is not None and outside.any():
            y = np.where(outside, given, y)
    return y.reshape((n, *x.shape))


BATCHING[through_values] = interpolated
