"""Every error that chainrule raises: what happened, the user's own line, what to write instead.

Each class also derives from the builtin exception that a NumPy user would expect.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_line():
    """Return ``file:line in function`` of the innermost frame outside chainrule, NumPy and SciPy, or None."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            return line_in(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def raised_in(error):
    """Return ``file:line in function`` of the innermost frame of the user's that an exception came through, or None."""
    found, step = None, error.__traceback__
    while step is not None:
        if is_users(step.tb_frame):
            found = line_in(step.tb_frame, step.tb_lineno)
        step = step.tb_next
    return found


def depth_of_user():
    """Return how far up the stack the user's code is, for `warnings.warn` by the caller."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and not is_users(frame):
        frame, depth = frame.f_back, depth + 1
    return depth


def is_users(frame):
    """Tell whether a frame is outside chainrule, NumPy and SciPy."""
    module = frame.f_globals.get("__name__", "")
    return (
        # "<chainrule": source that we wrote (rules' fast paths)
        not frame.f_code.co_filename.startswith((_HERE, "<chainrule"))
        and not module.startswith(("numpy.", "scipy.", "optree", "contextlib"))
        and module != "numpy"
    )


def line_in(frame, line):
    """Return ``file:line in function``."""
    return f"{os.path.basename(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name}"


def message(what, *advice, where=True):
    """Lay out an error: the fact, the user's line, and what to write instead."""
    lines = [what]
    line = user_line() if where else None
    if line:
        lines.append(f"  where: {line}")
    if len(advice) == 1:
        lines.append(f"  to go on: {advice[0]}")
    elif advice:
        lines.append("  to go on, one of:")
        lines.extend(f"    - {a}" for a in advice)
    return "\n".join(lines)


class CompileWarning(UserWarning):
    """A compiled function is run as plain Python."""


class ChainruleError(Exception):
    """The base of all errors raised by chainrule."""


class NoRuleError(ChainruleError, NotImplementedError):
    """A function was called with a traced value, and no derivative rule is registered for it."""

    def __init__(self, name, detail=""):
        super().__init__(
            message(
                f"{name} has no derivative rule{detail}.",
                "write the expression with functions that chainrule supports;",
                f"register a rule:  chainrule.extend.rule({name}, jvp=..., vjp=...);",
                "if this value is meant to be constant:  chainrule.stop_gradient(x).",
            )
        )


class UnsupportedFunctionError(NoRuleError):
    """A function was called with a traced value that has no derivative rule, and will not get one."""

    def __init__(self, name, why, *instead):
        ChainruleError.__init__(self, message(f"{name} is not differentiated: it {why}.", *instead))


class UnsupportedArgumentError(ChainruleError, NotImplementedError, TypeError):
    """A function has a rule, but not for this keyword argument, or not for a traced value in it."""

    def __init__(self, name, argument, why, *advice):
        super().__init__(message(f"{name}: argument {argument!r} {why}.", *advice))


class OutArgumentError(ChainruleError, TypeError):
    """``out=`` was given together with a traced value: the write would not be seen by the derivative."""

    def __init__(self, name):
        super().__init__(
            message(
                f"{name}(..., out=...): a traced result written into `out` would lose its derivative.",
                f"use the returned value:  y = {name}(...), without out=;",
                "or make the destination a traced one:  out = np.zeros(shape, like=x).",
            )
        )


class ConversionError(ChainruleError, TypeError):
    """A traced value was about to become a plain Python number or ndarray, which would lose its derivative."""

    def __init__(self, what, *advice):
        super().__init__(
            message(f"{what} would convert a traced value to a plain one and lose its derivative.", *advice)
        )


class InPlaceError(ChainruleError, TypeError, RuntimeError):
    """A value was changed in place where the recorded computation can't follow."""

    def __init__(self, what, *advice):
        super().__init__(message(what, *advice))


class ForeignArrayError(ChainruleError, TypeError):
    """A traced value met an array type that does not take part in NumPy's protocols as plain arrays do."""

    def __init__(self, kind, advice):
        super().__init__(message(f"an operation between a chainrule value and {kind} is not supported.", advice))


class LeakedValueError(ChainruleError, RuntimeError):
    """A traced value was used after the transform that made it had ended."""

    def __init__(self, origin):
        super().__init__(
            message(
                f"a traced value was used after its transform had ended. It was made inside {origin}.",
                "return the value from the function (has_aux=True passes extra results out), do not store it outside;",
                "store chainrule.value(x), a plain array, if only the number is wanted.",
            )
        )


class MixedLevelError(ChainruleError, TypeError):
    """A Variable and a Dual made by hand at the same level met: their derivatives can't be told apart."""

    def __init__(self):
        super().__init__(
            message(
                "values of two kinds (e.g. a Variable and a Dual) of the same level can't be combined.",
                "use the transforms (chainrule.grad, chainrule.jvp), which nest in any order.",
            )
        )


class NotScalarError(ChainruleError, TypeError, ValueError):
    """`grad` or `backward()` was applied to an output that is not a scalar."""

    def __init__(self, name, shape, what="grad"):
        advice = (
            "reduce the output, e.g. with np.sum;",
            "use chainrule.jacobian for all the derivatives;",
            "use chainrule.elementwise_grad if output i depends on input i only.",
        )
        if what == "backward()":
            advice = (
                "reduce the output, e.g. with np.sum;",
                "give a seed of the output's shape:  y.backward(np.ones_like(y.data)).",
            )
        if isinstance(shape, str):
            advice = ("return one scalar; pass other results out with has_aux=True;", *advice[1:2])
        found = shape if isinstance(shape, str) else f"an array of shape {shape}"
        super().__init__(message(f"{what} needs a scalar output, but {name} returned {found}.", *advice))


