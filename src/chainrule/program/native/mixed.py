"""Programs with calls that have no lowering: kernels in machine code, and Python between them.

The Python is what the NumPy back end writes; a kernel is a call among its lines, which gives fresh arrays and numbers.
"""

from typing import Any

import numpy as np

from chainrule.program.backend import code_of, module
from chainrule.program.backend.unroll import is_large, unrolled
from chainrule.program.backend.writer import Writer
from chainrule.program.emit import head, helpers_in
from chainrule.program.ir import PYTHON, Equation, Program, Symbol, symbols_in
from chainrule.program.loops.ir import Loop, Next
from chainrule.program.native import lanes, target
from chainrule.program.native.driver import Runner
from chainrule.program.native.kernels import Arrays
from chainrule.program.native.nests_clusters import flat_first
from chainrule.program.native.nests_kinds import folded
from chainrule.program.native.partition import Kernel, partition, share, stacks_of, worth
from chainrule.program.native.scalars import NotLowered
from chainrule.program.native.values import MOST_ENTRIES

LEAST = 2  # calls of a program that is worth it


class Trial(Arrays):
    """Finds out whether equations have a lowering."""

    def output(self, n: int, y) -> None:
        """Look at an output, which may be a number or an array."""
        held = self.values.get(y)
        if held.__class__ is lanes.Lanes or y.dtype in PYTHON:
            self.lanes(y)
        else:
            super().output(n, y)


def fits(equations: list) -> bool:
    """Tell whether equations have a lowering, together."""
    made = {s for e in equations for s in e.outputs}
    reads = list(dict.fromkeys([s for e in equations for s in e.reads if s not in made]))
    hidden = {getattr(e, name, None) for e in equations for name in ("pushes", "pops", "stack")}
    outputs = [s for e in equations for s in e.outputs if s not in hidden]
    try:
        Trial(Program(reads, equations, outputs)).write()
    except NotLowered:
        return False
    return True


ANSWERS: dict = {}  # kind of call -> whether it has a lowering
MOST_ANSWERS = 10_000


def kind_of_call(e):
    """Return what calls that have a lowering or have none alike have in common; None if that is not to be hashed."""
    if e.__class__ is not Equation or e.output.__class__ is not Symbol:
        return None
    xs = [("symbol", x.shape, str(x.dtype)) if x.__class__ is Symbol else (x.__class__, x) for x in e.inputs]
    key = e.rule, tuple(xs), tuple(e.params.items()), e.output.shape, str(e.output.dtype), len({*e.reads})
    try:
        hash(key)
    except TypeError:  # arrays, slices
        return None
    return None if any(True for _ in symbols_in(e.params)) else key


class Lowerable:
    """Tells for each equation of a program whether it has a lowering; the readers of a stack have one together."""

    def __init__(self, program: Program) -> None:
        self.known = {}
        for group in stacks_of(program.equations):
            members = [program.equations[i] for i in group]
            self.known.update(dict.fromkeys(members, fits(members)))

    def __call__(self, e) -> bool:
        """Tell whether an equation has a lowering."""
        if e in self.known:
            return self.known[e]
        key = kind_of_call(e)
        if key is None:
            return fits([e])
        if key not in ANSWERS:
            if len(ANSWERS) >= MOST_ANSWERS:
                ANSWERS.clear()
            ANSWERS[key] = fits([e])
        return ANSWERS[key]


class Kernels(Writer):
    """Writes a program whose equations are kernels and calls."""

    def __init__(self, program: Program, runs: dict) -> None:
        self.runs = runs
        super().__init__(program)

    def write_kernel(self, i, k: Kernel) -> None:
        """Write the call of a kernel."""
        names = [s.name for s in k.outputs]
        call = f"{self.constant(self.runs[k])}(({''.join([self.general(s) + ', ' for s in k.reads])}))"
        self.lines.append(f"{''.join([n + ', ' for n in names])}= {call}" if names else call)
        for s in k.outputs:
            self.names[s] = s.name
            self.number_made(s, s.name if s in self.wanted else None)


