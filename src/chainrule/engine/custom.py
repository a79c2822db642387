"""Calls of functions that have a rule of their own (`custom_vjp`, `custom_jvp`), as the engine sees them.

As a call of a `Function` does, such a call goes through `dispatch` as that of any rule, and one level down it *is the
same call again*: the user's rule holds at every level, and at the bottom, where all arguments are plain, the function
itself runs. A rule is given the values of its own level: plain arrays in a first derivative, traced values where the
derivative is differentiated again. So it serves all orders, as long as it is written in functions that have rules.

Of the two modes one is enough: a pullback is linear in its cotangent, a pushforward in its tangents, and either is the
transpose of the other.

Arguments and results may be containers; the engine sees their values only. Values that the function finds elsewhere (in
a closure, in globals) may be traced by transforms further out, which differentiate the code as it is written; one of a
transform that the call's own arguments belong to would be missed by the rule, and raises.
"""

import os

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed, differentiated, inexact
from chainrule.engine.buffer import Buffer, plain
from chainrule.engine.custom_runs import Runs
from chainrule.engine.dispatch import dispatch
from chainrule.engine.held import held
from chainrule.engine.rule import reads
from chainrule.engine.spec import shape_of, spec_of, zeros_of
from chainrule.engine.state import SMALL, isolated, unchanged
from chainrule.engine.transpose import transposed
from chainrule.errors import ChainruleError, ConversionError, InPlaceError, NotDifferentiableError, ShapeError

NUMBERS = Boxed | int | float | complex | np.ndarray | np.generic


class Definition:
    """A function with its rule. Either `vjp`, or `fwd` and `bwd`, or `jvp` is there; of the modes at least one.

    ``vjp(ybar, y, *args) -> xbars``, ``fwd(*args) -> (y, kept)`` and ``bwd(kept, ybar) -> xbars``,
    ``jvp(xdots, y, *args) -> ydot``; `xbars` and `xdots` have an entry for each argument whose number is not in `skip`.
    """

    __slots__ = ("bwd", "f", "fwd", "jvp", "name", "reads_y", "skip", "vjp", "watched")

    def __init__(self, f, name, skip=frozenset(), *, vjp=None, fwd=None, bwd=None, jvp=None):
        self.f, self.name, self.skip = f, name, skip
        self.vjp, self.fwd, self.bwd, self.jvp = vjp, fwd, bwd, jvp
        self.watched = False  # whether a call was watched for writes into large arguments
        # forward mode transposed needs the shape of the result, too
        self.reads_y = reads_result(vjp) if vjp is not None else bwd is None


def reads_result(rule):
    """Tell whether a rule reads its second argument, the result; one whose code can't be looked at may."""
    try:
        return reads(rule, 1)[0]
    except (AttributeError, IndexError):
        return True


