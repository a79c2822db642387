"""Tracers: values of a run that is being recorded.

A `Tracer` is a further interpreter of the same rules, and the lowest: it holds a plain value, computes with it, and
hands each call to its `Recording`, which writes it down as an `Equation`. All that depends on an input is recorded,
also what has no derivative: comparisons, masks, integers. So shapes and Python's control flow are all that is plain
Python; where that asks for a value, a `Guard` is written down, or the run is refused, as the recording has it.

Derivatives are recorded as the calls that their rules make: the transforms run as always, on values that are Tracers.
"""

import sys

import numpy as np

from chainrule.engine import batched, tape
from chainrule.engine.boxed import Boxed
from chainrule.engine.buffer import Buffer
from chainrule.engine.rule import Rule
from chainrule.engine.spec import cast_to
from chainrule.errors import ConversionError
from chainrule.program.ir import PYTHON, Symbol, applied
from chainrule.program.places import users
from chainrule.program.texts import only_written
from chainrule.rules.scalars import number

ONE = frozenset({np.ndarray, float, bool, int, complex, np.float64, np.float32, np.complex128, np.bool_, np.int64})
RECORDINGS = {}  # level -> the recording that runs at it
NARROW = {np.dtype(name) for name in ("float16", "float32", "complex64")}


def is_value(y):
    """Tell whether a symbol may stand for `y`: an array or a number."""
    return isinstance(y, np.ndarray | np.generic | int | float | complex)


