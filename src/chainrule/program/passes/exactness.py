"""When one value may stand for another, so that every result has the same bits.

It must have the same entries, shape and dtype, and be a Python number, a NumPy scalar or an array as the other is. How
an array lies in memory matters as well: some of NumPy's loops round otherwise on arrays with gaps, and sums are taken
in the order in which the axes are stored. So a slice or an input stands for a copy of itself only where its readers
can't tell.
"""

import operator

import numpy as np

from chainrule.engine.indexing import getitem, put, scatter
from chainrule.engine.spec import cast_to, choose, spread_to
from chainrule.program.ir import Equation, Guard, Program, Symbol
from chainrule.program.passes.sweep import alike, reads

# functions whose results do not depend on how their operands lie in memory, but for the order of axes
BLIND = {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.sqrt, np.square, np.maximum,
    np.minimum, np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.where, scatter, put,
    spread_to, cast_to, choose, operator.gt, operator.ge, operator.lt, operator.le, operator.eq, operator.ne,
}  # fmt: skip


def sensitive(program: Program) -> set:
    """Return the symbols that are read by a function whose result may depend on gaps in memory."""
    found = []
    for e in program.equations:
        if e.__class__ is Guard or (e.__class__ is Equation and e.rule.fun in BLIND):
            continue
        reads(e, found)
    return set(found)


def stands_for(sweep, x, e):
    """Return ``(x,)`` if `x` may stand for the elementwise result of `e` that has its values; None otherwise.

    It must have the dtype, be a number if that is one (a 0-d array is none), and lie in memory as that does, or where
    that can't be told.
    """
    y = e.output
    if x.__class__ is not Symbol or not alike(x, y):
        return None
    if not x.shape:
        return (x,) if is_number(sweep, x) else None
    return (x,) if y not in sweep.sensitive or sweep.fresh(x) else None


def is_number(sweep, x):
    """Tell whether a symbol of no shape is a number for sure, and no 0-d array."""
    if x.dtype.__class__ is type:
        return True
    e = sweep.made.get(x)
    if e is None:
        return False
    fun = e.rule.fun
    if fun is getitem:  # with a number for each axis
        index = e.params["index"]
        return all(i.__class__ is int for i in index) if index.__class__ is tuple else index.__class__ is int
    return (isinstance(fun, np.ufunc) and fun.nout == 1) or fun in (np.sum, np.mean)


def floats(*xs):
    """Tell whether all of these are real floats, Python's too, or numbers that become such."""
    for x in xs:
        if x.__class__ is Symbol:
            if x.dtype is not float and getattr(x.dtype, "kind", "") != "f":
                return False
        elif not number(x):
            return False
    return True


def number(x):
    """Tell whether `x` is a real number, and no symbol: Python's int and float, NumPy's floats."""
    return x.__class__ is float or x.__class__ is int or isinstance(x, np.floating)
