"""Calling a kernel from Python: the points as a tuple, fresh arrays for the results, a frame of memory from a pool.

The caller is written as Python source for each program, since a loop over the results would take longer than small
kernels do. A frame belongs to one call at a time: threads, and calls inside of calls, take another.
"""

import ctypes

import numpy as np

from chainrule.errors import BoundsError
from chainrule.program.arguments import Sound
from chainrule.program.backend import code_of
from chainrule.program.ir import PYTHON, GuardFailed, Program, listing
from chainrule.program.loops.ir import Loop, blocks_of
from chainrule.program.native.builder import FAULT
from chainrule.program.native.functions import AS_PYTHON, FULL, LINE, NOT_FINITE, STRANGE
from chainrule.program.native.target import Code
from chainrule.program.native.threads import run_blocks
from chainrule.settings import config

ROUNDS = 64  # for so many a stack has room at first
LONG = 30_000  # kernels that compute more entries than these let other threads run: they take 50 microseconds or so
HOLDING = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_void_p)
RELEASING = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_void_p)  # lets go of the interpreter's lock
RANGE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def work(equations: list) -> int:
    """Return how many entries equations compute, about."""
    total = 0
    for e in equations:
        if e.__class__ is Loop:
            inner = max([work(b.equations) for root in e.blocks for b in blocks_of(root)], default=0)
            total += (e.count or ROUNDS) * inner
        else:
            total += sum([s.size for s in e.outputs if s is not None])
    return total


class Frames:
    """The memory of a runner's calls."""

    def __init__(self, words: int, numbers: int, stacks: list) -> None:
        self.words, self.numbers, self.stacks = words, numbers, stacks
        self.rounds = ROUNDS
        self.pool: list = []

    def new(self, rounds: int | None = None) -> tuple:
        """Return (address, results that are numbers, as floats and as integers, what is held for it, rounds)."""
        rounds = max(rounds or 0, self.rounds)
        room = np.empty(self.words + LINE)
        start = -room.ctypes.data // 8 % LINE
        frame = room[start : start + max(self.words, 1)]
        whole = frame.view(np.int64)
        held = [frame]
        for place, words in self.stacks:
            held.append(np.empty(words * rounds))
            whole[place], whole[place + 1] = held[-1].ctypes.data, rounds
        return frame.ctypes.data, frame[: self.numbers], whole[: self.numbers], held, rounds

    def larger(self, frame: tuple) -> tuple:
        """Return a frame with twice the room for stacks, which later ones have from the start."""
        self.rounds = max(self.rounds, 2 * frame[4])
        return self.new()

    @property
    def bytes(self) -> int:
        """Memory that is held between calls."""
        return sum(a.nbytes for frame in self.pool for a in frame[3])


