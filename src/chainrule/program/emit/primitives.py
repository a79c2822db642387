"""Our own primitives, and the functions of NumPy that read better as methods, written as a person would.

One line for each: a function of ``write``, which writes an operand, and of the call's operands and parameters, that
returns the expression. None leaves the call to the general path. `LINES` is of those that are written as statements:
zeros or a copy, and a write into it.
"""

import math
import sys
from typing import Any

import numpy as np

from chainrule.engine import indexing, spec
from chainrule.engine.rule import RULES
from chainrule.program.emit.helpers import registered
from chainrule.program.emit.text import ATOM, SUM, arguments, binding, literal, owner, subscript, weak, within
from chainrule.program.ir import PYTHON, Symbol

EXPRESSIONS: dict[Any, Any] = {}  # function -> how(write, *inputs, **params): an expression
LINES: dict[Any, Any] = {}  # function -> how(write, target, *inputs, **params): statements that make `target`


def writes(*funs, table=EXPRESSIONS):
    """Decorate the function that writes calls of `funs`."""

    def declare(how):
        for fun in funs:
            table[fun] = how
        return how

    return declare


def is_array(x):
    """Tell whether an operand is an array or a scalar of NumPy, so that it has NumPy's methods."""
    return x.__class__ is Symbol and x.dtype not in PYTHON


def size_text(shape):
    """Return a shape as the argument of zeros, sum and so on: a number if there is one axis."""
    return str(shape[0]) if len(shape) == 1 else literal(tuple(shape))


# -- sums and spreads ----------------------------------------------------------------------------------------


@writes(spec.sum_to)
def sum_to(write, x, shape):
    """Sum over the axes in front, over those of length 1, or both."""
    have = x.shape if x.__class__ is Symbol else np.shape(x)
    if have == shape:
        return write(x)
    extra = len(have) - len(shape)
    axes = [*range(extra), *[i + extra for i, n in enumerate(shape) if n == 1 and have[i + extra] != 1]]
    spread = have[extra:] != shape
    if not axes:
        return f"{owner(write(x))}.reshape({size_text(shape)})"
    named = {}
    if len(axes) < len(have):
        named["axis"] = str(axes[0]) if len(axes) == 1 else literal(tuple(axes))
    if spread and not extra:
        named["keepdims"] = "True"
    summed = method("sum", write(x), named)
    return f"{summed}.reshape({literal(shape)[1:-1].rstrip(',')})" if spread and extra else summed


def method(name, text, named):
    """Return ``x.sum(...)`` of a name, ``np.sum(x * y, ...)`` of an expression."""
    if text.replace(".", "").replace("_", "").isalnum() and not text[0].isdigit():
        return f"{text}.{name}({arguments([], named)})"
    return f"np.{name}({arguments([text], named)})"


@writes(spec.spread_to)
def spread_to(write, x, shape):
    """Fill an array, or copy one along new axes."""
    if (x.shape if x.__class__ is Symbol else np.shape(x)) == ():
        return f"np.full({size_text(shape)}, {write(x)})"
    return f"np.broadcast_to({write(x)}, {literal(shape)}).copy()"


@writes(spec.cast_to)
def cast_to(write, x, dtype):
    """Cast; of a complex number take the real part first."""
    text, have = write(x), np.dtype(x.dtype if x.__class__ is Symbol else np.asarray(x).dtype)
    if dtype.kind in "fiub" and have.kind == "c":
        text, have = f"{owner(text)}.real", np.empty(0, have).real.dtype
        if have == dtype:
            return text
    if is_array(x):
        return f"{owner(text)}.astype({literal(dtype)})"
    return f"np.{'longdouble' if dtype.char == 'g' else 'clongdouble' if dtype.char == 'G' else dtype.name}({text})"


@writes(spec.choose)
def choose(write, mask, x):
    """Select; scalars by Python's own condition, whose other branch is the number 0."""
    shapes = [v.shape if v.__class__ is Symbol else np.shape(v) for v in (mask, x)]
    if shapes == [(), ()]:
        if weak(x):
            return f"{within(write(x), SUM)} if {within(write(mask), SUM)} else 0.0"
        return f"np.where({write(mask)}, {write(x)}, 0.0)[()]"
    return f"np.where({write(mask)}, {write(x)}, 0.0)"


