"""Derivative rules of the elementwise functions.

Each line: a function, then its partial derivative in each input, given the output y and the inputs. Prefer y where
it is cheaper or more exact. ``domain`` is where the rule holds; the tests draw their inputs from it.

Choices at kinks are those of ``docs/policies.md``. Complex numbers and their parts are in `rules.complexes`, choices
between operands (maximum, where, clip) in `rules.choices`, sinc and the Bessel function in `rules.series`.
"""

import math

import numpy as np

from chainrule.engine.boxed import Boxed, all_values, ordinary, value
from chainrule.engine.rule import composite, constant, elementwise, linear
from chainrule.engine.spec import choose, primitive, spec_of, sum_to
from chainrule.rules.gates import sigmoid
from chainrule.rules.scalars import number

LN2, LN10 = math.log(2), math.log(10)
DEGREE = math.pi / 180
DOUBLE = np.dtype(float)


# -- formulas of more than a line --------------------------------------------------------------------------------------


def power_da(y, a, b):
    """d/da a**b = b a**(b-1): right to every order at 0, since a zero exponent asks for no power below 0."""
    if getattr(b, "dtype", DOUBLE).kind == "b":  # NumPy subtracts no bools
        b = b.astype(np.int8)
    e = b - (b != 0)
    if a.__class__ is float and a < 0:  # Python's float would give a complex number
        a = np.float64(a)
    return b * a**e


def power_db(y, a, b):
    """d/db a**b = a**b log a; its limit 0 at a = 0, b > 0."""
    log_a = np.log(a + (a == 0))
    if a.__class__ in (float, int, bool, complex):  # a Python number leaves the dtype to b
        log_a = log_a.item()
    elif isinstance(a, Boxed) and spec_of(a).dtype is None:
        log_a = number(log_a)
    return y * log_a


class Ratio:
    """A partial derivative num / den, which a cotangent or tangent g is multiplied by as ``(g * num) / den``.

    The quotient alone may leave the range of floats where the product does not: in the second derivative of
    ``log(sum(exp(x)))`` at 400 it is 1 / e**800, and meets e**400 twice.
    """

    __slots__ = ("den", "num")
    __array_ufunc__ = None  # so that ``array * Ratio`` comes here

    def __init__(self, num, den):
        self.num, self.den = num, den

    def __rmul__(self, g):
        return g * self.num / self.den


class Over:
    """A partial derivative 1 / den, which a cotangent or tangent g is multiplied by as ``g / den``."""

    __slots__ = ("den",)
    __array_ufunc__ = None

    def __init__(self, den):
        self.den = den

    def __rmul__(self, g):
        return g / self.den


def divide_da(y, a, b):
    """d/da a/b = 1 / b: of a float16 beside a float64 not in half precision, nor that of a bool in double."""
    return 1 / b if b.__class__ is float or getattr(b, "dtype", DOUBLE) == DOUBLE else Over(b)


def divide_db(y, a, b):
    """d/db a/b = -y / b. What a cotangent is multiplied by first, y, makes it that of log b, as large as f itself."""
    if y.__class__ is float and b.__class__ is float:
        ratio = -y / b
        if 1e-290 < abs(ratio) < 1e290:
            return ratio
    return Ratio(-y, b)


@primitive
def over_length(a, b):
    """Return a / hypot(a, b), the sine or cosine of an angle; 0 at the tip of the cone.

    Its partial derivatives are products of such and 1 / hypot: nothing is squared that may overflow, and nothing
    cancels, at any order. At the tip they are infinite, so a second derivative, which does not exist, comes out as NaN
    and not as a finite number.
    """
    r = np.hypot(a, b)
    return a / (r + (r == 0))


def over_length_da(y, a, b):
    """d/da a / h = (b / h)**2 / h, with h = hypot(a, b)."""
    c = over_length(b, a)
    return c * (c / np.hypot(a, b))


def over_length_db(y, a, b):
    """d/db a / h = -(a / h) (b / h) / h, with h = hypot(a, b)."""
    return -y * (over_length(b, a) / np.hypot(a, b))


