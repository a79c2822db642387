"""The fast path of functions that choose between operands (where, maximum, clip), written out as source for each."""

import numpy as np

from chainrule.engine import level
from chainrule.engine.boxed import inexact
from chainrule.engine.dispatch import PLAIN, dispatch
from chainrule.engine.held import frozen_param, held
from chainrule.engine.pulls import SelectPull, unlike
from chainrule.engine.tape import Node, tick
from chainrule.engine.variable import Variable


def select_run(rule):
    """Return what runs a choice after its arguments are bound, written out as source for its number of operands.

    A call on one tape, beside plain values, is run at once; all else goes to `dispatch`.
    """
    keep = rule.keeps(tuple(range(rule.nin)))  # the same whichever operands are traced
    names = range(rule.nin)
    saved = ["y" if keep[0] else "None"]
    for i in names:
        kept = f"(held(x{i}) if n{i} is None and x{i}.__class__ is ndarray else x{i})"
        saved.append(kept if keep[i + 1] else "None")
    source = _RUN.format(
        operands=", ".join(f"o{i}" for i in names),
        opened="".join(_OPEN.format(i=i) for i in names),
        nin=rule.nin,
        fun=f"fun({', '.join(f'x{i}' for i in names)}) if not params else " if rule.apply == rule._apply else "",
        xs=", ".join(f"x{i}" for i in names),
        nodes=", ".join(f"n{i}" for i in names),
        wanted=" | ".join(f"(n{i} is not None) << {i}" for i in names),
        specs=", ".join(_SPEC.format(i=i) for i in names),
        saved=", ".join(saved),
    )
    scope = {
        "Node": Node, "PLAIN": PLAIN, "SelectPull": SelectPull, "Variable": Variable, "apply": rule.apply,
        "dispatch": dispatch, "frozen_param": frozen_param, "fun": rule.fun, "held": held,
        "inexact": inexact, "level": level, "ndarray": np.ndarray, "new": object.__new__, "rule": rule,
        "tick": tick, "unlike": unlike,
        "subsets": [tuple([i for i in names if k >> i & 1]) for k in range(2 ** rule.nin)],
    }  # fmt: skip
    exec(compile(source, f"<chainrule: {rule.name}>", "exec"), scope)
    return scope["run"]


_RUN = """
def run(operands, params):
    if level.paused or len(operands) != {nin}:
        return dispatch(rule, operands, params)
    lv = None
    {operands}, = operands
{opened}
    if lv is None:
        return dispatch(rule, operands, params)
    y = {fun}apply(({xs},), params)
    if y.__class__ is not ndarray and not inexact(y) or y.__class__ is ndarray and y.dtype.kind not in "fc":
        return dispatch(rule, operands, params)
    if params:
        params = {{k: frozen_param(p) for k, p in params.items()}}
    n = new(Node); n.parents = ({nodes},); n.saved = ({saved},)
    pull = n.pull = new(SelectPull)
    pull.rule = rule; pull.wanted = subsets[{wanted}]; pull.specs = ({specs},); pull.params = params
    n.rule = rule; n.serial = tick(); v = new(Variable); v.data = y; v.aux = n; v.level = lv; return v
"""

_SPEC = """None if n{i} is None or x{i}.__class__ is y.__class__ is ndarray and x{i}.dtype is y.dtype \\
        and x{i}.shape == y.shape else unlike(x{i}, y)"""

_OPEN = """
    t = o{i}.__class__
    if t is Variable:
        if lv is None:
            lv = o{i}.level
        elif lv != o{i}.level:
            return dispatch(rule, operands, params)
        x{i} = o{i}.data; n{i} = o{i}.aux
    elif t in PLAIN or o{i} is None:
        x{i} = o{i}; n{i} = None
    else:
        return dispatch(rule, operands, params)
"""
