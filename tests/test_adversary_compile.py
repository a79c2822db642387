"""Compiled functions whose loops keep things in Python: flags, positions, order in lists, iterators, draws."""

import dataclasses
import functools
import itertools
import warnings
from collections import Counter, deque
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import chainrule as cr


def with_flag(a):
    on, s = False, 0.0
    for x in a:
        if x > 1:
            on = True
        if x < -1:
            on = False
        s = s + x * x if on else s - x
    return s


def with_flag_in_object(a):
    state, s = SimpleNamespace(sign=1.0), 0.0
    for x in a:
        if x > 0:
            state.sign = -state.sign
        s = s + x * state.sign
    return s


def with_flag_of_closure(a):
    sign, s = 1.0, 0.0

    def turn():
        nonlocal sign
        sign = -sign

    for x in a:
        if x > 0:
            turn()
        s = s + x * sign
    return s


def with_position(a):
    j, s = 0, a[0] * 0
    for i in range(8):
        s = s + a[j] * (i + 1)
        j = (j + (2 if a[i] > 0 else 3)) % 8
    return s


def with_swaps_in_a_list(a):
    v = list(a[:4])
    for i in range(4):
        for j in range(3 - i):
            if v[j] > v[j + 1]:
                v[j], v[j + 1] = v[j + 1], v[j]
    return v[0] + 2 * v[1] + 3 * v[2] + 4 * v[3]


def with_swaps_of_variables(a):
    u, w = a[0] * 1.0, a[1] * 1.0
    for x in a:
        if x > 0:
            u, w = w, u
    return u - 3 * w


def with_rotation_in_while(a):
    u, w, s = a[0] * 1.0, a[1] * 1.0, a[2] * 1.0
    while s * s > 0.1:
        u, w = w, u
        s = s * 0.6
    return u - 3 * w


def with_swaps_in_while(a):
    u, w, s = a[0] * 1.0, a[1] * 1.0, a[2] * 1.0
    while s * s > 0.1:
        if s > 1:
            u, w = w, u
        s = s * 0.7
    return u - 3 * w * s


def with_queue(a):
    q = [a[0], a[1]]
    for x in a:
        y = q.pop(0)
        if y > x:
            q.insert(0, x * 0.5 + y)
        else:
            q.append(y - x)
    return q[0] - 3 * q[1]


def with_best_of_a_list(a):
    xs = [a[i] * 1.0 for i in range(8)]
    best = xs[0]
    for x in xs[1:]:
        if x > best:
            best = x
    return best * 2


def with_entry_that_one_branch_reads(a):
    ys = [a[i] * 2.0 for i in range(8)]
    s = 0.0
    for i in range(8):
        s = s + ys[i] * a[i] if a[i] > 1.8 else s - a[i]
    return s


def with_pair_that_one_branch_reads(a):
    ys = [a[i] * 2.0 for i in range(8)]
    s = 0.0
    for x, y in zip(a, ys, strict=True):
        s = s + y * x if x > 1.8 else s - x
    return s


def with_cyclic_entry(a):
    rows, s = [a, a * 2.0, a * 3.0], 0.0
    for i in range(8):
        if a[i] > 0:
            rows[0], rows[1] = rows[1], rows[0]
        s = s + np.sum(rows[i % 3])
    return s


def with_draws_from_a_seed(a):
    draws = np.random.default_rng(3)
    while np.max(np.abs(a)) > 0.1:
        a = a / 2
        draws.standard_normal()
    return np.sum(a) * draws.standard_normal()


def with_iterator(a):
    numbers = iter(range(100))
    while np.max(np.abs(a)) > 0.1:
        a = a / 2
        max(zip(numbers, "a", strict=False))
    return np.sum(a) * sum(numbers)


LOOPS = [f for name, f in list(globals().items()) if name.startswith("with_")]


