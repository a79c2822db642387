"""What the user's expression names that a recorded call belongs to, read off the byte code."""

import bisect
import dis
import functools
from typing import NamedTuple


class Expression(NamedTuple):
    """An expression: the variables it names; what its subscript is, if that is a variable with a number added.

    `over` tells that it is the head of a ``for``. `constants` are the operands of an operator that stand in the code.
    """

    names: frozenset
    index: tuple | None = None
    over: bool = False
    constants: tuple = ()

    def has_constant(self, literal):
        """Tell whether an operand of the operator is this very number, as the code has it."""
        return any(c.__class__ is literal.__class__ and c == literal for c in self.constants)


@functools.lru_cache(4096)
def expression_at(code, at):
    """Return the expression whose last instruction is at an offset of a code object, or within its inline caches.

    (Where an instruction calls a function of Python's own, as `__getitem__`, its frame stands behind them.)
    """
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    here = bisect.bisect_right(instructions, at, key=lambda i: i.offset) - 1
    if instructions[here].positions is None or instructions[here].positions.col_offset is None:
        return Expression(frozenset(all_names(instructions)))
    i = instructions[here]
    if i.opname.startswith("FOR_ITER"):
        return Expression(frozenset(), over=True)
    start = i.positions.lineno, i.positions.col_offset
    end = i.positions.end_lineno, i.positions.end_col_offset
    inside = [j for j in instructions if j.positions is not None and j.positions.col_offset is not None
              and start <= (j.positions.lineno, j.positions.col_offset)
              and (j.positions.end_lineno, j.positions.end_col_offset) <= end]  # fmt: skip
    constants = ()
    if i.opname in ("BINARY_OP", "COMPARE_OP"):
        around = (instructions[here - 1], inside[0])
        constants = tuple([j.argval for j in around if j.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT"))])
    return Expression(frozenset(all_names(inside)), subscript(instructions, here), constants=constants)


def all_names(instructions):
    """Return the names of variables and attributes that instructions load or store."""
    found = []
    for i in instructions:
        if i.opname.startswith(("LOAD_", "STORE_")) and not i.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
            found += i.argval if isinstance(i.argval, tuple) else [i.argval]
    return found


def subscript(instructions, here):
    """Return (variable, number added) of the subscript that ends at an instruction; None if it is anything else."""
    if instructions[here].opname != "BINARY_SUBSCR" and instructions[here].argrepr != "[]":
        return None
    last = instructions[here - 1]
    if last.opname in ("LOAD_FAST", "LOAD_FAST_BORROW"):
        return last.argval, 0
    if last.opname.startswith("LOAD_FAST") and isinstance(last.argval, tuple):
        return last.argval[-1], 0
    if last.opname == "BINARY_OP" and last.argrepr in ("+", "-") and here >= 3:
        number, name = instructions[here - 2], instructions[here - 3]
        value = number.argval if number.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")) else None
        if value.__class__ is int and name.opname.startswith("LOAD_FAST"):
            variable = name.argval[-1] if isinstance(name.argval, tuple) else name.argval
            return variable, value if last.argrepr == "+" else -value
    return None
