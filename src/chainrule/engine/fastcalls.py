"""The fast path of the other common kinds: linear functions of one operand, and bilinear functions.

What `elementwise` does for arithmetic is done here for sums, reshapes and matrix products: a call on a single tape (or
on Duals of one level) is run at once, without the general `dispatch`. All else goes there: several levels, `no_grad`,
foreign types, traced keyword arguments.
"""

import inspect

import numpy as np

from chainrule.engine import level
from chainrule.engine.batched import Batched
from chainrule.engine.boxed import INTO, Boxed, inexact
from chainrule.engine.dispatch import PLAIN, dispatch
from chainrule.engine.dual import Dual, make_dual, zero_of
from chainrule.engine.held import frozen_param, held
from chainrule.engine.leaves import leaf
from chainrule.engine.rule import parameters
from chainrule.engine.spec import Spec, fit, spec_of
from chainrule.engine.tape import Node, tick
from chainrule.engine.variable import Variable
from chainrule.engine.views import note_view

_new = object.__new__
FIXED = frozenset({int, bool, str, tuple, type(None)})  # types of parameters that nobody can change later


def record(y, parents, pull, saved, rule, lv):
    """Return `y` as a Variable made by a new node: field by field, which takes half the time of calling the classes."""
    n = _new(Node)
    n.parents = parents
    n.pull = pull
    n.saved = saved
    n.rule = rule
    n.serial = tick()
    v = _new(Variable)
    v.data = y
    v.aux = n
    v.level = lv
    return v


def linear_run(rule):
    """Return what runs a linear function of one operand, after its arguments are bound."""
    adjoint = rule.vjps[0]
    apply = rule.apply
    affine = rule.affine
    process = Batched.process

    def run(operands, params):
        a = operands[0]
        kind = a.__class__
        if (kind is not Variable and kind is not Dual and kind is not Batched) or level.paused:
            return dispatch(rule, operands, params)
        fixed = True
        for p in params.values():
            if p.__class__ not in FIXED:
                if isinstance(p, Boxed):
                    return dispatch(rule, operands, params)
                fixed = False
        if kind is Batched:
            return process(rule, a.level, operands, params)
        x = a.data
        y = apply((x,), params)
        if not inexact(y):  # several outputs, or a cast to integers
            return dispatch(rule, operands, params)
        if kind is Dual:
            if affine:
                params = {k: (zero_of(affine[k], v) if k in affine else v) for k, v in params.items()}
            xdot = a.aux
            ydot = process(rule, xdot.level, (xdot,), params) if xdot.__class__ is Batched else apply((xdot,), params)
            return make_tangent(y, ydot, a.level)
        spec = Spec(x.shape, x.dtype, x.dtype.kind) if x.__class__ is np.ndarray else spec_of(x)
        if not fixed:
            params = {k: frozen_param(v) for k, v in params.items()}
        return record(y, (a.aux,), linear_pull(adjoint, spec, params), (None, spec), rule, a.level)

    return run


def direct_call(rule, slow):
    """Return the call of a linear function of one operand, with the shortest way for the forms named by `rule.quick`.

    That is: a plain array on the tape, and the other arguments by position, or one by keyword. `slow` takes the rest.
    """
    if not rule.quick:
        return slow
    methods, names = positional(rule)
    keyword = names[0] if names else None
    adjoint = rule.vjps[0]
    viewing = rule.kind == "gather"

    def pull(ybar, saved):
        _, spec, rest = saved
        xbar = adjoint(ybar, None, spec, *rest)
        return (xbar if xbar.__class__ is np.ndarray and xbar.dtype is spec.dtype else fit(xbar, spec),)

    def call(*args, **kwargs):
        if kwargs:
            if len(args) != 1 or len(kwargs) != 1 or keyword not in kwargs:
                if isinstance(kwargs.get("out"), Boxed):  # of a method
                    return INTO[0](kwargs.pop("out"), slow(*args, **kwargs), rule.name)
                return slow(*args, **kwargs)
            args = (args[0], kwargs[keyword])
        count = len(args)
        method = methods.get(count)
        if method is None:
            return slow(*args)
        a = args[0]
        if a.__class__ is not Variable or level.paused:
            return slow(*args)
        x = a.data
        if x.__class__ is not np.ndarray:
            return slow(*args)
        rest = args[1:]
        for p in rest:
            if p.__class__ not in FIXED:
                return slow(*args)
        y = method(x, *rest)
        array = y.__class__ is np.ndarray
        if not array and not inexact(y):
            return slow(*args)
        if y is x and viewing:  # NumPy gave the very array back: the same name
            return a
        spec = _new(Spec)
        spec.shape = x.shape
        dtype = spec.dtype = x.dtype
        spec.kind = dtype.kind
        n = _new(Node)
        n.parents = (a.aux,)
        n.pull = pull
        n.saved = (None, spec, rest)
        n.rule = rule
        n.serial = tick()
        v = _new(Variable)
        v.data = y
        v.aux = n
        v.level = a.level
        if viewing and array:
            base = y.base
            if base is not None and (base is x or base is x.base):
                note_view(v, a, rule, {keyword: rest[0]} if count == 2 else dict(zip(names, rest)))  # noqa: B905
        return v

    return call


def positional(rule):
    """Return {number of arguments: function of them} of the forms in `rule.quick`, and the arguments' names in order.

    Only those count whose arguments are the first of NumPy's signature, and of the adjoint's.
    """
    order = [p.name for p in inspect.signature(rule.fun).parameters.values()][1:]
    adjoint = parameters(rule.vjps[0], 3)[1]
    methods = {}
    for names, method in rule.quick.items():
        k = len(names)
        if list(names) == order[:k] == adjoint[:k] and "order" not in names:
            methods[k + 1] = method
    return methods, order


