"""Which calls run no code of the user's: all they do is what NumPy, SciPy and chainrule have written.

Who listens to the user's code by Python's trace hook need not listen while such a call runs, and Python is several
times faster then: see `program.loops.listening`.
"""

import sys

import numpy as np

from chainrule.engine.rule import Rule
from chainrule.engine.tape import Origin

LEAVES = {}  # id of the code object of such a call -> that code object
_known = {}  # rule -> whether it is our own


def leaf(rule, call):
    """Take note that `call` runs a function by a rule; it gets a code object of its own."""
    if is_ours(rule):
        call.__code__ = code = call.__code__.replace()
        LEAVES[id(code)] = code
    return call


def is_ours(rule):
    """Tell whether a rule, and the function that it is of, are our own, NumPy's or SciPy's."""
    if rule.__class__ is not Rule:
        return rule.__class__ is Origin
    found = _known.get(rule)
    if found is None:
        found = _known[rule] = all(map(written_by_us, (rule.fun, *rule.vjps, *rule.jvps)))
    return found


def written_by_us(function):
    """Tell whether a function is of chainrule, NumPy or SciPy, and wraps none of the user's."""
    if isinstance(function, np.ufunc):
        name = function.__name__
        return any(getattr(module, name, None) is function for module in (np, sys.modules.get("scipy.special")))
    module = getattr(function, "__module__", None) or ""
    return module.startswith(("chainrule.engine.", "chainrule.rules.", "numpy", "scipy"))
