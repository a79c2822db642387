"""Equations on arrays in memory as fused loop nests.

Entry points
------------
``clusters(equations, outputs, is_memory=..., keep=...)``
    Groups the equations of a list: returns the list with `Cluster` objects among the equations that are in none. The
    order is legal by data flow; an equation that had to wait for a cluster comes after it. A cluster has `members`,
    `reads` (symbols from outside), `outputs` (what is read elsewhere: all else is never stored), and the attributes
    that a plan needs. Views of memory are left out of clusters: they take no code.
``write_nest(b, cluster, values, memory, ends, strange) -> Value or None``
    Writes a cluster into a builder's current block. `values` holds what it reads (`Lanes`, `Memory`);
    ``memory(symbol)`` is asked once for each output that is stored (not for reductions to a few numbers), and returns
    `Memory`, rows without gaps, that overlaps nothing that the cluster reads. How the outputs are held is put into
    `values`. Whether `ends`, some of the outputs, are finite is written down by ``strange(b, truth)``, which is called
    once for each of them that is in `cluster.looked` afterwards. Returned is None, or an ``i1``, true if an index
    was out of bounds: then the results are void. The builder's function gets the attribute ``alignstack(64)``: vectors
    that wait for a call are kept on the stack, and an address across two lines of the cache would double the time.
Running sums, places of extrema and writes that fit into no cluster are clusters of their own: see `nests_alone`.

A nest has one loop or several over the long axes of its arrays; short axes are unrolled, so that an array of many rows
and few columns is a few vectors of rows. Arrays of one shape that are only mapped are taken as one row of entries.

The other modules, each of which imports from those before it:

* `nests_positions`: positions in arrays, and how indices and shapes change them;
* `nests_kinds`: which equations are mapped entry by entry, and which are reductions;
* `nests_handlers`: what is computed from what, entry by entry;
* `nests_walk`: the walk over equations, `nests_plan`: whether there is a nest, `nests_emit`: its code;
* `nests_roots`: results that are stored, reductions, writes; `nests_alone`: equations with a nest to themselves.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Equation, Symbol
from chainrule.program.loops.ir import taken_from
from chainrule.program.native import target
from chainrule.program.native.blocks import EVEN, WORK, Blocks, count_of
from chainrule.program.native.builder import SIZES, STORED, Value, constant, type_of
from chainrule.program.native.nests_alone import alone, shape_alone, write_alone
from chainrule.program.native.nests_emit import Emit
from chainrule.program.native.nests_handlers import HANDLERS, can_walk
from chainrule.program.native.nests_kinds import folded, is_elementwise
from chainrule.program.native.nests_plan import MOST_VALUES, Plan
from chainrule.program.native.nests_positions import MOST_SEGMENTS, At, Unfit, basic_parts, index_arrays
from chainrule.program.native.nests_roots import Added, Stored, Total
from chainrule.program.native.values import MOST_ENTRIES, Memory

NEAR = 64  # loops of lengths that differ by no more may be one
LONG = 60  # values of a round that are written in the order of the plan
MOST_TRIED = 2000  # equations that are planned anew in other modes
WAITING = 400  # equations that may wait for a cluster before it is closed
ALONE = "alone"
MODES = ("flat", 7, 32)  # taken as one row; or how many entries per round are unrolled at most
ROOM = {"flat": MOST_VALUES, 7: 1200, 32: 900}  # lines that a round may have in each of the modes, about
SHORT = 48  # loops of fewer rounds are not worth so many
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


def loop_axes(shape, mode) -> tuple:
    """Return the axes of a shape that are loops: the longest, until the others have few entries in all."""
    if mode == "flat":
        return (0,)
    axes, rest = [], list(range(len(shape)))
    while rest and (not axes or math.prod(shape[a] for a in rest) > mode):
        longest = max(rest, key=lambda a: (shape[a], a))
        axes.append(longest)
        rest.remove(longest)
    return tuple(sorted(axes))


def operand_shape(e) -> tuple:
    """Return the shape that the loops of an equation go over: of the operand of a reduction, of what is added."""
    added = adds_at(e)
    if added is not None:
        return added[1]
    return e.inputs[0].shape if folded(e) is not None else e.output.shape


def adds_at(e):
    """Return (what is added, its shape, axes before, index arrays, axes after) of a write that adds at integers."""
    if e.__class__ is not Equation or e.output.__class__ is not Symbol or e.output.dtype is None:
        return None
    fun, s = function_of(e), e.output
    if fun is indexing.unpicked:
        where = e.inputs[1] if len(e.inputs) > 1 else e.params.get("where")
        if where.__class__ is not Symbol or where.dtype.kind not in "iu" or s.dtype.kind != "f":
            return None
        return e.inputs[0], where.shape, 0, [where], 0
    if fun is not indexing.scatter or basic_parts(e.params["index"], s.shape) is not None or s.dtype.kind != "f":
        return None
    found = index_arrays(e.params["index"], s.shape)
    if found is None:
        return None
    before, arrays, after = found
    arrays = [a if isinstance(a, np.ndarray | Symbol) else int(a) for a in arrays]
    block = np.broadcast_shapes(*[a.shape for a in arrays if a.__class__ is not int])
    shape = (*s.shape[:before], *block, *s.shape[len(s.shape) - after :])
    return e.inputs[0], shape, before, arrays, after


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


def room_of(mode, lengths) -> int:
    """Return how many lines a round may have, about."""
    return ROOM[mode] if mode == "flat" or math.prod(lengths) > SHORT else ROOM[mode] // 4


def roles(e, mode):
    """Return (axes that are loops, shape that they are axes of, whether the result is known after the loops only)."""
    shape = operand_shape(e)
    found = folded(e)
    if mode == "flat":
        whole = (math.prod(shape),)
        if adds_at(e) is not None or (found is not None and len(found[0]) < len(shape)):
            raise Unfit("not in flat order")
        return (0,), whole, found is not None
    axes = loop_axes(shape, mode)
    is_late = adds_at(e) is not None or (found is not None and any(a in found[0] for a in axes))
    if found is not None and not is_late:  # a sum over short axes: its result has the loops
        s = e.output
        axes = loop_axes(s.shape, mode)
        return axes, s.shape, False
    return axes, shape, is_late


def demand(plan, e, axes, shape, is_late, makers, late):
    """Walk from all entries of an equation's result that a round of the loops makes."""
    added = adds_at(e) if is_late else None
    place = {a: k for k, a in enumerate(axes)}
    for n in plan.ranges:
        if n[1] == 0:
            raise Unfit("no entries")
    count = math.prod([n for a, n in enumerate(shape) if a not in place])
    if count > MOST_VALUES:
        raise Unfit("too long")
    if not is_late:
        makers[e.output] = e
    x = e.output if not is_late else e.inputs[0]
    for rest in np.ndindex(*[n for a, n in enumerate(shape) if a not in place]):
        some = iter(map(int, rest))
        position = tuple([At(place[a]) if a in place else next(some) for a in range(len(shape))])
        if added is not None:
            demand_added(plan, added, position)
        else:
            plan.value(x, position)
    if is_late:
        late.add(e.output)


