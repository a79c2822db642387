"""The comparison of one program as machine code: with the function's own runs, and with its calls of NumPy.

A program, and its gradient, are compiled. They are run at the points of the program, which checks what users get, and
then beside `compile`, which would run the function itself where results are not finite: on arguments that are stored
in other ways, and on arguments with NaN, infinities, zeros of both signs and denormals, where machine code must give
what the calls of the same program give. Sizes and statements that machine code has ways of its own for are drawn by
`fuzz_wide`.
"""

import functools

import numpy as np

from chainrule import tree
from chainrule.program.compiling import compile
from chainrule.program.ir import GuardFailed, interpret
from chainrule.program.loops.ir import Loop
from chainrule.program.native.values import MOST_ENTRIES
from chainrule.testing.fuzz_compare import Comparison, by_bits
from chainrule.testing.fuzz_noise import multiplied, shaken
from chainrule.testing.fuzz_points import SAME, Differs
from chainrule.testing.fuzz_writing import copied
from chainrule.transforms import grad

SIGNS = ("copysign", "signbit")  # of NaN, too, which nothing defines
ITERATING = ("linalg", "hyp1f1", "hyp2f1", "hyperu")  # on infinities these may not come to an end
GUARD, ERROR = "a guard failed", "an error was raised"
NATIVE = functools.partial(compile, backend="native")
STRANGE = {8: [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-310, 1.0], 4: [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-41, 1.0]}


class NativeComparison(Comparison):
    """A program and its gradient as machine code."""

    def run(self):
        """Compare; return the findings."""
        self.where, self.records, self.gradients = 0, {}, {}
        if self.plain[0] is None:
            self.leave("no plain run")
            return self.findings
        for k in (1, 2):
            if self.plain[k] is not None and self.refused(k):
                self.plain[k] = None
                self.leave("refused at a point elsewhere")
        self.mode("native", lambda: self.machine(self.f, False))
        self.mode("native of grad", lambda: self.machine(grad(self.loss, self.argnums), True))
        return self.findings

    def machine(self, f, gradient):
        """Compare a compiled function with the function, and its machine code with calls of NumPy."""
        self.rng = np.random.default_rng(1)  # what differs is looked at again
        made, most = NATIVE(f), 3  # traces: one for each point
        for k in (0, 1, 2, 0):
            if self.plain[k] is None:
                continue
            found = tree.flatten(made(*copied(list(self.points[k]))))[0]
            most += not all(np.all(np.isfinite(y)) for y in found)  # and one with masks
            if any("can't be built" in why for why in made.stats().eager):
                raise RuntimeError(made.stats().eager[-1])
            want = self.gradient(k) if gradient else self.plain[k]
            beside = [functools.partial(self.on_some_path, made, k, run) for run in (self.shaken, multiplied)]
            beside.append(lambda k=k: tree.flatten(f(*self.moved(k)))[0])
            self.near(found, want, beside, f"point {k}")
            for y in found:  # the caller's from now on
                if isinstance(y, np.ndarray) and y.flags.writeable:
                    y.fill(np.nan)
        stats = made.stats()
        if stats.eager:
            self.leave("run as Python by compile")
        elif stats.traces > most and not by_bits(made):
            raise Differs(f"{stats.traces} traces for 3 points")
        elif stats.fallbacks and most == 3:
            self.leave("calls left to Python, as where a derivative needs care")
        for path in [p for kind in made._kinds.values() for p in kind.paths]:
            self.reached(path)
            if not path.choice.native:
                continue
            outside = path.surroundings.read()
            if outside is None:
                continue
            self.stored_otherwise(path, outside)
            text = str(path.program)
            kinds = 0 if any(name in text for name in ITERATING) else 1 if any(name in text for name in SIGNS) else 3
            for n in range(kinds):
                self.strange(path, outside, n)

    def reached(self, path):
        """Count which parts of the back end a program reaches."""
        equations, source = path.program.equations, path.choice.source
        seen = {
            "programs as NumPy": not path.choice.native,
            "machine code": path.choice.native,
            "kernels and calls": path.choice.native and path.choice.share < 1.0,
            "arrays in memory": path.choice.native and any(
                s is not None and s.dtype is not None and s.size > MOST_ENTRIES for e in equations for s in e.outputs),
            "rolled loops": path.choice.native and any(e.__class__ is Loop for e in equations),
            "calls of BLAS": "chainrule_blas" in source,
            "vector mathematics": "_ZGV" in source,
            "masked vectors": "llvm.masked" in source,
        }  # fmt: skip
        self.counts.reached.update([what for what, does in seen.items() if does])

    def stored_otherwise(self, path, outside):
        """Run on arguments that are not stored row by row: they are copied, and the results are the same."""
        points = tree.flatten(copied(list(self.points[0])))[0]
        strided = [other(x) if isinstance(x, np.ndarray) and x.ndim else x for x in points]
        found, want = (outcome(lambda p=p: path.choice.run((*p, *outside))) for p in (strided, points))
        if found.__class__ is want.__class__ is list:  # what NumPy adds up between kernels it adds up in another order
            self.near(found, want, self.beside(path, [*points, *outside]), "stored otherwise")

    def strange(self, path, outside, n):
        """Compare machine code with calls of NumPy where arguments have entries that are not finite, or zero."""
        points = [self.with_strange(x, n) for x in tree.flatten(copied(list(self.points[0])))[0]]
        given = (*points, *outside)
        want, found = outcome(lambda: interpret(path.program, list(given))), outcome(lambda: path.choice.run(given))
        if found is ERROR:  # `compile` leaves such a call to the function
            if want.__class__ is list and all(np.all(np.isfinite(y)) for y in want):
                raise Differs(f"with strange entries {n} machine code raises an error")
            return
        if want is ERROR:
            return
        if (want is GUARD) != (found is GUARD) and not self.wavers(path, given, want is GUARD):
            raise Differs(
                f"with strange entries {n} a guard fails for {'NumPy' if want is GUARD else 'machine code'} only"
            )
        if want is GUARD or found is GUARD:
            return

        self.near(found, want, self.beside(path, given), f"with strange entries {n}")

    def wavers(self, path, given, fails):
        """Tell whether a guard depends on rounding: beside its answer is another one."""
        answers = [outcome(run) is GUARD for run in self.beside(path, given) for _ in range(4)]
        return any(answer != fails for answer in answers)

    def moved(self, k):
        """Return the arguments of a point, moved by a few last digits."""
        return tree.tree_map(lambda x: moved(self.rng, x), copied(list(self.points[k])))

    def beside(self, path, given):
        """Return runs of a path's program beside: with other rounding inside, and with arguments moved."""
        return [
            lambda: self.shaken(path.program, list(given)),
            lambda: multiplied(path.program, list(given)),
            lambda: interpret(path.program, [moved(self.rng, x) for x in given]),
        ]

    def shaken(self, program, points):
        """Run a program with other rounding."""
        return shaken(self.rng, program, points)

    def on_some_path(self, made, k, run):
        """Run, by a function, the program of a compiled function that holds at a point."""
        points = tree.flatten(copied(list(self.points[k])))[0]
        for path in [p for kind in made._kinds.values() for p in kind.paths]:
            outside = path.surroundings.read()
            if outside is None:
                continue
            found = outcome(functools.partial(run, path.program, [*points, *outside]))
            if found.__class__ is list:
                return found
        return ERROR

    def with_strange(self, x, n):
        """Return an argument with a few entries that are not usual numbers; for `n` of 2 all kinds of them."""
        x = np.array(x) if not isinstance(x, float) else x
        if np.asarray(x).dtype.kind != "f":
            return x
        options = STRANGE[np.asarray(x).dtype.itemsize]
        if n == 0:
            options = options[3:]  # all finite
        if isinstance(x, float) or not x.ndim:
            y = self.rng.choice(options) if self.rng.random() < 0.3 else float(x)
            return float(y) if isinstance(x, float) else np.array(y, x.dtype)
        flat = x.reshape(-1)
        for _ in range(1 if n == 1 else 4):
            if flat.size:
                flat[self.rng.integers(flat.size)] = self.rng.choice(options)
        return x

    def near(self, found, want, beside, what):
        """Raise unless outputs agree up to rounding; else runs `beside` show what rounding does."""
        gap = None
        for j, (a, b) in enumerate(zip(found, want, strict=True)):
            self.counts.made += 1
            gap = gap or apart(a, b, f"{what}, output {j}", SAME[self.bytes])
        if gap is None:
            return
        others = [y for y in (outcome(run) for run in beside for _ in range(3)) if y.__class__ is list]
        for j, (a, b) in enumerate(zip(found, want, strict=True)):
            if apart(a, b, "", SAME[self.bytes]) is None or amplified(a, b, [y[j] for y in others]):
                continue
            raise Differs(gap)
        self.leave("ill conditioned")


