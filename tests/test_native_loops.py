"""Loops over large arrays as machine code: against the functions themselves, with all that the state can be."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr

RNG = np.random.default_rng(11)


def entries(*shape, dtype=float):
    return RNG.normal(size=shape).astype(dtype)


def leaves(x):
    return [a for part in x for a in leaves(part)] if x.__class__ is tuple else [x]


def check(f, *xs, transform=cr.value_and_grad, again=(), tol=1e-11):
    """Check that a derivative is one kernel with a loop, and what the plain function gives, for other numbers too."""
    g = cr.compile(transform(f), backend="native")
    for args in (xs, *again):
        want, got = transform(f)(*args), g(*args)
        for a, b in zip(leaves(want), leaves(got), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype
            scale = np.abs(a).max(initial=0)
            np.testing.assert_allclose(b, a, rtol=tol, atol=tol * scale)
    stats = g.stats()
    assert (stats.share, stats.fallbacks, stats.eager) == (1.0, 0, ()), stats
    low = g.lower(*xs)
    assert any("times" in line or "for each round" in line or "repeat" in line for line in str(low.program).split("\n"))
    assert cr.config.check_bounds or low.source.count("\n") < 7000
    return g


def descent(x):
    b = np.linspace(1.0, 2.0, x.size).reshape(x.shape)
    for _ in range(30):
        x = x - 0.1 * (b * x - np.tanh(x))
    return np.sum(x**2)


def heat(u):
    for _ in range(40):
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return np.sum(u**2)


def stencil(u):
    u = u.copy()
    for _ in range(25):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**3)


def swapped(x):
    y = 0.5 * x
    for _ in range(20):
        x, y = y, 0.5 * x + 0.3 * np.sin(y)
    return np.sum(x * y)


def three_in_turns(x):
    y, z = 0.5 * x, x * x
    for _ in range(20):
        x, y, z = y, z, 0.5 * x + np.cos(z)
    return np.sum(x * y + z)


def backwards(x):
    for k in range(20):
        x = x[::-1] * 0.9 + 0.01 * k
    return np.sum(x**2)


def turned(a):
    for _ in range(20):
        a = 0.9 * a.T + 0.1 * np.sin(a)
    return np.sum(a**3)


def only_turned(a):
    b = a * a
    for _ in range(21):
        a, b = b.T, a
    return np.sum(a * np.arange(a.size).reshape(a.shape) + b)


def normalised(x):
    for _ in range(20):
        x = np.sin(x) / np.sqrt(np.sum(x * x) + 1.0) + x
    return np.sum(x**2)


def with_numbers(x):
    total, step = 0.0, 1.0
    for _ in range(30):
        x = x - step * 0.1 * x
        total = total + np.sum(x**2) * step
        step = step * 0.95
    return total


def running(x):
    for _ in range(12):
        x = 0.1 * np.cumsum(x) + np.maximum(x, 0.2)
    return np.sum(x**2)


def centred(x):
    for _ in range(12):
        x = (x - x.mean(axis=0)) / (1.0 + x.std(axis=0)) + 0.1 * x
    return np.sum(x**3)


@pytest.mark.parametrize("n", [129, 200, 1023, 5000])
@pytest.mark.parametrize("f", [heat, stencil, swapped, three_in_turns, backwards, normalised, with_numbers])
def test_state_that_is_a_row(f, n):
    check(f, entries(n), again=[(entries(n),)])


@pytest.mark.parametrize("f", [descent, heat, swapped, normalised])
def test_single_precision(f):
    check(f, entries(333, dtype=np.float32), tol=1e-4)


@pytest.mark.parametrize("f", [turned, only_turned, centred])
def test_state_with_axes(f):
    check(f, entries(15, 15), again=[(entries(15, 15),)])


@pytest.mark.parametrize("f", [descent, running])
def test_other_state(f):
    check(f, entries(300))


def test_second_derivatives():
    x, v = entries(300), entries(300)
    check(lambda x: heat(np.sin(x)), x, transform=lambda f: lambda x: cr.hvp(f, x, v))
    check(stencil, x, transform=lambda f: lambda x: cr.hvp(f, x, v))


def test_recurrent_network():
    def f(w, u, x):
        h = np.zeros((8, 30))
        for t in range(20):
            h = np.tanh(h @ w + x[t] @ u.T)
        return np.sum(h**2)

    check(
        f, 0.1 * entries(30, 30), 0.1 * entries(30, 20), entries(20, 8, 20), transform=lambda f: cr.grad(f, (0, 1, 2))
    )


def test_gates():
    def f(w, x):
        h, c = np.zeros((5, 40)), np.zeros((5, 40))
        for t in range(15):
            z = np.concatenate([h, x[t]], axis=1) @ w
            i, o, g, q = z[:, :40], z[:, 40:80], z[:, 80:120], z[:, 120:]
            c = c / (1 + np.exp(-q)) + np.tanh(g) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
        return np.sum(h**2)

    check(f, 0.1 * entries(46, 160), entries(15, 5, 6), transform=lambda f: cr.grad(f, (0, 1)))


def test_rounds_that_values_count():
    def f(x, limit):
        n = 0
        while np.sum(x**2) > limit:
            x = x - 0.02 * x * (1.0 + 0.1 * np.cos(x))
            n += 1
        return np.sum(x**2) + n

    x = entries(400)
    check(f, x, 3.0, again=[(x, 30.0), (x, 0.001), (2 * x, 1.0)], transform=lambda f: cr.grad(f))


def test_rounds_that_go_two_ways():
    def f(x):
        y = 0.0 * x
        for _ in range(60):
            if np.sum(x) > 0.0:
                x = x - 0.3 * np.abs(x)
                y = y + x
            else:
                x = np.roll(x, 3) + 0.2 * np.abs(x)
        return np.sum(x * y)

    check(f, entries(200), again=[(entries(200),), (entries(200) + 1.0,)])


def test_rounds_until_a_break():
    def f(x):
        for _ in range(1000):
            y = np.cos(x)
            if np.max(np.abs(y - x)) < 1e-3:
                break
            x = y
        return np.sum(x * y)

    check(f, entries(200), again=[(0.7 + 0.1 * entries(200),)])


def test_numbers_of_an_array_one_by_one():
    def f(seen, x):
        m, total = 0.0, 0.0
        for t in range(300):
            r = seen[t] - m
            total = total + r * r
            m = m + 0.3 * r + 0.01 * x[t] * m
        return total

    check(f, entries(300), entries(300), transform=lambda f: cr.grad(f, (0, 1)))


def test_rows_of_an_array_one_by_one():
    def f(rows):
        x = np.zeros(150)
        for t in range(20):
            x = 0.5 * x + np.sin(rows[t]) * rows[t, 0]
        return np.sum(x**2)

    check(f, entries(20, 150))


def test_writes_at_the_number_of_a_round():
    def f(x):
        out = np.outer(np.zeros(20), x)
        for t in range(20):
            x = np.sin(x) + 0.1 * x
            out[t] = x
            out[t, 3] = x[5] * x[6]
        return np.sum(out**2 * np.arange(20)[:, None])

    check(f, entries(150))


def test_loops_in_loops():
    def f(x):
        for _ in range(10):
            y = x
            for _ in range(10):
                y = y - 0.1 * (y - np.sin(x))
            x = 0.5 * x + y
        return np.sum(x**2)

    g = cr.compile(cr.value_and_grad(f), backend="native")
    x = entries(200)
    want, got = cr.value_and_grad(f)(x), g(x)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-11)
    assert g.stats().share == 1.0


def test_what_a_loop_leaves_is_used_after_it():
    def f(x):
        a = np.sin(x)
        y = a
        for _ in range(10):
            y = y * a + 0.1 * np.roll(y, 2)
        z = y
        for _ in range(10):
            z = z * 0.5 + np.roll(a, 1) * y
        return np.sum(z * y * a + x)

    check(f, entries(300), again=[(entries(300),)])


def test_calls_at_once_do_not_share_memory():
    from concurrent.futures import ThreadPoolExecutor

    g = cr.compile(cr.grad(heat), backend="native")
    xs = [entries(2000) for _ in range(8)]
    want = [cr.grad(heat)(x) for x in xs]
    g(xs[0])
    with ThreadPoolExecutor(4) as pool:
        for a, b in zip(want, pool.map(g, xs), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-11)


@pytest.mark.parametrize("f", [heat, stencil, three_in_turns, backwards, turned, only_turned, centred, running])
def test_addresses_stay_in_their_memory(f):
    with cr.config(check_bounds=True):
        check(f, entries(15, 15) if f in (turned, only_turned, centred) else entries(200))
