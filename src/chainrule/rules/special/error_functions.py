"""Derivative rules of the error function and its relatives, and of the normal distribution's.

Scaled functions fall off like 1/x, and their derivatives, written with the functions themselves, are differences of
nearly equal numbers: far out these are summed as asymptotic series ([DLMF]_ 7.12) instead.

.. [DLMF] NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov, chapter 7.
"""

import math

import numpy as np
from scipy import special

from chainrule.engine.boxed import array_value
from chainrule.engine.rule import elementwise, rule
from chainrule.engine.spec import primitive
from chainrule.rules.elementwise import bounded
from chainrule.rules.special.common import SQRT_2, SQRT_2PI, SQRT_PI, at, doubled, masked

FAR = 7.0  # from here on 20 terms of the asymptotic series have all digits
TERMS = 20


def tail(x, n, sign):
    """Return the n-th derivative of sum_k sign**k (2k-1)!! / 2**k / x**(2k+1), at large x."""
    u = 1 / x
    q = u * u
    coefficients = [float(math.factorial(n))]
    for k in range(TERMS - 1):
        coefficients.append(coefficients[-1] * sign * (2 * k + 1 + n) * (2 * k + 2 + n) / (4 * k + 4))
    total = np.zeros_like(q)
    for c in reversed(coefficients):
        total = total * q + c
    return (-u) ** n * u * total


@primitive
def erfcx_derivative(x, n):
    """Return the n-th derivative of erfcx, by w' = 2 x w - 2/sqrt(pi) and n more derivatives of that."""
    x, dtype = doubled(x)
    with np.errstate(all="ignore"):
        before, y = special.erfcx(x), 2 * x * special.erfcx(x) - 2 / SQRT_PI
        for k in range(1, n):
            before, y = y, 2 * x * y + 2 * k * before
        far = (x.real > 0) & (np.abs(x) > FAR)
        if far.any():
            y = np.where(far, tail(np.where(far, x, x.dtype.type(FAR)), n, -1) / SQRT_PI, y)
    return y.astype(dtype)[()]


@primitive
def dawsn_derivative(x, n):
    """Return the n-th derivative of Dawson's integral, by D' = 1 - 2 x D and n more derivatives of that."""
    x, dtype = doubled(x)
    with np.errstate(all="ignore"):
        before, y = special.dawsn(x), 1 - 2 * x * special.dawsn(x)
        for k in range(1, n):
            before, y = y, -2 * x * y - 2 * k * before
        far = x.real**2 - x.imag**2 > FAR**2
        if far.any():
            y = np.where(far, tail(np.where(far, x, x.dtype.type(FAR)), n, 1) / 2, y)
    return y.astype(dtype)[()]


def next_erfcx(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * erfcx_derivative(x, n=n + 1)


def next_dawsn(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * dawsn_derivative(x, n=n + 1)


rule(erfcx_derivative, jvp=next_erfcx, vjp=next_erfcx, entrywise=True)
rule(dawsn_derivative, jvp=next_dawsn, vjp=next_dawsn, entrywise=True)


@primitive
def hazard(x):
    """Return pdf(x) / cdf(x) of the normal distribution: the derivative of its log cdf."""
    with np.errstate(all="ignore"):
        return 2 / SQRT_2PI / special.erfcx(-x / SQRT_2)


@primitive
def hazard_gap(x):
    """Return x + hazard(x), which falls off like -1/x far below 0: -w'/w / sqrt(2), w = erfcx at t = -x / sqrt(2)."""
    with np.errstate(all="ignore"):
        low = np.asarray(x).real < 0
        t = np.where(low, -x / SQRT_2, 1).astype(np.asarray(x).dtype)
        return np.where(low, -erfcx_derivative(t, n=1) / special.erfcx(t) / SQRT_2, x + hazard(x))[()]


def hazard_gap_dx(y, x):
    """Return 1 - hazard(x) hazard_gap(x); below 0, where that cancels, (w''/w - (w'/w)**2) / 2."""
    low = array_value(x).real < 0
    t = -at(low, x, -1.0) / SQRT_2

    def below():
        w = special.erfcx(t)
        slope = erfcx_derivative(t, n=1) / w
        return 0.5 * (erfcx_derivative(t, n=2) / w - slope * slope)

    return masked(low, below, lambda: 1 - hazard(x) * y)


def density(x):
    """Return the density of the normal distribution."""
    return np.exp(-0.5 * x * x) / SQRT_2PI


# fmt: off
elementwise(special.erf,      lambda y, x: 2 / SQRT_PI * np.exp(-x * x))
elementwise(special.erfc,     lambda y, x: -2 / SQRT_PI * np.exp(-x * x))
elementwise(special.erfi,     lambda y, x: 2 / SQRT_PI * bounded(np.exp(x * x)))
elementwise(special.erfcx,    lambda y, x: erfcx_derivative(x, n=1))
elementwise(special.dawsn,    lambda y, x: dawsn_derivative(x, n=1))
elementwise(special.wofz,     lambda y, x: -1j * erfcx_derivative(-1j * x, n=1))     # w(z) = erfcx(-iz)
elementwise(special.erfinv,   lambda y, x: 0.5 * SQRT_PI * np.exp(y * y),            domain=(-0.9, 0.9), complex=False)
elementwise(special.erfcinv,  lambda y, x: -0.5 * SQRT_PI * np.exp(y * y),           domain=(0.1, 1.9), complex=False)
elementwise(special.ndtr,     lambda y, x: density(x))
elementwise(special.log_ndtr, lambda y, x: hazard(x))
elementwise(hazard,           lambda y, x: -y * hazard_gap(x))
elementwise(hazard_gap,       hazard_gap_dx)
elementwise(special.ndtri,    lambda y, x: SQRT_2PI * np.exp(0.5 * y * y),           domain=(0.05, 0.95), complex=False)
elementwise(special.ndtri_exp, lambda y, x: 1 / hazard(y),                           domain=(-3, -0.1), complex=False)
# Owen's T(h, a): the derivatives of its defining integral
elementwise(special.owens_t,  lambda y, h, a: -0.5 * density(h) * special.erf(a * h / SQRT_2),
            lambda y, h, a: np.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)), complex=False)
# fmt: on
