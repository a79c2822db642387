"""Which call of the user's asks a traced value for a plain one: NumPy's C functions do, without telling their names.

NumPy's Python functions stand on the stack. A C function does not: its name is read off the byte code of the call that
its caller is in. This is for the text of errors only.
"""

import dis
import sys


def asked_by():
    """Return ``(module, path)`` of the function that the user called: NumPy's or SciPy's module, "" for a C function.

    The path is the function's name in parts, as the caller wrote it: ``["rng", "normal"]``; empty if it can't be told.
    """
    frame = sys._getframe(2)
    inner = "", []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "numpy" or module.startswith("numpy."):
            inner = module, [frame.f_code.co_qualname.split(".")[0]]
        elif module.startswith("scipy."):
            function = frame.f_locals.get("f", frame.f_locals.get("fun"))  # inside a decorator: what is decorated
            if frame.f_code.co_name == "wrapper" and hasattr(function, "__name__"):
                inner = function.__module__ or "", [function.__name__]
            elif not module.startswith("scipy._lib."):
                inner = module, [frame.f_code.co_name]
        elif not module.startswith("chainrule."):
            break
        frame = frame.f_back
    return inner if inner[1] or frame is None else ("", called(frame.f_code, frame.f_lasti))


IN_ADOPTED = [lambda names: False]  # set by chainrule.adopt: tells whether globals are those of adopted code


def adopt_advice():
    """Return the advice to adopt the code; of code that is, or that such code calls, what adopting did not reach."""
    frame, own = sys._getframe(1), True
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(("chainrule.", "numpy.", "scipy.")):
            if IN_ADOPTED[0](frame.f_globals):
                return OUTSIDE if own else BY_NAME
            own = False
        frame = frame.f_back
    return "leave the code as it is, and differentiate  chainrule.adopt(f)  instead of f;"


OUTSIDE = "if an array that was made outside of adopted code takes part, copy it in that code:  a = np.array(a);"
BY_NAME = "this is called by adopted code, but not adopted with it: adopt its class, module or function by name;"


def called(code, at):
    """Return the name, in parts, of the function that the instruction at offset `at` calls."""
    instructions = list(dis.get_instructions(code))
    call = next((i for i in instructions if i.offset == at), None)
    here = call.positions if call is not None and call.opname.startswith("CALL") else None
    if here is None or here.col_offset is None:  # Python may have been told to keep no positions
        return []
    return [  # the callee begins where the call does
        str(i.argval)
        for i in instructions
        if i.offset < at
        and i.opname.startswith("LOAD")
        and i.opname != "LOAD_CONST"
        and i.positions is not None
        and (i.positions.lineno, i.positions.col_offset) == (here.lineno, here.col_offset)
    ]