def kind(x):
    """Return the kind of a number's dtype."""
    return np.asarray(x).dtype.kind


def outcome(run):
    """Return the list that a call gives, or that a guard failed or an error was raised."""
    try:
        with np.errstate(all="ignore"):
            return run()
    except GuardFailed:
        return GUARD
    except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
        return ERROR


def other(x):
    """Return an array whose entries are not stored row by row."""
    return np.asfortranarray(x) if x.ndim > 1 else np.repeat(x, 2)[::2]


def moved(rng, x):
    """Return an argument whose finite entries are moved by a few last digits."""
    if kind(x) != "f":
        return x
    x = np.asarray(x) if not isinstance(x, float) else x
    size = 1e-13 if np.asarray(x).dtype.itemsize == 8 else 1e-6
    y = x * (1 + size * rng.uniform(-1, 1, np.shape(x)))
    return float(y) if isinstance(x, float) else np.asarray(y).astype(x.dtype)


def apart(a, b, what, close):
    """Return how two outputs differ by more than rounding; None if they do not."""
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{what} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
    if x.dtype.kind not in "fc":
        wrong = x != y
    else:
        size = np.max(np.abs(y), initial=1.0, where=np.isfinite(y))
        wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= 10 * close * size))
    if not np.any(wrong):
        return None
    entry = tuple(map(int, np.argwhere(wrong)[0]))
    return f"{what}{list(entry) or ''} is {x[entry]!r}, not {y[entry]!r}; so are {np.sum(wrong)} of {x.size}"


def amplified(a, b, beside):
    """Tell whether outputs differ by no more than those at points beside."""
    x, y = np.asarray(a), np.asarray(b)
    if any(np.shape(z) != y.shape for z in beside):
        return True
    if x.shape != y.shape or x.dtype != y.dtype or not beside:
        return False
    if x.dtype.kind not in "fc":
        return any(not np.array_equal(z, y) for z in beside)
    with np.errstate(all="ignore"):
        far = np.max([np.abs(np.asarray(z) - y) for z in beside], axis=0)
        gap = np.abs(x - y)
    if any(not np.array_equal(np.isfinite(z), np.isfinite(y)) for z in beside):
        return True
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return False
    whole = np.isfinite(y)
    if not np.array_equal(x[~whole], y[~whole], equal_nan=True):
        return False
    return bool(np.all(gap[whole] <= 30 * np.max(far[np.isfinite(far)], initial=0.0)))