# -- subscripts and writes -----------------------------------------------------------------------------------


@writes(indexing.getitem)
def getitem(write, x, index):
    """Write a subscript."""
    return f"{owner(write(x))}[{subscript(index, write)}]"


@writes(indexing.picked)
def picked(write, x, where):
    """Read at flat positions."""
    text = write(x) if len(x.shape) == 1 else f"{owner(write(x))}.ravel()"
    return f"{owner(text)}[{subscript(where, write)}]"


def zeros(shape, dtype):
    """Return zeros as source."""
    return f"np.zeros({size_text(shape)}{'' if dtype == np.dtype(float) else f', {literal(dtype)}'})"


def repeats(index):
    """Tell whether an index may name an entry twice."""
    if index.__class__ is tuple:
        return any(repeats(i) for i in index)
    if index.__class__ is Symbol:
        return index.shape != () and np.dtype(index.dtype).kind != "b"
    if isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "iu" and (index >= 0).all():
        return len(np.unique(index)) < len(index)
    return indexing.may_repeat(index)


def dtype_of(x, given=None):
    """Return the dtype of an operand."""
    return np.dtype(given or (x.dtype if x.__class__ is Symbol else np.asarray(x).dtype))


@writes(indexing.scatter, table=LINES)
def scatter_lines(write, target, v, index, shape, dtype=None):
    """Write into zeros; what is named twice is added up."""
    made = f"{target} = {zeros(shape, dtype_of(v, dtype))}"
    if repeats(index):
        return [made, f"np.add.at({target}, {index_text(index, write)}, {write(v)})"]
    return [made, f"{target}[{subscript(index, write)}] = {write(v)}"]


@writes(indexing.scatter)
def scatter(write, v, index, shape, dtype=None):
    """Return the same as one expression."""
    name = "added" if repeats(index) else "placed"
    return f"{name}({zeros(shape, dtype_of(v, dtype))}, {index_text(index, write)}, {write(v)})"


@writes(indexing.unpicked, table=LINES)
def unpicked_lines(write, target, v, where, shape):
    """Add into zeros at flat positions."""
    if len(shape) == 1:
        return [f"{target} = {zeros(shape, dtype_of(v))}", f"np.add.at({target}, {write(where)}, {write(v)})"]
    return [f"{target} = {unpicked(write, v, where, shape)}"]


@writes(indexing.unpicked)
def unpicked(write, v, where, shape):
    """Return the same as one expression."""
    flat = f"added({zeros((math.prod(shape),), dtype_of(v))}, {write(where)}, {write(v)})"
    return flat if len(shape) == 1 else f"{flat}.reshape({literal(tuple(shape))})"


@writes(indexing.put, table=LINES)
def put_lines(write, target, x, v, index):
    """Write into a copy."""
    return [f"{target} = {copied(write, x)}", f"{target}[{subscript(index, write)}] = {write(v)}"]


@writes(indexing.put)
def put(write, x, v, index):
    """Return the same as one expression."""
    return f"placed({copied(write, x)}, {index_text(index, write)}, {write(v)})"


def copied(write, x):
    """Return a copy as source; of 0-d values an array, which can be written to."""
    return f"{owner(write(x))}.copy()" if is_array(x) and x.shape else f"np.array({write(x)})"


def index_text(index, write):
    """Return a subscript as an argument."""
    text = subscript(index, write)
    plain = index.__class__ is not tuple and index.__class__ is not slice and index is not Ellipsis
    return text if plain else f"np.s_[{text}]"


# -- functions of NumPy that read better as methods and attributes ------------------------------------------------


@writes(np.transpose, np.matrix_transpose)
def transpose(write, a, axes=None):
    """Write .T where it is the transpose."""
    if is_array(a) and len(a.shape) <= 2 and (axes is None or tuple(axes) in ((1, 0), (-1, -2), (-1, 0), (1, -2))):
        return f"{owner(write(a))}.T"
    return None


