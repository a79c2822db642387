"""Where the code of a function leads: what it can read from outside, by names.

A `Walk` starts at a function and goes where its code can lead: to the globals and closure cells that the code names, to
attributes of objects by the names that stand in the code, into containers, and to the functions found there. With the
code that ran known, it keeps to that. What it passes is written down as `Surroundings`.

The walk sees names, not values: it takes in more than what was read (an attribute of another object with the same
name), and never less, but for what C code keeps to itself.
"""

import array
import contextvars
import functools
import gc
import os
import sys
import types
import zlib
from collections import deque

import numpy as np

from chainrule.engine.boxed import Boxed
from chainrule.errors import _HERE
from chainrule.program.chance import clock, is_generator
from chainrule.program.names import names_in
from chainrule.program.surroundings import ANY, MISSING, Surroundings

PLAIN = (int, float, complex, str, bytes, bool, type(None), range, slice, np.dtype, np.generic, type(Ellipsis))
ATOMS = frozenset({int, float, complex, str, bytes, bool, type(None), np.float64})
MAPPINGS = (dict, types.MappingProxyType)
CONTAINERS = (list, tuple, dict, set, frozenset, deque, bytearray, array.array, types.MappingProxyType)
TWINNED = (list, tuple, dict)  # of which a copy can stand for the original
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
ADOPT = _HERE + "adopt"
INSIDE = tuple(_HERE + part for part in ("transforms", "program"))  # our code whose closures hold users' functions
LARGE = 1 << 20  # bytes of an array of which a walk before the run keeps a checksum only
MOST = 10_000  # values in one container
BOUND = 5_000  # values that are looked at before anything has run


class Unclear(Exception):
    """Why what a function reads can't be compared later; `wrong` tells that the traced run was not that of Python."""

    def __init__(self, why, wrong=False):
        super().__init__(why)
        self.wrong = wrong


@functools.lru_cache(1024)
def home(module):
    """Tell whose a module is: "ours", "theirs" (NumPy, SciPy, the standard library) or "user"."""
    root = (module or "").partition(".")[0]
    if root == "chainrule":
        return "ours"
    if root in ("numpy", "scipy", "optree") or root in sys.stdlib_module_names or root.startswith("namedtuple_"):
        return "theirs"
    return "user"


@functools.lru_cache(1024)
def is_library(root):
    """Tell whether a package is an installed one."""
    return "site-packages" in (getattr(sys.modules.get(root), "__file__", None) or "")


def package_of(v):
    """Return the name of the package that a function, class or object belongs to."""
    found = v.__name__ if isinstance(v, types.ModuleType) else getattr(v, "__module__", None)
    return found.partition(".")[0] if isinstance(found, str) else ""


def home_of_function(f):
    """Tell whose a function is."""
    if f.__code__.co_filename.startswith(_HERE):
        return "ours"
    found = home(f.__globals__.get("__name__", ""))
    return "user" if found == "ours" else found


def content(v, whole):
    """Return what `same_bytes` compares an array with: its bytes, or of a large one, unless the `whole`, a checksum."""
    if not v.flags.c_contiguous or v.dtype == object:
        return v.tobytes()
    if v.nbytes < LARGE or v.dtype.kind not in "biufc":
        return bytearray(v.tobytes())
    return bytearray(v.data) if whole else zlib.crc32(v)  # one copy, not two


