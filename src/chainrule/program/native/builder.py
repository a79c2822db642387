"""Writing LLVM's text: a `Module` of functions, and a `Builder` for each function.

A value of the text is a `Value`: its type and its name, or the text of a constant. A builder's methods write one
instruction each, and return the value that it makes:

>>> module = Module()
>>> b = Builder(module, "square", "double", ["double"])
>>> x, = b.arguments
>>> b.ret(b.binary("fmul", x, x))
>>> print(module.text())
define double @square(double %a0) {
entry:
  %v1 = fmul double %a0, %a0
  ret double %v1
}
<BLANKLINE>

Pointers are opaque, ``ptr``. Truth values are ``i1`` in names, and bytes in memory. Arithmetic carries no fast-math
flags: what is NaN or infinite stays so.

All that reads or writes memory goes through `Builder.check`. In a module with `Checks` (``config.check_bounds``) each
pointer has a `Home`, from which all that is computed from it inherits, and an access outside of it makes the function
return `FAULT` before anything is read or written. A pointer without a home is a fault of whoever wrote the code.
"""

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Value(NamedTuple):
    """A value of LLVM's text: a name, or a constant. Of a pointer, `home` is the memory that it moves within."""

    type: str
    text: str
    home: Any = None

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_constant(self) -> bool:
        """Tell whether it is a constant."""
        return self.text[0] != "%"


class Home(NamedTuple):
    """A stretch of memory, for checks: the bytes from `low` up to `high` after `base`.

    `high` is a number, or a value of type i64. `name` says what the memory is, in words.
    """

    base: Value
    low: int
    high: Any
    name: str


@dataclass(eq=False, slots=True)
class Checks:
    """What a module with checked loads and stores notes of them.

    Attributes
    ----------
    place : int
        Where in the frame, in bytes, a check that fails writes (number of the site, byte).
    at
        The equation that is being written, or a cluster of some.
    sites : list of tuple
        Of each check (equation, what it does, size in bytes, home).
    """

    place: int
    at: Any = None
    sites: list = field(default_factory=list)

    @contextlib.contextmanager
    def noted(self, e) -> Iterator[None]:
        """Let sites be of an equation."""
        before, self.at = self.at, e
        yield
        self.at = before


NOTHING = contextlib.nullcontext()
FAULT = -4  # what a function returns if a check failed
TYPES = {"d": "double", "f": "float", "?": "i1"}
TYPES |= {np.dtype(k).char: f"i{8 * np.dtype(k).itemsize}" for k in (np.int64, np.int32, np.longlong)}
STORED = {"i1": "i8"}  # types that differ in memory
SIZES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i8": 1, "i1": 1, "ptr": 8}


def type_of(dtype) -> str | None:
    """Return the type for a dtype, or for Python's float, int or bool; None if there is none (complex, float16...)."""
    if dtype is complex or dtype is None:
        return None
    return TYPES.get(np.dtype(dtype).char)


def constant(kind: str, x) -> Value:
    """Return a constant of a type, exactly: floating-point numbers as the bits of a double.

    >>> constant("double", 0.1).text, constant("i64", 3).text, constant("i1", True).text
    ('0x3FB999999999999A', '3', 'true')
    """
    if kind == "double":
        return Value(kind, f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}")
    if kind == "float":
        with np.errstate(all="ignore"):
            return Value(kind, f"0x{np.float64(np.float32(x)).view(np.uint64):016X}")
    if kind == "i1":
        return Value(kind, "true" if x else "false")
    return Value(kind, str(int(x)))


def splat(value: Value, lanes: int) -> Value:
    """Return a constant as a vector constant of equal lanes."""
    return Value(f"<{lanes} x {value.type}>", f"<{', '.join([str(value)] * lanes)}>")


def element_of(kind: str) -> str:
    """Return the type of a vector's lanes; of other types the type."""
    return kind.partition(" x ")[2][:-1] if kind[0] == "<" else kind


def lanes_of(kind: str) -> int:
    """Return the number of lanes; 1 of what is no vector."""
    return int(kind[1:].partition(" x ")[0]) if kind[0] == "<" else 1


