"""numeric: derivatives of a black box by extrapolated differences."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

X = np.array([0.5, -1.0, 2.0])
NOISE = np.random.default_rng(0)


def box(x, w):
    """Return sin(x) w, of plain values only."""
    assert not isinstance(x, cr.Variable | cr.Dual)
    assert not isinstance(w, cr.Variable | cr.Dual)
    return np.sin(x) * w


f = cr.numeric(box)


def test_first_derivatives_in_both_modes():
    assert_allclose(f(X, 2.0), 2 * np.sin(X))
    assert_allclose(cr.grad(lambda x: np.sum(f(x, 2.0)))(X), 2 * np.cos(X), rtol=1e-11)
    assert_allclose(cr.jvp(f, (X, X), (X, X))[1], np.cos(X) * X * X + np.sin(X) * X, rtol=1e-11)
    for mode in ("forward", "reverse"):
        expected = np.diag(np.cos(X) * X), np.diag(np.sin(X))
        for found, wanted in zip(cr.jacobian(f, (0, 1), mode=mode)(X, X), expected, strict=True):
            assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_higher_orders_lose_digits_but_not_all():
    assert_allclose(cr.hessian(lambda x: np.sum(f(x, 2.0)))(X), np.diag(-2 * np.sin(X)), atol=1e-9)
    assert_allclose(cr.grad(cr.grad(cr.grad(lambda x: f(x, 1.0))))(0.3), -math.cos(0.3), rtol=1e-7)
    x = cr.Variable(X)
    np.sum(f(x, 2.0)).backward(create_graph=True)
    g = np.sum(x.grad**2)
    x.grad = None
    g.backward()
    assert_allclose(x.grad, -8 * np.cos(X) * np.sin(X), rtol=1e-8)


def test_the_error_estimate_bounds_the_error():
    for g, x, exact in (
        (np.sin, 0.3, math.cos(0.3)),
        (np.exp, 2.0, math.exp(2.0)),
        (math.lgamma, 3.0, 0.9227843350984671),  # psi(3), mpmath
        (np.sqrt, 0.01, 5.0),  # the first step leaves the domain
    ):
        y, ydot, error = cr.numeric(g).jvp((x,), (1.0,))
        assert y == g(x)
        assert abs(ydot - exact) <= max(error, 4e-16 * abs(exact))
        assert error < 1e-8 * abs(exact)


def test_containers_complex_numbers_and_dtypes():
    g = cr.numeric(lambda p: {"y": [np.sum(p["a"] ** 2) * p["b"]], "n": 2})
    da = cr.grad(lambda p: g(p)["y"][0])({"a": X, "b": 3.0})
    assert_allclose(da["a"], 6 * X, rtol=1e-11)
    assert_allclose(da["b"], np.sum(X**2), rtol=1e-11)
    y, ydot, error = g.jvp(({"a": X, "b": 3.0},), ({"a": X, "b": 0.0},))
    assert y["n"] == 2
    assert_allclose(ydot["y"][0], 6 * np.sum(X * X), rtol=1e-11)
    assert error < 1e-9
    assert_allclose(cr.grad(cr.numeric(lambda z: np.abs(z) ** 2))(1 + 2j), 2 - 4j, rtol=1e-11)  # d/dx - i d/dy
    assert_allclose(cr.grad(cr.numeric(lambda z: z**3), holomorphic=True)(1 + 2j), 3 * (1 + 2j) ** 2, rtol=1e-11)
    single = cr.grad(cr.numeric(np.exp))(np.float32(1.0))
    assert single.dtype == np.float32
    assert_allclose(single, math.e, rtol=1e-4)
    assert cr.grad(cr.numeric(lambda x: 5.0))(1.0) == 0.0


@pytest.mark.parametrize("f", [
    lambda x: math.floor(x) * 1.0,
    lambda x: NOISE.normal(),
    lambda x: math.nan,
    lambda x: round(math.sin(x + 0.3), 3),
], ids=["a jump", "noise", "not a number", "few digits"])  # fmt: skip
def test_what_does_not_converge_raises(f):
    with pytest.raises(cr.errors.NotConvergedError, match="did not converge"):
        cr.grad(cr.numeric(f))(1.0)


def test_step_and_tolerance():
    wave = cr.numeric(lambda x: np.sin(300 * x), step=1e-3)
    assert_allclose(cr.grad(wave)(0.4), 300 * math.cos(120.0), rtol=1e-9)
    rough = cr.numeric(lambda x: np.round(np.sin(x), 4), step=0.5, rtol=0.1)
    assert_allclose(cr.grad(rough)(0.4), math.cos(0.4), rtol=0.01)
    with pytest.raises(ValueError, match="step must be positive"):
        cr.numeric(np.sin, step=0.0)
    with pytest.raises(ValueError, match="rtol must be positive"):
        cr.numeric(np.sin, rtol=-1.0)
    with pytest.raises(TypeError, match="takes a function"):
        cr.numeric(1.0)
    other = cr.numeric(lambda x: np.zeros(2 if x == 1.0 else 3))
    with pytest.raises(cr.errors.ShapeError, match="other shapes nearby"):
        cr.jvp(other, (1.0,), (1.0,))
