"""In a batch as in a single run: what NumPy makes a view is one, and what it makes a copy is one."""

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


@pytest.mark.parametrize("sample", sorted(of_one_array(), key=str), ids=str)
def test_writing_to_a_result_changes_the_argument_where_it_does_in_numpy(sample):
    f, x = overwritten(sample.function()), sample.operands()[0]
    with np.errstate(all="ignore"):
        try:
            want = np.stack([f(x), f(x * 1.01 + 0.003)])
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):  # not a function of such arrays
            return
        np.testing.assert_array_equal(cr.vmap(f)(np.stack([x, x * 1.01 + 0.003])), want)
        np.testing.assert_array_equal(cr.jvp(f, (x,), (x,))[0], want[0])
        np.testing.assert_array_equal(cr.vjp(f, x)[0], want[0])
