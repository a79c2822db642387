"""chainrule.scipy: SciPy's values on plain arguments, exact derivatives on traced ones, SciPy's signatures.

Most functions are walked through by test_rules, in every mode and dtype; here are distributions, and what no table
says.
"""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule.engine.rule import RULES
from chainrule.errors import ConversionError, UnsupportedArgumentError
from chainrule.rules.mirrored import IN_MIRROR

pytest.importorskip("scipy")

import scipy.linalg
import scipy.special
import scipy.stats

import chainrule.scipy as csp
from chainrule.scipy import linalg, special, stats

A = np.array([[3.0, 0.4, 0.1], [0.4, 2.0, -0.3], [0.1, -0.3, 1.5]])
G = np.array([[2.0, 0.4, 0.1], [-0.6, 2.0, -0.3], [0.1, 0.7, 1.5]])
B = np.array([1.0, -2.0, 0.5])

# shape parameters, points inside the support, points outside
DISTRIBUTIONS = {
    "norm": ((), [-1.3, 0.4], []),
    "expon": ((), [0.3, 2.4], [-0.5]),
    "uniform": ((), [0.3, 0.8], [-0.5, 1.5]),
    "logistic": ((), [-1.3, 0.4], []),
    "laplace": ((), [-1.3, 0.4], []),
    "cauchy": ((), [-1.3, 0.4], []),
    "lognorm": ((0.7,), [0.3, 2.4], [-0.5]),
    "gamma": ((2.3,), [0.3, 2.4], [-0.5]),
    "chi2": ((3.0,), [0.3, 2.4], [-0.5]),
    "beta": ((2.3, 1.7), [0.3, 0.8], [-0.5, 1.5]),
    "t": ((4.0,), [-1.3, 0.4], []),
}
OF_POINTS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")


# -- distributions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution_has_scipys_values_traced_and_plain(name):
    shapes, inside, outside = DISTRIBUTIONS[name]
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    x = np.array(inside + outside)
    q = np.array([0.1, 0.6])
    for method, at in [(m, x) for m in OF_POINTS] + [("ppf", q), ("isf", q)]:
        for loc, scale in ((0.0, 1.0), (0.2, 0.7)):
            at_ = at * scale + loc if method in OF_POINTS else at
            with np.errstate(divide="ignore"):
                expected = getattr(theirs, method)(at_, *shapes, loc=loc, scale=scale)
                plain = getattr(ours, method)(at_, *shapes, loc, scale)
                traced = getattr(ours, method)(cr.Variable(at_), *shapes, loc=loc, scale=scale)
            assert isinstance(traced, cr.Variable)
            assert_allclose(plain, expected, rtol=0)
            assert_allclose(traced.data, expected, rtol=1e-12, err_msg=method)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("method", [*OF_POINTS, "ppf", "isf"])
def test_distribution_is_differentiated_in_point_loc_and_scale(name, method):
    shapes, inside, _ = DISTRIBUTIONS[name]
    x = np.array(inside) if method in OF_POINTS else np.array([0.1, 0.6])
    f = lambda x, loc, scale: getattr(getattr(stats, name), method)(x, *shapes, loc=loc, scale=scale)
    if method in OF_POINTS:
        x = x * 0.7 + 0.2
    cr.check_grads(f, (x, 0.2, 0.7), order=2)


@pytest.mark.parametrize("name", [n for n, d in DISTRIBUTIONS.items() if d[0]])
@pytest.mark.parametrize("method", ["pdf", "logpdf"])
def test_densities_are_differentiated_in_their_shape_parameters(name, method):
    shapes, inside, _ = DISTRIBUTIONS[name]
    f = lambda *shapes: getattr(getattr(stats, name), method)(np.array(inside), *shapes)
    cr.check_grads(f, shapes, order=2)


@pytest.mark.parametrize("name", ["gamma", "beta", "t", "chi2"])
def test_distribution_functions_in_their_shape_parameters_are_refused(name):
    shapes, inside, _ = DISTRIBUTIONS[name]
    with pytest.raises(UnsupportedArgumentError, match="no derivative"):
        cr.grad(lambda a: getattr(stats, name).cdf(inside[0], a, *shapes[1:]))(shapes[0])


@pytest.mark.parametrize("name", [n for n, d in DISTRIBUTIONS.items() if d[2]])
def test_outside_of_the_support_the_derivative_is_zero(name):
    shapes, inside, outside = DISTRIBUTIONS[name]
    x = np.array([inside[0], *outside])
    for method in ("pdf", "cdf", "sf", "logpdf", "logcdf"):
        with np.errstate(divide="ignore"):
            g = cr.elementwise_grad(lambda x: getattr(getattr(stats, name), method)(x, *shapes))(x)
        assert np.isfinite(g).all()
        assert_allclose(g[1:], 0.0, atol=0)


