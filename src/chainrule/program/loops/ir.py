"""Loops in a program: rounds of the same equations, with a state that each hands on to the next.

A forward `Loop` runs its `body` once a round: a `Block` of equations that ends in a `Fork` (a guard both of whose
answers may be known), in `Next` (another round) or in `Exit`. What the backward pass needs of a round is pushed on a
stack, with the number of the way that the round took. A backward loop pops the rounds off the stack, the last one
first, and runs the block of that way. `Pop` takes one round off the stack, for what is not in the loop.
"""

from dataclasses import dataclass, field
from typing import Any

from chainrule.program.ir import Guard, GuardFailed, Program, Symbol, listing, symbols_in, text


@dataclass(eq=False, slots=True)
class Next:
    """The end of a round: the new `state`, and what is `kept` for the backward pass, under the number `way`."""

    state: list
    kept: list = field(default_factory=list)
    way: int = 0

    @property
    def reads(self):
        """The symbols that it reads."""
        return list(symbols_in((self.state, self.kept)))


@dataclass(eq=False, slots=True)
class Exit:
    """The end of the last round: the loop's outputs, and what is kept of this round."""

    values: list
    kept: list = field(default_factory=list)
    way: int = 0

    @property
    def reads(self):
        """The symbols that it reads."""
        return list(symbols_in((self.values, self.kept)))


@dataclass(eq=False, slots=True)
class Fork:
    """A guard, and how the round goes on for either answer; None if that was never seen."""

    guard: Guard
    yes: "Block | None"
    no: "Block | None"

    @property
    def reads(self):
        """The symbol that it reads."""
        return [self.guard.symbol]


@dataclass(eq=False, slots=True)
class Block:
    """Equations, and what follows them. `takes` are the symbols of what a backward round pops off the stack."""

    equations: list
    end: Any
    takes: list = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Loop:
    """Rounds of the same equations.

    Attributes
    ----------
    blocks : list of Block
        Of a forward loop one, of a backward loop one for each way through a forward round (None: never seen).
    state, init : list
        Symbols of the state inside, and their values for the first round.
    tables : list of (Symbol, sequence)
        Operands that differ from round to round; a sequence has one for each.
    count : int or None
        The number of rounds; None: until a block exits, or until the stack has `left` rounds.
    pushes, pops : Symbol or None
        The stack that a forward loop makes, or that a backward loop reads.
    output : tuple of Symbol
        The final state, as far as it is used; or what `Exit` gives.
    finals : list of int
        Of a loop without `Exit`: which part of the state each output is.
    """

    blocks: list
    state: list
    init: list
    output: tuple
    finals: list
    tables: list = field(default_factory=list)
    count: int | None = None
    pushes: Symbol | None = None
    pops: Symbol | None = None
    left: int = 0
    place: Any = None
    free: list = field(default_factory=list)  # symbols of the program that the blocks read

    def run(self, values, run):
        """Run it; ``run(equations, values)`` runs equations."""
        run_loop(self, values, run)

    def lines(self):
        """Return it as lines of text."""
        return loop_lines(self)

    @property
    def outputs(self):
        """The symbols that it makes."""
        return self.output if self.pushes is None else (*self.output, self.pushes)

    @property
    def reads(self):
        """The symbols of the program that it reads."""
        found = list(symbols_in((self.init, [list(t) for _, t in self.tables])))
        return found + self.free + ([self.pops] if self.pops is not None else [])


@dataclass(eq=False, slots=True)
class Pop:
    """One round taken off the stack, which must have gone the way `way`."""

    stack: Symbol
    way: int
    output: tuple
    place: Any = None

    @property
    def reads(self):
        """The stack."""
        return [self.stack]

    @property
    def outputs(self):
        """What the round kept."""
        return self.output

    def run(self, values, run):
        """Take the round off the stack."""
        run_pop(self, values)

    def lines(self):
        """Return it as a line of text."""
        return [f"{', '.join(map(str, self.output))} = {self.stack}.pop() of way {self.way}"]


def taken_from(e) -> list:
    """Return the stacks that an equation takes rounds off: what takes more off them has to come after it."""
    return [s for s in (getattr(e, "pops", None), getattr(e, "stack", None)) if s is not None]


def blocks_of(block):
    """Find a block and all that follow it."""
    stack = [block]
    while stack:
        b = stack.pop()
        if b is None:
            continue
        yield b
        if b.end.__class__ is Fork:
            stack += [b.end.no, b.end.yes]


