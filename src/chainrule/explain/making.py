"""`explain`: run a function once, write down its steps, and put their derivatives beside them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.engine.spec import shape_of
from chainrule.errors import NotDifferentiableError, ShapeError
from chainrule.explain.arguments import Arguments, taken
from chainrule.explain.explanation import Explanation, check_mode
from chainrule.explain.table import Trace
from chainrule.program.flat import captured_names
from chainrule.program.ir import Symbol
from chainrule.program.passes.smooth import smooth
from chainrule.program.record import record
from chainrule.transforms.common import name_of, need_function, settle

FEW = 4  # passes that a table is worth where the other mode does with fewer
MANY = 16  # passes that are shown at all
LISTED = 100  # entries of a result that are listed one by one where forward mode gives them all at once


def explain(f: Callable, *args: Any, mode: str = "both", title: str | None = None) -> Explanation:
    """Show how the value and the derivatives of `f` come about, step by step.

    Runs `f` once, records its steps, and puts their derivatives beside them: the evaluation-trace table.

    Parameters
    ----------
    f : callable
        Takes floats, arrays, or containers of these, and returns the same.
    *args
        Where to evaluate. Ints are taken as floats, unless `f` needs them as ints (as in ``range(n)``); arrays of
        integers and bools, strings, bools and None are constants.
    mode : {"both", "forward", "reverse"}
        Forward mode takes a pass for each entry of the inputs, reverse mode one for each entry of the output. With
        "both" a mode that needs many passes is left out where the other needs few, and a note says so; where both need
        more than 16, the sum of the entries of the result is differentiated in reverse mode.
    title : str, optional
        The first line of the text; the call by default.

    Returns
    -------
    Explanation
        Prints itself; its ``forward`` and ``reverse`` hold the rows.

    Raises
    ------
    ShapeError
        If more than 16 passes of the mode asked for would be needed.
    NotDifferentiableError
        If an argument or a result is complex, or has no derivative.

    Examples
    --------
    >>> import chainrule as cr
    >>> explanation = cr.explain(lambda x, y: x * y + x, 2.0, 3.0, mode="forward")
    >>> print(explanation.table())
    Forward mode: tangents, from the inputs to the result
    <BLANKLINE>
     step   expression   value   v̇ = ∂v/∂x   v̇ = ∂v/∂y
     ────   ──────────   ─────   ─────────   ─────────
     v1     x            2       1           0
     v2     y            3       0           1
     v3     v1 * v2      6       3           2
     v4     v3 + v1      8       4           2
    <BLANKLINE>
    v̇ is the tangent of a step: the derivative of that step in an input.
    """
    need_function(f, "explain(f, x)")
    check_mode(mode)
    function = name_of(f)
    function = "f" if function == "<lambda>" else function
    found, recorded = taken(f, args, record(f, values=True))
    labels = list(found.labels)
    program = smooth(recorded)
    for symbol, given in captured_names(f, program).items():
        symbol.hint = given
    trace = Trace(program, labels)
    for label, x in zip(labels, program.points, strict=True):
        refuse_complex(f"argument {label} of {function}", x)
    outputs, suffixes = {}, tree.paths(tree.unflatten(program.structure, [0.0] * len(program.outputs)))
    for path, y in zip(suffixes, program.outputs, strict=True):
        outputs[function + path] = v = trace.values[y] if isinstance(y, Symbol) else value(y)
        refuse_complex(f"the result of {function}", v)
    inputs = dict(zip(labels, [value(x) for x in program.points], strict=True))
    sizes = [sum(np.size(x) for x in values.values()) for values in (inputs, outputs)]
    whole = mode == "both" and min(sizes) > MANY  # each result is then taken as the sum of its entries
    if whole:
        sizes[1] = len(outputs)
    forward, reverse, notes = choose(mode, *sizes)
    if whole:
        notes.insert(0, "The derivatives are those of the sum of the entries of the result, which are many.")
    results: list = []
    for (name, v), y in zip(outputs.items(), program.outputs, strict=True):
        if whole and shape_of(v):
            results.append((f"sum({name})", y, None))
        elif not reverse and np.size(v) > LISTED:
            results.append((name, y, ...))
        else:
            results += [(n, y, i) for n, i in entries(name, v)]
    directions = []
    if forward:
        directions = [(n, k, i) for k, (label, x) in enumerate(inputs.items()) for n, i in entries(label, x)]
    table = trace.forward(directions) if forward else None
    tables = tuple([trace.reverse(*r) for r in results]) if reverse else ()
    derivatives = {}
    for n, (y, symbol, i) in enumerate(results):
        for k, (label, x) in enumerate(inputs.items()):
            if reverse:  # the inputs are the last rows
                d = tables[n].rows[-1 - k].adjoint
            else:
                d = gradient_from(table, trace, symbol, i, [j for j, t in enumerate(directions) if t[1] == k], x)
            derivatives[y, label] = d if i is ... else settle(d, x)
    title = title or f"{function}({', '.join(found.names)})"
    run = Run(f, found, function, recorded, trace, tuple(results))
    return Explanation(title, inputs, outputs, derivatives, table, tables, program.constants, tuple(notes), run)


@dataclass(frozen=True)
class Run:
    """What an explanation is made of.

    `f` and its `arguments`; its `name`; the `recorded` program, with what has no derivative; the `trace` of what
    has one; and the `results`, triples (name, symbol or constant, index of the entry, None for the sum of
    all, or ``...`` for all of them).
    """

    f: Callable
    arguments: Arguments
    name: str
    recorded: Any
    trace: Any
    results: tuple


def gradient_from(table, trace, symbol, i, columns, x):
    """Return the derivative of one output entry in one input, read off the columns of a forward table.

    With ``...`` for the entry it is that of the whole output: its shape, then that of the input.
    """
    made = symbol.__class__ is Symbol  # or it is a constant, as what has no derivative is
    row = next((n for n, step in enumerate(trace.steps) if symbol in step.symbols), None) if made else None
    if row is not None:
        tangents = [table.rows[row].tangents[j] for j in columns]
        step = trace.steps[row]
        if len(step.symbols) > 1:
            place = [s for s in step.symbols if s is not None].index(symbol)
            tangents = [t[place] for t in tangents]
        if i is ...:
            return np.stack(tangents, axis=-1).reshape(shape_of(tangents[0]) + shape_of(x))
        parts = [t[i] if shape_of(t) else t for t in tangents]
    elif i is ...:
        return np.zeros((symbol.shape if made else shape_of(symbol)) + shape_of(x))
    else:
        parts = [0.0] * len(columns)
    return np.array(parts).reshape(x.shape) if shape_of(x) else parts[0]


def entries(name, x):
    """Return (name, index) of each entry of a value."""
    shape = shape_of(x)
    if not shape:
        return [(name, ())]
    return [(f"{name}[{', '.join(map(str, i))}]", i) for i in np.ndindex(*shape)]


def choose(mode, forward, reverse):
    """Return whether to show forward and reverse mode, given the passes each takes, and notes on what is left out."""
    cost = {"forward": forward, "reverse": reverse}
    passes = {
        "forward": f"forward mode takes {forward} passes, one for each entry of the inputs",
        "reverse": f"reverse mode takes {reverse} passes, one for each entry of the result",
    }
    shown = [m for m in cost if mode in (m, "both")]
    notes = []
    if mode == "both":
        best = min(cost, key=cost.get)
        for m in cost:
            if m != best and cost[m] > FEW:
                shown.remove(m)
                notes.append(f"Not shown: {passes[m]}; {best} mode takes {cost[best]}.")
    for m in shown:
        if cost[m] > MANY:
            advice = ["reduce the output, e.g. with np.sum, or explain the function of a part of its inputs;"]
            other = "reverse" if m == "forward" else "forward"
            if mode != "both" and cost[other] <= MANY:
                advice.insert(0, f'use mode="{other}", which takes {cost[other]};')
            raise ShapeError(f"{passes[m]}; at most {MANY} are shown.", *advice)
    return "forward" in shown, "reverse" in shown, notes


def refuse_complex(what, x):
    """Raise for a value that has no real derivative to show."""
    kind = np.asarray(x).dtype.kind
    if kind == "c":
        raise NotDifferentiableError(
            f"{what} is complex; explain shows derivatives of real values.",
            "take real and imaginary parts as inputs of their own, and np.real, np.imag or np.abs of the result.",
        )
    if kind != "f":
        raise NotDifferentiableError(
            f"{what} is of dtype {np.asarray(x).dtype}, which has no derivative.", "return a float."
        )
