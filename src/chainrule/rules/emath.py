"""`numpy.emath`: where a real argument lies outside a function's domain, the complex function is taken.

Which of the two is read off the values. The derivative is that of the function taken.
"""

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.rule import composite
from chainrule.rules.differences import as_array


def below_zero(x):
    """Tell whether some real entry is negative."""
    return np.any(np.isreal(x) & (x < 0))


def beyond_one(x):
    """Tell whether some real entry is larger than 1 in modulus."""
    return np.any(np.isreal(x) & (np.abs(x) > 1))


def widened(x, outside):
    """Return `x`, as complex numbers if some entry lies outside the domain."""
    x = as_array(x)
    if x.dtype.kind == "c" or not outside(value(x)):
        return x
    return x.astype(np.complex64 if x.dtype in (np.float32, np.int8, np.int16) else np.complex128)


def _declare(fun, same, outside):
    @composite(fun)
    def call(x):
        return same(widened(x, outside))

    call.__name__ = call.__qualname__ = fun.__name__
    call.__doc__ = f"Take `numpy.{same.__name__}`, of real or of complex numbers."


for _name, _outside in (
    ("sqrt", below_zero), ("log", below_zero), ("log10", below_zero), ("log2", below_zero),
    ("arccos", beyond_one), ("arcsin", beyond_one), ("arctanh", beyond_one),
):  # fmt: skip
    _declare(getattr(np.emath, _name), getattr(np, _name), _outside)


@composite(np.emath.logn)
def logn(n, x):
    """Divide two logarithms."""
    return np.log(widened(x, below_zero)) / np.log(widened(n, below_zero))


@composite(np.emath.power)
def power(x, p):
    """Raise to a power; negative whole exponents are floats."""
    p = as_array(p)
    return np.power(widened(x, below_zero), p * 1.0 if below_zero(value(p)) else p)
