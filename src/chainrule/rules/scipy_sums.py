"""Derivative rules of sums of exponentials: scipy.special.logsumexp, softmax and log_softmax are no ufuncs.

Imported by `chainrule.scipy.special` only, never with chainrule itself: SciPy is no requirement.
"""

import numpy as np
from scipy import special

from chainrule.engine.boxed import all_values, ordinary, value
from chainrule.engine.rule import rule
from chainrule.engine.spec import choose, primitive, sum_to


@primitive
def log_of_sum(a, axis=None):
    """Return log(sum(exp(a))) over some axes, which stay with length 1."""
    return special.logsumexp(a, axis=axis, keepdims=True)


def shares(y, a, axis):
    """Return the share of each term in the sum: softmax, which loses no digits to a large y as exp(a - y) does.

    Infinite terms are treated as by `numpy.logaddexp`: they have share 0, but 1 if one is alone. A sum of zeros (all of
    a is -inf) stays what it is if one of them changes: 0.
    """
    plain, sums = value(a), value(y)
    infinite = np.isinf(sums)
    some = not ordinary(a) and np.any(all_values(infinite))
    if some:
        finite = np.broadcast_to(~infinite, plain.shape)
        a, y = choose(finite, a), choose(~infinite, y)
    share = np.exp(a - y) if plain.dtype.kind == "c" else soft_max(a, axis=axis)
    if not some:
        return share
    same = (plain == sums) & (sums.real > 0)
    axes = tuple([i for i, (m, n) in enumerate(zip(sums.shape, plain.shape, strict=True)) if m != n])
    alone = same & (np.add.reduce(same, axis=axes, keepdims=True) == 1)
    return choose(finite, share) + alone.astype(plain.real.dtype)


def log_of_sum_jvp(adot, y, a, axis=None):
    """Average the tangents by their shares."""
    return sum_to(shares(y, a, axis) * adot, y.shape)


def log_of_sum_vjp(ybar, y, a, axis=None):
    """Share the cotangent."""
    return shares(y, a, axis) * ybar


rule(log_of_sum, jvp=log_of_sum_jvp, vjp=log_of_sum_vjp)


@primitive
def soft_max(x, axis=None):
    """Return exp(x) / sum(exp(x)) over some axes."""
    return special.softmax(x, axis=axis)


def soft_max_dx(xdot, y, x, axis=None):
    """Return y (xdot - sum(y xdot)): its Jacobian is symmetric, so the adjoint is the same."""
    return y * (xdot - np.sum(y * xdot, axis=axis, keepdims=True))


rule(soft_max, jvp=soft_max_dx, vjp=soft_max_dx)


@primitive
def log_soft_max(x, axis=None):
    """Return x - log(sum(exp(x))) over some axes."""
    return special.log_softmax(x, axis=axis)


def log_soft_max_jvp(xdot, y, x, axis=None):
    """Return xdot less its average by shares exp(y)."""
    return xdot - np.sum(np.exp(y) * xdot, axis=axis, keepdims=True)


def log_soft_max_vjp(ybar, y, x, axis=None):
    """Return ybar less the shares of its sum."""
    return ybar - np.exp(y) * np.sum(ybar, axis=axis, keepdims=True)


rule(log_soft_max, jvp=log_soft_max_jvp, vjp=log_soft_max_vjp)
