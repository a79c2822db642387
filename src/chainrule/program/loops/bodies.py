"""Bodies: what is in a rolled loop, written from the rounds that are alike.

`Ways` groups the rounds by the way that they took. `Body` writes one block for all of them, with a fork where they
part; the symbols of one round become those of the state, of a table, or of the body itself. Where the operands of a
round may come from, and which of several places it is, it asks the `where` that it is given: the `Plan` of the forward
loop, or `Backward`.
"""

import numpy as np

from chainrule.program.ir import Equation, Guard, Symbol, replaced
from chainrule.program.loops.ir import Block, Fork
from chainrule.program.loops.segments import Irregular, alike


class Ways:
    """The ways through a round: for each the rounds that took it, and where its operands come from."""

    def __init__(self, rounds):
        """Take the rounds as a dict: number -> Segment."""
        self.of, self.groups = {}, []
        known = {}
        for k, segment in rounds.items():
            w = known.setdefault(segment.way, len(known))
            if w == len(self.groups):
                self.groups.append([])
            self.groups[w].append(k)
            self.of[k] = w
        self.rounds = rounds

    def first(self, w):
        """Return the first segment that went this way."""
        return self.rounds[self.groups[w][0]]

    def candidates(self, w, found, holds):
        """Return, for each operand from outside, the places that it came from in all rounds of this way.

        ``found(k, symbol)`` gives the set of places in round k, ``holds(k, symbol, place)`` tells whether one is among
        them.
        """
        first, *others = self.groups[w]
        sets = [found(first, s) for s in self.rounds[first].outside]
        for k in others:
            for have, s in zip(sets, self.rounds[k].outside, strict=True):
                for place in [p for p in have if not holds(k, s, p)]:
                    have.discard(place)
        return sets


