"""Exact derivatives of plain NumPy code: forward and reverse mode, to any order."""

from chainrule import rules as _rules  # noqa: F401
from chainrule.engine.boxed import value
from chainrule.engine.dual import Dual
from chainrule.engine.level import no_grad
from chainrule.engine.variable import Variable

__version__ = "0.1.0"
__all__ = ["Dual", "Variable", "no_grad", "value"]
