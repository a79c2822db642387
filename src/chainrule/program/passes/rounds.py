"""Loops: the passes inside of their rounds, and across them.

`inside` runs the passes on the equations of each block. `hoisted` takes out what is the same in all rounds. `trimmed`
leaves out what nobody reads: parts of the state, entries of the tables, and what a forward round keeps for a backward
one.
"""

import contextlib
import dataclasses

from chainrule.program.ir import Equation, Guard, Program, Symbol, replaced, symbols_in
from chainrule.program.loops.ir import Block, Exit, Fork, Loop, Next, Pop, blocks_of, free_symbols


class Standing(dict):
    """Symbols -> what stands for them; all others stand for themselves."""

    def __missing__(self, s):
        return s


def with_others(e, stands):
    """Return a loop, or what takes a round off a stack, with other operands from outside."""
    stands = Standing(stands)
    if e.__class__ is Pop:
        return Pop(stands[e.stack], e.way, e.output, e.place)
    new = dataclasses.replace(
        e,
        blocks=[block_with(b, stands) for b in e.blocks],
        init=replaced(e.init, stands),
        tables=[(s, replaced(list(t), stands)) for s, t in e.tables],
        pops=None if e.pops is None else stands[e.pops],
    )
    new.free = free_symbols(new)
    return new


def block_with(block, stands):
    """Return a block, and all that follow it, with other operands."""
    if block is None:
        return None
    equations = [
        Guard(stands[e.symbol], e.how, e.seen, e.place)
        if e.__class__ is Guard
        else Equation(e.rule, replaced(e.inputs, stands), replaced(e.params, stands), e.output, e.value, e.place)
        for e in block.equations
    ]
    return Block(equations, end_with(block.end, stands), block.takes)


def end_with(end, stands):
    """Return the end of a block with other operands."""
    if end.__class__ is Fork:
        g = end.guard
        symbol = stands[g.symbol]
        if symbol.__class__ is not Symbol:  # the answer is known
            raise KnownAnswer
        return Fork(Guard(symbol, g.how, g.seen, g.place), block_with(end.yes, stands), block_with(end.no, stands))
    if end.__class__ is Exit:
        return Exit(replaced(end.values, stands), replaced(end.kept, stands), end.way)
    return Next(replaced(end.state, stands), replaced(end.kept, stands), end.way)


class KnownAnswer(Exception):
    """A guard in a round turned out to ask for a constant: the loop is left as it is."""


def rounds(program: Program, passes) -> Program:
    """Return the program with the passes run inside of its loops, and with what nobody reads left out of them."""
    if not any(e.__class__ is Loop for e in program.equations):
        return program
    program = dataclasses.replace(program, constants=dict(program.constants), fixed=set(program.fixed))
    equations = []
    for e in program.equations:
        if e.__class__ is Loop:
            with contextlib.suppress(KnownAnswer):
                e = inside(program, steady(e), passes)
            outer, e = hoisted(e)
            equations += outer
        equations.append(e)
    program.equations = equations
    return trimmed(program)


def steady(loop):
    """Return the loop with what stays the same in all rounds as an operand from outside, not as a state."""
    ends = [b.end for root in loop.blocks for b in blocks_of(root) if b.end.__class__ is Next]
    same = [i for i, s in enumerate(loop.state) if all(e.state[i] is s for e in ends)]
    if not same:
        return loop
    stands = {loop.state[i]: loop.init[i] for i in same}
    new = with_others(loop, stands)
    finals = [(s, i) for s, i in zip(loop.output, loop.finals, strict=True)] if loop.finals else []
    stay = [i for i in range(len(loop.state)) if i not in same or any(f == i for _, f in finals)]

    def rebuilt(block):
        e = block.end
        if e.__class__ is Fork:
            e = Fork(e.guard, e.yes and rebuilt(e.yes), e.no and rebuilt(e.no))
        elif e.__class__ is Next:
            e = Next([e.state[i] for i in stay], e.kept, e.way)
        return Block(block.equations, e, block.takes)

    new = dataclasses.replace(
        new,
        blocks=[None if b is None else rebuilt(b) for b in new.blocks],
        state=[loop.state[i] for i in stay],
        init=[new.init[i] for i in stay],
        finals=[stay.index(i) for i in loop.finals],
    )
    new.free = free_symbols(new)
    return new


def inside(program, loop, passes):
    """Return the loop with the equations of its blocks optimised; new constants are put into the program."""
    new = dataclasses.replace(loop, blocks=[block_inside(program, b, passes) for b in loop.blocks])
    new.free = free_symbols(new)
    return new


def block_inside(program, block, passes):
    """Return a block, and all that follow it, optimised."""
    if block is None:
        return None
    made = {s for e in block.equations for s in e.outputs}
    after = list(block.end.reads)
    if block.end.__class__ is Fork:
        for b in (*blocks_of(block.end.yes), *blocks_of(block.end.no)):
            after += [s for e in b.equations for s in e.reads] + b.end.reads
    wanted = [s for s in dict.fromkeys(after) if s in made]
    read = dict.fromkeys([s for e in block.equations for s in e.reads if s not in made and s not in program.constants])
    part = dataclasses.replace(program, inputs=list(read), equations=block.equations, outputs=wanted)
    part = passes(part)
    program.count = max(program.count, part.count)
    for s in part.constants:
        if s not in program.constants:
            program.constants[s] = part.constants[s]
            program.fixed.add(s)
    stands = Standing(zip(wanted, part.outputs, strict=True))
    rest = end_with(block.end, stands)
    if rest.__class__ is Fork:
        rest = Fork(rest.guard, block_inside(program, rest.yes, passes), block_inside(program, rest.no, passes))
    return Block(part.equations, rest, block.takes)


