"""Dispatch: one call of a rule, from its operands as NumPy hands them over to its boxed results.

The call goes to the highest level among its operands: boxes of that level are opened by `Boxed.process`, what is lower
stands beside them as it is, and the rule is run on what is left, which may come here again. Before that the operands
are made fit (lists become arrays, arrays of foreign types are refused), and boxes in arguments that are no operands are
looked at. Interpreters use the functions at the end for what a call gave.
"""

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, holds_box, inexact, is_duck, keeper, known, refuse_foreign, value
from chainrule.errors import MixedLevelError, NotDifferentiableError, UnsupportedArgumentError

# Types whose values may stand beside a box as plain constants.
PLAIN = frozenset({bool, int, float, complex, np.ndarray, *(np.dtype(c).type for c in "?bBhHiIlLqQefdgFDG")})

FOREIGN = [0]  # how many operands of other types there were: what they do may be code of the user's


def as_operand(x, operands):
    """Return `x` as an operand; `NotImplemented` for a foreign type; raise for those known not to work."""
    kind = x.__class__
    if kind in PLAIN or isinstance(x, Boxed):
        return x
    if isinstance(x, list | tuple):
        return array_of(x)
    if isinstance(x, np.generic):
        return x
    FOREIGN[0] += not kind.__module__.startswith("chainrule.")
    refuse_foreign(kind)
    if isinstance(x, np.ndarray):
        for parent in kind.__mro__[:-1]:
            refuse_foreign(parent)
        return x.view(np.ndarray) if not hasattr(kind, "__array_ufunc__") else x
    if is_duck(kind, operands):
        return x
    if isinstance(x, int | float | complex) or x is None:
        return x
    if hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__") or not hasattr(kind, "__array__"):
        return NotImplemented
    return np.asarray(x)


def array_of(items):
    """Return a list or tuple of numbers and arrays as an array, traced if one of them is."""
    if not holds_box(items):
        return np.asarray(items)
    return np.stack([array_of(v) if isinstance(v, list | tuple) else v for v in items])


DATA = frozenset({"index", "where", "q"})  # arguments that are no operands and on which no shape depends


def settled(x):
    """Return an argument, of a call that is recorded, with the values of whole numbers: shapes may depend on them."""
    if x.__class__ is tuple or x.__class__ is list:
        return x.__class__([settled(v) for v in x])
    return known(x) if isinstance(x, Boxed) and x.recorded and x.dtype.kind in "iub" else x


def dispatch(rule, operands, params):
    """Run `rule` on `operands`, at least one of which should be boxed, at the highest level among them."""
    top = None
    level = 0
    mixed = plain = True
    for x in operands:
        if isinstance(x, Boxed):
            if top is None:
                top, level, mixed = x, x.level, False
            elif x.level != level:
                mixed = True
                if x.level > level:
                    top, level = x, x.level
            elif x.__class__ is not top.__class__:
                raise MixedLevelError()
        elif x.__class__ not in PLAIN:
            plain = False
    if params and any(isinstance(v, Boxed) or (v.__class__ is tuple and holds_box(v)) for v in params.values()):
        params = {k: v if k in DATA else settled(v) for k, v in params.items()}
    if top is None:
        top = keeper(params.values())
        if top is not None and top.recorded:
            return top.process(rule, top.level, operands, params)
        refuse_hidden(rule, params)
        return rule.apply(operands, params)
    for name in params:
        if isinstance(params[name], Boxed):
            refuse_hidden(rule, params)
    if not plain:
        given = operands
        operands = tuple([as_operand(x, operands) for x in operands])
        if any(x is NotImplemented for x in operands):
            return NotImplemented
        if any(isinstance(x, Boxed) and not isinstance(v, Boxed) for x, v in zip(operands, given, strict=True)):
            return dispatch(rule, operands, params)  # a list held traced values, of whatever level
    if mixed:
        operands = tuple([lowered(x, level) for x in operands])
    if _level.paused and not top.kept and _level.is_paused(level):
        y = rule.apply(tuple([x.data if isinstance(x, Boxed) and x.level == level else x for x in operands]), params)
        return map_outputs(top.constant, y)
    return top.process(rule, level, operands, params)


def lowered(x, level):
    """Return an operand as it may be kept: a lower box under a new name, since its holder may write to it."""
    if isinstance(x, Boxed):
        if not x.level:  # a Buffer: the array it holds
            return x.data
        _level.check_open(x.level)
        if x.level != level:
            return x.alias()
    return x


def refuse_hidden(rule, params):
    """Raise for a call that reached us because of a box in an argument that is not an operand."""
    for name, p in params.items():
        if isinstance(p, Boxed):
            plain = value(p)
            if getattr(plain, "recorded", False):
                continue
            if isinstance(plain, Boxed):  # of a batch: stops its run, since it differs from one to the other
                plain.item()
            raise UnsupportedArgumentError(
                rule.name,
                name,
                "is a traced value, and the function is not differentiated in it",
                "write the same with other functions;",
                "if it is meant to be constant, pass  chainrule.stop_gradient(...)  there.",
            )


def uncarried(rule, y):
    """Return a result that can't carry a derivative (integers, bools); one of objects or dates would lose it: raise."""
    dtype = getattr(y, "dtype", None)
    if dtype is not None and dtype.kind in "OmM":
        raise NotDifferentiableError(
            f"{rule.name} of a traced value gave an array of dtype {dtype}, which carries no derivative.",
            "use arrays of floats:  np.asarray(a, float).",
        )
    return y


def map_outputs(function, y):
    """Apply `function` to each output of a call that can carry a derivative; keep the tuple around several."""
    if isinstance(y, tuple):
        parts = [function(v) if inexact(v) else v for v in y]
        return type(y)(*parts) if hasattr(y, "_fields") else tuple(parts)
    if isinstance(y, list):
        return [function(v) if inexact(v) else v for v in y]
    return function(y) if inexact(y) else y