def quotient_or_zero(a, r):
    """Return a / r, and 0 where both are 0: 1 / r would overflow beside a tiny a."""
    return a / (r + (value(r) == 0))


@primitive
def reciprocal_or_zero(x):
    """Return 1 / x, and 0 where x is 0.

    For a derivative at a point of a cone's tip (hypot at 0), where 0 is the subgradient taken. Its own derivative there
    is infinite, so a second derivative, which does not exist, comes out as NaN and not as a finite number.
    """
    return np.divide(1, x + (x == 0)) * (x != 0)


def arctan2_partial(a, b):
    """Return a / (a**2 + b**2) without squaring: the squares of 1e200 overflow."""
    return quotient_or_zero(over_length(a, b), np.hypot(a, b))


def share(a, b, scale=1):
    """Return e**a / (e**a + e**b), for other bases than e with their logarithm as `scale`.

    Written as a sigmoid it is smooth where a equals b, and neither overflows nor cancels. Where both are the same
    infinity the sum is infinite whatever happens near by: 0.
    """
    d = a - b
    y = sigmoid(d if scale == 1 else scale * d)
    plain = value(d)
    if ordinary(plain):
        return y
    nan = plain != plain
    if nan if nan.__class__ is bool else nan.any():
        return choose(np.logical_not(nan & (value(a) == value(b))), y)
    return y


def bounded(y):
    """Return an exponential with its overflows as a huge float: 0 times it is 0, as it is of the finite truth.

    So ``1 / (1 + exp(-x))`` far in its tail has the derivative 0, and not 0 * inf. The bound is 2**-20 of the largest
    float, which leaves room for factors on the way in forward mode.
    """
    if ordinary(y):
        return y
    v = all_values(y)
    total = np.add.reduce(v, axis=None) if v.__class__ is np.ndarray else v  # finite if all entries are
    if total - total == 0 or v.__class__ is complex or v.dtype.kind == "c":
        return y
    limit = np.ldexp(np.finfo(v.dtype).max, -20)
    return np.clip(y, -limit, limit)


def reached(x):
    """Return the argument of a slowly growing function with infinities as NaN.

    After an overflow the slope 0 of a logarithm at infinity is not that of the finite truth: log(1 + exp(800)) has
    slope 1. The value comes out as inf, and the derivative as NaN: never as a plausible number.
    """
    if ordinary(x):
        return x
    v = all_values(x)
    total = np.add.reduce(v, axis=None) if v.__class__ is np.ndarray else v
    return x if total - total == 0 else np.where(np.isinf(value(x)), np.nan, x)


def arctan_dx(y, x):
    """1 / (1 + x**2); for complex x by factors, since the square of a huge one has no direction."""
    if spec_of(x).kind == "c":
        return 1 / (1 + 1j * x) / (1 - 1j * x)
    return 1 / (1 + x * x)


@primitive
def one_minus_square(x):
    """Return 1 - x**2 by its factors, exact near +-1; its derivative -2 x is exact near 0, where theirs cancel."""
    return (1 - x) * (1 + x)


def arc_root(x):
    """Return sqrt(1 - x**2), exact near +-1, and on the plane cut as arcsin is.

    On a cut the sign of a zero imaginary part tells the side; 1 - x and 1 + x would lose it.
    """
    if spec_of(x).kind == "c":
        return np.sqrt(-(x - 1)) * np.sqrt(x - -1)
    return np.sqrt(one_minus_square(x))


def arctanh_dx(y, x):
    """1 / (1 - x**2)."""
    return 1 / (1 - x) / (1 + x) if spec_of(x).kind == "c" else 1 / one_minus_square(x)


@primitive
def sech_squared(x):
    """Return 1 / cosh(x)**2 of real numbers, without overflow: 4 e / (1 + e)**2 with e = exp(-2 |x|)."""
    e = np.exp(-2 * abs(x))
    return 4 * e / ((1 + e) * (1 + e))