def hoisted(loop):
    """Return the equations that give the same in all rounds, and the loop without them."""
    varying = {*loop.state, *[s for s, _ in loop.tables]}
    for root in loop.blocks:
        for b in blocks_of(root):
            varying.update(b.takes)
            varying.update([s for e in b.equations for s in e.outputs])
    outer, blocks = [], []
    for root in loop.blocks:
        if root is None:
            blocks.append(None)
            continue
        stay = []
        for e in root.equations:
            if e.__class__ is Equation and varying.isdisjoint(e.reads):
                outer.append(e)
                varying.difference_update(e.outputs)
            else:
                stay.append(e)
        blocks.append(Block(stay, root.end, root.takes))
    if not outer:
        return [], loop
    new = dataclasses.replace(loop, blocks=blocks)
    new.free = free_symbols(new)
    return outer, new


# -- what nobody reads ---------------------------------------------------------------------------------------------


def trimmed(program):
    """Return the program with loops that hand on, keep and give out what is read, and no more."""
    equations = list(program.equations)
    for i in range(len(equations) - 1, -1, -1):
        if equations[i].__class__ is not Loop:
            continue
        read = set(symbols_in(program.outputs))
        for e in equations[i + 1 :]:
            read.update(e.reads)
        loop = equations[i]
        if loop.pushes is not None:
            used = {}
            for e in equations[i + 1 :]:
                if e.__class__ is Pop and e.stack is loop.pushes:
                    later = {s for d in equations for s in d.reads} | set(symbols_in(program.outputs))
                    used.setdefault(e.way, set()).update([k for k, s in enumerate(e.output) if s in later])
                elif e.__class__ is Loop and e.pops is loop.pushes:
                    for way, block in enumerate(e.blocks):
                        if block is not None:
                            inner = {s for b in blocks_of(block) for d in b.equations for s in d.reads}
                            inner |= {s for b in blocks_of(block) for s in b.end.reads}
                            used.setdefault(way, set()).update([k for k, s in enumerate(block.takes) if s in inner])
            equations[i] = loop = keeping(loop, used)
            for j in range(i + 1, len(equations)):
                e = equations[j]
                if e.__class__ is Pop and e.stack is loop.pushes:
                    equations[j] = Pop(e.stack, e.way, chosen(e.output, used.get(e.way, ())), e.place)
                elif e.__class__ is Loop and e.pops is loop.pushes:
                    blocks = [
                        None if b is None else Block(b.equations, b.end, list(chosen(b.takes, used.get(w, ()))))
                        for w, b in enumerate(e.blocks)
                    ]
                    equations[j] = dataclasses.replace(e, blocks=blocks)
        equations[i] = without_unread(loop, read)
    return program.like(equations)


def chosen(items, places):
    """Return the items at some places."""
    return tuple([x for k, x in enumerate(items) if k in places])


def keeping(loop, used):
    """Return a forward loop whose rounds keep what is used."""

    def end(block):
        e = block.end
        if e.__class__ is Fork:
            new = Fork(e.guard, e.yes and end(e.yes), e.no and end(e.no))
        else:
            kept = list(chosen(e.kept, used.get(e.way, ())))
            new = Exit(e.values, kept, e.way) if e.__class__ is Exit else Next(e.state, kept, e.way)
        return Block(block.equations, new, block.takes)

    return dataclasses.replace(loop, blocks=[None if b is None else end(b) for b in loop.blocks])


def without_unread(loop, read):
    """Return a loop without outputs, state, tables and equations that nobody reads."""
    leaves = [b for root in loop.blocks for b in blocks_of(root)]
    exits = any(b.end.__class__ is Exit for b in leaves)
    keep = [k for k, s in enumerate(loop.output) if s in read]
    needed = set() if exits else {loop.finals[k] for k in keep}
    while True:
        live, alive = set(), set()
        for root in loop.blocks:
            for b in blocks_of(root):
                live.update(symbols_in(b.end.kept) if b.end.__class__ is not Fork else b.end.reads)
                if b.end.__class__ is Exit:
                    live.update(symbols_in([b.end.values[k] for k in keep]))
                elif b.end.__class__ is Next:
                    live.update(symbols_in([b.end.state[i] for i in needed]))
        for root in loop.blocks:
            for b in reversed(list(in_order(root))):
                for e in reversed(b.equations):
                    if e.__class__ is Guard or not live.isdisjoint(e.outputs):
                        live.update(e.reads)
                        alive.add(id(e))
        more = {i for i, s in enumerate(loop.state) if s in live} - needed
        if not more:
            break
        needed |= more
    order = sorted(needed)

    def rebuilt(block):
        e = block.end
        if e.__class__ is Fork:
            new = Fork(e.guard, e.yes and rebuilt(e.yes), e.no and rebuilt(e.no))
        elif e.__class__ is Exit:
            new = Exit([e.values[k] for k in keep], e.kept, e.way)
        else:
            new = Next([e.state[i] for i in order], e.kept, e.way)
        return Block([e for e in block.equations if id(e) in alive], new, block.takes)

    made = dataclasses.replace(
        loop,
        blocks=[None if b is None else rebuilt(b) for b in loop.blocks],
        state=[loop.state[i] for i in order],
        init=[loop.init[i] for i in order],
        output=tuple([loop.output[k] for k in keep]),
        finals=[] if exits else [order.index(loop.finals[k]) for k in keep],
        tables=[(s, t) for s, t in loop.tables if s in live],
    )
    made.free = free_symbols(made)
    return made


def in_order(block):
    """Find a block and those after it, each before those that follow it."""
    if block is None:
        return
    yield block
    if block.end.__class__ is Fork:
        yield from in_order(block.end.yes)
        yield from in_order(block.end.no)
