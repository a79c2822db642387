"""A function shown step by step: its evaluation trace, as an object, as text, and as the ``chainrule`` command.

Importing this package makes it the attribute ``chainrule.explain``, which is a function to the user. So the package can
be called, and is that function.
"""

import sys
import types

from chainrule.explain.explanation import Explanation
from chainrule.explain.making import explain

__all__ = ["Explanation", "explain"]


class _Function(types.ModuleType):
    """This package, callable as `explain`."""

    def __call__(self, f, *args, mode="both", title=None):
        return explain(f, *args, mode=mode, title=title)


sys.modules[__name__].__class__ = _Function
