"""Common subexpressions: a call that was made before, on the same operands, is not made again.

Two calls are the same if function, operands and parameters are. Symbols are compared by identity; numbers by type and
by bits, since 1, 1.0, True and np.float32(1) give results of different dtypes, and 0.0 and -0.0 different signs;
arrays among the parameters by layout and bytes, and so are captured arrays whose values are known. For a sum or product
of real numbers the order of the operands does not count.

All recorded functions are pure: those that draw random numbers can't be recorded. What Python asked for twice is asked
once. The two results become one array: whoever writes in place must know.
"""

import hashlib
import struct
from typing import Any

import numpy as np

from chainrule.engine.batched import Plain
from chainrule.program.ir import Equation, Program, Symbol
from chainrule.program.passes.sweep import Sweep, several

COMMUTATIVE = {np.add, np.multiply}


def common(program: Program) -> Program:
    """Return the program with each call made once."""
    sweep = Sweep(program)
    merge_constants(program, sweep)
    calls, guards = {}, set()

    def rewrite(e, sweep):
        key = key_of_call(e)
        before = calls.setdefault(key, e)
        if before is e:
            return e
        new, old = several(e.output), several(before.output)
        return old if [s is None for s in new] == [s is None for s in old] else e

    def first(guard):
        key = guard.symbol, guard.how, key_of(guard.seen)
        if key in guards:
            return False
        guards.add(key)
        return True

    return sweep.run(rewrite, first)


def merge_constants(program: Program, sweep: Sweep) -> None:
    """Let one symbol stand for all captured arrays of the same values, where these are known."""
    forms, known = {}, {}
    for s in program.constants:
        if s in program.fixed:
            forms.setdefault((s.shape, str(s.dtype)), []).append(s)
    for same_form in forms.values():
        for s in same_form if len(same_form) > 1 else ():
            first = known.setdefault(key_of(program.constants[s]), s)
            if first is not s:
                sweep.stand(s, first)


def key_of_call(e: Equation) -> tuple:
    """Return what two calls have in common if, and only if, they are the same.

    Calls without derivative are kept apart from those with one, for who differentiates a program.
    """
    xs = [x if x.__class__ is Symbol else key_of(x) for x in e.inputs]
    if e.rule.fun in COMMUTATIVE and len(xs) == 2 and is_real(e.output):
        a, b = xs
        xs = [b, a] if hash(b) < hash(a) else xs
    params = tuple([(k, key_of(v)) for k, v in e.params.items()]) if e.params else ()
    return e.rule.fun, e.rule.__class__ is Plain, *xs, params


def is_real(s: Any) -> bool:
    """Tell whether a value is made of floats: the parts of complex products may be rounded in another order."""
    return s.__class__ is Symbol and (s.dtype is float or getattr(s.dtype, "kind", "") == "f")


def key_of(x: Any) -> Any:
    """Return a value that can be hashed, equal for two operands or parameters if they are the same bit for bit."""
    kind = x.__class__
    if kind is Symbol or x is None or kind is str:
        return x
    if kind is float:
        return kind, struct.pack("d", x)
    if kind is int or kind is bool:
        return kind, x
    if kind is complex:
        return kind, struct.pack("dd", x.real, x.imag)
    if kind is slice:
        return kind, key_of(x.start), key_of(x.stop), key_of(x.step)
    if kind is tuple or kind is list:
        return kind, *[key_of(v) for v in x]
    if kind is dict:
        return kind, *[(k, key_of(v)) for k, v in x.items()]
    if isinstance(x, np.generic):
        return kind, str(x.dtype), x.tobytes()
    if kind is np.ndarray and x.dtype != object:
        data = x.tobytes()
        return kind, str(x.dtype), x.shape, x.strides, hashlib.sha256(data).digest() if len(data) > 64 else data
    if isinstance(x, np.dtype):
        return np.dtype, str(x), x
    return "identity", id(x)  # functions, types, Ellipsis: the program keeps them alive
