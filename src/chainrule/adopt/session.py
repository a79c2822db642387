"""A session: one outermost call of an adopted function, and the world it runs in.

The code of adopted functions is not changed, but run with other globals: each has a *twin*, a function with the same
code, whose globals are a snapshot of its module's. In the snapshot NumPy, SciPy and math are stand-ins, functions
taken from them are our entries, and functions of the same package are twins. A snapshot is an exact dict, as byte code
expects; it holds the names that the twins' code mentions. What the code assigns with ``global`` is copied back at the
end.

Making twins takes time, so a session is kept and used again. Before each run it is renewed: names whose value has
changed are copied, and if a function, a module or a closure has changed, the session is dropped and made anew. A
session serves one call at a time; threads have their own.
"""

import builtins
import functools
import inspect
import operator
import types
import weakref
from typing import Any

import numpy as np

import chainrule.numpy as mirror
from chainrule.adopt import modules
from chainrule.adopt.code import facts_of
from chainrule.adopt.snapshot import CACHE, MAPPED, MISSING, Snapshot, StandIn, package_of
from chainrule.adopt.state import traced
from chainrule.engine.boxed import Boxed

SELF = object()  # stands for a function in what is remembered about that function, which must not keep it alive
ADOPTING = "chainrule.adopt"  # stands in the builtins of twins, and tells their globals from others
MANY = 500  # twins; a session that has made more is not used again

SELF_OF = [lambda x: x]  # set by `adopting`: what stands for the object of an adopted method
# what `adopt` returned -> the function it was given
ADOPTED: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def home_of(f):
    """Return the top package of a function, or of the one in its closure that it decorates."""
    package = package_of(f.__globals__.get("__name__"))
    inner = inspect.unwrap(f)
    if type(inner) is types.FunctionType and inner is not f:
        wrapped = package_of(inner.__globals__.get("__name__"))
        if wrapped != package and any(leads_to(content(c), wrapped) for c in f.__closure__ or ()):
            return wrapped
    return package


def leads_to(v, package, depth=5):
    """Tell whether a function of another package, a decorator's say, holds one of this package in its closure."""
    if type(v) is functools.partial:
        v = v.func
    if type(v) is CACHE:
        v = v.__wrapped__
    if type(v) is not types.FunctionType or not depth:
        return False
    if package_of(v.__globals__.get("__name__")) == package:
        return True
    return any(leads_to(content(c), package, depth - 1) for c in v.__closure__ or ())


class Twin:
    """What a twin was made from, to tell whether it still holds."""

    __slots__ = ("cells", "code", "contents", "defaults", "function", "keywords")

    def __init__(self, f, function, cells, contents):
        self.function, self.cells, self.contents = function, cells, contents
        self.code, self.defaults, self.keywords = f.__code__, f.__defaults__, f.__kwdefaults__

    def holds(self, f):
        """Tell whether `f` is still what it was."""
        return (
            f.__code__ is self.code
            and f.__defaults__ is self.defaults
            and f.__kwdefaults__ is self.keywords
            and (not self.cells or self._holds_cells(f))
        )

    def _holds_cells(self, f):
        return all(content(c) is (f if v is SELF else v) for c, v in zip(self.cells, self.contents, strict=True))


def is_adopting(names):
    """Tell whether globals are those of twins."""
    own = names.get("__builtins__")
    return own.__class__ is dict and ADOPTING in own


