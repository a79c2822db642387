"""How calls on arrays are written: which are views, which write into memory they are given, and in what words.

NumPy's public functions spend more time on their arguments than on small arrays. So a call is written by the shortest
way to the same numbers: ufuncs with an array to write to, ``x.dot`` for products of matrices and for sums, which are
products with ones, and numbers as arrays without axes, which a ufunc need not convert.
"""

import math

import numpy as np

from chainrule.engine import indexing
from chainrule.engine.spec import cast_to, choose, real_part, spread_to, sum_to
from chainrule.program.backend import numbers
from chainrule.program.backend.numbers import FLOAT, function_of
from chainrule.program.emit.text import literal, subscript
from chainrule.program.ir import PYTHON, Equation, Guard, Symbol, symbols_in
from chainrule.program.loops.ir import Loop, Pop

VIEWS = {np.transpose, np.reshape, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis, np.broadcast_to, np.ravel}
SUMS = {np.sum: "add", np.mean: "add", np.prod: "multiply", np.max: "maximum", np.min: "minimum"}
EXTREMA = {np.maximum, np.minimum}  # they take no third argument by place
ARITHMETIC = {
    np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.minimum, np.fmax, np.fmin, np.greater,
    np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.arctan2, np.hypot, np.logaddexp, np.copysign,
}  # fmt: skip
IN_NAMES = str.maketrans({"-": "minus", ".": "_", "+": None, "(": None, ")": None})
SHORT_SUM = (
    8192  # sums of up to so many numbers are products with ones; NumPy's own order is more exact for longer ones
)


def kind_of(e) -> str:
    """Tell how an equation is run.

    ========= ======================================================================================
    guard     a question that Python asked
    number    Python's operators on numbers
    same      the operand itself
    view      another view of the operand's memory (or of a copy, for some reshapes)
    out       a call that can write to given memory; ``elementwise`` if also to that of an operand
    scatter   zeros with a write
    put       a copy with a write: a write into the operand if that is read no more
    take      a number out of an array: a full sum, a product of vectors, an entry
    loop      rounds of equations; ``pop`` takes one off the stack that they made
    call      anything else
    ========= ======================================================================================
    """
    if e.__class__ is Guard:
        return "guard"
    if e.__class__ is Loop:
        return "loop"
    if e.__class__ is Pop:
        return "pop"
    if e.__class__ is not Equation:  # a cluster, or a kernel of machine code
        return e.kind
    s = e.output
    if s.__class__ is not Symbol:
        return "call"
    if numbers.expression(e) is not None:
        return "number"
    if s.dtype in PYTHON or s.dtype is None:
        return "call"
    fun, xs = function_of(e), e.inputs
    x = xs[0] if xs else None
    if x.__class__ is not Symbol and fun not in (np.where, choose) and not isinstance(fun, np.ufunc):
        return "call"
    if s.shape == ():
        return "take" if is_take(e, fun, x) else "call"
    if x.__class__ is Symbol and x.dtype not in PYTHON and x.shape != () and is_same(e, fun, x, s):
        return "same"
    if x.__class__ is Symbol and x.shape != () and x.dtype not in PYTHON and s.dtype == x.dtype:
        if fun in VIEWS or is_of_one(e, fun, x, s):
            return "view"
        if fun is indexing.getitem:
            return "view" if is_basic(e.params["index"]) else "call"
    if fun is indexing.scatter and is_basic(e.params["index"]):
        return "scatter"
    if fun is indexing.put and is_basic(e.params["index"]) and x.shape == s.shape and x.dtype == s.dtype:
        return "put"
    return out_kind(e, fun, xs, s)


def is_same(e, fun, x, s) -> bool:
    """Tell whether an equation gives its first operand."""
    if x.shape != s.shape or x.dtype != s.dtype:
        return False
    if fun is np.power:
        return e.inputs[1].__class__ in (int, float) and e.inputs[1] == 1 and x.dtype.kind == "f" and not e.params
    return fun in (sum_to, np.reshape, np.positive, cast_to, real_part, np.broadcast_to) and (
        fun is not real_part or x.dtype.kind == "f") and "order" not in e.params  # fmt: skip


def is_of_one(e, fun, x, s) -> bool:
    """Tell whether an equation reduces axes of length 1 only, and gives what it takes: a sum of -0.0 is 0.0."""
    if fun is sum_to:
        return x.size == s.size > 0
    return fun in SUMS and SUMS[fun] != "add" and x.size == s.size > 0 and plain_sum(e, x) is not None


