"""Derivative rules of the Bessel functions and their relatives, in the argument; in the order there is no closed form.

The derivative is half the difference (or sum) of the two neighbouring orders ([DLMF]_ 10.6, 10.29). The exponentially
scaled I and K fall off like 1/sqrt(x), so that the same formula cancels: far out their asymptotic series is
differentiated ([DLMF]_ 10.40).

.. [DLMF] NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov, chapters 9 and 10.
"""

import math

import numpy as np
from scipy import special

from chainrule.engine.boxed import value
from chainrule.engine.rule import elementwise, rule
from chainrule.engine.spec import primitive, shape_of, spec_of, spread_to
from chainrule.errors import NotDifferentiableError
from chainrule.rules.special.common import doubled, fixed

FAR = 40.0  # from here on (and beyond the square of the order) 25 terms of the asymptotic series have all digits
TERMS = 25


def scaled_tail(v, x, n, sign, scale):
    """Return the n-th derivative of scale sum_k sign**k a_k(v) / x**(k + 1/2), at large x."""
    total = np.zeros_like(x)
    a, power = np.ones_like(v), -0.5
    for k in range(TERMS):
        falling = math.prod(power - j for j in range(n))
        total = total + a * falling * x ** (power - n)
        a = a * sign * (4 * v * v - (2 * k + 1) ** 2) / (8 * (k + 1))
        power -= 1
    return scale * total


def ladder(fun, v, x, n, plus, rate):
    """Return the n-th derivative of e**(rate x) F(x) = ``fun``, where F_v' = plus[0] F_(v-1) + plus[1] F_(v+1)."""
    total = 0
    for j in range(n + 1):
        for i in range(j + 1):
            weight = math.comb(n, j) * rate ** (n - j) * math.comb(j, i) * plus[0] ** (j - i) * plus[1] ** i
            total = total + weight * fun(v - j + 2 * i, x)
    return total


def _far(v, x, fun, n, plus, rate, sign, scale):
    """Return a derivative by the ladder, far out by the series."""
    with np.errstate(all="ignore"):
        y = ladder(fun, v, x, n, plus, rate)
        far = x.real > np.maximum(FAR, 2 * v * v)
        if np.any(far):
            z = np.where(far, x, np.maximum(FAR, 2 * v * v)).astype(y.dtype)
            y = np.where(far, scaled_tail(np.broadcast_to(v, z.shape).astype(y.real.dtype), z, n, sign, scale), y)
    return y


@primitive
def ive_derivative(x, v, n):
    """Return the n-th derivative of ive(v, x) = iv(v, x) e**-|x| for real x; the mean of both sides at the kink 0."""
    (x, dtype), v = doubled(x), np.asarray(v, float)
    rates = np.sign(x)
    right = _far(v, np.abs(x), special.ive, n, (0.5, 0.5), -1.0, -1, 1 / math.sqrt(2 * math.pi))
    if np.all(rates > 0):
        return right.astype(dtype)[()]
    parity = np.where(v % 2 == 0, 1.0, -1.0) * (-1) ** n
    left = np.where(v == np.floor(v), right * parity, np.nan)  # a negative x has a value for integer orders only
    y = np.where(rates > 0, right, np.where(rates < 0, left, (right + left) / 2))
    return y.astype(dtype)[()]


@primitive
def kve_derivative(x, v, n):
    """Return the n-th derivative of kve(v, x) = kv(v, x) e**x."""
    (x, dtype), v = doubled(x), np.asarray(v, float)
    return _far(v, x, special.kve, n, (-0.5, -0.5), 1.0, 1, math.sqrt(math.pi / 2)).astype(dtype)[()]


def _declare(family, complex):
    """Declare that each member's derivative is the next member; x has the shape that it has with `v`."""

    def following(xdot, y, x, v=0, n=1):
        return xdot * family(x, v=v, n=n + 1)

    rule(family, jvp=following, vjp=following, complex=complex, entrywise=True)


_declare(ive_derivative, complex=False)
_declare(kve_derivative, complex=True)


