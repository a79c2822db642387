"""The forward loop: the rounds of a `Plan`, written as one `Loop`."""

from chainrule.program.ir import Symbol
from chainrule.program.loops.bodies import Body, complete
from chainrule.program.loops.ir import Exit, Loop, Next, free_symbols
from chainrule.program.loops.segments import Irregular


class Forward:
    """How the forward rounds of a loop are rolled; `back` is how its backward rounds are, or None."""

    def __init__(self, plan, back):
        self.plan, self.back = plan, back

    def changes(self):
        """Return the change that puts the forward loop in place of its rounds."""
        plan = self.plan
        ways = plan.ways
        leaving = None if plan.static else ways.of[plan.n]
        body = Body(plan.program, ways, plan, plan.static, range(plan.n))
        body.known_before, body.in_table, body.sure = plan.before, plan.in_table, plan.sure
        outputs = self.outputs()
        if plan.static:
            for _, key in outputs:
                body.inside(("state", key))
        kept = {} if self.back is None else self.back.kept
        ends = {}

        def end(w):
            made = Exit([]) if w == leaving else Next([])
            ends[w] = made
            return made

        root = body.blocks(list(range(len(ways.groups))), {}, {}, 0, end)
        if not plan.static:
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
        init = [self.at(plan.marks[0], place[1]) for place in order]
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
            [order.index(("state", key)) for _, key in outputs] if plan.static else [],
            tables=[(s, complete(entries, range(plan.n))) for s, entries in body.tables],
            count=plan.n if plan.static else None,
            pushes=None if self.back is None else self.back.stack,
            place=plan.rounds[0].equations[0].place,
        )  # fmt: skip
        loop.free = free_symbols(loop)
        return [(plan.begin, plan.stop, [loop])]

    def formed(self, symbol, x, key):
        """Give a symbol of the state its shape and dtype, which must be the same in all rounds."""
        forms = {(x.shape, x.dtype)} if x.__class__ is Symbol else set()
        for m in self.plan.marks:
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
        values = [self.plan.marks[k + 1].symbols.get(key) for k in group]
        if any(v is None for v in values):
            raise Irregular(f"{key} is not always a value")
        slots = {body.ways.rounds[k].made.get(v) for k, v in zip(group, values, strict=True)}
        if len(slots) == 1 and None not in slots:
            return body.made[w][slots.pop()]
        places = {p for p in self.plan.common(group, values) if self.plan.sure(p)}
        if not places:
            raise Irregular(f"{key} is handed on in different ways")
        return body.inside(self.plan.choose(places, ("state", key)))

    def kept_operand(self, body, w, place):
        """Return what a way keeps for the backward pass."""
        if place[0] == "made":
            return body.made[w][place[1:]]
        if place[0] == "state":
            return body.inside(place)
        return body.roles[w][place[1]]  # an operand from outside, by its number

    def outputs(self):
        """Return (symbol, where it comes from) of the symbols of the rounds that are read after the loop."""
        plan = self.plan
        inside = set(range(plan.begin, plan.stop))
        if self.back is not None:
            inside |= self.back.covered
        found = {}
        read, read_after = {}, set()
        for i in range(len(plan.program.equations)):
            if i not in inside:
                for s in plan.parts[i].symbols:
                    read.setdefault(s, i)
                    if i >= plan.stop:
                        read_after.add(s)
        for y in plan.program.outputs:
            if y.__class__ is Symbol:
                read.setdefault(y, len(plan.program.equations))
                read_after.add(y)
        final = plan.marks[-1].symbols
        for s in read:
            if s in plan.wandering and s in read_after and not plan.stays(s, final):
                raise Irregular(f"{s} is read after the loop, where a variable holds it after these rounds")
            if not plan.begin <= plan.where[s] < plan.stop:
                continue
            keys = [key for key, v in final.items() if v is s]
            keys = [plan.choose({("state", key) for key in keys})[1]] if keys else []
            if plan.static:
                if not keys:
                    raise Irregular(f"{s} of a round in the middle is read after the loop")
                found[s] = keys[0]
            elif s in plan.leaving.made:
                found[s] = plan.leaving.made[s]
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
