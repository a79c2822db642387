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
    ("zeta", special.zeta, mpmath.zeta, [1.0001, 1.5, 2.0, 10.0, 50.0, 0.3], 1e-12, 1e-12),
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


# -- policy points, parameters, types ----------------------------------------------------------------------------------


def test_xlogy_is_linear_in_x_also_at_0():
    assert_allclose(cr.grad(special.xlogy, (0, 1))(0.0, 3.0), (np.log(3.0), 0.0))
    assert_allclose(cr.grad(special.xlog1py, (0, 1))(0.0, 2.0), (np.log(3.0), 0.0))
    assert cr.grad(lambda y: special.xlogy(0.0, y))(0.0) == 0.0  # 0 log y is 0 for every y
    assert cr.grad(lambda x: special.xlogy(x, 0.0))(0.0) == -np.inf
    # d2/dxdy = 1/y is infinite at y = 0: no finite number may come out
    with np.errstate(all="ignore"):
        assert not np.isfinite(cr.grad(cr.grad(special.xlogy, 1), 0)(0.0, 0.0))


def test_entropy_of_a_sharp_distribution_in_one_line():
    p = np.array([0.2, 0.8])
    assert_allclose(cr.grad(lambda p: np.sum(special.entr(p)))(p), -np.log(p) - 1)
    assert_allclose(cr.grad(lambda q: np.sum(special.rel_entr(p, q)))(p), [-1.0, -1.0])


def test_kl_div_keeps_its_digits_next_to_equality():
    x, y = 1.0 + 1e-12, 1.0
    assert_allclose(cr.grad(special.kl_div, (0, 1))(x, y), (float(mpmath.log(x)), y - x), rtol=1e-15)
    assert cr.grad(special.kl_div, 1)(0.0, 2.0) == 1.0


def test_expit_does_not_overflow_far_out():
    x = np.array([-1000.0, -700.0, 0.0, 1000.0])
    with np.errstate(over="raise", invalid="raise"):
        g = cr.elementwise_grad(special.expit)(x)
    assert_allclose(g, [0.0, np.exp(-700.0), 0.25, 0.0])
    assert_allclose(cr.elementwise_grad(special.log_expit)(x), [1.0, 1.0, 0.5, 0.0])


def test_ends_of_the_interval_of_a_distribution_function():
    """x**(a-1) there is 0, 1 or infinite: the second derivative of gammainc(2, x) at 0 is 1, of gammainc(1, x) -1."""
    second = lambda f: cr.grad(cr.grad(f))
    assert_allclose([second(lambda x: special.gammainc(a, x))(0.0) for a in (1.0, 2.0, 3.0)], [-1.0, 1.0, 0.0])
    assert_allclose([second(lambda x: special.betainc(a, 2.0, x))(0.0) for a in (1.0, 2.0, 3.0)], [-2.0, 6.0, 0.0])
    assert_allclose([second(lambda x: special.betainc(2.0, b, x))(1.0) for b in (1.0, 2.0, 3.0)], [2.0, -6.0, 0.0])


def test_betaln_of_large_arguments():
    a, b = 1e8, 0.5
    exact = mpmath.psi(0, a) - mpmath.psi(0, mpmath.mpf(a) + b)
    assert_allclose(cr.grad(special.betaln)(a, b), float(exact), rtol=1e-12)


def test_boxcox_at_the_border_of_its_domain():
    assert_allclose(cr.grad(special.boxcox, 1)(0.0, 2.0), 0.25)  # boxcox(0, lmbda) = -1/lmbda
    assert_allclose(cr.grad(special.boxcox1p, 1)(-1.0, 2.0), 0.25)
    assert_allclose(cr.grad(cr.grad(special.boxcox, 1), 1)(0.0, 2.0), -0.25)


@pytest.mark.parametrize("z", [0.3 + 0.4j, -3.7 + 0.2j, 25.0 - 8.0j])
@pytest.mark.parametrize(
    ("f", "g"),
    [
        (special.psi, lambda z: mpmath.psi(1, z)),
        (special.loggamma, lambda z: mpmath.psi(0, z)),
        (special.gamma, lambda z: mpmath.gamma(z) * mpmath.psi(0, z)),
        (special.erf, lambda z: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-z * z)),
        (special.wofz, lambda z: mpmath.diff(lambda t: mpmath.exp(-t * t) * mpmath.erfc(-1j * t), z)),
        (special.spence, lambda z: mpmath.log(z) / (1 - z)),
        (lambda z: special.jv(1.5, z), lambda z: mpmath.besselj(1.5, z, derivative=1)),
        (special.lambertw, lambda z: mpmath.lambertw(z) / (z * (1 + mpmath.lambertw(z)))),
    ],
    ids=["psi", "loggamma", "gamma", "erf", "wofz", "spence", "jv", "lambertw"],
)
def test_holomorphic_derivative(f, g, z):
    assert_allclose(cr.grad(f, holomorphic=True)(z), complex(g(mpmath.mpc(z))), rtol=1e-11)


