"""`flat`: a function, or a derivative, written as a module of plain NumPy."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import tape
from chainrule.engine.boxed import inexact
from chainrule.errors import SourceError, message
from chainrule.program.emit.helpers import head, helpers_in
from chainrule.program.emit.listing import Listing, Names
from chainrule.program.emit.text import array, is_name, literal
from chainrule.program.ir import PYTHON, Place, Program, Symbol
from chainrule.program.passes import optimise
from chainrule.program.passes.dead import dead
from chainrule.program.places import Spot
from chainrule.program.record import run_recorded
from chainrule.program.recording import Recording
from chainrule.transforms.common import need_function

WRITTEN = 1000  # a captured array of at most so many numbers stands in the source


class Pulled(Place):
    """A line of the user's through which a backward pass goes."""


class Noting(Recording):
    """A recording that tells the calls of backward passes apart."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.masks = tape.READS  # a branch of np.where that is not taken, an entry that is not read: exact zeros

    def visit(self, node: Any, ybar: Any) -> None:
        """Mark the place."""
        super().visit(node, ybar)
        if self.primal is not None:
            self.primal = Spot(Pulled(*self.primal.place))


class Source:
    """A function of plain NumPy, as source. It prints as such.

    Attributes
    ----------
    source : str
        A module: imports, what the function needs, the function.
    name : str
        That of the function in it.
    arrays : dict
        Captured arrays of more than 1,000 numbers, which are keyword arguments of the function: name -> array.
    """

    def __init__(self, source: str, name: str, program: Program, arguments: tuple, arrays: dict):
        self.source, self.name, self.arrays = source, name, arrays
        self._program, self._arguments = program, arguments
        self._function: Callable | None = None

    def save(self, path: Any) -> None:
        """Write the source to a file."""
        Path(path).write_text(self.source, encoding="utf-8")

    @property
    def function(self) -> Callable:
        """The function, compiled from the source: it takes and returns what the function written does."""
        if self._function is None:
            scope: dict[str, Any] = {}
            exec(compile(self.source, f"<flat {self.name}>", "exec"), scope)
            self._function = called_as(scope[self.name], self._program, self._arguments, self.arrays)
        return self._function

    def __str__(self) -> str:
        return self.source.rstrip("\n")

    __repr__ = __str__


def flat(f: Callable) -> Callable:
    """Return a function that runs `f` once and gives what it did as a module of plain NumPy.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, numbers, or containers of them. It may be the result of a transform: of ``grad(f)``
        the source holds the forward and the backward pass.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a `Source`: its `source` is text, its `function` runs it, its `save`
        writes it to a file, which needs NumPy (and SciPy, if `f` uses that) and nothing else.

    Raises
    ------
    SourceError
        If `f` calls a function that can't be written by name, such as one with a derivative rule of your own.
    NotDifferentiableError
        If `f` returns something that is no number, array, or container of these.

    Notes
    -----
    The source is of one run: it holds for arguments of the same shapes and dtypes, for which Python takes the same
    branches; both are tested in it, and a `ValueError` is raised if they differ. Loops are unrolled. Arguments other
    than floats and arrays of floats are constants, and no parameters of the function in the source.

    Examples
    --------
    >>> import chainrule as cr, numpy as np
    >>> def f(x):
    ...     y = np.sin(x)
    ...     return y * x
    >>> source = cr.flat(cr.grad(f))(2.0)
    >>> bool(source.function(0.5) == cr.grad(f)(0.5))
    True
    """
    need_function(f, "flat(f)(x)")

    def written(*args: Any, **kwargs: Any) -> Source:
        frame = sys._getframe(1)
        caller = frame.f_code.co_filename, frame.f_lineno
        recording = run_recorded(f, args, kwargs, kind=Noting, through=True)
        program = dead(optimise(recording.program))
        taken: set[str] = set()
        while True:
            try:
                source, names, arrays = module_of(program, recording.cotangents, f, args, kwargs, taken, caller)
            except NotImplementedError as error:
                raise SourceError(message(
                    f"flat can't write {program.name} as NumPy source: {error}",
                    "write it with NumPy's functions; or use  chainrule.compile.",
                )) from error  # fmt: skip
            clash = names & set(helpers_in(source))
            if not clash:
                return Source(source, program.name, program, (args, kwargs), arrays)
            taken |= clash

    return written


def module_of(
    program: Program, cotangents: dict, f: Callable, args: tuple, kwargs: dict, taken: set, caller: tuple
) -> tuple:
    """Write the module; return it with the names of the variables in it, and the large captured arrays."""
    names = Names({*taken, program.name})
    inputs = [names.give(s, s.hint or s.name) for s in program.inputs]
    for s, given in captured_names(f, program).items():
        s.hint = given
    bars = dict(gradient_of(f, args, kwargs, program))
    listing = Listing(program, names, {**cotangents, **bars}, lambda e: e.place.__class__ is Pulled, caller)
    returned = returned_text(program, listing)
    large = {listing.arrays[s]: c for s, c in program.constants.items() if s in listing.arrays and c.size > WRITTEN}
    small = [f"{listing.arrays[s]} = {array(c)}" for s, c in program.constants.items()
             if s in listing.arrays and c.size <= WRITTEN]  # fmt: skip
    parameters = ", ".join([*inputs, *(["*", *large] if large else [])])
    lines = [*shape_test(program, inputs), *listing.text()]
    if lines and lines[0] == "":
        lines = lines[1:]
    if any(line.startswith("# backward") for line in lines):
        lines.append("")
    function = [f"def {program.name}({parameters}):", f'    """{about(program, inputs)}"""']
    function += [f"    {line}" if line else "" for line in [*lines, f"return {returned}"]]
    source = "\n".join(function) + "\n"
    constants = "".join(f"{line}\n" for line in small)
    begin = head(constants + source)
    derived = " and its derivatives" if any(r[1] for r in listing.rows) else ""
    title = f'"""{program.name}{derived}, written as plain NumPy by chainrule.flat."""\n\n'
    return title + begin + (f"\n{constants}" if constants else "") + f"\n\n{source}", set(names.of.values()), large


def about(program, inputs):
    """Return the first line of the function's docstring: what its arguments are."""
    kinds = [f"{n} {s.kind}" for n, s in zip(inputs, program.inputs, strict=True)]
    text = f"Written for {', '.join(kinds)}." if kinds else "Written for no arguments."
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > 100:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n    ".join([*lines, line]) + ("\n    " if lines else "")


