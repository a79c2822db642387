"""Every transform of every transform, against derivatives written out by hand; and the table of them in the docs.

All cells are about one function, ``F_i(x) = sin(x_i) + x_i^4 / 24 + c_i exp(a . x)``, whose derivatives have closed
forms to any order. A column is a function of x made of F by one transform, with its value and its first and second
derivatives known; a row is a transform of that function.
"""

import functools
from math import factorial
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.batched import noted_loops
from chainrule.engine.rule import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "transforms.md"
N = 3
a = np.array([0.3, -0.2, 0.5])
c = np.array([1.0, -0.5, 2.0])
x0 = np.array([0.4, -1.1, 0.7])
X = np.stack([x0, x0[::-1] * 1.3])
v = np.array([0.6, 1.0, -0.8])
w = np.array([-0.7, 0.2, 1.1])


def closed(x, k):
    """Return the derivatives of F of order `k`: entry ``i, j1, ..., jk`` is ``d^k F_i / dx_j1 ... dx_jk``."""
    own = np.sin(x + k * np.pi / 2) + (x ** (4 - k) / factorial(4 - k) if k <= 4 else 0)
    out = np.multiply.outer(c, functools.reduce(np.multiply.outer, [a] * k, np.exp(a @ x)))
    for i in range(N):
        out[(i,) * (k + 1)] += own[i]
    return out


def phi(x):
    return np.sin(x) + x**4 / 24


def F(x):
    return phi(x) + c * np.exp(a @ x)


def f(x):
    return np.sum(F(x))


@pytest.mark.parametrize("k", range(5))
def test_the_closed_forms(k):
    """By central differences of the order below; that of order 0 by the code."""
    if k == 0:
        return np.testing.assert_allclose(closed(x0, 0), F(x0), rtol=1e-15)
    columns = [(closed(x0 + h, k - 1) - closed(x0 - h, k - 1)) / 2e-5 for h in 1e-5 * np.eye(N)]
    np.testing.assert_allclose(closed(x0, k), np.stack(columns, axis=-1), rtol=1e-8, atol=1e-8)


# -- columns: (function of x, its derivatives of order k at x) -------------------------------------------------------


def by_vmap(x):
    return cr.vmap(lambda xi, ci: phi(xi) + ci * np.exp(a @ x))(x, c)


def by_scan(x):
    last, ys = cr.scan(lambda p, xa: (p * np.exp(xa[0] * xa[1]), phi(xa[0])), 1.0, (x, a))
    return ys + c * last


def slope(x):
    """Return the diagonal part of F' and the factor of its rest, ``a_j c_i exp(a . x)``."""
    return np.cos(x) + x**3 / 6, np.exp(a @ x)


def pulled(ybar, x):
    diagonal, factor = slope(x)
    return ybar * diagonal + a * (factor * np.sum(c * ybar))


def pushed(xdot, x):
    diagonal, factor = slope(x)
    return xdot * diagonal + c * (factor * np.sum(a * xdot))


by_custom_vjp = cr.custom_vjp(F)
by_custom_vjp.defvjp(lambda ybar, y, x: pulled(ybar, x))
by_custom_jvp = cr.custom_jvp(F)
by_custom_jvp.defjvp(lambda xdots, y, x: pushed(xdots[0], x))


class ByFunction(cr.Function):
    def forward(self, x):
        return F(x)

    def backward(self, ybar):
        return pulled(ybar, self.input.data)


def plain_F(x):
    """Take plain arrays only, as compiled code does."""
    assert type(x) is np.ndarray
    return F(x)


