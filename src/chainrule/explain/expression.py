"""Expressions given as text: ``x - exp(-2*sin(4*x)**2)``.

The text is parsed by Python's own `ast` and checked node by node against what is allowed: numbers, names, arithmetic,
comparisons, and calls of the functions listed here. There are no attributes, subscripts, keywords or definitions, and
nothing is ever handed to `eval`: the checked tree becomes a list of operations on a stack, which `Expression` runs with
plain NumPy. So a text from anywhere may be given to it. Its length and depth are bounded, and constants are floats, so
``9**9**9`` overflows at once instead of filling the memory.
"""

import ast
import difflib
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from chainrule.errors import ExpressionError
from chainrule.rules.gates import relu, sigmoid

LONGEST = 4000  # characters
DEEPEST = 100  # brackets, signs or powers within one another

_NAMES = (
    "sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 "
    "log1p logaddexp sqrt cbrt square reciprocal power abs sign floor ceil hypot maximum minimum sinc where "
    "sum prod mean max min dot"
)
FUNCTIONS = {**{name: getattr(np, name) for name in _NAMES.split()}, "relu": relu, "sigmoid": sigmoid}
CONSTANTS = {"pi": np.pi, "e": np.e, "inf": np.inf}
_OTHER_NAMES = {
    "ln": "log", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "arctg": "arctan",
    "tg": "tan", "fabs": "abs", "pow": "power", "logistic": "sigmoid",
}  # fmt: skip
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.MatMult: operator.matmul,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_ARITY = {
    "arctan2": 2, "logaddexp": 2, "power": 2, "hypot": 2, "maximum": 2, "minimum": 2, "dot": 2, "where": 3,
}  # fmt: skip
_SEEN_INSTEAD = {
    ast.Attribute: ("a dot may not follow a name", "write functions by their name alone:  sin(x), not np.sin(x)."),
    ast.Subscript: ("an index is not allowed", "give each entry a name of its own."),
    ast.Lambda: ("a definition is not allowed", "write the expression itself."),
    ast.IfExp: ("`if` is not allowed", "use  where(condition, a, b)."),
    ast.BoolOp: ("`and` and `or` are not allowed", "use  where(condition, a, b)  within one another."),
    ast.BitXor: ("^ is not a power in Python", "write  x**2."),
    ast.List: ("a list is not allowed here", 'give arrays by name:  --at "x=[1, 2, 3]".'),
    ast.Tuple: ("a comma may only stand between the arguments of a function", "explain one expression at a time."),
}  # fmt: skip


class Expression:
    """A checked expression. Calling it with a value for each of `names`, in order, evaluates it.

    Attributes
    ----------
    source : str
        The text.
    names : tuple of str
        Its variables, in the order of their first appearance.

    Raises
    ------
    ExpressionError
        If the text is no expression of what is allowed; the message points at the column.

    Examples
    --------
    >>> f = Expression("x * y + exp(x * y)")
    >>> f.names
    ('x', 'y')
    >>> float(f(1.0, 2.0))
    9.38905609893065
    """

    def __init__(self, source: str):
        self.source = cleaned(source)
        tree = parsed(self.source, self.source, 0)
        self._code = Compiler(self.source, 0).run(tree)
        self.names = tuple(dict.fromkeys([name for kind, name, _ in self._code if kind == "name"]))
        self.__name__ = "f"

    def __call__(self, *values: Any) -> Any:
        """Evaluate at the values of `names`, in order."""
        variables = dict(zip(self.names, values, strict=True))
        stack = []
        for kind, what, count in self._code:
            if kind == "name":
                stack.append(variables[what])
            elif kind == "number":
                stack.append(what)
            else:
                operands = stack[len(stack) - count :]
                del stack[len(stack) - count :]
                stack.append(what(*operands))
        return stack[0]


