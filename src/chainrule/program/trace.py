"""A run of a function that is recorded to be run again: its program, its result, or why there is none.

The function gets Tracers for its arrays and numbers, and runs once, as Python code. What it asked for on the way is in
the program's guards. A function can't be traced if a value leaves the trace unseen: `float(x)`, an array of objects, a
box of another transform in its closure, a random number.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.errors import ConversionError, NoRuleError, raised_in
from chainrule.program.ir import Program, Symbol, interpret
from chainrule.program.loops.marks import listening
from chainrule.program.loops.roll import roll
from chainrule.program.record import finished, hints_of, recording
from chainrule.program.tracing import Tracer
from chainrule.transforms.common import run


class Untraceable(Exception):
    """Why a function can't be traced, with the user's line."""

    def __init__(self, why, where=None):
        super().__init__(why if where is None else f"{why} ({where})")


def trace(f: Callable, args: Any, kwargs: dict, dynamic: list, *, careful: bool = False) -> tuple[Program, list]:
    """Run `f` once and return its program, and the outputs of this run.

    Parameters
    ----------
    f : callable
    args, kwargs
        Plain values, in containers.
    dynamic : list of bool
        For each value whether it is an input of the program; the others are constants.
    careful : bool
        Let cotangents carry masks: a branch of a choice that was not taken can't make them NaN.

    Raises
    ------
    Untraceable
        If the program would not stand for the function. What `f` itself raises is raised.
    """
    before = generators()
    with recording(f, asks="guard", through=True, borrow=True, careful=careful) as made:
        program, level = made.program, made.level
        hints, choice = hints_of(f, args, kwargs), iter(dynamic)

        def boxed(x):
            hint = next(hints)
            if not next(choice):
                return x
            symbol = program.symbol(x, hint)
            program.inputs.append(symbol)
            return Tracer(x, symbol, level)

        traced, named = tree.tree_map(boxed, list(args)), tree.tree_map(boxed, kwargs)
        try:
            with listening(made):
                out = run(f, traced, named)
        except (ConversionError, NoRuleError) as error:
            raise Untraceable(str(error).split("\n")[0], raised_in(error)) from error
        finished(program, out, f, level)
        pairs = zip(program.outputs, outputs_of(out, level), strict=True)
        values = {s: y for s, y in pairs if s.__class__ is Symbol}  # the others depend on no input
    if generators() != before:
        raise Untraceable("it draws random numbers, which would be the same in each run")
    for y in program.outputs:
        if isinstance(y, Boxed):
            raise Untraceable("its result belongs to another transform")
    outputs = [values[y] if y.__class__ is Symbol else y for y in program.outputs]
    rolled = roll(program, made)
    if rolled is not program and gives(rolled, tree.flatten((args, kwargs))[0], dynamic, outputs):
        program = rolled
    return program, outputs


def gives(program, leaves, dynamic, expected):
    """Tell whether a program with loops gives what the recorded run gave, bit for bit."""
    points = [x for x, d in zip(leaves, dynamic, strict=True) if d]
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


def generators():
    """Return the state of the global random generators."""
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), kind, keys.tobytes(), *rest


__all__ = ["Untraceable", "trace"]
