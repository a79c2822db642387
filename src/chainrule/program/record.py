"""Recording: one run of a function, as a list of equations.

A `Tracer` is a further interpreter of the same rules. It computes on plain values, as any other box does, and writes
down each call as an `Equation` in the `Program` of its run. A name in a program is a `Symbol`; what a symbol does not
stand for is a constant: Python numbers stay where they are used, arrays that the function took from outside get symbols
of their own. Composite functions appear as the calls they are written in; shapes, comparisons and Python's control flow
are plain Python and leave no trace.

A program is a record of one run: it holds for the branches that were taken, and for the shapes that were seen.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, inexact
from chainrule.engine.pulls import frozen_param
from chainrule.engine.rule import Rule
from chainrule.transforms.common import output_point, own, run


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """The name of one value in a `Program`: ``v3``, or ``c1`` for a captured array. Compared by identity."""

    program: "Program" = field(repr=False)
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """One recorded call: ``output = rule(*inputs, **params)``.

    An entry of `inputs` is a `Symbol` or a plain number. `output` is a `Symbol`; of a call with several outputs a
    tuple, with None for an output that carries no derivative (an index, a count). `value` is what the call gave, or
    None if the values were not kept.
    """

    rule: Rule
    inputs: tuple
    params: dict
    output: Any
    value: Any = None


@dataclass(eq=False, slots=True)
class Program:
    """One run of a function, as a list of equations.

    Attributes
    ----------
    inputs : list of Symbol
        One for each float, or array of floats, among the arguments, in their order; other arguments are constants.
    equations : list of Equation
        The calls, in the order in which they ran.
    outputs : list
        A `Symbol`, or a plain value that depends on no input, for each output.
    constants : dict
        The arrays that the function took from outside: Symbol -> a copy.
    points : list
        The values of the inputs; empty unless values were asked for.
    structure
        The container of the outputs, for `chainrule.tree`.
    """

    inputs: list = field(default_factory=list)
    equations: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    points: list = field(default_factory=list)
    structure: Any = None
    keeps_values: bool = False
    _count: int = 0
    _seen: dict = field(default_factory=dict)  # id of a captured array -> (that array, its symbol)

    def symbol(self) -> Symbol:
        """Return the next symbol: ``v1``, ``v2``, ..."""
        self._count += 1
        return Symbol(self, f"v{self._count}")

    def operand(self, x: Any) -> Any:
        """Return how a constant operand stands in an equation: a number as it is, an array as a symbol.

        The array is copied, since its holder may write to it; an array that has not changed keeps its symbol.
        """
        if not isinstance(x, np.ndarray) or not x.shape:
            return x[()] if isinstance(x, np.ndarray) else x
        array, known = self._seen.get(id(x), (None, None))
        if known is not None and _same(self.constants[known], array):
            return known
        made = Symbol(self, f"c{len(self.constants) + 1}")
        self.constants[made] = x.copy()
        self._seen[id(x)] = x, made  # holding the array keeps its id its own
        return made


def _same(a, b):
    """Tell whether two arrays hold the same bytes: -0.0 and NaN count as they are."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Tracer(Boxed):
    """A value of a run that is being recorded; `aux` is its symbol, or None for a constant."""

    __slots__ = ()

    def __init__(self, data, symbol, level):
        self.data, self.aux, self.level = data, symbol, level

    def constant(self, y):  # noqa: D102 (see Boxed)
        return Tracer(y, None, self.level)

    @staticmethod
    def process(rule, level, operands, params):  # noqa: D102 (see Boxed)
        mine = [x.__class__ is Tracer and x.level == level for x in operands]
        xs = tuple([x.data if m else x for x, m in zip(operands, mine, strict=True)])
        y = _apply(rule, xs, params)
        several = isinstance(y, tuple | list)
        symbols = [x.aux if m else None for x, m in zip(operands, mine, strict=True)]
        program = next((s.program for s in symbols if s is not None), None)
        if not several and not inexact(y):
            return y
        if program is None:  # all operands are constants
            outputs = [Tracer(v, None, level) if inexact(v) else v for v in (y if several else (y,))]
        else:
            inputs = tuple([program.operand(x) if s is None else s for x, s in zip(xs, symbols, strict=True)])
            names = [program.symbol() if inexact(v) else None for v in (y if several else (y,))]
            program.equations.append(
                Equation(
                    rule,
                    inputs,
                    {k: frozen_param(v) for k, v in params.items()},
                    tuple(names) if several else names[0],
                    y if program.keeps_values else None,
                )
            )
            outputs = [
                v if s is None else Tracer(v, s, level) for v, s in zip(y if several else (y,), names, strict=True)
            ]
        if not several:
            return outputs[0]
        return type(y)(*outputs) if hasattr(y, "_fields") else type(y)(outputs)


# On Python numbers an operator gives a Python number, which is weak (float32 beside it stays float32); the function of
# the same meaning gives np.float64. Traced operators arrive here as functions.
_OPERATORS = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.power: operator.pow, np.negative: operator.neg, np.positive: operator.pos,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod,
}  # fmt: skip
_PYTHON = frozenset({bool, int, float, complex})


def _apply(rule, xs, params):
    """Run a call on its plain operands; Python numbers stay Python numbers under arithmetic."""
    plain = _OPERATORS.get(rule.fun)
    if plain is not None and all(x.__class__ in _PYTHON for x in xs):
        return plain(*xs)
    return rule.apply(xs, params)


def record(f: Callable, *, values: bool = False) -> Callable:
    """Return a function that runs `f` and gives the record of the run, instead of its result.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, numbers, or containers of them.
    values : bool
        Keep the value of each step, too.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a `Program`. Floats and arrays of floats among the arguments are its
        inputs; ints, strings, bools and None are constants.

    Raises
    ------
    NotDifferentiableError
        If `f` returns something that is no number, array, or container of these.

    Notes
    -----
    Recording costs a few microseconds for each call, beside that of `f` itself. With ``values=True`` the memory is that
    of all intermediate results together.

    Examples
    --------
    >>> import numpy as np
    >>> from chainrule.program.record import record
    >>> program = record(lambda x, y: x * y + np.sin(x))(1.0, 2.0)
    >>> for e in program.equations:
    ...     print(e.output, "=", e.rule.name, *e.inputs)
    v3 = numpy.multiply v1 v2
    v4 = numpy.sin v1
    v5 = numpy.add v3 v4
    """

    def recorded(*args, **kwargs):
        program = Program(keeps_values=values)
        with _level.running(f) as level:

            def boxed(x):
                if not isinstance(x, Boxed) and not inexact(x):
                    return x
                if isinstance(x, Boxed):
                    x = x.alias()
                elif values and isinstance(x, np.ndarray):
                    x = x.copy()
                made = program.symbol()
                program.inputs.append(made)
                if values:
                    program.points.append(x)
                return Tracer(x, made, level)

            args, kwargs = tree.tree_map(boxed, list(args)), tree.tree_map(boxed, kwargs)
            out = run(f, args, kwargs)
            leaves, program.structure = ([out], None) if isinstance(out, Boxed) else tree.flatten(out)
            for y in leaves or [out]:  # None, or an empty container, is refused as such
                y = output_point(y, f)
                if own(y, level, f, Tracer):
                    y = y.data if y.aux is None else y.aux
                program.outputs.append(y)
        program._seen.clear()
        return program

    return recorded
