"""Rules written outside: one's own functions, in every mode, by each kind of rule."""

import ctypes
import ctypes.util
import importlib.util
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule.adopt.entries import BACK, OURS, fill_scipy
from chainrule.engine.boxed import CALL
from chainrule.engine.rule import RULES


@cr.extend.primitive
def cube(x):
    return x * x * x


@cr.extend.primitive
def neighbours(x):
    return x[1:] + x[:-1]


def neighbours_back(ybar, y, x):
    end = np.zeros(1)
    return np.concatenate([end, ybar]) + np.concatenate([ybar, end])


@pytest.fixture(autouse=True)
def rules_of_this_file():
    """Register the rules for one test only: the registry is the list of what the library itself tests."""
    if importlib.util.find_spec("scipy"):  # what is filled at its first use stays
        import scipy.special

        cr.extend.known(scipy.special.erf)
        fill_scipy()
    before, ours, back = set(RULES), dict(OURS), dict(BACK)
    cr.extend.rule(cube, jvp=lambda xdot, y, x: 3 * x * x * xdot, vjp=lambda ybar, y, x: 3 * x * x * ybar)
    cr.extend.linear(neighbours, neighbours_back)
    yield
    for fun in set(RULES) - before:
        del RULES[fun]
        CALL.pop(fun, None)
    for table, content in ((OURS, ours), (BACK, back)):
        table.clear()
        table.update(content)


X = np.array([0.5, -1.0, 2.0])


def test_a_rule_serves_all_modes_and_orders():
    assert_allclose(cr.grad(lambda x: np.sum(cube(x)))(X), 3 * X**2)
    assert_allclose(cr.jvp(cube, (X,), (np.ones(3),))[1], 3 * X**2)
    assert_allclose(cr.hessian(lambda x: np.sum(cube(x)))(X), np.diag(6 * X))
    assert cr.grad(cr.grad(cr.grad(cube)))(2.0) == 6.0
    cr.check_grads(cube, (X,), order=2)


def test_a_linear_function_needs_its_adjoint_only():
    cr.check_grads(lambda x: neighbours(x) ** 2, (X,), order=2)
    assert_allclose(neighbours(X), X[1:] + X[:-1])


def test_a_second_rule_for_one_function_is_refused():
    with pytest.raises(ValueError, match="has a rule already"):
        cr.extend.elementwise(np.sin, lambda y, x: np.cos(x))


def test_the_advice_of_the_missing_rule_can_be_followed():
    @cr.extend.primitive
    def halve(x):
        return x / 2

    with pytest.raises(cr.errors.NoRuleError, match=r"chainrule\.extend\.rule"):
        cr.grad(halve)(1.0)
    cr.extend.rule(halve, jvp=lambda xdot, y, x: xdot / 2, vjp=lambda ybar, y, x: ybar / 2)
    assert cr.grad(halve)(1.0) == 0.5


def product_like(run):
    """Return the ways to declare ``run(x, w) = x * w``, each by one line."""
    return {
        "partials": {"partials": (lambda y, x, w: w, lambda y, x, w: x)},
        "vjps": {"vjp": (lambda ybar, y, x, w: ybar * w, lambda ybar, y, x, w: ybar * x)},
        "jvps": {"jvp": (lambda xdot, y, x, w: xdot * w, lambda wdot, y, x, w: wdot * x)},
        "vjp": {"vjp": lambda ybar, y, x, w: (ybar * w, ybar * x)},
        "jvp": {"jvp": lambda xdots, y, x, w: xdots[0] * w + xdots[1] * x},
    }


