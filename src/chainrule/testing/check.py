"""`check_grads`: compare a function's exact derivatives with central differences, in every mode and order.

An order is checked at a time. For the first, the Jacobian's products are compared with differences of the function. For
the second, the function is replaced by its own derivative, a function of the point *and* of the direction it is taken
along (`forward`: jvp, `reverse`: vjp), and the same is done again: so the four combinations of two modes are four
functions checked by the same lines, and a rule's formula is differentiated in everything it is made of.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.errors import GradientCheckError, NotDifferentiableError, message
from chainrule.testing.numerical import along, epsilon, largest, one_sided
from chainrule.transforms import jvp, vjp
from chainrule.transforms.common import need_function

MODES = ("forward", "reverse")
ENTRIES = 64  # up to so many entries each is checked by itself
DIRECTIONS = 6  # for more, that many directions, each with a share of all entries


def check_grads(
    f: Callable,
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = MODES,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Compare the derivatives of `f` at `args` with central differences, and raise where they differ.

    Every combination of modes up to the order is checked ("reverse over forward" is the reverse-mode derivative of the
    forward-mode one), as are the adjoint identity ``<w, J v> = <J^T w, v>``, the shapes and dtypes of all derivatives,
    and that the value is that of a plain run.

    Parameters
    ----------
    f : callable
        Takes arrays, or containers of arrays, and returns an array or a container of arrays.
    args : sequence
        Where to check: one entry for each argument. Floats, complex numbers and arrays of these are differentiated in;
        ints, arrays of ints, strings, None are handed on as they are.
    order : int
        The highest order of derivatives to check.
    modes : sequence of {"forward", "reverse"}
        The modes to combine.
    rtol, atol : float, optional
        The tolerances. The defaults follow the coarsest dtype at hand: about 5e-7 for float64, 2e-3 for float32; and
        what differences can resolve.

    Raises
    ------
    GradientCheckError
        If a derivative differs: says in which mode, for which entry of which argument, what was expected and found, and
        whether the point looks like a kink.
    NotDifferentiableError
        If there is nothing to check: no float among `args`, or among the results.

    Notes
    -----
    Up to 64 entries each is checked by itself; more are checked along a few random directions, and searched one by one
    only where these differ. Each costs 6 runs of `f` and, for the second order, 6 of its derivative.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.check_grads(lambda x, n: np.sin(x) ** n, (np.array([0.3, 1.2]), 3))
    >>> wrong = lambda x: x * cr.stop_gradient(x)
    >>> cr.check_grads(wrong, (2.0,), order=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chainrule.errors.GradientCheckError: forward mode: the derivative of output 0 in argument 0 is 2, differences gi...
    """
    need_function(f, "check_grads(f, (x,))")
    if order < 1:
        raise ValueError(f"order must be 1 or more, not {order!r}")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"modes are {' and '.join(map(repr, MODES))}, not {mode!r}")
    if not modes:
        raise ValueError("no modes were given, so there is nothing to check")
    if not isinstance(args, tuple | list):
        raise TypeError("check_grads(f, args): args must be a tuple, one entry for each argument of f, e.g. (x,)")
    problem = flat_problem(f, tuple(args))
    for k in range(1, order + 1):
        for combination in itertools.product(modes, repeat=k):
            check_combination(problem, combination, rtol, atol, adjoint=set(modes) == set(MODES))


class Problem:
    """A function of a list of values, where to check it, and what its inputs and outputs are called."""

    __slots__ = ("f", "inputs", "outputs", "title", "xs", "ys")

    def __init__(self, f, xs, inputs, outputs, title):
        self.f, self.xs, self.inputs, self.outputs, self.title = f, xs, inputs, outputs, title
        self.ys = f(*map(fresh, xs))


def fresh(x):
    """Return a copy of an array, for a function that may write into its arguments."""
    return x.copy() if isinstance(x, np.ndarray) else x


def inexact(x):
    """Tell whether a value is a float or complex number or array."""
    x = value(x)
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    return kind in ("f", "c") if kind else isinstance(x, float | complex)


