"""Linear algebra and Fourier transforms at special points: singular matrices, equal eigenvalues, arbitrary phases."""

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


def test_determinant_of_a_large_singular_matrix():
    """A diagonal matrix with one zero has one cofactor that is not zero; there is no rule for its second derivative."""
    d = np.arange(15.0)
    want = np.zeros((15, 15))
    want[0, 0] = np.prod(d[1:])
    assert_allclose(cr.grad(np.linalg.det)(np.diag(d)), want, rtol=1e-10, atol=1e-3)
    with pytest.raises(cr.errors.NoRuleError, match="singular matrix of order above"):
        cr.hessian(np.linalg.det)(np.diag(d))


def test_second_derivatives_at_equal_eigenvalues_are_nan_never_finite_and_wrong():
    f = lambda a: np.sum(np.linalg.eigvalsh(a) ** 2)
    assert_allclose(cr.grad(f)(2 * np.eye(2)), 4 * np.eye(2))
    assert np.isnan(cr.hessian(f)(np.eye(2))).any()


def test_eigenvectors_along_a_direction():
    """For diag(1, 3) and a symmetric off-diagonal change e, the first vector turns by e / (1 - 3)."""
    turn = np.array([[0.0, 1.0], [1.0, 0.0]])
    w, v = np.linalg.eigh(np.diag([1.0, 3.0]))
    (_, vdot) = cr.jvp(lambda a: tuple(np.linalg.eigh(a)), (np.diag([1.0, 3.0]),), (turn,))[1]
    assert_allclose(vdot[:, 0] * v[0, 0], [0.0, -0.5], atol=1e-15)
    assert w.tolist() == [1.0, 3.0]


def test_gradient_of_log_determinant_is_the_transposed_inverse():
    a = np.array([[2.0, 1.0], [7.0, -4.0]])
    assert_allclose(cr.grad(lambda a: np.linalg.slogdet(a)[1])(a), np.linalg.inv(a).T)


def test_nuclear_norm_of_an_orthogonal_matrix():
    """All singular values are equal; the gradient of their sum is U V^T, the matrix itself."""
    q = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert_allclose(cr.grad(lambda a: np.linalg.norm(a, "nuc"))(q), q, atol=1e-15)


def test_singular_vectors_without_a_derivative_are_refused():
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="full_matrices=False"):
        np.linalg.svd(cr.Variable(np.ones((3, 2))))
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="phases"):
        np.linalg.svd(cr.Variable(np.ones((2, 2)) * 1j))


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
