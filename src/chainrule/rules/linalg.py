"""Derivative rules of linear algebra: inverse, systems, determinants, factorisations.

The formulas are those of [Giles]_: M. B. Giles, "An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation", Oxford University Computing Laboratory, report 08/01, 2008. All work on
stacks of matrices.

Functions of a symmetric (Hermitian) matrix are differentiated as functions of its symmetric part: the gradient is
symmetric, and so is what it says of a change of one entry.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive, shape_of, sum_to
from chainrule.errors import NoRuleError, UnsupportedArgumentError
from chainrule.rules.products import conj, mT
from chainrule.rules.reductions import products_of_others

MINORS_UP_TO = 12  # order of a singular matrix up to which its cofactors are minors, right to every order
CONDITION = 1e7  # from this condition number on, a determinant is differentiated as that of a singular matrix


def mH(x):
    """Transpose the matrices of a stack, and conjugate them."""
    return conj(mT(x))


def hermitian(x):
    """Return the symmetric (Hermitian) part."""
    return (x + mH(x)) * 0.5


def is_plain_zero(xbar):
    """Tell whether a cotangent is a constant zero: that of an output nobody used. (A box may have a derivative.)"""
    return not isinstance(xbar, Boxed) and not np.any(xbar)


# -- inverse and systems -----------------------------------------------------------------------------------------------

rule(                                                                 # Y = A^-1                        Giles 2.2.3
    np.linalg.inv,
    jvp=lambda adot, y, a: -(y @ adot @ y),                           # Ydot = -Y Adot Y
    vjp=lambda ybar, y, a: -(mT(y) @ ybar @ mT(y)),                   # Abar = -Y^T Ybar Y^T
)  # fmt: skip


def columns(v, b):
    """Return right sides (or solutions) as matrices: vectors are one column."""
    return v[..., None] if len(shape_of(b)) == 1 else v


def vectors(v, b):
    """Return matrices of one column as vectors again, if that is what b is."""
    return v[..., 0] if len(shape_of(b)) == 1 else v


def solve_adot(adot, y, a, b):
    """Ydot = -A^-1 Adot Y."""
    return vectors(-np.linalg.solve(a, adot @ columns(y, b)), b)


def solve_bdot(bdot, y, a, b):
    """Ydot = A^-1 Bdot."""
    return np.linalg.solve(a, bdot)


def solve_abar(ybar, y, a, b):
    """Abar = -(A^-T Ybar) Y^T."""
    return sum_to(-(np.linalg.solve(mT(a), columns(ybar, b)) @ mT(columns(y, b))), a.shape)


def solve_bbar(ybar, y, a, b):
    """Bbar = A^-T Ybar."""
    return sum_to(vectors(np.linalg.solve(mT(a), columns(ybar, b)), b), b.shape)


rule(np.linalg.solve, jvp=(solve_adot, solve_bdot), vjp=(solve_abar, solve_bbar))  # A Y = B  Giles 2.3.1


# -- determinants ------------------------------------------------------------------------------------------------------


def cofactors(y, a):
    """Return the derivative of det(A) in each entry: ``det(A) A^-T``, or the cofactors if A is nearly singular."""
    if _regular(value(a)):
        return y[..., None, None] * mT(np.linalg.inv(a))
    if a.shape[-1] <= MINORS_UP_TO:
        return minors(a)
    if isinstance(a, Boxed):
        raise NoRuleError("the gradient of numpy.linalg.det", f" at a singular matrix of order above {MINORS_UP_TO}")
    return cofactors_by_svd(a)


def _regular(a):
    if a.size == 0:
        return True
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return False
    condition = np.abs(a).sum(-1).max(-1) * np.abs(inverse).sum(-1).max(-1)
    return bool(np.all(condition < CONDITION))


def minors(a):
    """Return the cofactors by their definition: determinants again, which can be differentiated again."""
    n = a.shape[-1]
    if n == 1:
        return np.ones(a.shape, a.dtype)
    others = np.array([[j for j in range(n) if j != i] for i in range(n)])
    without = a[..., others[:, None, :, None], others[None, :, None, :]]
    signs = (1 - 2 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(a.dtype)
    return np.linalg.det(without) * signs


def cofactors_by_svd(a):
    """Return the cofactors of a singular matrix from its singular values: fast, but first derivatives only."""
    u, s, vh = np.linalg.svd(a)
    signs = np.linalg.det(u) * np.linalg.det(vh)
    return signs[..., None, None] * np.conj((u * products_of_others(s)[..., None, :]) @ vh)


rule(                                                                 # y = det A                       Giles 2.2.4
    np.linalg.det,
    jvp=lambda adot, y, a: np.sum(cofactors(y, a) * adot, axis=(-2, -1)),
    vjp=lambda ybar, y, a: ybar[..., None, None] * cofactors(y, a),
)  # fmt: skip


def slogdet_jvp(adot, y, a):
    """Return the derivative of log det(A) = log|det A| + i arg(det A), which is tr(A^-1 Adot)."""
    t = np.trace(np.linalg.solve(a, adot), axis1=-2, axis2=-1)
    if a.dtype.kind == "c":
        return 1j * y[0] * np.imag(t), np.real(t)
    return y[0] * 0.0, t


def slogdet_vjp(ybar, y, a):
    """Return ybar A^-T; the sign turns with the imaginary part only."""
    signbar, logbar = ybar
    if a.dtype.kind == "c":
        logbar = logbar - 1j * np.real(1j * y[0] * signbar)
    return logbar[..., None, None] * mT(np.linalg.inv(a))


rule(np.linalg.slogdet, jvp=slogdet_jvp, vjp=slogdet_vjp)


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@primitive
def factor(a):
    """Return the lower Cholesky factor."""
    return np.linalg.cholesky(a)


def lower_half(x):
    """Return the lower triangle with half the diagonal: x = lower_half(x) + lower_half(x)^H for Hermitian x."""
    n = x.shape[-1]
    weights = np.tril(np.ones((n, n))) - 0.5 * np.eye(n)
    return x * weights.astype(x.dtype)


def cholesky_jvp(adot, y, a):
    """Ldot = L half(L^-1 Adot L^-H)."""
    inner = np.linalg.solve(y, mH(np.linalg.solve(y, hermitian(adot))))
    return y @ lower_half(inner)


def cholesky_vjp(ybar, y, a):
    """Abar = L^-H half(L^H Lbar) L^-1, its symmetric part."""
    inner = lower_half(mH(y) @ np.tril(conj(ybar)))
    left = np.linalg.solve(mH(y), inner)
    return conj(hermitian(mH(np.linalg.solve(mH(y), mH(left)))))


rule(factor, jvp=cholesky_jvp, vjp=cholesky_vjp)  # A = L L^H


@composite(np.linalg.cholesky)
def cholesky(a, /, *, upper=False):
    """The upper factor is the lower one, transposed and conjugated."""
    return mH(factor(a)) if upper else factor(a)


# -- eigenvalues of symmetric matrices ---------------------------------------------------------------------------------


def reciprocal_gaps(w):
    """Return F with F[i, j] = 1 / (w[j] - w[i]) and 0 on the diagonal; infinite between equal values."""
    n = w.shape[-1]
    eye = np.eye(n, dtype=w.dtype)
    return (1 - eye) / (w[..., None, :] - w[..., :, None] + eye)


def eigh_jvp(adot, y, a, UPLO="L"):
    """Return wdot = diag(V^H Adot V) and Vdot = V (F * (V^H Adot V))."""
    w, v = y
    inner = mH(v) @ hermitian(adot) @ v
    wdot = np.diagonal(inner, axis1=-2, axis2=-1)
    return (np.real(wdot) if a.dtype.kind == "c" else wdot), v @ (inner * reciprocal_gaps(w))


def eigh_vjp(ybar, y, a, UPLO="L"):
    """Abar = V (diag(wbar) + F * (V^H Vbar)) V^H. Without Vbar no gap is asked for: equal eigenvalues are no matter."""
    (wbar, vbar), (w, v) = ybar, y
    abar = (v * wbar[..., None, :]) @ mH(v)
    if not is_plain_zero(vbar):
        abar = abar + v @ (reciprocal_gaps(w) * (mH(v) @ conj(vbar))) @ mH(v)
    return conj(hermitian(abar))


rule(np.linalg.eigh, jvp=eigh_jvp, vjp=eigh_vjp)  # A V = V diag(w)                                            Giles 3.1


@composite(np.linalg.eigvalsh)
def eigvalsh(a, UPLO="L"):
    """Leave the vectors."""
    return np.linalg.eigh(a, UPLO)[0]


# -- singular values ---------------------------------------------------------------------------------------------------


@primitive
def thin_svd(a):
    """Return U, s, V^H with as many columns and rows as there are singular values."""
    return tuple(np.linalg.svd(a, full_matrices=False))


def svd_jvp(adot, y, a):
    """Return Udot, sdot, V^H dot, with P = U^H Adot V: what of P lies within the space of the vectors, and the rest.

    The phases of complex vectors are chosen so that V turns by none: only what does not depend on them has a meaning.
    """
    u, s, vh = y
    v = mH(vh)
    p = mH(u) @ adot @ v
    row, column, gaps = s[..., None, :], s[..., :, None], reciprocal_gaps(s * s)
    diagonal = np.diagonal(p, axis1=-2, axis2=-1)
    turn = gaps * (p * row + column * mH(p))
    if a.dtype.kind == "c":
        turn = turn + np.eye(s.shape[-1], dtype=s.dtype) * (1j * np.imag(diagonal) / s)[..., None, :]
        diagonal = np.real(diagonal)
    udot, vdot = u @ turn, v @ (gaps * (column * p + mH(p) * row))
    if a.shape[-2] > s.shape[-1]:
        udot = udot + (adot @ v - u @ p) / row
    if a.shape[-1] > s.shape[-1]:
        vdot = vdot + (mH(adot) @ u - v @ mH(p)) / row
    return udot, diagonal, mH(vdot)


def svd_vjp(ybar, y, a):
    """Abar = U diag(sbar) V^H and what the vectors contribute; if they are not used, equal values are no matter."""
    (ubar, sbar, vhbar), (u, s, vh) = ybar, y
    row, column = s[..., None, :], s[..., :, None]
    abar = (u * sbar[..., None, :]) @ vh
    if not is_plain_zero(ubar):
        g = conj(ubar)
        k = mH(u) @ g
        inner = reciprocal_gaps(s * s) * k
        inner = (inner + mH(inner)) * row
        if a.dtype.kind == "c":
            inner = inner + np.eye(s.shape[-1], dtype=s.dtype) * (1j * np.imag(k) / row)
        abar = abar + u @ inner @ vh
        if a.shape[-2] > s.shape[-1]:
            abar = abar + ((g - u @ k) / row) @ vh
    if not is_plain_zero(vhbar):
        g = mT(vhbar)
        k = vh @ g
        inner = reciprocal_gaps(s * s) * k
        abar = abar + u @ (column * (inner + mH(inner))) @ vh
        if a.shape[-1] > s.shape[-1]:
            abar = abar + (u / row) @ mH(g - mH(vh) @ k)
    return conj(abar)


rule(thin_svd, jvp=svd_jvp, vjp=svd_vjp)  # A = U S V^H                                                        Giles 3.2


@composite(np.linalg.svdvals)
def svdvals(x, /):
    """Leave the vectors."""
    return thin_svd(x)[1]


@composite(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Take the thin factorisation; vectors that complete a basis have no derivative."""
    if not compute_uv:
        return thin_svd(a)[1]
    if full_matrices and a.shape[-2] != a.shape[-1]:
        raise UnsupportedArgumentError(
            "numpy.linalg.svd",
            "full_matrices",
            "is True, and the vectors that complete a basis have no derivative",
            "np.linalg.svd(a, full_matrices=False);",
            "np.linalg.svd(a, compute_uv=False)  if only the singular values are needed.",
        )
    if a.dtype.kind == "c":
        raise UnsupportedArgumentError(
            "numpy.linalg.svd",
            "compute_uv",
            "is True, and the phases of complex singular vectors are arbitrary: they have no derivative",
            "np.linalg.svd(a, compute_uv=False)  for the singular values.",
        )
    return type(np.linalg.svd(np.eye(1)))(*thin_svd(a))
