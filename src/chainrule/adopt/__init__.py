"""Unchanged code made differentiable: `adopt` runs a function with NumPy, SciPy and math as chainrule has them.

============== =========================================================================
`adopting`     `adopt` and `unadopt`; classes and modules
`running`      what `adopt` returns for a function: one call in a session
`session`      the world adopted code runs in: twins of functions
`snapshot`     the globals that twins see
`modules`      stand-ins for NumPy, SciPy and math
`entries`      what is called in place of which function
`code`         what a function's byte code says about names
============== =========================================================================

Importing this package makes it the attribute ``chainrule.adopt``, which is a function to the user. So the package can
be called, and is that function.
"""

import sys
import types

from chainrule.adopt.adopting import adopt, unadopt

__all__ = ["adopt", "unadopt"]


class _Function(types.ModuleType):
    """This package, callable as `adopt`."""

    def __call__(self, f):
        return adopt(f)


sys.modules[__name__].__class__ = _Function
