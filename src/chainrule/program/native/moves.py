"""What moves entries of small arrays: the call itself, made on the entries' positions, tells where each comes from.

None of these takes instructions, but where entries are added up that go to one place.
"""

import math

import numpy as np

from chainrule.engine import indexing
from chainrule.engine.spec import spread_to
from chainrule.program.ir import PYTHON, Symbol, symbols_in
from chainrule.program.native import lanes
from chainrule.program.native.builder import SIZES, STORED, Value, constant, type_of
from chainrule.program.native.functions import AS_PYTHON
from chainrule.program.native.lanes import Lanes, packed, single
from chainrule.program.native.scalars import NotLowered, add, converted, literal
from chainrule.program.native.values import Memory, is_integer
from chainrule.rules.shapes import diagonal_matrix


def static(x) -> None:
    """Refuse parameters that are values of the program."""
    if any(True for _ in symbols_in(x)):
        raise NotLowered


def in_memory(w, x) -> Memory | None:
    """Return the memory of an operand that is in memory."""
    held = w.values[x] if x.__class__ is Symbol else None
    return held if held.__class__ is Memory else None


def viewed(w, e) -> Memory | None:
    """Return a view of memory, for the calls that make one."""
    memory, params = in_memory(w, e.inputs[0]), e.params
    if memory is None or len(e.inputs) != 1:
        return None
    fun = e.fun
    if fun is indexing.getitem:
        return memory.index(params["index"])
    if fun is np.transpose and params.keys() <= {"axes"}:
        return memory.transpose(params.get("axes"))
    if fun is np.reshape and params.keys() <= {"shape"}:
        return memory.reshape(as_shape(params["shape"]))
    if fun is np.broadcast_to and params.keys() <= {"shape"}:
        return memory.broadcast(as_shape(params["shape"]))
    return None


def as_shape(shape) -> tuple:
    """Return a shape as a tuple of Python's integers."""
    return tuple(map(int, shape)) if shape.__class__ in (tuple, list) else (int(shape),)


def gathered(w, e):
    """Write a call that only moves entries."""
    if len(e.inputs) != 1:
        raise NotLowered
    if e.fun is indexing.getitem and any(True for _ in symbols_in(e.params)):
        return indexed(w, e)
    static(e.params)
    x = e.inputs[0]
    view = viewed(w, e)
    if view is not None:
        return view
    memory = in_memory(w, x)
    if memory is not None and memory.size > lanes.MOST:  # read what is needed
        grid = np.array(memory.positions()).reshape(memory.shape)
        where = np.asarray(e.rule.apply((grid,), e.params))
        return Lanes(lanes.load(w.b, w.local(memory), where.ravel().tolist()), where.shape, memory.dtype)
    held = w.lanes(x)
    where = np.asarray(e.rule.apply((held.positions,), e.params))
    if where.size and not held.positions.size:  # `resize` makes zeros of nothing
        raise NotLowered
    return held.taken(where)


def subscripts(index, shape: tuple) -> list:
    """Return one integer, slice or symbol of an integer for each axis; refuse other subscripts."""
    parts = index if index.__class__ is tuple else (index,)
    if any(p is None or not (p is Ellipsis or p.__class__ is slice or is_integer(p)
                             or (p.__class__ is Symbol and p.shape == () and type_of(p.dtype) == "i64"))
           for p in parts):  # fmt: skip
        raise NotLowered
    static([p for p in parts if p.__class__ is slice])
    gap = next((k for k, p in enumerate(parts) if p is Ellipsis), len(parts))
    rest = parts[gap + 1 :]
    return [*parts[:gap], *[slice(None)] * (len(shape) - gap - len(rest)), *rest]


def within(w, p: Symbol, n: int) -> Value:
    """Return an integer of the program as a place on an axis of length n; leave where there is none."""
    b = w.b
    k = single(b, w.lanes(p).refs[0])
    low, high = w.ranges.get(p, (None, None))
    if low is None or low < 0:
        k = b.select(b.compare("slt", k, constant("i64", 0)), b.binary("add", k, constant("i64", n)), k)
    if low is None or low < -n or high >= n:
        w.leave(b.compare("uge", k, constant("i64", n)), AS_PYTHON)
    return k


def indexed(w, e) -> Memory:
    """Write a subscript with integers of the program: the entries' address depends on them."""
    (x,) = e.inputs
    memory = in_memory(w, x)
    view = addressed(w, stored(w, x) if memory is None else w.local(memory), e.params["index"])
    if view.size > lanes.WIDEST:
        return view
    return Lanes(lanes.load(w.b, view, view.positions()), view.shape, view.dtype)