def demand_added(plan, added, position):
    """Walk from what a write at integers adds."""
    value, shape, before, arrays, after = added
    if value.__class__ is Symbol:
        have = value.shape
        if len(have) > len(shape):
            raise Unfit("a write of more axes")
        plan.value(
            value, tuple([0 if n == 1 else p for n, p in zip(have, position[len(shape) - len(have) :], strict=True)])
        )
    block = position[before : len(position) - after]
    for a in arrays:
        if a.__class__ is Symbol:
            plan.value(
                a, tuple([0 if n == 1 else p for n, p in zip(a.shape, block[len(block) - len(a.shape) :], strict=True)])
            )


def flat_first(e) -> bool:
    """Tell whether an equation fits arrays that are taken as one row."""
    fun = function_of(e)
    if fun not in HANDLERS and (is_elementwise(e) or folded(e) is not None):
        shape = operand_shape(e)
        return all(x.__class__ is not Symbol or x.shape in ((), shape) or x.size == 1 for x in e.inputs)
    return fun in (np.reshape, np.ravel, np.expand_dims, np.squeeze)


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


def is_memory_shape(shape, is_memory) -> bool:
    """Tell whether arrays of a shape are held in memory."""
    return is_memory(Symbol("", tuple(shape), np.dtype(float)))


