"""How much code there is: it is bounded, whatever the lengths of axes, since compiling takes a time in proportion."""

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr
from chainrule.program.native.kernels import Arrays
from chainrule.program.passes import optimise
from chainrule.program.record import record

MOST = 12_500  # lines of LLVM's text, of the gradients below; about a third of a second


def lines_of(f, *xs):
    with np.errstate(all="ignore"):
        return Arrays(optimise(record(f)(*xs))).write().count("\n")


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.sum((e / e.sum(axis=axis, keepdims=True)) ** 2)


def normalise(x, axis):
    return np.sum(((x - x.mean(axis=axis, keepdims=True)) / x.std(axis=axis, keepdims=True)) ** 3)


def lengths(x, axis):
    return np.sum(np.sqrt(np.sum(x**2, axis=axis)))


def of_exponentials(x, axis):
    m = x.max(axis=axis, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - m), axis=axis)) + m.squeeze(axis))


FUNCTIONS = {"softmax": softmax, "normalise": normalise, "lengths": lengths, "of_exponentials": of_exponentials}
SHAPES = [
    *itertools.product((2, 7, 30), (3, 16, 64)), (1000, 8), (300, 20), (20, 300), (33, 7), (200, 10),
    (1000, 50, 10), (1000, 30, 8), (3, 10, 7), (8, 300, 16), (7, 300, 4), (12, 7, 2), (30, 30, 7), (300, 3, 10),
    (12, 12, 2, 2), (5, 5, 9, 4), (12, 20, 9, 5), (2, 3, 4, 16),
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reductions_over_each_axis_of_arrays_of_all_forms(name):
    f = FUNCTIONS[name]
    for shape in SHAPES:
        x = np.random.default_rng(0).normal(size=shape)
        for axis in range(len(shape)):
            assert lines_of(cr.grad(lambda x, axis=axis: f(x, axis)), x) < MOST, (shape, axis)


def test_distances_of_all_pairs():
    def f(x):
        d = x[:, None] - x[None]
        return np.sum(1.0 / np.sqrt(np.sum(d**2, axis=-1) + 1.0))

    for n, m in itertools.product((7, 20, 64), (2, 3, 10, 30)):
        assert lines_of(cr.grad(f), np.ones((n, m))) < MOST // 2, (n, m)


def test_products_of_short_and_long_matrices():
    for m, k, n in itertools.product((2, 5, 17), (3, 46), (10, 160, 333)):
        assert lines_of(cr.grad(lambda x, y: np.sum(np.sin(x @ y)), (0, 1)), np.ones((m, k)), np.ones((k, n))) < 2500


def test_equal_products_share_their_code():
    def chain(n):
        def f(x):
            y = x
            for _ in range(n):
                y = np.sin(y) @ x
            return y

        return lines_of(f, np.ones((20, 20)))

    assert chain(4) - chain(3) == chain(3) - chain(2) < 120  # the sine, and a call


def test_chains_are_short():
    def poly(x):
        return np.sum(1.0 + x * (2.0 + x * (3.0 + x * (4.0 + x * 5.0))))

    assert lines_of(cr.value_and_grad(poly), np.linspace(0.0, 1.0, 10_000)) < 300
