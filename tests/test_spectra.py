"""Eigenvalues, singular values and their vectors: equal values, zeros, phases and bases that are arbitrary.

Smooth functions of a matrix keep their derivatives where values coincide. What is expected comes from formulas that do
not go through the spectrum: products, inverses, traces of powers.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

U = np.array([1.0, 2.0, 2.0]) / 3
PLAIN = np.diag([1.0, 2.0, 4.0]) + 0.3 * (np.ones((3, 3)) - np.eye(3))
TWICE = 2.0 * np.eye(3) + 3.0 * np.outer(U, U)  # eigenvalues 2, 2, 5
MATRICES = {"different": PLAIN, "two equal": TWICE, "all equal": np.eye(3), "diagonal": np.diag([1.0, 1.0, 3.0])}
WEIGHTS = np.array([[0.3, -1.0, 2.0], [0.7, 1.1, -0.4], [-1.3, 0.2, 0.9]])
at_each = pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES)


def symmetric(x):
    return (x + x.T) / 2


def function_of(f):
    """Return the function of symmetric matrices that f of numbers extends to."""

    def of_matrix(a):
        w, v = np.linalg.eigh(a)
        return (v * f(w)) @ np.conj(v.T)

    return of_matrix


def weighted(f):
    return lambda a: np.sum(WEIGHTS * f(a))


# -- functions of symmetric matrices -----------------------------------------------------------------------------------

SAME = {  # functions of the eigenvalues, and how to do without
    "cube": (lambda w: w**3, lambda a: a @ a @ a),
    "inverse": (lambda w: 1 / w, np.linalg.inv),
    "constant": (lambda w: w**0, lambda a: 0 * a + np.eye(3)),
    "rational": (lambda w: w / (1 + w**2), lambda a: np.linalg.solve(np.eye(3) + a @ a, a)),
}


@at_each
@pytest.mark.parametrize("spectral, direct", SAME.values(), ids=SAME)
def test_matrix_functions_have_their_derivative_in_both_modes(spectral, direct, a):
    f = function_of(spectral)
    want = symmetric(cr.grad(weighted(direct))(a))
    assert_allclose(cr.grad(weighted(f))(a), want, atol=1e-13)
    v = symmetric(WEIGHTS)
    assert_allclose(cr.jvp(f, (a,), (v,))[1], cr.jvp(direct, (a,), (v,))[1], atol=1e-13)
    assert_allclose(cr.jacobian(weighted(f), mode="forward")(a), want, atol=1e-13)


@at_each
def test_square_root_solves_its_equation(a):
    """Xdot X + X Xdot = Adot."""
    v = symmetric(WEIGHTS)
    x, xdot = cr.jvp(function_of(np.sqrt), (a,), (v,))
    assert_allclose(xdot @ x + x @ xdot, v, atol=1e-13)


def test_logarithm_at_the_identity_is_the_identity():
    """All cotangents of the vectors are zero there, since log 1 is."""
    log = function_of(np.log)
    assert_allclose(cr.grad(weighted(log))(np.eye(3)), symmetric(WEIGHTS), atol=1e-14)
    for a in (np.eye(3), np.diag([1.0, 1.0, 2.0])):
        g = cr.grad(lambda a: log(a)[0, 1] + log(a)[0, 2])(a)
        slope = 1.0 if a[2, 2] == 1 else np.log(2.0)  # of log between 1 and a[2, 2]
        assert_allclose(g, [[0, 0.5, slope / 2], [0.5, 0, 0], [slope / 2, 0, 0]], atol=1e-14)


@at_each
@pytest.mark.parametrize("modes", ["ff", "fr", "rf", "rr"])
def test_second_derivatives_of_spectral_functions(a, modes):
    """Traces of powers, a product of traces, and the determinant."""
    derivative = {"f": lambda f: cr.jacobian(f, mode="forward"), "r": lambda f: cr.jacobian(f, mode="reverse")}
    w = np.linalg.eigvalsh
    cases = [
        (lambda a: np.sum(w(a) ** 3), lambda a: np.trace(a @ a @ a)),
        (lambda a: np.sum(w(a)) * np.sum(w(a) ** 2), lambda a: np.trace(a) * np.sum(a * a)),
        (lambda a: np.sum(np.log(w(a))), lambda a: np.linalg.slogdet(a)[1]),
    ]
    for f, direct in cases:
        found = derivative[modes[0]](derivative[modes[1]](f))(a)
        want = cr.hessian(lambda a, direct=direct: direct((a + a.T) / 2))(a)
        assert_allclose(found, want, atol=1e-12)


EITHER = {  # with vectors, and without
    "trace of a square": (
        lambda a: np.trace(function_of(lambda w: w**2)(a)),
        lambda a: np.sum((a + a.T) ** 2) / 4,
    ),
    "values and vectors": (
        lambda a: np.sum(np.linalg.eigvalsh(a)) * weighted(function_of(lambda w: w))(a),
        lambda a: np.trace(a) * np.sum(symmetric(WEIGHTS) * a),
    ),
    "projector onto all": (
        lambda a: weighted(lambda a: np.linalg.eigh(a)[1] @ np.linalg.eigh(a)[1].T)(a),
        lambda a: 0 * a[0, 0],
    ),
    "singular values": (lambda a: np.sum(np.linalg.svdvals(a) ** 4), lambda a: np.sum((a @ a.T) ** 2)),
    "singular vectors": (
        lambda a: weighted(lambda a: (lambda u, s, vh: (u * s**3) @ vh)(*np.linalg.svd(a)))(a),
        weighted(lambda a: a @ a.T @ a),
    ),
    "general matrix": (lambda a: np.real(np.sum(np.linalg.eigvals(a) ** 3)), lambda a: np.trace(a @ a @ a)),
    "product of norms": (
        lambda a: (np.linalg.norm(a) * np.linalg.norm(a - np.eye(3))) ** 2,
        lambda a: np.sum(a**2) * np.sum((a - np.eye(3)) ** 2),
    ),
}
MORE = {**MATRICES, "zeros": np.zeros((3, 3)), "rank 1": 9 * np.outer(U, U), "close": np.diag([1, 1 + 1e-12, 2])}


@pytest.mark.parametrize("a", MORE.values(), ids=MORE)
@pytest.mark.parametrize("spectral, direct", EITHER.values(), ids=EITHER)
def test_second_derivatives_are_right_or_nan(spectral, direct, a):
    """Never finite and wrong; and right where all values are different."""
    v = WEIGHTS
    want = cr.hvp(direct, a, v)
    by_reverse = cr.grad(lambda a: np.sum(cr.grad(spectral)(a) * v))(a)
    for found in (cr.hvp(spectral, a, v), by_reverse):
        if a is PLAIN or not np.isnan(found).any():
            assert_allclose(found, want, atol=1e-8)


@at_each
def test_projectors_have_their_derivative_in_both_modes(a):
    """The blocks of Pdot between a group and the others are those of Adot, divided by the gaps; all others are 0."""
    w = np.linalg.eigvalsh(a)
    k = int(np.sum(w < w[0] + 1e-12))  # all that are equal to the first

    def spectral(a):
        v = np.linalg.eigh(a)[1][:, :k]
        return v @ v.T

    v = symmetric(WEIGHTS)
    p, pdot = cr.jvp(spectral, (a,), (v,))
    q = np.linalg.eigh(a)[1]
    inner = q.T @ v @ q
    want = np.zeros((3, 3))
    for i in range(k):
        for j in range(k, 3):
            want += inner[i, j] / (w[i] - w[j]) * (np.outer(q[:, i], q[:, j]) + np.outer(q[:, j], q[:, i]))
    assert_allclose(pdot, want, atol=1e-13)
    assert_allclose(np.sum(cr.grad(weighted(spectral))(a) * v), np.sum(WEIGHTS * want), atol=1e-13)


def test_values_and_projector_of_a_group_used_together():
    """The part of a matrix in the space of two equal eigenvalues, compared with differences of a power iteration."""
    f = function_of(lambda w: w * (w < 4))
    v, h = symmetric(WEIGHTS), 1e-5
    want = (_without_largest(TWICE + h * v) - _without_largest(TWICE - h * v)) / (2 * h)
    assert_allclose(cr.jvp(f, (TWICE,), (v,))[1], want, atol=1e-9)
    assert_allclose(np.sum(cr.grad(weighted(f))(TWICE) * v), np.sum(WEIGHTS * want), atol=1e-9)


def _without_largest(a):
    """Return a symmetric matrix minus its part along the eigenvector of the largest eigenvalue, found by iteration."""
    x = U.copy()
    for _ in range(200):
        x = a @ x
        x /= np.sqrt(x @ x)
    return a - (x @ a @ x) * np.outer(x, x)


def test_vectors_that_are_not_used_are_no_matter():
    """The first principal component of data in a plane has a null space of two dimensions beside it."""
    a = np.outer(U, U) * 4.0
    f = lambda a: np.sum(WEIGHTS * np.outer(np.linalg.eigh(a)[1][:, 2], np.linalg.eigh(a)[1][:, 2]))
    g = cr.grad(f)(a)
    rest = np.eye(3) - np.outer(U, U)
    want = symmetric(rest @ (WEIGHTS + WEIGHTS.T) @ np.outer(U, U)) / 4
    assert_allclose(g, want, atol=1e-14)
    x = cr.Variable(a)
    v = np.linalg.eigh(x)[1][:, 2]
    np.sum(WEIGHTS * np.outer(v, v)).backward()
    assert_allclose(x.grad, want, atol=1e-14)


def test_stacks_with_equal_eigenvalues_in_some_matrices():
    stack = np.stack([PLAIN, TWICE, np.eye(3)])
    weights = np.stack([WEIGHTS, 2 * WEIGHTS, WEIGHTS.T])

    def cube(a):
        w, v = np.linalg.eigh(a)
        return (v * (w**3)[..., None, :]) @ np.swapaxes(v, -1, -2)

    g = cr.grad(lambda a: np.sum(weights * cube(a)))(stack)
    for a, w, found in zip(stack, weights, g, strict=True):
        assert_allclose(found, symmetric(cr.grad(lambda a, w=w: np.sum(w * (a @ a @ a)))(a)), atol=1e-12)


def test_hermitian_matrices_and_single_precision():
    rng = np.random.default_rng(0)
    c = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    u = np.array([1, 1j, 1 - 1j]) / 2
    for a in (np.eye(3, dtype=complex), np.eye(3) + np.outer(u, np.conj(u))):
        g = cr.grad(lambda a: np.sum(np.real(c * function_of(lambda w: w**3)(a))))(a)
        full = cr.grad(lambda a: np.sum(np.real(c * (a @ a @ a))))(a)
        assert_allclose(g, (full + np.conj(full.T)) / 2, atol=1e-13)
    single = cr.grad(lambda a: np.sum(WEIGHTS.astype(np.float32) * function_of(np.log)(a)))(np.eye(3, dtype=np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, symmetric(WEIGHTS), rtol=1e-5)


# -- where there is no derivative, and what a second run is ------------------------------------------------------------


def test_what_depends_on_the_basis_of_equal_eigenvalues_is_nan():
    f = weighted(lambda a: np.linalg.eigh(a)[1])
    assert np.isnan(cr.grad(f)(np.eye(3))).all()
    assert np.isnan(cr.jvp(f, (np.eye(3),), (symmetric(WEIGHTS),))[1])
    assert np.isfinite(cr.grad(f)(PLAIN)).all()


def test_the_function_is_run_again_at_equal_eigenvalues_only():
    runs = []

    def f(a):
        runs.append(1)
        return np.sum(WEIGHTS * function_of(np.sqrt)(a))

    for a, count in ((PLAIN, 1), (TWICE, 2)):
        runs.clear()
        cr.grad(f)(a)
        assert len(runs) == count
        runs.clear()
        cr.jvp(f, (a,), (np.eye(3),))  # does not mix the vectors
        assert len(runs) == 1
        runs.clear()
        cr.jvp(f, (a,), (symmetric(WEIGHTS),))
        assert len(runs) == count


def test_a_second_run_that_gives_other_values_is_not_used():
    scale = [1.0]

    def f(a):
        scale[0] *= 2
        return np.sum(WEIGHTS * function_of(np.sqrt)(a)) * scale[0]

    assert np.isnan(cr.grad(f)(TWICE)).any()
    assert np.isnan(cr.jvp(f, (TWICE,), (symmetric(WEIGHTS),))[1])


def test_a_second_run_that_raises_is_not_used():
    """A function that uses up what it reads can't be run again: NaN, and no error that it would not raise by itself."""

    def f(a, scales):
        return np.sum(WEIGHTS * function_of(np.sqrt)(a)) * next(scales)

    assert np.isnan(cr.grad(f)(TWICE, iter([2.0]))).any()
    scales = iter([2.0])
    assert np.isnan(cr.jvp(lambda a: f(a, scales), (TWICE,), (symmetric(WEIGHTS),))[1])
    with pytest.raises(StopIteration):
        cr.grad(f)(TWICE, iter([]))


