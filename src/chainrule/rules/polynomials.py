"""Derivative rules of polynomials given by their coefficients, the highest power first.

Sums, products and quotients are written in terms of other functions. A root moves with the coefficients by the implicit
function theorem: of p(r) = 0 follows dr = -dp(r) / p'(r), infinite where a root is repeated. The characteristic
polynomial of a matrix is smooth everywhere: d det(z - A) = -tr(adj(z - A) dA).
"""

import warnings

import numpy as np

from chainrule.engine.boxed import Boxed, known, ordinary, value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive, shape_of, spec_of
from chainrule.rules.differences import as_array
from chainrule.rules.linalg_spectrum import note_complex


def coefficients(p):
    """Return the coefficients of a polynomial, given as a `poly1d`, a list or an array, as an array."""
    return np.atleast_1d(as_array(p.coeffs if isinstance(p, np.poly1d) else p))


def like_given(y, *given):
    """Return the coefficients `y` as a `poly1d` if one was given."""
    return np.poly1d(y) if any(isinstance(p, np.poly1d) for p in given) else y


def real_dtype(x):
    """Return the dtype of the real part."""
    return np.zeros((), spec_of(x).dtype).real.dtype


# -- arithmetic --------------------------------------------------------------------------------------------------------


@composite(np.polyval)
def polyval(p, x):
    """Evaluate by Horner's scheme."""
    p = as_array(p.coeffs if isinstance(p, np.poly1d) else p)
    if isinstance(x, np.poly1d):
        y = 0
    else:
        x = as_array(x)
        y = np.zeros(x.shape, x.dtype)
    for c in p:
        y = y * x + c
    return y


def lengthened(a, b):
    """Return two polynomials with as many coefficients each."""
    a, b = coefficients(a), coefficients(b)
    n, m = a.shape[0], b.shape[0]
    if n < m:
        a = np.concatenate((np.zeros(m - n, a.dtype), a))
    elif m < n:
        b = np.concatenate((np.zeros(n - m, b.dtype), b))
    return a, b


@composite(np.polyadd)
def polyadd(a1, a2):
    """Add power by power."""
    a, b = lengthened(a1, a2)
    return like_given(a + b, a1, a2)


@composite(np.polysub)
def polysub(a1, a2):
    """Subtract power by power."""
    a, b = lengthened(a1, a2)
    return like_given(a - b, a1, a2)


@composite(np.polymul)
def polymul(a1, a2):
    """The coefficients of a product are those of the factors, convolved; zeros in front take no part."""
    a, b = (p if len(shape_of(p)) != 1 else np.trim_zeros(p, "f") for p in map(coefficients, (a1, a2)))
    a, b = (p if p.shape[0] else np.zeros(1, p.dtype) for p in (a, b))
    return like_given(np.convolve(a, b), a1, a2)


@composite(np.polydiv)
def polydiv(u, v):
    """Divide as by hand; zeros in front of the rest are cut off."""
    a, b = coefficients(u) + 0.0, coefficients(v) + 0.0
    rest = a if a.dtype == (dtype := np.result_type(a.dtype, b.dtype)) else a.astype(dtype)
    steps, n = a.shape[0] - b.shape[0] + 1, b.shape[0]
    scale = 1.0 / b[0]
    quotient = []
    for k in range(steps):
        d = scale * rest[k]
        quotient.append(d)
        rest = np.concatenate((rest[:k], rest[k : k + n] - d * b, rest[k + n :]))
    quotient = np.stack(quotient) if quotient else np.zeros(1, dtype)
    start, plain = 0, value(rest)
    while start < len(plain) - 1 and np.allclose(plain[start], 0, rtol=1e-14):
        start += 1
    return like_given(quotient, u, v), like_given(rest[start:], u, v)


@composite(np.polyder)
def polyder(p, m=1):
    """Multiply each coefficient by its power, `m` times."""
    if int(m) < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    y = coefficients(p)
    for _ in range(int(m)):
        y = y[:-1] * np.arange(y.shape[0] - 1, 0, -1)
    return like_given(y, p)


