"""Calls of NumPy's and SciPy's functions as source."""

import functools
import inspect
import operator
import sys
from collections.abc import Callable

import numpy as np

from chainrule.program.emit import primitives
from chainrule.program.emit.text import (
    AND,
    ATOM,
    COMPARE,
    OR,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
    XOR,
    arguments,
    binding,
    literal,
    owner,
    within,
)  # fmt: skip
from chainrule.program.ir import PYTHON, Equation, Symbol, symbols_in

# function -> (operator, how tightly it binds, what its operands must at least)
# fmt: off
BINARY = {
    np.add:           ("+",  SUM,     SUM,     PRODUCT),
    np.subtract:      ("-",  SUM,     SUM,     PRODUCT),
    np.multiply:      ("*",  PRODUCT, PRODUCT, SIGN),
    np.divide:        ("/",  PRODUCT, PRODUCT, SIGN),
    np.matmul:        ("@",  PRODUCT, PRODUCT, SIGN),
    np.floor_divide:  ("//", PRODUCT, PRODUCT, SIGN),
    np.remainder:     ("%",  PRODUCT, PRODUCT, SIGN),
    np.power:         ("**", POWER,   ATOM,    SIGN),
    np.greater:       (">",  COMPARE, OR,      OR),
    np.greater_equal: (">=", COMPARE, OR,      OR),
    np.less:          ("<",  COMPARE, OR,      OR),
    np.less_equal:    ("<=", COMPARE, OR,      OR),
    np.equal:         ("==", COMPARE, OR,      OR),
    np.not_equal:     ("!=", COMPARE, OR,      OR),
    np.bitwise_and:   ("&",  AND,     AND,     SUM),
    np.bitwise_or:    ("|",  OR,      OR,      XOR),
    np.bitwise_xor:   ("^",  XOR,     XOR,     AND),
}
OPERATORS = {
    operator.gt: np.greater, operator.ge: np.greater_equal, operator.lt: np.less, operator.le: np.less_equal,
    operator.eq: np.equal, operator.ne: np.not_equal, operator.and_: np.bitwise_and, operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor, operator.invert: np.invert, operator.neg: np.negative, operator.pos: np.positive,
    operator.abs: np.absolute, operator.floordiv: np.floor_divide, operator.mod: np.remainder, operator.add: np.add,
    operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.divide, operator.pow: np.power,
    operator.matmul: np.matmul, operator.lshift: np.left_shift, operator.rshift: np.right_shift,
}
UNARY = {np.negative: "-", np.positive: "+", np.invert: "~"}
# fmt: on
SWAPPED = {np.add, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor}


class Writer:
    """Writes the operands of one equation. `name` names symbols, and arrays among the parameters if it likes."""

    def __init__(self, equation: Equation, name: Callable, bare: bool | None = None):
        self.equation, self.name = equation, name
        self.bare = literals_are_bare(equation) if bare is None else bare

    def __call__(self, x) -> str:
        """Write an operand."""
        kind = x.__class__
        if kind is Symbol:
            return self.name(x)
        if kind is tuple or kind is list:
            inner = ", ".join(map(self, x))
            return f"[{inner}]" if kind is list else f"({inner}{',' * (len(x) == 1)})"
        if isinstance(x, np.ndarray) and x.size > 16:
            text = self.name(x)
            if text is not None:
                return text
        return literal(x, self.bare)


def literals_are_bare(equation: Equation) -> bool:
    """Tell whether Python's floats may stand for float64 scalars: results have the same dtype.

    They may not beside narrower or wider numbers: ``np.float64(2) * x`` of a float32 array x is float64, ``2.0 * x``
    is float32; nor beside Python numbers alone, where the result would be one that has no methods.
    """
    kinds = [s.dtype for s in symbols_in((equation.inputs, equation.params))]
    if kinds and all(k in PYTHON for k in kinds):
        return all(s.dtype in PYTHON for s in equation.outputs)
    return all(k in PYTHON or np.dtype(k).char in "dD?bhilqBHILQ" for k in kinds)


def statements(equation: Equation, name: Callable, target: str) -> list:
    """Return the lines that give the result of a call the name `target`, or the names ``a, b`` of several."""
    lines = primitives.LINES.get(equation.fun)
    if lines is not None:
        made = lines(Writer(equation, name), target, *equation.inputs, **equation.params)
        if made is not None:
            return made
    return [f"{target} = {expression(equation, name)}"]


