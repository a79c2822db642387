"""Python's `math` on traced values: each function is NumPy's of the same meaning.

The plain function runs first, on the plain value: so ``math.sqrt(-1.0)`` raises its ValueError and ``math.exp(1e3)``
its OverflowError, as in a run without derivatives. The result is a Python number, weak beside arrays, as `math`'s are.
"""

import functools
import math

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.buffer import Buffer
from chainrule.rules.creation import is_traced
from chainrule.rules.scalars import number


def as_number(x):
    """Return a traced value as a number; lists of them too."""
    if x.__class__ in (list, tuple):
        return [as_number(v) for v in x]
    if x.__class__ is Buffer:
        return x.data
    if not isinstance(x, Boxed) or value(x).__class__ is float:
        return x
    return number(x)


OF_SEQUENCES = frozenset({"dist", "fsum", "prod", "sumprod"})


def values(x):
    """Return the plain value of `x`; lists of them too."""
    return [values(v) for v in x] if x.__class__ in (list, tuple) else value(x)


def traced_as(name, function):
    """Return ``math.name`` that runs `function` on traced numbers, or on sequences of them."""
    original = getattr(math, name)
    convert = (lambda x: x if isinstance(x, Boxed) and x.shape else as_number(x)) if name in OF_SEQUENCES else as_number

    @functools.wraps(original)
    def call(*args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], Boxed):
            xs = args
        else:
            xs = tuple([list(a) if hasattr(a, "__next__") or a.__class__ in (range, map) else a for a in args])
            if not (is_traced(xs) or is_traced(tuple(kwargs.values()))):
                return original(*xs, **kwargs)
        plain = original(*[values(x) for x in xs], **{k: values(v) for k, v in kwargs.items()})
        if function is None:
            return plain
        return function(*[convert(x) for x in xs], **kwargs)

    return call


def weak(function):
    """Return NumPy's function with its result as a Python number."""
    return lambda *xs, **keywords: as_number(function(*xs, **keywords))


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
NUMPY = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "degrees": np.degrees, "dist": dist, "erf": special("erf"), "erfc": special("erfc"), "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.absolute, "fma": fma, "fmod": np.fmod, "fsum": fsum,
    "gamma": special("gamma"), "hypot": hypot, "ldexp": np.ldexp,
    "lgamma": special("gammaln"), "log": log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "nextafter": np.nextafter, "pow": np.power, "prod": prod, "radians": np.radians, "remainder": remainder,
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "sumprod": sumprod, "tan": np.tan, "tanh": np.tanh,
}
CONSTANT = ("isclose", "isfinite", "isinf", "isnan")
TABLE = {
    **{name: traced_as(name, weak(f)) for name, f in NUMPY.items() if hasattr(math, name)},
    **{name: traced_as(name, None) for name in CONSTANT},
    "frexp": traced_as("frexp", frexp), "modf": traced_as("modf", modf),
}
# fmt: on
