"""`why_zero`: where the paths of a gradient that is zero come to an end.

From the input on, each call that uses the value is looked at. A path ends at a call without derivative, at one that
hands nothing back here, and where a result is not used. It goes on at a call whose own gradient is zero: the reason is
then further on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.explain import notation
from chainrule.explain.arguments import taken
from chainrule.explain.faults import COMPARED, described
from chainrule.explain.table import Trace, dense
from chainrule.program.ir import Guard, Symbol
from chainrule.program.passes.smooth import smooth
from chainrule.program.record import record
from chainrule.transforms.common import need_function


@dataclass(frozen=True)
class End:
    """The end of a path: what ends it, in which call, and on which of the user's lines."""

    reason: str
    expression: str
    where: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return ": ".join(
            filter(None, [self.where, f"{self.expression}: {self.reason}" if self.expression else self.reason])
        )


@dataclass(frozen=True)
class Why:
    """The answer for one input: how many of its gradient's entries are zero, and the ends of its paths."""

    name: str
    zeros: int
    size: int
    ends: tuple

    @property
    def is_zero(self) -> bool:
        """Whether all of the gradient is zero."""
        return self.zeros == self.size

    def __str__(self) -> str:
        if not self.zeros:
            return f"the gradient in {self.name} is not zero"
        part = "is zero" if self.is_zero else f"is zero in {self.zeros} of {self.size} entries"
        return "\n".join([f"the gradient in {self.name} {part}:", *[f"  {e}" for e in self.ends]])


class Answers(tuple):
    """The answers for all inputs, in order. They print as text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def why_zero(f: Callable, *args: Any) -> Answers:
    """Tell why the gradient of `f` is zero: where the paths from each input to the result end.

    Parameters
    ----------
    f : callable
        Takes floats, arrays, or containers of these. Of results with several entries the sum is looked at.
    *args
        Where to evaluate.

    Returns
    -------
    Answers
        A tuple with a `Why` for each input (each leaf of a container), which has ``is_zero`` and ``ends``. It prints
        as text: at which of the user's lines a constant function, an integer, ``stop_gradient``, a comparison, an
        inactive branch or a factor of zero ends the path.

    Notes
    -----
    Takes one run and one backward pass. Where some entries of an array have a gradient of zero and others have not, the
    calls are listed that hand back zeros to a part of their operands.

    Examples
    --------
    >>> import numpy as np
    >>> import chainrule as cr
    >>> def f(x):
    ...     steps = np.floor(x)
    ...     return steps * 2
    >>> print(cr.why_zero(f, 1.5))  # doctest: +ELLIPSIS
    the gradient in x is zero:
      ...:2 in f: floor(x): floor has no derivative, or zero
    """
    need_function(f, "why_zero(f, x)")
    renamed: dict = {}
    found, recorded = taken(f, args, record(f, values=True))
    trace = Trace(smooth(recorded, renamed), list(found.labels))
    bars, parts = total(trace)
    answers = []
    for symbol, label in zip(recorded.inputs, found.labels, strict=True):
        gradient = bars.get(symbol)
        size = symbol.size
        zeros = size if gradient is None else int(np.count_nonzero(np.asarray(gradient) == 0))
        reached = ends(recorded, symbol, renamed, bars, parts, whole=zeros == size) if zeros else ()
        answers.append(Why(label, zeros, size, tuple(dict.fromkeys(reached))))
    return Answers(answers)


def total(trace):
    """Return the adjoints of all symbols, and what each call handed back to each, of the sum of all results."""
    bars, parts = {}, {}
    for y in dict.fromkeys(y for y in trace.program.outputs if isinstance(y, Symbol)):
        found, paths = trace.adjoints(y, None)
        for s, bar in found.items():
            bars[s] = bars[s] + dense(bar) if s in bars else dense(bar)
        for s, by in paths.items():
            for step, path in by.items():
                key = s, step
                parts[key] = parts[key] + path.contribution if key in parts else path.contribution
    return bars, parts


def ends(program, source, renamed, bars, parts, whole):
    """Find the ends of the paths from `source` on."""
    alive, used, found = {source}, set(), []
    makers = {}
    for e in program.equations:
        mine = [s for s in e.reads if s in alive]
        if not mine:
            continue
        used.update(mine)
        if e.__class__ is Guard:
            continue  # the comparison before it has been noted
        outputs = e.outputs
        makers.update(dict.fromkeys(outputs, e))
        if e.rule.kind == "constant":
            found.append(end(constant_reason(e), e))
            continue
        ybars = [bars[renamed[s]] for s in outputs if s in renamed and renamed[s] in bars]
        if not any(np.any(b) for b in ybars):
            alive.update(outputs)  # nothing arrives here: the reason is further on
            continue
        step = ", ".join(renamed[s].name if s in renamed else "_" for s in all_outputs(e))
        going = False
        for s in mine:
            part = parts.get((renamed.get(s), step))
            zero = part is None or not np.any(part)
            if zero or (not whole and np.any(np.asarray(part) == 0)):
                found.append(end(zero_reason(e, zero), e))
            going = going or not zero
        if going:
            alive.update(outputs)
    for s in alive - used:
        if s is source:
            found.append(End("it is not used", ""))
        elif s not in program.outputs:
            found.append(end("the result is not used", makers[s]))
    if not found:
        found.append(End("the contributions of its paths cancel", ""))
    return found


def all_outputs(e):
    """Return the outputs of a call, None for those that are not used."""
    return e.output if isinstance(e.output, tuple) else (e.output,)


def end(reason, e):
    """Return the end of a path in a call."""
    place = e.place
    return End(reason, described(e), None if place is None else str(place), None if place is None else place.line)


def constant_reason(e):
    """Say why a call has no derivative."""
    name = notation.tail(e.rule.name)
    if name == "positive":
        return "stop_gradient, or value: a constant for derivatives"
    if name in COMPARED or name.startswith("logical"):
        return "a comparison: it only decides a branch or a mask"
    if name == "astype" or name.startswith(("int", "uint", "bool")):
        return "a cast to integers or bools"
    if name.startswith("arg") or name in ("nonzero", "searchsorted"):
        return "an index has no derivative"
    return f"{name} has no derivative, or zero"


def zero_reason(e, whole):
    """Say why a call that has a derivative hands back zero."""
    name = notation.tail(e.rule.name)
    part = "" if whole else ", in some entries"
    if name == "where":
        return "an inactive branch: where took the other values" + part
    if name == "relu":
        return "relu is inactive: its operand is not positive" + part
    if name == "clip":
        return "outside the bounds of clip" + part
    if e.rule.kind == "select" or name in ("max", "min", "amax", "amin", "nanmax", "nanmin"):
        return f"another operand or entry was taken by {name}" + part
    if name in ("multiply", "matmul", "dot"):
        return "the other factor is zero" + part
    if name in ("add", "subtract"):
        return "the contributions of its operands cancel" + part
    if name == "getitem":
        return "entries that are not read" if not whole else "no entry with a gradient is read"
    return "its derivative is zero here" + part