class Mixed:
    """A program as kernels and calls. As `chainrule.program.backend.Runner`.

    Attributes
    ----------
    program : Program
    run : callable
        Takes the points and returns the outputs.
    source : str
        The Python, and LLVM's text of each kernel.
    share : float
        Which part of the calls is in kernels.
    """

    __slots__ = ("kernels", "memory", "program", "run", "share", "source")

    def __init__(self, program: Program, items: list) -> None:
        self.program, self.share = program, share(items)
        self.kernels = {k: kernel(k, program) for k in items if k.__class__ is Kernel}
        writer = Kernels(program.like(items), {k: r.run for k, r in self.kernels.items()})
        writer.write()
        text = module(program, writer)
        self.memory = sum([b.nbytes for n, b in writer.memory.items() if n[0] != "w"])
        space: dict[str, Any] = writer.space
        calls = "\n".join(writer.calls)
        if "scipy." in calls or "math." in calls or helpers_in(calls):
            exec(head(calls), space)
        exec(code_of(text, program.name), space)
        if writer.memory:
            space["pool"].append(tuple(writer.memory.values()))
        self.run = space["run"]
        self.source = "\n\n".join([text, *[r.source for r in self.kernels.values()]])

    def __call__(self, points: list) -> list:
        """Run it; return fresh outputs."""
        return self.run(points)

    @property
    def bytes(self) -> int:
        """Memory that is kept between the calls."""
        return self.memory + sum([r.bytes for r in self.kernels.values()])


class Part(Arrays):
    """Writes a kernel of a program; `around` is that program."""

    def __init__(self, program: Program, around: Program) -> None:
        super().__init__(program)
        self.around = around

    def is_array(self, y) -> bool:
        """Tell whether NumPy makes an array without axes of an output, in the whole program."""
        part, self.program = self.program, self.around
        try:
            return super().is_array(y)
        except NotLowered:  # an input of the program is read as it is
            return False
        finally:
            self.program = part


def kernel(k: Kernel, program: Program) -> Runner:
    """Compile a kernel."""
    writer = Part(k.program(program), program)
    return finished(writer)


def finished(writer: Arrays) -> Runner:
    """Write and compile what a writer has."""
    text = writer.write()
    return Runner(writer.program, writer, target.compiled(text, 1 if writer.has_arrays else None), text)


def rounds_fuse(program: Program) -> bool:
    """Tell whether the rounds of all loops over large arrays, written out, are one pass over memory."""
    return all(block is not None and block.end.__class__ is Next and all(map(in_a_row, block.equations))
               for e in program.equations if e.__class__ is Loop and is_large(e) for block in e.blocks)  # fmt: skip


def in_a_row(e) -> bool:
    """Tell whether an equation only has numbers, or computes entry by entry."""
    if e.__class__ is not Equation:
        return False
    return (flat_first(e) and folded(e) is None) or not any(s.size > MOST_ENTRIES for s in (*e.reads, *e.outputs))


def needs_bits(guard, program: Program) -> bool:
    """Tell whether a guard holds for the very bits of computed numbers, which machine code rounds otherwise."""
    s = guard.symbol
    if guard.how == "bool" or s in program.inputs:
        return False
    return s.dtype in (float, complex) or (s.dtype not in PYTHON and np.dtype(s.dtype).kind in "fc")


def build(program: Program):
    """Return what runs a program, as machine code as far as that pays; None if it does not."""
    if worth(program.equations) < LEAST or any(needs_bits(g, program) for g in program.guards):
        return None
    flat = unrolled(program)
    versions = (flat, program) if rounds_fuse(program) else (program, flat)
    for version in dict.fromkeys(versions):
        try:
            return finished(Arrays(version))
        except NotLowered:
            continue
    program = flat
    items = partition(program, Lowerable(program))
    if not any(k.__class__ is Kernel for k in items):
        return None
    try:
        return Mixed(program, items)
    except NotLowered:  # each equation alone has a lowering, but not all of a kernel together
        return None
