"""The Program: one run of a function, as a list of equations.

A name in a program is a `Symbol`; what no symbol stands for is a constant: Python numbers stay where they are used,
arrays that the function took from outside are symbols of their own (`Program.constants`). A program is a record of one
run: it holds for the shapes that were seen, and for the branches that were taken. Where Python asked for a value, a
`Guard` among the equations says what the answer was.

`interpret` runs a program equation by equation. It is the reference for whatever else runs one.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Place(NamedTuple):
    """A line of the user's: file, line, function, and the name that the value is then given (None if it gets none)."""

    file: str
    line: int
    function: str
    name: str | None = None

    def __str__(self):
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


FINITE = "finite?"  # stands for the name in the place of a guard that asks this


@dataclass(eq=False, slots=True)
class Symbol:
    """The name of one value in a `Program`: ``v3``, or ``c1`` for a captured array. Compared by identity.

    Attributes
    ----------
    name : str
        Unique in its program.
    shape, dtype
        Of the value. `dtype` is the Python type itself (float, int, ...) for a Python number, which is weak.
    hint : str or None
        The name that the user's code has for it; of a cotangent that of its primal, after ``d_``.
    """

    name: str
    shape: tuple = ()
    dtype: Any = None
    hint: str | None = None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind}>"

    @property
    def kind(self) -> str:
        """The dtype and shape as text: ``float64[2,3]``."""
        name = getattr(self.dtype, "__name__", None) or str(self.dtype)
        return f"{name}[{','.join(map(str, self.shape))}]" if self.shape else name

    @property
    def size(self) -> int:
        """Number of entries."""
        size = 1
        for n in self.shape:
            size *= n
        return size


@dataclass(eq=False, slots=True)
class Equation:
    """One recorded call: ``output = rule(*inputs, **params)``.

    An entry of `inputs` is a `Symbol`, a plain number, or a list of these; so is a value in `params`. `output` is a
    `Symbol`; of a call with several outputs a tuple, with None for an output that is not used as a value. `value` is
    what the call gave, or None if the values were not kept; `place` the user's line, or None.
    """

    rule: Any
    inputs: tuple
    params: dict
    output: Any
    value: Any = None
    place: Place | None = None

    @property
    def fun(self) -> Callable:
        """The function that is called."""
        return self.rule.fun

    @property
    def outputs(self) -> tuple:
        """The symbols that it makes."""
        made = self.output if isinstance(self.output, tuple) else (self.output,)
        return tuple([s for s in made if s is not None])

    @property
    def reads(self) -> list:
        """The symbols that it reads, in order, with repetitions."""
        return list(symbols_in((self.inputs, self.params)))


@dataclass(eq=False, slots=True)
class Guard:
    """A place where Python asked for a value: the program holds as long as the answer is `seen` again.

    `how` is what was asked: ``bool`` of a symbol, or ``value`` for the number or array itself.
    """

    symbol: Symbol
    how: str
    seen: Any
    place: Place | None = None

    @property
    def reads(self) -> list:
        """The symbol that it reads."""
        return [self.symbol]

    @property
    def finite(self) -> bool:
        """Whether it asks if a value is finite that a gradient is of: if not, care is needed, and no other way."""
        return self.place is not None and self.place.name == FINITE

    outputs = ()

    def holds(self, x: Any) -> bool:
        """Tell whether the answer is that of the recorded run."""
        if self.how == "bool":
            return bool(x) is self.seen
        a, b = np.asarray(x), np.asarray(self.seen)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def symbols_in(x: Any) -> Iterator[Symbol]:
    """Find the symbols in nested tuples, lists, dicts and slices."""
    kind = x.__class__
    if kind is Symbol:
        yield x
    elif kind is tuple or kind is list:
        for v in x:
            yield from symbols_in(v)
    elif kind is dict:
        for v in x.values():
            yield from symbols_in(v)


def replaced(x: Any, values: Any) -> Any:
    """Return nested tuples, lists and dicts with ``values[symbol]`` in place of each symbol."""
    kind = x.__class__
    if kind is Symbol:
        return values[x]
    if kind is tuple or kind is list:
        return kind([replaced(v, values) for v in x])
    if kind is dict:
        return {k: replaced(v, values) for k, v in x.items()}
    return x


