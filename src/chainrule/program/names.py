"""What names a piece of code has: of globals, of attributes, of what it imports and writes."""

import dis
import functools
import types
from dataclasses import dataclass, field

COMPUTED = frozenset({"getattr", "vars", "__dict__", "hasattr", "attrgetter"})  # attributes by computed names
FORMS = frozenset({"shape", "dtype", "ndim", "size", "__len__", "__iter__", "__array__", "__array_interface__"})
TYPES = frozenset({"ndarray", "float", "complex", "Number", "Real", "Complex", "floating", "inexact", "generic"})
ASKING = frozenset({"isinstance", "type", "issubclass"})
NAMESPACES = frozenset({"globals", "exec", "eval"})
SEEDED = frozenset({"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "MT19937", "Philox", "SFC64"})
WHICH = frozenset({"is_", "is_not"})  # of `operator`: what tells which of several objects a value is
BETWEEN = frozenset({"CACHE", "PRECALL", "PUSH_NULL", "NOP", "EXTENDED_ARG"})


@dataclass(eq=False, slots=True)
class Names:
    """The names in a code object and in those of the functions defined in it."""

    globals: set = field(default_factory=set)
    attributes: set = field(default_factory=set)
    imports: set = field(default_factory=set)
    written_globals: set = field(default_factory=set)
    written_cells: set = field(default_factory=set)
    codes: set = field(default_factory=set)
    computed: bool = False  # whether attributes are asked for by computed names
    asked: set = field(default_factory=set)  # attributes that may not be there
    kinds: str = ""  # what a value is asked to be: a traced one is none of these
    namespaces: bool = False  # whether the dict of the globals is asked for
    compared: set = field(default_factory=set)  # what is asked to be one object: dotted names, () for anything else
    unseeded: str = ""  # a random generator that is made without a seed


@functools.lru_cache(4096)
def names_in(code) -> Names:
    """Return the names in a code object."""
    found = Names()
    found.codes.add(code)
    steps = [i for i in dis.get_instructions(code) if i.opname not in BETWEEN]
    for at, (i, after, then) in enumerate(zip(steps, [*steps[1:], None], [*steps[2:], None, None], strict=False)):
        name = i.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.globals.add(i.argval)
        elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM", "STORE_ATTR"):
            found.attributes.add(i.argval)
        elif name == "IMPORT_NAME":
            found.imports.add(i.argval)
        elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            found.written_globals.add(i.argval)
            found.globals.add(i.argval)
        elif name in ("STORE_DEREF", "DELETE_DEREF"):
            found.written_cells.add(i.argval)
        elif name == "LOAD_CONST" and isinstance(i.argval, str) and i.argval.isidentifier():
            found.attributes.add(i.argval)  # getattr(x, "name")
        elif name == "IS_OP" and steps[at - 1].opname != "LOAD_CONST":
            found.compared.add(dotted(steps, at - 1))
        if i.argval in SEEDED and "LOAD" in name and after is not None and called_empty(after, then):
            found.unseeded = i.argval
    if ASKING & found.globals and TYPES & (found.globals | found.attributes):
        found.kinds = min(TYPES & (found.globals | found.attributes))
    if {"hasattr", "getattr"} & found.globals:
        found.asked |= {v for v in code.co_consts if isinstance(v, str) and v.isidentifier()}
    if "hasattr" in found.globals and FORMS & found.asked:  # numbers have none, traced numbers have
        found.kinds = "with " + min(FORMS & found.asked)
    if "isscalar" in found.globals | found.attributes:
        found.kinds = "scalar"
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = names_in(inner)
            for part in ("globals", "attributes", "imports", "written_globals", "codes", "asked", "compared"):
                getattr(found, part).update(getattr(more, part))
            found.written_cells |= more.written_cells
            found.unseeded, found.kinds = found.unseeded or more.unseeded, found.kinds or more.kinds
            found.computed, found.namespaces = found.computed or more.computed, found.namespaces or more.namespaces
    if "id" in found.globals or WHICH & (found.globals | found.attributes):
        found.compared.add(())
    found.computed = found.computed or bool(COMPUTED & (found.globals | found.attributes))
    found.namespaces = found.namespaces or bool(NAMESPACES & found.globals)
    return found


def dotted(steps, at):
    """Return the names of what was loaded by its name from the globals, and its attributes; () for anything else."""
    names = []
    while steps[at].opname == "LOAD_ATTR":
        names.insert(0, steps[at].argval)
        at -= 1
    return (steps[at].argval, *names) if steps[at].opname in ("LOAD_GLOBAL", "LOAD_NAME") else ()


def called_empty(after, then):
    """Tell whether what was just loaded is called without an argument, or with None."""
    if after.opname == "LOAD_CONST" and after.argval is None:
        return then is not None and then.opname == "CALL" and then.arg == 1
    return after.opname == "CALL" and after.arg == 0
