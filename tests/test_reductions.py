"""Reductions at the points where a rule could go wrong: zeros, ties, NaN, empty arrays, large counts, affine keywords.

Expected values are closed forms; that the rules hold at generic points is tested by walking through the registry.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import chainrule as cr


def cofactors(x):
    """Return the product of all other entries, for each."""
    return np.array([np.prod(np.delete(x, i)) for i in range(x.size)])


def second_cofactors(x):
    """Return the Hessian of a product: the product of all entries but two, and 0 on the diagonal."""
    n = x.size
    h = [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]
    return np.array(h)


# -- products ----------------------------------------------------------------------------------------------------------

FACTORS = {
    "no zero": [2.0, 3.0, -4.0, 0.5],
    "one zero": [2.0, 0.0, -4.0, 0.5],
    "two zeros": [0.0, 3.0, 0.0, 0.5],
    "three zeros": [0.0, 0.0, 0.0, 0.5],
    "odd count": [2.0, 0.0, -4.0, 0.5, 3.0],
    "one factor": [0.0],
    "two factors": [0.0, 3.0],
}


@pytest.mark.parametrize("x", FACTORS.values(), ids=FACTORS)
def test_product_gradient_is_the_product_of_the_others(x):
    x = np.array(x)
    assert_allclose(cr.grad(np.prod)(x), cofactors(x), atol=1e-15)
    assert_allclose(cr.jvp(np.prod, (x,), (np.arange(1.0, x.size + 1),))[1], np.arange(1.0, x.size + 1) @ cofactors(x))


@pytest.mark.parametrize("x", FACTORS.values(), ids=FACTORS)
def test_product_hessian_is_right_with_zeros(x):
    x = np.array(x)
    assert_allclose(cr.hessian(np.prod)(x), second_cofactors(x), atol=1e-14)


def test_third_derivative_of_a_product_of_three_zeros():
    third = cr.jacobian(cr.hessian(np.prod))(np.zeros(3))
    want = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        want[i, j, k] = 1.0
    assert_allclose(third, want, atol=1e-15)


def test_product_that_underflows_or_overflows_keeps_its_gradient():
    assert_allclose(cr.grad(np.prod)(np.array([1e-200, 3e-200])), [3e-200, 1e-200])
    with np.errstate(over="ignore"):
        assert_allclose(cr.grad(np.prod)(np.array([1e200, 3e200])), [3e200, 1e200])


def test_initial_is_a_factor_and_where_leaves_factors_out():
    x, mask = np.array([0.0, 3.0, 5.0]), np.array([True, True, False])
    assert_allclose(cr.grad(lambda x: np.prod(x, initial=10.0, where=mask))(x), [30.0, 0.0, 0.0])


def test_cumprod_jacobian_is_right_with_zeros():
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    want = [[np.prod(np.delete(x[: k + 1], i)) if i <= k else 0.0 for i in range(5)] for k in range(5)]
    for mode in ("forward", "reverse"):
        assert_allclose(cr.jacobian(np.cumprod, mode=mode)(x), want, atol=1e-15)
    assert_allclose(cr.hessian(lambda x: np.cumprod(x)[2])(x)[:3, :3], second_cofactors(x[:3]), atol=1e-15)


# -- sums and means ----------------------------------------------------------------------------------------------------


def test_initial_of_a_sum_adds_a_constant_only():
    x = np.array([1.0, 2.0])
    y, ydot = cr.jvp(lambda x: np.sum(x, initial=7.0), (x,), (np.ones(2),))
    assert y == 10.0
    assert ydot == 2.0
    assert_array_equal(cr.grad(lambda x: np.sum(x, initial=7.0))(x), [1.0, 1.0])


def test_traced_initial_is_refused():
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="initial"):
        cr.grad(lambda x: np.sum(x, initial=x[0]))(np.ones(2))


def test_where_gives_exact_zeros_outside_even_beside_nan():
    x, mask = np.array([1.0, np.nan, 3.0]), np.array([True, False, True])
    for fun, share in ((np.sum, 1.0), (np.mean, 0.5)):
        assert_array_equal(cr.grad(lambda x, fun=fun: fun(x, where=mask))(x), share * mask)
        assert cr.jvp(lambda x, fun=fun: fun(x, where=mask), (x,), (x,))[1] == 4.0 * share


def test_dtype_of_the_sum_is_that_asked_for_and_of_the_gradient_that_of_the_argument():
    x = np.ones(3, np.float32)
    y, pull = cr.vjp(lambda x: np.sum(x, dtype=np.float64), x)
    assert y.dtype == np.float64
    assert pull(np.float64(1.0))[0].dtype == np.float32


def test_a_mean_of_many_float16_is_shared_without_overflow():
    x = np.ones(70_000, np.float16)
    g = cr.grad(np.mean)(x)
    assert g.dtype == np.float16
    assert_array_equal(g, np.float16(1 / 70_000))


def test_reductions_of_a_python_float():
    for fun, slope in ((np.sum, 1.0), (np.mean, 1.0), (np.prod, 1.0), (np.max, 1.0), (np.median, 1.0), (np.var, 0.0)):
        assert cr.grad(fun)(3.0) == slope
        assert cr.jvp(fun, (3.0,), (1.0,))[1] == slope


def test_empty_arrays():
    empty = np.zeros((0, 3))
    for fun in (np.sum, np.prod):
        assert cr.grad(fun)(empty).shape == (0, 3)
    assert_array_equal(cr.grad(lambda x: np.sum(np.prod(x, axis=0)))(empty), empty)
    assert cr.grad(lambda x: np.sum(np.max(x, axis=1)))(empty).shape == (0, 3)


def test_reduce_and_accumulate_of_ufuncs():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    w = np.array([1.0, 10.0])
    assert_array_equal(cr.grad(lambda x: np.sum(w * np.add.reduce(x)))(x), [[1, 10], [1, 10]])
    assert_array_equal(cr.grad(lambda x: np.sum(w * np.multiply.reduce(x)))(x), [[3, 40], [1, 20]])
    assert_array_equal(cr.grad(lambda x: np.sum(w * np.maximum.reduce(x)))(x), [[0, 0], [1, 10]])
    assert_array_equal(cr.grad(lambda x: np.sum(w * np.add.accumulate(x, axis=1)))(x), [[11, 10], [11, 10]])


# -- extrema -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fun", [np.max, np.amax, np.min, np.amin, np.nanmax, np.nanmin], ids=lambda f: f.__name__)
def test_ties_share_equally(fun):
    x = np.array([[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]])
    assert_allclose(cr.grad(fun)(x), np.full((2, 3), 1 / 6))
    assert_allclose(cr.grad(lambda x: np.sum(fun(x, axis=1)))(x), np.full((2, 3), 1 / 3))
    assert_allclose(cr.jvp(fun, (x,), (np.arange(6.0).reshape(2, 3),))[1], 2.5)


def test_many_ties_in_float16_do_not_overflow():
    x = np.ones(70_000, np.float16)
    assert_array_equal(cr.grad(np.max)(x), np.float16(1 / 70_000))
    assert cr.jvp(np.max, (x,), (x,))[1] == np.float16(1.0)


def test_initial_takes_part_in_the_extremum():
    x = np.array([1.0, 3.0])
    assert_array_equal(cr.grad(lambda x: np.max(x, initial=5.0))(x), [0.0, 0.0])
    assert_array_equal(cr.grad(lambda x: np.max(x, initial=3.0))(x), [0.0, 0.5])
    assert_array_equal(cr.grad(lambda x: np.max(x, initial=2.0))(x), [0.0, 1.0])


def test_range_of_values():
    assert_array_equal(cr.grad(np.ptp)(np.array([1.0, 5.0, 2.0])), [-1.0, 1.0, 0.0])


# -- spread ------------------------------------------------------------------------------------------------------------


def test_variance_is_smooth_at_zero():
    x = np.full(4, 3.0)
    assert_array_equal(cr.grad(np.var)(x), np.zeros(4))
    assert_allclose(cr.hessian(np.var)(x), (np.eye(4) - 0.25) / 2, atol=1e-15)


def test_standard_deviation_has_gradient_zero_at_zero_variance_and_no_second_derivative():
    x = np.full(3, 3.0)
    assert_array_equal(cr.grad(np.std)(x), np.zeros(3))
    assert cr.jvp(np.std, (x,), (np.arange(3.0),))[1] == 0.0
    assert np.isnan(cr.hessian(np.std)(x)).all()


def test_standard_deviation_of_lines_one_of_which_is_constant():
    x = np.array([[1.0, 3.0], [2.0, 2.0]])
    assert_allclose(cr.grad(lambda x: np.sum(np.std(x, axis=1)))(x), [[-0.5, 0.5], [0.0, 0.0]])


def test_variance_about_a_given_mean_differentiates_both():
    x = np.array([1.0, 2.0, 6.0])
    about = cr.grad(lambda x: np.var(x, mean=np.mean(x, keepdims=True)))(x)
    assert_allclose(about, 2 * (x - 3.0) / 3)
    assert_allclose(cr.grad(lambda m: np.var(x, mean=m))(np.array([1.0])), [-4.0])  # d/dm mean((x - m)^2)


def test_variance_of_complex_values():
    z = np.array([1 + 2j, 3 - 1j, -2 + 0j])
    assert_allclose(cr.grad(np.var)(z), 2 * np.conj(z - z.mean()) / 3)


def test_ddof_and_correction_mean_the_same():
    x = np.array([1.0, 2.0, 6.0])
    for options in ({"ddof": 1}, {"correction": 1}):
        assert_allclose(cr.grad(lambda x, o=options: np.var(x, **o))(x), x - 3.0)


# -- order statistics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull"])
def test_quantile_gives_each_sorted_entry_its_weight(method):
    """A quantile is linear in the sorted entries: its weights are its values on the unit steps."""
    n, q = 5, [0.13, 0.5, 0.9]
    steps = np.triu(np.ones((n, n)))  # row k: zeros, then ones from entry k on
    tails = np.array([np.quantile(row, q, method=method) for row in steps])
    weights = tails - np.vstack([tails[1:], np.zeros((1, 3))])
    order = np.array([3, 0, 4, 1, 2])
    x = np.empty(n)
    x[order] = np.arange(n) ** 2.0
    jacobian = cr.jacobian(lambda x: np.quantile(x, q, method=method))(x)
    assert_allclose(jacobian[:, order], weights.T, atol=1e-12)


def test_median_with_nan_and_without():
    x = np.array([5.0, np.nan, 1.0, 2.0])
    assert_array_equal(cr.grad(np.nanmedian)(x), [0.0, 0.0, 0.0, 1.0])
    assert np.isnan(cr.vjp(np.median, x)[0])


# -- without NaN -------------------------------------------------------------------------------------------------------


def test_versions_without_nan_give_nan_entries_an_exact_zero():
    x = np.array([1.0, np.nan, 4.0])
    assert_array_equal(cr.grad(np.nansum)(x), [1.0, 0.0, 1.0])
    assert_array_equal(cr.grad(np.nanmean)(x), [0.5, 0.0, 0.5])
    assert_array_equal(cr.grad(np.nanprod)(x), [4.0, 0.0, 1.0])
    assert_array_equal(cr.grad(np.nanmax)(x), [0.0, 0.0, 1.0])
    assert_array_equal(cr.grad(lambda x: np.nancumsum(x)[-1])(x), [1.0, 0.0, 1.0])
    assert_array_equal(cr.grad(lambda x: np.nancumprod(x)[-1])(x), [4.0, 0.0, 1.0])
    assert_allclose(cr.grad(np.nanvar)(x), [-1.5, 0.0, 1.5])
    assert_allclose(cr.grad(np.nanstd)(x), [-0.5, 0.0, 0.5])


# -- average -----------------------------------------------------------------------------------------------------------


def test_average_differentiates_its_weights():
    a, w = np.array([1.0, 5.0]), np.array([1.0, 3.0])
    mean = 4.0
    assert_allclose(cr.grad(lambda w: np.average(a, weights=w))(w), (a - mean) / 4.0)
    _, total = np.average(cr.Variable(a), weights=w, returned=True)
    assert cr.value(total) == 4.0


def test_average_with_weights_that_sum_to_zero_raises_as_numpy():
    with pytest.raises(ZeroDivisionError):
        np.average(cr.Variable(np.ones(2)), weights=[1.0, -1.0])


def test_out_is_refused():
    for fun in (np.sum, np.prod, np.max, np.cumsum, np.var, np.median):
        with pytest.raises(cr.errors.OutArgumentError):
            fun(cr.Variable(np.ones(2)), out=np.zeros(()))


def test_running_products_near_underflow_keep_their_digits():
    # the product 1.5e-322 has two digits, its derivatives have all
    x = np.array([1.2345678901234e-160, 1.2345678901234e-162])
    np.testing.assert_allclose(cr.grad(lambda x: np.cumprod(x)[1])(x), x[::-1], rtol=1e-15)
    np.testing.assert_allclose(cr.jvp(lambda x: np.cumprod(x)[1], (x,), (np.array([1.0, 0.0]),))[1], x[1], rtol=1e-15)
