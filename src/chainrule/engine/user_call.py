"""The calls of a user-defined `Function`, as the engine sees them.

A call goes through `dispatch` as that of any rule. One level down it *is the same call again*, so the user's
``backward`` holds at every level; at the bottom, where all inputs are plain, ``forward`` runs. The pullback calls
``backward`` with inputs whose ``.data`` is the value at the pullback's own level: a plain array in a first derivative,
a traced value where the pullback itself is differentiated. So a Function written over ``self.input.data`` has
derivatives of any order. Forward mode transposes the pullback, which is linear, by pulling it back once more.

Each call has a copy of the object to itself. What ``forward`` leaves there (``self.y = ...``) is a plain value, and
would cut the derivative where the pullback is traced: then ``forward`` runs once more, on the traced inputs, to make it
anew. Not seen is what ``forward`` keeps elsewhere: in globals, class attributes, or inside objects that hide it.
"""

import contextvars
import weakref

import numpy as np

from chainrule.engine.boxed import Boxed
from chainrule.engine.dispatch import dispatch
from chainrule.engine.held import held
from chainrule.engine.spec import shape_of, spec_of, zeros_of
from chainrule.engine.state import SMALL, agrees, any_part, arrays_in, attributes, carries, clone, isolated, unchanged
from chainrule.engine.transpose import transposed
from chainrule.engine.variable import Variable
from chainrule.errors import (
    ChainruleError,
    InPlaceError,
    NotDifferentiableError,
    ShapeError,
)

OURS = (
    "_Function__inputs",
    "_Function__calls",
    "_Function__later",
    "_Function__kept",
)  # attributes of `Function` itself


def name_of(function):
    """Return the name of a Function's class."""
    return type(function).__name__


_differentiating = contextvars.ContextVar("chainrule_function", default=False)  # set while pullbacks run on boxes


def current(function):
    """Return a Function's attributes, with plain values for those left by a call under a transform."""
    found = attributes(function)
    later = found.get("_Function__later")
    if later is not None:
        run = later[0]
        found.update({n: getattr(run.working, n) for n in run.left if n not in found})
    return found


def by_hand(x):
    """Tell whether a box is an eager Variable: stepped through by hand, its ``.data`` is meant to be plain.

    Not so while the engine differentiates a pullback on the eager tape: then it stands for its derivatives, too.
    """
    return x.__class__ is Variable and x.level != int(x.level) and not _differentiating.get()


class Input(Boxed):
    """An input as ``backward`` sees it: ``.data`` is the value at hand, and operations on the box are those on it."""

    __slots__ = ()

    @staticmethod
    def process(rule, level, operands, params):
        """Run the call on the values."""
        return dispatch(rule, tuple([x.data if x.__class__ is Input else x for x in operands]), params)

    def constant(self, y):
        """Values stay as they are."""
        return y

    @property
    def grad(self):
        """There is none while derivatives are taken."""
        return None

    def refuse_write(self):
        """Raise: an input belongs to the caller."""
        raise InPlaceError(
            "an input of a Function was changed in place.", "copy it first:  x = self.input.data.copy()."
        )

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data, dtype)

    def __float__(self):
        return float(self.data)

    def __getitem__(self, index):
        return self.data[index]


def as_input(x):
    """Box a value as an `Input`: above all levels, so that it is opened first whatever it meets."""
    box = object.__new__(Input)
    box.data, box.aux, box.level = x, None, float("inf")
    return box


_known = weakref.WeakSet()  # classes whose forward was watched in full once, with large arrays at hand
_writers = weakref.WeakSet()  # those that were seen to write into large arrays of theirs


