"""Which local variables of a loop are the same in round k whatever way the rounds before it went.

A rolled loop with a fixed number of rounds may go another way in each of them. What Python itself kept (a flag, a
counter, the length of a list) was seen for one sequence of ways only. It is right for all if it does not depend on
them: the target of the ``for``, what each round makes of such numbers by operators alone (``t = t * 1.1``), and what no
later round reads.

`changes_nothing` tells whether there is anything else that the code of a round could have kept.
"""

import dis
import functools

LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME", "LOAD_CLOSURE", "LOAD_FROM_DICT")
STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "DELETE_FAST", "DELETE_DEREF", "DELETE_NAME")
NUMBERS = (bool, int, float, complex, str, type(None))
ELSEWHERE = ("STORE_DEREF", "STORE_GLOBAL", "DELETE_DEREF", "DELETE_GLOBAL")
PURE_OPCODES_REFUSED = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_", "YIELD", "AWAIT")
CHANGING = frozenset({
    "append", "extend", "insert", "pop", "popitem", "update", "add", "remove", "discard", "clear", "setdefault",
    "sort", "reverse", "write", "send", "put", "appendleft", "popleft", "next", "__next__", "__setitem__",
})  # fmt: skip


def unsteady(run, marks, varying, codes):
    """Return those of the varying local variables of a loop that may depend on the ways that rounds took."""
    if any("more" in m.plain for m in marks):
        return set(varying) | {"more"}
    facts = of_loop(run.code, run.target)
    if facts.builds:
        return {"what a comprehension collects"}
    varying = {name for name in varying if name in facts.live}
    if any(stores_elsewhere(c) for c in codes if c is not run.code):
        return varying
    others = {path[0] for m in marks for path, v in m.plain.items() if v.__class__ is not tuple or v[0] not in NUMBERS}
    numbers = {path[0] for m in marks for path in m.plain} - others - {path[0] for m in marks for path in m.symbols}
    steady = {name for name, reads in facts.made.items() if reads is not None and (not reads or name in numbers)}
    while True:  # what is made of steady numbers is steady
        left = {
            name for name in steady
            if all(r in facts.targets or (r in numbers and (r in steady or r not in facts.made))
                   for r in facts.made[name])
        }  # fmt: skip
        if left == steady:
            return varying - steady - facts.targets
        steady = left


def changes_nothing(codes):
    """Tell whether code leaves nothing behind but its local variables, as far as its instructions tell."""
    for code in codes:
        for i in dis.get_instructions(code):
            if i.opname.startswith(PURE_OPCODES_REFUSED):
                return False
            if i.argval in CHANGING and i.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")):
                return False
    return True


@functools.lru_cache(1024)
def stores_elsewhere(code):
    """Tell whether code sets variables of functions around it, or globals."""
    return any(i.opname in ELSEWHERE and i.argval not in code.co_cellvars for i in dis.get_instructions(code))


