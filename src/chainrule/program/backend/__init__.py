"""The back end: from a program to Python source that runs it with as little beside the arithmetic as Python allows.

Numbers are Python's floats, arrays are written into memory that is kept between the calls, in place where that is safe,
and NumPy is called by its shortest ways. The source can be read: `Runner.source`.
"""

import linecache

from chainrule.program.backend.writer import Writer
from chainrule.program.emit import head, helpers_in
from chainrule.program.ir import Program

try:  # np.errstate as one assignment
    from numpy._core.umath import _extobj_contextvar as ERRORS
    from numpy._core.umath import _make_extobj

    IGNORE = _make_extobj(all="ignore")
except ImportError:
    ERRORS = None


class Runner:
    """A program that can be called with its points.

    Attributes
    ----------
    program : Program
    run : callable
        Takes the points and returns the outputs, as a call of the runner does.
    source : str
        What is run.
    bytes : int
        Memory that is kept between the calls.
    """

    __slots__ = ("bytes", "program", "run", "source")

    def __init__(self, program: Program, poison: bool = False) -> None:
        writer = Writer(program, poison)
        writer.write()
        self.program = program
        self.source = module(program, writer)
        self.bytes = sum([b.nbytes for n, b in writer.memory.items() if n[0] != "w"])
        space = writer.space
        text = "\n".join(writer.calls)
        if "scipy." in text or "math." in text or helpers_in(text):
            exec(head(text), space)
        exec(code_of(self.source, program.name), space)
        if writer.memory:
            space["pool"].append(tuple(writer.memory.values()))
        self.run = space["run"]

    def __call__(self, points: list) -> list:
        """Run it; return fresh outputs.

        Raises
        ------
        GuardFailed
            Where Python would have gone another way.
        """
        return self.run(points)


def module(program, writer) -> str:
    """Return the source of both functions."""
    names = ", ".join(writer.memory) + "," * (len(writer.memory) == 1)
    lines = []
    if writer.memory:
        lines += ["def buffers():", *[f"    {line}" for line in writer.setup], f"    return {names}", "", ""]
        lines += ["pool = []", "", ""]
    lines.append("def run(points):")
    body = [f"{', '.join([s.name for s in program.inputs])}{',' * (len(program.inputs) == 1)} = points"]
    if not program.inputs:
        body = []
    if writer.memory:
        body += ["try: memory = pool.pop()", "except IndexError: memory = buffers()"]
    if ERRORS is not None:
        writer.space |= {"errors": ERRORS, "ignore": IGNORE}
        body += ["token = errors.set(ignore)", "try:"]
        last = ["finally:", "    errors.reset(token)"]
    else:
        body += ["try:", "  with np.errstate(all='ignore'):"]
        last = ["finally:", "    pass"]
    if writer.memory:
        body.append(f"    {names} = memory")
        last.append("    pool.append(memory)")
    body += [f"    {line}" for line in writer.lines]
    return "\n".join(lines + [f"    {line}" for line in body + last]) + "\n"


def code_of(source, name):
    """Compile a source; tracebacks find its lines."""
    file = f"<compiled {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    return compile(source, file, "exec")


def build(program: Program, poison: bool = False) -> Runner:
    """Return what runs the program. With `poison`, memory that is not in use is filled with NaN, for tests."""
    return Runner(program, poison)
