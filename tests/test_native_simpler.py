"""Calls on large arrays that are written as simpler ones: against NumPy, of all dtypes, layouts and special numbers."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.program import native
from chainrule.program.native.driver import Runner
from chainrule.program.passes import optimise
from chainrule.program.record import record

RNG = np.random.default_rng(7)
# fmt: off
REDUCTIONS = {
    "var": lambda x, axis: np.var(x, axis=axis),
    "var of a sample": lambda x, axis: np.var(x, axis=axis, ddof=1, keepdims=True),
    "std": lambda x, axis: np.std(x, axis=axis),
    "std of a sample": lambda x, axis: np.std(x, axis=axis, ddof=1.5, keepdims=True),
    "norm": lambda x, axis: np.linalg.norm(x.reshape(-1) if axis is None else x, axis=axis),
}
CASES = {
    "tile": ((17, 13), lambda x: np.tile(x, (2, 3))),
    "tile with more axes": ((17, 13), lambda x: np.tile(x, (2, 1, 3))),
    "tile of fewer": ((17, 13), lambda x: np.tile(x, 3)),
    "tile a row": ((5,), lambda x: np.tile(x, (40, 2))),
    "repeat rows": ((17, 13), lambda x: np.repeat(x, 3, axis=0)),
    "repeat columns": ((17, 13), lambda x: np.repeat(x, 4, axis=-1)),
    "repeat in a row": ((67,), lambda x: np.repeat(x, 5)),
    "hstack": ((17, 13), lambda x: np.hstack([x, 2 * x, x])),
    "vstack": ((17, 13), lambda x: np.vstack([x, x * x])),
    "column_stack": ((213,), lambda x: np.column_stack([x, 3 * x])),
    "nan_to_num": ((17, 13), lambda x: np.nan_to_num(x, nan=0.5, neginf=-3.0)),
    "round": ((17, 13), lambda x: np.round(x * 3)),
    "running sum of all": ((17, 13), lambda x: np.cumsum(x)),
    "running product of all": ((17, 13), lambda x: np.cumprod(1 + 0.01 * x)),
    "truth values": ((17, 13), lambda x: np.where(
        np.logical_xor(np.logical_not(x > 0.3), np.logical_or(x < 0.1, x > 1)), x, 2 * x)),
    "count": ((17, 13), lambda x: np.count_nonzero(x > 0, axis=0) * x),
    "count what is not 0": ((17, 13), lambda x: np.count_nonzero(np.maximum(x, 0), axis=1, keepdims=True) * x),
}
# fmt: on


def of_layout(shape, dtype, layout="rows"):
    """Return entries, stored row by row, column by column, or with gaps and backwards."""
    x = RNG.normal(size=shape).astype(dtype)
    if layout == "columns":
        return np.asfortranarray(x)
    if layout == "gaps":
        return np.repeat(x, 2, axis=-1)[..., ::-2]
    return x


def must(f, *points, tol=1e-12):
    """Check that a function is one kernel, and gives what NumPy gives."""
    with np.errstate(all="ignore"):
        runner = native.build(optimise(record(f)(*points)))
        assert runner.__class__ is Runner  # nothing is left to Python
        want = f(*points)
        [got] = runner(list(points))
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert np.shape(got) == want.shape
    tol = 5e-6 if want.dtype == np.float32 else tol
    scale = np.abs(want[np.isfinite(want)]).max(initial=0)
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol * scale)


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_moments_and_lengths(name, axis, dtype, layout):
    if name == "norm" and axis == (0, 2):
        axis = 1
    must(lambda x: 2 * REDUCTIONS[name](x, axis), of_layout((7, 13, 5), dtype, layout))


@pytest.mark.parametrize("name", ["var", "var of a sample", "std", "std of a sample"])
def test_moments_of_small_arrays(name):
    must(lambda x: 2 * REDUCTIONS[name](x, 1), of_layout((4, 5), float))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_moments_and_lengths_of_special_numbers(name, special):
    x = of_layout((9, 33), float)
    x[2, 5] = special
    must(lambda x: 2 * REDUCTIONS[name](x, 1), x)


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_places_and_entries(name, dtype, layout):
    shape, f = CASES[name]
    x = of_layout(shape, dtype, layout)
    must(lambda x: f(x) * x.dtype.type(2), x)
    x.ravel()[:4] = np.nan, np.inf, -np.inf, -0.0
    if layout == "rows":
        must(lambda x: f(x) * x.dtype.type(2), x)


def test_sums_to_fewer_axes_and_axes_of_length_one():
    from chainrule.engine.spec import sum_to

    must(lambda x: 2 * sum_to(x, shape=(1, 5)), of_layout((7, 13, 5), float))
    must(lambda x: 2 * sum_to(x, shape=(13, 1)), of_layout((7, 13, 5), float))


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "log_softmax"])
def test_sums_of_exponentials(name, axis):
    pytest.importorskip("scipy")
    from chainrule.scipy import special

    f, x = getattr(special, name), of_layout((33, 17), float)
    must(lambda x: 2 * f(x, axis=axis), x)
    x[3, 4], x[5, 6] = -np.inf, np.inf
    must(lambda x: 2 * f(x, axis=axis), x)
