"""Which equations are fused: they are grouped into clusters, each of which one nest computes.

Entry point
-----------
``clusters(equations, outputs, is_memory=..., fits=...)``
    Groups the equations of a list: returns the list with `Cluster` objects among the equations that are in none. The
    order is legal by data flow; an equation that had to wait for a cluster comes after it. A cluster has `members`,
    `reads` (symbols from outside), `outputs` (what is read elsewhere: all else is never stored), and the attributes
    that a plan needs. Views of memory are left out of clusters: they take no code.

Running sums, places of extrema and writes that fit into no cluster are clusters of their own: see `nests_alone`. A
cluster grows as long as there is a plan for all that is in it; `nests` writes it.
"""

from dataclasses import dataclass, field

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Equation, Symbol
from chainrule.program.loops.ir import taken_from
from chainrule.program.native.nests_alone import alone, shape_alone
from chainrule.program.native.nests_axes import MODES, NEAR, adds_at, demand, operand_shape, roles, room_of
from chainrule.program.native.nests_handlers import HANDLERS, can_walk
from chainrule.program.native.nests_kinds import folded, is_elementwise
from chainrule.program.native.nests_plan import MOST_VALUES, Plan
from chainrule.program.native.nests_positions import MOST_SEGMENTS, Unfit, basic_parts
from chainrule.program.native.values import MOST_ENTRIES

MOST_TRIED = 2000  # equations that are planned anew in other modes
WAITING = 400  # equations that may wait for a cluster before it is closed
ALONE = "alone"
VIEWS = {indexing.getitem, np.transpose, np.reshape, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis,
         np.broadcast_to, np.ravel}  # fmt: skip


@dataclass(eq=False, slots=True)
class Cluster:
    """Equations that one nest computes.

    Attributes
    ----------
    members : list of Equation
    mode
        One of `MODES`.
    loops : tuple of int
        How long the loops are.
    outputs : tuple of Symbol
        What is read outside.
    reads : list of Symbol
        What it reads from outside.
    late : set of Symbol
        Results of reductions over the loops: not to be read within the nest.
    looked : set of Symbol
        Results of which it is noted whether they are finite.
    """

    members: list
    mode: object
    loops: tuple
    outputs: tuple = ()
    reads: list = field(default_factory=list)
    late: set = field(default_factory=set)
    place: object = None
    looked: set = field(default_factory=set)


# -- which equations ---------------------------------------------------------------------------------------------------


def joins(e, is_memory) -> bool:
    """Tell whether an equation is of a kind that clusters are made of."""
    if adds_at(e) is not None:
        return is_memory_shape(operand_shape(e), is_memory) or is_memory(e.output)
    if e.__class__ is not Equation or e.output.__class__ is not Symbol:
        return False
    if folded(e) is not None:
        return is_memory(e.inputs[0]) and e.inputs[0].size > 0
    return can_walk(e) and is_memory(e.output) and e.output.size > 0


def is_alone(e, is_memory) -> bool:
    """Tell whether an equation can have a nest to itself."""
    if not alone(e):
        return False
    return is_memory(e.output) or is_memory_shape(shape_alone(e), is_memory)


def flat_first(e) -> bool:
    """Tell whether an equation fits arrays that are taken as one row."""
    fun = function_of(e)
    if fun not in HANDLERS and (is_elementwise(e) or folded(e) is not None):
        shape = operand_shape(e)
        return all(x.__class__ is not Symbol or x.shape in ((), shape) or x.size == 1 for x in e.inputs)
    return fun in (np.reshape, np.ravel, np.expand_dims, np.squeeze)


def is_view(e, makers, is_memory) -> bool:
    """Tell whether an equation is a view of memory from outside the cluster."""
    if (
        e.__class__ is not Equation
        or function_of(e) not in VIEWS
        or not e.inputs
        or e.inputs[0].__class__ is not Symbol
    ):
        return False
    x, s = e.inputs[0], e.output
    if s.__class__ is not Symbol or x in makers or not is_memory(x) or s.shape == ():
        return False
    if function_of(e) is indexing.getitem and basic_parts(e.params["index"], x.shape) is None:
        return False
    return x.dtype == s.dtype


def is_memory_shape(shape, is_memory) -> bool:
    """Tell whether arrays of a shape are held in memory."""
    return is_memory(Symbol("", tuple(shape), np.dtype(float)))


def in_memory(s) -> bool:
    """Tell whether a symbol is held in memory: by its size."""
    return s.size > MOST_ENTRIES


# -- groups ------------------------------------------------------------------------------------------------------------


def clusters(equations: list, outputs, is_memory=in_memory, fits=None) -> list:
    """Group equations into clusters, as far as none has to wait for another equation between them.

    Parameters
    ----------
    equations : list
        Equations, guards and loops.
    outputs : iterable
        Symbols that are read after them.
    is_memory : callable
        Tells of a symbol whether it is held in memory.
    fits : callable, optional
        Tells of an equation whether it may be in a cluster at all.

    Returns
    -------
    list
        Equations and clusters, in an order in which they can run.
    """
    work, done = list(equations), []
    while work:
        k = next((k for k, e in enumerate(work) if starts(e, is_memory, fits)), None)
        if k is None:
            done += work
            break
        done += work[:k]
        cluster, before, work = grown(work[k:], is_memory, fits)
        done += before
        if cluster is not None:
            done.append(cluster)
    return finished(done, outputs)


