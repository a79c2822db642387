"""Which elementwise functions there are instructions for, and which type each computes in.

`MAPS` has a function of the builder and the operands for each of NumPy's functions and of our primitives; `how_of`
finds SciPy's as well. The operands have the type that `computes_in` tells.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine.spec import real_part
from chainrule.program.backend import numbers
from chainrule.program.native.builder import type_of
from chainrule.program.native.formulas import (
    heaviside,
    logaddexp,
    logaddexp2,
    scaled,
    write_bell,
    write_fraction,
    write_one_minus_square,
    write_over_length,
    write_reciprocal_or_zero,
    write_sech_squared,
    write_sigmoid,
)  # fmt: skip
from chainrule.program.native.library import of_library
from chainrule.program.native.scalars import (
    NotLowered,
    absolute,
    add,
    bits,
    comparison,
    divide,
    extremum,
    floor_divide,
    fmod,
    invert,
    is_float,
    isfinite,
    isinf,
    isnan,
    like,
    logic,
    logical_not,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    power,
    reciprocal,
    remainder,
    same,
    sign,
    signbit,
    square,
    subtract,
)  # fmt: skip
from chainrule.program.native.special import special_how
from chainrule.rules.elementwise import fraction, one_minus_square, over_length, reciprocal_or_zero, sech_squared
from chainrule.rules.gates import bell, relu, sigmoid

OPERATORS = numbers.OPERATORS | {operator.floordiv: np.floor_divide, operator.mod: np.remainder}


def of_intrinsic(name: str) -> Callable:
    """Return how an instruction of the processor is written; of integers it is the integer."""
    return lambda b, x: b.intrinsic(name, x) if is_float(x) else x


# fmt: off
MAPS: dict[Any, Callable] = {
    np.add: add, np.subtract: subtract, np.multiply: multiply, np.divide: divide, np.negative: negative,
    np.positive: positive, np.absolute: absolute, np.fabs: absolute, np.square: square, np.reciprocal: reciprocal,
    np.sign: sign, np.remainder: remainder, np.floor_divide: floor_divide, np.fmod: fmod, np.power: power,
    np.float_power: power, np.conjugate: same, real_part: same, np.real: same,
    np.maximum: maximum, np.minimum: minimum,
    np.fmax: extremum("ogt", "sge", "or", True), np.fmin: extremum("olt", "sle", "and", True),
    np.sqrt: of_intrinsic("sqrt"), np.floor: of_intrinsic("floor"), np.ceil: of_intrinsic("ceil"),
    np.trunc: of_intrinsic("trunc"), np.rint: of_intrinsic("rint"),
    np.copysign: lambda b, x, y: b.intrinsic("copysign", x, y),
    np.greater: comparison("ogt", "sgt"), np.greater_equal: comparison("oge", "sge"),
    np.less: comparison("olt", "slt"), np.less_equal: comparison("ole", "sle"),
    np.equal: comparison("oeq", "eq"), np.not_equal: not_equal,
    np.isnan: isnan, np.isfinite: isfinite, np.isinf: isinf, np.signbit: signbit,
    np.logical_and: logic("and"), np.logical_or: logic("or"), np.logical_xor: logic("xor"),
    np.logical_not: logical_not, np.invert: invert,
    np.bitwise_and: bits("and"), np.bitwise_or: bits("or"), np.bitwise_xor: bits("xor"),
    np.heaviside: heaviside, np.logaddexp: logaddexp, np.logaddexp2: logaddexp2,
    np.deg2rad: scaled(math.pi / 180), np.radians: scaled(math.pi / 180),
    np.rad2deg: scaled(180 / math.pi), np.degrees: scaled(180 / math.pi),
    sigmoid: write_sigmoid, bell: write_bell, sech_squared: write_sech_squared,
    relu: lambda b, x: maximum(b, x, like(x, 0)),
    one_minus_square: write_one_minus_square, reciprocal_or_zero: write_reciprocal_or_zero,
    over_length: write_over_length, fraction: write_fraction,
}
MAPS |= {fun: of_library(name) for fun, name in {
    np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan",
    np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh",
    np.exp: "exp", np.exp2: "exp2", np.expm1: "expm1", np.log: "log", np.log2: "log2", np.log10: "log10",
    np.log1p: "log1p", np.cbrt: "cbrt", np.arctan2: "atan2", np.hypot: "hypot",
}.items()}
COMPARES = frozenset({
    np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.isnan, np.isfinite, np.isinf,
    np.signbit, np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
})
MATHEMATICS = frozenset(fun for fun in MAPS if MAPS[fun].__qualname__.startswith("of_library")) | {
    np.logaddexp, np.logaddexp2, sigmoid, bell, sech_squared, over_length}
# fmt: on


def how_of(fun: Any) -> Callable | None:
    """Return how an elementwise function is written; Python's operators are NumPy's functions."""
    how = MAPS.get(OPERATORS.get(fun, fun))
    return special_how(fun) if how is None else how


def computes_in(fun: Any, output: Any, dtypes: list) -> str:
    """Return the type that a call computes in, from the dtypes of its output and operands (or their Python numbers).

    Raises
    ------
    NotLowered
        For complex numbers, float16 and the like.
    """
    fun = OPERATORS.get(fun, fun)
    if fun in COMPARES:
        output = np.result_type(*[weak(d) for d in dtypes])
        if fun is np.signbit and output.kind != "f":
            raise NotLowered
    kind = type_of(output)
    if kind is None:
        raise NotLowered
    return kind


def weak(dtype: Any) -> Any:
    """Return what stands for a dtype in `np.result_type`: numbers for Python's types."""
    if dtype is float:
        return 0.0
    if dtype is int:
        return 0
    return dtype if dtype.__class__ in (float, int) else np.dtype(dtype)