def expression(equation: Equation, name: Callable, bare: bool | None = None) -> str:
    """Return a call as one expression in terms of ``np``, and ``scipy`` for SciPy's functions.

    Parameters
    ----------
    equation : Equation
        The call. One with several outputs becomes an expression that gives a tuple.
    name : callable
        Returns the source of a `Symbol`: a variable's name, or an expression that stands for it. It is also asked about
        arrays of more than 16 entries among the parameters: None lets them be written out.
    bare : bool or None
        Whether float64 scalars may be written as Python's floats; None for where that changes nothing at all.

    Returns
    -------
    str
        Source without parentheses around it.
    """
    write = Writer(equation, name, bare)
    xs, params = equation.inputs, equation.params
    fun = OPERATORS.get(equation.fun, equation.fun)
    how = primitives.EXPRESSIONS.get(fun)
    if how is not None:
        text = how(write, *xs, **params)
        if text is not None:
            return text
    text = primitives.primitive_text(fun, write, xs, params)
    if text is not None:
        return text
    if not params and len(xs) == 2 and fun in BINARY:
        return binary(write, fun, *xs)
    if not params and len(xs) == 1 and fun in UNARY:
        return unary(write, fun, *xs)
    if fun is np.absolute and not params:
        return f"{'abs' if xs[0].dtype in PYTHON else 'np.abs'}({write(xs[0])})"
    if getattr(fun, "__objclass__", None) is np.ndarray:  # a method
        named = {k: write(v) for k, v in params.items()}
        return f"{owner(write(xs[0]))}.{fun.__name__}({arguments(map(write, xs[1:]), named)})"
    positional = [f"[{', '.join(map(write, xs))}]"] if getattr(equation.rule, "spread", False) else list(map(write, xs))
    return f"{path_of(fun)}({arguments(positional, {k: write(v) for k, v in given(fun, params).items()})})"


@functools.lru_cache(512)
def defaults_of(fun):
    """Return the default values of a function's arguments."""
    try:
        return {p.name: p.default for p in inspect.signature(fun).parameters.values()}
    except (TypeError, ValueError):
        return {}


def given(fun, params):
    """Leave out the arguments that have their default value."""
    defaults = defaults_of(fun)
    return {
        k: v for k, v in params.items()
        if not ((v is None or v.__class__ in (bool, int, str))
                and defaults.get(k, given).__class__ is v.__class__ and defaults[k] == v)
    }  # fmt: skip


def binary(write: Writer, fun, a, b) -> str:
    """Return an operator between two operands."""
    sign, _, left, right = BINARY[fun]
    x, y = within(write(a), left), within(write(b), right)
    if a.__class__ is not Symbol and b.__class__ is not Symbol:  # between two numbers NumPy's function may differ
        return f"{path_of(fun)}({write(a)}, {write(b)})"
    of_complex = {a.__class__, b.__class__} & {complex, np.complex128} or complex in (dtype_of(a), dtype_of(b))
    if of_complex and (getattr(a, "shape", ()), getattr(b, "shape", ())) == ((), ()):
        return f"{path_of(fun)}({write(a)}, {write(b)})"  # Python's complex number and np.float64 give one of Python's
    if sign == "+" and y.startswith("-") and "%" not in y and "//" not in y and binding(y) in (SIGN, PRODUCT):
        return f"{x} - {y[1:].lstrip()}" if y[1:2] != "-" else f"{x} + {y}"
    if sign == "**" and binding(x) == ATOM and binding(y) == ATOM and len(x) + len(y) < 16:
        return f"{x}**{y}"
    return f"{x} {sign} {y}"


def dtype_of(x):
    """Return the dtype of a symbol, None of a number."""
    return x.dtype if x.__class__ is Symbol else None


def unary(write: Writer, fun, a) -> str:
    """Return a sign, or the negation of a mask."""
    if fun is np.invert and dtype_of(a) is bool:  # ~True is -2
        return f"not {within(write(a), COMPARE)}"
    if fun is np.invert and dtype_of(a) in (np.dtype(bool),) and a.shape == ():  # should it be one of Python's
        return f"np.logical_not({write(a)})"
    return UNARY[fun] + within(write(a), SIGN)


_PATHS = {}


def path_of(fun) -> str:
    """Return the name by which a function is called: ``np.linalg.inv``, ``scipy.special.erf``.

    Raises
    ------
    NotImplementedError
        If it is no public function of NumPy or SciPy.
    """
    path = _PATHS.get(fun)
    if path is None:
        path = _PATHS[fun] = find_path(fun)
    return path


def find_path(fun) -> str:
    """Look a function up among the public names of NumPy and SciPy."""
    name = getattr(fun, "__name__", "")
    module = getattr(fun, "__module__", None) or ""
    if fun in BUILTIN:
        return BUILTIN[fun]
    homes = [module] if module.startswith(("numpy.", "scipy.")) and "._" not in module else []
    homes = ["numpy", *homes, "numpy.linalg", "numpy.fft", "scipy.special", "scipy.linalg"]
    for home in homes:
        found = getattr(sys.modules.get(home), name, None)
        if found is not None and (found is fun or getattr(found, "__wrapped__", None) is fun):
            return f"{home.replace('numpy', 'np', 1)}.{name}"
    for hidden, public in (("_zeta", "zeta"), ("_lambertw", "lambertw"), ("_riemann_zeta", "zeta")):
        if name == hidden:
            return f"scipy.special.{public}"
    raise NotImplementedError(f"{module}.{name} is no function of NumPy or SciPy that can be written by name")


BUILTIN = {abs: "abs", round: "round", len: "len", operator.not_: "not "}
