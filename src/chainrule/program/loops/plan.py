"""Plans: one loop of a recording, cut into rounds, and where the values in these may come from.

A place is where a symbol of a round was found: ``("same", symbol)`` if it was made before the loop, or ``("state",
key)`` if a local variable stood for it at the mark. A value may have been found at several places, and in some rounds
only. A `Plan` knows them all, and which of them are right in other runs, too, in which the rounds may go other ways. It
raises `Irregular` for a loop that can't be rolled; `forward` and `backward` write the loop by it.
"""

import functools
from bisect import bisect_left

import numpy as np

from chainrule.program.ir import Guard, Symbol
from chainrule.program.loops.bodies import Ways
from chainrule.program.loops.expressions import expression_at
from chainrule.program.loops.marks import ROUNDS
from chainrule.program.loops.segments import Irregular, Segment
from chainrule.program.loops.steady import CHANGING, changes_nothing, of_loop, unsteady


class Plan:
    """What the rounds of one run of a loop are: their ways, and where the values in them may come from."""

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
