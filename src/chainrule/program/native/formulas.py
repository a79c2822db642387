"""Functions of NumPy's, and primitives of ours, that are expressions of others: `logaddexp`, `sigmoid` and the like.

The operands are floating-point numbers, or vectors of them. Those of SciPy: `chainrule.program.native.special`.
"""

import math
from collections.abc import Callable

from chainrule.program.native.library import library
from chainrule.program.native.scalars import absolute, add, isinf, isnan, like, multiply, square, subtract


def heaviside(b, x, half):
    """0, `half` at 0, 1."""
    y = b.select(b.compare("ogt", x, like(x, 0.0)), like(x, 1.0), like(x, 0.0))
    y = b.select(b.compare("oeq", x, like(x, 0.0)), half, y)
    return b.select(isnan(b, x), x, y)


def logaddexp(b, x, y):
    """The greater one, plus log1p(exp(-|x - y|)); equal infinities are no difference."""
    d = b.binary("fsub", x, y)
    top = b.select(b.compare("ogt", x, y), x, y)
    rest = library(b, "log1p", library(b, "exp", b.fneg(absolute(b, d))))
    equal = b.binary("fadd", x, like(x, math.log(2)))
    return b.select(b.compare("oeq", x, y), equal, b.binary("fadd", top, rest))


def logaddexp2(b, x, y):
    """The same in base 2."""
    d = b.binary("fsub", x, y)
    top = b.select(b.compare("ogt", x, y), x, y)
    rest = library(b, "log1p", library(b, "exp2", b.fneg(absolute(b, d))))
    rest = b.binary("fmul", rest, like(x, 1 / math.log(2)))
    return b.select(b.compare("oeq", x, y), b.binary("fadd", x, like(x, 1.0)), b.binary("fadd", top, rest))


def decay(b, x, scale=None):
    """exp(-|x|), or exp(-scale |x|)."""
    y = b.fneg(absolute(b, x))
    return library(b, "exp", y if scale is None else b.binary("fmul", y, like(x, scale)))


def write_sigmoid(b, x):
    """1 / (1 + exp(-x)), by what does not overflow."""
    e = decay(b, x)
    top = b.select(b.compare("olt", x, like(x, 0.0)), e, like(x, 1.0))
    return b.binary("fdiv", top, b.binary("fadd", e, like(x, 1.0)))


def write_bell(b, x):
    """e / (1 + e)**2 with e = exp(-|x|)."""
    e = decay(b, x)
    return b.binary("fdiv", e, square(b, b.binary("fadd", e, like(x, 1.0))))


def write_sech_squared(b, x):
    """4 e / (1 + e)**2 with e = exp(-2 |x|)."""
    e = decay(b, x, 2.0)
    return b.binary("fdiv", b.binary("fmul", e, like(x, 4.0)), square(b, b.binary("fadd", e, like(x, 1.0))))


def write_one_minus_square(b, x):
    """(1 - x) (1 + x)."""
    one = like(x, 1)
    return multiply(b, subtract(b, one, x), add(b, one, x))


def write_reciprocal_or_zero(b, x):
    """1 / x, and 0 at 0."""
    zero = b.compare("oeq", x, like(x, 0.0))
    y = b.binary("fdiv", like(x, 1.0), b.select(zero, like(x, 1.0), x))
    return b.select(zero, like(x, 0.0), y)


def write_over_length(b, x, y):
    """x / hypot(x, y), and x at 0."""
    r = library(b, "hypot", x, y)
    return b.binary("fdiv", x, b.select(b.compare("oeq", r, like(r, 0.0)), like(r, 1.0), r))


def write_fraction(b, x):
    """The fractional part, with the sign of x; of infinities a zero."""
    y = b.binary("fsub", x, b.intrinsic("trunc", x))
    y = b.select(isinf(b, x), like(x, 0.0), y)
    return b.intrinsic("copysign", y, x)


def scaled(factor: float) -> Callable:
    """Return how a product with a number is written."""
    return lambda b, x: b.binary("fmul", x, like(x, factor))
