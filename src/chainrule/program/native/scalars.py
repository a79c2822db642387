"""Arithmetic, comparisons, logic and casts as instructions, for single values and for vectors of LLVM alike.

The operands of a function here have one type, that which is computed in; `converted` brings them to it. What is written
follows NumPy's rules for NaN, infinities and signs of zeros. Longer expressions of these are in
`chainrule.program.native.formulas`; which of NumPy's functions is written by what, in `chainrule.program.native.maps`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.program.native.builder import Builder, Value, constant, element_of, lanes_of, splat, with_lanes
from chainrule.program.native.library import library
from chainrule.program.native.values import is_integer

FLOATS = frozenset({"double", "float"})


class NotLowered(Exception):
    """There is no machine code for an equation."""


def like(x: Value, number) -> Value:
    """Return a constant of the type of `x`."""
    kind = element_of(x.type)
    c = constant(kind, number)
    return c if kind == x.type else splat(c, lanes_of(x.type))


def is_float(x: Value) -> bool:
    """Tell whether a value is a floating-point number, or a vector of them."""
    return element_of(x.type) in FLOATS


def is_truth(x: Value) -> bool:
    """Tell whether it is a truth value."""
    return element_of(x.type) == "i1"


# -- arithmetic --------------------------------------------------------------------------------------------------------


def arithmetic(real: str, whole: str, truth: str | None = None) -> Callable:
    """Return how an operator is written, for floating-point numbers, integers and truth values."""

    def how(b, x, y):
        if is_float(x):
            return b.binary(real, x, y)
        if is_truth(x):
            if truth is None:
                raise NotLowered
            return b.binary(truth, x, y)
        return b.binary(whole, x, y)

    return how


add, subtract, multiply = arithmetic("fadd", "add", "or"), arithmetic("fsub", "sub"), arithmetic("fmul", "mul", "and")


def divide(b, x, y):
    """Divide floating-point numbers."""
    if not is_float(x):
        raise NotLowered
    return b.binary("fdiv", x, y)


def same(b, x):
    """Return the operand."""
    return x


def positive(b, x):
    """Return the operand."""
    if is_truth(x):
        raise NotLowered
    return x


def negative(b, x):
    """Change the sign."""
    return b.fneg(x) if is_float(x) else subtract(b, like(x, 0), x)


def absolute(b, x):
    """Drop the sign."""
    if is_float(x):
        return b.intrinsic("fabs", x)
    return x if is_truth(x) else b.select(b.compare("slt", x, like(x, 0)), negative(b, x), x)


def square(b, x):
    """x * x."""
    return multiply(b, x, x)


def reciprocal(b, x):
    """1 / x."""
    return divide(b, like(x, 1), x)


def sign(b, x):
    """1, -1, 0 or NaN."""
    if is_truth(x):
        raise NotLowered
    if not is_float(x):
        some = b.select(b.compare("slt", x, like(x, 0)), like(x, -1), like(x, 1))
        return b.select(b.compare("eq", x, like(x, 0)), like(x, 0), some)
    zero = like(x, 0.0)
    y = b.select(b.compare("oeq", x, zero), zero, x)
    y = b.select(b.compare("olt", x, zero), like(x, -1.0), y)
    return b.select(b.compare("ogt", x, zero), like(x, 1.0), y)


def modulo(b, x, y):
    """Return (fmod of x and y with the sign of y, whether that took an addition, the fmod)."""
    zero = like(x, 0.0)
    rest = library(b, "fmod", x, y)
    some = b.compare("une", rest, zero)
    apart = b.binary("xor", b.compare("olt", y, zero), b.compare("olt", rest, zero))
    turned = b.binary("and", some, apart)
    whole = b.intrinsic("copysign", zero, y)
    y_is_zero = b.compare("oeq", y, zero)
    result = b.select(turned, b.binary("fadd", rest, y), b.select(b.compare("oeq", rest, zero), whole, rest))
    return b.select(y_is_zero, rest, result), turned, rest


def remainder(b, x, y):
    """Python's %: the sign is that of y."""
    if is_truth(x):
        raise NotLowered
    if is_float(x):
        return modulo(b, x, y)[0]
    zero, _, safe = safe_divisor(b, y)
    rest = b.binary("srem", x, safe)  # 0 for divisors 0 and -1
    turned = b.binary("and", b.compare("ne", rest, zero), b.compare("slt", b.binary("xor", rest, y), zero))
    return b.select(turned, b.binary("add", rest, y), rest)