@pytest.mark.parametrize("gap", [0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5])
def test_nearly_equal_values_lose_less_than_half_of_the_digits(gap):
    """The gap of the values of a smooth function has few digits; a function of the vectors has the true derivative."""
    q = np.linalg.qr(WEIGHTS)[0]
    a = symmetric((q * [2.0, 2.0 + 2 * gap, 5.0]) @ q.T)
    spectral, direct = SAME["rational"]
    want = symmetric(cr.grad(weighted(direct))(a))
    assert_allclose(cr.grad(weighted(function_of(spectral)))(a), want, atol=1e-8)
    v = symmetric(WEIGHTS)
    assert_allclose(cr.jvp(function_of(spectral), (a,), (v,))[1], cr.jvp(direct, (a,), (v,))[1], atol=1e-8)
    found = cr.hvp(lambda a: np.sum(np.linalg.eigvalsh(a) ** 3), a, v)
    assert_allclose(found, 3 * (a @ v + v @ a), atol=1e-6)
    if gap >= 1e-9:
        g = cr.grad(lambda a: np.linalg.eigh(a)[1][0, 0])(a)
        turn = symmetric(np.outer(q[:, 0], q[:, 1])) * q[0, 1] * np.sign(q[0, 0] * np.linalg.eigh(a)[1][0, 0])
        assert_allclose(g * gap * -2, turn, atol=1e-5 + 1e-14 / gap)


