"""The comparison of one program under every mode: plain, forward, reverse, recorded, flat, compiled, differences.

`compare` returns what it found as `Finding`s: each names the mode, and says what was expected and found. An error is a
finding, too, since the plain run of the program had none.
"""

import contextlib
import functools
import sys
import warnings

import numpy as np

from chainrule import tree
from chainrule.engine import boxed
from chainrule.engine.variable import Variable
from chainrule.errors import ConversionError, InPlaceError, OutArgumentError, SourceError
from chainrule.program.compiling import compile
from chainrule.program.flat import flat
from chainrule.program.ir import GuardFailed, interpret, verify
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.testing.fuzz_points import CLOSE, SAME, Case, Differs, as_like, dot, inner, size
from chainrule.testing.fuzz_writing import copied
from chainrule.transforms import grad, jacobian, jvp, vjp, vmap

REFUSALS = (
    ConversionError,
    InPlaceError,
    OutArgumentError,
)  # what docs/limits.md names: traced values written into plain arrays
ORDINARY = boxed.ordinary
PROGRAMS = ("record", "flat", "compile", "native")
COMPILE = functools.partial(compile, backend="numpy")
TRANSFORMS = {"flat": flat, "compile": COMPILE}


@contextlib.contextmanager
def careless():
    """Let rules take all numbers for ordinary ones in this block, as they do where they are recorded."""
    users = [m for m in list(sys.modules.values()) if getattr(m, "ordinary", None) is ORDINARY]
    for m in users:
        m.ordinary = lambda x: True
    try:
        yield
    finally:
        for m in users:
            m.ordinary = ORDINARY


class Finding:
    """A difference: of which mode, at which point, and what it is."""

    def __init__(self, mode, point, what):
        self.mode, self.point, self.what = mode, point, what

    def __str__(self):
        return f"{self.mode} at point {self.point}: {self.what}"