class Run:
    """One call of a Function by the user, at all levels: the object before it, at work, and after it."""

    __slots__ = ("after", "before", "kwargs", "left", "origin", "working")

    def __init__(self, function, kwargs):
        kind = type(function)
        state = {n: v for n, v in current(function).items() if n not in OURS}
        watch = kind not in _known or kind in _writers
        self.before = clone(function, isolated(state, {}, float("inf") if watch else SMALL))
        self.working = clone(function, state)
        self.origin = weakref.ref(function)
        self.kwargs = kwargs
        self.after, self.left = None, ()

    def call(self, inputs):
        """Run the call at the highest level among `inputs`; without a traced one, run `forward`."""
        places = tuple([k for k, x in enumerate(inputs) if isinstance(x, Boxed)])
        if not places:
            return self.forward(inputs)
        return dispatch(Call(self, inputs, places), tuple([inputs[k] for k in places]), {})

    def forward(self, inputs):
        """Run the user's forward on plain values, and see what it left on its object."""
        g, kind = self.working, type(self.working)
        first = kind not in _known
        limit = float("inf") if first else SMALL
        given = isolated(inputs, {}, limit)
        held = arrays_in(attributes(g))
        g.__dict__["_Function__inputs"] = tuple([as_input(x) for x in inputs])
        y = g.forward(*inputs, **self.kwargs)
        y = checked_output(g, y, held)
        if not unchanged(given, inputs):
            raise InPlaceError(
                f"{kind.__name__}.forward changed its input in place, which would change the caller's array.",
                "work on a copy:  x = x.copy().",
            )
        old, new = attributes(self.before), attributes(g)
        changed = [n for n, v in new.items() if n not in OURS and not (n in old and unchanged(old[n], v))]
        if first and any(v.nbytes > SMALL for v in (*held, *arrays_in(tuple(inputs)))):
            _known.add(kind)
            if any(any_part(lambda v: getattr(v, "nbytes", 0) > SMALL, new[n]) for n in changed if n in old):
                _writers.add(kind)
        self.left = tuple([n for n in changed if any_part(carries, new[n])])
        limit = float("inf") if kind in _writers else SMALL
        memo = {}
        self.after = clone(g, {n: isolated(v, memo, limit) if n in changed else v for n, v in new.items()})
        return y

    def prepared(self, inputs):
        """Return the object for `backward`: as `forward` left it, what may depend on traced inputs made anew."""
        g = clone(self.after)
        if self.left and any(isinstance(x, Boxed) for x in inputs):
            again = self.remade(inputs)
            for name in self.left:
                old, new = getattr(self.after, name), attributes(again).get(name)
                if not agrees(new, old):
                    raise NotDifferentiableError(
                        f"{name_of(g)}.forward left {name!r} on self, and leaves another value when it is run again, "
                        "as a higher derivative needs.",
                        "make it once, in __init__, or compute it in backward from self.input.data.",
                    )
                if any_part(lambda v: isinstance(v, Boxed), new):
                    object.__setattr__(g, name, new)
        g.__dict__["_Function__inputs"] = tuple([as_input(x) for x in inputs])
        return g

    def remade(self, inputs):
        """Run `forward` once more, on traced inputs, for what it leaves on its object."""
        g = clone(self.before, isolated(attributes(self.before), {}, float("inf")))
        g.__dict__["_Function__inputs"] = tuple([as_input(x) for x in inputs])
        try:
            g.forward(*[x.alias() if isinstance(x, Boxed) else x for x in inputs], **self.kwargs)
        except Exception as error:
            names = ", ".join(f"self.{n}" for n in self.left)
            raise NotDifferentiableError(
                f"a higher derivative through {name_of(g)} needs what forward left in {names} as traced values, but "
                f"forward does not run on traced values: {_first_line(error)}",
                "compute it in backward, from self.input.data;",
                "write forward in NumPy functions, without buffers.",
            ) from error
        return g

    def backward(self, inputs, ybars):
        """Run the user's backward; return one cotangent per input, checked, None for zero."""
        plain = not any(isinstance(v, Boxed) for v in (*inputs, *ybars))
        token = _differentiating.set(not plain)
        try:
            return self.run_backward(inputs, ybars, plain)
        finally:
            _differentiating.reset(token)

    def run_backward(self, inputs, ybars, plain):
        """Run the user's backward. `plain` tells that nothing is traced."""
        g = self.prepared(inputs)
        origin = self.origin() if plain else None
        if origin is not None:  # what backward has assigned is no call's own: sums go on
            for name in origin.__dict__.get("_Function__kept", ()):
                if name in origin.__dict__:
                    g.__dict__[name] = origin.__dict__[name]
            start = dict(g.__dict__)
        # The cotangents are copies: the user may write into them, and others may hold them, too.
        given = g.backward(*[v.alias() if isinstance(v, Boxed) else v.copy() if v.__class__ is np.ndarray else v
                             for v in ybars])  # fmt: skip
        if origin is not None:
            assigned = [n for n, v in g.__dict__.items() if n not in start or start[n] is not v]
            for n in assigned:
                origin.__dict__[n] = g.__dict__[n]
            if assigned:
                origin.__dict__["_Function__kept"] = origin.__dict__.get("_Function__kept", frozenset()).union(assigned)
        return checked_cotangents(g, given, inputs, plain)


def _first_line(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]


def checked_output(g, y, held):
    """Return what forward gave, if it is plain numbers and arrays; a copy of what shares memory with its object."""

    def checked(v):
        if isinstance(v, Boxed):
            raise NotDifferentiableError(
                f"{name_of(g)}.forward returned a traced value, though its inputs are plain: it uses one that is "
                "not among its inputs (an attribute, a global variable, a closure).",
                "pass it as an input:  f(x, w);",
                "use  chainrule.value(w)  in forward if it is meant to be constant.",
            )
        if not isinstance(v, int | float | complex) and not hasattr(v, "dtype"):
            raise NotDifferentiableError(
                f"{name_of(g)}.forward returned {'None' if v is None else f'a value of type {type(v).__name__}'}.",
                "return a number or an array, or a tuple of these for several outputs.",
            )
        if v.__class__ is np.ndarray and any(np.may_share_memory(v, h) for h in held):
            return v.copy()
        return v

    if isinstance(y, tuple | list):
        parts = [checked(v) for v in y]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)
    return checked(y)


