"""The comparison of one program under every mode: plain, forward, reverse, recorded, flat, compiled, differences.

`compare` returns what it found as `Finding`s: each names the mode, and says what was expected and found. Two results
that should be equal may differ by rounding; how much the program amplifies that is measured where they do, by a second
look at arguments moved by a few last digits.
"""

import warnings

import numpy as np

import chainrule as cr
from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.errors import SourceError
from chainrule.program.compiling import compile
from chainrule.program.flat import flat
from chainrule.program.ir import GuardFailed, interpret, verify
from chainrule.program.passes import optimise
from chainrule.testing.fuzz_writing import copied
from chainrule.testing.numerical import along, one_sided

CLOSE = {8: 1e-10, 4: 2e-3}  # by bytes of the coarsest float: of two ways to the same derivative
SAME = {8: 1e-12, 4: 1e-5}  # of two ways to the same value

TRANSFORMS = {"flat": flat, "compile": compile}


class Finding:
    """A difference: of which mode, at which point, and what it is."""

    def __init__(self, mode, point, what):
        self.mode, self.point, self.what = mode, point, what

    def __str__(self):
        return f"{self.mode} at point {self.point}: {self.what}"


class Differs(Exception):
    """Two results that should be equal are not."""


class Comparison:
    """The modes of one program. `skipped` counts what could not be compared, and why."""

    def __init__(self, program, random, only=None):
        self.program, self.only = program, only
        self.f = program.function()
        self.rng = np.random.default_rng(random.randrange(2**32))
        first = program.args
        self.points = [first, self.elsewhere(first, 0.3), self.elsewhere(first, 0.02)]
        self.findings, self.skipped = [], []
        leaves, self.structure = tree.flatten(list(first))
        self.bytes = min(np.asarray(x).dtype.itemsize for x in leaves)
        self.plain = [self.values(p) for p in self.points]
        self.ws = [self.direction(y) for y in self.plain[0]]
        self.vs = [tree.tree_map(self.direction, list(p)) for p in self.points[:1]][0]

    # -- values and directions -----------------------------------------------------------------------------------

    def elsewhere(self, args, size):
        """Return arguments like `args`, with other numbers."""

        def moved(x):
            y = np.asarray(x) + size * self.rng.uniform(-1, 1, np.shape(x))
            return float(y) if isinstance(x, float) else y.astype(np.asarray(x).dtype).reshape(np.shape(x))

        return [tree.tree_map(moved, a) for a in args]

    def direction(self, y):
        """Return random numbers in the type of `y`."""
        v = self.rng.uniform(0.5, 1.5, np.shape(y)) * self.rng.choice([-1.0, 1.0], np.shape(y))
        return as_like(v, y)

    def values(self, args):
        """Return the results of a plain run, or None where one is not finite or the run fails."""
        try:
            ys = [y.copy() if isinstance(y, np.ndarray) else y for y in self.f(*copied(list(args)))]
        except Exception:
            return None
        return ys if all(np.all(np.isfinite(y)) for y in ys) else None

    def loss(self, *args):
        """Return the weighted sum of all results, each made nonlinear."""
        total = 0.0
        for w, y in zip(self.ws, self.f(*args), strict=True):
            if np.shape(y) == np.shape(w):
                total = total + np.sum(w * y)
        return total

    def curved(self, *args):
        """Return a loss that has a second derivative, whatever the program."""
        total = 0.0
        for w, y in zip(self.ws, self.f(*args), strict=True):
            if np.shape(y) == np.shape(w):
                total = total + np.sum(w * np.sin(y))
        return total

    # -- the comparisons -----------------------------------------------------------------------------------------

    def run(self):
        """Compare all modes; return the findings."""
        self.where = 0
        if self.plain[0] is None:
            return self.findings
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for self.where in (0, 1):
                if self.plain[self.where] is None or not self.shaped(self.where):
                    self.skipped.append("other point")
                    continue
                self.mode("forward and reverse", self.forward_and_reverse)
                self.mode("backward()", self.backward)
                self.mode("second order", self.second_order)
                self.mode("differences", self.differences)
                self.mode("vmap", self.batched)
            self.where = 0
            self.mode("jacobian", self.jacobian)
            self.mode("record", lambda: self.recorded(self.f, False))
            self.mode("record of grad", lambda: self.recorded(cr.grad(self.loss, self.argnums), True))
            for name in ("flat", "compile"):
                transform = TRANSFORMS[name]
                self.mode(name, lambda: self.function(transform, name, self.f, False))
                self.mode(f"{name} of grad", lambda: self.function(transform, name, cr.grad(self.loss, self.argnums), True))
        return self.findings

    def shaped(self, k):
        """Tell whether results have the shapes of those at the first point: masks may change them."""
        return [np.shape(y) for y in self.plain[k]] == [np.shape(y) for y in self.plain[0]]

    def mode(self, name, check):
        """Run one comparison; an error is a finding, as the plain run had none."""
        if self.only is not None and name not in self.only:
            return
        self.name = name
        before = [x.copy() if isinstance(x, np.ndarray) else x for x in tree.flatten(self.points)[0]]
        try:
            check()
        except Differs as found:
            self.findings.append(Finding(name, self.where, str(found)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # also what batches stop a run with
            self.findings.append(Finding(name, self.where, f"{type(error).__name__}: {error}"))
        for a, b in zip(before, tree.flatten(self.points)[0], strict=True):
            if not np.array_equal(a, b):
                self.findings.append(Finding(name, self.where, "an argument was changed"))
                return

    @property
    def argnums(self):
        """The positions of all arguments."""
        return tuple(range(len(self.points[0])))

    @property
    def args(self):
        """The arguments at the point at hand."""
        return self.points[self.where]

    def same_values(self, found, what, k=None):
        """Compare results with those of the plain run."""
        for j, (a, b) in enumerate(zip(found, self.plain[self.where if k is None else k], strict=True)):
            self.equal(a, b, f"{what}, result {self.program.results[j]}", SAME)

    def equal(self, a, b, what, close=CLOSE, scale=0.0, dtypes=True):
        """Raise unless two results are equal up to rounding, with one dtype and shape."""
        a, b = plain(a), plain(b)
        if np.shape(a) != np.shape(b):
            raise Differs(f"{what} has shape {np.shape(a)}, not {np.shape(b)}")
        if dtypes and np.asarray(a).dtype != np.asarray(b).dtype:
            raise Differs(f"{what} has dtype {np.asarray(a).dtype}, not {np.asarray(b).dtype}")
        if not np.size(a):
            return
        size = float(np.max(np.abs(b), initial=1.0, where=np.isfinite(b))) + scale
        gap = np.abs(np.asarray(a, float) - np.asarray(b, float))
        if np.all(gap <= close[self.bytes] * size) or np.array_equal(a, b, equal_nan=True):
            return
        if not np.all(np.isfinite(a) == np.isfinite(b)) or np.max(gap, where=np.isfinite(gap), initial=0) > close[self.bytes] * size:
            raise Differs(f"{what} is {np.asarray(a).tolist()}, not {np.asarray(b).tolist()}")

    def close(self, a, b, scale, what, again):
        """Raise unless two numbers agree; where not, `again(args)` gives both at arguments beside, to see the noise."""
        if not (np.isfinite(a) and np.isfinite(b)):
            if np.isfinite(a) != np.isfinite(b):
                self.skipped.append("not finite")
            return
        tolerance = CLOSE[self.bytes] * (1 + abs(a) + abs(b) + scale)
        if abs(a - b) <= tolerance:
            return
        noise = 0.0
        for _ in range(3):
            x, y = again(self.elsewhere(self.args, 1e-12 if self.bytes == 8 else 1e-5))[:2]
            noise = max(noise, abs(x - a), abs(y - b))
        if abs(a - b) > tolerance + 10 * noise:
            raise Differs(f"{what}: {a!r} and {b!r}")
        self.skipped.append("ill conditioned")

    def forward_and_reverse(self):
        """Compare the values of both modes with the plain run, and <w, J v> with <J' w, v>."""
        ws, vs = self.weights(), self.vs

        def both(args):
            y, ydot = cr.jvp(self.f, tuple(args), tuple(vs))
            z, pull = cr.vjp(self.f, *args)
            bars = pull(tuple(ws))
            return dot(ws, ydot), dot(bars, vs), y, z, ydot, bars

        a, b, y, z, ydot, bars = both(self.args)
        self.same_values(y, "forward mode")
        self.same_values(z, "reverse mode")
        for bar, x in zip(tree.flatten(list(bars))[0], tree.flatten(list(self.args))[0], strict=True):
            if np.shape(bar) != np.shape(x) or np.asarray(bar).dtype != np.asarray(x).dtype:
                raise Differs(f"a cotangent is {np.asarray(bar).dtype}{np.shape(bar)}, not {np.asarray(x).dtype}{np.shape(x)}")  # fmt: skip
        for dy, x in zip(ydot, y, strict=True):
            if np.shape(dy) != np.shape(x) or np.asarray(dy).dtype != np.asarray(x).dtype:
                raise Differs(f"a tangent is {np.asarray(dy).dtype}{np.shape(dy)}, not {np.asarray(x).dtype}{np.shape(x)}")  # fmt: skip
        self.close(a, b, size(ws) * size(ydot) + size(bars) * size(vs), "<w, J v> and <J' w, v>", both)

    def weights(self):
        """Return the weights in the types of the results at this point."""
        return [as_like(w, y) for w, y in zip(self.ws, self.plain[self.where], strict=True)]

    def backward(self):
        """Compare the gradients of Variables with those of `grad`."""

        def both(args):
            boxes = tree.tree_map(cr.Variable, copied(list(args)))
            total = self.loss(*tree.tree_map(lambda x: 1.0 * x, boxes))  # leaves may not be written to
            if isinstance(total, cr.Variable):
                total.backward()
            grads = cr.grad(self.loss, self.argnums)(*args)
            return dot([0.0 if x.grad is None else x.grad for x in tree.flatten(boxes)[0]], self.vs), dot(grads, self.vs), grads

        a, b, grads = both(self.args)
        self.close(a, b, size(grads) * size(self.vs), "x.grad and grad, along v", both)

    def second_order(self):
        """Compare the products with the Hessian of all combinations of modes, and with differences of the gradient."""
        us = self.vs
        ws = tree.tree_map(lambda v: as_like(np.cos(3 * np.asarray(v)), v), us)
        gradient = cr.grad(self.curved, self.argnums)

        def three(args):
            over_reverse = cr.jvp(gradient, tuple(args), tuple(us))[1]
            reverse_over = cr.grad(lambda *xs: inner(gradient(*xs), us), self.argnums)(*args)
            over_forward = cr.grad(lambda *xs: cr.jvp(self.curved, xs, tuple(us))[1], self.argnums)(*args)
            return dot(over_reverse, ws), dot(reverse_over, ws), dot(over_forward, ws), over_reverse

        a, b, c, h = three(self.args)
        scale = size(h) * size(ws)
        self.close(a, b, scale, "second order, forward over reverse and reverse over reverse", three)
        self.close(a, c, scale, "second order, forward over reverse and reverse over forward", lambda args: three(args)[::2])  # fmt: skip
        if self.bytes == 8 and self.where == 0:
            self.against_differences(a, lambda *xs: [dot(gradient(*xs), ws)], us, size(h) * size(ws), "second order")

    def differences(self):
        """Compare the gradient with central differences."""
        if self.bytes < 8:
            return
        grads = cr.grad(self.loss, self.argnums)(*self.args)
        self.against_differences(dot(grads, self.vs), lambda *xs: [float(self.loss(*copied(list(xs))))], self.vs,
                                 size(grads) * size(self.vs), "first order")  # fmt: skip

    def against_differences(self, found, f, vs, scale, what):
        """Compare a derivative along `vs` with differences, unless these do not settle: near a kink, or a jump."""
        xs, directions = tree.flatten(list(self.args))[0], tree.flatten(list(vs))[0]
        structure = tree.flatten(list(self.args))[1]

        def flat(*leaves):
            return f(*tree.unflatten(structure, list(leaves)))

        expected = along(flat, xs, directions)
        want, error = float(expected.value[0]), float(expected.error[0])
        limit = 1e-6 * (1 + abs(want) + 0.01 * scale + expected.scale)
        if not np.isfinite(want) or error > limit:
            self.skipped.append(f"differences of {what} do not settle")
            return
        if abs(found - want) <= limit + 10 * error:
            return
        if what == "second order" and not np.isfinite(found):  # at the tip of a cone: docs/policies.md
            self.skipped.append("no second derivative")
            return
        right, left, _ = one_sided(flat, xs, directions)
        if abs(float(right[0]) - float(left[0])) > 1e-3 * (1 + abs(want)) or abs(float(right[0]) - want) > 1e-2 * (1 + abs(want)):
            self.skipped.append(f"a kink: {what}")
            return
        raise Differs(f"{what} along v is {found!r}, differences give {want!r} +- {error:.1g}")

    def batched(self):
        """Compare a batch of points with the points one by one."""
        if self.where or self.plain[2] is None or not self.shaped(2):
            return
        stacked = [tree.unflatten(s, [np.stack([a, b]) for a, b in zip(x, y, strict=True)])
                   for (x, s), (y, _) in zip(map(tree.flatten, self.points[0]), map(tree.flatten, self.points[2]), strict=True)]  # fmt: skip
        found = cr.vmap(self.f)(*stacked)
        for k, point in enumerate((0, 2)):
            for j, (a, b) in enumerate(zip(found, self.plain[point], strict=True)):
                self.equal(a[k], b, f"vmap, result {self.program.results[j]}", SAME, dtypes=False)
        bars = cr.vmap(cr.grad(self.loss, self.argnums))(*stacked)
        for k, point in enumerate((0, 2)):
            single = tree.flatten(list(cr.grad(self.loss, self.argnums)(*self.points[point])))[0]
            for a, b in zip(tree.flatten(list(bars))[0], single, strict=True):
                self.equal(a[k], b, "vmap of grad", dtypes=False, scale=100 * size(single))

    def jacobian(self):
        """Compare w J v of the dense Jacobian with the product."""
        count = sum(np.size(y) for y in self.plain[0])
        if count > 40:
            return
        for mode in ("forward", "reverse"):

            def both(args):
                j = cr.jacobian(lambda *xs: np.concatenate([np.ravel(y) for y in self.f(*xs)]), self.argnums, mode=mode)(*args)  # fmt: skip
                w = np.concatenate([np.ravel(w) for w in self.ws])
                total = 0.0
                for block, v in zip(tree.flatten(list(j))[0], tree.flatten(list(self.vs))[0], strict=True):
                    total += float(w @ np.asarray(block, float).reshape(len(w), -1) @ np.ravel(v))
                ydot = cr.jvp(self.f, tuple(args), tuple(self.vs))[1]
                return total, dot(self.ws, ydot), ydot

            a, b, ydot = both(self.args)
            self.close(a, b, size(self.ws) * size(ydot), f"w J v by columns or rows ({mode}) and by jvp", both)

    # -- programs ------------------------------------------------------------------------------------------------

    def recorded(self, f, gradient):
        """Compare the interpreted record with eager runs, also at points other than the recorded one."""
        program = verify(cr.record(f)(*copied(list(self.points[0]))))
        shorter = verify(optimise(program))
        for k in (0, 1, 2):
            if self.plain[k] is None:
                continue
            for made, what in ((program, "the interpreted program"), (shorter, "the optimised program")):
                try:
                    found = interpret(made, tree.flatten(copied(list(self.points[k])))[0])
                except GuardFailed:
                    if k == 0:
                        raise
                    continue
                if gradient and not all(np.all(np.isfinite(y)) for y in found):
                    self.skipped.append("a program for finite numbers")  # whoever runs it takes care: see `ordinary`
                    continue
                self.same_outputs(found, f, gradient, k, what)

    def function(self, transform, name, f, gradient):
        """Compare what `flat` or `compile` gives with eager runs, at the traced point, elsewhere, and there again."""
        if name == "flat":
            try:
                made = transform(f)(*copied(list(self.points[0]))).function
            except SourceError:  # of functions that have no name in NumPy
                self.skipped.append("no source")
                return
        else:
            made = transform(f)
        for k in (0, 1, 2, 0):
            if self.plain[k] is None or (name == "flat" and k and not self.same_way(f, k)):
                continue
            found = made(*copied(list(self.points[k])))
            self.same_outputs(tree.flatten(found)[0], f, gradient, k, name)

    def same_way(self, f, k):
        """Tell whether the run at another point takes the branches of the first."""
        program = cr.record(f)(*copied(list(self.points[0])))
        try:
            interpret(program, tree.flatten(copied(list(self.points[k])))[0])
        except GuardFailed:
            return False
        except (ValueError, IndexError):  # shapes that depend on values
            return False
        return True

    def same_outputs(self, found, f, gradient, k, what):
        """Compare outputs with those of the eager run at a point."""
        if gradient:
            want = tree.flatten(f(*copied(list(self.points[k]))))[0]
        else:
            want = self.plain[k]
        for j, (a, b) in enumerate(zip(found, want, strict=True)):
            self.equal(a, b, f"{what}, output {j} at point {k}", CLOSE if gradient else SAME, scale=100 * size(want) if gradient else 0.0)


def plain(x):
    """Return the plain value of a result."""
    return value(x)


def as_like(w, y):
    """Return weights in the type of a result."""
    if not hasattr(y, "dtype"):
        return float(w)
    w = np.asarray(w).astype(y.dtype)
    return w if isinstance(y, np.ndarray) else w[()]


def leaves_of(x):
    """Return all values of nested containers."""
    return tree.flatten(list(x))[0]


def dot(a, b):
    """Return ``sum a_i b_i`` over containers, in double precision."""
    total = 0.0
    for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
        if np.size(x) == np.size(y):
            total += float(np.sum(np.asarray(x, float) * np.asarray(y, float)))
    return total


def inner(a, b):
    """Return the same of traced values."""
    total = 0.0
    for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
        total = total + np.sum(x * y)
    return total


def size(a):
    """Return the length of all values together."""
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(x, float))) for x in leaves_of(a))))


def compare(program, random, only=None):
    """Compare one program under every mode; return (findings, what was skipped)."""
    comparison = Comparison(program, random, only)
    return comparison.run(), comparison.skipped
