"""Rules written outside: one's own functions, in every mode, by each kind of rule."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
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
    before = set(RULES)
    cr.extend.rule(cube, jvp=lambda xdot, y, x: 3 * x * x * xdot, vjp=lambda ybar, y, x: 3 * x * x * ybar)
    cr.extend.linear(neighbours, neighbours_back)
    yield
    for fun in set(RULES) - before:
        del RULES[fun]
        CALL.pop(fun, None)


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
