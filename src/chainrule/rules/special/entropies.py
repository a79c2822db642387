"""Derivative rules of logarithms, exponentials, logistic functions, entropies, losses and power transforms.

x log y is linear in x, so its derivative in x is log y, also at x = 0; and it is 0 in y where x is 0.
"""

import numpy as np
from scipy import special

from chainrule.engine.boxed import array_value
from chainrule.engine.rule import constant, elementwise
from chainrule.engine.spec import primitive
from chainrule.rules.elementwise import DEGREE, LN2, LN10, bounded, power_da, power_db, reached, reciprocal_or_zero
from chainrule.rules.special.common import at, log_ratio, masked, ratio_or_zero, typed


@primitive
def rest(a, b):
    """Return 1 - a / b, to all digits where a is close to b; 1 where a is 0."""
    with np.errstate(all="ignore"):
        return np.where(a == 0, np.ones_like(b), np.divide(b - a, b))[()]


elementwise(rest, lambda y, a, b: -1 / b, lambda y, a, b: ratio_or_zero(ratio_or_zero(a, b), b),
            domain=((-2, 2), (0.3, 2)), complex=False)  # fmt: skip


def exprel_dx(y, x):
    """Return the derivative of (e**x - 1) / x, the integral of t e**(xt) over 0 < t < 1: 1F1(2, 3, x) / 2."""
    return 0.5 * special.hyp1f1(2.0, 3.0, x)


# -- power transforms: with u = lmbda log x, boxcox is log(x) exprel(u) ------------------------------------------------


def boxcox_dlmbda(x, lmbda, log=np.log, border=0):
    """Return log(x)**2 exprel'(lmbda log x), which is smooth at lmbda = 0; its limit 1 / lmbda**2 at x = 0.

    For boxcox1p, `log` is log1p, and x is 0 at the `border` -1.
    """
    limit = (array_value(x) == border) & (array_value(lmbda) > 0)

    def inside():
        log_x = log(at(np.logical_not(limit), x, 0.5))
        return log_x * log_x * exprel_dx(None, lmbda * log_x)

    return masked(limit, lambda: 1 / np.square(at(limit, lmbda, 1.0)), inside)


# -- losses ------------------------------------------------------------------------------------------------------------


def pseudo_huber_ddelta(y, delta, r):
    """Return (h - delta)**2 / h with h = hypot(delta, r), without cancellation: h - delta = r**2 / (h + delta)."""
    h = np.hypot(delta, r)
    u = r * reciprocal_or_zero(h + delta)
    return u * u * r * r * reciprocal_or_zero(h)


# fmt: off
# -- elementary functions of their own ---------------------------------------------------------------------------------
elementwise(special.exp2,      lambda y, x: LN2 * bounded(y),        complex=False)
elementwise(special.exp10,     lambda y, x: LN10 * bounded(y),       complex=False)
elementwise(special.expm1,     lambda y, x: bounded(np.exp(x)))
elementwise(special.log1p,     lambda y, x: 1 / (1 + reached(x)),    domain=(-0.8, 4))
elementwise(special.cosm1,     lambda y, x: -np.sin(x),              complex=False)
elementwise(special.cbrt,      lambda y, x: 1 / (3 * y * y),         domain=(0.1, 4), complex=False)
elementwise(special.exprel,    exprel_dx,                            complex=False)
elementwise(special.powm1,     power_da,                             lambda y, a, b: power_db(y + 1, a, b),
            domain=((0.2, 3), (-2, 3)), complex=False)
elementwise(special.sindg,     lambda y, x: DEGREE * special.cosdg(x),    domain=(-80, 80), complex=False)
elementwise(special.cosdg,     lambda y, x: -DEGREE * special.sindg(x),   domain=(-80, 80), complex=False)
elementwise(special.tandg,     lambda y, x: DEGREE * (1 + y * y),         domain=(-60, 60), complex=False)
elementwise(special.cotdg,     lambda y, x: -DEGREE * (1 + y * y),        domain=(30, 80), complex=False)
elementwise(special.radian,    lambda y, d, m, s: DEGREE, lambda y, d, m, s: DEGREE / 60,
            lambda y, d, m, s: DEGREE / 3600, complex=False)

# -- logistic ----------------------------------------------------------------------------------------------------------
elementwise(special.expit,     lambda y, x: y * special.expit(-x),   complex=False)   # 1 - y would cancel
elementwise(special.log_expit, lambda y, x: special.expit(-x),       complex=False)
elementwise(special.logit,     lambda y, x: 1 / x / (1 - x),         domain=(0.1, 0.9), complex=False)

# -- entropies ---------------------------------------------------------------------------------------------------------
elementwise(special.xlogy,     lambda y, a, b: np.log(b),            lambda y, a, b: ratio_or_zero(a, b),
            domain=((-2, 2), (0.3, 2)))
elementwise(special.xlog1py,   lambda y, a, b: np.log1p(b),          lambda y, a, b: ratio_or_zero(a, 1 + b),
            domain=((-2, 2), (-0.6, 2)))
elementwise(special.entr,      lambda y, x: -1 - np.log(x),          domain=(0.1, 3), complex=False)
elementwise(special.rel_entr,  lambda y, a, b: 1 + log_ratio(a, b),  lambda y, a, b: -ratio_or_zero(a, b),
            domain=(0.3, 3), complex=False)
elementwise(special.kl_div,    lambda y, a, b: log_ratio(a, b),      lambda y, a, b: rest(a, b),
            domain=(0.3, 3), complex=False)

# -- power transforms --------------------------------------------------------------------------------------------------
elementwise(special.boxcox,    lambda y, x, lm: x ** (lm - 1),       lambda y, x, lm: typed(boxcox_dlmbda(x, lm), y),
            domain=((0.2, 3), (-2, 2)), complex=False)
elementwise(special.boxcox1p,  lambda y, x, lm: (1 + x) ** (lm - 1),
            lambda y, x, lm: typed(boxcox_dlmbda(x, lm, np.log1p, -1), y),
            domain=((-0.6, 2), (-2, 2)), complex=False)
elementwise(special.inv_boxcox, lambda y, x, lm: y ** (1 - lm),
            lambda y, x, lm: -boxcox_dlmbda(y, lm) * y ** (1 - lm),
            domain=((-0.4, 0.4), (-2, 2)), complex=False)
elementwise(special.inv_boxcox1p, lambda y, x, lm: (1 + y) ** (1 - lm),
            lambda y, x, lm: -boxcox_dlmbda(y, lm, np.log1p, -1) * (1 + y) ** (1 - lm),
            domain=((-0.4, 0.4), (-2, 2)), complex=False)

# -- losses ------------------------------------------------------------------------------------------------------------
elementwise(special.huber,     lambda y, d, r: typed(np.maximum(np.abs(r) - d, 0), y),
            lambda y, d, r: np.clip(r, -d, d), domain=((0.6, 0.9), (1, 2)), complex=False)
elementwise(special.pseudo_huber, pseudo_huber_ddelta,
            lambda y, d, r: d * r * reciprocal_or_zero(np.hypot(d, r)), domain=((0.6, 2), (-2, 2)), complex=False)

# -- solutions of w e**w = z -------------------------------------------------------------------------------------------
elementwise(special.wrightomega, lambda y, x: y / (1 + y))
constant(special.round, special.gammasgn)
# fmt: on
