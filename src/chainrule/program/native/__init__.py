"""The machine-code back end: from a program to LLVM's text, compiled in memory by llvmlite (extra ``fast``)."""

from chainrule.program.ir import Program


def build(program: Program):
    """Return what runs a program as machine code, or None if there is none: `chainrule.program.backend` runs it.

    There is none without llvmlite, for a processor or a Python that is not known, and for programs in which too little
    has a lowering to pay. Equations without one are calls of NumPy and SciPy, between kernels of the others.
    """
    try:
        from chainrule.program.native import layout, mixed
    except ImportError:
        return None
    return mixed.build(program) if layout.is_known() else None