@pytest.mark.parametrize("way", product_like(None))
def test_one_line_for_a_function_of_plain_arrays(way):
    def multiply(x, w):
        assert type(x) is type(w) is np.ndarray
        return np.array([a * b for a, b in zip(x.tolist(), w.tolist(), strict=True)])

    f = cr.extend.rule(multiply, **product_like(multiply)[way])
    w = X + 1.5
    assert_allclose(f(X, w), X * w)
    assert_allclose(cr.grad(lambda x, w: np.sum(f(x, w)), (0, 1))(X, w), (w, X))
    assert_allclose(cr.jvp(f, (X, w), (w, X))[1], w * w + X * X)
    cr.check_grads(lambda x, w: f(x, w) ** 2 * w, (X, w), order=2)


def test_one_line_for_a_linear_function():
    f = cr.extend.rule(lambda x: 2 * np.array(x.tolist()[::-1]), adjoint=lambda ybar, y, x: 2 * ybar[::-1])
    cr.check_grads(lambda x: f(x) ** 2, (X,), order=2)


@pytest.mark.parametrize("rule", [
    {"vjp": lambda ybar, y, x: np.cos(x) * ybar[0] + ybar[1]},
    {"jvp": lambda xdot, y, x: (np.cos(x) * xdot, np.sum(xdot))},
], ids=["vjp", "jvp"])  # fmt: skip
def test_several_results(rule):
    f = cr.extend.rule(lambda x: (np.sin(x), np.sum(x)), **rule)
    cr.check_grads(lambda x: f(x)[0] * f(x)[1] ** 2, (X,), order=2)


def test_a_function_of_the_c_library():
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.cbrt.restype, libm.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]
    cbrt = cr.extend.rule(libm.cbrt, partials=lambda y, x: 1 / (3 * y * y))
    assert cbrt(8.0) == 2.0
    assert_allclose(cr.grad(cbrt)(8.0), 1 / 12)
    assert_allclose(cr.grad(cr.grad(cbrt))(8.0), -2 / 9 / 32)
    assert_allclose(cr.jvp(cbrt, (8.0,), (3.0,))[1], 1 / 4)


def test_functions_of_scipy():
    quad = pytest.importorskip("scipy.integrate").quad
    special = pytest.importorskip("scipy.special")

    # the integral of exp(-t^2) from 0 to b, whose derivative is exp(-b^2); quad takes no traced values
    area = cr.extend.rule(lambda b: quad(lambda t: np.exp(-t * t), 0, b)[0], partials=lambda y, b: np.exp(-b * b))
    assert_allclose(cr.grad(area)(0.7), math.exp(-0.49), rtol=1e-14)
    assert_allclose(cr.grad(cr.grad(area))(0.7), -1.4 * math.exp(-0.49), rtol=1e-14)

    # a ufunc dispatches: the rule is all it needs, and the function stays what it is. d/dx of Dawson's F is 1 - 2xF
    if special.voigt_profile not in RULES:
        gauss = math.sqrt(2 * math.pi)
        f = cr.extend.rule(
            special.voigt_profile, partials=(lambda y, x, s, g: -x * np.exp(-x * x / 2) / gauss, None, None)
        )
        assert f is special.voigt_profile
        assert_allclose(cr.grad(lambda x: special.voigt_profile(x, 1.0, 0.0))(0.5), -0.5 * math.exp(-0.125) / gauss)
    with pytest.raises(ValueError, match="has a rule already"):
        cr.extend.rule(special.erf, partials=lambda y, x: x)


def test_a_ufunc_of_several_operands_by_one_rule():
    """The gamma distribution: its density is the derivative in x, and x / a times that the derivative in a."""
    special = pytest.importorskip("scipy.special")

    def density(a, b, x):
        return a**b * x ** (b - 1) * np.exp(-a * x) / special.gamma(b)

    def gdtr_vjp(ybar, y, a, b, x):
        return ybar * x / a * density(a, b, x), None, ybar * density(a, b, x)

    assert cr.extend.rule(special.gdtr, vjp=gdtr_vjp) is special.gdtr
    a, x = np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert_allclose(cr.grad(lambda x: np.sum(special.gdtr(a, 1.0, x)))(x), a * np.exp(-a * x))  # b = 1: 1 - exp(-a x)
    assert_allclose(cr.hessian(lambda x: np.sum(special.gdtr(a, 1.0, x)))(x), np.diag(-a * a * np.exp(-a * x)))
    assert_allclose(cr.jvp(lambda a: special.gdtr(a, 1.0, x), (a,), (a,))[1], x * a * np.exp(-a * x))


