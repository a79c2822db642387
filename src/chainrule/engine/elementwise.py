"""The fast path of elementwise functions: one closure per function and way of calling, written once at first use.

Eager mode lives from the cost of one call, and most calls are arithmetic. So for each elementwise rule of one or two
operands the functions below are written out as Python source and compiled at the rule's first use: what the rule reads
and which partial derivatives are plain numbers is known then, and need not be asked in each call. (Node and Variable
are made field by field there: calling their classes would take a sixth of the whole call.)

The forward call decides from the shapes at hand whether the pullback can be plain (same type, shape and dtype on both
sides) or must sum out a broadcast and cast (`Pull`, the general one). Everything unusual (several levels, `no_grad`,
foreign types) goes to `dispatch`.
"""

import dis
import functools

import numpy as np

from chainrule.engine import level
from chainrule.engine.batched import Batched, batched, scaled
from chainrule.engine.boxed import Boxed
from chainrule.engine.dispatch import PLAIN, dispatch
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.held import held
from chainrule.engine.leaves import leaf
from chainrule.engine.rule import reads
from chainrule.engine.spec import fit_broadcast, spec_of, tangent_like
from chainrule.engine.tape import Node, tick
from chainrule.engine.variable import Variable
from chainrule.errors import NotDifferentiableError

NUMPY_SCALARS = frozenset({np.float64, np.float32, np.complex128, np.complex64, np.float16})
SCALARS = frozenset({float, np.float64, np.float32, np.complex128, np.complex64, np.float16})

_UNARY = """
def call(a):
    if a.__class__ is Variable and not level.paused:
        x = a.data
        y = {expr}
        c = y.__class__
        if c is x.__class__ and (c is ndarray and x.dtype is y.dtype or c in SCALARS):
            n = new(Node); n.parents = (a.aux,); n.pull = pull0; n.saved = ({y}, {x})
            n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
        n = new(Node); n.parents = (a.aux,); n.pull = general(rule, (0,), y, (x,), pulls); n.saved = ({y}, {x})
        n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
    if a.__class__ is Dual and not level.paused:
        x = a.data
        y = {expr}
        try:
            ydot = {t0}
        except (ZeroDivisionError, OverflowError):
            return dispatch(rule, (a,), {{}})
        if ydot.__class__ is not y.__class__ or ydot.__class__ is not ndarray and ydot.__class__ not in SCALARS or \\
                ydot.__class__ is ndarray and ydot.dtype is not y.dtype:
            ydot = tangent_like(ydot, y)
        return make_dual(y, ydot, a.level)
    if a.__class__ is Batched and a.data.__class__ is ndarray:
        x = a.data
        return batched({expr}, a.level)
    return dispatch(rule, (a,), {{}})
"""

_BINARY = """
def call({head}):
    ta = a.__class__
    tb = b.__class__
    if level.paused:
        return dispatch(rule, (a, b), {{}})
    if ta is Variable:
        x = a.data
        if tb is Variable:
            if a.level != b.level:
                return dispatch(rule, (a, b), {{}})
            z = b.data
            y = {expr}
            c = y.__class__
            if c is x.__class__ is z.__class__ and (c in SCALARS or c is ndarray and x.shape == z.shape
                                                    and x.dtype is z.dtype is y.dtype):
                n = new(Node); n.parents = (a.aux, b.aux); n.pull = pull01; n.saved = ({y}, {x}, {z})
                n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
            n = new(Node); n.parents = (a.aux, b.aux); n.saved = ({y}, {x}, {z})
            n.pull = general(rule, (0, 1), y, (x, z), pulls)
            n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
        if tb in PLAIN:
            z = b
            y = {expr}
            c = y.__class__
            if c is x.__class__ and (c in SCALARS or c is ndarray and x.shape == y.shape and x.dtype is y.dtype):
                n = new(Node); n.parents = (a.aux, None); n.pull = pull0; n.saved = ({y0}, {x0}, {z0})
                n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
            n = new(Node); n.parents = (a.aux, None); n.saved = ({y0}, {x0}, {z0})
            n.pull = general(rule, (0,), y, (x, z), pulls)
            n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = a.level; return v
    elif tb is Variable:
        if ta in PLAIN:
            x = a
            z = b.data
            y = {expr}
            c = y.__class__
            if c is z.__class__ and (c in SCALARS or c is ndarray and z.shape == y.shape and z.dtype is y.dtype):
                n = new(Node); n.parents = (None, b.aux); n.pull = pull1; n.saved = ({y1}, {x1}, {z1})
                n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = b.level; return v
            n = new(Node); n.parents = (None, b.aux); n.saved = ({y1}, {x1}, {z1})
            n.pull = general(rule, (1,), y, (x, z), pulls)
            n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = b.level; return v
    elif ta is Dual or tb is Dual:
        try:
            if ta is Dual:
                lv = a.level
                x = a.data
                if tb is Dual:
                    if lv != b.level:
                        return dispatch(rule, (a, b), {{}})
                    z = b.data
                    y = {expr}
                    adot = a.aux
                    bdot = b.aux
                    ydot = {both}
                elif tb in PLAIN:
                    z = b
                    y = {expr}
                    adot = a.aux
                    ydot = {t0}
                else:
                    return dispatch(rule, (a, b), {{}})
            elif ta in PLAIN:
                lv = b.level
                x = a
                z = b.data
                y = {expr}
                bdot = b.aux
                ydot = {t1}
            else:
                return dispatch(rule, (a, b), {{}})
        except (ZeroDivisionError, OverflowError):
            y = {expr}  # raises, if the plain run does
            return dispatch(rule, (a, b), {{}})
        c = y.__class__
        if c is ndarray and y.dtype.kind not in "fc":
            return dispatch(rule, (a, b), {{}})
        if c is not ydot.__class__ or c not in SCALARS and (
            c is not ndarray or ydot.shape != y.shape or ydot.dtype is not y.dtype
        ):
            ydot = tangent_like(ydot, y)
        return make_dual(y, ydot, lv)
    elif ta is Batched:  # all runs at once, where broadcasting as it is keeps the batch axis in front
        x = a.data
        if x.__class__ is ndarray:
            if tb is Batched:
                z = b.data
                if a.level == b.level and z.__class__ is ndarray and x.ndim == z.ndim:
                    return batched({expr}, a.level)
            elif tb in PLAIN and (tb is not ndarray or b.ndim < x.ndim):
                z = b
                return {runs_a}
    elif tb is Batched and ta in PLAIN:
        z = b.data
        if z.__class__ is ndarray and (ta is not ndarray or a.ndim < z.ndim):
            x = a
            return {runs_b}
    return dispatch(rule, (a, b), {{}})
"""