@composite(np.polyint)
def polyint(p, m=1, k=None):
    """Divide each coefficient by its new power and append a constant, `m` times."""
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(m) if k is None else coefficients(k)
    if constants.shape[0] == 1 and m > 1:
        constants = constants[0] * np.ones(m)
    if constants.shape[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    y = coefficients(p)
    for j in range(m):
        y = np.concatenate((y / np.arange(y.shape[0], 0, -1), constants[j : j + 1]))
    return like_given(y, p)


# -- roots -------------------------------------------------------------------------------------------------------------


def powers(r, p):
    """Return the powers of each root that go with the coefficients, one row per root; and p' at each."""
    n = p.shape[0]
    exponents = np.arange(n - 1, -1, -1).astype(real_dtype(p))
    rows = r.reshape(-1, 1) ** exponents
    return rows, rows[:, 1:] @ (p[:-1] * exponents[:-1])


def roots_jvp(pdot, y, p):
    """rdot = -pdot(r) / p'(r)."""
    rows, slope = powers(y, p)
    return -(rows @ pdot) / slope


def roots_vjp(ybar, y, p):
    """Each coefficient takes -r**k / p'(r) of the cotangent of each root."""
    rows, slope = powers(y, p)
    return -(ybar / slope) @ rows


@primitive
def roots_of(p):
    """Return the roots by NumPy's function."""
    return np.roots(p)


rule(roots_of, jvp=roots_jvp, vjp=roots_vjp)


@composite(np.roots)
def roots(p):
    """Find the roots. There are fewer where the first or last coefficients are zero: a program notes which are."""
    p = as_array(p)
    if ordinary(p):
        known(value(p) != 0)
    r = roots_of(p)
    note_complex(r, p)
    return r


@primitive
def characteristic(a):
    """Return the characteristic polynomial of a matrix."""
    return np.poly(a)


def adjugates(a, y):
    """Yield the matrices B_k of adj(z - A) = sum of B_k z**(n-1-k): B_0 = 1, B_k = A B_(k-1) + y_k. One is kept."""
    eye = b = np.eye(a.shape[0], dtype=spec_of(a).dtype)
    yield b
    for k in range(1, a.shape[0]):
        b = a @ b + y[k] * eye
        yield b


def characteristic_jvp(adot, y, a):
    """The coefficient k changes by -tr(B_(k-1) adot)."""
    changes = [-np.sum(b * adot.T) for b in adjugates(a, y)]
    return np.stack([np.zeros((), spec_of(changes[0]).dtype), *changes])


def characteristic_vjp(ybar, y, a):
    """The matrix takes -B_(k-1), transposed, of the cotangent of each coefficient k."""
    abar = 0.0
    for k, b in enumerate(adjugates(a, y), 1):
        abar = abar - ybar[k] * b.T
    return abar


rule(characteristic, jvp=characteristic_jvp, vjp=characteristic_vjp)


@composite(np.poly)
def poly(seq_of_zeros):
    """Multiply the factors (z - root), or take the characteristic polynomial of a matrix."""
    zeros = np.atleast_1d(as_array(seq_of_zeros))
    shape = zeros.shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0] != 0:
        return characteristic(zeros)
    if len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if zeros.dtype.char not in "fdgFDG":
        zeros = zeros.astype(float)
    y = np.ones(1, zeros.dtype)
    for r in zeros:
        y = np.convolve(y, np.stack((np.ones((), r.dtype), -r)))
    if zeros.dtype.kind == "c":
        plain = value(zeros)
        if np.all(np.sort(plain) == np.sort(plain.conj())):  # conjugate pairs: NumPy gives real coefficients
            y = np.real(y)
    return y if isinstance(y, Boxed) else 1.0


# -- least squares -----------------------------------------------------------------------------------------------------


@composite(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Solve the least squares problem for the coefficients, with columns of norm 1, as NumPy does."""
    order = int(deg) + 1
    x, y = as_array(x) + 0.0, as_array(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if len(x.shape) != 1 or not x.shape[0]:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= len(y.shape) <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = x.shape[0] * np.finfo(x.dtype).eps
    columns, right = np.vander(x, order), y
    if w is not None:
        w = as_array(w) + 0.0
        if w.shape != y.shape[:1]:
            raise TypeError("expected w and y to have the same length, and w to be a vector")
        columns = columns * w.reshape(-1, 1)
        right = right * (w.reshape(-1, 1) if len(y.shape) == 2 else w)
    scale = np.sqrt((columns * columns).sum(axis=0))
    columns = columns / scale
    c, residuals, rank, s = np.linalg.lstsq(columns, right, rcond)
    c = c / (scale.reshape(-1, 1) if len(y.shape) == 2 else scale)
    if rank != order and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    base = np.linalg.inv(columns.T @ columns) / np.outer(scale, scale)
    factor = 1.0
    if not (isinstance(cov, str) and cov == "unscaled"):
        if x.shape[0] <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (x.shape[0] - order)
    return c, (base * factor if len(y.shape) == 1 else base.reshape(*base.shape, 1) * factor)
