"""Derivative rules of eigenvalues and eigenvectors: [Giles]_ (see `chainrule.rules.linalg_solve`), section 3.1.

An eigenvector turns towards another as the perturbation between both, divided by the gap of their eigenvalues. Between
*equal* eigenvalues (up to rounding) that is 0 / 0 or infinite, for LAPACK picks any basis of their space. What a
function of the eigenvectors makes of this decides:

* it does not use the vectors: only eigenvalues matter, and functions that are symmetric in the equal ones are right;
* it does not use the values, and depends on the space only, not on the basis (a projector): the quotient is 0;
* it uses neither the vectors nor the values of that space: 0;
* anything else comes out as NaN. What depends on the basis has no derivative; and whether ``V f(w) V^H`` has one can't
  be told from the first derivatives in V and w.

The same is true of second derivatives, where both are always in use: NaN between equal eigenvalues.

``eigh`` reads one triangle of a matrix taken to be symmetric (Hermitian). It is differentiated as a function of the
symmetric part: the gradient is symmetric, and so is what it says of a change of one entry.
"""

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.rule import composite, rule
from chainrule.rules.elementwise import reciprocal_or_zero
from chainrule.rules.matrices import diagonal, hermitian, mH, on_diagonal, real, refuse_choice, skew, unused
from chainrule.rules.products import conj, mT

ROUNDING = 8  # values are equal if they differ by less than this many rounding errors per row


# -- equal values ------------------------------------------------------------------------------------------------------


def equal_pairs(w):
    """Return the mask of the pairs of different places whose values are equal up to rounding."""
    w = value(w)
    n = w.shape[-1]
    size = np.abs(w).max(axis=-1, initial=0)[..., None, None]
    gap = np.abs(w[..., None, :] - w[..., :, None])
    return (gap <= ROUNDING * n * np.finfo(w.dtype).eps * size) & ~np.eye(n, dtype=bool)


def reciprocal_gaps(w, equal):
    """Return F with F[i, j] = 1 / (w[j] - w[i]), 0 on the diagonal, and 0 with derivative NaN between equal values."""
    eye = np.eye(w.shape[-1], dtype=w.dtype)
    gaps = w[..., None, :] - w[..., :, None]
    if equal.any():
        return reciprocal_or_zero(gaps * (~equal).astype(w.dtype) + eye) * (1 - eye)
    return (1 - eye) / (gaps + eye)


def nan_unless(known, like):
    """Return what to add to a matrix so that entries that are not known become NaN: an array of its dtype."""
    dtype = value(like).real.dtype
    return np.where(known, dtype.type(0), dtype.type(np.nan))


def vanishes(x):
    """Return the mask of entries that are zero up to rounding, next to the largest of their matrix."""
    x = np.abs(value(x))
    return x <= x.shape[-1] * np.finfo(x.dtype).eps ** 0.75 * x.max(axis=(-2, -1), keepdims=True, initial=0)


def over_gaps(turn, w, equal):
    """Return F * turn for a tangent: between equal values 0 if the perturbation does not mix them, else NaN."""
    quotient = turn * reciprocal_gaps(w, equal)
    return quotient + nan_unless(~equal | vanishes(turn), turn) if equal.any() else quotient


def over_gaps_adjoint(turn, w, equal, wbar, *vectorsbar):
    """Return F * turn for a cotangent: between equal values 0 or NaN, see the module's docstring."""
    quotient = turn * reciprocal_gaps(w, equal)
    if not equal.any():
        return quotient
    size = max(np.abs(value(v)).max(initial=0) for v in vectorsbar)
    if unused(wbar):
        eps = np.finfo(value(turn).real.dtype).eps
        known = np.abs(value(turn)) <= w.shape[-1] * eps**0.75 * size
    else:
        idle = value(wbar) == 0
        for v in vectorsbar:
            idle = idle & ~value(v).any(axis=-2)
        known = idle[..., None, :] & idle[..., :, None] if size else np.zeros(equal.shape, bool)
    return quotient + nan_unless(~equal | known, turn)


# -- symmetric matrices ------------------------------------------------------------------------------------------------