def test_the_eager_mode_has_no_second_run():
    x = cr.Variable(TWICE)
    np.sum(WEIGHTS * function_of(np.sqrt)(x)).backward()
    assert np.isnan(x.grad).any()
    x = cr.Variable(TWICE)
    np.sum(np.linalg.eigvalsh(x) ** 3).backward()
    assert_allclose(x.grad, 3 * TWICE @ TWICE, rtol=1e-13)


def test_pullbacks_jacobians_and_pairs_of_results():
    y, pull = cr.vjp(lambda a: (function_of(np.sqrt)(a), np.trace(a)), TWICE)
    assert_allclose(y[0] @ y[0], TWICE, rtol=1e-13)
    for _ in range(2):
        (g,) = pull((WEIGHTS, 1.0))
        x = np.linalg.inv(np.kron(y[0], np.eye(3)) + np.kron(np.eye(3), y[0])) @ symmetric(WEIGHTS).reshape(-1)
        assert_allclose(g, x.reshape(3, 3) + np.eye(3), rtol=1e-12)
    for mode in ("forward", "reverse"):
        j = cr.jacobian(function_of(lambda w: w**2), mode=mode)(TWICE)
        want = cr.jacobian(lambda a: (a + a.T) @ (a + a.T) / 4)(TWICE)
        assert_allclose(j, want, atol=1e-13)


