"""A walk over the equations of a nest, from the results back.

From ``(y, position)`` the handler of y's equation asks for positions in its operands, of which `nests_positions` tells;
`nests_handlers` has the handlers. Where an entry comes from one operand or from another, depending on the index of a
loop, the loop is cut there: between two cuts the answer is one and the same.

There are two walks. `nests_plan` walks to find the cuts, and whether there is a way at all (`Unfit`); `nests_emit`
walks once more, and writes. Each says what an entry is (``value``), what is made of entries (``compute``, ``cast``,
``zero``, ``fold``, ``products``, ``masked``), what is read at integers (``index_value``, ``gather``, ``gather_flat``),
and what to do where a place lies in a slice for a part of the loop only (``undecided``).
"""

import numpy as np

from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Symbol
from chainrule.program.native.nests_handlers import FLAT, HANDLERS, elementwise, fold
from chainrule.program.native.nests_kinds import FOLDS, folded
from chainrule.program.native.nests_positions import At, Unfit, moved


class Walk:
    """A walk over equations. `makers`: symbol -> its equation, for those of the nest; others come from outside.

    `flat`: all arrays are taken as one row of entries. `ranges` has for each loop from where to where it goes now.
    """

    def __init__(self, makers: dict, flat: bool, ranges: list) -> None:
        self.makers, self.flat, self.ranges = makers, flat, ranges

    def shape(self, x) -> tuple:
        """Return the shape in which positions in an operand are given."""
        if x.__class__ is not Symbol:
            return np.shape(x) if x is not None else ()
        return (x.size,) if self.flat and x.shape else x.shape

    def visit(self, s, position):
        """Return the value of an entry of a symbol that an equation of the nest makes."""
        e = self.makers[s]
        fun = function_of(e)
        handler = HANDLERS.get(fun)
        if handler is None:
            handler = fold if fun in FOLDS and folded(e) is not None else elementwise
        elif self.flat and handler not in FLAT:
            raise Unfit("not in flat order")
        return handler(self, e, position)

    def operand(self, x, position):
        """Return the value of an operand: an entry of a symbol, or a number as it is."""
        if x.__class__ is Symbol:
            return self.value(x, position)
        if isinstance(x, np.ndarray):
            if x.size and (x == x.flat[0]).all():
                return self.plain(x.flat[0].item())
            raise Unfit("an array in the program")
        return self.plain(x)

    def where(self, entry, start, stop):
        """Tell whether a place lies in ``start:stop`` for all of the current range; None if for a part of it."""
        if entry.__class__ is not At:
            return start <= entry < stop
        low, high = self.ranges[entry.loop]
        if high <= low:
            return True
        ends = moved(low, entry.shift, entry.step), moved(high - 1, entry.shift, entry.step)
        first, last = min(ends), max(ends)
        if start <= first and last < stop:
            return True
        if last < start or first >= stop:
            return False
        return None

    def either(self, tests, yes, no):
        """Return ``yes()`` where all places lie in their slices, otherwise ``no()``. `tests`: (place, start, stop)."""
        answers = [self.where(*t) for t in tests]
        if False in answers:
            return no()
        if None not in answers:
            return yes()
        return self.undecided([t for t, a in zip(tests, answers, strict=True) if a is None], yes, no)