def test_digamma_far_to_the_left_in_the_complex_plane_is_refused():
    with pytest.raises(NoRuleError, match="real part below -1000"):
        cr.grad(special.psi, holomorphic=True)(-2000.5 + 1j)


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda v: special.jv(v, 1.0), "'v'"),
        (lambda a: special.gammainc(a, 1.0), "'a'"),
        (lambda b: special.betainc(2.0, b, 0.5), "'b'"),
        (lambda n: special.eval_legendre(n, 0.5), "'n'"),
    ],
)
def test_a_derivative_in_a_parameter_is_refused_by_name(f, name):
    for run in (lambda: cr.grad(f)(1.5), lambda: cr.jvp(f, (1.5,), (1.0,))):
        with pytest.raises(UnsupportedArgumentError, match=rf"argument {name}.*no derivative"):
            run()


def test_a_parameter_that_depends_on_no_argument_may_be_of_any_kind():
    x = np.array([0.5, 2.0])
    assert_allclose(
        cr.elementwise_grad(lambda x: special.jv(np.array([0, 1]), x))(x), [-special.j1(0.5), special.jvp(1, 2)]
    )
    assert_allclose(cr.grad(lambda x: special.jv(cr.stop_gradient(x), x))(2.0), special.jvp(2.0, 2.0))


def test_scaled_bessel_function_of_a_complex_number_is_refused():
    with pytest.raises(NotDifferentiableError, match="Re x"):
        cr.grad(lambda z: special.ive(1.0, z).real)(1.0 + 1j)


def test_scaled_bessel_function_at_negative_arguments():
    """|x| in the exponent: for x < 0 the derivative is that of I e**x, and at the kink the mean of both sides."""
    for v in (0, 1, 2):
        exact = mpmath.diff(lambda t: mpmath.besseli(v, t) * mpmath.exp(t), -1.5)
        assert_allclose(cr.grad(lambda x: special.ive(v, x))(-1.5), float(exact), rtol=1e-12)
    assert cr.grad(special.i0e)(0.0) == 0.0


def test_a_pair_of_integrals_is_differentiated_one_by_one_at_0():
    """Ci' is infinite at 0, and must not reach Si'."""
    assert cr.grad(lambda x: special.sici(x)[0])(0.0) == 1.0
    assert cr.grad(cr.grad(lambda x: special.sici(x)[0]))(0.0) == 0.0
    assert cr.grad(lambda x: special.shichi(x)[0])(0.0) == 1.0


def test_functions_without_a_rule_say_so():
    for run in (lambda x: special.zeta(-x), lambda x: special.mathieu_a(1, x), lambda x: special.struve(0, x)):
        with pytest.raises(NoRuleError, match="scipy.special"):
            cr.grad(run)(2.5)


def test_hurwitz_zeta_in_its_second_argument():
    assert_allclose(cr.grad(lambda q: special.zeta(3.0, q))(0.7), -3 * special.zeta(4.0, 0.7))


# -- loading -----------------------------------------------------------------------------------------------------------


def fresh(code):
    """Run code in a fresh interpreter, and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_chainrule_and_differentiating_with_numpy_loads_no_scipy():
    code = (
        "import sys, numpy as np, chainrule as cr\n"
        "cr.hessian(lambda x: np.sum(np.sin(x) ** 2))(np.ones(2))\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'scipy' or m.startswith('chainrule.rules.special')])"
    )
    assert fresh(code) == ["[]"]


@pytest.mark.parametrize(
    "order", ["import chainrule as cr, scipy.special as s", "import scipy.special as s, chainrule as cr"]
)
def test_rules_are_there_in_whatever_order_the_two_are_imported(order):
    assert fresh(f"{order}\nprint(cr.grad(s.erf)(0.0) == 2 / 3.141592653589793 ** 0.5)") == ["True"]


def test_the_first_use_may_be_in_several_threads_at_once():
    code = (
        "import threading, chainrule as cr, scipy.special as s\n"
        "found = []\n"
        "run = lambda: found.append(cr.grad(s.erf)(0.0) > 1)\n"
        "threads = [threading.Thread(target=run) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(found), all(found))"
    )
    assert fresh(code) == ["8", "True"]
