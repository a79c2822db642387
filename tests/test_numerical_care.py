"""Numerical care: derivatives that exist come without NaN, overflow or loss of digits, to second order, in every mode.

Expected values are closed forms, or derivatives that mpmath computes with hundreds of digits.
"""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

mpmath = pytest.importorskip("mpmath")

MODES = {"reverse": cr.grad, "forward": lambda f: lambda x: cr.jvp(f, (x,), (1.0,))[1]}
PAIRS = list(itertools.product(("reverse", "forward"), repeat=2))
in_each_pair_of_modes = pytest.mark.parametrize("modes", PAIRS, ids="-then-".join)


def hessian(f, x, modes):
    """Return the matrix of second derivatives by the two modes, the inner one first."""
    for mode in modes:
        f = cr.jacobian(f, mode=mode)
    return f(x)


def check(f, x, gradient, second, modes, rtol=1e-13, atol=1e-15):
    """Compare gradient and Hessian of a function of a vector with closed forms."""
    x = np.array(x)
    assert_allclose(cr.jacobian(f, mode=modes[0])(x), gradient, rtol=rtol, atol=atol)
    assert_allclose(hessian(f, x, modes), second, rtol=rtol, atol=atol)


def derivatives_by_mpmath(f, x, orders):
    """Return the first derivatives of a function at a float, as floats."""
    with mpmath.workdps(1000):
        return [float(mpmath.diff(f, mpmath.mpf(x), n)) for n in range(1, orders + 1)]


# -- functions of one number, far out and close to where formulas cancel -----------------------------------------------

TINY, HUGE = (1e-300, 1e-30, 1e-9), (50.0, 1e7, 1e150, 1e307)
WIDE = (*TINY, 1e-3, 0.3, 1.0, 3.0, *HUGE)
BOTH = (*WIDE, *[-x for x in WIDE])
SMALL = [x for x in BOTH if abs(x) < 1]
TAILS = (-50.0, -20.0, -3.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 3.0, 20.0, 50.0)


def sigmoid(t):
    return 1 / (1 + mpmath.exp(-t))


def tail(t):
    """log(1 + e**t), whose digits far below 0 are those of e**t."""
    return mpmath.log1p(mpmath.exp(t))


FUNCTIONS = {
    "arcsinh": (np.arcsinh, mpmath.asinh, BOTH),
    "arctan": (np.arctan, mpmath.atan, BOTH),
    "arctanh": (np.arctanh, mpmath.atanh, (*SMALL, 1 - 1e-12)),
    "arcsin": (np.arcsin, mpmath.asin, (*SMALL, 1 - 1e-12, -1 + 1e-12)),
    "arccos": (np.arccos, mpmath.acos, (*SMALL, 1 - 1e-12, -1 + 1e-12)),
    "arccosh": (np.arccosh, mpmath.acosh, (1 + 1e-12, 3.0, *HUGE)),
    "expm1": (np.expm1, mpmath.expm1, (*SMALL, -50.0, -700.0)),
    "log1p": (np.log1p, mpmath.log1p, (*SMALL, *HUGE)),
    "hypot beside 3": (lambda x: np.hypot(x, 3.0), lambda x: mpmath.sqrt(x * x + 9), BOTH),
    "hypot beside 1e200": (
        lambda x: np.hypot(x, 1e200),
        lambda x: mpmath.sqrt(x * x + mpmath.mpf(1e200) ** 2),
        (*BOTH, 1e200),
    ),
    "arctan2(x, 1)": (lambda x: np.arctan2(x, 1.0), lambda x: mpmath.atan2(x, 1), BOTH),
    "arctan2(1, x)": (lambda x: np.arctan2(1.0, x), lambda x: mpmath.atan2(1, x), BOTH),
    "arctan2(1e200, x)": (lambda x: np.arctan2(1e200, x), lambda x: mpmath.atan2(mpmath.mpf(1e200), x), (1e200, 1e150)),
    "tanh": (np.tanh, mpmath.tanh, (*TAILS, 300.0, -700.0)),
    "sigmoid": (cr.sigmoid, sigmoid, (*TAILS, 300.0, -700.0)),
    "softplus": (lambda x: np.logaddexp(0.0, x), tail, (*TAILS, 300.0, -700.0)),
    "log of a sigmoid": (lambda x: -np.logaddexp(-x, 0.0), lambda t: -tail(-t), (*TAILS, 300.0, -700.0)),
    "sinc": (np.sinc, lambda t: mpmath.sin(mpmath.pi * t) / (mpmath.pi * t), (1e-9, 1e-4, 0.3, 1.5)),
}


