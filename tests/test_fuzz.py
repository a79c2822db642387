"""The differential fuzzer, a short run; what its long runs found, each as a test of its own."""

import numpy as np

import chainrule as cr
from chainrule.program.ir import interpret


def written_view(x, b):
    """Return a comparison of a view that a write to its base has made stale."""
    base = np.ones((1, 3), like=x)
    view = base[:]
    view[...] = np.sum(x)
    return np.where(view > b, view, b)


def test_a_view_made_stale_is_of_a_batch_before_it_is_read_anew():
    x, b = np.array([[0.5, 0.25], [1.0, 2.0]]), np.array([[1.0, 0.5, 2.0], [2.0, 4.0, 1.0]])
    want = np.stack([written_view(x[k], b[k]) for k in range(2)])
    np.testing.assert_array_equal(cr.vmap(written_view)(x, b), want)


def test_a_comparison_of_a_view_made_stale_is_recorded():
    x, b = np.array([0.5, 0.25]), np.array([1.0, 0.5, 2.0])
    program = cr.record(written_view)(x, b)
    np.testing.assert_array_equal(interpret(program, [4 * x, b])[0], written_view(4 * x, b))
