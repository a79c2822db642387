"""Functions that need a family of their own for their derivatives: sinc, and the modified Bessel function i0.

The partial derivative of a member is the next member, so every order is exact, also at 0, where the closed forms
divide by it. No other function is needed, and nothing is differentiated term by term.
"""

import math

import numpy as np

from chainrule.engine.rule import elementwise, rule
from chainrule.engine.spec import primitive


@primitive
def sinc_derivative(x, n):
    """Return the n-th derivative of sin(pi x) / (pi x).

    With t = pi x, let S be sin(t) / t. Differentiating t S(t) = sin(t) gives t S_n + n S_(n-1) = sin(t + n pi / 2):
    used upwards where |t| is large. Near 0 that recurrence loses digits, and the power series is used.
    """
    t = np.pi * np.asarray(x)
    small = np.abs(t) < max(1.0, n / 2)
    large = np.where(small, 1, t)
    s = np.sin(large) / large
    for k in range(1, n + 1):
        s = (_sine_derivative(large, k) - k * s) / large
    near = np.where(small, t, 0)
    y = np.where(small, _sinc_series(near, n), s) * math.pi**n
    return y[()]


def _sine_derivative(t, k):
    """Return the k-th derivative of sin."""
    return (np.sin(t), np.cos(t), -np.sin(t), -np.cos(t))[k % 4]


def _sinc_series(t, n):
    """Sum the n-th derivative of the power series of sin(t) / t, whose terms are (-1)**k t**(2k) / (2k + 1)!."""
    total = np.zeros_like(t)
    first = (n + 1) // 2  # terms of lower power than n are gone
    for k in range(first + 12 + n, first - 1, -1):
        power = 2 * k - n
        total = total + (-1) ** k / ((2 * k + 1) * math.factorial(power)) * t**power
    return total


@primitive
def bessel_derivative(x, n):
    """Return the n-th derivative of the modified Bessel function I0.

    I0(x) is the mean of exp(x cos(u)) over the circle, so its derivatives are those of cos(u)**n cosh(x cos(u)), or
    sinh for odd n. All values over a quarter of the circle have one sign, so nothing cancels; the mean over equidistant
    points converges faster than any power of their number.
    """
    x = np.asarray(x)
    largest = float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
    count = 4 + (n + int(9 * math.sqrt(largest))) // 4 + 4  # points on a quarter of the circle
    total = np.zeros_like(x)
    for j in range(count):
        c = math.cos((j + 0.5) * math.pi / (2 * count))
        total = total + c**n * (np.sinh(x * c) if n % 2 else np.cosh(x * c))
    return (total / count)[()]


elementwise(np.sinc, lambda y, x: sinc_derivative(x, n=1))
elementwise(np.i0, lambda y, x: bessel_derivative(x, n=1), complex=False)


def next_sinc(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * sinc_derivative(x, n=n + 1)


def next_bessel(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * bessel_derivative(x, n=n + 1)


rule(sinc_derivative, jvp=next_sinc, vjp=next_sinc)
rule(bessel_derivative, jvp=next_bessel, vjp=next_bessel, complex=False)
