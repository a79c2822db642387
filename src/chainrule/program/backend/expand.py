"""Our primitives and slow functions of NumPy as the arithmetic that they are, for ufuncs to run in given memory.

``logaddexp(a, b)`` takes 50 ns an entry as NumPy has it, and a third of that as exp, log1p and a maximum, which are
vectorised. What two expansions have in common is computed once: a loss and its derivative share exp(-|x|).
"""

import numpy as np

from chainrule.engine.rule import RULES
from chainrule.engine.spec import spread_to
from chainrule.program.backend.arrays import ARITHMETIC
from chainrule.program.backend.numbers import FLOAT, function_of
from chainrule.program.ir import Equation, Symbol
from chainrule.rules.elementwise import one_minus_square, sech_squared
from chainrule.rules.gates import bell, sigmoid


class Expansion:
    """The equations of a program, with some of them expanded."""

    def __init__(self, numbers) -> None:
        self.equations = []
        self.known = {}  # (function, operands) -> symbol
        self.numbers = numbers
        self.place = None

    def call(self, fun, *xs, like, output=None):
        """Write a ufunc down, unless it is known; return the symbol of its result."""
        key = (fun, *[id(x) if x.__class__ is Symbol else x for x in xs])
        known = self.known.get(key)
        if known is not None and output is None:
            return known
        if output is None:
            output = self.known[key] = Symbol(f"e{next(self.numbers)}", like.shape, like.dtype)
        self.equations.append(Equation(RULES[fun], xs, {}, output, None, self.place))
        return output


def expanded(equations: list, numbers) -> list:
    """Return equations with those expanded that are in `HOW`, if they are of float64; `numbers` number new symbols."""
    made = Expansion(numbers)
    for e in equations:
        how = HOW.get(e.fun) if e.__class__ is Equation and not e.params else None
        if how is not None and e.output.__class__ is Symbol and all(map(is_double, (*e.inputs, e.output))):
            made.place = e.place
            how(made, e.output, *e.inputs)
        else:
            made.equations.append(e)
    return made.equations


def unspread(equations: list, outputs: list, large: int) -> list:
    """Return equations in which ufuncs read what was spread to an array, instead of that array, as they spread it too.

    Arrays of more than `large` entries, which are run in blocks, are replaced by numbers only.
    """
    spread, made = {}, []
    for e in equations:
        if e.__class__ is Equation and not e.params and function_of(e) in ARITHMETIC and e.output.__class__ is Symbol:
            e = with_spread(e, spread)
        elif e.__class__ is Equation and e.fun is spread_to and is_double(e.output):
            x = e.inputs[0]
            if is_double(x) and (x.__class__ is not Symbol or x.shape == () or e.output.size <= large):
                spread[e.output] = x
        made.append(e)
    if not spread:
        return equations
    read = {y for y in outputs if y.__class__ is Symbol}.union(*[e.reads for e in made])
    return [e for e in made if not (e.__class__ is Equation and e.output in spread and e.output not in read)]


def with_spread(e, spread):
    """Return an equation with what was spread in place of the arrays, if another operand has the result's shape."""
    xs, s = e.inputs, e.output
    if not any(x.__class__ is Symbol and x in spread for x in xs):
        return e
    whole = [x for x in xs if x.__class__ is Symbol and x not in spread and x.shape == s.shape and x.dtype == FLOAT]
    if not whole or not all(map(is_double, xs)):
        return e
    xs = tuple([spread.get(x, x) if x.__class__ is Symbol else x for x in xs])
    if function_of(e) is np.multiply and any(x.__class__ is not Symbol and x == 1 for x in xs):
        return Equation(RULES[np.positive], (whole[0],), {}, s, None, e.place)
    return Equation(e.rule, xs, {}, s, None, e.place)


def is_double(x) -> bool:
    """Tell whether an operand is a float64 array or number, or a Python number."""
    return x.dtype == FLOAT and x.dtype is not float if x.__class__ is Symbol else x.__class__ in (float, int)


def decay(made, x, like, scale=-1.0):
    """Write exp(-|x|)."""
    y = made.call(np.absolute, x, like=like)
    y = made.call(np.negative, y, like=like) if scale == -1.0 else made.call(np.multiply, y, scale, like=like)
    return made.call(np.exp, y, like=like)


def logaddexp(made, s, a, b):
    """The greater one, plus log1p(exp(-|a - b|))."""
    zero = [x.__class__ is not Symbol and x == 0 for x in (a, b)]
    if any(zero):
        d = b if zero[0] else a
        m, e = made.call(np.maximum, d, 0.0, like=s), decay(made, d, s)
    else:  # where both are the same infinity the difference is NaN, and nothing is added; NaN itself is in the maximum
        d = made.call(np.absolute, made.call(np.subtract, a, b, like=s), like=s)
        d = made.call(np.fmax, made.call(np.negative, d, like=s), -np.inf, like=s)
        m, e = made.call(np.maximum, a, b, like=s), made.call(np.exp, d, like=s)
    y = made.call(np.log1p, e, like=s)
    made.call(np.add, m, y, like=s, output=s)


def write_sigmoid(made, s, x):
    """exp(min(x, 0)) / (1 + exp(-|x|))."""
    up = made.call(np.exp, made.call(np.minimum, x, 0.0, like=s), like=s)
    down = made.call(np.add, decay(made, x, s), 1.0, like=s)
    made.call(np.divide, up, down, like=s, output=s)


def write_bell(made, s, x):
    """e / (1 + e)**2 with e = exp(-|x|)."""
    e = decay(made, x, s)
    down = made.call(np.square, made.call(np.add, e, 1.0, like=s), like=s)
    made.call(np.divide, e, down, like=s, output=s)


def write_sech_squared(made, s, x):
    """4 e / (1 + e)**2 with e = exp(-2 |x|)."""
    e = decay(made, x, s, -2.0)
    down = made.call(np.square, made.call(np.add, e, 1.0, like=s), like=s)
    made.call(np.divide, made.call(np.multiply, e, 4.0, like=s), down, like=s, output=s)


def write_one_minus_square(made, s, x):
    """(1 - x) (1 + x)."""
    made.call(np.multiply, made.call(np.subtract, 1.0, x, like=s), made.call(np.add, 1.0, x, like=s), like=s, output=s)


HOW = {
    np.logaddexp: logaddexp, sigmoid: write_sigmoid, bell: write_bell, sech_squared: write_sech_squared,
    one_minus_square: write_one_minus_square,
}  # fmt: skip
