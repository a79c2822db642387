"""Where a recorded call stands in the user's code: the line, and the name that the result is given there."""

import dis
import functools
import sys
from typing import Any

from chainrule.errors import is_users
from chainrule.program.ir import Place


class Spot:
    """Where in the user's code a call is made: its `place`, the code object, the offset `at` which its frame stands.

    `pulled` is that of the calls of its pullback: the same line, without a name, at no offset. All of it is None where
    there is no code of the user's.
    """

    __slots__ = ("at", "code", "place", "pulled")

    def __init__(self, place, code=None, at=None):
        self.place, self.code, self.at = place, code, at
        self.pulled = self
        if code is not None:
            self.pulled = Spot(place._replace(name=None))


NOWHERE = Spot(None)
NOWHERE.pulled = None

_spots: dict[int, tuple] = {}  # id of a code object -> (that, offset -> spot)


def user_place() -> Spot:
    """Return the spot of the innermost frame outside chainrule and NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in OURS and users(code, frame.f_globals.get("__name__", "")):
            break
        frame = frame.f_back
    else:
        return NOWHERE
    known = _spots.get(id(code))
    if known is None:
        if len(_spots) > MOST:
            _spots.clear()
        known = _spots[id(code)] = code, {}
    at = frame.f_lasti
    spot = known[1].get(at)
    if spot is None:
        place = Place(code.co_filename, frame.f_lineno, code.co_name, names_of(code).get(at))
        spot = known[1][at] = Spot(place, code, at)
    return spot


MOST = 10_000  # code objects that are remembered
OURS = set()  # files that are not the user's, whatever module they are run as
_users = {}


def users(code, module):
    """Tell whether a code object is the user's; the answers are kept."""
    key = code, module
    found = _users.get(key)
    if found is None:
        if len(_users) > MOST:
            _users.clear()
        found = _users[key] = is_users(_Frame(code, module))
        if not is_users(_Frame(code, "")):
            OURS.add(code.co_filename)
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