def content(cell):
    """Return what a closure's cell holds; MISSING if nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class Session:
    """The snapshots and twins that one function runs with."""

    def __init__(self, f):
        self.builtins = {**builtins.__dict__, "__import__": self.import_, ADOPTING: True}
        self.snapshots = {}  # id of a module's dict -> its Snapshot
        self.twins = weakref.WeakKeyDictionary()  # function -> Twin; cache -> its counterpart
        self.made = []  # (weak reference to a function, its Twin)
        self.caches = []  # counterparts of `functools.lru_cache`
        self.waiting = []
        self.cells, self.package = f.__closure__ or (), home_of(f)
        self.entry = self.twin(f)

    # -- one run ---------------------------------------------------------------------------------------------------

    def renew(self):
        """Bring the session up to date; return False if a new one is needed."""
        if len(self.made) > MANY:
            return False
        for ref, twin in self.made:
            f = ref()
            if f is not None and not twin.holds(f):
                return False
        for s in list(self.snapshots.values()):
            if not s.renew():
                return False
        if self.waiting:
            self.settle()
        return True

    def flush(self):
        """End a run: copy back what was assigned, and forget what caches hold, since it may be traced."""
        for s in self.snapshots.values():
            s.flush()
        for cache in self.caches:
            cache.cache_clear()

    def holds_traced(self):
        """Tell whether a global, or a variable around the function, is traced."""
        for s in self.snapshots.values():
            if s.traced:
                return True
        return any(isinstance(content(c), Boxed) for c in self.cells) if self.cells else False

    # -- twins -----------------------------------------------------------------------------------------------------

    def twin(self, f):
        """Return the twin of a function that was adopted by name, whatever its package."""
        made = self.function(f, home_of(f))
        self.settle()
        return made

    def settle(self):
        """Finish the twins that were begun. They may refer to each other, so each is made before it is filled."""
        while self.waiting:
            self.waiting.pop()()

    def snapshot(self, real):
        """Return the snapshot of a module's globals."""
        found = self.snapshots.get(id(real))
        if found is None:
            found = self.snapshots[id(real)] = Snapshot(self, real)
        return found

    def argument(self, v):
        """Return an argument as the code shall see it: functions of the same package as their twins."""
        if not issubclass(type(v), MAPPED) or issubclass(type(v), types.ModuleType):
            return v
        made = self.map(v, self.package)
        self.settle()
        return made

    def map(self, v, package):
        """Return what stands for a value in the eyes of code of a package."""
        if issubclass(type(v), types.FunctionType):
            return self.function(v, package)
        if not issubclass(type(v), MAPPED):
            if v.__class__ is tuple:
                mapped = tuple([self.map(w, package) for w in v])
                return v if all(map(operator.is_, mapped, v)) else mapped
            if v.__class__ is np.vectorize:
                return self.vectorized(v, package)
            return v if isinstance(v, Boxed) else modules.in_place_of(v)
        if issubclass(type(v), types.ModuleType):
            if package_of(v.__name__) == package and not issubclass(type(v), StandIn) and v.__dict__ is not None:
                return self.snapshot(v.__dict__).stand_in
            return modules.in_place_of(v)
        if issubclass(type(v), types.MethodType):
            f = self.map(v.__func__, package)
            return v if f is v.__func__ else types.MethodType(f, SELF_OF[0](v.__self__))
        if v.__class__ is functools.partial:
            before = (v.func, *v.args, *v.keywords.values())
            parts = self.map(before, package)
            if parts is before:
                return v
            n = 1 + len(v.args)
            return functools.partial(*parts[:n], **dict(zip(v.keywords, parts[n:], strict=True)))
        if issubclass(type(v), CACHE):
            return self.cache(v, package)
        return modules.in_place_of(v)

    def vectorized(self, v, package):
        """Return what stands for an object of `numpy.vectorize`: in a traced run ours, of the twin."""
        f = self.map(v.pyfunc, package)
        ours = mirror.vectorize(f, v.otypes, v.__doc__, v.excluded, v.cache, v.signature)

        @functools.wraps(v.pyfunc)
        def call(*args, **kwargs):
            return (ours if traced() else v)(*args, **kwargs)

        return call

    def cache(self, v, package):
        """Return a cache of its own for the twin of a function behind `functools.lru_cache`."""
        if v in self.twins:
            return self.twins[v]
        f = self.map(v.__wrapped__, package)
        if f is v.__wrapped__:
            return v
        made = functools.update_wrapper(functools.lru_cache(**v.cache_parameters())(f), f)
        self.twins[v] = made
        self.caches.append(made)
        return made

    def function(self, f, package):
        """Return the twin of a function, or the function itself if it is none of ours to adopt."""
        if f in ADOPTED:
            if home_of(f) != package:
                return f  # runs in a session of its own
            f = ADOPTED[f]
        found = self.twins.get(f)
        if found is not None and found.holds(f):
            return found.function
        home = f.__globals__
        if is_adopting(home):
            return f  # made by a twin
        ours = modules.in_place_of(f)
        if ours is not f:
            return ours
        own = package_of(home.get("__name__")) == package
        cells = f.__closure__ or ()
        if not own and not any(leads_to(content(c), package) for c in cells):
            return f
        return self.make(f, own, package)

    def make(self, f, own, package):
        """Make the twin of a function: at once the function object, and later what it holds."""
        cells = f.__closure__ or ()
        contents = [content(c) for c in cells]
        code, globals_, written = f.__code__, f.__globals__, ()
        if own:
            facts = facts_of(code)
            snapshot = self.snapshot(globals_)
            held = dict(zip(code.co_freevars, contents, strict=True))
            known = {
                (kind, name)
                for kind, name in filter(None, facts.bases)
                if (held if kind == "DEREF" else globals_).get(name) is np
            }
            written, code, globals_ = facts.written, facts.twin(code, known), snapshot.values
        changes = [
            name not in written and (issubclass(type(v), MAPPED) if own else leads_to(v, package))
            for name, v in zip(code.co_freevars, contents, strict=True)
        ]
        new = tuple([types.CellType() if changed else c for c, changed in zip(cells, changes, strict=True)])
        made = types.FunctionType(code, globals_, f.__name__, None, new)
        record = Twin(f, made, cells, [SELF if v is f else v for v in contents])
        self.twins[f] = record
        self.made.append((weakref.ref(f), record))

        def fill():
            for cell, v, changed in zip(new, contents, changes, strict=True):
                if changed:
                    cell.cell_contents = self.map(v, package)
            made.__defaults__ = f.__defaults__ and tuple([self.map(v, package) for v in f.__defaults__])
            if f.__kwdefaults__:
                made.__kwdefaults__ = {k: self.map(v, package) for k, v in f.__kwdefaults__.items()}
            made.__qualname__, made.__doc__, made.__module__ = f.__qualname__, f.__doc__, f.__module__
            made.__dict__ = f.__dict__
            for name in ("__annotate__" if hasattr(f, "__annotate__") else "__annotations__", "__type_params__"):
                if hasattr(f, name):
                    setattr(made, name, getattr(f, name))
            if own:
                snapshot.need(facts.names)
                snapshot.keep(facts.stored)
                if facts.reflective:
                    snapshot.need_all()

        self.waiting.append(fill)
        return made

    # -- the other way round ---------------------------------------------------------------------------------------

    def behind(self, v):
        """Return what the user's module shall hold for a value that code of a twin assigned to it."""
        if issubclass(type(v), StandIn):
            return v._chainrule_snapshot.module or v
        if issubclass(type(v), types.FunctionType):
            for ref, twin in self.made:
                f = ref()
                if f is not None and twin.function is v:
                    return f
        return modules.behind(v)

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        """Import as Python does, and give the stand-in: the ``__import__`` of adopted code."""
        module = builtins.__import__(name, globals, locals, fromlist, level)
        package = package_of((globals or {}).get("__name__"))
        made = self.map(module, package)
        self.settle()
        return made
