"""Loops over large arrays, written out round by round, so that their rounds share memory and run in blocks.

Python's own loop costs nothing beside arrays of thousands of entries; that each round makes its arrays anew does. Only
loops are written out whose number of rounds is known, and in which nothing is decided.
"""

import itertools

from chainrule.program.ir import Equation, Guard, Program, Symbol
from chainrule.program.loops.ir import Exit, Fork, Loop, Pop, blocks_of

LARGE = 1024  # loops with no array of more entries stay loops
MOST = 2000  # so do loops of more equations than these, in all rounds


class Decided(Exception):
    """A loop that goes on as values decide."""


def unrolled(program: Program) -> Program:
    """Return a program with its loops over large arrays written out; the program itself if it has none."""
    if not any(e.__class__ is Loop and is_large(e) for e in program.equations):
        return program
    try:
        run = Unrolling()
        for e in program.equations:
            run.equation(e)
        outputs = [run.value(y) for y in program.outputs]
    except Decided:
        return program
    return program.like(run.equations, outputs)


def is_large(loop: Loop) -> bool:
    """Tell whether a loop handles a large array."""
    return any(s.size > LARGE for block in loop.blocks for b in blocks_of(block) for e in b.equations
               for s in e.outputs if s is not None)  # fmt: skip


class Unrolling:
    """A run of a program on its symbols."""

    def __init__(self) -> None:
        self.equations = []
        self.values = {}  # symbol -> what stands for it: a symbol, or a number
        self.stacks = {}  # symbol of a stack -> its rounds
        self.numbers = itertools.count(1)
        self.inside = False

    def value(self, x):
        """Return an operand with all symbols replaced that stand for others."""
        if x.__class__ is Symbol:
            return self.values.get(x, x)
        if x.__class__ is tuple or x.__class__ is list:
            return x.__class__([self.value(v) for v in x])
        if x.__class__ is dict:
            return {k: self.value(v) for k, v in x.items()}
        return x

    def made(self, s):
        """Return a new symbol for a result."""
        if s is None or not self.inside:
            return s
        self.values[s] = Symbol(f"u{next(self.numbers)}", s.shape, s.dtype, s.hint)
        return self.values[s]

    def equation(self, e) -> None:
        """Write an equation of the program, or of a round."""
        if len(self.equations) > MOST and self.inside:
            raise Decided
        if e.__class__ is Loop:
            self.loop(e)
        elif e.__class__ is Pop:
            way, *kept = self.stacks[e.stack].pop()
            if way != e.way:
                raise Decided
            self.values.update({s: x for s, x in zip(e.output, kept, strict=True) if s is not None})
        elif e.__class__ is Guard:
            symbol = self.value(e.symbol)
            if symbol.__class__ is not Symbol:
                raise Decided
            self.equations.append(Guard(symbol, e.how, e.seen, e.place))
        elif e.__class__ is Equation:
            inputs, params = self.value(e.inputs), self.value(e.params)
            output = tuple(map(self.made, e.output)) if isinstance(e.output, tuple) else self.made(e.output)
            self.equations.append(Equation(e.rule, inputs, params, output, None, e.place))
        else:
            raise Decided

    def loop(self, loop) -> None:
        """Write out the rounds of a loop."""
        state, outer, stack = [self.value(x) for x in loop.init], self.inside, []
        self.inside = True
        if loop.pops is None and loop.count is None:
            raise Decided
        given = None if loop.pops is None else self.stacks[loop.pops]
        for k in itertools.count():
            if (k == loop.count) if given is None else (len(given) <= loop.left):
                break
            block = loop.blocks[0]
            if given is not None:
                way, *kept = given.pop()
                block = loop.blocks[way]
                if block is None:
                    raise Decided
                self.values.update(zip(block.takes, kept, strict=True))
            self.values.update(zip(loop.state, state, strict=True))
            self.values.update({s: self.value(table[k]) for s, table in loop.tables})
            for e in block.equations:
                self.equation(e)
            end = block.end
            if end.__class__ is Fork or end.__class__ is Exit:
                raise Decided
            stack.append((end.way, *[self.value(x) for x in end.kept]))
            state = [self.value(x) for x in end.state]
        if loop.pushes is not None:
            self.stacks[loop.pushes] = stack
        self.inside = outer
        self.values.update(zip(loop.output, [state[i] for i in loop.finals], strict=True))