@in_each_pair_of_modes
@pytest.mark.parametrize(("f", "exact", "points"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_two_derivatives_keep_their_digits(f, exact, points, modes):
    inner, outer = (MODES[m] for m in modes)
    for x in points:
        first, second = derivatives_by_mpmath(exact, x, 2)
        rtol = 1e-12 if f is np.sinc else 2e-13
        assert_allclose(inner(f)(x), first, rtol=rtol, atol=1e-307, err_msg=f"x = {x}")
        assert_allclose(outer(inner(f))(x), second, rtol=rtol, atol=1e-307, err_msg=f"x = {x}")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "name", ["arcsin", "arctanh", "tanh", "sigmoid", "hypot beside 3", "arctan2(1, x)", "softplus"]
)
def test_derivatives_of_narrow_floats_are_as_narrow(name, dtype):
    f, exact, _ = FUNCTIONS[name]
    x = np.array([0.25, 0.5], dtype)
    want = np.array([derivatives_by_mpmath(exact, float(t), 2) for t in x])
    g = cr.elementwise_grad(f)(x)
    h = cr.elementwise_grad(cr.elementwise_grad(f))(x)
    assert g.dtype == h.dtype == cr.jvp(f, (x,), (x,))[1].dtype == dtype
    assert_allclose(np.stack([g, h], -1), want, rtol=8 * np.finfo(dtype).eps)


def test_length_of_subnormal_numbers_has_a_direction():
    x = 2.0**-1060  # a power of two, so that 3 x, 4 x and 5 x are exact
    for mode in ("reverse", "forward"):
        g = cr.jacobian(lambda v: np.hypot(v[0], v[1]), mode=mode)(np.array([3 * x, 4 * x]))
        assert_allclose(g, [0.6, 0.8], rtol=1e-3)  # of their few bits
    assert cr.grad(lambda t: np.arctan2(t, 0.0))(x) == 0.0


# -- quotients of huge and of tiny numbers -----------------------------------------------------------------------------


def softmax_of(x):
    p = np.exp(x - np.max(x))
    p /= np.sum(p)
    return p, np.diag(p) - np.outer(p, p)


@in_each_pair_of_modes
@pytest.mark.parametrize("shift", [-700.0, -400.0, -100.0, 0.0, 340.0, 400.0, 700.0])
def test_second_derivatives_of_a_quotient_of_huge_or_tiny_exponentials(shift, modes):
    """Where e**x is far from overflow, but its square is not."""
    x = shift + np.array([0.3, 1.0, -2.0])
    p, second = softmax_of(x)
    check(lambda x: np.log(np.sum(np.exp(x))), x, p, second, modes, rtol=1e-11, atol=1e-12)
    # of p0 = exp(log p0), with log p0 having the gradient e0 - p and the Hessian -second
    e = np.array([1.0, 0.0, 0.0]) - p
    want = p[0] * (np.outer(e, e) - second)
    check(lambda x: np.exp(x[0]) / np.sum(np.exp(x)), x, p[0] * e, want, modes, rtol=1e-11, atol=1e-12)


@in_each_pair_of_modes
@pytest.mark.parametrize("x", [-600.0, -360.0, 360.0, 600.0])
def test_logarithm_of_a_hyperbolic_cosine_becomes_straight(x, modes):
    inner, outer = (MODES[m] for m in modes)
    f = lambda x: np.log(np.cosh(x))
    assert_allclose(inner(f)(x), np.sign(x), rtol=1e-15)
    assert abs(outer(inner(f))(x)) < 1e-11


@in_each_pair_of_modes
def test_second_derivative_of_logsumexp_in_single_precision(modes):
    x = np.array([60.3, 61.0, 58.0], np.float32)
    p, second = softmax_of(x.astype(float))
    found = hessian(lambda x: np.log(np.sum(np.exp(x))), x, modes)
    assert found.dtype == np.float32
    assert_allclose(found, second, atol=1e-5)


# -- what is not taken stays an exact zero -----------------------------------------------------------------------------


def overwritten(x):
    y = np.sqrt(x)
    y[x <= 0] = 0.0
    return np.sum(y)


def two_reads(x):
    y = np.sqrt(x)
    return y[1] * y[1]


ROOT = ([0.0, 4.0], [0.0, 0.25], [[0.0, 0.0], [0.0, -1 / 32]])  # of sqrt(x1), which is what all of these are
ENTRY = np.array([[1.0, 2.0], [3.0, 1.0]])
LEFT_OUT = {
    "where": lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)),
    "where, then a product of matrices": lambda x: np.ones(2) @ np.where(x > 0, np.sqrt(x), 0.0),
    "where, then prod": lambda x: np.prod(np.where(x > 0, np.sqrt(x), 1.0)),
    "where, then einsum": lambda x: np.einsum("i,i", np.where(x > 0, np.sqrt(x), 0.0), np.ones(2)),
    "select": lambda x: np.sum(np.select([x > 0], [np.sqrt(x)], 0.0)),
    "piecewise": lambda x: np.sum(np.piecewise(x, [x > 0], [np.sqrt, 0.0])),
    "clip": lambda x: np.sum(np.clip(np.sqrt(x), 0.5, None)),
    "maximum": lambda x: np.sum(np.maximum(np.sqrt(x), 0.5)),
    "relu": lambda x: np.sum(cr.relu(np.sqrt(x) - 0.5)),
    "nan_to_num": lambda x: np.sum(np.nan_to_num(np.where(x > 0, 1.0, np.nan) * np.sqrt(x))),
    "a mask as index": lambda x: np.sum(np.sqrt(x)[x > 0]),
    "an index": lambda x: np.sqrt(x)[1],
    "a slice": lambda x: np.sum(np.sqrt(x)[1:]),
    "take": lambda x: np.take(np.sqrt(x), 1),
    "two reads": lambda x: two_reads(x) / np.sqrt(x[1]),
    "a write": overwritten,
    "sum(where=)": lambda x: np.sum(np.sqrt(x), where=x > 0),
    "nansum": lambda x: np.nansum(np.where(x > 0, 1.0, np.nan) * np.sqrt(x)),
    "nanmean": lambda x: np.nanmean(np.where(x > 0, 1.0, np.nan) * np.sqrt(x)),
    "sort": lambda x: np.sort(np.sqrt(x))[-1],
    "max": lambda x: np.max(np.sqrt(x)),
    "min": lambda x: -np.min(-np.sqrt(x)),
    "nanmax": lambda x: np.nanmax(np.sqrt(x)),
    "quantile": lambda x: np.quantile(np.sqrt(x), 1.0),
    "median": lambda x: np.median(np.concatenate([np.sqrt(x), [9.0]])),
    "a row of a product of matrices": lambda x: (np.sqrt(x)[:, None] @ np.ones((1, 1)))[1, 0],
    "max of columns, then a sum": lambda x: np.sum(np.max(np.sqrt(x)[:, None] * np.ones(1), axis=0)),
}