def tanh_dx(y, x):
    """1 - y**2; where that has lost two digits, 1 / cosh(x)**2 of real numbers."""
    d = 1 - y * y
    if ordinary(y):
        return d
    plain = all_values(d)
    least = plain if plain.__class__ is not np.ndarray else np.minimum.reduce(plain, axis=None, initial=1)
    return d if spec_of(x).kind == "c" or least > 0.01 else sech_squared(x)


def arcsinh_dx(y, x):
    """1 / sqrt(1 + x**2) without squaring; for complex x from y, which knows the side of a cut."""
    if spec_of(x).kind == "c":
        return 1 / np.cosh(y)
    return 1 / np.hypot(1, x)


# fmt: off
# -- arithmetic --------------------------------------------------------------------------------------------------------
elementwise(np.add,          lambda y, a, b: 1,                   lambda y, a, b: 1)
elementwise(np.subtract,     lambda y, a, b: 1,                   lambda y, a, b: -1)
elementwise(np.multiply,     lambda y, a, b: b,                   lambda y, a, b: a)
elementwise(np.divide,       divide_da,                           divide_db,
            domain=((-2, 2), (0.3, 2)))
elementwise(np.power,        power_da,                            power_db,        domain=((0.2, 3), (-2, 3)))
elementwise(np.float_power,  power_da,                            power_db,        domain=((0.2, 3), (-2, 3)))
elementwise(np.remainder,    lambda y, a, b: 1,                   lambda y, a, b: -np.floor_divide(a, b),
            domain=((3.1, 3.9), (1.2, 1.5)), complex=False)
elementwise(np.fmod,         lambda y, a, b: 1,                   lambda y, a, b: -np.rint((a - y) / b),
            domain=((-3.9, -3.1), (1.2, 1.5)), complex=False)
elementwise(np.negative,     lambda y, x: -1)
elementwise(np.positive,     lambda y, x: 1)
elementwise(np.square,       lambda y, x: 2 * x)
elementwise(np.reciprocal,   lambda y, x: -y * y,                 domain=(0.2, 4))
elementwise(np.sqrt,         lambda y, x: 0.5 / reached(y),       domain=(0.1, 4))
elementwise(np.cbrt,         lambda y, x: 1 / (3 * y * y),        domain=(0.1, 4), complex=False)
elementwise(np.fabs,         lambda y, x: np.sign(x),             domain=(0.1, 4), complex=False)
elementwise(np.hypot,        lambda y, a, b: over_length(a, b),   lambda y, a, b: over_length(b, a), complex=False)
elementwise(over_length,     over_length_da,                      over_length_db,  domain=(0.3, 2), complex=False)
elementwise(reciprocal_or_zero, lambda y, x: -1 / (x * x),        domain=(0.2, 3))

# -- exponentials and logarithms ---------------------------------------------------------------------------------------
elementwise(np.exp,          lambda y, x: bounded(y))
elementwise(np.exp2,         lambda y, x: bounded(y) * LN2)
elementwise(np.expm1,        lambda y, x: bounded(np.exp(x)))     # y + 1 would cancel far below 0
elementwise(np.log,          lambda y, x: 1 / reached(x),         domain=(0.1, 4))
elementwise(np.log2,         lambda y, x: 1 / (LN2 * reached(x)),  domain=(0.1, 4))
elementwise(np.log10,        lambda y, x: 1 / (LN10 * reached(x)), domain=(0.1, 4))
elementwise(np.log1p,        lambda y, x: 1 / (1 + reached(x)),   domain=(-0.8, 4))
elementwise(np.logaddexp,    lambda y, a, b: share(a, b), lambda y, a, b: share(b, a), complex=False)
elementwise(np.logaddexp2,   lambda y, a, b: share(a, b, LN2), lambda y, a, b: share(b, a, LN2),
            complex=False)