class Tracer(Boxed):
    """A value of a run that is being recorded; `aux` is its symbol, or None for a constant."""

    __slots__ = ()
    kept = recorded = True

    def __init__(self, data, symbol, level):
        self.data, self.aux, self.level = data, symbol, level

    def constant(self, y):  # noqa: D102 (see Boxed)
        return Tracer(y, None, self.level)

    @staticmethod
    def process(rule, level, operands, params):  # noqa: D102 (see Boxed)
        recording = RECORDINGS[level]
        xs, inputs, traced, known = [], [], False, True
        for x in operands:
            if x.__class__ is Tracer and x.level == level:
                xs.append(x.data)
                symbol = x.aux
                if symbol is None:
                    known = False
                    inputs.append(x)
                else:
                    traced = True
                    inputs.append(symbol)
            else:
                known = known and x.__class__ in PYTHON
                xs.append(x)
                inputs.append(x)
        xs = tuple(xs)
        if rule.__class__ is not Rule and recording.through and hasattr(rule, "opaque"):  # by the user
            found = recording.gone_through(rule, operands) if hasattr(rule, "whole") else None
            return opaque(rule, operands, xs, recording) if found is None else found
        if rule.__class__ is Rule and rule.kind == "elementwise" and xs[0].__class__ not in PYTHON:
            y = rule.fun(*xs)
        else:
            y = applied(rule, xs, {k: opened(v, level) for k, v in params.items()} if params else params)
        if not traced and not depends(operands, level) and not depends(params.values(), level):
            return wrapped(y, level)
        if not known:
            inputs = [x if x.__class__ is Symbol or x.__class__ in PYTHON else recording.operand(x) for x in inputs]
        written = {k: recording.parameter(v) for k, v in params.items()} if params else {}
        if y.__class__ in ONE and not tape._level.paused:  # the usual result: one array or number
            return recording.plain_equation(rule, tuple(inputs), written, y)
        return recording.equation(rule, tuple(inputs), written, y, _paused(level))

    @staticmethod
    def run_constant(fun, args, kwargs, level):
        """Run a function without derivative on plain values, and write it down."""
        recording = RECORDINGS[level]
        args = tuple(args)
        if fun in batched.FORM:
            return fun(*opened(args, level), **opened(kwargs, level))
        if fun in BY_VALUE:
            return by_value(fun, args, kwargs, level)
        if fun in SHAPING:
            args = tuple([told(x, level) if k in SHAPING[fun] else x for k, x in enumerate(args)])
            kwargs = {k: told(x, level) if k in SHAPING[fun] else x for k, x in kwargs.items()}
        y = fun(*opened(args, level), **opened(kwargs, level))
        if y is NotImplemented:
            return y
        if not depends(args, level) and not depends(kwargs.values(), level):
            return y
        if not is_value(y) and not isinstance(y, tuple | list):
            return y
        if not is_value(y) and any(isinstance(v, tuple | list) for v in y):  # no symbols stand for nested results
            return by_value(fun, args, kwargs, level)
        inputs = tuple([recording.operand(x) for x in args])
        written = {k: recording.parameter(v) for k, v in kwargs.items()}
        return recording.equation(batched.Plain(fun), inputs, written, y, True)

    def settled(self, xbar):
        """Return the gradient in this value: in a Python number it is one, or in a program to be read a double."""
        kind = self.data.__class__
        if kind in (float, complex) and isinstance(xbar, np.inexact):
            return kind(xbar)
        if kind not in (float, complex) or xbar.__class__ is not Tracer or xbar.level != self.level:
            return xbar
        if xbar.data.__class__ is kind or xbar.shape:
            return xbar
        recording = RECORDINGS[self.level]
        if recording.asks == "raise":
            if any(s.dtype in NARROW for s in recording.program.inputs):  # beside these a double is no number
                return number(xbar)
            return xbar if xbar.dtype == kind else cast_to(xbar, np.dtype(kind))
        return Tracer.run_constant(kind, (xbar,), {}, self.level)

    def __repr__(self):
        self.shown()
        asks = getattr(RECORDINGS.get(self.level), "asks", None)
        return repr(self.data) if asks == "guard" else f"Tracer({self.data!r})"

    def __str__(self):
        self.shown()
        return str(self.data)

    def __format__(self, spec):
        self.shown()
        return format(self.data, spec)

    # -- what takes the value out ----------------------------------------------------------------------------

    def ask(self, how, answer):
        """Let Python have a value, and write that down."""
        recording = RECORDINGS[self.level]
        if self.aux is not None:
            recording.guard(self.aux, how, answer.copy() if answer.__class__ is np.ndarray else answer)
        return answer

    def __bool__(self):
        return self.ask("bool", bool(self.data))

    def __hash__(self):
        recording = RECORDINGS.get(self.level)
        if recording is None or self.shut() or isinstance(self.data, np.ndarray | Boxed):
            return id(self) >> 4
        frame = sys._getframe(1)
        if not users(frame.f_code, frame.f_globals.get("__name__", "")):
            return id(self) >> 4
        return hash(self.ask("value", self.data))  # the key of a dict of the user's

    def shown(self):
        """Take note that there is text of a value. What is done by it, as with a key, depends on the value itself."""
        recording = RECORDINGS.get(self.level)
        if recording is None or self.aux is None:
            return
        recording.shown = recording.shown or self.dtype.kind not in "iub"
        if isinstance(self.data, Boxed) or only_written(
            recording.ways, self.shut()
        ):  # of what it holds there is text next
            return
        if self.shut():
            raise ConversionError(
                "text of a traced value, on which what follows may depend,",
                "write it out by  print(...)  or a logger, in a statement of its own;",
                "take the plain value with  chainrule.value(x)  if the text is to be that of this run.",
            )
        self.told()

    def shut(self):
        """Tell whether the value may not leave: a program that is read holds no answers on floats but those of `if`."""
        return RECORDINGS[self.level].asks == "raise" and self.aux is not None and self.dtype.kind not in "iub"

    def told(self):  # noqa: D102 (see Boxed)
        return self.ask("value", self.data)

    def _number(self, kind):
        if self.shut():
            self._no_number()
        return kind(self.ask("value", self.data))

    def __int__(self):
        return self._number(int)

    def __float__(self):
        return self._number(float) if self.dtype.kind in "iub" else super().__float__()

    def __array__(self, dtype=None, copy=None):
        if self.aux is None or self.dtype.kind in "iub":  # plain without a program, too
            return np.array(self.ask("value", self.data), dtype)
        return super().__array__(dtype, copy)

    def __index__(self):
        if self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return self._number(int)

    def item(self, *args):
        """Return an entry as a Python number, and write that down."""
        if self.shut():
            self._no_number()
        if args:
            return self.reshape(-1)[args[0]].item() if len(args) == 1 else self[args].item()
        return getattr(self.ask("value", self.data), "item", lambda: self.data)()

    def tolist(self):
        """Return the entries as Python numbers, and write that down."""
        if self.shut():
            self._no_number()
        return np.asarray(self.ask("value", self.data)).tolist()


