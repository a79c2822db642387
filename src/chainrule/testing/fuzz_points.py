"""What the comparison of a program stands on: its points, directions and weights; when two results agree.

Two results that should be equal may differ by rounding. How much the program amplifies that is measured where they do,
by a second look at arguments moved by a few last digits. Differences are compared with where they settle.
"""

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.testing.fuzz_writing import copied
from chainrule.testing.numerical import along, one_sided

CLOSE = {8: 1e-10, 4: 2e-3}  # by bytes of the coarsest float: of two ways to the same derivative
SAME = {8: 1e-12, 4: 1e-5}  # of two ways to the same value


class Differs(Exception):
    """Two results that should be equal are not."""


class Case:
    """A program with three points: the one it was written at, one elsewhere, one beside.

    `skipped` tells what was not compared, and why.
    """

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
        self.ws = [self.direction(y) for y in self.plain[0] or ()]
        self.vs = tree.tree_map(self.direction, list(first))

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
        """Return the weighted sum of all results."""
        return self.weighted(self.f(*args))

    def weighted(self, ys):
        """Return the weighted sum of results."""
        total = 0.0
        for w, y in zip(self.ws, ys, strict=True):
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

    def shaped(self, k):
        """Tell whether results have the shapes of those at the first point: masks may change them."""
        return [np.shape(y) for y in self.plain[k]] == [np.shape(y) for y in self.plain[0]]

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
        if (
            not np.all(np.isfinite(a) == np.isfinite(b))
            or np.max(gap, where=np.isfinite(gap), initial=0) > close[self.bytes] * size
        ):
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

    def weights(self):
        """Return the weights in the types of the results at this point."""
        return [as_like(w, y) for w, y in zip(self.ws, self.plain[self.where], strict=True)]

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
        if abs(float(right[0]) - float(left[0])) > 1e-3 * (1 + abs(want)) or abs(float(right[0]) - want) > 1e-2 * (
            1 + abs(want)
        ):
            self.skipped.append(f"a kink: {what}")
            return
        raise Differs(f"{what} along v is {found!r}, differences give {want!r} +- {error:.1g}")


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