def flat_problem(f, args):
    """Turn a function of containers into one of a list of values, leaving out all that is no float."""
    leaves, structure = tree.flatten(args)
    chosen = [k for k, x in enumerate(leaves) if inexact(x)]
    if not chosen:
        raise NotDifferentiableError(
            "check_grads: there is no float among the arguments, so there is nothing to check.",
            "give floats, or arrays of floats:  check_grads(f, (3.0,)).",
        )

    def outputs(*xs):
        full = list(leaves)
        for k, x in zip(chosen, xs, strict=True):
            full[k] = x
        return f(*tree.unflatten(structure, [fresh(x) for x in full]))

    def flat(*xs):
        return tuple([y for y in tree.flatten(outputs(*xs))[0] if inexact(y)])

    names = [f"argument {p[1:].replace(']', '', 1)}" for p in tree.paths(args)]
    out = outputs(*[leaves[k] for k in chosen])
    results = [y for y in zip(tree.flatten(out)[0], tree.paths(out), strict=True) if inexact(y[0])]
    if not results:
        raise NotDifferentiableError(
            "check_grads: the function returns no float, so there is nothing to check.",
            "return a float, an array of floats, or a container of these.",
        )
    titles = [f"output {path}" if path else f"output {k}" for k, (_, path) in enumerate(results)]
    return Problem(flat, [leaves[k] for k in chosen], [names[k] for k in chosen], titles, "")


# -- one combination of modes ----------------------------------------------------------------------------------


def check_combination(
    problem, modes, rtol=None, atol=None, entries=ENTRIES, directions=DIRECTIONS, adjoint=True, tolerate=1.0
):
    """Check the derivatives of one combination: ``("reverse", "forward")`` is reverse over forward mode.

    The last mode is applied first. What it gives is checked before, as a combination of its own. With `adjoint` the
    outermost forward mode is also checked to be the adjoint of reverse mode there. `tolerate` widens the tolerance.
    """
    rng = np.random.default_rng(0)
    for mode in reversed(modes[1:]):
        problem = derived(problem, mode, rng)
    comparison = Comparison(problem, modes, rtol, atol, entries, directions, rng)
    comparison.rtol *= tolerate
    comparison.run()
    if adjoint and modes[0] == "forward":
        comparison.adjoint()


def derived(problem, mode, rng):
    """Return the problem of checking the derivative of another: a function of its inputs and of directions."""
    n, f = len(problem.xs), problem.f
    if mode == "forward":
        more = [direction(x, rng) for x in problem.xs]
        named = [f"tangent of {name}" for name in problem.inputs]
        outputs = [f"tangent of {name}" for name in problem.outputs]

        def g(*zs):
            return jvp(f, tuple(zs[:n]), tuple(zs[n:]))[1]

    else:
        more = [direction(y, rng) for y in problem.ys]
        named = [f"cotangent of {name}" for name in problem.outputs]
        outputs = [f"cotangent of {name}" for name in problem.inputs]

        def g(*zs):
            return vjp(f, *zs[:n])[1](tuple(zs[n:]))

    return Problem(g, problem.xs + more, problem.inputs + named, outputs, mode)


def direction(x, rng):
    """Return a random value like `x`, no entry of which is near zero."""
    shape = np.shape(x)

    def numbers():
        return rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)

    v = numbers()
    if np.asarray(x).dtype.kind == "c":
        v = v + 1j * numbers()
    return like(v, x)


def like(v, x):
    """Return `v` in the type of `x`."""
    if isinstance(x, np.ndarray):
        return np.asarray(v).astype(x.dtype)
    dtype = getattr(x, "dtype", None)
    return complex(v) if isinstance(x, complex) and dtype is None else float(v) if dtype is None else dtype.type(v)