# -- eigenvectors ------------------------------------------------------------------------------------------------------


def test_eigenvectors_along_a_direction():
    """For diag(1, 3) and a symmetric off-diagonal change e, the first vector turns by e / (1 - 3)."""
    turn = np.array([[0.0, 1.0], [1.0, 0.0]])
    w, v = np.linalg.eigh(np.diag([1.0, 3.0]))
    (_, vdot) = cr.jvp(lambda a: tuple(np.linalg.eigh(a)), (np.diag([1.0, 3.0]),), (turn,))[1]
    assert_allclose(vdot[:, 0] * v[0, 0], [0.0, -0.5], atol=1e-15)
    assert w.tolist() == [1.0, 3.0]


def test_phases_of_complex_vectors_are_refused():
    a = np.array([[2.0, 1j], [-1j, 3.0]])
    for f in (lambda a: np.linalg.eigh(a)[1], lambda a: np.linalg.svd(a)[0]):
        with pytest.raises(cr.errors.NotDifferentiableError, match="phases"):
            cr.grad(lambda a, f=f: np.sum(np.imag(f(a)) + np.real(f(a))))(a)
    assert np.isfinite(cr.grad(lambda a: np.sum(np.abs(np.linalg.eigh(a)[1]) * [[1, 2], [3, 4]]))(a)).all()


