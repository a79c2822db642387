"""A function shown step by step: its evaluation trace, as an object, as text, picture and page, and the command.

Importing this package makes it the attribute ``chainrule.explain``, which is a function to the user. So the package can
be called, and is that function.
"""

import sys
import types

from chainrule.explain.chains import order
from chainrule.explain.explanation import Explanation
from chainrule.explain.jacobians import jacobian, matmul
from chainrule.explain.making import explain
from chainrule.explain.spying import spy

__all__ = ["Explanation", "explain", "jacobian", "matmul", "order", "spy"]


class _Function(types.ModuleType):
    """This package, callable as `explain`."""

    def __call__(self, f, *args, mode="both", title=None):
        return explain(f, *args, mode=mode, title=title)


sys.modules[__name__].__class__ = _Function