def is_take(e, fun, x) -> bool:
    """Tell whether an equation takes a number out of an array by a call that is known here."""
    if x.__class__ is not Symbol or x.shape == () or x.dtype in PYTHON:
        return False
    if fun in SUMS:
        return plain_sum(e, x) is not None
    if fun is sum_to:
        return True
    if fun in (np.matmul, np.dot):
        return not e.params and is_vector_product(e.inputs)
    return fun is indexing.getitem and entry(e.params["index"], x.shape) is not None


def is_vector_product(xs) -> bool:
    """Tell whether the operands are two vectors of one inexact dtype."""
    return all(x.__class__ is Symbol and len(x.shape) == 1 and x.dtype.kind in "fc" for x in xs) and (
        xs[0].dtype == xs[1].dtype)  # fmt: skip


def entry(index, shape):
    """Return an index of integers, one for each axis, as a tuple; None if it is another."""
    index = index if index.__class__ is tuple else (index,)
    if len(index) == len(shape) and all(i.__class__ is int or isinstance(i, np.integer) for i in index):
        return tuple(map(int, index))
    return None


def is_basic(index) -> bool:
    """Tell whether an index has no arrays, so that it views."""
    if index.__class__ is tuple:
        return all(i.__class__ is not tuple and is_basic(i) for i in index)
    if index.__class__ is slice:
        return all(v is None or isinstance(v, int | np.integer) for v in (index.start, index.stop, index.step))
    return index is None or index is Ellipsis or index.__class__ is int or isinstance(index, np.integer)


def plain_sum(e, x):
    """Return (axes, keepdims) of a reduction without other options; None if it has some."""
    if not e.params.keys() <= {"axis", "keepdims"} or len(e.inputs) != 1 or x.dtype.char not in "dfDF":
        return None
    if function_of(e) in (np.max, np.min) and x.dtype.kind == "c":
        return None
    axis = e.params.get("axis")
    axes = range(len(x.shape)) if axis is None else axis if axis.__class__ is tuple else (axis,)
    if any(not isinstance(a, int | np.integer) for a in axes):
        return None
    return tuple(sorted(int(a) % len(x.shape) for a in axes)), bool(e.params.get("keepdims", False))


def summed_axes(x, shape):
    """Return (axes, keepdims) of a sum down to a shape; None if it needs a reshape as well."""
    extra = len(x.shape) - len(shape)
    rest = x.shape[extra:]
    if rest == shape:
        return tuple(range(extra)), False
    return (tuple(i for i, n in enumerate(shape) if n != rest[i]), True) if extra == 0 else None


def out_kind(e, fun, xs, s) -> str:
    """Tell whether an equation's call can write to given memory."""
    if e.params and isinstance(fun, np.ufunc):
        return "call"
    if fun in (np.matmul, np.dot):
        known = all(x.__class__ is Symbol and x.dtype not in PYTHON and x.dtype == s.dtype and x.shape for x in xs)
        known = known and not e.params and s.dtype.char in "dfDF"
        return "out" if known and (fun is np.matmul or all(len(x.shape) <= 2 for x in xs)) else "call"
    if isinstance(fun, np.ufunc):
        if fun.nout != 1 or fun.signature is not None or s.dtype.char not in "?bhilqBHILQdfDFe":
            return "call"
        if fun is np.power and xs[1].__class__ in (int, float) and xs[1] in (3, 4) and s.dtype.kind == "f":
            return "out"
        return "elementwise"
    if fun in SUMS:
        return "out" if plain_sum(e, xs[0]) is not None else "call"
    if fun is sum_to:
        return "out" if xs[0].dtype.char in "dfDF" and summed_axes(xs[0], s.shape) is not None else "call"
    if fun is spread_to:
        return "out"
    if fun is np.concatenate:
        known = all(x.__class__ is Symbol and x.dtype == s.dtype and x.dtype not in PYTHON for x in xs)
        return "out" if known and e.params.keys() <= {"axis"} and e.params.get("axis", 0) is not None else "call"
    if fun in (np.where, choose) and not e.params and len(xs) == (3 if fun is np.where else 2):
        mask = xs[0]
        known = mask.__class__ is Symbol and mask.dtype == np.dtype(bool) and s.dtype == FLOAT
        return "out" if known and all(is_double(x) for x in xs[1:]) else "call"
    return "call"


