"""Linear algebra and Fourier transforms at special points: singular matrices, dependent columns, lost rank."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr


def test_determinant_of_singular_matrices_to_second_order():
    """The determinant of [[a, b], [c, d]] is ad - bc, whatever the matrix."""
    want = [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]
    for a in (np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 4.0]])):
        g = cr.grad(np.linalg.det)(a)
        assert_allclose(g, [[a[1, 1], -a[1, 0]], [-a[0, 1], a[0, 0]]], atol=1e-14)
        assert_allclose(cr.hessian(np.linalg.det)(a).reshape(4, 4), want, atol=1e-14)


@pytest.mark.parametrize("n", [5, 12])
def test_determinant_of_a_product_with_few_zeros_to_second_order(n):
    """At diag(d) the second derivatives are, but for signs, products of all d but two: few are without a zero."""
    d = np.linspace(0.5, 1.5, n)
    d[[1, 3]] = 0
    rest = np.prod(np.delete(d, [1, 3]))
    assert_allclose(cr.grad(np.linalg.det)(np.diag(d)), np.zeros((n, n)), atol=1e-15)  # the rank is n - 2
    h = np.zeros((n, n, n, n))
    h[1, 1, 3, 3] = h[3, 3, 1, 1] = rest
    h[1, 3, 3, 1] = h[3, 1, 1, 3] = -rest
    rng = np.random.default_rng(0)
    for v in rng.normal(size=(2, n, n)):
        want = np.einsum("ijkl,kl->ij", h, v)
        assert_allclose(cr.hvp(np.linalg.det, np.diag(d), v), want, atol=1e-14)
        back = cr.grad(lambda a, v=v: np.sum(cr.grad(np.linalg.det)(a) * v))(np.diag(d))
        assert_allclose(back, want, atol=1e-14)


def test_determinant_of_a_large_singular_matrix():
    """A diagonal matrix with one zero has one cofactor that is not zero; a third derivative has no rule."""
    d = np.arange(15.0)
    want = np.zeros((15, 15))
    want[0, 0] = np.prod(d[1:])
    assert_allclose(cr.grad(np.linalg.det)(np.diag(d)), want, rtol=1e-10, atol=1e-3)
    e = np.zeros((15, 15))
    e[2, 2] = 1.0  # the cofactor at (0, 0) is the product of the others
    want = np.zeros((15, 15))
    want[0, 0] = np.prod(d[1:]) / 2
    assert_allclose(cr.hvp(np.linalg.det, np.diag(d), e), want, rtol=1e-10, atol=1e-3)
    second = lambda a: np.sum(cr.hvp(np.linalg.det, a, e))
    with pytest.raises(cr.errors.NoRuleError, match="third order at a singular matrix"):
        cr.grad(second)(np.diag(d))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_determinant_of_a_nearly_singular_matrix(dtype):
    """The cofactors of [[1, 1], [1, 1 + e]] are well conditioned, though the inverse is not."""
    a = np.array([[1, 1], [1, 1 + 8 * np.finfo(dtype).eps]], dtype)
    g = cr.grad(np.linalg.det, holomorphic=dtype is np.complex128)(a)
    assert_allclose(g, [[a[1, 1], -1], [-1, 1]], rtol=4 * np.finfo(dtype).eps)


def test_gradient_of_log_determinant_is_the_transposed_inverse():
    a = np.array([[2.0, 1.0], [7.0, -4.0]])
    assert_allclose(cr.grad(lambda a: np.linalg.slogdet(a)[1])(a), np.linalg.inv(a).T)


def test_singular_systems_raise_as_in_numpy():
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.solve(cr.Variable(np.zeros((2, 2))), np.ones(2))


@pytest.mark.parametrize("n", [4, 5, 8])
def test_power_of_a_real_spectrum_counts_each_entry_once(n):
    """Parseval: the squares of the signal that irfft makes of a half spectrum, and their gradient by rfft."""
    z = np.arange(1.0, 4.0) + 1j * np.array([0.0, 2.0, 0.0])
    y = np.fft.irfft(z, n)
    g = cr.grad(lambda z: np.sum(np.fft.irfft(z, n) ** 2))(z)
    m = n // 2 + 1
    weights = np.array([1.0] + [2.0] * (m - 1))
    if n % 2 == 0:
        weights[-1] = 1.0
    want = np.zeros(3, complex)
    spectrum = weights * np.conj(np.fft.rfft(2 * y)) / n
    want[: min(m, 3)] = spectrum[:3]
    assert_allclose(g, want, atol=1e-14)


# -- pseudo-inverse and least squares ----------------------------------------------------------------------------------

TALL = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0], [1.0, 1.0]])
RIGHT = np.array([1.0, -2.0, 0.5, 3.0])


def test_pseudo_inverse_of_full_rank_is_that_of_the_normal_equations():
    w = np.arange(8.0).reshape(2, 4)
    by_pinv = cr.grad(lambda a: np.sum(w * np.linalg.pinv(a)))(TALL)
    assert_allclose(by_pinv, cr.grad(lambda a: np.sum(w * (np.linalg.inv(a.T @ a) @ a.T)))(TALL), rtol=1e-12)


def test_pseudo_inverse_of_lost_rank_along_a_path_of_that_rank():
    """The pseudo-inverse of u v^T is v u^T / (|u|^2 |v|^2); the derivative along u(t) v^T follows from that."""
    u, v, du = np.array([1.0, 2.0, 2.0]), np.array([3.0, 4.0]), np.array([0.5, -1.0, 2.0])
    ydot = cr.jvp(np.linalg.pinv, (np.outer(u, v),), (np.outer(du, v),))[1]
    want = np.outer(v, du / 9 - u * 2 * (u @ du) / 81) / 25
    assert_allclose(ydot, want, rtol=1e-12)
    w = np.arange(6.0).reshape(2, 3)
    back = cr.vjp(np.linalg.pinv, np.outer(u, v))[1](w)[0]
    assert_allclose(np.sum(back * np.outer(du, v)), np.sum(w * want), rtol=1e-12)


def test_least_squares_solve_the_normal_equations():
    f = lambda a, b: np.sum(np.linalg.lstsq(a, b)[0] ** 2)
    g = lambda a, b: np.sum(np.linalg.solve(a.T @ a, a.T @ b) ** 2)
    for k in (0, 1):
        assert_allclose(cr.grad(f, k)(TALL, RIGHT), cr.grad(g, k)(TALL, RIGHT), rtol=1e-11)
        assert_allclose(cr.hessian(f, k)(TALL, RIGHT), cr.hessian(g, k)(TALL, RIGHT), rtol=1e-9, atol=1e-12)


def test_least_squares_of_few_equations_have_the_least_length():
    """Minimal |x| with a.x = b is a b / |a|^2."""
    a, b = np.array([[3.0, 4.0]]), np.array([50.0])
    f = lambda a, b: np.linalg.lstsq(a, b)[0]
    assert_allclose(cr.jacobian(f, 1)(a, b), [[3 / 25], [4 / 25]])
    v = np.array([[1.0, -1.0]])
    want = 50 * (v[0] / 25 - a[0] * 2 * (a[0] @ v[0]) / 625)
    assert_allclose(cr.jvp(lambda a: f(a, b), (a,), (v,))[1], want, rtol=1e-13)


def test_residuals_and_singular_values_of_least_squares():
    r = RIGHT - TALL @ np.linalg.lstsq(TALL, RIGHT)[0]
    squares = lambda a, b: np.linalg.lstsq(a, b)[1][0]
    assert_allclose(cr.grad(squares, 1)(TALL, RIGHT), 2 * r, rtol=1e-12)
    assert_allclose(cr.grad(squares)(TALL, RIGHT), -2 * np.outer(r, np.linalg.pinv(TALL) @ RIGHT), rtol=1e-12)
    assert_allclose(cr.grad(lambda a: np.sum(np.linalg.lstsq(a, RIGHT)[3] ** 2))(TALL), 2 * TALL, rtol=1e-12)


def test_rank_is_constant():
    assert np.linalg.matrix_rank(cr.Variable(TALL)) == 2
    assert_allclose(cr.grad(lambda a: np.linalg.matrix_rank(a) * a[0, 0])(TALL)[0], [2.0, 0.0])


def test_condition_numbers():
    """That of diag(a, b) is a / b in every order, with a > b > 0 (in Frobenius' norm (a^2 + b^2) / ab)."""
    a = np.diag([3.0, 2.0])
    for p in (None, 2, 1, np.inf):
        assert_allclose(np.diag(cr.grad(lambda a, p=p: np.linalg.cond(a, p))(a)), [1 / 2, -3 / 4], rtol=1e-13)
    for p in (-2, -1, -np.inf):
        assert_allclose(np.diag(cr.grad(lambda a, p=p: np.linalg.cond(a, p))(a)), [-2 / 9, 1 / 3], rtol=1e-13)
    assert_allclose(np.diag(cr.grad(lambda a: np.linalg.cond(a, "fro"))(a)), [1 / 2 - 2 / 9, 1 / 3 - 3 / 4], rtol=1e-13)


def test_condition_number_of_singular_matrices_is_infinite():
    stack = np.stack([np.ones((2, 2)), np.diag([3.0, 2.0])])
    y, pull = cr.vjp(lambda a: np.linalg.cond(a, 1), stack)
    assert_allclose(y, [np.inf, 1.5])
    assert_allclose(np.diag(pull(np.array([0.0, 1.0]))[0][1]), [1 / 2, -3 / 4])
    assert not np.isfinite(cr.grad(lambda a: np.linalg.cond(a, 1))(np.ones((2, 2)))).any()
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cond(cr.Variable(np.ones((0, 2))))


def test_tensor_systems():
    a = np.eye(6).reshape(2, 3, 2, 3) * 2.0
    b = np.arange(6.0).reshape(2, 3)
    assert_allclose(cr.grad(lambda b: np.sum(np.linalg.tensorsolve(a, b)))(b), np.full((2, 3), 0.5))
    assert_allclose(cr.grad(lambda s: np.sum(np.linalg.tensorinv(s * a)))(1.0), -3.0)
    for fun in (np.linalg.tensorinv, lambda a: np.linalg.tensorsolve(a, b)):
        with pytest.raises(np.linalg.LinAlgError):
            fun(cr.Variable(np.ones((2, 3, 2))))
    with pytest.raises(ValueError, match="ind"):
        np.linalg.tensorinv(cr.Variable(a), ind=0)


# -- QR ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_factors_keep_their_shape_and_product(shape, mode):
    """Along any direction Q stays unitary, R triangular with a real diagonal, and their product the matrix."""
    rng = np.random.default_rng(3)
    a, v = rng.normal(size=(2, 2, *shape)) + 1j * rng.normal(size=(2, 2, *shape))
    (q, r), (qdot, rdot) = cr.jvp(lambda a: tuple(np.linalg.qr(a, mode)), (a,), (v,))
    assert_allclose(qdot @ r + q @ rdot, v, atol=1e-13)
    turn = np.conj(q).swapaxes(-1, -2) @ qdot
    assert_allclose(turn + np.conj(turn).swapaxes(-1, -2), np.zeros_like(turn), atol=1e-13)
    assert_allclose(rdot, np.triu(rdot), atol=1e-13)
    assert_allclose(np.diagonal(rdot, axis1=-2, axis2=-1).imag, 0, atol=1e-13)


def test_columns_that_complete_a_basis_have_no_derivative_by_themselves():
    w = np.arange(16.0).reshape(4, 4)
    with pytest.raises(cr.errors.NotDifferentiableError, match="completes the basis"):
        cr.grad(lambda a: np.sum(w * np.linalg.qr(a, "complete")[0]))(TALL)
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="raw"):
        np.linalg.qr(cr.Variable(TALL), "raw")
    with pytest.raises(ValueError, match="mode"):
        np.linalg.qr(cr.Variable(TALL), "full")