def test_tails_of_the_normal_distribution():
    """logcdf'(-x) is x + 1/x - 2/x**3 ... far out, and the density there is below every float."""
    x = 1e5
    assert_allclose(cr.grad(stats.norm.logcdf)(-x), x + 1 / x, rtol=1e-14)
    assert_allclose(cr.grad(stats.norm.logsf)(x), -(x + 1 / x), rtol=1e-14)
    assert_allclose(cr.grad(cr.grad(stats.norm.logsf))(x), -1 + 1 / x**2, rtol=1e-12)


def test_fit_of_a_normal_distribution_by_its_gradient():
    x = np.array([1.0, 2.0, 4.0, 5.0])
    f = lambda loc, scale: np.sum(stats.norm(loc, scale).logpdf(x))
    found = cr.grad(f, (0, 1))(3.0, np.std(x))
    assert_allclose(found, [0.0, 0.0], atol=1e-12)  # the mean and the deviation are where the likelihood is largest
    assert_allclose(cr.grad(f)(2.5, 2.0), np.sum(x - 2.5) / 4)


def test_frozen_distribution_keeps_scipys_other_methods():
    frozen = stats.gamma(2.0, scale=3.0)
    assert frozen.mean() == 6.0
    assert_allclose(frozen.pdf(1.5), scipy.stats.gamma(2.0, scale=3.0).pdf(1.5))
    assert stats.norm.rvs(size=3, random_state=0).shape == (3,)


def test_a_scale_that_is_not_positive_gives_nan_as_in_scipy():
    with np.errstate(all="ignore"):
        y, ydot = cr.jvp(lambda s: stats.norm.logpdf(0.3, 0.0, s), (np.array([-1.0, 1.0]),), (np.ones(2),))
    assert np.isnan(y[0])
    assert_allclose(y[1], scipy.stats.norm.logpdf(0.3))


def test_wrong_parameters_are_refused_as_by_scipy():
    x = cr.Variable(1.0)
    for call in (lambda: stats.gamma.pdf(x), lambda: stats.norm.pdf(x, 0, 1, 2), lambda: stats.norm.pdf(x, sigma=1)):
        with pytest.raises(TypeError, match="norm|gamma"):
            call()


@pytest.mark.parametrize(
    ("x", "mean", "cov"),
    [
        (B, np.zeros(3), A),
        (np.stack([B, 2 * B]), B / 2, A),
        (B, B / 3, np.array([1.0, 2.0, 3.0])),
        (B, None, A),
        (B, np.zeros(3), 2.0),
        (0.7, 0.2, 1.5),
        (np.array([0.7, 0.1]), 0.2, 1.5),
    ],
    ids=["vector", "points", "variances", "no mean", "one variance", "number", "numbers"],
)
def test_multivariate_normal(x, mean, cov):
    f = stats.multivariate_normal.logpdf
    expected = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
    assert_allclose(f(x, mean, cov), expected)
    for traced in ((cr.Variable(x), mean, cov), (x, mean, cr.Variable(cov))):
        y = f(*traced)
        assert_allclose(y.data, expected, rtol=1e-12)
        assert np.shape(y.data) == np.shape(expected)
    symmetric = lambda c: (c + c.T) / 2 if np.ndim(c) == 2 else c
    cr.check_grads(lambda x, cov: f(x, mean, symmetric(cov)), (x, cov), order=2)
    assert_allclose(stats.multivariate_normal.pdf(cr.Variable(x), mean, cov).data, np.exp(expected), rtol=1e-12)


# -- linear algebra ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_reads_the_triangle_that_scipy_reads(lower):
    spoiled = A + (np.triu(np.ones((3, 3)), 1) if lower else np.tril(np.ones((3, 3)), -1))
    y = linalg.cholesky(cr.Variable(spoiled), lower=lower)
    assert_allclose(y.data, scipy.linalg.cholesky(spoiled, lower=lower), rtol=1e-14)


def test_gradient_of_cholesky_is_symmetric():
    g = cr.grad(lambda a: np.sum(np.log(np.diagonal(linalg.cholesky(a)))))(A)
    assert_allclose(g, np.linalg.inv(A) / 2, rtol=1e-12)  # half the log of the determinant


@pytest.mark.parametrize("lower", [False, True])
def test_a_system_solved_by_its_factor(lower):
    f = lambda a, b: linalg.cho_solve(linalg.cho_factor(a, lower=lower), b)
    assert_allclose(f(A, B), np.linalg.solve(A, B))
    x, pull = cr.vjp(f, A, B)
    abar, bbar = pull(np.ones(3))
    w = np.linalg.solve(A, np.ones(3))
    assert_allclose(bbar, w, rtol=1e-12)
    assert_allclose(abar + abar.T, -(np.outer(w, x) + np.outer(x, w)), rtol=1e-11)


