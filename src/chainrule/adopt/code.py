"""Reading a code object: the globals it names, the cells it writes, and the calls that must be ours.

A type has two uses in a program. As a value (``dtype=float``, ``type(x) is np.float64``) it must stay what it is. As
a function (``float(x)``, ``np.float64(x)``) it makes plain numbers, and would lose the derivative of a traced one. The
two are told apart in the byte code: Python loads a name that is about to be called with a null beside it. In a twin of
the code these loads, and no others, ask for another name, ``float()`` instead of ``float``, under which a session puts
our function. No instruction moves and no line changes. Where the pattern is not found the name stays, and a traced
value raises as it does without adopt.
"""

import dis
import itertools
import sys
import types
import weakref

import numpy as np

# names whose calls are ours: of Python, and of NumPy's scalar types
PYTHON = frozenset({"float", "int", "complex", "isinstance", "type"})
KINDS = frozenset(np.dtype(c).type for c in "bBhHiIlLqQefdgFDG")
SCALARS = frozenset(name for name, kind in vars(np).items() if isinstance(kind, type) and kind in KINDS)

# names by which code can reach globals that it does not name
REFLECTIVE = frozenset({"globals", "eval", "exec", "__globals__", "f_globals"})

LOW_BIT = {"LOAD_GLOBAL": 1, "LOAD_METHOD": 0, "LOAD_ATTR": int(sys.version_info >= (3, 12))}  # a flag below the index


def called(name):
    """Return the name that a twin's code asks for where `name` is called."""
    return f"{name}()"


class Facts:
    """What a function's code, with the code of all functions inside it, does with names.

    `names` are the globals it may read, `stored` those it assigns, `written` the cells it assigns; `reflective` says
    that it may reach others; `bases` are the names that NumPy's scalar types are called on (``np`` in
    ``np.float64(x)``), each with the kind of its load.
    """

    __slots__ = ("_twins", "bases", "names", "reflective", "stored", "written")

    def __init__(self, code):
        self.names, self.stored, self.written, self.bases = set(), set(), set(), set()
        self.reflective = False
        self._twins = {}
        self._read(code)

    def _read(self, code):
        before = None
        for i in dis.get_instructions(code):
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                self.names.add(i.argval)
                self.reflective |= i.argval in REFLECTIVE
            elif i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.names.add(i.argval)
                self.stored.add(i.argval)
            elif i.opname in ("STORE_DEREF", "DELETE_DEREF"):
                self.written.add(i.argval)
            elif i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                self.reflective |= i.argval in REFLECTIVE and i.argval.startswith(("__", "f_"))
                if i.argval in SCALARS and before is not None:
                    self.bases.add(base_of(before))
            before = i
        for c in code.co_consts:
            if isinstance(c, types.CodeType):
                self._read(c)

    def twin(self, code, known):
        """Return the code with its calls made ours; `known` are the (kind, name) that hold NumPy."""
        known = frozenset(known) & self.bases
        if known not in self._twins:
            made = rewritten(code, known)
            self._twins[known] = None if made is code else made  # to hold the code itself would keep it alive
        return self._twins[known] or code


def base_of(instruction):
    """Return the kind and name of the variable that an instruction loads (the last, if it loads two), or None."""
    kind = instruction.opname.split("_")[1:2]
    if not instruction.opname.startswith("LOAD_") or kind[0] not in ("GLOBAL", "FAST", "DEREF"):
        return None
    name = instruction.argval
    return kind[0], name[-1] if isinstance(name, tuple) else name


def rewritten(code, known):
    """Return `code`, and the code inside it, with the names of calls changed as the module's docstring says."""
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    known = {(kind, n) for kind, n in known if kind == "GLOBAL" or (kind == "DEREF" and n not in code.co_cellvars)}
    known |= imported(steps)
    names = list(code.co_names)
    raw = bytearray(code.co_code)
    for k, i in enumerate(steps):
        earlier, before, after = (steps[j] if 0 <= j < len(steps) else None for j in (k - 2, k - 1, k + 1))
        if not is_call(i, before, earlier, after, known):
            continue
        shift = LOW_BIT[i.opname]
        if i.arg > 255 or code.co_names[i.arg >> shift] != i.argval:
            continue
        name = called(i.argval)
        index = names.index(name) if name in names else len(names)
        if index << shift > 254:
            continue  # the index does not fit into the instruction
        if index == len(names):
            names.append(name)
        raw[i.offset + 1] = index << shift | (i.arg & ((1 << shift) - 1))
    consts = tuple([rewritten(c, known) if isinstance(c, types.CodeType) else c for c in code.co_consts])
    if len(names) == len(code.co_names) and all(a is b for a, b in zip(consts, code.co_consts, strict=True)):
        return code
    return code.replace(co_code=bytes(raw), co_names=tuple(names), co_consts=consts)


def is_call(i, before, earlier, after, known):
    """Tell whether an instruction loads one of our names for a call."""
    if i.opname == "LOAD_GLOBAL":
        if i.argval not in PYTHON and i.argval not in SCALARS:
            return False
        return bool(i.arg & 1) and not (after is not None and after.opname in ("LOAD_ATTR", "LOAD_METHOD"))
    if i.opname not in ("LOAD_ATTR", "LOAD_METHOD") or i.argval not in SCALARS or before is None:
        return False
    if base_of(before) not in known:
        return False
    if i.opname == "LOAD_METHOD" or (LOW_BIT["LOAD_ATTR"] and i.arg & 1):  # np.float64(x), as if it were a method
        return True
    if before.opname == "LOAD_GLOBAL" and before.arg & 1:  # a null before np, up to Python 3.12
        return True
    return any(s is not None and s.opname == "PUSH_NULL" for s in (earlier, after))  # after it, from 3.13


def imported(steps):
    """Return the local names that hold NumPy by ``import numpy as np`` in this code, and are never assigned else."""
    sure, others = set(), set()
    for before, i in itertools.pairwise(steps):
        if not i.opname.startswith("STORE_") or i.opname.split("_")[1] not in ("FAST", "DEREF"):
            continue
        kind = i.opname.split("_")[1]
        names = list(i.argval) if isinstance(i.argval, tuple) else [i.argval]  # two at once, from Python 3.13
        if before.opname == "IMPORT_NAME" and before.argval == "numpy":
            sure.add((kind, names.pop(0)))
        others.update((kind, n) for n in names)
    return sure - others


_facts = {}  # id of a code object -> (weak reference to it, its Facts)


def facts_of(code):
    """Return the `Facts` of a code object, read once."""
    key = id(code)
    found = _facts.get(key)
    if found is None or found[0]() is not code:
        found = _facts[key] = weakref.ref(code, lambda _: _facts.pop(key, None)), Facts(code)
    return found[1]
