"""What the comparison of a program stands on: its points, directions and weights; when two results agree.

Two results that should be equal may differ by rounding. How much the program amplifies that is measured where they do,
by a second look at arguments moved by a few last digits. Differences are compared with where they settle. What is not
compared is counted, by its reason: `Counts`.
"""

import collections
import contextlib

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import all_values, value
from chainrule.testing.fuzz_writing import copied
from chainrule.testing.numerical import along, one_sided

CLOSE = {8: 1e-10, 4: 2e-3}  # by bytes of the coarsest float: of two ways to the same derivative
SAME = {8: 1e-12, 4: 1e-5}  # of two ways to the same value


LIMIT = 0.03  # the share of comparisons that may be left out for one reason that is no property of the program


class Differs(Exception):
    """Two results that should be equal are not."""


class Stops(Exception):
    """The plain program itself fails at a point beside, where a mask or a domain changes."""


class Counts:
    """How many comparisons were made, and how many left out and why.

    `apart` are those that a program has no use for: of single precision with differences, of a way that a record has
    not taken. `left` are those that could not be decided; a run with many of one kind is not to be trusted. `reached`
    tells how many compiled programs reach a part of the machine code's back end.
    """

    def __init__(self):
        self.made, self.apart, self.left = 0, collections.Counter(), collections.Counter()
        self.reached = collections.Counter()

    def add(self, other):
        """Add the counts of another."""
        self.made += other.made
        self.apart.update(other.apart)
        self.left.update(other.left)
        self.reached.update(other.reached)

    def excess(self, limit=LIMIT):
        """Return the reasons for which more than a share of all comparisons was left out."""
        total = self.made + sum(self.left.values())
        return [why for why, n in self.left.items() if n > limit * max(total, 1)]

    def __str__(self):
        lines = [f"{self.made} comparisons"]
        for title, counter in (("left out", self.left), ("not to be made", self.apart)):
            lines += [f"  {n:6} {title}: {why}" for why, n in counter.most_common()]
        lines += [f"  {n:6} compiled: {what}" for what, n in self.reached.most_common()]
        return "\n".join(lines)


