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


def dissect(e):
    """Return what an equation or guard is made of: what stays the same in each round, symbols, literals, their names.

    A literal has the name of the parameter that it stands in, or None.
    """
    symbols, literals, names = [], [], []

    def walk(x, name=None):
        kind = x.__class__
        if kind is Symbol:
            symbols.append(x)
            return "symbol"
        if kind is tuple or kind is list:
            return (kind, *[walk(v, name) for v in x])
        if kind is dict:
            return tuple([(k, walk(v, name or k)) for k, v in x.items()])
        if kind is slice:
            return ("slice", walk(x.start, name), walk(x.stop, name), walk(x.step, name))
        if kind is bool or x is None or x is Ellipsis or isinstance(x, str | np.dtype | type):
            return (kind, x)
        if kind is int or kind is float or kind is complex or isinstance(x, np.generic):
            literals.append(x)
            names.append(name)
            return ("literal", kind)
        if kind is np.ndarray:
            literals.append(x)
            names.append(name)
            return ("literal", x.shape, x.dtype)
        return (kind, id(x))

    if e.__class__ is Guard:
        if e.how == "bool":
            return ("guard", "bool"), [e.symbol], [], []
        return ("guard", e.how, literal_key(e.seen)), [e.symbol], [], []
    if e.__class__ is not Equation:
        raise Irregular("a loop inside")
    same = []
    for x in e.inputs:
        if x.__class__ is Symbol:
            symbols.append(x)
            same.append(0)
        else:
            same.append(walk(x))
    if e.params:
        same.append(walk(e.params))
    rule = e.rule
    rule = (rule.kind, rule.fun) if rule.__class__ is Rule or rule.__class__ is Plain else (type(rule), id(rule))
    s = e.output
    made = (s.shape, s.dtype) if s.__class__ is Symbol else (len(s), *[(t.shape, t.dtype) for t in e.outputs])
    return (rule, made, *same), symbols, literals, names


def literal_key(x):
    """Return what tells two literals apart: type and bytes."""
    x = np.asarray(x) if not isinstance(x, bool | int | float | complex | np.generic) else x
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.tobytes()
    return type(x), repr(x)


class Way:
    """A key that is hashed once."""

    __slots__ = ("hashed", "parts")

    def __init__(self, parts):
        self.parts, self.hashed = parts, hash(parts)

    def __hash__(self):
        return self.hashed

    def __eq__(self, other):
        return self.hashed == other.hashed and self.parts == other.parts


class Segment:
    """The equations of one round."""

    __slots__ = ("equations", "letters", "literals", "made", "names", "outside", "seen", "start", "way")

    def __init__(self, equations, parts, start=0):
        self.equations, self.start = equations, start
        self.made = {}  # symbol -> (number of the equation, number of the output)
        self.outside = {}  # symbol -> its number
        self.letters, self.literals, self.names, self.seen = [], [], [], []
        for slot, (e, (same, symbols, literals, names)) in enumerate(zip(equations, parts, strict=True)):
            wires = []
            for s in symbols:
                wires.append(self.made.get(s) or self.outside.setdefault(s, len(self.outside)))
            self.letters.append((same, tuple(wires)))
            self.literals.append(literals)
            self.names.append(names)
            self.seen.append(e.seen if e.__class__ is Guard and e.how == "bool" else None)
            for k, s in enumerate(e.outputs):
                self.made[s] = slot, k
        self.way = None

    def key(self):
        """Return what makes this segment like another: the way through the round."""
        if self.way is None:
            self.way = Way((tuple(self.letters), tuple(self.seen)))
        return self.way

    def begins_as(self, other):
        """Tell whether these equations are the first ones of another segment, but for the answer of the last guard."""
        n = len(self.letters)
        return self.letters == other.letters[:n] and self.seen[:-1] == other.seen[: n - 1]
