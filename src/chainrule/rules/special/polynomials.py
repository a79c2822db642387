"""Derivative rules of the classical orthogonal polynomials, in the argument: each is a polynomial of a lower degree."""

import numpy as np
from scipy import special

from chainrule.engine.boxed import value
from chainrule.engine.rule import elementwise
from chainrule.rules.special.common import fixed, typed


def lower(fun, n, *rest):
    """Return ``fun(n - 1, *rest)``, and 0 for n = 0."""
    n = np.asarray(value(n))  # the tape keeps whole numbers as floats, which Hermite's refuse
    if n.dtype.kind == "f" and np.all(n == np.rint(n)):
        n = n.astype(np.int_)
    if np.all(n != 0):
        return fun(n - 1, *rest)
    return fun(np.where(n == 0, 0, n - 1), *rest) * (n != 0).astype(np.int8)


IN_X = {"domain": (None, (-0.9, 0.9))}  # the tests take no derivative in the degree and the parameters
LINE = {"domain": (None, (-2, 2)), "complex": False}


def refusing(name, *parameters):
    """Return the partials in the degree and other parameters: there are none."""
    return [fixed(name, p) for p in parameters]


# fmt: off
elementwise(special.eval_legendre, *refusing("eval_legendre", "n"),
            lambda y, n, x: typed(lower(special.eval_gegenbauer, n, 1.5, x), y), **IN_X)
elementwise(special.eval_chebyt, *refusing("eval_chebyt", "n"),
            lambda y, n, x: typed(n * lower(special.eval_chebyu, n, x), y), **IN_X)
elementwise(special.eval_chebyu, *refusing("eval_chebyu", "n"),
            lambda y, n, x: typed(2 * lower(special.eval_gegenbauer, n, 2.0, x), y), **IN_X)
elementwise(special.eval_hermite, *refusing("eval_hermite", "n"),
            lambda y, n, x: typed(2 * n * lower(special.eval_hermite, n, x), y), **LINE)
elementwise(special.eval_hermitenorm, *refusing("eval_hermitenorm", "n"),
            lambda y, n, x: typed(n * lower(special.eval_hermitenorm, n, x), y), **LINE)
elementwise(special.eval_laguerre, *refusing("eval_laguerre", "n"),
            lambda y, n, x: typed(-lower(special.eval_genlaguerre, n, 1.0, x), y), **IN_X)
elementwise(special.eval_genlaguerre, *refusing("eval_genlaguerre", "n", "alpha"),
            lambda y, n, a, x: typed(-lower(special.eval_genlaguerre, n, a + 1, x), y), **IN_X)
elementwise(special.eval_gegenbauer, *refusing("eval_gegenbauer", "n", "alpha"),
            lambda y, n, a, x: typed(2 * a * lower(special.eval_gegenbauer, n, a + 1, x), y), **IN_X)
elementwise(special.eval_jacobi, *refusing("eval_jacobi", "n", "alpha", "beta"),
            lambda y, n, a, b, x: typed(0.5 * (n + a + b + 1) * lower(special.eval_jacobi, n, a + 1, b + 1, x), y),
            **IN_X)
# fmt: on