def place(function):
    """Name a user's function with the line it starts at: ``f_vjp (model.py:12)``."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def call(definition, args, kwargs, kind=None):
    """Call a function that has a rule of its own, by a class of calls."""
    flat = [tree.flatten(a) for a in args]
    leaves = [plain(v) if v.__class__ is Buffer else v for values, _ in flat for v in values]
    shape = [(len(values), structure) for values, structure in flat]
    made = (kind or Call)(definition, leaves, shape, kwargs)
    y = made.run(leaves)
    return tree.unflatten(made.out_structure, list(y) if made.several else [y])


class Call:
    """A call at one level. It stands where the engine looks for a `Rule`."""

    __slots__ = ("constants", "definition", "kept", "kwargs", "level", "out_structure", "places", "several", "shape")

    kind, spread, complex = "rule", True, True
    affine, accepts, params = {}, frozenset(), {}
    pulls = domain = None
    entrywise = takes = masks = False

    def __init__(self, definition, leaves, shape, kwargs):
        self.definition, self.shape, self.kwargs = definition, shape, kwargs
        self.places = tuple([k for k, x in enumerate(leaves) if isinstance(x, Boxed)])
        self.constants = [None if isinstance(x, Boxed) else x for x in leaves]
        self.level = max([leaves[k].level for k in self.places], default=0)
        self.kept = None  # what `fwd` kept for `bwd`, if this call is the one that ran it
        self.several, self.out_structure = False, None

    def __repr__(self):
        return f"<call of {self.name}>"

    @property
    def name(self):
        """Name of the user's function."""
        return self.definition.name

    @property
    def fun(self):
        """The user's function."""
        return self.definition.f

    @property
    def nin(self):
        """How many values are operands: those that are traced at some level."""
        return len(self.places)

    # Not stored: the call would hold itself, and need the garbage collector to be freed.
    vjps = property(lambda self: (self.pull,))
    jvps = property(lambda self: (self.push,))

    # -- the call itself -------------------------------------------------------------------------------------

    def run(self, leaves):
        """Run the call at the highest level among `leaves`; without a traced one, the user's function."""
        if not self.places:
            return self.bottom(leaves)
        return dispatch(self, tuple([leaves[k] for k in self.places]), {})

    def apply(self, operands, params):
        """Make the same call one level down."""
        leaves = self.filled(operands)
        below = self.__class__(self.definition, leaves, self.shape, self.kwargs)
        y = below.run(leaves)
        self.several, self.out_structure = below.several, below.out_structure
        self.kept = None if below.places else below.kept
        if self.level:
            for v in y if self.several else (y,):
                if isinstance(v, Boxed) and v.level >= self.level:
                    raise closure_error(self.name, place(self.definition.f))
        return y

    def whole(self, operands):
        """Run the user's function on batches, as it would on plain values."""
        y = self.bottom(self.filled([x.alias() if isinstance(x, Boxed) else x for x in operands]))
        self.kept = None
        return y

    def opaque(self, leaves):
        """Make the same call with other values."""
        return self.__class__(self.definition, leaves, self.shape, self.kwargs).run(list(leaves))

    def of_runs(self, flags, n):
        """Return the same call of `n` runs, with their axis in front of the operands with a flag."""
        return Runs(self, flags, n)

    def missed(self):
        """Return the error of a traced value that the rule would miss."""
        return closure_error(self.name, place(self.definition.f))

    def bottom(self, leaves):
        """Run the user's function on plain values, or on batches of them."""
        d = self.definition
        given = isolated(leaves, {}, SMALL if d.watched else float("inf"))
        d.watched = True
        if d.fwd is None:
            y = d.f(*self.arguments(leaves), **self.kwargs)
        else:
            y, kept = self.forward(leaves)
            self.kept = tree.tree_map(lambda v: held(v) if v.__class__ is np.ndarray else v, kept)
        self.unwritten(d.fwd or d.f, given, leaves)
        values, self.out_structure = tree.flatten_numbers(y)
        self.several = self.out_structure is not None
        self.checked_values(d.fwd or d.f, values)
        return tuple(values) if self.several else values[0]

    def checked_values(self, f, values):
        """Raise if what the user's function returned are not numbers and arrays."""
        for v in values:
            if v is None or not (isinstance(v, NUMBERS | str | bytes) or hasattr(v, "dtype")):
                raise NotDifferentiableError(
                    f"{place(f)} returned {'None' if v is None else f'a value of type {type(v).__name__}'}.",
                    "return a number or an array, or a container of these.",
                )

    def forward(self, leaves):
        """Run the user's `fwd`, which returns the result and what `bwd` needs."""
        fwd = self.definition.fwd
        both = fwd(*self.arguments(leaves), **self.kwargs)
        if not isinstance(both, tuple) or len(both) != 2:
            raise ShapeError(
                f"{place(fwd)} must return a pair, the result and what {place(self.definition.bwd)} needs.",
                "return y, (x, w).",
            )
        return both

    def unwritten(self, rule, given, leaves):
        """Raise if a user's function has written into its arguments."""
        if not unchanged(given, leaves):
            raise InPlaceError(
                f"{place(rule)} changed an argument in place, which would change the caller's array.",
                "work on a copy:  x = x.copy().",
            )

    def arguments(self, leaves):
        """Return the values in the containers of the arguments."""
        args, start = [], 0
        for count, structure in self.shape:
            values = [v.alias() if isinstance(v, Boxed) else v for v in leaves[start : start + count]]
            args.append(tree.unflatten(structure, values))
            start += count
        return args

    def filled(self, operands):
        """Return all values: the operands, and the constants between them."""
        leaves = list(self.constants)
        for k, x in zip(self.places, operands, strict=True):
            leaves[k] = x
        return leaves

    def keeps(self, wanted):
        """Keep the result if a rule reads it, or if there are several values. All operands are kept."""
        self.constants = [held(x) if x.__class__ is np.ndarray else x for x in self.constants]
        return (self.several or self.definition.reads_y,)

    # -- reverse mode ----------------------------------------------------------------------------------------

    def pull(self, ybar, y, xs):
        """Return the cotangents of the operands."""
        d = self.definition
        ybars = ybar if self.several else (ybar,)
        if d.vjp is None and d.bwd is None:
            push = self.pusher(y, xs)
            return transposed(
                push, ybars, xs, place(d.jvp), given="tangent", lost="reverse mode",
                advice=("use forward mode (chainrule.jvp);", f"define a rule of reverse mode:  {d.name}.defvjp(...)."),
            )  # fmt: skip
        bars = self.cotangents(ybars, y, xs)
        return [zeros_of(x) if bars[k] is None else bars[k] for k, x in zip(self.places, xs, strict=True)]

    def cotangents(self, ybars, y, xs):
        """Run the user's rule of reverse mode; return one cotangent per value of the arguments, None for zero."""
        d, leaves = self.definition, self.filled(xs)
        traced = any(isinstance(x, Boxed) for x in xs)
        given = isolated(leaves, {})
        args = self.arguments(leaves)
        # The cotangents are copies: the user may write into them, and others may hold them, too.
        ybars = [v.alias() if isinstance(v, Boxed) else v.copy() if v.__class__ is np.ndarray else v for v in ybars]
        ybar = tree.derivatives(self.out_structure, ybars)
        if d.vjp is not None:
            user = d.vjp
            found = d.vjp(ybar, None if y is None else self.result(y), *args, **self.kwargs)
        else:
            user = d.bwd
            found = d.bwd(self.kept_for(leaves, traced), ybar)
        self.unwritten(user, given, leaves)
        bars = self.matched(found, leaves, user)
        if not any(isinstance(x, Boxed) and x.level >= self.level for x in xs):  # else the pass itself is recorded
            for v in bars:
                while isinstance(v, Boxed):
                    if v.level == self.level:
                        raise closure_error(d.name, place(user))
                    v = v.data
        return bars

    def kept_for(self, leaves, traced):
        """Return what `fwd` kept, as values of the level at hand: made anew where these are traced."""
        if not traced:
            return self.kept
        d = self.definition
        try:
            return self.forward(leaves)[1]
        except ShapeError:
            raise
        except (ChainruleError, TypeError, ValueError) as error:
            if not any(map(differentiated, leaves)):  # a program is recorded
                raise ConversionError(f"the function {place(d.fwd)}", "write it in NumPy functions.") from error
            raise NotDifferentiableError(
                f"a higher derivative of {d.name} runs {place(d.fwd)} on traced values, and that failed: "
                f"{first_line(error)}",
                f"call {d.name} itself in it, and write the rest in NumPy functions;",
                "use a rule of the form  vjp(ybar, y, *args), which is given the result and the arguments.",
            ) from error

    def result(self, y):
        """Return the result in its container."""
        return tree.unflatten(self.out_structure, list(y) if self.several else [y])

    def matched(self, found, leaves, user):
        """Return what a rule gave as one cotangent per value, of the value's shape; None for zero."""
        numbers = [i for i in range(len(self.shape)) if i not in self.definition.skip]
        what = f"{len(numbers)} argument{'s' * (len(numbers) != 1)} of {self.name}"
        if found is None:
            raise ShapeError(
                f"{place(user)} returned None: a return statement is missing, or the cotangent is.",
                f"return one cotangent for each of the {what};",
                "for an argument that is constant return None in its place:  return (None,).",
            )
        if len(numbers) == 1 and found.__class__ is not tuple:
            found = (found,)
        if not isinstance(found, tuple | list) or len(found) != len(numbers):
            count = len(found) if isinstance(found, tuple | list) else 1
            raise ShapeError(
                f"{place(user)} returned {count} cotangent{'s' * (count != 1)} for {what}.",
                "return a tuple of one for each, in order, None for one that is constant.",
            )
        given = dict(zip(numbers, found, strict=True))
        bars, start = [], 0
        for i, (count, structure) in enumerate(self.shape):
            values = leaves[start : start + count]
            start += count
            label = f"cotangent of argument {i} of {self.name}"
            wanted = {k - start + count for k in self.places if start - count <= k < start}
            parts = given.get(i) if wanted else None  # of constants nothing is asked
            bars.extend(matched_parts(parts, values, structure, f"{place(user)} returned as {label}", wanted))
        return bars

    # -- forward mode ----------------------------------------------------------------------------------------

    def push(self, xdots, y, xs):
        """Return the tangents of the results."""
        d = self.definition
        if d.jvp is not None:
            ydots = self.pusher(y, xs)(*xdots)
            return tuple(ydots) if self.several else ydots[0]
        outputs = y if self.several else (y,)
        user = d.vjp or d.bwd

        def pull(*ws):
            try:
                bars = self.cotangents(ws, y, xs)
            except ShapeError:
                raise
            except (ChainruleError, TypeError, ValueError) as error:
                raise NotDifferentiableError(
                    f"{d.name} has a rule for reverse mode only, so forward mode transposes it, running {place(user)} "
                    f"on a traced cotangent. That failed: {first_line(error)}",
                    "write the rule in NumPy functions that chainrule supports;",
                    f"define the rule of forward mode, too:  {d.name}.defjvp(...);",
                    "use reverse mode (chainrule.grad, chainrule.vjp).",
                ) from error
            return [zeros_of(x) if bars[k] is None else bars[k] for k, x in zip(self.places, xs, strict=True)]

        ydots = transposed(pull, xdots, outputs, place(user))
        return ydots if self.several else ydots[0]

    def pusher(self, y, xs):
        """Return the user's rule of forward mode as a function from the operands' tangents to those of the results."""
        d, leaves = self.definition, self.filled(xs)
        outputs = y if self.several else (y,)

        def push(*xdots):
            given = isolated(leaves, {})
            dots = [zeros_of(v) if inexact(v) else None for v in leaves]
            for k, t in zip(self.places, xdots, strict=True):
                dots[k] = t
            tangents = tuple([t for i, t in enumerate(self.arguments(dots)) if i not in d.skip])
            found = d.jvp(tangents, None if y is None else self.result(y), *self.arguments(leaves), **self.kwargs)
            self.unwritten(d.jvp, given, leaves)
            ydots = matched_parts(found, outputs, self.out_structure, f"{place(d.jvp)} returned as tangent of {d.name}")
            ydots = [zeros_of(v) if t is None else t for t, v in zip(ydots, outputs, strict=True)]
            for v in ydots:
                while isinstance(v, Boxed):
                    if v.level == self.level and not any(isinstance(x, Boxed) and x.level >= self.level for x in xs):
                        raise closure_error(d.name, place(d.jvp))
                    v = v.data
            return ydots

        return push


