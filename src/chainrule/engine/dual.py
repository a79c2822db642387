"""Duals: forward mode.

A `Dual` is a value with its tangent, the derivative along one direction: ``primal + tangent * eps`` with
``eps**2 = 0``. Each call carries the tangent along by its rule's jvp.
"""

from typing import Any

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, inexact, value
from chainrule.engine.dispatch import uncarried
from chainrule.engine.pulls import float_residuals, taken
from chainrule.engine.spec import cast_to, shape_of, spread_to, tangent_like, zeros_of
from chainrule.errors import NotDifferentiableError, ShapeError


class Dual(Boxed):
    """A number or array with its derivative along one direction.

    Arithmetic and NumPy's functions work on it as on an array; the tangent follows by the chain rule:
    ``f(a + b eps) = f(a) + f'(a) b eps``. Duals made by hand nest (``Dual(Dual(x, 1), Dual(1, 0))`` carries second
    derivatives); all made by hand at one depth share one ``eps``.

    Parameters
    ----------
    primal : array_like of float or complex
        The value. Python ints and integer arrays are taken as floats.
    tangent : array_like, optional
        Its derivative along the direction; broadcast to the primal's shape; 0 if left out.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> x = cr.Dual(2.0, 1.0)
    >>> x**3 + np.sin(x - 2)
    Dual(8.0, 13.0)
    """

    __slots__ = ()

    def __init__(self, primal: Any, tangent: Any = 0.0, *, level: float | None = None) -> None:
        if level is None:
            primal = float_point(primal)
            tangent = float_point(tangent)
            shape = shape_of(primal)
            if shape_of(tangent) != shape:
                try:
                    np.broadcast_shapes(shape_of(tangent), shape)
                    fits = len(shape_of(tangent)) <= len(shape)
                except ValueError:
                    fits = False
                if not fits:
                    raise ShapeError(
                        f"the tangent has shape {shape_of(tangent)}, the primal {shape}.", "give both the same shape."
                    )
                tangent = spread_to(tangent, shape)
            level = max([b.level for b in (primal, tangent) if isinstance(b, Boxed)], default=0)
            level = _level.above(level) if level else 0.25
        self.data, self.aux, self.level = primal, tangent, level

    @property
    def primal(self) -> Any:
        """The value."""
        return self.data

    @property
    def tangent(self) -> Any:
        """The derivative of the value along the direction."""
        return self.aux

    def constant(self, y):  # noqa: D102 (see Boxed)
        return make_dual(y, zeros_of(y), self.level)

    def __repr__(self):
        a, b = (repr(value(v)).removeprefix("np.float64(") for v in (self.data, self.aux))
        a, b = (v[:-1] if v.endswith(")") and not v.startswith(("array", "np.", "(")) else v for v in (a, b))
        return f"Dual({a}, {b})"

    def __copy__(self):
        return self.alias()

    def __reduce__(self):
        if self.level == int(self.level):
            raise TypeError("a value of a running transform can't be pickled; pickle  chainrule.value(x)")
        return _rebuild, (self.data, self.aux)

    @staticmethod
    def process(rule, level, operands, params):  # noqa: D102 (see Boxed)
        mine = [x.__class__ is Dual and x.level == level for x in operands]
        xs = tuple([x.data if m else x for x, m in zip(operands, mine, strict=True)])
        xdots = [x.aux if m else None for x, m in zip(operands, mine, strict=True)]
        y = rule.apply(xs, params)
        if not isinstance(y, tuple | list) and not inexact(y):
            return uncarried(rule, y)
        if rule.kind == "rule":  # such rules may ask for a dtype or shape, which a Python float lacks
            xdots, xs = list(float_residuals(xdots)), float_residuals(xs)
        try:
            ydot = push_forward(rule, xdots, y, xs, params)
        except (ZeroDivisionError, OverflowError):
            ydot = push_forward(rule, list(float_residuals(xdots)), *float_residuals((y,)), float_residuals(xs), params)
        if isinstance(y, tuple | list):
            outputs = [
                make_dual(v, tangent_like(t, v), level) if inexact(v) else v for v, t in zip(y, ydot, strict=True)
            ]
            return type(y)(*outputs) if hasattr(y, "_fields") else type(y)(outputs)
        return make_dual(y, tangent_like(ydot, y), level)


