"""Derivative rules of eigenvalues and eigenvectors: [Giles]_ (see `chainrule.rules.linalg_solve`), section 3.1.

An eigenvector turns towards another as the perturbation between both, divided by the gap of their eigenvalues. Between
*equal* eigenvalues (up to rounding) that is 0 / 0 or infinite, for LAPACK picks any basis of their space. What a
function makes of the vectors decides:

* it does not use them: only eigenvalues matter, and functions that are symmetric in the equal ones are right;
* it does not use the values, and depends on the space only, not on the basis (a projector): the quotient is 0;
* it uses both, but not the choice of the basis (``V f(w) V^H``): the limit of the quotient is found by a second run, in
  which equal values are set apart by an infinitesimal (`chainrule.engine.splitting`). In the eager mode there is none:
  NaN, but 0 between vectors whose cotangents are all 0;
* it depends on the basis: there is no derivative, and it comes out as NaN.

``eigh`` reads one triangle of a matrix taken to be symmetric (Hermitian). It is differentiated as a function of the
symmetric part: the gradient is symmetric, and so is what it says of a change of one entry.
"""

import functools

import numpy as np

from chainrule.engine.boxed import Boxed, ordinary, value
from chainrule.engine.rule import composite, rule
from chainrule.engine.spec import primitive
from chainrule.engine.splitting import is_apart, split, standard, undetermined
from chainrule.rules.matrices import diagonal, hermitian, mH, on_diagonal, real, refuse_choice, skew, unused
from chainrule.rules.products import conj, mT
from chainrule.rules.quotients import cotangent_over, no_derivative, reciprocal, rounding, tangent_over

# -- gaps of eigenvalues -----------------------------------------------------------------------------------------------


def equal_pairs(w, near=False):
    """Return the mask of the pairs of different places whose values are equal up to rounding.

    Differences of nearly equal values have lost digits. So in a second run, or to tell whether there is to be one
    (`near`), values are equal if half of their digits are: the error of taking them so is as small.
    """
    w = value(w)
    n = w.shape[-1]
    size = np.abs(w)
    gap = np.abs(w[..., None, :] - w[..., :, None])
    equal = gap <= rounding(w) * size.max(axis=-1, initial=0)[..., None, None]
    if near or is_apart():
        equal |= gap <= np.finfo(w.dtype).eps ** 0.5 * np.maximum(size[..., None, :], size[..., :, None])
    return equal & ~np.eye(n, dtype=bool)


def numbers(w):
    """Return k = 1, 2, 3, ...: coinciding values are set apart as w + k eps, where they are set apart."""
    return np.arange(1, w.shape[-1] + 1)


def set_apart(w):
    """Return values as a factorisation gives them out: coinciding ones set apart in a second run."""
    if not is_apart():
        return w
    plain = value(w)
    group = equal_pairs(w) | np.eye(plain.shape[-1], dtype=bool)
    mean = np.add.reduce(np.where(group, plain[..., None, :], 0), axis=-1) / np.add.reduce(group, axis=-1)
    return split(w + (mean - plain).astype(plain.dtype), numbers(w))


def reciprocal_gaps(w, equal=None):
    """Return F with F[i, j] = 1 / (w[j] - w[i]), 0 on the diagonal, and 0 with derivative NaN between equal values."""
    eye = np.eye(w.shape[-1], dtype=w.dtype)
    padded = w[..., None, :] - w[..., :, None] + eye
    return (1 / padded if equal is None else reciprocal(padded, equal)) * (1 - eye)


def gaps(w):
    """Return the infinitesimal gaps between coinciding values."""
    k = numbers(w)
    return k - k[:, None] + np.eye(k.size, dtype=int)


def largest(*bars):
    """Return the largest absolute value of cotangents."""
    return functools.reduce(np.maximum, [np.abs(value(v)).max(initial=0) for v in bars])


def idle(wbar, *bars):
    """Return the mask of the places whose values and vectors are not used: all that arrives there is zero.

    That is likely, but not certain to mean that they are not used: in ``V log(w) V^H`` that of V is 0 at w = 1.
    """
    mask = value(wbar) == 0
    for v in bars:
        mask = mask & ~value(v).any(axis=-2)
    return mask & (largest(*bars) != 0)


def basis_free(n, wbar, size):
    """Return the mask of the quotients that are 0 since values are not used, and the basis does not matter."""
    if not unused(wbar):
        return np.zeros(np.shape(value(n)), bool)
    x = np.abs(value(n))
    return x <= rounding(x, 0.75) * size


def unmixed(n):
    """Return the mask of the places where a tangent does not mix two vectors: it is zero beside the others."""
    x = np.abs(value(n))
    return x <= rounding(x, 0.75) * x.max(axis=(-2, -1), keepdims=True, initial=0)


def coinciding(w):
    """Return the mask of equal pairs and that of the nearly equal ones, None if there are none of the latter.

    Quotients by the gaps of nearly equal values have lost digits: a second run is asked for.
    """
    near = equal_pairs(w, near=True)
    if not near.any():
        return None, None
    if is_apart():
        return near, None
    equal = equal_pairs(w)
    if not (near & ~equal).any():
        return equal, None
    undetermined()
    return equal, near


def first_order_only(quotient, n, near):
    """Return quotients whose derivatives are NaN between nearly equal values: these would have lost all digits."""
    return quotient + no_derivative(n, near) if isinstance(n, Boxed) else quotient


