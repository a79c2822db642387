"""What a compiled function tells people: counts of what it has done, and what runs in place of its Python code."""

from dataclasses import dataclass

from chainrule.program.ir import Program


@dataclass
class Stats:
    """What a compiled function has done so far.

    Attributes
    ----------
    traces : int
        How often the function was run as Python to record it.
    paths : int
        How many programs are compiled: one for each kind of arguments and way through the function.
    fallbacks : int
        How many calls were run as Python because the program could not: results that are not finite, errors.
    eager : tuple of str
        Why calls are always run as Python, if they are.
    seconds : float
        Time spent on tracing, optimising and building.
    bytes : int
        Memory that the programs hold between calls.
    native : int
        How many of the programs run as machine code now.
    share : float
        Which part of the calls in these is machine code; the rest is calls of NumPy and SciPy.
    """

    traces: int = 0
    paths: int = 0
    fallbacks: int = 0
    eager: tuple = ()
    seconds: float = 0.0
    bytes: int = 0
    native: int = 0
    share: float = 0.0


@dataclass(frozen=True)
class Lowered:
    """A program, and the code that runs it."""

    program: Program
    source: str
    native: bool = False
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.program}\n\n{self.source}"
