"""Derivative rules of the elementwise functions.

Each line: a function, then its partial derivative in each input, given the output y and the inputs. Prefer y where
it is cheaper or more exact. ``domain`` is where the rule holds; the tests draw their inputs from it.
"""

import numpy as np

from chainrule.engine.rule import constant, elementwise


def power_da(y, a, b):
    """d/da a**b = b a**(b-1): right to every order at 0, since a zero exponent asks for no power below 0."""
    e = b - (b != 0)
    if a.__class__ is float and a < 0:  # Python's float would give a complex number
        a = np.float64(a)
    return b * a**e


def power_db(y, a, b):
    """d/db a**b = a**b log a; its limit 0 at a = 0, b > 0."""
    zero = a == 0
    return y * np.log(a + zero)


# fmt: off
elementwise(np.add,      lambda y, a, b: 1,                 lambda y, a, b: 1)
elementwise(np.subtract, lambda y, a, b: 1,                 lambda y, a, b: -1)
elementwise(np.multiply, lambda y, a, b: b,                 lambda y, a, b: a)
elementwise(np.divide,   lambda y, a, b: 1 / b,             lambda y, a, b: -y / b)
elementwise(np.power,    power_da,                          power_db,                     domain=((0.2, 3), (-2, 3)))
elementwise(np.negative, lambda y, x: -1)
elementwise(np.positive, lambda y, x: 1)
elementwise(np.exp,      lambda y, x: y)
elementwise(np.log,      lambda y, x: 1 / x,                                              domain=(0.1, 4))
elementwise(np.sin,      lambda y, x: np.cos(x))
elementwise(np.cos,      lambda y, x: -np.sin(x))
elementwise(np.tanh,     lambda y, x: 1 - y * y)
elementwise(np.sqrt,     lambda y, x: 0.5 / y,                                            domain=(0.1, 4))
elementwise(np.square,   lambda y, x: 2 * x)
elementwise(np.reciprocal, lambda y, x: -y * y,                                           domain=(0.2, 4))
constant(np.floor, np.ceil, np.trunc, np.rint, np.sign, np.signbit)
constant(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
constant(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
constant(np.isfinite, np.isinf, np.isnan)
# fmt: on
