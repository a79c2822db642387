"""Derivative rules of the triangular factorisations, Cholesky and QR.

Both solve for a triangular matrix from what is known of its product with another: the part of ``L^-1 Adot L^-H`` (or
``Q^H Adot R^-1``) in one triangle. Cholesky: [Murray]_: I. Murray, "Differentiation of the Cholesky decomposition",
arXiv 1602.07527, 2016. QR: [Walter]_: S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra
functions with application in optimum experimental design", arXiv 1001.1654, 2010. Stacks and complex matrices, too.

Cholesky reads one triangle of a matrix that is taken to be symmetric (Hermitian). It is differentiated as a function
of the symmetric part: the gradient is symmetric.
"""

import numpy as np

from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive
from chainrule.errors import UnsupportedArgumentError
from chainrule.rules.matrices import diagonal, hermitian, mH, on_diagonal, real, refuse_choice, skew, unused
from chainrule.rules.products import conj
from chainrule.rules.shapes import by_rows

# -- Cholesky ----------------------------------------------------------------------------------------------------------


@primitive
def cholesky(a):
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


rule(cholesky, jvp=cholesky_jvp, vjp=cholesky_vjp)  # A = L L^H


@composite(np.linalg.cholesky)
def numpy_cholesky(a, /, *, upper=False):
    """The upper factor is the lower one, transposed and conjugated."""
    return by_rows(mH(cholesky(a))) if upper else cholesky(a)


# -- QR ----------------------------------------------------------------------------------------------------------------
# Columns: A = [X Z], with X as many as there are in the first columns of Q = [Q1 Q2]; Z is there if A is wide, Q2 if it
# is complete. R = [U V] with the square U. Q1 U = X determines both, V = Q1^H Z, and Q2 completes the basis.


@primitive
def qr(a, complete=False):
    """Return Q and R."""
    return tuple(np.linalg.qr(a, "complete" if complete else "reduced"))


def upper(c):
    """Return T of C = Omega + T, with Omega skew-Hermitian and T upper triangular, its diagonal real."""
    lower = np.tril(c, -1)
    t = c - lower + mH(lower)
    return t - on_diagonal(1j * np.imag(diagonal(c))) if c.dtype.kind == "c" else t


def over(x, u):
    """Return X U^-H."""
    return mH(np.linalg.solve(u, mH(x)))


def qr_jvp(adot, y, a, complete=False):
    """Udot = T U, Q1dot = (Xdot - Q1 Udot) U^-1, Vdot = Q1dot^H Z + Q1^H Zdot, Q2dot = -Q1 Q1dot^H Q2."""
    q, r = y
    k = min(a.shape[-2:])
    q1, u, x = q[..., :k], r[..., :k, :k], adot[..., :k]
    change = over(x, mH(u))  # Xdot U^-1
    t = upper(mH(q1) @ change)
    qdot, rdot = change - q1 @ t, t @ u
    if a.shape[-1] > k:
        rdot = np.concatenate([rdot, mH(qdot) @ a[..., k:] + mH(q1) @ adot[..., k:]], axis=-1)
    if q.shape[-1] > k:
        rdot = np.concatenate([rdot, np.zeros_like(r[..., k:, :])], axis=-2)
        qdot = np.concatenate([qdot, -(q1 @ (mH(qdot) @ q[..., k:]))], axis=-1)
    return qdot, rdot


def qr_vjp(ybar, y, a, complete=False):
    """Xbar = (Q1bar + Q1 K) U^-H with K = M in the upper triangle, Hermitian, where M = Ubar U^H - Q1^H Q1bar."""
    (qbar, rbar), (q, r) = ybar, y
    k = min(a.shape[-2:])
    q1, u, g, h = q[..., :k], r[..., :k, :k], conj(qbar[..., :k]), conj(rbar[..., :k, :])
    if a.shape[-1] > k:
        g = g + a[..., k:] @ mH(h[..., k:])
    m = h[..., :k] @ mH(u) - mH(q1) @ g
    strict = np.triu(m, 1)
    g = g + q1 @ (strict + mH(strict) + on_diagonal(real(diagonal(m))))
    if q.shape[-1] > k and not unused(qbar):
        q2, g2 = q[..., k:], conj(qbar[..., k:])
        refuse_choice(
            skew(mH(q2) @ g2),
            qbar,
            "the columns with which np.linalg.qr(a, 'complete') completes the basis",
            "use what does not depend on them, e.g. the projector  q[:, n:] @ q[:, n:].T;",
            "np.linalg.qr(a)  if only the first columns are needed.",
        )
        g = g - q2 @ (mH(g2) @ q1)
    abar = over(g, u)
    if a.shape[-1] > k:
        abar = np.concatenate([abar, q1 @ h[..., k:]], axis=-1)
    return conj(abar)


rule(qr, jvp=qr_jvp, vjp=qr_vjp)  # A = Q R


@composite(np.linalg.qr)
def numpy_qr(a, mode="reduced"):
    """Take the factorisation with as many columns as are asked for."""
    if mode == "r":
        return qr(a)[1]
    if mode in ("reduced", "complete"):
        return type(np.linalg.qr(np.eye(1)))(*qr(a, complete=mode == "complete"))
    if mode == "raw":
        raise UnsupportedArgumentError(
            "numpy.linalg.qr",
            "mode",
            "is 'raw', and LAPACK's reflections have no rule",
            "q, r = np.linalg.qr(a), or mode='complete' or 'r'.",
        )
    raise ValueError(f"Unrecognized mode '{mode}'")
