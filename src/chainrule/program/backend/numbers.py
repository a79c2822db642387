"""Numbers of a program as Python's: an operator on floats takes a tenth of the time of one on NumPy's scalars.

A float64 number that an equation of this table makes or reads is carried as a Python float, a truth value as a bool.
What differs from NumPy ends in an exception (``1 / 0.0``, ``math.log(0.0)``), and with it in a call of the function.
"""

import math
import operator

import numpy as np

from chainrule.engine.indexing import getitem
from chainrule.engine.spec import cast_to, choose, real_part, spread_to, sum_to
from chainrule.program.emit.text import number
from chainrule.program.ir import Equation, Symbol

FLOAT = np.dtype(float)
BOOL = np.dtype(bool)

# fmt: off
TEXT = {
    np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}", np.divide: "{} / {}", np.negative: "-{}",
    np.positive: "{}", np.absolute: "abs({})", np.fabs: "abs({})", np.square: "{0} * {0}", np.reciprocal: "1.0 / {}",
    np.maximum: "{0} if {0} >= {1} or {0} != {0} else {1}", np.minimum: "{0} if {0} <= {1} or {0} != {0} else {1}",
}
COMPARE = {
    np.greater: "{} > {}", np.greater_equal: "{} >= {}", np.less: "{} < {}", np.less_equal: "{} <= {}",
    np.equal: "{} == {}", np.not_equal: "{} != {}", np.isnan: "{0} != {0}", np.isfinite: "math_isfinite({})",
}
LOGIC = {
    np.logical_and: "{} and {}", np.logical_or: "{} or {}", np.logical_not: "not {}", np.invert: "not {}",
    np.bitwise_and: "{} and {}", np.bitwise_or: "{} or {}", np.bitwise_xor: "{} is not {}",
}
MATH = {
    np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan",
    np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh",
    np.exp: "exp", np.expm1: "expm1", np.exp2: "exp2", np.log: "log", np.log1p: "log1p", np.log2: "log2",
    np.log10: "log10", np.sqrt: "sqrt", np.cbrt: "cbrt", np.arctan2: "atan2", np.hypot: "hypot",
    np.copysign: "copysign",
}
OPERATORS = {
    operator.gt: np.greater, operator.ge: np.greater_equal, operator.lt: np.less, operator.le: np.less_equal,
    operator.eq: np.equal, operator.ne: np.not_equal, operator.and_: np.bitwise_and, operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor, operator.invert: np.invert, operator.neg: np.negative, operator.pos: np.positive,
    operator.abs: np.absolute, operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
    operator.truediv: np.divide, operator.pow: np.power, abs: np.absolute,
}
# fmt: on
SAME = {float, np.prod, np.max, np.min, sum_to, real_part, np.real}  # of one number that number
ADDED = {np.sum, np.mean}  # the same, but that NumPy begins with 0: of -0.0 it is 0.0
ARRAY = {np.reshape, spread_to}  # of one number an array without axes


def function_of(e):
    """Return the function of an equation, Python's operators as NumPy's functions."""
    return OPERATORS.get(e.fun, e.fun)


def reads_of(e) -> list:
    """Return the symbols that an equation reads, as its ``reads``; sooner for calls of plain operands."""
    if e.__class__ is Equation and not e.params:
        found = []
        for x in e.inputs:
            if x.__class__ is Symbol:
                found.append(x)
            elif x.__class__ is tuple or x.__class__ is list:
                return e.reads
        return found
    return e.reads


def is_float(x) -> bool:
    """Tell whether an operand is a number that Python's floats may stand for."""
    if x.__class__ is Symbol:
        return x.shape == () and (x.dtype is int or x.dtype == FLOAT)
    return x.__class__ in (float, int, np.float64)


def is_truth(x) -> bool:
    """Tell whether an operand is a truth value."""
    if x.__class__ is Symbol:
        return x.shape == () and x.dtype == BOOL
    return x.__class__ in (bool, np.bool_)


def expression(e):
    """Return (text with places for the operands, form of the result) of an equation on numbers, or None.

    The form is ``number``, or ``array`` for what eager code makes an array without axes.
    """
    s, xs = e.output, e.inputs
    if s.__class__ is not Symbol or s.shape != () or not (is_float(s) or is_truth(s)) or s.dtype is int:
        return None
    fun = function_of(e)
    if is_truth(s):
        if e.params:
            return None
        if fun in COMPARE and all(map(is_float, xs)):
            return COMPARE[fun], "number"
        if fun in LOGIC and all(map(is_truth, xs)):
            return LOGIC[fun], "number"
        return None
    if fun in (np.where, choose) and not e.params and len(xs) >= 2 and is_truth(xs[0]) and all(map(is_float, xs[1:])):
        if fun is choose:
            return "{1} if {0} else 0.0", "number"
        return ("{1} if {0} else {2}", "array") if len(xs) == 3 else None
    if not xs or not all(map(is_float, xs)):
        return None
    if fun in SAME or fun in ADDED or (fun is cast_to and e.params.get("dtype") == FLOAT):
        return (
            ("{} + 0.0" if fun in ADDED else "{}", "number")
            if e.params.keys() <= {"axis", "keepdims", "shape", "dtype"}
            else None
        )
    if fun in ARRAY:
        return ("{}", "array") if e.params.get("shape") in ((), None) and e.params.keys() <= {"shape"} else None
    if fun is getitem:
        index = e.params.get("index")
        return {(): ("{}", "number"), Ellipsis: ("{}", "array")}.get(index) if index in ((), Ellipsis) else None
    if e.params:
        return None
    if fun in TEXT:
        return TEXT[fun], "number"
    if fun in MATH:
        return f"math_{MATH[fun]}({', '.join(['{}'] * len(xs))})", "number"
    if fun is np.power:
        return power(xs[1]), "number"
    return None


def power(exponent):
    """Return the text of a power."""
    if exponent.__class__ is not Symbol:
        if exponent == 1:
            return "{0}"
        if exponent == 2:
            return "{0} * {0}"
        if exponent == -1:
            return "1.0 / {0}"
    return "math_pow({}, {})"


def literal(x) -> str:
    """Return a number as an operand of Python's operators."""
    if x.__class__ in (bool, np.bool_):
        return str(bool(x))
    text = number(float(x)) if x.__class__ is not int else repr(x)
    return f"({text})" if text.startswith("-") else text.replace("np.", "math_")


SPACE = {f"math_{name}": getattr(math, name) for name in {*MATH.values(), "fsum", "pow", "isfinite", "inf", "nan"}}
