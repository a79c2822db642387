"""ndarray's operators and methods on traced values: each is the NumPy function of the same meaning."""

import operator

import numpy as np

from chainrule.engine import elementwise, indexing
from chainrule.engine.boxed import CALL, Boxed, value
from chainrule.engine.rule import RULES
from chainrule.engine.spec import cast_to

# dunder name, its function, the expression on the values x and z one level down
BINARY = (
    ("add", np.add, "x + z"),
    ("sub", np.subtract, "x - z"),
    ("mul", np.multiply, "x * z"),
    ("truediv", np.divide, "x / z"),
    ("pow", np.power, "x ** z"),
)
UNARY = (("neg", np.negative, "-x"), ("pos", np.positive, "+x"))
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def install():
    """Put operators and methods on `Boxed`."""
    for name, fun, expr in BINARY:
        elementwise.install(Boxed, f"__{name}__", RULES[fun], expr)
        elementwise.install(Boxed, f"__r{name}__", RULES[fun], expr, swap=True)
        setattr(Boxed, f"__i{name}__", indexing.in_place(f"__{name}__", f"__i{name}__"))
    for name, fun, expr in UNARY:
        elementwise.install(Boxed, f"__{name}__", RULES[fun], expr)
    for name in COMPARISONS:
        setattr(Boxed, f"__{name}__", _comparison(getattr(operator, name)))
    Boxed.__getitem__ = indexing.read
    Boxed.__setitem__ = indexing.write


def _comparison(op):
    def compare(a, b):
        return op(value(a), value(b))

    return compare


install()
