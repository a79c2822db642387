"""Derivative rules of functions defined as integrals or by a power series: exponential, sine and Fresnel integrals,
elliptic integrals, hypergeometric functions, and Lambert's function.

Quotients that are 0/0 at a point are written as hypergeometric functions, whose derivatives are of the same family.
"""

import math

import numpy as np
from scipy import special
from scipy.special import _ufuncs

from chainrule.engine.boxed import array_value
from chainrule.engine.rule import composite, elementwise
from chainrule.engine.spec import primitive
from chainrule.rules.special.common import at, fixed, masked, typed

LAMBERTW = _ufuncs._lambertw  # scipy.special.lambertw is a function around it


def part(fun, k):
    """Return the function that gives one of the two results of `fun`: each is differentiated by itself.

    So at 0, where the second of some pairs is infinite, the first has its finite derivative.
    """

    def call(x):
        return fun(x)[k]

    call.__name__ = f"{fun.__name__}_{k}"
    call.__doc__ = f"Return result {k} of scipy.special.{fun.__name__}."
    return primitive(call)


def pair(fun, first, second, domain):
    """Declare a function of one operand with two results by their derivatives; `domain` is that of the second."""
    parts = part(fun, 0), part(fun, 1)
    elementwise(parts[0], first)
    elementwise(parts[1], second, domain=domain)

    @composite(fun)
    def call(x, /):
        return parts[0](x), parts[1](x)


def expn_dx(y, n, x):
    """Return -E_(n-1)(x); E_0(x) = e**-x / x has a formula of its own, since SciPy knows no order below it."""
    zero = array_value(n) == 0
    return masked(
        zero,
        lambda: -np.exp(-x) * (1 + x) / (x * x),
        lambda: -special.expn(np.where(zero, 0, n - 1) if np.any(zero) else n - 1, x),
    )


def spence_dx(y, x):
    """Return log(x) / (1 - x), near its removable singularity by the power series of 2F1(1, 1, 2, 1 - x)."""
    near = np.abs(1 - array_value(x)) < 0.5

    def away():
        z = at(np.logical_not(near), x, 2.0)
        return np.log(z) / (1 - z)

    return masked(near, lambda: typed(-special.hyp2f1(1.0, 1.0, 2.0, 1 - at(near, x, 1.0)), y), away)


def ellipse(m, phi):
    """Return sqrt(1 - m sin(phi)**2)."""
    s = np.sin(phi)
    return np.sqrt(1 - m * s * s)


# fmt: off
pair(special.sici,    lambda y, x: np.sinc(x / math.pi),                lambda y, x: np.cos(x) / x,    domain=(0.3, 3))
pair(special.shichi,  lambda y, x: typed(special.hyp0f1(1.5, 0.25 * x * x), y), lambda y, x: np.cosh(x) / x,
     domain=(0.3, 3))
pair(special.fresnel, lambda y, x: np.sin(0.5 * math.pi * x * x), lambda y, x: np.cos(0.5 * math.pi * x * x),
     domain=None)
elementwise(special.exp1,    lambda y, x: -np.exp(-x) / x,           domain=(0.3, 3))
elementwise(special.expi,    lambda y, x: np.exp(x) / x,             domain=(0.3, 3))
elementwise(special.expn,    fixed("expn", "n"), expn_dx,            domain=(None, (0.3, 3)), complex=False)
elementwise(special.spence,  spence_dx,                              domain=(0.3, 1.9))

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
