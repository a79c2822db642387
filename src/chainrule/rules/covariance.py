"""Covariances and correlations: products of what is left when the mean is taken off, so no rule is needed."""

import warnings

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.rule import composite
from chainrule.engine.spec import cast_to, spec_of
from chainrule.rules.differences import as_array


def rows_of(x, rowvar, dtype, second=False):
    """Return observations as a matrix with one row per variable."""
    rows = np.atleast_2d(x if spec_of(x).dtype == dtype else cast_to(x, dtype))
    turned = rows.shape[0] != 1 if second else len(x.shape) != 1
    return rows.T if not rowvar and turned else rows


def observation_weights(fweights, aweights, count):
    """Return the product of both kinds of weights, or None, and the second kind."""
    found = []
    for weights, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weights is not None:
            weights = as_array(weights)
            if name == "fweights" and not np.all(weights == np.around(weights)):
                raise TypeError("fweights must be integer")
            if len(weights.shape) > 1 or weights.shape[0] != count:
                raise RuntimeError(f"{name} must be one number per sample")
            if np.any(weights < 0):
                raise ValueError(f"{name} cannot be negative")
        found.append(weights)
    first, second = found
    both = first * second if first is not None and second is not None else second if first is None else first
    return both, second


@composite(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """Multiply the deviations of the variables from their means, each with each."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    m = as_array(m)
    y = None if y is None else as_array(y)
    if len(m.shape) > 2 or (y is not None and len(y.shape) > 2):
        raise ValueError("an array of observations has more than 2 dimensions")
    given = (m.dtype,) if y is None else (m.dtype, y.dtype)
    dtype = np.result_type(*given, np.float64) if dtype is None else np.dtype(dtype)
    x = rows_of(m, rowvar, dtype)
    if not x.shape[0]:
        return np.zeros((0, 0))
    if y is not None:
        x = np.concatenate((x, rows_of(y, rowvar, dtype, second=True)))
    ddof = (0 if bias else 1) if ddof is None else ddof
    w, shares = observation_weights(fweights, aweights, x.shape[1])
    if w is None:
        average, degrees = np.mean(x, axis=1, keepdims=True), x.shape[1] - ddof
    else:
        total = np.sum(w)
        average = (x @ (w * np.ones(1))).reshape(-1, 1) / total
        degrees = total if ddof == 0 else total - ddof * (1 if shares is None else np.sum(w * shares) / total)
    if degrees <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        degrees = 0.0
    d = x - average
    c = (d @ np.conj((d if w is None else d * w).T)) * np.true_divide(1, degrees)
    return np.squeeze(c)


@composite(np.corrcoef)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """Divide the covariances by the standard deviations."""
    c = np.cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return value(c) / value(c)  # 1, whatever c is
    deviation = np.sqrt(np.real(np.diagonal(c)))
    c = c / deviation.reshape(-1, 1) / deviation
    if c.dtype.kind != "c":
        return np.clip(c, -1, 1)
    return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
