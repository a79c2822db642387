"""Rolling: the rounds of a recorded loop, and those of its backward pass, put back into loops.

The marks cut the equations into rounds. Rounds that are alike become one way through the body. Each operand from
outside of a round must be one of: the same in all rounds; what a local variable stood for at the mark (the state, which
the round hands on anew); or, in loops with a fixed number of rounds, an entry of a table. Backward rounds read what the
forward round kept, and their state are the cotangents of the forward state, and of what is the same in all rounds.

A loop is rolled only if all of it fits; else it stays as it was recorded. The first rounds, and those that the backward
pass begins and ends with, may differ (a first cotangent is not added to anything): they stay outside.

`Plan` finds the rounds and where the values in them come from; `Forward` and `Backward` write the two loops by it; here
these take the place of the rounds.
"""

from chainrule.program.ir import Equation, Program, Symbol
from chainrule.program.loops.backward import Backward
from chainrule.program.loops.forward import Forward
from chainrule.program.loops.marks import ROUNDS
from chainrule.program.loops.plan import Plan
from chainrule.program.loops.segments import Irregular, Parts

FIRST = 3  # how many rounds may stay outside before it


def roll(program: Program, recording) -> Program:
    """Return the program with the loops of its recording rolled, as far as they are regular."""
    runs = [run for run in recording.loops if len(run.marks) >= ROUNDS]
    if not runs:
        return program
    parts, where, plans, changes = Parts(program.equations), made_at(program), [], []
    stretches = recording.stretches()
    for run in sorted(runs, key=lambda r: r.marks[0].position - r.marks[-1].position):
        if any(p.overlaps(run.marks[0].position, run.marks[-1].position) for p in plans):
            continue
        shared = {}
        for skip in range(FIRST):  # the first rounds may differ
            try:
                plan = Plan(program, recording, run, parts, skip, shared, where, stretches)
                changes += rolled(plan)
                plans.append(plan)
                break
            except Irregular:
                continue
    if not plans:
        return program
    equations, at = [], 0
    for start, stop, new in sorted(changes, key=lambda c: c[0]):
        if start < at:
            return program  # backward passes that are interleaved
        equations += program.equations[at:start] + new
        at = stop
    equations += program.equations[at:]
    return program.like(equations)


def rolled(plan):
    """Return how one loop is rolled: (start, stop, equations that come in place of those) for each of its passes."""
    back = None if plan.turn is None else Backward(plan)
    changes = Forward(plan, back).changes()
    return changes if back is None else changes + back.changes()


def made_at(program):
    """Return, for each symbol, the number of the equation that makes it; -1 for inputs and captured arrays."""
    where = dict.fromkeys((*program.inputs, *program.constants), -1)
    for i, e in enumerate(program.equations):
        if e.__class__ is Equation and e.output.__class__ is Symbol:
            where[e.output] = i
        else:
            where.update(dict.fromkeys(e.outputs, i))
    return where