def opened(operands):
    """Return level, values, nodes and numbers of the traced operands, if they are of one tape; None for all else."""
    if level.paused:
        return None
    lv = None
    xs, nodes, wanted = [], [], []
    for i, o in enumerate(operands):
        kind = o.__class__
        if kind is Variable:
            if lv is None:
                lv = o.level
            elif lv != o.level:
                return None
            xs.append(o.data)
            nodes.append(o.aux)
            wanted.append(i)
        elif kind in PLAIN or o is None:
            xs.append(o)
            nodes.append(None)
        else:
            return None
    return None if lv is None else (lv, xs, nodes, wanted)


def spread_run(rule):
    """Return what runs a linear function of a sequence of operands (stack, concatenate), after binding."""
    adjoint = rule.vjps[0]

    def run(operands, params):
        parts = opened(operands)
        if parts is None:
            return dispatch(rule, operands, params)
        lv, xs, nodes, wanted = parts
        y = rule.apply(xs, params)
        if not inexact(y):
            return dispatch(rule, operands, params)
        specs = []
        spec = shape = dtype = None
        for x in xs:  # most have the same shape and dtype, and share one spec
            if x.__class__ is not np.ndarray:
                specs.append(spec_of(x))
                continue
            if x.dtype is not dtype or x.shape != shape:
                spec = spec_of(x)
                shape, dtype = spec.shape, spec.dtype
            specs.append(spec)

        def pull(ybar, saved):
            bars = adjoint(ybar, None, specs, **params)
            for i in wanted:
                if getattr(bars[i], "dtype", None) is not specs[i].dtype:
                    bars[i] = fit(bars[i], specs[i])
            return bars

        return record(y, nodes, pull, (None, *specs), rule, lv)

    return run


def linear_pull(adjoint, spec, params):
    """Return the pullback of one call of a linear function, from its adjoint."""
    if not params:

        def pull(ybar, saved):
            xbar = adjoint(ybar, None, spec)
            return (xbar if getattr(xbar, "dtype", None) is spec.dtype else fit(xbar, spec),)

        return pull

    def pull(ybar, saved):
        xbar = adjoint(ybar, None, spec, **params)
        return (xbar if getattr(xbar, "dtype", None) is spec.dtype else fit(xbar, spec),)

    return pull


def bilinear_pulls(rule):
    """Return the pullbacks of a bilinear function to both operands, to the first, to the second.

    The adjoint to one operand is linear in the other: it reads the other's value, and of its own operand the shape.
    """
    left, right = rule.vjps

    def both(ybar, saved):
        _, a, b = saved
        return like(left(ybar, None, a, b), a), like(right(ybar, None, a, b), b)

    def first(ybar, saved):
        _, a, b = saved
        return like(left(ybar, None, a, b), a), None

    def second(ybar, saved):
        _, a, b = saved
        return None, like(right(ybar, None, a, b), b)

    return both, first, second


def like(xbar, x):
    """Give a cotangent the dtype of its primal."""
    dtype = getattr(x, "dtype", None)
    return xbar if dtype is not None and getattr(xbar, "dtype", None) is dtype else fit(xbar, spec_of(x))


def bilinear_call(rule, fun=None, swap=False):
    """Return the call of a bilinear function; `fun` runs it on the values one level down.

    `swap` gives the reflected operator's order of arguments.
    """
    fun = fun or rule.fun
    both, first, second = bilinear_pulls(rule)

    def call(a, b):
        if swap:
            a, b = b, a
        ta, tb = a.__class__, b.__class__
        if level.paused:
            return dispatch(rule, (a, b), {})
        if ta is Variable:
            x = a.data
            if tb is Variable:
                if a.level == b.level:
                    z = b.data
                    return record(fun(x, z), (a.aux, b.aux), both, (None, x, z), rule, a.level)
            elif tb in PLAIN:
                y = fun(x, b)
                z = held(b) if tb is np.ndarray else b
                return record(y, (a.aux, None), first, (None, spec_of(x), z), rule, a.level)
        elif tb is Variable:
            if ta in PLAIN:
                z = b.data
                y = fun(a, z)
                x = held(a) if ta is np.ndarray else a
                return record(y, (None, b.aux), second, (None, x, spec_of(z)), rule, b.level)
        elif ta is Dual:
            x = a.data
            if tb is Dual:
                if a.level == b.level:
                    z = b.data
                    return make_tangent(fun(x, z), fun(a.aux, z) + fun(x, b.aux), a.level)
            elif tb in PLAIN:
                return make_tangent(fun(x, b), fun(a.aux, b), a.level)
        elif tb is Dual and ta in PLAIN:
            return make_tangent(fun(a, b.data), fun(a, b.aux), b.level)
        return dispatch(rule, (a, b), {})

    return leaf(rule, call)


def make_tangent(y, ydot, lv):
    """Return a Dual; a tangent computed like its primal needs no more than a cast, and that after a Python float."""
    if getattr(ydot, "dtype", None) is not getattr(y, "dtype", None):  # Python's numbers have none
        ydot = fit(ydot, spec_of(y))
    return make_dual(y, ydot, lv)


def with_keywords(rule, fast):
    """Return a call that takes `fast` for two positional arguments, and the general way for all others."""

    def call(*args, **kwargs):
        if len(args) == 2 and not kwargs:
            return fast(*args)
        operands, params = rule.bind(*args, **kwargs)
        return dispatch(rule, operands, params)

    return call