@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_what_python_keeps_may_depend_on_the_way_that_rounds_took(f):
    rng = np.random.default_rng(1)
    value, gradient = cr.compile(f, paths=60), cr.compile(cr.value_and_grad(f), paths=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cr.errors.CompileWarning)
        for _ in range(40):
            a = rng.normal(size=8) * 1.5 * 10 ** rng.uniform(0, 1)
            expected, slope = cr.value_and_grad(f)(a)
            np.testing.assert_allclose(value(a), f(a), rtol=1e-12)
            found = gradient(a)
            np.testing.assert_allclose(found[0], expected, rtol=1e-12)
            np.testing.assert_allclose(found[1], slope, rtol=1e-12, atol=1e-14)


def with_running_numbers(a):
    s, t, n = 0.0, 1.0, 1
    for i in range(8):
        n *= 2
        t = t * 0.5
        x = a[i] * (t + n)
        s = s + x if a[i] > 0 else s - np.sin(x)
    return s


def with_best_so_far(a):
    best, at = np.sin(a[0]), a
    for _ in range(8):
        a = a * 0.8 + 0.1 * np.cos(3 * a)
        y = np.sum(a * a)
        if y < best:
            best, at = y, a
    return best + np.sum(at)


@pytest.mark.parametrize("f", [with_running_numbers, with_best_so_far], ids=lambda f: f.__name__)
def test_numbers_that_do_not_depend_on_it_are_no_hindrance(f):
    rng, value = np.random.default_rng(1), cr.compile(f)
    for _ in range(40):
        a = rng.normal(size=8)
        np.testing.assert_allclose(value(a), f(a), rtol=1e-12)
    assert value.stats().traces < 16


def test_the_order_of_keys_is_that_of_the_call():
    def f(d):
        y = 0.0
        for v in d.values():
            y = y * 2 + v
        return y, {k: v * y for k, v in d.items()}

    def g(**d):
        return f(d)

    a, b = np.ones(2), np.full(2, 3.0)
    one, two = cr.compile(f), cr.compile(g)
    through = cr.compile(f)
    for d in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "b": b}):
        for found in (one(d), two(**d)):
            np.testing.assert_array_equal(found[0], f(d)[0])
            assert list(found[1]) == list(d)
        slope = cr.grad(lambda d: np.sum(through(d)[0]))(d)
        expected = cr.grad(lambda d: np.sum(f(d)[0]))(d)
        np.testing.assert_array_equal(slope["a"], expected["a"])
        np.testing.assert_array_equal(slope["b"], expected["b"])
    assert one.stats().traces == 2


def test_static_numbers_that_are_equal_but_not_the_same():
    f = cr.compile(lambda x, a: x * np.copysign(1.0, a), static_argnums=1)
    assert [f(2.0, 0.0), f(2.0, -0.0), f(2.0, float("nan")), f(2.0, -float("nan"))][:2] == [2.0, -2.0]
    for _ in range(3):
        f(2.0, float("nan"))
    assert f.stats().traces == 3


