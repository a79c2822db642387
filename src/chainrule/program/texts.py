"""What is done with the text of a traced value: is it only written out, as by ``print``, or may more depend on it?"""

import ast
import functools
import linecache
import sys
import types

from chainrule.program.places import OURS, users

WRITERS = frozenset({
    "print", "pprint", "display", "debug", "info", "warning", "error", "critical", "exception", "log", "warn", "write",
    "set_description", "set_postfix", "set_postfix_str",
})  # fmt: skip
LOGGING = frozenset({"logging", "warnings"})  # packages whose code makes text of what it is given, to write it


def only_written() -> bool:
    """Tell whether the statement of the user's that is being run only writes text out.

    It is a call of a function that `WRITERS` names, the result of which is not used, or raises an error. Without source
    the answer is no.
    """
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in LOGGING:
            return True
        if code.co_filename not in OURS and users(code, module):
            return writes(code, frame.f_lasti, "".join(linecache.getlines(code.co_filename, frame.f_globals)))
        frame = frame.f_back
    return False


@functools.lru_cache(1024)
def writes(code, at, source) -> bool:
    """Tell whether the statement at an offset of a code object only writes text out."""
    line, column = position(code, at)
    found = None
    for s in statements(source):  # the last that begins before it, and has not ended, is the innermost
        if (s.lineno, s.col_offset) <= (line, column) <= (s.end_lineno, s.end_col_offset):
            found = s
    if isinstance(found, ast.Raise):
        return True
    if isinstance(found, ast.Assert):  # its message is made if it fails
        return found.msg is not None and (line, column) >= (found.msg.lineno, found.msg.col_offset)
    if not isinstance(found, ast.Expr) or not isinstance(found.value, ast.Call):
        return False
    if any(isinstance(n, ast.NamedExpr | ast.Lambda) for n in ast.walk(found)):
        return False
    called = found.value.func
    return (called.id if isinstance(called, ast.Name) else getattr(called, "attr", None)) in WRITERS


def position(code, at):
    """Return the line and column that an offset of a code object belongs to."""
    for k, (line, _, column, _) in enumerate(code.co_positions()):
        if 2 * k == at:
            return line or 0, column or 0
    return 0, 0


@functools.lru_cache(64)
def statements(source):
    """Return the statements of a module, the outer ones first."""
    try:
        return [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt)]
    except SyntaxError:
        return []
