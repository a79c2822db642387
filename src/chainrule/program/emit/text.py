"""Pieces of Python source: numbers, subscripts, arguments, and how tightly an expression binds."""

import ast
import functools
import keyword

import numpy as np

from chainrule.program.ir import PYTHON, Symbol

# how tightly the outermost operator of an expression binds, from loose to tight
CONDITION, NOT, COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, SIGN, POWER, ATOM = range(12)

_BINDING = {
    ast.IfExp: CONDITION, ast.Lambda: CONDITION, ast.BoolOp: CONDITION, ast.Compare: COMPARE,
    ast.BitOr: OR, ast.BitXor: XOR, ast.BitAnd: AND, ast.Add: SUM, ast.Sub: SUM, ast.Mult: PRODUCT, ast.Div: PRODUCT,
    ast.FloorDiv: PRODUCT, ast.Mod: PRODUCT, ast.MatMult: PRODUCT, ast.Pow: POWER, ast.Not: NOT,
}  # fmt: skip


@functools.lru_cache(4096)
def binding(text: str) -> int:
    """Return how tightly the outermost operator of an expression binds."""
    if text.isidentifier():
        return ATOM
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BinOp):
        return _BINDING[type(node.op)]
    if isinstance(node, ast.UnaryOp):
        return NOT if isinstance(node.op, ast.Not) else SIGN
    if isinstance(node, ast.Constant) and isinstance(node.value, complex):
        return ATOM
    return _BINDING.get(type(node), ATOM)


def within(text: str, least: int) -> str:
    """Return an expression as an operand: in parentheses where it binds less tightly than `least`."""
    return text if binding(text) >= least else f"({text})"


def owner(text: str) -> str:
    """Return an expression as what stands before a dot or a bracket: of a number ``1.T`` would be a mistake."""
    return text if binding(text) == ATOM and not text[:1].isdigit() else f"({text})"


def literal(x, bare: bool = True) -> str:
    """Return a plain value as source. `bare` lets a float64 scalar be written as Python's number of the same value."""
    kind = x.__class__
    if kind is float or kind is complex or (bare and kind in (np.float64, np.complex128)):
        return number(kind_of(x)(x))
    if kind is str and '"' not in x and "\\" not in repr(x):
        return f'"{x}"'
    if x is None or kind in (bool, int, str, bytes):
        return repr(x)
    if x is Ellipsis:
        return "..."
    if kind is slice:
        return f"slice({', '.join(literal(v) for v in (x.start, x.stop, x.step))})"
    if isinstance(x, np.bool_):
        return f"np.{x!s}_"
    if isinstance(x, np.generic):
        return scalar(x, bare)
    if isinstance(x, np.dtype):
        return dtype(x)
    if isinstance(x, type):
        return f"np.{x.__name__}" if issubclass(x, np.generic) else x.__name__
    if isinstance(x, np.ndarray):
        return array(x)
    if kind is tuple or kind is list:
        inner = ", ".join(literal(v, bare) for v in x)
        return f"[{inner}]" if kind is list else f"({inner}{',' * (len(x) == 1)})"
    if isinstance(x, np.ufunc):
        return f"np.{x.__name__}"
    raise NotImplementedError(f"a value of type {kind.__name__} can't be written as source: {x!r}")


def kind_of(x):
    """Return Python's type of a number."""
    return complex if isinstance(x, complex) else float


def number(x) -> str:
    """Return a Python float or complex number as source, infinite ones and NaN too."""
    if x.__class__ is complex:
        if np.isfinite(x):
            return repr(x) if x.real or not str(x.real).startswith("-") else f"complex({x.real!r}, {x.imag!r})"
        return f"complex({number(x.real)}, {number(x.imag)})"
    if x != x:
        return "np.nan"
    if x in (np.inf, -np.inf):
        return "np.inf" if x > 0 else "-np.inf"
    return repr(x)


def scalar(x, bare) -> str:
    """Return a scalar of NumPy's other types, digits and all."""
    if bare and isinstance(x, np.integer):
        return repr(int(x))
    if isinstance(x, np.longdouble | np.clongdouble):
        parts = [f'np.longdouble("{np.format_float_positional(p, unique=True)}")' for p in (x.real, x.imag)]
        return parts[0] if isinstance(x, np.longdouble) else f"{parts[0]} + 1j * {parts[1]}"
    return f"np.{x.dtype.name}({number(x.item()) if x.dtype.kind in 'fc' else repr(x.item())})"


def dtype(x) -> str:
    """Return a dtype as source."""
    if x == np.dtype(float):
        return "float"
    if x == np.dtype(complex):
        return "complex"
    if x == np.dtype(bool):
        return "bool"
    if x.isnative and x.kind in "fciub":
        return f"np.{x.name if x.char not in 'gG' else {'g': 'longdouble', 'G': 'clongdouble'}[x.char]}"
    return f'np.dtype("{x.str}")'


def array(x) -> str:
    """Return a small array as source."""
    text = repr(x.tolist()) if x.dtype.kind in "iub" else str(nested(x.tolist()))
    given = "" if x.size and x.dtype in (np.dtype(float), np.dtype(int), np.dtype(bool), np.dtype(complex)) else (
        f", {dtype(x.dtype)}")  # fmt: skip
    if not x.size:
        return f"np.zeros({literal(x.shape)}, {dtype(x.dtype)})"
    return f"np.array({text}{given})"


def nested(x):
    """Return nested lists of numbers as source."""
    return f"[{', '.join(nested(v) for v in x)}]" if x.__class__ is list else number(x)


def subscript(index, write) -> str:
    """Return what stands between the brackets; `write` writes its parts that are no slices."""
    if index.__class__ is not tuple:
        return part(index, write)
    if not index:
        return "()"
    inner = ", ".join(part(i, write) for i in index)
    return f"{inner}," if len(index) == 1 else inner


def part(i, write) -> str:
    """Return one part of a subscript."""
    if i.__class__ is slice:
        ends = ["" if v is None else write(v) for v in (i.start, i.stop)]
        return ":".join(ends) + ("" if i.step is None else f":{write(i.step)}")
    if isinstance(i, np.ndarray) and i.ndim and i.size and i.size <= 16 and i.dtype.kind in "ib":
        return repr(i.tolist())
    if isinstance(i, np.ndarray) and not i.ndim:
        i = i[()]
    return "None" if i is None else write(i)


def arguments(positional, named) -> str:
    """Return the inside of a call's parentheses."""
    return ", ".join([*positional, *[f"{k}={v}" for k, v in named.items()]])


def is_name(text: str) -> bool:
    """Tell whether a text may be a variable's name."""
    return text.isidentifier() and not keyword.iskeyword(text)


def weak(x) -> bool:
    """Tell whether an operand is a Python number, or a symbol of one."""
    return x.dtype in PYTHON if x.__class__ is Symbol else x.__class__ in PYTHON
