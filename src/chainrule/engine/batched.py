"""Batches: many runs of a function at once.

A `Batched` stands for one value of each run; `data` holds them all, along its first axis, one level down. To all who
ask it has the shape and dtype of one run. A call is run once on all of them: how, follows from the kind of its rule.

* elementwise functions and choices: operands are lined up behind the batch axis;
* functions that move elements (`gather`): the elements are moved in all runs by the positions of one;
* functions of axes, of stacks of matrices, products: by the table `BATCHING`, filled in `chainrule.rules.batching`;
* all others: one call for each run, and the results are stacked.

Where plain Python asks for what differs from run to run (``if x > 0``, ``int(x)``, a mask as an index), the function
can't go on as one: `NeedsLoop` stops it, and `vmap` runs the whole function once for each.

What was run once for each is noted where somebody asks: in a context of `noted_loops`.
"""

import contextvars
import inspect

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.dispatch import dispatch
from chainrule.engine.indexing import positions
from chainrule.engine.rule import full_name
from chainrule.engine.spec import shape_of

UNITS = {}  # function -> how(start, n, xs, flags): the same of a batch of multiples of unit vectors, see `Batched`
BATCHING = {}  # function -> how(rule, n, xs, flags, params): the result for all runs, batch axis first
_noted = contextvars.ContextVar("chainrule_loops", default=None)  # a dict whose keys are the loops, in their order

STOPPED = set()  # levels of batches that were stopped, should the function itself catch all exceptions and go on


class noted_loops:
    """Context that lists what is run once for each entry of a batch: ``with noted_loops() as names``."""

    __slots__ = ("names", "token")

    def __enter__(self):
        self.names = {}
        self.token = _noted.set(self.names)
        return self.names

    def __exit__(self, *exc):
        _noted.reset(self.token)
        note_loops(self.names)  # for a context around this one


def note_loops(names):
    """Note what runs as a loop, if anybody asks."""
    found = _noted.get()
    if found is not None:
        found.update(dict.fromkeys(names))


class NeedsLoop(BaseException):
    """Plain Python asked for a value that differs between the runs of the batch of `level`."""

    def __init__(self, level, what):
        super().__init__(what)
        self.level, self.what = level, what
        STOPPED.add(level)


class Batched(Boxed):
    """The values of many runs, as one. Made by `vmap`.

    `aux` is None, or the number of the first of consecutive unit vectors: in run ``k`` all entries are 0 but that of
    number ``aux + k``. So begin the passes of a matrix of derivatives, and a first product is read off the matrix.
    """

    __slots__ = ()
    batch = kept = True

    @staticmethod
    def process(rule, level, operands, params):  # noqa: D102 (see Boxed)
        if rule.kind == "rule" and hasattr(rule, "whole"):
            return users_own(rule, level, operands)
        flags, xs = [], []
        n = start = None
        if len(operands) == 1:
            x = operands[0].data
            n, flags, xs, operands = x.shape[0], [True], [x], ()
        for x in operands:
            mine = x.__class__ is Batched and x.level == level
            flags.append(mine)
            if mine:
                start = x.aux
                x = x.data
                if n is None:
                    n = x.shape[0]
            xs.append(x)
        if start is not None and rule.fun in UNITS:
            y = UNITS[rule.fun](start, n, xs, flags)
            if y is not None:
                return batched(y, level)
        how = BATCHING.get(rule.fun)
        if how is None:
            if rule.kind == "elementwise" or rule.kind == "select":
                return wrap(lined_up(rule, n, xs, flags, params), level)
            how = moved if rule.kind == "gather" else looped
        if how is looped:
            return wrap(looped(rule, n, xs, flags, params, level), level)
        return wrap(how(rule, n, xs, flags, params), level)

    def constant(self, y):
        """Return a value that depends on no input: it is the same in all runs."""
        return y

    @staticmethod
    def run_constant(fun, args, kwargs, level):  # noqa: D102 (see below)
        return run_constant(fun, args, kwargs, level)

    def __bool__(self):
        data = value(self.data)
        if len(shape_of(data)) == 1:  # a branch that all runs take alike
            truth = data != 0
            if not len(truth):  # no run takes any, and a loop would never end
                raise NeedsLoop(self.level, "a branch of no runs")
            if truth.all():
                return True
            if not truth.any():
                return False
        elif shape_of(self):
            raise ValueError("The truth value of an array with more than one element is ambiguous.")
        raise NeedsLoop(self.level, "a branch on a value that differs")

    def _needs_loop(self, *args, **kwargs):
        raise NeedsLoop(self.level, "a plain number or array was asked for")

    __int__ = __index__ = __float__ = __complex__ = __array__ = item = tolist = tobytes = _needs_loop

    def __repr__(self):
        return f"Batched({self.data!r})"

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)


def batched(data, level, start=None):
    """Return a `Batched` of the runs along the first axis of `data`, unit vectors from number `start` on if given."""
    box = object.__new__(Batched)
    box.data, box.aux, box.level = data, start, level
    return box


def scaled(data, x):
    """Return the product of the batch `x` with a constant: multiples of unit vectors remain such."""
    box = object.__new__(Batched)
    start = x.aux
    if start is not None and data.shape != x.data.shape:
        start = None
    box.data, box.aux, box.level = data, start, x.level
    return box


def wrap(y, level):
    """Return the outputs of a call as batches."""
    if y.__class__ is not np.ndarray and isinstance(y, tuple | list):
        parts = [batched(v, level) for v in y]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)
    return batched(y, level)