class Opaque:
    """Stands for the rule of a call that is run as a whole: its operands are all values of its arguments."""

    __slots__ = ("call", "fun", "name")
    kind = "opaque"

    def __init__(self, call):
        self.call, self.fun, self.name = call, call.fun, call.name

    def apply(self, xs, params):
        """Make the same call anew."""
        return self.call.opaque(xs)


def opaque(rule, operands, xs, recording):
    """Make a call with a rule of its own on plain values, and write it down as one equation.

    All values of its arguments are operands: what is constant in it may be an array that is written to later.
    """
    leaves = tuple([recording.operand(x) for x in rule.filled(operands)])
    return recording.equation(Opaque(rule), leaves, {}, rule.apply(xs, {}), False)


def by_value(fun, args, kwargs, level):
    """Run a function on plain values that the program is then bound to."""
    return fun(*told(args, level), **told(kwargs, level))


def told(x, level):
    """Return an argument with the plain values in it, which the program is then bound to."""
    for box in boxes_in(x, level):
        box.told()
    return opened(x, level)


def _paused(level):
    return bool(tape._level.paused) and tape._level.is_paused(level)


def depends(values, level):
    """Tell whether something of `level` that depends on an input is in these values, or in lists of them."""
    for x in values:
        if x.__class__ is Tracer:
            if x.level == level and x.aux is not None:
                return True
        elif (x.__class__ is tuple or x.__class__ is list) and depends(x, level):
            return True
    return False


def boxes_in(values, level):
    """Find the Tracers in nested containers."""
    if values.__class__ is Tracer:
        if values.level == level:
            yield values
    elif isinstance(values, tuple | list):
        for v in values:
            yield from boxes_in(v, level)
    elif isinstance(values, dict):
        yield from boxes_in(tuple(values.values()), level)


def opened(x, level):
    """Return nested containers with plain values in place of the Tracers of `level`."""
    kind = x.__class__
    if kind is Tracer:
        return x.data if x.level == level else x
    if kind is Buffer:
        return x.data
    if kind is tuple or kind is list:
        return kind([opened(v, level) for v in x])
    if kind is dict:
        return {k: opened(v, level) for k, v in x.items()}
    if kind is slice:
        return number_slice(x)
    return x


def number_slice(x):
    """Return a slice with numbers in place of Tracers: shapes depend on them."""
    if isinstance(x.start, Boxed) or isinstance(x.stop, Boxed) or isinstance(x.step, Boxed):
        return slice(*[p.__index__() if isinstance(p, Boxed) else p for p in (x.start, x.stop, x.step)])
    return x


def wrapped(y, level):
    """Return results of constants as constants of `level`."""
    if isinstance(y, tuple | list):
        parts = [wrapped(v, level) for v in y]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)
    return Tracer(y, None, level) if is_value(y) else y


# functions the shape of whose result depends on values
BY_VALUE = {
    np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.unique_values, np.unique_counts, np.unique_inverse,
    np.unique_all, np.intersect1d,
}  # fmt: skip
# the arguments, by place and name, on whose values the shape of the result depends
SHAPING = {
    np.bincount: {0, "x", 2, "minlength"}, np.array_split: {1, "indices_or_sections"}, np.delete: {1, "obj"},
    np.insert: {1, "obj"},
}  # fmt: skip
