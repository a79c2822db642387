"""Derivative rules of functions that take each entry from one of their operands: maximum, where, clip and their like.

An operand has derivative 1 where it is taken, and an exact zero elsewhere, even where its own derivative is infinite or
NaN: `select` rules hand on the mask. Operands that tie share equally; on the borders of `clip` the clipped value is x.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, array_value, known, ordinary, value
from chainrule.engine.rule import composite, select
from chainrule.engine.spec import cast_to, primitive, shape_of, spec_of
from chainrule.errors import OutArgumentError, UnsupportedArgumentError
from chainrule.rules.shapes import by_rows

# -- the larger and the smaller of two ---------------------------------------------------------------------------------


def shares(first, second, tie):
    """Return the weights of two operands; where they tie each has one half."""
    if np.any(tie):
        half = np.where(tie, 0.5, 0.0)
        return first + half, second + half
    return first, second


def is_nan(x):
    """Tell where x is NaN: where it differs from itself."""
    return np.asarray(x != x)


def decided(first, second):
    """Tell whether each entry is taken from one of two operands: no tie, no NaN."""
    either = first | second
    return either if either.__class__ is bool else either.all()


def halves(first, second):
    """Return the weights of two operands that may both be taken, whether any are or not: for a program."""
    return np.where(first & second, 0.5, first), np.where(first & second, 0.5, second)


def nan_first(first, second, a, b):
    """Return the weights of two operands of which a NaN is taken before all."""
    if ordinary(first) or ordinary(second):
        return halves(first | (a == b) | (a != a), second | (a == b) | (b != b))
    if decided(first, second):
        return first, second
    p, q = is_nan(a), is_nan(b)
    return shares(first | (p & np.logical_not(q)), second | (q & np.logical_not(p)), np.asarray(a == b) | (p & q))


def nan_last(first, second, a, b):
    """Return the weights of two operands of which a NaN is taken only beside another."""
    if ordinary(first) or ordinary(second):
        return halves(first | (a == b) | (b != b), second | (a == b) | (a != a))
    if decided(first, second):
        return first, second
    p, q = is_nan(a), is_nan(b)
    return shares(first | (q & np.logical_not(p)), second | (p & np.logical_not(q)), np.asarray(a == b) | (p & q))


def ordered(x):
    """Return a plain value that can be compared: NumPy orders complex numbers, Python does not."""
    x = value(x)
    return np.complex128(x) if x.__class__ is complex else x


def larger(complete):
    """Return the weights of a maximum."""

    def weights(y, a, b):
        a, b = ordered(a), ordered(b)
        return complete(a > b, a < b, a, b)

    return weights


def smaller(complete):
    """Return the weights of a minimum."""

    def weights(y, a, b):
        a, b = ordered(a), ordered(b)
        return complete(a < b, a > b, a, b)

    return weights


select(np.maximum, larger(nan_first), nin=2)
select(np.minimum, smaller(nan_first), nin=2)
select(np.fmax, larger(nan_last), nin=2)
select(np.fmin, smaller(nan_last), nin=2)
# A step is constant but for the value at 0, which is its second operand.
select(np.heaviside, lambda y, x, h: (np.False_, value(x) == 0), nin=2, complex=False)


# -- where and its like ------------------------------------------------------------------------------------------------


def condition_of(x):
    """Return a condition as plain bools."""
    x = value(x)
    if isinstance(x, Boxed):  # of a batch
        return x if x.dtype.kind == "b" else x != 0
    plain = x.__class__ is np.bool_ or (x.__class__ is np.ndarray and x.dtype.kind == "b")
    return x if plain else np.asarray(x, bool)


def bind_where(condition, *branches):
    """Take the condition as a constant; without branches it gives the places where it holds, a number that varies."""
    return (condition_of(condition), *branches) if branches else (known(condition_of(condition)),), {}


select(np.where, lambda y, condition, a, b: (None, condition, np.logical_not(condition)), nin=3, bind=bind_where)


@composite(np.select)
def select_(condlist, choicelist, default=0):
    """Take the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    masks = [value(c) for c in condlist]
    for k, m in enumerate(masks):
        if array_value(m).dtype.kind != "b":
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    operands = [c if isinstance(c, Boxed | int | float | complex) else np.asarray(c) for c in (*choicelist, default)]
    dtype = np.result_type(*[weak(c) for c in operands])
    y = operands[-1]
    for m, c in zip(reversed(masks), reversed(operands[:-1]), strict=True):
        y = np.where(m, c, y)
    return by_rows(y if spec_of(y).dtype == dtype else cast_to(y, dtype))


