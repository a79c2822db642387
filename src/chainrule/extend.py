"""The one door for rules written outside: derivatives of one's own functions, and of other libraries'.

A function that NumPy's protocols hand over (a ufunc, or a function that dispatches by ``__array_function__``) needs its
rule and nothing more. A function of one's own is made to dispatch by `primitive` first. The kinds of rules, and what
their functions are given, are described in `chainrule.engine.rule`.

Examples
--------
>>> import numpy as np, chainrule as cr
>>> @cr.extend.primitive
... def softplus(x):
...     return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)
>>> softplus_rule = cr.extend.elementwise(softplus, lambda y, x: cr.sigmoid(x))
>>> cr.grad(softplus)(0.0), cr.grad(cr.grad(softplus))(0.0)
(0.5, 0.25)
"""

from chainrule.engine.rule import bilinear, composite, constant, elementwise, gather, linear, rule, select
from chainrule.engine.spec import primitive

__all__ = ["bilinear", "composite", "constant", "elementwise", "gather", "linear", "primitive", "rule", "select"]
