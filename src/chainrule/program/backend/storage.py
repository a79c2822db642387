"""Which values of a program may share memory, and how long memory is in use.

Each value that is no view has a root, the memory that it is the first to use. A view has the root of what it views;
what a call of unknown kind returns may share memory with each of its operands. Memory is in use from the equation that
makes it to the last one that reads a value with this root, and for good if such a value is an output.
"""

import math
from collections import defaultdict

from chainrule.program.backend.numbers import reads_of
from chainrule.program.ir import Program, Symbol
from chainrule.program.passes.sharing import may_share

FOREVER = math.inf


class Lives:
    """The roots of the values of a program, and where each root is read last, by the number of the equation.

    `kinds` holds for each equation how it is run: see `chainrule.program.backend.arrays.kind_of`.
    """

    def __init__(self, program: Program, equations: list, kinds: list) -> None:
        self.roots = {}  # symbol -> its roots
        self.made = {}  # symbol -> number of its equation
        self.whole = {}  # symbol -> its root, if it is all of that
        self.last = defaultdict(lambda: -1)  # root -> the last equation that reads it
        self.reads = defaultdict(list)  # symbol -> equations that read it
        self.outside = {*program.inputs, *program.constants}
        self.outputs = defaultdict(list)  # root -> outputs that may share it
        for s in self.outside:
            self.roots[s], self.whole[s], self.made[s] = frozenset([s]), s, -1
        for i, (e, kind) in enumerate(zip(equations, kinds, strict=True)):
            reads = reads_of(e)
            for s in reads:
                self.reads[s].append(i)
                for r in self.roots[s]:
                    self.last[r] = i
            for s in filter(None, e.outputs):
                self.made[s] = i
                own = frozenset([s])
                if kind == "view" or kind == "same":
                    self.roots[s] = self.roots[reads[0]]
                    self.whole[s] = self.whole.get(reads[0]) if kind == "same" else None
                    continue
                if kind in ("loop", "pop") or (kind == "call" and (may_share(e) or is_own(e.fun))):
                    own = own.union(*[self.roots[r] for r in reads])
                self.roots[s], self.whole[s] = own, s
                self.last[s] = i
        self.sharing = defaultdict(list)  # root -> the values that may share it
        for s, rs in self.roots.items():
            for r in rs:
                self.sharing[r].append(s)
        for y in program.outputs:
            if y.__class__ is Symbol:
                for r in self.roots[y]:
                    self.last[r] = FOREVER
                    if y not in self.outputs[r]:
                        self.outputs[r].append(y)

    def join(self, s: Symbol, x: Symbol) -> None:
        """Let `s` be what the whole root of `x` has become."""
        root = self.whole[x]
        for t in self.sharing.pop(s, ()):
            self.roots[t] = (self.roots[t] - {s}) | {root}
            self.sharing[root].append(t)
            if self.whole.get(t) is s:
                self.whole[t] = root
        self.last[root] = max(self.last[root], self.last.pop(s))
        self.outputs[root] += [y for y in self.outputs.pop(s, ()) if y not in self.outputs[root]]


def is_own(fun) -> bool:
    """Tell whether a function is one of ours: written as NumPy's, it may be a view of what it copies itself."""
    return (getattr(fun, "__module__", None) or "").startswith("chainrule.")
