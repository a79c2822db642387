"""Equations on arrays in memory as fused loop nests: the code of a cluster.

Entry point
-----------
``write_nest(b, cluster, values, memory, ends, strange) -> Value or None``
    Writes a cluster into a builder's current block. `values` holds what it reads (`Lanes`, `Memory`);
    ``memory(symbol)`` is asked once for each output that is stored (not for reductions to a few numbers), and returns
    `Memory`, rows without gaps, that overlaps nothing that the cluster reads. How the outputs are held is put into
    `values`. Whether `ends`, some of the outputs, are finite is written down by ``strange(b, truth)``, which is called
    once for each of them that is in `cluster.looked` afterwards. Returned is None, or an ``i1``, true if an index
    was out of bounds: then the results are void. The builder's function gets the attribute ``alignstack(64)``: vectors
    that wait for a call are kept on the stack, and an address across two lines of the cache would double the time.

The other modules of the family, each of which imports from those before it:

* `nests_positions`: positions in arrays, and how indices and shapes change them;
* `nests_kinds`: which equations are mapped entry by entry, and which are reductions;
* `nests_handlers`: what is computed from what, entry by entry;
* `nests_walk`: the walk over equations, `nests_plan`: whether there is a nest;
* `nests_axes`: what loops go over, and what a round asks for;
* `nests_memory`: addresses, loads and stores; `nests_emit`: the code of a round; `nests_loops`: the loops around it;
* `nests_roots`: results that are stored, reductions, writes; `nests_alone`: equations with a nest to themselves;
* `nests_clusters`: which equations are in a nest together.
"""

import math

from chainrule.program.ir import Symbol
from chainrule.program.native import target
from chainrule.program.native.blocks import EVEN, WORK, Blocks, count_of
from chainrule.program.native.builder import SIZES, STORED, Value, constant, type_of
from chainrule.program.native.nests_alone import write_alone
from chainrule.program.native.nests_axes import MODES, NEAR, adds_at, demand, loop_axes, roles
from chainrule.program.native.nests_clusters import ALONE, Cluster
from chainrule.program.native.nests_emit import Emit
from chainrule.program.native.nests_kinds import folded
from chainrule.program.native.nests_loops import Loops
from chainrule.program.native.nests_plan import Plan
from chainrule.program.native.nests_positions import MOST_SEGMENTS, Unfit
from chainrule.program.native.nests_roots import Added, Stored, Total
from chainrule.program.native.values import Memory

LONG = 60  # values of a round that are written in the order of the plan


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
    emit = Emit(b, inner, values, once, mode == "flat", loops or (1,), lanes_for(cluster))
    nest = Loops(emit, plan.cuts or [set()])
    nest.size = plan.count
    if plan.count > LONG:
        nest.order = plan.order
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
    nest.flushes = lambda: [f for r in made for f in r.flushes()]
    nest.stores = all(r.__class__ is Stored for r in made)

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

    nest.write(body, begin, end)
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


def left(b, emit) -> Value | None:
    """Return whether an index was out of bounds; the function of the nest gets its attribute."""
    if "alignstack" not in b.attributes:
        b.attributes = f"{b.attributes} alignstack(64)".strip()
    if emit.bad is None:
        return None
    return b.compare("ne", b.load("i64", emit.bad), constant("i64", 0))


def lanes_for(cluster) -> int:
    """Return how many lanes the vectors have: a register of the widest numbers."""
    widest = 4
    for m in cluster.members:
        for s in (m.output, *m.reads):
            if s.shape and type_of(s.dtype) in ("double", "i64"):
                widest = 8
    return target.host().lanes * 8 // widest


# -- copies ------------------------------------------------------------------------------------------------------------


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
    emit = Emit(b, {}, {s: source}, None, False, [s.shape[a] for a in axes], target.host().lanes * 8 // widest)
    nest = Loops(emit, [set() for _ in axes])
    root = Stored(emit, s, axes, to)
    nest.stores = True
    nest.write(root.add, root.begin, root.end)


def flat_memory(held) -> bool:
    """Tell whether a value can be read as one row of entries."""
    return getattr(held, "is_rows", True)
