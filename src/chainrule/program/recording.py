"""A recording: the writing of a program while the function runs.

The values of the run are Tracers, which find their `Recording` by its level, and hand it each call, and each question
that Python asks. It writes down equations and guards, takes in arrays from outside, and notes for the loops where the
run, and the tape that goes back over it, was at each equation.
"""

import bisect
import threading
from typing import Any

import numpy as np

from chainrule.engine import batched, tape
from chainrule.engine.boxed import Boxed
from chainrule.engine.buffer import Buffer
from chainrule.engine.cotangent import LAZY, Masked
from chainrule.engine.held import frozen_param
from chainrule.engine.leaves import is_ours
from chainrule.engine.rule import RULES
from chainrule.errors import ConversionError
from chainrule.program.ir import FINITE, PYTHON, Equation, Guard, Place, Program, Symbol, applied
from chainrule.program.loops.marks import ROUNDS, symbols_of
from chainrule.program.places import user_place
from chainrule.program.texts import ways
from chainrule.program.tracing import ONE, Tracer, is_value, number_slice

_new = object.__new__
LARGE = 1 << 16  # bytes


class Recording:
    """The writing of one program. A Tracer finds it by its level.

    `asks` says what a question for a value does: ``guard`` writes it down, ``raise`` refuses numbers as any traced
    value does and takes branches as they are. `through` tells whether calls with a rule of their own (custom_vjp and
    the like) are recorded as the calls that they make. `borrow` takes arrays from outside by reference, if the
    run leaves them as they are.
    """

    def __init__(self, level, *, asks="raise", through=False, values=False, borrow=False, careful=False):
        self.level, self.asks, self.through, self.values, self.borrow = level, asks, through, values, borrow
        self.masks = tape.ALL if careful else None  # which cotangents carry masks
        self.program = Program()
        self.captured = {}  # id of an array from outside -> (that array, its symbol)
        self.copies = {}  # id of what the tape keeps of such an array -> (that, the array): see `engine.held`
        self.serials = []  # where the tape's clock stood at each equation
        self.thread = threading.get_ident()
        self.cotangents = {}  # symbol of a cotangent -> symbol of its primal
        self.primal = None  # spot of the primal call that the backward pass is at
        self.asked, self.strange = set(), False  # what is asked to be finite, and whether some of it was not
        self.spots = []  # where in the user's code each equation stands
        self.origin = self.bars = None  # of the pass that is running: the number of the primal equation it is at
        self.origins = [(0, None, None)]  # (equation from which on it was so, the origin, the number of the pass)
        self.passes = self.crossings = 0  # how many there were, and how many marks stand before the origin
        self.listener = None  # who listens to the user's code
        self.loops = []  # a marks.Marked for each run of a loop
        self.positions, self.runs = [], []  # of all marks, growing; and which run of a loop each belongs to
        self.codes = {}  # the user's code that ran
        self.frames = {}  # and the globals that it ran with
        self.shown, self.ways = False, ways()  # whether a value has become text, and where output goes
        self.crossed = {}  # (number of a pass, position of a mark) -> the cotangents at hand there

    # -- writing ---------------------------------------------------------------------------------------------

    def equation(self, rule, inputs, params, y, constant):
        """Write down a call that gave `y`; return its outputs as Tracers."""
        if y.__class__ in ONE:  # the usual result: one array or number
            return self.plain_equation(batched.Plain(rule.fun) if constant else rule, inputs, params, y)
        spot = self.primal or user_place()
        several = y.__class__ is tuple or y.__class__ is list or isinstance(y, tuple)
        made = [self.program.symbol(v) if is_value(v) else None for v in (y if several else (y,))]
        if spot.place is not None and not several and made[0] is not None:
            made[0].hint = spot.place.name
        self.program.equations.append(
            Equation(
                batched.Plain(rule.fun) if constant else rule,
                inputs,
                params,
                tuple(made) if several else made[0],
                y if self.values else None,
                spot.place,
            )
        )
        self.note(spot)
        if not several:
            return Tracer(y, made[0], self.level)
        parts = [v if s is None else Tracer(v, s, self.level) for v, s in zip(y, made, strict=True)]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)

    def plain_equation(self, rule, inputs, params, y):
        """Write down a call that gave one array or number."""
        program = self.program
        program.count = count = program.count + 1
        spot = self.primal or user_place()
        place = spot.place
        hint = None if place is None else place.name
        kind = y.__class__
        symbol = Symbol(f"v{count}", (), kind, hint) if kind in PYTHON else Symbol(f"v{count}", y.shape, y.dtype, hint)
        program.equations.append(Equation(rule, inputs, params, symbol, y if self.values else None, place))
        self.serials.append(tape.tick())
        self.spots.append(spot)
        box = _new(Tracer)
        box.data, box.aux, box.level = y, symbol, self.level
        return box

    def guard(self, symbol, how, seen):
        """Write down that Python asked for a value."""
        spot = self.primal or user_place()
        self.program.equations.append(Guard(symbol, how, seen, spot.place))
        self.note(spot)

    def note(self, spot):
        """Take note of when an equation was written, and where."""
        self.serials.append(tape.tick())
        self.spots.append(spot)

    def made_by(self, k):
        """Return the symbol that equation `k` makes, or asks for; the first of several."""
        e = self.program.equations[k]
        if e.__class__ is Guard:
            return e.symbol
        return e.output[0] if e.output.__class__ is tuple else e.output

    def marked(self, position, run):
        """Take note of a mark that a run of a loop made."""
        i = bisect.bisect_right(self.positions, position)
        self.positions.insert(i, position)
        self.runs.insert(i, run)

    def goes_on(self):
        """Take note of where the backward pass is: the equations from here on are of there."""
        self.origins.append((len(self.serials), self.origin, None if self.origin is None else self.passes))

    def stretches(self):
        """Return the stretches of equations that belong to one primal equation, by the number of that.

        Each is (primal equation, number of the pass, start, stop).
        """
        stops = [start for start, _, _ in self.origins[1:]] + [len(self.serials)]
        pairs = zip(self.origins, stops, strict=True)
        return sorted([(o, turn, start, stop) for (start, o, turn), stop in pairs if o is not None and start < stop])

    def primal_of(self, i):
        """Return the number of the equation that equation `i` of a backward pass belongs to."""
        k = bisect.bisect_right(self.origins, i, key=lambda entry: entry[0])
        return self.origins[k - 1][1]

    def gone_through(self, rule, operands):
        """Run the function of a call with a rule of its own on Tracers; None if it asks for plain values.

        What has been written down until then is taken back.
        """
        count = len(self.serials)
        try:
            y = rule.whole(operands)
            if not any(e.__class__ is Guard and e.how == "value" for e in self.program.equations[count:]):
                return y
        except Exception:  # of any kind: compiled code has errors of its own; those of the function come up again
            pass
        for written in (self.program.equations, self.serials, self.spots):
            del written[count:]
        while self.origins[-1][0] > count:
            self.origins.pop()
        self.goes_on()
        return None

    def operand(self, x: Any) -> Any:
        """Return how an operand stands in an equation: a number as it is, an array from outside as a symbol.

        Such an array is copied, since the run may still write to it. One that has not changed keeps its symbol.
        """
        kind = x.__class__
        if kind is Tracer:
            if x.level == self.level and x.aux is not None:
                return x.aux
            x = x.data
        elif kind is Buffer:
            x = x.data
        elif kind is tuple or kind is list:
            return kind([self.operand(v) for v in x])
        if isinstance(x, Boxed) and self.asks == "guard":
            raise ConversionError("the recording of a program")
        if not isinstance(x, np.ndarray) or not x.shape:
            return x[()] if isinstance(x, np.ndarray) else x
        while id(x) in self.copies and same(x, self.copies[id(x)][1]):
            x = self.copies[id(x)][1]
        array, known = self.captured.get(id(x), (None, None))
        if known is not None and same(self.program.constants[known], array):
            return known
        made = Symbol(f"c{len(self.program.constants) + 1}", x.shape, x.dtype)
        self.program.constants[made] = x.copy(order="K")
        self.captured[id(x)] = x, made  # holding the array keeps its id its own
        return made

    def parameter(self, x: Any) -> Any:
        """Return a parameter as it stands in an equation: what is traced as its symbol, arrays as copies."""
        kind = x.__class__
        if kind is Tracer:
            return self.operand(x)
        if kind is tuple or kind is list:
            return kind([self.parameter(v) for v in x])
        return number_slice(x) if kind is slice else frozen_param(x)

    # -- the backward pass, as the tape tells it --------------------------------------------------------------

    def seed(self, ybar):
        """Return the cotangent that a pass begins with as a value of the program, if that is to run again.

        All that follows from it is then recorded, too: in a loop it depends on the number of rounds.
        """
        if self.asks == "raise" or isinstance(ybar, Boxed):
            return ybar
        if ybar.__class__ is Masked:  # a checkpoint hands it on to a pass of its own
            return Masked(self.seed(ybar.value), ybar.mask)
        rule = RULES[np.positive]
        return self.equation(rule, (self.operand(ybar),), {}, applied(rule, (ybar,), {}), False)

    def differentiated(self, outputs):
        """Write down that what is differentiated is finite: else a finite gradient may have come of an overflow."""
        if self.asks == "raise":
            return
        for y in outputs:
            while isinstance(y, Boxed) and y.__class__ is not Tracer:
                y = y.data
            if y.__class__ is not Tracer or y.level != self.level or y.shape or y.dtype.kind not in "fc":
                continue
            if y.aux is not None and y.aux not in self.asked:
                self.asked.add(y.aux)
                answer = Tracer.run_constant(np.isfinite, (y,), {}, self.level)
                spot = user_place()
                place = (spot.place or Place("", 0, ""))._replace(name=FINITE)
                self.program.equations.append(Guard(answer.aux, "bool", True, place))
                self.note(spot)
                self.strange |= not answer.data

    def begin(self, bars):
        """Take note that a pass begins; `bars` will hold its cotangents."""
        self.passes += 1
        self.bars = bars
        self.origin = len(self.serials)
        self.crossings = len(self.positions)
        self.goes_on()

    def visit(self, node, ybar):
        """Take note that the tape pulls back through `node`, whose result has the cotangent `ybar`."""
        rule = node.rule
        if self.listener is not None:
            self.listener.hear(rule is not None and not is_ours(rule))
        k = bisect.bisect_left(self.serials, node.serial) - 1
        if k < 0 or rule is None:
            self.primal = None
            self.cross(-1, node, ybar)
            return
        self.cross(k, node, ybar)
        self.primal = self.spots[k].pulled
        while isinstance(ybar, Boxed):
            if ybar.__class__ is Tracer and ybar.level == self.level and ybar.aux is not None:
                if ybar.aux not in self.cotangents:
                    self.cotangents[ybar.aux] = self.made_by(k)
                break
            ybar = ybar.data

    def cross(self, k, node, ybar):
        """Go back to equation `k`: note the cotangents at hand at each mark on the way."""
        if self.origin is None or k >= self.origin:
            return
        first = bisect.bisect_right(self.positions, k)
        if first < self.crossings and self.bars is not None:
            found = None
            for i in range(first, self.crossings):
                if len(self.runs[i].marks) >= ROUNDS:
                    found = found or self.cotangents_at_hand(node, ybar)
                    self.crossed[self.passes, self.positions[i]] = found
        self.origin, self.crossings = k, first
        self.goes_on()

    def cotangents_at_hand(self, node, ybar):
        """Return the symbols of the cotangents that the pass holds, by the primal symbol (or the input's node)."""
        found = {}
        for n, bar in [*self.bars.items(), (node, ybar)]:
            k = bisect.bisect_left(self.serials, n.serial) - 1
            primal = n if n.rule is None or k < 0 else self.made_by(k)
            for way, s in lazily(bar, self):
                found[(primal, *way)] = s
        return found

    def leave(self):
        """Take note that the backward pass is over."""
        self.primal = self.origin = self.bars = None
        self.goes_on()
        if self.listener is not None:
            self.listener.hear(True)

    def finish(self):
        """Name the cotangents after their primals; give back the copies that a borrowing recording does without."""
        for bar, symbol in self.cotangents.items():
            if bar.hint is None and symbol is not None and symbol.hint is not None:
                bar.hint = f"d_{symbol.hint}"
        constants = self.program.constants
        self.program.fixed.update(constants)  # copies
        for array, symbol in self.captured.values() if self.borrow else ():
            if same(array, constants[symbol]):
                constants[symbol] = array
                self.program.fixed.discard(symbol)
        self.captured.clear()
        self.copies.clear()


def lazily(bar, recording):
    """Find the symbols in a cotangent: (way, symbol)."""
    if isinstance(bar, dict):
        for k, part in bar.items():
            for way, s in lazily(part, recording):
                yield (k, *way), s
    elif bar.__class__ in LAZY:
        for way, s in lazily(bar.value, recording):
            yield (bar.__class__.__name__, *way), s
    elif isinstance(bar, Boxed):
        for way, s in symbols_of(bar, recording):
            yield way, s


def same(a, b):
    """Tell whether two arrays hold the same bytes: -0.0 and NaN count as they are. Large ones are not copied for it."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.flags.f_contiguous and b.flags.f_contiguous:
        a, b = a.T, b.T
    if a.nbytes >= LARGE and a.flags.c_contiguous and b.flags.c_contiguous and not a.dtype.hasobject:
        words = np.int64 if a.nbytes % 8 == 0 else np.uint8
        return bool(np.array_equal(a.reshape(-1).view(words), b.reshape(-1).view(words)))
    return a.tobytes() == b.tobytes()