def ive_dx(y, v, x):
    """Differentiate; of a complex number |Re x| has no derivative."""
    if spec_of(x).kind == "c":
        raise NotDifferentiableError(
            "scipy.special.ive of a complex number has no derivative: it is scaled by |Re x|.",
            "write  scipy.special.iv(v, x) * np.exp(-x).",
        )
    return ive_derivative(spread_to(x, shape_of(y)), v=value(v), n=1)


def kve_dx(y, v, x):
    """Differentiate."""
    return kve_derivative(spread_to(x, shape_of(y)), v=value(v), n=1)


def airy_jvp(xdot, y, x):
    """Return the derivatives of Ai, Ai', Bi, Bi': both solve y'' = x y."""
    a, da, b, db = y
    return da * xdot, x * a * xdot, db * xdot, x * b * xdot


def airy_vjp(ybar, y, x):
    """Add up the same."""
    a, da, b, db = y
    abar, dabar, bbar, dbbar = ybar
    return abar * da + dabar * (x * a) + bbar * db + dbbar * (x * b)


rule(special.airy, jvp=airy_jvp, vjp=airy_vjp)


def neighbours(fun, lower, upper):
    """Return the derivative of fun(v, x) in x: ``lower`` and ``upper`` times the functions of the next orders."""

    def partial(y, v, x):
        return lower * fun(v - 1, x) + upper * fun(v + 1, x)

    return partial


OFF_ZERO = (0.4, 3)
ORDERED = {"domain": (None, OFF_ZERO)}  # the tests take no derivative in the order

# fmt: off
elementwise(special.jv,      fixed("jv", "v"),      neighbours(special.jv, 0.5, -0.5),       **ORDERED)
elementwise(special.yv,      fixed("yv", "v"),      neighbours(special.yv, 0.5, -0.5),       **ORDERED)
elementwise(special.iv,      fixed("iv", "v"),      neighbours(special.iv, 0.5, 0.5),        **ORDERED)
elementwise(special.kv,      fixed("kv", "v"),      neighbours(special.kv, -0.5, -0.5),      **ORDERED)
elementwise(special.yn,      fixed("yn", "n"),      neighbours(special.yv, 0.5, -0.5),       **ORDERED)
elementwise(special.kn,      fixed("kn", "n"),      neighbours(special.kv, -0.5, -0.5),      **ORDERED)
elementwise(special.hankel1, fixed("hankel1", "v"), neighbours(special.hankel1, 0.5, -0.5),  **ORDERED)
elementwise(special.hankel2, fixed("hankel2", "v"), neighbours(special.hankel2, 0.5, -0.5),  **ORDERED)
elementwise(special.ive,     fixed("ive", "v"),     ive_dx,                                  **ORDERED, complex=False)
elementwise(special.kve,     fixed("kve", "v"),     kve_dx,                                  **ORDERED)

elementwise(special.j0,  lambda y, x: -special.j1(x),                       complex=False)
elementwise(special.j1,  lambda y, x: 0.5 * (special.j0(x) - special.jv(2, x)), complex=False)
elementwise(special.y0,  lambda y, x: -special.y1(x),                       domain=OFF_ZERO, complex=False)
elementwise(special.y1,  lambda y, x: 0.5 * (special.y0(x) - special.yv(2, x)), domain=OFF_ZERO, complex=False)
elementwise(special.i0,  lambda y, x: special.i1(x),                        complex=False)
elementwise(special.i1,  lambda y, x: 0.5 * (special.i0(x) + special.iv(2, x)), complex=False)
elementwise(special.k0,  lambda y, x: -special.k1(x),                       domain=OFF_ZERO, complex=False)
elementwise(special.k1,  lambda y, x: -0.5 * (special.k0(x) + special.kv(2, x)), domain=OFF_ZERO, complex=False)
elementwise(special.i0e, lambda y, x: ive_derivative(x, v=0, n=1),          domain=OFF_ZERO, complex=False)
elementwise(special.i1e, lambda y, x: ive_derivative(x, v=1, n=1),          domain=OFF_ZERO, complex=False)
elementwise(special.k0e, lambda y, x: kve_derivative(x, v=0, n=1),          domain=OFF_ZERO, complex=False)
elementwise(special.k1e, lambda y, x: kve_derivative(x, v=1, n=1),          domain=OFF_ZERO, complex=False)
# fmt: on
