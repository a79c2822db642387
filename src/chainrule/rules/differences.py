"""Differences along an axis, and what is built of them: written in terms of slices, so no rule is needed."""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from chainrule.engine.boxed import Boxed
from chainrule.engine.rule import composite
from chainrule.engine.spec import shape_of
from chainrule.rules.creation import joined

NOT_GIVEN = np._NoValue


def as_array(x):
    """Return `x` with a shape and a dtype: as it is, or numbers in nested lists, traced or not, as an array."""
    x = joined(x)
    return x if hasattr(x, "shape") else np.asarray(x)


def along(k, part):
    """Return the subscript that applies `part` to axis `k`."""
    return (*(slice(None),) * k, part)


@composite(np.diff)
def diff(a, n=1, axis=-1, prepend=NOT_GIVEN, append=NOT_GIVEN):
    """Subtract each entry from the next one, `n` times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    y = as_array(a)
    if n == 0:
        return y
    if not y.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    k = normalize_axis_index(axis, y.ndim)
    edges = []
    for edge in (prepend, append):
        if edge is not NOT_GIVEN and not shape_of(edge):
            edge = np.broadcast_to(edge, (*y.shape[:k], 1, *y.shape[k + 1 :]))
        edges.append([] if edge is NOT_GIVEN else [edge])
    if edges[0] or edges[1]:
        y = np.concatenate([*edges[0], y, *edges[1]], axis=k)
    for _ in range(n):
        y = y[along(k, slice(1, None))] - y[along(k, slice(None, -1))]
    return y


@composite(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    """Subtract each entry of a flat array from the next one, with given numbers before and after."""
    x = np.ravel(as_array(ary))
    parts = [x[1:] - x[:-1]]
    for extra, where in ((to_begin, 0), (to_end, len(parts) + 1)):
        if extra is not None:
            extra = np.ravel(as_array(extra))
            if not np.can_cast(extra.dtype, x.dtype, "same_kind"):
                raise TypeError("dtype of the numbers to add must be compatible with that of the array")
            parts.insert(where, extra)
    return np.concatenate(parts, dtype=x.dtype) if len(parts) > 1 else parts[0]


@composite(np.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integrate by the trapezoidal rule."""
    y = as_array(y)
    k = normalize_axis_index(axis, y.ndim)
    if x is None:
        d = dx
    else:
        x = as_array(x)
        if x.ndim == 1:
            d = np.reshape(x[1:] - x[:-1], (-1,) + (1,) * (y.ndim - k - 1))
        else:
            d = np.diff(x, axis=axis)
    return np.sum(d * (y[along(k, slice(1, None))] + y[along(k, slice(None, -1))]) / 2.0, axis=k)


if hasattr(np, "trapz"):  # NumPy before 2.4
    composite(np.trapz)(trapezoid)


@composite(np.vander)
def vander(x, N=None, increasing=False):
    """Raise a vector to the powers 0, 1, ..., one column each."""
    x = as_array(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = x.shape[0] if N is None else N
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    return np.reshape(x, (-1, 1)) ** powers


# -- np.gradient: second differences inside, one-sided ones at the ends -------------------------------------------


@composite(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    """Differentiate sampled values by differences, along each axis."""
    f = as_array(f)
    if f.dtype.kind not in "fc":
        f = f.astype(float)
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if not varargs:
        spacings = [1.0] * len(axes)
    elif len(varargs) == 1 and not shape_of(varargs[0]):
        spacings = list(varargs) * len(axes)
    elif len(varargs) == len(axes):
        spacings = [_steps(v, f.shape[k]) for v, k in zip(varargs, axes, strict=True)]
    else:
        raise TypeError("invalid number of arguments")
    slopes = [_slope(f, h, k, edge_order) for h, k in zip(spacings, axes, strict=True)]
    return slopes[0] if len(axes) == 1 else tuple(slopes)


def _steps(v, n):
    """Return the step, or the steps between given coordinates: one number if they are known to be equal."""
    v = as_array(v)
    if not v.ndim:
        return v
    if v.ndim != 1:
        raise ValueError("distances must be either scalars or 1d")
    if v.shape[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = v[1:] - v[:-1]
    if not isinstance(steps, Boxed) and (steps == steps[0]).all():
        return steps[0]
    return steps


def _slope(f, h, k, edge_order):
    """Return the slope along axis `k`, for a step `h` or one step per interval."""
    n = f.shape[k]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small for a numerical gradient: at least (edge_order + 1) elements are required."
        )

    def part(start, stop):
        return f[along(k, slice(start, stop))]

    if not shape_of(h):
        inner = (part(2, None) - part(None, -2)) / (2.0 * h)
        left, right = h, h
        ends = ((-1.5 / h, 2.0 / h, -0.5 / h), (0.5 / h, -2.0 / h, 1.5 / h))
    else:
        h = np.reshape(h, (-1,) + (1,) * (f.ndim - k - 1))
        d, e = h[:-1], h[1:]
        inner = (
            -e / (d * (d + e)) * part(None, -2) + (e - d) / (d * e) * part(1, -1) + d / (e * (d + e)) * part(2, None)
        )
        left, right = h[0], h[-1]
        if edge_order == 2:
            d, e = h[0], h[1]
            first = (-(2.0 * d + e) / (d * (d + e)), (d + e) / (d * e), -d / (e * (d + e)))
            d, e = h[-2], h[-1]
            ends = (first, (e / (d * (d + e)), -(e + d) / (d * e), (2.0 * e + d) / (e * (d + e))))
    if edge_order == 1:
        first, last = (part(1, 2) - part(0, 1)) / left, (part(n - 1, n) - part(n - 2, n - 1)) / right
    else:
        (a, b, c), (p, q, r) = ends
        first = a * part(0, 1) + b * part(1, 2) + c * part(2, 3)
        last = p * part(n - 3, n - 2) + q * part(n - 2, n - 1) + r * part(n - 1, n)
    return np.concatenate((first, inner, last), axis=k)
