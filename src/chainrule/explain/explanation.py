"""`explain`: the evaluation trace of a function, with its derivatives, as an object that prints itself."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.engine.spec import shape_of
from chainrule.errors import MissingDependencyError, NotDifferentiableError, ShapeError
from chainrule.explain import layout, notation
from chainrule.explain.table import ForwardTable, ReverseTable, Trace
from chainrule.program.ir import Symbol
from chainrule.program.passes.smooth import smooth
from chainrule.program.record import record
from chainrule.transforms.common import name_of, points, settle

MODES = ("forward", "reverse", "both")
FEW = 4  # passes that a table is worth where the other mode does with fewer
MANY = 16  # passes that are shown at all
WIDTH = 100


@dataclass(frozen=True, repr=False)
class Explanation:
    """A function at a point: its value, its derivatives, and how they come about. Made by `explain`.

    ``print(explanation)`` shows it as text; `show` prints it with colours.

    Attributes
    ----------
    title : str
        What is explained.
    inputs, outputs : dict
        Name -> value.
    derivatives : dict
        ``(name of an output entry, name of an input)`` -> derivative, of the input's shape.
    forward : ForwardTable or None
        The rows of forward mode: step, expression, value, one tangent for each entry of the inputs.
    reverse : tuple of ReverseTable
        For each entry of the output the rows of reverse mode: step, expression, value, adjoint, and the paths by which
        it arrived.
    notes : tuple of str
        What is not shown, and why.
    """

    title: str
    inputs: dict
    outputs: dict
    derivatives: dict
    forward: ForwardTable | None
    reverse: tuple[ReverseTable, ...]
    constants: dict
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple:
        """The rows of the first table."""
        return self.forward.rows if self.forward is not None else self.reverse[0].rows

    def summary(self) -> list[tuple[str, str]]:
        """Return (name, value) of the point, the result and its derivatives, as exact text."""
        pairs = [*self.inputs.items(), *self.outputs.items()]
        pairs += [(f"∂{y}/∂{x}", d) for (y, x), d in self.derivatives.items()]
        texts = [notation.array(v) for _, v in pairs]
        return list(zip([n for n, _ in pairs], layout.aligned(texts), strict=True))

    def tables(self, width: int = WIDTH) -> list[layout.Table]:
        """Lay out the tables so that each fits into `width` columns."""
        made = [] if self.forward is None else layout.forward_tables(self.forward, width)
        for table in self.reverse:
            made += layout.reverse_tables(table, width)
        return made

    def table(self, mode: str = "both", width: int = WIDTH) -> str:
        """Return the evaluation-trace tables of one mode, or of both, as text.

        Raises
        ------
        ValueError
            If `mode` is none of ``"forward"``, ``"reverse"``, ``"both"``.
        """
        check_mode(mode)
        made = []
        if mode != "reverse" and self.forward is not None:
            made += layout.forward_tables(self.forward, width)
        if mode != "forward":
            made += [t for table in self.reverse for t in layout.reverse_tables(table, width)]
        return "\n\n".join(map(str, made))

    def remarks(self) -> list[str]:
        """Return the captured arrays and the notes, one a line."""
        lines = [f"{s} = {notation.array(c)}" for s, c in self.constants.items()]
        return lines + list(self.notes)

    def text(self, width: int = WIDTH, ascii_only: bool = False) -> str:
        """Return all of it as text that fits into `width` columns; with `ascii_only`, without accents and signs."""
        pairs = self.summary()
        names = max([layout.length(n) for n, _ in pairs])
        head = [self.title, "", *[f"  {layout.pad(n, names)} = {v}" for n, v in pairs]]
        tables = [t.in_ascii() if ascii_only else t for t in self.tables(width)]
        parts = ["\n".join(head), *map(str, tables)]
        if self.remarks():
            parts.append("\n".join(self.remarks()))
        text = "\n\n".join(parts)
        return layout.ascii_only(text) if ascii_only else text

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def show(self) -> None:
        """Print to the terminal, with colours if the library rich is installed."""
        try:
            from chainrule.explain.render import show
        except MissingDependencyError:
            print(self)
        else:
            show(self)


def check_mode(mode):
    """Raise unless `mode` is one of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")


