"""Results lie in memory as NumPy's do, so that flat views of them, which are written to, are views, or copies."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import tree
from chainrule.engine.boxed import value
from chainrule.engine.rule import full_name
from chainrule.testing.samples import all_samples

# by rows where NumPy's lie otherwise, for some arguments: docs/limits.md
OTHERWISE = {"numpy.einsum", "numpy.histogram2d", "numpy.linalg.matrix_power", "numpy.polyval", "numpy.quantile"}


def layouts(results):
    """Tell of each array whether it lies by rows, and whether by columns."""
    arrays = [value(y) for y in tree.flatten(results)[0]]
    return [(y.flags.c_contiguous, y.flags.f_contiguous) if np.ndim(y) > 1 and np.size(y) > 1 else None for y in arrays]


def fresh(operands, order):
    """Return operands with arrays that lie by rows, or by columns."""
    return [x.copy(order) if isinstance(x, np.ndarray) else x for x in operands]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.filterwarnings("ignore")
def test_results_lie_as_in_numpy(order):
    compared, other = 0, set()
    for s in all_samples():
        if s.error or not s.accepts("float64") or not full_name(s.fun).startswith(("numpy.", "scipy.")):
            continue
        f, operands, found = s.function(), s.operands(), []

        def noted(*xs, f=f, found=found):
            y = f(*xs)
            found.append(layouts(y))
            return y

        with np.errstate(all="ignore"):
            want = layouts(f(*fresh(operands, order)))
            tangents = tree.tree_map(np.ones_like, tuple(fresh(operands, order)))
            cr.jvp(noted, tuple(fresh(operands, order)), tangents)
        compared += any(w is not None for w in want)
        if found[0] != want:
            other.add(full_name(s.fun))
    assert compared > 300
    assert other <= OTHERWISE, other - OTHERWISE


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.take(x, [2, 0], axis=1),
        lambda x: np.compress([True, False, True], x, axis=1),
        lambda x: np.sort(x.T),
        lambda x: np.delete(x.T, 1, axis=0),
        lambda x: np.select([x.T > 2], [x.T], 0.5),
        lambda x: np.pad(x.T, 1),
        lambda x: 2 * x[[0, -1]],
        lambda x: 2 * x[:, [0, -1]],
        lambda x: x[:, [0, -1]].T,
    ],
    ids=["take", "compress", "sort", "delete", "select", "pad", "rows", "columns", "columns turned"],
)
def test_what_is_written_to_a_flat_array_is_in_the_result_if_it_is_in_numpy(f):
    def written(x):
        y = f(np.sin(x))
        np.ravel(y)[1] = 7.0
        return y

    x = np.array([[0.3, 0.2, 0.1], [0.6, 0.4, 0.5]])
    want = written(x)
    np.testing.assert_array_equal(cr.jvp(written, (x,), (x,))[0], want)
    np.testing.assert_array_equal(cr.vjp(written, x)[0], want)
    np.testing.assert_array_equal(cr.compile(written)(x), want)
    np.testing.assert_array_equal(cr.vmap(written)(np.stack([x, x]))[1], want)


@pytest.mark.parametrize(
    "f", [lambda a: a * 2, lambda a: np.sin(a).T, lambda a: a.T * 1, lambda a: np.cumsum(a, axis=0)]
)
@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out_axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["C", "F"])
def test_results_of_batches_lie_by_rows(f, in_axis, out_axis, order):
    x = np.arange(24.0).reshape(2, 3, 4).copy(order)

    def written(y):
        np.ravel(y)[0] = 100.0
        y.reshape(-1)[-1] = -5.0
        return y * 1

    def batch(x):
        return written(cr.vmap(f, in_axis, out_axis)(x))

    parts = [f(np.take(x, k, axis=in_axis)) for k in range(x.shape[in_axis])]
    want = written(np.stack(parts, axis=out_axis).copy("C"))
    for found in (batch(x), cr.vjp(batch, x)[0], cr.jvp(batch, (x,), (x,))[0], cr.flat(batch)(x).function(x)):
        np.testing.assert_array_equal(found, want)
