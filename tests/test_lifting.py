"""Arrays in lists, tuples and dicts outside of a compiled function are read anew in each call."""

import warnings

import numpy as np
import pytest

import chainrule as cr

X = np.array([0.3, -1.2, 2.0])


def listed():
    """Weights in a list: written to, replaced, exchanged."""
    held = [np.full(3, 2.0), np.array([1.0, 0.5, -1.0])]

    def f(x):
        return np.sum(x * held[0] + np.sin(x) * held[1] * (2 if held[1][0] > -5 else 3))

    return f, [lambda: held[0].fill(3.0), lambda: put(held, 1, np.arange(3.0)), held.reverse]


def keyed():
    """Weights in a dict, of which all values are taken."""
    held = {"w": np.full(3, 0.5), "b": np.arange(3.0)}

    def f(x):
        return sum(np.sum(np.sin(x * v)) for v in held.values())

    return f, [lambda: put(held["w"], 0, 4.0), lambda: put(held, "b", np.full(3, -1.0))]


def nested():
    """Layers of weights, as networks keep them."""
    layers = [(np.eye(3) * 0.5, np.zeros(3)), (np.eye(3) - 0.1, np.full(3, 0.2))]

    def f(x):
        for w, b in layers:
            x = np.tanh(w @ x + b)
        return np.sum(x)

    return f, [lambda: put(layers[0][0], (0, 1), 0.7), lambda: layers[1][1].fill(-0.3)]


def with_itself():
    """A list that stands in itself."""
    held = [np.full(3, 2.0)]
    held.append(held)
    return lambda x: np.sum(x * held[1][1][0]), [lambda: held[0].fill(0.25)]


def put(holder, key, v):
    """Set an entry."""
    holder[key] = v


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("make", [listed, keyed, nested, with_itself])
def test_arrays_in_containers_are_inputs(make, backend):
    f, steps = make()
    g = cr.compile(cr.grad(f), backend=backend)
    for step in [lambda: None, lambda: None, *steps]:
        step()
        np.testing.assert_allclose(g(X), cr.grad(f)(X), rtol=1e-13)
    assert g.stats().traces == 1
    assert not g.stats().eager


def test_other_entries_of_a_container_are_compared():
    held = [np.ones(3), 2.0]
    g = cr.compile(lambda x: x * held[0] * held[1])
    g(X)
    held[1] = -1.0
    np.testing.assert_array_equal(g(X), -X)
    held.insert(0, np.full(3, 4.0))
    with pytest.raises(ValueError, match="could not be broadcast|operands"):
        held[1] = np.ones(2)
        g(X)


WEIGHTS = np.ones(3)


class Holder:
    """What holds a function beside the module."""


def weighted(x, plain=False):
    """Read a global array, as a traced value or as a plain number."""
    return x * float(WEIGHTS[0]) if plain else x * WEIGHTS


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_function_that_is_reached_in_two_ways_reads_its_globals_anew(backend, plain, monkeypatch):
    holder, table = Holder(), {"again": [weighted]}
    holder.weighted = weighted

    def f(x):
        return np.sum(weighted(x) + 2 * holder.weighted(x, plain) + 3 * table["again"][0](x))

    g = cr.compile(cr.grad(f), backend=backend)
    for w in (np.ones(3), np.full(3, 7.0), np.array([0.5, 1.0, 2.0])):
        monkeypatch.setitem(globals(), "WEIGHTS", w)
        for _ in range(2):
            np.testing.assert_allclose(g(X), 4 * w + 2 * (w[0] if plain else w))
            w[1] += 0.25


def test_a_function_that_changes_its_container_is_run_as_python():
    held = [np.zeros(3)]

    def f(x):
        held[0] = held[0] + 1.0
        return np.sum(x * held[0])

    g = cr.compile(cr.grad(f))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.errors.CompileWarning)
        assert [g(X)[0] for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    np.testing.assert_array_equal(held[0], [4.0, 4.0, 4.0])


def test_a_container_that_a_function_keeps_is_the_one_that_it_found():
    seen, held = [], {"w": np.ones(3)}

    def f(x):
        seen.append(held)
        return np.sum(x * held["w"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.errors.CompileWarning)
        g = cr.compile(cr.grad(f))
        g(X)
        g(X)
    assert [s is held for s in seen] == [True, True]
    assert type(held["w"]) is np.ndarray
