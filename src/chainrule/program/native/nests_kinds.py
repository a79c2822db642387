"""Which equations with code in loop nests are mapped entry by entry, and which are reductions.

Both are known by the function and its dtypes. `nests_handlers` finds the operands of such an equation's entries,
`nests_axes` the axes that loops go over.
"""

from typing import Any

import numpy as np

from chainrule.engine.spec import cast_to, choose, sum_to
from chainrule.program.backend.arrays import plain_sum, summed_axes
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import PYTHON, Equation, Symbol
from chainrule.program.native.builder import type_of
from chainrule.program.native.maps import computes_in, how_of
from chainrule.program.native.scalars import NotLowered

FOLDS = {np.sum: np.add, np.mean: np.add, np.prod: np.multiply, np.max: np.maximum, np.min: np.minimum,
         np.any: np.logical_or, np.all: np.logical_and, sum_to: np.add}  # fmt: skip
TRUTHS = {np.add, np.multiply, np.equal, np.not_equal, np.maximum, np.minimum, np.logical_not, np.logical_and,
          np.logical_or, np.logical_xor}  # fmt: skip
WHOLE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert}
ARITHMETIC = {np.add, np.subtract, np.multiply, np.negative, np.square, np.maximum, np.minimum, np.remainder,
              np.floor_divide, np.positive}  # fmt: skip


def is_elementwise(e) -> bool:
    """Tell whether an equation is an elementwise call that there is code for."""
    fun, s = function_of(e), e.output
    if s.__class__ is not Symbol or s.dtype in PYTHON or type_of(s.dtype) is None:
        return False
    if any(x.__class__ in (list, tuple, np.ndarray) for x in e.inputs):
        return False
    if any(x is not None and x.__class__ is not Symbol and x.__class__ not in PYTHON and not isinstance(x, np.generic)
           for x in e.inputs):  # fmt: skip
        return False
    if any(x.__class__ is Symbol and x.dtype is not None and type_of(x.dtype) is None for x in e.inputs):
        return False
    if fun is cast_to:
        return True
    if e.params:
        return False
    if fun in (np.where, choose):
        return len(e.inputs) == (3 if fun is np.where else 2)
    if fun is np.clip:
        return type_of(s.dtype) in ("double", "float")
    if how_of(fun) is None or any(x is None for x in e.inputs):
        return False
    try:
        kind = computes_in(fun, s.dtype, [dtype_of(x) for x in e.inputs])
    except (NotLowered, TypeError, ValueError, OverflowError):
        return False
    if kind in ("double", "float"):
        return fun not in WHOLE
    if fun in WHOLE or fun in (np.absolute, np.sign) or (kind != "i1" and fun in ARITHMETIC):
        return True
    return (kind == "i1" and fun in TRUTHS) or (kind != "i1" and type_of(s.dtype) == "i1")


def dtype_of(x) -> Any:
    """Return the dtype of an operand; of a Python number its type."""
    if x.__class__ is Symbol:
        return x.dtype
    return x.dtype if isinstance(x, np.generic) else x.__class__


def folded(e):
    """Return (axes, whether they are kept as axes of length 1) of a reduction; None of anything else."""
    fun = function_of(e)
    if e.__class__ is not Equation or fun not in FOLDS or not e.inputs:
        return None
    x = e.inputs[0]
    if x.__class__ is not Symbol or not x.shape or e.output.__class__ is not Symbol or type_of(x.dtype) is None:
        return None
    if type_of(e.output.dtype) is None or e.output.dtype in PYTHON:
        return None
    if fun is sum_to:
        return summed_axes(x, e.output.shape) if x.dtype.kind == "f" and x.shape != e.output.shape else None
    truths = fun in (np.any, np.all)
    if truths and x.dtype.kind != "b":
        return None
    if truths or (fun is np.sum and x.dtype.kind in "bi" and e.output.dtype == np.int64):
        if not e.params.keys() <= {"axis", "keepdims", "dtype"} or len(e.inputs) != 1:
            return None
        if e.params.get("dtype") is not None and np.dtype(e.params["dtype"]) != e.output.dtype:
            return None
        axis = e.params.get("axis")
        axes = range(len(x.shape)) if axis is None else axis if axis.__class__ is tuple else (axis,)
        return tuple(sorted(int(a) % len(x.shape) for a in axes)), bool(e.params.get("keepdims", False))
    if x.dtype.kind != "f":
        return None
    return plain_sum(e, x)