def test_complex_hermitian_system_by_its_factor():
    h = A + 1j * np.array([[0.0, 0.3, -0.2], [-0.3, 0.0, 0.1], [0.2, -0.1, 0.0]])
    for lower in (False, True):
        c = scipy.linalg.cho_factor(h, lower=lower)
        y = linalg.cho_solve(c, cr.Variable(B + 1j))
        assert_allclose(y.data, np.linalg.solve(h, B + 1j), rtol=1e-12)


@pytest.mark.parametrize("kind", ["sym", "her", "pos"])
@pytest.mark.parametrize("lower", [False, True])
def test_a_structured_system_reads_one_triangle(kind, lower):
    spoiled = A + (np.triu(np.ones((3, 3)), 1) if lower else np.tril(np.ones((3, 3)), -1))
    g = cr.grad(lambda a: np.sum(linalg.solve(a, B, assume_a=kind, lower=lower)))(spoiled)
    assert_allclose(linalg.solve(cr.Variable(spoiled), B, assume_a=kind, lower=lower).data, np.linalg.solve(A, B))
    assert np.all(g[np.triu_indices(3, 1) if lower else np.tril_indices(3, -1)] == 0)


def test_an_unknown_structure_is_refused_as_by_scipy():
    with pytest.raises(ValueError, match="not a recognized matrix structure"):
        linalg.solve(cr.Variable(A), B, assume_a="magic")


def test_infinities_are_refused_as_by_scipy():
    bad = A.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="infs or NaNs"):
        linalg.solve(cr.Variable(bad), B)
    assert np.isnan(linalg.inv(cr.Variable(bad), check_finite=False).data).any()


def test_triangular_solve_gives_the_other_triangle_no_derivative():
    g = cr.grad(lambda a: np.sum(linalg.solve_triangular(a, B, lower=True)))(G)
    assert np.all(g[np.triu_indices(3, 1)] == 0)
    unit = cr.grad(lambda a: np.sum(linalg.solve_triangular(a, B, unit_diagonal=True)))(G)
    assert np.all(np.tril(unit) == 0)


def test_derivative_of_the_exponential_of_commuting_matrices():
    """Along A itself exp(A) has the derivative A exp(A)."""
    y, ydot = cr.jvp(linalg.expm, (G,), (G,))
    assert_allclose(y, scipy.linalg.expm(G), rtol=1e-13)
    assert_allclose(ydot, G @ y, rtol=1e-12, atol=1e-11)
    assert_allclose(cr.grad(lambda t: np.trace(linalg.expm(t * G)))(0.7), np.trace(G @ scipy.linalg.expm(0.7 * G)))


def test_trace_of_the_logarithm_is_the_log_of_the_determinant():
    assert_allclose(cr.grad(lambda a: np.trace(linalg.logm(a)))(G), np.linalg.inv(G).T, rtol=1e-10)


def test_square_root_has_the_derivative_that_solves_sylvesters_equation():
    e = np.array([[0.3, 1.0, -0.4], [0.2, -0.7, 0.5], [1.1, 0.0, 0.6]])
    y, ydot = cr.jvp(linalg.sqrtm, (G,), (e,))
    assert_allclose(y @ ydot + ydot @ y, e, atol=1e-12)


def test_second_derivatives_of_matrix_functions_match_differences():
    cr.check_grads(lambda a: linalg.expm(a)[0], (G / 2,), order=2)
    cr.check_grads(lambda a: linalg.sqrtm(a)[:, 1], (G,), order=2)


def test_matrices_given_as_nested_lists_of_traced_numbers():
    f = lambda t: linalg.det([[np.cos(t), -np.sin(t)], [2 * np.sin(t), np.cos(t)]])
    assert_allclose(cr.grad(f)(0.3), np.sin(0.6), rtol=1e-12)


def test_generalized_eigenvalue_problem_is_refused():
    with pytest.raises(UnsupportedArgumentError, match="'b'"):
        linalg.eigh(cr.Variable(A), A)


# -- sums of exponentials ----------------------------------------------------------------------------------------------


def test_logsumexp_has_the_gradient_softmax():
    x = np.array([1000.0, 1001.0, -np.inf])
    assert_allclose(cr.grad(special.logsumexp)(x), scipy.special.softmax(x), rtol=1e-14)
    g = cr.grad(lambda b: special.logsumexp(x[:2], b=b))(np.array([2.0, 0.5]))
    e = np.exp([-1.0, 0.0])
    assert_allclose(g, e / (e @ [2.0, 0.5]), rtol=1e-12)


