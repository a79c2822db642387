"""Derivatives of a black box by extrapolated central differences: opt-in, for what can't be differentiated otherwise.

The difference quotient of step h has an error in h^2, h^4, ... Steps that are halved again and again, and Richardson's
extrapolation to h = 0, make the error fall until rounding takes over; Ridders' method stops there, and tells how large
the error may be [1]_.

.. [1] C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Advances in Engineering Software 4(2), 1982.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import inexact, value
from chainrule.engine.custom import Call, Definition, call
from chainrule.engine.spec import ones_of, shape_of, spec_of, zeros_of
from chainrule.errors import NotConvergedError, ShapeError
from chainrule.transforms.common import name_of, need_function, points
from chainrule.transforms.reverse import seeds_like

HALVINGS = 14  # the smallest step is the first one divided by 2^13


class Numeric:
    """A function differentiated by differences. Made by `numeric`."""

    def __init__(self, f: Callable, step: float, rtol: float | None) -> None:
        functools.update_wrapper(self, f, ("__module__", "__name__", "__qualname__", "__doc__"), ())
        self._definition = Settings(f, name_of(f), step, rtol)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its derivative, where one is asked for, is taken by differences."""
        return call(self._definition, args, kwargs, Differences)

    def jvp(self, primals: tuple, tangents: tuple) -> tuple:
        """Return the value, the derivative along a direction, and an estimate of its largest absolute error.

        As `chainrule.jvp`, with a third result. It raises nothing if the estimate is large.
        """
        leaves, dots, shape = [], [], []
        for k, (x, t) in enumerate(zip(primals, tangents, strict=True)):
            values, structure = points(x, f"argument {k} of {self._definition.name}")
            dots += seeds_like(t, [spec_of(v) for v in values], structure, "tangent")
            leaves += values
            shape.append((len(values), structure))
        made = Differences(self._definition, leaves, shape, {})
        made.places = tuple(range(len(leaves)))
        y = made.bottom(leaves)
        ydots, error, _ = made.along(dots, leaves, [v for v in made.listed(y) if inexact(v)])
        ydots = iter(ydots)
        full = [next(ydots) if inexact(v) else zeros_of(v) for v in made.listed(y)]
        return made.result(y), tree.derivatives(made.out_structure, full), error

    def __repr__(self):
        return f"<{self._definition.name}, differentiated by differences>"


class Settings(Definition):
    """The function, the first step, and the error that is accepted."""

    __slots__ = ("rtol", "step")

    def __init__(self, f, name, step, rtol):
        super().__init__(f, name)
        self.step, self.rtol = step, rtol


class Differences(Call):
    """A call at one level. Its rules call the function again, at that level: so the differences have derivatives."""

    __slots__ = ()

    def push(self, xdots, y, xs):
        """Return the tangents of the results: one extrapolated difference."""
        ys = self.listed(y)
        ydots = iter(self.checked(xdots, xs, [v for v in ys if inexact(v)]))
        full = [next(ydots) if inexact(v) else zeros_of(v) for v in ys]
        return tuple(full) if self.several else full[0]

    def pull(self, ybar, y, xs):
        """Return the cotangents of the operands: an extrapolated difference for each entry of them."""
        ys = self.listed(y)
        ybars = [b for b, v in zip(self.listed(ybar), ys, strict=True) if inexact(v)]
        ys = [v for v in ys if inexact(v)]

        def entry(i, direction):
            xdots = [zeros_of(x) for x in xs]
            xdots[i] = direction
            total = 0.0
            for b, t in zip(ybars, self.checked(xdots, xs, ys), strict=True):
                total = total + (np.add.reduce((b * t).reshape(-1)) if shape_of(t) else b * t)
            return total.real if spec_of(total).kind == "c" else total

        xbars = []
        for i, x in enumerate(xs):
            spec = spec_of(x)
            units = [1.0, 1j] if spec.kind == "c" else [1.0]
            columns = []
            for k in range(spec.size):
                parts = [entry(i, unit(spec, k, u)) for u in units]
                # a map that is linear over the reals only: Re(xbar xdot) = Re(ybar ydot) for xdot = 1 and xdot = i
                columns.append(parts[0] if len(parts) == 1 else parts[0] - 1j * parts[1])
            if not spec.shape:
                xbars += columns
            else:
                xbars.append(np.stack(columns).reshape(spec.shape) if columns else zeros_of(x))
        return xbars

    def listed(self, y):
        """Return results as a list."""
        return list(y) if self.several else [y]

    def checked(self, xdots, xs, ys):
        """Return the derivatives of the results along a direction; raise if they did not converge."""
        ydots, error, scale = self.along(xdots, xs, ys)
        rtol = self.definition.rtol
        rtol = precision(ys) ** (1 / 3) if rtol is None else rtol
        if not error <= rtol * scale:
            raise NotConvergedError(self.name, error, scale)
        return ydots

    def along(self, xdots, xs, ys):
        """Return the derivatives of the results along a direction, their error, and the size to compare it with."""
        ratios = [
            float(np.max(np.abs(value(t)) / np.maximum(np.abs(value(x)), 1.0), initial=0.0))
            for t, x in zip(xdots, xs, strict=True)
        ]
        steepest = max(ratios, default=0.0)
        if not steepest:
            return [zeros_of(v) for v in ys], 0.0, 0.0
        first = self.definition.step / steepest

        def f(t):
            leaves = self.filled([x + t * d for x, d in zip(xs, xdots, strict=True)])
            y = self.__class__(self.definition, leaves, self.shape, self.kwargs).run(leaves)
            found = [v for v in (y if isinstance(y, tuple) else (y,)) if inexact(v)]
            if [shape_of(v) for v in found] != [shape_of(v) for v in ys]:
                raise ShapeError(
                    f"{self.name} returned other shapes nearby than at the point.", "give a smaller step=."
                )
            return found

        ydots, error = ridders(f, first)
        if ydots is None:
            return [zeros_of(v) for v in ys], float("inf"), largest(ys) / first
        return ydots, error, largest(ydots) + largest(ys) / first


