"""Elementwise functions where it is hard: kinks, tails, huge and tiny arguments, complex numbers, operators, methods.

The generic points of every rule are in `test_rules`. Expected values here are closed forms, or mpmath's with 30 digits.
"""

import math
import operator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import chainrule as cr
from chainrule.errors import NoRuleError, OutArgumentError, UnsupportedArgumentError

A = np.array([0.7, -1.3, 2.2])
M = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.2]])


def derivatives(f, x, orders):
    """Return f', f'', ... at x."""
    found = []
    for _ in range(orders):
        f = cr.grad(f)
        found.append(float(f(x)))
    return found


# -- huge, tiny, and the tails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (np.arcsinh, 1e200, 1e-200),
        (np.arccosh, 1e200, 1e-200),
        (np.arctan, 1e150, 1e-300),
        (np.log1p, 1e-20, 1.0),
        (np.expm1, -40.0, 4.248354255291589e-18),
        (np.arcsin, 1 - 2.0**-40, 741455.2001895312),
        (np.tanh, 10.0, 8.2446144456e-09),
        (cr.sigmoid, 40.0, 4.248354255291589e-18),
        (cr.sigmoid, -745.0, 5e-324),
        (lambda x: np.hypot(x, 1e200), 1e200, math.sqrt(0.5)),
        (lambda x: np.arctan2(x, 1e200), 1e200, 0.5e-200),
        (lambda x: np.arctan2(x, 1e-200), 1e-200, 0.5e200),
        (lambda x: np.logaddexp(x, 0.0), 800.0, 1.0),
        (lambda x: np.logaddexp(x, 0.0), -800.0, 0.0),
        (np.i0, 600.0, 6.141181345066892e258),
    ],
)
def test_derivative_keeps_its_digits_far_out(f, x, expected):
    rtol = 1e-7 if f is np.tanh else 1e-11 if expected else 0
    assert_allclose(cr.grad(f)(x), expected, rtol=rtol, atol=0)
    assert_allclose(cr.jvp(f, (x,), (1.0,))[1], expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("f", [np.log, np.log2, np.log10, np.sqrt])
def test_an_overflow_below_a_slow_function_is_nan_and_no_plausible_number(f):
    x = np.array([800.0, 0.0])
    with np.errstate(over="ignore", invalid="ignore"):
        g = cr.elementwise_grad(lambda x: f(1 + np.exp(x)))(x)
        tangent = cr.jvp(lambda x: f(1 + np.exp(x)), (x,), (np.ones(2),))[1]
        scalar = cr.grad(lambda x: f(1 + np.exp(x)))(800.0)
    assert np.isnan([g[0], tangent[0], scalar]).all()
    assert np.isfinite([g[1], tangent[1]]).all()


def test_an_overflow_in_a_denominator_is_a_tail():
    f = lambda x: 1 / (1 + np.exp(-x))
    with np.errstate(over="ignore"):
        assert_array_equal(cr.elementwise_grad(f)(np.array([-800.0, 0.0])), [0.0, 0.25])
        assert cr.grad(f)(-800.0) == cr.jvp(f, (-800.0,), (1.0,))[1] == 0.0


def test_sinc_has_the_derivatives_of_its_series_at_zero():
    # sinc(x) = sum (-1)^k (pi x)^(2k) / (2k+1)!, so derivative 2k at 0 is (-1)^k pi^(2k) / (2k+1)
    expected = [0.0 if n % 2 else (-1) ** (n // 2) * math.pi**n / (n + 1) for n in range(1, 7)]
    assert_allclose(derivatives(np.sinc, 0.0, 6), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("x", [1e-9, 0.2, 0.3183, 0.75, 5.5])
def test_sinc_has_its_derivatives_elsewhere(x):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        f = lambda t: mpmath.sin(mpmath.pi * t) / (mpmath.pi * t) if t else mpmath.mpf(1)
        expected = [float(mpmath.diff(f, mpmath.mpf(x), n)) for n in range(1, 5)]
    assert_allclose(derivatives(np.sinc, x, 4), expected, rtol=1e-11, atol=1e-12)


def test_i0_has_the_derivatives_of_its_series_at_zero():
    # I0(x) = sum (x/2)^(2k) / k!^2, so derivative 2k at 0 is (2k)! / (4^k k!^2)
    expected = [0, 1 / 2, 0, 3 / 8, 0, 5 / 16]
    assert_allclose(derivatives(np.i0, 0.0, 6), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("x", "i1"), [(0.5, 0.2578943053908963), (8.5, 641.6199025400668), (-1.0, -0.5651591039924851)]
)
def test_derivative_of_i0_is_i1(x, i1):
    assert_allclose(cr.grad(np.i0)(x), i1, rtol=1e-11)


def test_softplus_is_smooth_at_equal_arguments():
    # the derivatives of log(1 + e^x) at 0: 1/2, 1/4, 0, -1/8, 0, 1/4
    assert_allclose(derivatives(lambda x: np.logaddexp(x, 0.0), 0.0, 6), [0.5, 0.25, 0, -0.125, 0, 0.25], atol=1e-14)


def test_power_with_a_base_below_zero_needs_no_logarithm():
    assert derivatives(lambda x: x**3, -2.0, 4) == [12.0, -12.0, 6.0, 0.0]
    assert_allclose(cr.elementwise_grad(lambda x: x**-2)(np.array([-2.0, 4.0])), [0.25, -0.03125])


def test_remainder_in_the_divisor_jumps_with_the_quotient():
    # a % b = a - b floor(a / b)
    for a, b in ((7.0, 2.0), (-7.0, 2.0), (7.0, -2.0), (-7.0, -2.0)):
        assert cr.grad(operator.mod, argnums=(0, 1))(a, b) == (1.0, -math.floor(a / b))
        assert cr.grad(np.fmod, argnums=(0, 1))(a, b) == (1.0, -math.trunc(a / b))


# -- what is not taken stays out -------------------------------------------------------------------------------


def test_an_infinite_slope_behind_a_maximum_that_is_not_taken_is_zero():
    f = lambda x: np.sum(np.maximum(np.sqrt(x), 1.0))
    assert_array_equal(cr.grad(f)(np.array([0.0, 4.0])), [0.0, 0.25])
    assert_array_equal(cr.jvp(f, (np.array([0.0, 4.0]),), (np.ones(2),))[1], 0.25)


def test_where_keyword_of_a_ufunc_hides_what_is_left_out():
    x = np.array([2.0, 0.0, -1.0])
    f = lambda x: np.sum(np.where(x > 0, np.log(x, where=x > 0), 0.0))
    assert_array_equal(cr.grad(f)(x), [0.5, 0.0, 0.0])
    assert_array_equal(np.diag(cr.hessian(f)(x)), [-0.25, 0.0, 0.0])


def test_dtype_keyword_of_a_ufunc_computes_in_that_dtype():
    x = np.array([1.0, 2.0], np.float32)
    y = np.exp(cr.Variable(x), dtype=np.float64)
    assert y.dtype == np.float64
    g = cr.grad(lambda x: np.sum(np.exp(x, dtype=np.float64)))(x)
    assert g.dtype == np.float32
    assert_allclose(g, np.exp(x), rtol=1e-6)


def test_piecewise_and_select_show_no_function_what_is_not_its_part():
    x = np.array([-4.0, 0.0, 9.0])
    seen = []

    def root(t):
        seen.append(cr.value(t).min())
        return np.sqrt(t)

    g = cr.grad(lambda x: np.sum(np.piecewise(x, [x < 0, x > 1], [np.negative, root, 3.0])))(x)
    assert_allclose(g, [-1.0, 0.0, 1 / 6])
    assert min(seen) == 9.0
    g = cr.grad(lambda x: np.sum(np.select([x > 1, x < 0], [np.sqrt(np.abs(x)), x**2], 1.0)))(x)
    assert_allclose(g, [-8.0, 0.0, 1 / 6])


def test_piecewise_wants_as_many_functions_as_conditions():
    x = cr.Variable(A)
    with pytest.raises(ValueError, match="with 1 condition"):
        np.piecewise(x, [x > 0], [1.0, 2.0, 3.0])


def test_condition_of_where_may_be_overwritten_later():
    def f(x):
        mask = np.array([True, False, True])
        y = np.where(mask, x, 0.0)
        mask[:] = False
        return np.sum(y)

    assert_array_equal(cr.grad(f)(A), [1.0, 0.0, 1.0])


def test_where_with_one_argument_is_nonzero():
    assert_array_equal(np.where(cr.Variable(np.array([0.0, 2.0, 3.0])))[0], [1, 2])


@pytest.mark.parametrize(
    "clip",
    [
        lambda x: np.clip(x, -1.0, 1.0),
        lambda x: np.clip(x, a_min=-1.0, a_max=1.0),
        lambda x: x.clip(-1.0, 1.0),
        lambda x: np.clip(np.clip(x, None, 1.0), -1.0, None),
    ],
)
def test_clip_in_all_ways_of_calling(clip):
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert_array_equal(cr.grad(lambda x: np.sum(clip(x)))(x), [0, 1, 1, 1, 0])


# -- complex numbers -------------------------------------------------------------------------------------------


def test_gradient_of_the_parts_of_a_complex_number():
    z = np.array([3 - 4j, 1j])
    # df/dx - i df/dy for |z|, x y, the angle and |z|^2
    assert_allclose(cr.grad(lambda z: np.sum(np.abs(z)))(z), np.conj(z) / np.abs(z))
    assert_allclose(cr.grad(lambda z: np.sum(z.real * z.imag))(z), z.imag - 1j * z.real)
    assert_allclose(cr.grad(lambda z: np.sum(np.angle(z)))(z), -1j / z)
    assert_allclose(cr.grad(lambda z: np.sum(np.real(z * z.conj())))(z), 2 * np.conj(z))


def test_absolute_of_a_complex_zero_has_gradient_zero():
    assert cr.grad(np.abs)(0j) == 0


def test_a_real_number_keeps_a_real_gradient_through_complex_ones():
    g = cr.grad(lambda x: np.abs(np.exp(1j * x) * (x + 1j)))(0.5)  # sqrt(x^2 + 1)
    assert not np.iscomplexobj(g)
    assert_allclose(g, 0.5 / math.sqrt(1.25))


@pytest.mark.parametrize("z", [2 + 0.5j, -2 + 0.5j, 0.3 - 3j, 1e200 + 1e200j])
@pytest.mark.parametrize("name", ["arcsin", "arccos", "arcsinh", "arccosh", "arctan"])
def test_inverse_functions_are_cut_as_numpy_cuts_them(name, z):
    mpmath = pytest.importorskip("mpmath")
    w = mpmath.mpc(z)
    with mpmath.workdps(30):
        f = getattr(mpmath, {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}.get(name, name.replace("arc", "a")))
        h = abs(w) * mpmath.mpf(10) ** -12
        expected = complex((f(w + h) - f(w - h)) / (2 * h))
    if abs(z) > 1e100:  # the difference drowns there: 1/z, up to a factor +-1, +-i
        expected = 0 if name == "arctan" else {"arcsin": 1j, "arccos": -1j}.get(name, 1) / z
    ours = cr.vjp(getattr(np, name), z)[1](1.0)
    assert_allclose(np.ravel(ours)[0], expected, rtol=1e-10, atol=0 if expected else 1e-290)


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arcsinh", "arccosh", "arctan", "arctanh", "log", "sqrt"])
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("x", [2.0, -2.0])
def test_on_a_cut_the_derivative_is_that_of_numpys_side(name, x, side):
    f = getattr(np, name)
    along = name in ("arcsinh", "arctan")  # whose cuts are on the imaginary axis
    z = complex(math.copysign(0.0, side), x) if along else complex(x, math.copysign(0.0, side))
    h = 1e-3 * (1.0 if along else 1j) * side  # off the cut, to one side only
    expected = (-11 * f(z) + 18 * f(z + h) - 9 * f(z + 2 * h) + 2 * f(z + 3 * h)) / (6 * h)
    assert_allclose(np.ravel(cr.vjp(f, z)[1](1.0))[0], expected, atol=1e-8)
    assert_allclose(np.ravel(cr.jvp(f, (z,), (1.0 + 0j,))[1])[0], expected, atol=1e-8)


def test_real_and_imag_are_views_that_can_be_written():
    def f(x):
        z = x * (1 + 2j)
        z.real[0] = 5 * x[1]
        z.imag *= 3
        z.real += 1
        return np.sum(z.real**2 + z.imag)

    # f = (5 x1 + 1)^2 + (x1 + 1)^2 + 6 x0 + 6 x1
    assert_allclose(cr.grad(f)(np.array([1.0, 2.0])), [6.0, 2 * 11 * 5 + 2 * 3 + 6])


def test_real_array_is_its_own_real_part_and_conjugate():
    x = cr.Variable(A) * 1.0
    assert x.real is x
    assert x.conj() is x
    assert_array_equal(x.imag, np.zeros(3))


# -- gates -----------------------------------------------------------------------------------------------------


def test_gates_are_single_nodes_with_their_local_gradient():
    x = cr.Variable(np.array([-1.0, 0.0, 2.0]))
    y = cr.relu(x)
    assert_array_equal(y.data, [0, 0, 2])
    assert_array_equal(y.creator.local(np.full(3, 3.0))[0], [0, 0, 3])
    s = cr.sigmoid(x)
    assert_allclose(s.creator.local(np.ones(3))[0], s.data * (1 - s.data), rtol=1e-14)
    assert s.creator.inputs == y.creator.inputs == (None,)


def test_gates_keep_the_dtype_and_take_plain_values():
    for dtype in (np.float16, np.float32, np.float64):
        x = np.array([-1.0, 2.0], dtype)
        assert cr.relu(x).dtype == cr.sigmoid(x).dtype == dtype
        assert cr.relu(x[0]).dtype == cr.sigmoid(x[0]).dtype == dtype
    assert_allclose(cr.sigmoid([0, 1]), [0.5, 1 / (1 + math.exp(-1))])
    assert_array_equal(cr.relu([-1, 3]), [0.0, 3.0])
    assert np.isnan(cr.relu(np.nan))


def test_relu_of_complex_numbers_is_refused():
    with pytest.raises(TypeError, match="no order"):
        cr.relu(1j)


# -- operators and Python's own functions ----------------------------------------------------------------------


def test_array_on_the_left_gives_a_traced_value():
    x = cr.Variable(A)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.pow):
        y = op(np.abs(A) + 1, x)
        assert isinstance(y, cr.Variable)
        assert_allclose(y.data, op(np.abs(A) + 1, A))


def test_quotients_rounded_down_are_plain():
    x = cr.Variable(np.array([7.5, -7.5]))
    assert_array_equal(x // 2, [3.0, -4.0])
    assert_array_equal(2 // x, [0.0, -1.0])
    assert_array_equal(np.array([20.0, 20.0]) // x, [2.0, -3.0])
    whole, rest = divmod(x, 2)
    assert_array_equal(whole, [3.0, -4.0])
    assert_array_equal(rest.data, [1.5, 0.5])
    assert [type(v).__name__ for v in divmod(20.0, x)] == ["ndarray", "Variable"]


def test_comparisons_are_plain_and_foreign_types_compare_as_numpy_has_it():
    x = cr.Variable(np.array([1.0, 2.0]))
    assert_array_equal(x < [2, 2], [True, False])
    assert_array_equal(np.array([1.0, 0.0]) >= x, [True, False])
    assert type(cr.Variable(1.0) < 2.0) in (bool, np.bool_)
    assert_array_equal(x == None, [False, False])  # noqa: E711
    assert (x == object()) is False
    with pytest.raises(TypeError, match="not supported between"):
        x < object()  # noqa: B015
    assert 2.0 in x
    assert 3.0 not in x


def test_pythons_own_functions():
    x = cr.Variable(2.6)
    assert (round(x), math.floor(x), math.ceil(x), math.trunc(x)) == (3, 2, 3, 2)
    assert all(type(v) is int for v in (round(x), math.floor(x), math.ceil(x), math.trunc(x)))
    assert cr.grad(lambda v: sum(v) * max(v) + min(v) + abs(v[0]))(np.array([-1.0, 3.0])).tolist() == [3.0, 5.0]


def test_bit_operators_and_modular_powers_are_for_integers():
    x = cr.Variable(2.0)
    for f in (
        lambda: x & 1,
        lambda: 1 | x,
        lambda: ~x,
        lambda: x << 1,
        lambda: np.bitwise_and(x, 1),
        lambda: pow(x, 2, 5),
    ):
        with pytest.raises(TypeError):
            f()


def test_out_argument_is_refused_by_name():
    x = cr.Variable(A)
    for f in (np.sin, np.conjugate, np.absolute, np.sign, np.floor):
        with pytest.raises(OutArgumentError, match="out="):
            f(x, out=np.zeros(3))
    with pytest.raises(OutArgumentError, match="out="):
        np.clip(x, 0, 1, out=np.zeros(3))


def test_nan_to_num_in_place_is_refused():
    with pytest.raises(UnsupportedArgumentError, match="copy"):
        np.nan_to_num(cr.Variable(A), copy=False)


# -- methods of ufuncs -----------------------------------------------------------------------------------------

REDUCTIONS = {
    "add.reduce": lambda x: np.add.reduce(x),
    "add.accumulate": lambda x: np.add.accumulate(x, axis=1),
    "multiply.reduce": lambda x: np.multiply.reduce(x, axis=1),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "maximum.reduce": lambda x: np.maximum.reduce(x),
    "minimum.accumulate": lambda x: np.minimum.accumulate(x, axis=1),
    "subtract.reduce": lambda x: np.subtract.reduce(x, axis=1, keepdims=True),
    "hypot.reduce": lambda x: np.hypot.reduce(x, axis=1),
    "multiply.outer": lambda x: np.multiply.outer(x[0], x),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "logaddexp.reduce keepdims": lambda x: np.logaddexp.reduce(x, axis=1, keepdims=True),
    "logaddexp.reduce all": lambda x: np.logaddexp.reduce(x, axis=None, initial=0.5),
    "logaddexp.reduce where": lambda x: np.logaddexp.reduce(x, axis=1, where=np.array([True, False, True])),
    "logaddexp2.reduce": lambda x: np.logaddexp2.reduce(x),
    "logaddexp.accumulate": lambda x: np.logaddexp.accumulate(x, axis=1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_methods_of_ufuncs_have_numpys_values_and_their_derivatives(name):
    f = REDUCTIONS[name]
    y = f(cr.Variable(M))
    assert y.shape == np.shape(f(M))
    assert_allclose(y.data, f(M), rtol=1e-14)
    cr.check_grads(f, (M,), order=2)


def test_logaddexp_reduce_is_the_softmax_and_stands_minus_infinity():
    f = lambda x: np.logaddexp.reduce(x)
    x = np.array([1.0, -np.inf, 800.0, 801.0])
    w = 1 / (1 + math.e)
    assert_allclose(cr.grad(f)(x), [0.0, 0.0, w, 1 - w], atol=1e-300)
    nothing = np.full(2, -np.inf)
    assert f(cr.Variable(nothing)).data == -np.inf
    assert_array_equal(cr.grad(f)(nothing), [0.0, 0.0])


def test_logical_methods_are_plain():
    x = cr.Variable(M)
    assert_array_equal(np.logical_and.reduce(x > 0), [True, False, False])
    assert_array_equal(np.greater.outer(x[0], x[1]), np.greater.outer(M[0], M[1]))
    assert_array_equal(np.logical_or.accumulate(x), np.logical_or.accumulate(M))


def test_other_methods_say_that_they_have_no_rule():
    with pytest.raises(NoRuleError, match=r"numpy\.floor_divide\.at"):
        np.floor_divide.at(cr.Variable(A), [0, 1], A[:2])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.hypot])
def test_segments_are_reduced(ufunc, mode):
    """An index that is not below the next one stands for a single entry."""
    starts, x = [0, 2, 1, 3], np.array([1.5, 0.5, 2.0, -0.7, 1.1, 0.3])
    f = lambda x: ufunc.reduceat(x, starts)
    assert_allclose(f(cr.Variable(x)).data, ufunc.reduceat(x, starts), rtol=1e-15)
    by_hand = lambda x: np.stack([ufunc(x[0], x[1]), x[2], ufunc(x[1], x[2]), ufunc.reduce(x[3:])])
    assert_allclose(cr.jacobian(f, mode=mode)(x), cr.jacobian(by_hand, mode=mode)(x), rtol=1e-15)
    assert_allclose(np.add.reduceat(cr.Variable(M), [0, 1], axis=1).data, np.add.reduceat(M, [0, 1], axis=1))
    with pytest.raises(IndexError):
        ufunc.reduceat(cr.Variable(x), [0, 6])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_entries_named_several_times_are_changed_as_often(mode):
    index, v = [2, 0, 2, 2], np.array([3.0, 5.0, 7.0, 2.0])

    def f(z):
        y = z[:3] * 1.0
        np.multiply.at(y, index, z[3:])
        np.exp.at(y, [1])
        return y

    z = np.concatenate([[1.5, -0.5, 2.0], v])
    plain = z[:3].copy()
    np.multiply.at(plain, index, v)
    np.exp.at(plain, [1])
    assert_allclose(f(cr.Variable(z)).data, plain)
    want = np.zeros((3, 7))
    want[0, 0], want[0, 4], want[1, 1], want[2, 2] = 5.0, 1.5, math.exp(-0.5), 42.0
    want[2, [3, 5, 6]] = 2 * 42 / v[[0, 2, 3]]
    assert_allclose(cr.jacobian(f, mode=mode)(z), want, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
@pytest.mark.parametrize("n", [np.array([1, 2, 3], np.int8), np.array([1, 2, 3], np.uint8), np.array([True] * 3)])
def test_small_integers_beside_floats_keep_the_dtype(dtype, n):
    x = np.array([1, 2, 4], dtype)
    m = n.astype(float)
    for f, expected in [(lambda x: x / n, 1 / m), (lambda x: x**n, m * np.array([1, 2, 4.0]) ** (m - 1))]:
        gradient = cr.grad(lambda x, f=f: np.sum(f(x)).real)(x)
        tangent = cr.jvp(f, (x,), (np.ones_like(x),))[1]
        assert gradient.dtype == tangent.dtype == dtype
        np.testing.assert_allclose(gradient, expected, rtol=1e-3)
        np.testing.assert_allclose(tangent, expected, rtol=1e-3)


@pytest.mark.parametrize("base", [True, 2, 2.0])
def test_a_python_number_as_base_leaves_the_dtype_to_the_exponent(base):
    gradient = cr.grad(lambda b: np.sum(base**b))(np.array([1, 2], np.float32))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, np.log(base) * np.array([float(base), float(base) ** 2]), rtol=1e-5)


@pytest.mark.parametrize("c", [np.array([1, 2], object), np.array([1, 2], "m8[s]")])
def test_operands_without_a_float_dtype_are_refused(c):
    for f in (lambda x: x * c, lambda x: np.multiply(c, x)):
        with pytest.raises(cr.errors.NotDifferentiableError, match="dtype"):
            cr.grad(lambda x, f=f: np.sum(f(x)))(np.ones(2))