def safe_divisor(b, y):
    """Return (0, whether a divisor is 0, the divisor or 1 in place of 0 and -1): the processor traps on these."""
    zero = like(y, 0)
    lost = b.compare("eq", y, zero)
    odd = b.binary("or", lost, b.compare("eq", y, like(y, -1)))
    return zero, lost, b.select(odd, like(y, 1), y)


def floor_divide(b, x, y):
    """Python's //."""
    if is_truth(x):
        raise NotLowered
    if not is_float(x):
        zero, lost, safe = safe_divisor(b, y)
        part = b.binary("sdiv", x, safe)
        rest = b.binary("sub", x, b.binary("mul", part, safe))
        down = b.binary("and", b.compare("ne", rest, zero), b.compare("slt", b.binary("xor", rest, y), zero))
        part = b.select(down, b.binary("sub", part, like(y, 1)), part)
        part = b.select(b.compare("eq", y, like(y, -1)), b.binary("sub", zero, x), part)
        return b.select(lost, zero, part)
    zero = like(x, 0.0)
    _, turned, rest = modulo(b, x, y)
    part = b.binary("fdiv", b.binary("fsub", x, rest), y)
    part = b.select(turned, b.binary("fsub", part, like(x, 1.0)), part)
    low = b.intrinsic("floor", part)
    low = b.select(
        b.compare("ogt", b.binary("fsub", part, low), like(x, 0.5)), b.binary("fadd", low, like(x, 1.0)), low
    )
    ratio = b.binary("fdiv", x, y)
    low = b.select(b.compare("oeq", part, zero), b.intrinsic("copysign", zero, ratio), low)
    return b.select(b.compare("oeq", y, zero), ratio, low)


def fmod(b, x, y):
    """C's fmod: the sign is that of x."""
    if is_float(x):
        return library(b, "fmod", x, y)
    if is_truth(x):
        raise NotLowered
    return b.binary("srem", x, safe_divisor(b, y)[2])


def power_of(b, x, n: int):
    """Return x to a whole power, by squares."""
    if n == 0:
        return like(x, 1)
    y = None
    while True:
        if n & 1:
            y = x if y is None else multiply(b, y, x)
        n >>= 1
        if not n:
            return y
        x = multiply(b, x, x)


def power(b, x, y):
    """x to the power of y; small constant whole powers by multiplication."""
    n = number_of(y)
    if n is not None:
        if n == int(n) and 0 <= n <= 8:
            return power_of(b, x, int(n))
        if n == -1.0 and is_float(x):
            return reciprocal(b, x)
    if not is_float(x):
        raise NotLowered
    return library(b, "pow", x, y)


def number_of(x: Value):
    """Return the number of a constant, or None."""
    if not x.is_constant:
        return None
    kind, text = x.type, x.text
    if kind[0] == "<":
        text = text[1:-1].split(", ")[0].split(" ")[-1]
        if len(set(x.text[1:-1].split(", "))) > 1 or text == "zeroinitializer":
            return None
        kind = element_of(kind)
    if kind in FLOATS and text.startswith("0x"):
        n = float(np.uint64(int(text, 16)).view(np.float64))
        return n if math.isfinite(n) else None
    return int(text) if kind not in ("i1", "ptr") and kind not in FLOATS else None


# -- the larger and the smaller ----------------------------------------------------------------------------------------


