"""Until when each value is needed, and which values share memory.

An array may be overwritten only after the last use of itself, of all that shows its memory, and of all whose memory it
shows. So symbols that may share memory form a group (`aliases`), and a group is in use until the last use of any of its
members (`lifetimes`). Results of the program are in use to its end.
"""

from chainrule.program.ir import Program, Symbol
from chainrule.program.passes.sharing import is_array, may_share
from chainrule.program.passes.sweep import reads


def aliases(program: Program) -> dict:
    """Return for each symbol the first one whose memory it may share: itself, if there is none.

    Parameters
    ----------
    program : Program

    Returns
    -------
    dict
        Symbol -> Symbol. Two symbols may share memory if the same symbol stands for both.
    """
    base = {s: s for s in (*program.inputs, *program.constants)}

    def root(s):
        while base[s] is not s:
            base[s] = base[base[s]]
            s = base[s]
        return s

    for e in program.equations:
        made = e.outputs
        for s in made:
            base[s] = s
        if made and may_share(e):
            found = []
            reads(e, found)
            roots = [root(s) for s in found if is_array(s)]
            if roots:
                first = roots[0]
                for r in roots[1:]:
                    base[r] = first
                for s in made:
                    if is_array(s):
                        base[s] = first
    return {s: root(s) for s in base}


def lifetimes(program: Program) -> dict:
    """Return for each symbol the place of its last use, or of the last use of what may share its memory.

    Parameters
    ----------
    program : Program

    Returns
    -------
    dict
        Symbol -> index in ``program.equations``. Of a result of the program, ``len(program.equations)``; of an input or
        constant that is not used, -1; of another value that is not used, where it is made.
    """
    group = aliases(program)
    last = dict.fromkeys(group.values(), -1)
    for k, e in enumerate(program.equations):
        found = list(e.outputs)
        reads(e, found)
        for s in found:
            last[group[s]] = k
    for y in program.outputs:
        if y.__class__ is Symbol:
            last[group[y]] = len(program.equations)
    return {s: last[g] for s, g in group.items()}
