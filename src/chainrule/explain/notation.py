"""How numbers, arrays and calls are written in a table: ``v2 = sin(v1)``, ``v4 = -2 * v3``."""

import inspect

import numpy as np

from chainrule.engine.boxed import value
from chainrule.program.ir import Symbol

# Functions that have an operator are written with it. An operand is a name or a number, so only negative numbers need
# parentheses.
_INFIX = {
    "numpy.add": "+", "numpy.subtract": "-", "numpy.multiply": "*", "numpy.divide": "/", "numpy.power": "**",
    "numpy.floor_divide": "//", "numpy.remainder": "%", "numpy.matmul": "@",
}  # fmt: skip
_PREFIX = {"numpy.negative": "-", "numpy.positive": "+"}
INLINE = 4  # an array of more entries than this is not written out inside an expression


def number(x, digits=17):
    """Write a number: exact and short where `digits` significant digits are enough, else rounded to them."""
    if isinstance(x, bool | np.bool_):
        return str(bool(x))
    if isinstance(x, int | np.integer):
        return str(int(x))
    if isinstance(x, complex | np.complexfloating):
        sign = "-" if np.signbit(x.imag) else "+"
        return f"{number(x.real, digits)} {sign} {number(abs(x.imag), digits)}j"
    if x == 0:
        return "0"
    shortest = str(x)  # the fewest digits that give back the very number, of whatever precision
    text = shortest if _count(shortest) <= digits else f"{x:.{digits}g}"
    return text.removesuffix(".0")


def _count(text):
    """Count the significant digits of a number's text."""
    mantissa = text.lower().partition("e")[0].lstrip("-+").replace(".", "").lstrip("0")
    return len(mantissa.rstrip("0"))


def array(x, digits=17, most=8):
    """Write an array on one line: all of a small one, the ends of a larger one."""
    if not np.shape(x):
        return number(x[()] if isinstance(x, np.ndarray) else x, digits)
    if x.size > most and x.ndim > 1:
        return f"array {shape(x.shape)}"
    if x.size > most:
        head = [number(v, digits) for v in x[: max(most // 2 - 1, 1)]]
        return f"[{', '.join(head)}, … {number(x[-1], digits)}]"
    return f"[{', '.join(array(v, digits, most) for v in x)}]"


def brief(x, digits=6, most=6, size=None):
    """Write a value: a number or small array whole, a larger one as its shape, norm (`size`) and first entries."""
    if np.size(x) <= most:
        return array(x, digits, most)
    head = ", ".join(number(v, 4) for v in np.asarray(x).flat[: most // 2])
    return f"{sized(x, size=size)}: {head}, …"


def sized(x, digits=4, size=None):
    """Write an array as its shape and norm, which may be given as `size`."""
    size = norm(x) if size is None else size
    return f"{shape(np.shape(x))}, norm {number(size, min(digits, 4))}"


def norm(x):
    """Return the square root of the sum of the squares of all entries, in double precision."""
    entries = np.ravel(x)
    with np.errstate(all="ignore"):
        return np.linalg.norm(entries.astype(complex if entries.dtype.kind == "c" else float))


def shape(s):
    """Write a shape as mathematics does: ``3×4``."""
    return "×".join(map(str, s)) or "()"


def expression(equation):
    """Write the right-hand side of an equation."""
    name = equation.rule.name
    operands = [operand(x) for x in equation.inputs]
    params = equation.params
    if name in _INFIX and len(operands) == 2 and not params:
        a, b = operands
        if b.startswith("-"):
            b = f"({b})"
        if a.startswith("-") and name == "numpy.power":
            a = f"({a})"
        return f"{a} {_INFIX[name]} {b}"
    if name in _PREFIX and len(operands) == 1 and not params:
        return _PREFIX[name] + operands[0]
    if name.endswith(".indexing.getitem"):
        return f"{operands[0]}[{index(params['index'])}]"
    if name.endswith(".indexing.put"):
        return f"{operands[0]} with [{index(params['index'])}] = {operands[1]}"
    if equation.rule.spread:
        operands = [f"[{', '.join(operands)}]"]
    defaults = _defaults(equation.rule.fun)
    operands += [f"{k}={param(v)}" for k, v in params.items() if not _is_default(v, defaults.get(k, _NONE))]
    return f"{name.rpartition('.')[2]}({', '.join(operands)})"


def tail(name):
    """Return the last part of a function's full name."""
    return name.rpartition(".")[2]


def operand(x):
    """Write an operand: a symbol by its name, a constant by its value."""
    return x.name if isinstance(x, Symbol) else param(value(x))


def param(x):
    """Write the value of a parameter, briefly."""
    if isinstance(x, np.dtype):
        return x.name
    if isinstance(x, np.ndarray):
        return array(x, 6) if x.size <= INLINE else f"array {shape(x.shape)}"
    if isinstance(x, int | float | complex | np.generic):
        return number(x)
    if isinstance(x, tuple):
        return f"({', '.join(map(param, x))}{',' if len(x) == 1 else ''})"
    text = getattr(x, "__name__", None) or repr(x)
    return text if len(text) <= 24 else text[:23] + "…"


def index(i):
    """Write an index as it stands between the brackets."""
    if isinstance(i, tuple):
        return ", ".join(map(index, i)) + ("," if len(i) == 1 else "")
    if isinstance(i, slice):
        parts = ["" if p is None else str(p) for p in (i.start, i.stop, i.step)]
        return ":".join(parts[:2] if i.step is None else parts)
    return "..." if i is Ellipsis else param(i)


_NONE = object()


def _defaults(fun):
    try:
        return {k: p.default for k, p in inspect.signature(fun).parameters.items()}
    except (TypeError, ValueError):
        return {}


def _is_default(v, default):
    return v is default or v is None or (type(v) is type(default) and isinstance(v, bool | int | str) and v == default)
