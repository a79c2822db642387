"""Levels: nested derivatives are never confused, wherever they run and however they end; what leaks raises."""

import asyncio
import contextlib
import contextvars
import gc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule import errors
from chainrule.engine import level


def reverse(f):
    return lambda x: cr.grad(f)(x)


def forward(f):
    return lambda x: cr.jvp(f, (x,), (1.0,))[1]


def eager(f):
    """A derivative in x taken by hand, over what x is: a number, or a value of a transform around it."""

    def derivative(x):
        v = cr.Variable(x)
        f(v).backward(create_graph=True)
        return v.grad.data

    return derivative


def dual(f):
    return lambda x: f(cr.Dual(x, 1.0)).tangent


MODES = {"reverse": reverse, "forward": forward}
PAIRS = [pytest.param(a, b, id=f"{m}-over-{n}") for (m, a), (n, b) in itertools.product(MODES.items(), repeat=2)]


@pytest.fixture(autouse=True)
def nothing_stays_open():
    """After each test no level is open, nothing is paused, and the garbage collector is as it was."""
    threshold = gc.get_threshold()
    yield
    gc.collect()
    assert not level._open
    assert level.paused == 0
    assert gc.get_threshold() == threshold


# -- perturbation confusion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer, inner", PAIRS)
def test_an_inner_derivative_over_an_outer_variable(outer, inner):
    # d/dx x (d/dy (x + y)) = 1, and not 2
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0
    # x d/dy (x y^2) at 2 is 4 x^2
    assert outer(lambda x: x * inner(lambda y: x * y * y)(2.0))(3.0) == 24.0
    # the inner point depends on x: d/dx d/dy (y^3) at x^2 = d/dx 3 x^4
    assert outer(lambda x: inner(lambda y: y**3)(x * x))(2.0) == 96.0
    # d/dx (d/dy (x y) at x) = 1; d/dy sees the closure's x as a constant
    assert outer(lambda x: inner(lambda y: x * y)(x))(5.0) == 1.0


@pytest.mark.parametrize("inner", [eager, dual])
@pytest.mark.parametrize("outer", [reverse, forward])
def test_derivatives_by_hand_inside_a_transform(outer, inner):
    assert_allclose(outer(inner(lambda y: y**3))(2.0), 12.0)
    assert_allclose(outer(lambda x: x * inner(lambda y: y**3)(x * x))(2.0), 15 * 2.0**4)


@pytest.mark.parametrize("modes", list(itertools.product((reverse, forward), repeat=3)))
def test_three_levels(modes):
    a, b, c = modes
    f = lambda x: b(lambda y: c(lambda z: np.sin(x * y) * z * y)(2.0) * x)(3.0)
    # c: sin(xy) y; times x; b: x (sin(xy) + xy cos(xy)) at y = 3; a: d/dx
    g = lambda x: x * (np.sin(3 * x) + 3 * x * np.cos(3 * x))
    h = 1e-6
    assert_allclose(a(f)(0.7), (g(0.7 + h) - g(0.7 - h)) / (2 * h), rtol=1e-8)


def test_hessian_of_a_function_that_calls_grad_inside():
    f = lambda x: np.sum(cr.grad(lambda y: np.sum(y**3 * x))(x) ** 2)  # sum 9 x^6
    x = np.array([1.0, -2.0])
    assert_allclose(cr.hessian(f)(x), np.diag(9 * 30 * x**4))
    assert_allclose(cr.hvp(f, x, np.array([1.0, 1.0])), 270 * x**4)
    assert_allclose(cr.jacobian(cr.grad(f), mode="forward")(x), np.diag(270 * x**4))


def test_one_function_nested_in_itself():
    f = lambda x: x * x * x
    for n, want in enumerate((12.0, 12.0, 6.0, 0.0), start=1):
        d = f
        for _ in range(n):
            d = cr.grad(d)
        assert d(2.0) == want


def test_the_inner_function_returns_an_outer_value():
    for outer, inner in ((reverse, reverse), (forward, forward), (reverse, forward), (forward, reverse)):
        assert outer(lambda x: x * inner(lambda y: x)(1.0))(3.0) == 0.0
        assert outer(lambda x: cr.value_and_grad(lambda y: x * 1)(1.0)[0])(3.0) == 1.0


def test_pullbacks_called_later_and_elsewhere():
    def f(x):
        y, pullback = cr.vjp(lambda t: t * t * x, 3.0)
        return cr.grad(lambda s: pullback(s * x)[0] * y)(1.0)  # pullback: 2 t x s x; times y = 9 x: 54 x^3

    assert cr.grad(f)(2.0) == 54 * 3 * 4.0
    assert cr.jvp(f, (2.0,), (1.0,))[1] == 54 * 3 * 4.0
    _, pullback = cr.vjp(lambda x: x**3, 2.0)
    assert cr.grad(lambda g: pullback(g * g)[0])(3.0) == 12.0 * 6


