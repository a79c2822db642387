"""Loops of compiled functions: rolled where they are regular, right in all cases, for numbers of rounds never seen."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.program.ir import Symbol, interpret, verify
from chainrule.program.loops.ir import Loop, Pop
from chainrule.program.trace import trace

RNG = np.random.default_rng(5)


def root(a):
    x = a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
    return x


def root_in_one_line(a):
    x = a
    # fmt: off
    while abs(x * x - a) > 1e-9 * a: x = 0.5 * (x + a / x)  # noqa: E701
    # fmt: on
    return x


def until_break(a):
    x, step = a, 1.0
    while True:
        step = (x * x - a) / (2 * x)
        x = x - step
        if abs(step) < 1e-9:
            break
    return x * step + x


def while_with_branches(x):
    total = x * 0
    while x < 1000.0:
        if np.sin(x) > 0:
            x = x * 1.5
            total = total + np.sin(x)
        else:
            x = x + 1.0
            total = total * 0.5
    return total


def with_helper(a):
    def better(x):
        return 0.5 * (x + a / x)

    x = a
    while abs(x * x - a) > 1e-9 * a:
        x = better(x)
    return np.log(x)


VARYING = [root, root_in_one_line, until_break, while_with_branches, with_helper]


@pytest.mark.parametrize("f", VARYING, ids=lambda f: f.__name__)
def test_a_number_of_rounds_that_varies_needs_few_traces(f):
    compiled, gradient = cr.compile(f), cr.compile(cr.value_and_grad(f))
    for a in np.exp(RNG.uniform(0.5, 12, 60)).tolist():
        assert compiled(a) == f(a)
        value, slope = gradient(a)
        assert value == f(a)
        np.testing.assert_allclose(slope, cr.grad(f)(a), rtol=1e-12, atol=1e-300)
    for c in (compiled, gradient):
        assert c.stats().traces <= (40 if f is while_with_branches else 8)  # few rounds are not rolled
        assert c.stats().fallbacks == 0
        assert c.stats().eager == ()


def by_sign(x):
    s = 0.0
    for v in x:
        if v > 0:
            s = s + np.sin(v)
        else:
            s = s + v * v
    return s


def by_index(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            s += np.exp(-x[i])
        elif x[i] < -1:
            s -= x[i]
        else:
            s += x[i] * x[i - 1]
    return s


@pytest.mark.parametrize("f", [by_sign, by_index], ids=lambda f: f.__name__)
def test_a_branch_for_each_entry_needs_few_traces(f):
    gradient = cr.compile(cr.value_and_grad(f))
    for _ in range(80):
        x = RNG.normal(size=30) * 1.5
        value, slope = gradient(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, cr.grad(f)(x), rtol=1e-12, atol=1e-14)
    assert gradient.stats().traces <= (16 if f is by_index else 8)
    assert gradient.stats().fallbacks == 0
    assert gradient.stats().eager == ()


A = RNG.normal(size=(3, 3))


def runge_kutta(w, y):
    f = lambda y: np.tanh(w @ y) - 0.5 * y
    for _ in range(12):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        y = y + 0.1 * k2
    return np.sum(y * y)


def with_time(w, y):
    t, h = 0.0, 0.1
    for k in range(9):
        y = y + h * np.cos(t + k) * (w @ y)
        t = t + h
    return np.sum(y) * t


def from_captured(w, y):
    for row in A:
        y = np.sin(w @ y + row)
    return np.sum(y)


def two_loops(w, y):
    for _ in range(6):
        y = np.tanh(w @ y)
    z = y * 2
    for _ in range(7):
        z = np.sin(z) + y
    return np.sum(z)


def nested_loops(w, y):
    for _ in range(6):
        z = y
        for _ in range(5):
            z = 0.5 * np.sin(z)
        y = np.tanh(w @ y) + z
    return np.sum(y)


def filled(w, y):
    out = np.zeros(8, like=y)
    out[0] = y[0]
    for k in range(1, 8):
        out[k] = np.sin(out[k - 1]) + w[0, 1] * y[1]
    return np.sum(out * out)


def collected(w, y):
    states = []
    for _ in range(8):
        y = np.tanh(w @ y)
        states.append(y)
    return np.sum(np.stack(states) ** 2)


def in_lists(w, y):
    h = [y, y * 0.5]
    for _ in range(7):
        for i in range(2):
            h[i] = np.tanh(w @ h[i]) * h[1 - i]
    return np.sum(h[0] + h[1])


def in_dict(w, y):
    state = {"y": y, "n": np.sum(y)}
    for _ in range(7):
        state = {"y": np.sin(w @ state["y"]), "n": state["n"] * 0.5 + state["y"][0]}
    return np.sum(state["y"]) * state["n"]


def previous_two(w, y):
    a, b = y[0], y[1]
    for _ in range(10):
        a, b = b, np.sin(a) + w[0, 0] * b
    return a * b


def early_break(w, y):
    for k in range(10):
        y = np.tanh(w @ y)
        if np.sum(y * y) < 0.01 * k:
            break
    return np.sum(y) * k


def skipping(w, y):
    total = 0.0
    for k in range(12):
        if k % 3 == 0:
            continue
        y = np.sin(w @ y)
        total = total + y[k % 2]
    return total


def first_is_different(w, y):
    total = None
    for _ in range(6):
        y = np.sin(w @ y)
        total = y if total is None else total + y
    return np.sum(total)


FIXED = [
    runge_kutta, with_time, from_captured, two_loops, nested_loops, filled, collected, in_lists, in_dict, previous_two,
    early_break, skipping, first_is_different,
]  # fmt: skip


def points():
    return RNG.normal(size=(3, 3)) * 0.6, RNG.normal(size=3)


@pytest.mark.parametrize("f", FIXED, ids=lambda f: f.__name__)
def test_values_and_gradients_at_other_points(f):
    transforms = {
        "value": f,
        "gradient": cr.grad(f, (0, 1)),
        "forward": lambda w, y: cr.jvp(f, (w, y), (np.cos(w), y + 1))[1],
        "product": lambda w, y: cr.hvp(lambda y: f(w, y), y, np.arange(3.0)),
    }
    for g in transforms.values():
        compiled = cr.compile(g)
        for _ in range(4):
            args = points()
            found, expected = compiled(*args), g(*args)
            several = isinstance(found, tuple)
            for a, b in zip(found if several else [found], expected if several else [expected], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


ROLLED = [runge_kutta, with_time, two_loops, in_lists, in_dict, previous_two, filled, first_is_different]


@pytest.mark.parametrize("f", ROLLED, ids=lambda f: f.__name__)
def test_regular_loops_are_rolled_forward_and_backward(f):
    program, _ = trace(cr.value_and_grad(f, (0, 1)), points(), {}, [True, True])
    verify(program)
    loops = [e for e in program.equations if e.__class__ is Loop]
    assert any(e.pops is None for e in loops)
    assert any(e.pops is not None for e in loops)
    args = points()
    value, (wbar, ybar) = cr.value_and_grad(f, (0, 1))(*args)
    found = interpret(program, list(args))
    np.testing.assert_allclose(found[0], value, rtol=1e-13)
    np.testing.assert_allclose(found[1], wbar, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[2], ybar, rtol=1e-12, atol=1e-14)


def test_the_size_of_a_program_does_not_grow_with_the_rounds():
    def f(w, y, n):
        for _ in range(n):
            y = np.tanh(w @ y)
        return np.sum(y)

    sizes = [
        len(trace(cr.grad(lambda w, y, n=n: f(w, y, n)), points(), {}, [True, True])[0].equations) for n in (20, 200)
    ]
    assert sizes[0] == sizes[1]


def test_a_counter_that_is_used_afterwards_keeps_the_number_of_rounds():
    def f(a):
        x, k = a, 0
        while abs(x * x - a) > 1e-9:
            x, k = 0.5 * (x + a / x), k + 1
        return x * k

    compiled = cr.compile(f, paths=40)
    for a in (2.0, 3.0, 100.0, 5e4, 2.5, 7e6):
        assert compiled(a) == f(a)


def test_what_a_loop_leaves_behind_elsewhere_keeps_the_number_of_rounds():
    class Seen:
        rounds = 0

    def f(a):
        seen, x = Seen(), a
        while abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
            seen.rounds += 1
        return x * seen.rounds

    def g(a):
        seen, x = [], a
        while abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
            seen.append(1)
        return x * len(seen)

    for h in (f, g):
        compiled = cr.compile(h, paths=40)
        for a in (2.0, 100.0, 5e4, 2.5, 7e6):
            assert compiled(a) == h(a)


TABLE = RNG.normal(size=30)


def with_square_of_counter(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] * (i * i) if x[i] > 1.5 else s + x[i]
    return s


def with_counter_in_call(x):
    scaled = lambda v, k: v * k
    s = 0.0
    for k in range(len(x)):
        if x[k] > 1.5:
            s = s + scaled(np.sin(x[k]), k)
        else:
            s = s + x[k]
    return s


def with_running_number(x):
    s, t = 0.0, 1.0
    for v in x:
        if v > 1.5:
            s = s + v * t
        t = t * 1.1
        s = s - v * v
    return s


def with_table(x):
    s = 0.0
    for v, w in zip(x, TABLE, strict=True):
        if v > 1.5:
            s = s + v * w
        s = s + np.cos(v)
    return s


def with_subscript_by_rule(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 1.5:
            s = s + x[(i * i) % len(x)]
        elif x[i] < -1.5:
            s = s + x[i - 2] * x[-1]
        s = s + np.cos(x[i])
    return s


@pytest.mark.parametrize(
    "f",
    [with_square_of_counter, with_counter_in_call, with_running_number, with_table, with_subscript_by_rule],
    ids=lambda f: f.__name__,
)
def test_numbers_of_a_branch_that_is_seldom_taken(f):
    gradient = cr.compile(cr.value_and_grad(f), paths=100)
    for _ in range(60):
        x = RNG.normal(size=30)
        value, slope = gradient(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, cr.grad(f)(x), rtol=1e-12, atol=1e-14)


def counted_in_array(a):
    n, x = np.zeros(1), a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
        n += 1
    return x * n[0]


def counted_in_set(a):
    seen, x = set(), a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
        seen |= {len(seen)}
    return x * len(seen)


def counted_in_dict(a):
    seen, x = {}, a
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
        seen = {**seen, len(seen): 1}
    return x * len(seen)


def counted_by_iterator(a):
    numbers, x, n = iter(range(1000)), a, 0
    while abs(x * x - a) > 1e-9 * a:
        x = 0.5 * (x + a / x)
        n = next(numbers)
    return x * (n + next(numbers))


def with_two_exits(a):
    x = a
    while True:
        x = 0.5 * (x + a / x)
        if abs(x * x - a) < 1e-9 * a:
            return x
        if x < 1.5:
            return -x


@pytest.mark.parametrize(
    "f",
    [counted_in_array, counted_in_set, counted_in_dict, counted_by_iterator, with_two_exits],
    ids=lambda f: f.__name__,
)
def test_what_else_changes_from_round_to_round(f):
    compiled = cr.compile(f, paths=100)
    for a in np.exp(RNG.uniform(0.5, 12, 40)).tolist():
        assert compiled(a) == f(a)


def test_what_is_kept_of_a_round_is_what_its_backward_round_reads():
    program, _ = trace(cr.grad(runge_kutta), points(), {}, [True, True])
    from chainrule.program.passes import optimise

    forward = next(e for e in optimise(program).equations if e.__class__ is Loop)
    (block,) = forward.blocks
    assert 0 < len(block.end.kept) <= 4
    assert all(x.__class__ is Symbol for x in block.end.kept)
    assert len([e for e in program.equations if e.__class__ is Pop]) <= 4
