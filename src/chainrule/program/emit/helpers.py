"""Functions that an emitted module needs in its head: those of our primitives that are more than one expression.

The short ones are written here. The long ones, series and recurrences, are the library's own: the source of the
function and of what it calls, with the constants of its module put in. Both are NumPy and SciPy only.
"""

import ast
import functools
import inspect
import sys
import textwrap
import types

import numpy as np

from chainrule.engine.boxed import array_value, value
from chainrule.engine.spec import shape_of
from chainrule.errors import NoRuleError
from chainrule.program.emit.text import literal

SHORT = {
    "placed": '''
def placed(y, index, v):
    """Write v into the fresh array y, and return it."""
    y[index] = v
    return y
''',
    "added": '''
def added(y, index, v):
    """Add v into the fresh array y, and return it; entries that the index names twice receive both."""
    np.add.at(y, index, v)
    return y
''',
    "sigmoid": '''
def sigmoid(x):
    """Return 1 / (1 + exp(-x)), without overflow."""
    e = np.exp(np.where(np.real(x) < 0, x, -x))
    return np.where(np.real(x) < 0, e, 1) / (1 + e)
''',
    "bell": '''
def bell(x):
    """Return the derivative of the sigmoid."""
    e = np.exp(-np.abs(x))
    return e / ((1 + e) * (1 + e))
''',
    "sech_squared": '''
def sech_squared(x):
    """Return 1 / cosh(x)**2, without overflow."""
    e = np.exp(-2 * np.abs(x))
    return 4 * e / ((1 + e) * (1 + e))
''',
    "one_minus_square": '''
def one_minus_square(x):
    """Return 1 - x**2, exact near 1."""
    return (1 - x) * (1 + x)
''',
    "unit": '''
def unit(x, axis=None):
    """Return x / |x|, and 0 where x is 0."""
    r = length(x, axis=axis, keepdims=True)
    return x * reciprocal_or_zero(r)
''',
}  # name -> source
SUBSTITUTES = {shape_of: "np.shape", value: "np.asarray", array_value: "np.asarray", NoRuleError: "ValueError"}

_long = {}  # name -> (source, names of the helpers it calls)
_names = {}  # function -> its name as a helper


def registered(fun):
    """Return the name of the helper that does what a primitive does."""
    name = fun.__name__
    if name in SHORT:
        needed = called(SHORT[name])
        for other in needed - {name}:
            if other in OTHERS and other not in _long:
                registered(OTHERS[other]())
        return name
    return extracted(fun)


def _primitive(module, name):
    def find():
        return getattr(sys.modules[f"chainrule.rules.{module}"], name)

    return find


OTHERS = {
    "length": _primitive("norms", "length"),
    "reciprocal_or_zero": _primitive("elementwise", "reciprocal_or_zero"),
}


def extracted(fun):
    """Take a function's source over, and that of what it calls; return its name."""
    if fun in _names:
        return _names[fun]
    name = fun.__name__
    while name in _long or name in SHORT:
        name += "_"
    function = getattr(fun, "plain", fun)
    source = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(source).body[0]
    if getattr(tree, "name", None) != fun.__name__:  # a wrapper that goes by the name of what it calls
        raise NotImplementedError(f"the source of {fun.__name__} is not its own")
    _names[fun] = name
    _long[name] = None  # taken
    tree.decorator_list = []
    scope = inspect.getclosurevars(function)
    known = {**scope.globals, **scope.nonlocals}
    known.update({k: v for k, v in function.__globals__.items() if k not in known and k in loaded(tree)})
    edits = [(tree.lineno, tree.col_offset + 4, len(fun.__name__), name)]
    local = {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)} | {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    needed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known and node.id not in local:
            text = stand_in(known[node.id])
            if text in _long or text in SHORT:
                needed.add(text)
            edits.append((node.lineno, node.col_offset, len(node.id), text))
    lines = source.split("\n")
    for line, column, length, text in sorted(set(edits), reverse=True):
        row = lines[line - 1]
        lines[line - 1] = row[:column] + text + row[column + length :]
    start = tree.lineno - 1
    _long[name] = "\n".join(lines[start:]).strip("\n") + "\n", frozenset(needed)
    return name


def loaded(tree):
    """Return the names that a piece of code reads."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def stand_in(x):
    """Return what stands for a global of the library in the emitted source."""
    if x is np:
        return "np"
    if isinstance(x, types.ModuleType) and x.__name__.split(".")[0] in ("math", "scipy"):
        return "scipy.special" if x.__name__ == "scipy.special._ufuncs" else x.__name__
    if isinstance(x, np.ufunc):
        from chainrule.program.emit.calls import path_of

        return path_of(x)
    if x in SUBSTITUTES if callable(x) else False:
        return SUBSTITUTES[x]
    if isinstance(x, int | float | tuple):
        return literal(x)
    if isinstance(x, types.FunctionType) and x.__module__.startswith("chainrule."):
        return extracted(x) if x.__name__ not in SHORT else x.__name__
    if isinstance(x, types.FunctionType | type):
        return x.__name__
    raise NotImplementedError(f"{x!r} can't stand in an emitted module")


@functools.lru_cache(256)
def called(source):
    """Return the names that a module's source reads."""
    return frozenset(loaded(ast.parse(source)))


def helpers_in(source: str) -> list:
    """Return the names of the helpers that a source needs, those first that others call."""
    found = {}

    def add(name):
        if name in found:
            return
        found[name] = None
        for other in sorted(body(name)[1]):
            add(other)

    for name in sorted(called(source)):
        if name in SHORT or name in _long:
            add(name)
    return list(found)[::-1]


def body(name):
    """Return the source of a helper, and what it needs."""
    if name in SHORT:
        text = SHORT[name].strip("\n") + "\n"
        return text, frozenset(n for n in called(text) if n != name and (n in SHORT or n in _long))
    return _long[name]


def head(source: str) -> str:
    """Return the beginning of a module for a source: its imports, and the functions it calls."""
    functions = [body(name)[0] for name in helpers_in(source)]
    whole = "\n".join([*functions, source])
    imports = [f"import {m}" for m in ("math", "numpy as np", "scipy.linalg", "scipy.special")
               if m.split()[0] == "numpy" or uses(whole, m)]  # fmt: skip
    if "import math" in imports and len(imports) > 1:
        imports.insert(1, "")
    return "\n".join(imports) + "\n" + "".join(f"\n\n{f}" for f in functions)


def uses(source, module):
    """Tell whether a source reads something of a module."""
    wanted = module.split(".")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            parts = []
            while isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and [node.id, *reversed(parts)][: len(wanted)] == wanted:
                return True
    return False