class Facts:
    """What the byte code of a loop tells.

    `targets` are the names that its ``for`` sets and nothing else does. `made` has for each other name that a round
    sets the names that it is made of, by operators; None if that is not all. `live` are the names that a later round,
    or what comes after the loop, may read before they are set again. `builds` tells whether the rounds put values into
    a list, dict or set that has no name yet, and so is in no mark: those of a comprehension.
    """

    def __init__(self, code, target):
        instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
        self.jumps = [(i.offset, i.argval) for i in instructions if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs]
        head = next((k for k, i in enumerate(instructions) if i.offset >= target), 0)
        here = instructions[head].offset
        self.end = max([a for a, t in self.jumps if t <= here <= a], default=instructions[-1].offset)
        self.start = instructions[head].offset
        self.body = [k for k, i in enumerate(instructions) if self.start <= i.offset <= self.end]
        self.instructions = instructions
        if code.co_exceptiontable:  # any instruction may jump
            self.live = {name for i in instructions for name in (*loaded(i), *stored(i))}
        else:
            self.live = live_at(instructions, head)
        first, cells = self.first_targets(head), code.co_cellvars + code.co_freevars
        self.made = {}
        for k in self.body:
            for name in stored(instructions[k]):
                reads = frozenset() if k in first else None if name in cells else self.reads(k)
                before = self.made.setdefault(name, frozenset())
                self.made[name] = None if reads is None or before is None else before | reads
        self.builds = any(self.collects(instructions[k]) for k in self.body)
        elsewhere = {name for k in self.body if k not in first for name in stored(instructions[k])}
        self.targets = {name for k in first for name in stored(instructions[k])} - elsewhere

    def collects(self, i):
        """Tell whether an instruction adds to what was there before the loop, below the iterators on the stack."""
        inner = {t for a, t in self.jumps if self.start < t <= i.offset <= a}
        return i.opname in ("LIST_APPEND", "SET_ADD", "MAP_ADD") and i.arg - 1 > len(inner)

    def first_targets(self, head):
        """Return which instructions set the targets of the ``for`` at the head of the loop."""
        found, k, open_ = set(), head, 1
        if not self.instructions[head].opname.startswith("FOR_ITER"):
            return found
        while open_ > 0:
            k += 1
            i = self.instructions[k]
            if i.opname == "UNPACK_SEQUENCE":
                open_ += i.arg - 1
            elif i.opname.startswith("STORE_FAST") and stored(i):
                found.add(k)
                open_ -= len(stored(i))
            elif i.opname == "STORE_DEREF":
                found.add(k)
                open_ -= 1
            else:
                return found
        return found

    def reads(self, k):
        """Return the names in the expression that instruction `k` sets its variable to; None if that is not all."""
        i = self.instructions[k]
        if i.opname != "STORE_FAST" or self.sometimes(i.offset):
            return None
        names, need, stop = frozenset(), 1, i.offset
        while need:
            k -= 1
            i = self.instructions[k]
            if i.offset < self.start:
                return None
            if i.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                need -= 1
            elif i.opname.startswith("LOAD_FAST") and "CLEAR" not in i.opname:
                names |= frozenset(loaded(i))
                need -= len(loaded(i))
            elif i.opname in ("BINARY_OP", "COMPARE_OP"):
                need += 1
            elif not i.opname.startswith("UNARY_"):
                return None
            if need < 0:
                return None
        if any(i.offset < t <= stop for _, t in self.jumps):
            return None
        return names

    def sometimes(self, offset):
        """Tell whether a complete round may run an instruction of the loop never, or more than once."""
        for a, t in self.jumps:
            if not self.start <= a <= self.end or a == self.start:
                continue
            if a < offset < t <= self.end or (t <= self.start and a < offset) or self.start < t <= offset <= a:
                return True
        return False


of_loop = functools.lru_cache(1024)(Facts)


def names_of(i):
    """Return the names of an instruction, which may be for two variables."""
    return i.argval if isinstance(i.argval, tuple) else (i.argval,)


def loaded(i):
    """Return the names that an instruction reads."""
    if i.opname.startswith("STORE_FAST_LOAD_FAST"):
        return names_of(i)[1:]
    return names_of(i) if i.opname.startswith(LOADS) else ()


def stored(i):
    """Return the names that an instruction sets."""
    if i.opname.startswith("STORE_FAST_LOAD_FAST"):
        return names_of(i)[:1]
    if i.opname == "LOAD_FAST_AND_CLEAR":
        return names_of(i)
    return names_of(i) if i.opname.startswith(STORES) else ()


def live_at(instructions, head):
    """Return the local variables that may be read, from an instruction on, before they are set."""
    number = {i.offset: k for k, i in enumerate(instructions)}
    after = []
    for k, i in enumerate(instructions):
        found = []
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            found.append(next((number[t] for t in range(i.argval, i.argval + 64, 2) if t in number), None))
        always = i.opname.startswith(("RETURN", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"))
        if not always and k + 1 < len(instructions):
            found.append(k + 1)
        after.append([n for n in found if n is not None])
    cells = {n for i in instructions if "DEREF" in i.opname or "CLOSURE" in i.opname or "NAME" in i.opname
             for n in (*loaded(i), *stored(i))}  # fmt: skip
    live = [set() for _ in instructions]
    changed = True
    while changed:
        changed = False
        for k in range(len(instructions) - 1, -1, -1):
            i = instructions[k]
            now = set().union(*[live[n] for n in after[k]])
            now -= set(stored(i))
            now |= set(loaded(i))
            if i.opname.startswith("STORE_FAST_LOAD_FAST"):
                now.discard(stored(i)[0])
            if now != live[k]:
                live[k], changed = now, True
    return live[head] | cells
