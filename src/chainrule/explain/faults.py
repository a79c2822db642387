"""Faults of a run: the first value or derivative that is not finite, and the kinks that were hit exactly."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.engine.boxed import value
from chainrule.explain import notation
from chainrule.program.ir import Equation, Symbol, symbols_in


@dataclass(frozen=True)
class Fault:
    """The first NaN or infinity of a run. It prints as a sentence.

    `kind` is ``"input"``, ``"value"``, ``"tangent"`` or ``"cotangent"``; `step` the step that has it, called `name` by
    the user. `where` is the user's line that made it: of a cotangent that of the call through which it came, whose
    `expression` this is. `value` is what was found.
    """

    kind: str
    step: str
    name: str | None
    where: str | None
    line: int | None
    expression: str
    value: Any

    def __str__(self) -> str:
        what = f"{self.step} ({self.name})" if self.name else self.step
        at = f", {self.where}" if self.where else ""
        found = "NaN" if np.isnan(self.value).any() else "infinite"
        if self.kind == "input":
            return f"the input {what} is {found}"
        if self.kind == "cotangent":
            return f"the cotangent of {what} first became {found} in the backward pass of {self.expression}{at}"
        return f"the {self.kind} of {what} = {self.expression} first became {found}{at}"


def finite(x) -> bool:
    """Tell whether all entries of a value, or of several, are finite."""
    return all(finite(v) for v in x) if isinstance(x, tuple) else bool(np.isfinite(x).all())


def first_nonfinite(explanation) -> Fault | None:
    """Return the first value, tangent or cotangent that is not finite; None if there is none."""
    trace = explanation.run.trace
    for step in trace.steps:
        if not finite(step.value):
            return fault("input" if step.equation is None else "value", step, step, step.value)
    if explanation.forward is not None:
        for row, step in zip(explanation.forward.rows, trace.steps, strict=True):
            for tangent in row.tangents:
                if not finite(tangent):
                    return fault("tangent", step, step, tangent)
    by_name = {step.name: step for step in trace.steps}
    for table in explanation.reverse:
        for row, step in zip(table.rows, reversed(trace.steps), strict=True):
            if finite(row.adjoint):
                continue
            bad = [p for p in row.paths if not finite(p.contribution)] or row.paths
            return fault("cotangent", step, by_name[bad[0].step] if bad else step, row.adjoint)
    return None


def fault(kind, step, by, x):
    """Return the fault of `step` that came about in the call `by`."""
    name, _ = step.place
    e = by.equation
    place = None if e is None else e.place
    found = next(v for v in x if not finite(v)) if isinstance(x, tuple) else x
    return Fault(
        kind, step.name, step.expression if step.equation is None else name, None if place is None else str(place),
        None if place is None else place.line, by.expression, found,
    )  # fmt: skip


@dataclass(frozen=True)
class Kink:
    """A point without a derivative, or with a choice of it, that was hit exactly. It prints as a line.

    `step` is None for a call that has no derivative itself, such as a comparison.
    """

    step: str | None
    what: str
    where: str | None
    line: int | None
    expression: str

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.where, f"{self.expression} has {self.what}"]))


def kinks(explanation) -> list[Kink]:
    """Return the ties and kinks that the run hit exactly, in the order of the calls."""
    run = explanation.run
    found = []
    for step in run.trace.steps:
        e = step.equation
        if e is not None:
            what = kink_of(e.rule, run.trace.operands(e), step.value, e.params)
            if what:
                found.append(kink(step.name, what, e, step.expression))
    values = recorded_values(run.recorded)
    for e in run.recorded.equations:
        if e.__class__ is Equation and e.rule.kind == "constant" and moving(e, values):
            xs = tuple([values[x] if isinstance(x, Symbol) else value(x) for x in e.inputs])
            what = jump_of(e.rule, xs)
            if what:
                found.append(kink(None, what, e, described(e)))
    return sorted(found, key=lambda k: (k.line is None, k.line or 0)) if len(found) > 1 else found


def kink(step, what, e, expression):
    """Return a kink at the place of an equation."""
    place = e.place
    return Kink(step, what, None if place is None else str(place), None if place is None else place.line, expression)


def described(e):
    """Write a call by the user's names where there are some."""
    texts = [(x.hint or "…") if isinstance(x, Symbol) else notation.operand(x) for x in e.inputs]
    return f"{notation.tail(e.rule.name)}({', '.join(texts)})"


def recorded_values(program):
    """Return the plain value of each symbol of a program that was recorded with its values."""
    values = {s: value(c) for s, c in program.constants.items()}
    values.update(zip(program.inputs, [value(x) for x in program.points], strict=True))
    for e in program.equations:
        if e.__class__ is Equation:
            several = isinstance(e.output, tuple)
            for s, v in zip(e.output if several else (e.output,), e.value if several else (e.value,), strict=True):
                if s is not None:
                    values[s] = value(v)
    return values