def in_memory(s) -> bool:
    """Tell whether a symbol is held in memory: by its size."""
    return s.size > MOST_ENTRIES


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


# -- code --------------------------------------------------------------------------------------------------------------


def is_long(cluster: Cluster) -> bool:
    """Tell whether a cluster is worth a function of its own, which is run block by block."""
    return cluster.mode != ALONE and math.prod(cluster.loops) * len(cluster.members) >= WORK


def write_nest(
    b, cluster: Cluster, values: dict, memory, ends=(), strange=None, blocks: Blocks | None = None
) -> Value | None:
    """Write the code of a cluster; see the module. With `blocks`, the code of one of them.

    Raises
    ------
    Unfit
        Where there is none; nothing is written then.
    """
    kept = len(b.lines), len(b.allocas)
    if blocks is not None:
        blocks.whole()
    if cluster.mode == ALONE:
        [e] = cluster.members
        try:
            emit, held = write_alone(b, e, values, memory, lanes_for(cluster))
        except Unfit:
            del b.lines[kept[0] :], b.allocas[kept[1] :]
            raise
        values[e.output] = held
        return left(b, emit)
    reason = None
    modes = MODES[MODES.index(cluster.mode) :]
    for mode in (*modes, *modes[:1]):  # at last in the first mode, with copies of what is no row
        try:
            given, cut_into = dict(values), blocks
            if mode == "flat" and reason is not None:
                given.update(copies(b, cluster, values, memory))
                cut_into = None  # not each block is to make the copies
            emit, held = written(b, cluster, mode, given, memory, ends, strange, cut_into)
        except Unfit as why:
            del b.lines[kept[0] :], b.allocas[kept[1] :]
            reason = why
            if blocks is not None:
                blocks.whole()
            continue
        values.update(held)
        return left(b, emit)
    raise reason


def copies(b, cluster, values, memory) -> dict:
    """Write copies, row by row, of memory that a cluster reads."""
    made = {}
    for s in cluster.reads:
        if s.shape and not flat_memory(values[s]):
            made[s] = memory(Symbol(f"{s.name}_rows", s.shape, s.dtype))
            copy(b, values[s], made[s])
    return made


