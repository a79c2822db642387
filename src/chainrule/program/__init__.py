"""A recorded function: a list of equations. What reads programs: `explain`, `flat` and `compile`."""

from chainrule.program.compiling import Compiled, CompileWarning, compile
from chainrule.program.flat import Source, flat
from chainrule.program.ir import Program
from chainrule.program.record import record

__all__ = ["CompileWarning", "Compiled", "Program", "Source", "compile", "flat", "record"]