# -- threads, generators, tasks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer, inner", PAIRS)
def test_an_inner_derivative_in_a_thread_pool(outer, inner):
    with ThreadPoolExecutor(2) as pool:
        f = lambda x: x * pool.submit(lambda: inner(lambda y: x * y * y)(2.0)).result()
        assert outer(f)(3.0) == 24.0  # a depth counter for each thread gives 12
        g = lambda x: sum(pool.map(lambda k: inner(lambda y: x * y**k)(2.0), [1.0, 2.0, 3.0]))
        assert outer(g)(3.0) == 1 + 4 + 12


@pytest.mark.parametrize("outer, inner", PAIRS)
def test_an_inner_derivative_in_a_generator_and_in_a_task(outer, inner):
    def steps(x):
        for k in (1, 2, 3):
            yield inner(lambda y: x * y**k)(2.0)

    assert outer(lambda x: sum(steps(x)) * x)(3.0) == 2 * 17 * 3.0

    async def one(x, k):
        await asyncio.sleep(0)
        y = inner(lambda y: x * y**k)(2.0)
        await asyncio.sleep(0)
        return y * x

    async def both(x):
        return sum(await asyncio.gather(one(x, 1), one(x, 2)))

    assert outer(lambda x: asyncio.run(both(x)))(3.0) == 2 * 5 * 3.0


def test_a_generator_suspended_inside_one_transform_and_resumed_inside_another():
    def steps():
        x = yield
        while True:
            x = yield cr.grad(lambda y: x * y * y)(2.0)

    source = steps()
    next(source)
    f = lambda x: source.send(x) * x
    assert cr.grad(f)(3.0) == 24.0
    assert cr.grad(lambda t: cr.grad(f)(t))(3.0) == 8.0
    assert cr.jvp(f, (3.0,), (1.0,))[1] == 24.0


def test_tasks_whose_derivatives_interleave():
    async def work(a):
        async def waits(x):
            for _ in range(3):
                await asyncio.sleep(0)
                x = x * a
            return x

        # a transform is a plain call, so the function runs its own loop in a thread, beside others
        return await asyncio.to_thread(lambda: cr.grad(lambda x: asyncio.run(waits(x)))(1.0))

    async def main():
        return await asyncio.gather(*(work(float(a)) for a in range(1, 6)))

    assert asyncio.run(main()) == [a**3 for a in range(1, 6)]


def test_eight_threads_with_nested_transforms():
    start, wrong = threading.Barrier(8), []

    def work(k):
        a = 1.0 + k
        x = np.full(3, 0.1 * a)
        start.wait(60)
        for _ in range(25):
            if cr.grad(lambda x: x * cr.grad(lambda y: a * x * y**2)(2.0))(3.0) != 24 * a:
                wrong.append("reverse over reverse")
            if cr.grad(lambda x: x * cr.jvp(lambda y: a * x * y**2, (2.0,), (1.0,))[1])(3.0) != 24 * a:
                wrong.append("reverse over forward")
            if abs(cr.hessian(lambda x: np.sum(np.sin(a * x)))(x)[1, 1] + a * a * np.sin(a * x[1])) > 1e-12:
                wrong.append("hessian")
            with cr.no_grad():
                v = cr.Variable(a)
                if (v * v).creator is not None or cr.grad(lambda t: t * t * a)(1.0) != 2 * a:
                    wrong.append("no_grad")
            v = cr.Variable(a)
            (v * v * v).backward(create_graph=True)
            if cr.value(v.grad) != 3 * a * a:
                wrong.append("eager")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_no_grad_left_in_another_context_than_it_was_entered_in():
    x = cr.Variable(2.0)

    def steps():
        with cr.no_grad():
            yield x * x
            yield x * x

    source = steps()
    y = contextvars.copy_context().run(next, source)
    source.close()
    assert y.creator is None
    assert (x * x).creator is not None


# -- exceptions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit, SystemExit, asyncio.CancelledError])
def test_exceptions_and_interrupts_pass_through(error):
    def f(x):
        with contextlib.suppress(error):
            cr.jvp(lambda y: _raise(error), (x,), (1.0,))
        cr.grad(lambda y: _raise(error))(x)

    for run in (
        lambda: cr.grad(f)(1.0),
        lambda: cr.jvp(f, (1.0,), (1.0,)),
        lambda: cr.hessian(f)(1.0),
        lambda: cr.vjp(f, 1.0),
    ):
        with pytest.raises(error):
            run()
        assert not level._open
        assert cr.grad(lambda x: x * cr.grad(lambda y: x * y)(2.0))(3.0) == 6.0


def _raise(error):
    raise error


def test_an_interrupt_during_the_backward_pass():
    class Interrupted(cr.Function):
        def forward(self, x):
            return x

        def backward(self, ybar):
            raise KeyboardInterrupt

    threshold = gc.get_threshold()
    for run in (
        lambda: cr.grad(Interrupted())(1.0),
        lambda: cr.jvp(Interrupted(), (1.0,), (1.0,)),
        lambda: Interrupted()(cr.Variable(1.0)).backward(),
    ):
        with pytest.raises(KeyboardInterrupt):
            run()
        assert gc.get_threshold() == threshold
        assert np.geterr()["divide"] == "warn"


