"""Elementwise functions of SciPy, and those of NumPy and of ours that go with them, as instructions.

They are found by name, so that SciPy is not imported: if a program has one of its functions, it is there.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.program.native.builder import Builder, Value
from chainrule.program.native.formulas import write_sigmoid
from chainrule.program.native.library import library, of_library
from chainrule.program.native.scalars import NotLowered, absolute, divide, is_float, isnan, like, minimum, multiply


def floats(how: Callable) -> Callable:
    """Return the function, for floating-point numbers only."""

    def write(b, *xs):
        if not is_float(xs[0]):
            raise NotLowered
        return how(b, *xs)

    return write


def xlogy(name: str) -> Callable:
    """Return how x log(y), or x log1p(y), is written: 0 where x is 0."""

    def how(b, x, y):
        full = multiply(b, x, library(b, name, y))
        none = b.binary("and", b.compare("oeq", x, like(x, 0.0)), b.compare("ord", y, y))
        return b.select(none, like(x, 0.0), full)

    return how


def entr(b, x):
    """-x log x; 0 at 0, and -inf below."""
    zero = like(x, 0.0)
    y = b.select(b.compare("ogt", x, zero), b.fneg(multiply(b, x, library(b, "log", x))), like(x, -math.inf))
    y = b.select(b.compare("oeq", x, zero), zero, y)
    return b.select(isnan(b, x), x, y)


def log_ratio(b, x, y):
    """log(x / y), with all digits where x is close to y."""
    q = divide(b, x, y)
    near = b.binary("and", b.compare("ogt", q, like(q, 0.5)), b.compare("olt", q, like(q, 2.0)))
    change = b.select(near, divide(b, b.binary("fsub", x, y), y), like(q, 0.0))
    far = b.binary("fsub", library(b, "log", x), library(b, "log", y))
    return b.select(near, library(b, "log1p", change), far)


def ratio_or_zero(b, x, y):
    """x / y; 0 for 0 / 0. As in the primitive itself, y is a sum: -0.0 is 0."""
    zero = like(x, 0.0)
    both = b.binary("and", b.compare("oeq", x, zero), b.compare("oeq", y, zero))
    return divide(b, x, b.select(both, like(x, 1.0), b.binary("fadd", y, zero)))


def rel_entr(b, x, y):
    """x log(x / y); 0 where x is 0, and inf where there is no logarithm."""
    zero = like(x, 0.0)
    good = b.binary("and", b.compare("ogt", x, zero), b.compare("ogt", y, zero))
    none = b.binary("and", b.compare("oeq", x, zero), b.compare("oge", y, zero))
    full = multiply(b, x, log_ratio(b, x, y))
    result = b.select(good, full, b.select(none, zero, like(x, math.inf)))
    return b.select(b.compare("uno", x, y), b.binary("fadd", x, y), result)


def log_expit(b, x):
    """min(x, 0) - log1p(exp(-|x|))."""
    rest = library(b, "log1p", library(b, "exp", b.fneg(absolute(b, x))))
    return b.binary("fsub", minimum(b, x, like(x, 0.0)), rest)


def logit(b, x):
    """log(x / (1 - x)); close to 1/2 by log1p."""
    one = like(x, 1.0)
    s = multiply(b, like(x, 2.0), b.binary("fsub", x, like(x, 0.5)))
    close = b.binary("fsub", library(b, "log1p", s), library(b, "log1p", b.fneg(s)))
    far = library(b, "log", divide(b, x, b.binary("fsub", one, x)))
    near = b.binary("and", b.compare("oge", x, like(x, 0.3)), b.compare("ole", x, like(x, 0.65)))
    return b.select(near, close, far)


def ndtr(b, x):
    """The normal distribution, by erf close to 0 and by erfc far from it."""
    t = multiply(b, x, like(x, math.sqrt(0.5)))
    z, half, one = absolute(b, t), like(x, 0.5), like(x, 1.0)
    close = b.binary("fadd", half, multiply(b, half, library(b, "erf", t)))
    tail = multiply(b, half, library(b, "erfc", z))
    far = b.select(b.compare("ogt", t, like(x, 0.0)), b.binary("fsub", one, tail), tail)
    return b.select(b.compare("olt", z, one), close, far)


def sinc(b, x):
    """sin(pi x) / (pi x)."""
    zero = b.compare("oeq", x, like(x, 0.0))
    t = multiply(b, like(x, math.pi), b.select(zero, like(x, 1e-20), x))
    return divide(b, library(b, "sin", t), t)


def exprel(b, x):
    """(exp(x) - 1) / x; 1 at 0."""
    zero = b.compare("oeq", x, like(x, 0.0))
    y = divide(b, library(b, "expm1", x), b.select(zero, like(x, 1.0), x))
    y = b.select(b.compare("ogt", x, like(x, 717.0)), like(x, math.inf), y)
    return b.select(zero, like(x, 1.0), y)


def always(truth: bool) -> Callable:
    """Return how a question is written whose answer is known."""

    def how(b: Builder, x: Value) -> Value:
        return (
            b.compare("true" if truth else "false", x, x) if is_float(x) else b.compare("eq" if truth else "ne", x, x)
        )

    return how


SCIPY = {
    "erf": of_library("erf"), "erfc": of_library("erfc"), "expit": write_sigmoid, "log_expit": log_expit,
    "logit": logit, "xlogy": xlogy("log"), "xlog1py": xlogy("log1p"), "entr": entr, "rel_entr": rel_entr,
    "exp2": of_library("exp2"), "exp10": of_library("exp10"), "cbrt": of_library("cbrt"),
    "expm1": of_library("expm1"), "log1p": of_library("log1p"), "ndtr": ndtr, "exprel": exprel,
}  # fmt: skip
OURS = {"ratio_or_zero": ratio_or_zero, "log_ratio": log_ratio}
NUMPY = {np.sinc: sinc, np.isreal: always(True), np.iscomplex: always(False)}


def special_how(fun: Any) -> Callable | None:
    """Return how one of these functions is written; None if `fun` is none."""
    if fun in NUMPY:
        return NUMPY[fun]
    name = getattr(fun, "__name__", None)
    if name in SCIPY and getattr(sys.modules.get("scipy.special"), name, None) is fun:
        return floats(SCIPY[name])
    if name in OURS and getattr(fun, "__module__", None) == "chainrule.rules.special.common":
        return floats(OURS[name])
    return None