def assignments(text: str) -> dict[str, Any]:
    """Read ``"x=pi/16, y=[1, 2]"``: names and their values, numbers or arrays.

    The values are expressions of constants; a list of them is an array.

    Raises
    ------
    ExpressionError
        If the text is something else; the message points at the column.

    Examples
    --------
    >>> assignments("x=1/4, y=[1, 2]")
    {'x': 0.25, 'y': array([1., 2.])}
    """
    text = cleaned(text)
    call = parsed(f"at({text})", text, 3)
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "at"):
        raise ExpressionError(text, 0, "this is no list of values.", "write  name=value, name=value.")
    compiler = Compiler(text, 3)
    for a in call.args:
        raise ExpressionError(
            text, compiler.column(a), "a value needs a name before it.", "write  name=value, name=value."
        )
    values = {}
    for k in call.keywords:
        if k.arg is None:
            raise ExpressionError(text, compiler.column(k), "** is not allowed here.", "write  name=value, name=value.")
        if k.arg in CONSTANTS or k.arg in FUNCTIONS:
            raise ExpressionError(
                text, compiler.column(k), f"{k.arg} has a meaning of its own.", "give the variable another name."
            )
        if k.arg in values:
            raise ExpressionError(text, compiler.column(k), f"{k.arg} is given twice.")
        values[k.arg] = constant(k.value, compiler)
    return values


def constant(node, compiler):
    """Return the number, or array, that a constant expression stands for."""
    if isinstance(node, ast.List | ast.Tuple):
        parts = [constant(n, compiler) for n in node.elts]
        if not parts:
            compiler.fail(node, "an array needs an entry.", "write  x=[1, 2].")
        if len({np.shape(p) for p in parts}) > 1:
            compiler.fail(node, "the rows of an array must have the same length.")
        return np.array(parts)
    code = compiler.run(node)
    if len(code) != 1 or code[0][0] != "number":
        name = next(n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in CONSTANTS)
        compiler.fail(name, f"{name.id} has no value here.", "write numbers, or pi, e, inf.")
    if np.shape(code[0][1]) or not isinstance(code[0][1], float):
        compiler.fail(node, "this is not a number.")
    return float(code[0][1])


def suggestion(name: str, known: Iterable[str]) -> tuple:
    """Return advice that names the closest of the known names, or lists them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 3, 0.6)
    if name in _OTHER_NAMES and _OTHER_NAMES[name] in known:
        close = [_OTHER_NAMES[name]]
    if close:
        return (f"did you mean {' or '.join(close)}?",)
    return (f"known are: {', '.join(known)}.",) if known else ()


def cleaned(source):
    """Return the text without blanks around it, refusing what is too long and what can't be printed."""
    for blank in "\n\r\t":
        source = source.replace(blank, " ")
    source = source.strip()
    if not source:
        raise ExpressionError("", 0, "the text is empty.")
    if len(source) > LONGEST:
        raise ExpressionError(
            source[:60] + "…", 60, f"the text has {len(source)} characters; at most {LONGEST} are read."
        )
    for column, c in enumerate(source):
        if not c.isprintable():
            shown = "".join(c if c.isprintable() else "?" for c in source)
            raise ExpressionError(shown, column, f"the character {c!r} is not allowed.")
    return source


def parsed(text, source, shift):
    """Parse a text that starts `shift` columns before `source` does; errors point into `source`."""
    check_depth(source)
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        what = error.msg.partition(" (<")[0].rstrip(".?")
        advice = ("write a product with *:  3*x.",) if "literal" in what else ()
        if error.offset:
            column = min(max(error.offset - 1 - shift, 0), len(source))
        else:  # the end came too early
            column, what = len(source), "the expression is not complete"
        raise ExpressionError(source, column, f"{what[0].lower()}{what[1:]}.", *advice) from None
    except (RecursionError, MemoryError):
        raise ExpressionError(source, 0, "the expression is nested too deeply.") from None
    except ValueError as error:
        raise ExpressionError(source, 0, f"{error}.") from None


def check_depth(source):
    """Refuse brackets, or a row of signs, deeper than the parser can be trusted with."""
    depth = signs = 0
    for column, c in enumerate(source):
        depth += (c in "([{") - (c in ")]}")
        signs = signs + 1 if c in "+-~" else signs if c == " " else 0
        if depth > DEEPEST or signs > DEEPEST:
            raise ExpressionError(source[: column + 1], column, "the expression is nested too deeply.")


