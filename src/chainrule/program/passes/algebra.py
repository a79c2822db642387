"""Algebra that is exact in floating point: ``x * 1`` is x, ``a + (-b)`` is ``a - b``, a product with -1 is a sign.

A rewrite must give the same bits, for infinities, NaN and both zeros too, the same dtype, and Python's weak numbers
where there were some. So ``x + 0`` stays (-0.0 + 0 is 0.0), ``0 * x`` stays, nothing is reassociated, and a multiple of
a power of two stays where it is, since it may overflow. (A NaN may change its sign, which means nothing.)

Bits depend on memory, too: sums are taken in the order in which axes are stored, and some of NumPy's loops round
otherwise on arrays with gaps. A value stands for a copy of itself only if whatever reads it can't tell (`exactness`).

A copy that goes makes an alias: a result may then be an input, or share its memory. Who writes in place, or returns
results, must know (`liveness.aliases`).

Rewrites stand in tables, by function: here those of arithmetic, in `moves` those that only move elements. Each takes
the sweep, the equation, and its operands and parameters. It returns None, another equation for the same output, or a
tuple of what stands for it.
"""

import numpy as np

from chainrule.engine.batched import Plain
from chainrule.engine.spec import spread_to
from chainrule.program.ir import Program, Symbol
from chainrule.program.passes import moves
from chainrule.program.passes.exactness import floats, number, sensitive, stands_for
from chainrule.program.passes.sweep import Sweep, alike, call


def algebra(program: Program) -> Program:
    """Return the program with what is simpler and gives the same bits."""
    sweep = Sweep(program)
    sweep.sensitive = sensitive(program)
    return sweep.run(simplified)


def simplified(e, sweep):
    """Apply the rewrites of an equation's function until none applies; calls without derivative stay."""
    if e.rule.__class__ is Plain or (e.params and isinstance(e.rule.fun, np.ufunc)):
        return e
    while True:
        for rewrite in TABLE.get(e.rule.fun, ()):
            new = rewrite(sweep, e, *e.inputs, **e.params)
            if new is not None:
                break
        else:
            return e
        if new.__class__ is tuple:
            return new
        e = new


def nonzero(x):
    """Tell whether a number can be negated: an int has no -0."""
    return number(x) and (x != 0 or x.__class__ is not int)


# -- arithmetic --------------------------------------------------------------------------------------------------------


def times_one(sweep, e, a, b):
    """Rewrite x * 1 and 1 * x as x."""
    for x, c in ((a, b), (b, a)):
        if number(c) and c == 1 and floats(x):
            return stands_for(sweep, x, e)
    return None


def times_minus_one(sweep, e, a, b):
    """Rewrite x * -1 and -1 * x as -x."""
    for x, c in ((a, b), (b, a)):
        if number(c) and c == -1 and floats(x) and alike(x, e.output):
            return call(e, np.negative, x)
    return None


def over_one(sweep, e, a, b):
    """Rewrite x / 1 as x, and x / -1 as -x."""
    if not number(b) or b not in (1, -1) or not floats(a):
        return None
    if b == 1:
        return stands_for(sweep, a, e)
    return call(e, np.negative, a) if alike(a, e.output) else None


def signs_in(sweep, e, a, b):
    """Rewrite (-a) * (-b) as a * b, and (-a) * c as a * (-c) for a number c; so with quotients."""
    if not floats(a, b):
        return None
    p, q = unsigned(sweep, a), unsigned(sweep, b)
    if p is not None and q is not None:
        return call(e, e.rule.fun, p, q)
    if p is not None and nonzero(b):
        return call(e, e.rule.fun, p, -b)
    if q is not None and nonzero(a):
        return call(e, e.rule.fun, -a, q)
    return None


def unsigned(sweep, x):
    """Return a if `x` is made as -a, of floats; None otherwise."""
    e = sweep.maker(x, np.negative)
    return e.inputs[0] if e is not None and floats(e.inputs[0]) else None


