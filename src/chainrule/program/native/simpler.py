"""Calls on large arrays as simpler calls, which nests are made of.

A variance is a mean, differences, squares and a sum; a tiled array is a broadcast one with other axes. `RECIPES` has a
function for each: it writes the simpler calls, and returns the last one's result, or None where it has none.
"""

import math
from typing import Any

import numpy as np

from chainrule.engine.rule import RULES
from chainrule.engine.spec import cast_to, spread_to, sum_to
from chainrule.program.backend.numbers import FLOAT, function_of
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.values import MOST_ENTRIES, is_integer
from chainrule.rules.choices import replaced
from chainrule.rules.norms import length, tip
from chainrule.rules.statistics import deviation_of, variance

TRUTH, WHOLE = np.dtype(bool), np.dtype(np.int64)


def simpler(equations: list) -> list:
    """Return equations with simpler ones in place of those that there is a recipe for."""
    made = []
    for e in equations:
        recipe = recipe_of(e)
        steps = Steps(e) if recipe is not None else None
        y = recipe(steps, e, e.inputs[0]) if recipe is not None else None
        made += [e] if y is None else steps.ending(y)
    return made


def recipe_of(e):
    """Return the recipe for an equation; None if there is none, or the arrays are small."""
    if e.__class__ is not Equation or e.output.__class__ is not Symbol or e.output.dtype in PYTHON or not e.inputs:
        return None
    x = e.inputs[0]
    if x.__class__ is not Symbol or x.dtype is None or x.dtype in PYTHON:
        return None
    if max(x.size, e.output.size) <= MOST_ENTRIES or np.dtype(x.dtype).kind not in "fiub":
        return None
    fun = function_of(e)
    if getattr(fun, "__module__", None) == "chainrule.rules.scipy_sums":
        return OF_SCIPY.get(fun.__name__)
    return RECIPES.get(fun)


class Steps:
    """Writes the equations that stand for one."""

    def __init__(self, e) -> None:
        self.e, self.made = e, []

    def write(self, fun, xs, params, shape, dtype) -> Symbol:
        """Write any call; return its result."""
        s = Symbol(f"{self.e.output}_{len(self.made)}", tuple(shape), dtype)
        self.made.append(Equation(RULES[fun], tuple(xs), params, s, None, self.e.place))
        return s

    def call(self, fun, *xs, dtype=None) -> Symbol:
        """Write an elementwise call; the result has by default the dtype of the first array."""
        arrays = [x for x in xs if x.__class__ is Symbol]
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        return self.write(fun, xs, {}, shape, arrays[0].dtype if dtype is None else dtype)

    def cast(self, x, dtype) -> Symbol:
        """Write a cast."""
        return self.write(cast_to, (x,), {"dtype": dtype}, x.shape, dtype)

    def shaped(self, x, shape) -> Symbol:
        """Write a reshape."""
        return self.write(np.reshape, (x,), {"shape": tuple(shape)}, shape, x.dtype)

    def spread(self, x, shape) -> Symbol:
        """Write a broadcast that is stored."""
        return self.write(spread_to, (x,), {"shape": tuple(shape)}, shape, x.dtype)

    def over(self, fun, x, axis, keepdims=True) -> Symbol:
        """Write a reduction."""
        return self.write(fun, (x,), {"axis": axis, "keepdims": keepdims}, reduced(x.shape, axis, keepdims), x.dtype)

    def ending(self, y) -> list:
        """Return the equations, the last of which makes the result."""
        last = self.made[-1]
        assert last.output is y
        self.made[-1] = Equation(last.rule, last.inputs, last.params, self.e.output, None, last.place)
        return self.made


def axes_of(shape, axis) -> set:
    """Return the axes of a reduction, from 0 on."""
    rank = len(shape)
    return set(range(rank)) if axis is None else {int(a) % rank for a in (axis if axis.__class__ is tuple else (axis,))}


def reduced(shape, axis, keepdims) -> tuple:
    """Return the shape of a reduction's result."""
    axes = axes_of(shape, axis)
    return tuple([1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes])