known = set(RULES)
by_extend = cr.extend.rule(plain_F, vjp=lambda ybar, y, x: pulled(ybar, x))
ADDED = {fun: RULES.pop(fun) for fun in set(RULES) - known}  # tests that walk the registry see NumPy's


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Put the rule back while these tests run."""
    RULES.update(ADDED)
    yield
    for fun in ADDED:
        del RULES[fun]


by_numeric = cr.numeric(plain_F)


def with_value(transform):
    """Return the sum of both results of a transform: value and derivative."""
    return lambda x: np.add(*transform(x))


def of_linear(parts):
    y, linear = parts
    return y, linear(v)


def of_pullback(parts):
    y, pullback = parts
    return y, pullback(w)[0]


of_F = closed
of_grad = lambda x, k: closed(x, k + 1).sum(0)
of_jacobian = lambda x, k: closed(x, k + 1)
of_hessian = lambda x, k: closed(x, k + 2).sum(0)
of_jvp = lambda x, k: closed(x, k) + np.tensordot(closed(x, k + 1), v, (1, 0))
of_vjp = lambda x, k: closed(x, k) + np.tensordot(w, closed(x, k + 1), (0, 0))
of_hvp = lambda x, k: np.tensordot(closed(x, k + 2).sum(0), v, (0, 0))

INNER = {
    "vmap": (by_vmap, of_F),
    "grad": (cr.grad(f), of_grad),
    "jvp": (with_value(lambda x: cr.jvp(F, (x,), (v,))), of_jvp),
    "vjp": (with_value(lambda x: of_pullback(cr.vjp(F, x))), of_vjp),
    "jacobian, forward": (cr.jacobian(F, mode="forward"), of_jacobian),
    "jacobian, reverse": (cr.jacobian(F, mode="reverse"), of_jacobian),
    "hessian": (cr.hessian(f), of_hessian),
    "hvp": (lambda x: cr.hvp(f, x, v), of_hvp),
    "linearize": (with_value(lambda x: of_linear(cr.linearize(F, x))), of_jvp),
    "checkpoint": (cr.checkpoint(F), of_F),
    "scan": (by_scan, of_F),
    "custom_vjp": (by_custom_vjp, of_F),
    "custom_jvp": (by_custom_jvp, of_F),
    "Function": (ByFunction(), of_F),
    "extend.rule": (by_extend, of_F),
    "numeric": (by_numeric, of_F),
}


# -- rows: what a transform gives of h, with the order of derivatives it takes and what it should be -------------------


def weights(shape):
    return np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)


def summed(h):
    """Return the weighted sum of all results of h."""

    def s(x):
        y = h(x)
        return np.sum(y * weights(y.shape))

    return s


def of_sum(d, x, k):
    """Return the derivatives of order `k` of the weighted sum."""
    t = d(x, k)
    lead = t.ndim - k
    return np.tensordot(weights(t.shape[:lead]), t, lead)


def vmapped(h, d):
    return [
        (cr.vmap(h)(X), np.stack([d(x, 0) for x in X])),
        (cr.vmap(h, 1, -1)(X.T), np.stack([d(x, 0) for x in X], -1)),
    ]


def jvped(h, d):
    y, ydot = cr.jvp(h, (x0,), (w,))
    return [(y, d(x0, 0)), (ydot, d(x0, 1) @ w)]


def vjped(h, d):
    y, pullback = cr.vjp(h, x0)
    u = weights(y.shape)
    return [(y, d(x0, 0)), (pullback(u)[0], of_sum(d, x0, 1)), (pullback(2 * u)[0], 2 * of_sum(d, x0, 1))]


def linearized(h, d):
    y, linear = cr.linearize(h, x0)
    return [(y, d(x0, 0)), (linear(w), d(x0, 1) @ w), (linear(v), d(x0, 1) @ v)]


def checkpointed(h, d):
    g = cr.checkpoint(h)
    return [
        (g(x0), d(x0, 0)),
        (cr.grad(summed(g))(x0), of_sum(d, x0, 1)),
        (cr.jvp(g, (x0,), (w,))[1], d(x0, 1) @ w),
    ]


def scanned(h, d):
    s = summed(h)
    run = lambda rows: cr.scan(lambda total, x: (total + s(x), h(x)), 0.0, rows)
    total, ys = run(X)
    return [
        (total, sum(of_sum(d, x, 0) for x in X)),
        (ys, np.stack([d(x, 0) for x in X])),
        (cr.grad(lambda rows: run(rows)[0])(X), np.stack([of_sum(d, x, 1) for x in X])),
    ]


OUTER = {
    "vmap": (vmapped, 0),
    "grad": (lambda h, d: [(cr.grad(summed(h))(x0), of_sum(d, x0, 1))], 1),
    "jvp": (jvped, 1),
    "vjp": (vjped, 1),
    "jacobian, forward": (lambda h, d: [(cr.jacobian(h, mode="forward")(x0), d(x0, 1))], 1),
    "jacobian, reverse": (lambda h, d: [(cr.jacobian(h, mode="reverse")(x0), d(x0, 1))], 1),
    "hessian": (lambda h, d: [(cr.hessian(summed(h))(x0), of_sum(d, x0, 2))], 2),
    "hvp": (lambda h, d: [(cr.hvp(summed(h), x0, w), of_sum(d, x0, 2) @ w)], 2),
    "linearize": (linearized, 1),
    "checkpoint": (checkpointed, 1),
    "scan": (scanned, 1),
}
BATCHES = {"vmap", "jacobian, forward", "jacobian, reverse", "hessian"}  # what sends many values through at once


@functools.cache
def cell(outer, inner):
    """Run a cell of the table; return the pairs (found, expected) and how it ran."""
    transform, order = OUTER[outer]
    h, d = INNER[inner]
    with noted_loops() as names:
        pairs = transform(h, d)
    how = "yes" if not {outer, inner} & BATCHES else "loop" if names else "at once"
    return pairs, order, how


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_nested(outer, inner):
    pairs, order, _ = cell(outer, inner)
    rtol = (1e-14, 1e-9, 1e-6)[order] if inner == "numeric" else 1e-12
    for have, want in pairs:
        assert np.shape(have) == want.shape
        np.testing.assert_allclose(have, want, rtol=rtol, atol=rtol)


def table():
    """Return the table of the docs: a row for each outer transform, how each cell runs."""
    lines = ["| | " + " | ".join(INNER) + " |", "|---|" + "---|" * len(INNER)]
    for outer in OUTER:
        lines.append(f"| **{outer}** of | " + " | ".join(cell(outer, inner)[2] for inner in INNER) + " |")
    return lines


def test_the_table_in_the_docs_says_how_each_runs():
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8"), "\n".join(["write this:", *table()])