# -- trigonometric and hyperbolic --------------------------------------------------------------------------------------
elementwise(np.sin,          lambda y, x: np.cos(x))
elementwise(np.cos,          lambda y, x: -np.sin(x))
elementwise(np.tan,          lambda y, x: 1 + y * y,              domain=(-1.2, 1.2))
elementwise(np.arcsin,       lambda y, x: 1 / arc_root(x),        domain=(-0.9, 0.9))
elementwise(np.arccos,       lambda y, x: -1 / arc_root(x),       domain=(-0.9, 0.9))
elementwise(np.arctan,       arctan_dx)
elementwise(np.arctan2,      lambda y, a, b: arctan2_partial(b, a), lambda y, a, b: -arctan2_partial(a, b),
            domain=(0.5, 2), complex=False)
elementwise(np.sinh,         lambda y, x: bounded(np.cosh(x)))
elementwise(np.cosh,         lambda y, x: bounded(np.sinh(x)))
elementwise(np.tanh,         tanh_dx)
elementwise(sech_squared,    lambda y, x: -2 * np.tanh(x) * y,    complex=False)
elementwise(np.arcsinh,      arcsinh_dx)
elementwise(np.arccosh,      lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(x - -1)), domain=(1.2, 4))  # x + 1 loses -0j
elementwise(np.arctanh,      arctanh_dx,                          domain=(-0.9, 0.9))
elementwise(one_minus_square, lambda y, x: -2 * x)
elementwise(np.deg2rad,      lambda y, x: DEGREE,                 complex=False)
elementwise(np.radians,      lambda y, x: DEGREE,                 complex=False)
elementwise(np.rad2deg,      lambda y, x: 1 / DEGREE,             complex=False)
elementwise(np.degrees,      lambda y, x: 1 / DEGREE,             complex=False)

# -- parts of a floating-point number ----------------------------------------------------------------------------------
elementwise(np.copysign,     lambda y, a, b: np.copysign(np.sign(a), b) * np.sign(a), lambda y, a, b: 0,
            domain=(0.3, 2), complex=False)
elementwise(np.nextafter,    lambda y, a, b: 1,                   lambda y, a, b: 0, complex=False)
# fmt: on


@primitive
def fraction(x):
    """Return the fractional part, with the sign of x."""
    return np.modf(x)[0]


@primitive
def mantissa(x):
    """Return x scaled by a power of two into [0.5, 1)."""
    return np.frexp(x)[0]


@primitive
def scale_of(x):
    """Return the power of two that x was scaled by."""
    return np.ldexp(np.ones_like(x), -np.frexp(x)[1])


constant(scale_of)


def mantissa_dx(y, x):
    """The power of two that x was scaled by."""
    return scale_of(value(x))


elementwise(fraction, lambda y, x: 1, domain=(0.1, 0.9), complex=False)
elementwise(mantissa, mantissa_dx, domain=(1.1, 1.9), complex=False)


@composite(np.modf)
def modf(x, /):
    """Take the fractional part, which has derivative 1, from the integral one, which is constant."""
    return fraction(x), np.trunc(x)


@composite(np.frexp)
def frexp(x, /):
    """Take the mantissa, and the exponent, which is an integer."""
    return mantissa(x), np.frexp(value(x))[1]


@composite(np.divmod)
def divmod_(x1, x2, /):
    """Take the whole quotient, which is constant, and the remainder."""
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


linear(  # y = x * 2**i, and i an integer
    np.ldexp,
    lambda ybar, y, x, i=None: sum_to(np.ldexp(ybar, i), x.shape),
    bind=lambda x1, x2: ((x1,), {"i": value(x2)}),
    apply=lambda operands, params: np.ldexp(operands[0], params["i"]),
    complex=False,
)


# -- without a derivative, or with derivative zero ---------------------------------------------------------------------


# fmt: off
constant(np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.signbit, np.spacing)
constant(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
constant(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
constant(np.isfinite, np.isinf, np.isnan, np.isnat, np.isneginf, np.isposinf, np.iscomplex, np.isreal)
# of integers only, which carry no derivative; NumPy itself refuses floats
constant(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift, np.gcd, np.lcm)
constant(np.bitwise_count, *{np.round, np.around}, *{np.fix} - {np.trunc})  # which are aliases depends on NumPy
# fmt: on
