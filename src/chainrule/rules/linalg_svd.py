"""Derivative rules of singular values and vectors: [Giles]_ (see `chainrule.rules.linalg_solve`), section 3.2.

With ``P = U^H Adot V`` the singular values change by its real diagonal, and the vectors turn by what the symmetric and
the skew part of P give, divided by differences and sums of singular values::

    U^H Udot = ((P + P^H) / (s_j - s_i) + (P - P^H) / (s_j + s_i)) / 2
    V^H Vdot = ((P + P^H) / (s_j - s_i) - (P - P^H) / (s_j + s_i)) / 2

Between equal singular values the first quotient is as in `chainrule.rules.linalg_spectrum`: 0 where that is known to be
right, as for the polar factor ``U V^H``, else NaN. The second needs no care unless both are 0. Vectors that complete a
basis (``full_matrices``) turn with the space that they span; within it they are arbitrary, as phases are.
"""

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive
from chainrule.rules.linalg_spectrum import equal_pairs, over_gaps, over_gaps_adjoint, refuse_phases
from chainrule.rules.matrices import diagonal, mH, on_diagonal, real, refuse_choice, skew, unused
from chainrule.rules.norms import matrix_norm_of
from chainrule.rules.products import conj, mT


@primitive
def singular(a, full=False):
    """Return U, s, V^H: with as many columns and rows as there are singular values, or square."""
    return tuple(np.linalg.svd(a, full_matrices=full))


def reciprocal_sums(s, kind):
    """Return 1 / (s[j] + s[i]); of real matrices without the diagonal, which is not asked for."""
    sums = s[..., None, :] + s[..., :, None]
    if kind == "c":
        return 1 / sums
    eye = np.eye(s.shape[-1], dtype=s.dtype)
    return (1 - eye) / (sums + eye)


def singular_jvp(adot, y, a, full=False):
    """Return Udot, sdot, V^H dot: what of P lies within the space of the vectors, and the rest."""
    u, s, vh = y
    k = s.shape[-1]
    u1, v = u[..., :k], mH(vh)
    v1 = v[..., :k]
    p = mH(u1) @ adot @ v1
    even = 0.5 * over_gaps(p + mH(p), s, equal_pairs(s))
    odd = 0.5 * reciprocal_sums(s, a.dtype.kind) * skew(p)
    udot = completed(u, u1 @ (even + odd), (adot @ v1 - u1 @ p) / s[..., None, :], a.shape[-2], k)
    vdot = completed(v, v1 @ (even - odd), (mH(adot) @ u1 - v1 @ mH(p)) / s[..., None, :], a.shape[-1], k)
    return udot, real(diagonal(p)), mH(vdot)


def completed(u, udot, outside, m, k):
    """Add to the tangent of the first k vectors what lies outside of their space; append that of the others."""
    if m == k:
        return udot
    udot = udot + outside
    if u.shape[-1] == k:
        return udot
    return np.concatenate([udot, -(u[..., :k] @ (mH(udot) @ u[..., k:]))], axis=-1)


def singular_vjp(ybar, y, a, full=False):
    """Abar = U (diag(sbar) + ...) V^H and what lies outside; if vectors are not used, equal values are no matter."""
    (ubar, sbar, vhbar), (u, s, vh) = ybar, y
    k = s.shape[-1]
    u1, v1h = u[..., :k], vh[..., :k, :]
    if unused(ubar) and unused(vhbar):
        return conj((u1 * sbar[..., None, :]) @ v1h)
    g, h = conj(ubar), mT(vhbar)
    x, z = mH(u1) @ g[..., :k], v1h @ h[..., :k]
    if a.dtype.kind == "c":
        bars = np.concatenate([value(g)[..., :k], value(h)[..., :k]], axis=-2)
        refuse_phases(diagonal(x) + diagonal(z), bars, "numpy.linalg.svd")
    x, z = skew(x), skew(z)
    both = (ubar[..., :k], mT(vhbar)[..., :k])
    inner = over_gaps_adjoint(0.5 * (x + z), s, equal_pairs(s), sbar, *both)
    inner = inner + 0.5 * reciprocal_sums(s, a.dtype.kind) * (x - z) + on_diagonal(sbar)
    abar = u1 @ inner @ v1h
    if a.shape[-2] > k and not unused(ubar):
        abar = abar + (outside(u, g, k) / s[..., None, :]) @ v1h
    if a.shape[-1] > k and not unused(vhbar):
        abar = abar + (u1 / s[..., None, :]) @ mH(outside(mH(vh), h, k))
    return conj(abar)


def outside(u, g, k):
    """Return what of the gradient lies outside of the first k vectors: theirs, and that of those that complete them."""
    u1, u2 = u[..., :k], u[..., k:]
    rest = g[..., :k] - u1 @ (mH(u1) @ g[..., :k])
    if not u2.shape[-1]:
        return rest
    refuse_choice(
        skew(mH(u2) @ g[..., k:]),
        g,
        "the vectors with which np.linalg.svd completes a basis",
        "use what does not depend on them, e.g. the projector  u[:, k:] @ u[:, k:].T;",
        "np.linalg.svd(a, full_matrices=False)  if only the others are needed.",
    )
    return rest - u2 @ (mH(g[..., k:]) @ u1)


rule(singular, jvp=singular_jvp, vjp=singular_vjp)  # A = U diag(s) V^H


@composite(np.linalg.svdvals)
def svdvals(x, /):
    """Leave the vectors."""
    return singular(x)[1]


@composite(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Take the factorisation with as many vectors as are asked for; of a Hermitian matrix from its eigenvalues."""
    if hermitian:
        return of_hermitian(a, compute_uv)
    if not compute_uv:
        return singular(a)[1]
    full = bool(full_matrices) and a.shape[-2] != a.shape[-1]
    return type(np.linalg.svd(np.eye(1)))(*singular(a, full=full))


def of_hermitian(a, compute_uv):
    """Return the singular values, which are the eigenvalues without sign, and vectors that carry the sign."""
    w, v = np.linalg.eigh(a)
    order = np.argsort(np.abs(value(w)), axis=-1)[..., ::-1]
    s = np.take_along_axis(np.abs(w), order, axis=-1)
    if not compute_uv:
        return s
    u = np.take_along_axis(v, order[..., None, :], axis=-1)
    signs = np.take_along_axis(np.sign(value(w)), order, axis=-1)
    return type(np.linalg.svd(np.eye(1)))(u, s, mH(u * signs[..., None, :]))


@composite(np.linalg.cond)
def cond(x, p=None):
    """Divide singular values, or multiply norms of the matrix and its inverse; that of a singular one is infinite."""
    if x.size == 0:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = singular(x)[1]
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    plain = value(np.linalg.cond(value(x), p))
    lost = np.isinf(plain) & np.isfinite(value(x)).all(axis=(-2, -1))
    if not lost.any():
        return matrix_norm_of(x, p, (-2, -1), False) * matrix_norm_of(np.linalg.inv(x), p, (-2, -1), False)
    regular = np.where(lost[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x)
    y = matrix_norm_of(regular, p, (-2, -1), False) * matrix_norm_of(np.linalg.inv(regular), p, (-2, -1), False)
    return np.where(lost, np.inf * (1 + matrix_norm_of(x, p, (-2, -1), False)), y).astype(plain.dtype)
