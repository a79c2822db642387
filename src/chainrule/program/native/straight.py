"""Unrolled code: the equations of a program on numbers and small arrays as instructions, one after the other.

Arrays are `Lanes`: whole arrays are computed as vectors, what only moves entries takes no code. How code is cut into
functions: `chainrule.program.native.functions`.
"""

import math

import numpy as np

from chainrule.program.ir import PYTHON, Equation, Guard, Program, Symbol
from chainrule.program.loops.ir import Loop, Pop
from chainrule.program.native import entrywise, lanes, layout, moves, reductions, rounds, scalars
from chainrule.program.native.builder import SIZES, Value, constant, type_of
from chainrule.program.native.functions import CHUNK, STRANGE, Functions
from chainrule.program.native.lanes import Lanes, entries_of, packed, single
from chainrule.program.native.maps import OPERATORS, how_of
from chainrule.program.native.scalars import NotLowered, converted, literal
from chainrule.program.native.values import Memory


class Straight(Functions):
    """Writes a program: takes its inputs, writes its equations, hands out its outputs."""

    knows = False  # whether a kernel tells if the arrays that it gives out are finite

    def __init__(self, program: Program, name: str = "kernel") -> None:
        super().__init__(name, len(program.outputs))
        self.program = program
        self.values: dict[Symbol, object] = {}
        self.guards: list[Guard] = []
        self.ranges: dict[Symbol, tuple] = {}  # integers that are known to lie between two numbers
        self.inputs = [*program.inputs, *program.constants]
        self.results: list[tuple] = []  # of each output: see `output`
        self.arrays: list[Symbol] = []  # the outputs that are arrays

    # -- inputs and outputs ------------------------------------------------------------------------------------

    def write(self) -> str:
        """Write the program; return the module's text."""
        self.take()
        self.equations(self.program.equations)
        if len(self.b.lines) > CHUNK:
            self.begin()
        for n, y in enumerate(self.program.outputs):
            self.output(n, y)
        return self.finish()

    def item(self, n: int, size: int = np.ndarray.__basicsize__) -> Value:
        """Return the address of an object among the points, of so many bytes: by default an array."""
        b, points = self.b, Value("ptr", "%a0")
        if self.module.checks is not None:
            points = self.module.based(points, layout.ITEMS, "the tuple of the points")
            count = b.load("i64", b.offset("i8", points, layout.COUNT))
            end = b.binary("add", b.binary("shl", count, constant("i64", 3)), constant("i64", layout.ITEMS))
            points = self.module.based(points, end, "the tuple of the points")
        found = b.load("ptr", b.offset("i8", points, layout.ITEMS + 8 * n))
        return self.module.based(found, size, f"the object at place {n} of the points")

    def data(self, item: Value, size: int, name: str, low: int = 0) -> Value:
        """Return the address of an array's entries: bytes from `low` up to `size`."""
        found = self.b.load("ptr", self.b.offset("i8", item, layout.DATA))
        return self.module.based(found, size, name, low)

    def take(self) -> None:
        """Find the inputs in memory; leave if one is not stored row by row."""
        b, wrong = self.b, None
        for n, s in enumerate(self.inputs):
            kind = type_of(s.dtype)
            if kind is None or s.dtype is int or s.dtype is bool or not np.dtype(s.dtype).isnative:
                continue  # not lowered where it is read
            if s.shape == ():
                item = self.item(n, layout.VALUE + 8)  # no object is shorter
                at = b.offset("i8", item, layout.VALUE)
                if s.dtype not in PYTHON:  # an array without axes, or a number
                    is_array = b.compare("eq", b.load("i64", b.offset("i8", item, layout.TYPE)),
                                         constant("i64", id(np.ndarray)))  # fmt: skip
                    at = b.select(is_array, b.load("ptr", at), at)
                    at = self.module.based(at, SIZES[kind], f"the number {s}")
                self.values[s] = Lanes([(b.load(kind, at), -1)], (), s.dtype)
                continue
            item = self.item(n)
            if s in self.program.constants:  # the same array at each run
                array = self.program.constants[s]
                first, last = [t - array.ctypes.data for t in np.lib.array_utils.byte_bounds(array)]
                self.values[s] = captured(s, array, self.data(item, last, f"the captured array {s}", first))
                continue
            flags = b.load("i32", b.offset("i8", item, layout.FLAGS))
            odd = b.binary("xor", flags, constant("i32", -1))
            wrong = odd if wrong is None else b.binary("or", wrong, odd)
            data = self.data(item, held_bytes(s), f"the input {s}")
            self.values[s] = Memory.of_rows(data, s.shape, s.dtype, root=s)
        if wrong is not None:
            some = b.binary("and", wrong, constant("i32", layout.ROWS))
            self.leave(b.compare("ne", some, constant("i32", 0)), STRANGE)

    def output(self, n: int, y) -> None:
        """Write an output: into an array that is among the points, or a number into the frame."""
        if y.__class__ is not Symbol:
            self.results.append(("plain", y))
            return
        if y in self.program.inputs:
            self.results.append(("input", self.program.inputs.index(y)))
            return
        held, kind = self.lanes_of_output(y), type_of(y.dtype)
        if y.shape == () and (y.dtype in PYTHON or not self.is_array(y)):
            x = single(self.b, held.refs[0])
            self.b.store(x if kind == "i64" else converted(self.b, x, "double"), self.at(n))
            self.results.append(("whole" if kind == "i64" else "number", y))
            return
        item = self.item(len(self.inputs) + len(self.arrays))
        memory = Memory.of_rows(self.data(item, held_bytes(y), f"the output {y}"), y.shape, y.dtype)
        lanes.store(self.b, memory, list(range(len(held.refs))), held.refs)
        self.arrays.append(y)
        self.results.append(("array", y))

    def lanes_of_output(self, y) -> Lanes:
        """Return an output as entries."""
        if type_of(y.dtype) is None or not np.dtype(y.dtype).isnative:
            raise NotLowered
        return self.lanes(y)

    def is_array(self, y) -> bool:
        """Tell whether NumPy makes an array without axes of an output: find out by a call on ones."""
        makers = {s: e for e in self.program.equations if e.__class__ is Equation for s in e.outputs}

        def example(s, n):
            if s.__class__ is Symbol:
                if s.shape:
                    return np.full(s.shape, n, np.dtype(s.dtype))
                if s.dtype in PYTHON:
                    return s.dtype(n)
                return np.array(n, s.dtype) if found(s) else np.dtype(s.dtype).type(n)
            if s.__class__ in (tuple, list):
                return s.__class__([example(x, n) for x in s])
            return s

        def found(s):
            e = makers.get(s)
            if e is None:  # an input, which may be either, or what a loop made
                if s in self.program.inputs:
                    raise NotLowered
                return False
            if isinstance(e.fun, np.ufunc):
                return False
            for n in (1, 0):  # a subscript of 1 may be out of bounds, 0 may be a divisor
                params = {k: example(v, n) for k, v in e.params.items()}
                try:
                    with np.errstate(all="ignore"):
                        made = e.rule.apply(tuple([example(x, n) for x in e.inputs]), params)
                except (IndexError, ValueError, ArithmeticError):
                    continue
                return isinstance(made, np.ndarray)
            raise NotLowered

        return found(y)

    # -- operands ----------------------------------------------------------------------------------------------

    def lanes(self, x) -> Lanes:
        """Return an operand as entries: a symbol, an array, a number."""
        if x.__class__ is Symbol:
            held = self.values.get(x)
            if held.__class__ is Memory:
                return self.loaded(x, held)
            if held.__class__ is not Lanes:
                raise NotLowered
            prefix = self.prefix
            if any(v.text[0] == "%" and not v.text.startswith(prefix) for v, _ in held.refs):
                return Lanes([(self.here(v), k) for v, k in held.refs], held.shape, held.dtype)
            return held
        if x.__class__ in PYTHON:
            kind = type_of(x.__class__)
            if kind is None:
                raise NotLowered
            return Lanes([(literal(x, kind), -1)], (), x.__class__)
        if isinstance(x, np.ndarray | np.generic):
            kind = type_of(x.dtype)
            if kind is None or x.size > lanes.MOST:
                raise NotLowered
            return Lanes([(constant(kind, v), -1) for v in x.ravel().tolist()], x.shape, x.dtype)
        raise NotLowered

    def loaded(self, x: Symbol, memory: Memory) -> Lanes:
        """Return an array in memory as entries; in a scope it is loaded once."""
        for scope in reversed(self.scopes):
            if x in scope:
                return scope[x]
        if memory.size > lanes.MOST:
            raise NotLowered
        refs = lanes.load(self.b, self.local(memory), memory.positions())
        found = self.scopes[-1][x] = Lanes(refs, memory.shape, memory.dtype)
        return found

    def local(self, memory: Memory) -> Memory:
        """Return memory with a pointer for this function."""
        pointer = self.here(memory.pointer)
        if pointer is memory.pointer:
            return memory
        return Memory(pointer, memory.shape, memory.strides, memory.dtype, memory.offset, memory.root, memory.align)

    def wanted(self, x, kind: str, shape: tuple, vector: bool) -> list:
        """Return an operand of an elementwise call, converted: one vector, or one number for each entry."""
        b = self.b
        if x.__class__ is not Symbol and not isinstance(x, np.ndarray):
            c = literal(x, kind)
            n = math.prod(shape)
            return [b.spread(c, n)] if vector else [c] * n
        found = self.lanes(x)
        if len(found.refs) == 1:
            y = converted(b, single(b, found.refs[0]), kind)
            n = math.prod(shape)
            return [b.spread(y, n)] if vector else [y] * n
        if found.shape != shape:
            found = found.taken(np.broadcast_to(found.positions, shape))
        if vector:
            return [converted(b, packed(b, found.refs), kind)]
        return [converted(b, single(b, r), kind) for r in found.refs]

    def number(self, x, kind: str) -> Value:
        """Return an operand without axes as a number of a type."""
        held = self.values.get(x) if x.__class__ is Symbol else None
        if held.__class__ is Lanes and held.refs[0][1] < 0:
            v = self.here(held.refs[0][0])
            return v if v.type == kind else converted(self.b, v, kind)
        return self.wanted(x, kind, (), False)[0]

    def mapped(self, how, xs, kinds, shape: tuple, dtype, out: str | None = None) -> Lanes:
        """Return an elementwise call as entries: ``how(b, *values)`` of the operands, each converted to its type."""
        if shape == ():
            y = how(self.b, *[self.number(x, k) for x, k in zip(xs, kinds, strict=True)])
            return Lanes([(y if out is None else converted(self.b, y, out), -1)], (), dtype)
        n = math.prod(shape)
        if n == 0:
            return Lanes([], shape, dtype)
        if n > lanes.WIDEST:
            raise NotLowered
        vector = n >= lanes.SCALAR
        columns = [self.wanted(x, k, shape, vector) for x, k in zip(xs, kinds, strict=True)]
        made = [how(self.b, *row) for row in zip(*columns, strict=True)]
        if out is not None:
            made = [converted(self.b, y, out) for y in made]
        return Lanes([r for y in made for r in entries_of(y)], shape, dtype)

    # -- loops -------------------------------------------------------------------------------------------------

    def is_stored(self, s) -> bool:
        """Tell whether an array stays in memory, and is not loaded as entries."""
        return s.size > lanes.MOST

    def variable(self, s):
        """Return a variable for the values that a symbol has in the rounds of a loop."""
        return rounds.Variable.of(self, s)

    def put(self, s, memory: Memory) -> None:
        """Store an array in memory."""
        held = self.lanes(s)
        lanes.store(self.b, memory, list(range(len(held.refs))), held.refs)

    def steps(self, block, state=()) -> None:
        """Write the equations of a block of a loop that has some state."""
        for e in block.equations:
            self.equation(e)

    # -- equations ---------------------------------------------------------------------------------------------

    def equations(self, equations: list) -> None:
        """Write equations."""
        for e in equations:
            if len(self.b.lines) > CHUNK and len(self.scopes) == 1:
                self.begin()
            self.equation(e)

    def equation(self, e) -> None:
        """Write an equation."""
        with self.module.noted(e):
            self.written(e)

    def written(self, e) -> None:
        """Write an equation, a guard, a loop, a pop."""
        if e.__class__ is Guard:
            self.guard(e)
            return
        if e.__class__ is Loop:
            rounds.write_loop(self, e)
            return
        if e.__class__ is Pop:
            rounds.write_pop(self, e)
            return
        if e.__class__ is not Equation or e.output.__class__ is not Symbol:
            raise NotLowered
        s = e.output
        if type_of(s.dtype) is None or (s.dtype is int and OPERATORS.get(e.fun, e.fun) not in entrywise.WHOLE):
            raise NotLowered
        made = self.made(e, s)
        if made is None or tuple(made.shape) != tuple(s.shape):
            raise NotLowered
        if made.__class__ is Lanes:
            if len(made.refs) > lanes.MOST:
                raise NotLowered
            if made.dtype is not s.dtype:
                made = Lanes(made.refs, made.shape, s.dtype)
        self.values[s] = made

    def made(self, e, s):
        """Return the result of an equation."""
        fun = OPERATORS.get(e.fun, e.fun)
        how = how_of(fun)
        if how is not None and not e.params:
            return entrywise.whole(self, e, fun) if s.dtype is int else entrywise.elementwise(self, e, fun, how, s)
        special = entrywise.SPECIAL.get(fun)
        if special is not None:
            return special(self, e, s)
        write = moves.MOVES.get(fun) or (moves.gathered if e.rule.kind == "gather" else None)
        if write is not None:
            return write(self, e)
        write = reductions.reduction_of(fun)
        if write is not None:
            return write(self, e)
        raise NotLowered

    def guard(self, g) -> None:
        """Write a guard: return its number if the answer is another."""
        self.guards.append(g)
        self.leave(self.fails(g), len(self.guards))

    def fails(self, g) -> Value:
        """Return whether a guard does not hold."""
        b, held = self.b, self.lanes(g.symbol)
        if g.how == "bool":
            if len(held.refs) != 1:
                raise NotLowered
            x = scalars.truth(b, single(b, held.refs[0]))
            return scalars.logical_not(b, x) if g.seen else x
        seen = np.asarray(g.seen)
        kind = type_of(seen.dtype)
        if kind is None or seen.shape != held.shape or np.dtype(held.dtype) != seen.dtype or not seen.size:
            raise NotLowered
        bits = {"double": "i64", "float": "i32"}.get(kind)
        apart = []
        for ref, x in zip(held.refs, seen.ravel(), strict=True):
            value = single(b, ref)
            if bits:
                value = b.cast("bitcast", value, bits)
                x = x.view(np.int64 if bits == "i64" else np.int32)
            apart.append(b.compare("ne", value, constant(value.type, x)))
        return lanes.tree(b, apart, lambda b, p, q: b.binary("or", p, q))


def held_bytes(s: Symbol) -> int:
    """Return the size of an array in bytes."""
    return s.size * np.dtype(s.dtype).itemsize


def captured(s: Symbol, c: np.ndarray, pointer: Value) -> Memory:
    """Return a captured array as it lies in memory."""
    size = c.itemsize
    if not c.flags.aligned or any(t % size for t in c.strides):
        raise NotLowered
    return Memory(pointer, c.shape, tuple([t // size for t in c.strides]), c.dtype, 0, s, size)