class Comparison(Case):
    """The modes of one program, each compared with the plain run or with another."""

    def run(self):
        """Compare all modes; return the findings."""
        self.where, self.records, self.gradients = 0, {}, {}
        if self.plain[0] is None:
            self.leave("no plain run")
            return self.findings
        for k in (1, 2):  # the program was written to be accepted at the first
            if self.plain[k] is not None and self.refused(k):
                self.plain[k] = None
                self.leave("refused at a point elsewhere")
        for self.where in (0, 1):
            if self.plain[self.where] is None or not self.shaped(self.where):
                self.spare("a point elsewhere where the program fails, or gives other shapes")
                continue
            self.mode("forward and reverse", self.forward_and_reverse)
            self.mode("backward()", self.backward)
            self.mode("second order", self.second_order)
            self.mode("differences", self.differences)
        self.where = 0
        self.mode("vmap", self.batched)
        self.mode("jacobian", self.jacobian)
        self.mode("record", lambda: self.recorded(self.f, False))
        self.mode("record of grad", lambda: self.recorded(grad(self.loss, self.argnums), True))
        for name, transform in TRANSFORMS.items():
            self.mode(name, lambda: self.function(transform, name, self.f, False))
            self.mode(f"{name} of grad", lambda: self.function(transform, name, grad(self.loss, self.argnums), True))
        self.mode("grad of compile", self.through_compiled)
        return self.findings

    def mode(self, name, check):
        """Run one comparison; an error is a finding, as the plain run had none."""
        if self.only is not None and name not in self.only:
            return
        self.name = name
        before = [x.copy() if isinstance(x, np.ndarray) else x for x in tree.flatten(self.points)[0]]
        try:
            check()
        except Differs as found:
            if name.split()[0] in PROGRAMS and self.holds_without_care(check):
                self.leave("digits that a program does not look after")
            else:
                self.findings.append(Finding(name, self.where, str(found)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except REFUSALS as error:
            if name.split()[0] not in ("record", "flat"):  # all modes that differentiate refuse the same programs
                self.findings.append(Finding(name, self.where, f"{type(error).__name__}: {error}"))
            else:  # what no argument reaches is a plain array in a program, while it may be a zero tangent in a run
                self.leave(f"refused: {type(error).__name__} of {name}")
        except BaseException as error:  # also what batches stop a run with
            if name.split()[0] in ("record", "flat") and "did not converge" in str(error):  # factors of NaN
                self.leave("a program for finite numbers")
                return
            self.findings.append(Finding(name, self.where, f"{type(error).__name__}: {error}"))
        for a, b in zip(before, tree.flatten(self.points)[0], strict=True):
            if not np.array_equal(a, b):
                self.findings.append(Finding(name, self.where, "an argument was changed"))
                return

    def holds_without_care(self, check):
        """Tell whether a comparison of a program holds if eager runs go the ways that are recorded, too.

        Programs are written for numbers that call for no care: the derivative of tanh, say, is 1 - y**2 in them also
        where that cancels.
        """
        before = self.plain, self.gradients
        with careless():
            self.plain = [None if y is None else self.values(p) for y, p in zip(self.plain, self.points, strict=True)]
            self.gradients = {}
            try:
                check()
            except Differs:
                return False
            finally:
                self.plain, self.gradients = before
        return True

    def refused(self, k):
        """Tell whether both modes refuse the way that the program takes at a point."""
        args = self.points[k]
        for run in (lambda: jvp(self.f, tuple(copied(args)), tuple(self.vs)), lambda: vjp(self.f, *copied(args))):
            try:
                run()
            except REFUSALS:
                continue
            return False
        return True

    def forward_and_reverse(self):
        """Compare the values of both modes with the plain run, and <w, J v> with <J' w, v>."""
        ws, vs = self.weights(), self.vs

        def both(args):
            y, ydot = jvp(self.f, tuple(args), tuple(vs))
            z, pull = vjp(self.f, *args)
            bars = pull(tuple(ws))
            return dot(ws, ydot), dot(bars, vs), y, z, ydot, bars

        a, b, y, z, ydot, bars = both(self.args)
        self.same_values(y, "forward mode")
        self.same_values(z, "reverse mode")
        for bar, x in zip(tree.flatten(list(bars))[0], tree.flatten(list(self.args))[0], strict=True):
            if np.shape(bar) != np.shape(x) or np.asarray(bar).dtype != np.asarray(x).dtype:
                raise Differs(
                    f"a cotangent is {np.asarray(bar).dtype}{np.shape(bar)}, not {np.asarray(x).dtype}{np.shape(x)}"
                )
        for dy, x in zip(ydot, y, strict=True):
            if np.shape(dy) != np.shape(x) or np.asarray(dy).dtype != np.asarray(x).dtype:
                raise Differs(
                    f"a tangent is {np.asarray(dy).dtype}{np.shape(dy)}, not {np.asarray(x).dtype}{np.shape(x)}"
                )
        self.close(a, b, size(ws) * size(ydot) + size(bars) * size(vs), "<w, J v> and <J' w, v>", both)

    def backward(self):
        """Compare the gradients of Variables with those of `grad`."""

        def both(args):
            boxes = tree.tree_map(Variable, copied(list(args)))
            total = self.loss(*tree.tree_map(lambda x: 1.0 * x, boxes))  # leaves may not be written to
            if isinstance(total, Variable):
                total.backward()
            grads = grad(self.loss, self.argnums)(*args)
            return (
                dot([0.0 if x.grad is None else x.grad for x in tree.flatten(boxes)[0]], self.vs),
                dot(grads, self.vs),
                grads,
            )

        a, b, grads = both(self.args)
        self.close(a, b, size(grads) * size(self.vs), "x.grad and grad, along v", both)

    def second_order(self):
        """Compare the products with the Hessian of all combinations of modes, and with differences of the gradient."""
        us = self.vs
        ws = tree.tree_map(lambda v: as_like(np.cos(3 * np.asarray(v)), v), us)
        gradient = grad(self.curved, self.argnums)

        def three(args):
            over_reverse = jvp(gradient, tuple(args), tuple(us))[1]
            reverse_over = grad(lambda *xs: inner(gradient(*xs), us), self.argnums)(*args)
            over_forward = grad(lambda *xs: jvp(self.curved, xs, tuple(us))[1], self.argnums)(*args)
            return dot(over_reverse, ws), dot(reverse_over, ws), dot(over_forward, ws), over_reverse

        a, b, c, h = three(self.args)
        scale = size(h) * size(ws)
        self.close(a, b, scale, "second order, forward over reverse and reverse over reverse", three)
        self.close(
            a, c, scale, "second order, forward over reverse and reverse over forward", lambda args: three(args)[::2]
        )
        if self.bytes < 8:
            self.spare("single precision with differences")
        elif self.where == 0:

            def slope(args):
                return dot(gradient(*args), ws)

            self.against_differences(lambda args: three(args)[0], slope, scale, "second order")

    def differences(self):
        """Compare the gradient with central differences."""
        if self.bytes < 8:
            self.spare("single precision with differences")
            return
        scale = size(grad(self.loss, self.argnums)(*self.args)) * size(self.vs)

        def slope(args):
            return dot(grad(self.loss, self.argnums)(*args), self.vs)

        self.against_differences(slope, lambda args: float(self.loss(*copied(list(args)))), scale, "first order")

    def batched(self):
        """Compare a batch of points with the points one by one."""
        if self.plain[2] is None or not self.shaped(2):
            self.spare("a point beside where the program fails, or gives other shapes")
            return
        stacked = [
            tree.unflatten(s, [np.stack([a, b]) for a, b in zip(x, y, strict=True)])
            for (x, s), (y, _) in zip(map(tree.flatten, self.points[0]), map(tree.flatten, self.points[2]), strict=True)
        ]
        found = vmap(self.f)(*stacked)
        for k, point in enumerate((0, 2)):
            try:
                for j, (a, b) in enumerate(zip(found, self.plain[point], strict=True)):
                    self.equal(a[k], b, f"vmap, result {self.program.results[j]}", SAME, dtypes=False)
            except Differs:
                if not self.trembles([a[k] for a in found], self.f, point):
                    raise
                self.leave("ill conditioned")
        bars = vmap(grad(self.loss, self.argnums))(*stacked)
        for k, point in enumerate((0, 2)):
            single = tree.flatten(list(grad(self.loss, self.argnums)(*self.points[point])))[0]
            for a, b in zip(tree.flatten(list(bars))[0], single, strict=True):
                self.equal(a[k], b, "vmap of grad", dtypes=False, scale=100 * size(single))

    def jacobian(self):
        """Compare w J v of the dense Jacobian with the product."""
        count = sum(np.size(y) for y in self.plain[0])
        if not 0 < count <= 40:
            self.spare("a Jacobian without rows, or of more than 40")
            return
        for mode in ("forward", "reverse"):

            def both(args):
                j = jacobian(lambda *xs: np.concatenate([np.ravel(y) for y in self.f(*xs)]), self.argnums, mode=mode)(
                    *args
                )
                w = np.concatenate([np.ravel(w) for w in self.ws])
                total = 0.0
                for block, v in zip(tree.flatten(list(j))[0], tree.flatten(list(self.vs))[0], strict=True):
                    total += float(w @ np.asarray(block, float).reshape(len(w), -1) @ np.ravel(v))
                ydot = jvp(self.f, tuple(args), tuple(self.vs))[1]
                return total, dot(self.ws, ydot), ydot

            a, b, ydot = both(self.args)
            self.close(a, b, size(self.ws) * size(ydot), f"w J v by columns or rows ({mode}) and by jvp", both)

    # -- programs ------------------------------------------------------------------------------------------------

    def recorded(self, f, gradient):
        """Compare the interpreted record with eager runs, also at points other than the recorded one."""
        program = self.program_of(f, gradient)
        shorter = verify(optimise(program))
        for k in (0, 1, 2):
            if self.plain[k] is None:
                continue
            for made, what in ((program, "the interpreted program"), (shorter, "the optimised program")):
                try:
                    found = interpret(made, tree.flatten(copied(list(self.points[k])))[0])
                except (GuardFailed, np.linalg.LinAlgError):  # a matrix that is singular there, and was not
                    if k == 0:
                        raise
                    self.spare("a point whose way a program has not recorded")
                    continue
                if self.careless(found, gradient):
                    self.leave("a program for finite numbers")  # whoever runs it takes care: see `ordinary`
                    continue
                self.same_outputs(found, gradient, k, what)

    def program_of(self, f, gradient):
        """Return the program of the function, or of its gradient, at the first point."""
        if gradient not in self.records:
            self.records[gradient] = verify(record(f)(*copied(list(self.points[0]))))
        return self.records[gradient]

    def function(self, transform, name, f, gradient):
        """Compare what `flat` or `compile` gives with eager runs, at the traced point, elsewhere, and there again."""
        if name == "flat":
            try:
                made = transform(f)(*copied(list(self.points[0]))).function
            except SourceError:  # of functions that have no name in NumPy
                self.spare("a function without a name in NumPy, of which there is no source")
                return
        else:
            made = transform(f)
        most = 3  # traces: one for each point, and those with masks
        for k in (0, 1, 2, 0):
            if self.plain[k] is None:
                continue
            if name == "flat" and k and not self.same_way(f, gradient, k):
                self.spare("a point whose way a program has not recorded")
                continue
            found = tree.flatten(made(*copied(list(self.points[k]))))[0]
            most += not all(np.all(np.isfinite(y)) for y in found)
            if name != "flat" and any("can't be built" in why for why in made.stats().eager):
                raise RuntimeError(made.stats().eager[-1])
            if name == "flat" and self.careless(found, gradient):
                self.leave("a program for finite numbers")
                continue
            try:
                self.same_outputs(found, gradient, k, name)
            except Differs:
                if not self.trembles(found, f, k):
                    raise
                self.leave("ill conditioned")
            for y in found:  # the caller's from now on
                if isinstance(y, np.ndarray) and y.flags.writeable:
                    y.fill(np.nan)
        if name != "flat":
            stats = made.stats()
            if stats.eager:
                self.leave("run as Python by compile")
            elif stats.traces > most + sum(len(kind.careful) for kind in made._kinds.values()) and not by_bits(made):
                raise Differs(f"{stats.traces} traces for 3 points")

    def through_compiled(self):
        """Compare the gradient of a compiled function, which is one node, with that of the function."""
        made = COMPILE(self.f)
        for k in (0, 1, 0):
            if self.plain[k] is not None and self.shaped(k):
                found = grad(lambda *xs: self.weighted(made(*xs)), self.argnums)(*copied(list(self.points[k])))
                self.same_outputs(tree.flatten(found)[0], True, k, "grad of compile")

    def same_way(self, f, gradient, k):
        """Tell whether the run at another point takes the branches of the first."""
        try:
            interpret(self.program_of(f, gradient), tree.flatten(copied(list(self.points[k])))[0])
        except GuardFailed:
            return False
        except (ValueError, IndexError):  # shapes that depend on values
            return False
        return True

    def trembles(self, found, f, k):
        """Tell whether results are as near as those at points beside: compiled code and batches round otherwise."""
        far = [np.zeros(np.shape(y)) for y in found]
        want = tree.flatten(f(*copied(list(self.points[k]))))[0]
        for _ in range(3):
            beside = self.elsewhere(copied(list(self.points[k])), 1e-13 if self.bytes == 8 else 1e-6)
            moved = tree.flatten(f(*beside))[0]
            if any(np.shape(a) != np.shape(b) for a, b in zip(moved, want, strict=True)):
                return True
            far = [np.fmax(d, np.abs(a - b)) for d, a, b in zip(far, moved, want, strict=True)]
        gaps = [np.abs(np.subtract(a, b)) for a, b in zip(found, want, strict=True)]
        return all(np.all(gap <= 30 * np.max(d, initial=0.0)) for gap, d in zip(gaps, far, strict=True))

    def careless(self, found, gradient):
        """Tell whether a program of derivatives met numbers that are not finite: who runs it takes care of these."""
        derives = gradient or "nested transforms" in self.program.features
        return derives and not all(np.all(np.isfinite(y)) for y in found)

    def gradient(self, k):
        """Return the gradient of an eager run at a point."""
        if k not in self.gradients:
            self.gradients[k] = tree.flatten(grad(self.loss, self.argnums)(*copied(list(self.points[k]))))[0]
        return self.gradients[k]

    def same_outputs(self, found, gradient, k, what):
        """Compare outputs with those of the eager run at a point; up to rounding those of a gradient."""
        want = self.gradient(k) if gradient else self.plain[k]
        close, scale = (CLOSE, 100 * size(want)) if gradient else (SAME, 0.0)
        for j, (a, b) in enumerate(zip(found, want, strict=True)):
            self.equal(a, b, f"{what}, output {j} at point {k}", close, scale=scale)


def by_bits(made):
    """Tell whether a compiled function has paths that hold for the very bits of a computed number: see docs/compile.md.

    A program rounds otherwise than the run that was traced.
    """
    return any(
        guard.how == "value" for kind in made._kinds.values() for path in kind.paths for guard in path.program.guards
    )


def compare(program, random, only=None, kind=Comparison):
    """Compare one program under every mode of a kind of comparison; return (findings, counts of comparisons)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # those of the program itself
        comparison = kind(program, random, only)
        return comparison.run(), comparison.counts