def test_eigenvalues_of_a_general_matrix():
    """The derivative of an eigenvalue is y^H Adot x / y^H x with left and right vectors: of a triangle its diagonal."""
    a = np.array([[2.0, 1.0], [0.0, 3.0]])  # right (1, 0), (1, 1); left (1, -1), (0, 1)
    j = cr.jacobian(np.linalg.eigvals)(a)
    assert_allclose(j, [[[1, 0], [-1, 0]], [[0, 0], [1, 1]]], atol=1e-14)
    turn = lambda t: np.linalg.eigvals(np.array([[0.0, 1.0], [-1.0, 0.0]]) * t)
    w, wdot = cr.jvp(turn, (2.0,), (1.0,))
    assert_allclose(wdot, w / 2)


def test_eigenvectors_of_a_general_matrix_keep_their_length_and_equation():
    rng = np.random.default_rng(2)
    for a in rng.normal(size=(4, 4, 4)):
        d = rng.normal(size=(4, 4))
        (w, v), (wdot, vdot) = cr.jvp(lambda a: tuple(np.linalg.eig(a)), (a,), (d,))
        assert_allclose(d @ v + a @ vdot, vdot * w + v * wdot, atol=1e-12)
        assert_allclose(np.sum(np.conj(v) * vdot, axis=0).real, 0, atol=1e-13)


def test_functions_of_a_general_matrix_with_equal_eigenvalues():
    """At 2 I + a nilpotent beside: diagonalizable, with the eigenvalue 2 twice."""
    b = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])

    def cube(a):
        w, v = np.linalg.eig(a)
        return np.real((v * w**3) @ np.linalg.inv(v))  # complex from NumPy 2.5 on, whatever the eigenvalues

    for a in (np.eye(3), b):
        want = cr.grad(weighted(lambda a: a @ a @ a))(a)
        assert_allclose(cr.grad(weighted(cube))(a), want, atol=1e-12)
        assert_allclose(cr.jvp(weighted(cube), (a,), (WEIGHTS,))[1], np.sum(want * WEIGHTS), atol=1e-12)
    assert_allclose(cr.grad(lambda a: np.real(np.sum(np.linalg.eigvals(a) ** 3)))(b), 3 * (b @ b).T, atol=1e-12)


# -- singular values ---------------------------------------------------------------------------------------------------

ROWS = np.array([[1.0, 2.0, -1.0], [0.5, 1.0, 3.0], [2.0, -1.0, 0.0], [1.0, 1.0, 1.0]])
RANK_ONE = np.outer([1.0, 2.0, 0.0, -1.0], [1.0, 0.0, 2.0])
POINTS = {
    "tall": ROWS, "wide": ROWS.T, "square": ROWS[:3], "tall of rank 1": RANK_ONE, "wide of rank 1": RANK_ONE.T,
    "zeros": np.zeros((4, 3)), "orthogonal": np.linalg.qr(ROWS[:3])[0], "columns of one length": np.eye(4)[:, :3] * 2,
    "complex of rank 1": np.outer([1.0, 1j, 2.0], [1.0, 0.0, 2j]), "unitary": np.linalg.qr(ROWS[:3] + 1j * ROWS[1:])[0],
}  # fmt: skip


