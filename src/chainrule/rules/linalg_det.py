"""Derivative rules of determinants.

The gradient of a determinant is the matrix of cofactors. Where the matrix is regular that is ``det(A) A^-T`` [Giles]_
(see `chainrule.rules.linalg_solve`); a singular matrix has cofactors, too, and they are found without its inverse.
"""

import numpy as np

from chainrule.engine.boxed import differentiated, value
from chainrule.engine.rule import rule
from chainrule.engine.spec import primitive
from chainrule.errors import NoRuleError
from chainrule.rules.matrices import diagonal, on_diagonal
from chainrule.rules.products import conj, mT
from chainrule.rules.reductions import products_of_others

MINORS_UP_TO = 8  # order of a singular matrix up to which its cofactors are minors, right to every order


def cofactors(y, a):
    """Return the derivative of det(A) in each entry: ``det(A) A^-T``, or the cofactors if A is nearly singular."""
    if _regular(value(a)):
        return y[..., None, None] * mT(np.linalg.inv(a))
    if a.shape[-1] <= MINORS_UP_TO:
        return minors(a)
    return cofactors_by_svd(a)


def _regular(a):
    """Tell whether all matrices are so well conditioned that half of the digits of the inverse are right."""
    if a.size == 0:
        return True
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return False
    condition = np.abs(a).sum(-1).max(-1) * np.abs(inverse).sum(-1).max(-1)
    return bool(np.all(condition < np.finfo(a.dtype).eps ** -0.45))


def minors(a):
    """Return the cofactors by their definition: determinants again, which can be differentiated again."""
    n = a.shape[-1]
    if n == 1:
        return np.ones(a.shape, a.dtype)
    others = np.array([[j for j in range(n) if j != i] for i in range(n)])
    without = a[..., others[:, None, :, None], others[None, :, None, :]]
    signs = (1 - 2 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(a.dtype)
    return np.linalg.det(without) * signs


@primitive
def cofactors_by_svd(a):
    """Return the cofactors of any matrix from its singular values, without a division."""
    u, s, vh = np.linalg.svd(a)
    signs = np.linalg.det(u) * np.linalg.det(vh)
    return signs[..., None, None] * np.conj((u * products_of_others(s)[..., None, :]) @ vh)


def cofactors_change(adot, y, a):
    """Return the change of the cofactors along Adot: the second derivative of the determinant, symmetric in both.

    In the bases of the singular vectors, where A is diagonal and Adot is X, the determinant changes to second order by
    ``sum_ij P_ij (X_ii X_jj - X_ij X_ji) / 2``, and ``P_ij`` is the product of all singular values but two.
    """
    if differentiated(a):
        raise NoRuleError("numpy.linalg.det", f" of third order at a singular matrix of more than {MINORS_UP_TO} rows")
    u, s, vh = np.linalg.svd(a)
    signs = np.linalg.det(u) * np.linalg.det(vh)
    one = np.eye(s.shape[-1], dtype=bool)
    pairs = products_of_others(np.where(one, s.dtype.type(1), s[..., None, :])) * (~one).astype(s.dtype)
    x = conj(mT(u)) @ adot @ conj(mT(vh))
    traces = (pairs @ diagonal(x)[..., None])[..., 0]
    return signs[..., None, None] * (conj(u) @ (on_diagonal(traces) - pairs * mT(x)) @ conj(vh))


rule(cofactors_by_svd, jvp=cofactors_change, vjp=cofactors_change)
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
