"""Complex numbers: one convention in every composition of functions, writes, real and complex operands, and every mode.

Of a real function f of z = x + iy the gradient is df/dx - i df/dy. Expected values are central differences along both
axes of every entry, or closed forms.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import chainrule as cr

Z = np.array([0.7 + 0.4j, -0.6 + 0.9j, 0.5 - 0.8j])
X = np.array([0.9, -1.2, 0.4])
A = np.array([[1.0 + 0.5j, -0.3j, 0.2], [0.4, 0.8 - 1.0j, 0.1j], [-0.5j, 0.6, 1.2 + 0.3j]])
R = np.array([[0.5, -1.0, 0.3], [0.2, 0.7, -0.4], [1.1, 0.1, 0.6]])
W = np.array([1.0 - 0.5j, 0.3 + 0.8j, -0.7 + 0.2j])
MASK = np.array([True, False, True])


def by_differences(f, z, h=1e-3):
    """Return df/dx - i df/dy of every entry, by differences of order 6; for real z df/dx."""
    g = np.zeros(z.shape, z.dtype)
    for i in np.ndindex(z.shape):

        def along(u, i=i):
            def at(k):
                w = z.copy()
                w[i] += k * h * u
                return float(f(w))

            return (45 * (at(1) - at(-1)) - 9 * (at(2) - at(-2)) + (at(3) - at(-3))) / (60 * h)

        g[i] = along(1.0) - (1j * along(1j) if z.dtype.kind == "c" else 0)
    return g


def write_parts(z):
    z = z * 1
    z.real = z.imag**2
    z.imag += z.real * X
    return z


def write_entries(z):
    z = z * 1
    z.real[0] = 5 * z.imag[1]
    z[1] = np.abs(z[0])
    z.imag *= 3
    return z


def fill(z):
    y = np.zeros(3, complex, like=z)
    y[:] = z.real
    y.imag = z.real * 2
    y[1:] *= z[:-1]
    return y


STEPS = {
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
    "abs": np.abs,
    "square of abs": lambda z: np.abs(z) ** 2,
    "angle": np.angle,
    "sign": np.sign,
    "attributes": lambda z: z.real * z.imag + 1j * z.conj(),
    "exp": lambda z: np.exp(z / 2),
    "sin": np.sin,
    "tanh": lambda z: np.tanh(z / 2),
    "sqrt": lambda z: np.sqrt(3 + z),
    "log": lambda z: np.log(3 + z),
    "power": lambda z: z**2,
    "complex power": lambda z: (3 + z) ** (0.5 + 1j),
    "quotient": lambda z: W / (3 + z),
    "real factor": lambda z: z * X,
    "real term": lambda z: X - z,
    "complex matrix": lambda z: A @ z,
    "real matrix": lambda z: R @ z,
    "matrix of it": lambda z: np.outer(z, z.conj()) @ W,
    "einsum": lambda z: np.einsum("ij,j,i->i", A, z, z.conj()),
    "vdot": lambda z: np.vdot(z, W) * z,
    "solve": lambda z: np.linalg.solve(4 * np.eye(3) + np.diag(z), W),
    "inv": lambda z: np.linalg.inv(4 * np.eye(3) + np.outer(z, X))[0],
    "norm": lambda z: z / np.linalg.norm(z),
    "fft": np.fft.fft,
    "rfft": lambda z: np.fft.rfft(np.real(z), 4),
    "irfft": lambda z: np.fft.irfft(z, 3),
    "where": lambda z: np.where(MASK, z, np.conj(z)),
    "where of a real and a complex operand": lambda z: np.where(MASK, np.imag(z), z),
    "index": lambda z: z[[2, 0, 0]] * z[::-1],
    "stack": lambda z: np.stack([z.real, z.imag, X]).sum(0) * (1 + 1j),
    "cumprod": np.cumprod,
    "variance": lambda z: z * np.var(z),
    "writes into parts": write_parts,
    "writes of entries": write_entries,
    "a buffer": fill,
}


def tame(z):
    """Keep a value complex, and of moderate size."""
    return 0.5 * z + (0.1 - 0.2j)


def composed(names):
    """Return the composition of steps, ended by a real number."""

    def f(z):
        for name in names:
            z = tame(STEPS[name](z))
        return np.real(np.sum(W * z)) + np.sum(np.abs(z) ** 2 * X)

    return f


def check_gradients(f, z, rtol=1e-6):
    """Compare first and second derivatives in both modes with differences."""
    g = cr.grad(f)(z)
    want = by_differences(f, z)
    assert g.dtype == z.dtype
    size = max(1.0, np.abs(want).max())
    assert_allclose(g, want, rtol=rtol, atol=rtol * size)
    v = W[: z.size] if z.dtype.kind == "c" else W.real
    assert_allclose(cr.jvp(f, (z,), (v,))[1], np.real(np.sum(want * v)), rtol=rtol, atol=rtol * size)
    # df along v is Re(sum(g v)); its gradient, three ways
    slope = by_differences(lambda z: np.real(np.sum(cr.grad(f)(z) * v)), z)
    size = max(1.0, np.abs(slope).max())
    for found in (
        cr.grad(lambda z: np.real(np.sum(cr.grad(f)(z) * v)))(z),
        cr.jvp(cr.grad(f), (z,), (v,))[1],
        cr.grad(lambda z: cr.jvp(f, (z,), (v,))[1])(z),
    ):
        assert_allclose(found, slope, rtol=10 * rtol, atol=10 * rtol * size)


@pytest.mark.parametrize("name", STEPS)
def test_gradient_is_df_dx_minus_i_df_dy(name):
    check_gradients(composed([name]), Z)


@pytest.mark.parametrize("name", STEPS)
def test_real_input_of_a_complex_computation_has_a_real_gradient(name):
    f = composed([name])
    check_gradients(lambda x: f(x * (1 + 0.3j) + 0.2j), X)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(list(STEPS)), min_size=2, max_size=4))
def test_random_compositions(names):
    z = Z
    for name in names:  # away from kinks and cuts, and of a size at which differences have digits
        z = STEPS[name](z)
        assume(np.abs(z).min() > 1e-2 and np.abs(z).max() < 20)
        z = tame(z)
        assume(np.abs(z).min() > 1e-2 and np.min(np.abs(z.imag) + (z.real > 0)) > 1e-2)
    check_gradients(composed(names), Z, rtol=1e-5)


@pytest.mark.parametrize("name", STEPS)
def test_single_precision_stays(name):
    f = composed([name])
    z, x = Z.astype(np.complex64), X.astype(np.float32)
    real = lambda x: f(x * np.complex64(1 + 0.3j))
    for g, point, h in ((cr.grad(f)(z), z, f), (cr.grad(real)(x), x, lambda x: f(x * (1 + 0.3j)))):
        assert g.dtype == point.dtype
        want = by_differences(h, (Z if point is z else X))
        assert_allclose(g, want, rtol=2e-3, atol=2e-3 * max(1, np.abs(want).max()))


HOLOMORPHIC = {
    "power": (lambda z: z**3, lambda z: 3 * z**2, lambda z: 6 * z),
    "exp": (lambda z: np.exp(2 * z), lambda z: 2 * np.exp(2 * z), lambda z: 4 * np.exp(2 * z)),
    "log": (np.log, lambda z: 1 / z, lambda z: -1 / z**2),
    "sqrt": (np.sqrt, lambda z: 0.5 / np.sqrt(z), lambda z: -0.25 / z**1.5),
    "arctanh": (np.arctanh, lambda z: 1 / (1 - z * z), lambda z: 2 * z / (1 - z * z) ** 2),
    "arcsin": (np.arcsin, lambda z: (1 - z * z) ** -0.5, lambda z: z * (1 - z * z) ** -1.5),
    "tanh": (np.tanh, lambda z: np.cosh(z) ** -2, lambda z: -2 * np.tanh(z) / np.cosh(z) ** 2),
    "sigmoid": (
        cr.sigmoid,
        lambda z: 0.25 / np.cosh(z / 2) ** 2,
        lambda z: -0.25 * np.tanh(z / 2) / np.cosh(z / 2) ** 2,
    ),
    "conj of conj": (lambda z: np.conj(np.conj(z) ** 2), lambda z: 2 * z, lambda z: 2 + 0 * z),
    "real and imag": (lambda z: (z.real + 1j * z.imag) ** 2, lambda z: 2 * z, lambda z: 2 + 0 * z),
    "abs and angle": (
        lambda z: (np.abs(z) * np.exp(1j * np.angle(z))) ** 2,
        lambda z: 2 * z,
        lambda z: 2 + 0 * z,
    ),
}


@pytest.mark.parametrize(("f", "first", "second"), HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_holomorphic_derivatives(f, first, second):
    for z in (0.4 + 0.3j, np.complex128(-0.2 + 0.7j), 0.3 - 1.1j):
        g = cr.grad(f, holomorphic=True)
        assert_allclose(g(z), first(z), rtol=1e-12)
        assert_allclose(cr.grad(g, holomorphic=True)(z), second(z), rtol=1e-11)
        assert_allclose(cr.jvp(f, (z,), (1 + 0j,))[1], first(z), rtol=1e-12)
        assert_allclose(cr.jvp(g, (z,), (1 + 0j,))[1], second(z), rtol=1e-11)


def test_broadcasting_a_real_against_a_complex_operand():
    x, z = X[:, None], Z[None, :]
    for f in (lambda x, z: x * z, lambda x, z: z / x, lambda x, z: z - x, lambda x, z: np.where(x > 0, x + 0 * z, z)):
        real = lambda x, z, f=f: np.sum(np.abs(f(x, z) + W) ** 2)
        gx, gz = cr.grad(real, argnums=(0, 1))(x, z)
        assert gx.dtype == float
        assert gx.shape == x.shape
        assert gz.shape == z.shape
        assert_allclose(gx, by_differences(lambda x: real(x, z), x), rtol=1e-7, atol=1e-7)
        assert_allclose(gz, by_differences(lambda z: real(x, z), z), rtol=1e-7, atol=1e-7)


def test_descent_goes_against_the_conjugate():
    """The minimum of |z - c|**2 + |z**2 - c**2|**2 is at c."""
    c = np.array([1 + 2j, -0.5j])
    f = lambda z: np.sum(np.abs(z - c) ** 2 + 0.01 * np.abs(z**2 - c**2) ** 2)
    z = np.array([0.5 + 1j, 0.1 + 0j])
    for _ in range(300):
        z = z - 0.2 * np.conj(cr.grad(f)(z))
    assert_allclose(z, c, atol=1e-12)
    # the same with a Variable
    x = cr.Variable(np.array([0.5 + 1j, 0.1 + 0j]))
    for _ in range(300):
        x.grad = None
        f(x).backward()
        with cr.no_grad():
            x -= 0.2 * np.conj(x.grad)
    assert_allclose(x.data, c, atol=1e-12)


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin])
@pytest.mark.parametrize("kind", [complex, np.complex128, np.array])
def test_extrema_of_complex_numbers_follow_numpys_order(f, kind):
    """First by the real, then by the imaginary parts."""
    a, b = kind(1 + 1j), kind(1 - 1j)
    taken = f(a, b) == a
    g = cr.grad(lambda a, b: np.real(f(a, b)), argnums=(0, 1))(a, b)
    assert_allclose(g, [1.0 * taken, 1.0 * (not taken)])
    assert cr.grad(lambda z: np.real(np.clip(z, 0, 2)))(a) == 1
    assert cr.grad(lambda z: np.real(np.clip(z, 0, 0.5)))(a) == 0