@dataclass(eq=False, slots=True)
class Program:
    """One run of a function, as a list of equations.

    Attributes
    ----------
    inputs : list of Symbol
        One for each number or array among the arguments that the program is a function of, in their order.
    equations : list of Equation or Guard
        The calls, in the order in which they ran, and the guards between them.
    outputs : list
        A `Symbol`, or a plain value that depends on no input, for each output.
    constants : dict
        The arrays that the function took from outside: Symbol -> array.
    points : list
        The values of the inputs; empty unless values were asked for.
    structure
        The container of the outputs, for `chainrule.tree`.
    fixed : set
        The constants whose values are known to stay as they are: copies that the recording made. Others are arrays of
        the user's, who may write to them between two runs.
    """

    inputs: list = field(default_factory=list)
    equations: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    points: list = field(default_factory=list)
    structure: Any = None
    name: str = "f"
    count: int = 0
    fixed: set = field(default_factory=set)

    def symbol(self, like: Any = None, hint: str | None = None) -> Symbol:
        """Return the next symbol, ``v1``, ``v2``, ..., for values like `like`."""
        self.count += 1
        shape, dtype = form(like)
        return Symbol(f"v{self.count}", shape, dtype, hint)

    @property
    def guards(self) -> list:
        """The guards among the equations that ask which way Python goes."""
        return [e for e in self.equations if e.__class__ is Guard and not e.finite]

    def like(self, equations: list, outputs: list | None = None) -> "Program":
        """Return a program with other equations, and with the constants that these read."""
        outputs = self.outputs if outputs is None else outputs
        read = {s for e in equations for s in e.reads} | {s for s in outputs if s.__class__ is Symbol}
        constants = {s: c for s, c in self.constants.items() if s in read}
        return Program(
            self.inputs, equations, outputs, constants, self.points, self.structure, self.name, self.count,
            self.fixed & constants.keys(),
        )  # fmt: skip

    def __str__(self) -> str:
        return listing(self)


def form(x: Any) -> tuple:
    """Return (shape, dtype) of a value; the Python type stands for the dtype of a Python number."""
    kind = x.__class__
    if kind in (float, int, bool, complex) or x is None:
        return (), kind
    return x.shape, x.dtype


def listing(program: Program) -> str:
    """Return a program as text: a line for each equation, with the user's name and line at its end."""
    head = ", ".join(f"{named(s)}: {s.kind}" for s in program.inputs)
    lines = [f"{program.name}({head}):"]
    rows = [(f"{s}: {s.kind} = captured", s.hint or "") for s in program.constants]
    for e in program.equations:
        if e.__class__ is Guard:
            asked = f"{e.how}({e.symbol})"
            rows.append((f"guard {asked} is {text(e.seen)}", str(e.place or "")))
            continue
        if e.__class__ is not Equation:
            rows += [(line, "") for line in e.lines()]
            continue
        names = ", ".join("_" if s is None else f"{s}: {s.kind}" for s in
                          (e.output if isinstance(e.output, tuple) else (e.output,)))  # fmt: skip
        args = [text(x) for x in e.inputs] + [f"{k}={text(v)}" for k, v in e.params.items()]
        note = [s.hint for s in e.outputs if s.hint] + ([str(e.place)] if e.place else [])
        rows.append((f"{names} = {e.rule.name}({', '.join(args)})", "  ".join(note)))
    width = min(max([len(r) for r, _ in rows], default=0), 76)
    lines += [f"  {r:{width}}  # {note}" if note else f"  {r}" for r, note in rows]
    lines.append(f"  return {', '.join(map(text, program.outputs))}")
    return "\n".join(lines)


def named(symbol: Symbol) -> str:
    """Return a symbol with the user's name for it."""
    return f"{symbol} {symbol.hint}" if symbol.hint else symbol.name


