"""What the tables of special functions share."""

import math

import numpy as np

from chainrule.engine.boxed import all_values, array_value, ordinary
from chainrule.engine.rule import elementwise
from chainrule.engine.spec import fit, primitive, spec_of
from chainrule.errors import UnsupportedArgumentError

SQRT_PI = math.sqrt(math.pi)
SQRT_2 = math.sqrt(2)
SQRT_2PI = math.sqrt(2 * math.pi)


def fixed(name, argument):
    """Return a partial derivative that refuses: in a parameter in which a function has none in closed form."""

    def refuse(y, *xs):
        raise UnsupportedArgumentError(
            f"scipy.special.{name}",
            argument,
            "is a traced value, and there is no derivative in it",
            f"pass  chainrule.stop_gradient({argument})  there, if it is meant to be constant.",
        )

    return refuse


@primitive
def ratio_or_zero(a, b):
    """Return a / b, and 0 where a is 0, also for b = 0: the derivative of x log y in y.

    Its own derivatives are honest: that in a is infinite at b = 0.
    """
    return np.divide(a, b + ((a == 0) & (b == 0)))


@primitive
def log_ratio(a, b):
    """Return log(a / b) to all digits where a is close to b, and without overflow."""
    with np.errstate(all="ignore"):
        q = np.divide(a, b)
        near = (q > 0.5) & (q < 2)
        y = np.where(near, np.log1p(np.where(near, (a - b) / b, 0)), np.log(a) - np.log(b))
        return y.astype(np.result_type(a, b), copy=False)[()]  # the logarithm of a Python number has double precision


elementwise(ratio_or_zero, lambda y, a, b: 1 / b, lambda y, a, b: -ratio_or_zero(y, b), domain=((-2, 2), (0.3, 2)))
elementwise(log_ratio, lambda y, a, b: 1 / a, lambda y, a, b: -1 / b, domain=(0.3, 3), complex=False)


def doubled(x):
    """Return `x` in double precision, and the dtype of results: recurrences need digits to lose."""
    x = np.asarray(x)
    narrow = {"e": np.float32, "f": np.float32, "F": np.complex64}.get(x.dtype.char)
    if narrow is None:
        return x, x.dtype
    return x.astype(complex if x.dtype.kind == "c" else float), np.dtype(narrow)


def typed(partial, y):
    """Return a partial derivative in the dtype of y: some ufuncs of SciPy take Python's numbers for doubles."""
    return fit(partial, spec_of(y))


def masked(mask, a, b):
    """Return ``a()`` where `mask` holds and ``b()`` elsewhere, evaluating neither where no entry needs it."""
    if ordinary(mask):
        return np.where(mask, a(), b())
    known = np.asarray(all_values(mask))
    if known.all():
        return a()
    return np.where(mask, a(), b()) if known.any() else b()


def at(mask, x, other):
    """Return `x` where `mask` holds and the number `other` elsewhere, where the value will not be used."""
    if not ordinary(mask) and np.all(all_values(mask)):
        return x
    return np.where(mask, x, array_value(x).dtype.type(other))
