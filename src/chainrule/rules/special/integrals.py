"""Derivative rules of functions defined as integrals or by a power series: exponential, sine and Fresnel integrals,
elliptic integrals, hypergeometric functions, and Lambert's function.

Quotients that are 0/0 at a point are written as hypergeometric functions, whose derivatives are of the same family.
"""

import math

import numpy as np
from scipy import special
from scipy.special import _ufuncs

from chainrule.engine.boxed import value
from chainrule.engine.rule import elementwise, rule
from chainrule.engine.spec import spec_of
from chainrule.rules.special.common import fixed, masked, typed

LAMBERTW = _ufuncs._lambertw  # scipy.special.lambertw is a function around it


def pair(fun, first, second, domain=None):
    """Declare a function of one operand with two results by the derivatives ``first(x)`` and ``second(x)``."""

    def jvp(xdot, y, x):
        return first(x) * xdot, second(x) * xdot

    def vjp(ybar, y, x):
        return sum((ybar[k] * slope(x) for k, slope in zip(range(len(y)), (first, second), strict=True)), start=0)

    rule(fun, jvp=jvp, vjp=vjp, domain=domain)


def expn_dx(y, n, x):
    """Return -E_(n-1)(x); E_0(x) = e**-x / x has a formula of its own, since SciPy knows no order below it."""
    zero = np.asarray(value(n)) == 0
    return masked(
        zero,
        lambda: -np.exp(-x) * (1 + x) / (x * x),
        lambda: -special.expn(np.where(zero, 0, n - 1) if np.any(zero) else n - 1, x),
    )


def sinhc(x):
    """Return sinh(x) / x; exprel has all digits, but takes real numbers only."""
    if spec_of(x).kind == "c":
        return np.sinc(1j / math.pi * x)
    return 0.5 * (special.exprel(x) + special.exprel(-x))


def ellipse(m, phi):
    """Return sqrt(1 - m sin(phi)**2)."""
    s = np.sin(phi)
    return np.sqrt(1 - m * s * s)


# fmt: off
pair(special.sici,    lambda x: np.sinc(x / math.pi),                         lambda x: np.cos(x) / x)
pair(special.shichi,  sinhc,                                                lambda x: np.cosh(x) / x)
pair(special.fresnel, lambda x: np.sin(0.5 * math.pi * x * x),                lambda x: np.cos(0.5 * math.pi * x * x))
elementwise(special.exp1,    lambda y, x: -np.exp(-x) / x,           domain=(0.3, 3))
elementwise(special.expi,    lambda y, x: np.exp(x) / x,             domain=(0.3, 3))
elementwise(special.expn,    fixed("expn", "n"), expn_dx,            domain=(None, (0.3, 3)), complex=False)
elementwise(special.spence,  lambda y, x: typed(-special.hyp2f1(1.0, 1.0, 2.0, 1 - x), y),
            domain=(0.3, 1.7))  # log(x) / (1 - x)

# -- elliptic ----------------------------------------------------------------------------------------------------------
elementwise(special.ellipk,  lambda y, m: typed(math.pi / 8 * special.hyp2f1(1.5, 1.5, 2.0, m), y),
            domain=(-0.8, 0.8), complex=False)
elementwise(special.ellipe,  lambda y, m: typed(-math.pi / 8 * special.hyp2f1(0.5, 1.5, 2.0, m), y),
            domain=(-0.8, 0.8), complex=False)
elementwise(special.ellipkinc, lambda y, phi, m: 1 / ellipse(m, phi), fixed("ellipkinc", "m"),
            domain=((-1.2, 1.2), None), complex=False)
elementwise(special.ellipeinc, lambda y, phi, m: ellipse(m, phi),    fixed("ellipeinc", "m"),
            domain=((-1.2, 1.2), None), complex=False)

# -- hypergeometric, in the argument -----------------------------------------------------------------------------------
elementwise(special.hyp0f1,  fixed("hyp0f1", "v"),                   lambda y, v, z: special.hyp0f1(v + 1, z) / v,
            domain=(None, (-2, 2)))
elementwise(special.hyp1f1,  fixed("hyp1f1", "a"), fixed("hyp1f1", "b"),
            lambda y, a, b, x: a / b * special.hyp1f1(a + 1, b + 1, x), domain=(None, None, (-2, 2)))
elementwise(special.hyperu,  fixed("hyperu", "a"), fixed("hyperu", "b"),
            lambda y, a, b, x: -a * special.hyperu(a + 1, b + 1, x), domain=(None, None, (0.3, 3)), complex=False)
elementwise(special.hyp2f1,  fixed("hyp2f1", "a"), fixed("hyp2f1", "b"), fixed("hyp2f1", "c"),
            lambda y, a, b, c, z: typed(a * b / c * special.hyp2f1(a + 1, b + 1, c + 1, z), y),
            domain=(None, None, None, (-0.8, 0.8)))

# -- w e**w = z; at z = 0, w = 0 the slope is 1 ------------------------------------------------------------------------
elementwise(LAMBERTW,        lambda y, z, k, tol: np.exp(-y) / (1 + y),
            fixed("lambertw", "k"), fixed("lambertw", "tol"),
            domain=((0.3, 3), None, None))
# fmt: on
