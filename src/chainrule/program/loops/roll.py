"""Rolling: the rounds of a recorded loop, and those of its backward pass, put back into loops.

The marks cut the equations into rounds. Rounds that are alike become one way through the body. Each operand from
outside of a round must be one of: the same in all rounds; what a local variable stood for at the mark (the state, which
the round hands on anew); or, in loops with a fixed number of rounds, an entry of a table. Backward rounds read what the
forward round kept, and their state are the cotangents of the forward state, and of what is the same in all rounds.

A loop is rolled only if all of it fits; else it stays as it was recorded. The first rounds, and those that the backward
pass begins and ends with, may differ (a first cotangent is not added to anything): they stay outside.
"""

import dis
import functools
from bisect import bisect_left

import numpy as np

from chainrule.program.ir import Equation, Guard, Program, Symbol, replaced
from chainrule.program.loops.expressions import expression_at
from chainrule.program.loops.ir import Block, Exit, Fork, Loop, Next, free_symbols
from chainrule.program.loops.marks import ROUNDS
from chainrule.program.loops.segments import Irregular, Parts, Segment, alike
from chainrule.program.loops.steady import of_loop, unsteady

FIRST = 3  # how many rounds may stay outside before it


def roll(program: Program, recording) -> Program:
    """Return the program with the loops of its recording rolled, as far as they are regular."""
    runs = [run for run in recording.loops if len(run.marks) >= ROUNDS]
    if not runs:
        return program
    parts, where, plans = Parts(program.equations), made_at(program), []
    stretches = recording.stretches()
    for run in sorted(runs, key=lambda r: r.marks[0].position - r.marks[-1].position):
        if any(p.overlaps(run.marks[0].position, run.marks[-1].position) for p in plans):
            continue
        shared = {}
        for skip in range(FIRST):  # the first rounds may differ
            try:
                plans.append(Plan(program, recording, run, parts, skip, shared, where, stretches))
                break
            except Irregular:
                continue
    if not plans:
        return program
    changes = sorted([c for p in plans for c in p.changes], key=lambda c: c[0])
    equations, at = [], 0
    for start, stop, new in changes:
        if start < at:
            return program  # backward passes that are interleaved
        equations += program.equations[at:start] + new
        at = stop
    equations += program.equations[at:]
    return program.like(equations)


def made_at(program):
    """Return, for each symbol, the number of the equation that makes it; -1 for inputs and captured arrays."""
    where = dict.fromkeys((*program.inputs, *program.constants), -1)
    for i, e in enumerate(program.equations):
        if e.__class__ is Equation and e.output.__class__ is Symbol:
            where[e.output] = i
        else:
            where.update(dict.fromkeys(e.outputs, i))
    return where


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


PURE_OPCODES_REFUSED = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_", "YIELD", "AWAIT")
CHANGING = frozenset({
    "append", "extend", "insert", "pop", "popitem", "update", "add", "remove", "discard", "clear", "setdefault",
    "sort", "reverse", "write", "send", "put", "appendleft", "popleft", "next", "__next__", "__setitem__",
})  # fmt: skip


def changes_nothing(codes):
    """Tell whether code leaves nothing behind but its local variables, as far as its instructions tell."""
    for code in codes:
        for i in dis.get_instructions(code):
            if i.opname.startswith(PURE_OPCODES_REFUSED):
                return False
            if i.argval in CHANGING and i.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")):
                return False
    return True


