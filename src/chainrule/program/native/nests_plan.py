"""The first walk over a nest: whether there is one, where its loops are cut, and how long its body is.

`Plan` writes nothing. `nests_clusters` plans clusters as they grow; `nests` plans a whole one, before `nests_emit`
writes it: the cuts, and for long bodies the order of the entries, are what the second walk is given.
"""

import itertools
import math

import numpy as np

from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Symbol
from chainrule.program.native.maps import MATHEMATICS
from chainrule.program.native.nests_positions import MOST_SEGMENTS, At, Unfit, cuts_of, moved
from chainrule.program.native.nests_walk import Walk

MOST_VALUES = 2000  # values that the body of a nest may have
APART = 16  # lines of code that load a vector of entries which are no neighbours, about


class Need(Exception):
    """An entry must be planned before the one at hand."""


class Plan(Walk):
    """Finds out whether a nest is possible, and where its loops are cut.

    Attributes
    ----------
    cuts : list of set
        For each loop, indices at which something else begins.
    outside : set
        Symbols that are read and not made here.
    count : int
        How many values the body has.
    lines, room : int
        How long the body is, about, and how long it may be.
    """

    def __init__(self, makers, flat, loops) -> None:
        super().__init__(makers, flat, [(0, n) for n in loops])
        self.cuts = [set() for _ in loops]
        self.known, self.outside, self.count, self.lines, self.room = set(), set(), 0, 0, math.inf
        self.shifts = {}
        self.waiting, self.order = [], []

    def value(self, s, position):
        """Note an entry; None stands for its value.

        Entries that it needs come first, from a list of what waits: chains are longer than Python's stack is deep.
        """
        key = s, position, tuple(self.ranges)
        if key in self.known:
            return
        if self.waiting:
            self.waiting.append(key)
            raise Need
        self.waiting.append(key)
        try:
            while self.waiting:
                self.look(self.waiting[-1])
        finally:
            self.waiting.clear()
            self.ranges[:] = key[2]

    def look(self, key):
        """Look at what waits last: it is done, or another entry waits after it."""
        s, position, ranges = key
        if s in self.makers:
            self.ranges[:] = ranges
            try:
                self.visit(s, position)
            except Need:
                return
        self.waiting.pop()
        self.note(s, position)
        self.known.add(key)
        self.order.append(key)

    def note(self, s, position):
        """Count an entry."""
        self.count += 1
        e = self.makers.get(s)
        self.lines += 1 if e is not None or self.is_row(s, position) else APART
        if self.count > MOST_VALUES or self.lines > self.room:
            raise Unfit("too long")
        if e is None:
            self.outside.add(s)
        elif function_of(e) in MATHEMATICS or function_of(e) is np.power:
            seen = self.shifts.setdefault(s, set())
            seen.add(tuple([p for p in position if p.__class__ is At]))
            if len(seen) > 1:
                raise Unfit("computed twice")

    def is_row(self, s, position) -> bool:
        """Tell whether a vector of entries is loaded at once: they are neighbours, or one and the same."""
        inner = len(self.ranges) - 1
        along = [k for k, p in enumerate(position) if p.__class__ is At and p.loop == inner]
        return not along or self.flat or all(n == 1 for n in s.shape[along[-1] + 1 :])

    def undecided(self, tests, yes, no):
        """Note the cuts, and both ways."""
        before = list(self.ranges)
        for entry, start, stop in tests:
            low, high = self.ranges[entry.loop]
            cuts = [cut for cut in cuts_of(entry, start, stop) if low < cut < high]
            self.cuts[entry.loop].update(cuts)
            if len(self.cuts[entry.loop]) >= 2 * MOST_SEGMENTS:
                raise Unfit("too many pieces")
            bounds = [low, *sorted(cuts), high]
            inside = [
                (a, b) for a, b in itertools.pairwise(bounds) if start <= moved(a, entry.shift, entry.step) < stop
            ]
            self.ranges[entry.loop] = (inside[0][0], inside[-1][1]) if inside else (low, low)
        yes()
        self.ranges[:] = before
        if len(tests) == 1:
            entry, start, stop = tests[0]
            low, high = self.ranges[entry.loop]
            bounds = [low, *sorted(c for c in cuts_of(entry, start, stop) if low < c < high), high]
            out = [(a, b) for a, b in itertools.pairwise(bounds)
                   if not start <= moved(a, entry.shift, entry.step) < stop]  # fmt: skip
            for part in out:
                self.ranges[entry.loop] = part
                no()
            self.ranges[:] = before
        else:
            no()

    def index_value(self, x, position):
        """Note an index."""
        if x.__class__ is Symbol:
            self.value(x, position)

    def gather(self, x, before, indices, after):
        """Note a read at integers."""
        self.outside.add(x)

    def gather_flat(self, x, where):
        """Note a read at flat positions."""
        self.outside.add(x)

    def nothing(self, *args):
        """Return no value."""

    plain = compute = cast = zero = fold = products = masked = nothing