def copy(b, source: Memory, to: Memory) -> None:
    """Write a copy of memory into other memory, of the same shape, that does not overlap it."""
    if source.is_rows and to.is_rows:
        ends = [b.offset(m.type, m.pointer, m.offset) for m in (to, source)]
        b.copy(*ends, source.size * SIZES[STORED.get(source.type, source.type)])
        return
    s = Symbol("copied", source.shape, source.dtype)
    axes = loop_axes(s.shape, 7)
    widest = 8 if source.type in ("double", "i64") else 4
    emit = Emit(b, {}, {s: source}, None, False, [s.shape[a] for a in axes], [set() for _ in axes],
                target.host().lanes * 8 // widest)  # fmt: skip
    root = Stored(emit, s, axes, to)
    emit.stores = True
    emit.write(root.add, root.begin, root.end)


def left(b, emit) -> Value | None:
    """Return whether an index was out of bounds; the function of the nest gets its attribute."""
    if "alignstack" not in b.attributes:
        b.attributes = f"{b.attributes} alignstack(64)".strip()
    if emit.bad is None:
        return None
    return b.compare("ne", b.load("i64", emit.bad), constant("i64", 0))


def written(b, cluster, mode, values, memory, ends=(), strange=None, blocks=None):
    """Write a cluster in one of the modes; return (emit, how the outputs are held)."""
    roots = [m for m in cluster.members if m.output in cluster.outputs]
    late, makers, plan, loops, found = set(), {}, None, (), []
    for m in cluster.members:
        makers[m.output] = m
    for m in roots:
        axes, shape, is_late = roles(m, mode)
        found.append((m, axes, shape, is_late))
        lengths = tuple([shape[a] for a in axes])
        loops = loops or lengths
        if len(loops) != len(lengths) or any(abs(m - n) > NEAR for m, n in zip(loops, lengths, strict=True)):
            raise Unfit("other loops")
        loops = tuple([max(m, n) for m, n in zip(loops, lengths, strict=True)])
        if is_late:
            late.add(m.output)
    inner = {s: m for s, m in makers.items() if s not in late}
    plan = Plan(inner, mode == "flat", loops)
    for m, axes, shape, is_late in found:
        lengths = [shape[a] for a in axes]
        plan.ranges[:] = [(0, n) for n in lengths]
        demand(plan, m, axes, shape, is_late, dict(inner), set())
        for k, n in enumerate(lengths):
            if n < loops[k]:
                plan.cuts[k].add(n)
    if any(len(c) >= MOST_SEGMENTS for c in plan.cuts):
        raise Unfit("too many pieces")
    if mode == "flat" and any(not flat_memory(values[s]) for s in plan.outside):
        raise Unfit("memory with gaps, in flat order")
    asked = {}

    def once(s):
        if s not in asked:
            asked[s] = memory(s)
        return asked[s]

    # of a single write at an integer the loop has one round
    emit = Emit(b, inner, values, once, mode == "flat", loops or (1,), plan.cuts or [set()], lanes_for(cluster))
    emit.size = plan.count
    if plan.count > LONG:
        emit.order = plan.order
    if blocks is not None:
        cut(b, blocks, found, mode, loops, plan.count)
        emit.blocks = blocks if blocks.count > 1 else None
    made = []
    for m, axes, _, is_late in found:
        added = adds_at(m) if is_late else None
        if added is not None:
            root = Added(emit, m, *added)
            root.loop_axes = axes
        elif is_late:
            root = Total(emit, m, folded(m)[0], axes)
        else:
            root = Stored(emit, m.output, axes, strange=strange if m.output in ends else None)
        made.append(root)
    emit.flushes = lambda: [f for r in made for f in r.flushes()]
    emit.stores = all(r.__class__ is Stored for r in made)

    def begin(level):
        for r in made:
            r.begin(level)

    def end(level):
        for r in made:
            r.end(level)

    def body():
        for m, r in zip(roots, made, strict=True):
            with b.module.noted(m):
                r.add()

    emit.write(body, begin, end)
    cluster.looked = {r.s for r in made if r.__class__ is Stored and r.strange is not None}
    return emit, {m.output: r.held() for m, r in zip(roots, made, strict=True)}


def cut(b, blocks: Blocks, found: list, mode, loops: tuple, size: int) -> None:
    """Cut the outermost loop into blocks, as far as these can run at the same time; `size` values are in a round."""
    sums = 0
    for m, axes, shape, is_late in found:
        if not is_late:
            continue
        if adds_at(m) is not None:
            return
        reduced = folded(m)[0]
        kept = [k for k, a in enumerate(axes) if mode != "flat" and a not in reduced]
        if 0 not in kept:
            sums += m.output.size
        elif (kept != list(range(len(kept))) or len(kept) == len(loops)) and math.prod(
            [n for a, n in enumerate(shape[: axes[0]]) if a not in reduced]
        ) > 1:  # sums in memory, of which a block does not have neighbouring rows
            return
    if loops:
        count = count_of(math.prod(loops) * size, loops[0], sums)
        blocks.cut(b, count, loops[0], EVEN if len(loops) == 1 else 1)


def flat_memory(held) -> bool:
    """Tell whether a value can be read as one row of entries."""
    return getattr(held, "is_rows", True)


def lanes_for(cluster) -> int:
    """Return how many lanes the vectors have: a register of the widest numbers."""
    widest = 4
    for m in cluster.members:
        for s in (m.output, *m.reads):
            if s.shape and type_of(s.dtype) in ("double", "i64"):
                widest = 8
    return target.host().lanes * 8 // widest
