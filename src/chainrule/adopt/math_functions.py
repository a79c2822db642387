"""Python's `math` on traced values: each function is NumPy's of the same meaning.

The plain function runs first, on the plain value: so ``math.sqrt(-1.0)`` raises its ValueError and ``math.exp(1e3)``
its OverflowError, as in a run without derivatives. The result is a Python number, weak beside arrays, as `math`'s are.
"""

import functools
import math

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.buffer import Buffer
from chainrule.engine.dispatch import PLAIN
from chainrule.rules.creation import is_traced
from chainrule.rules.scalars import number


def as_number(x):
    """Return a traced value as a Python number."""
    if x.__class__ is Buffer:
        return x.data
    return number(x) if isinstance(x, Boxed) and value(x).__class__ is not float else x


def as_operand(x):
    """Return a traced value as `math` takes it: a number of double precision."""
    return x if isinstance(x, Boxed) and value(x).__class__ is np.float64 else as_number(x)


def is_constant(x):
    """Tell whether `x` is untraced; a buffer is, too."""
    return not isinstance(x, Boxed) or x.__class__ is Buffer


def of_numbers(name, function):
    """Return ``math.name`` that runs `function` on traced numbers; None if it has no derivative."""
    original = getattr(math, name)

    @functools.wraps(original)
    def call(*args, **kwargs):
        for x in args:
            if x.__class__ not in PLAIN and isinstance(x, Boxed):
                break
        else:
            return original(*args, **{k: value(v) for k, v in kwargs.items()}) if kwargs else original(*args)
        y = original(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
        if function is None or all(map(is_constant, args)):
            return y
        return function(*map(as_operand, args))

    return call


def of_sequences(name, function):
    """Return ``math.name`` that runs `function` on sequences of traced numbers, or on traced arrays."""
    original = getattr(math, name)

    @functools.wraps(original)
    def call(*args, **kwargs):
        xs = [a if isinstance(a, Boxed) or not hasattr(a, "__iter__") else list(a) for a in args]
        y = original(*map(values, xs), **{k: value(v) for k, v in kwargs.items()})
        return as_number(function(*xs, **kwargs)) if is_traced([*xs, *kwargs.values()]) else y

    return call


def values(x):
    """Return the plain value of a number, an array, or a list of numbers."""
    return list(map(value, x)) if x.__class__ is list else value(x)


def weak(function):
    """Return NumPy's function with its result as a Python number."""
    return lambda *xs: as_number(function(*xs))


def log(x, base=None):
    """Return the logarithm, natural or to a base."""
    return np.log(x) if base is None else np.log(x) / np.log(base)


def hypot(*xs):
    """Return the Euclidean norm of the coordinates."""
    return np.hypot(*xs) if len(xs) == 2 else np.linalg.norm(listed(xs))


def dist(p, q):
    """Return the distance of two points."""
    return np.linalg.norm(np.subtract(listed(p), listed(q)))


def listed(xs):
    """Return a sequence of numbers, traced or not, as an array."""
    if isinstance(xs, Boxed):
        return xs
    return np.stack(list(xs)) if is_traced(list(xs)) else np.asarray(xs, float)


def fsum(xs):
    """Return the sum; its value is the exactly rounded one of `math.fsum`."""
    y = np.sum(listed(xs))
    return y + (math.fsum(value(v) for v in xs) - value(y)) if np.isfinite(value(y)) else y


def prod(xs, *, start=1):
    """Return the product."""
    return np.prod(listed(xs)) * start


def sumprod(p, q):
    """Return the sum of products."""
    return np.sum(np.multiply(listed(p), listed(q)))


def remainder(x, y):
    """Return ``x - n y`` with the integer `n` nearest to ``x / y``."""
    n = round((value(x) - math.remainder(value(x), value(y))) / value(y)) if math.isfinite(value(y)) else 0
    return x - n * y if n else x + 0.0


def modf(x):
    """Return the fractional part, which varies as `x`, and the integral part, which is constant."""
    _, whole = math.modf(value(x))
    return x - whole if math.isfinite(whole) else x * 0.0, whole


def frexp(x):
    """Return mantissa and exponent; the exponent is constant."""
    _, e = math.frexp(value(x))
    return as_number(np.ldexp(x, -e)), e


def fma(x, y, z):
    """Return ``x * y + z``."""
    return x * y + z


def special(name):
    """Return a function that SciPy has, as a ufunc."""

    def function(x):
        import scipy.special

        return getattr(scipy.special, name)(x)

    return function


# fmt: off
NUMBERS = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "degrees": np.degrees, "erf": special("erf"), "erfc": special("erfc"), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "fabs": np.absolute, "fma": fma, "fmod": np.fmod, "gamma": special("gamma"), "hypot": hypot,
    "ldexp": np.ldexp, "lgamma": special("gammaln"), "log": log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "nextafter": np.nextafter, "pow": np.power, "radians": np.radians, "remainder": remainder, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}
PAIRS = {"frexp": frexp, "modf": modf}
SEQUENCES = {"dist": dist, "fsum": fsum, "prod": prod, "sumprod": sumprod}
CONSTANT = ("isclose", "isfinite", "isinf", "isnan")
TABLE = {
    **{name: of_numbers(name, weak(f)) for name, f in NUMBERS.items() if hasattr(math, name)},
    **{name: of_numbers(name, f) for name, f in PAIRS.items()},
    **{name: of_sequences(name, f) for name, f in SEQUENCES.items() if hasattr(math, name)},
    **{name: of_numbers(name, None) for name in CONSTANT},
}
# fmt: on
