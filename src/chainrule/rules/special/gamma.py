"""Derivative rules of the gamma and beta functions, complete and incomplete, and of distributions made of them.

The polygamma functions are each other's derivatives. An incomplete gamma or beta function is differentiated in its
argument; in its parameters there is no closed form, and the rule says so. Densities are written so that they hold to
every order at the ends of their interval, too.
"""

import math

import numpy as np
from scipy import special
from scipy.special import _ufuncs

from chainrule.engine.boxed import array_value
from chainrule.engine.rule import elementwise, rule
from chainrule.engine.spec import primitive
from chainrule.errors import NoRuleError
from chainrule.rules.special.common import SQRT_PI, at, doubled, fixed, masked, typed

HURWITZ = _ufuncs._zeta  # zeta(s, q); scipy.special.zeta is a function around it
RIEMANN = _ufuncs._riemann_zeta
REMOTE = 20.0  # from here on 8 terms of Stirling's series have all digits
BERNOULLI = tuple(float(b) for b in special.bernoulli(16)[2::2])  # B2, B4, ... B16


# -- polygamma ---------------------------------------------------------------------------------------------------------


@primitive
def polygamma_of(x, n):
    """Return the n-th derivative of digamma, n >= 1: (-1)**(n+1) n! zeta(n+1, x)."""
    x = np.asarray(x)
    scale = -((-1.0) ** n) * math.factorial(n)
    y = complex_hurwitz(n + 1, x) if x.dtype.kind == "c" else HURWITZ(float(n + 1), x)
    return (scale * y)[()]


def complex_hurwitz(s, z):
    """Return zeta(s, z) for an integer s > 1 and complex z, by the Euler-Maclaurin formula behind Re z = 20."""
    low = float(np.min(z.real, initial=REMOTE))
    if low < -1000:
        raise NoRuleError("scipy.special.digamma", " at complex numbers of real part below -1000")
    total = np.zeros_like(z)
    for _ in range(math.ceil(REMOTE - low)):
        total = total + z ** (-s)
        z = z + 1
    total = total + z ** (1 - s) / (s - 1) + 0.5 * z ** (-s)
    factor = float(s)
    for j, b in enumerate(BERNOULLI, start=1):  # B2j / (2j)! s (s+1) ... (s+2j-2) z**(-s-2j+1)
        total = total + b / math.factorial(2 * j) * factor * z ** (1 - s - 2 * j)
        factor *= (s + 2 * j - 1) * (s + 2 * j)
    return total


