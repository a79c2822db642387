"""The evaluation trace of a function: its steps, their values, and the derivatives beside them.

Forward mode follows the program from top to bottom and gives each step ``v`` its tangent ``v̇ = ∂v/∂x``, one column for
each entry of the inputs. Reverse mode follows it back and gives each step its adjoint ``v̄ = ∂f/∂v``: what arrives from
each later step that uses it, added up. One table for each entry of the output.

All derivatives come from the rules, by the same push and pull as in every other transform. Nothing here computes one
by itself, and nothing here lays out text: see `layout` for that.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.cotangent import LAZY, Masked, Slots
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.pulls import pull_of, pulled, residuals
from chainrule.engine.spec import ones_of, shape_of, spec_of, zeros_of
from chainrule.engine.tape import Node, leaf
from chainrule.explain import gates, notation
from chainrule.program.ir import Program, Symbol

_HAND = 0.25  # the level of duals made by hand


@dataclass(frozen=True)
class Step:
    """One step of the evaluation: an input, or a call (its `equation`)."""

    name: str
    expression: str
    value: Any
    symbols: tuple  # those that the step defines: one, or one for each output of the call
    equation: Any = None

    @property
    def place(self):
        """The user's name for the value of a call, and the number of the user's line."""
        e = self.equation
        hints = [s.hint for s in self.symbols if s is not None and s.hint] if e is not None else []
        return (hints[0] if hints else None), (e.place.line if e is not None and e.place is not None else None)


@dataclass(frozen=True)
class ForwardRow:
    """One row of a forward table: a step, and its tangent along each direction."""

    step: str
    expression: str
    value: Any
    tangents: tuple
    name: str | None = None  # the user's, and the number of the user's line
    line: int | None = None


@dataclass(frozen=True)
class ForwardTable:
    """Values and tangents. `directions` names the entries of the inputs that the columns are derivatives in."""

    directions: tuple
    rows: tuple


@dataclass(frozen=True)
class Path:
    """What a later `step` hands back to the earlier value `of`: ``contribution = upstream · local``.

    `local` is ``∂step/∂of`` where both are scalars, and None otherwise: then it is a Jacobian, and is never formed.
    `diagonal` is the diagonal of that of an elementwise call, if the operand has the shape of the result.
    """

    step: str
    of: str
    upstream: Any
    local: Any
    contribution: Any
    diagonal: Any = None
    text: str | None = None  # what stands for a Jacobian that is not formed: ``ȳ Wᵀ``


@dataclass(frozen=True)
class ReverseRow:
    """One row of a reverse table: a step, its adjoint, and the paths that add up to it (none at the seed)."""

    step: str
    expression: str
    value: Any
    adjoint: Any
    paths: tuple
    name: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class ReverseTable:
    """Values and adjoints, from the result back to the inputs. `output` names the entry of the result.

    `seeds` holds the symbol of the result, where the pass begins.
    """

    output: str
    rows: tuple
    seeds: frozenset = frozenset()


class Trace:
    """A program with the values of one run, from which the tables are made."""

    def __init__(self, program: Program, names: list):
        """Take a program recorded with its values, and the names of its inputs."""
        self.program = program
        self.values = dict(program.constants)
        self.steps = []
        for symbol, name, x in zip(program.inputs, names, program.points, strict=True):
            self.values[symbol] = value(x)
            self.steps.append(Step(symbol.name, name, value(x), (symbol,)))
        for e in program.equations:
            y = e.value
            several = isinstance(e.output, tuple)
            y = tuple([value(v) for v in y]) if several else value(y)
            outputs = e.output if several else (e.output,)
            for s, v in zip(outputs, y if several else (y,), strict=True):
                if s is not None:
                    self.values[s] = v
            name = ", ".join(s.name if s is not None else "_" for s in outputs)
            self.steps.append(Step(name, notation.expression(e), y, outputs, e))
        self.calls = self.steps[len(program.inputs) :]

    def operands(self, equation):
        """Return the plain operands of a call."""
        return tuple([self.values[x] if isinstance(x, Symbol) else value(x) for x in equation.inputs])

    # -- forward ---------------------------------------------------------------------------------------------

    def forward(self, directions: list) -> ForwardTable:
        """Return the forward table. `directions` are triples (name, number of the input, index of the entry)."""
        columns = [self._tangents(k, i) for _, k, i in directions]
        rows = []
        for step in self.steps:
            tangents = []
            for c in columns:
                parts = [c.get(s, zeros_of(self.values[s])) for s in step.symbols if s is not None]
                tangents.append(parts[0] if len(step.symbols) == 1 else tuple(parts))
            rows.append(ForwardRow(step.name, step.expression, step.value, tuple(tangents), *step.place))
        return ForwardTable(tuple([name for name, _, _ in directions]), tuple(rows))

    def _tangents(self, k, i):
        """Return the tangents along entry `i` of input `k`; steps that don't depend on that input have none."""
        source = self.program.inputs[k]
        tangents = {source: entry(self.values[source], i)}
        with np.errstate(all="ignore"):
            for e in self.program.equations:
                if not any(x in tangents for x in e.inputs if isinstance(x, Symbol)):
                    continue
                operands = [
                    make_dual(x, tangents[s], _HAND) if isinstance(s, Symbol) and s in tangents else x
                    for s, x in zip(e.inputs, self.operands(e), strict=True)
                ]
                y = Dual.process(e.rule, _HAND, tuple(operands), e.params)
                several = isinstance(e.output, tuple)
                for s, v in zip(e.output if several else (e.output,), y if several else (y,), strict=True):
                    if s is not None:
                        tangents[s] = v.aux
        return tangents

    # -- reverse ---------------------------------------------------------------------------------------------

    def reverse(self, name: str, output: Any, i: tuple) -> ReverseTable:
        """Return the reverse table of entry `i` of `output`, a symbol or a constant, called `name`."""
        bars, paths = self.adjoints(output, i) if isinstance(output, Symbol) else ({}, {})
        rows = []
        for step in reversed(self.steps):
            parts = [dense(bars.get(s, zeros_of(self.values[s]))) for s in step.symbols if s is not None]
            adjoint = parts[0] if len(step.symbols) == 1 else tuple(parts)
            found = tuple([p for s in step.symbols for p in paths.get(s, {}).values()])
            rows.append(ReverseRow(step.name, step.expression, step.value, adjoint, found, *step.place))
        return ReverseTable(name, tuple(rows), frozenset([output] if isinstance(output, Symbol) else []))

    def adjoints(self, output, i):
        """Return the adjoint of each symbol, and for each the paths by which it arrived."""
        bars = {output: entry(self.values[output], i)}
        paths = {}
        nodes = self._tape()
        equations = self.program.equations
        with np.errstate(all="ignore"):
            for e, node, step in reversed(list(zip(equations, nodes, self.calls, strict=True))):
                if isinstance(e.output, tuple):
                    ybar = Slots({j: dense(bars[s]) for j, s in enumerate(e.output) if s in bars}) or None
                    shown = None
                else:
                    ybar = bars.get(e.output)
                    shown = dense(ybar)
                if ybar is None:
                    continue
                kept = ybar if ybar.__class__ in (Masked, Slots) else dense(ybar)
                xbars = pulled(node, kept, node.saved, masks=True)
                local = self._local(e, node)
                step_shape = () if isinstance(e.output, tuple) else shape_of(step.value)
                for j, (x, xbar) in enumerate(zip(e.inputs, xbars, strict=True)):
                    if xbar is None or node.parents[j] is None:
                        continue
                    bars[x] = bars[x] + xbar if x in bars else xbar
                    known = paths.setdefault(x, {}).get(step.name)
                    d = None if local is None else dense(local[j])
                    if d is not None and shape_of(d) != step_shape:
                        d = None
                    part = dense(xbar)
                    if known is not None:  # used twice in one call, as in v1 * v1: one path
                        part = known.contribution + part
                        before = known.diagonal if step_shape else known.local
                        d = None if d is None or before is None else before + d
                    paths[x][step.name] = Path(
                        step.name,
                        x.name,
                        shown,
                        None if step_shape else d,
                        part,
                        d if step_shape else None,
                        gates.local_text(e, j) if known is None else None,
                    )
        return bars, paths

    def _tape(self):
        """Return a tape node for each equation, as if the program had been run on Variables."""
        nodes, of = [], {s: leaf() for s in self.program.inputs}
        for e, step in zip(self.program.equations, self.calls, strict=True):
            parents = tuple([of.get(x) if isinstance(x, Symbol) else None for x in e.inputs])
            wanted = tuple([j for j, p in enumerate(parents) if p is not None])
            xs = self.operands(e)
            pull = pull_of(e.rule, wanted, step.value, xs, e.params)
            several = isinstance(e.output, tuple)
            node = Node(parents, pull.slots if several else pull, residuals(e.rule, wanted, step.value, xs), e.rule)
            nodes.append(node)
            of.update(dict.fromkeys(step.symbols, node))
        return nodes

    def _local(self, e, node):
        """Return the derivative of a scalar or elementwise step in each of its operands; None of others."""
        if isinstance(e.output, tuple):
            return None
        if e.rule.kind != "elementwise" and any(shape_of(x) for x in (self.values[e.output], *self.operands(e))):
            return None
        return pulled(node, ones_of(self.values[e.output]), node.saved, masks=True)


def dense(ybar):
    """Return a cotangent as an array or number."""
    return ybar.dense() if ybar.__class__ in LAZY else ybar


def entry(x, i):
    """Return the seed of entry `i` of `x`: one there, zeros elsewhere; of the sum of all entries, if `i` is None."""
    if i is None or not shape_of(x):
        return ones_of(x)
    seed = zeros_of(spec_of(x))
    seed[i] = 1
    return seed
