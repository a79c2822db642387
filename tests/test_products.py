"""Products: closed forms of the matrix rules, forms of the call, numbers and stacks as operands, norms at zero."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import chainrule as cr

A = np.array([[1.0, 2.0, -1.0], [0.5, 3.0, 4.0]])
B = np.array([[2.0, 1.0], [0.0, -1.0], [3.0, 5.0]])
W = np.array([[1.0, 10.0], [100.0, 1000.0]])


# -- matmul ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", [np.matmul, np.dot, lambda a, b: a @ b], ids=["matmul", "dot", "@"])
def test_gradients_of_a_matrix_product(product):
    """Abar = Ybar B^T, Bbar = A^T Ybar."""
    abar, bbar = cr.grad(lambda a, b: np.sum(W * product(a, b)), argnums=(0, 1))(A, B)
    assert_array_equal(abar, W @ B.T)
    assert_array_equal(bbar, A.T @ W)


def test_tangent_of_a_matrix_product():
    adot, bdot = np.ones((2, 3)), np.arange(6.0).reshape(3, 2)
    assert_array_equal(cr.jvp(np.matmul, (A, B), (adot, bdot))[1], adot @ B + A @ bdot)


def test_plain_arrays_on_either_side_of_the_operator():
    a, b = cr.Variable(A), cr.Variable(B)
    np.sum(W * (a @ B)).backward()
    np.sum(W * (A @ b)).backward()
    assert_array_equal(a.grad, W @ B.T)
    assert_array_equal(b.grad, A.T @ W)


def test_in_place_operator():
    def f(x):
        y = x * 1.0
        name = y
        y @= np.array([[0.0, 1.0], [1.0, 0.0]])
        return np.sum(W * name)

    assert_array_equal(cr.grad(f)(np.ones((2, 2))), W[:, ::-1])


def test_operand_of_a_stack_receives_the_sum_over_the_stack():
    stack = np.arange(12.0).reshape(2, 3, 2)
    weights = np.arange(8.0).reshape(2, 2, 2)
    abar = cr.grad(lambda a: np.sum(weights * (a @ stack)))(A)
    assert_allclose(abar, weights[0] @ stack[0].T + weights[1] @ stack[1].T)


def test_hessian_of_a_quadratic_form():
    m = np.array([[1.0, 2.0], [5.0, -3.0]])
    for f in (lambda x: x @ m @ x, lambda x: np.dot(x, np.dot(m, x)), lambda x: np.einsum("i,ij,j", x, m, x)):
        assert_allclose(cr.hessian(f)(np.array([0.3, -2.0])), m + m.T)


def test_float32_stays():
    a, b = A.astype(np.float32), B.astype(np.float32)
    for g in cr.grad(lambda a, b: np.sum(a @ b), argnums=(0, 1))(a, b):
        assert g.dtype == np.float32
    assert cr.grad(lambda a: np.sum(a @ B))(a).dtype == np.float32  # the product is float64, the argument is not


def test_the_tape_keeps_of_a_constant_product_only_what_the_adjoint_reads():
    """The adjoint to one operand reads the other only: a large constant's partner is not kept alive."""
    x = cr.Variable(np.ones((3, 3)))
    y = x @ np.eye(3)
    assert not any(s is x.data for s in y.aux.saved)


def test_wrong_shapes_raise_as_in_numpy():
    with pytest.raises(ValueError, match="matmul"):
        cr.Variable(A) @ A
    with pytest.raises(ValueError, match="not aligned"):
        np.dot(cr.Variable(A), A)


def test_out_and_axes_are_refused():
    with pytest.raises(cr.errors.OutArgumentError):
        np.matmul(cr.Variable(A), B, out=np.zeros((2, 2)))
    with pytest.raises(cr.errors.OutArgumentError):
        np.dot(cr.Variable(A), B, out=np.zeros((2, 2)))
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="axes"):
        np.matmul(cr.Variable(A), B, axes=[(0, 1), (0, 1), (0, 1)])


# -- dot and its relatives ---------------------------------------------------------------------------------------------


def test_numbers_as_operands():
    x = np.array([1.0, 2.0])
    for f in (np.dot, np.inner, np.kron):
        cbar, xbar = cr.grad(lambda c, x, f=f: np.sum(f(c, x)), argnums=(0, 1))(3.0, x)
        assert cbar == 3.0
        assert_array_equal(xbar, [3.0, 3.0])


def test_vdot_conjugates_its_first_operand():
    """f = Re(conj(a) . b): df/da_r - i df/da_i = conj(b), and for b conj(a)."""
    a, b = np.array([1 + 2j, 3 - 1j]), np.array([0.5 - 1j, 2 + 2j])
    abar, bbar = cr.grad(lambda a, b: np.real(np.vdot(a, b)), argnums=(0, 1))(a, b)
    assert_allclose(abar, np.conj(b))
    assert_allclose(bbar, np.conj(a))


def test_trace_and_its_offset():
    assert_array_equal(cr.grad(np.trace)(A), [[1, 0, 0], [0, 1, 0]])
    assert_array_equal(cr.grad(lambda a: np.trace(a, 1))(A), [[0, 1, 0], [0, 0, 1]])


def test_cross_product():
    """c . (a x b) has the gradients b x c and c x a."""
    a, b, c = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.5, 2.0]), np.array([3.0, 1.0, -2.0])
    abar, bbar = cr.grad(lambda a, b: np.sum(c * np.cross(a, b)), argnums=(0, 1))(a, b)
    assert_allclose(abar, np.cross(b, c))
    assert_allclose(bbar, np.cross(c, a))