def ridders(f, h):
    """Return f'(0) of a function that returns a list, and an estimate of its error, from the first step `h`.

    None if all values nearby are infinite or NaN.
    """
    best, least = None, float("inf")
    before, history = [], []
    for _ in range(HALVINGS):
        with np.errstate(all="ignore"):
            left, right = f(-h), f(h)
            row = [[(b - a) / (2 * h) for a, b in zip(left, right, strict=True)]]
        rounding = precision(right) * largest(right) / h
        h /= 2
        if not np.isfinite(largest(row[0])):  # outside of the domain: begin anew with a smaller step
            before = []
            continue
        factor, found = 1.0, None
        for column, old in enumerate(before):  # the next power of h^2 cancels
            factor *= 4
            row.append([(factor * a - b) / (factor - 1) for a, b in zip(row[-1], old, strict=True)])
            error = max(distance(row[-1], row[-2]), distance(row[-1], old)) + rounding
            if column and (found is None or error <= found[1]):  # two steps alone may agree by chance
                found = row[-1], error
        if found is not None:
            history.append(found)
            if found[1] <= least:
                best, least = found
        if before and distance(row[-1], before[-1]) >= 2 * least and least < float("inf"):
            break  # rounding has taken over
        before = row
        if best is None:
            best = row[0]
    # Steps below the distance of a staircase agree on 0; those above did not expect that.
    gaps = [distance(best, v) for v, error in history if distance(best, v) > 20 * (error + least)]
    return best, max([least, *gaps])


def precision(values):
    """Return the distance from 1 to the next number, in the least precise of the dtypes."""
    return max([float(np.finfo(spec_of(v).dtype or float).eps) for v in values], default=0.0)


def largest(values):
    """Return the largest absolute value in a list of results."""
    sizes = [float(np.max(np.abs(value(v)), initial=0.0)) for v in values]
    return float(np.max(sizes)) if sizes else 0.0  # NaN, if there is one


def distance(a, b):
    """Return the largest difference of two lists of results."""
    return largest([value(u) - value(v) for u, v in zip(a, b, strict=True)])


def unit(spec, k, size):
    """Return the direction of entry `k`."""
    one = ones_of(spec)
    if not spec.shape:
        return one * size
    direction = np.zeros(spec.size, spec.dtype)
    direction[k] = size
    return direction.reshape(spec.shape)


def numeric(f: Callable, *, step: float = 0.1, rtol: float | None = None) -> Numeric:
    """Return `f` with derivatives taken by differences: for a black box that nothing else differentiates.

    Parameters
    ----------
    f : callable
        Takes and returns numbers, arrays, or containers of these; plain ones, whatever transform is applied. It must be
        smooth, and computed to nearly all digits: no random numbers, no loose tolerance of an iteration.
    step : float
        The first step, relative to the larger of 1 and the size of each entry of the arguments. It is halved up to 13
        times. Choose it well within the length over which `f` changes its shape.
    rtol : float, optional
        What the estimated error may be, relative to the derivative and to the values of `f` over the step; the cube
        root of the precision if left out (6e-6 for float64).

    Returns
    -------
    Numeric
        A callable as `f`, for all transforms. ``numeric(f).jvp(primals, tangents)`` returns ``(y, ydot, error)``, with
        an estimate of the largest absolute error.

    Raises
    ------
    NotConvergedError
        If the estimated error is too large: at a jump, in noise, outside the domain.

    Notes
    -----
    A tangent takes up to 28 runs of `f`, a gradient as many for each entry of the arguments: use it for functions of
    few inputs, or write the derivative (`custom_vjp`, `extend.rule`). Of about 16 digits a first derivative keeps 10 to
    13, a second one (differences of differences, each run of which takes 28 of `f`) 7 to 9, and so on. At a kink,
    differences to both sides agree on the mean of the slopes: it is not noticed.

    Examples
    --------
    >>> import math
    >>> import numpy as np, chainrule as cr
    >>> g = cr.numeric(math.lgamma)  # takes no arrays and no traced values
    >>> round(cr.grad(lambda x: x * g(x))(3.0), 9)
    3.461500186
    >>> y, ydot, error = g.jvp((3.0,), (1.0,))
    >>> bool(abs(ydot - 0.9227843350984671) <= error < 1e-9)
    True
    """
    need_function(f, "numeric(f)(x)")
    if not step > 0:
        raise ValueError(f"step must be positive, not {step!r}")
    if rtol is not None and not rtol > 0:
        raise ValueError(f"rtol must be positive, not {rtol!r}")
    return Numeric(f, step, rtol)
