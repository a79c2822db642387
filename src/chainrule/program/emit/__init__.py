"""How an equation of a Program is written as plain NumPy source.

`expression` writes a call as one Python expression, `statements` as the lines that give its result a name: two or
three for a write. Functions of NumPy and SciPy are written by a general path, operators with the parentheses they
need; our own primitives as a person would write them, by the table in `chainrule.program.emit.primitives`. What needs
more than an expression is a function of its own, whose source stands in the module's head (`head`).
"""

from chainrule.program.emit.calls import expression, statements
from chainrule.program.emit.helpers import head, helpers_in

__all__ = ["expression", "head", "helpers_in", "statements"]
