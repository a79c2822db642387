"""Kernels for arrays of any size: loop nests and products on memory, with unrolled code between them.

What has more than a few entries is in memory: in the arrays of the points, in those of the results, or in the frame,
where a place is used anew when what stands there is read no more. Small arrays are unrolled, as in `straight`. A view
is memory with other strides.
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from chainrule.engine import indexing
from chainrule.program.backend.arrays import is_basic
from chainrule.program.backend.arrays import kind_of as backend_kind
from chainrule.program.backend.numbers import function_of
from chainrule.program.ir import PYTHON, Equation, Program, Symbol
from chainrule.program.loops.ir import taken_from
from chainrule.program.native import lanes, nests, products, products_blocks, target
from chainrule.program.native.blocks import Blocks, Parts
from chainrule.program.native.builder import SIZES, STORED, Builder, Value, constant, type_of
from chainrule.program.native.functions import AS_PYTHON, CHUNK, LINE, NOT_FINITE
from chainrule.program.native.lanes import Lanes, single
from chainrule.program.native.maps import MAPS
from chainrule.program.native.nests_clusters import Cluster, clusters
from chainrule.program.native.nests_positions import Unfit
from chainrule.program.native.products_terms import terms_of, work
from chainrule.program.native.rounds_large import Buffer, put_at, reads_after, writes_at
from chainrule.program.native.scalars import FLOATS, NotLowered
from chainrule.program.native.simpler import simpler
from chainrule.program.native.straight import Straight, held_bytes
from chainrule.program.native.values import MOST_ENTRIES, Entries, Memory, Number

VIEWS = {np.transpose, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis, np.broadcast_to}
SHAPES = {np.reshape, np.ravel}
FEW = 4  # entries that a nest reads as values; more stand in memory
UNROLLED = 512  # products of numbers that are unrolled


def is_large(s) -> bool:
    """Tell whether a symbol is held in memory."""
    return s.size > MOST_ENTRIES


class Arrays(Straight):
    """Writes a program as `Straight` does, and what is large as nests and products."""

    def __init__(self, program: Program, name: str = "kernel") -> None:
        fixed = dict(sorted(program.constants.items(), key=lambda item: not in_rows(item[1])))
        program = program.like(simpler(program.equations))
        program.constants = {s: c for s, c in fixed.items() if s in program.constants}  # the others last
        super().__init__(program, name)
        self.free: dict[int, list] = defaultdict(list)  # words -> places in the frame that are free again
        self.owned: dict = {}  # root -> (words, place)
        self.given: dict = {}  # output -> its array among the points
        self.has_arrays = False
        self.shared: dict = {}  # how the operands of a product lie in memory -> name of its function
        self.strange = self.place(1)  # whether some entry of an output is not finite
        self.b.store(constant("i64", 0), self.at(self.strange))
        self.looked: set = set()  # outputs of which that is noted
        self.spent: set = set()  # state of a loop that is not read after the equation at hand

    def write(self) -> str:
        """Write the program; return the module's text."""
        program = self.program
        items = arranged(program)
        self.take()
        self.parents = parents_of(items)
        self.ends = ends_of(items, program.outputs, self.root_of)
        self.wanted_outputs = [y for y in program.outputs if y.__class__ is Symbol]
        for i, e in enumerate(items):
            if len(self.b.lines) > CHUNK:
                self.begin()
            self.step(e)
            for root in self.ends.get(i, ()):
                self.release(root)
        if len(self.b.lines) > CHUNK:
            self.begin()
        for n, y in enumerate(program.outputs):
            self.output(n, y)
        return self.finish()

    def step(self, e) -> None:
        """Write a cluster or an equation."""
        if e.__class__ is Cluster:
            self.nest(e)
        else:
            self.equation(e)

    # -- loops -------------------------------------------------------------------------------------------------

    def is_stored(self, s) -> bool:
        """Tell whether an array stays in memory."""
        return is_large(s)

    def variable(self, s):
        """Return a variable for the values of a symbol: memory if it is large."""
        return Buffer(self, s) if is_large(s) else super().variable(s)

    def put(self, s, memory: Memory) -> None:
        """Store an array in memory."""
        if is_large(s):
            self.copy(self.memory_of(s), memory)
        else:
            super().put(s, memory)

    def copy(self, source: Memory, to: Memory) -> None:
        """Write a copy of memory."""
        self.has_arrays = self.b.has_loops = True
        if source.dtype != to.dtype or source.shape != to.shape:
            raise NotLowered
        nests.copy(self.b, source, to)

    def steps(self, block, state=()) -> None:
        """Write the equations of a block of a loop; memory of what is read no more is used anew."""
        equations = simpler(block.equations)
        wanted = reads_after(block)
        items = clustered(equations, wanted)
        self.parents.update(parents_of(items))
        own = {s for e in equations for s in e.outputs}
        ends = ends_of(items, wanted, self.root_of)
        for i, e in enumerate(items):
            self.spent = {s for s in ends.get(i, ()) if s in state}
            self.step(e)
            for root in ends.get(i, ()):
                if root in own:
                    self.release(root)
        self.spent = set()

    # -- memory ------------------------------------------------------------------------------------------------

    def root_of(self, s):
        """Return the symbol whose memory a symbol may be a view of."""
        while s in self.parents:
            s = self.parents[s]
        return s

    def room(self, s) -> Memory:
        """Return memory for a value: the array of an output, or a place in the frame."""
        kind = type_of(s.dtype)
        if kind is None or s.dtype in PYTHON:
            raise NotLowered
        if self.is_given(s):
            return self.given_room(s)
        words = (s.size * SIZES[STORED.get(kind, kind)] + 7) // 8
        words = -(-words // LINE) * LINE
        stock = self.free[words]
        place = stock.pop() if stock else self.place(words)
        self.owned[s] = words, place
        return self.in_frame(place, s.shape, s.dtype, s)

    def is_given(self, s) -> bool:
        """Tell whether an array is made in the memory of an output."""
        return s in self.wanted_outputs and self.root_of(s) is s and s not in self.given and len(self.scopes) == 1

    def in_frame(self, place: int, shape: tuple, dtype, root=None) -> Memory:
        """Return a place of the frame as memory: the same in each function."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        held = Memory.of_rows(self.frame(8 * place, size, f"the frame's memory of {root}"), shape, dtype, root)
        held.offset = place * 8 // dtype.itemsize
        return held

    def given_room(self, s) -> Memory:
        """Return the array of an output as memory."""
        item = self.item(len(self.inputs) + len(self.arrays))
        self.arrays.append(s)
        data = self.data(item, held_bytes(s), f"the output {s}")
        self.given[s] = Memory.of_rows(data, s.shape, s.dtype, s)
        return self.given[s]

    def release(self, root) -> None:
        """Let the place of a value be used anew."""
        if root in self.owned:
            words, place = self.owned.pop(root)
            self.free[words].append(place)

    def memory_of(self, x) -> Memory:
        """Return an operand as memory; entries are stored in the frame."""
        held = self.values.get(x)
        if held.__class__ is Memory:
            return self.local(held)
        held = self.lanes(x)
        if held.dtype in PYTHON:
            raise NotLowered
        kind = type_of(held.dtype)
        words = -(-len(held.refs) * SIZES[STORED.get(kind, kind)] // 8)
        memory = self.in_frame(self.place(words), held.shape, held.dtype, None)
        lanes.store(self.b, memory, memory.positions(), held.refs)
        return memory

    def operand(self, x):
        """Return what a nest reads as nests hold it."""
        held = self.values.get(x)
        if held.__class__ is Memory and held.shape:
            return self.local(held)
        held = self.lanes(x)
        if held.shape == ():
            return Number(single(self.b, held.refs[0]), x.dtype)
        if len(held.refs) <= FEW or held.dtype in PYTHON:
            return Entries([single(self.b, r) for r in held.refs], held.shape, x.dtype)
        return self.memory_of(x)

    # -- equations ---------------------------------------------------------------------------------------------

    def nest(self, c) -> None:
        """Write a cluster."""
        self.has_arrays = self.b.has_loops = True
        values = {s: self.operand(s) for s in c.reads}
        if nests.is_long(c) and len(self.scopes) == 1:
            self.nest_in_blocks(c, values)
            return
        try:
            with self.module.noted(c.members[0]):
                wrong = nests.write_nest(self.b, c, values, self.room, self.ends_in(c), self.note)
        except Unfit as why:
            raise NotLowered from why
        for m in c.members:
            s = m.output
            if s in values and s not in c.reads:
                self.values[s] = as_held(values[s], s)
        self.looked |= c.looked
        if wrong is not None:
            self.leave(wrong, AS_PYTHON)

    def ends_in(self, c) -> set:
        """Return the arrays among the program's outputs that a cluster makes."""
        return {s for s in c.outputs if self.is_given(s) and type_of(s.dtype) in FLOATS}

    def note(self, b, truth) -> None:
        """Write down whether some entry of an output is not finite."""
        some, on = b.block("some"), b.block("on")
        b.condition(truth, some, on)
        b.start(some)
        b.store(constant("i64", 1), self.at(self.strange))  # whoever writes, in whatever order, writes the same
        b.branch(on)
        b.start(on)

    def finish(self) -> str:
        """Write the end: if it is known of all arrays that are given out, whether all entries are finite."""
        self.knows = bool(self.results) and all(kind in ("number", "whole") or (kind == "array" and y in self.looked)
                                                for kind, y in self.results)  # fmt: skip
        if self.knows and self.looked:
            self.leave(self.b.compare("ne", self.b.load("i64", self.at(self.strange)), constant("i64", 0)), NOT_FINITE)
        return super().finish()

    def nest_in_blocks(self, c, values: dict) -> None:
        """Write a cluster as a function that is run block by block."""
        with self.blocks() as (before, blocks):
            b = self.b
            values = {s: self.brought(v) for s, v in values.items()}
            try:
                with self.module.noted(c.members[0]):
                    memory, ends = lambda s: self.room_before(before, s), self.ends_in(c)
                    wrong = nests.write_nest(b, c, values, memory, ends, self.note, blocks)
            except Unfit as why:
                raise NotLowered from why
            for m in c.members:
                s = m.output
                if s in values and s not in c.reads and s not in self.values and values[s] is not None:
                    self.values[s] = as_held(values[s], s)
            self.looked |= c.looked
            if wrong is not None:
                self.leave(wrong, AS_PYTHON)
        for parts in blocks.later:
            self.join(parts)

    @contextlib.contextmanager
    def blocks(self) -> Iterator[tuple]:
        """Write a function that is run block by block; yield the function before it, and its `Blocks`.

        What is written within is the code of one block; what is written afterwards runs when all are done.
        """
        before = self.b
        self.begin("i64")
        b = self.b
        b.has_loops = True
        b.blocks = Blocks(b.arguments[2], self.room_of_parts)
        yield before, b.blocks
        self.begin()

    def brought(self, held):
        """Return an operand of a nest with its values for this function."""
        if held.__class__ is Memory:
            return self.local(held)
        if held.__class__ is Number:
            return Number(self.here(held.value), held.dtype)
        return Entries([self.here(v) for v in held.values], held.shape, held.dtype)

    def room_before(self, before: Builder, s) -> Memory:
        """Return memory for a value, which is found once, in the function before this one."""
        here, self.b = self.b, before
        self.values[s] = self.room(s)
        self.b = here
        return self.local(self.values[s])

    def room_of_parts(self, size: int, dtype) -> Memory:
        """Return memory in the frame for what blocks compute parts of."""
        kind = type_of(dtype)
        words = -(-(size * SIZES[STORED.get(kind, kind)] + 7) // 8 // LINE) * LINE
        return self.in_frame(self.place(words), (size,), dtype)

    def join(self, parts: Parts) -> None:
        """Put the parts of a result together."""
        s = parts.s
        few = s.size <= lanes.WIDEST
        target_memory = self.room_of_parts(s.size, s.dtype) if few else self.room(s)
        parts.join(self.b, target_memory, target.host().lanes)
        if few:
            self.values[s] = Lanes(lanes.load(self.b, target_memory, target_memory.positions()), s.shape, s.dtype)
        else:
            self.values[s] = target_memory

    def made(self, e, s):
        """Return the result of an equation."""
        view = self.view(e, s)
        if view is not None:
            return view
        if products.lowerable(e) and self.is_work(e):
            return self.product(e, s)
        if is_large(s) and writes_at(e):
            return put_at(self, e, s)
        return super().made(e, s)

    def is_work(self, e) -> bool:
        """Tell whether a product is more than unrolled code should be."""
        xs = [x for x in e.inputs if x.__class__ is Symbol]
        return any(self.values[x].__class__ is Memory and is_large(x) for x in xs) or (
            is_large(e.output) or work(terms_of(e), *xs) > UNROLLED)  # fmt: skip

    def product(self, e, s):
        """Write a product."""
        self.has_arrays = True
        x, y = [self.memory_of(v) for v in e.inputs if v.__class__ is Symbol]
        width = target.host().lanes * 8
        cut = products_blocks.cut_of(e, x, y, Memory.of_rows(Value("ptr", "null"), s.shape, s.dtype), width)
        if cut is not None and len(self.scopes) == 1:
            return self.product_in_blocks(e, s, x, y, cut, width)
        out = self.room(s)
        kind = out.type
        if self.module.checks is not None:  # addresses are checked where it is known what they are of
            products.multiply(self.b, e, x, y, out, lambda count: self.at(self.words_for(count, kind)), width)
            return out
        ends = [self.b.offset(kind, m.pointer, m.offset) for m in (x, y, out)]
        key = str(terms_of(e)), kind, *[(m.shape, m.strides) for m in (x, y, out)]
        if key not in self.shared:
            self.shared[key] = self.shared_product(e, x, y, out, width)
        self.b.call(self.shared[key], "void", self.at(0), *ends)
        return out

    def product_in_blocks(self, e, s, x: Memory, y: Memory, cut: products_blocks.Cut, width: int):
        """Write a product as a function that is run block by block."""
        with self.blocks() as (before, blocks):
            b, kind = self.b, x.type
            blocks.cut(b, cut.count, cut.rounds, cut.even)
            x, y = self.local(x), self.local(y)
            if cut.adds:
                out = blocks.part(b, s, s.shape, MAPS[np.add])
            else:
                out = self.room_before(before, s)

            def scratch(count: int) -> Value:  # each block has its own
                size = -(-count * SIZES[kind] // 8)
                start = self.at(self.place(size * blocks.count))
                return b.offset("double", start, b.binary("mul", blocks.index, constant("i64", size)))

            products_blocks.multiply_block(b, e, x, y, out, cut, blocks, scratch, width)
        for parts in blocks.later:
            self.join(parts)
        return self.values[s]

    def words_for(self, count: int, kind: str) -> int:
        """Return a place in the frame for so many entries."""
        return self.place(-(-count * SIZES[kind] // 8))

    def shared_product(self, e, x, y, out, width) -> str:
        """Write a function for products of arrays that lie like these; return its name."""
        name = self.module.fresh("product")
        b = Builder(self.module, name, "void", ["ptr"] * 4, "internal noinline nounwind", "noalias")
        frame, *pointers = b.arguments
        held = [Memory(p, m.shape, m.strides, m.dtype) for p, m in zip(pointers, (x, y, out), strict=True)]
        products.multiply(b, e, *held, lambda count: b.offset("double", frame, self.words_for(count, out.type)), width)
        b.ret()
        return name

    def view(self, e, s) -> Memory | None:
        """Return a view of memory; None if an equation is none."""
        held = self.values.get(e.inputs[0]) if e.inputs and e.inputs[0].__class__ is Symbol else None
        if held.__class__ is not Memory or len(e.inputs) != 1 or s.dtype in PYTHON or np.dtype(s.dtype) != held.dtype:
            return None
        return viewed(e, s, held)

    # -- outputs -----------------------------------------------------------------------------------------------

    def output(self, n: int, y) -> None:
        """Write an output."""
        held = self.values.get(y) if y.__class__ is Symbol and y not in self.program.inputs else None
        if y.__class__ is Symbol and y in self.given and ("array", y) not in self.results:
            self.results.append(("array", y))
            return
        if held.__class__ is not Memory or held.size <= MOST_ENTRIES:
            super().output(n, y)
            return
        copy = Symbol(y.name, y.shape, y.dtype)
        self.wanted_outputs.append(copy)
        self.copy(self.local(held), self.given_room(copy))
        self.results.append(("array", copy))


def in_rows(c: np.ndarray) -> bool:
    """Tell whether a captured array is stored row by row."""
    return c.flags.c_contiguous and c.flags.aligned


def as_held(x, s):
    """Return what a nest made as it is held here."""
    if x.__class__ is Number:
        return Lanes([(x.value, -1)], (), s.dtype)
    if x.__class__ is Entries:
        return Lanes([(v, -1) for v in x.values], s.shape, s.dtype)
    return x


def viewed(e, s, held: Memory) -> Memory | None:
    """Return the view of memory that an equation makes; None if it makes none."""
    fun, params = function_of(e), e.params
    if backend_kind(e) == "same":
        return held
    if fun is indexing.getitem:
        return held.index(params["index"]) if is_basic(params["index"]) else None
    if fun in SHAPES:
        return held.reshape(s.shape) if params.get("order", "C") == "C" else None
    if fun not in VIEWS:
        return None
    size = held.dtype.itemsize
    shown = np.lib.stride_tricks.as_strided(np.empty(1, held.dtype), held.shape, [t * size for t in held.strides])
    seen = e.rule.apply((shown,), params)  # no entry is read
    return held.like(seen.shape, [t // size for t in seen.strides])


def may_view(e) -> bool:
    """Tell whether an equation may be a view of its operand."""
    if e.__class__ is not Equation or len(e.inputs) != 1 or e.inputs[0].__class__ is not Symbol:
        return False
    if e.output.__class__ is not Symbol or e.output.dtype in PYTHON or e.inputs[0].dtype in PYTHON:
        return False
    fun = function_of(e)
    return fun in VIEWS or fun in SHAPES or fun is indexing.getitem or backend_kind(e) == "same"


def is_alias(e) -> bool:
    """Tell whether an equation gives its operand as it is."""
    return may_view(e) and backend_kind(e) == "same"


def arranged(program: Program) -> list:
    """Return the equations of a program, with clusters among them."""
    if not any(is_large(s) for s in symbols_of(program)):
        return program.equations
    return clustered(program.equations, program.outputs)


def clustered(equations: list, outputs) -> list:
    """Return equations with clusters among them; `outputs` are read after them."""
    return clusters(equations, outputs, is_large, lambda e: not is_alias(e) and not is_product(e))


def is_product(e) -> bool:
    """Tell whether an equation is a product that is none of a nest's."""
    return e.__class__ is Equation and products.lowerable(e)


def symbols_of(program: Program):
    """Find the symbols that a program makes or reads, those inside of loops left out."""
    yield from program.inputs
    yield from program.constants
    for e in program.equations:
        if e.__class__ is Equation:
            yield from e.outputs


def parents_of(items: list) -> dict:
    """Return for each symbol that may be a view what it may be a view of."""
    found = {}
    for e in items:
        for m in e.members if e.__class__ is Cluster else (e,):
            if may_view(m):
                found[m.output] = m.inputs[0]
    return found


def ends_of(items: list, outputs, root_of) -> dict:
    """Return for each number of an item the roots that it is the last to read."""
    last: dict = {}
    kept: dict = {}  # stack -> what its loop read: rounds may have kept that, and whoever takes them off reads it again
    for i, e in enumerate(items):
        again = [s for stack in taken_from(e) for s in kept[stack]]
        for s in [*e.reads, *e.outputs, *again]:
            last[root_of(s)] = i
        stack = getattr(e, "pushes", None)
        if stack is not None:
            kept[stack] = e.reads
    for y in outputs:
        if y.__class__ is Symbol:
            last.pop(root_of(y), None)
    ends: dict = defaultdict(list)
    for s, i in last.items():
        ends[i].append(s)
    return ends
