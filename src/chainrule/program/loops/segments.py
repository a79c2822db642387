"""Segments: the equations of one round, in a form that can be compared with those of another.

Two segments are alike if they call the same functions on operands that come from the same places: from an equation of
the round itself, by its number, or from outside, by the order of the first use. Plain numbers may differ.
"""

import numpy as np

from chainrule.engine.batched import Plain
from chainrule.engine.rule import Rule
from chainrule.program.ir import Equation, Guard, Symbol


class Irregular(Exception):
    """Why a loop is left as it was recorded."""


class Part:
    """What an equation or guard is made of.

    `letter` is a number for what stays the same in each round: the call, the form of its result, how its operands lie
    in lists and the like. `symbols` are those that it reads, `outputs` those that it makes. `literals` are the plain
    numbers and arrays in it, `names` the parameters that these stand in (None: an operand). `seen` is the answer of a
    guard that asks for the way.
    """

    __slots__ = ("letter", "literals", "names", "outputs", "seen", "symbols")


class Parts:
    """The parts of a program's equations, found when they are asked for."""

    def __init__(self, equations):
        self.equations = equations
        self.found = [None] * len(equations)
        self.letters = {}  # what stays the same -> its number
        self.ways = {}  # what makes segments alike -> its number, and their letters

    def __getitem__(self, i):
        part = self.found[i]
        if part is None:
            part = self.found[i] = self.dissected(self.equations[i])
        return part

    def dissected(self, e):
        """Take an equation or a guard apart."""
        part = Part()
        part.literals = part.names = ()
        part.seen = None
        if e.__class__ is Guard:
            part.symbols, part.outputs = (e.symbol,), ()
            if e.how == "bool":
                same, part.seen = ("guard", "bool"), e.seen
            else:
                same = ("guard", e.how, literal_key(e.seen))
        elif e.__class__ is Equation:
            same = self.of_call(e, part)
        else:
            raise Irregular("a loop inside")
        part.letter = self.letters.setdefault(same, len(self.letters))
        return part

    def of_call(self, e, part):
        """Take a call apart; return what stays the same of it."""
        s, rule = e.output, e.rule
        if rule.__class__ is Rule or rule.__class__ is Plain:
            same = [rule.kind, rule.fun]
        else:
            same = [rule.__class__, id(rule)]
        if s.__class__ is Symbol:
            part.outputs = (s,)
            same += s.shape, s.dtype
        else:
            part.outputs = e.outputs
            same.append((len(s), *[(t.shape, t.dtype) for t in part.outputs]))
        found = ([], [], [])
        for x in e.inputs:
            if x.__class__ is Symbol:
                found[0].append(x)
                same.append(0)
            else:
                same.append(taken_apart(x, None, *found))
        if e.params:
            same.append(taken_apart(e.params, None, *found))
        part.symbols, part.literals, part.names = found
        return tuple(same)


def taken_apart(x, name, symbols, literals, names):
    """Collect the symbols and literals in an operand, and the names of these; return what is left of it."""
    kind = x.__class__
    if kind is Symbol:
        symbols.append(x)
        return "symbol"
    if kind is int or kind is float or kind is complex or isinstance(x, np.generic):
        literals.append(x)
        names.append(name)
        return ("literal", kind)
    if kind is tuple or kind is list:
        return (kind, *[taken_apart(v, name, symbols, literals, names) for v in x])
    if kind is dict:
        return tuple([(k, taken_apart(v, name or k, symbols, literals, names)) for k, v in x.items()])
    if kind is slice:
        parts = (x.start, x.stop, x.step)
        return ("slice", *[taken_apart(v, name, symbols, literals, names) for v in parts])
    if kind is bool or x is None or x is Ellipsis or isinstance(x, str | np.dtype | type):
        return (kind, x)
    if kind is np.ndarray:
        literals.append(x)
        names.append(name)
        return ("literal", x.shape, x.dtype)
    return (kind, id(x))


def alike(x, y):
    """Tell whether two literals are the same, to the byte."""
    if x is y or (x.__class__ is y.__class__ is float and x == y != 0):
        return True
    return literal_key(x) == literal_key(y)


def literal_key(x):
    """Return what tells two literals apart: type and bytes."""
    x = np.asarray(x) if not isinstance(x, bool | int | float | complex | np.generic) else x
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.tobytes()
    return type(x), repr(x)


class Segment:
    """The equations of one round: those from number `start` on.

    `made` has the symbols that they make: symbol -> (number of the equation, number of the output); `outside` those
    that they read from outside, in order: symbol -> its number. `way` is a number that segments share which are alike:
    which go the same way through the round.
    """

    __slots__ = ("equations", "letters", "made", "outside", "parts", "start", "way")

    def __init__(self, equations, parts, start, stop):
        self.equations, self.start = equations[start:stop], start
        self.parts = [parts[i] for i in range(start, stop)]
        self.made = made = {}
        self.outside = outside = {}
        letters = []
        for slot, part in enumerate(self.parts):
            wires = [made.get(s) or outside.setdefault(s, len(outside)) for s in part.symbols]
            letters.append((part.letter, *wires))
            for k, s in enumerate(part.outputs):
                made[s] = slot, k
        form = tuple(letters), tuple([p.seen for p in self.parts])
        self.way, self.letters = parts.ways.setdefault(form, (len(parts.ways), form[0]))

    def begins_as(self, other):
        """Tell whether these equations are the first ones of another segment, but for the answer of the last guard."""
        n = len(self.letters)
        seen = [p.seen for p in self.parts[:-1]]
        return self.letters == other.letters[:n] and seen == [p.seen for p in other.parts[: n - 1]]
