"""Dead code: what neither a result nor a guard reads is not computed.

One walk from the end: an equation stays if something after it needs what it makes. Guards stay, with what feeds them;
constants that are no longer read go.
"""

import dataclasses

from chainrule.program.ir import Equation, Program, Symbol
from chainrule.program.passes.sweep import reads


def dead(program: Program) -> Program:
    """Return the program without the equations and constants that nothing needs."""
    needed = {y for y in program.outputs if y.__class__ is Symbol}
    kept = []
    for e in reversed(program.equations):
        if e.__class__ is Equation:
            made = e.output
            if made.__class__ is tuple:
                if needed.isdisjoint(made):
                    continue
            elif made not in needed:
                continue
        kept.append(e)
        found = []
        reads(e, found)
        needed.update(found)
    constants = {s: c for s, c in program.constants.items() if s in needed}
    if len(kept) == len(program.equations) and len(constants) == len(program.constants):
        return program
    kept.reverse()
    return dataclasses.replace(program, equations=kept, constants=constants, fixed=program.fixed & constants.keys())