def dot(a, b):
    """Return the real part of ``sum a_i b_i`` over lists of arrays: the pairing of cotangents and tangents."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += np.sum(np.asarray(x, dtype=wider(x)) * np.asarray(y, dtype=wider(y))).real
    return float(total)


def wider(x):
    """Return the dtype in which sums of `x` lose nothing: double precision or more."""
    return np.result_type(np.asarray(x).dtype, np.float64)


class Comparison:
    """The comparison of one mode, the outermost of `modes`, with differences of the function it is applied to."""

    def __init__(self, problem, modes, rtol, atol, entries, directions, rng):
        self.problem, self.modes, self.rng = problem, modes, rng
        self.mode, self.title = modes[0], " over ".join(modes) + " mode"
        self.entries, self.directions = entries, directions
        xs, ys = problem.xs, problem.ys
        self.eps = max(epsilon(xs), epsilon(ys))
        self.rtol = self.eps**0.4 if rtol is None else rtol
        self.atol = atol

    def run(self):
        """Compare; raise `GradientCheckError` at the first difference."""
        p = self.problem
        self.ws = [direction(y, self.rng) for y in p.ys]
        if self.mode == "reverse":
            y, self.pull = vjp(p.f, *p.xs)
            self.bars = self.pull(tuple(self.ws))
            self.same_kind(self.bars, p.xs, p.inputs, "the cotangent")
        else:
            self.vs = [direction(x, self.rng) for x in p.xs]
            y, self.dots = jvp(p.f, tuple(p.xs), tuple(self.vs))
            self.same_kind(self.dots, p.ys, p.outputs, "the tangent")
        self.same_value(y)
        count = sum(np.size(x) * (2 if np.asarray(x).dtype.kind == "c" else 1) for x in p.xs)
        if count <= self.entries:
            for unit, name in self.units():
                self.compare(unit, name)
        else:
            for _ in range(self.directions):
                self.compare([direction(x, self.rng) for x in p.xs], None)

    def units(self):
        """Yield each real direction along one entry, with the entry's name."""
        xs = self.problem.xs
        for k, x in enumerate(xs):
            for index in np.ndindex(np.shape(x)):
                for unit, part in ((1.0, ""), (1j, ", imaginary part")):
                    if part and np.asarray(x).dtype.kind != "c":
                        continue
                    v = np.zeros(np.shape(x), np.asarray(x).dtype)
                    v[index] = unit
                    vs = [like(np.zeros(np.shape(z)), z) for z in xs]
                    vs[k] = like(v, x)
                    where = f"[{', '.join(map(str, index))}]" if index else ""
                    yield vs, f"{self.problem.inputs[k]}{where}{part}"

    def compare(self, vs, name):
        """Compare the derivative along `vs`, which is the entry called `name`, or None for many entries at once."""
        p = self.problem
        expected = along(p.f, p.xs, vs)
        if self.mode == "forward":
            found = jvp(p.f, tuple(p.xs), tuple(vs))[1]
            size = max(map(largest, expected.value), default=0.0)
            for k, (a, b, error) in enumerate(zip(found, expected.value, expected.error, strict=True)):
                wrong = ~self.near(np.asarray(a), b, error, size, expected.scale)
                if np.any(wrong):
                    at = tuple(int(i) for i in np.argwhere(wrong)[0])
                    self.fail(vs, name, p.outputs[k], k, at, np.asarray(a)[at], b[at])
        else:
            found = dot(self.bars, vs)
            value_ = dot(self.ws, expected.value)
            error = dot([np.abs(w) for w in self.ws], expected.error)
            size = max([abs(value_)] + [largest(w) * largest(b) for w, b in zip(self.ws, expected.value, strict=True)])
            if not self.near(found, value_, error, size, expected.scale):
                self.fail_reverse(vs, name, expected, found, value_)

    def near(self, found, expected, error, size, scale):
        """Tell whether derivatives agree as well as differences can tell."""
        with np.errstate(all="ignore"):
            gap = np.abs(found - expected)
            if self.atol is not None:
                return gap <= self.atol + self.rtol * np.abs(expected)
            cap = 0.05 * np.maximum(np.abs(expected), np.abs(found)) + self.eps**0.5 * scale + self.eps**0.75
            return gap <= self.rtol * (np.abs(expected) + size) + np.minimum(4 * error, cap)

    def fail(self, vs, name, output, k, at, found, expected):
        """Raise, naming the entry; of a direction with many entries, find one that differs by itself."""
        if name is None:
            for unit, its_name in itertools.islice(self.units(), 4096):
                self.compare(unit, its_name)
            name = "a direction of many entries (no entry differs by itself)"
        where = f"[{', '.join(map(str, at))}]" if at else ""
        what = (
            f"{self.title}: the derivative of {output}{where} in {name} is {found:.10g}, "
            f"differences give {expected:.10g}."
        )
        advice = (
            "the rule of one of the functions used, or a derivative given by hand, is wrong; check them one by one."
        )
        p = self.problem
        right, left, kinks = one_sided(p.f, p.xs, vs)
        bad = [np.any(kink[at] if k is not None else kink) for kink in (kinks if k is None else [kinks[k]])]
        if any(bad):
            r, s = (dot(self.ws, right), dot(self.ws, left)) if k is None else (right[k][at], left[k][at])
            what += (
                f"\n  the point looks like a kink: the one-sided differences are {r:.6g} (right) and {s:.6g} (left)."
            )
            advice = "check at a point beside the kink; which derivative is taken at it is a choice."
        elif max(np.abs(found), np.abs(expected)) < self.eps**0.75:
            advice = "both may be rounding errors of zero, as at a minimum: check at another point, or give atol=1e-9."
        raise GradientCheckError(message(what, advice))

    def fail_reverse(self, vs, name, expected, found, weighted):
        """Find the entry of the outputs whose cotangent comes back wrong, and raise."""
        p = self.problem
        if name is not None:
            for k, y in enumerate(p.ys):
                for index in itertools.islice(np.ndindex(np.shape(y)), 256):
                    w = np.zeros(np.shape(y), np.asarray(y).dtype)
                    w[index] = 1
                    ws = [like(np.zeros(np.shape(z)), z) for z in p.ys]
                    ws[k] = like(w, y)
                    one = dot(self.pull(tuple(ws)), vs)
                    b, error = expected.value[k][index].real, expected.error[k][index]
                    if not self.near(one, b, error, largest(expected.value[k]), expected.scale):
                        self.fail(vs, name, p.outputs[k], k, index, one, b)
        self.fail(vs, name, "the outputs (weighted)", None, (), found, weighted)

    def adjoint(self):
        """Check ``<w, J v> = <J^T w, v>``, which holds up to rounding: no step size is involved."""
        p = self.problem
        bars = vjp(p.f, *p.xs)[1](tuple(self.ws))
        left, right = dot(self.ws, self.dots), dot(bars, self.vs)
        size = dot([np.abs(w) for w in self.ws], [np.abs(d) for d in self.dots])
        size += dot([np.abs(b) for b in bars], [np.abs(v) for v in self.vs])
        if not abs(left - right) <= max(self.eps**0.75, self.rtol * 1e-3) * size:
            raise GradientCheckError(
                message(
                    f"{self.title} and its reverse counterpart are not adjoint: <w, J v> is {left:.10g}, "
                    f"<J^T w, v> is {right:.10g}.",
                    "one of the two is wrong: check each alone, with modes=('forward',) and modes=('reverse',).",
                )
            )

    def same_kind(self, found, values, names, what):
        """Check that derivatives have the shape and dtype of the values they belong to."""
        for d, x, name in zip(found, values, names, strict=True):
            dtype = getattr(x, "dtype", None)
            if np.shape(d) != np.shape(x) or (dtype is not None and getattr(d, "dtype", None) != dtype):
                raise GradientCheckError(
                    message(
                        f"{self.title}: {what} of {name} has shape {np.shape(d)} and dtype {np.asarray(d).dtype}, "
                        f"the value has shape {np.shape(x)} and dtype {np.asarray(x).dtype}.",
                        "the rule of one of the functions used gives a derivative of another shape or dtype.",
                    )
                )

    def same_value(self, ys):
        """Check that differentiating leaves the value as it is."""
        p = self.problem
        for y, plain, name in zip(ys, p.ys, p.outputs, strict=True):
            np_y, np_plain = np.asarray(y), np.asarray(plain)
            if np_y.dtype == np_plain.dtype and np_y.shape == np_plain.shape:
                size = largest(np_plain)
                with np.errstate(all="ignore"):
                    gap = largest(np_y - np_plain)
                if gap <= 64 * self.eps * size and (np.isnan(np_y) == np.isnan(np_plain)).all():
                    continue
            raise GradientCheckError(
                message(
                    f"{self.title}: {name} is {y!r} while it is differentiated, and {plain!r} in a plain run.",
                    "the function does something else with traced values: look for tests of types.",
                )
            )
