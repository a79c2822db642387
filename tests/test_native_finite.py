"""Machine code tells whether the arrays that it gives out are finite: for NaN and infinities at every place."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr
from chainrule.program import native
from chainrule.program.arguments import Sound, finite
from chainrule.program.passes import optimise
from chainrule.program.record import record

RNG = np.random.default_rng(5)


def runner_of(f, *xs):
    return native.build(optimise(record(f)(*xs)))


def check(run, f, *xs):
    """Check that outputs count as finite if and only if they are."""
    with np.errstate(all="ignore"):
        outputs, want = run(list(xs)), f(*xs)
    want = want if want.__class__ is tuple else (want,)
    good = all(np.isfinite(y).all() for y in want)
    arrays_good = all(np.isfinite(y).all() for y in want if np.ndim(y))
    assert (outputs.__class__ is Sound) == arrays_good
    assert finite(outputs) == good
    for a, b in zip(outputs, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [129, 136, 200, 1000, 4099])
def test_a_strange_entry_anywhere(n, dtype):
    x = RNG.normal(size=n).astype(dtype)

    def f(x):
        return np.abs(x) * x.dtype.type(2.0)

    run = runner_of(f, x)
    check(run, f, x)
    for k in {0, 1, 7, 8, 15, 64, n // 2, n - 9, n - 8, n - 2, n - 1}:
        for strange in (np.nan, -np.nan, np.inf, -np.inf):
            y = x.copy()
            y[k] = strange
            check(run, f, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_finite_numbers_of_all_sizes(dtype):
    limits = np.finfo(dtype)
    x = np.full(333, limits.max)
    x[::3], x[1::3] = -limits.max, limits.smallest_subnormal
    x[:4] = 0.0, -0.0, limits.tiny, -limits.tiny
    check(runner_of(lambda x: -np.abs(x), x), lambda x: -np.abs(x), x)


def test_overflow_on_the_way():
    def f(x):
        return np.exp(x), np.sum(x)

    x = RNG.normal(size=300)
    run = runner_of(f, x)
    check(run, f, x)
    x[17] = 800.0
    check(run, f, x)
    x[17] = -np.inf
    check(run, f, x)  # the array is finite, the number is not


def test_pieces_rows_and_columns():
    def f(x):
        y = np.concatenate([x[:, :1] * 2.0, x[:, 1:] * 3.0], axis=1)
        return y, np.roll(x, 2, axis=0) * x.T[:, ::-1].T[::-1], 1.0 / np.sqrt(np.sum(x, axis=1, keepdims=True)) * x

    x = 2.0 + np.abs(RNG.normal(size=(21, 13)))
    run = runner_of(f, x)
    check(run, f, x)
    for i, j in ((0, 0), (0, 12), (20, 0), (20, 12), (3, 1), (18, 7)):
        y = x.copy()
        y[i, j] = np.nan
        check(run, f, y)


def test_lanes_that_do_not_count_are_not_looked_at():
    def f(x):
        return np.log(1.0 - x), np.sum(1.0 / x)  # of the 1 that masked lanes have it is not finite

    x = 0.5 * RNG.random(131) + 0.1
    check(runner_of(f, x), f, x)


def test_results_that_are_not_finite_are_those_of_the_function():
    f = cr.compile(cr.grad(lambda x: np.sum(np.sqrt(x) * np.exp(x))), backend="native")
    x = RNG.random(500) + 0.5
    f(x)
    x[[3, 499]] = 0.0, 1000.0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x), cr.grad(lambda x: np.sum(np.sqrt(x) * np.exp(x)))(x))


def test_what_is_stored_otherwise_is_looked_at_afterwards():
    def f(x):
        return x @ x, np.cumsum(x, axis=0)

    x = RNG.normal(size=(20, 20))
    run = runner_of(f, x)
    assert run([x]).__class__ is list
    x[3, 4] = np.inf
    with np.errstate(all="ignore"):
        assert not finite(run([x]))