def addressed(w, memory: Memory, index) -> Memory:
    """Return the part of memory that a subscript with integers of the program names."""
    parts = subscripts(index, memory.shape)
    pointer = memory.pointer
    for axis, p in enumerate(parts):
        if p.__class__ is Symbol:
            k = w.b.binary("mul", within(w, p, memory.shape[axis]), constant("i64", memory.strides[axis]))
            pointer = w.b.offset(memory.type, pointer, k)
    view = memory.index(tuple([0 if p.__class__ is Symbol else p for p in parts]))
    return Memory(pointer, view.shape, view.strides, view.dtype, view.offset, view.root, view.dtype.itemsize)


def stored(w, x) -> Memory:
    """Return a small array in a place of the frame; in a scope it is stored once."""
    for scope in reversed(w.scopes):
        if ("stored", x) in scope:
            return scope["stored", x]
    held = w.lanes(x)
    kind = type_of(held.dtype)
    place = w.place((len(held.refs) * SIZES[STORED.get(kind, kind)] + 7) // 8)
    memory = Memory.of_rows(w.at(place), held.shape, np.dtype(held.dtype))
    lanes.store(w.b, memory, memory.positions(), held.refs)
    w.scopes[-1]["stored", x] = memory
    return memory


def chosen_places(w, index, shape: tuple) -> list:
    """Return for each entry of an array whether a subscript with integers of the program names it, and the rest of it.

    That is (truth values as entries, the subscript with 0 in place of these integers, the axes that they are on).
    """
    b, grid = w.b, np.indices(shape)
    size = math.prod(shape)
    if size > lanes.WIDEST:
        raise NotLowered
    parts, named = subscripts(index, shape), None
    axes = [axis for axis, p in enumerate(parts) if p.__class__ is Symbol]
    for axis in axes:
        k = b.spread(within(w, parts[axis], shape[axis]), size) if size > 1 else within(w, parts[axis], shape[axis])
        places = [constant("i64", n) for n in grid[axis].ravel().tolist()]
        hit = b.compare("eq", b.pack(places) if size > 1 else places[0], k)
        named = hit if named is None else b.binary("and", named, hit)
    return lanes.entries_of(named), tuple([0 if p.__class__ is Symbol else p for p in parts]), axes


def put_by_number(w, e, held: Lanes, v, index):
    """Write entries where integers of the program say: each entry is chosen between the old and the new one."""
    dtype, kind, shape = e.output.dtype, type_of(e.output.dtype), held.shape
    hits, fixed, axes = chosen_places(w, index, shape)
    new = cast(w, w.lanes(v if v.__class__ not in PYTHON else dtype.type(v)), kind)
    grid = held.positions
    named = grid[fixed]  # at 0 of the axes in question
    new = new.taken(np.broadcast_to(new.positions, named.shape))
    at = dict(zip(named.ravel().tolist(), new.refs, strict=True))
    origin = np.stack(np.unravel_index(grid.ravel(), shape)) if shape else np.zeros((0, 1), int)
    origin[axes] = 0
    first = np.ravel_multi_index(tuple(origin), shape).tolist()
    chosen = [k for k, f in enumerate(first) if f in at]
    b = w.b
    refs = list(held.refs)
    if chosen:
        y = b.select(packed(b, [hits[k] for k in chosen]), packed(b, [at[first[k]] for k in chosen]),
                     packed(b, [refs[k] for k in chosen]))  # fmt: skip
        for k, ref in zip(chosen, lanes.entries_of(y), strict=True):
            refs[k] = ref
    return Lanes(refs, shape, dtype)


def spread(w, e):
    """Write `spread_to`, a broadcast."""
    held = w.lanes(e.inputs[0])
    return held.taken(np.broadcast_to(held.positions, e.params["shape"]))


def joined(w, e):
    """Write np.concatenate or np.stack."""
    static(e.params)
    if e.params.keys() - {"axis"}:
        raise NotLowered
    kind = type_of(e.output.dtype)
    parts, refs = [], []
    xs = e.inputs[0] if len(e.inputs) == 1 and e.inputs[0].__class__ is list else e.inputs
    for x in xs:
        if x.__class__ in PYTHON:
            held = Lanes([(literal(x, kind), -1)], (), e.output.dtype)
        else:
            held = cast(w, w.lanes(x), kind)
        parts.append(held.positions + len(refs))
        refs += held.refs
    where = np.asarray(e.rule.apply(tuple(parts), e.params))
    return Lanes(refs, (len(refs),), e.output.dtype).taken(where)


def cast(w, held: Lanes, kind: str) -> Lanes:
    """Return entries converted to a type."""
    if not held.refs or lanes.element_of(held.refs[0][0].type) == kind:
        return held
    return Lanes([(converted(w.b, single(w.b, r), kind), -1) for r in held.refs], held.shape, held.dtype)


def zero(dtype) -> tuple:
    """Return the entry 0."""
    return constant(type_of(dtype), 0), -1


def masked(w, e):
    """Write np.triu, np.tril or a diagonal matrix: entries, and zeros."""
    static(e.params)
    if len(e.inputs) != 1:
        raise NotLowered
    held = w.lanes(e.inputs[0])
    where = np.asarray(e.rule.apply((held.positions + 1,), e.params))
    refs = [zero(e.output.dtype), *held.refs]
    return Lanes([refs[k] for k in where.ravel().tolist()], where.shape, held.dtype)


def placed(w, e, where: np.ndarray, size: int, v) -> list:
    """Return zeros, so many, with entries added at flat positions."""
    held = cast(
        w, w.lanes(v) if v.__class__ not in PYTHON else w.lanes(e.output.dtype.type(v)), type_of(e.output.dtype)
    )
    held = held.taken(np.broadcast_to(held.positions, where.shape))
    refs = [None] * size
    for k, ref in zip(where.ravel().tolist(), held.refs, strict=True):
        refs[k] = ref if refs[k] is None else (add(w.b, single(w.b, refs[k]), single(w.b, ref)), -1)
    nothing = zero(e.output.dtype)
    return [nothing if r is None else r for r in refs]


def scattered(w, e):
    """Write `scatter`."""
    shape = e.params["shape"]
    size = math.prod(shape)
    if size > lanes.MOST:
        raise NotLowered
    if any(True for _ in symbols_in(e.params)):
        nothing = Lanes([zero(e.output.dtype)] * size, tuple(shape), e.output.dtype)
        return put_by_number(w, e, nothing, e.inputs[0], e.params["index"])
    where = indexing.positions_of(e.params["index"], shape)
    return Lanes(placed(w, e, np.asarray(where), size, e.inputs[0]), shape, e.output.dtype)


def unpicked(w, e):
    """Write `unpicked`."""
    static((e.params, e.inputs[1:]))
    shape = e.params["shape"]
    size = math.prod(shape)
    where = e.params["where"] if "where" in e.params else e.inputs[1]
    if size > lanes.MOST:
        raise NotLowered
    return Lanes(placed(w, e, np.asarray(where), size, e.inputs[0]), shape, e.output.dtype)


def picked(w, e):
    """Write `picked`."""
    static((e.params, e.inputs[1:]))
    where = np.asarray(e.params["where"] if "where" in e.params else e.inputs[1])
    memory = in_memory(w, e.inputs[0])
    if memory is not None:
        grid = np.array(memory.positions())[where]
        return Lanes(lanes.load(w.b, w.local(memory), grid.ravel().tolist()), grid.shape, memory.dtype)
    held = w.lanes(e.inputs[0])
    return held.taken(held.positions.ravel()[where])


def written(w, e):
    """Write `put`: of entries named twice the last wins."""
    x, v = e.inputs
    dtype = e.output.dtype
    kind = type_of(dtype)
    if kind is None:
        raise NotLowered
    held = cast(w, w.lanes(x if x.__class__ not in PYTHON else dtype.type(x)), kind)
    if any(True for _ in symbols_in(e.params)):
        return put_by_number(w, e, held, v, e.params["index"])
    new = cast(w, w.lanes(v if v.__class__ not in PYTHON else dtype.type(v)), kind)
    where = np.asarray(held.positions[e.params["index"]])
    grid = new.positions
    while grid.ndim > where.ndim and grid.shape[0] == 1:  # NumPy's writes drop axes of length 1
        grid = grid[0]
    new = new.taken(np.broadcast_to(grid, where.shape))
    refs = list(held.refs)
    for k, ref in zip(where.ravel().tolist(), new.refs, strict=True):
        refs[k] = ref
    return Lanes(refs, held.shape, dtype)


MOVES = {
    indexing.getitem: gathered, spread_to: spread, np.concatenate: joined, np.stack: joined, np.triu: masked,
    np.tril: masked, diagonal_matrix: masked, indexing.scatter: scattered, indexing.put: written,
    indexing.picked: picked, indexing.unpicked: unpicked,
}  # fmt: skip