class Compiler:
    """Turns a checked tree into operations on a stack: (kind, what, number of operands)."""

    def __init__(self, source, shift):
        self.source, self.shift = source, shift

    def column(self, node):
        """Return the column of a node: `ast` counts bytes."""
        before = (" " * self.shift + self.source).encode()[: node.col_offset]
        return min(max(len(before.decode(errors="replace")) - self.shift, 0), len(self.source))

    def fail(self, node, what, *advice):
        """Raise an error that points at a node."""
        raise ExpressionError(self.source, self.column(node), what, *advice)

    def run(self, tree):
        """Compile a tree, without recursion: a node is met twice, before its operands and after them."""
        code = []
        work = [(tree, None)]
        while work:
            node, ready = work.pop()
            if ready is not None:
                self.emit(code, node, *ready)
                continue
            kind, what, operands = self.read(node)
            if kind == "call":
                work.append((node, (what, len(operands))))
                work.extend((n, None) for n in reversed(operands))
            else:
                code.append((kind, what, 0))
        return code

    def emit(self, code, node, function, count):
        """Append an operation; one on numbers alone is done at once."""
        operands = code[len(code) - count :]
        if any(kind != "number" for kind, _, _ in operands):
            code.append(("call", function, count))
            return
        del code[len(code) - count :]
        try:
            with np.errstate(all="ignore"):
                y = function(*[what for _, what, _ in operands])
        except ZeroDivisionError:
            self.fail(node, "this divides by zero.")
        except OverflowError:
            self.fail(node, "this number is too large.")
        except (TypeError, ValueError) as error:
            self.fail(node, f"this can't be computed: {error}.")
        if isinstance(y, complex) or y != y:
            self.fail(node, "this has no real value.")
        code.append(("number", bool(y) if isinstance(y, bool | np.bool_) else float(y), 0))

    def read(self, node):
        """Return (kind, what, operands) of one node, or raise."""
        if isinstance(node, ast.Constant):
            return "number", self.number(node), ()
        if isinstance(node, ast.Name):
            if node.id in CONSTANTS:
                return "number", CONSTANTS[node.id], ()
            if node.id in FUNCTIONS:
                self.fail(node, f"{node.id} is a function.", f"call it:  {node.id}(x).")
            return "name", node.id, ()
        if isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) in _OPERATORS:
            operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.operand,)
            return "call", _OPERATORS[type(node.op)], operands
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                self.fail(node, "a chain of comparisons is not allowed.", "compare two values at a time.")
            if type(node.ops[0]) in _OPERATORS:
                return "call", _OPERATORS[type(node.ops[0])], (node.left, *node.comparators)
            self.fail(node, "this comparison is not allowed.", "use  <, <=, > or >=.")
        if isinstance(node, ast.Call):
            return self.call(node)
        kind = type(getattr(node, "op", None)) if isinstance(node, ast.BinOp) else type(node)
        what, *advice = _SEEN_INSTEAD.get(kind, ("this is not allowed in an expression",))
        self.fail(node, f"{what}.", *advice)

    def number(self, node):
        """Return a literal as a float."""
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            self.fail(node, f"{ast.unparse(node)[:30]} is not a real number.")
        try:
            x = float(node.value)
        except OverflowError:
            x = np.inf
        if x == np.inf:
            self.fail(node, "this number is too large.")
        return x

    def call(self, node):
        """Check a call: a known name, plain arguments, as many as the function takes."""
        if not isinstance(node.func, ast.Name):
            if isinstance(node.func, ast.Attribute):
                self.read(node.func)
            self.fail(node.func, "only functions can be called.", "write  *  for a product.")
        name = node.func.id
        if name not in FUNCTIONS:
            if name in CONSTANTS:
                self.fail(node.func, f"{name} is a number and can't be called.", f"write  {name}*(...).")
            self.fail(node.func, f"there is no function {name}.", *suggestion(name, FUNCTIONS))
        for k in node.keywords:
            self.fail(k, "arguments by name are not allowed.")
        for a in node.args:
            if isinstance(a, ast.Starred):
                self.fail(a, "* is not allowed here.")
        count = _ARITY.get(name, 1)
        if len(node.args) != count:
            self.fail(node, f"{name} takes {count} argument{'s' * (count > 1)}, not {len(node.args)}.")
        return "call", FUNCTIONS[name], tuple(node.args)
