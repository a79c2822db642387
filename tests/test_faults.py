"""Where a derivative goes wrong: NaN and infinities, kinks, zeros, and what each line costs."""

import re
import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.boxed import CALL, Boxed
from chainrule.errors import NonFiniteError
from chainrule.explain import explain


def root(x):
    r = x - 1
    n = np.sqrt(r)
    return n * 2


ROOT = root.__code__.co_firstlineno


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# -- first_nonfinite -----------------------------------------------------------------------------------------


def test_the_first_infinite_cotangent_is_that_of_the_root_at_zero():
    fault = explain(root, 1.0, mode="reverse").first_nonfinite()
    assert (fault.kind, fault.step, fault.name, fault.line) == ("cotangent", "v2", "r", ROOT + 2)
    assert fault.value == np.inf
    assert str(fault).startswith("the cotangent of v2 (r) first became infinite in the backward pass of sqrt(v2), ")


def test_the_first_infinite_tangent():
    fault = explain(root, 1.0, mode="forward").first_nonfinite()
    assert (fault.kind, fault.step, fault.name, fault.line) == ("tangent", "v3", "n", ROOT + 2)


def test_the_first_value_that_is_not_finite_comes_before_all_derivatives():
    def f(x):
        a = x * 2
        b = np.log(a)
        return b * x

    fault = explain(f, np.array([1.0, 0.0]), mode="both").first_nonfinite()
    assert (fault.kind, fault.name, fault.expression) == ("value", "b", "log(v2)")
    assert fault.line == f.__code__.co_firstlineno + 2


def test_an_input_may_be_the_fault():
    assert str(explain(lambda x: x * 2, np.nan).first_nonfinite()) == "the input v1 (x) is NaN"


def test_nothing_is_found_where_all_is_finite():
    assert explain(root, 2.0).first_nonfinite() is None


# -- debug_nans ----------------------------------------------------------------------------------------------


def raised(f, *args):
    with pytest.raises(NonFiniteError) as caught, cr.debug_nans():
        f(*args)
    return caught.value


def test_a_cotangent_is_found_at_the_line_whose_backward_pass_made_it():
    error = raised(cr.grad(root), 1.0)
    assert (error.kind, error.found, error.function, error.line) == ("cotangent", "infinite", "sqrt", ROOT + 2)
    assert f"where: test_faults.py:{ROOT + 2} in root" in str(error)


def test_a_tangent_is_found_at_its_line():
    error = raised(lambda x: cr.jvp(root, (x,), (1.0,)), 1.0)
    assert (error.kind, error.line) == ("tangent", ROOT + 2)


def test_a_value_is_found_at_its_line_by_operator_function_and_method():
    def divide(x):
        y = x * 1.0
        return (y / np.array([1.0, 0.0])).sum()

    def logarithm(x):
        return np.sum(np.log(x - 1))

    def method(x):
        y = x * 1e200
        return y.prod()

    error = raised(cr.grad(divide), np.array([1.0, 0.0]))
    assert (error.kind, error.found, error.function) == ("value", "NaN", "/")
    assert error.line == divide.__code__.co_firstlineno + 2
    assert raised(cr.grad(logarithm), np.array([2.0, 1.0])).line == logarithm.__code__.co_firstlineno + 1
    error = raised(cr.grad(method), np.array([2.0, 1.0]))
    assert (error.function, error.line) == ("prod", method.__code__.co_firstlineno + 2)


def test_operators_are_checked_at_each_use_not_only_at_the_first():
    for _ in range(3):
        error = raised(cr.grad(lambda x: x % 0.0), np.float64(1.0))
        assert (error.kind, error.function) == ("value", "%")


def test_eager_variables_batches_and_second_derivatives():
    x = cr.Variable(1.0)
    assert raised(lambda: root(x).backward()).line == ROOT + 2
    assert raised(cr.vmap(cr.grad(root)), np.array([1.0, 2.0])).line == ROOT + 2
    f = lambda x: x**1.5
    error = raised(cr.grad(cr.grad(f)), 0.0)
    assert (error.kind, error.line) == ("cotangent", f.__code__.co_firstlineno)


def test_a_compiled_function_is_looked_at_where_its_result_is_not_finite():
    compiled = cr.compile(cr.grad(root))
    assert compiled(2.0) == compiled(2.0) == 1.0
    assert raised(compiled, 1.0).line == ROOT + 2