def extremum(real: str, whole: str, truth: str, skips_nan: bool) -> Callable:
    """Return how maximum, minimum, fmax or fmin is written. Of equal ones it is the second: 0 beside -0."""

    def how(b, x, y):
        if is_truth(x):
            return b.binary(truth, x, y)
        if not is_float(x):
            return b.select(b.compare(whole, x, y), x, y)
        z = y if skips_nan else x
        first = b.binary("or", b.compare(real, x, y), b.compare("uno", z, z))
        return b.select(first, x, y)

    return how


maximum, minimum = extremum("ogt", "sge", "or", False), extremum("olt", "sle", "and", False)


def clip(b, x, low=None, high=None):
    """Put x between two limits."""
    y = x if low is None else maximum(b, x, low)
    return y if high is None else minimum(b, y, high)


# -- comparisons and logic ---------------------------------------------------------------------------------------------


def comparison(real: str, whole: str) -> Callable:
    """Return how a comparison is written; truth values count as 0 and 1."""

    def how(b, x, y):
        if is_float(x):
            return b.compare(real, x, y)
        return b.compare(f"u{whole[1:]}" if is_truth(x) and whole[0] == "s" else whole, x, y)

    return how


not_equal = comparison("une", "ne")


def truth(b, x):
    """Tell whether x is not 0."""
    return x if is_truth(x) else not_equal(b, x, like(x, 0))


def choice(b, mask, x, y):
    """x where the mask holds, otherwise y."""
    return b.select(truth(b, mask), x, y)


def logic(how: str) -> Callable:
    """Return how an operator on truth values is written."""
    return lambda b, x, y: b.binary(how, truth(b, x), truth(b, y))


def bits(how: str) -> Callable:
    """Return how an operator on bits is written."""

    def write(b, x, y):
        if is_float(x):
            raise NotLowered
        return b.binary(how, x, y)

    return write


def invert(b, x):
    """Turn all bits."""
    if is_float(x):
        raise NotLowered
    return b.binary("xor", x, like(x, -1 if not is_truth(x) else 1))


def logical_not(b, x):
    """Tell whether x is 0."""
    t = truth(b, x)
    return b.binary("xor", t, like(t, True))


def isnan(b, x):
    """NaN differs from itself."""
    return b.compare("uno", x, x) if is_float(x) else nothing(b, x)


def nothing(b, x):
    """Return false, as the result of a comparison."""
    return b.compare("ne", x, x)


def isfinite(b, x):
    """|x| < inf."""
    return b.compare("olt", absolute(b, x), like(x, math.inf)) if is_float(x) else b.compare("eq", x, x)


def isinf(b, x):
    """|x| = inf."""
    return b.compare("oeq", absolute(b, x), like(x, math.inf)) if is_float(x) else nothing(b, x)


def signbit(b, x):
    """Read the sign, of zeros and NaN too."""
    return b.compare("olt", b.intrinsic("copysign", like(x, 1.0), x), like(x, 0.0))


# -- constants and casts -----------------------------------------------------------------------------------------------


def literal(x: Any, kind: str) -> Value:
    """Return a plain number as a constant of a type."""
    if kind in FLOATS or kind == "i1":
        return constant(kind, x)
    if not is_integer(x) and not isinstance(x, bool | np.bool_):
        raise NotLowered
    return constant(kind, x)


def converted(b: Builder, x: Value, kind: str) -> Value:
    """Return a value, or a vector, as another type of number: as NumPy casts."""
    have, lanes = element_of(x.type), lanes_of(x.type)
    if have == kind:
        return x
    wide = with_lanes(kind, lanes)
    if kind == "i1":
        return truth(b, x)
    if kind in FLOATS:
        if have in FLOATS:
            return b.cast("fpext" if kind == "double" else "fptrunc", x, wide)
        return b.cast("uitofp" if have == "i1" else "sitofp", x, wide)
    if have in FLOATS:
        return b.call(f"llvm.fptosi.sat.{kind}.{'f64' if have == 'double' else 'f32'}", kind, x) if lanes == 1 else (
            b.cast("fptosi", x, wide))  # fmt: skip
    if have == "i1":
        return b.cast("zext", x, wide)
    return b.cast("sext" if int(kind[1:]) > int(have[1:]) else "trunc", x, wide)