class NotDifferentiableError(ChainruleError, TypeError):
    """A point of differentiation, or an output, is of a type that has no derivative."""

    def __init__(self, what, *advice):
        super().__init__(message(what, *advice))


class HolomorphicError(ChainruleError, TypeError):
    """`grad` of a function with a complex output needs ``holomorphic=True``; so does `hessian` at a complex point."""

    def __init__(self, name, what="grad"):
        fact = f"{name} returned a complex value; it has a derivative only if the function is holomorphic."
        real = "make the output real, e.g. with np.abs or np.real."
        if what == "hessian":
            fact = f"the gradient of {name} at a complex point has a derivative only if {name} is holomorphic."
            real = "take real and imaginary parts:  chainrule.hessian(lambda x, y: f(x + 1j * y), argnums=(0, 1))."
        super().__init__(
            message(
                fact,
                f"if the function is holomorphic (not checked):  chainrule.{what}(f, holomorphic=True);",
                real,
            )
        )


class ShapeError(ChainruleError, ValueError, TypeError):
    """A seed, tangent, cotangent or a user-defined derivative has a shape or count that does not fit."""

    def __init__(self, what, *advice):
        super().__init__(message(what, *advice))


class ReusedFunctionError(ChainruleError, RuntimeError):
    """``self.input`` of a Function object was read after that object had been called more than once."""

    def __init__(self, name):
        super().__init__(
            message(
                f"this {name} object has been called more than once, so it has no single input: one object per node.",
                f"make one object for each call:  f1, f2 = {name}(), {name}();",
                "use y.backward(), which keeps the input of each call apart.",
            )
        )


class GradientCheckError(ChainruleError, AssertionError):
    """`check_grads` found a derivative that differs from central differences."""


class NotConvergedError(ChainruleError, ArithmeticError):
    """The differences that `chainrule.numeric` takes did not converge."""

    def __init__(self, name, error, scale):
        found = "no finite values were found nearby" if error == float("inf") else f"the estimated error is {error:.1e}"
        super().__init__(
            message(
                f"the derivative of {name} by differences did not converge: {found}, where {scale:.1e} is the size to "
                "compare it with.",
                "choose the first step:  chainrule.numeric(f, step=1e-3);",
                "let f compute more digits (a tighter tolerance), without random numbers;",
                "accept the error:  chainrule.numeric(f, rtol=1e-2);",
                "give the derivative:  chainrule.custom_vjp, chainrule.extend.rule.",
            )
        )


class NonFiniteError(ChainruleError, FloatingPointError):
    """Within `chainrule.debug_nans` a value, a tangent or a cotangent became NaN or infinite.

    `kind` is ``"value"``, ``"tangent"`` or ``"cotangent"``, `found` ``"NaN"`` or ``"infinite"``, `function` the name of
    the call, `where` its line as text, `line` the line's number (both None if they are not known).
    """

    def __init__(self, kind, found, function, place=None):
        self.kind, self.found, self.function = kind, found, function
        self.line = None if place is None else place.line
        self.where = None if place is None else str(place)
        way = "in the backward pass of" if kind == "cotangent" else "in"
        text = message(
            f"a {kind} became {found} {way} {function}.",
            "look at the values before it:  chainrule.explain(f, x).first_nonfinite(),  .kinks();",
            "keep the operand inside the domain, with np.where on both sides of the call.",
            where=False,
        )
        if self.where is not None:
            text = text.replace("\n", f"\n  where: {self.where}\n", 1)
        super().__init__(text)


class SourceError(ChainruleError, NotImplementedError):
    """`flat` met a call that can't be written as NumPy source.

    What has a derivative rule of its own (``custom_vjp``, `Function`, a function registered with `chainrule.extend`)
    is no function of NumPy that could be called by name.
    """


class MissingDependencyError(ChainruleError, ImportError):
    """An optional library is needed for this, and is not installed."""

    def __init__(self, library, extra, purpose):
        super().__init__(
            message(
                f"{purpose} needs {library}, which is not installed.", f"pip install 'chainrule[{extra}]'", where=False
            )
        )


class BoundsError(ChainruleError, AssertionError):
    """Machine code would have left its memory: a fault of chainrule's, found with ``config.check_bounds``."""

    def __init__(self, what, size, byte, memory, low, high, equation, place):
        done = "written" if what == "store" else "read"
        super().__init__(
            message(
                f"machine code would {what} {size} bytes at byte {byte} of {memory}, which has {low} to {high}."
                f"\n  This is a fault of chainrule, not of your program. Nothing was {done} there."
                f"\n  equation: {equation}" + (f"\n  where: {place}" if place else ""),
                "report it, with the program: chainrule.compile(f).lower(*args).program;",
                "run the program as calls of NumPy:  chainrule.config.backend = 'numpy'.",
                where=False,
            )
        )


class ExpressionError(ChainruleError, ValueError):
    """The text of an expression given to the ``chainrule`` command can't be used; points at the column."""

    def __init__(self, source, column, what, *advice):
        self.column = column
        if len(source) > 90:  # show what is around the column
            start = max(0, min(column - 45, len(source) - 90))
            end = start + 90
            source = ("…" if start else "") + source[start:end] + ("…" if end < len(source) else "")
            column += (start > 0) - start
        super().__init__(message(f"{what}\n    {source}\n    {' ' * column}^", *advice, where=False))


def unwrap(error):
    """Return the chainrule error that NumPy wrapped in one of its own (``a[0] = x`` does), or None."""
    seen = 0
    cause = error.__cause__ or error.__context__
    while cause is not None and seen < 10:
        if isinstance(cause, ChainruleError):
            return cause
        cause = cause.__cause__ or cause.__context__
        seen += 1
    return None