def sign_of(sweep, e, x):
    """Rewrite -(-x) as x, and -(x * c) as x * (-c) for a number c; so with quotients."""
    inner = unsigned(sweep, x)
    if inner is not None:
        return stands_for(sweep, inner, e)
    for fun in (np.multiply, np.divide):
        made = sweep.maker(x, fun)
        if made is not None and not made.params and floats(x, *made.inputs):
            a, b = made.inputs
            if nonzero(b):
                return call(e, fun, a, -b)
            if nonzero(a):
                return call(e, fun, -a, b)
    return None


def plus_negative(sweep, e, a, b):
    """Rewrite a + (-b) as a - b, and (-a) + b as b - a."""
    q = unsigned(sweep, b)
    if q is not None and floats(a) and keeps_order(sweep, a, q):
        return call(e, np.subtract, a, q)
    p = unsigned(sweep, a)
    if p is not None and floats(b) and keeps_order(sweep, b, p):
        return call(e, np.subtract, b, p)
    return None


def minus_negative(sweep, e, a, b):
    """Rewrite a - (-b) as a + b."""
    q = unsigned(sweep, b)
    return call(e, np.add, a, q) if q is not None and floats(a) and keeps_order(sweep, a, q) else None


def keeps_order(sweep, a, b):
    """Tell whether a result of both is stored by rows as before, or of so few axes that there is no question."""
    shapes = [x.shape for x in (a, b) if x.__class__ is Symbol]
    return max(map(len, shapes)) < 2 or sweep.maker(b, np.broadcast_to) is None


def minus_zero(sweep, e, a, b):
    """Rewrite x - 0 as x: for all x, -0.0 too. (x - (-0.0) is another thing.)"""
    if number(b) and b == 0 and not np.signbit(b) and floats(a):
        return stands_for(sweep, a, e)
    return None


def plus_minus_zero(sweep, e, a, b):
    """Rewrite x + (-0.0) as x: for all x. (x + 0.0 stays, since -0.0 + 0.0 is 0.0.)"""
    for x, c in ((a, b), (b, a)):
        if number(c) and c == 0 and np.signbit(c) and floats(x):
            return stands_for(sweep, x, e)
    return None


def to_the_power(sweep, e, a, b):
    """Rewrite x ** 1 as x, and x ** 2 as x * x, as NumPy itself computes it; Python's power may round otherwise."""
    if not number(b) or b not in (1, 2) or not floats(a) or not alike(a, e.output):
        return None
    if b == 1:
        return stands_for(sweep, a, e)
    return call(e, np.multiply, a, a) if getattr(a.dtype, "char", "") in ("f", "d") else None


def positive(sweep, e, x):
    """Rewrite +x as x."""
    return stands_for(sweep, x, e)


def conjugate(sweep, e, x):
    """Rewrite the conjugate of a real x as x."""
    return stands_for(sweep, x, e) if floats(x) else None


def spread_operand(sweep, e, a, b):
    """Leave to broadcasting what was spread to the shape of the other operand."""
    y = e.output
    for x, other in ((a, b), (b, a)):
        if other.__class__ is not Symbol or other.shape != y.shape or not sweep.by_rows(other):
            continue
        made = sweep.maker(x, spread_to) or sweep.maker(x, np.broadcast_to)
        small = made.inputs[0] if made is not None else None
        if small.__class__ is not Symbol:
            continue
        if small.dtype.__class__ is not type or (alike(other, y) and x.dtype == y.dtype):  # of a Python float: float64
            return call(e, e.rule.fun, *((small, b) if x is a else (a, small)))
    return None


# fmt: off
TABLE = {
    np.multiply:  (times_one, times_minus_one, signs_in, spread_operand),
    np.divide:    (over_one, signs_in, spread_operand),
    np.add:       (plus_negative, plus_minus_zero, spread_operand, moves.sum_of_scatters),
    np.subtract:  (minus_negative, minus_zero, spread_operand),
    np.negative:  (sign_of,),
    np.positive:  (positive,),
    np.conjugate: (conjugate,),
    np.power:     (to_the_power,),
    **moves.TABLE,
}
# fmt: on