def options(e, **known):
    """Return the parameters of an equation with defaults; None if it has others."""
    return known | e.params if e.params.keys() <= known.keys() else None


def is_real(e, x) -> bool:
    """Tell whether an equation makes floats of floats of the same kind."""
    return x.dtype.kind == "f" and x.dtype == e.output.dtype


# -- reductions --------------------------------------------------------------------------------------------------------


def variance_by_steps(w, e, x, root=False):
    """Sum((x - mean)**2) / (n - ddof)."""
    o = options(e, axis=None, dtype=None, ddof=0, keepdims=False, where=True)
    if o is None or o["dtype"] is not None or o["where"] is not True or not is_real(e, x):
        return None
    n = math.prod([x.shape[a] for a in axes_of(x.shape, o["axis"])])
    if o["ddof"].__class__ not in (int, float) or n - o["ddof"] <= 0:
        return None
    d = w.call(np.subtract, x, w.over(np.mean, x, o["axis"]))
    total = w.over(np.sum, w.call(np.multiply, d, d), o["axis"], bool(o["keepdims"]))
    y = w.call(np.divide, total, float(n - o["ddof"]))
    return w.call(np.sqrt, y) if root else y


def deviation_by_steps(w, e, x):
    """The root of the variance."""
    return variance_by_steps(w, e, x, root=True)


def length_by_steps(w, e, x):
    """Sqrt(sum(x**2))."""
    o = options(e, axis=None, keepdims=False)
    if o is None or not is_real(e, x):
        return None
    return w.call(np.sqrt, w.over(np.sum, w.call(np.multiply, x, x), o["axis"], bool(o["keepdims"])))


def count_by_steps(w, e, x):
    """Count truth values as a sum of floats, which is as exact."""
    o = options(e, axis=None, keepdims=False, dtype=None)
    if o is None or e.output.dtype != WHOLE or len(e.inputs) != 1:
        return None
    if x.dtype != TRUTH:
        if function_of(e) is not np.count_nonzero:
            return None
        x = w.call(np.not_equal, x, 0, dtype=TRUTH)
    return w.cast(w.over(np.sum, w.cast(x, FLOAT), o["axis"], bool(o["keepdims"])), WHOLE)


def sum_by_steps(w, e, x):
    """Sum leading axes away, and others to length 1."""
    shape = tuple(e.params.get("shape", ()))
    extra = len(x.shape) - len(shape)
    if extra <= 0 or x.dtype.kind != "f" or e.params.keys() != {"shape"}:
        return None
    rest = [extra + k for k, n in enumerate(shape) if n != x.shape[extra + k]]
    if not rest:
        return None
    y = w.over(np.sum, x, (*range(extra), *rest), keepdims=False)
    return w.shaped(y, shape)


def soft_max(w, e, x):
    """exp(x) / sum(exp(x)), by differences to the greatest."""
    o = options(e, axis=None)
    if o is None or not is_real(e, x):
        return None
    y = w.call(np.exp, w.call(np.subtract, x, w.over(np.max, x, o["axis"])))
    return w.call(np.divide, y, w.over(np.sum, y, o["axis"]))


def top_of(w, x, axis):
    """Return the greatest entries; 0 in place of infinite ones."""
    m = w.over(np.max, x, axis)
    return w.call(np.where, w.call(np.isfinite, m, dtype=TRUTH), m, 0.0, dtype=x.dtype)


def log_of_sum(w, e, x):
    """log(sum(exp(x))), by differences to the greatest; the axes stay."""
    o = options(e, axis=None)
    if o is None or not is_real(e, x):
        return None
    top = top_of(w, x, o["axis"])
    total = w.over(np.sum, w.call(np.exp, w.call(np.subtract, x, top)), o["axis"])
    return w.call(np.add, w.call(np.log, total), top)


def log_soft_max(w, e, x):
    """X - log(sum(exp(x)))."""
    o = options(e, axis=None)
    if o is None or not is_real(e, x):
        return None
    d = w.call(np.subtract, x, top_of(w, x, o["axis"]))
    return w.call(np.subtract, d, w.call(np.log, w.over(np.sum, w.call(np.exp, d), o["axis"])))


