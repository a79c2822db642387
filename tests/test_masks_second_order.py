"""What a choice leaves out stays an exact zero in second derivatives, too, in all combinations of modes."""

import warnings

import numpy as np
import pytest
from scipy import special

import chainrule as cr
import chainrule.rules.special
from chainrule.engine.rule import RULES

NOT_BELOW_0 = next(f for f in RULES if getattr(f, "__name__", "") == "_riemann_zeta")
POINTS = np.array([-30.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 30.0, 800.0])


def second(f):
    """Return the sums of the rows of the Hessian of `f`, in three ways."""
    g, ones = cr.grad(f), np.ones_like(POINTS)
    yield "forward over reverse", cr.jvp(g, (POINTS,), (ones,))[1]
    yield "reverse over reverse", cr.grad(lambda x: np.sum(g(x)))(POINTS)
    yield "reverse over forward", cr.grad(lambda x: cr.jvp(f, (x,), (ones,))[1])(POINTS)


def with_holes():
    """Return (function, number of an operand) of ufuncs that are not finite at some of the points, but at others."""
    found = []
    for fun, rule in RULES.items():
        if isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1 and rule.kind != "constant":
            for k in range(fun.nin):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # some functions can't bear them as errors
                    try:
                        y = fun(*[POINTS if i == k else 0.7 for i in range(fun.nin)])
                    except TypeError:  # of integers, or truth values
                        continue
                if y.dtype == POINTS.dtype and 0 < np.isfinite(y).sum() < y.size:
                    found.append((fun, k))
    return found


@pytest.mark.parametrize(("fun", "k"), with_holes(), ids=str)
def test_what_is_not_finite_and_not_taken_leaves_second_derivatives_alone(fun, k):
    def call(x):
        return fun(*[x if i == k else 0.7 for i in range(fun.nin)])

    def read(x):
        return np.sum(call(x)[good] ** 2)

    def chosen(x):
        return np.sum(np.where(good, call(x), x) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            slope = cr.grad(lambda x: np.sum(call(x)))(POINTS)
            bend = cr.jvp(lambda x: cr.grad(lambda v: np.sum(call(v)))(x), (POINTS,), (np.ones_like(POINTS),))[1]
        except cr.errors.UnsupportedArgumentError:  # a parameter without a derivative
            return
        except cr.errors.NoRuleError:  # for negative numbers: see below
            assert fun is NOT_BELOW_0
            return
        good = np.isfinite(call(POINTS)) & np.isfinite(slope) & np.isfinite(bend)
        value = call(POINTS)
        # what each entry by itself gives, where no mask is needed; that these are right, tests/test_rules.py shows
        want = np.where(good, 2 * (slope * slope + value * bend), 0.0)
        for f, rest in ((read, 0.0), (chosen, 2.0)):
            for mode, found in second(f):
                np.testing.assert_allclose(found, np.where(good, want, rest), rtol=1e-9, atol=1e-9, err_msg=mode)


def test_zeta_at_its_pole_leaves_second_derivatives_alone():
    x = np.array([1.0, 2.0, 3.0])
    slope = np.array([0.0, -0.9375482543158437, -0.1981262428856369])  # mpmath: zeta(x, derivative=1), and =2
    bend = np.array([0.0, 1.9892802342989010, 0.2397469173053872])

    def f(x):
        return np.sum(np.where(x > 1, special.zeta(x), 0.0))

    g = cr.grad(f)
    np.testing.assert_allclose(g(x), slope, rtol=1e-12)
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(g(x)))(x), bend, rtol=1e-12)
    np.testing.assert_allclose(np.diag(cr.hessian(f)(x)), bend, rtol=1e-12)
