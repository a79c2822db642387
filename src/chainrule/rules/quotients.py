"""Quotients that come out as 0 / 0 at points where they have a limit.

Where a denominator is `lost`, a rule knows the quotient to be 0 for some reason, or it is found by a second run of the
function with coinciding values set apart (`chainrule.engine.splitting`); else it is NaN. So is its derivative.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.splitting import parts, undetermined
from chainrule.rules.elementwise import reciprocal_or_zero

ROUNDING = 8  # numbers are equal if they differ by less than this many rounding errors per row


def rounding(x, exponent=1.0):
    """Return what counts as zero beside the numbers `x` of a vector (or, with another exponent, of a computation)."""
    return ROUNDING * max(x.shape[-1:], default=1) * np.finfo(x.dtype).eps ** exponent


def reciprocal(x, lost):
    """Return 1 / x, and 0 with derivative NaN where `lost`."""
    if lost.any():
        dtype = value(x).real.dtype
        return reciprocal_or_zero(x * (~lost).astype(dtype))
    return 1 / x


def nan_unless(known, like):
    """Return what to add to a factor so that the product is NaN, with its derivatives, where it is not known."""
    dtype = value(like).real.dtype
    return np.where(known, dtype.type(0), dtype.type(np.nan))


def no_derivative(n, lost):
    """Return zeros whose derivative in n is NaN where `lost`: n may be zero at this point only."""
    dtype = value(n).real.dtype
    return reciprocal_or_zero(n * dtype.type(0) + (~lost).astype(dtype)) * lost.astype(dtype)


def tangent_over(n, inverse, lost, k, known):
    """Return the tangent ``n * inverse``: where `lost`, 0 if n is `known` to be 0, else n / (k eps) of a second run."""
    if not lost.any():
        return n * inverse
    two = parts(n) if not isinstance(inverse, Boxed) else None
    if two is None:
        boxed = isinstance(n, Boxed)
        if boxed or (lost & ~known).any():
            undetermined()
        quotient = n * (inverse + nan_unless(~lost | known, n))
        return quotient + no_derivative(n, lost) if boxed else quotient
    first, second = two
    small = np.abs(first) <= rounding(first, 0.75) * max(np.abs(first).max(initial=0), np.abs(second).max(initial=0))
    return n * inverse + np.where(lost, second / k, 0).astype(first.dtype) + nan_unless(~lost | small, first)


def cotangent_over(n, inverse, lost, k, size, known=False, likely=False):
    """Return the cotangent ``n * inverse``: where `lost`, 0 if `known` to be the limit, else that of a second run.

    Where it is `likely` to be 0, that is what is taken if there is no second run. `size` is that of the numbers from
    which n was computed: what is smaller by far is rounding. An n that is not zero has no limit.
    """
    if not lost.any():
        return n * inverse
    two = parts(n) if not isinstance(inverse, Boxed) else None
    if two is None:
        if (lost & np.logical_not(known)).any():
            undetermined()
        if isinstance(n, Boxed):
            likely = False
        return n * (inverse + nan_unless(~lost | known | likely, n))
    first, second = two
    small = np.abs(first) <= rounding(first, 0.75) * size
    return first * inverse + np.where(lost, second / k, 0).astype(first.dtype) + nan_unless(~lost | small, first)
