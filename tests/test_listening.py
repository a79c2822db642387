"""What a recording hears of the user's code, though Python's trace hook is off in most of the library's own calls."""

import contextlib
import sys
import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule.program import trace as tracing
from chainrule.program.loops import listening

X = np.array([0.3, -0.7, 1.1])
ONES = np.ones(2)
factor = 2.0


def scaled(x):
    """Read a global."""
    return x * factor


def follows(f, *args):
    """Check that a compiled function follows a change of the global it reads, and of its arguments."""
    global factor
    compiled = cr.compile(f)
    try:
        for value in (2.0, 3.0, -0.5):
            factor = value
            for _ in range(2):
                np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-13)
            np.testing.assert_allclose(compiled(*[x + 1 for x in args]), f(*[x + 1 for x in args]), rtol=1e-13)
    finally:
        factor = 2.0
    return compiled.stats()


@pytest.fixture
def heard(monkeypatch):
    """Collect what each trace heard: (whether all of it, names of the functions that ran, rounds of loops)."""
    found = []

    class Noting(listening.listening):
        def __exit__(self, *exc):
            recording = self.recording
            super().__exit__(*exc)
            names = {code.co_name for code in recording.frames}
            found.append((self.active, names, [len(run.marks) for run in recording.loops]))

    monkeypatch.setattr(tracing, "listening", Noting)
    return found


def test_loops_and_functions_are_heard_around_calls_of_numpy(heard):
    def inner(x):
        return np.tanh(x) * 0.5

    def f(x):
        for _ in range(6):
            x = inner(x) + np.sum(x) * 0.1
        return np.sum(x * x)

    assert follows(cr.grad(f), X).fallbacks == 0
    assert heard[0][0]
    assert {"f", "inner"} <= heard[0][1]
    assert heard[0][2] == [7]  # where the loop is entered, and each time it comes round


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions of Python listen at little cost")
def test_the_hook_is_off_while_a_call_is_recorded(monkeypatch):
    hooks = {"plain": [], "user": []}
    plain = tracing.Tracer.process

    def process(rule, *args):
        hooks["plain"].append(sys.gettrace())
        return plain(rule, *args)

    monkeypatch.setattr(tracing.Tracer, "process", staticmethod(process))

    def f(x):
        y = np.sin(x) * 2.0 + x
        hooks["user"].append(repr(sys.gettrace()))
        return np.sum(y)

    cr.compile(cr.grad(f))(X)
    assert hooks["plain"]
    assert not any(hooks["plain"])
    assert all("called" in hook for hook in hooks["user"][:1])
    assert sys.gettrace() is None or "listening" not in repr(sys.gettrace())


@pytest.mark.parametrize(
    "fails",
    [lambda x: x @ ONES, lambda x: np.add(x, ONES), lambda x: np.concatenate([x, ONES[:, None]])],
    ids=["operator", "ufunc", "function"],
)
def test_after_an_exception_in_a_call_what_runs_is_known(fails):
    def directly(x):
        for _ in range(6):
            try:
                x = x @ ONES
            except ValueError:
                x = scaled(x)
        return np.sum(x)

    def in_a_function(x):
        for _ in range(6):
            try:
                x = fails(x)
            except ValueError:
                x = scaled(x)
        return np.sum(x)

    def swallowed(x):
        for _ in range(6):
            with contextlib.suppress(ValueError):
                x = fails(x)
        return np.sum(scaled(x))

    for f in (directly, in_a_function, swallowed):
        follows(f, X)
        follows(cr.grad(f), X)


def test_after_an_exception_that_is_kept_what_runs_is_known(heard):
    def f(x):
        kept = None
        try:
            x = x @ ONES
        except ValueError as error:
            kept = error
        y = scaled(x)
        return np.sum(y) if kept is not None else x

    follows(f, X)
    follows(cr.grad(f), X)


def test_an_exception_that_another_thread_drops_is_noticed(heard):
    def f(x):
        handed = []
        try:
            x = x @ ONES
        except ValueError as error:
            handed.append(error)
        thread = threading.Thread(target=handed.clear)
        thread.start()
        thread.join()
        return np.sum(scaled(x))

    follows(f, X)
    assert sys.version_info >= (3, 12) or not heard[0][0]


def test_values_of_foreign_types_are_asked_by_code_that_is_heard():
    class Reading:
        def __array__(self, dtype=None, copy=None):
            return np.full(3, factor)

    given = Reading()
    follows(lambda x: np.sum(x * given), X)
    follows(cr.grad(lambda x: np.sum(x * np.cos(x) * given)), X)


def test_rules_of_the_user_are_heard_in_a_backward_pass(heard):
    @cr.custom_vjp
    def cube(x):
        return x**3

    def forward(x):
        return x**3, x

    def backward(x, ybar):
        return (ybar * scaled(3.0 * x * x),)

    cube.defvjp(forward, backward)

    def f(x):
        for _ in range(5):
            x = np.sin(cube(x) * 0.5) + x
        return np.sum(x)

    follows(cr.grad(f), X)
    assert "scaled" in heard[0][1]


def test_after_a_backward_pass_that_raises_what_runs_is_known(heard):
    @cr.custom_vjp
    def broken(x):
        return np.sum(x)

    def backward(x, ybar):
        raise FloatingPointError

    broken.defvjp(lambda x: (np.sum(x), x), backward)

    def f(x):
        try:
            g = cr.grad(lambda x: broken(x * 2.0))(x)
        except FloatingPointError:
            g = scaled(x)
        return np.sum(g * g)

    follows(f, X)


def test_generators_of_the_user_are_heard(heard):
    def parts(x):
        for k in range(3):
            yield np.sin(x) * (k * factor)

    def f(x):
        total = 0.0
        for part in parts(x):
            total = total + np.sum(part)
        return total

    follows(cr.grad(f), X)
    assert "parts" in heard[0][1]


def test_a_hook_that_python_took_off_is_noticed(heard):
    def deep(x, n):
        return scaled(x) if n == 0 else deep(x + 0.0, n - 1)

    def f(x):
        with contextlib.suppress(RecursionError):
            deep(x, 10**6)
        return np.sum(scaled(x))

    follows(f, X)
    follows(cr.grad(f), X)
