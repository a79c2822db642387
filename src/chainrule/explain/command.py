"""The ``chainrule`` command: a derivative as a textbook table, a picture, a page, or as source.

This module imports without typer and rich: `main` then says how to install them.
"""

import contextlib
import importlib
import inspect
import linecache
import os
import re
import sys
import traceback
from typing import Annotated

import numpy as np

from chainrule.errors import ChainruleError, ExpressionError, GradientCheckError, MissingDependencyError
from chainrule.explain import outputs
from chainrule.explain.explanation import MODES
from chainrule.explain.expression import Expression, assignments, suggestion
from chainrule.explain.making import explain

WRITTEN = "<expression>"  # the name of the file that an expression stands in
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
        html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the page to a file.")] = None,
        svg: Annotated[str | None, typer.Option(metavar="FILE", help="Write the graph as SVG.")] = None,
        graph: Annotated[
            str | None, typer.Option(metavar="FILE", help="Write the graph as .svg, .png, .pdf or .dot.")
        ] = None,
        json: Annotated[str | None, typer.Option(metavar="FILE", help="Write all data as JSON.")] = None,
        open: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    ):
        """Show the value and the derivatives of a function at a point, step by step.

        In place of a file, - writes to the terminal.
        """
        files = {"html": html, "svg": svg, "graph": graph, "json": json}
        run(lambda: show(target, at or [], mode, {k: v for k, v in files.items() if v is not None}, open))

    @made.command("flat", context_settings={"ignore_unknown_options": True})
    def flat(
        target: Annotated[str, typer.Argument(metavar="TARGET", help="An expression, or module:function.")],
        at: Annotated[list[str] | None, typer.Option(metavar="POINT", help="The point.")] = None,
        forward: Annotated[bool, typer.Option("--forward", help="The function alone, without its gradient.")] = False,
        output: Annotated[str | None, typer.Option(metavar="FILE", help="Write it to a file.")] = None,
    ):
        """Print a function and its gradient as a module of plain NumPy."""
        run(lambda: show_flat(target, at or [], forward, output))

    @made.command("check", context_settings={"ignore_unknown_options": True})
    def check(
        target: Annotated[str, typer.Argument(metavar="TARGET", help="An expression, or module:function.")],
        at: Annotated[list[str] | None, typer.Option(metavar="POINT", help="The point.")] = None,
        order: Annotated[int, typer.Option(help="The highest order of derivatives.")] = 2,
    ):
        """Compare derivatives with central differences, in both modes. The status is 1 if they differ."""
        run(lambda: show_check(target, at or [], order))

    @made.command("supported")
    def supported(
        name: Annotated[str | None, typer.Argument(metavar="NAME", help="Such as sin, np.linalg.inv or erf.")] = None,
    ):
        """Tell whether a function is supported, or list all of them."""
        run(lambda: show_supported(name))

    def run(task):
        """Run a command; errors of ours are a message and a status."""
        try:
            task()
        except MissingDependencyError:
            raise
        except ChainruleError as error:
            typer.echo(told(error), err=True)
            raise typer.Exit(1 if isinstance(error, GradientCheckError) else 2) from None

    return made


def told(error):
    """Return an error as the terminal shows it: of where it happened only what is the user's own file."""
    frames = [f for e in (error, error.__cause__) if e is not None for f in traceback.extract_tb(e.__traceback__)]
    places = [f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in frames]
    lines = [
        line
        for line in str(error).split("\n")
        if not line.startswith("  where: ")
        or (line.removeprefix("  where: ") in places and not line.startswith(f"  where: {WRITTEN}"))
    ]
    name = "Error" if isinstance(error, UsageError) else type(error).__name__
    return "\n".join([f"{name}: {lines[0]}", *lines[1:]])


def show(target, at, mode, files=None, browse=False):
    """Explain the target at the point, and print the result, or write it to files."""
    from chainrule.explain.render import show as print_out

    if mode not in MODES:
        raise UsageError(f"--mode {mode!r} is unknown; it is forward, reverse or both.")
    f, call, values = resolved(target, at)
    with failures_of(f), np.errstate(all="ignore"):
        explanation = explain(call, *values, mode=mode, title=title(f, call))
        if files or browse:
            outputs.write(explanation, files, browse)
            return
    print_out(explanation)


def show_flat(target, at, forward, output):
    """Print the source of the target and its gradient."""
    from chainrule.program import flat
    from chainrule.transforms import value_and_grad

    f, call, values = resolved(target, at)
    with failures_of(f), np.errstate(all="ignore"):
        whole = call if forward else value_and_grad(call, argnums=tuple(range(len(values))))
        source = flat(whole)(*values)
    outputs.put(output or "-", source.source, "the source")


def show_check(target, at, order):
    """Check the derivatives of the target, and say so."""
    from chainrule.testing import check_grads

    f, call, values = resolved(target, at)
    with failures_of(f), np.errstate(all="ignore"):
        check_grads(call, values, order=order)
    orders = "derivatives" if order == 1 else f"derivatives up to order {order}"
    print(f"{call.__name__}: {orders} agree with central differences, in forward and reverse mode.")


def show_supported(name):
    """Print what is supported, or the status of one name."""
    from chainrule.explain.supported import listing, status

    lines = listing() if name is None else status(name)
    if not lines:
        raise UsageError(f"there is no function {name} in NumPy, or in what is supported of SciPy.")
    print("\n".join(lines))


def resolved(target, at):
    """Return what the target names, a function of positional arguments for it, and their values at the point."""
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
    return f, by_position(f, names), [values[n] for n in names]


@contextlib.contextmanager
def failures_of(f):
    """Turn the errors of the user's own function into messages."""
    try:
        yield
    except ChainruleError:
        raise
    except Exception as error:
        raise UsageError(failure(f, error)) from error


def title(f, run):
    """Return the first line: the expression itself, or the call."""
    call = f"{run.__name__}({', '.join(inspect.signature(run).parameters)})"
    return f"{call} = {f.source}" if isinstance(f, Expression) else call


def by_position(f, names):
    """Return a function of positional arguments called `names`, to explain `f` by."""
    if isinstance(f, Expression):
        run = as_written(f, names)
    else:

        def run(*args):
            return f(**dict(zip(names, args, strict=True)))

        run.__wrapped__ = f

    run.__name__ = getattr(f, "__name__", type(f).__name__)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
    return run


def as_written(f, names):
    """Return a function that is a file of one line to all that shows source: the expression."""
    scope = {"evaluate": f}
    arguments = ", ".join(names)
    exec(compile(f"def run({arguments}): return evaluate({arguments})", WRITTEN, "exec"), scope)
    linecache.cache[WRITTEN] = len(f.source), None, [f.source + "\n"], WRITTEN
    return scope["run"]


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
