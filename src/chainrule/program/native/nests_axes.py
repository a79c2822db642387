"""What the loops of a nest go over for an equation, and which entries a round asks for.

A nest has one loop or several over the long axes of its arrays; short axes are unrolled, so that an array of many rows
and few columns is a few vectors of rows. Arrays of one shape that are only mapped are taken as one row of entries. Of
these `MODES` a cluster has one; `roles` says what an equation is in it. `nests_clusters` plans with it which equations
are in a nest together, `nests` what it writes.
"""

import math

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import Equation, Symbol
from chainrule.program.native.nests_kinds import folded
from chainrule.program.native.nests_plan import MOST_VALUES
from chainrule.program.native.nests_positions import At, Unfit, basic_parts, index_arrays

NEAR = 64  # loops of lengths that differ by no more may be one
MODES = ("flat", 7, 32)  # taken as one row; or how many entries per round are unrolled at most
ROOM = {"flat": MOST_VALUES, 7: 1200, 32: 900}  # lines that a round may have in each of the modes, about
SHORT = 48  # loops of fewer rounds are not worth so many


# -- loops -------------------------------------------------------------------------------------------------------------


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


def room_of(mode, lengths) -> int:
    """Return how many lines a round may have, about."""
    return ROOM[mode] if mode == "flat" or math.prod(lengths) > SHORT else ROOM[mode] // 4


# -- what a round asks for ---------------------------------------------------------------------------------------------


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
