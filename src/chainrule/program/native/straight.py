"""Unrolled code: the equations of a program on numbers and small arrays as instructions, one after the other.

Arrays are `Lanes`: whole arrays are computed as vectors, what only moves entries takes no code. The code is cut into
functions of some 256 lines, since LLVM's time for one function grows faster than its length. A value that is read in a
later function goes through the `frame`: it is stored at the end of the function that makes it, and loaded where it is
read. In a scope (a function, a branch, a loop's body) it is loaded once.
"""

import bisect
import math

import numpy as np

from chainrule.engine.spec import cast_to, choose
from chainrule.program.ir import PYTHON, Equation, Guard, Program, Symbol
from chainrule.program.loops.ir import Loop, Pop
from chainrule.program.native import lanes, layout, moves, reductions, rounds, scalars, target
from chainrule.program.native.builder import (
    SIZES,
    Builder,
    Checks,
    Home,
    Module,
    Value,
    bare,
    constant,
    element_of,
    lanes_of,
    type_of,
)  # fmt: skip
from chainrule.program.native.lanes import Lanes, entries_of, packed, single
from chainrule.program.native.maps import MAPS, OPERATORS, computes_in, how_of
from chainrule.program.native.scalars import NotLowered, converted, literal
from chainrule.program.native.values import Memory
from chainrule.rules.choices import replaced
from chainrule.rules.scalars import number
from chainrule.settings import config

LINE = 8  # doubles of a line of the cache
CHUNK = 256  # lines of one function, about
FULL, STRANGE, AS_PYTHON, NOT_FINITE = -1, -2, -3, -5  # what a kernel returns: see below