def over_gaps(n, w):
    """Divide a tangent by the gaps of eigenvalues."""
    equal, near = coinciding(w)
    if equal is None:
        return n * reciprocal_gaps(w)
    quotient = tangent_over(n, reciprocal_gaps(w, equal), equal, gaps(w), unmixed(n))
    return quotient if near is None else first_order_only(quotient, n, near)


def over_gaps_adjoint(n, w, wbar, *bars):
    """Divide a cotangent by the gaps of eigenvalues."""
    equal, near = coinciding(w)
    if equal is None:
        return n * reciprocal_gaps(w)
    unasked, size = idle(wbar, *bars), largest(*bars)
    unasked = unasked[..., None, :] & unasked[..., :, None]
    known = basis_free(n, wbar, size)
    quotient = cotangent_over(n, reciprocal_gaps(w, equal), equal, gaps(w), size, known, unasked)
    return quotient if near is None else first_order_only(quotient, n, near)


# -- symmetric matrices ------------------------------------------------------------------------------------------------


@primitive
def eigh(a, UPLO="L"):
    """Return the eigenvalues and eigenvectors of a symmetric matrix."""
    return tuple(np.linalg.eigh(a, UPLO))


def eigh_jvp(adot, y, a, UPLO="L"):
    """Return wdot = diag(V^H Adot V) and Vdot = V (F * (V^H Adot V)); the phases of complex vectors do not turn."""
    w, v = y
    turn = mH(v) @ hermitian(adot) @ v
    return real(diagonal(turn)), v @ over_gaps(turn, w)


def eigh_vjp(ybar, y, a, UPLO="L"):
    """Abar = V (diag(wbar) + F * (V^H Vbar)) V^H. Without Vbar no gap is asked for: equal eigenvalues are no matter."""
    (wbar, vbar), (w, v) = ybar, y
    if unused(vbar):
        abar = (v * wbar[..., None, :]) @ mH(v)
    else:
        turn = mH(v) @ conj(vbar)
        if a.dtype.kind == "c":
            refuse_phases(diagonal(turn), vbar, "numpy.linalg.eigh")
        inner = over_gaps_adjoint(0.5 * skew(turn), w, wbar, vbar)
        abar = v @ (inner + on_diagonal(wbar)) @ mH(v)
    return conj(hermitian(standard(abar)))


def refuse_phases(turn, vbar, name):
    """Raise if a result depends on the phases of complex vectors."""
    refuse_choice(
        np.imag(value(turn)),
        vbar,
        f"the phases of the complex vectors of {name}",
        "use what does not depend on them, e.g.  np.abs(v)  or the projector  v @ v.conj().T.",
    )


rule(eigh, jvp=eigh_jvp, vjp=eigh_vjp)  # A V = V diag(w)


@composite(np.linalg.eigh)
def numpy_eigh(a, UPLO="L"):
    """Give out the values and vectors."""
    w, v = eigh(a, UPLO=UPLO)
    return type(np.linalg.eigh(np.eye(1)))(set_apart(w), v)


@composite(np.linalg.eigvalsh)
def eigvalsh(a, UPLO="L"):
    """Leave the vectors."""
    return np.linalg.eigh(a, UPLO)[0]


# -- square matrices ---------------------------------------------------------------------------------------------------
# LAPACK scales each vector to length 1, and turns its phase so that the largest entry is real. The derivative is that
# of exactly these vectors.


@primitive
def eig(a):
    """Return the eigenvalues and eigenvectors of a square matrix."""
    return tuple(np.linalg.eig(a))


def anchors(v):
    """Return a mask with one entry of each vector: the largest among those that are real."""
    v = value(v)
    size = np.abs(v)
    if v.dtype.kind == "c":
        size = size * np.where(v.imag == 0, 1, 1e-9).astype(size.dtype)
    first = size.argmax(axis=-2)[..., None, :]
    return (np.arange(v.shape[-2])[:, None] == first).astype(size.dtype)


def well_posed(p, v):
    """Return P, with derivative NaN where the vectors are nearly dependent: second derivatives have no digits there."""
    if not isinstance(p, Boxed):
        return p
    plain = value(v)
    dependent = ~(np.linalg.cond(plain, 1) < np.finfo(plain.dtype).eps ** -0.4)
    if not dependent.any():
        return p
    return p + no_derivative(p, np.broadcast_to(np.asarray(dependent)[..., None, None], plain.shape))


def eig_jvp(adot, y, a):
    """Return wdot = diag(P), P = V^-1 Adot V, and Vdot = V (F * P) without what would change lengths and phases."""
    w, v = y
    p = well_posed(np.linalg.solve(v, adot @ v), v)
    u = v @ over_gaps(p, w)
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
        inner = over_gaps_adjoint(mT(v) @ ubar, w, wbar, vbar) + on_diagonal(wbar)
    return well_posed(np.linalg.solve(mT(v), standard(inner)) @ mT(v), v)


rule(eig, jvp=eig_jvp, vjp=eig_vjp)  # A V = V diag(w)


def note_complex(w, a):
    """Let a program of a real matrix (or polynomial) note whether it has complex eigenvalues (or roots).

    The dtype of what is computed with them depends on it.
    """
    if ordinary(w) and a.dtype.kind != "c":
        bool((np.imag(value(w)) != 0).any())


@composite(np.linalg.eig)
def numpy_eig(a):
    """Give out the values and vectors."""
    w, v = eig(a)
    note_complex(w, a)
    return type(np.linalg.eig(np.eye(1)))(set_apart(w), v)


@composite(np.linalg.eigvals)
def eigvals(a):
    """Leave the vectors."""
    return np.linalg.eig(a)[0]
