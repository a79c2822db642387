"""What carries derivatives in a program."""

import numpy as np

from chainrule.engine.boxed import inexact, value
from chainrule.program.ir import Equation, Guard, Program, Symbol, replaced


def smooth(program: Program, names: dict | None = None) -> Program:
    """Return a program with its values without the calls that have no derivative: what they gave stands there.

    Masks, indices and guards go: the program holds for the point at which it was recorded, and its derivatives there.
    Names count on from the inputs. The values must have been kept (``record(f, values=True)``).
    `names` is filled with the new symbol of each old one that still has one.
    """
    plain = {}  # symbol of a value without derivative -> that value
    equations, constants = [], dict(program.constants)
    made = Program(program.inputs, equations, [], constants, program.points, program.structure, program.name)
    made.count = len(program.inputs)
    arrays = {}
    renamed = {s: s for s in (*program.inputs, *constants)}

    def stands(s):
        """Return what stands for a symbol: its new name, a number, or a captured array."""
        if s not in plain:
            return renamed[s]
        v = plain[s]
        if v.__class__ is bool:  # rules negate masks with ~
            return np.bool_(v)
        if v.__class__ is not np.ndarray or not v.shape:
            return v
        if s not in arrays:
            arrays[s] = Symbol(f"c{len(constants) + 1}", v.shape, v.dtype)
            constants[arrays[s]] = v
        return arrays[s]

    class Stands(dict):
        __missing__ = staticmethod(stands)

    known = Stands()
    for e in program.equations:
        if e.__class__ is Guard:
            continue
        several = isinstance(e.output, tuple)
        values = e.value if several else (e.value,)
        constant = e.rule.kind == "constant" or all(s in plain for s in e.reads)
        outputs = []
        for s, v in zip(e.output if several else (e.output,), values, strict=True):
            if s is not None and (constant or not inexact(v)):
                plain[s] = value(v)
            elif s is not None:
                renamed[s] = made.symbol(v, s.hint)
            outputs.append(None if s is None or s in plain else renamed[s])
        if constant:
            continue
        params = replaced(e.params, Stands({s: plain[s] for s in e.reads if s in plain}))
        inputs = replaced(e.inputs, known)
        equations.append(
            Equation(e.rule, inputs, params, tuple(outputs) if several else outputs[0], e.value, e.place)
        )  # fmt: skip
    if names is not None:
        names.update(renamed)
    made.outputs = [stands(y) if y.__class__ is Symbol else y for y in program.outputs]
    return made.like(equations, made.outputs)
