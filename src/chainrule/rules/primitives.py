"""Derivative rules of the engine's own primitives: indexing, broadcasting, casting."""

import numpy as np

from chainrule.engine import indexing
from chainrule.engine.cotangent import Scatter
from chainrule.engine.indexing import final_entries, getitem, picked, put, scatter, unpicked, written
from chainrule.engine.rule import constant, linear, rule, select
from chainrule.engine.spec import (
    cast_to,
    choose,
    fit,
    real_part,
    spread_to,
    sum_to,
    zeros_of,
)

linear(getitem, lambda ybar, y, x, index=None: Scatter(ybar, index, x))
linear(scatter, lambda ybar, y, v, index=None, shape=None, dtype=None: getitem(ybar, index))
linear(sum_to, lambda ybar, y, x, shape=None: spread_to(ybar, x.shape))  # adjoint of summing: copying
linear(spread_to, lambda ybar, y, x, shape=None: sum_to(ybar, x.shape))  # and the other way round
linear(cast_to, lambda ybar, y, x, dtype=None: fit(ybar, x))
linear(real_part, lambda ybar, y, x: ybar)
rule(
    picked,
    jvp=(lambda xdot, y, x, where: picked(xdot, where), lambda wdot, y, x, where: zeros_of(y)),
    vjp=(lambda ybar, y, x, where: unpicked(ybar, where, shape=x.shape), lambda ybar, y, x, where: zeros_of(where)),
)
rule(
    unpicked,
    jvp=(lambda vdot, y, v, where, shape=None: unpicked(vdot, where, shape=shape),
         lambda wdot, y, v, where, shape=None: zeros_of(y)),
    vjp=(lambda ybar, y, v, where, shape=None: picked(ybar, where),
         lambda ybar, y, v, where, shape=None: zeros_of(where)),
)  # fmt: skip
select(choose, lambda y, mask, x: (None, mask), nin=2)


def put_xbar(ybar, y, x, v, index=None):
    """What is overwritten no longer reaches the result."""
    return put(ybar, np.zeros((), x.dtype), index)


def put_vbar(ybar, y, x, v, index=None):
    """Each value written gets the cotangent of its place, unless a later one of the same write replaced it."""
    vbar = getitem(ybar, index)
    mask = written(index, x.shape)
    if mask is not None:
        vbar = choose(mask, vbar)
    extra = len(v.shape) - len(np.shape(vbar))
    shape = v.shape[extra:] if extra > 0 else v.shape  # numpy drops leading axes of length 1 of what is written
    return sum_to(vbar, shape).reshape(v.shape)


linear(put, put_xbar, put_vbar)
constant(final_entries)

indexing.GETITEM[0] = __import__("chainrule.engine.rule", fromlist=["RULES"]).RULES[getitem]
