"""Random programs: whatever is written with the functions below has the derivative that differences give.

A program is a list of steps. Each takes one or two of the values made so far, so that values are used several times, at
several shapes, through views and writes. The result is everything that was made, so that nothing is left unchecked.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr

UNARY = (
    np.sin,
    np.tanh,
    lambda a: np.exp(-(a**2)),
    lambda a: np.sqrt(1 + a * a),
    lambda a: np.log(2 + np.cos(a)),
    lambda a: 1 / (3 + np.sin(a)),
    lambda a: -a,
    lambda a: np.where(alternate(a), np.cos(a), a / 2),
)
BINARY = (
    np.add,
    np.subtract,
    np.multiply,
    lambda a, b: a / (2 + b * b),
    lambda a, b: np.arctan2(a, 2 + b * b),
    lambda a, b: np.where(alternate(a + b), a, b),
    lambda a, b: (1.5 + np.cos(a)) ** np.sin(b),
)
SHAPES = (
    lambda a: a.T,
    lambda a: a[..., None],
    lambda a: a.reshape(-1),
    lambda a: np.concatenate([a.ravel(), a.ravel()[::-1]]),
    lambda a: np.broadcast_to(a, (2, *a.shape)),
)
REDUCTIONS = (
    lambda a, k: np.sum(a, axis=k),
    lambda a, k: np.mean(a, axis=k, keepdims=True),
    lambda a, k: np.max(a + ramp(a), axis=k),
    lambda a, k: np.cumsum(a, axis=k),
    lambda a, k: np.prod(1 + a / 4, axis=k),
    lambda a, k: np.sort(a + ramp(a), axis=k),
)
PARTS = (
    lambda a: a[0],
    lambda a: a[-1:],
    lambda a: a[::-1],
    lambda a: a[[0, -1, 0]],
    lambda a: a[alternate(a)],
    lambda a: np.take(a, [0, 0, -1], axis=-1),
)


def alternate(a):
    """Return a mask that does not depend on values: every other entry."""
    return (np.arange(np.size(a)) % 2 == 0).reshape(np.shape(a))


def ramp(a):
    """Return numbers far enough apart that no order among values changes."""
    return 50.0 * ((7 * np.arange(np.size(a))) % 31).reshape(np.shape(a))


def written(a, b):
    """Write twice into a copy, once through a view, and add in place."""
    y = a * 1
    y[0] = np.sum(b) / 8
    row = y[-1:]
    row *= 2
    y[...] += 0.5 * y[::-1]
    return y


def compatible(a, b):
    """Tell whether two values broadcast."""
    try:
        return len(np.broadcast_shapes(a.shape, b.shape)) < 5 and np.prod(np.broadcast_shapes(a.shape, b.shape)) <= 48
    except ValueError:
        return False


STEPS = st.tuples(st.integers(0, 5), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))


def run(steps, x, w):
    """Run a program: each step is a kind, a function of the kind, and the values (or the axis) it takes."""
    made = [x, w]
    for kind, which, first, second in steps:
        a = made[first % len(made)]
        if kind == 0:
            y = UNARY[which % len(UNARY)](a)
        elif kind == 1:
            b = made[second % len(made)]
            y = BINARY[which % len(BINARY)](a, b if compatible(a, b) else 0.5 * a)
        elif a.ndim == 0 or a.size == 0:
            y = np.cos(a)
        elif kind == 2 and a.size <= 12 and a.ndim < 4:
            y = SHAPES[which % len(SHAPES)](a)
        elif kind == 3:
            y = REDUCTIONS[which % len(REDUCTIONS)](a, second % a.ndim)
        elif kind == 4:
            y = PARTS[which % len(PARTS)](a)
        else:
            y = written(a, made[second % len(made)])
        made.append(np.sin(y) if np.size(y) and np.max(np.abs(cr.value(y))) > 3 else y)
    return made[2:]


def point(seed):
    """Return a point: a matrix and a vector."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.5, 1.5, (2, 3)), rng.uniform(-1.5, 1.5, 3)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8), st.integers(0, 1000))
def test_first_derivatives_of_random_programs(steps, seed):
    cr.check_grads(lambda x, w: run(steps, x, w), point(seed), order=1)


@settings(max_examples=12, derandomize=True, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=5), st.integers(0, 1000))
def test_second_derivatives_of_random_programs(steps, seed):
    cr.check_grads(lambda x, w: run(steps, x, w), point(seed), order=2)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=12), st.integers(0, 1000))
def test_modes_agree_and_values_are_numpys(steps, seed):
    x, w = point(seed)
    f = lambda x, w: run(steps, x, w)[-1]
    y = f(x.copy(), w.copy())
    jf, jr = (cr.jacobian(f, (0, 1), mode=mode)(x, w) for mode in ("forward", "reverse"))
    for a, b in zip(jf, jr, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    z, _ = cr.vjp(f, x, w)
    assert type(z) is type(y)
    np.testing.assert_allclose(z, y, rtol=1e-12)