def moving(e, values):
    """Tell whether a call reads a float that is no constant."""
    return any(np.asarray(values[s]).dtype.kind in "fc" for s in symbols_in(e.inputs))


AT_ZERO = {"numpy.absolute": "abs", "numpy.sqrt": "sqrt", "numpy.cbrt": "cbrt", "numpy.fabs": "fabs"}
AT_RESULT_ZERO = {"length": "norm", "deviation_of": "standard deviation"}
JUMPS = {"floor", "ceil", "trunc", "floor_divide", "fix"}
COMPARED = {"gt", "lt", "ge", "le", "greater", "less", "greater_equal", "less_equal", "eq", "ne", "equal", "not_equal"}


def kink_of(rule, xs, y, params):
    """Say what is not smooth in a call at its operands; None if nothing is."""
    name = notation.tail(rule.name)
    if rule.name in AT_ZERO:
        return counted(xs[0] == 0, f"a kink at 0 ({name})" if "abs" in name else f"an infinite slope at 0 ({name})")
    if name in AT_RESULT_ZERO:
        return counted(np.asarray(y) == 0, f"a kink at 0 ({AT_RESULT_ZERO[name]})")
    if name == "relu":
        return counted(np.asarray(xs[0]) == 0, "a kink at 0 (relu)")
    if name == "clip":
        return counted(
            np.logical_or.reduce([np.asarray(xs[0] == b) for b in xs[1:] if b is not None]), "a tie with a bound"
        )
    if rule.kind == "select":
        weights = rule.vjps[0](y, *xs, **params)
        shares = np.zeros(np.shape(y), bool)
        for w in weights:
            w = np.asarray(value(w))
            if w.dtype.kind == "f":
                shares = shares | ((w > 0) & (w < 1))
        return counted(shares, "a tie")
    if name in ("max", "min", "amax", "amin", "nanmax", "nanmin"):
        axis, keep = params.get("axis"), params.get("keepdims", False)
        spread = y if keep is True or axis is None else np.expand_dims(y, axis)
        ties = np.sum(np.asarray(xs[0]) == spread, axis=axis) > 1
        return counted(ties, "a tie")
    if name == "power" and np.size(xs[1]) and np.isrealobj(xs[0]):
        at = (np.asarray(xs[0]) == 0) & (np.asarray(xs[1]) < 1) & (np.asarray(xs[1]) != 0)
        return counted(at, "an infinite slope at 0 (power)")
    if name in ("arcsin", "arccos", "arctanh"):
        return counted(np.abs(xs[0]) == 1, f"an infinite slope at ±1 ({name})")
    if name == "arccosh":
        return counted(np.asarray(xs[0]) == 1, "an infinite slope at 1 (arccosh)")
    if name in ("hypot", "arctan2"):
        return counted((np.asarray(xs[0]) == 0) & (np.asarray(xs[1]) == 0), f"no derivative at (0, 0) ({name})")
    if name in ("remainder", "fmod"):
        return counted(np.asarray(y) == 0, f"a jump ({name})")
    if name in ("eigh", "eigvalsh", "svd", "svdvals"):
        return repeated_values(name, y)
    return None


def repeated_values(name, y):
    """Say whether eigenvalues or singular values are repeated exactly."""
    values = y if not isinstance(y, tuple) else y[1] if name == "svd" else y[0]
    values = np.sort(np.asarray(values), axis=-1)
    return counted(np.diff(values, axis=-1) == 0, "a repeated value, where vectors have no derivative")


def jump_of(rule, xs):
    """Say whether a call without derivative was met where its result jumps; None if not."""
    name = notation.tail(rule.name)
    xs = [np.asarray(x) for x in xs]
    with np.errstate(all="ignore"):
        if name == "sign":
            return counted(xs[0] == 0, "a jump at 0 (sign)")
        if name == "heaviside":
            return counted(xs[0] == 0, "a jump at 0 (heaviside)")
        if name in JUMPS:
            x = xs[0] / xs[1] if name == "floor_divide" else xs[0]
            return counted(x == np.round(x), f"a jump ({name} of a whole number)")
        if name in ("rint", "round"):
            return counted(np.abs(xs[0] - np.floor(xs[0])) == 0.5, f"a jump ({name} of a half)")
        if name in COMPARED and len(xs) == 2:
            return counted(xs[0] == xs[1], "equal sides: the branch or mask changes here")
    return None


def counted(mask, what):
    """Return `what` with the number of entries where it holds; None if there are none."""
    mask = np.asarray(mask)
    count = int(np.count_nonzero(mask))
    if not count:
        return None
    return what if not mask.shape else f"{what}, in {count} of {mask.size} entries"
