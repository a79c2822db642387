"""What stands in place of Python's, NumPy's and SciPy's own functions in adopted code.

`OURS` maps a function, by identity, to what is called instead. NumPy functions that reach us by NumPy's protocols are
not in it, except that lists of traced values among their arguments are made arrays, as NumPy makes them of numbers.

As long as nothing is traced, each entry calls the original: an adopted function of plain arrays computes with plain
arrays. While a transform runs, arrays that are made anew are buffers, which take traced values.
"""

import functools
import math

import numpy as np

import chainrule.numpy as mirror
from chainrule.adopt.code import SCALARS
from chainrule.adopt.math_functions import TABLE as MATH
from chainrule.adopt.state import traced
from chainrule.engine.boxed import Boxed, value
from chainrule.engine.buffer import Buffer, buffer, plain
from chainrule.errors import ConversionError
from chainrule.rules.creation import is_traced, joined
from chainrule.rules.scalars import number

OURS = {}  # id of the original -> (the original, ours)
BACK = {}  # id of ours -> the original
CALLS = {}  # the same for types, where they are called: see `chainrule.adopt.code`

# functions that may hand back the memory they were given, which then must stay the plain array it is
ALIASING = frozenset({"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require"})

# functions whose result is new memory, which a program may fill; a view among the results stays a view
FRESH = (
    "column_stack", "concatenate", "copy", "diag", "diagflat", "dstack", "fromiter", "hstack", "kron", "outer",
    "repeat", "stack", "tile", "tril", "triu", "vstack",
)  # fmt: skip


def named_as(original):
    """Give a function the name and the documentation of the original."""
    return functools.wraps(original, ("__module__", "__name__", "__qualname__", "__doc__"), ())


def while_traced(original, ours):
    """Return the function that calls ours in a traced run, and the original otherwise."""

    @named_as(original)
    def call(*args, **kwargs):
        return ours(*args, **kwargs) if traced() else original(*args, **kwargs)

    return call


def aliasing(original, ours):
    """Return `ours` for traced values; for others the original's result, as a buffer if its memory is new."""

    @named_as(original)
    def call(*args, **kwargs):
        if not traced():
            return original(*args, **kwargs)
        x = args[0] if args else kwargs.get("a", kwargs.get("object"))
        if is_traced(x):
            return ours(*args, **kwargs)
        return owned(original(*args, **kwargs), x)

    return call


def owned(y, x=None):
    """Return a plain array as a buffer if its memory belongs to nobody else."""
    return buffer(y) if y is not x and y.__class__ is np.ndarray and y.base is None else y


def fresh(original):
    """Return a function whose plain result, new memory, is a buffer in a traced run."""
    of_lists = listing(original)

    @named_as(original)
    def call(*args, **kwargs):
        y = of_lists(*args, **kwargs)
        return owned(y) if traced() else y

    return call


def listing(original):
    """Return the function with lists of traced values made arrays, where NumPy would have made them plain ones."""

    @named_as(original)
    def call(*args, **kwargs):
        try:
            return original(*args, **kwargs)
        except ConversionError:
            if not any(map(holds_list, [*args, *kwargs.values()])):
                raise
        try:  # a sequence of arrays, some of them lists
            return original(*map(of_arrays, args), **{k: of_arrays(a) for k, a in kwargs.items()})
        except ConversionError:
            return original(*map(as_array, args), **{k: as_array(a) for k, a in kwargs.items()})

    return call


def holds_list(x):
    """Tell whether `x` is a list or tuple with a traced value in it."""
    return x.__class__ in (list, tuple) and is_traced(x)


def of_arrays(x):
    """Return a list with the lists of traced values in it made arrays."""
    return x.__class__(map(as_array, x)) if holds_list(x) else x


def as_array(x):
    """Return a list of traced values as an array, anything else as it is."""
    return joined(x) if holds_list(x) else x


# -- Python's types, where they are called ---------------------------------------------------------------------


@named_as(float)
def float_(x=0.0, /):
    """Convert to a float; a traced value keeps its derivative."""
    if not isinstance(x, Boxed):
        return float(x)
    y = float(value(x))  # raises what the plain run raises, if it is no single real number
    if x.__class__ is Buffer:
        return y
    if value(x).__class__ is float:
        return x
    return number(np.real(x) if x.dtype.kind == "c" else x)


@named_as(complex)
def complex_(*args, **kwargs):
    """Convert to a complex number; a traced value keeps its derivative."""
    y = complex(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
    parts = [*args, *kwargs.values()]
    if not any(isinstance(v, Boxed) and v.__class__ is not Buffer for v in parts):
        return y
    numbers = [number(v) if isinstance(v, Boxed) else v for v in parts]
    return numbers[0] + (numbers[1] * 1j if len(numbers) > 1 else 0j)


@named_as(int)
def int_(*args, **kwargs):
    """Convert to an int, which is constant between its steps: no derivative is lost."""
    return int(*map(value, args), **kwargs)


@named_as(isinstance)
def isinstance_(x, kind, /):
    """Tell whether `x`, or the value that is traced as `x`, is of a type."""
    return isinstance(x, kind) or (isinstance(x, Boxed) and isinstance(value(x), kind))


@named_as(type)
def type_(x, /, *args, **kwargs):
    """Return the type of `x`, or of the value that is traced as `x`."""
    return type(value(x), *args, **kwargs)


def scalar(kind):
    """Return the call of a scalar type of NumPy: a cast, which keeps the derivative of a traced value."""

    @named_as(kind)
    def call(*args, **kwargs):
        x = as_array(args[0]) if args else None
        if not isinstance(x, Boxed):
            return kind(*args, **kwargs)
        return kind(plain(x)) if x.__class__ is Buffer else x.astype(kind)

    return call


# -- the tables ------------------------------------------------------------------------------------------------


def put(original, ours):
    """Let `ours` stand in place of `original`."""
    OURS[id(original)] = original, ours
    BACK[id(ours)] = original


def fill():
    """Fill the tables of what needs no SciPy."""
    for name in FRESH:
        put(getattr(np, name), fresh(getattr(np, name)))
    for name in mirror.__all__:
        original, ours = getattr(np, name, None), getattr(mirror, name)
        if original is not None and original is not ours:
            entry = aliasing if name in ALIASING else while_traced
            put(original, entry(original, ours) if callable(original) else ours)
    for name, ours in MATH.items():
        put(getattr(math, name), ours)
    for kind, ours in ((float, float_), (complex, complex_), (int, int_), (isinstance, isinstance_), (type, type_)):
        CALLS[id(kind)] = kind, ours
    for name in SCALARS:
        kind = getattr(np, name)
        CALLS[id(kind)] = kind, scalar(kind)


fill()
_DISPATCHER = type(np.sum)  # functions that ask the types of their arguments


@functools.cache
def fill_scipy():
    """Add what `chainrule.scipy` has for SciPy's functions; called when SciPy is first met in adopted code."""
    try:
        from chainrule.scipy import ORIGINALS
    except ImportError:
        return
    for original, ours in ORIGINALS():
        put(original, ours)


def ours_of(original):
    """Return what stands in place of a function; the function itself if nothing does."""
    found = OURS.get(id(original))
    if found is not None:
        return found[1]
    if original.__class__ is _DISPATCHER:
        put(original, listing(original))
        return OURS[id(original)][1]
    return original


def call_of(original):
    """Return what is called in place of a type or function."""
    found = CALLS.get(id(original))
    return found[1] if found is not None else ours_of(original)