def is_double(x) -> bool:
    """Tell whether an operand is a float64 number or array, or a Python float."""
    return numbers.is_float(x) or (x.__class__ is Symbol and x.dtype == FLOAT)


class Words:
    """Writes calls. `at` gives the source of an operand, `bind` a name for a constant of the program's namespace."""

    def __init__(self, at, bind) -> None:
        self.at, self.bind = at, bind

    def ones(self, *shape) -> str:
        """Return the name of an array of ones."""
        return self.bind("ones" + "x".join(map(str, shape)), np.ones(shape))

    def out(self, e, target):
        """Return the lines of a call that writes to `target`, or an expression of its result if that is None."""
        fun, xs, s = function_of(e), e.inputs, e.output
        if fun in (np.matmul, np.dot):
            return self.product(xs, target)
        if isinstance(fun, np.ufunc):
            return self.ufunc(e, fun, xs, target)
        if fun is np.concatenate:
            parts, axis = ", ".join([self.at(None, x) for x in xs]), e.params.get("axis", 0)
            return f"concatenate([{parts}], {axis}{'' if target is None else f', {target}'})"
        if fun is spread_to:
            return [f"{target}[...] = {self.at(e, xs[0])}"]
        if fun is np.where or fun is choose:
            other = self.at(e, xs[2]) if fun is np.where else "0.0"
            return [f"{target}[...] = {other}", f"copyto({target}, {self.at(e, xs[1])}, where={self.at(e, xs[0])})"]
        x = xs[0]
        axes, keep = summed_axes(x, s.shape) if fun is sum_to else plain_sum(e, x)
        return self.reduction(e, fun, x, axes, keep, target)

    def needs_memory(self, e) -> bool:
        """Tell whether `out` has no expression for a call."""
        return function_of(e) in (spread_to, np.where, choose)

    def ufunc(self, e, fun, xs, target) -> str:
        """Write an elementwise call."""
        last = "" if target is None else f", {target}"
        real = e.output.dtype.kind == "f"
        if fun is np.multiply and real and xs[0] is xs[1]:
            return f"square({self.at(e, xs[0])}{last})"
        if fun is np.power and real and xs[1].__class__ in (int, float):
            x = self.at(e, xs[0])
            if xs[1] == 2:
                return f"square({x}{last})"
            if xs[1] == 3:
                return f"multiply(square({x}{last}), {x}{last})"
            if xs[1] == 4:
                return f"square(square({x}{last}){last})"
            if xs[1] == -1:
                return f"reciprocal({x}{last})"
        name = fun.__name__
        if fun in EXTREMA and target is not None:
            last = f", out={target}"
        name = self.bind(name if getattr(np, name, None) is fun else f"special_{name}", fun)
        return f"{name}({', '.join([self.at(e, x) for x in xs])}{last})"

    def product(self, xs, target) -> str:
        """Write a product of matrices and vectors."""
        a, b = [self.at(None, x) for x in xs]
        last = "" if target is None else f", {target}"
        if len(xs[0].shape) <= 2 and len(xs[1].shape) <= 2:
            return f"{a}.dot({b}{last})"
        return f"matmul({a}, {b}{last})"

    def reduction(self, e, fun, x, axes, keep, target) -> str:
        """Write a sum, a product, a mean or an extremum over axes."""
        name, text = SUMS.get(fun, "add"), self.at(e, x)
        last = "" if target is None else f", {target}"
        count = math.prod(x.shape[a] for a in axes)
        if name == "add" and len(x.shape) == 2 and len(axes) == 1 and x.dtype == FLOAT and 1 < count <= SHORT_SUM:
            n = x.shape[axes[0]]
            if axes[0]:
                done = f"{text}.dot({self.ones(n, 1) if keep else self.ones(n)}{last})"
            else:
                done = f"{self.ones(1, n) if keep else self.ones(n)}.dot({text}{last})"
        elif name == "add" and self.by_rows(x, axes, count):
            n = x.shape[axes[0]]
            if axes[0] == len(x.shape) - 1:
                done = f"matmul({text}, {self.ones(n, 1) if keep else self.ones(n)}{last})"
            else:
                done = f"matmul({self.ones(1, n) if keep else self.ones(n)}, {text}{last})"
        else:
            axis = axes[0] if len(axes) == 1 else axes
            done = f"{name}_reduce({text}, {axis}, None, {target}, {keep})" if keep or target else (
                f"{name}_reduce({text}, {axis})")  # fmt: skip
        if fun is np.mean:
            return f"divide({done}, {self.number(count, x.dtype)}{last})"
        return done

    def by_rows(self, x, axes, count) -> bool:
        """Tell whether a sum over one of the last two axes of a stack of matrices is done by products with ones."""
        rank = len(x.shape)
        if rank < 3 or len(axes) != 1 or axes[0] < rank - 2 or x.dtype != FLOAT or count > SHORT_SUM:
            return False
        return x.shape[-1] * x.shape[-2] >= 64

    def number(self, x, dtype) -> str:
        """Return the name of a number as an array without axes."""
        value = np.array(x, dtype)
        text = (
            f"{value.item()!r}".replace("-", "minus")
            .replace(".", "_")
            .replace("+", "")
            .replace("(", "")
            .replace(")", "")
        )
        return self.bind(f"k{text}" + ("" if dtype == FLOAT else f"_{dtype.char}"), value)

    def take(self, e) -> str:
        """Return an expression of a number out of an array."""
        fun, xs = function_of(e), e.inputs
        x = xs[0]
        text = self.at(e, x)
        if fun in (np.matmul, np.dot):
            return f"{text}.dot({self.at(e, xs[1])})"
        if fun is indexing.getitem:
            index = entry(e.params["index"], x.shape)
            return f"{text}[{', '.join(map(str, index))}]"
        name, size = SUMS.get(fun, "add"), math.prod(x.shape)
        if name == "add" and x.dtype == FLOAT and len(x.shape) == 1 and 1 < size <= SHORT_SUM:
            done = f"{text}.dot({self.ones(size)})"
        elif name in ("maximum", "minimum") and x.dtype == FLOAT and size:
            done = f"f64({text}.item({text}.arg{name[:3]}()))"
        else:
            done = f"{name}_reduce({text}, None)" if len(x.shape) > 1 else f"{name}_reduce({text})"
        return f"{done} / {float(size)!r}" if fun is np.mean and size else (
            f"{done} / nan" if fun is np.mean else done)  # fmt: skip

    def by_positions(self, e, target) -> list | None:
        """Return the lines of a read or an addition at integers, by flat positions; None of other calls."""
        fun, s = function_of(e), e.output
        if fun not in (indexing.getitem, indexing.scatter) or any(True for _ in symbols_in(e.params)):
            return None
        x, index = e.inputs[0], e.params["index"]
        if s.__class__ is not Symbol or x.__class__ is not Symbol or x.shape == () or is_basic(index):
            return None
        whole = x.shape if fun is indexing.getitem else s.shape
        where = indexing.positions_of(index, whole)
        text, size = self.at(None, x), math.prod(whole)
        if fun is indexing.getitem:
            return [f"{target} = {text}.take({self.bind('at', where)})"] if s.shape else None
        if where.shape != x.shape or s.dtype != x.dtype or s.dtype != FLOAT:
            return None
        k = self.bind("at", where.reshape(-1))
        if len(np.unique(where)) == where.size:
            return [f"{target} = zeros({size})", f"{target}[{k}] = {text}.reshape(-1)",
                    f"{target} = {target}.reshape({literal(s.shape)})"]  # fmt: skip
        return [f"{target} = bincount({k}, {text}.reshape(-1), {size}).reshape({literal(s.shape)})"]

    def view(self, e) -> str | None:
        """Return an expression of a view."""
        fun, params = e.fun, e.params
        text = self.at(e, e.inputs[0])
        if fun is indexing.getitem:
            return f"{text}[{subscript(params['index'], literal)}]"
        if fun is np.transpose:
            axes = params.get("axes")
            n = len(e.output.shape)
            if axes is None or tuple(a % n for a in axes) == tuple(range(n))[::-1]:
                return f"{text}.T"
            return f"{text}.transpose({literal(tuple(int(a) for a in axes))})"
        if fun is np.reshape and params.keys() <= {"shape"}:
            return f"{text}.reshape({literal(e.output.shape)})"
        if fun in (np.expand_dims, np.squeeze, sum_to) or fun in SUMS:
            return f"{text}.reshape({literal(e.output.shape)})"
        return None


UFUNCS = ("add", "multiply", "square", "divide", "reciprocal")
SPACE = {f"{u}_reduce": getattr(np, u).reduce for u in ("add", "multiply", "maximum", "minimum")} | {
    name: getattr(np, name)
    for name in (*UFUNCS, "matmul", "copyto", "concatenate", "bincount", "zeros", "empty", "nan", "array")
}  # fmt: skip
