"""The ``chainrule`` command: a derivative as a textbook table.

This module imports without typer and rich: `main` then says how to install them.
"""

import importlib
import inspect
import os
import re
import sys
import traceback
from typing import Annotated

import numpy as np

from chainrule.errors import ChainruleError, ExpressionError, MissingDependencyError
from chainrule.explain.explanation import MODES
from chainrule.explain.expression import Expression, assignments, suggestion
from chainrule.explain.making import explain

TARGET = re.compile(r"\s*([^\W\d][\w.]*):([^\W\d][\w.]*)\s*")


class UsageError(ChainruleError):
    """What was asked for can't be done; the message is all the user needs."""


def main() -> None:
    """Run the command: the entry point."""
    try:
        app()()
    except MissingDependencyError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def app():
    """Build the command line, with typer."""
    try:
        import typer
    except ImportError as error:
        raise MissingDependencyError("typer", "explain", "the chainrule command") from error

    made = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
        help="Exact derivatives of plain NumPy code.",
    )  # fmt: skip

    def version(asked: bool):
        if asked:
            from chainrule import __version__

            typer.echo(f"chainrule {__version__}")
            raise typer.Exit

    @made.callback()
    def base(
        version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")]
        = False,
    ):  # fmt: skip
        pass

    # An expression may begin with a minus sign: what is no option is taken as the target.
    @made.command("explain", context_settings={"ignore_unknown_options": True})
    def command(
        target: Annotated[
            str, typer.Argument(metavar="TARGET", help="An expression, such as 'x*y + exp(x*y)', or module:function.")
        ],
        at: Annotated[
            list[str] | None, typer.Option(metavar="POINT", help="The point, such as 'x=pi/16, y=[1, 2]'.")
        ] = None,
        mode: Annotated[str, typer.Option(metavar="MODE", help="forward, reverse or both.")] = "both",
    ):
        """Show the value and the derivatives of a function at a point, step by step."""
        try:
            show(target, at or [], mode)
        except MissingDependencyError:
            raise
        except ChainruleError as error:
            typer.echo(told(error), err=True)
            raise typer.Exit(2) from None

    return made


def told(error):
    """Return an error as the terminal shows it: of where it happened only what is the user's own file."""
    frames = [f for e in (error, error.__cause__) if e is not None for f in traceback.extract_tb(e.__traceback__)]
    places = [f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in frames]
    lines = [
        line
        for line in str(error).split("\n")
        if not line.startswith("  where: ") or line.removeprefix("  where: ") in places
    ]
    name = "Error" if isinstance(error, UsageError) else type(error).__name__
    return "\n".join([f"{name}: {lines[0]}", *lines[1:]])


def show(target, at, mode):
    """Explain the target at the point, and print the result."""
    from chainrule.explain.render import show as print_out

    if mode not in MODES:
        raise UsageError(f"--mode {mode!r} is unknown; it is forward, reverse or both.")
    values = {}
    for text in at:
        for name, x in assignments(text).items():
            if name in values:
                raise UsageError(f"--at gives {name} twice.")
            values[name] = x
    found = TARGET.fullmatch(target)
    if found:
        f, names = load(*found.groups()), list(values)
        bind(f, target.strip(), values)
    else:
        f = Expression(target)
        names = list(f.names)
        check_point(f, values)
        values = {n: np.float64(x) if isinstance(x, float) else x for n, x in values.items()}
    run = by_position(f, names)
    try:
        with np.errstate(all="ignore"):
            explanation = explain(run, *[values[n] for n in names], mode=mode, title=title(f, run))
    except ChainruleError:
        raise
    except Exception as error:
        raise UsageError(failure(f, error)) from error
    print_out(explanation)


def title(f, run):
    """Return the first line: the expression itself, or the call."""
    call = f"{run.__name__}({', '.join(inspect.signature(run).parameters)})"
    return f"{call} = {f.source}" if isinstance(f, Expression) else call


def by_position(f, names):
    """Return a function of positional arguments called `names`, to explain `f` by."""
    if isinstance(f, Expression):

        def run(*args):
            return f(*args)
    else:

        def run(*args):
            return f(**dict(zip(names, args, strict=True)))

    run.__name__ = getattr(f, "__name__", type(f).__name__)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
    return run


def check_point(f, values):
    """Raise unless the point has a value for each variable of the expression, and no other."""
    if not f.names:
        raise UsageError(f"{f.source} has no variable, so there is nothing to differentiate.")
    for name in values:
        if name not in f.names:
            advice = suggestion(name, f.names)[0]
            raise UsageError(f"--at gives {name}, which the expression does not contain; {advice}")
    for name in f.names:
        if name not in values:
            column = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", f.source)
            raise ExpressionError(
                f.source, column.start() if column else 0, f"{name} has no value.",
                f'give it one:  --at "{name}=1"', *suggestion(name, [*values])[: bool(values)],
            )  # fmt: skip


def load(module, name):
    """Import a function by its module, looked for from the current directory on, and its name."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise UsageError(f"there is no module {module} here, or among the installed ones.") from None
        raise UsageError(f"importing {module} failed. {type(error).__name__}: {error}") from error
    except Exception as error:
        raise UsageError(f"importing {module} failed. {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            public = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n))]
            raise UsageError(f"{module} has no {name}; {suggestion(part, public)[0] if public else 'it is empty.'}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{module}:{name} is no function, but of type {type(found).__name__}.")
    return found


def bind(f, target, values):
    """Raise unless `f` can be called with the values by name."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        raise UsageError(f"{target} has no signature in Python; write a small function around it.") from None
    names = list(signature.parameters)
    try:
        signature.bind(**values)
    except TypeError as error:
        raise UsageError(f"{target}({', '.join(names)}): {error}. Give each argument by name, with --at.") from None
    if not values:
        raise UsageError(f'{target} needs a point:  --at "{names[0] if names else "x"}=1"')


def failure(f, error):
    """Tell in a line or two what went wrong inside the function itself."""
    name = getattr(f, "__name__", type(f).__name__)
    text = f"{name} failed. {type(error).__name__}: {error}"
    if isinstance(f, Expression):
        return text
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
    if frames:
        text += f"\n  where: {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"
    return text
