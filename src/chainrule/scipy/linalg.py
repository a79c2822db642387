"""scipy.linalg for traced values, with SciPy's signatures; stacks of matrices are taken, too.

Arguments about memory (``overwrite_a``) change nothing here. Functions that read one triangle of a matrix only are
differentiated in that triangle, but for `cholesky`, whose gradient is symmetric, as that of NumPy's is.
"""

import numpy as np
from scipy import linalg as _linalg

from chainrule.engine.boxed import Boxed, all_values
from chainrule.engine.spec import shape_of
from chainrule.rules import batching_scipy  # noqa: F401 (registers how they run on a batch)
from chainrule.rules import scipy_linalg as _rules
from chainrule.rules.products import conj, mT
from chainrule.scipy.entries import entry, refuse

# -- operands ----------------------------------------------------------------------------------------------------------


def matrix(a, check_finite=True):
    """Return an argument as a float array, plain or traced; refuse infinities as SciPy does."""
    if not hasattr(a, "dtype"):
        a = np.array(a, like=_first(a)) if _first(a) is not None else np.asarray(a)
    if check_finite and not np.isfinite(all_values(a)).all():
        raise ValueError("array must not contain infs or NaNs")
    return a if a.dtype.kind in "fc" else a.astype(float)


def _first(x):
    """Return a traced value inside nested lists, or None."""
    if isinstance(x, list | tuple):
        return next((f for f in map(_first, x) if f is not None), None)
    return x if isinstance(x, Boxed) else None