def _rebuild(primal, tangent):
    return Dual(primal, tangent)


_new = object.__new__


def make_dual(primal, tangent, level):
    """Return a Dual of the given fields, unchecked."""
    d = _new(Dual)
    d.data, d.aux, d.level = primal, tangent, level
    return d


def push_forward(rule, xdots, y, xs, params):
    """Return the tangent of ``y = rule(xs)``, given those of the operands (None for constants)."""
    kind = rule.kind
    if kind == "linear" or kind == "gather":
        if rule.affine:
            params = {k: (zero_of(rule.affine[k], v) if k in rule.affine else v) for k, v in params.items()}
        tangents = tuple([zeros_of(x) if t is None else t for t, x in zip(xdots, xs, strict=True)])
        return rule.apply(tangents, params)
    total = None
    if kind == "elementwise":
        terms = (t * rule.jvps[i](y, *xs) for i, t in enumerate(xdots) if t is not None)
    elif kind == "bilinear":
        a, b = xs
        terms = (rule.apply((t, b) if i == 0 else (a, t), params) for i, t in enumerate(xdots) if t is not None)
    elif kind == "select":
        masks = rule.jvps[0](y, *xs, **params)
        shape = shape_of(y)
        terms = (
            taken(masks[i], spread_to(t, shape) if shape_of(t) != shape else t, shape)[0]
            for i, t in enumerate(xdots)
            if t is not None
        )
    elif rule.spread:
        xdots = tuple([zeros_of(x) if t is None else t for t, x in zip(xdots, xs, strict=True)])
        return rule.jvps[0](xdots, y, xs, **params)
    else:
        terms = (rule.jvps[i](t, y, *xs, **params) for i, t in enumerate(xdots) if t is not None)
    for term in terms:
        if total is None:
            total = term
        elif isinstance(y, tuple | list):
            total = tuple([a + b for a, b in zip(total, term, strict=True)])
        else:
            total = total + term
    return total


def zero_of(how, v):
    """Return what stands for an affine keyword's value `v` in a tangent: `how` itself, or ``how(v)``."""
    return how(v) if callable(how) else how


def float_point(x):
    """Return a point of differentiation as a float: ints are taken as floats; what has no derivative raises."""
    if isinstance(x, Boxed):
        if x.dtype.kind in "iu" and x.recorded:
            return cast_to(x, np.dtype(float))
        if x.dtype.kind == "b":
            raise NotDifferentiableError(
                "a traced value of dtype bool can't be differentiated.", "use a float, or an array of floats."
            )
        return x if x.level else x.data  # a Buffer is the array it holds
    if x.__class__ in (float, complex, np.float64):
        return x
    if isinstance(x, bool | np.bool_ | str | bytes) or x is None:
        raise NotDifferentiableError(
            f"{x!r} of type {type(x).__name__} can't be differentiated.", "use a float, or an array of floats."
        )
    if isinstance(x, int):
        return float(x)
    if isinstance(x, list | tuple):
        x = np.asarray(x)
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        x = np.asarray(x)
        dtype = x.dtype
    if dtype.kind in "fc":
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray:
            from chainrule.engine.boxed import refuse_foreign

            for parent in type(x).__mro__[:-1]:
                refuse_foreign(parent)
        return x
    if dtype.kind in "iu":
        return x.astype(np.float64)
    raise NotDifferentiableError(f"an array of dtype {dtype} can't be differentiated.", "convert it:  x.astype(float).")