class Body:
    """The writing of the blocks of a loop."""

    def __init__(self, program, ways, where, static, order_of_rounds):
        self.program, self.ways, self.static = program, ways, static
        self.choose, self.known_literal = where.choose, where.known_literal
        self.in_table = self.sure = lambda _: True
        self.rounds_in_order = order_of_rounds
        self.sets = [ways.candidates(w, where.found, where.holds) for w in range(len(ways.groups))]
        self.state = {}  # place of a state -> symbol inside
        self.tables = []  # (symbol, {round: operand})
        self.roles = [{} for _ in ways.groups]  # way -> number of an operand -> operand inside
        self.made = [{} for _ in ways.groups]  # way -> (slot, output) -> symbol inside

    def blocks(self, group, env, roles, slot, ends):
        """Return the block of all ways in `group`, which are alike up to equation `slot`."""
        lead = self.ways.first(group[0])
        equations = []
        while slot < len(lead.letters):
            for w in group[1:]:
                other = self.ways.first(w)
                if slot >= len(other.letters) or other.letters[slot] != lead.letters[slot]:
                    raise Irregular("ways that part without a question")
            e = lead.equations[slot]
            for j in [x for x in lead.letters[slot][1:] if x.__class__ is int]:
                if j not in roles:
                    roles[j] = self.role(group, j)
            if e.__class__ is Guard and e.how == "bool":
                symbol = self.operand(e.symbol, lead, env, roles)
                sides = {}
                for answer in (True, False):
                    side = [w for w in group if self.ways.first(w).parts[slot].seen is answer]
                    sides[answer] = self.blocks(side, dict(env), dict(roles), slot + 1, ends) if side else None
                return Block(equations, Fork(Guard(symbol, "bool", e.seen, e.place), sides[True], sides[False]))
            equations.append(self.equation(group, slot, lead, env, roles))
            slot += 1
        if len(group) > 1:
            raise Irregular("two ways that are one")
        w = group[0]
        self.roles[w], self.made[w] = roles, env
        return Block(equations, ends(w))

    def role(self, group, j):
        """Return the operand that stands for operand number j from outside in all ways of the group."""
        places = set.intersection(*[self.sets[w][j] for w in group])
        if sum([len(self.ways.groups[w]) for w in group]) < len(self.rounds_in_order):
            places = {p for p in places if self.sure(p)}
        if not places:
            return self.table(group, lambda k: list(self.ways.rounds[k].outside)[j])
        place = self.choose(places)
        return self.inside(place)

    def inside(self, place):
        """Return the operand for a place: the symbol itself if it is the same in all rounds, else one of the state."""
        if place[0] == "same":
            return place[1]
        if place not in self.state:
            self.state[place] = None
        if self.state[place] is None:
            self.state[place] = Symbol(f"s{self.program.count}_{len(self.state)}")
        return self.state[place]

    def table(self, group, operand, entries=None):
        """Return a symbol for an operand that differs from round to round."""
        if not self.static:
            raise Irregular("an operand that differs from round to round")
        entries = entries or {k: operand(k) for w in group for k in self.ways.groups[w]}
        for x in entries.values():
            if x.__class__ is Symbol and not self.known_before(x):
                raise Irregular(f"{x} is from another round, and no local variable")
        if not self.in_table(entries):
            raise Irregular("a table of values that may depend on the way that a round took")
        like = next(iter(entries.values()))
        symbol = self.program.symbol(None)
        if like.__class__ is Symbol:
            symbol.shape, symbol.dtype, symbol.hint = like.shape, like.dtype, like.hint
            if any((x.shape, x.dtype) != (like.shape, like.dtype) for x in entries.values()):
                raise Irregular("a table of values of different shapes")
        else:
            symbol.shape, symbol.dtype = getattr(like, "shape", ()), getattr(like, "dtype", type(like))
        self.tables.append((symbol, entries))
        return symbol

    def operand(self, s, lead, env, roles):
        """Return a symbol of the leading round as it stands in the body."""
        if s in lead.made:
            return env[lead.made[s]]
        return roles[lead.outside[s]]

    def equation(self, group, slot, lead, env, roles):
        """Return equation number `slot` of the leading round as it stands in the body."""
        e = lead.equations[slot]
        inner = _Inside(self, lead, env, roles)
        if e.__class__ is Guard:
            return Guard(inner[e.symbol], e.how, e.seen, e.place)
        literals = self.literals(group, slot, lead)
        inputs, params = replaced_literals((e.inputs, e.params), iter(literals))
        inputs, params = replaced(inputs, inner), replaced(params, inner)
        made = []
        for s in e.output if isinstance(e.output, tuple) else (e.output,):
            if s is not None:
                new = self.program.symbol(None, s.hint)
                new.shape, new.dtype = s.shape, s.dtype
                env[lead.made[s]] = new
                s = new
            made.append(s)
        return Equation(
            e.rule, inputs, params, tuple(made) if isinstance(e.output, tuple) else made[0], None, e.place
        )  # fmt: skip

    def literals(self, group, slot, lead):
        """Return the literals of an equation; one that differs from round to round as a symbol of a table.

        What an equation holds that was not in every round is not seen for the others: it must be known from the code.
        """
        out = []
        taken = [k for w in group for k in self.ways.groups[w]]
        everywhere = len(taken) == len(self.rounds_in_order)
        part = lead.parts[slot]
        for n, literal in enumerate(part.literals):
            entries = {k: self.ways.rounds[k].parts[slot].literals[n] for k in taken}
            if not everywhere and self.static:
                known = self.known_literal(lead.start + slot, part.names[n], n, literal, taken[0])
                if not all(alike(known[k], v) for k, v in entries.items()):
                    raise Irregular("a number of a way that was not taken in every round")
                entries = known
            if all(alike(v, literal) for v in entries.values()):
                out.append(literal)
            else:
                out.append(self.table(group, entries.__getitem__, entries))
        return out


class _Inside(dict):
    """Symbols of the leading round -> what stands for them inside."""

    def __init__(self, body, lead, env, roles):
        self.args = body, lead, env, roles

    def __missing__(self, s):
        body, lead, env, roles = self.args
        if s in lead.made or s in lead.outside:
            return body.operand(s, lead, env, roles)
        return s  # of a table


def replaced_literals(x, literals):
    """Return nested operands with other literals, in the order in which `dissect` finds them."""
    kind = x.__class__
    if kind is tuple or kind is list:
        return kind([replaced_literals(v, literals) for v in x])
    if kind is dict:
        return {k: replaced_literals(v, literals) for k, v in x.items()}
    if kind is slice:
        parts = [replaced_literals(v, literals) for v in (x.start, x.stop, x.step)]
        if any(p.__class__ is Symbol for p in parts):
            raise Irregular("a slice that differs from round to round")
        return slice(*parts)
    if kind is bool:
        return x
    if kind is int or kind is float or kind is complex or isinstance(x, np.generic) or kind is np.ndarray:
        return next(literals)
    return x


def complete(entries, rounds):
    """Return the entries of a table for all rounds, which must be known."""
    if not all(k in entries for k in rounds):
        raise Irregular("operands of a way that was not taken in every round")
    return [entries[k] for k in rounds]
