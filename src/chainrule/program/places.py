"""Where a recorded call stands in the user's code: the line, and the name that the result is given there."""

import dis
import functools
import sys
from typing import Any

from chainrule.errors import is_users
from chainrule.program.ir import Place


def user_place() -> tuple:
    """Return the place of the innermost frame outside chainrule and NumPy, its code, and the offset it is at.

    All of them None if there is no such frame.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if users(frame.f_code, frame.f_globals.get("__name__", "")):
            break
        frame = frame.f_back
    if frame is None:
        return None, None, None
    code, at = frame.f_code, frame.f_lasti
    return Place(code.co_filename, frame.f_lineno, code.co_name, names_of(code).get(at)), code, at


_users = {}


def users(code, module):
    """Tell whether a code object is the user's; the answers are kept."""
    key = code, module
    found = _users.get(key)
    if found is None:
        if len(_users) > 10_000:
            _users.clear()
        found = _users[key] = is_users(_Frame(code, module))
    return found


class _Frame:
    """What `is_users` looks at."""

    def __init__(self, code, module):
        self.f_code, self.f_globals = code, {"__name__": module}


@functools.lru_cache(1024)
def names_of(code):
    """Return, for the offset of each call or operator of a code object, the name its result is stored in at once."""
    found = {}
    before = None
    for i in dis.get_instructions(code):
        if i.opname.startswith("STORE_") and before is not None and isinstance(i.argval, str):
            if i.opname in ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"):
                # a call of a Python function stands at the end of its inline caches, others at the beginning
                found.update(dict.fromkeys(range(before, i.offset, 2), i.argval))
        elif i.opname.startswith("STORE_FAST") and before is not None and isinstance(i.argval, tuple):
            found.update(dict.fromkeys(range(before, i.offset, 2), i.argval[0]))  # two instructions in one
        if i.opname not in ("CACHE", "NOP", "RESUME", "EXTENDED_ARG"):
            before = i.offset
    return found
