"""`record`: one run of a function, as a Program."""

import contextlib
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine import tape
from chainrule.engine.boxed import Boxed, inexact
from chainrule.engine.held import COPIES
from chainrule.program.ir import Program
from chainrule.program.recording import Recording
from chainrule.program.tracing import RECORDINGS, Tracer
from chainrule.transforms.common import name_of, need_function, output_point, own, run


@contextlib.contextmanager
def recording(f: Callable, kind: type = Recording, **options: Any):
    """Write down, as a Program, what is done in this block with the Tracers that it makes."""
    thread = threading.get_ident()
    before = tape.WATCHERS.get(thread)
    with _level.running(f) as level:
        made = kind(level, **options)
        made.program.name = name_of(f) if name_of(f).isidentifier() else "f"
        RECORDINGS[level] = tape.WATCHERS[thread] = made
        COPIES[level] = made.copies
        try:
            yield made
        finally:
            del RECORDINGS[level], COPIES[level]
            if before is None:
                del tape.WATCHERS[thread]
            else:
                tape.WATCHERS[thread] = before
    made.finish()


def record(f: Callable, *, values: bool = False) -> Callable:
    """Return a function that runs `f` and gives the record of the run, instead of its result.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, numbers, or containers of them. It may be the result of a transform: the program of
        ``grad(f)`` holds the calls of the forward and of the backward pass.
    values : bool
        Keep the value of each step, too.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns a `Program`. Floats and arrays of floats among the arguments are its
        inputs; ints, strings, bools and None are constants.

    Raises
    ------
    NotDifferentiableError
        If `f` returns something that is no number, array, or container of these.

    Notes
    -----
    Recording costs some 5 microseconds for each call, beside that of `f` itself. With ``values=True`` the memory is
    that of all intermediate results together.

    Examples
    --------
    >>> import chainrule as cr, numpy as np
    >>> def f(x, y):
    ...     product = x * y
    ...     return product + np.sin(x)
    >>> print(cr.record(f)(1.0, 2.0))  # doctest: +ELLIPSIS
    f(v1 x: float, v2 y: float):
      v3: float = numpy.multiply(v1, v2)  # product  ...
      v4: float64 = numpy.sin(v1)  ...
      v5: float64 = numpy.add(v3, v4)  ...
      return v5
    """
    need_function(f, "record(f)(x)")

    def recorded(*args, **kwargs):
        return run_recorded(f, args, kwargs, values=values).program

    return recorded


def run_recorded(f: Callable, args: Any, kwargs: Any, *, values: bool = False, **options: Any) -> Recording:
    """Run a function on Tracers, and return the recording of it."""
    with recording(f, values=values, **options) as made:
        program, level = made.program, made.level
        hints = hints_of(f, args, kwargs)

        def boxed(x):
            hint = next(hints)
            if not isinstance(x, Boxed) and not inexact(x):
                return x
            if isinstance(x, Boxed):
                x = x.alias()
            elif values and isinstance(x, np.ndarray):
                x = x.copy()
            symbol = program.symbol(x, hint)
            program.inputs.append(symbol)
            if values:
                program.points.append(x)
            return Tracer(x, symbol, level)

        args, kwargs = tree.tree_map(boxed, list(args)), tree.tree_map(boxed, kwargs)
        finished(program, run(f, args, kwargs), f, level)
    return made


def finished(program: Program, out: Any, f: Callable, level: float) -> None:
    """Put what the function returned into the program."""
    leaves, program.structure = ([out], None) if isinstance(out, Boxed) else tree.flatten(out)
    for y in leaves or [out]:  # None, or an empty container, is refused as such
        y = output_point(y, f)
        if own(y, level, f, Tracer):
            y = y.data if y.aux is None else y.aux
        program.outputs.append(y)


def hints_of(f, args, kwargs):
    """Iterate over the user's names of all values of the arguments: ``w``, or ``p_w`` for ``p["w"]``."""
    names = argument_names(f, len(args))
    for name, x in [*zip(names, args, strict=True), *sorted(kwargs.items())]:
        for path in tree.paths(x):
            yield identifier(name + path)


def identifier(text):
    """Return a path such as ``p['w'][0]`` as a name: ``p_w_0``."""
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).strip().replace("  ", " ").replace(" ", "_")


def argument_names(f, count):
    """Return a name for each positional argument, as the signature has it."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}{k}" for k in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return (names + [f"x{k}" for k in range(len(names), count)])[:count]
