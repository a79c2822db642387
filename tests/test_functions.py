"""Interpolation, polynomials, sets, histograms, functions of functions, and what chainrule.numpy has of them.

Expected derivatives are closed forms, or those of the same calculation written with arithmetic alone.
"""

import numpy as np
import pytest

import chainrule as cr
import chainrule.numpy as cnp
from chainrule.engine.boxed import CALL
from chainrule.errors import (
    ConversionError,
    NotDifferentiableError,
    OutArgumentError,
    UnsupportedArgumentError,
    UnsupportedFunctionError,
)

X = np.array([0.3, 0.7, -0.2])
MODES = ("forward", "reverse")


def slopes(f, x, mode):
    """Return the Jacobian of `f` at `x`."""
    return cr.jacobian(f, mode=mode)(x)


def differences(f, x, h=1e-6):
    """Return the Jacobian of `f` at `x` by central differences of plain NumPy."""
    steps = h * np.eye(x.size).reshape(x.size, *x.shape)
    columns = [(np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * h) for e in steps]
    return np.stack(columns, axis=-1).reshape(np.shape(f(x)) + x.shape)


# -- interpolation and angles ------------------------------------------------------------------------------------------


def test_interpolation_is_a_line_in_the_place_and_in_the_values():
    knots, values = np.array([0.0, 1.0, 3.0]), np.array([2.0, 4.0, 1.0])
    place = cr.grad(lambda x: np.interp(x, knots, values))
    assert [place(v) for v in (0.5, 1.0, 2.0, 3.0)] == [2.0, -1.5, -1.5, -1.5]  # at a knot the line to the right
    assert [place(v) for v in (-1.0, 3.5)] == [0.0, 0.0]
    shares = slopes(lambda f: np.interp([0.25, 2.0, 9.0], knots, f), values, "reverse")
    np.testing.assert_allclose(shares, [[0.75, 0.25, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])


def test_interpolation_follows_its_knots():
    values = np.array([2.0, 4.0, 1.0])
    f = lambda k: np.interp([0.5, 2.0], k, values)
    knots = np.array([0.0, 1.0, 3.0])  # y = f0 + (f1 - f0) (x - k0) / (k1 - k0)
    np.testing.assert_allclose(slopes(f, knots, "forward"), [[-1.0, -1.0, 0.0], [0.0, 0.75, 0.75]])


@pytest.mark.parametrize(
    "x", [-0.1, 0.0, 0.999, 1.0, 2.5, np.array([[5.0, 1.0]]), [0.5, 0.2], np.float32(0.5), 3, np.nan]
)
def test_interpolation_gives_the_values_of_plain_numpy(x):
    knots, values = np.array([0.0, 0.3, 1.0]), np.array([2.0, 4.0, 1.0])
    for options in ({}, {"left": -1.0, "right": 7.5}, {"period": 0.8}):
        y = np.interp(x, cr.Variable(knots), values, **options)
        expected = np.interp(x, knots, values, **options)
        assert type(cr.value(y)) is type(expected)
        np.testing.assert_array_equal(cr.value(y), expected)


def test_turns_added_to_an_angle_are_constant():
    x = np.array([1.0, 8.0, 14.0])
    g = cr.grad(lambda x: np.sum(np.unwrap(x) ** 2))(x)
    np.testing.assert_allclose(g, 2 * (x - 2 * np.pi * np.array([0, 1, 2])))


# -- polynomials -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_root_moves_by_the_implicit_function_theorem(mode):
    p = np.array([1.0, -3.0, 2.0])  # roots 2 and 1, p' = 1 and -1 there
    np.testing.assert_allclose(slopes(np.roots, p, mode), [[-4.0, -2.0, -1.0], [1.0, 1.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_roots_with_zero_coefficients_in_front_and_behind(mode):
    """NumPy cuts zeros off. The roots move with those coefficients all the same."""
    p = np.array([0.0, 1.0, -2.0, 0.0])  # x**2 - 2 x: roots 2 and 0, p' = 2 and -2 there
    np.testing.assert_allclose(slopes(np.roots, p, mode), [[-4.0, -2.0, -1.0, -0.5], [0.0, 0.0, 0.0, 0.5]], atol=1e-12)


def test_second_derivative_of_a_root():
    f = lambda c: np.roots(np.array([1.0, 0.0, c], like=c))[0] ** 2 + 0.0  # the square of a root of x**2 + c is -c
    assert abs(cr.grad(f)(-2.0) - -1.0) < 1e-12
    assert abs(cr.grad(cr.grad(f))(-2.0)) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_the_characteristic_polynomial_is_smooth_where_eigenvalues_meet(mode):
    """At the unit matrix: det(z - 1 - t e) is (z - 1)**3 - t (z - 1)**2 for a diagonal e."""
    f = lambda t: np.poly(np.eye(3) + t * np.diag([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(slopes(f, np.array(0.0), mode), [0.0, -1.0, 2.0, -1.0], atol=1e-12)


POLYNOMIALS = {
    "call": lambda c: np.poly1d(c)(2.0),
    "sum": lambda c: (np.poly1d(c) + np.poly1d([1.0, 2.0])).coeffs,
    "reflected difference": lambda c: (np.poly1d([1.0, 2.0]) - np.poly1d(c)).coeffs,
    "product": lambda c: (np.poly1d(c) * np.poly1d(c)).coeffs,
    "power": lambda c: (np.poly1d(c) ** 3).coeffs,
    "number": lambda c: (2.0 * np.poly1d(c) + 1.0).coeffs,
    "derivative": lambda c: np.poly1d(c).deriv(2).coeffs,
    "integral": lambda c: np.poly1d(c).integ(k=1.5).coeffs,
    "roots given": lambda c: np.poly1d(c, True).coeffs,
    "roots": lambda c: np.sort(np.poly1d(c * np.array([1.0, 1.0, 3.0])).roots),
    "entry": lambda c: np.poly1d(c)[2],
    "composition": lambda c: np.poly1d(c)(np.poly1d([1.0, -1.0])).coeffs,
    "plain, at a traced place": lambda c: np.poly1d([1.0, 2.0, 3.0])(c),
    "function of it": lambda c: np.polymul(np.poly1d([1.0, 2.0]), c).coeffs,
    "quotient": lambda c: np.polydiv([1.0, 2.0, 3.0, 4.0], c[:2])[0],
    "remainder": lambda c: np.polydiv([1.0, 2.0, 3.0, 4.0], c[:2])[1],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_poly1d_holds_traced_coefficients(name, mode):
    f = POLYNOMIALS[name]
    np.testing.assert_allclose(slopes(f, X, mode), differences(f, X), rtol=2e-7, atol=2e-7)


def test_a_quotient_of_poly1d_objects_raises_with_the_line_to_write():
    with pytest.raises(ConversionError, match=r"np\.polydiv\(p\.coeffs"):
        np.poly1d(cr.Variable(X)) / np.poly1d([1.0, 2.0])


@pytest.mark.parametrize("mode", MODES)
def test_a_fitted_line_follows_data_places_and_weights(mode):
    x, y, w = np.array([0.0, 1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0, 5.0]), np.array([1.0, 2.0, 0.5, 1.5])

    def by_hand(x, y, w):
        s, a = w**2, w**2 * x
        n, sx, sxx = np.sum(s), np.sum(a), np.sum(a * x)
        slope = (n * np.sum(a * y) - sx * np.sum(s * y)) / (n * sxx - sx**2)
        return np.stack([slope, (np.sum(s * y) - slope * sx) / n])

    for k in range(3):
        place = lambda f, k=k: lambda v: f(*[v if i == k else u for i, u in enumerate((x, y, w))])
        found = slopes(place(lambda x, y, w: np.polyfit(x, y, 1, w=w)), (x, y, w)[k], mode)
        np.testing.assert_allclose(found, slopes(place(by_hand), (x, y, w)[k], mode), rtol=1e-10, atol=1e-12)


# -- sets and histograms -----------------------------------------------------------------------------------------------


def test_elements_of_sets_take_their_cotangent_to_their_place():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    weights = np.array([1.0, 10.0, 100.0])
    assert cr.grad(lambda x: np.sum(np.unique(x) * weights))(x).tolist() == [100.0, 1.0, 0.0, 10.0]
    assert cr.grad(lambda x: np.sum(np.setdiff1d(x, [1.0]) ** 2))(x).tolist() == [6.0, 0.0, 0.0, 4.0]
    assert cr.grad(lambda x: np.sum(np.intersect1d([2.0, 3.0], x) * [1.0, 10.0]))(x).tolist() == [0.0] * 4
    assert cr.grad(lambda x: np.sum(np.union1d(x, [0.0, 9.0]) * np.arange(5.0)))(x).tolist() == [3.0, 1.0, 0.0, 2.0]


def test_unique_returns_what_numpy_returns():
    x = np.array([[3.0, 1.0], [3.0, np.nan], [2.0, np.nan]])
    for options in (
        {"return_index": True, "return_inverse": True, "return_counts": True},
        {"axis": 0},
        {"equal_nan": False},
    ):
        found, expected = np.unique(cr.Variable(x), **options), np.unique(x, **options)
        found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(cr.value(a), b)
    for fun in (np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all):
        found, expected = fun(cr.Variable(x)), fun(x)
        assert type(cr.value(found)) is type(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(cr.value(a), b)


def test_bins_made_from_the_data_have_edges_that_follow_its_extremes():
    x = np.array([0.5, 0.0, 2.0, 0.7])
    edges = slopes(lambda x: np.histogram(x, 4)[1], x, "reverse")
    np.testing.assert_allclose(edges, [[0, 1 - t, t, 0] for t in (0, 0.25, 0.5, 0.75, 1)])
    assert isinstance(np.histogram(cr.Variable(x), 4)[0], np.ndarray)  # counts are plain


def test_weights_of_a_histogram_add_up():
    x, w = np.array([0.1, 0.6, 0.4, 5.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    found = slopes(lambda w: np.histogram(x, [0.0, 0.5, 1.0], weights=w)[0], w, "reverse")
    np.testing.assert_array_equal(found, [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1]])
    density = lambda w: np.histogram(x, [0.0, 0.5, 1.0], weights=w, density=True)[0]
    np.testing.assert_allclose(slopes(density, w, "forward"), differences(density, w), atol=1e-8)


# -- functions of functions --------------------------------------------------------------------------------------------


@cnp.vectorize(excluded=["p"])
def at(a, p):
    """Evaluate a polynomial."""
    return np.polyval(p, a)


MIRRORED = {
    "r_": lambda m, x: m.r_[x, 1.0, 0:3:4j, x[0], x[1] : 5 : 2],
    "r_ with axes": lambda m, x: m.r_["-1,3,1", x, x * 2, 0:3],
    "r_ of rows": lambda m, x: m.r_["0,2", x, x * 2],
    "c_": lambda m, x: m.c_[x, x**2, np.ones((3, 2))],
    "mgrid": lambda m, x: m.mgrid[0 : x[0] : 3j, x[1] : 2 : 1],
    "mgrid of one": lambda m, x: m.mgrid[0 : x[0] : 3j],
    "ogrid": lambda m, x: m.ogrid[0 : x[0] : 3j, x[1] : 2 : 1][0],
    "vectorize": lambda m, x: m.vectorize(lambda a, b=2.0: a * b if a > 0 else a * a)(x),
    "vectorize with a closure": lambda m, x: m.vectorize(lambda a: a * x[0])(np.ones((2, 2))),
    "vectorize with several results": lambda m, x: m.vectorize(lambda a, b: (a * b, a + b), otypes="dd")(x[:, None], x)[
        1
    ],
    "vectorize with a signature": lambda m, x: m.vectorize(np.dot, signature="(n),(n)->()")(x * np.ones((2, 3)), x),
    "fromiter": lambda m, x: m.fromiter((v * v for v in x), float, 2),
    "apply_along_axis": lambda m, x: m.apply_along_axis(lambda a: a * x[0], 0, np.ones((2, 3))),
    "apply_over_axes": lambda m, x: m.apply_over_axes(lambda a, k: np.sum(a * x[0], k), np.ones((2, 3)), [0, 1]),
    "piecewise": lambda m, x: m.piecewise(np.arange(3.0), [[True, False, False]], [lambda t: t + x[0], x[1]]),
    "fromfunction": lambda m, x: m.fromfunction(lambda i, j: (i - j) * x[0], (2, 3)),
    "kaiser": lambda m, x: m.kaiser(5, x[0] + 3),
    "asarray_chkfinite": lambda m, x: m.asarray_chkfinite([x[0], x[1] ** 2]),
    "ndenumerate": lambda m, x: np.stack([v * i[0] for i, v in m.ndenumerate(x)]),
    "broadcast": lambda m, x: np.stack([a * b for a, b in m.broadcast(x, x[:, None])]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MIRRORED)
def test_chainrule_numpy_has_what_numpy_does_not_hand_over(name, mode):
    plain, traced = (lambda x, m=m: MIRRORED[name](m, x) for m in (np, cnp))
    assert np.asarray(cr.value(traced(X))).dtype == np.asarray(plain(X)).dtype
    np.testing.assert_allclose(cr.value(traced(X)), plain(X), rtol=1e-14)
    np.testing.assert_allclose(cr.value(traced(cr.Variable(X))), plain(X), rtol=1e-14)
    np.testing.assert_allclose(slopes(traced, X, mode), differences(plain, X), rtol=1e-7, atol=1e-8)


def test_excluded_arguments_of_vectorize_come_as_they_are():
    p = np.array([2.0, 1.0])
    assert cr.grad(lambda p: np.sum(at(X, p=p)))(p).tolist() == pytest.approx([np.sum(X), 3.0])


def test_vectorize_does_not_truncate_derivatives_with_the_dtype_of_the_first_result():
    with pytest.raises(NotDifferentiableError, match=r"otypes=\[float\]"):
        cnp.vectorize(lambda a: a if a > 0.5 else 0)(cr.Variable(X))


def test_matrices_of_r_are_refused():
    with pytest.raises(UnsupportedArgumentError, match=r"np\.matrix"):
        cnp.r_["r", cr.Variable(X)]


ASKING = {
    "r_": (lambda x: np.r_[x, 1.0], r"chainrule\.numpy\.r_"),
    "vectorize": (lambda x: np.vectorize(lambda a: 2 * a)(x), r"chainrule\.numpy\.vectorize"),
    "vectorize with a closure": (lambda x: np.vectorize(lambda a: a * x[0])([1.0]), r"chainrule\.numpy\.vectorize"),
    "apply_along_axis": (lambda x: np.apply_along_axis(lambda a: a * x, 0, X), r"chainrule\.numpy\.apply_along_axis"),
    "piecewise": (lambda x: np.piecewise(X, [X > 0], [lambda t: t * x[0], 0]), r"chainrule\.numpy\.piecewise"),
    "ndenumerate": (lambda x: list(np.ndenumerate(x)), r"chainrule\.numpy\.ndenumerate"),
    "broadcast": (lambda x: np.broadcast(x, 1.0), r"chainrule\.numpy\.broadcast"),
    "as_strided": (lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)), "sliding_window_view"),
    "kaiser": (lambda x: np.kaiser(4, x[0]), r"chainrule\.numpy\.kaiser"),
    "method of a plain array": (lambda x: np.ones(3).dot(x), r"np\.dot\(a, \.\.\.\)"),
    "choose of a plain array": (lambda x: np.array([0, 1, 0]).choose([x, x]), r"np\.choose"),
    "ascontiguousarray": (lambda x: np.ascontiguousarray(x), "leave it out"),
    "float32": (lambda x: np.float32(x[0]), r"x\.astype\(np\.float32\)"),
    "arange": (lambda x: np.arange(x[0], 3.0), r"np\.arange\(\.\.\., like=x\)"),
    "Polynomial": (lambda x: np.polynomial.Polynomial(x), r"chebvander"),
    "chebval": (lambda x: np.polynomial.chebyshev.chebval(2.0, x), r"chebvander"),
    "normal": (lambda x: np.random.default_rng(0).normal(x, 1.0), r"x \+ s \* rng\.normal"),
    "normal of a number": (lambda x: np.random.default_rng(0).normal(0.0, x[1], size=3), r"x \+ s \* rng\.normal"),
    "legacy normal": (lambda x: np.random.normal(x), r"np\.random\.normal would.*x \+ s \* rng\.normal"),
    "exponential": (lambda x: np.random.default_rng(0).exponential(x[0]), r"inverse of the distribution"),
    "choice": (lambda x: np.random.default_rng(0).choice(x), r"x\[rng\.permutation"),
    "permutation": (lambda x: np.random.default_rng(0).permutation(x), r"x\[rng\.permutation"),
}


@pytest.mark.parametrize("kind", [cr.Variable, lambda x: cr.Dual(x, x)], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_a_plain_value_is_named_with_its_own_advice(name, kind):
    call, advice = ASKING[name]
    with pytest.raises(ConversionError, match=f"(?s){advice}") as caught:
        call(kind(X))
    assert "test_functions.py" in str(caught.value)


def test_clip_as_a_method_of_a_plain_array_takes_traced_limits():
    g = cr.grad(lambda x: np.sum(np.array([1.0, 0.5, 0.0]).clip(x, 0.9) * [1.0, 10.0, 100.0]))(X)
    assert g.tolist() == [0.0, 10.0, 0.0]


def test_a_traced_number_is_a_scalar_to_chainrule_numpy():
    x = cr.Variable(X)
    assert [cnp.isscalar(v) for v in (x[0], cr.Variable(1.0), x, 2.0, X)] == [True, True, False, True, False]


M = np.array([[0.5, 2.0, -1.0], [1.5, 0.25, 3.0], [-2.0, 1.0, 0.75]])
ARGUMENTS = {  # all by position, or with out=None, as NumPy takes them
    "trace": lambda x: np.trace(x, 1, 0, 1, float, None),
    "trace method": lambda x: x.trace(0, 0, 1, None, None),
    "ptp": lambda x: np.ptp(x, 0, None, True),
    "nansum": lambda x: np.nansum(x, 1, float, None, True),
    "nanprod": lambda x: np.nanprod(x, 0),
    "nanvar": lambda x: np.nanvar(x, 0, None, None, 1, True),
    "nanstd": lambda x: np.nanstd(x, 0, out=None, ddof=1),
    "nancumsum": lambda x: np.nancumsum(x, 1, None, None),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=0, out=None),
    "fft2": lambda x: np.abs(np.fft.fft2(x, None, (0, 1), "ortho", None)),
    "hfft": lambda x: np.fft.hfft(x, 4, 0, None, None),
}


@pytest.mark.parametrize("name", [n for n in ARGUMENTS if n != "cumulative_sum" or hasattr(np, n)])
def test_arguments_are_bound_by_position_as_numpy_does(name):
    f = ARGUMENTS[name]
    np.testing.assert_allclose(cr.value(f(cr.Variable(M))), f(M), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(slopes(f, M, "reverse"), differences(f, M), rtol=1e-6, atol=1e-8)


def test_plain_destinations_are_refused_and_traced_ones_are_written():
    x = cr.Variable(M)
    for call in (np.ptp, np.nansum, np.trace, np.fft.fftn):
        with pytest.raises(OutArgumentError, match=call.__name__):
            call(x, out=np.zeros((), complex))
    out = np.zeros((), like=x)
    assert x.trace(out=out) is out
    assert cr.value(out) == np.trace(M)


def test_errors_of_wrong_arguments_name_the_function():
    with pytest.raises(TypeError, match=r"^quantile\(\) got an unexpected keyword argument"):
        CALL[np.quantile](cr.Variable(X), 0.5, wrong=1)


def test_math_functions_are_not_taken_for_random_ones():
    import math

    with pytest.raises(ConversionError, match="function of the math module"):
        math.gamma(cr.Variable(0.5))


def test_ufuncs_made_of_python_functions_are_named():
    with pytest.raises(UnsupportedFunctionError, match=r"numpy\.frompyfunc is not differentiated"):
        np.frompyfunc(lambda a: a, 1, 1)(cr.Variable(X))


def test_floor_division_in_place_reaches_all_names_of_an_array():
    x = cr.Variable(np.array([5.0, -3.0])) * 1.0
    y = x
    y //= 2
    assert y is x
    np.testing.assert_array_equal(cr.value(x), [2.0, -2.0])


def test_a_view_without_a_dtype_is_another_name_for_the_same_elements():
    def f(x):
        y = x * 1.0
        z = y.view()
        z[0] = 0.0
        return np.sum(y**2)

    assert cr.grad(f)(X).tolist() == [0.0, 1.4, -0.4]
    with pytest.raises(ConversionError, match="astype"):
        cr.Variable(X).view(int)