def free_symbols(loop):
    """Return the symbols that the blocks of a loop read from outside, in order."""
    own = {*loop.state, *[s for s, _ in loop.tables]}
    read = []
    for root in loop.blocks:
        for b in blocks_of(root):
            own.update(b.takes)
            for e in b.equations:
                own.update(e.outputs)
                read += e.reads
            read += b.end.reads
    return list(dict.fromkeys([s for s in read if s not in own]))


def run_loop(loop, values, run):
    """Run a loop; ``run(equations, values)`` runs equations. New values are put into `values`."""
    state = [value_in(x, values) for x in loop.init]
    local = dict(values)
    stack = []
    k = 0
    given = values[loop.pops] if loop.pops is not None else None
    while True:
        if loop.pops is not None:
            if len(given) <= loop.left:
                if len(given) < loop.left:
                    raise GuardFailed(Guard(loop.pops, "value", None, loop.place))
                break
            way, *kept = given.pop()
            block = loop.blocks[way] if way < len(loop.blocks) else None
            if block is None:
                raise GuardFailed(Guard(loop.pops, "value", way, loop.place))
            local.update(zip(block.takes, kept, strict=True))
        else:
            if loop.count is not None and k == loop.count:
                break
            block = loop.blocks[0]
        local.update(zip(loop.state, state, strict=True))
        for s, table in loop.tables:
            local[s] = value_in(table[k], values)
        while block.end.__class__ is Fork:
            run(block.equations, local)
            fork = block.end
            block = fork.yes if bool(local[fork.guard.symbol]) else fork.no
            if block is None:
                raise GuardFailed(fork.guard)
        run(block.equations, local)
        end = block.end
        if loop.pushes is not None:
            stack.append((end.way, *[value_in(x, local) for x in end.kept]))
        if end.__class__ is Exit:
            values.update(zip(loop.output, [value_in(x, local) for x in end.values], strict=True))
            if loop.pushes is not None:
                values[loop.pushes] = stack
            return
        state = [value_in(x, local) for x in end.state]
        k += 1
    if loop.pushes is not None:
        values[loop.pushes] = stack
    values.update(zip(loop.output, [state[i] for i in loop.finals], strict=True))


def value_in(x, values):
    """Return the value of an operand."""
    return values[x] if x.__class__ is Symbol else x


def run_pop(pop, values):
    """Take a round off the stack."""
    stack = values[pop.stack]
    if not stack or stack[-1][0] != pop.way:
        raise GuardFailed(Guard(pop.stack, "value", pop.way, pop.place))
    _, *kept = stack.pop()
    values.update(zip(pop.output, kept, strict=True))


def loop_lines(loop):
    """Return a loop as lines of text."""
    head = ", ".join(f"{s} = {text(x)}" for s, x in zip(loop.state, loop.init, strict=True))
    rounds = f"{loop.count} times" if loop.count is not None else "repeat"
    if loop.pops is not None:
        rounds = f"for each round of {loop.pops}, the last first" + (f", but {loop.left}" if loop.left else "")
    lines = [f"{rounds}, with {head}:" if head else f"{rounds}:"]
    lines += [f"  {s} of {text(list(table))[:60]}" for s, table in loop.tables]
    for way, block in enumerate(loop.blocks):
        if loop.pops is not None:
            took = ", ".join(map(str, block.takes)) if block is not None else ""
            lines.append(f"  way {way}: {took}" if block is not None else f"  way {way}: never seen")
        lines += ["  " + line for line in block_lines(block)] if block is not None else []
    names = ", ".join(map(str, loop.outputs))
    return [*lines, f"  -> {names}"]


def block_lines(block):
    """Return a block as lines of text."""
    lines = ["  " + line.strip() for line in listing(Program(equations=block.equations)).split("\n")[1:-1]]
    end = block.end
    if end.__class__ is Fork:
        lines.append(f"  if {end.guard.symbol}:")
        lines += ["  " + line for line in (block_lines(end.yes) if end.yes is not None else ["  never seen"])]
        lines.append("  else:")
        lines += ["  " + line for line in (block_lines(end.no) if end.no is not None else ["  never seen"])]
        return lines
    kept = f"; keep {', '.join(map(text, end.kept))} as way {end.way}" if end.kept else ""
    if end.__class__ is Exit:
        return [*lines, f"  leave with {', '.join(map(text, end.values))}{kept}"]
    return [*lines, f"  go on with {', '.join(map(text, end.state))}{kept}"]
