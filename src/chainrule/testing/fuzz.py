"""A differential fuzzer: random programs, run in every mode, each compared with the others and with differences.

A long run, from the command line::

    python -m chainrule.testing.fuzz --programs 10000 --seed 0

prints each failing program, made as short as it still fails, with its arguments, and at the end what was covered.
Program number k of a seed is the same on every machine: ``--first k --programs 1`` repeats it. In tests,
`check_program` is given hypothesis's source of random choices, so that what fails is shrunk by hypothesis, too.
"""

import argparse
import collections
import random as _random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.testing.fuzz_compare import compare
from chainrule.testing.fuzz_points import Counts
from chainrule.testing.fuzz_statements import written
from chainrule.testing.fuzz_wide import Wide
from chainrule.testing.fuzz_writing import FEATURES, Written, statements

ENOUGH = 100  # programs: the shares of what was left out in fewer tell nothing


class Report:
    """What a run of the fuzzer covered and found."""

    def __init__(self):
        self.programs, self.seconds = 0, 0.0
        self.features, self.counts = collections.Counter(), Counts()
        self.failures = []  # (number, program, findings)

    def add(self, number: int, program: Written, findings: list, counts: Counts) -> None:
        """Count one program."""
        self.programs += 1
        self.features.update(program.features)
        self.counts.add(counts)
        if findings:
            self.failures.append((number, program, findings))

    def share(self, feature: str) -> float:
        """Return the share of programs that have a feature."""
        return self.features[feature] / max(self.programs, 1)

    def __str__(self) -> str:
        speed = self.programs / max(self.seconds, 1e-9)
        lines = [f"{self.programs} programs, {len(self.failures)} with differences, {speed:.1f} a second"]
        lines += [f"  {self.share(f):5.0%} have {f}" for f in FEATURES]
        return "\n".join([*lines, str(self.counts)])


def program(seed: int, number: int, native: bool = False) -> Written:
    """Return program `number` of a seed; for machine code every other one is of larger arrays."""
    random = _random.Random(f"{seed} {number}")
    return written(random, writer=Wide) if native and number % 2 else written(random)


def check(made: Written, number: int = 0, only: Any = None, native: bool = False) -> tuple:
    """Compare a program under every mode, or as machine code; return (findings, counts of comparisons)."""
    if not native:
        return compare(made, _random.Random(number), only)
    from chainrule.testing.fuzz_native import NativeComparison

    return compare(made, _random.Random(number), only, NativeComparison)


def check_program(random: Any) -> tuple:
    """Write a program by `random`'s choices and compare it; return it with its findings and counts."""
    made = written(random)
    return made, *compare(made, random)


def reduced(made: Written, number: int, limit: int = 200, native: bool = False) -> tuple:
    """Leave out statements and results of a failing program as long as a mode fails that failed before.

    Returns
    -------
    (Written, list)
        The shorter program and its findings.
    """
    findings, _ = check(made, number, None, native)
    modes = {f.mode for f in findings}
    again = True
    while again and limit > 0:
        again = False
        for shorter in shortened(made):
            limit -= 1
            try:
                found, _ = check(shorter, number, modes, native)
            except Exception:  # it is no program any more
                continue
            if found:
                made, findings, again = shorter, found, True
                break
    return made, findings


def shortened(made: Written) -> Iterator[Written]:
    """Yield a program with a statement less, or with a result less."""
    for k in range(len(statements(made.lines)) - 1, -1, -1):
        less = made.without(k)
        text = "\n".join(less.lines)
        yield less.returning([n for n in less.results if f"{n} " in text or f"{n}," in text] or ["x"])
    if len(made.results) > 1:
        for n in made.results:
            yield made.returning([r for r in made.results if r != n])


def printed(made: Written, findings: list, number: int | None = None) -> str:
    """Return a failing program as text that can be pasted: imports, program, arguments, what differs."""
    title = "a program" if number is None else f"program {number}"
    with np.printoptions(threshold=10**6, floatmode="unique"):
        args = ", ".join(repr(tree.tree_map(exact, a)) for a in made.args)
    return "\n".join(
        [
            f"# {title} differs",
            "import numpy as np, chainrule as cr",
            "from numpy import array, float32",
            "from scipy import special",
            "from chainrule.testing.fuzz_writing import call, rule",
            made.source,
            f"args = [{args}]",
            *[f"# {line}" for f in findings for line in str(f).splitlines()],
        ]
    )


def exact(x):
    """Return a value as it prints with all digits."""
    return x.item() if isinstance(x, np.generic) else x


def fuzz(programs: int, seed: int = 0, first: int = 0, each: Callable | None = None, native: bool = False) -> Report:
    """Write and compare programs; return the report.

    Parameters
    ----------
    programs : int
        How many.
    seed, first : int
        Which: numbers `first`, `first` + 1, ... of the seed.
    each : callable, optional
        Called with (number, program, findings) after each program; the run ends if it returns True.
    native : bool
        Whether to compare machine code instead of all other modes. Needs llvmlite.

    Returns
    -------
    Report
        Its ``failures`` are (number, program, findings).

    Examples
    --------
    >>> from chainrule.testing.fuzz import fuzz
    >>> fuzz(1, seed=1).failures
    []
    """
    report, start = Report(), time.perf_counter()
    for number in range(first, first + programs):
        made = program(seed, number, native)
        findings, counts = check(made, number, None, native)
        report.add(number, made, findings, counts)
        report.seconds = time.perf_counter() - start
        if each is not None and each(number, made, findings):
            break
    return report


def main(argv: list | None = None) -> int:
    """Run the fuzzer from the command line; return 1 if programs differed, or too much could not be compared."""
    parser = argparse.ArgumentParser(prog="chainrule.testing.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=1000, help="how many programs (1000)")
    parser.add_argument("--seed", type=int, default=0, help="which programs (0)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (0)")
    parser.add_argument("--most", type=int, default=5, help="end after so many failing programs (5)")
    parser.add_argument("--native", action="store_true", help="compare machine code, in place of the other modes")
    parser.add_argument("--whole", action="store_true", help="do not shorten failing programs")
    options = parser.parse_args(argv)
    failing = 0
    with progress(options.programs) as advance:

        def each(number, made, findings):
            nonlocal failing
            advance()
            if findings:
                failing += 1
                shown = (made, findings) if options.whole else reduced(made, number, native=options.native)
                print(printed(*shown, number), end="\n\n", flush=True)
            return failing >= options.most

        report = fuzz(options.programs, options.seed, options.first, each, options.native)
    print(report)
    excess = report.counts.excess() if report.programs >= ENOUGH else []
    for why in excess:
        print(f"too many comparisons were left out: {why}")
    return 1 if report.failures or excess else 0


class progress:
    """Shows how far a run is: by rich if that is installed, else not at all."""

    def __init__(self, total):
        try:
            from rich.progress import Progress, TextColumn, TimeRemainingColumn
        except ImportError:
            self.bar = None
            return
        columns = [
            *Progress.get_default_columns()[:3],
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
        ]
        self.bar = Progress(*columns, disable=not sys.stdout.isatty())
        self.task = self.bar.add_task("programs", total=total)

    def __enter__(self):
        if self.bar is None:
            return lambda: None
        self.bar.start()
        return lambda: self.bar.advance(self.task)

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.stop()


if __name__ == "__main__":
    sys.exit(main())
