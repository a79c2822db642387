"""A program cut into kernels, which become machine code, and calls, which Python makes between them.

What has a lowering goes into the current kernel as soon as what it reads is known; when nothing more can, the calls
that are ready are made, and the next kernel begins. So a decomposition in the middle of a program costs two kernels,
however its equations are mixed. What is kept in order: a call after the guards that stand before it, since it may fail
where they don't hold, and the rounds that are taken off one stack.

A view takes no code. It stands in each part that reads it, so that only arrays with memory of their own cross a border.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chainrule.program.backend.arrays import kind_of
from chainrule.program.ir import Equation, Guard, Program, Symbol, listing
from chainrule.program.loops.ir import Loop, Pop

MANY = 100  # so many equations are looked at to tell whether a program that is all kernel is worth it
FEW = 3  # calls that a kernel must save: entering it costs as much as one or two


@dataclass(eq=False, slots=True)
class Kernel:
    """Equations that are run as one function of machine code.

    Attributes
    ----------
    equations : list
        In an order in which they can run; guards and loops among them.
    reads : list of Symbol
        What they read from outside.
    outputs : tuple of Symbol
        What is read of them outside.
    """

    equations: list
    reads: list = field(default_factory=list)
    outputs: tuple = ()
    kind: str = "kernel"

    @property
    def place(self) -> Any:
        """The user's line of its first equation."""
        return next((e.place for e in self.equations if e.place), None)

    def program(self, whole: Program) -> Program:
        """Return the kernel as a program of its own, from what it reads to its outputs."""
        return Program(list(self.reads), self.equations, list(self.outputs), {}, [], None, whole.name, whole.count)

    def lines(self) -> list:
        """Return it as lines of text."""
        inner = listing(Program(equations=self.equations)).split("\n")[1:-1]
        return [f"kernel of {', '.join(map(str, self.reads))}:", *inner, f"  -> {', '.join(map(str, self.outputs))}"]


def partition(program: Program, lowerable: Callable, few: int = FEW) -> list:
    """Return a program as a list of kernels, and of equations between them.

    Parameters
    ----------
    program : Program
        Optimised. It is left as it is.
    lowerable : callable
        Tells of an equation, a guard, a loop or a pop whether it can be machine code.
    few : int
        Kernels that would save less calls than these are not made.

    Returns
    -------
    list of Kernel, Equation, Guard, Loop, Pop
        In an order in which they can run. What one reads is made before it.

    Notes
    -----
    Takes time in proportion to the length of the program.
    """
    equations = program.equations
    fit = [bool(lowerable(e)) for e in equations]
    if all(fit) and worth(equations[:MANY]) >= few:
        return [whole(program)]
    stacks = stacks_of(equations)
    for members in stacks:
        if not all(fit[i] for i in members):
            for i in members:
                fit[i] = False
    while True:
        parts = scheduled(equations, fit)
        number = {i: n for n, (native, part) in enumerate(parts) if native for i in part}
        torn = [m for m in stacks if fit[m[0]] and len({number[i] for i in m}) > 1]
        if not torn:
            break
        for members in torn:  # a stack stays within its kernel
            for i in members:
                fit[i] = False
    items: list = []
    for native, part in parts:
        chosen = [equations[i] for i in part]
        items += [Kernel(chosen)] if native and worth(chosen) >= few else chosen
    return bordered(program, items)


def share(items: list) -> float:
    """Return which part of the calls of a program is in kernels."""
    inside = sum(worth(k.equations) for k in items if k.__class__ is Kernel)
    outside = worth([e for e in items if e.__class__ is not Kernel])
    return inside / (inside + outside) if inside + outside else 1.0


def worth(equations: list) -> int:
    """Return how many calls equations take; a loop takes many."""
    return sum(weight(e) for e in equations)


def weight(e) -> int:
    """Return how many calls an equation takes."""
    if e.__class__ is Loop:
        return 100
    return 0 if e.__class__ is Guard or e.__class__ is Pop or is_view(e) else 1


def is_view(e) -> bool:
    """Tell whether an equation gives a view of its first operand, or that itself."""
    return e.__class__ is Equation and kind_of(e) in ("view", "same")