def test_what_is_finite_passes():
    f = lambda x: np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0))
    with cr.debug_nans():
        np.testing.assert_array_equal(cr.grad(f)(np.array([0.0, 4.0])), [0.0, 0.25])
        assert cr.grad(root)(2.0) == 1.0
        np.testing.assert_array_equal(cr.grad(lambda x: np.linalg.norm(x) ** 2)(np.zeros(3)), np.zeros(3))


def test_repeated_eigenvalues_are_judged_by_the_second_run():
    def smooth(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * np.exp(w)) @ v.T)  # the sum of the entries of exp(a)

    def vector(a):
        v = np.linalg.eigh(a)[1]
        return np.sum(v[:, 0])

    a = np.eye(2)
    with cr.debug_nans():
        np.testing.assert_allclose(cr.grad(smooth)(a), np.full((2, 2), np.e), rtol=1e-12)
        np.testing.assert_allclose(cr.jvp(smooth, (a,), (np.eye(2),))[1], 2 * np.e, rtol=1e-12)
    error = raised(cr.grad(vector), a)
    assert (error.kind, error.found, error.line) == ("cotangent", "NaN", vector.__code__.co_firstlineno + 1)


def test_infinities_may_be_let_through():
    with cr.debug_nans(infinite=False):
        assert cr.grad(root)(1.0) == np.inf
        with pytest.raises(NonFiniteError, match="NaN"):
            cr.grad(lambda x: x / 0.0 * 0.0)(np.float64(1.0))


def test_an_infinite_constant_is_no_fault():
    with cr.debug_nans():
        assert cr.grad(lambda x: np.minimum(x, np.inf) * 2)(1.0) == 2.0


def test_after_the_block_nothing_is_checked():
    raised(cr.grad(root), 1.0)
    assert cr.grad(root)(1.0) == np.inf
    assert not [n for n, call in [*CALL.items(), *vars(Boxed).items()] if hasattr(call, "checks")]


def test_blocks_nest_and_end_in_any_case():
    with cr.debug_nans():
        with cr.debug_nans(infinite=False):
            assert cr.grad(root)(1.0) == np.inf
        with pytest.raises(NonFiniteError):
            cr.grad(root)(1.0)
    assert cr.grad(root)(1.0) == np.inf


def test_other_threads_are_not_checked():
    found = []
    with cr.debug_nans():
        thread = threading.Thread(target=lambda: found.append(np.isinf(cr.grad(np.sqrt)(0.0))))
        thread.start()
        thread.join()
    assert found == [True]


# -- kinks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "x", "what"),
    [
        (lambda x: np.maximum(x, 1.0), 1.0, "a tie"),
        (lambda x: np.max(x), [2.0, 1.0, 2.0], "a tie"),
        (lambda x: np.sum(np.max(x, axis=0)), [[2.0, 1.0], [2.0, 3.0]], "a tie, in 1 of 2 entries"),
        (lambda x: np.abs(x), 0.0, "a kink at 0"),
        (lambda x: cr.relu(x), 0.0, "a kink at 0"),
        (lambda x: np.clip(x, 0.0, 1.0), 1.0, "a tie with a bound"),
        (lambda x: np.sqrt(x), 0.0, "an infinite slope at 0"),
        (lambda x: x**0.5, 0.0, "an infinite slope at 0"),
        (lambda x: np.arcsin(x), 1.0, "an infinite slope at ±1"),
        (lambda x: np.hypot(x, x), 0.0, "no derivative at"),
        (lambda x: x % 2.0, 4.0, "a jump"),
        (lambda x: np.linalg.norm(x), [0.0, 0.0], "a kink at 0 (norm)"),
        (lambda x: np.std(x), [1.0, 1.0], "a kink at 0 (standard deviation)"),
        (lambda x: np.floor(x) * x, 3.0, "a jump"),
        (lambda x: np.round(x) * x, 2.5, "a jump"),
        (lambda x: np.where(x > 0, x, -x), 0.0, "equal sides"),
        (lambda x: x if x > 2 else x * 2, 2.0, "equal sides"),
        (lambda x: np.sum(np.linalg.eigvalsh(x)), [[1.0, 0.0], [0.0, 1.0]], "a repeated value"),
    ],
)
def test_a_kink_is_found_where_it_is_hit_and_nowhere_else(f, x, what):
    x = np.asarray(x)[()] if isinstance(x, list) else x
    (kink,) = explain(f, x).kinks()
    assert kink.what.startswith(what)
    assert kink.line == f.__code__.co_firstlineno
    near = x + np.array([[0.013, 0.0], [0.0, 0.021]]) if np.ndim(x) == 2 else x + 0.013 * (1 + np.arange(np.size(x)))
    near = near if np.ndim(x) else abs(float(np.ravel(near)[0]) - 0.026 * (x == 1.0))
    assert explain(f, near).kinks() == []


