"""Arrays of floats that a function reads from its surroundings, as inputs of its program.

What plain code does with such an array (``w * 2``, ``if w[0] > 0``) would be fixed in the program, since no Tracer is
involved. So a *twin* of the function is traced: the same code, with globals and closure cells in which these arrays are
Tracers, and other functions twins. Each call then reads the arrays where they stand, be they written to or replaced by
others of the same shape and dtype.

Lists, tuples and dicts that stand in globals and cells have twins, too, with Tracers in place of their arrays. What is
found otherwise, in attributes say, has no twin, and arrays there are compared by content: in a function, a container or
an array that is found in both ways, the two would differ. `Walk.twin` goes the same ways.
"""

import builtins
import functools
import types
from operator import is_

import numpy as np

from chainrule.program.names import names_in
from chainrule.program.tracing import Tracer
from chainrule.program.walk import INSIDE, MOST, TWINNED, home_of_function


class Changed(Exception):
    """A run has changed a container of which a copy was traced, or may have asked which array is which."""


class Lift:
    """The arrays to be lifted, as a walk found them."""

    def __init__(self, walk) -> None:
        self.fixed, self.plain = walk.fixed, walk.plain  # what code writes is left as it is
        self.reached = list(walk.codes.values())
        self.found = {p: found for p, found in walk.liftable.items() if not {p[0], id(found[2])} & self.plain}
        self.arrays = [array for _, _, array, _ in self.found.values()]
        self.spaces = {}  # id of globals -> those of the twins, and the original
        self.twins = {}  # id of a function or partial call -> (its twin, it)
        self.containers = {}  # id of a container -> (its twin, the container, the entries of the twin)

    def __bool__(self) -> bool:
        return bool(self.found)

    def twin(self, f, program, level):
        """Return the twin of a function, after the arrays have become inputs of a program."""
        self.made, self.symbols, self.boxes, self.cyclic = {}, {}, [], set()
        for place, (_, _, array, name) in self.found.items():
            self.symbols[place] = symbol = program.symbol(array, name)
            program.inputs.append(symbol)
            self.made[place] = Tracer(array, symbol, level)
            self.boxes.append(self.made[place])
        return self.of(f)

    def originals(self, frames):
        """Return the code that ran with the globals of the functions themselves in place of those of the twins."""
        known = {id(space): original for space, original in self.spaces.values()}
        return None if frames is None else {c: known.get(id(space), space) for c, space in frames.items()}

    def clear(self):
        """Forget the Tracers and twins."""
        functions = [f for _, f in self.twins.values() if isinstance(f, types.FunctionType)]
        self.twinned = {id(f) for f in functions} | {f.__code__ for f in functions}
        self.kept = [f for _, f in self.twins.values()]  # so that ids stay theirs
        for space, original in self.spaces.values():  # functions that the run has left behind keep it
            for name in [n for n, v in space.items() if isinstance(v, Tracer) and n in original]:
                space[name] = original[name]
        self.spaces, self.twins, self.containers, self.made, self.boxes = {}, {}, {}, {}, []

    def of(self, v):
        """Return the twin of a value: of a function, or of what holds one."""
        if id(v) in self.twins:
            return self.twins[id(v)][0]
        c = v.__class__
        if id(v) in self.plain:
            return v
        if c is types.FunctionType:
            whose = home_of_function(v)
            if whose == "user" or v.__code__.co_filename.startswith(INSIDE):
                return self.function(v, whose)
        elif c is functools.partial:
            f = self.of(v.func)
            if f is not v.func:
                self.twins[id(v)] = functools.partial(f, *v.args, **v.keywords), v
                return self.twins[id(v)][0]
        elif c is types.MethodType:
            f = self.of(v.__func__)
            return v if f is v.__func__ else types.MethodType(f, v.__self__)
        elif c.__name__ == "Compiled" and c.__module__.startswith("chainrule."):
            f = self.of(v._f)
            return v if f is v._f else f
        elif c in TWINNED and len(v) <= MOST:
            return self.container(v)
        return v

    def container(self, v):
        """Return the twin of a container: a copy with twins of its entries, if any entry has one."""
        if id(v) in self.containers:
            twin, _, found = self.containers[id(v)]
            if found is None and twin is not v:  # it holds itself
                if twin is None:
                    raise Changed
                self.cyclic.add(id(v))
            return twin
        twin = None if v.__class__ is tuple else v.__class__()
        self.containers[id(v)] = twin, v, None
        keys = list(v) if v.__class__ is dict else range(len(v))
        boxes = [self.made.get((id(v), key)) if key.__class__ in (int, str) else None for key in keys]
        found = [self.of(v[key]) if box is None else box for key, box in zip(keys, boxes, strict=True)]
        if id(v) not in self.cyclic and all(x is v[key] for key, x in zip(keys, found, strict=True)):
            self.containers[id(v)] = v, v, None
            return v
        if twin is None:
            twin = tuple(found)
        elif v.__class__ is dict:
            twin.update(zip(keys, found, strict=True))
        else:
            twin += found
        self.containers[id(v)] = twin, v, found
        return twin

    def check(self, frames):
        """Raise if the run has changed the twin of a container, or asked which array is which: Tracers stand for them.

        `frames` has the code that ran with its globals; None stands for all that can be reached.
        """
        codes = self.reached if frames is None else self.originals(frames).items()
        if any(asks_which(code, space) for code, space in codes):
            raise Changed
        for twin, v, found in self.containers.values():
            now = list(twin.values()) if twin.__class__ is dict else twin
            if found is not None and not (
                len(now) == len(found) and all(map(is_, now, found)) and (twin.__class__ is not dict or [*twin] == [*v])
            ):
                raise Changed
            if found is not None and twin.__class__ is list:  # whoever keeps it keeps plain values
                twin[:] = v
            elif found is not None and twin.__class__ is dict:
                twin.update(v)

    def function(self, f, whose):
        """Make the twin of a function."""
        code, closure = f.__code__, f.__closure__ or ()
        space = self.space(f.__globals__) if whose == "user" else f.__globals__
        cells = tuple([c if id(c) in self.fixed else types.CellType() for c in closure])
        made = types.FunctionType(code, space, f.__name__, f.__defaults__, cells or None)
        self.twins[id(f)] = made, f
        made.__kwdefaults__, made.__qualname__, made.__module__ = f.__kwdefaults__, f.__qualname__, f.__module__
        made.__dict__ = f.__dict__
        for new, old in zip(cells, closure, strict=True):
            if new is not old:
                try:
                    v = old.cell_contents
                except ValueError:  # still empty
                    continue
                box = self.made.get((id(old), None))
                new.cell_contents = self.of(v) if box is None else box
        if space is not f.__globals__:
            for name in names_in(code).globals & space.keys():
                box = self.made.get((id(f.__globals__), name))
                space[name] = self.of(f.__globals__[name]) if box is None else box
        return made

    def space(self, original):
        """Return the globals that twins have in place of others."""
        if id(original) in self.fixed:
            return original
        if id(original) not in self.spaces:
            self.spaces[id(original)] = dict(original), original
        return self.spaces[id(original)][0]


def asks_which(code, space):
    """Tell whether a piece of code may ask whether two arrays are one object."""
    for chain in names_in(code).compared:
        if not chain:
            return True
        v = space.get(chain[0], getattr(builtins, chain[0], None))
        for name in chain[1:]:
            v = getattr(v, name, None) if isinstance(v, type | types.ModuleType) else None
        if v is None or isinstance(v, np.ndarray):
            return True
    return False