def explain(f: Callable, *args: Any, mode: str = "both", title: str | None = None) -> Explanation:
    """Show how the value and the derivatives of `f` come about, step by step.

    Runs `f` once, records its steps, and puts their derivatives beside them: the evaluation-trace table.

    Parameters
    ----------
    f : callable
        Takes floats, arrays, or containers of these, and returns the same.
    *args
        Where to evaluate. Ints are taken as floats.
    mode : {"both", "forward", "reverse"}
        Forward mode takes a pass for each entry of the inputs, reverse mode one for each entry of the output. With
        "both" a mode that needs many passes is left out where the other needs few, and a note says so.
    title : str, optional
        The first line of the text; the call by default.

    Returns
    -------
    Explanation
        Prints itself; its ``forward`` and ``reverse`` hold the rows.

    Raises
    ------
    ShapeError
        If more than 16 passes would be needed.
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
    check_mode(mode)
    names = argument_names(f, args)
    function = name_of(f)
    function = "f" if function == "<lambda>" else function
    floats, labels = [], []
    for k, (name, x) in enumerate(zip(names, args, strict=True)):
        leaves, structure = points(x, f"argument {k} of {function}")
        leaves = [value(v) for v in leaves]
        labels += [name + path for path in tree.paths(x)] if structure is not None else [name]
        floats.append(tree.unflatten(structure, leaves))
    program = smooth(record(f, values=True)(*floats))
    trace = Trace(program, labels)
    for label, x in zip(labels, program.points, strict=True):
        refuse_complex(f"argument {label} of {function}", x)
    outputs, results = {}, []
    suffixes = tree.paths(tree.unflatten(program.structure, [0.0] * len(program.outputs)))
    for path, y in zip(suffixes, program.outputs, strict=True):
        v = trace.values[y] if isinstance(y, Symbol) else value(y)
        refuse_complex(f"the result of {function}", v)
        outputs[function + path] = v
        results += [(name, y, i) for name, i in entries(function + path, v)]
    directions = [
        (name, k, i)
        for k, (label, x) in enumerate(zip(labels, program.points, strict=True))
        for name, i in entries(label, x)
    ]
    forward, reverse, notes = choose(mode, len(directions), len(results))
    table = trace.forward(directions) if forward else None
    tables = tuple([trace.reverse(*r) for r in results]) if reverse else ()
    inputs = dict(zip(labels, [value(x) for x in program.points], strict=True))
    derivatives = {}
    for n, (y, symbol, i) in enumerate(results):
        for k, (label, x) in enumerate(inputs.items()):
            if reverse:  # the inputs are the last rows
                d = tables[n].rows[-1 - k].adjoint
            else:
                d = gradient_from(table, trace, symbol, i, [j for j, t in enumerate(directions) if t[1] == k], x)
            derivatives[y, label] = settle(d, x)
    title = title or f"{function}({', '.join(names)})"
    return Explanation(title, inputs, outputs, derivatives, table, tables, program.constants, tuple(notes))


def gradient_from(table, trace, symbol, i, columns, x):
    """Return the derivative of one output entry in one input, read off the columns of a forward table."""
    if isinstance(symbol, Symbol):
        row = next(n for n, step in enumerate(trace.steps) if symbol in step.symbols)
        tangents = [table.rows[row].tangents[j] for j in columns]
        step = trace.steps[row]
        if len(step.symbols) > 1:
            place = [s for s in step.symbols if s is not None].index(symbol)
            tangents = [t[place] for t in tangents]
        parts = [t[i] if shape_of(t) else t for t in tangents]
    else:
        parts = [0.0] * len(columns)
    return np.array(parts).reshape(x.shape) if shape_of(x) else parts[0]


def argument_names(f, args):
    """Return a name for each positional argument, as the function's signature has it."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"x{k}" for k in range(len(args))]
    names = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}[{k}]" for k in range(len(args) - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    if not args or len(names) < len(args):
        inspect.signature(f).bind(*args)  # raises as the call would
    if not args:
        raise TypeError(f"explain needs a point: call explain({name_of(f)}, x, ...)")
    return names[: len(args)]


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
