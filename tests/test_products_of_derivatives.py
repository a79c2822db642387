"""Products with second derivatives, directional derivatives of higher order, the diagonal of the Hessian."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

X = np.array([0.5, -1.0, 2.0])
V = np.array([1.0, 0.3, -0.7])
A = np.array([[1.0, 2.0, -1.0], [0.5, -0.3, 0.2], [0.1, 0.7, 0.9], [-1.0, 0.2, 0.4]])


def model(x):
    return np.tanh(A @ x)


def loss(y):
    return np.sum(y**4)


def test_gauss_newton_is_the_product_of_three_matrices():
    y = np.tanh(A @ X)
    jacobian = (1 - y**2)[:, None] * A
    expected = jacobian.T @ np.diag(12 * y**2) @ jacobian @ V
    assert_allclose(cr.gauss_newton(model, loss, X, V), expected, rtol=1e-13)


def test_gauss_newton_of_a_linear_model_is_the_hessian():
    f = lambda x: A @ x
    product = cr.hessian(lambda x: loss(f(x)))(X) @ V
    assert_allclose(cr.gauss_newton(f, loss, X, V), product, rtol=1e-12)


def test_gauss_newton_with_containers_and_inside_of_grad():
    f = lambda p: {"y": np.tanh(p["a"] @ p["x"])}
    g = lambda y: loss(y["y"])
    found = cr.gauss_newton(f, g, {"a": A, "x": X}, {"a": 0 * A, "x": V})
    assert_allclose(found["x"], cr.gauss_newton(model, loss, X, V), rtol=1e-13)
    assert found["a"].shape == A.shape
    # d/dx of v J(x)^2 with f = sin, loss = y^2 / 2: 2 cos x (-sin x) v
    slope = cr.grad(lambda x: cr.gauss_newton(np.sin, lambda y: y * y / 2, x, 3.0))(0.4)
    assert_allclose(slope, -6 * math.cos(0.4) * math.sin(0.4), rtol=1e-13)


def test_gauss_newton_refuses_a_loss_with_axes_and_a_vector_that_does_not_fit():
    with pytest.raises(cr.errors.NotScalarError):
        cr.gauss_newton(model, np.square, X, V)
    with pytest.raises(cr.errors.ShapeError, match="tangent has shape"):
        cr.gauss_newton(model, loss, X, V[:2])


def test_directional_derivatives_of_all_orders():
    for order in range(7):
        found = cr.directional(np.exp, 0.3, 2.0, order=order)
        assert_allclose(found, [2.0**k * math.exp(0.3) for k in range(order + 1)], rtol=1e-13)
    a, b = 0.7, -1.2  # f(t) = sin(a + b t), entry by entry
    found = cr.directional(np.sin, np.array([a, b]), np.array([1.0, 2.0]), order=4)
    cycle = lambda x: [math.sin(x), math.cos(x), -math.sin(x), -math.cos(x), math.sin(x)]
    expected = np.stack([np.array(cycle(a)), np.array(cycle(b)) * 2.0 ** np.arange(5)], axis=1)
    assert_allclose(np.stack(found), expected, rtol=1e-13)


def test_directional_derivatives_in_containers_and_of_polynomials_at_zero():
    found = cr.directional(lambda p: {"y": p["u"] ** 2 * p["w"]}, {"u": 0.0, "w": 1.0}, {"u": 1.0, "w": 1.0}, order=4)
    assert [d["y"] for d in found] == [0.0, 0.0, 2.0, 6.0, 0.0]  # t^2 (1 + t)
    third = cr.grad(lambda x: cr.directional(lambda x: x**4, x, 1.0, order=3)[3])(2.0)
    assert third == 24.0


def test_directional_derivatives_check_their_arguments():
    with pytest.raises(ValueError, match="order must be 0"):
        cr.directional(np.sin, 1.0, 1.0, order=-1)
    for order in (0, 2):
        with pytest.raises(cr.errors.ShapeError, match="tangent has shape"):
            cr.directional(np.sin, X, 1.0, order=order)


def test_diagonal_of_the_hessian():
    f = lambda x: loss(model(x)) + x[0] * x[1] ** 3
    assert_allclose(cr.hessian_diagonal(f)(X), np.diag(cr.hessian(f)(X)), rtol=1e-12)
    quartic = cr.hessian_diagonal(lambda s, m: np.sum(m**4) * s, argnums=1)(2.0, np.outer(X, V))
    assert_allclose(quartic, 24 * np.outer(X, V) ** 2, rtol=1e-13)
    named = cr.hessian_diagonal(lambda x, y: x**3 * y, argnames="y")(2.0, y=3.0)
    assert named == 0.0
    tree = cr.hessian_diagonal(lambda p: np.sum(p["a"] ** 3) * p["b"] ** 2)({"a": X, "b": 2.0})
    assert_allclose(tree["a"], 24 * X, rtol=1e-13)
    assert_allclose(tree["b"], 2 * np.sum(X**3), rtol=1e-13)
    slope = cr.grad(lambda x: np.sum(cr.hessian_diagonal(lambda x: np.sum(np.sin(x)))(x)))(X)
    assert_allclose(slope, -np.cos(X), rtol=1e-13)
    single = cr.hessian_diagonal(lambda x: np.sum(x**3))(X.astype(np.float32))
    assert single.dtype == np.float32


def test_diagonal_of_the_hessian_refuses_what_is_no_scalar():
    with pytest.raises(cr.errors.NotScalarError, match=r"shape \(3,\)"):
        cr.hessian_diagonal(np.sin)(X)
    with pytest.raises(cr.errors.NotScalarError, match="container"):
        cr.hessian_diagonal(lambda x: (x[0], x[1]))(X)
    with pytest.raises(ValueError, match="takes one argument"):
        cr.hessian_diagonal(np.add, argnums=(0, 1))


def test_gradient_norm_penalty():
    """R = |dL/dW|^2 has the gradient 2 H g (for L = sum of W^4 / 4: g = W^3, H = 3 W^2, so 6 W^5)."""
    penalty = cr.grad(lambda w: np.sum(cr.grad(lambda w: np.sum(w**4) / 4)(w) ** 2))
    assert_allclose(penalty(A), 6 * A**5, rtol=1e-13)

    def network(w):
        return np.sum(np.tanh(w @ X) ** 2)

    g = cr.grad(network)
    by_products = 2 * cr.hvp(network, A, g(A))
    assert_allclose(cr.grad(lambda w: np.sum(g(w) ** 2))(A), by_products, rtol=1e-11)
    step, found = 1e-6, np.zeros_like(A)
    for i in np.ndindex(A.shape):
        e = np.zeros_like(A)
        e[i] = step
        found[i] = (np.sum(g(A + e) ** 2) - np.sum(g(A - e) ** 2)) / (2 * step)
    assert_allclose(by_products, found, rtol=1e-6, atol=1e-7)
