"""Samples of linear algebra: one line for each way of calling.

Vectors are determined up to a sign or a phase, bases up to a rotation: of what depends on such a choice only a part is
tested that does not, such as the projector onto the space.
"""

import numpy as np

from chainrule.rules.linalg_det import cofactors_by_svd
from chainrule.rules.linalg_factor import cholesky, qr
from chainrule.rules.linalg_spectrum import eig, eigh
from chainrule.rules.linalg_svd import svd
from chainrule.testing.samples import array, policy, sample, values

COMPLEX = ("complex128", "complex64")
NOT_LAPACK = ("float16", "longdouble")  # types that NumPy's linear algebra does not take
SYSTEMS = (
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3, 2)),
    ((3, 3), (2, 3, 1)),
    ((2, 3, 3), (2, 3, 2)),
    ((2, 3, 3), (3,)),
)
ORDERS = (None, 2, -2, 1, -1, np.inf, -np.inf, "fro")


def of(fun, *shape):
    """Return an operand's sample of a function of matrices, in the types that LAPACK takes."""
    return lambda *args, **kwargs: sample(fun, array(*shape), *args, **kwargs).without(*NOT_LAPACK)


def regular(x):
    """Add to a square matrix a multiple of the identity, so that it is well conditioned; leave other operands."""
    square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    return x + 4 * np.eye(x.shape[-1], dtype=x.dtype) if square else x


def mH(x):
    """Transpose and conjugate."""
    x = np.swapaxes(x, -1, -2)
    return np.conj(x) if x.dtype.kind == "c" else x


def positive(x):
    """Return a positive definite matrix with distinct eigenvalues."""
    return x @ mH(x) + np.diag(np.arange(1, x.shape[-1] + 1)).astype(x.dtype)


def of_rank_one(x):
    """Return a matrix of rank one, from its first row and column."""
    return x[..., :1] * x[..., :1, :]


def dependent(x):
    """Let the second column be twice the first; leave a matrix that has no more than two."""
    return x if x.shape[-1] < 3 else np.stack([x[..., 0], 2 * x[..., 0], x[..., 2]], axis=-1)


def spread(x):
    """Return a matrix with eigenvalues far apart: all are real if the matrix is."""
    return x + np.diag(8.0 * np.arange(x.shape[-1])).astype(x.dtype)


def turning(x):
    """Return a real matrix of order 3 with a pair of complex eigenvalues."""
    return x + np.array([[0, -9, 0], [9, 0, 0], [0, 0, 4]], x.dtype)


def projector(y):
    """Return of the eigenvectors what does not depend on their phases: the projector onto the first."""
    v = y[1][..., :1]
    return v @ mH(v)


def low_rank(y):
    """Return of a singular value decomposition what does not depend on phases: a sum over the first two values."""
    u, s, vh = y
    return (u[..., :, :2] * s[..., None, :2] ** 3) @ vh[..., :2, :]


def rows_outside(y):
    """Return of a singular value decomposition the projector onto the space outside of the rows."""
    vh = y[2][..., 2:, :]
    return mH(vh) @ vh


def columns_outside(y):
    """Return of the vectors that complete a basis the projector onto their space."""
    u = y[0][..., 2:]
    return u @ mH(u)


# fmt: off
SYSTEM = [
    *[sample(np.linalg.inv, array(*s)).before(regular).without(*NOT_LAPACK) for s in ((3, 3), (2, 3, 3))],
    *[sample(np.linalg.solve, array(*a), array(*b)).before(regular).without(*NOT_LAPACK) for a, b in SYSTEMS],
    of(np.linalg.matrix_power, 3, 3)(-2).before(regular),
    of(np.linalg.matrix_power, 2, 3, 3)(-3).before(regular),
    of(np.linalg.tensorinv, 6, 2, 3)(ind=1), of(np.linalg.tensorinv, 2, 2, 4)(),
    sample(np.linalg.tensorsolve, array(2, 3, 6), array(2, 3)).without(*NOT_LAPACK),
    sample(np.linalg.tensorsolve, array(2, 6, 3), array(2, 3), axes=(1,)).without(*NOT_LAPACK),
    *[of(np.linalg.pinv, *s)() for s in ((3, 2), (2, 4), (2, 3, 3), (2, 4, 2))],
    of(np.linalg.pinv, 4, 3)(1e-3).before(of_rank_one), of(np.linalg.pinv, 3, 4)(rtol=1e-3).before(of_rank_one),
    of(np.linalg.pinv, 3, 3)(hermitian=True).before(positive),
    *[sample(np.linalg.lstsq, array(*a), array(*b)).without(*NOT_LAPACK)
      for a, b in (((4, 2), (4,)), ((5, 3), (5, 2)), ((2, 4), (2,)), ((3, 4), (3, 2)))],
    sample(np.linalg.lstsq, array(4, 3), array(4, 2), rcond=1e-3).before(dependent)
    .after(lambda y: y[0]).without(*NOT_LAPACK),
    sample(np.linalg.matrix_rank, array(3, 2)),
]