def filled(a, lower, hermitian):
    """Return a symmetric (or Hermitian) matrix from one of its triangles."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    diagonal = np.triu(np.tril(a))
    if hermitian and a.dtype.kind == "c":
        return half + np.real(diagonal) + mT(conj(half))
    return half + diagonal + mT(half)


def structured(a, assume_a, lower):
    """Return the matrix that SciPy works with, given what it was told to assume."""
    kind = {None: "general", "gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}.get(
        assume_a, assume_a
    )
    if kind in ("symmetric", "hermitian", "positive definite"):
        return filled(a, lower, kind != "symmetric")
    if kind in ("upper triangular", "lower triangular"):
        return np.triu(a) if kind == "upper triangular" else np.tril(a)
    if kind == "diagonal":
        return np.triu(np.tril(a))
    if kind in ("general", "tridiagonal", "banded"):
        return np.triu(np.tril(a, 1), -1) if kind == "tridiagonal" else a
    raise ValueError(f"{assume_a!r} is not a recognized matrix structure")


# -- systems -----------------------------------------------------------------------------------------------------------


@entry(_linalg.solve)
def solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None, transposed=False):
    """Solve A X = B, or A^T X = B."""
    a, b = matrix(a, check_finite), matrix(b, check_finite)
    a = structured(a, assume_a, lower)
    return np.linalg.solve(mT(a) if transposed else a, b)


@entry(_linalg.solve_triangular)
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    """Solve by substitution; the other triangle gets no derivative."""
    a, b = matrix(a, check_finite), matrix(b, check_finite)
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    a = conj(a) if trans == 2 else a
    return _rules.solve_triangle(a, b, lower=bool(lower), transposed=trans != 0, unit_diagonal=bool(unit_diagonal))


@entry(_linalg.solve_sylvester)
def solve_sylvester(a, b, q):
    """Solve A X + X B = Q."""
    return _rules.solve_sylvester(matrix(a), matrix(b), matrix(q))


@entry(_linalg.inv)
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    """Return the inverse."""
    return np.linalg.inv(structured(matrix(a, check_finite), assume_a, lower))


@entry(_linalg.det)
def det(a, overwrite_a=False, check_finite=True):
    """Return the determinant, in double precision as SciPy does."""
    a = matrix(a, check_finite)
    return np.linalg.det(a.astype(complex if a.dtype.kind == "c" else float))


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@entry(_linalg.cholesky)
def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    """Return the factor L of A = L L^H, or R of A = R^H R; each is computed from its own triangle."""
    a = matrix(a, check_finite)
    return np.linalg.cholesky(a) if lower else mT(conj(np.linalg.cholesky(mT(conj(a)))))


@entry(_linalg.cho_factor)
def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """Return (C, lower): C has the factor in one triangle, and in the other what was there in A."""
    a = matrix(a, check_finite)
    if lower:
        return np.tril(cholesky(a, lower=True)) + np.triu(a, 1), lower
    return np.triu(cholesky(a)) + np.tril(a, -1), lower


@entry(_linalg.cho_solve)
def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """Solve A X = B with the factor of A: by two substitutions."""
    c, lower = c_and_lower
    c, b = matrix(c, check_finite), matrix(b, check_finite)
    first, second = (c, conj(c)) if lower else (conj(c), c)
    y = _rules.solve_triangle(first, b, lower=bool(lower), transposed=not lower)
    return _rules.solve_triangle(second, y, lower=bool(lower), transposed=bool(lower))


# -- functions of a matrix ---------------------------------------------------------------------------------------------


def _function(name):
    """Declare a function of a matrix."""
    ours = getattr(_rules, name)

    def call(A, **options):
        refuse(f"scipy.linalg.{name}", **{k: v for k, v in options.items() if k not in ("disp", "blocksize")})
        if options.get("disp", True) is False:
            refuse(f"scipy.linalg.{name}", disp="False")
        return ours(matrix(A))

    call.__name__ = call.__qualname__ = name
    return entry(getattr(_linalg, name))(call)


expm, logm, sqrtm, sinm, cosm, tanm, sinhm, coshm, tanhm = map(
    _function, ("expm", "logm", "sqrtm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")
)


# -- norms and spectra -------------------------------------------------------------------------------------------------


@entry(_linalg.norm)
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    """Return a norm of vectors or matrices."""
    return np.linalg.norm(matrix(a, check_finite), ord=ord, axis=axis, keepdims=keepdims)


@entry(_linalg.eigh)
def eigh(a, b=None, *, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False, type=1, check_finite=True,
         subset_by_index=None, subset_by_value=None, driver=None):  # fmt: skip
    """Return eigenvalues and vectors of a symmetric (Hermitian) matrix; of the plain problem only."""
    refuse("scipy.linalg.eigh", b=b is not None, subset_by_value=subset_by_value is not None)
    w, v = np.linalg.eigh(matrix(a, check_finite), UPLO="L" if lower else "U")
    if subset_by_index is not None:
        low, high = subset_by_index
        w, v = w[..., low : high + 1], v[..., low : high + 1]
    return w if eigvals_only else (w, v)


@entry(_linalg.eigvalsh)
def eigvalsh(a, b=None, *, lower=True, overwrite_a=False, overwrite_b=False, type=1, check_finite=True,
             subset_by_index=None, subset_by_value=None, driver=None):  # fmt: skip
    """Return the eigenvalues of a symmetric (Hermitian) matrix; of the plain problem only."""
    refuse("scipy.linalg.eigvalsh", b=b is not None, subset_by_value=subset_by_value is not None)
    w = np.linalg.eigvalsh(matrix(a, check_finite), UPLO="L" if lower else "U")
    return w if subset_by_index is None else w[..., subset_by_index[0] : subset_by_index[1] + 1]


@entry(_linalg.svdvals)
def svdvals(a, overwrite_a=False, check_finite=True):
    """Return the singular values."""
    return np.linalg.svdvals(matrix(a, check_finite))


# -- matrices made of vectors and blocks -------------------------------------------------------------------------------


@entry(_linalg.block_diag)
def block_diag(*arrs):
    """Put matrices along the diagonal; vectors are matrices of one row."""
    blocks = [b.reshape((1,) * (2 - len(shape_of(b))) + shape_of(b)) if len(shape_of(b)) < 2 else b
              for b in (matrix(a, False) for a in arrs)]  # fmt: skip
    width = sum(shape_of(b)[-1] for b in blocks)
    rows, start = [], 0
    for b in blocks:
        m, n = shape_of(b)
        left, right = np.zeros((m, start), b.dtype), np.zeros((m, width - start - n), b.dtype)
        rows.append(np.concatenate([left, b, right], axis=1))
        start += n
    return np.concatenate(rows, axis=0)


@entry(_linalg.toeplitz)
def toeplitz(c, r=None):
    """Return the matrix with constant diagonals: c is its first column, r its first row (by default conj(c))."""
    c = matrix(c, False)
    r = conj(c) if r is None else matrix(r, False)
    m, n = shape_of(c)[0], shape_of(r)[0]
    diagonals = np.concatenate([c[::-1], r[1:]])
    return diagonals[np.arange(n) - np.arange(m)[:, None] + m - 1]


@entry(_linalg.circulant)
def circulant(c):
    """Return the matrix whose columns are c, each rolled by one more."""
    c = matrix(c, False)
    n = shape_of(c)[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


def __getattr__(name):
    return getattr(_linalg, name)
