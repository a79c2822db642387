"""A run of a function that is recorded to be run again: its program, its result, or why there is none.

The function gets Tracers for its arrays and numbers, and runs once, as Python code. What it asked for on the way is in
the program's guards. A function can't be traced if a value leaves the trace unseen: `float(x)`, an array of objects, a
box of another transform in its closure, a random number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.errors import NotDifferentiableError, raised_in
from chainrule.program.ir import Program, Symbol, interpret
from chainrule.program.loops.listening import listening
from chainrule.program.loops.roll import roll
from chainrule.program.record import hints_of, recording
from chainrule.program.tracing import Tracer
from chainrule.transforms.common import output_point, own, run


class Untraceable(Exception):
    """Why a function can't be traced, with the user's line; `result` is what the run gave, if it came to its end."""

    def __init__(self, why, where=None, result=None):
        super().__init__(why if where is None else f"{why} ({where})")
        self.result = result


class Result(NamedTuple):
    """What a function returned, for `chainrule.tree`; what it wrote to which points; what takes back what it did.

    `others` are the other arrays that it can have read.
    """

    structure: Any
    values: list
    writes: list
    points: list
    others: list
    undo: Callable


@dataclass(eq=False, slots=True)
class Traced:
    """A recorded run.

    `outputs` are its plain results. `writes` has the numbers of the points that the function wrote to in place: what
    they became stands behind the results. `places` are those of the arrays from outside that became inputs.
    """

    program: Program
    outputs: list
    writes: list
    frames: dict | None
    points: list


def trace(f: Callable, args: Any, kwargs: dict, dynamic: list, *, careful: bool = False) -> tuple[Program, list]:
    """Run `f` once and return its program, and the outputs of this run. See `traced`."""
    found = traced(f, args, kwargs, dynamic, careful=careful)
    return found.program, found.outputs


def traced(f, args, kwargs, dynamic, *, careful=False, lift=None) -> Traced:
    """Run `f` once and return the record of the run.

    Parameters
    ----------
    f : callable
    args, kwargs
        Plain values, in containers.
    dynamic : list of bool
        For each value whether it is an input of the program; the others are constants.
    careful : bool
        Let cotangents carry masks: a branch of a choice that was not taken can't make them NaN.
    lift : Lift or None
        Arrays from outside that are inputs, too, behind the others.

    Raises
    ------
    Untraceable
        If the program would not stand for the function. What `f` itself raises is raised.
    """
    with recording(f, asks="guard", through=True, borrow=True, careful=careful) as made:
        program, level = made.program, made.level
        hints, choice = hints_of(f, args, kwargs), iter(dynamic)
        boxes = []

        def boxed(x):
            hint = next(hints)
            if not next(choice):
                return x
            symbol = program.symbol(x, hint)
            program.inputs.append(symbol)
            boxes.append(Tracer(x, symbol, level))
            return boxes[-1]

        given, named = tree.tree_map(boxed, list(args)), tree.tree_map(boxed, kwargs)
        leaves, structure = tree.flatten((given, named))
        g = f
        if lift is not None:
            g = lift.twin(f, program, level)
            boxes += lift.boxes
        listener = listening(made)
        try:
            with listener:
                out = run(g, given, named)
        except Exception as error:  # the function's own comes up again when it is run as Python
            raise Untraceable(f"{type(error).__name__}: {error}".split("\n")[0], raised_in(error)) from error
        after, form = tree.flatten((given, named))
        if form != structure or not all(map(is_, after, leaves)):  # it has written into copies
            raise Untraceable("it writes into a container among its arguments")
        returned(program, out, f, level, made.shown)
        writes = written(program, boxes)
        pairs = zip(program.outputs, outputs_of(out, level) + [boxes[k].data for k in writes], strict=True)
        values = {s: y for s, y in pairs if s.__class__ is Symbol}  # the others depend on no input
    for y in program.outputs:
        if isinstance(y, Boxed):
            raise Untraceable("its result belongs to another transform")
    outputs = [values[y] if y.__class__ is Symbol else y for y in program.outputs]
    seen = [np.nan] if made.strange else outputs  # of an overflow: not to be relied on
    points = [x for x, d in zip(tree.flatten((args, kwargs))[0], dynamic, strict=True) if d]
    points += [] if lift is None else lift.arrays
    try:
        rolled = roll(program, made)
    except Exception as error:  # a fault of ours; the function can still be run
        raise Untraceable(f"its loops can't be written: {type(error).__name__}: {error}".split("\n")[0]) from error
    if rolled is not program and gives(rolled, points, outputs):
        program = rolled
    frames = made.frames if listener.active else None
    return Traced(program, seen, writes, frames, points)


def returned(program, out, f, level, shown):
    """Put what the function returned into the program; other than in derivatives, that may be None or a string."""
    if any(isinstance(key, Boxed) for key in keys_in(out)):
        raise Untraceable("it returns a dict whose keys are computed")
    leaves, program.structure = ([out], None) if isinstance(out, Boxed) else tree.flatten(out)
    for y in leaves:
        if isinstance(y, str | bytes) and shown:
            raise Untraceable("it returns text, and makes text of values")
        if not isinstance(y, str | bytes) and y is not None:
            try:
                y = output_point(y, f)
            except NotDifferentiableError:
                raise Untraceable(f"it returns a {type(y).__name__}") from None
            if own(y, level, f, Tracer):
                y = y.data if y.aux is None else y.aux
        program.outputs.append(y)


def keys_in(out):
    """Find the keys of nested dicts."""
    if isinstance(out, dict):
        yield from out
        out = list(out.values())
    if isinstance(out, list | tuple):
        for part in out:
            yield from keys_in(part)


def written(program, boxes):
    """Find the inputs that the function wrote to; what they became are further outputs."""
    writes = []
    for k, (box, symbol) in enumerate(zip(boxes, program.inputs, strict=True)):
        if symbol.shape == () and not isinstance(box.data, np.ndarray):
            continue
        if box.__class__ is not Tracer:
            raise Untraceable(f"it writes into its argument {symbol.hint or k}, under a transform")
        if box.aux is not symbol:
            writes.append(k)
            program.outputs.append(box.data if box.aux is None else box.aux)
    return writes


def gives(program, points, expected):
    """Tell whether a program with loops gives what the recorded run gave, bit for bit."""
    try:
        with np.errstate(all="ignore"):
            found = interpret(program, points)
    except Exception:
        return False
    return all(alike(a, b) for a, b in zip(found, expected, strict=True))


def alike(a, b):
    """Tell whether two results are of one type and dtype and hold the same numbers."""
    same_type = type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
    return same_type and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")


def outputs_of(out, level):
    """Return the plain values of a traced run's outputs."""
    leaves = [out] if isinstance(out, Boxed) else tree.flatten(out)[0]
    return [y.data if y.__class__ is Tracer and y.level == level else y for y in leaves]


__all__ = ["Result", "Traced", "Untraceable", "trace", "traced"]