def starts(e, is_memory, fits) -> bool:
    """Tell whether an equation can be the first of a cluster."""
    if not joins(e, is_memory) and not is_alone(e, is_memory):
        return False
    return not is_view(e, (), is_memory) and (fits is None or fits(e))


def grown(work, is_memory, fits):
    """Return (cluster, equations that come before it, equations that come after it)."""
    growing, before, waiting, late = Growing(is_memory), [], [], set()
    for k, e in enumerate(work):
        reads = set(e.reads)
        if reads & late:
            waiting.append(e)
            late.update(e.outputs, taken_from(e))
        elif (fits is None or fits(e)) and not is_view(e, growing.makers, is_memory) and growing.takes(e):
            if e.output in growing.late:
                late.add(e.output)
        elif not growing.members and k == 0 and is_alone(e, is_memory) and (fits is None or fits(e)):
            return Cluster([e], ALONE, shape_alone(e), late=set(e.outputs)), before, work[1:]
        elif not growing.members and k == 0:  # the first does not fit after all
            before.append(e)
            return None, before, work[1:]
        elif any(s in growing.makers for s in reads) or starts(e, is_memory, fits):
            waiting.append(e)
            late.update(e.outputs, taken_from(e))
        else:
            before.append(e)
        if len(waiting) > WAITING:
            waiting += work[k + 1 :]
            break
    return Cluster(growing.members, growing.mode, growing.loops, late=growing.late), before, waiting


def finished(equations, outputs) -> list:
    """Find out what clusters read, and what is read of them."""
    outputs = {y for y in outputs if y.__class__ is Symbol}
    readers = {}
    for e in equations:
        for part in e.members if e.__class__ is Cluster else (e,):
            for s in part.reads:
                readers.setdefault(s, set()).add(id(e))
    for c in equations:
        if c.__class__ is Cluster:
            made = [m.output for m in c.members]
            inner = set(made)
            c.outputs = tuple([s for s in made if s in outputs or readers.get(s, set()) - {id(c)} or s in c.late])
            c.reads = list(dict.fromkeys([s for m in c.members for s in m.reads if s not in inner]))
            c.place = c.members[0].place
    return equations


class Growing:
    """A cluster that equations join as long as there is a nest for all of them."""

    def __init__(self, is_memory) -> None:
        self.is_memory = is_memory
        self.members, self.late, self.makers = [], set(), {}
        self.mode, self.plan, self.loops = None, None, ()
        self.full, self.trials = False, 0

    def takes(self, e) -> bool:
        """Let an equation join if it can; tell whether it did."""
        if self.full or not joins(e, self.is_memory):
            return False
        start = 0 if self.mode is None else MODES.index(self.mode)
        for mode in MODES[start:]:
            if mode == self.mode:
                plan, loops, makers, late = self.plan, self.loops, self.makers, self.late
                rest = [e]
            else:
                if mode == "flat" and not flat_first(e):
                    continue
                if len(self.members) * self.trials > MOST_TRIED:  # a plan in another mode begins anew
                    return False
                self.trials += 1
                plan, loops, makers, late, rest = None, (), {}, set(), [*self.members, e]
            try:
                for m in rest:
                    plan, loops = self.add(m, mode, plan, loops, makers, late)
            except Unfit:
                if mode == self.mode:
                    self.full = plan.count > MOST_VALUES or plan.lines > plan.room
                    makers.pop(e.output, None)
                    late.discard(e.output)
                continue
            self.mode, self.plan, self.loops, self.makers, self.late = mode, plan, loops, makers, late
            self.members.append(e)
            plan.room = room_of(mode, loops)  # one equation has a nest, however long
            return True
        return False

    def add(self, e, mode, plan, loops, makers, late):
        """Plan one more equation; return the plan and the lengths of the loops."""
        axes, shape, is_late = roles(e, mode)
        lengths = tuple([shape[a] for a in axes])
        if plan is None:
            plan, loops = Plan(makers, mode == "flat", lengths), lengths
            plan.room = room_of(mode, lengths) if self.members else plan.room
        elif len(loops) != len(lengths) or any(abs(m - n) > NEAR for m, n in zip(loops, lengths, strict=True)):
            raise Unfit("other loops")
        plan.ranges[:] = [(0, n) for n in lengths]
        demand(plan, e, axes, shape, is_late, makers, late)
        loops = tuple([max(m, n) for m, n in zip(loops, lengths, strict=True)])
        if any(len(c) >= MOST_SEGMENTS for c in plan.cuts):
            raise Unfit("too many pieces")
        return plan, loops
