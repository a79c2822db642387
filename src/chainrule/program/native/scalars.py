"""NumPy's elementwise functions as instructions, for single values and for vectors of LLVM alike.

`MAPS` has a function of the builder and the operands for each of NumPy's functions and of our primitives; the operands
have the type that is computed in. What is written follows NumPy's rules for NaN, infinities and signs of zeros.
`computes_in` tells that type, `converted` brings operands to it.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine.spec import real_part
from chainrule.program.backend import numbers
from chainrule.program.native import target
from chainrule.program.native.builder import Builder, Value, constant, element_of, lanes_of, splat, type_of, with_lanes
from chainrule.program.native.values import is_integer
from chainrule.rules.elementwise import fraction, one_minus_square, over_length, reciprocal_or_zero, sech_squared
from chainrule.rules.gates import bell, relu, sigmoid
from chainrule.settings import config

OPERATORS = numbers.OPERATORS | {operator.floordiv: np.floor_divide, operator.mod: np.remainder}
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


# -- mathematics of the C library --------------------------------------------------------------------------------------


def library(b: Builder, name: str, *xs: Value) -> Value:
    """Call a function of the C library; for vectors of any number of lanes that of libmvec, or entry by entry."""
    kind = xs[0].type
    if kind[0] != "<":
        return b.call(name if kind == "double" else f"{name}f", kind, *xs, pure=True)
    n, short = lanes_of(kind), element_of(kind)
    whole = 1 << (n - 1).bit_length()
    most = target.host().lanes * (1 if short == "double" else 2)
    if config.exact_math or target.vector_name(name, short, most, len(xs)) is None or n == 1:
        return b.pack([library(b, name, *[b.lane(x, k) for x in xs]) for k in range(n)])
    if n > most:  # registers first, then the rest
        parts = [
            library(b, name, *[b.shuffle(x, None, range(k, min(k + most, n))) for x in xs]) for k in range(0, n, most)
        ]
        while len(parts) > 1:
            parts = [joined(b, *parts[k : k + 2]) for k in range(0, len(parts), 2)]
        return parts[0]
    vector = target.vector_name(name, short, max(whole, 2), len(xs))
    if vector is None:  # a shorter vector than there is: fill it up
        whole = next(w for w in (2, 4, 8, 16) if w > n and target.vector_name(name, short, w, len(xs)))
        vector = target.vector_name(name, short, whole, len(xs))
    if whole == n:
        return b.call(vector, kind, *xs, pure=True)
    fill = [*range(n), *[n - 1] * (whole - n)]  # what is computed beside is a valid entry, too
    wide = b.call(vector, with_lanes(short, whole), *[b.shuffle(x, None, fill) for x in xs], pure=True)
    return b.shuffle(wide, None, range(n))


def joined(b: Builder, x: Value, y: Value | None = None) -> Value:
    """Return the lanes of two vectors as one."""
    if y is None:
        return x
    n, m = lanes_of(x.type), lanes_of(y.type)
    if m == 1:
        wide = b.shuffle(x, None, [*range(n), n - 1])
        return b.write(wide.type, f"insertelement {wide}, {y}, i64 {n}")
    if m < n:
        y = b.shuffle(y, None, [*range(m), *[m - 1] * (n - m)])
    return b.shuffle(x, y, range(n + m))


def of_library(name: str) -> Callable:
    """Return how a function of the C library is written."""
    return lambda b, *xs: library(b, name, *xs)


def of_intrinsic(name: str) -> Callable:
    """Return how an instruction of the processor is written; of integers it is the integer."""
    return lambda b, x: b.intrinsic(name, x) if is_float(x) else x


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


# -- formulas ----------------------------------------------------------------------------------------------------------


def choice(b, mask, x, y):
    """x where the mask holds, otherwise y."""
    return b.select(truth(b, mask), x, y)


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


def same(b, x):
    """Return the operand."""
    return x


def positive(b, x):
    """Return the operand."""
    if is_truth(x):
        raise NotLowered
    return x


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
# fmt: on
COMPARES = frozenset(
    {
        np.greater,
        np.greater_equal,
        np.less,
        np.less_equal,
        np.equal,
        np.not_equal,
        np.isnan,
        np.isfinite,
        np.isinf,
        np.signbit,
        np.logical_and,
        np.logical_or,
        np.logical_xor,
        np.logical_not,
    }
)  # fmt: skip
MATHEMATICS = frozenset(fun for fun in MAPS if MAPS[fun].__qualname__.startswith("of_library")) | {
    np.logaddexp, np.logaddexp2, sigmoid, bell, sech_squared, over_length}  # fmt: skip


def how_of(fun: Any) -> Callable | None:
    """Return how an elementwise function is written; Python's operators are NumPy's functions."""
    how = MAPS.get(OPERATORS.get(fun, fun))
    if how is None:
        from chainrule.program.native.special import special_how  # it is made of the functions here

        return special_how(fun)
    return how


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


def literal(x: Any, kind: str) -> Value:
    """Return a plain number as a constant of a type."""
    if kind in FLOATS or kind == "i1":
        return constant(kind, x)
    if not is_integer(x) and not isinstance(x, bool | np.bool_):
        raise NotLowered
    return constant(kind, x)
