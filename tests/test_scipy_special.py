"""The ufuncs of scipy.special, at the points where formulas lose digits: compared with mpmath's many digits.

Their rules at ordinary points are walked through by test_rules, as all others are.
"""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
from mpmath import mp
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule.errors import NoRuleError, NotDifferentiableError, UnsupportedArgumentError

special = pytest.importorskip("scipy.special")
mp.dps = 100


def ncdf(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def erfcx(x):
    return mpmath.exp(x * x) * mpmath.erfc(x)


def dawsn(x):
    return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


def expit(x):
    return 1 / (1 + mpmath.exp(-x))


def boxcox(lmbda):
    return lambda x: mpmath.log(x) if lmbda == 0 else (mpmath.power(x, lmbda) - 1) / lmbda


def trigamma_series(x):
    return mpmath.psi(0, x)


# name, the function, the same in mpmath, points, tolerance of the first and of the second derivative
# fmt: off
POINTS = [
    ("erf", special.erf, mpmath.erf, [0.0, 0.5, -3.0, 8.0], 1e-13, 1e-13),
    ("erfc", special.erfc, mpmath.erfc, [0.0, -5.0, 10.0, 26.0], 1e-13, 1e-13),
    ("erfcx", special.erfcx, erfcx, [-3.0, 0.0, 1.0, 6.9, 7.1, 50.0, 1e4, 1e8], 1e-13, 1e-11),
    ("erfi", special.erfi, mpmath.erfi, [0.0, 3.0, -5.0], 1e-13, 1e-13),
    ("dawsn", special.dawsn, dawsn, [0.0, 0.3, -2.0, 6.9, 7.1, -1e3, 1e7], 1e-12, 1e-10),
    ("erfinv", special.erfinv, mpmath.erfinv, [0.0, 0.5, -0.999999, 1e-20], 1e-12, 1e-12),
    ("ndtr", special.ndtr, ncdf, [0.0, -10.0, 8.0, -37.0], 1e-12, 1e-12),
    ("log_ndtr", special.log_ndtr, lambda x: mpmath.log(ncdf(x)),
     [-1e6, -1e4, -100.0, -5.0, -0.1, 0.1, 5.0, 12.0], 1e-12, 1e-11),
    ("expit", special.expit, expit, [-700.0, -30.0, 0.0, 30.0, 40.0], 1e-13, 1e-13),
    ("log_expit", special.log_expit, lambda x: mpmath.log(expit(x)), [-1000.0, -30.0, 0.0, 30.0], 1e-13, 1e-13),
    ("logit", special.logit, lambda x: mpmath.log(x / (1 - x)), [1e-300, 1e-9, 0.4, 0.999999], 1e-13, 1e-12),
    ("gamma", special.gamma, mpmath.gamma, [0.1, 1.0, 5.5, 120.0, -0.5, -3.3], 1e-12, 1e-11),
    ("rgamma", special.rgamma, mpmath.rgamma, [-3.0, -1.0, 0.0, -0.4, 0.49, 0.51, 3.0, -8.0], 1e-12, 1e-11),
    ("gammaln", special.gammaln, mpmath.loggamma, [1e-8, 0.5, 1.0, 2.0, 1e8], 1e-12, 1e-12),
    ("psi", special.psi, trigamma_series, [1e-6, 1.4616321449683623, 30.0, 1e9, -0.5, -3.3], 1e-12, 1e-11),
    ("exprel", special.exprel, lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1),
     [1e-9, 1e-3, -3.0, 20.0, -40.0], 1e-12, 1e-12),
    ("cosm1", special.cosm1, lambda x: mpmath.cos(x) - 1, [0.0, 1e-10, 2.0], 1e-13, 1e-13),
    ("entr", special.entr, lambda x: -x * mpmath.log(x), [1e-300, 0.3679, 5.0], 1e-12, 1e-13),
    ("spence", special.spence, lambda x: mpmath.polylog(2, 1 - x), [1e-3, 0.999999, 1.000001, 1.5], 1e-12, 1e-9),
    ("ellipk", special.ellipk, mpmath.ellipk, [-5.0, -1e-9, 0.0, 1e-9, 0.5, 0.99], 1e-12, 1e-11),
    ("ellipe", special.ellipe, mpmath.ellipe, [-5.0, -1e-9, 0.0, 1e-9, 0.5, 0.99], 1e-12, 1e-11),
    ("i0e", special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-x),
     [0.5, 10.0, 39.0, 41.0, 1e3, 1e6], 1e-12, 1e-10),
    ("ive", lambda x: special.ive(2.5, x), lambda x: mpmath.besseli(2.5, x) * mpmath.exp(-x),
     [0.5, 39.0, 1e3], 1e-12, 1e-10),
    ("k1e", special.k1e, lambda x: mpmath.besselk(1, x) * mpmath.exp(x), [0.5, 39.0, 41.0, 1e3, 1e6], 1e-12, 1e-10),
    ("jv", lambda x: special.jv(1, x), lambda x: mpmath.besselj(1, x), [0.0, 1e-8, 2.0, 50.0], 1e-12, 1e-11),
    ("j1", special.j1, lambda x: mpmath.besselj(1, x), [0.0, 1e-8, 2.0, 50.0], 1e-12, 1e-11),
    ("kv", lambda x: special.kv(1.5, x), lambda x: mpmath.besselk(1.5, x), [1e-3, 2.0, 100.0], 1e-12, 1e-12),
    ("exp1", special.exp1, mpmath.e1, [1e-5, 1.0, 50.0], 1e-12, 1e-12),
    ("expn", lambda x: special.expn(3, x), lambda x: mpmath.expint(3, x), [0.2, 1.0, 10.0], 1e-12, 1e-12),
    ("sici", lambda x: special.sici(x)[0], mpmath.si, [0.0, 1e-6, 2.0, 40.0], 1e-12, 1e-10),
    ("shichi", lambda x: special.shichi(x)[0], mpmath.shi, [0.0, 1e-6, 2.0, 40.0], 1e-12, 1e-11),
    ("fresnel", lambda x: special.fresnel(x)[1], mpmath.fresnelc, [0.0, 0.5, 2.5], 1e-12, 1e-12),
    ("gammainc", lambda x: special.gammainc(2.0, x), lambda x: mpmath.gammainc(2, 0, x, regularized=True),
     [0.5, 40.0], 1e-12, 1e-12),
    ("gammaincc", lambda x: special.gammaincc(500.0, x), lambda x: mpmath.gammainc(500, x, regularized=True),
     [400.0, 500.0], 1e-11, 1e-10),
    ("boxcox 0", lambda x: special.boxcox(x, 0.0), boxcox(0), [0.1, 3.0], 1e-13, 1e-13),
    ("boxcox of lmbda", lambda lm: special.boxcox(3.0, lm), lambda lm: boxcox(lm)(mpmath.mpf(3)),
     [1e-12, 1e-3, -2.0, 4.0], 1e-12, 1e-11),
    ("lambertw", lambda x: np.real(special.lambertw(x)), lambda x: mpmath.lambertw(x).real,
     [0.0, 1e-10, -0.3, 1.0, 1e10], 1e-12, 1e-11),
    ("wrightomega", special.wrightomega, lambda x: mpmath.lambertw(mpmath.exp(x)), [-50.0, 0.0, 1e3], 1e-12, 1e-12),
]
# fmt: on


@pytest.mark.parametrize(("f", "g", "xs", "rtol", "rtol2"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS])
def test_derivatives_keep_their_digits(f, g, xs, rtol, rtol2):
    for x in xs:
        h = mpmath.mpf(10) ** -20 * (abs(mpmath.mpf(x)) or 1)
        atol = 0 if x else 1e-35  # the error of the difference, where the derivative is 0
        first = (g(mpmath.mpf(x) + h) - g(mpmath.mpf(x) - h)) / (2 * h)
        second = (g(mpmath.mpf(x) + h) - 2 * g(mpmath.mpf(x)) + g(mpmath.mpf(x) - h)) / h**2
        found = cr.value_and_grad(cr.grad(f))(x)
        assert_allclose(found[0], float(first), rtol=rtol, atol=atol, err_msg=f"first derivative at {x}")
        assert_allclose(found[1], float(second), rtol=rtol2, atol=atol, err_msg=f"second derivative at {x}")
        forward = cr.jvp(lambda t: cr.jvp(f, (t,), (1.0,))[1], (x,), (1.0,))
        assert_allclose(forward, found, rtol=1e-10, atol=atol)