@writes(np.swapaxes)
def swapaxes(write, a, axis1, axis2):
    """Write .T of a matrix."""
    if is_array(a) and len(a.shape) == 2 and {axis1 % 2, axis2 % 2} == {0, 1}:
        return f"{owner(write(a))}.T"
    return f"np.swapaxes({write(a)}, {literal(axis1)}, {literal(axis2)})"


@writes(np.reshape)
def reshape(write, a, shape=None, **others):
    """Write the method."""
    if shape is None or others:
        return None
    if is_array(a) and shape == a.shape:
        return write(a)
    if not is_array(a):
        return f"np.reshape({write(a)}, {write(shape)})"
    inner = write(shape)
    if inner.startswith("(") and len(shape):
        inner = ", ".join(map(write, shape))
    return f"{owner(write(a))}.reshape({inner})"


@writes(np.copy)
def copy(write, a, order="K"):
    """Write the method, which copies by rows: what is written to is a copy of its own in a program, of any order."""
    return f"{owner(write(a))}.copy()" if is_array(a) and a.shape and order in ("K", "C") else None


@writes(np.ravel)
def ravel(write, a, **others):
    """Write the method."""
    return f"{owner(write(a))}.ravel()" if is_array(a) and not others else None


@writes(np.clip)
def clip(write, x, low, high):
    """Leave a clip without limits out."""
    return f"+{owner(write(x))}" if low is None and high is None else None


def call(text, *positional, **named):
    """Return a call, without the keyword arguments that are None or False."""
    named = {k: v for k, v in named.items() if v not in ("None", "False")}
    return f"{text}({arguments(positional, named)})"


def axis_of(axis, keepdims=False):
    """Return the two arguments of a reduction."""
    return {"axis": literal(axis), "keepdims": literal(keepdims)}


def of_spread(name):
    """Write np.var or np.std."""

    def how(w, x, axis=None, dtype=None, ddof=0, keepdims=False, where=True):
        named = axis_of(axis, keepdims) | {"ddof": literal(ddof) if ddof else "None", "dtype": literal(dtype)}
        return call(name, w(x), **named, where="None" if where is True else w(where))

    return how


def quantile(w, x, q=0.5, axis=None, keepdims=False, method="linear", leave_nan=False, percent=False):
    """Write one of four functions."""
    name = f"np.{'nan' if leave_nan else ''}{'percentile' if percent else 'quantile'}"
    method = "None" if method == "linear" else literal(method)
    return call(name, w(x), w(q), method=method, **axis_of(axis, keepdims))


def length(w, x, axis=None, keepdims=False):
    """Write the norm; over several axes of several vectors it is a function of ours."""
    if axis.__class__ is tuple:
        return None
    return call("np.linalg.norm", w(x), **axis_of(axis, keepdims))


def simple(text):
    """Tell whether an operand may stand twice: a name."""
    return binding(text) == ATOM and "(" not in text


def one_minus_square(w, x):
    """Write the factors."""
    text = w(x)
    return f"(1 - {text}) * (1 + {text})" if simple(text) else None


def interp(w, fp, x=None, xp=None, left=None, right=None):
    """Write np.interp."""
    return call("np.interp", w(x), w(xp), w(fp), left=w(left), right=w(right))


def linspace(w, start, stop, num, endpoint, axis):
    """Write np.linspace."""
    ends = {} if endpoint else {"endpoint": "False "}
    return call("np.linspace", w(start), w(stop), w(num), **ends, axis=literal(axis) if axis else "None").replace(
        "False )", "False)").replace("False ,", "False,")  # fmt: skip