def with_lanes(kind: str, lanes: int) -> str:
    """Return the vector type of so many lanes of the type of a number; one lane is the number."""
    return f"<{lanes} x {kind}>" if lanes > 1 else kind


def first_lanes(live: int, lanes: int) -> Value:
    """Return the constant mask of a vector's first lanes."""
    bits = ", ".join([f"i1 {'true' if n < live else 'false'}" for n in range(lanes)])
    return Value(f"<{lanes} x i1>", f"<{bits}>")


class Module:
    """Functions, the functions from outside that they call, and constant arrays."""

    def __init__(self) -> None:
        self.functions: list[Builder] = []
        self.names: set[str] = set()  # of functions with a body
        self.declared: dict[str, str] = {}  # name -> its declaration
        self.tables: dict[tuple, str] = {}  # (type, bytes) -> name of a constant array
        self.count = 0
        self.checks: Checks | None = None

    def fresh(self, stem: str) -> str:
        """Return a name for a function or a table."""
        self.count += 1
        return f"{stem}_{self.count}"

    def declare(self, name: str, result: str, kinds, pure: bool = False) -> None:
        """Declare a function from outside; a `pure` one reads and writes no memory, and returns."""
        if name not in self.declared and name not in self.names:
            note = " nounwind willreturn memory(none)" if pure and not name.startswith("llvm.") else ""
            self.declared[name] = f"declare {result} @{name}({', '.join(kinds)}){note}"

    def table(self, array: np.ndarray) -> Value:
        """Return a pointer to a constant array with the entries of `array`, row by row."""
        kind = type_of(array.dtype)
        key = kind, array.tobytes()
        if key not in self.tables:
            self.tables[key] = self.fresh("table")
        return self.based(Value("ptr", f"@{self.tables[key]}"), len(key[1]), "a table of constants")

    def noted(self, e) -> contextlib.AbstractContextManager:
        """Let checks note that what is written is of an equation."""
        return NOTHING if self.checks is None else self.checks.noted(e)

    def based(self, pointer: Value, high: Any, name: str, low: int = 0) -> Value:
        """Return a pointer that is the base of a stretch of memory: so many bytes."""
        return pointer if self.checks is None else pointer._replace(home=Home(bare(pointer), low, high, name))

    def text(self) -> str:
        """Return the module's text."""
        parts = []
        for (kind, data), name in self.tables.items():
            kind = STORED.get(kind, kind)
            size = len(data) // SIZES[kind]
            escaped = "".join([f"\\{byte:02X}" for byte in data])
            parts.append(f'@{name} = private constant [{len(data)} x i8] c"{escaped}", align 64 ; {size} x {kind}\n')
        parts += [f"{d}\n" for d in self.declared.values()]
        parts += [f.text() for f in self.functions]
        return "\n".join(parts) if len(parts) > 1 else parts[0]


def bare(pointer: Value) -> Value:
    """Return a pointer without its home."""
    return Value(pointer.type, pointer.text)


class Phi:
    """A value that depends on the block that came before; `add` says how, also after other code is written."""

    __slots__ = ("line", "lines", "value", "ways")

    def __init__(self, value: Value, lines: list) -> None:
        self.value, self.lines, self.line, self.ways = value, lines, len(lines), []

    def add(self, value: Value, block: str) -> None:
        """Let it be `value` where control comes from `block`."""
        self.ways.append(f"[ {value.text}, %{block} ]")
        self.lines[self.line] = f"  {self.value.text} = phi {self.value.type} {', '.join(self.ways)}"