DETERMINANTS = [
    *[sample(np.linalg.det, array(*s)).before(regular).without(*NOT_LAPACK) for s in ((3, 3), (2, 3, 3))],
    sample(np.linalg.det, values([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])).without(*NOT_LAPACK),
    of(cofactors_by_svd, 4, 4)().order(1),
    sample(np.linalg.slogdet, array(3, 3)).before(regular).after(lambda y: y[1]).without(*NOT_LAPACK),
    sample(np.linalg.slogdet, array(2, 3, 3)).before(regular).after(lambda y: y[0]).only(*COMPLEX),
]

FACTORS = [
    of(np.linalg.cholesky, 3, 3)().before(positive),
    of(np.linalg.cholesky, 2, 3, 3)(upper=True).before(positive),
    of(cholesky, 3, 3)().before(positive),
    *[of(np.linalg.qr, *s)() for s in ((3, 3), (4, 2), (2, 4), (2, 3, 2))],
    *[of(np.linalg.qr, *s)("r") for s in ((3, 3), (4, 2), (2, 2, 4))],
    *[of(np.linalg.qr, *s)("complete") for s in ((3, 3), (2, 4))],
    of(np.linalg.qr, 5, 2)("complete").after(columns_outside),
    of(np.linalg.qr, 4, 2)("complete").after(lambda y: (y[0][:, :2], y[1])),
    of(np.linalg.qr, 4, 2)("raw").raises(NotImplementedError),
    of(qr, 2, 4, 2)(),
]

SPECTRUM = [
    of(np.linalg.eigvalsh, 2, 3, 3)().before(positive),
    of(np.linalg.eigh, 3, 3)().before(positive).after(lambda y: y[0]),
    of(np.linalg.eigh, 3, 3)("U").before(positive).after(lambda y: y[1]).without(*NOT_LAPACK, *COMPLEX),
    of(np.linalg.eigh, 2, 3, 3)().before(positive).after(projector),
    of(np.linalg.eigvals, 3, 3)().before(spread), of(np.linalg.eigvals, 2, 3, 3)().before(turning),
    of(np.linalg.eig, 3, 3)().before(spread), of(np.linalg.eig, 3, 3)().before(turning),
    of(np.linalg.eig, 2, 3, 3)().before(spread).after(lambda y: y[1]),
    *[of(np.linalg.svdvals, *s)() for s in ((3, 3), (2, 3), (2, 4, 3))],
    *[of(np.linalg.svd, *s)(False).after(lambda y, k=k: y[k]).without(*NOT_LAPACK, *COMPLEX)
      for s in ((3, 3), (3, 2), (2, 3)) for k in range(3)],
    *[of(np.linalg.svd, *s)().after(low_rank) for s in ((3, 3), (4, 2), (2, 4), (2, 4, 3))],
    of(np.linalg.svd, 5, 2)().after(columns_outside), of(np.linalg.svd, 2, 4)().after(rows_outside),
    of(np.linalg.svd, 3, 2)().after(lambda y: y[0]).without(*NOT_LAPACK, *COMPLEX),
    of(np.linalg.svd, 2, 3)(compute_uv=False),
    of(np.linalg.svd, 3, 3)(compute_uv=False, hermitian=True).before(lambda x: x + mH(x)),
    of(np.linalg.svd, 3, 3)(hermitian=True).before(lambda x: x + mH(x)).after(low_rank),
    of(eigh, 3, 3)().before(positive).after(projector), of(eig, 3, 3)().before(spread),
    of(svd, 3, 2)().after(lambda y: y[1]),
    *[of(np.linalg.cond, 3, 3)(p).before(regular) for p in ORDERS],
    of(np.linalg.cond, 2, 4, 2)(), of(np.linalg.cond, 2, 3, 3)(1).before(regular),
    *[of(np.linalg.norm, 3, 2)(ord) for ord in (2, -2, "nuc")],
    of(np.linalg.matrix_norm, 2, 3, 2)(ord="nuc", keepdims=True),
]

AT_EQUAL_VALUES = [
    policy(np.linalg.det, np.array([[0.0, 0.0], [3.0, 5.0]])).gives([[5.0, -3.0], [0.0, 0.0]]),
    policy(np.linalg.eigvalsh, np.eye(2)).gives(np.eye(2)),
]

SAMPLES = SYSTEM + DETERMINANTS + FACTORS + SPECTRUM + AT_EQUAL_VALUES
# fmt: on