def general(rule, wanted, y, xs, pulls):
    """Return the pullback for operands that may differ from y in shape or dtype: the plain one after all, or `Pull`."""
    same = pulls[0] if len(pulls) == 1 else pulls[2 if len(wanted) == 2 else wanted[0]]
    c = y.__class__
    while c is Dual or (c is not np.ndarray and isinstance(y, Boxed) and y.recorded):  # as its primal, its plain value
        kind = c
        y = y.data
        c = y.__class__
        xs = [x.data if x.__class__ is kind else x for x in xs]
    if c is np.ndarray:
        shape, dtype = y.shape, y.dtype
        for i in wanted:
            x = xs[i]
            if x.__class__ is not c or x.dtype is not dtype or x.shape != shape:
                break
        else:
            if dtype.kind in "fc":
                return same
    elif c is Variable:  # what the call one level down found out holds here, too
        below = y.aux.pull
        if below is pulls[-1] or below is same:
            return same
    elif c in NUMPY_SCALARS:
        dtype = y.dtype
        weak = dtype.kind == "f"
        for i in wanted:
            x = xs[i]
            k = x.__class__
            if k is not c and not (weak and k is float) and (k is not np.ndarray or x.shape or x.dtype is not dtype):
                break
        else:
            return same
    specs = [None] * len(xs)
    if c is np.ndarray:
        shape, dtype, kind = y.shape, y.dtype, y.dtype.kind
        if kind not in "fc":
            raise NotDifferentiableError(
                f"{rule.name} of a traced value gives an array of dtype {dtype}, which has no derivative.",
                "convert the other operand first:  c.astype(float).",
            )
    else:
        spec = spec_of(y)
        shape, dtype, kind = spec.shape, spec.dtype, spec.kind
    for i in wanted:
        s = spec_of(xs[i])
        if s.shape != shape or s.dtype is not dtype or s.kind != kind:  # Python's float and complex have no dtype
            specs[i] = s
    return same if specs.count(None) == len(specs) else Fitted(same, specs)


class Fitted:
    """A plain pullback whose results are then summed and cast to the operands' shapes and dtypes (None: they fit)."""

    __slots__ = ("plain", "specs")

    def __init__(self, plain, specs):
        self.plain, self.specs = plain, specs

    def __call__(self, ybar, saved):  # noqa: D102 (see the class)
        return [
            xbar if spec is None else fit_broadcast(xbar, spec)
            for xbar, spec in zip(self.plain(ybar, saved), self.specs)  # noqa: B905 (strict costs time)
        ]


@functools.lru_cache(4096)
def _facts(partial):
    """Return which operands a partial derivative reads, and whether all it does is to return one of them."""
    code = [k for k in dis.get_instructions(partial) if k.opname not in ("RESUME", "COPY_FREE_VARS", "NOP")]
    return reads(partial, 0), len(code) == 2 and code[0].opname.startswith("LOAD_FAST")


def _term(i, partial, bar, names):
    """Write ``bar * partial(...)`` as source: a number, an operand, or a call, whichever the partial is."""
    used, plain = _facts(partial)
    used = used[: len(names)]
    if not any(used):
        c = partial(*[None] * len(names))
        if c == 1 and not isinstance(c, complex):
            return bar, used
        if c == -1 and not isinstance(c, complex):
            return f"-{bar}", used
        return f"{bar} * {c!r}", used
    if plain and sum(used) == 1:
        return f"{bar} * {names[used.index(True)]}", used
    arguments = ", ".join(n if u else "None" for n, u in zip(names, used, strict=True))
    return f"{bar} * partial{i}({arguments})", used


