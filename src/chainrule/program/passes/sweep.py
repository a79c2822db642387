"""One walk over a program that writes it anew: what the passes share.

A `Sweep` goes through the equations in their order. Operands that an earlier equation no longer makes are replaced by
what stands for them; then the pass says what becomes of the equation: another equation for the same output, or an
operand that stands for the output, so that the equation goes. Each equation is seen once, programs are left as they
are, and what has not changed is shared with the new program.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine.batched import Plain
from chainrule.engine.indexing import put, scatter
from chainrule.engine.rule import RULES
from chainrule.engine.spec import cast_to, spread_to
from chainrule.program.ir import Equation, Guard, Program, Symbol
from chainrule.program.passes.rounds import with_others
from chainrule.program.passes.sharing import may_share

ROWS = {scatter, spread_to, np.matmul}  # functions whose results are stored by rows, whatever the operands are
LIKE_FIRST = {put, cast_to}  # and those whose results are, if the first operand is


class Sweep:
    """A program being written anew.

    Attributes
    ----------
    made : dict
        Symbol -> the equation that makes it, as it stands in the new program.
    stands : dict
        Symbol that is made no more -> the symbol or number that stands for it.
    constants, fixed
        Those of the new program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.equations, self.made, self.stands, self.named = [], {}, {}, {}
        self.gone = {}  # symbol that a number stands for -> the equation that made it
        self.constants, self.fixed = program.constants, program.fixed
        self.count = program.count
        self.changed = False
        self.rows = {s for s in self.fixed if self.constants[s].flags.c_contiguous}

    def run(self, rewrite: Callable, guards: Callable | None = None) -> Program:
        """Write all equations anew; return the program itself if nothing changed.

        ``rewrite(e, sweep)`` gives an `Equation`, or a tuple of what stands for the outputs; ``guards(g)`` says whether
        a guard stays.
        """
        stands, equations = self.stands, self.equations
        for e in self.program.equations:
            if e.__class__ is Guard:
                e = self.guard(e) if e.symbol in stands else e
                if e is not None and (guards is None or guards(e)):
                    equations.append(e)
                else:
                    self.changed = True
                continue
            if e.__class__ is not Equation:  # a loop
                if stands:
                    e = with_others(e, stands)
                equations.append(e)
                continue
            e = self.opened(e) if stands else e
            new = rewrite(e, self)
            if new.__class__ is tuple:
                for s, x in zip(several(e.output), new, strict=True):
                    if s is not None:
                        self.stand(s, x)
                        self.gone[s] = e
                continue
            if new is not e:
                self.changed = True
            self.append(new)
        if not self.changed:
            return self.program
        outputs = substituted(self.program.outputs, stands)
        if self.named:
            equations, outputs = renamed(equations, outputs, self.named)
        return dataclasses.replace(
            self.program, equations=equations, outputs=outputs, constants=self.constants, count=self.count,
            fixed=self.fixed,
        )  # fmt: skip

    def append(self, e: Equation) -> None:
        """Write down an equation."""
        self.equations.append(e)
        if e.output.__class__ is tuple:
            self.made.update(dict.fromkeys(e.outputs, e))
        else:
            self.made[e.output] = e
            if len(e.output.shape) > 1 and self.makes_rows(e):
                self.rows.add(e.output)

    def guard(self, g: Guard) -> Guard | None:
        """Return a guard of what stands for its symbol: none if that is a number, and the answer is as it was.

        If it is not, no run can pass the guard: that is for the run to find out, and the number is computed for it.
        """
        x = self.stands[g.symbol]
        if x.__class__ is Symbol:
            return Guard(x, g.how, g.seen, g.place)
        if g.holds(x):
            return None
        e = self.gone[g.symbol]
        self.equations.append(e)
        for s in e.outputs:
            self.stands.pop(s, None)
        return g

    def opened(self, e: Equation) -> Equation:
        """Return an equation with what stands for the symbols it reads."""
        stands = self.stands
        inputs = substituted(e.inputs, stands)
        params = substituted(e.params, stands) if e.params else e.params
        if inputs is e.inputs and params is e.params:
            return e
        return Equation(e.rule, inputs, params, e.output, e.value, e.place)

    def stand(self, symbol: Symbol, x: Any) -> None:
        """Let `x` stand for a symbol from here on. The user's name for it is not lost."""
        self.stands[symbol] = x
        self.changed = True
        if symbol.hint and x.__class__ is Symbol and not x.hint and x in self.made and x not in self.named:
            self.named[x] = Symbol(x.name, x.shape, x.dtype, symbol.hint)

    def constant(self, array: np.ndarray) -> Symbol:
        """Return the symbol of a new constant, whose values are known."""
        if self.constants is self.program.constants:
            self.constants, self.fixed = dict(self.constants), set(self.fixed)
        names = {s.name for s in self.constants}
        k = len(names) + 1
        while f"c{k}" in names:
            k += 1
        symbol = Symbol(f"c{k}", array.shape, array.dtype)
        self.constants[symbol] = array
        self.fixed.add(symbol)
        return symbol

    def emit(self, like: Equation, fun: Callable, *inputs: Any, **params: Any) -> Symbol:
        """Write down a further call, at the place of the equation `like`; its result has the form of the first input.

        Only for functions that keep shape and dtype of that one.
        """
        self.count += 1
        y = Symbol(f"v{self.count}", inputs[0].shape, inputs[0].dtype)
        e = call(like, fun, *inputs, **params)
        e.output, e.value = y, None
        self.append(e)
        return y

    def maker(self, x: Any, fun: Callable) -> Equation | None:
        """Return the equation that makes `x`, if it is a differentiable call of `fun`."""
        e = self.made.get(x) if x.__class__ is Symbol else None
        return e if e is not None and e.rule.fun is fun and e.rule.__class__ is not Plain else None

    # -- the order of axes in memory ---------------------------------------------------------------------------

    def by_rows(self, x: Any) -> bool:
        """Tell whether the axes of `x` are stored in their order, for sure; it need not be contiguous."""
        return x.__class__ is not Symbol or len(x.shape) < 2 or x in self.rows

    def makes_rows(self, e: Equation) -> bool:
        """Tell whether a result is stored by rows: of elementwise calls it is, if one operand as large is."""
        fun, shape = e.rule.fun, e.output.shape
        if fun in ROWS:
            return True
        if fun is np.reshape:
            return e.params.get("order", "C") == "C" and self.by_rows(e.inputs[0])
        if fun in LIKE_FIRST or (isinstance(fun, np.ufunc) and fun.signature is None):
            for x in e.inputs[:1] if fun in LIKE_FIRST else e.inputs:
                if x.__class__ is Symbol and x.shape == shape and x in self.rows:
                    return True
        return False

    def fresh(self, x: Any) -> bool:
        """Tell whether `x` is an array of its own, made by a call: its memory is contiguous in some order of axes."""
        e = self.made.get(x)
        return e is not None and not may_share(e)