def matched_parts(found, values, structure, what, wanted=None):
    """Return derivatives given for the values of one container, checked against them; None stands for zeros.

    Those of values that are not among `wanted` (numbers; None: all are) are not asked for.
    """
    if found is None:
        return [None] * len(values)
    if structure is None:
        parts = [found]
    else:
        try:
            parts = structure.flatten_up_to(found)
        except (ValueError, TypeError):
            raise ShapeError(
                f"{what} a value of another structure than {structure}: {type(found).__name__}.",
                "return it in the same container, None in place of a value whose derivative is zero.",
            ) from None
    checked = []
    for k, (part, v) in enumerate(zip(parts, values, strict=True)):
        part = plain(part) if part.__class__ is Buffer else part
        if part is None or (wanted is not None and k not in wanted):
            checked.append(None)
            continue
        spec = spec_of(part) if isinstance(part, NUMBERS) else None
        if spec is None or spec.kind not in "fciub":
            raise NotDifferentiableError(
                f"{what} a value of type {type(part).__name__}{'' if spec is None else f' of dtype {spec.dtype}'}.",
                "return a number or an array, or None for zero.",
            )
        if not inexact(v):
            checked.append(None)
            continue
        if spec.shape != shape_of(v):
            raise ShapeError(
                f"{what} an array of shape {spec.shape}; it must be {shape_of(v)}.",
                "return the derivative in the shape of its value: summed over what the function broadcast or repeated, "
                "spread over what it summed.",
            )
        checked.append(part)
    return checked


def closure_error(name, where):
    """Return the error of a rule that would miss a value."""
    return NotDifferentiableError(
        f"{where} uses a traced value that is not among the arguments of {name} (from a closure, a global variable, an "
        f"attribute), so the rule of {name} would miss its derivative.",
        f"pass it as an argument:  {name}(x, w), and return its cotangent or tangent, too;",
        "use  chainrule.stop_gradient(w)  there if it is meant to be constant.",
    )


def first_line(error):
    """Return the first line of an error's message, with its class."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
