"""In a batch as in a single run: what NumPy makes a view is one, and what it makes a copy is one."""

import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.indexing import getitem
from chainrule.engine.spec import real_part, sum_to
from chainrule.testing.samples import all_samples

ENGINES = (getitem, real_part, sum_to)  # no user calls these: views are noted by those who do


def of_one_array():
    """Return the samples of functions of one array."""
    found = []
    for sample in all_samples():
        xs = sample.operands()
        if not sample.error and sample.fun not in ENGINES and len(xs) == 1:
            x = xs[0]
            if isinstance(x, np.ndarray) and x.size and x.ndim and x.dtype.kind == "f":
                found.append(sample)
    return found


def overwritten(call):
    """Return a function that overwrites what `call` makes of an array, and returns that array."""

    def f(x):
        b = x * 1.0
        ys = call(b)
        for y in ys if isinstance(ys, tuple | list) else [ys]:
            if getattr(y, "shape", ()) and np.dtype(getattr(y, "dtype", float)).kind in "fc":
                try:
                    y[...] = 7.25
                except ValueError as error:
                    assert "read-only" in str(error)
        return b

    return f


def refuses(sample):
    """Tell whether NumPy's own function does not take two such arrays one after the other."""
    f, x = overwritten(sample.function()), sample.operands()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            f(x)
            f(x * 1.01 + 0.003)
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
            return True
    return False


SAMPLES = sorted([s for s in of_one_array() if not refuses(s)], key=str)


def test_most_functions_of_one_array_are_compared():
    assert len(SAMPLES) > 0.9 * len(of_one_array())


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_writing_to_a_result_changes_the_argument_where_it_does_in_numpy(sample):
    f, x = overwritten(sample.function()), sample.operands()[0]
    with np.errstate(all="ignore"):
        want = np.stack([f(x), f(x * 1.01 + 0.003)])
        np.testing.assert_array_equal(cr.vmap(f)(np.stack([x, x * 1.01 + 0.003])), want)
        np.testing.assert_array_equal(cr.jvp(f, (x,), (x,))[0], want[0])
        np.testing.assert_array_equal(cr.vjp(f, x)[0], want[0])


@pytest.mark.parametrize("make", [
    lambda x: np.sin(x[:2, None] * x),  # the batch ends up between the axes
    lambda x: np.sin(np.outer(x, x).T),
    lambda x: np.stack([x, 2 * x], axis=1).T,
    lambda x: np.multiply.outer(x, x)[:, ::-1],
])  # fmt: skip
@pytest.mark.parametrize("in_axes", [0, 1])
def test_ravel_of_what_a_run_made_is_a_view_where_it_is_one_in_a_single_run(make, in_axes):
    def f(x):
        y = make(x)
        flat = np.ravel(y)[1:]
        flat[0] *= 7.0
        return y

    batch = np.random.default_rng(4).normal(size=(5, 3))
    want = np.stack([f(x) for x in batch])
    np.testing.assert_allclose(cr.vmap(f, in_axes=in_axes)(batch if in_axes == 0 else batch.T.copy()), want, rtol=1e-15)