def shape_test(program, inputs):
    """Return the lines that test the shapes of the arguments."""
    arrays = [(n, s) for n, s in zip(inputs, program.inputs, strict=True) if s.shape]
    if not arrays:
        return []
    tests = [f"np.shape({n}) != {literal(s.shape)}" for n, s in arrays]
    refusal = '    raise ValueError("this was written for arrays of other shapes")'
    if sum(len(t) + 4 for t in tests) < 80:
        return [f"if {' or '.join(tests)}:", refusal]
    return ["if (", *[f"    {'or ' if k else ''}{t}" for k, t in enumerate(tests)], "):", refusal]


def returned_text(program, listing):
    """Return what the function returns: containers of tuples, lists and dicts as such, others as a tuple."""

    def text(y):
        if y.__class__ is Symbol:
            name = listing.name(y)
            lasting = y in program.inputs or (y in program.constants and y not in listing.pending)
            return Text(f"{name}.copy()" if y.shape and lasting else name)
        return Text(array(y) if isinstance(y, np.ndarray) and y.shape else literal(y[()] if hasattr(y, "shape") else y))

    outputs = program.outputs
    listing.finish([y for y in outputs if y.__class__ is Symbol])
    texts = [text(y) for y in outputs]
    try:
        whole = tree.unflatten(program.structure, texts)
        result = nested(whole)
    except TypeError:
        result = None
    if result is None:
        return ", ".join(t.text for t in texts) + "," * (len(texts) == 1)
    return result[1:-1] if whole.__class__ is tuple and len(whole) > 1 else result


class Text:
    """Source of one output, as a value that stands in a container."""

    def __init__(self, text):
        self.text = text


