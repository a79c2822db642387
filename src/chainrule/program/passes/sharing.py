"""Which functions return memory of their operands, and which make a fresh array.

In NumPy a slice, a transpose or a reshape shows the memory of its base. A function makes a fresh array unless it is
among `VIEWS`, or is no function of NumPy, SciPy or this library: what a user's function returns may be an operand, or
part of one. To say "may share" too often costs a chance to write in place, to say it too rarely would be wrong.
"""

from typing import Any

import numpy as np

from chainrule.engine.indexing import getitem
from chainrule.engine.rule import full_name
from chainrule.program.ir import Equation, Symbol

# fmt: off
VIEWS = {
    # shapes
    "numpy.reshape", "numpy.ravel", "numpy.transpose", "numpy.permute_dims", "numpy.swapaxes", "numpy.moveaxis",
    "numpy.rollaxis", "numpy.matrix_transpose", "numpy.linalg.matrix_transpose", "numpy.squeeze", "numpy.expand_dims",
    "numpy.atleast_1d", "numpy.atleast_2d", "numpy.atleast_3d",
    "numpy.flip", "numpy.fliplr", "numpy.flipud", "numpy.rot90",
    "numpy.broadcast_to", "numpy.broadcast_arrays", "numpy.meshgrid",
    # parts
    "numpy.diagonal", "numpy.linalg.diagonal", "numpy.diag", "numpy.split", "numpy.array_split", "numpy.hsplit",
    "numpy.vsplit", "numpy.dsplit", "numpy.unstack", "numpy.trim_zeros", "numpy.einsum",
    "numpy.lib.stride_tricks.sliding_window_view", "numpy.lib.stride_tricks.as_strided",
    "numpy.real", "numpy.imag", "numpy.real_if_close",
    # conversions that return what needs no conversion
    "numpy.asarray", "numpy.asanyarray", "numpy.ascontiguousarray", "numpy.asfortranarray", "numpy.require",
    "numpy.asarray_chkfinite", "numpy.array", "numpy.astype", "numpy.nan_to_num", "numpy.vander",
}
# fmt: on
OWN_VIEWS = {"getitem", "real_part", "imag_part", "sum_to", "diagonals"}  # of the engine and the rules
LIBRARIES = ("numpy", "scipy", "_operator")
_FRESH = {}  # function -> whether it always makes a new array


def may_share(e: Equation) -> bool:
    """Tell whether a result of a call may share memory with an operand."""
    if e.__class__ is not Equation:  # a loop: its results may be what it began with
        return True
    fun = e.rule.fun
    known = _FRESH.get(fun)
    if known is None:
        known = _FRESH[fun] = is_fresh(fun)
    return not known and not (fun is getitem and copies(e.params.get("index"), e.output))


def is_fresh(fun) -> bool:
    """Tell whether a function always makes a new array."""
    if isinstance(fun, np.ufunc):
        return not fun.__name__.endswith("(vectorized)")
    module = getattr(fun, "__module__", None) or ""
    if module.startswith(("chainrule.engine.", "chainrule.rules.")):
        return getattr(fun, "__name__", "") not in OWN_VIEWS
    return module.partition(".")[0] in LIBRARIES and full_name(fun) not in VIEWS


def copies(index: Any, y: Symbol) -> bool:
    """Tell whether a subscript copies: one with arrays or masks does, and one of integers takes a number out."""
    parts = index if index.__class__ is tuple else (index,)
    for p in parts:
        if p.__class__ is list or isinstance(p, np.ndarray | np.bool_ | bool):
            return True
        if p.__class__ is Symbol and p.shape:
            return True
    return not y.shape and all(isinstance(p, int | np.integer) or p.__class__ is Symbol for p in parts)


def is_array(s: Symbol) -> bool:
    """Tell whether a symbol stands for something with memory of its own: all but Python's numbers."""
    return s.dtype.__class__ is not type