# -- why_zero ------------------------------------------------------------------------------------------------


def constant(x):
    steps = np.floor(x)
    return steps * 2


def branch(x):
    return np.where(x > 10, x, 1.0) * 2


def unused(x):
    y = x * 2
    return np.exp(y) * 0 + 1


@pytest.mark.parametrize(
    ("f", "x", "line", "reason"),
    [
        (constant, 1.5, 1, "floor has no derivative"),
        (branch, 1.5, 1, "an inactive branch"),
        (unused, 1.5, 2, "the other factor is zero"),
        (lambda x: cr.stop_gradient(x) * 2, 1.5, 0, "stop_gradient"),
        (lambda x: x.astype(int) * 2.0, np.float64(1.5), 0, "a cast to integers"),
        (lambda x: np.sum(x.astype(int) * 2.0), np.array([1.5, 2.0]), 0, "a cast to integers"),
        (lambda x: cr.relu(x), -1.0, 0, "relu is inactive"),
        (lambda x: np.maximum(x, 3.0), 1.0, 0, "another operand"),
        (lambda x: np.clip(x, 2.0, 3.0), 1.0, 0, "outside the bounds"),
        (lambda x: x - x, 1.0, 0, "cancel"),
        (lambda x: x * 2 if x > 7 else 1.0, 1.0, 0, "a comparison"),
        (lambda x: np.argmax(x) * 1.0, np.array([1.0, 2.0]), 0, "an index has no derivative"),
    ],
)
def test_why_zero_names_the_end_of_the_path(f, x, line, reason):
    (answer,) = cr.why_zero(f, x)
    assert answer.is_zero
    found = [e for e in answer.ends if reason in e.reason]
    assert found, str(answer)
    assert found[0].line == f.__code__.co_firstlineno + line


def test_why_zero_of_an_argument_that_is_not_used_and_of_one_that_is():
    first, second = cr.why_zero(lambda x, y: y * 2, 1.0, 2.0)
    assert str(first) == "the gradient in x is zero:\n  it is not used"
    assert not second.is_zero
    assert str(second) == "the gradient in y is not zero"


def test_why_zero_counts_entries():
    (answer,) = cr.why_zero(lambda x: np.sum(cr.relu(x)), np.array([1.0, -1.0, 2.0]))
    assert (answer.zeros, answer.size) == (1, 3)
    assert "in some entries" in answer.ends[0].reason


def test_two_paths_that_cancel_are_told():
    def f(x):
        a = 2 * x
        b = -2 * x
        return np.exp(0 * 1.0) * (a + b)

    (answer,) = cr.why_zero(f, 1.0)
    assert [e.reason for e in answer.ends] == ["the contributions of its paths cancel"]


# -- cost ----------------------------------------------------------------------------------------------------


def layer(w, x):
    z = x @ w
    return np.sum(z * z)


def test_cost_counts_the_operations_of_a_product_and_of_its_backward_pass():
    n, m, k = 7, 5, 3
    cost = explain(layer, np.ones((m, k)), np.ones((n, m))).cost(repeat=1)
    product = cost.rows[0]
    assert product.source == "z = x @ w"
    assert product.line == layer.__code__.co_firstlineno + 1
    assert product.operations[0] == n * k * (2 * m - 1)
    assert product.operations[1] == n * m * (2 * k - 1) + m * k * (2 * n - 1)  # dX = dY Wᵀ, dW = Xᵀ dY
    assert product.bytes[0] == 8 * (n * m + m * k + n * k)
    assert cost.rows[1].operations[0] == 2 * n * k
    assert cost.total.operations[0] == n * k * (2 * m - 1) + 2 * n * k
    assert all(t > 0 for t in cost.total.seconds)


def test_cost_prints_a_line_for_each_of_the_users():
    text = str(explain(layer, np.ones((2, 2)), np.ones((2, 2))).cost(repeat=1))
    assert re.search(r"^ +\d+ +12 .*z = x @ w$", text, re.MULTILINE)
    assert text.splitlines()[-1].endswith("in all")
