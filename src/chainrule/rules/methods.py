"""Python's operators and number protocol on traced values: each is the NumPy function of the same meaning.

Differentiable operators are built by the engine from the rules. Comparisons, quotients rounded down and what Python's
own functions ask for (`round`, `math.floor`) have no derivative, and give plain values.
"""

import math
import operator

import numpy as np

from chainrule.engine import batched, elementwise, indexing, writes
from chainrule.engine.boxed import CALL, Boxed, all_values, keeper, value
from chainrule.engine.dispatch import as_operand
from chainrule.engine.rule import RULES
from chainrule.rules.scalars import number

# dunder name, its function, the expression on the values x and z one level down
BINARY = (
    ("add", np.add, "x + z"),
    ("sub", np.subtract, "x - z"),
    ("mul", np.multiply, "x * z"),
    ("truediv", np.divide, "x / z"),
    ("mod", np.remainder, "x % z"),
    ("pow", np.power, "x ** z"),
)
UNARY = (("neg", np.negative, "-x"), ("pos", np.positive, "+x"), ("abs", np.absolute, "abs(x)"))
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
INTEGERS = ("and", "or", "xor", "lshift", "rshift")  # NumPy's own TypeError for floats tells what is wrong


def on_values(function, *operands):
    """Apply a function of Python to plain values; to those of a batch, or of a program, as these do it."""
    xs = [value(x) for x in operands]
    top = keeper(xs)
    return function(*xs) if top is None else top.__class__.run_constant(function, xs, {}, top.level)


def constant_operator(op):
    """Return an operator without derivative, and its reflection: it is applied to the plain values."""

    def plain(a, b):
        b = as_operand(b, (a,))
        return NotImplemented if b is NotImplemented else on_values(op, a, b)

    def reflected(a, b):
        b = as_operand(b, (a,))
        return NotImplemented if b is NotImplemented else on_values(op, b, a)

    return plain, reflected


def comparison(op):
    """Return a comparison: plain bools. With what is no number it goes as NumPy's."""

    def compare(a, b):
        if b is None or isinstance(b, str | bytes):
            return op(value(a), b)
        b = as_operand(b, (a,))
        return NotImplemented if b is NotImplemented else on_values(op, a, b)

    return compare


def divmod_(a, b):
    """Return the quotient rounded down, a constant, and the remainder."""
    quotient = Boxed.__floordiv__(a, b)
    return NotImplemented if quotient is NotImplemented else (quotient, a % b)


def rdivmod(a, b):
    """Return ``divmod(b, a)``."""
    quotient = Boxed.__rfloordiv__(a, b)
    return NotImplemented if quotient is NotImplemented else (quotient, b % a)


def ifloordiv(a, b):
    """Do ``a //= b``: on an array all its names see it; the result depends on nothing."""
    y = Boxed.__floordiv__(a, b)
    if y is NotImplemented or not a.shape:
        return y
    writes.write(a, Ellipsis, y)
    return a


def contains(a, b):
    """Tell whether some entry equals `b`, as ``b in array`` does."""
    return bool(np.any(value(a) == value(b)))


def of_value(function):
    """Return a function of Python's number protocol, applied to the plain value: its result is a plain integer."""
    return lambda a, *digits: on_values(function, a, *digits)


def conjugate(a):
    """Return the box itself for a real array, whose conjugate ndarray's method does not copy.

    The method of a Python number gives one, which is weak.
    """
    if a.dtype.kind != "c":
        return a
    y = np.conjugate(a)
    return number(y) if all_values(a).__class__ is complex else y


def set_real(x, v):
    """Write the real part."""
    writes.write(np.real(x), Ellipsis, v)


def set_imag(x, v):
    """Write the imaginary part."""
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    writes.write(np.imag(x), Ellipsis, v)


def install():
    """Put operators and methods on `Boxed`."""
    for name, fun, expr in BINARY:
        elementwise.install(Boxed, f"__{name}__", RULES[fun], expr)
        elementwise.install(Boxed, f"__r{name}__", RULES[fun], expr, swap=True)
        setattr(Boxed, f"__i{name}__", writes.in_place(f"__{name}__", f"__i{name}__"))
    for name, fun, expr in UNARY:
        elementwise.install(Boxed, f"__{name}__", RULES[fun], expr)
    batched.OPERATORS.update([operator.invert, *[getattr(operator, name) for name in COMPARISONS]])
    for name in COMPARISONS:
        setattr(Boxed, f"__{name}__", comparison(getattr(operator, name)))
    for name in ("floordiv", *INTEGERS):
        op = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        batched.OPERATORS.add(op)
        plain, reflected = constant_operator(op)
        setattr(Boxed, f"__{name}__", plain)
        setattr(Boxed, f"__r{name}__", reflected)
    Boxed.__ifloordiv__ = ifloordiv
    Boxed.__invert__ = of_value(operator.invert)
    Boxed.__divmod__, Boxed.__rdivmod__ = divmod_, rdivmod
    Boxed.__contains__ = contains
    for name, function in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round)):
        setattr(Boxed, f"__{name}__", of_value(function))
    Boxed.real = property(CALL[np.real], set_real, doc="The real part.")
    Boxed.imag = property(CALL[np.imag], set_imag, doc="The imaginary part.")
    Boxed.conj = Boxed.conjugate = conjugate
    Boxed.__getitem__ = indexing.read
    Boxed.__setitem__ = writes.write


install()