class Case:
    """A program with three points: the one it was written at, one elsewhere, one beside.

    `counts` tells what was compared, and what was not and why.
    """

    def __init__(self, program, random, only=None):
        self.program, self.only = program, only
        self.f = program.function()
        self.rng = np.random.default_rng(random.randrange(2**32))
        first = program.args
        self.points = [first, self.elsewhere(first, 0.3), self.elsewhere(first, 0.02)]
        self.findings, self.counts = [], Counts()
        leaves, self.structure = tree.flatten(list(first))
        self.bytes = min(np.asarray(x).dtype.itemsize for x in leaves)
        self.plain = [self.values(p) for p in self.points]
        self.ws = [self.direction(y) for y in self.plain[0] or ()]
        self.vs = tree.tree_map(self.direction, list(first))
        self.weighted, self.loss, self.curved = losses(self.f, self.ws)

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
        """Return the results of a plain run, or None where one is not finite and real, or the run fails.

        (Functions of `numpy.emath` give complex numbers at some points.)
        """
        try:
            ys = [y.copy() if isinstance(y, np.ndarray) else y for y in self.f(*copied(list(args)))]
        except Exception:
            return None
        return ys if all(np.all(np.isfinite(y)) and not np.iscomplexobj(y) for y in ys) else None

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

    # -- what agrees ---------------------------------------------------------------------------------------------

    def leave(self, why):
        """Count a comparison that was not decided."""
        self.counts.left[why] += 1

    def spare(self, why):
        """Count a comparison that this program has no use for."""
        self.counts.apart[why] += 1

    def equal(self, a, b, what, close=CLOSE, scale=0.0, dtypes=True):
        """Raise unless two results are equal up to rounding, with one dtype and shape."""
        self.counts.made += 1
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
        if not (np.isfinite(a) or np.isfinite(b)):
            self.leave("not finite in either mode")
            return
        tolerance = CLOSE[self.bytes] * (1 + abs(a) + abs(b) + scale)
        if np.isfinite(a) and np.isfinite(b) and abs(a - b) <= tolerance:
            self.counts.made += 1
            return
        if not (np.isfinite(a) and np.isfinite(b)):
            if self.at_a_tip():
                self.leave("the tip of a cone")
                return
            raise Differs(f"{what}: {a!r} and {b!r}")
        if abs(a - b) > tolerance + 10 * self.noise((a, b), again):
            raise Differs(f"{what}: {a!r} and {b!r}")
        self.leave("ill conditioned")

    def noise(self, found, again):
        """Return how much results differ at arguments moved by a few last digits."""
        most = 0.0
        for _ in range(3):
            moved = again(self.elsewhere(self.args, 1e-12 if self.bytes == 8 else 1e-5))
            most = max(most, *(abs(x - y) for x, y in zip(moved, found, strict=False)))
        return most

    def weights(self):
        """Return the weights in the types of the results at this point."""
        return [as_like(w, y) for w, y in zip(self.ws, self.plain[self.where], strict=True)]

    def against_differences(self, derivative, f, scale, what):
        """Compare a derivative along `vs` with differences, unless these do not settle: near a kink, or a jump.

        ``derivative(args)`` and ``f(args)`` give the derivative and the function at any arguments.
        """
        try:
            self.compare_differences(derivative, f, scale, what)
        except Stops:
            self.leave("the program fails at a point beside")

    def compare_differences(self, derivative, f, scale, what):
        """Do so; raise `Stops` if the program fails at a point that differences need."""
        xs, structure = tree.flatten(list(self.args))
        directions = tree.flatten(list(self.vs))[0]
        found = derivative(self.args)

        def flat(*leaves):
            args = tree.unflatten(structure, list(leaves))
            try:
                return [f(args)]
            except Exception as error:
                if self.fails(args):
                    raise Stops from error
                raise

        expected = along(flat, xs, directions)
        want, error = float(expected.value[0]), float(expected.error[0])
        limit = 1e-6 * (1 + abs(want) + 0.01 * scale + expected.scale)
        if not np.isfinite(want) or error > limit:
            self.leave(f"differences of {what} do not settle")
            return
        if abs(found - want) <= limit + 10 * error:
            self.counts.made += 1
            return
        right, left = (float(side[0]) for side in one_sided(flat, xs, directions)[:2])
        if not np.isfinite(found) and self.at_a_tip():
            self.leave("the tip of a cone")
        elif abs(right - left) > 1e-3 * (1 + abs(want)) or abs(right - want) > 1e-2 * (1 + abs(want)):
            self.leave(f"a kink: {what}")
        elif np.isfinite(found) and 10 * self.noise((found,), lambda args: (derivative(args),)) > abs(found - want):
            self.leave("ill conditioned")
        else:
            raise Differs(f"{what} along v is {found!r}, differences give {want!r} +- {error:.1g}")

    def fails(self, args):
        """Tell whether the plain program fails, or gives complex numbers."""
        try:
            return any(map(np.iscomplexobj, self.f(*copied(list(args)))))
        except Exception:
            return True

    def at_a_tip(self):
        """Tell whether the program meets the tip of a cone, or an infinite slope, which give NaN: docs/policies.md."""
        seen = []
        with contextlib.ExitStack() as stack:
            for owner, name, least in CONES:

                def look(y, least=least):
                    seen.append(np.any(abs(abs(all_values(y)) - least) < 1e-12))

                stack.enter_context(watched(owner, name, look))
            self.f(*copied(list(self.args)))
        return any(seen)


CONES = [  # functions, and the size that their results have where the slope is infinite or undefined
    (np, "std", 0), (np, "hypot", 0), (np.linalg, "norm", 0), (np, "sqrt", 0), (np.lib.scimath, "sqrt", 0),
    (np, "arccos", 0), (np.lib.scimath, "arccos", 0), (np, "arccosh", 0), (np, "arcsin", np.pi / 2),
    (np.lib.scimath, "arcsin", np.pi / 2),
]  # fmt: skip


@contextlib.contextmanager
def watched(owner, name, look):
    """Show all results of a function of NumPy to another, for a while."""
    right = getattr(owner, name)

    def looked_at(*args, **kwargs):
        y = right(*args, **kwargs)
        look(y)
        return y

    setattr(owner, name, looked_at)
    try:
        yield
    finally:
        setattr(owner, name, right)


def losses(f, ws):
    """Return the weighted sum of results, that of all results of `f`, and one with a second derivative in any case.

    They are functions of their own: a compiled function is traced anew where an object that it reads has changed.
    """

    def weighted(ys):
        total = 0.0
        for w, y in zip(ws, ys, strict=True):
            if np.shape(y) == np.shape(w):
                total = total + np.sum(w * y)
        return total

    def loss(*args):
        return weighted(f(*args))

    def curved(*args):
        total = 0.0
        for w, y in zip(ws, f(*args), strict=True):
            if np.shape(y) == np.shape(w):
                total = total + np.sum(w * np.sin(y))
        return total

    return weighted, loss, curved


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
