"""Calls that compute entry by entry, as unrolled code: those of `chainrule.program.native.maps`, and a few others.

`SPECIAL` has those that read operands of more than one type, or parameters. A function here gets the writer (a
`chainrule.program.native.straight.Straight`) and the equation. Operators on Python's own numbers leave the kernel where
Python would raise an exception, or needs more than 64 bits.
"""

import math

import numpy as np

from chainrule.engine.spec import cast_to, choose
from chainrule.program.ir import PYTHON, Symbol
from chainrule.program.native import scalars
from chainrule.program.native.builder import constant, element_of, type_of
from chainrule.program.native.functions import AS_PYTHON
from chainrule.program.native.lanes import Lanes, single
from chainrule.program.native.maps import MAPS, computes_in
from chainrule.program.native.scalars import NotLowered
from chainrule.rules.choices import replaced
from chainrule.rules.scalars import number

WHOLE = {np.add: "sadd", np.subtract: "ssub", np.multiply: "smul"}  # operators that Python's integers may have
RAISING = frozenset({np.divide, np.power, np.remainder, np.floor_divide})


def elementwise(w, e, fun, how, s) -> Lanes:
    """Write a call that computes entry by entry."""
    kind = computes_in(fun, s.dtype, [dtype_of(x) for x in e.inputs])
    plain = s.dtype in PYTHON and fun in RAISING
    if plain:
        before_python(w, e, fun)
    out = type_of(s.dtype)
    y = w.mapped(how, e.inputs, [kind] * len(e.inputs), s.shape, s.dtype, None if kind == out else out)
    if plain and fun is np.power:
        x = single(w.b, y.refs[0])
        w.leave(scalars.logical_not(w.b, scalars.isfinite(w.b, x)), AS_PYTHON)
    return y


def whole(w, e, fun) -> Lanes:
    """Write an operator on Python's integers: leave where these need more than 64 bits."""
    b = w.b
    x, y = [w.wanted(v, "i64", (), False)[0] for v in e.inputs]
    both = b.call(f"llvm.{WHOLE[fun]}.with.overflow.i64", "{ i64, i1 }", x, y)
    w.leave(b.write("i1", f"extractvalue {both}, 1"), AS_PYTHON)
    return Lanes([(b.write("i64", f"extractvalue {both}, 0"), -1)], (), int)


def before_python(w, e, fun) -> None:
    """Leave where Python's operator raises an exception, or gives a complex number."""
    b = w.b
    x, y = [w.wanted(v, "double", (), False)[0] for v in e.inputs]
    zero = constant("double", 0.0)
    if fun is not np.power:
        w.leave(b.compare("oeq", y, zero), AS_PYTHON)
    elif not (e.inputs[1].__class__ in (int, float) and e.inputs[1] >= 0 and e.inputs[1] == int(e.inputs[1])):
        w.leave(b.compare("ule", x, zero), AS_PYTHON)


def dtype_of(x):
    """Return the dtype of an operand, Python's type for Python's numbers."""
    if x.__class__ is Symbol:
        return x.dtype
    if x.__class__ in PYTHON:
        return x.__class__
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype
    raise NotLowered


def kind_of(x) -> str:
    """Return the type of an operand's entries."""
    kind = type_of(dtype_of(x))
    if kind is None:
        raise NotLowered
    return kind


def select(w, e, s) -> Lanes:
    """Write np.where of three operands."""
    if e.params or len(e.inputs) != 3:
        raise NotLowered
    kind = type_of(s.dtype)
    return w.mapped(scalars.choice, e.inputs, [kind_of(e.inputs[0]), kind, kind], s.shape, s.dtype)


def chosen(w, e, s) -> Lanes:
    """Write `choose`."""
    mask, x = e.inputs
    kind = type_of(s.dtype)
    return w.mapped(lambda b, m, x: scalars.choice(b, m, x, scalars.like(x, 0)), [mask, x], [kind_of(mask), kind],
                    s.shape, s.dtype)  # fmt: skip


def cast(w, e, s) -> Lanes:
    """Write a cast."""
    kind_of(e.inputs[0])
    kind = type_of(s.dtype)
    have = w.lanes(e.inputs[0])
    if have.refs and element_of(have.refs[0][0].type) == kind:
        return Lanes(have.refs, have.shape, s.dtype)
    return w.mapped(lambda b, x: x, e.inputs, [kind], s.shape, s.dtype)


def clipped(w, e, s) -> Lanes:
    """Write np.clip."""
    x, *limits = e.inputs
    if e.params.keys() - {"a_min", "a_max", "min", "max"}:
        raise NotLowered
    low, high = [*limits, None, None][:2]
    low, high = e.params.get("a_min", e.params.get("min", low)), e.params.get("a_max", e.params.get("max", high))
    kind = type_of(s.dtype)
    y = w.mapped(lambda b, x: x, [x], [kind], s.shape, s.dtype)
    for limit, how in ((low, scalars.maximum), (high, scalars.minimum)):
        if limit is not None:
            t = Symbol("clipped", s.shape, s.dtype)
            w.values[t] = y
            y = w.mapped(how, [t, limit], [kind] * 2, s.shape, s.dtype)
    return y


def finite(w, e, s) -> Lanes:
    """Write `replaced`, which puts numbers in place of what is not finite."""
    kind = type_of(s.dtype)
    if kind not in scalars.FLOATS or e.params.keys() - {"nan", "posinf", "neginf"} or len(e.inputs) != 1:
        raise NotLowered
    limits = np.finfo(np.dtype(s.dtype))
    nan = e.params.get("nan", 0.0)
    high, low = e.params.get("posinf"), e.params.get("neginf")
    high, low = float(limits.max) if high is None else high, float(limits.min) if low is None else low
    if any(x.__class__ not in (int, float) for x in (nan, high, low)):
        raise NotLowered

    def how(b, x):
        y = b.select(scalars.isnan(b, x), scalars.like(x, nan), x)
        y = b.select(b.compare("oeq", x, scalars.like(x, math.inf)), scalars.like(x, high), y)
        return b.select(b.compare("oeq", x, scalars.like(x, -math.inf)), scalars.like(x, low), y)

    return w.mapped(how, e.inputs, [kind], s.shape, s.dtype)


def rounded(w, e, s) -> Lanes:
    """Write np.round to whole numbers."""
    if e.params.keys() - {"decimals"} or e.params.get("decimals", 0) != 0 or len(e.inputs) != 1:
        raise NotLowered
    return w.mapped(MAPS[np.rint], e.inputs, [type_of(s.dtype)], s.shape, s.dtype)


SPECIAL = {
    np.round: rounded, np.around: rounded,
    np.where: select, choose: chosen, cast_to: cast, float: cast, bool: cast, number: cast, np.clip: clipped,
    replaced: finite,
}  # fmt: skip