def test_logsumexp_of_infinities():
    inf = np.inf
    assert_allclose(cr.grad(special.logsumexp)(np.array([-inf, -inf])), [0.0, 0.0])
    assert_allclose(cr.grad(special.logsumexp)(np.array([inf, 1.0])), [1.0, 0.0])
    rows = np.array([[-inf, -inf], [0.0, 0.0]])
    assert_allclose(cr.grad(lambda a: np.sum(special.logsumexp(a, axis=1)))(rows), [[0.0, 0.0], [0.5, 0.5]])


def test_logsumexp_with_signs():
    a, b = np.array([1.0, 2.0]), np.array([1.0, -3.0])
    y, sign = special.logsumexp(cr.Variable(a), b=b, return_sign=True)
    expected, expected_sign = scipy.special.logsumexp(a, b=b, return_sign=True)
    assert_allclose(y.data, expected)
    assert sign == expected_sign == -1
    total = np.sum(b * np.exp(a))
    g = cr.grad(lambda a: special.logsumexp(a, b=b, return_sign=True)[0])(a)
    assert_allclose(g, b * np.exp(a) / total, rtol=1e-12)
    assert np.isnan(special.logsumexp(cr.Variable(a), b=b).data)
    y, sign = special.logsumexp(cr.Variable(a), return_sign=True)
    assert sign == 1.0


def test_softmax_and_its_logarithm_far_out():
    x = np.array([0.0, 2000.0])
    assert_allclose(cr.jacobian(special.softmax)(x), np.zeros((2, 2)))
    assert_allclose(cr.jacobian(special.log_softmax)(x), [[1.0, -1.0], [0.0, 0.0]])


# -- the package -------------------------------------------------------------------------------------------------------


def test_originals_are_pairs_of_scipys_and_ours():
    found = csp.ORIGINALS()
    table = {id(original): ours for original, ours in found}
    assert table[id(scipy.linalg.solve)] is linalg.solve
    assert table[id(scipy.special.logsumexp)] is special.logsumexp
    assert table[id(scipy.stats.norm)] is stats.norm
    for original, ours in found:
        if inspect.isfunction(original):
            assert original in RULES
            assert inspect.signature(ours) == inspect.signature(original)


def test_the_names_that_errors_offer_are_those_of_the_package():
    for home, names in IN_MIRROR.items():
        module = getattr(csp, home.rpartition(".")[2])
        theirs = sys.modules[home]
        entries = {n for n in dir(theirs) if any(getattr(theirs, n) is original for original in csp.ENTRIES)}
        assert entries == set(names), home
        assert all(getattr(module, n) is csp.ENTRIES[getattr(theirs, n)] for n in names)


def test_all_other_names_are_scipys():
    assert linalg.lu is scipy.linalg.lu
    assert special.erf is scipy.special.erf
    assert stats.poisson is scipy.stats.poisson
    assert csp.__version__ == scipy.__version__
    assert "linalg" in dir(csp)
    with pytest.raises(AttributeError):
        linalg.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda x: scipy.special.logsumexp(x), "from chainrule.scipy import special;  special.logsumexp"),
        (lambda x: scipy.linalg.cholesky(np.outer(x, x)), "from chainrule.scipy import linalg;  linalg.cholesky"),
        (lambda x: scipy.linalg.solve(np.outer(x, x), x), "from chainrule.scipy import linalg;  linalg.solve"),
        (lambda x: scipy.stats.norm.logpdf(x), "from chainrule.scipy.stats import norm"),
        (lambda x: scipy.linalg.lu(np.outer(x, x)), "write it with NumPy's functions"),
    ],
    ids=["logsumexp", "cholesky", "solve", "norm", "lu"],
)
def test_scipys_own_function_names_the_line_to_write_instead(call, advice):
    with pytest.raises(ConversionError, match=r"scipy\.") as caught:
        cr.grad(lambda x: np.sum(call(x)))(np.array([1.0, 2.0]))
    assert advice in str(caught.value)
    assert "where: test_scipy.py" in str(caught.value)


def test_without_scipy_the_package_says_what_to_install():
    code = (
        "import sys\n"
        "sys.modules['scipy'] = None\n"
        "import chainrule\n"
        "try:\n    import chainrule.scipy\n"
        "except ImportError as error:\n    print(type(error).__name__, str(error))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MissingDependencyError" in done.stdout
    assert "pip install 'chainrule[scipy]'" in done.stdout


def test_each_part_is_loaded_when_it_is_used():
    code = (
        "import sys, chainrule.scipy as csp\n"
        "print('scipy.stats' in sys.modules, 'scipy.linalg' in sys.modules)\n"
        "csp.linalg.expm; print('scipy.linalg' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "False"]