def weak(x):
    """Return what stands for a choice when dtypes are compared: Python numbers are weak."""
    x = value(x)
    return x if isinstance(x, int | float | complex) and not isinstance(x, np.generic) else x.dtype


@composite(np.piecewise)
def piecewise(x, condlist, funclist, *args, **kw):
    """Write each function of its part of x into a buffer; no function sees what it is not meant for."""
    shape = shape_of(x)
    conditions = value(condlist) if isinstance(condlist, Boxed) else condlist
    if np.isscalar(conditions) or (not isinstance(conditions[0], list | np.ndarray | Boxed) and shape):
        conditions = [conditions]
    conditions = np.array([value(c) for c in conditions], bool)
    count = len(conditions)
    if count == len(funclist) - 1:  # the last function is for the rest
        conditions = np.concatenate([conditions, np.logical_not(np.any(conditions, axis=0, keepdims=True))], axis=0)
        count += 1
    if count != len(funclist):
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected, got {len(funclist)}"
        )
    flat = np.reshape(x, (-1,))
    y = np.zeros_like(flat)
    for mask, fun in zip(conditions, funclist, strict=True):
        mask = np.broadcast_to(mask, shape).reshape(-1)
        if not callable(fun):
            y[mask] = fun
        elif mask.any():
            y[mask] = fun(flat[mask], *args, **kw)
    return np.reshape(y, shape)


# -- clip --------------------------------------------------------------------------------------------------------------

_NOT_GIVEN = getattr(np, "_NoValue", None)


def bind_clip(a, a_min=_NOT_GIVEN, a_max=_NOT_GIVEN, out=None, *, min=_NOT_GIVEN, max=_NOT_GIVEN, **kwargs):
    """Take the limits by either of their names; None is no limit."""
    if out is not None:
        raise OutArgumentError("numpy.clip")
    for name in kwargs:
        raise UnsupportedArgumentError("numpy.clip", name, "is not supported with traced values", "leave it out.")
    if a_min is _NOT_GIVEN and a_max is _NOT_GIVEN:
        a_min, a_max = min, max
    elif min is not _NOT_GIVEN or max is not _NOT_GIVEN:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    return (a, None if a_min is _NOT_GIVEN else a_min, None if a_max is _NOT_GIVEN else a_max), {}


def clip_weights(y, x, low, high):
    """Between the limits, and on them, x is taken; of crossed limits the upper one."""
    x, low, high = ordered(x), ordered(low), ordered(high)
    below = np.False_ if low is None else array_value(x < low)
    above = np.False_ if high is None else array_value(x > high)
    if low is not None and high is not None:
        above = above | array_value(low > high)
        below = below & np.logical_not(above)
    return np.logical_not(below | above), below, above


def clip(operands, params):
    """Clip; without limits NumPy before 2.1 would refuse."""
    x, low, high = operands
    return np.positive(x) if low is None and high is None else np.clip(x, low, high)


select(np.clip, clip_weights, nin=3, bind=bind_clip, apply=clip)
CLIP = np._core.umath.clip  # what `a.clip(x, y)` of a plain array calls: it has no public name
composite(CLIP)(lambda a, low, high: np.clip(a, low, high))


# -- nan_to_num --------------------------------------------------------------------------------------------------------


@primitive
def replaced(x, nan=0.0, posinf=None, neginf=None):
    """Replace what is not finite in a real array."""
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


select(replaced, lambda y, x, nan=0.0, posinf=None, neginf=None: (np.isfinite(value(x)),), nin=1, complex=False)


@composite(np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """Replace what is not finite, in complex numbers part by part."""
    if not copy:
        raise UnsupportedArgumentError(
            "numpy.nan_to_num", "copy", "is False, which would write into a traced value", "use the returned value."
        )
    if spec_of(x).kind != "c":
        return replaced(x, nan=nan, posinf=posinf, neginf=neginf)
    real, imag = (replaced(part, nan=nan, posinf=posinf, neginf=neginf) for part in (np.real(x), np.imag(x)))
    return real + 1j * imag
