"""Derivative rules of complex numbers and their parts: conj, real, imag, abs, sign, angle.

These are linear over the reals only. Adjoints are plain transposes: for a real function of z = x + iy the cotangent of
z is df/dx - i df/dy, so that of ``real(z)`` is passed on as it is, that of ``imag(z)`` times -i, and that of
``conj(z)`` conjugated. A real part that NumPy makes a view of its array is a view of the traced array as well.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.rule import RULES, composite, elementwise, linear
from chainrule.engine.spec import primitive, real_part, spec_of
from chainrule.engine.views import noted
from chainrule.engine.writes import WRITE_BACK
from chainrule.rules.elementwise import reciprocal_or_zero


@primitive
def imag_part(x):
    """Return the imaginary part."""
    return x.imag


linear(np.conjugate, lambda ybar, y, x: np.conj(ybar))
linear(imag_part, lambda ybar, y, x: -1j * ybar)


@composite(np.real)
def real(val):
    """Take the real part. A real array is its own, as in NumPy."""
    if spec_of(val).kind != "c":
        return val
    return noted(real_part(val), val, RULES[real_part], {}) if isinstance(val, Boxed) else val.real


@composite(np.imag)
def imag(val):
    """Take the imaginary part. That of a real array is constant."""
    if spec_of(val).kind != "c":
        return value(val).imag
    return noted(imag_part(val), val, RULES[imag_part], {}) if isinstance(val, Boxed) else val.imag


# What a write into a view of the real or imaginary part makes of the complex array.
WRITE_BACK[real_part] = lambda z, x: x + 1j * imag_part(z)
WRITE_BACK[imag_part] = lambda z, y: real_part(z) + 1j * y


def absolute_dx(y, x):
    """conj(x) / |x|, for real x its sign; 0 at 0."""
    return np.conj(np.sign(x)) if spec_of(x).kind == "c" else np.sign(x)


elementwise(np.absolute, absolute_dx)


@composite(np.sign)
def sign(x, /):
    """Return x / |x|, and 0 at 0: a constant for real x."""
    if spec_of(x).kind != "c":
        return np.sign(value(x))
    return x * reciprocal_or_zero(np.absolute(x))


@composite(np.angle)
def angle(z, deg=False):
    """Take the angle of the plane that z points to: 0 or pi, a constant, for real z."""
    y = np.arctan2(np.imag(z), np.real(z)) if spec_of(z).kind == "c" else np.arctan2(0, value(z))
    return y * (180 / np.pi) if deg else y


@composite(np.real_if_close)
def real_if_close(a, tol=100):
    """Drop the imaginary parts if all are close to 0."""
    if spec_of(a).kind != "c" or np.iscomplexobj(np.real_if_close(value(a), tol)):
        return a
    return np.real(a)