def text(x: Any) -> str:
    """Return an operand as short text."""
    if x.__class__ is np.ndarray:
        return f"<array {x.dtype}{list(x.shape)}>" if x.size > 4 else repr(x.tolist())
    if x.__class__ is tuple or x.__class__ is list:
        inner = ", ".join(map(text, x))
        return f"[{inner}]" if x.__class__ is list else f"({inner}{',' * (len(x) == 1)})"
    if x.__class__ is slice:
        return ":".join("" if v is None else str(v) for v in ((x.start, x.stop) if x.step is None else
                                                              (x.start, x.stop, x.step)))  # fmt: skip
    return str(x) if x.__class__ is Symbol else "..." if x is Ellipsis else repr(x)


class GuardFailed(Exception):
    """A guard of a program does not hold for the values at hand: the recorded run took another way."""

    def __init__(self, guard):
        super().__init__(f"guard on {guard.symbol} does not hold")
        self.guard = guard


def interpret(program: Program, points: list, run: Callable | None = None) -> list:
    """Run a program at other points, equation by equation; return its outputs.

    ``run(equations, values)`` runs the equations instead of `run_equations`, if given.

    Raises
    ------
    GuardFailed
        If Python would have gone another way at these points.
    """
    values = dict(program.constants)
    values.update(zip(program.inputs, points, strict=True))
    (run or run_equations)(program.equations, values)
    return [values[y] if y.__class__ is Symbol else y for y in program.outputs]


def run_equations(equations: list, values: dict) -> None:
    """Run equations on the values of the symbols that they read, and put those of their outputs there, too."""
    for e in equations:
        if e.__class__ is Guard:
            if not e.holds(values[e.symbol]):
                raise GuardFailed(e)
            continue
        if e.__class__ is not Equation:  # a loop
            e.run(values, run_equations)
            continue
        xs = tuple([values[x] if x.__class__ is Symbol else replaced(x, values) for x in e.inputs])
        y = applied(e.rule, xs, replaced(e.params, values) if e.params else {})
        if isinstance(e.output, tuple):
            for s, v in zip(e.output, y, strict=True):
                if s is not None:
                    values[s] = v
        else:
            values[e.output] = y


# On Python numbers an operator gives a Python number, which is weak (float32 beside it stays float32); the function of
# the same meaning gives np.float64. Operators on traced values arrive as functions.
PYTHON = frozenset({bool, int, float, complex})
OPERATORS: dict[Any, Callable] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.power: operator.pow, np.negative: operator.neg, np.positive: operator.pos, np.absolute: abs,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod,
}  # fmt: skip


def applied(rule: Any, xs: tuple, params: dict) -> Any:
    """Run a call on its plain operands; Python numbers stay Python numbers under arithmetic."""
    if xs and xs[0].__class__ in PYTHON:
        plain = OPERATORS.get(rule.fun)
        if plain is not None and (len(xs) == 1 or xs[1].__class__ in PYTHON):
            return plain(*xs)
    return rule.apply(xs, params)


class ProgramError(AssertionError):
    """A program breaks a rule of its own: a fault of what made it."""


def verify(program: Program) -> Program:
    """Return the program, after a check that it is one: each name is made once, and before it is read.

    Raises
    ------
    ProgramError
        With the equation at fault.
    """
    known = set(program.inputs) | set(program.constants)
    if len(known) != len(program.inputs) + len(program.constants):
        raise ProgramError("an input stands twice")
    names = {s.name for s in known}
    if len(names) != len(known):
        raise ProgramError("two inputs or constants have one name")
    for e in program.equations:
        for s in e.reads:
            if s not in known:
                raise ProgramError(f"{s} is read before it is made, in: {describe(e)}")
        for s in e.outputs:
            if s in known or s.name in names:
                raise ProgramError(f"{s} is made twice, in: {describe(e)}")
            known.add(s)
            names.add(s.name)
    for y in program.outputs:
        if y.__class__ is Symbol and y not in known:
            raise ProgramError(f"{y} is returned, but never made")
    for s, c in program.constants.items():
        if form(c) != (s.shape, s.dtype):
            raise ProgramError(f"the captured array {s} is not {s.kind}")
    return program


def describe(e: Any) -> str:
    """Return an equation as a line of text."""
    return listing(Program(equations=[e])).split("\n")[1].strip()