def test_matrix_power_zero_is_constant():
    y, pull = cr.vjp(lambda a: np.linalg.matrix_power(a, 0), W)
    assert_array_equal(y, np.eye(2))
    assert_array_equal(pull(np.ones((2, 2)))[0], np.zeros((2, 2)))


def test_derivative_of_a_matrix_square_along_a_direction():
    d = np.array([[0.0, 1.0], [2.0, -1.0]])
    assert_allclose(cr.jvp(lambda a: np.linalg.matrix_power(a, 2), (W,), (d,))[1], W @ d + d @ W)


def test_multi_dot_takes_the_cheap_order():
    """A row vector in front keeps all products vectors: the value and gradient are those of any order."""
    v, m = np.array([1.0, -1.0]), np.array([[0.5, 2.0], [1.0, 3.0]])
    f = cr.grad(lambda v: np.linalg.multi_dot([v, m, m, v]))
    assert_allclose(f(v), (m @ m + (m @ m).T) @ v)


# -- einsum ------------------------------------------------------------------------------------------------------------


def test_einsum_sums_diagonals_and_free_indices():
    square = np.arange(9.0).reshape(3, 3)
    assert_array_equal(cr.grad(lambda a: np.einsum("ii", a))(square), np.eye(3))
    assert_array_equal(cr.grad(lambda a: np.einsum("ij->", a))(A), np.ones((2, 3)))
    g = cr.grad(lambda a, b: np.sum(W * np.einsum("ij,kl->il", a, b)), argnums=(0, 1))(A, B)
    assert_allclose(g[0], np.repeat((W @ B.sum(0))[:, None], 3, axis=1))
    assert_allclose(g[1], np.repeat((A.sum(1) @ W)[None, :], 3, axis=0))


def test_einsum_of_an_axis_of_length_one_broadcasts():
    row = np.array([[1.0, 2.0, 3.0]])
    assert_array_equal(cr.grad(lambda r: np.sum(np.einsum("ij,ij->ij", r, A)))(row), A.sum(0, keepdims=True))


def test_einsum_of_three_operands_in_every_order_of_contraction():
    c = np.array([[1.0, -1.0], [2.0, 0.5]])
    want = (W @ c.T) @ B.T
    orders = (False, True, "greedy", "optimal", ["einsum_path", (0, 1), (0, 1)], ["einsum_path", (0, 1, 2)])
    for optimize in orders:
        g = cr.grad(lambda a, o=optimize: np.sum(W * np.einsum("ij,jk,kl->il", a, B, c, optimize=o)))(A)
        assert_allclose(g, want)


def test_einsum_by_lists_of_numbers():
    g = cr.grad(lambda a: np.sum(W.T * np.einsum(a, [0, 1], B, [1, 2], [2, 0])))(A)
    assert_allclose(g, W @ B.T)
    assert cr.grad(lambda x: np.einsum(x, [0], x, [0]))(np.array([1.0, 4.0])).tolist() == [2.0, 8.0]


@pytest.mark.parametrize(
    ("subscripts", "operands"),
    [
        ("ij,jk->ik", (A, A)),
        ("ii", (A,)),
        ("ijk", (A,)),
        ("ij->iz", (A,)),
        ("ij->ii", (A,)),
        ("i!j", (A,)),
        ("ij", (A, A)),
    ],
)
def test_einsum_refuses_what_numpy_refuses(subscripts, operands):
    with pytest.raises(ValueError):
        np.einsum(subscripts, *operands)
    with pytest.raises(ValueError):
        np.einsum(subscripts, cr.Variable(operands[0]), *operands[1:])


# -- norms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [None, 2, 1.5, 3])
def test_norms_have_the_subgradient_zero_at_the_origin(p):
    x = np.zeros(3)
    assert_array_equal(cr.grad(lambda x: np.linalg.norm(x, p))(x), x)
    assert cr.jvp(lambda x: np.linalg.norm(x, p), (x,), (np.ones(3),))[1] == 0.0
    assert_array_equal(cr.grad(lambda x: np.linalg.norm(x, p) ** 2)(x), x)


def test_lines_that_are_zero_do_not_disturb_the_others():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    for p, want in ((2, [0.6, 0.8]), (3, np.array([9.0, 16.0]) / 91.0 ** (2 / 3))):
        g = cr.grad(lambda x, p=p: np.sum(np.linalg.norm(x, p, axis=1)))(x)
        assert_allclose(g, [want, [0.0, 0.0]])


def test_second_derivative_of_a_norm_is_nan_at_zero_and_right_elsewhere():
    assert np.isnan(cr.hessian(np.linalg.norm)(np.zeros(2))).all()
    x = np.array([3.0, 4.0])
    assert_allclose(cr.hessian(np.linalg.norm)(x), (np.eye(2) - np.outer(x, x) / 25) / 5)


def test_norm_of_a_complex_vector():
    z = np.array([3.0 + 0j, 4j])
    assert_allclose(cr.grad(np.linalg.norm)(z), np.conj(z) / 5)


def test_norm_refuses_what_numpy_refuses():
    for x, options in (
        (A, {"ord": 3}),
        (A, {"axis": (0, 0)}),
        (np.ones((2, 2, 2)), {"ord": 2}),
        (A[0], {"ord": "fro"}),
    ):
        with pytest.raises(ValueError):
            np.linalg.norm(x, **options)
        with pytest.raises(ValueError):
            np.linalg.norm(cr.Variable(x), **options)
