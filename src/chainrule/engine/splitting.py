"""Limits of 0 / 0: a second run of a function with values that coincide set apart by an infinitesimal.

Some rules divide by differences of values, such as gaps of eigenvalues, and the quotient has a limit where two of them
coincide, though neither the cotangents nor the tangents at that point tell it: ``V f(w) V^H`` is smooth where two
eigenvalues are equal, and its derivative there needs f', which the pullback of f has multiplied by zero.

A rule that meets such a quotient returns NaN and notes it (`undetermined`). The transforms then run the function again,
`apart`: results that coincide are given out as ``w + k eps``, with a different k for each (`split`), as Duals of a
level below all others. What depends on them carries an infinitesimal part along, and the rule finds its quotient as
``(0 + n eps) / (0 + k eps) = n / k``. For reverse mode the standard part of the gradient is the derivative. A tangent
may become infinite on the way (``n / eps``); so forward mode multiplies tangents by eps from the start (`seed`), and
the derivative is the infinitesimal part of the result.

The standard parts are those of the plain run. At other points, and in the eager mode, none of this takes place.
"""

import contextvars

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.spec import spec_of, zeros_of

LEVEL = 0.125  # below the Duals made by hand, which are below all else

events = 0  # how many quotients were undetermined so far, in the whole process
_apart = contextvars.ContextVar("chainrule_apart", default=False)


def undetermined():
    """Note that a rule returned NaN for a quotient that may have a limit."""
    global events
    events += 1


class apart:
    """Context of the second run."""

    __slots__ = ("token",)

    def __enter__(self):
        self.token = _apart.set(True)

    def __exit__(self, *exc):
        _apart.reset(self.token)


def is_apart():
    """Tell whether this is the second run."""
    return _apart.get()


def split(x, k):
    """Return ``x + k eps`` in the second run, `x` else."""
    if not _apart.get():
        return x
    k = np.broadcast_to(k, x.shape).astype(value(x).dtype)
    return x + make_dual(np.zeros_like(k), k, LEVEL)


def parts(x):
    """Return the standard and the infinitesimal part in the second run; None in a plain one, and for other boxes."""
    if not _apart.get():
        return None
    if not isinstance(x, Boxed):
        return x, zeros_of(x)
    if x.__class__ is Dual and x.level == LEVEL:
        return x.data, x.aux
    return None


def standard(x):
    """Return a value without its infinitesimal part."""
    return x.data if x.__class__ is Dual and x.level == LEVEL else x


def agree(found, expected):
    """Tell whether the values of the second run are those of the first, NaN apart, up to half of their digits."""
    for y, z in zip(found, expected, strict=True):
        y = standard(y)
        with np.errstate(invalid="ignore"):
            gap = np.where((y == z) | (z != z), 0, abs(y - z))
        size = np.max(abs(np.where(np.isfinite(z), z, 0)), initial=0)
        eps = np.finfo(spec_of(z).dtype).eps if spec_of(z).kind in "fc" and spec_of(z).dtype else 1e-15
        if not np.max(gap, initial=0) <= 8 * eps**0.5 * size:
            return False
    return True


def mended(found, expected):
    """Return a value of the first run, with NaN replaced by what the second gave: an inner transform had no second."""
    return np.where(expected != expected, standard(found), expected)[()] if np.any(expected != expected) else expected


def better(second, first):
    """Tell whether the derivatives of the second run are to be taken: not if the first are finite, and not alike.

    Near coinciding values both are finite, and those of the first run have lost digits.
    """
    for b, a in zip(second, first, strict=True):
        if np.isfinite(a).all():
            eps = np.finfo(spec_of(a).dtype or float).eps
            if not np.max(abs(b - a), initial=0) <= 0.05 * np.max(abs(a), initial=0) + eps**0.5:
                return False
    return True


def seed(tangent):
    """Return a tangent times eps."""
    return make_dual(zeros_of(tangent), tangent, LEVEL)


def over_eps(tangent):
    """Return a tangent divided by eps: NaN where that is infinite."""
    if tangent.__class__ is Dual and tangent.level == LEVEL:
        infinite, finite = tangent.data, tangent.aux
    else:
        infinite, finite = tangent, zeros_of(tangent)
    size = max(float(np.max(abs(finite), initial=0)), 1.0)
    rounding = np.finfo(spec_of(finite).dtype or float).eps ** 0.5
    infinite = ~(abs(infinite) <= rounding * size)
    return np.where(infinite, np.nan, finite).astype(spec_of(finite).dtype)[()] if np.any(infinite) else finite
