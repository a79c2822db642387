"""Passes: functions from a Program to a Program that computes the same, bit for bit, in fewer equations.

`folding` of constants, `algebra`, `common` subexpressions, removal of `dead` code: each walks over the program once and
makes the others' work possible, so `optimise` runs them until none finds anything. Guards stay where they are, so the
program still holds for the same arguments. Inside of loops, and across them: `rounds`.
"""

from chainrule.program.ir import Program
from chainrule.program.passes.algebra import algebra
from chainrule.program.passes.common import common
from chainrule.program.passes.dead import dead
from chainrule.program.passes.folding import folding
from chainrule.program.passes.rounds import rounds

PASSES = (dead, common, folding, algebra)
ROUNDS = 8  # most programs take two or three


def optimise(program: Program) -> Program:
    """Return a program that computes the same in fewer equations.

    Parameters
    ----------
    program : Program
        It is left as it is; equations that need no change are shared.

    Returns
    -------
    Program
        With the same inputs and outputs, the same bits in its results, and the same guards, but those that hold always.
        Values that were copies may now be aliases: a result may be an input, or share memory with one.

    Notes
    -----
    Takes some 10 to 15 microseconds for each equation, however long the program is.

    Examples
    --------
    >>> import chainrule as cr, numpy as np
    >>> program = cr.record(cr.grad(lambda x: np.sin(x) ** 2))(0.5)
    >>> len(program.equations), len(optimise(program).equations)
    (7, 4)
    """
    return settled(rounds(settled(program), settled))


def settled(program: Program) -> Program:
    """Return the program after the passes, run until none of them finds anything."""
    quiet = 0  # passes in a row that found nothing
    for k in range(ROUNDS * len(PASSES)):
        before, program = program, PASSES[k % len(PASSES)](program)
        quiet = quiet + 1 if program is before else 0
        if quiet == len(PASSES):
            break
    return dead(program)


__all__ = ["PASSES", "optimise"]