def test_the_users_error_state_holds_in_the_function_and_is_restored():
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        cr.grad(lambda x: np.sum(np.ones(2) / x))(np.zeros(2))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        cr.grad(lambda x: np.sum(np.ones(2) / x))(np.zeros(2))
    assert np.geterr()["divide"] == "warn"


def test_the_collectors_threshold_is_raised_while_a_transform_runs_only():
    before, seen = gc.get_threshold(), []
    cr.grad(lambda x: seen.append(gc.get_threshold()[0]) or cr.grad(lambda y: x * y)(1.0))(1.0)
    assert seen[0] == max(level.gc_threshold, before[0])
    assert gc.get_threshold() == before


# -- leaks -----------------------------------------------------------------------------------------------------------


def leak(mode):
    kept = []
    mode(lambda x: kept.append(x * 2) or x)(3.0)
    return kept[0]


@pytest.mark.parametrize("mode", [reverse, forward], ids=["reverse", "forward"])
def test_a_value_kept_after_its_transform_raises(mode):
    old = leak(mode)
    uses = (
        lambda: cr.grad(lambda y: y * old)(1.0),  # mixed with a value of a running transform
        lambda: cr.jvp(lambda y: y * old, (1.0,), (1.0,)),
        lambda: cr.grad(lambda y: np.sum(np.stack([y, old])))(1.0),
        lambda: cr.grad(lambda y: old)(1.0),  # a transform's result
        lambda: cr.grad(lambda y: old * 2)(1.0),
        lambda: cr.jvp(lambda y: old, (1.0,), (1.0,)),
        lambda: cr.jacobian(lambda y: old)(1.0),
        lambda: cr.grad(lambda y: old @ np.ones(2) * y if old.ndim else old * y)(1.0),
    )
    for use in uses:
        with pytest.raises(errors.LeakedValueError, match=r"made inside <lambda> \(test_levels\.py:\d+\)"):
            use()
    assert "6.0" in repr(old) and cr.value(old) == 6.0  # what is left of it can be looked at


def test_a_leaked_value_as_a_point_a_direction_or_a_seed():
    old = leak(reverse)
    for use in (
        lambda: cr.grad(lambda x: x * x)(old),
        lambda: cr.jvp(lambda x: x * x, (1.0,), (old,)),
        lambda: cr.vjp(lambda x: x * x, 1.0)[1](old),
        lambda: cr.Variable(old),
    ):
        try:
            result = use()
        except errors.LeakedValueError:
            continue
        leaves = result if isinstance(result, tuple) else (result,)
        # if it passes, what comes out is nothing but the leaked value's own kind, and says so when it is used further
        with pytest.raises(errors.LeakedValueError):
            cr.grad(lambda y: y * leaves[-1])(1.0)


def test_a_value_of_an_inner_transform_raises_in_the_outer_one():
    def f(x):
        kept = []
        cr.grad(lambda y: kept.append(y * x) or y * x)(2.0)
        return kept[0] * x

    with pytest.raises(errors.LeakedValueError):
        cr.grad(f)(3.0)
    with pytest.raises(errors.LeakedValueError):
        cr.jvp(f, (3.0,), (1.0,))


def test_generators_that_outlive_their_transform():
    def f(x):
        return (x * k for k in range(3))

    kept = []
    cr.grad(lambda x: kept.append(f(x)) or x)(2.0)
    with pytest.raises(errors.LeakedValueError):
        cr.grad(lambda y: sum(kept[0]) * y)(1.0)


# -- residuals hold values, never names ----------------------------------------------------------------------------


def test_an_outer_value_written_to_after_an_inner_use():
    def f(x):
        c = x * np.ones(2)
        y, pullback = cr.vjp(lambda t: np.sum(c * t), np.array([1.0, 1.0]))
        c[0] = 50.0  # after the inner call has kept c
        return np.sum(pullback(1.0)[0]) + y + c[1]

    # sum(c) as it was: 2x; y = 2x; c[1] = x
    assert cr.grad(f)(3.0) == 5.0
    assert cr.jvp(f, (3.0,), (1.0,))[1] == 5.0


def test_a_buffer_written_to_after_its_use():
    def f(x):
        c = np.zeros(2, like=x)
        c[:] = 3.0
        y = np.sum(c * x)
        c[0] = 5.0
        return y + c[0] * x

    assert cr.grad(f)(2.0) == 11.0
    assert cr.jvp(f, (2.0,), (1.0,))[1] == 11.0
    g = lambda x: cr.grad(lambda t: f(t) * x)(2.0)
    assert cr.grad(g)(3.0) == 11.0


def test_primal_and_pullback_inputs_written_to():
    def f(x):
        y = x * x
        x[0] = 100.0  # the argument inside the function is a name of its own
        return np.sum(y) + np.sum(x)

    x = np.array([1.0, 2.0])
    assert_allclose(cr.grad(f)(x), [2.0, 5.0])
    assert_allclose(x, [1.0, 2.0])
    assert_allclose(cr.jvp(f, (x,), (np.ones(2),))[1], 7.0)
    assert_allclose(x, [1.0, 2.0])
