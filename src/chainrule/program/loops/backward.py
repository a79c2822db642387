"""The backward pass over a rolled loop, as a loop over the rounds that the forward loop has kept."""

import itertools
from bisect import bisect_right

from chainrule.program.ir import Equation, Guard, Symbol, replaced
from chainrule.program.loops.bodies import Body, Ways, complete
from chainrule.program.loops.ir import Loop, Next, Pop, free_symbols
from chainrule.program.loops.plan import agreed, rank
from chainrule.program.loops.segments import Irregular, alike

KINDS = ("bar", "made", "outside", "state", "same")  # where backward rounds find what they read; the first one counts
ENDS = [(h, t) for h in range(3) for t in range(3)]  # how many rounds stay outside at the beginning and the end


class Backward:
    """How the backward rounds of a loop are rolled. `kept` says what each way of the forward loop must keep."""

    def __init__(self, plan):
        self.plan = plan
        self.program, self.recording = plan.program, plan.recording
        self.stack = self.program.symbol(None, None)
        self.stack.dtype = list
        stretches = {}
        for o, _, start, stop in plan.stretches:
            stretches.setdefault(bisect_right(plan.cuts, o) - 1, []).append((start, stop))
        order = [s for k in sorted(stretches, reverse=True) for s in sorted(stretches[k])]
        if any(a[1] != b[0] for a, b in itertools.pairwise(order)):
            raise Irregular("backward rounds that are not in order")
        self.start, self.stop = order[0][0], order[-1][1]
        at, last = self.start, len(plan.rounds) - 1
        self.range = {}  # round -> (start, stop) of its backward equations
        for k in range(last, -1, -1):
            start = at
            at = max(stretches[k])[1] if k in stretches else at
            self.range[k] = start, at
        self.rounds = {k: plan.segment(a, b) for k, (a, b) in self.range.items()}
        self.before_round, self.after = {}, {}
        for k in plan.rounds:
            self.before_round[k] = self.cotangents(k + 1) if k < plan.n else {}
            self.after[k] = self.cotangents(k)
        for head, tail in sorted(ENDS, key=sum):
            self.head = range(last, last - head, -1)
            self.tail = range(tail - 1, -1, -1)
            self.middle = range(last - head, tail - 1, -1)
            if len(self.middle) < 2 or (head == 0 and not plan.static):
                continue  # (the last round asked a question more)
            try:
                self.rolled()
                break
            except Irregular as error:
                why = str(error)  # the error itself would hold all this in a cycle
        else:
            raise Irregular(f"backward: {why}")
        self.covered = set(range(self.start, self.stop))

    # -- where operands come from ------------------------------------------------------------------------------

    def cotangents(self, k):
        """Return the cotangents at hand at mark k: place -> symbol."""
        known = self.plan.shared
        position = self.plan.cuts[k]
        if position not in known:
            known[position] = self.looked_up(position, k)
        return known[position]

    def looked_up(self, position, k):
        """Find the cotangents at hand at a mark."""
        crossed = self.recording.crossed.get((self.plan.turn, position))
        if crossed is None:
            return {}
        names = self.plan.keys(k)
        found = {}
        for (primal, *way), bar in crossed.items():
            if primal.__class__ is not Symbol or (self.plan.before(primal) and self.plan.fixed(primal)):
                found["bar", ("same", primal), *way] = bar
            for key in names.get(primal, ()):
                found["bar", ("state", key), *way] = bar
        return found

    def found(self, k, s):
        """Return the places that a symbol of backward round k may come from."""
        plan = self.plan
        places = {place for place, v in self.before_round[k].items() if v is s}
        forward = plan.rounds[k]
        if s in forward.made:
            places.add(("kept", "made", *forward.made[s]))
        places.update([("kept", "state", key) for key in plan.keys(k).get(s, ()) if plan.sure(("state", key))])
        if s in forward.outside:
            places.add(("kept", "outside", forward.outside[s]))
        if self.elsewhere(s) and (not plan.before(s) or plan.fixed(s)):
            places.add(("same", s))
        return places

    def holds(self, k, s, place):
        """Tell whether a place, which some round found, is one of those that a symbol of round k may come from."""
        if place[0] == "bar":
            return self.before_round[k].get(place) is s
        if place[0] == "same":
            return place[1] is s
        if place[1] == "made":
            return self.plan.rounds[k].made.get(s) == place[2:]
        if place[1] == "outside":
            return self.plan.rounds[k].outside.get(s) == place[2]
        return self.plan.holds(k, s, place[1:])

    def known_literal(self, i, name, n, literal, k):
        """Return a literal of a backward equation for all rounds: a subscript is that of its primal equation."""
        plan = self.plan
        primal = self.recording.primal_of(i)
        literals, names = plan.parts[primal].literals, plan.parts[primal].names
        if name != "index":  # what rules bring along, or follows from the primal call's own, if that is always the same
            for m, x in enumerate(literals):
                if names[m] != "index":
                    known = plan.known_literal(primal, names[m], m, x, k)
                    if not all(alike(v, x) for v in known.values()):
                        raise Irregular("a number of the primal call that differs from round to round")
            return dict.fromkeys(range(plan.n), literal)
        places = [m for m, x in enumerate(names) if x == "index"]
        own = [m for m, x in enumerate(plan.parts[i].names) if x == "index"]
        if len(own) != len(places):
            raise Irregular("a subscript that is not that of the primal call")
        m = places[own.index(n)]
        return plan.known_literal(primal, "index", m, literals[m], k)

    def choose(self, places, usual=None):
        """Return one of the places that a value came from in all rounds that went a way: see `Plan.choose`.

        A pullback reads cotangents, and values of its own forward round: what that made, and its operands from outside.
        """
        moving = [p for p in places if kind(p) in ("bar", "state")]
        for p in places:
            if p[0] == "same" and all(v is p[1] for q in moving for v in self.sequence(q)):
                return p
        first = min(KINDS.index(kind(p)) for p in places)
        places = {p for p in places if kind(p) == KINDS[first]}
        place = usual if usual in places else min(places, key=rank)
        if KINDS[first] in ("made", "outside") or (self.plan.static and len(self.plan.ways.groups) == 1):
            return place
        return agreed(place, places, self.sequence)

    def sequence(self, place):
        """Return what a place of the state, or of its cotangents, held at each mark."""
        if place[0] == "bar":
            return [self.before_round[k].get(place) for k in self.plan.rounds]
        return self.plan.sequence(place[1:] if place[0] == "kept" else place)

    def elsewhere(self, s):
        """Tell whether a symbol was made neither in the loop nor in its backward rounds, and before these."""
        i = self.plan.where[s]
        return i < self.start and not self.plan.begin <= i < self.plan.stop

    # -- the loop ----------------------------------------------------------------------------------------------

    def rolled(self):
        """Write the loop over the middle rounds."""
        plan = self.plan
        after = self.after
        self.kept = {w: [] for w in range(len(plan.ways.groups))}
        bodies, states = {}, {}
        tables, blocks = [], [None] * len(plan.ways.groups)
        for w, group in enumerate(plan.ways.groups):
            middle = {k: self.rounds[k] for k in group if k in self.middle}
            if not middle:
                continue
            ways = Ways(middle)
            if len(ways.groups) > 1:
                raise Irregular("backward rounds that differ")
            body = PullingBody(self.program, ways, self, plan.static, self.middle)
            body.state = states
            taken = body.taken
            bodies[w] = body, taken
            blocks[w] = body.blocks([0], {}, {}, 0, lambda _: Next([]))
            tables += body.tables
        if not bodies:
            raise Irregular("no backward rounds")
        outputs = self.outputs(after)
        for _, place in outputs:
            next(iter(bodies.values()))[0].inside(place)
        nexts = {w: {} for w in bodies}
        done = []
        while len(done) < len(states):
            for place in [p for p in states if p not in done]:
                done.append(place)
                for w, (body, _) in bodies.items():
                    nexts[w][place] = self.handed_on(body, after, place)
        order = list(states)
        first = self.before_round[self.middle[0]]
        init = []
        for place in order:
            x = first.get(place)
            if x is None:
                raise Irregular(f"{place} has no first value")
            init.append(x)
            forms = {(x.shape, x.dtype)}
            for k in self.middle:
                v = after[k].get(place)
                if v is not None:
                    forms.add((v.shape, v.dtype))
            if len(forms) > 1:
                raise Irregular(f"the shape or dtype of {place} differs from round to round")
            states[place].shape, states[place].dtype = x.shape, x.dtype
        for w, (body, taken) in bodies.items():
            blocks[w].end.state = [nexts[w][place] for place in order]
            for place, symbol in taken.items():
                like = self.kept_symbol(body.ways.groups[0][0], place)
                symbol.shape, symbol.dtype, symbol.hint = like.shape, like.dtype, like.hint
                self.kept[w].append(place[1:])
                blocks[w].takes.append(symbol)
        self.ends = self.rounds_outside()
        for w, (body, _) in bodies.items():  # what the rounds outside need as well
            for place in self.kept[w][len(blocks[w].takes) :]:
                like = self.kept_symbol(body.ways.groups[0][0], ("kept", *place))
                symbol = self.program.symbol(None)
                symbol.shape, symbol.dtype = like.shape, like.dtype
                blocks[w].takes.append(symbol)
        self.loop = Loop(
            blocks,
            [states[p] for p in order],
            init,
            tuple([s for s, _ in outputs]),
            [order.index(place) for _, place in outputs],
            tables=[(s, complete(entries, self.middle)) for s, entries in tables],
            pops=self.stack,
            left=len(self.tail),
            place=plan.rounds[0].equations[0].place,
        )
        self.loop.free = free_symbols(self.loop)

    def handed_on(self, body, after, place):
        """Return what a backward round hands on at a place of the state."""
        group = body.ways.groups[0]
        values = [after[k].get(place) for k in group]
        if any(v is None for v in values):
            raise Irregular(f"{place} is not handed on")
        slots = {body.ways.rounds[k].made.get(v) for k, v in zip(group, values, strict=True)}
        if len(slots) == 1 and None not in slots:
            return body.made[0][slots.pop()]
        places = self.plan.common(group, values, self)
        if not places:
            raise Irregular(f"{place} is handed on in different ways")
        return body.inside(self.choose(places, place))

    def kept_symbol(self, k, place):
        """Return the symbol of forward round k at a place that is kept."""
        forward = self.plan.rounds[k]
        if place[1] == "state":
            return self.plan.marks[k].symbols[place[2]]
        table = forward.made if place[1] == "made" else forward.outside
        want = place[2:] if place[1] == "made" else place[2]
        return next(s for s, where in table.items() if where == want)

    def outputs(self, after):
        """Return (symbol, place in the state) of what the middle rounds make and others read."""
        spans = [self.range[k] for k in self.middle]
        start, stop = spans[0][0], spans[-1][1]
        read = {s for i in range(stop, len(self.program.equations)) for s in self.plan.parts[i].symbols}
        read.update([y for y in self.program.outputs if y.__class__ is Symbol])
        last = after[self.middle[-1]]
        if self.plan.varied:  # a cotangent that came through unchanged, but may be another one after other ways
            for place, v in last.items():
                if v in read and not start <= self.plan.where[v] < stop and set(self.sequence(place)) != {v}:
                    raise Irregular(f"{v} is read after the rounds, and {place} may hold another cotangent")
        found = []
        for s in sorted(read, key=lambda s: s.name):
            if start <= self.plan.where[s] < stop:
                places = [p for p, v in last.items() if v is s]
                if not places:
                    raise Irregular(f"{s} of a backward round is read elsewhere")
                found.append((s, self.choose(set(places))))
        return found

    # -- rounds outside ----------------------------------------------------------------------------------------

    def rounds_outside(self):
        """Return the equations of the rounds outside of the loop, with what they read of the forward rounds popped."""
        made = {}
        for k in (*self.head, *self.tail):
            w = self.plan.ways.of[k]
            segment = self.rounds[k]
            names = {}
            for s in segment.outside:
                places = {p for p in self.found(k, s) if p[0] == "kept"}
                if self.elsewhere(s) or not places:
                    continue
                if any(v is s for v in self.before_round[k].values()):
                    continue
                place = self.choose(places)[1:]
                if place not in self.kept[w]:
                    self.kept[w].append(place)
                names[s] = place
            made[k] = w, names
        return made

    def outside(self, k):
        """Return the equations of one round outside."""
        w, names = self.ends[k]
        taken = []
        for place in self.kept[w]:
            like = self.kept_symbol(k, ("kept", *place))
            symbol = self.program.symbol(None, like.hint)
            symbol.shape, symbol.dtype = like.shape, like.dtype
            taken.append(symbol)
        new = {s: taken[self.kept[w].index(place)] for s, place in names.items()}
        equations = [Pop(self.stack, w, tuple(taken), self.plan.rounds[k].equations[0].place)]
        rename = _Renamed(new)
        for e in self.rounds[k].equations:
            if e.__class__ is Guard:
                equations.append(Guard(rename[e.symbol], e.how, e.seen, e.place))
            else:
                equations.append(
                    Equation(e.rule, replaced(e.inputs, rename), replaced(e.params, rename), e.output, None, e.place)
                )
        return equations

    def changes(self):
        """Return the change that puts the loop, and the rounds before and after it, in place of the backward rounds."""
        equations = []
        for k in self.head:
            equations += self.outside(k)
        equations.append(self.loop)
        for k in self.tail:
            equations += self.outside(k)
        return [(self.start, self.stop, equations)]


def kind(place):
    """Return which of `KINDS` a place is."""
    return place[1] if place[0] == "kept" else place[0]


class PullingBody(Body):
    """The writing of a backward round: `taken` has what it takes off the stack, place -> symbol."""

    def __init__(self, program, ways, where, static, order_of_rounds):
        super().__init__(program, ways, where, static, order_of_rounds)
        self.known_before = where.elsewhere
        self.taken = {}

    def inside(self, place):
        """Return the operand for a place."""
        if place[0] != "kept":
            return super().inside(place)
        if place not in self.taken:
            self.taken[place] = self.program.symbol(None)
        return self.taken[place]


class _Renamed(dict):
    def __missing__(self, s):
        return s
