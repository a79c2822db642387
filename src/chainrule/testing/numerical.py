"""Derivatives by differences: what the exact ones are compared with.

`along` differentiates along one real direction: central differences at three step sizes, extrapolated to step zero
(Richardson), tried from a large first step down. Each entry of the result keeps the try that settled best, and the
error estimated for it. Inputs and outputs are lists of values, and may be complex: a direction is then complex too, and
real and imaginary parts count as separate outputs, so that nothing is assumed about the function.
"""

import itertools

import numpy as np

SHRINK = 20.0  # the next try's first step is so much smaller
NOISE = 4.0  # rounding errors of a function's value, in units of its last digit


class Difference:
    """A derivative along a direction, one array per output, with the error estimated for each entry."""

    __slots__ = ("error", "scale", "value")

    def __init__(self, value, error, scale):
        self.value, self.error = value, error
        self.scale = scale  # the largest entry of the function's value: sets what differences can resolve


def epsilon(values):
    """Return the rounding unit of the coarsest float type among the values."""
    return max(
        (float(np.finfo(np.asarray(v).dtype).eps) for v in values if np.asarray(v).dtype.kind in "fc"),
        default=float(np.finfo(float).eps),
    )


def step(x, v, h):
    """Return ``x + h v`` in the type of `x`."""
    moved = x + h * v
    dtype = getattr(x, "dtype", None)
    return moved if dtype is None else np.asarray(moved).astype(dtype, copy=False).reshape(np.shape(x))[()]


def evaluate(f, xs, vs, h):
    """Return the outputs of `f` at ``xs + h vs``, as arrays of double precision or more."""
    with np.errstate(all="ignore"):
        ys = f(*[step(x, v, h) for x, v in zip(xs, vs, strict=True)])
    return [wide(y) for y in ys]


def wide(y):
    """Return a value as an array in at least double precision."""
    y = np.asarray(y)
    return y.astype(np.result_type(y.dtype, np.float64))


def scale_of(xs, vs):
    """Return the unit of length along `vs`: a step of 1 changes no entry by more than its size, or by 1."""
    longest = 0.0
    for x, v in zip(xs, vs, strict=True):
        if np.size(x):
            longest = max(longest, float(np.max(np.abs(v) / np.maximum(1.0, np.abs(wide(x))))))
    return 1.0 / longest if longest else 1.0


def along(f, xs, vs, accuracy=None):
    """Differentiate `f` at `xs` along `vs` by extrapolated central differences.

    Parameters
    ----------
    f : callable
        Takes the values one by one, and returns a list of arrays.
    xs, vs : list of float, complex or ndarray
        The point and the direction, of the same shapes and dtypes.
    accuracy : float, optional
        Stop as soon as each entry's estimated error is below this, relative to the largest entry. The default is what
        double (or the given) precision allows.

    Returns
    -------
    Difference
        The derivative of each output along the direction.

    Notes
    -----
    Costs 6 evaluations of `f` for each try, and one try is enough for a smooth function at an ordinary point.

    Examples
    --------
    >>> import numpy as np
    >>> found = along(lambda x: [np.sin(x)], [0.5], [1.0])
    >>> bool(abs(found.value[0] - np.cos(0.5)) < 1e-11)
    True
    """
    eps = max(epsilon(xs), epsilon(f(*xs)))
    accuracy = accuracy or eps**0.7
    unit = scale_of(xs, vs)
    first = eps ** (1 / 7)  # there the error of truncation, h^6, is that of rounding, eps / h
    best = None
    h = first
    while h > eps**0.5:
        found = extrapolate(f, xs, vs, h * unit, eps)
        best = found if best is None else better(best, found)
        if settled(best, accuracy):
            break
        h /= SHRINK
    return best


def extrapolate(f, xs, vs, h, eps):
    """Return the central differences of steps h, h/2, h/4, extrapolated twice, and the change of the last step."""
    columns, scale = [], 0.0
    for k in range(3):
        t = h / 2**k
        plus, minus = evaluate(f, xs, vs, t), evaluate(f, xs, vs, -t)
        with np.errstate(all="ignore"):
            columns.append([(a - b) / (2 * t) for a, b in zip(plus, minus, strict=True)])
        scale = max(scale, *[largest(y) for y in itertools.chain(plus, minus)], 0.0)
    values, errors = [], []
    with np.errstate(all="ignore"):
        for d0, d1, d2 in zip(*columns, strict=True):
            e0, e1 = d1 + (d1 - d0) / 3, d2 + (d2 - d1) / 3  # of fourth order
            value = e1 + (e1 - e0) / 15  # of sixth
            error = np.abs(value - e1) + NOISE * eps * scale / h
            values.append(value)
            errors.append(np.where(np.isfinite(error), error, np.inf))
    return Difference(values, errors, scale)


def better(a, b):
    """Return, entry by entry, the one with the smaller estimated error."""
    keep = [ea <= eb for ea, eb in zip(a.error, b.error, strict=True)]
    return Difference(
        [np.where(k, va, vb) for k, va, vb in zip(keep, a.value, b.value, strict=True)],
        [np.where(k, ea, eb) for k, ea, eb in zip(keep, a.error, b.error, strict=True)],
        min(a.scale, b.scale),
    )


def settled(d, accuracy):
    """Tell whether every entry's estimated error is below `accuracy` of the largest."""
    size = max([largest(v) for v in d.value], default=0.0)
    worst = max([float(np.max(e)) for e in d.error if e.size], default=0.0)
    return worst <= accuracy * max(size, d.scale)


def largest(x):
    """Return the largest absolute value of the finite entries, 0 if there are none."""
    x = np.abs(x)
    x = x[np.isfinite(x)]
    return float(np.max(x)) if x.size else 0.0


def one_sided(f, xs, vs):
    """Return the differences to the right and to the left along `vs`, and whether they disagree: a kink or a jump.

    Of a smooth function the two differ in proportion to the step; at a kink by the same amount at every step.
    """
    eps = max(epsilon(xs), epsilon(f(*xs)))
    unit = scale_of(xs, vs)
    gaps = []
    for h in (eps**0.3 * unit, eps**0.3 * unit / 8):
        y = evaluate(f, xs, vs, 0.0)
        right = [(a - b) / h for a, b in zip(evaluate(f, xs, vs, h), y, strict=True)]
        left = [(b - a) / h for a, b in zip(evaluate(f, xs, vs, -h), y, strict=True)]
        gaps.append([np.abs(r - s) for r, s in zip(right, left, strict=True)])
    kinks = [
        (g1 > 0.6 * g0) & (g1 > eps**0.25 * (np.abs(r) + np.abs(s)))
        for g0, g1, r, s in zip(*gaps, right, left, strict=True)
    ]
    return right, left, kinks