def test_only_the_last_round_counts():
    def f(x):
        for i in range(6):
            y = x[i] * 2
            z = y * y
        return y + z * i

    gradient = cr.compile(cr.grad(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error", cr.errors.CompileWarning)
        for x in (np.arange(6.0), np.arange(6.0)[::-1].copy()):
            np.testing.assert_allclose(gradient(x), [0, 0, 0, 0, 0, 2 + 40 * x[5]])


def mixed_results(x):
    return {"y": x**2, "name": "square", "raw": b"x", "n": 3, "big": x > 1, "where": np.arange(2), "none": None}


def with_rule(make, define):
    f = make(mixed_results)
    define(f)
    return f


def squares_vjp(ybar, y, x):
    assert ybar["name"] is None
    return 2 * x * ybar["y"]


def squares_jvp(xdots, y, x):
    return {"y": 2 * x * xdots[0], "name": None, "raw": None, "n": None, "big": None, "where": None, "none": None}


@pytest.mark.parametrize(
    "f",
    [
        cr.compile(mixed_results),
        cr.checkpoint(mixed_results),
        with_rule(cr.custom_vjp, lambda f: f.defvjp(squares_vjp)),
        with_rule(cr.custom_jvp, lambda f: f.defjvp(squares_jvp)),
    ],
    ids=["compile", "checkpoint", "custom_vjp", "custom_jvp"],
)
def test_results_that_are_no_floats_go_through_transforms(f):
    def g(x):
        found = f(x)
        assert (found["name"], found["raw"], found["n"], found["none"]) == ("square", b"x", 3, None)
        return found["y"] * found["n"]

    with warnings.catch_warnings():
        warnings.simplefilter("error", cr.errors.CompileWarning)
        assert cr.grad(g)(2.0) == 12.0
        assert cr.jvp(g, (2.0,), (1.0,)) == (12.0, 12.0)
        assert cr.hvp(g, 2.0, 1.0) == 6.0
        xs = np.array([1.0, 2.0])
        np.testing.assert_array_equal(cr.vmap(g)(xs), 3 * xs**2)
        np.testing.assert_array_equal(cr.grad(lambda xs: np.sum(cr.vmap(g)(xs)))(xs), 6 * xs)
        np.testing.assert_array_equal(cr.compile(cr.grad(lambda xs: np.sum(cr.vmap(g)(xs))))(xs), 6 * xs)


class Point(NamedTuple):
    d: dict


@dataclasses.dataclass
class Holder:
    d: dict


@pytest.mark.parametrize("held", [lambda d: d, lambda d: [d], Point, Holder, lambda d: deque([d])])
def test_equal_keys_of_other_types_are_other_arguments(held):
    def f(x):
        d = x if isinstance(x, dict) else x.d if hasattr(x, "d") else x[0]
        ((key, value),) = d.items()
        return value * len(repr(key))

    g = cr.compile(f)
    for _ in range(2):
        for key, letters in ((1, 1.0), (True, 4.0), (1.0, 3.0), (np.float32(1.0), 15.0)):
            assert g(held({key: 7.0})) == 7.0 * letters
    h = cr.compile(lambda x, k: x * np.copysign(1.0, next(iter(k))), static_argnums=1)
    assert [h(2.0, frozenset([v])) for v in (0.0, -0.0, 1, True)] == [2.0, -2.0, 2.0, 2.0]
    order = cr.compile(lambda x: sum(k * v for k, v in enumerate((x if isinstance(x, dict) else x.d).values())))
    if held is Point or held is Holder:
        assert [order(held({"a": 1.0, "b": 2.0})), order(held({"b": 2.0, "a": 1.0}))] == [2.0, 1.0]


def test_equal_ranges_and_slices_of_other_ends():
    f = cr.compile(lambda x, r: x * r.stop + type(r.start).__name__.count("b"))
    cases = [range(0, 3, 2), range(0, 4, 2), slice(1, 2), slice(True, 2), range(0), range(5, 5)]
    assert [f(2.0, r) for r in cases] == [6.0, 8.0, 4.0, 5.0, 0.0, 10.0]


def is_up(v):
    return bool(v > 0)


COLLECTED = {
    "list": lambda x: [bool(v > 0) for v in x].count(True),
    "list with a condition": lambda x: len([1 for v in x if v > 0]),
    "list of traced values with a condition": lambda x: len([v for v in x if v > 0]),
    "list of numbers": lambda x: sum([2.0 if v > 0 else 1.0 for v in x]),
    "list of whole numbers": lambda x: [int(v > 0) for v in x].count(1),
    "list of floats": lambda x: [float(v > 0) for v in x].count(1.0),
    "list of words": lambda x: ["up" if v > 0 else "down" for v in x].count("up"),
    "two loops": lambda x: len([1 for _ in range(2) for v in x if v > 0]),
    "array": lambda x: np.array([1.0 if v > 0 else 0.0 for v in x]).sum(),
    "set": lambda x: len({i for i, v in enumerate(x) if v > 0}),
    "dict": lambda x: {i: 1 for i, v in enumerate(x) if v > 0}.get(2, 0),
    "generator": lambda x: sum(bool(v > 0) for v in x),
    "tuple of a generator": lambda x: tuple(bool(v > 0) for v in x).count(True),
    "counter": lambda x: Counter([bool(v > 0) for v in x])[True],
    "groups": lambda x: [k for k, _ in itertools.groupby(x, key=lambda v: bool(v > 0))].count(True),
    "map": lambda x: list(map(is_up, x)).count(True),
    "reduce": lambda x: functools.reduce(lambda n, v: n + bool(v > 0), x, 0),
    "inside of a loop": lambda x: sum(sum([bool(v > c) for v in x]) * c for c in (0.5, 1.5)),
}


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", COLLECTED)
def test_what_a_comprehension_collects_may_depend_on_the_way_that_rounds_took(name, backend):
    f = COLLECTED[name]
    value = cr.compile(lambda x: f(x) * np.sum(x), backend=backend)
    gradient = cr.compile(cr.grad(lambda x: f(x) * np.sum(x)), backend=backend)
    rng = np.random.default_rng(0)
    for n in (3, 6):
        for x in [*rng.normal(size=(5, n)), np.ones(n), -np.ones(n)]:
            np.testing.assert_allclose(value(x), f(x) * np.sum(x), rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(gradient(x), np.full(n, f(x)))


def collector(make=list):
    hits = make()

    def hit(v):
        if v > 0:
            hits.append(1)
        return len(hits)

    return hit


class Collector:
    def __init__(self):
        self.n = 0

    def add(self, v):
        if v > 0:
            self.n += 1
        return self.n


def counted(f):
    calls = []

    def wrapped(v):
        if v > 0:
            calls.append(1)
        return f(v)

    wrapped.calls = calls
    return wrapped


def default(v, hits=None):
    if v > 0:
        hits.append(1)
    return len(hits)


def new_default():
    return type(default)(default.__code__, globals(), "default", ([],))


def repeated(make, x):
    call = make()
    for v in x:
        call(v)
    return call(-1)


def in_attribute(x):
    holder = SimpleNamespace(call=collector())
    for v in x:
        holder.call(v)
    return holder.call(-1)


def by_decorator(x):
    call = counted(lambda v: v)
    for v in x:
        call(v)
    return len(call.calls)


def in_class(x):
    class Hits:
        n = 0

    for v in x:
        if v > 0:
            Hits.n += 1
    return Hits.n


def in_class_of_object(x):
    class Hits:
        n = 0

        def hit(self, v):
            if v > 0:
                Hits.n += 1

    hits = Hits()
    for v in x:
        hits.hit(v)
    return hits.n


KEPT = {
    "class": in_class,
    "class of an object": in_class_of_object,
    "closure": lambda x: repeated(collector, x),
    "bounded closure": lambda x: repeated(lambda: collector(lambda: deque(maxlen=2)), x),
    "method": lambda x: repeated(lambda: Collector().add, x),
    "partial call": lambda x: repeated(lambda: functools.partial(default, hits=[]), x),
    "default": lambda x: repeated(new_default, x),
    "attribute": in_attribute,
    "decorator": by_decorator,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_the_functions_called_in_a_loop_keep_may_depend_on_the_way_that_rounds_took(name):
    f = KEPT[name]
    value = cr.compile(lambda x: f(x) * np.sum(x))
    gradient = cr.compile(cr.grad(lambda x: f(x) * np.sum(x)))
    rng = np.random.default_rng(0)
    for n in (4, 7):
        for x in [*rng.normal(size=(6, n)), np.ones(n), -np.ones(n)]:
            np.testing.assert_allclose(value(x), f(x) * np.sum(x), rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(gradient(x), np.full(n, f(x)))