def nested(x):
    """Return tuples, lists and dicts as source; None if there are other containers."""
    if x.__class__ is Text:
        return x.text
    if x is None:
        return "None"
    if x.__class__ is dict and all(isinstance(k, str | int | float) for k in x):
        parts = [(literal(k), nested(v)) for k, v in x.items()]
        return None if any(v is None for _, v in parts) else "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if x.__class__ not in (tuple, list):
        return None
    parts = [nested(v) for v in x]
    if any(v is None for v in parts):
        return None
    inner = ", ".join(parts)
    return f"[{inner}]" if x.__class__ is list else f"({inner}{',' * (len(parts) == 1)})"


def captured_names(f, program):
    """Find the user's names of captured arrays: of equal ones among the globals and closure cells that f reads."""
    found = {}
    try:
        scope = inspect.getclosurevars(inspect.unwrap(f))
    except TypeError:
        return found
    known = {**scope.globals, **scope.nonlocals}
    for s, c in program.constants.items():
        for name, v in known.items():
            if (isinstance(v, np.ndarray) and v.shape == c.shape and v.dtype == c.dtype and is_name(name)
                    and v.tobytes() == c.tobytes()):  # fmt: skip
                found[s] = name
                break
    return found


def gradient_of(f, args, kwargs, program):
    """Pair the results of a gradient with the inputs that they are the derivatives in; nothing for other functions."""
    chosen = chosen_by(f)
    if chosen is None or chosen.names or kwargs:
        return []
    counts = [sum(map(inexact, tree.flatten(a)[0])) for a in args]
    starts = [sum(counts[:k]) for k in range(len(counts) + 1)]
    wanted = [x for k in chosen.places(f, args, kwargs)
              for x in program.inputs[starts[k] : starts[k + 1]]]  # fmt: skip
    made = program.outputs[len(program.outputs) - len(wanted) :]
    if len(made) != len(wanted) or len(program.outputs) - len(wanted) > 1:
        return []
    return [(y, x) for y, x in zip(made, wanted, strict=True)
            if y.__class__ is Symbol and y not in program.inputs and y.shape == x.shape]  # fmt: skip


def chosen_by(f):
    """Return the `Chosen` arguments of `grad` or `value_and_grad`, if `f` is the result of one; else None."""
    while getattr(f, "__closure__", None) and f.__code__.co_name in ("gradient", "value_and_gradient"):
        scope = dict(zip(f.__code__.co_freevars, [c.cell_contents for c in f.__closure__], strict=True))
        if "chosen" in scope:
            return scope["chosen"]
        f = scope.get("both")
    return None


def called_as(function, program, arguments, arrays):
    """Return a function that takes and returns the containers of the function written."""
    leaves, structure = tree.flatten(list(arguments))

    def call(*args: Any, **kwargs: Any) -> Any:
        given, form = tree.flatten([args, kwargs])
        if form != structure:
            raise ValueError(f"{program.name} was written for other arguments: their number or containers differ")
        points: list[Any] = []
        for x, seen in zip(given, leaves, strict=True):
            if inexact(seen):
                symbol = program.inputs[len(points)]
                if np.shape(x) != symbol.shape:
                    raise ValueError("this was written for arrays of other shapes")
                points.append(like(x, symbol))
            elif x is not seen and not np.array_equal(x, seen):
                raise ValueError(f"{program.name} was written for {seen!r}, a constant in it, not for {x!r}")
        outputs, _ = tree.flatten(function(*points, **arrays))
        return tree.unflatten(program.structure, [unshared(y, points) for y in outputs])

    call.__name__ = call.__qualname__ = program.name
    call.__doc__ = function.__doc__
    return call


def unshared(y, points):
    """Return a result that shares no memory with the arguments."""
    if isinstance(y, np.ndarray) and any(isinstance(x, np.ndarray) and np.may_share_memory(x, y) for x in points):
        return y.copy()
    return y


def like(x, symbol):
    """Return an argument in the dtype that the source was written for."""
    if symbol.dtype in PYTHON:
        return x.item() if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and not x.shape) else x
    return np.asarray(x, symbol.dtype)[()]
