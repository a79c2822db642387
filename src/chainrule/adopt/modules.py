"""Module objects that adopted code sees: NumPy, SciPy and math with our entries over theirs.

A stand-in looks up what it lacks in the module it stands for, and keeps it; so a name is looked up once, and what is
loaded later is found later. Writes go to the module itself.
"""

import sys
import types

from chainrule.adopt import entries

MIRRORED = frozenset({"numpy", "math", "scipy"})


class Mirror(types.ModuleType):
    """Stands for a module of a library. Made by `mirror`."""

    __slots__ = ("_chainrule_original",)

    def __getattr__(self, name):
        original = self._chainrule_original
        if name.endswith("()"):  # a scalar type that is called: see `chainrule.adopt.code`
            v = entries.call_of(getattr(original, name[:-2]))
        else:
            v = in_place_of(getattr(original, name))
        self.__dict__[name] = v
        return v

    def __setattr__(self, name, v):
        setattr(self._chainrule_original, name, v)
        self.__dict__[name] = v

    def __delattr__(self, name):
        delattr(self._chainrule_original, name)
        self.__dict__.pop(name, None)

    def __dir__(self):
        return dir(self._chainrule_original)

    def __repr__(self):
        return repr(self._chainrule_original)

    def __reduce__(self):
        return sys.modules.__getitem__, (self.__name__,)


_mirrors = {}


def is_mirrored(module):
    """Tell whether a module is one of those that have a stand-in."""
    return isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] in MIRRORED


def mirror(module):
    """Return the stand-in of a module, always the same one."""
    if module.__class__ is Mirror:
        return module
    found = _mirrors.get(id(module))
    if found is None:
        if module.__name__.partition(".")[0] == "scipy":
            entries.fill_scipy()
        found = types.ModuleType.__new__(Mirror)
        types.ModuleType.__init__(found, module.__name__, module.__doc__)
        for name in ("__spec__", "__loader__", "__package__"):
            found.__dict__[name] = getattr(module, name, None)
        if hasattr(module, "__path__"):
            found.__dict__["__path__"] = module.__path__
        Mirror._chainrule_original.__set__(found, module)
        found = _mirrors.setdefault(id(module), found)
    return found


def in_place_of(v):
    """Return what stands in place of a value of a library: a stand-in for its modules, our entry for its functions."""
    if is_mirrored(v):
        return mirror(v)
    home = v.__module__ if isinstance(v, FUNCTIONS) else type(v).__module__
    if isinstance(home, str) and home.startswith("scipy."):
        entries.fill_scipy()
    return entries.ours_of(v)


FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def behind(v):
    """Return the original of what `in_place_of` gave, anything else as it is."""
    return v._chainrule_original if v.__class__ is Mirror else entries.BACK.get(id(v), v)
