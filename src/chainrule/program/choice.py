"""Which back end runs a program: calls of NumPy at first, machine code where it pays.

Calls of NumPy are ready at once. Machine code takes some milliseconds for each equation to make, and runs several times
faster. Under ``backend="auto"`` it is made in the call in which a program has run for as long as making the code will
take, by an estimate (`price`), or for a twentieth of a second. So a program that is run a few times is never
translated, and one that is run often loses little. Nothing else enters into the choice, and results differ by rounding
only.
"""

import functools
import importlib.util
import threading
import time
from collections.abc import Callable
from typing import Any

from chainrule.engine import level as _level
from chainrule.program.backend import build as build_numpy
from chainrule.program.ir import Equation, Program
from chainrule.program.loops.ir import Loop, blocks_of

MOST = 0.05  # seconds: what a program has run for longer than this is translated, whatever that takes
START, NUMBER, ARRAY = 0.01, 0.0001, 0.003  # seconds: for each translation, each equation on numbers, and on arrays
LARGE = 128  # entries: equations on arrays of more become loops


@functools.cache
def installed() -> bool:
    """Tell whether there is llvmlite."""
    return importlib.util.find_spec("llvmlite") is not None


def checked(backend: str) -> str:
    """Return the name of a back end.

    Raises
    ------
    ImportError
        If it is ``"native"``, and there is no llvmlite.
    """
    if backend == "native" and not installed():
        raise ImportError("backend='native' needs llvmlite\n  install it: pip install 'chainrule[fast]'")
    return backend


def price(program: Program) -> float:
    """Return how many seconds it takes to make machine code of a program, roughly, and at most `MOST`."""
    seconds = START
    todo = [program.equations]
    while todo and seconds < MOST:
        for e in todo.pop():
            if seconds >= MOST:
                break
            if e.__class__ is Loop:
                todo += [b.equations for root in e.blocks if root is not None for b in blocks_of(root)]
            elif e.__class__ is Equation:
                large = any(s.size > LARGE for s in e.outputs) or any(s.size > LARGE for s in e.reads)
                seconds += ARRAY if large else NUMBER
    return min(seconds, MOST)


class Choice:
    """What runs a program at the moment.

    Attributes
    ----------
    run : callable
        Takes the points and returns the outputs. It may be another one after a call.
    source : str
        What is run: Python, LLVM's text, or both.
    bytes : int
        Memory that is kept between the calls.
    native : bool
        Whether it is machine code.
    share : float
        Which part of the program's calls that is; 0.0 to 1.0.
    fault : str or None
        Why there is no machine code though it was tried: an error of the translation.
    """

    def __init__(self, program: Program, backend: str) -> None:
        self.program, self.native, self.share = program, False, 0.0
        self.fault: str | None = None
        self.run: Callable = self.waiting
        self.lock = threading.Lock()
        if backend == "native" and self.translate():
            return
        self.use(build_numpy(program))
        if backend == "auto" and installed():
            self.numpy, self.spent, self.price = self.run, 0.0, price(program)
            self.run = self.waiting

    def use(self, runner: Any) -> None:
        """Let a runner do it from now on."""
        self.runner, self.run = runner, runner.run

    @property
    def source(self) -> str:
        """What is run."""
        return self.runner.source

    @property
    def bytes(self) -> int:
        """Memory that is kept between the calls."""
        return self.runner.bytes

    def translate(self) -> bool:
        """Make machine code, if there is a lowering; tell whether there is."""
        from chainrule.program import native

        runner = native.build(self.program)
        if runner is None:
            return False
        self.use(runner)
        self.native, self.share = True, getattr(runner, "share", 1.0)
        return True

    def waiting(self, points: Any) -> list:
        """Run calls of NumPy, and see whether it is time for machine code."""
        start = time.perf_counter()
        outputs = self.numpy(points)
        self.spent += time.perf_counter() - start
        if self.spent >= self.price and self.lock.acquire(blocking=False):
            try:
                if not self.native and self.numpy is not None:
                    self.switch()
            finally:
                self.lock.release()
        return outputs

    def switch(self) -> None:
        """Go over to machine code; stay with NumPy where there is none."""
        _level.hold_gc()
        try:
            done = self.translate()
        except Exception as error:
            done, self.fault = False, f"{type(error).__name__}: {error}".split("\n")[0]
        finally:
            _level.release_gc()
        if not done:
            self.run = self.numpy