@pytest.mark.parametrize("a", POINTS.values(), ids=POINTS)
def test_odd_functions_of_singular_values(a):
    """U s^3 V^H is A A^H A, also where singular values are equal or zero."""
    c = np.random.default_rng(1).normal(size=a.shape) + (1j if a.dtype.kind == "c" else 0)

    def cube(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return (u * s**3) @ vh

    total = lambda f: lambda a: np.sum(np.real(c * f(a)))
    direct = lambda a: a @ np.conj(a.T) @ a
    assert_allclose(cr.grad(total(cube))(a), cr.grad(total(direct))(a), atol=1e-12)
    assert_allclose(cr.jvp(cube, (a,), (c,))[1], cr.jvp(direct, (a,), (c,))[1], atol=1e-12)


@pytest.mark.parametrize("a", [v for v in POINTS.values() if v.dtype.kind == "f"], ids=str)
def test_second_derivatives_of_the_sum_of_squares(a):
    f = lambda a: np.sum(np.linalg.svdvals(a) ** 2)
    want = 2 * np.eye(a.size).reshape(a.shape * 2)
    assert_allclose(cr.grad(f)(a), 2 * a, atol=1e-13)
    assert_allclose(cr.hessian(f)(a), want, atol=1e-12)


def test_polar_factor_of_a_rotation_turns_by_the_skew_part():
    q = np.array([[0.6, -0.8], [0.8, 0.6]])
    e = np.array([[1.0, 2.0], [3.0, -1.0]])

    def polar(a):
        u, _, vh = np.linalg.svd(a)
        return u @ vh

    inner = q.T @ e
    want = q @ (inner - inner.T) / 2
    assert_allclose(cr.jvp(polar, (q,), (e,))[1], want, atol=1e-14)
    g = cr.grad(lambda a: np.sum(np.array([[1.0, 2.0], [3.0, 4.0]]) * polar(a)))(q)
    assert_allclose(np.sum(g * e), np.sum(np.array([[1.0, 2.0], [3.0, 4.0]]) * want), atol=1e-14)


@pytest.mark.parametrize("a", [ROWS, ROWS + 1j * ROWS[::-1]], ids=["real", "complex"])
def test_vectors_that_complete_a_basis_span_what_the_columns_do_not(a):
    """The projector onto their space is I - A A^+."""
    c = np.arange(16.0).reshape(4, 4)

    def outside(a):
        u = np.linalg.svd(a[:, :2])[0][:, 2:]
        return u @ np.conj(u.T)

    total = lambda f: lambda a: np.sum(np.real(c * f(a)))
    direct = lambda a: np.eye(4) - a[:, :2] @ np.linalg.pinv(a[:, :2])
    assert_allclose(cr.grad(total(outside))(a), cr.grad(total(direct))(a), atol=1e-12)
    d = np.linspace(-1, 1, 12).reshape(4, 3)
    assert_allclose(cr.jvp(outside, (a,), (d,))[1], cr.jvp(direct, (a,), (d,))[1], atol=1e-12)


def test_the_null_vector_of_a_homogeneous_system():
    """Of n - 1 equations in n unknowns: for a.x = 0 in the plane the normal of a, which turns as a does."""
    a = np.array([[3.0, 4.0]])
    vh = np.linalg.svd(a)[2]
    _, vdot = cr.jvp(lambda a: np.linalg.svd(a)[2][1], (a,), (np.array([[-4.0, 3.0]]),))  # by one radian
    turned = np.array([-vh[1, 1], vh[1, 0]])
    assert_allclose(vdot, turned, atol=1e-15)
    g = cr.grad(lambda a: np.linalg.svd(a)[2][1] @ np.array([1.0, 2.0]))(a)
    assert_allclose(np.sum(g * [[-4.0, 3.0]]), turned @ [1.0, 2.0], atol=1e-14)


def test_bases_that_are_arbitrary_are_refused():
    with pytest.raises(cr.errors.NotDifferentiableError, match="completes a basis|complete a basis"):
        cr.grad(lambda a: np.sum(np.linalg.svd(a)[0] * np.arange(16.0).reshape(4, 4)))(ROWS[:, :2])


def test_nuclear_norm_of_an_orthogonal_matrix():
    """All singular values are equal; the gradient of their sum is U V^T, the matrix itself."""
    q = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert_allclose(cr.grad(lambda a: np.linalg.norm(a, "nuc"))(q), q, atol=1e-15)


def test_norms_by_singular_values_at_zero_ones():
    """Singular values that are zero are kinks: they take no part."""
    for p in (2, -2, "nuc"):
        assert_allclose(cr.grad(lambda a, p=p: np.linalg.norm(a, p))(np.zeros((2, 3))), np.zeros((2, 3)))
    ones = np.ones((2, 2))  # 2 (1, 1) (1, 1)^T / 2
    assert_allclose(cr.grad(lambda a: np.linalg.norm(a, "nuc"))(ones), ones / 2, atol=1e-15)
    assert_allclose(cr.grad(lambda a: np.linalg.norm(a, 2))(ones), ones / 2, atol=1e-15)
    assert_allclose(cr.grad(lambda a: np.linalg.norm(a, -2))(ones), 0 * ones, atol=1e-15)


# -- norms at zero -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", ["ff", "fr", "rf", "rr"])
def test_the_square_of_a_norm_has_its_second_derivatives_at_zero(modes):
    derivative = {"f": lambda f: cr.jacobian(f, mode="forward"), "r": lambda f: cr.jacobian(f, mode="reverse")}
    second = lambda f: derivative[modes[0]](derivative[modes[1]](f))
    x = np.zeros(3)
    assert_allclose(second(lambda x: np.linalg.norm(x) ** 2)(x), 2 * np.eye(3), atol=1e-15)
    assert_allclose(second(lambda x: np.exp(-2 * np.linalg.norm(x) ** 2))(x), -4 * np.eye(3), atol=1e-15)
    assert_allclose(second(lambda x: np.linalg.norm(x) ** 4)(x), np.zeros((3, 3)), atol=1e-15)
    assert np.isnan(second(lambda x: np.linalg.norm(x) ** 2 + np.linalg.norm(x))(x)).any()
    assert not np.isfinite(second(lambda x: np.linalg.norm(x, 3) ** 2)(x)).all()  # no quadratic form: it has none


def test_the_square_of_norms_of_lines_some_of_which_are_zero():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    f = lambda x: np.sum(np.linalg.norm(x, axis=1) ** 2)
    assert_allclose(cr.hessian(f)(x).reshape(4, 4), 2 * np.eye(4), atol=1e-14)
    f = lambda x: np.linalg.norm(x) ** 2
    assert_allclose(cr.hessian(f)(np.zeros((2, 2))).reshape(4, 4), 2 * np.eye(4), atol=1e-14)


def test_the_square_of_a_standard_deviation_has_its_second_derivatives_at_zero():
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]])
    want = np.zeros((2, 3, 2, 3))
    for i in range(2):
        want[i, :, i, :] = np.eye(3) - 1 / 3  # the variance is x^T (I - 1 1^T / n) x / (n - 1)
    for mode in ("forward", "reverse"):
        g = cr.grad(lambda x: np.sum(np.std(x, axis=1, ddof=1) ** 2))
        assert_allclose(g(x)[1], [-1.0, 0.0, 1.0])
        assert_allclose(cr.jacobian(g, mode=mode)(x), want, atol=1e-14)
    assert_allclose(cr.grad(lambda x: np.sum(np.std(x, axis=1)))(x)[0], np.zeros(3))
    assert not np.isfinite(cr.hessian(np.std)(np.ones(3))).all()


def test_a_norm_of_negative_order_with_a_zero_entry_is_zero_with_derivative_zero():
    x = np.array([[1.0, 0.0], [1.0, 2.0]])
    with np.errstate(divide="ignore"):
        g = cr.grad(lambda x: np.sum(np.linalg.norm(x, -1, axis=1)))(x)
    assert_allclose(g, [[0, 0], [4 / 9, 1 / 9]])  # y = ab / (a + b), dy/da = b^2 / (a + b)^2