def test_determinant_by_qr():
    """|det A| is the product of the diagonal of R: gradient |det A| A^-T."""
    a = np.array([[2.0, 1.0, 0.0], [1.0, -3.0, 1.0], [0.5, 1.0, 4.0]])
    g = cr.grad(lambda a: np.abs(np.prod(np.diag(np.linalg.qr(a, "r")))))(a)
    assert_allclose(g, abs(np.linalg.det(a)) * np.linalg.inv(a).T, rtol=1e-12)


# -- all of the module -------------------------------------------------------------------------------------------------


def test_every_function_of_the_module_has_a_rule():
    from chainrule.engine.rule import RULES

    functions = [getattr(np.linalg, n) for n in dir(np.linalg) if not n.startswith("_")]
    missing = [f for f in functions if callable(f) and f not in RULES]
    assert missing == [np.linalg.LinAlgError, np.linalg.test]


@pytest.mark.parametrize("call", [
    np.linalg.pinv, np.linalg.svd, lambda a: np.linalg.svd(a, False), lambda a: np.linalg.lstsq(a, a[:, 0]),
    lambda a: np.linalg.qr(a, "reduced"), lambda a: np.linalg.norm(a, 2),
])  # fmt: skip
def test_no_rule_forms_a_larger_matrix_than_its_function(call):
    """The gradient of a tall matrix takes a few times its memory, not the square of its rows."""
    import tracemalloc

    rng = np.random.default_rng(0)
    small, a = rng.normal(size=(4, 3)), rng.normal(size=(1000, 30))
    full = call is np.linalg.svd

    def f(a):
        y = call(a)
        y = y if isinstance(y, tuple) else (y,)
        return np.sum(y[1]) if full else sum(np.sum(v) for v in y if not isinstance(v, int | np.integer))

    cr.grad(f)(small)
    cr.grad(f)(a)
    tracemalloc.start()
    call(a)
    forward = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    cr.grad(f)(a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * forward + 6 * a.nbytes