def ranked(x, rank):
    """Give each run's value `rank` axes, with axes of length 1 in front."""
    shape = x.shape
    have = len(shape) - 1
    return x if have >= rank else x.reshape(shape[:1] + (1,) * (rank - have) + shape[1:])


def spread(x, n):
    """Return a value that is the same in all runs as one of `n` runs."""
    return np.broadcast_to(x, (n, *shape_of(x)))


def lined_up(rule, n, xs, flags, params):
    """Run a function that broadcasts its operands."""
    rank = 0
    for x, m in zip(xs, flags):  # noqa: B905 (strict costs time)
        r = (x.ndim if x.__class__ is np.ndarray else len(shape_of(x))) - m
        if r > rank:
            rank = r
    return rule.apply(tuple([ranked(x, rank) if m else x for x, m in zip(xs, flags)]), params)  # noqa: B905


def moved(rule, n, xs, flags, params):
    """Move the elements of all runs by the positions of one."""
    (x,) = xs
    if x.__class__ is np.ndarray and n:
        part = rule.apply((x[0],), params)
        if (
            part.__class__ is np.ndarray and part.base is not None and np.may_share_memory(part, x)
        ):  # a view remains one
            return np.lib.stride_tricks.as_strided(part, (n, *part.shape), (x.strides[0], *part.strides))
    where = positions(rule.fun, x.shape[1:], params)
    return x.reshape(n, -1)[:, where.reshape(-1)].reshape((n, *where.shape))


def looped(rule, n, xs, flags, params, level=None):
    """Call the function once for each run."""
    note_loops((rule.name,))
    runs = [rule.apply(tuple([x[k] if m else x for x, m in zip(xs, flags, strict=True)]), params) for k in range(n)]
    if not runs:
        raise NeedsLoop(level, "an empty batch of a function without a batching rule")
    first = runs[0]
    if isinstance(first, tuple | list):
        parts = [stacked(part, level) for part in zip(*runs, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    return stacked(runs, level)


def users_own(rule, level, operands):
    """Run a function that has a rule by the user on all runs as one, or, if it can't go on so, once for each.

    If the runs are traced below, what they go through there is the user's rule, as one operation on all of them.
    """
    flags = [x.__class__ is Batched and x.level == level for x in operands]
    xs = [x.data if m else x for x, m in zip(operands, flags, strict=True)]
    traced = any(isinstance(x, Boxed) for x, m in zip(xs, flags, strict=True) if m)
    if not traced:
        before = level in STOPPED
        try:
            y = rule.whole(operands)
            if before or level not in STOPPED:
                return y
        except NeedsLoop as stop:
            if stop.level is not None and stop.level != level:
                raise
        except Exception:
            pass
        if not before:
            STOPPED.discard(level)
    n = next(x.shape[0] for x, m in zip(xs, flags, strict=True) if m)
    if traced and n:
        return wrap(dispatch(rule.of_runs(flags, n), tuple(xs), {}), level)
    return wrap(looped(rule, n, xs, flags, {}, level), level)


def stacked(parts, level):
    """Stack one output of all runs."""
    if len({shape_of(p) for p in parts}) > 1:
        raise NeedsLoop(level, "a result whose shape differs from run to run")
    return np.stack(parts)


def joined(values):
    """Return a list that holds batches as one batch, if its values are arrays of one dtype; else as it is."""
    if not any(v.__class__ is Batched for v in values):
        return values
    forms = {(shape_of(v), getattr(v, "dtype", None)) for v in values}
    return np.stack(values) if len(forms) == 1 else values


def by_place(fun, args, kwargs):
    """Give arguments by their place that were given by name, as far as these follow on those given so already."""
    args, kwargs = list(args), dict(kwargs)
    for name in list(inspect.signature(fun).parameters)[len(args) :]:
        if name not in kwargs:
            break
        args.append(kwargs.pop(name))
    return args, kwargs


def run_constant(fun, args, kwargs, level):
    """Run a function without derivative on batches: all runs at once for ufuncs and functions of an axis."""
    of_form = FORM.get(fun)
    if of_form is not None:
        return of_form(*args, **kwargs)
    if any(v.__class__ is Batched for v in kwargs.values()):
        args, kwargs = by_place(fun, args, kwargs)
    args = [joined(a) if a.__class__ is tuple or a.__class__ is list else a for a in args]
    flags = [a.__class__ is Batched and a.level == level for a in args]
    xs = [a.data if m else a for a, m in zip(args, flags, strict=True)]
    n = next((x.shape[0] for x, m in zip(xs, flags, strict=True) if m), None)
    if n is None:
        raise NeedsLoop(level, f"a batch among the options of {fun.__name__}, or in a list")
    how = BATCHING.get(fun)
    if how is not None:
        return wrap(how(Plain(fun), n, xs, flags, kwargs), level)
    if isinstance(fun, np.ufunc) or fun in OPERATORS:
        return wrap(lined_up(Plain(fun), n, xs, flags, kwargs), level)
    return wrap(looped(Plain(fun), n, xs, flags, kwargs, level), level)


FORM = {}  # functions of the shape and dtype alone, which are the same in all runs -> the same of a box
OPERATORS = set()  # functions of the operator module that broadcast


class Plain:
    """Stands for the rule of a function without derivative."""

    __slots__ = ("fun", "name")
    kind = "constant"

    def __init__(self, fun):
        self.fun, self.name = fun, full_name(fun)

    def apply(self, xs, params):
        """Call the function."""
        return self.fun(*xs, **params)