COMPLETE = ', "complete"'
# fmt: off
BY_NAME = {  # name of a primitive -> how it is written
    "real_part":        lambda w, x: f"{owner(w(x))}.real",
    "imag_part":        lambda w, x: f"{owner(w(x))}.imag",
    "number":           lambda w, x: f"{owner(w(x))}.item()" if is_array(x) else w(x),
    "relu":             lambda w, x: f"np.maximum({w(x)}, 0)",
    "one_minus_square": one_minus_square,
    "fraction":         lambda w, x: f"np.modf({w(x)})[0]",
    "mantissa":         lambda w, x: f"np.frexp({w(x)})[0]",
    "replaced":         lambda w, x, **k: call("np.nan_to_num", w(x), **{n: w(v) for n, v in k.items()}),
    "flatten":          lambda w, x, order="C": f"{owner(w(x))}.flatten({'' if order == 'C' else literal(order)})",
    "diagonal_matrix":  lambda w, v, k=0: f"np.diag({w(v)}{f', {k}' if k else ''})",
    "spaced":           linspace,
    "einsum2":          lambda w, a, b, subscripts: f"np.einsum({literal(subscripts)}, {w(a)}, {w(b)})",
    "diagonals":        lambda w, x, subscripts: f"np.einsum({literal(subscripts)}, {w(x)})",
    "cross3":           lambda w, a, b: f"np.cross({w(a)}, {w(b)})",
    "length":           length,
    "variance":         of_spread("np.var"),
    "deviation_of":     of_spread("np.std"),
    "quantile_of":      quantile,
    "median_of":        lambda w, x, axis=None, keepdims=False, leave_nan=False: call(
                            "np.nanmedian" if leave_nan else "np.median", w(x), **axis_of(axis, keepdims)),
    "cholesky":         lambda w, a: f"np.linalg.cholesky({w(a)})",
    "qr":               lambda w, a, complete=False: f"np.linalg.qr({w(a)}{COMPLETE if complete else ''})",
    "eigh":             lambda w, a, UPLO="L": f"np.linalg.eigh({w(a)}{'' if UPLO == 'L' else f', {literal(UPLO)}'})",
    "eig":              lambda w, a: f"np.linalg.eig({w(a)})",
    "svd":              lambda w, a, full=False: f"np.linalg.svd({w(a)}{'' if full else ', full_matrices=False'})",
    "through_values":   interp,
    "characteristic":   lambda w, a: f"np.poly({w(a)})",
    "log_of_sum":       lambda w, a, axis=None: call("scipy.special.logsumexp", w(a), **axis_of(axis, True)),
    "soft_max":         lambda w, x, axis=None: call("scipy.special.softmax", w(x), axis=literal(axis)),
    "log_soft_max":     lambda w, x, axis=None: call("scipy.special.log_softmax", w(x), axis=literal(axis)),
}
# fmt: on
EXPRESSIONS[np.ldexp] = lambda w, x, i: f"np.ldexp({w(x)}, {w(i)})"
EXPRESSIONS[np.broadcast_to] = lambda w, x, shape, **o: None if o else f"np.broadcast_to({w(x)}, {w(shape)})"
EXPRESSIONS[np.conjugate] = lambda w, x, **o: None if o else f"np.conj({w(x)})"
MATRIX_FUNCTIONS = ("expm", "logm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")


def primitive_text(fun, write, inputs, params):
    """Return a call of one of our primitives as source; None if `fun` is none.

    One that is not in the table becomes a function of its own, in the module's head.
    """
    plain = getattr(fun, "plain", None)
    if plain is None or fun not in RULES:
        return None
    name = fun.__name__
    how = BY_NAME.get(name) if in_table(fun) else None
    if how is not None:
        text = how(write, *inputs, **params)
        if text is not None:
            return text
    if name in MATRIX_FUNCTIONS and fun.__module__.endswith("scipy_linalg"):
        return f"scipy.linalg.{name}({write(inputs[0])})"
    if name[-2:] in ("_0", "_1") and hasattr(sys.modules.get("scipy.special"), name[:-2]):
        return f"scipy.special.{name[:-2]}({write(inputs[0])})[{name[-1]}]"
    named = {k: write(v) for k, v in params.items()}
    return f"{registered(fun)}({arguments(map(write, inputs), named)})"


def in_table(fun):
    """Tell whether the table means this function: it is of `chainrule.rules`, not of a user with the same name."""
    return fun.__module__.startswith("chainrule.")