class Straight:
    """Writes a program as functions of LLVM.

    A kernel returns 0, or the number of a guard that failed. It returns `FULL` if a loop's stack is full, `STRANGE` if
    an array is not stored row by row, `AS_PYTHON` where Python raises an exception: a division of its floats by 0, and
    `NOT_FINITE` if all is done, but some entry of a result is not finite.
    With ``config.check_bounds``, it returns `FAULT` before it reads or writes outside of what it may.
    """

    knows = False  # whether a kernel tells if the arrays that it gives out are finite
    limit = CHUNK  # lines after which the next function begins

    def __init__(self, program: Program, name: str = "kernel") -> None:
        self.program, self.name = program, name
        self.module = Module()
        self.values: dict[Symbol, object] = {}
        self.guards: list[Guard] = []
        self.ranges: dict[Symbol, tuple] = {}  # integers that are known to lie between two numbers
        self.words = 0  # of the frame, in doubles
        self.starts: list[int] = []  # the places that were taken
        self.slots: dict[str, int] = {}  # name of a value -> its place in the frame
        self.stacks: list[int] = []  # places in the frame of the address and the room of each stack that may grow
        self.chunks: list[Builder] = []
        self.stages: list[tuple] = []  # functions to call if there are blocks: (name, how many blocks or None)
        self.inputs = [*program.inputs, *program.constants]
        self.results: list[tuple] = []  # of each output: see `output`
        self.arrays: list[Symbol] = []  # the outputs that are arrays
        self.numbers = self.place(len(program.outputs))  # the frame begins with the outputs that are numbers
        if config.check_bounds:
            self.module.checks = Checks(8 * self.place(2))
        self.begin()

    # -- functions ---------------------------------------------------------------------------------------------

    def begin(self, *more: str) -> None:
        """Begin the next function; it may have more arguments than the points and the frame."""
        k = len(self.chunks)
        kinds = ["ptr", "ptr", *more]
        self.b = Builder(self.module, f"{self.name}_{k}", "i32", kinds, "internal noinline nounwind")
        self.b.prefix = self.prefix = f"%k{k}v"
        self.b.tail, self.b.has_loops, self.b.blocks = [], False, None
        self.chunks.append(self.b)
        self.scopes = [{}]

    def place(self, words: int) -> int:
        """Return the place of so many doubles in the frame; that of many begins with a line of the cache."""
        if words >= LINE:
            self.words = -(-self.words // LINE) * LINE
        self.starts.append(self.words)
        self.words += words
        return self.words - words

    def frame(self, first: int, size: int, name: str = "a place in the frame") -> Value:
        """Return the address of the frame, of which code may use so many bytes from the byte `first` on."""
        frame = Value("ptr", "%a1")
        return frame if self.module.checks is None else frame._replace(home=Home(frame, first, first + size, name))

    def at(self, place: int) -> Value:
        """Return the address of a place in the frame."""
        k = bisect.bisect_right(self.starts, place)
        first, last = self.starts[k - 1], self.starts[k] if k < len(self.starts) else self.words
        return self.b.offset("double", self.frame(8 * first, 8 * (last - first)), place)

    def here(self, v: Value) -> Value:
        """Return a value for this function: loaded from the frame if another one made it."""
        text = v.text
        if text[0] != "%" or text.startswith(self.prefix) or text[1] == "a":
            return v
        for scope in reversed(self.scopes):
            if text in scope:
                return scope[text]
        home = v.home
        if home is not None and home.base.text != text:
            high = home.high if home.high.__class__ is int else self.here(home.high)
            home = home._replace(base=self.here(home.base), high=high)
        loaded = self.b.load(v.type, self.at(self.slot(v)))
        if home is not None:
            loaded = loaded._replace(home=home if home.base.text != text else home._replace(base=loaded))
        self.scopes[-1][text] = loaded
        return loaded

    def slot(self, v: Value) -> int:
        """Return the place of a value in the frame; the function that makes it stores it there at its end."""
        if v.text not in self.slots:
            size = {"double": 8, "i64": 8, "ptr": 8, "float": 4, "i32": 4, "i1": 1}[element_of(v.type)]
            self.slots[v.text] = place = self.place((lanes_of(v.type) * size + 7) // 8)
            maker, b = self.chunks[int(v.text[2 : v.text.index("v")])], self.b
            lines, maker.lines, self.b = maker.lines, maker.tail, maker
            maker.store(bare(v), self.at(place))
            maker.lines, self.b = lines, b
        return self.slots[v.text]

    def finish(self) -> str:
        """Write the ends of the functions and the kernel, which calls them; return the module's text."""
        for b in self.chunks:
            b.lines += b.tail
            b.ret(constant("i32", 0))
            if target.host().lanes > 2 and "alignstack" not in b.attributes:
                b.attributes += " alignstack(64)"  # vectors that wait for a call are on the stack
        long = sum([len(b.lines) for b in self.chunks]) > target.SLOW and len(self.chunks) > 1
        if long:
            for b in self.chunks:  # only loops gain from what LLVM's passes do
                if not b.has_loops and not any(" = phi " in line for line in b.lines):
                    b.attributes += " optnone"
        if len(self.chunks) == 1:
            words = [w for w in self.chunks[0].attributes.split() if w not in ("internal", "noinline")]
            self.chunks[0].name, self.chunks[0].attributes = self.name, " ".join(words)
            return self.module.text()
        calls = [(c.name, ()) if c.blocks is None else over_blocks(self.module, c) for c in self.chunks]
        if any(c.blocks is not None and c.blocks.count > 1 for c in self.chunks):  # the driver may call them one by one
            self.stages = [(name, int(more[1].text) if more else None) for name, more in calls]
            for b in self.chunks:
                b.attributes = b.attributes.removeprefix("internal ")
        b = Builder(self.module, self.name, "i32", ["ptr", "ptr"], "nounwind noinline optnone" if long else "nounwind")
        for name, more in calls:
            code = b.call(name, "i32", *b.arguments, *more)
            done, failed = b.block("done"), b.block("failed")
            b.condition(b.compare("eq", code, constant("i32", 0)), done, failed)
            b.start(failed)
            b.ret(code)
            b.start(done)
        b.ret(constant("i32", 0))
        return self.module.text()

    def leave(self, condition: Value, code: int) -> None:
        """Return a code if a condition holds."""
        b = self.b
        go, stop = b.block("go"), b.block("stop")
        b.condition(condition, stop, go)
        b.start(stop)
        b.ret(constant("i32", code))
        b.start(go)

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
        if type_of(s.dtype) is None or (s.dtype is int and OPERATORS.get(e.fun, e.fun) not in WHOLE):
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
            return self.whole(e, fun) if s.dtype is int else self.elementwise(e, fun, how, s)
        special = SPECIAL.get(fun)
        if special is not None:
            return special(self, e, s)
        write = moves.MOVES.get(fun) or (moves.gathered if e.rule.kind == "gather" else None)
        if write is not None:
            return write(self, e)
        write = reductions.reduction_of(fun)
        if write is not None:
            return write(self, e)
        raise NotLowered

    def elementwise(self, e, fun, how, s) -> Lanes:
        """Write a call that computes entry by entry."""
        kind = computes_in(fun, s.dtype, [dtype_of(x) for x in e.inputs])
        plain = s.dtype in PYTHON and fun in RAISING
        if plain:
            self.before_python(e, fun)
        out = type_of(s.dtype)
        y = self.mapped(how, e.inputs, [kind] * len(e.inputs), s.shape, s.dtype, None if kind == out else out)
        if plain and fun is np.power:
            x = single(self.b, y.refs[0])
            self.leave(scalars.logical_not(self.b, scalars.isfinite(self.b, x)), AS_PYTHON)
        return y

    def whole(self, e, fun) -> Lanes:
        """Write an operator on Python's integers: leave where these need more than 64 bits."""
        b = self.b
        x, y = [self.wanted(v, "i64", (), False)[0] for v in e.inputs]
        both = b.call(f"llvm.{WHOLE[fun]}.with.overflow.i64", "{ i64, i1 }", x, y)
        self.leave(b.write("i1", f"extractvalue {both}, 1"), AS_PYTHON)
        return Lanes([(b.write("i64", f"extractvalue {both}, 0"), -1)], (), int)

    def before_python(self, e, fun) -> None:
        """Leave where Python's operator raises an exception, or gives a complex number."""
        b = self.b
        x, y = [self.wanted(v, "double", (), False)[0] for v in e.inputs]
        zero = constant("double", 0.0)
        if fun is not np.power:
            self.leave(b.compare("oeq", y, zero), AS_PYTHON)
        elif not (e.inputs[1].__class__ in (int, float) and e.inputs[1] >= 0 and e.inputs[1] == int(e.inputs[1])):
            self.leave(b.compare("ule", x, zero), AS_PYTHON)

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


def over_blocks(module: Module, chunk: Builder) -> tuple:
    """Write the function that runs the blocks from one number up to another; return (its name, both for all)."""
    b = Builder(module, f"{chunk.name}_blocks", "i32", ["ptr", "ptr", "i64", "i64"], "nounwind")
    points, frame, first, last = b.arguments
    loop, more, done, failed = map(b.block, ("loop", "more", "done", "failed"))
    b.condition(b.compare("slt", first, last), loop, done)
    b.start(loop)
    index = b.phi("i64")
    code = b.call(chunk.name, "i32", points, frame, index.value)
    following = b.binary("add", index.value, constant("i64", 1))
    index.add(first, "entry")
    index.add(following, more)
    b.condition(b.compare("eq", code, constant("i32", 0)), more, failed)
    b.start(more)
    b.condition(b.compare("slt", following, last), loop, done)
    b.start(failed)
    b.ret(code)
    b.start(done)
    b.ret(constant("i32", 0))
    return b.name, (constant("i64", 0), constant("i64", chunk.blocks.count))


def held_bytes(s: Symbol) -> int:
    """Return the size of an array in bytes."""
    return s.size * np.dtype(s.dtype).itemsize


def captured(s: Symbol, c: np.ndarray, pointer: Value) -> Memory:
    """Return a captured array as it lies in memory."""
    size = c.itemsize
    if not c.flags.aligned or any(t % size for t in c.strides):
        raise NotLowered
    return Memory(pointer, c.shape, tuple([t // size for t in c.strides]), c.dtype, 0, s, size)


WHOLE = {np.add: "sadd", np.subtract: "ssub", np.multiply: "smul"}  # operators that Python's integers may have
RAISING = frozenset({np.divide, np.power, np.remainder, np.floor_divide})


def dtype_of(x):
    """Return the dtype of an operand, Python's type for Python's numbers."""
    if x.__class__ is Symbol:
        return x.dtype
    if x.__class__ in PYTHON:
        return x.__class__
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype
    raise NotLowered


def kind_of(x) -> str:
    """Return the type of an operand's entries."""
    kind = type_of(dtype_of(x))
    if kind is None:
        raise NotLowered
    return kind


def select(w, e, s) -> Lanes:
    """Write np.where of three operands."""
    if e.params or len(e.inputs) != 3:
        raise NotLowered
    kind = type_of(s.dtype)
    return w.mapped(scalars.choice, e.inputs, [kind_of(e.inputs[0]), kind, kind], s.shape, s.dtype)


def chosen(w, e, s) -> Lanes:
    """Write `choose`."""
    mask, x = e.inputs
    kind = type_of(s.dtype)
    return w.mapped(lambda b, m, x: scalars.choice(b, m, x, scalars.like(x, 0)), [mask, x], [kind_of(mask), kind],
                    s.shape, s.dtype)  # fmt: skip


def cast(w, e, s) -> Lanes:
    """Write a cast."""
    kind_of(e.inputs[0])
    kind = type_of(s.dtype)
    have = w.lanes(e.inputs[0])
    if have.refs and element_of(have.refs[0][0].type) == kind:
        return Lanes(have.refs, have.shape, s.dtype)
    return w.mapped(lambda b, x: x, e.inputs, [kind], s.shape, s.dtype)


def clipped(w, e, s) -> Lanes:
    """Write np.clip."""
    x, *limits = e.inputs
    if e.params.keys() - {"a_min", "a_max", "min", "max"}:
        raise NotLowered
    low, high = [*limits, None, None][:2]
    low, high = e.params.get("a_min", e.params.get("min", low)), e.params.get("a_max", e.params.get("max", high))
    kind = type_of(s.dtype)
    y = w.mapped(lambda b, x: x, [x], [kind], s.shape, s.dtype)
    for limit, how in ((low, scalars.maximum), (high, scalars.minimum)):
        if limit is not None:
            t = Symbol("clipped", s.shape, s.dtype)
            w.values[t] = y
            y = w.mapped(how, [t, limit], [kind] * 2, s.shape, s.dtype)
    return y


def finite(w, e, s) -> Lanes:
    """Write `replaced`, which puts numbers in place of what is not finite."""
    kind = type_of(s.dtype)
    if kind not in scalars.FLOATS or e.params.keys() - {"nan", "posinf", "neginf"} or len(e.inputs) != 1:
        raise NotLowered
    limits = np.finfo(np.dtype(s.dtype))
    nan = e.params.get("nan", 0.0)
    high, low = e.params.get("posinf"), e.params.get("neginf")
    high, low = float(limits.max) if high is None else high, float(limits.min) if low is None else low
    if any(x.__class__ not in (int, float) for x in (nan, high, low)):
        raise NotLowered

    def how(b, x):
        y = b.select(scalars.isnan(b, x), scalars.like(x, nan), x)
        y = b.select(b.compare("oeq", x, scalars.like(x, math.inf)), scalars.like(x, high), y)
        return b.select(b.compare("oeq", x, scalars.like(x, -math.inf)), scalars.like(x, low), y)

    return w.mapped(how, e.inputs, [kind], s.shape, s.dtype)


def rounded(w, e, s) -> Lanes:
    """Write np.round to whole numbers."""
    if e.params.keys() - {"decimals"} or e.params.get("decimals", 0) != 0 or len(e.inputs) != 1:
        raise NotLowered
    return w.mapped(MAPS[np.rint], e.inputs, [type_of(s.dtype)], s.shape, s.dtype)


SPECIAL = {
    np.round: rounded, np.around: rounded,
    np.where: select, choose: chosen, cast_to: cast, float: cast, bool: cast, number: cast, np.clip: clipped,
    replaced: finite,
}  # fmt: skip