def running_by_steps(w, e, x):
    """A running sum or product of all entries in a row."""
    if e.params.get("axis", None) is not None or e.params.keys() - {"axis"} or len(x.shape) < 2:
        return None
    return w.write(function_of(e), (w.shaped(x, (x.size,)),), {"axis": 0}, (x.size,), e.output.dtype)


# -- entries in other places -------------------------------------------------------------------------------------------


def tiled(w, e, x):
    """Tile: the array with an axis before each of its own, broadcast there."""
    reps = e.params.get("reps", e.inputs[1] if len(e.inputs) > 1 else None)
    reps = (reps,) if is_integer(reps) else reps
    if reps.__class__ not in (tuple, list) or not all(is_integer(n) for n in reps) or e.params.keys() - {"reps"}:
        return None
    rank = max(len(reps), len(x.shape))
    reps = (1,) * (rank - len(reps)) + tuple(map(int, reps))
    shape = (1,) * (rank - len(x.shape)) + x.shape
    return spread_by(w, e, x, [m for n in shape for m in (1, n)], [m for r, n in zip(reps, shape, strict=True)
                                                                  for m in (r, n)])  # fmt: skip


def repeated(w, e, x):
    """Repeat each entry: the array with an axis after one of its own, broadcast there."""
    o = options(e, repeats=e.inputs[1] if len(e.inputs) > 1 else None, axis=None)
    if o is None or not is_integer(o["repeats"]) or (o["axis"] is None and len(x.shape) != 1) or not x.shape:
        return None
    axis = int(o["axis"] or 0) % len(x.shape)
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    return spread_by(w, e, x, (*before, 1, *after), (*before, int(o["repeats"]), *after))


def spread_by(w, e, x, shape, to):
    """Give x a shape, broadcast it, and give it the shape of the result."""
    if 0 in to or x.size == 0:
        return None
    return w.shaped(w.spread(w.shaped(x, shape), to), e.output.shape)


def joined(w, e, x):
    """Concatenate without the options that are at their defaults."""
    if "axis" not in e.params or e.params.keys() == {"axis"} or e.params.keys() - {"axis", "dtype", "casting"}:
        return None
    if e.params.get("dtype") is not None or e.params.get("casting") not in (None, "same_kind"):
        return None
    return w.write(function_of(e), e.inputs, {"axis": e.params["axis"]}, e.output.shape, e.output.dtype)


# -- entries -----------------------------------------------------------------------------------------------------------


def numbers_for(w, e, x):
    """Put numbers in place of NaN and infinities."""
    o = options(e, nan=0.0, posinf=None, neginf=None)
    if o is None or not is_real(e, x):
        return None
    limits = np.finfo(x.dtype)
    high = float(limits.max) if o["posinf"] is None else o["posinf"]
    low = float(limits.min) if o["neginf"] is None else o["neginf"]
    if any(v.__class__ not in (int, float) for v in (o["nan"], high, low)):
        return None
    y = x
    for test, value in (((np.isnan, x), o["nan"]), ((np.equal, x, math.inf), high), ((np.equal, x, -math.inf), low)):
        y = w.call(np.where, w.call(*test, dtype=TRUTH), float(value), y, dtype=x.dtype)
    return y


def rounded(w, e, x):
    """Round to whole numbers."""
    o = options(e, decimals=0)
    return w.call(np.rint, x) if o is not None and o["decimals"] == 0 and is_real(e, x) else None


RECIPES: dict[Any, Any] = {
    variance: variance_by_steps, deviation_of: deviation_by_steps, length: length_by_steps, tip: length_by_steps,
    np.sum: count_by_steps, np.count_nonzero: count_by_steps, sum_to: sum_by_steps,
    np.cumsum: running_by_steps, np.cumprod: running_by_steps,
    np.tile: tiled, np.repeat: repeated, np.concatenate: joined,
    replaced: numbers_for, np.round: rounded, np.around: rounded,
}  # fmt: skip
OF_SCIPY = {"soft_max": soft_max, "log_of_sum": log_of_sum, "log_soft_max": log_soft_max}  # found by name: no import