def kept(x, y):
    """Return a constant array operand as a residual; integers as the floats that y was computed with.

    (Else 1 / x of small integers would be float64 beside a float32 y.)
    """
    return held(x.astype(np.finfo(y.dtype).dtype) if x.dtype.kind in "biu" and y.dtype.kind in "fc" else x)


def _kept(name, used):
    return name if used else "None"


def install(owner, name, rule, expr, swap=False):
    """Give the class `owner` the operator `name`, built when it is first used: all of them take 10 ms at import."""

    def first(*operands):
        call = build(rule, expr, swap)
        call.__name__ = call.__qualname__ = name
        setattr(owner, name, call)
        return call(*operands)

    first.__name__ = name
    setattr(owner, name, first)


def build(rule, expr=None, swap=False):
    """Return the function that runs when `rule`'s function, or the operator written as `expr`, meets a box.

    `expr` uses ``x`` (and ``z``); `swap` gives the reflected operator's order of arguments.
    """
    scope = {
        "Batched": Batched, "Dual": Dual, "Node": Node, "PLAIN": PLAIN, "SCALARS": SCALARS, "Variable": Variable,
        "batched": batched, "dispatch": dispatch, "fun": rule.fun, "general": general, "inf": np.inf, "kept": kept,
        "level": level, "make_dual": make_dual, "nan": np.nan, "ndarray": np.ndarray, "new": object.__new__,
        "rule": rule, "scaled": scaled, "tangent_like": tangent_like, "tick": tick,
    }  # fmt: skip
    for i, p in enumerate(rule.vjps):
        scope[f"partial{i}"] = p
    if rule.nin == 1:
        t0, used = _term(0, rule.vjps[0], "ybar", ("y", "x"))
        pulls = f"def pull0(ybar, saved):\n    y, x = saved\n    return ({t0},)\npulls = (pull0,)"
        tangent = _term(0, rule.vjps[0], "a.aux", ("y", "x"))[0]
        source = _UNARY.format(expr=expr or "fun(x)", y=_kept("y", used[0]), x=_kept("x", used[1]), t0=tangent)
    elif rule.nin == 2:
        names = ("y", "x", "z")
        (t0, u0), (t1, u1) = (_term(i, rule.vjps[i], "ybar", names) for i in (0, 1))
        (d0, _), (d1, _) = (_term(i, rule.vjps[i], bar, names) for i, bar in ((0, "adot"), (1, "bdot")))
        # of a product of a value with itself both terms are one
        square = ""
        if (t0, t1) == ("ybar * z", "ybar * x"):
            square = "    if x is z:\n        t = ybar * z\n        return t, t\n"
        pulls = (
            f"def pull0(ybar, saved):\n    y, x, z = saved\n    return {t0}, None\n"
            f"def pull1(ybar, saved):\n    y, x, z = saved\n    return None, {t1}\n"
            f"def pull01(ybar, saved):\n    y, x, z = saved\n{square}    return {t0}, {t1}\n"
            "pulls = pull0, pull1, pull01\n"
        )
        u = [a or b for a, b in zip(u0, u1, strict=True)]
        keep = {}
        for suffix, used in (("", u), ("0", u0), ("1", u1)):
            for n, flag in zip(names, used, strict=True):
                keep[n + suffix] = _kept(n, flag)
        if u0[2]:  # a constant operand that the pullback reads must stay what it is
            keep["z0"] = "kept(z, y) if tb is ndarray else z"
        if u1[1]:
            keep["x1"] = "kept(x, y) if ta is ndarray else x"
        expr = expr or "fun(x, z)"
        product = (t0, t1) == ("ybar * z", "ybar * x")
        runs = "scaled({}, {})" if product else "batched({}, {}.level)"
        both = f"{d0} - bdot" if d1 == "-bdot" else f"{d0} + {d1}"
        source = _BINARY.format(
            expr=expr, head="b, a" if swap else "a, b", t0=d0, t1=d1, both=both,
            runs_a=runs.format(expr, "a"), runs_b=runs.format(expr, "b"), **keep,
        )  # fmt: skip
    else:

        def call(*operands):
            return dispatch(rule, operands, {})

        return leaf(rule, call)
    name = f"<chainrule: {rule.name}>"
    if rule.pulls is None:  # one set for the function and its operators: `general` tells pulls by identity
        exec(compile(pulls, name, "exec"), scope)
        rule.pulls = scope["pulls"]
    scope["pulls"] = rule.pulls
    scope.update({f.__name__: f for f in rule.pulls})
    exec(compile(source, name, "exec"), scope)
    call = scope["call"]
    call.__name__ = call.__qualname__ = rule.name.rpartition(".")[2]
    return leaf(rule, call)