@in_each_pair_of_modes
@pytest.mark.parametrize("f", LEFT_OUT.values(), ids=LEFT_OUT)
def test_an_infinite_slope_of_what_is_left_out_does_not_count(f, modes):
    check(f, *ROOT, modes)


@in_each_pair_of_modes
def test_an_infinite_curvature_of_what_is_left_out_does_not_count(modes):
    for f in (lambda x: (x**1.5)[1], lambda x: np.sum(np.where(x > 0, x**1.5, 0.0))):
        check(f, [0.0, 4.0], [0.0, 3.0], [[0.0, 0.0], [0.0, 0.375]], modes)


@in_each_pair_of_modes
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")  # of log(0), as in the plain run
def test_zero_times_infinity_is_told_from_what_is_left_out(modes):
    x_log_x = lambda x: np.sum(np.where(x > 0, x * np.log(x), 0.0))
    check(x_log_x, [0.0, 2.0], [0.0, 1 + np.log(2.0)], [[0.0, 0.0], [0.0, 0.5]], modes)
    check(lambda x: np.sum(x * np.sin(x)), [0.0], [0.0], [[2.0]], modes)
    # sqrt(x)**2 and 0 * sqrt(x): NaN, or what is true (1 and 0), and never 0 for 1
    for f in (lambda x: np.sqrt(x) ** 2, lambda x: np.sqrt(x) * np.sqrt(x), lambda x: np.cbrt(x) ** 3):
        g = MODES[modes[0]](f)(0.0)
        assert np.isnan(g) or g == 1.0


def test_eager_gradients_leave_out_what_is_left_out():
    for f in LEFT_OUT.values():
        x = cr.Variable(np.array([0.0, 4.0]))
        f(x).backward()
        assert_allclose(x.grad, [0.0, 0.25], rtol=1e-13)


# -- powers, products, sums of many terms ------------------------------------------------------------------------------


@in_each_pair_of_modes
def test_powers_at_and_below_zero(modes):
    inner, outer = (MODES[m] for m in modes)
    for zero in (0.0, -0.0):
        for power in (lambda x, n: x**n, np.power, np.float_power):
            for n, first, second in ((0, 0, 0), (1, 1, 0), (2, 0, 2), (3, 0, 0), (2.0, 0, 2), (2.5, 0, 0)):
                f = lambda x, power=power, n=n: power(x, n)
                assert inner(f)(zero) == first
                assert outer(inner(f))(zero) == second
            for n in (-3, -1, 2, 3, 5.0):
                f = lambda x, power=power, n=n: power(x, n)
                assert_allclose(inner(f)(-1.7), n * (-1.7) ** (n - 1), rtol=1e-14)
                assert_allclose(outer(inner(f))(-1.7), n * (n - 1) * (-1.7) ** (n - 2), rtol=1e-14)
    for n in (0.5, 1.0, 3.0):  # 0**n is 0 for all n near by
        f = lambda n: np.power(0.0, n)
        assert inner(f)(n) == outer(inner(f))(n) == 0.0


