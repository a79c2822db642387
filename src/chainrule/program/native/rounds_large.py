"""Large arrays in loops: the state in memory, and writes to places that integers of the program name.

A round writes its results where it likes; at its end the new state is copied to the place of the old one. A write to a
place of the state, as the gradient of a row that each round reads has it, is made there if nobody reads the old state
any more.
"""

import numpy as np

from chainrule.engine import indexing
from chainrule.program.ir import PYTHON, Symbol, symbols_in
from chainrule.program.loops.ir import Fork, blocks_of
from chainrule.program.native import lanes
from chainrule.program.native.builder import SIZES, STORED, Value, bare, constant, type_of
from chainrule.program.native.moves import addressed, cast
from chainrule.program.native.scalars import NotLowered
from chainrule.program.native.values import Memory


class Buffer:
    """A large array of the state of a loop: a place in the frame."""

    def __init__(self, w, s) -> None:
        kind = type_of(s.dtype)
        if kind is None or s.dtype in PYTHON:
            raise NotLowered
        self.held = w.in_frame(w.place((s.size * SIZES[STORED.get(kind, kind)] + 7) // 8), s.shape, s.dtype, s)

    def set(self, w, x) -> None:
        """Store the value of an operand."""
        w.copy(w.memory_of(x), self.held)

    def get(self, w) -> Memory:
        """The value."""
        return self.held

    def follow(self, w, x, others):
        """Return the function that stores the value of the next round.

        What lies in the place of one of the `others`, which get values of their own, is copied before.
        """
        source = w.memory_of(x)
        if source == self.held:
            return lambda: None
        if source.root in others:
            there = w.in_frame(w.place(source.bytes // 8 + 1), source.shape, source.dtype)
            w.copy(source, there)
            source = there
        return lambda: w.copy(source, self.held)


def reads_after(block) -> list:
    """Return the symbols that are read after the equations of a block."""
    found = list(block.end.reads)
    if block.end.__class__ is Fork:
        for b in (*blocks_of(block.end.yes), *blocks_of(block.end.no)):
            found += [s for e in b.equations for s in e.reads]
            found += b.end.reads
    return found


def writes_at(e) -> bool:
    """Tell whether an equation writes to a place that integers of the program name."""
    return e.fun in (indexing.put, indexing.scatter) and any(True for _ in symbols_in(e.params))


def put_at(w, e, s) -> Memory:
    """Write it: into a copy, into zeros, or into the state itself if that is not read after it."""
    kind, value = type_of(s.dtype), e.inputs[-1]
    if kind is None or s.dtype in PYTHON:
        raise NotLowered
    w.has_arrays = True
    if e.fun is indexing.scatter:
        to = w.room(s)
        size = constant("i64", s.size * SIZES[STORED.get(kind, kind)])
        start = w.b.offset(to.type, to.pointer, to.offset)
        w.b.check(start, s.size * SIZES[STORED.get(kind, kind)], "store")
        w.b.call("llvm.memset.p0.i64", "void", bare(start), constant("i8", 0), size, Value("i1", "false"))
    else:
        source = w.memory_of(e.inputs[0])
        to = source
        if e.inputs[0] not in w.spent or e.inputs[0].dtype != s.dtype or not source.is_rows:
            to = w.room(s)
            w.copy(source, to)
    part = addressed(w, to, e.params["index"])
    if part.size > lanes.WIDEST:
        source = w.memory_of(value)
        if source.dtype != to.dtype or len(source.shape) > len(part.shape):
            raise NotLowered
        w.copy(source.broadcast(part.shape), part)
        return to
    held = cast(w, w.lanes(value if value.__class__ is Symbol else np.asarray(value, s.dtype)), kind)
    held = held.taken(np.broadcast_to(held.positions, part.shape))
    lanes.store(w.b, part, part.positions(), held.refs)
    return to