class Plan:
    """How one loop of a recording is rolled: `changes` are (start, stop, equations that come in place of those)."""

    def __init__(self, program, recording, run, parts, skip, shared, where, stretches):
        self.where, self.stretches = where, stretches
        self.shared = shared  # what was found out about rounds and marks
        self.program, self.recording, self.run = program, recording, run
        self.parts = parts
        self.marks = run.marks[skip:]
        self.varying = varying_names(self.marks)
        if len(self.marks) < ROUNDS:
            raise Irregular("few rounds")
        self.cuts = [m.position for m in self.marks]
        self.n = len(self.cuts) - 1
        self.begin = self.cuts[0]
        self.rounds = {k: self.segment(self.cuts[k], self.cuts[k + 1]) for k in range(self.n)}
        if not all(s.equations for s in self.rounds.values()):
            raise Irregular("rounds without equations")
        self.stop = self.cuts[-1]
        self.leaving = None if run.counted else self.last_round()
        self.static = self.leaving is None
        if not self.static:
            self.stop = self.leaving.start + len(self.leaving.equations)
            self.rounds[self.n] = self.leaving
        self.ways = Ways(self.rounds)
        self.varied = not self.static or len(self.ways.groups) > 1  # other runs may take other rounds than these
        self.wandering = self.by_the_way() if self.varied else frozenset()
        self.turn = self.one_pass()
        self.back = None
        if self.turn is not None:
            from chainrule.program.loops.backward import Backward

            self.back = Backward(self)
        try:
            self.changes = self.forward()
            if self.back is not None:
                self.changes += self.back.changes()
        finally:
            self.back = None  # a cycle

    def by_the_way(self):
        """Return the values from before the loop that local variables hold in turn, which may depend on the way.

        No other thing that Python keeps may depend on it: the rounds would be others after other ways.
        """
        names = unsteady(self.run, self.marks, self.varying, self.recording.codes)
        if names:
            raise Irregular(f"{', '.join(sorted(map(str, names)))} may depend on the way that a round took")
        facts = of_loop(self.run.code, self.run.target)
        found = set()
        for key in {key for m in self.marks for key in m.symbols}:
            if key[0] in facts.live and key[0] not in facts.targets:
                held = {m.symbols.get(key) for m in self.marks}
                if len(held) > 1:
                    found |= {m.symbols[key] for m in self.marks[1:] if key in m.symbols}
        return {s for s in found if self.before(s)}

    def stays(self, s, final):
        """Tell whether the variables that hold a value at the end have held it all the time."""
        live = of_loop(self.run.code, self.run.target).live
        keys = [key for key, v in final.items() if v is s and key[0] in live]
        return all(m.symbols.get(key) is s for m in self.marks for key in keys)

    def in_table(self, entries):
        """Tell whether operands of the rounds are those of all rounds, whichever ways they take."""
        symbols = [x for x in entries.values() if x.__class__ is Symbol]
        if self.wandering.isdisjoint(symbols):
            return True
        targets = of_loop(self.run.code, self.run.target).targets
        return any(
            all(self.marks[k + 1].symbols.get(key) is x for k, x in entries.items())
            for key in self.marks[-1].symbols if key[0] in targets
        )  # fmt: skip

    def sure(self, place):
        """Tell whether what some rounds found at a place is what all rounds that go their way would find there."""
        if not self.varied:
            return True
        return self.fixed(place[1]) if place[0] == "same" else not self.picked(place[1])

    def fixed(self, s):
        """Tell whether all rounds would read this value from before the loop, where some do.

        It is not if what differs from round to round may have picked it: from a list, or as what a variable holds.
        """
        if not self.varied:
            return True
        where = {key for m in self.marks for key, v in m.symbols.items() if v is s}
        for key in where:
            held = [m.symbols.get(key) for m in self.marks]
            while held[0] is None:  # not set yet
                held = held[1:]
            if any(v is not s for v in held):
                return False
        return not any(self.picked(key) for key in where) if where else self.where[s] < 0 or not self.numbers

    def picked(self, key):
        """Tell whether a value that stands in a container may have been picked by a number, or name, of the round."""
        path = key[1:-1] if key[-1] in ("value", "data", "tangent") else key[1:]
        if key[0] in of_loop(self.run.code, self.run.target).targets:
            return True
        if path and not self.from_targets.isdisjoint([m.symbols.get(key) for m in self.marks]):
            return True
        by_name = path and all(part.__class__ is str for part in path)
        if by_name and {"values", "items"}.isdisjoint(self.run.code.co_names):
            return not self.numbers <= {int}
        return bool(path and self.numbers)

    @functools.cached_property
    def from_targets(self):
        """The symbols that the ``for`` has handed out."""
        targets = of_loop(self.run.code, self.run.target).targets
        return {v for m in self.marks[1:] for key, v in m.symbols.items() if key[0] in targets}

    @functools.cached_property
    def numbers(self):
        """The classes of the plain values that differ from round to round, and could be subscripts."""
        found = {m.plain[(name,)] for m in self.marks for name in self.varying if (name,) in m.plain}
        kinds = {v[0] if v.__class__ is tuple and v[0].__class__ is type else object for v in found}
        return {c for c in kinds if not issubclass(c, float | complex | np.inexact)}

    def overlaps(self, start, stop):
        """Tell whether some of the equations from `start` to `stop` are rolled already."""
        return start < self.stop and stop > self.begin

    def segment(self, start, stop):
        """Return the equations from `start` to `stop` as a segment."""
        segment = self.shared.get((start, stop))
        if segment is None:
            segment = self.shared[start, stop] = Segment(self.program.equations, self.parts, start, stop)
        return segment

    def last_round(self):
        """Return the round that left the loop, up to its guard; None if rounds may not vary in number."""
        start = self.cuts[-1]
        equations = self.program.equations
        if any(m.plain != self.marks[0].plain for m in self.marks[1:]):
            return None  # a counter, which may be used afterwards
        if not changes_nothing([self.run.code, *self.recording.codes]):
            return None
        known = list({s.way: s for s in self.rounds.values()}.values())
        longest = max(len(s.equations) for s in known)
        for stop in range(start + 1, min(start + longest, len(equations)) + 1):
            last = equations[stop - 1]
            if last.__class__ is Guard and last.how == "bool":
                segment = self.segment(start, stop)
                like_it = [s for s in known if segment.begins_as(s)]
                if not like_it:
                    return None
                if all(s.parts[stop - 1 - start].seen is not last.seen for s in like_it):
                    return segment
        return None

    def one_pass(self):
        """Return the number of the backward pass over the loop; None if there is none."""
        first, last = [bisect_left(self.stretches, (at,)) for at in (self.begin, self.stop)]
        self.stretches = self.stretches[first:last]
        turns = {turn for _, turn, _, _ in self.stretches}
        if len(turns) > 1:
            raise Irregular("several backward passes")
        return next(iter(turns), None)

    def keys(self, k):
        """Return the local variables that stand for each symbol at mark k."""
        mark = self.marks[k]
        if mark not in self.shared:
            self.shared[mark] = found = {}
            for key, s in mark.symbols.items():
                found.setdefault(s, []).append(key)
        return self.shared[mark]

    def before(self, s):
        """Tell whether a symbol was made before the loop."""
        return self.where[s] < self.begin

    def found(self, k, s):
        """Return the places that a symbol of round k may come from."""
        places = {("state", key) for key in self.keys(k).get(s, ())}
        if self.before(s):
            places.add(("same", s))
        return places

    def holds(self, k, s, place):
        """Tell whether a place is one of those that a symbol of round k may come from."""
        if place[0] == "state":
            return self.marks[k].symbols.get(place[1]) is s
        return place[1] is s

    def common(self, rounds, values, where=None):
        """Return the places that a value may come from in each of the rounds."""
        where = where or self
        places = where.found(rounds[0], values[0])
        return {p for p in places if all(where.holds(k, v, p) for k, v in zip(rounds, values, strict=True))}

    def known_literal(self, i, name, n, literal, k):
        """Return a literal of equation `i`, found in round k, for all rounds: round -> number.

        It is the same in all if the user's expression names nothing that differs from round to round. A subscript may
        be a variable that does, with a number added.
        """
        spot = self.recording.spots[i]
        code = spot.code
        here = expression_at(code, spot.at) if code is self.run.code else None
        if here is not None and here.over and name == "index":  # the entry that an iteration over an array is at
            return {j: literal + j - k for j in range(self.n)}
        if not self.varying and changes_nothing([code]):
            return dict.fromkeys(range(self.n), literal)
        if here is None:
            raise Irregular("a number in a function that was not called in every round")
        if name == "index" and here.index is not None and here.index[0] in self.varying:
            variable, more = here.index
            values = [m.plain.get((variable,), (None, None)) for m in self.marks[1:]]
            if all(c is int for c, _ in values):
                return {j: v + more for j, (_, v) in enumerate(values)}
        if here.has_constant(literal) or here.names.isdisjoint(self.varying | CHANGING):
            return dict.fromkeys(range(self.n), literal)
        raise Irregular("a number that may differ in the rounds that did not take this way")

    def choose(self, places, usual=None):
        """Return one of the places that a value came from in all rounds that went a way.

        In a loop that always takes the same rounds any is right. Else they must have held the same value at all marks,
        not only where that way was taken: two variables may be equal for a while.
        """
        place = usual if usual in places else min(places, key=rank)
        if (self.static and len(self.ways.groups) == 1) or len(places) == 1:
            return place
        return agreed(place, places, self.sequence)

    def sequence(self, place):
        """Return what a place held at each mark."""
        if place[0] == "same":
            return [place[1]] * len(self.marks)
        return [m.symbols.get(place[1]) for m in self.marks]

    # -- the forward loop --------------------------------------------------------------------------------------

    def forward(self):
        """Return the change that puts the forward loop in place of its rounds."""
        ways = self.ways
        leaving = None if self.static else ways.of[self.n]
        body = Body(self.program, ways, self, self.static, range(self.n))
        body.known_before, body.in_table, body.sure = self.before, self.in_table, self.sure
        outputs = self.outputs()
        if self.static:
            for _, key in outputs:
                body.inside(("state", key))
        kept = {} if self.back is None else self.back.kept
        ends = {}

        def end(w):
            made = Exit([]) if w == leaving else Next([])
            ends[w] = made
            return made

        root = body.blocks(list(range(len(ways.groups))), {}, {}, 0, end)
        if not self.static:
            for _, where in outputs:
                x = body.made[leaving].get(where) if where[0] != "state" else body.inside(where)
                ends[leaving].values.append(x)
        for w, made in ends.items():
            made.way, made.kept = w, [self.kept_operand(body, w, place) for place in kept.get(w, [])]
        nexts = {w: {} for w in ends if w != leaving}
        done = []
        while len(done) < len(body.state):
            for place in [p for p in body.state if p not in done]:
                done.append(place)
                for w in nexts:
                    nexts[w][place] = self.handed_on(body, w, place[1])
        order = list(body.state)
        init = [self.at(self.marks[0], place[1]) for place in order]
        for place, x in zip(order, init, strict=True):
            self.formed(body.state[place], x, place[1])
        init = [like(x, body.state[place]) for place, x in zip(order, init, strict=True)]
        for w, made in ends.items():
            if w != leaving:
                made.state = [nexts[w][place] for place in order]
        loop = Loop(
            [root],
            [body.state[p] for p in order],
            init,
            tuple([s for s, _ in outputs]),
            [order.index(("state", key)) for _, key in outputs] if self.static else [],
            tables=[(s, complete(entries, range(self.n))) for s, entries in body.tables],
            count=self.n if self.static else None,
            pushes=None if self.back is None else self.back.stack,
            place=self.rounds[0].equations[0].place,
        )  # fmt: skip
        loop.free = free_symbols(loop)
        return [(self.begin, self.stop, [loop])]

    def formed(self, symbol, x, key):
        """Give a symbol of the state its shape and dtype, which must be the same in all rounds."""
        forms = {(x.shape, x.dtype)} if x.__class__ is Symbol else set()
        for m in self.marks:
            v = m.symbols.get(key)
            if v is not None:
                forms.add((v.shape, v.dtype))
        if x.__class__ is not Symbol and forms and next(iter(forms))[0] != ():
            raise Irregular(f"{key} is a number at first")
        forms = forms or {((), type(x))}
        if len(forms) > 1:
            raise Irregular(f"the shape or dtype of {key} differs from round to round")
        symbol.shape, symbol.dtype = forms.pop()
        symbol.hint = str(key[0]) if str(key[0]).isidentifier() else None

    def at(self, mark, key):
        """Return what a local variable stood for at a mark: a symbol, or a number."""
        s = mark.symbols.get(key)
        if s is not None:
            return s
        kind, v = mark.plain.get(key[:-1] if key and key[-1] == "value" else key, (None, None))
        if kind in (float, int, complex):
            return v
        raise Irregular(f"{key} is no value at the first mark")

    def handed_on(self, body, w, key):
        """Return what a way hands on as the local variable `key`."""
        group = body.ways.groups[w]
        values = [self.marks[k + 1].symbols.get(key) for k in group]
        if any(v is None for v in values):
            raise Irregular(f"{key} is not always a value")
        slots = {body.ways.rounds[k].made.get(v) for k, v in zip(group, values, strict=True)}
        if len(slots) == 1 and None not in slots:
            return body.made[w][slots.pop()]
        places = {p for p in self.common(group, values) if self.sure(p)}
        if not places:
            raise Irregular(f"{key} is handed on in different ways")
        return body.inside(self.choose(places, ("state", key)))

    def kept_operand(self, body, w, place):
        """Return what a way keeps for the backward pass."""
        if place[0] == "made":
            return body.made[w][place[1:]]
        if place[0] == "state":
            return body.inside(place)
        return body.roles[w][place[1]]  # an operand from outside, by its number

    def outputs(self):
        """Return (symbol, where it comes from) of the symbols of the rounds that are read after the loop."""
        inside = set(range(self.begin, self.stop))
        if self.back is not None:
            inside |= self.back.covered
        found = {}
        read, read_after = {}, set()
        for i in range(len(self.program.equations)):
            if i not in inside:
                for s in self.parts[i].symbols:
                    read.setdefault(s, i)
                    if i >= self.stop:
                        read_after.add(s)
        for y in self.program.outputs:
            if y.__class__ is Symbol:
                read.setdefault(y, len(self.program.equations))
                read_after.add(y)
        final = self.marks[-1].symbols
        for s in read:
            if s in self.wandering and s in read_after and not self.stays(s, final):
                raise Irregular(f"{s} is read after the loop, where a variable holds it after these rounds")
            if not self.begin <= self.where[s] < self.stop:
                continue
            keys = [key for key, v in final.items() if v is s]
            keys = [self.choose({("state", key) for key in keys})[1]] if keys else []
            if self.static:
                if not keys:
                    raise Irregular(f"{s} of a round in the middle is read after the loop")
                found[s] = keys[0]
            elif s in self.leaving.made:
                found[s] = self.leaving.made[s]
            elif keys:
                found[s] = ("state", keys[0])
            else:
                raise Irregular(f"{s} of a round in the middle is read after the loop")
        return list(found.items())


def like(x, symbol):
    """Return a first number of the state in the type that it has in the rounds: all of them did the same with it."""
    if x.__class__ is Symbol or symbol.dtype.__class__ is type:
        return x
    return symbol.dtype.type(x)


def complete(entries, rounds):
    """Return the entries of a table for all rounds, which must be known."""
    if not all(k in entries for k in rounds):
        raise Irregular("operands of a way that was not taken in every round")
    return [entries[k] for k in rounds]


def varying_names(marks):
    """Return the local variables that are, or hold, plain values which differ from round to round."""
    first = marks[-1].plain
    found = {path[0] for m in marks for path in m.plain.keys() ^ first.keys()}
    return found | {path[0] for m in marks for path in m.plain.keys() & first.keys() if m.plain[path] != first[path]}


def agreed(place, places, sequence):
    """Return a place, if all the others held the same value as it does at all marks."""
    seen = sequence(place)
    for other in places:
        if sequence(other) != seen:
            raise Irregular(f"{place} or {other}")
    return place


def rank(place):
    """Return what to sort places by: what is the same in all rounds comes first."""
    return place[0] != "same", len(repr(place[1:])) if place[0] != "same" else 0, repr(place[1:])