def next_polygamma(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * polygamma_of(x, n=n + 1)


rule(polygamma_of, jvp=next_polygamma, vjp=next_polygamma, entrywise=True)


# -- Riemann's zeta ----------------------------------------------------------------------------------------------------


@primitive
def zeta_derivative(s, n):
    """Return the n-th derivative of Riemann's zeta function for Re s >= 0, by the Euler-Maclaurin formula.

    zeta(s) is the sum of the first k**-s, of N**(1-s) / (s-1), and of terms P_j(s) N**-s with polynomials P_j: each is
    differentiated n times by Leibniz' rule.
    """
    s, dtype = doubled(s)
    size = float(np.max(np.abs(s.imag), initial=0.0, where=np.isfinite(s.imag)))
    if size > 1000 or np.any(s.real < 0):
        raise NoRuleError("scipy.special.zeta(x)", " for x below 0, nor far from the real line")
    last = int(REMOTE + size)
    log = math.log(last)
    total = np.zeros_like(s)
    for k in range(2 if n else 1, last):
        total = total + (-math.log(k)) ** n * float(k) ** -s
    pole = sum(
        math.comb(n, m) * (-log) ** (n - m) * (-1) ** m * math.factorial(m) / (s - 1) ** (m + 1) for m in range(n + 1)
    )
    rest = last * pole + 0.5 * (-log) ** n
    for j, b in enumerate(BERNOULLI, start=1):
        p = np.poly1d([float(-i) for i in range(2 * j - 1)], True)
        terms = sum(math.comb(n, m) * (-log) ** (n - m) * p.deriv(m)(s) for m in range(min(n, 2 * j - 1) + 1))
        rest = rest + b / math.factorial(2 * j) * float(last) ** (1 - 2 * j) * terms
    return (total + rest * float(last) ** -s).astype(dtype)[()]


def next_zeta(xdot, y, x, n=1):
    """Multiply by the next derivative."""
    return xdot * zeta_derivative(x, n=n + 1)


rule(zeta_derivative, jvp=next_zeta, vjp=next_zeta, entrywise=True)


# -- differences of digammas -------------------------------------------------------------------------------------------


@primitive
def digamma_gain(a, b):
    """Return digamma(a + b) - digamma(a): far out, where that cancels, by the difference of Stirling's series."""
    a, b = np.asarray(a), np.asarray(b)
    with np.errstate(all="ignore"):
        near = special.psi(a + b) - special.psi(a)
        if a.dtype.kind == "c" or b.dtype.kind == "c":
            return near
        far = (a > REMOTE) & (a + b > REMOTE)
        growth = np.log1p(b / a)
        y = growth + b / (2 * a * (a + b))
        for j, bernoulli in enumerate(BERNOULLI, start=1):
            y = y - bernoulli / (2 * j) * a ** (-2.0 * j) * np.expm1(-2.0 * j * growth)
        return np.where(far, y, near)[()]


elementwise(
    digamma_gain,
    lambda y, a, b: polygamma_of(a + b, n=1) - polygamma_of(a, n=1),
    lambda y, a, b: polygamma_of(a + b, n=1),
    domain=(0.3, 3),
)


def rgamma_dx(y, x):
    """Return -digamma(x) / Gamma(x); below 1/2 by reflection, which holds at the poles of Gamma, too."""
    low = array_value(x).real < 0.5

    def reflected():  # 1/Gamma(x) = Gamma(1-x) sin(pi x) / pi
        z = at(low, x, 0.25)
        return special.gamma(1 - z) * (np.cos(math.pi * z) - special.psi(1 - z) * z * np.sinc(z))

    def direct():
        z = at(np.logical_not(low), x, 1.0)
        return -special.psi(z) * special.rgamma(z)

    return masked(low, reflected, direct)


# -- densities ---------------------------------------------------------------------------------------------------------


def gamma_density(a, x):
    """Return x**(a-1) e**-x / Gamma(a), the derivative of gammainc(a, x) in x; at x = 0 by the power itself."""
    border = array_value(x) == 0

    def on_border():
        return at(border, x, 0.0) ** (a - 1) * np.exp(-x) * special.rgamma(a)

    def inside():
        z = at(np.logical_not(border), x, 1.0)
        return np.exp((a - 1) * np.log(z) - z - special.gammaln(a))

    return masked(border, on_border, inside)


def beta_density(a, b, x):
    """Return x**(a-1) (1-x)**(b-1) / B(a, b), the derivative of betainc(a, b, x) in x; at 0 and 1 by the powers."""
    plain = array_value(x)
    border = (plain == 0) | (plain == 1)

    def on_border():
        z = at(border, x, 0.0)
        return z ** (a - 1) * (1 - z) ** (b - 1) * np.exp(-special.betaln(a, b))

    def inside():
        z = at(np.logical_not(border), x, 0.5)
        return np.exp((a - 1) * np.log(z) + (b - 1) * np.log1p(-z) - special.betaln(a, b))

    return masked(border, on_border, inside)


def student_density(df, t):
    """Return the density of Student's t distribution."""
    scale = np.exp(special.gammaln(0.5 * (df + 1)) - special.gammaln(0.5 * df)) / (np.sqrt(df) * SQRT_PI)
    return scale * np.exp(-0.5 * (df + 1) * np.log1p(t * t / df))


# fmt: off
elementwise(special.psi,      lambda y, x: polygamma_of(x, n=1),     domain=(0.3, 4))
elementwise(special.gamma,    lambda y, x: y * special.psi(x),       domain=(0.4, 3))
elementwise(special.rgamma,   rgamma_dx,                             domain=(-2.5, 3))
elementwise(special.gammaln,  lambda y, x: special.psi(x),           domain=(0.3, 4), complex=False)
elementwise(special.loggamma, lambda y, x: special.psi(x),           domain=(0.3, 4))
elementwise(special.beta,     lambda y, a, b: -y * digamma_gain(a, b), lambda y, a, b: -y * digamma_gain(b, a),
            domain=(0.4, 3), complex=False)
elementwise(special.betaln,   lambda y, a, b: -digamma_gain(a, b),     lambda y, a, b: -digamma_gain(b, a),
            domain=(0.4, 3), complex=False)
elementwise(RIEMANN,          lambda y, x: zeta_derivative(x, n=1),  domain=(1.3, 5))
elementwise(HURWITZ,          fixed("zeta", "x"),                    lambda y, s, q: -s * HURWITZ(s + 1, q),
            domain=(None, (0.3, 3)), complex=False)

# -- incomplete, in the argument ---------------------------------------------------------------------------------------
elementwise(special.gammainc,  fixed("gammainc", "a"),   lambda y, a, x: typed(gamma_density(a, x), y),
            domain=(None, (0.3, 3)), complex=False)
elementwise(special.gammaincc, fixed("gammaincc", "a"),  lambda y, a, x: typed(-gamma_density(a, x), y),
            domain=(None, (0.3, 3)), complex=False)
elementwise(special.gammaincinv, fixed("gammaincinv", "a"),   lambda y, a, p: typed(1 / gamma_density(a, y), y),
            domain=(None, (0.1, 0.9)), complex=False)
elementwise(special.gammainccinv, fixed("gammainccinv", "a"), lambda y, a, p: typed(-1 / gamma_density(a, y), y),
            domain=(None, (0.1, 0.9)), complex=False)
elementwise(special.betainc,   fixed("betainc", "a"), fixed("betainc", "b"),
            lambda y, a, b, x: typed(beta_density(a, b, x), y), domain=(None, None, (0.1, 0.9)), complex=False)
elementwise(special.betaincinv, fixed("betaincinv", "a"), fixed("betaincinv", "b"),
            lambda y, a, b, p: typed(1 / beta_density(a, b, y), y), domain=(None, None, (0.1, 0.9)), complex=False)
elementwise(special.betaincc, fixed("betaincc", "a"), fixed("betaincc", "b"),
            lambda y, a, b, x: typed(-beta_density(a, b, x), y), domain=(None, None, (0.1, 0.9)), complex=False)
elementwise(special.betainccinv, fixed("betainccinv", "a"), fixed("betainccinv", "b"),
            lambda y, a, b, p: typed(-1 / beta_density(a, b, y), y), domain=(None, None, (0.1, 0.9)), complex=False)

# -- distributions, in the argument ------------------------------------------------------------------------------------
elementwise(special.chdtr,    fixed("chdtr", "v"), lambda y, v, x: typed(0.5 * gamma_density(0.5 * v, 0.5 * x), y),
            domain=(None, (0.3, 3)), complex=False)
elementwise(special.chdtrc,   fixed("chdtrc", "v"), lambda y, v, x: typed(-0.5 * gamma_density(0.5 * v, 0.5 * x), y),
            domain=(None, (0.3, 3)), complex=False)
elementwise(special.chdtri,   fixed("chdtri", "v"),      lambda y, v, p: typed(-2 / gamma_density(0.5 * v, 0.5 * y), y),
            domain=(None, (0.1, 0.9)), complex=False)
elementwise(special.stdtr,    fixed("stdtr", "df"),      lambda y, df, t: typed(student_density(df, t), y),
            domain=(None, (-2, 2)), complex=False)
elementwise(special.stdtrit,  fixed("stdtrit", "df"),    lambda y, df, p: typed(1 / student_density(df, y), y),
            domain=(None, (0.1, 0.9)), complex=False)
# fmt: on