class Walk:
    """Where the code of a function leads.

    `ran` has the code that ran, with its globals; None stands for all code. `guards` is off in a walk that only looks
    for what there is, which is bounded. Arrays at the places of `lift`, (id of holder, key), are left to the program's
    inputs, as far as twins read them.

    `plain` has the ids of what is found in other ways than those that twins go, too. It has no twin: there would be two
    of it, of which one can be changed, or compared with the other.
    """

    def __init__(self, roots, ran=None, *, guards=True, lift=None):
        self.ran, self.guards = ran, guards
        if ran is not None:
            ran = self.ran = {c: space for c, space in ran.items() if home(space.get("__name__")) == "user"}
        self.packages = {package_of(root) for root in roots}
        self.lifted_places = {} if lift is None else lift.found
        self.twinned = None if lift is None else lift.twinned  # ids of functions, and their code
        self.untwinned = frozenset() if lift is None else lift.plain
        self.fixed = set() if lift is None else set(lift.fixed)  # ids of cells and globals that code writes
        self.forced = set()  # code that counts as run
        self.doubts = []
        names, before = set(), -1
        while len(names) + len(self.forced) + len(self.fixed) > before:  # until no code is found whose names are new
            before = len(names) + len(self.forced) + len(self.fixed)
            self.start(frozenset(names))
            for code, space in (ran or {}).items():
                self.code(code, space, False, self.is_twinned(code))
            self.to_twin += [(root, False, None) for root in roots]
            self.run()
            left = [] if ran is None else [c for c in ran if c not in self.reached]
            if left:
                self.todo += [(f, False) for f in functions_of(left)]
                self.run()
            names |= self.found_names
        for v in self.arrays:
            self.surroundings.arrays.append((v, v.shape, v.dtype, content(v, guards)))
        if self.doubts:
            raise Unclear(self.doubts[0])

    def doubt(self, why):
        """Take note of why there can't be a program. What the run gave is right, unless something else says no."""
        self.doubts.append(why)

    def start(self, names):
        """Forget what was found, except for the names of attributes."""
        self.attribute_names, self.found_names = names, set()
        self.surroundings = Surroundings()
        self.known = {}  # (id, forced) -> object that was looked at
        self.places, self.placed, self.reached, self.asked = set(), set(), set(), set()
        self.codes = {}  # (code, id of its globals, force, liftable) -> the code, and its globals
        self.arrays, self.generators, self.boxes, self.todo, self.to_twin = [], [], [], [], []
        self.met, self.plain, self.large = set(), set(), []  # ids of arrays; see above; containers and their lengths
        self.spaces = {}  # id of an object's namespace -> (it, the names that it had)
        self.liftable = {}  # place -> (holder, key, array, name)
        self.lifted = set()  # places
        self.everything = False  # whether code asks for attributes by computed names

    def run(self):
        """Look at all that is to do."""
        while (self.todo or self.to_twin) and (self.guards or len(self.known) < BOUND):
            if self.to_twin:
                self.twin(*self.to_twin.pop())
            else:
                self.look(*self.todo.pop())

    # -- places --------------------------------------------------------------------------------------------------

    def slot(self, mapping, key, v, owner=None, force=False, liftable=False):
        """Go through an entry of a namespace, that of `owner` if it has no dict of its own."""
        place = id(mapping if owner is None else owner), key
        liftable = liftable and place[0] not in self.fixed
        if (place, liftable) in self.placed:
            return
        self.placed.add((place, liftable))
        self.places.add(place)
        if not (liftable and self.lift(mapping, key, v, place, key)):
            self.surroundings.slots.append((mapping, key, v))
            self.go_on(v, force, liftable, key)

    def cell(self, cell, name, force, liftable):
        """Go through a closure cell."""
        place = id(cell), None
        liftable = liftable and place[0] not in self.fixed
        try:
            v = cell.cell_contents
        except ValueError:
            return
        if (place, liftable) not in self.placed:
            self.placed.add((place, liftable))
            self.places.add(place)
            if not (liftable and self.lift(cell, None, v, place, name)):
                self.surroundings.cells.append((cell, v))
                self.go_on(v, force, liftable, name)

    def lift(self, holder, key, v, place, name):
        """Leave an array to the inputs of the program, or take note that it could be."""
        if v.__class__ is not np.ndarray or v.dtype.kind not in "fc" or not v.shape:
            return False
        if place in self.lifted:
            return True
        if place in self.lifted_places:
            self.lifted.add(place)
            self.surroundings.lifted.append((holder, key, v.shape, v.strides, v.dtype))
            return True
        self.liftable[place] = holder, key, v, name
        return False

    # -- twins: see `Lift.of`, which goes the same ways ----------------------------------------------------------

    def go_on(self, v, force, liftable, name):
        """Look at a value that code finds: at its twin, if it is the code of one."""
        if liftable:
            self.to_twin.append((v, force, name))
        else:
            self.todo.append((v, force))

    def twin(self, v, force, name):
        """Look at a value of which a twin is used, if it has one."""
        c = v.__class__
        known = id(v), force, "twin"
        if known in self.known or (not self.guards and c is types.FunctionType and self.is_far(v)):
            return
        if id(v) in self.untwinned:
            self.todo.append((v, force))
        elif c is types.FunctionType:
            self.known[known] = v
            self.function(v, force, self.is_twinned(v))
        elif c is functools.partial:
            self.to_twin.append((v.func, force, None))
            self.todo += [(v.args, force), (v.keywords, force)]
        elif c is types.MethodType:
            self.to_twin.append((v.__func__, force, None))
            self.todo.append((v.__self__, force))
        elif c.__name__ == "Compiled" and home(c.__module__) == "ours":
            self.to_twin.append((v._f, True, None))
        elif c in TWINNED and len(v) <= MOST:
            self.known[known] = v
            self.entries(v, force, name)
        elif isinstance(v, np.ndarray) and not isinstance(v, Boxed):
            self.array(v, force)
        else:
            self.todo.append((v, force))

    def entries(self, v, force, name):
        """Go through a container that has a twin: arrays in it can be inputs of the program, too."""
        keys = list(v) if v.__class__ is dict else None
        self.todo += [(key, force) for key in keys or () if isinstance(key, FUNCTIONS)]
        values = []
        for key in range(len(v)) if keys is None else keys:
            x = v[key]
            if key.__class__ in (int, str) and self.lift(v, key, x, (id(v), key), name):
                values.append(ANY)
            else:
                values.append(x)
                self.to_twin.append((x, force, name))
        if v.__class__ is not tuple:
            self.surroundings.contents.append((v, keys, values))

    # -- values --------------------------------------------------------------------------------------------------

    def look(self, v, force):
        """Look at a value: what of it can change, and where it leads."""
        c = v.__class__
        if c in ATOMS or v is MISSING or isinstance(v, PLAIN) or (id(v), force) in self.known:
            return
        if not self.guards and not isinstance(v, (Boxed, np.ndarray, *CONTAINERS)) and self.is_far(v):
            return
        again = (id(v), not force) in self.known
        self.known[id(v), force] = v
        self.plain.add(id(v))
        if isinstance(v, Boxed):
            self.boxes.append(v)
        elif isinstance(v, np.ndarray):
            self.array(v, force)
        elif isinstance(v, types.FunctionType):
            self.function(v, force)
        elif isinstance(v, types.ModuleType):
            if home(v.__name__) == "user":
                for name in self.chosen(v.__dict__):
                    self.slot(v.__dict__, name, v.__dict__[name], None, force)
        elif isinstance(v, type):
            self.type(v, force)
        elif isinstance(v, CONTAINERS):
            self.container(v, force, again)
        elif is_generator(v):
            self.generators.append(v)
        elif isinstance(c, type) and (c in ITERATORS or c.__module__ == "itertools"):
            if self.guards:
                self.doubt(f"it reads an iterator (a {c.__name__}), which each call would move on")
        else:
            self.object(v, c, force)

    def array(self, v, force):
        """Take note of an array."""
        if id(v) not in self.met:
            self.met.add(id(v))
            self.arrays.append(v)
            if v.dtype == object:
                self.todo += [(x, force) for x in v.ravel().tolist()]

    def is_far(self, v):
        """Tell whether a value belongs to an installed package other than that of the function."""
        root = package_of(v)
        return root not in self.packages and home(root) == "user" and is_library(root)

    def container(self, v, force, again):
        """Go through the values of a container."""
        if len(v) > MOST:
            self.large.append((v, len(v)))
            if self.guards:
                self.doubt(f"it reads a {type(v).__name__} of {len(v)} values, which each call would have to compare")
            return
        mapping = isinstance(v, MAPPINGS)
        values = list(v.values()) if mapping else list(v)
        if not again and v.__class__ is not tuple:
            self.surroundings.contents.append((v, list(v) if mapping else None, values))
        self.todo += [(x, force) for x in values if x.__class__ not in ATOMS]
        if mapping:
            self.todo += [(key, force) for key in v if isinstance(key, FUNCTIONS)]
        if v.__class__ not in CONTAINERS and not hasattr(v.__class__, "_fields"):
            self.object(v, v.__class__, force)

    def object(self, v, c, force):
        """Go through the attributes of an object that the code names, and to its class."""
        if c is types.MethodType:
            self.todo += [(v.__func__, force), (v.__self__, force)]
        elif c is functools.partial:
            self.todo += [(v.func, force), (v.args, force), (v.keywords, force)]
        elif isinstance(v, staticmethod | classmethod):
            self.todo.append((v.__func__, force))
        elif isinstance(v, property):
            self.todo += [(g, force) for g in (v.fget, v.fset, v.fdel)]
        elif c is contextvars.ContextVar:
            now = Current(v)
            self.surroundings.attributes.append((now, "value", now.value))
            self.todo.append((now.value, force))
        elif isinstance(v, functools.cached_property):
            self.todo.append((v.func, force))
        elif home(c.__module__) == "ours":  # objects of ours hold the user's functions
            self.todo += [(x, force or c.__name__ == "Compiled") for x in held_by(v, c)]
        elif home(c.__module__) == "theirs":
            self.todo += [(getattr(v, n, None), True) for n in ("__wrapped__", "pyfunc")]
            inside = getattr(v, "__dict__", None)
            if inside.__class__ is dict:
                for name in inside if c.__module__ == "collections" else self.chosen(inside):
                    self.slot(inside, name, inside[name], None, force)
        else:
            self.instance(v, c, force)

    def instance(self, v, c, force):
        """Go through an object of a class of the user's."""
        inside = getattr(v, "__dict__", None)
        inside = inside if inside.__class__ is dict else {}
        for name in self.chosen(inside):
            self.slot(inside, name, inside[name], None, force)
        for name in self.attribute_names - inside.keys():
            k = next((k for k in c.__mro__ if name in k.__dict__), None)
            if k is None:
                asked = name in self.asked or hasattr(c, "__getattr__")
                if asked and getattr(v, "__dict__", None) is inside:
                    self.slot(inside, name, MISSING)
                continue
            if isinstance(k.__dict__[name], types.MemberDescriptorType):  # of __slots__
                found = getattr(v, name, MISSING)
                if (id(v), name) not in self.places:
                    self.places.add((id(v), name))
                    self.surroundings.attributes.append((v, name, found))
                    self.todo.append((found, force))
            elif home(k.__module__) == "user" and getattr(v, "__dict__", None) is inside:
                self.slot(inside, name, MISSING)  # found in the class, as long as the object itself has none
        self.type(c, force)

    def type(self, c, force):
        """Go through what the user's classes define under the names that the code has."""
        for k in c.__mro__:
            if home(k.__module__) == "user":
                for name, v in list(k.__dict__.items()):
                    if name in self.attribute_names or (name.startswith("__") and self.has_run(v, force)):
                        self.slot(k.__dict__, name, v, k, force)

    def has_run(self, v, force):
        """Tell whether a value is a function that is gone into: Python calls some without their name in the code."""
        if not isinstance(v, types.FunctionType):
            return False
        return self.ran is None or force or v.__code__ in self.ran or v.__code__ in self.forced

    def chosen(self, space):
        """Return the names of a namespace that the code has."""
        if id(space) not in self.spaces:
            self.spaces[id(space)] = space, set(space)
        return [n for n in space if isinstance(n, str)] if self.everything else self.attribute_names & space.keys()

    # -- functions -----------------------------------------------------------------------------------------------

    def function(self, f, force, twinned=False):
        """Go into a function, or its twin: by the names that its code has, to its closure and its defaults."""
        if home_of_function(f) != "user":  # a transform, or a wrapper by NumPy: it holds the user's function
            adopted = f.__code__.co_filename.startswith(ADOPT)  # its code runs with other globals
            twinned = twinned and f.__code__.co_filename.startswith(INSIDE)
            if "__wrapped__" in self.attribute_names:
                self.todo.append((f.__dict__.get("__wrapped__"), force))
            for cell in () if adopted else f.__closure__ or ():
                try:
                    self.go_on(cell.cell_contents, force, twinned, None)
                except ValueError:
                    continue
            self.go_on(f.__dict__.get("__wrapped__"), force or adopted, twinned, None)
            return
        code = f.__code__
        if not self.has_run(f, force):
            return
        if force:
            self.forced.add(code)
        found = names_in(code)
        self.reached |= found.codes
        self.code(code, f.__globals__, force, twinned)
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            if name in found.written_cells:
                self.fixed.add(id(cell))
            self.cell(cell, name, force, twinned)
        self.surroundings.attributes.append((f, "__code__", code))  # tools that reload modules put in another
        for which in ("__defaults__", "__kwdefaults__"):
            values = getattr(f, which)
            if values:
                self.surroundings.attributes.append((f, which, values))
                self.todo.append((values, force))
        for name in self.chosen(f.__dict__):
            if name != "__wrapped__" or name in self.attribute_names:
                self.slot(f.__dict__, name, f.__dict__[name], None, force)
        for name in (self.asked & self.attribute_names) - f.__dict__.keys():
            self.slot(f.__dict__, name, MISSING)

    def is_twinned(self, f):
        """Tell whether arrays that a function, or code, reads are inputs of the program."""
        return self.twinned is None or (f if isinstance(f, types.CodeType) else id(f)) in self.twinned

    def code(self, code, space, force, liftable):
        """Go through the globals that a piece of code names, and take note of its names of attributes."""
        if (code, id(space), force, liftable) in self.codes:
            return
        self.codes[code, id(space), force, liftable] = code, space
        found = names_in(code)
        self.found_names |= found.attributes
        self.everything = self.everything or found.computed
        if found.written_globals or found.namespaces:
            self.fixed.add(id(space))
        self.asked |= found.asked
        names = [n for n in space if not n.startswith("__")] if found.namespaces else found.globals
        for name in names:
            self.slot(space, name, space.get(name, MISSING), None, force, liftable=liftable)
        self.todo += [(sys.modules.get(name), force) for name in found.imports]
        if {"environ", "getenv"} & (found.attributes | found.globals):
            self.todo.append((getattr(os.environ, "_data", None), force))
        if self.guards:
            if found.unseeded:
                self.doubt(f"it makes a random generator without a seed: {found.unseeded}()")
            read = clock(found, space)
            if read:
                self.doubt(f"it asks {read}, whose answer would be the same in each run")
            if found.kinds:
                raise Unclear(f"it asks whether a value is of type {found.kinds}: traced values answer otherwise", True)


ITERATORS = (
    types.GeneratorType, type(iter([])), type(iter(())), type(iter({})), type(iter({}.items())),
    type(iter({}.values())), type(iter(range(1))), type(iter(set())), type(reversed([])), enumerate, zip, map, filter,
)  # fmt: skip


class Current:
    """What a context variable is, as an attribute."""

    def __init__(self, variable):
        self.variable = variable

    @property
    def value(self):
        """The value in the context at hand."""
        try:
            return self.variable.get()
        except LookupError:
            return MISSING


def held_by(v, c):
    """Return what an object of ours holds."""
    names = [n for k in c.__mro__ for n in getattr(k, "__slots__", ()) if isinstance(n, str)]
    if c.__name__ == "Compiled":
        return [v._f]
    if c.__module__.startswith("chainrule.adopt"):
        return [getattr(v, "__wrapped__", None)]
    return [*getattr(v, "__dict__", {}).values(), *[getattr(v, n, None) for n in names if n != "__weakref__"]]


def functions_of(codes):
    """Find the functions that have these code objects."""
    wanted = set(codes)
    return [f for f in gc.get_referrers(*codes) if isinstance(f, types.FunctionType) and f.__code__ in wanted]
