"""Snapshots: the globals of a module of the user's, as adopted code sees them."""

import builtins
import functools
import itertools
import operator
import sys
import types

from chainrule.adopt.code import PYTHON, SCALARS, called
from chainrule.adopt.entries import call_of
from chainrule.engine.boxed import Boxed
from chainrule.engine.buffer import plain

MISSING = object()
DUNDERS = ("__name__", "__package__", "__spec__", "__loader__", "__file__", "__path__", "__doc__")
CACHE = type(functools.lru_cache(lambda: None))
MAPPED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType, functools.partial, CACHE)


def package_of(name):
    """Return the top package of a module's name."""
    return (name or "").partition(".")[0]


class Snapshot:
    """The globals of one module of the user's, as its twins see them.

    `values` is the dict itself. `names` are the names in it, `seen` what the module held under them, and `placed` what
    was put there of the names that code assigns.
    """

    def __init__(self, session, real):
        self.session, self.real = session, real
        name = real.get("__name__") or "__main__"
        module = sys.modules.get(name)
        self.module = module if module is not None and module.__dict__ is real else None
        self.package = package_of(name)
        self.stand_in = StandIn(name)
        StandIn._chainrule_snapshot.__set__(self.stand_in, self)
        self.values = self.stand_in.__dict__
        self.values.clear()
        self.values["__builtins__"] = session.builtins
        self.index, self.seen, self.placed, self.whole = {}, [], {}, False  # index: name -> its place in seen
        self.traced = False
        self.values |= {n: real[n] for n in DUNDERS if n in real}  # they stay what they are

    def need(self, names):
        """Take names into the snapshot."""
        for name in names:
            if name not in self.index:
                v = self.real.get(name, MISSING)
                self.index[name] = len(self.seen)
                self.seen.append(v)
                self.place(name, v)

    def need_all(self):
        """Take all names: the code may ask for any of them."""
        self.whole = True
        self.need(n for n in list(self.real) if n != "__builtins__")
        self.keep(list(self.index))

    def keep(self, names):
        """Copy these names back at the end."""
        for name in names:
            self.placed.setdefault(name, self.values.get(name, MISSING))

    def place(self, name, v):
        """Put what stands for `v` under a name, and what a call of that name is."""
        if v is MISSING:
            self.values.pop(name, None)
        else:
            self.values[name] = self.session.map(v, self.package)
            self.traced |= may_trace(v)
        if name in self.placed:
            self.placed[name] = self.values.get(name, MISSING)
        if name in PYTHON or name in SCALARS:
            v = getattr(builtins, name, MISSING) if v is MISSING else v
            if v is not MISSING:
                ours = call_of(v)
                self.values[called(name)] = self.values.get(name, v) if ours is v else ours

    def renew(self):
        """Copy what has changed; return False if it was something that twins depend on."""
        if self.whole:
            self.need_all()
        if all(map(operator.is_, map(self.real.get, self.index, itertools.repeat(MISSING)), self.seen)):
            return True
        now = [self.real.get(name, MISSING) for name in self.index]
        for (name, k), v in zip(self.index.items(), now, strict=True):
            if v is not self.seen[k]:
                if issubclass(type(v), MAPPED) or issubclass(type(self.seen[k]), MAPPED):
                    return False
                self.seen[k] = v
                self.place(name, v)
        return True

    def flush(self):
        """Copy back what the code assigned."""
        if self.whole:
            self.keep([n for n in self.values if n != "__builtins__" and not n.endswith("()")])
        for name, before in self.placed.items():
            v = self.values.get(name, MISSING)
            if v is not before:
                self.placed[name] = v
                self.write(name, v)

    def write(self, name, v):
        """Write a value to the user's module."""
        if v is MISSING:
            self.real.pop(name, None)
        else:
            v = self.real[name] = self.session.behind(plain(v))
        self.traced |= isinstance(v, Boxed)
        if name in self.index:
            self.seen[self.index[name]] = v
        else:
            self.index[name] = len(self.seen)
            self.seen.append(v)

    def assign(self, name, v):
        """Do ``module.name = v`` at once in the module and in the snapshot."""
        self.write(name, v)
        if v is MISSING:
            self.values.pop(name, None)
        else:
            self.values[name] = v
        if name in self.placed:
            self.placed[name] = v

    def fetch(self, name):
        """Return an attribute of the stand-in that no code has named so far."""
        if self.module is None or name == "__dict__":
            raise AttributeError(name)
        if name in self.real:
            self.need((name,))
            self.session.settle()
            if name in self.values:
                return self.values[name]
        v = self.session.map(getattr(self.module, name), self.package)
        self.session.settle()
        return v


def may_trace(v):
    """Tell whether a global is traced, or is what code makes traced values with: chainrule, `Variable`, `Dual`."""
    if isinstance(v, type):
        return issubclass(v, Boxed)
    return isinstance(v, Boxed) or (type(v) is types.ModuleType and package_of(v.__name__) == "chainrule")


class StandIn(types.ModuleType):
    """Stands for a module of the user's; its dict is the snapshot of the module's globals."""

    __slots__ = ("_chainrule_snapshot",)

    def __getattr__(self, name):
        return self._chainrule_snapshot.fetch(name)

    def __setattr__(self, name, v):
        self._chainrule_snapshot.assign(name, v)

    def __delattr__(self, name):
        getattr(self, name)
        self._chainrule_snapshot.assign(name, MISSING)

    def __dir__(self):
        return sorted(self._chainrule_snapshot.real)