class Builder:
    """Writes one function, instruction by instruction.

    Attributes
    ----------
    arguments : list of Value
        The function's arguments.
    lines : list of str
        What is written.
    """

    def __init__(self, module: Module, name: str, result: str, kinds, attributes: str = "", note: str = "") -> None:
        self.module, self.name, self.result = module, name, result
        self.arguments = [Value(k, f"%a{n}") for n, k in enumerate(kinds)]
        self.notes = [note] * len(self.arguments)  # attributes of the arguments: noalias
        self.attributes = attributes  # internal noinline, ...
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.count = 0
        self.prefix = "%v"  # of the names of values
        module.functions.append(self)
        module.names.add(name)

    def text(self) -> str:
        """Return the function's text."""
        words = self.attributes.split()
        linkage = " ".join([w for w in words if w in ("internal", "private")])
        rest = " ".join([w for w in words if w not in ("internal", "private")])
        head = ", ".join([f"{a.type}{n and ' ' + n} {a.text}" for a, n in zip(self.arguments, self.notes, strict=True)])
        start = f"define {linkage + ' ' if linkage else ''}{self.result} @{self.name}({head}){rest and ' ' + rest} {{"
        return "\n".join([start, "entry:", *self.allocas, *self.lines, "}\n"])

    # -- blocks ------------------------------------------------------------------------------------------------

    def block(self, stem: str) -> str:
        """Return a label for a new block; `start` begins it."""
        self.count += 1
        return f"{stem}{self.count}"

    def start(self, label: str) -> None:
        """Begin a block. The one before must have ended: in `branch`, `condition` or `ret`."""
        self.lines.append(f"{label}:")

    @property
    def current(self) -> str:
        """The label of the block that is being written; for `Phi.add`."""
        last = next((line for line in reversed(self.lines) if line[-1:] == ":"), "entry:")
        return last.rpartition("\n")[2][:-1]

    def branch(self, label: str) -> None:
        """Go on in another block."""
        self.lines.append(f"  br label %{label}")

    def condition(self, truth: Value, yes: str, no: str) -> None:
        """Go on in one of two blocks."""
        self.lines.append(f"  br i1 {truth.text}, label %{yes}, label %{no}")

    def switch(self, value: Value, other: str, cases: dict) -> None:
        """Go on in the block of the value's case: number -> label."""
        inner = " ".join([f"{value.type} {n}, label %{label}" for n, label in cases.items()])
        self.lines.append(f"  switch {value}, label %{other} [ {inner} ]")

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self.lines.append(f"  ret {value}" if value is not None else "  ret void")

    def phi(self, kind: str) -> Phi:
        """Begin a phi; it must stand at the start of its block."""
        phi = Phi(self.name_of(kind), self.lines)
        self.lines.append("")
        return phi

    # -- instructions ------------------------------------------------------------------------------------------

    def name_of(self, kind: str) -> Value:
        """Return a new name."""
        self.count += 1
        return Value(kind, f"{self.prefix}{self.count}")

    def write(self, kind: str, text: str) -> Value:
        """Write any instruction; return the value that it makes."""
        self.count += 1
        name = f"{self.prefix}{self.count}"
        self.lines.append(f"  {name} = {text}")
        return Value(kind, name)

    def binary(self, how: str, x: Value, y: Value) -> Value:
        """Write fadd, fsub, fmul, fdiv, frem, add, sub, mul, sdiv, srem, and, or, xor, shl, ashr, lshr."""
        return self.write(x[0], f"{how} {x[0]} {x[1]}, {y[1]}")

    def fneg(self, x: Value) -> Value:
        """Change the sign, also of zeros and NaN."""
        return self.write(x.type, f"fneg {x}")

    def compare(self, how: str, x: Value, y: Value) -> Value:
        """Compare: oeq, une, olt, ole, ogt, oge, uno, ord ... of numbers, eq, ne, slt, sle, ... of integers."""
        word = "fcmp" if element_of(x.type) in ("double", "float") else "icmp"
        truth = f"<{lanes_of(x.type)} x i1>" if x.type[0] == "<" else "i1"
        return self.write(truth, f"{word} {how} {x}, {y.text}")

    def select(self, truth: Value, x: Value, y: Value) -> Value:
        """Return `x` where `truth` holds, otherwise `y`; neither may have effects."""
        return self.write(x.type, f"select {truth}, {x}, {y}")

    def cast(self, how: str, x: Value, kind: str) -> Value:
        """Write sitofp, uitofp, fptosi, fpext, fptrunc, sext, zext, trunc, bitcast, ptrtoint, inttoptr."""
        return self.write(kind, f"{how} {x} to {kind}")

    def call(self, name: str, result: str, *xs: Value, pure: bool = False) -> Value | None:
        """Call a function, one of the module or one from outside, which is declared. None of ``void``."""
        self.module.declare(name, result, [x.type for x in xs], pure)
        text = f"call {result} @{name}({', '.join(map(str, xs))})"
        if result == "void":
            self.lines.append(f"  {text}")
            return None
        return self.write(result, text)

    def intrinsic(self, name: str, *xs: Value) -> Value:
        """Call ``llvm.<name>.<type>``: sqrt, fabs, floor, ceil, rint, trunc, copysign, minimum, maximum, fma."""
        kind = xs[0].type
        short = {"double": "f64", "float": "f32"}.get(element_of(kind), element_of(kind))
        suffix = short if kind[0] != "<" else f"v{lanes_of(kind)}{short}"
        return self.call(f"llvm.{name}.{suffix}", kind, *xs)

    # -- memory ------------------------------------------------------------------------------------------------

    def alloca(self, kind: str, count: int = 1) -> Value:
        """Return memory of this call, for loop variables: taken once, at the function's start."""
        name = self.name_of("ptr")
        self.allocas.append(f"  {name.text} = alloca {kind}{f', i64 {count}' if count != 1 else ''}, align 8")
        return self.module.based(name, count * lanes_of(kind) * SIZES[element_of(kind)], "a variable")

    def offset(self, kind: str, pointer: Value, index: Value | int) -> Value:
        """Return a pointer `index` entries of a type further on; of the number 0 the pointer."""
        if index.__class__ is int:
            if index == 0:
                return pointer
            index = Value("i64", str(index))
        if pointer.home is None:
            return self.write("ptr", f"getelementptr inbounds {STORED.get(kind, kind)}, {pointer}, {index}")
        moved = self.write("ptr", f"getelementptr {STORED.get(kind, kind)}, {pointer}, {index}")
        return moved._replace(home=pointer.home)

    def check(self, pointer: Value, size: int, what: str = "load") -> None:
        """In a module with checks, return `FAULT` unless `size` bytes at a pointer are in its home.

        The code is one line of `lines`, so that it stays together where lines are taken in turns.
        """
        checks = self.module.checks
        if checks is None:
            return
        home = pointer.home
        if home is None:
            raise AssertionError(f"the pointer {pointer.text} has no home")
        if pointer.text == home.base.text and home.high.__class__ is int and home.low <= 0 <= home.high - size:
            return
        lines, self.lines = self.lines, []
        here, base = [self.cast("ptrtoint", bare(p), "i64") for p in (pointer, home.base)]
        byte = self.binary("sub", here, base)
        above = self.binary("sub", byte, Value("i64", str(home.low)))
        if home.high.__class__ is int:
            room, fits = home.high - home.low - size, None
            inside = self.compare("ule", above, Value("i64", str(room))) if room >= 0 else Value("i1", "false")
        else:
            room = self.binary("sub", home.high, Value("i64", str(home.low + size)))
            fits = self.compare("sge", room, Value("i64", "0"))
            inside = self.binary("and", fits, self.compare("ule", above, room))
        good, bad = self.block("good"), self.block("bad")
        self.condition(inside, good, bad)
        self.lines.append(f"{bad}:")
        for k, x in enumerate((Value("i64", str(len(checks.sites))), byte)):
            at = self.write("ptr", f"getelementptr i8, {self.arguments[1]}, i64 {checks.place + 8 * k}")
            self.lines.append(f"  store {x}, {at}, align 8")
        self.lines += [f"  ret i32 {FAULT}", f"{good}:"]
        lines.append("\n".join(self.lines))
        self.lines = lines
        checks.sites.append((checks.at, what, size, home))

    def load(self, kind: str, pointer: Value, align: int | None = None) -> Value:
        """Load a value; truth values are bytes there. `align` is by default that of an entry."""
        stored = with_lanes(STORED.get(element_of(kind), element_of(kind)), lanes_of(kind))
        self.check(pointer, lanes_of(kind) * SIZES[element_of(stored)])
        align = align or SIZES[element_of(stored)]
        x = self.write(stored, f"load {stored}, {pointer}, align {align}")
        if stored != kind:
            zero = "zeroinitializer" if stored[0] == "<" else "0"
            return self.write(kind, f"icmp ne {x}, {zero}")
        return x

    def store(self, value: Value, pointer: Value, align: int | None = None) -> None:
        """Store a value."""
        kind = value.type
        stored = with_lanes(STORED.get(element_of(kind), element_of(kind)), lanes_of(kind))
        self.check(pointer, lanes_of(kind) * SIZES[element_of(stored)], "store")
        if stored != kind:
            value = self.cast("zext", value, stored)
        self.lines.append(f"  store {value}, {pointer}, align {align or SIZES[element_of(stored)]}")

    def load_some(self, kind: str, pointer: Value, live: int, lanes: int) -> Value:
        """Load a vector of which only the first `live` lanes are read; the others are 1."""
        stored = STORED.get(kind, kind)
        self.check(pointer, live * SIZES[stored])
        full, align = with_lanes(stored, lanes), Value("i32", str(SIZES[stored]))
        short = {"double": "f64", "float": "f32"}.get(stored, stored)
        x = self.call(f"llvm.masked.load.v{lanes}{short}.p0", full, bare(pointer), align, first_lanes(live, lanes),
                      splat(constant(stored, 1), lanes))  # fmt: skip
        return x if stored == kind else self.write(with_lanes(kind, lanes), f"icmp ne {x}, zeroinitializer")

    def store_some(self, vector: Value, pointer: Value, live: int) -> None:
        """Store the first `live` lanes of a vector."""
        kind, lanes = element_of(vector.type), lanes_of(vector.type)
        if kind == "i1":
            for n in range(live):
                self.store(self.lane(vector, n), self.offset(kind, pointer, n))
            return
        self.check(pointer, live * SIZES[kind], "store")
        short = {"double": "f64", "float": "f32"}.get(kind, kind)
        self.call(f"llvm.masked.store.v{lanes}{short}.p0", "void", vector, bare(pointer),
                  Value("i32", str(SIZES[kind])), first_lanes(live, lanes))  # fmt: skip

    def copy(self, to: Value, source: Value, size: int) -> None:
        """Copy so many bytes between places that do not overlap."""
        self.check(to, size, "store")
        self.check(source, size)
        self.call("llvm.memcpy.p0.p0.i64", "void", bare(to), bare(source), Value("i64", str(size)),
                  Value("i1", "false"))  # fmt: skip

    # -- vectors -----------------------------------------------------------------------------------------------

    def spread(self, x: Value, lanes: int) -> Value:
        """Return a vector of equal lanes."""
        if x.is_constant:
            return splat(x, lanes)
        kind = with_lanes(x.type, lanes)
        first = self.write(kind, f"insertelement {kind} poison, {x}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.write(kind, f"shufflevector {first}, {kind} poison, {zeros}")

    def pack(self, xs: list) -> Value:
        """Return numbers as a vector."""
        kind = with_lanes(xs[0].type, len(xs))
        vector = Value(kind, "poison")
        if all(x.is_constant for x in xs):
            return Value(kind, f"<{', '.join(map(str, xs))}>")
        for n, x in enumerate(xs):
            vector = self.write(kind, f"insertelement {vector}, {x}, i64 {n}")
        return vector

    def lane(self, vector: Value, n: int) -> Value:
        """Return a lane of a vector."""
        return self.write(element_of(vector.type), f"extractelement {vector}, i64 {n}")

    def shuffle(self, x: Value, y: Value | None, which) -> Value:
        """Return the lanes `which` of two vectors of one type, those of `y` numbered after; one as a number."""
        if len(which) == 1:
            n = lanes_of(x.type)
            return self.lane(x, which[0]) if which[0] < n else self.lane(y, which[0] - n)
        mask = ", ".join([f"i32 {n}" for n in which])
        other = y.text if y is not None else "poison"
        kind = with_lanes(element_of(x.type), len(which))
        return self.write(kind, f"shufflevector {x}, {x.type} {other}, <{len(which)} x i32> <{mask}>")
