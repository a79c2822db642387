"""The machine-code back end: from a program to LLVM's text, compiled in memory by llvmlite (extra ``fast``)."""

from chainrule.program.ir import Program


def build(program: Program):
    """Return what runs a program as machine code, or None if there is none: `chainrule.program.backend` runs it.

    There is none without llvmlite, for a processor or a Python that is not known, and for programs with equations that
    can't be unrolled.
    """
    try:
        from chainrule.program.native import layout, target
        from chainrule.program.native.driver import Runner
        from chainrule.program.native.scalars import NotLowered
        from chainrule.program.native.straight import Straight
    except ImportError:
        return None
    if not layout.is_known():
        return None
    writer = Straight(program)
    try:
        text = writer.write()
    except NotLowered:
        return None
    return Runner(program, writer, target.compiled(text), text)