def test_an_operand_without_partial_derivative_raises():
    f = cr.extend.rule(lambda x, n: np.asarray(x) ** n, partials=(lambda y, x, n: n * x ** (n - 1), None))
    assert cr.grad(f)(3.0, 2.0) == 6.0
    with pytest.raises(cr.errors.NoRuleError, match="for argument 1"):
        cr.grad(f, 1)(3.0, 2.0)
    for g in (
        cr.extend.rule(lambda x, n: x**n, vjp=(lambda ybar, y, x, n: ybar * n * x ** (n - 1), None)),
        cr.extend.rule(lambda x, n: x**n, jvp=(lambda xdot, y, x, n: xdot * n * x ** (n - 1), None)),
    ):
        assert cr.grad(g)(3.0, 2.0) == 6.0
        assert cr.jvp(lambda x, g=g: g(x, 2.0), (3.0,), (1.0,))[1] == 6.0
        with pytest.raises(cr.errors.ChainruleError, match="for argument 1"):
            cr.grad(g, 1)(3.0, 2.0)


def hidden(x):
    return float(np.asarray(x).tolist()) ** 3


def uses_hidden(x):
    return 2 * hidden(x)


def test_adopted_code_calls_what_has_the_rule():
    cr.extend.rule(hidden, partials=lambda y, x: 3 * x * x)
    assert cr.grad(cr.adopt(uses_hidden))(2.0) == 24.0
    assert uses_hidden(2.0) == 16.0


WRONG = {
    "vjp": ({"vjp": lambda ybar, y, x: np.sum(ybar)}, r"cotangent of operand 0 of shape \(\); it must be \(3,\)"),
    "jvp": ({"jvp": lambda xdot, y, x: np.sum(xdot)}, r"tangent of shape \(\); it must be \(3,\)"),
    "partials": ({"partials": lambda y, x: x[:, None]}, r"derivative of shape \(3, 1\); it must be \(3,\)"),
    "adjoint": ({"adjoint": lambda ybar, y, x: ybar[:2]}, r"cotangent of operand 0 of shape \(2,\); it must be \(3,\)"),
}


@pytest.mark.parametrize(("rule", "match"), WRONG.values(), ids=WRONG)
def test_a_derivative_of_a_wrong_shape_raises(rule, match):
    f = cr.extend.rule(lambda x: np.asarray(x) * 2, **rule)
    with pytest.raises(cr.errors.ShapeError, match=r"<lambda> \(test_extend.py:\d+\) returned a .*" + match):
        cr.grad(lambda x: np.sum(f(x)))(X)


def test_wrong_definitions_are_told():
    with pytest.raises(TypeError, match="it was given nothing"):
        cr.extend.rule(hidden)
    with pytest.raises(TypeError, match="it was given partials and jvp or vjp"):
        cr.extend.rule(hidden, partials=lambda y, x: 1.0, vjp=lambda ybar, y, x: ybar)
    with pytest.raises(TypeError, match="takes a function"):
        cr.extend.rule(3.0, partials=lambda y, x: 1.0)
    with pytest.raises(TypeError, match="a rule must be a Python function"):
        cr.extend.rule(hidden, partials=np.cos)
    f = cr.extend.rule(lambda x, w: np.asarray(x) * w, vjp=lambda ybar, y, x, w: ybar)
    with pytest.raises(cr.errors.ShapeError, match="1 cotangent for 2 arguments"):
        cr.grad(lambda x: np.sum(f(x, 2.0)))(X)