def several(output: Any) -> tuple:
    """Return the outputs of a call as a tuple, also if it has one."""
    return output if output.__class__ is tuple else (output,)


def call(e: Equation, fun: Callable, *inputs: Any, **params: Any) -> Equation:
    """Return an equation for the same output by a call of another function."""
    rule = e.rule if e.rule.fun is fun else RULES[fun]
    return Equation(rule, inputs, params, e.output, e.value, e.place)


def substituted(x: Any, stands: dict) -> Any:
    """Return nested tuples, lists and dicts with what stands for their symbols; the same object if none is replaced."""
    kind = x.__class__
    if kind is Symbol:
        return stands.get(x, x)
    if kind is tuple or kind is list:
        for v in x:
            k = v.__class__
            if k is Symbol:
                if v in stands:
                    break
            elif (k is tuple or k is list or k is dict) and substituted(v, stands) is not v:
                break
        else:
            return x
        return kind([substituted(v, stands) for v in x])
    if kind is dict:
        new = {k: substituted(v, stands) for k, v in x.items()}
        return new if any(new[k] is not v for k, v in x.items()) else x
    return x


def renamed(equations: list, outputs: list, names: dict) -> tuple[list, list]:
    """Return equations and outputs with other symbols."""
    found = []
    for e in equations:
        if e.__class__ is Guard:
            e = Guard(names.get(e.symbol, e.symbol), e.how, e.seen, e.place)
        elif e.__class__ is not Equation:
            e = with_others(e, names)
        else:
            inputs, params, output = [substituted(x, names) for x in (e.inputs, e.params, e.output)]
            if inputs is not e.inputs or params is not e.params or output is not e.output:
                e = Equation(e.rule, inputs, params, output, e.value, e.place)
        found.append(e)
    return found, substituted(outputs, names)


def reads(e: Any, found: list) -> None:
    """Add the symbols that an equation or a guard reads to a list."""
    if e.__class__ is Guard:
        found.append(e.symbol)
        return
    if e.__class__ is not Equation:
        found.extend(e.reads)
        return
    _collect(e.inputs, found)
    if e.params:
        _collect(e.params.values(), found)


def _collect(values, found):
    for x in values:
        kind = x.__class__
        if kind is Symbol:
            found.append(x)
        elif kind is tuple or kind is list:
            _collect(x, found)
        elif kind is dict:
            _collect(x.values(), found)


def alike(a: Any, b: Any) -> bool:
    """Tell whether two symbols have one shape and dtype; a Python number is like Python numbers only."""
    return a.shape == b.shape and a.dtype.__class__ is b.dtype.__class__ and a.dtype == b.dtype
