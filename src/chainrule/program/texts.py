"""What is done with the text of a traced value: is it only written out, as by ``print``, or may more depend on it?"""

import ast
import builtins
import functools
import io
import linecache
import sys
import types
import warnings

from chainrule.program.places import OURS, users
from chainrule.program.walk import home, is_library

WRITERS = frozenset({
    "print", "pprint", "display", "debug", "info", "warning", "error", "critical", "exception", "log", "warn", "write",
    "set_description", "set_postfix", "set_postfix_str",
})  # fmt: skip
TEXTS = frozenset({"str", "repr", "ascii", "format", "join", "array2string", "array_str", "array_repr", "round", "abs"})
LOGGING = frozenset({"logging", "warnings"})  # packages whose code makes text of what it is given, to write it


def ways() -> tuple:
    """Return where output goes at the moment: code that redirects it may read it."""
    return sys.stdout, sys.stderr, warnings.showwarning, getattr(warnings, "_showwarnmsg_impl", None)


def only_written(usual: tuple, raised: bool) -> bool:
    """Tell whether the statement of the user's that is being run only writes text out, in the `usual` ways.

    It is a call of a function that `WRITERS` names, of a library, the result of which is not used. Or it raises an
    error, if that counts as written: another statement may catch it. Without source the answer is no.
    """
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in LOGGING:
            return ways() == usual
        if code.co_filename not in OURS and users(code, module):
            source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
            found = written(code, frame.f_lasti, source)
            if found is None or isinstance(found, ast.stmt):
                return found is not None and raised
            return ways() == usual and writes(found, frame)
        frame = frame.f_back
    return False


@functools.lru_cache(1024)
def written(code, at, source) -> ast.Call | ast.stmt | None:
    """Return the call that writes out what is made at an offset of a code object, or the statement that raises it."""
    here = position(code, at)
    found = None
    for s in statements(source):  # the last that begins before it, and has not ended, is the innermost
        if covers(s, here):
            found = s
    if isinstance(found, ast.Raise):
        return found
    if isinstance(found, ast.Assert):  # its message is made if it fails
        return found if found.msg is not None and here >= (found.msg.lineno, found.msg.col_offset) else None
    if (
        not isinstance(found, ast.Expr)
        or not isinstance(found.value, ast.Call)
        or last(found.value.func) not in WRITERS
    ):
        return None
    for n in ast.walk(found):
        if isinstance(n, ast.NamedExpr | ast.Lambda):
            return None
        if isinstance(n, ast.Call) and n is not found.value and covers(n, here) and last(n.func) not in TEXTS:
            return None  # the text is handed to another function
    return found.value


def writes(call, frame) -> bool:
    """Tell whether a call writes out its arguments, and does no more with them: it is no function of the user's."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):  # logging.getLogger().info
        made = found_in(frame, call.func.value.func)
        return is_far(getattr(made, "__module__", None)) and not isinstance(made, type)
    f = found_in(frame, call.func)
    if f is print:
        named = {k.arg: k.value for k in call.keywords}
        return None not in named and ("file" not in named or is_sink(found_in(frame, named["file"])))
    if isinstance(f, types.BuiltinMethodType) and not isinstance(f.__self__, types.ModuleType):
        return is_sink(f.__self__)
    return is_far(getattr(f, "__module__", None))


def is_sink(v) -> bool:
    """Tell whether a file is one that is not read again, as those in memory are."""
    return v is sys.stdout or v is sys.stderr or isinstance(v, io.TextIOWrapper | io.BufferedWriter | io.FileIO)


def is_far(module) -> bool:
    """Tell whether a module is one of the standard library or an installed package."""
    return isinstance(module, str) and (home(module) == "theirs" or is_library(module.partition(".")[0]))


def found_in(frame, node):
    """Return what a name, or an attribute of one, stands for in a frame; None if that is not known."""
    if isinstance(node, ast.Name):
        code = frame.f_code
        local = node.id in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        for space in [frame.f_locals] if local else [frame.f_globals, vars(builtins)]:
            if node.id in space:
                return space[node.id]
    elif isinstance(node, ast.Attribute):
        try:
            return getattr(found_in(frame, node.value), node.attr, None)
        except Exception:  # code of a user's, which may do anything
            return None
    return None


def last(node):
    """Return the last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)


def covers(node, here):
    """Tell whether a node of the source has a position in it."""
    return (node.lineno, node.col_offset) <= here <= (node.end_lineno, node.end_col_offset)


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