def stacks_of(equations: list) -> list:
    """Return for each stack the numbers of the equations that make and read it, and connected ones."""
    groups: dict = {}  # stack -> its group, shared by connected ones
    for i, e in enumerate(equations):
        stack = [s for s in (getattr(e, n, None) for n in ("pushes", "pops", "stack")) if s is not None]
        if not stack:
            continue
        group = [i]
        for s in stack:
            group += groups.get(s, [])
        for s in [s for s, g in groups.items() if any(g is groups.get(t) for t in stack)] + stack:
            groups[s] = group
    return list({id(g): sorted(set(g)) for g in groups.values()}.values())


def waits(equations: list) -> list:
    """Return for each equation the numbers of those that must run before it."""
    made: dict = {}  # symbol -> number of its equation
    popped: dict = {}  # stack -> the last equation that took rounds off it
    guard = None
    found = []
    for i, e in enumerate(equations):
        needs = {made[s] for s in e.reads if s in made}
        if e.__class__ is Guard:
            needs |= {guard} - {None}
            guard = i
        for name in ("pops", "stack"):
            s = getattr(e, name, None)
            if s is not None:
                needs |= {popped.get(s)} - {None}
                popped[s] = i
        for s in e.outputs:
            made[s] = i
        found.append((needs, guard))
    return found


def scheduled(equations: list, fit: list) -> list:
    """Return parts (native, numbers of equations) in the order in which they are run."""
    left, after = [], [[] for _ in equations]
    for i, (needs, guard) in enumerate(waits(equations)):
        if not fit[i] and guard is not None and guard != i:
            needs = needs | {guard}
        left.append(len(needs))
        for n in needs:
            after[n].append(i)
    ready: dict = {True: [], False: []}
    for i, n in enumerate(left):
        if n == 0:
            heapq.heappush(ready[fit[i]], i)
    parts, native = [], True
    while ready[True] or ready[False]:
        if not ready[native]:
            native = not native
        part = []
        while ready[native]:
            i = heapq.heappop(ready[native])
            part.append(i)
            for n in after[i]:
                left[n] -= 1
                if left[n] == 0:
                    heapq.heappush(ready[fit[n]], n)
        parts.append((native, part))
    return parts


def whole(program: Program) -> Kernel:
    """Return a program as one kernel."""
    outputs = dict.fromkeys([y for y in program.outputs if y.__class__ is Symbol])
    return Kernel(program.equations, list(dict.fromkeys([*program.inputs, *program.constants])), tuple(outputs))


def bordered(program: Program, items: list) -> list:
    """Return the parts with views where they are read, and the kernels with what they read and are read for."""
    if sum(k.__class__ is Kernel for k in items) == 1 and all(k.__class__ is Kernel or is_view(k) for k in items):
        return [whole(program)]
    views = {}  # symbol -> the equation of a view
    for k in items:
        for e in k.equations if k.__class__ is Kernel else (k,):
            if is_view(e):
                views[e.output] = e
    for k in items:
        if k.__class__ is Kernel:
            k.equations = with_views(k.equations, views)
            made = {s for e in k.equations for s in e.outputs}
            k.reads = list(dict.fromkeys([s for e in k.equations for s in e.reads if s not in made]))
    outputs = [y for y in program.outputs if y.__class__ is Symbol]
    rest = with_views([k for k in items if not is_view(k)], views, outputs)
    wanted = set(outputs)
    for k in rest:
        wanted.update(k.reads)
    for k in rest:
        if k.__class__ is Kernel:
            k.outputs = tuple(
                dict.fromkeys([s for e in k.equations for s in e.outputs if s in wanted and s not in views])
            )
    return rest


def with_views(equations: list, views: dict, last: Any = ()) -> list:
    """Return equations with each view that they, or `last`, read before the first that reads it."""
    made, found = set(), []

    def bring(symbols):
        stack = list(symbols)
        while stack:
            s = stack.pop()
            e = views.get(s)
            if e is None or s in made:
                continue
            x = e.inputs[0]
            if x in views and x not in made:
                stack += [s, x]
                continue
            made.add(s)
            found.append(e)

    for e in equations:
        if e.__class__ is Equation and e.output.__class__ is Symbol and e.output in views:
            continue
        bring(e.reads)
        found.append(e)
    bring(last)
    return found