class Runner:
    """A program as machine code. As `chainrule.program.backend.Runner`.

    Attributes
    ----------
    program : Program
    run : callable
        Takes the points and returns the outputs.
    source : str
        LLVM's text.
    """

    __slots__ = ("checks", "code", "frames", "guards", "program", "run", "source", "stages")

    def __init__(self, program: Program, writer, code: Code, text: str) -> None:
        self.program, self.code, self.source, self.guards = program, code, text, writer.guards
        self.checks = writer.module.checks
        self.frames = Frames(writer.words, len(program.outputs), writer.stacks)
        prototype = RELEASING if writer.stages or work(program.equations) > LONG else HOLDING
        self.stages = [((RELEASING if n is None else RANGE)(code.address(name)), n) for name, n in writer.stages]
        space = {
            "np": np, "empty": np.empty, "pool": self.frames.pool, "new": self.frames.new, "failed": self.failed,
            "kernel": prototype(code.address(writer.name)), "config": config, "in_threads": self.in_threads,
            "Sound": Sound,
        }  # fmt: skip
        source = caller(program, writer, space)
        exec(code_of(source, program.name), space)
        self.run = space["run"]
        self.frames.pool.append(self.frames.new())

    def __call__(self, points: list) -> list:
        """Run it; return fresh outputs."""
        return self.run(points)

    @property
    def bytes(self) -> int:
        """Memory that is kept between the calls."""
        return self.frames.bytes

    def in_threads(self, points: tuple, frame: int, threads: int) -> int:
        """Call the functions of the kernel one by one, the blocks of each in threads; return the first code not 0."""
        for call, count in self.stages:
            if count is None:
                code = call(points, frame)
            else:
                code = run_blocks(call, points, frame, count, threads)
            if code:
                return code
        return 0

    def failed(self, result: int, frame: tuple, points) -> list:
        """Do what a kernel that returned early asks for.

        Raises
        ------
        GuardFailed
            Where Python would have gone another way.
        ArithmeticError
            Where Python raises an exception.
        BoundsError
            Where a check of an address failed.
        """
        pool = self.frames.pool
        if result == FULL:
            pool.append(self.frames.larger(frame))
            return self.run(points)
        pool.append(frame)
        if result == FAULT:
            raise self.fault(frame)
        if result == STRANGE:
            return self.run([np.array(x, order="C") if x.__class__ is np.ndarray else x for x in points])
        if result == AS_PYTHON:
            raise ArithmeticError("Python raises an exception for these numbers: of a division, a power or a subscript")
        raise GuardFailed(self.guards[result - 1])

    def fault(self, frame: tuple) -> BoundsError:
        """Return the error for the check that wrote into a frame."""
        number, byte = frame[3][0].view(np.int64)[self.checks.place // 8 :][:2].tolist()
        at, what, size, home = self.checks.sites[number]
        high = home.high if home.high.__class__ is int else "its end"
        equation = "none" if at is None else listing(Program(equations=[at])).split("\n")[1].strip()
        return BoundsError(what, size, byte, home.name, home.low, high, equation, getattr(at, "place", None))


def caller(program: Program, writer, space: dict) -> str:
    """Return the source of the function that calls the kernel."""
    lines = ["def run(points):", "    try: frame = pool.pop()", "    except IndexError: frame = new()"]
    given = ["*points"]
    for n, value in enumerate(program.constants.values()):
        space[f"c{n}"] = value
        given.append(f"c{n}")
    for n, s in enumerate(writer.arrays):
        space[f"shape{n}"], space[f"dtype{n}"] = s.shape, np.dtype(s.dtype)
        lines.append(f"    y{n} = empty(shape{n}{'' if s.dtype == np.dtype(float) else f', dtype{n}'})")
        given.append(f"y{n}")
    if writer.stages:
        lines.append(f"    given, threads = ({', '.join(given)},), config.values.threads")
        lines.append("    code = kernel(given, frame[0]) if threads == 1 else in_threads(given, frame[0], threads)")
    else:
        lines.append(f"    code = kernel(({', '.join(given)},), frame[0])")
    lines.append(f"    if code and code != {NOT_FINITE}: return failed(code, frame, points)")
    kinds = {kind for kind, _ in writer.results}
    if "number" in kinds:
        lines.append("    numbers = frame[1].tolist()")
    if "whole" in kinds:
        lines.append("    integers = frame[2].tolist()")
    lines.append("    pool.append(frame)")
    made = [result(n, kind, y, writer, space) for n, (kind, y) in enumerate(writer.results)]
    found = f"[{', '.join(made)}]"
    lines.append(f"    return Sound({found}) if not code else {found}" if writer.knows else f"    return {found}")
    return "\n".join(lines) + "\n"


def result(n: int, kind: str, y, writer, space: dict) -> str:
    """Return an output as source."""
    if kind == "plain":
        space[f"plain{n}"] = y
        return f"plain{n}.copy()" if isinstance(y, np.ndarray) else f"plain{n}"
    if kind == "input":
        return f"points[{y}]" if writer.program.inputs[y].dtype in PYTHON else f"points[{y}].copy()"
    if kind == "array":
        before = sum([v is y for _, v in writer.results[:n]])  # each output of a symbol is an array of its own
        return f"y{[k for k, s in enumerate(writer.arrays) if s is y][before]}"
    text = f"{'integers' if kind == 'whole' else 'numbers'}[{n}]"
    if y.dtype is float:
        return text
    space[f"type{n}"] = y.dtype if y.dtype in PYTHON else np.dtype(y.dtype).type
    return f"type{n}({text})"