def eigh_jvp(adot, y, a, UPLO="L"):
    """Return wdot = diag(V^H Adot V) and Vdot = V (F * (V^H Adot V)); the phases of complex vectors do not turn."""
    w, v = y
    turn = mH(v) @ hermitian(adot) @ v
    return real(diagonal(turn)), v @ over_gaps(turn, w, equal_pairs(w))


def eigh_vjp(ybar, y, a, UPLO="L"):
    """Abar = V (diag(wbar) + F * (V^H Vbar)) V^H. Without Vbar no gap is asked for: equal eigenvalues are no matter."""
    (wbar, vbar), (w, v) = ybar, y
    if unused(vbar):
        abar = (v * wbar[..., None, :]) @ mH(v)
    else:
        turn = mH(v) @ conj(vbar)
        if a.dtype.kind == "c":
            refuse_phases(diagonal(turn), vbar, "numpy.linalg.eigh")
        inner = over_gaps_adjoint(0.5 * skew(turn), w, equal_pairs(w), wbar, vbar)
        abar = v @ (inner + on_diagonal(wbar)) @ mH(v)
    return conj(hermitian(abar))


def refuse_phases(turn, vbar, name):
    """Raise if a result depends on the phases of complex vectors."""
    refuse_choice(
        np.imag(value(turn)),
        vbar,
        f"the phases of the complex vectors of {name}",
        "use what does not depend on them, e.g.  np.abs(v)  or the projector  v @ v.conj().T.",
    )


rule(np.linalg.eigh, jvp=eigh_jvp, vjp=eigh_vjp)  # A V = V diag(w)


@composite(np.linalg.eigvalsh)
def eigvalsh(a, UPLO="L"):
    """Leave the vectors."""
    return np.linalg.eigh(a, UPLO)[0]


# -- square matrices ---------------------------------------------------------------------------------------------------
# LAPACK scales each vector to length 1, and turns its phase so that the largest entry is real. The derivative is that
# of exactly these vectors.


def anchors(v):
    """Return a mask with one entry of each vector: the largest among those that are real."""
    v = value(v)
    size = np.abs(v)
    if v.dtype.kind == "c":
        size = size * np.where(v.imag == 0, 1, 1e-9).astype(size.dtype)
    first = size.argmax(axis=-2)[..., None, :]
    return (np.arange(v.shape[-2])[:, None] == first).astype(size.dtype)


def eig_jvp(adot, y, a):
    """Return wdot = diag(P), P = V^-1 Adot V, and Vdot = V (F * P) without what would change lengths and phases."""
    w, v = y
    p = np.linalg.solve(v, adot @ v)
    u = v @ over_gaps(p, w, equal_pairs(w))
    scale = real(np.add.reduce(conj(v) * u, axis=-2))
    if v.dtype.kind == "c":
        at = anchors(v)
        scale = scale + 1j * np.imag(np.add.reduce(at * u, axis=-2) / np.add.reduce(at * v, axis=-2))
    return diagonal(p), u - v * scale[..., None, :]


def eig_vjp(ybar, y, a):
    """Abar = V^-T (diag(wbar) + F * (V^T Ubar)) V^T, where Ubar is Vbar without what changes lengths and phases."""
    (wbar, vbar), (w, v) = ybar, y
    if unused(vbar):
        inner = on_diagonal(wbar)
    else:
        along = np.add.reduce(vbar * v, axis=-2)
        ubar = vbar - conj(v) * real(along)[..., None, :]
        if v.dtype.kind == "c":
            at = anchors(v)
            ubar = ubar - at * (1j * np.imag(along) / np.add.reduce(at * v, axis=-2))[..., None, :]
        inner = over_gaps_adjoint(mT(v) @ ubar, w, equal_pairs(w), wbar, vbar) + on_diagonal(wbar)
    return np.linalg.solve(mT(v), inner) @ mT(v)


rule(np.linalg.eig, jvp=eig_jvp, vjp=eig_vjp)  # A V = V diag(w)


@composite(np.linalg.eigvals)
def eigvals(a):
    """Leave the vectors."""
    return np.linalg.eig(a)[0]