def checked_cotangents(g, given, inputs, plain):
    """Return what backward gave as one cotangent per input, of the input's shape; None for zero."""
    count = len(inputs)
    if given is None:
        raise ShapeError(
            f"{name_of(g)}.backward returned None: a return statement is missing, or the gradient is.",
            "return one gradient of its input's shape for each input;",
            "for inputs that are constant return a tuple with None for each of them:  return (None,).",
        )
    if count == 1 and not isinstance(given, tuple | list):
        given = (given,)
    found = len(given) if isinstance(given, tuple | list) else 1
    if found != count:
        raise ShapeError(
            f"{name_of(g)}.backward returned {found} gradient{'s' * (found != 1)} for {count} "
            f"input{'s' * (count != 1)} (of shape{'s' * (count != 1)} {', '.join(str(shape_of(x)) for x in inputs)}).",
            "return one for each input, in order, None for one that is constant.",
        )
    held = None
    bars = []
    for k, (bar, x) in enumerate(zip(given, inputs, strict=True)):
        if bar.__class__ is Input or (plain and bar.__class__ is Variable and bar.level == 0.5):
            bar = bar.data
        if bar is None:
            bars.append(None)
            continue
        spec = spec_of(bar) if isinstance(bar, Boxed | int | float | complex | np.ndarray | np.generic) else None
        if spec is None or spec.kind not in "fciub":
            raise NotDifferentiableError(
                f"{name_of(g)}.backward returned a value of type {type(bar).__name__} for input {k}.",
                "return a number or an array of the input's shape, or None.",
            )
        if spec.shape != shape_of(x):
            raise ShapeError(
                f"{name_of(g)}.backward returned a gradient of shape {spec.shape} for input {k} of shape "
                f"{shape_of(x)}.",
                "return the gradient in the shape of the input: summed over what forward broadcast or repeated, spread "
                "over what it summed.",
            )
        if bar.__class__ is np.ndarray:
            if held is None:
                held = arrays_in((tuple(inputs), attributes(g)))
            if any(np.may_share_memory(bar, h) for h in held):
                bar = bar.copy()
        bars.append(bar)
    return bars


class Call:
    """A call of a Function at one level. It stands where the engine looks for a `Rule`."""

    __slots__ = ("constants", "places", "run", "several")

    kind, spread, complex = "rule", True, True
    affine, accepts, params = {}, frozenset(), {}
    pulls = domain = None
    entrywise = takes = False

    def __init__(self, run, inputs, places):
        self.run, self.places = run, places
        self.constants = [None if isinstance(x, Boxed) else x for x in inputs]
        self.several = False

    @property
    def name(self):
        """Name of the user's class."""
        return name_of(self.run.working)

    @property
    def fun(self):
        """The user's class."""
        return type(self.run.working)

    @property
    def nin(self):
        """How many inputs are operands: those that are traced at some level."""
        return len(self.places)

    # Not stored: the call would hold itself, and need the garbage collector to be freed.
    vjps = property(lambda self: (self.vjp,))
    jvps = property(lambda self: (self.jvp,))

    def __repr__(self):
        return f"<call of {self.name}>"

    def filled(self, operands):
        """Return all inputs: the operands, and the constants between them."""
        inputs = list(self.constants)
        for k, x in zip(self.places, operands, strict=True):
            inputs[k] = x
        return inputs

    def apply(self, operands, params):
        """Make the same call one level down."""
        run = self.run
        if run.after is not None:  # of a batch: the runs after the first have an object of their own to look back at
            run = Run(self.run.working, self.run.kwargs)
            run.origin = self.run.origin
        y = run.call(tuple(self.filled(operands)))
        self.run.working = run.working
        self.several = isinstance(y, tuple | list)
        return y

    def opaque(self, inputs):
        """Make the same call with other values."""
        run = Run(self.run.working, self.run.kwargs)
        run.origin = self.run.origin
        return run.call(tuple(inputs))

    def keeps(self, wanted):
        """Keep the outputs only to know the shapes of several. All inputs are kept."""
        self.constants = [held(x) if x.__class__ is np.ndarray else x for x in self.constants]
        return (self.several,)

    def vjp(self, ybar, y, xs):
        """Return the cotangents of the operands."""
        bars = self.run.backward(self.filled(xs), ybar if self.several else (ybar,))
        return [zeros_of(x) if bars[k] is None else bars[k] for k, x in zip(self.places, xs, strict=True)]

    def jvp(self, xdots, y, xs):
        """Return the tangents of the outputs, by the transposed pullback."""
        outputs = y if self.several else (y,)

        def pull(*ws):
            try:
                return self.vjp(ws if self.several else ws[0], None, xs)
            except ShapeError:
                raise
            except (ChainruleError, TypeError) as error:
                raise NotDifferentiableError(
                    f"{self.name} defines only backward, so forward mode transposes it, running it on a traced "
                    f"cotangent. That failed: {_first_line(error)}",
                    "write backward in NumPy functions that chainrule supports;",
                    "use reverse mode (chainrule.grad, chainrule.vjp).",
                ) from error

        ydots = transposed(pull, xdots, outputs, f"{self.name}.backward")
        return ydots if self.several else ydots[0]
