"""scipy.special for traced values: what is no ufunc. The ufuncs need nothing of this, `scipy.special.erf` is enough."""

import math

import numpy as np
from scipy import special as _special

import chainrule.rules.special  # noqa: F401 (registers the ufuncs' rules)
from chainrule.engine.boxed import all_values, array_value, value
from chainrule.engine.spec import shape_of
from chainrule.rules import scipy_sums as _rules
from chainrule.rules.special import gamma as _gamma
from chainrule.scipy.entries import entry
from chainrule.scipy.linalg import matrix


def _axes(axis, ndim):
    """Return an ``axis=`` as a tuple."""
    if axis is None:
        return tuple(range(ndim))
    return tuple([i % ndim for i in axis]) if isinstance(axis, tuple) else (axis % ndim,)


@entry(_special.logsumexp)
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """Return log(sum(b exp(a))), and with `return_sign` the sign of the sum.

    Factors are taken into the exponents by their size; where both signs occur, the sums of the two are subtracted.
    """
    a = matrix(a, False)
    if b is None:
        y, sign = _rules.log_of_sum(a, axis=axis), None
    else:
        y, sign = _weighted(a, matrix(b, False), axis)
    if return_sign and sign is None:
        if a.dtype.kind == "c":
            sign, y = np.exp(1j * np.imag(y)), np.real(y)
        else:
            sign = np.sign(np.exp(value(y)) + 1)
    elif not return_sign and sign is not None and y.dtype.kind == "f":
        y = np.where(value(sign) < 0, np.asarray(np.nan, y.dtype), y)
    if not keepdims:
        axes = _axes(axis, len(shape_of(y)))
        first = tuple([0 if i in axes else slice(None) for i in range(len(shape_of(y)))])
        y, sign = y[first], None if sign is None else sign[first]
    return (y, sign) if return_sign else y


def _weighted(a, b, axis):
    """Return log |sum(b exp(a))| and the sign of the sum, both with their axes."""
    a, b = np.broadcast_arrays(a, b)
    plain, factors = array_value(a), array_value(b)
    axes = _axes(axis, plain.ndim)
    used = np.where(factors == 0, -np.inf, plain.real)
    shift = np.max(used, axis=axes, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0).astype(plain.real.dtype)
    total = np.sum(
        b * np.exp(np.where(factors == 0, np.minimum(plain.real, shift), a) - shift), axis=axes, keepdims=True
    )
    sign = np.sign(value(total))
    return np.log(np.abs(total)) + shift, sign


@entry(_special.softmax)
def softmax(x, axis=None):
    """Return exp(x) / sum(exp(x)) over some axes."""
    return _rules.soft_max(matrix(x, False), axis=axis)


@entry(_special.log_softmax)
def log_softmax(x, axis=None):
    """Return the logarithm of softmax, without its underflow."""
    return _rules.log_soft_max(matrix(x, False), axis=axis)


@entry(_special.polygamma)
def polygamma(n, x):
    """Return the n-th derivative of digamma; n are whole numbers, and broadcast against x."""
    orders = np.asarray(n)
    x = np.broadcast_to(x, np.broadcast_shapes(orders.shape, shape_of(x))) if orders.shape else x
    y = None
    for k in np.unique(orders):
        of_order = _special.psi(x) if k == 0 else _gamma.polygamma_of(x, n=int(k))
        y = of_order if y is None else np.where(orders == k, of_order, y)
    return y


@entry(_special.multigammaln)
def multigammaln(a, d):
    """Return the logarithm of the multivariate gamma function of dimension d."""
    d = int(d)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    if np.any(all_values(array_value(a) <= 0.5 * (d - 1))):
        raise ValueError(f"condition a ({value(a)}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    return constant + sum(_special.gammaln(a - 0.5 * j) for j in range(d))


def __getattr__(name):
    return getattr(_special, name)
