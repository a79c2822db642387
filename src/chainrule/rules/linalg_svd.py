"""Derivative rules of singular values and vectors: [Giles]_ (see `chainrule.rules.linalg_solve`), section 3.2.

With ``P = U^H Adot V`` the singular values change by its real diagonal, and the vectors turn by what the symmetric and
the skew part of P give, divided by differences and sums of singular values::

    U^H Udot = ((P + P^H) / (s_j - s_i) + (P - P^H) / (s_j + s_i)) / 2
    V^H Vdot = ((P + P^H) / (s_j - s_i) - (P - P^H) / (s_j + s_i)) / 2

Between equal singular values the first quotient is as in `chainrule.rules.linalg_spectrum`, and where singular values
are 0 so are the second and that by which vectors turn out of their space. Vectors that complete a basis
(``full_matrices``) turn with the space that they span; within it they are arbitrary, as phases are.
"""

import numpy as np

from chainrule.engine.boxed import ordinary, value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive
from chainrule.engine.splitting import standard
from chainrule.rules.linalg_spectrum import (
    idle,
    largest,
    numbers,
    over_gaps,
    over_gaps_adjoint,
    refuse_phases,
    set_apart,
    unmixed,
)
from chainrule.rules.matrices import diagonal, mH, on_diagonal, real, refuse_choice, skew, unused
from chainrule.rules.norms import matrix_norm_of
from chainrule.rules.products import conj, mT
from chainrule.rules.quotients import cotangent_over, reciprocal, rounding, tangent_over


@primitive
def svd(a, full=False):
    """Return U, s, V^H: with as many columns and rows as there are singular values, or square."""
    return tuple(np.linalg.svd(a, full_matrices=full))


def zeros(s):
    """Return the mask of the singular values that are zero up to rounding."""
    s = value(s)
    return s <= rounding(s) * s.max(axis=-1, keepdims=True, initial=0)


def sums(s, kind):
    """Return 1 / (s[j] + s[i]), the mask of sums that vanish, and what they are in the second run.

    Of real matrices the diagonal is left out, since it is not asked for.
    """
    lost = zeros(s)[..., None, :] & zeros(s)[..., :, None]
    total, k = s[..., None, :] + s[..., :, None], numbers(s)
    if kind == "c":
        return reciprocal(total, lost), lost, k + k[:, None]
    eye = np.eye(s.shape[-1], dtype=s.dtype)
    lost = lost & (eye == 0)
    return reciprocal(total * (1 - eye) + eye, lost) * (1 - eye), lost, k + k[:, None]


def svd_jvp(adot, y, a, full=False):
    """Return Udot, sdot, V^H dot: what of P lies within the space of the vectors, and the rest."""
    u, s, vh = y
    k = s.shape[-1]
    u1, v = u[..., :k], mH(vh)
    v1 = v[..., :k]
    p = mH(u1) @ adot @ v1
    even = 0.5 * over_gaps(p + mH(p), s)
    odd = 0.5 * tangent_over(skew(p), *sums(s, a.dtype.kind), unmixed(p))
    udot = completed(u, u1 @ (even + odd), lambda: adot @ v1 - u1 @ p, s)
    vdot = completed(v, v1 @ (even - odd), lambda: mH(adot) @ u1 - v1 @ mH(p), s)
    return udot, real(diagonal(p)), mH(vdot)


def completed(u, udot, outside, s):
    """Add to the tangent of the first vectors what lies outside of their space; append that of the others."""
    k = s.shape[-1]
    if u.shape[-2] == k:
        return udot
    row, lost = s[..., None, :], zeros(s)[..., None, :]
    rest = outside()
    udot = udot + tangent_over(rest, reciprocal(row, lost), lost, numbers(s), unmixed(rest))
    if u.shape[-1] == k:
        return udot
    return np.concatenate([udot, -(u[..., :k] @ (mH(udot) @ u[..., k:]))], axis=-1)


def svd_vjp(ybar, y, a, full=False):
    """Abar = U (diag(sbar) + ...) V^H and what lies outside; if vectors are not used, equal values are no matter."""
    (ubar, sbar, vhbar), (u, s, vh) = ybar, y
    k = s.shape[-1]
    u1, v1h = u[..., :k], vh[..., :k, :]
    if unused(ubar) and unused(vhbar):
        return conj((u1 * standard(sbar)[..., None, :]) @ v1h)
    g, h = conj(ubar), mT(vhbar)
    x, z = mH(u1) @ g[..., :k], v1h @ h[..., :k]
    if a.dtype.kind == "c":
        bars = np.concatenate([value(g)[..., :k], value(h)[..., :k]], axis=-2)
        refuse_phases(diagonal(x) + diagonal(z), bars, "numpy.linalg.svd")
    x, z = skew(x), skew(z)
    both = (g[..., :k], h[..., :k])
    inner = 0.5 * over_gaps_adjoint(x + z, s, sbar, *both) + standard(on_diagonal(sbar))
    inverse, lost, apart = sums(s, a.dtype.kind)
    unasked = idle(sbar, *both) if lost.any() else lost.any(axis=-1)
    pairs = unasked[..., None, :] & unasked[..., :, None]
    inner = inner + 0.5 * cotangent_over(x - z, inverse, lost, apart, largest(*both), likely=pairs)
    abar = u1 @ inner @ v1h
    if a.shape[-2] > k and not unused(ubar):
        abar = abar + over(outside(u, g, k), s, unasked, g) @ v1h
    if a.shape[-1] > k and not unused(vhbar):
        abar = abar + u1 @ mH(over(outside(mH(vh), h, k), s, unasked, h))
    return conj(abar)


def over(g, s, unasked, bar):
    """Divide what lies outside of the space of the vectors by the singular values."""
    lost = zeros(s)[..., None, :]
    inverse = reciprocal(s[..., None, :], lost)
    return cotangent_over(g, inverse, lost, numbers(s), largest(bar), likely=unasked[..., None, :])


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


rule(svd, jvp=svd_jvp, vjp=svd_vjp)  # A = U diag(s) V^H


@composite(np.linalg.svdvals)
def svdvals(x, /):
    """Leave the vectors."""
    return set_apart(svd(x)[1])


@composite(np.linalg.svd)
def numpy_svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Take the factorisation with as many vectors as are asked for; of a Hermitian matrix from its eigenvalues."""
    if hermitian:
        return of_hermitian(a, compute_uv)
    if not compute_uv:
        return np.linalg.svdvals(a)
    u, s, vh = svd(a, full=bool(full_matrices) and len(set(a.shape[-2:])) == 2)
    return type(np.linalg.svd(np.eye(1)))(u, set_apart(s), vh)


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
    if 0 in x.shape[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    plain = value(np.linalg.cond(value(x), p))
    lost = np.isinf(plain) & np.isfinite(value(x)).all(axis=(-2, -1))
    if ordinary(lost) or not lost.any():
        return matrix_norm_of(x, p, (-2, -1), False) * matrix_norm_of(np.linalg.inv(x), p, (-2, -1), False)
    regular = np.where(lost[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x)
    y = matrix_norm_of(regular, p, (-2, -1), False) * matrix_norm_of(np.linalg.inv(regular), p, (-2, -1), False)
    return np.where(lost, np.inf * (1 + matrix_norm_of(x, p, (-2, -1), False)), y).astype(plain.dtype)
