"""Constants: what depends on no input is computed once, and arrays of one number are written as that number.

A call on numbers gives a number, or a small array (of at most 1 kB). Captured arrays are read only if their values are
known to stay (`Program.fixed`: copies that the recording made). A captured array that is referred to may be
overwritten between two runs.

An array that holds one number throughout, such as a seed of ones times 2.0, is that number in a sum, difference,
product or quotient with an array of the same shape and dtype: Python's numbers are weak, so the dtype stays. A guard on
something that is constant goes, if it holds (`Sweep.guard`).
"""

import math

import numpy as np

from chainrule.program.ir import Equation, Program, Symbol, applied, replaced
from chainrule.program.passes.sweep import Sweep, alike, reads, several

SMALL = 1024  # bytes of an array that may be kept as a result
ARITHMETIC = {np.add, np.subtract, np.multiply, np.divide}
LIBRARIES = ("numpy", "scipy", "chainrule", "_operator")


def folding(program: Program) -> Program:
    """Return the program without calls on constants."""
    numbers = {}
    for s in program.fixed:
        v = number_in(program.constants[s])
        if v is not None:
            numbers[s] = v

    def rewrite(e, sweep):
        found = []
        reads(e, found)
        for s in found:
            if s not in sweep.fixed:
                return with_number(e, numbers, sweep) if numbers else e
        return folded(e, sweep)

    return Sweep(program).run(rewrite)


def folded(e: Equation, sweep: Sweep):
    """Return what the outputs of a call on constants are; the equation itself if that can't be told or is too large."""
    if not known_pure(e.rule.fun):
        return e
    try:
        with np.errstate(all="ignore"):
            xs, params = replaced(e.inputs, sweep.constants), replaced(e.params, sweep.constants)
            ys = applied(e.rule, xs, params)
    except Exception:  # the run shall raise it
        return e
    outputs = several(e.output)
    ys = tuple(ys) if e.output.__class__ is tuple else (ys,)
    for s, y in zip(outputs, ys, strict=True):
        if s is not None and getattr(y, "nbytes", 0) > SMALL:
            return e
    return tuple([
        None if s is None else sweep.constant(y) if isinstance(y, np.ndarray) else y
        for s, y in zip(outputs, ys, strict=True)
    ])  # fmt: skip


def known_pure(fun) -> bool:
    """Tell whether a function is one of a library's: the user's may be called for what else they do."""
    module = "numpy" if isinstance(fun, np.ufunc) else getattr(fun, "__module__", None) or ""
    return module.partition(".")[0] in LIBRARIES and not getattr(fun, "__name__", "").endswith("(vectorized)")


def number_in(c: np.ndarray) -> float | None:
    """Return the number that a constant of floats holds throughout, -0.0 and 0.0 told apart; None if there is none."""
    if c.dtype.kind != "f" or c.dtype.itemsize > 8 or not c.size or not c.shape:
        return None
    first = float(c.flat[0])
    if first != c.flat[-1] or not (c == first).all() or not (np.signbit(c) == (math.copysign(1.0, first) < 0)).all():
        return None
    return first


def with_number(e: Equation, numbers: dict, sweep: Sweep) -> Equation:
    """Return an arithmetic call with a number for a constant array that holds it throughout.

    The other operand must be stored by rows, as the result then is either way.
    """
    if e.rule.fun not in ARITHMETIC or len(e.inputs) != 2 or e.params:
        return e
    a, b = e.inputs
    if a.__class__ is not Symbol or b.__class__ is not Symbol:
        return e
    y = e.output
    for c, other in ((a, b), (b, a)):
        if c in numbers and alike(other, y) and y.dtype == c.dtype and sweep.by_rows(other):
            number = numbers[c]
            inputs = (number, b) if c is a else (a, number)
            return Equation(e.rule, inputs, e.params, y, e.value, e.place)
    return e