@in_each_pair_of_modes
@pytest.mark.parametrize(
    "x", [[2.0, 3, 5, 7], [0.0, 3, 5, 7], [0.0, 3, 0, 7], [0.0, 0, 0, 7], [0.0] * 4, [1e-200, 1e-200, 3, 1e300]]
)
@pytest.mark.parametrize(
    "product",
    [np.prod, np.multiply.reduce, np.nanprod, lambda x: np.cumprod(x)[-1]],
    ids=["prod", "reduce", "nan", "cum"],
)
def test_products_with_zeros(product, x, modes):
    n = len(x)
    gradient = [np.prod(np.delete(x, i)) for i in range(n)]
    second = [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]
    check(product, x, gradient, second, modes)


@in_each_pair_of_modes
@pytest.mark.parametrize(
    "x", [[-np.inf, 1.0, 1.0], [-np.inf, -np.inf, 2.0], [800.0, 801.0, -np.inf], [-900.0, -900.0, 0]]
)
def test_sums_of_exponentials_with_infinities(x, modes):
    p, second = softmax_of(np.array(x))
    check(np.logaddexp.reduce, x, p, second, modes)
    check(lambda x: np.max(x) + np.log(np.sum(np.exp(x - np.max(x)))), x, p, second, modes)


@in_each_pair_of_modes
@pytest.mark.parametrize("x", [np.zeros(3), np.array([3.0, 0.0, 0.0])])
def test_squared_norms(x, modes):
    for f in (
        lambda x: np.linalg.norm(x) ** 2,
        lambda x: np.linalg.norm(x) * np.linalg.norm(x),
        lambda x: np.sum(x**2),
        lambda x: x @ x,
    ):
        check(f, x, 2 * x, 2 * np.eye(3), modes)


@in_each_pair_of_modes
def test_spread_of_equal_numbers(modes):
    x = np.full(3, 2.5)
    centred = np.eye(3) - 1 / 3
    check(np.var, x, np.zeros(3), 2 / 3 * centred, modes)
    check(lambda x: np.std(x) ** 2, x, np.zeros(3), 2 / 3 * centred, modes)
    assert_allclose(cr.jacobian(np.std, mode=modes[0])(x), np.zeros(3), atol=0)


def mixed_differences(f, a):
    """Return the second derivatives of a function that is affine in each entry: differences with step 1 are exact."""
    unit = np.eye(a.size).reshape(a.size, *a.shape)
    second = [[0.0 if e is d else f(a + e + d) - f(a + e) - f(a + d) + f(a) for d in unit] for e in unit]
    return np.reshape(second, a.shape * 2)


def cofactors(a):
    """Return the signed minors."""
    minor = lambda i, j: np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return np.array([[(-1) ** (i + j) * minor(i, j) for j in range(len(a))] for i in range(len(a))])


@in_each_pair_of_modes
@pytest.mark.parametrize(
    "a",
    [np.arange(9.0).reshape(3, 3), np.outer([1.0, 2, 3], [1.0, 1, 2]), np.zeros((3, 3)), np.array([[0.0, 0], [3, 5]])],
)
def test_determinant_and_adjugate_of_singular_matrices(a, modes):
    check(np.linalg.det, a, cofactors(a), mixed_differences(np.linalg.det, a), modes, rtol=1e-10, atol=1e-12)


def test_many_entries_in_half_precision():
    n = 70_000  # more than float16 can hold
    ties = np.ones(n, np.float16)
    share = float(np.float16(1 / n))
    for f in (np.max, np.min, np.nanmax, np.mean, lambda x: np.linalg.norm(x, np.inf)):
        g = cr.grad(f)(ties)
        assert g.dtype == np.float16
        assert_allclose(g, share)
        assert cr.jvp(f, (ties,), (ties,))[1] == 1.0
    assert cr.grad(np.median)(ties).sum(dtype=float) == cr.jvp(np.median, (ties,), (ties,))[1] == 1.0
    x = np.tile(np.array([0.5, -0.5], np.float16), n // 2)
    assert_allclose(cr.grad(np.var)(x), 2 / n * x, rtol=4e-3)
    assert_allclose(cr.grad(np.std)(x), 2 / n * x, rtol=4e-3)  # the variance is 1/4


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_an_overflow_of_a_norm_has_no_plausible_gradient():
    x = np.array([3e200, -1e200, 2.0])
    for f in (np.std, np.linalg.norm):
        assert np.isnan(cr.grad(f)(x)).all()
        assert np.isnan(cr.jvp(f, (x,), (x,))[1])
