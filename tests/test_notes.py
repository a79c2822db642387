"""The worked examples of the three notes on automatic differentiation that this library follows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule.engine import tape


class Square(cr.Function):
    def forward(self, x):
        return x**2

    def backward(self, ybar):
        return 2 * self.input.data * ybar


class Exp(cr.Function):
    def forward(self, x):
        return np.exp(x)

    def backward(self, ybar):
        return np.exp(self.input.data) * ybar


# -- note 1: Variable, Function, step by step and all at once ------------------------------------------------------


def test_note_1_all_at_once():
    x = cr.Variable(np.array(0.5))
    y = Square()(Exp()(Square()(x)))
    assert_allclose(y.data, 1.6487212707001282, rtol=1e-15)
    y.backward()
    assert_allclose(x.grad, 3.297442541400256, rtol=1e-15)


def test_note_1_step_by_step():
    f1, g, f2 = Square(), Exp(), Square()
    x = cr.Variable(np.array(0.5))
    a = f1(x)
    b = g(a)
    y = f2(b)
    y.grad = np.array(1.0)
    b.grad = f2.backward(y.grad)
    a.grad = g.backward(b.grad)
    x.grad = f1.backward(a.grad)
    assert_allclose([b.grad, a.grad, x.grad], [2.568050833375483, 3.297442541400256, 3.297442541400256], rtol=1e-15)


def test_note_1_by_numpy_alone_and_by_differences():
    f = lambda x: np.exp(x**2) ** 2
    assert_allclose(cr.grad(f)(0.5), 3.297442541400256, rtol=1e-15)
    assert_allclose((f(0.5 + 1e-4) - f(0.5 - 1e-4)) / 2e-4, 3.297442541400256, rtol=1e-6)


def test_note_1_one_operator_several_times():
    f = Square()
    x = cr.Variable(3.0)
    f(f(x)).backward()
    assert x.grad == 108.0
    x = cr.Variable(3.0)
    (x + x).backward()
    assert x.grad == 2.0


# -- note 2: the graph, gates, shapes, order of products -----------------------------------------------------------


def test_note_2_upstream_local_downstream():
    x, y, z = cr.Variable(-2.0), cr.Variable(5.0), cr.Variable(-4.0)
    q = x + y
    f = q * z
    f.backward(retain_grad=True)
    assert (f.data, x.grad, y.grad, z.grad, q.grad) == (-12.0, -4.0, -4.0, 3.0, -4.0)
    assert f.creator.upstream == 1.0  # the base case
    assert f.creator.downstream == (-4.0, 3.0) == f.creator.local(1.0)
    assert q.creator.upstream == -4.0
    assert q.creator.downstream == (-4.0, -4.0)


def test_note_2_gates():
    a, b = cr.Variable(3.0), cr.Variable(2.0)
    (a + b).backward()  # add: hands on
    assert (a.grad, b.grad) == (1.0, 1.0)
    a.grad = b.grad = None
    (a * b).backward()  # multiply: swaps
    assert (a.grad, b.grad) == (2.0, 3.0)
    a.grad = b.grad = None
    np.maximum(a, b).backward()  # max: routes
    assert (a.grad, b.grad) == (1.0, 0.0)
    a.grad = None
    (a.copy() * 2 + a.copy() * 5).backward()  # copy: adds
    assert a.grad == 7.0


def test_note_2_sigmoid_tanh_relu_as_single_nodes():
    x = np.array([-1.0, 0.0, 2.0])
    s = 1 / (1 + np.exp(-x))
    for f, local in ((cr.sigmoid, s * (1 - s)), (np.tanh, 1 - np.tanh(x) ** 2), (cr.relu, (x > 0) * 1.0)):
        assert_allclose(cr.elementwise_grad(f)(x), local, rtol=1e-14)
        v = cr.Variable(x)
        y = f(v)
        assert tuple(y.aux.parents) == (v.aux,)  # one node
    assert_allclose(cr.grad(lambda x: np.maximum(x, 0))(0.0), 0.5)  # the policy on ties


def test_note_2_a_neuron():
    # w = (2, -3, -3), x = (-1, -2): 1 / (1 + exp(-(w0 x0 + w1 x1 + w2))); s = sigmoid(1)
    f = lambda w, x: cr.sigmoid(w[0] * x[0] + w[1] * x[1] + w[2])
    w, x = np.array([2.0, -3.0, -3.0]), np.array([-1.0, -2.0])
    s = 1 / (1 + np.exp(-1.0))
    wbar, xbar = cr.grad(f, argnums=(0, 1))(w, x)
    assert_allclose(wbar, s * (1 - s) * np.array([-1.0, -2.0, 1.0]), rtol=1e-14)
    assert_allclose(xbar, s * (1 - s) * np.array([2.0, -3.0]), rtol=1e-14)


def test_note_2_flat_backpropagation_agrees():
    rng = np.random.default_rng(0)
    x, w, t = rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    # forward
    h = x @ w
    a = np.tanh(h)
    d = a - t
    # the same lines in reverse
    dbar = 2 * d
    hbar = dbar * (1 - a**2)
    xbar, wbar = hbar @ w.T, x.T @ hbar
    got = cr.grad(lambda x, w: np.sum((np.tanh(x @ w) - t) ** 2), argnums=(0, 1))(x, w)
    assert_allclose(got[0], xbar, rtol=1e-13)
    assert_allclose(got[1], wbar, rtol=1e-13)


def test_note_2_matmul_never_forms_its_jacobian():
    # dX = dY W^T and dW = X^T dY; the row (2, 3, -3, 9) of dY against (3, 2, 1, -1) gives 6 + 6 - 3 - 9 = 0
    x = np.array([[2.0, 1.0, -3.0], [-3.0, 4.0, 2.0]])
    w = np.array([[3.0, 2.0, 1.0, -1.0], [2.0, 1.0, 3.0, 2.0], [3.0, 2.0, 1.0, -2.0]])
    ybar = np.array([[2.0, 3.0, -3.0, 9.0], [-8.0, 1.0, 4.0, 6.0]])
    _, pullback = cr.vjp(np.matmul, x, w)
    xbar, wbar = pullback(ybar)
    assert_allclose(xbar, [[0.0, 16.0, -9.0], [-24.0, 9.0, -30.0]])
    assert_allclose(wbar, x.T @ ybar)


def test_note_2_layouts():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    f, x = lambda x: a @ x, np.ones(3)
    assert_allclose(cr.jacobian(f)(x), a)
    assert cr.jacobian(f, layout="denominator")(x).shape == (3, 2)
    assert_allclose(cr.jacobian(f, layout="denominator")(x), a.T)
    assert cr.jacobian(lambda w: w @ np.ones(3))(a).shape == (2, 2, 3)
    assert cr.jacobian(lambda w: w @ np.ones(3), layout="denominator")(a).shape == (2, 3, 2)
    assert np.shape(cr.jacobian(lambda x: x * x)(2.0)) == ()


def test_note_2_higher_order_by_backpropagating_through_backpropagation():
    w, x = np.array([[0.5, -0.3], [0.2, 0.1]]), np.array([1.0, 2.0])
    loss = lambda w: np.sum(np.exp(w @ x))
    penalty = lambda w: np.sum(cr.grad(loss)(w) ** 2)
    g, h = cr.grad(loss)(w), cr.hessian(loss)(w)
    assert_allclose(cr.grad(penalty)(w), 2 * np.einsum("ijkl,kl->ij", h, g), rtol=1e-12)
    # by hand: g_ij = e_i x_j, R = sum_i e_i^2 |x|^2, dR/dw_ij = 2 e_i^2 |x|^2 x_j
    e = np.exp(w @ x)
    assert_allclose(cr.grad(penalty)(w), 2 * np.outer(e**2, x) * (x @ x), rtol=1e-12)


def test_note_2_a_hessian_vector_product_forms_no_hessian():
    n, largest = 400, 0

    def f(x):
        nonlocal largest
        y = np.sin(x) * x
        largest = max(largest, y.size)
        return np.sum(y) ** 2

    x, v = np.linspace(0, 1, n), np.ones(n)
    got = cr.hvp(f, x, v)
    u, du, ddu = np.sum(np.sin(x) * x), np.cos(x) * x + np.sin(x), 2 * np.cos(x) - x * np.sin(x)
    assert_allclose(got, 2 * du * (du @ v) + 2 * u * ddu * v, rtol=1e-11)
    assert largest == n


@pytest.mark.parametrize("m, n, reverse", [(1, 200, True), (200, 1, False)])
def test_note_2_products_from_the_cheap_side(m, n, reverse):
    """The cost is one pass for a scalar on either side, not one for each entry of the other."""
    runs = 0
    a = np.ones((m, n))

    class Counted(cr.Function):
        def forward(self, x):
            return a @ x

        def backward(self, ybar):
            nonlocal runs
            runs += 1
            return a.T @ ybar

    assert_allclose(cr.jacobian(lambda x: Counted()(x))(np.ones(n)), a)
    assert runs == 1
    assert cr.jacobian(lambda x: a @ x).__name__  # and the transform is a function like any other


# -- note 3: traces, duals, choice of the mode ---------------------------------------------------------------------

F, DF = -0.17152990032208032, 3.9430355293715387


def example(x):
    return x - np.exp(-2 * np.sin(4 * x) ** 2)


def test_note_3_the_example_in_both_modes_and_by_hand():
    x = np.pi / 16
    assert_allclose(example(x), F, rtol=1e-14)
    assert_allclose(cr.grad(example)(x), DF, rtol=1e-14)
    assert_allclose(cr.jvp(example, (x,), (1.0,)), (F, DF), rtol=1e-14)
    y = example(cr.Dual(x, 1.0))
    assert_allclose([y.primal, y.tangent], [F, DF], rtol=1e-14)
    v = cr.Variable(x)
    example(v).backward()
    assert_allclose(v.grad, DF, rtol=1e-14)


def test_note_3_the_evaluation_trace_runs_over_the_tape_in_order():
    x = cr.Variable(np.pi / 16)
    y = example(x)
    y.backward(retain_grad=True)
    nodes = tape.reachable(y.aux)
    assert [n.serial for n in nodes] == sorted(n.serial for n in nodes)
    assert nodes[0] is x.aux and nodes[-1] is y.aux
    assert all(p.serial < n.serial for n in nodes for p in n.parents if p is not None)
    assert y.grad == 1.0
    assert_allclose(x.grad, DF, rtol=1e-14)


def test_note_3_dual_numbers():
    # sin(a + b eps) = sin a + b cos a eps, and eps^2 = 0
    a = cr.Dual(0.7, 3.0)
    y = np.sin(a)
    assert_allclose([y.primal, y.tangent], [np.sin(0.7), 3 * np.cos(0.7)], rtol=1e-15)
    eps = cr.Dual(0.0, 1.0)
    assert ((eps * eps).primal, (eps * eps).tangent) == (0.0, 0.0)
    assert (a * (2 + eps)).tangent == 0.7 + 6.0


def test_note_3_several_paths():
    f = lambda x, y: x * y + np.exp(x * y)
    want = (2 + 2 * np.e**2, 1 + np.e**2)
    assert_allclose(cr.grad(f, argnums=(0, 1))(1.0, 2.0), want, rtol=1e-15)
    assert_allclose([cr.jvp(f, (1.0, 2.0), t)[1] for t in ((1.0, 0.0), (0.0, 1.0))], want, rtol=1e-15)
