"""Arrays in lists, tuples and dicts outside of a compiled function are read anew in each call."""

import contextlib
import contextvars
import functools
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


class Objects:
    """An object of which some attributes hold what globals and closures hold."""

    def __init__(self, **held):
        self.__dict__.update(held)


def same_as_plain(make, *, backend="numpy", calls=5):
    """Compare a compiled function with the plain one, on what it returns and on what it leaves behind, step by step.

    `make` returns a function, the steps, and what is to be compared afterwards.
    """
    (f, steps, held), (plain, same_steps, expected) = make(), make()
    g = cr.compile(f, backend=backend)
    nothing = [lambda: None] * calls
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.errors.CompileWarning)
        for step, same_step in zip([*nothing, *steps, *nothing], [*nothing, *same_steps, *nothing], strict=True):
            step()
            same_step()
            np.testing.assert_allclose(g(X.copy()), plain(X.copy()), rtol=1e-13)
            assert repr(held) == repr(expected)
            assert "Tracer" not in repr([type(v) for v in walked(held)])
    return g


def walked(v):
    """Return all values in containers and objects."""
    inside = list(v.values()) if isinstance(v, dict) else list(v) if isinstance(v, list | tuple) else []
    inside += list(getattr(v, "__dict__", {}).values())
    return [v, *[w for part in inside for w in walked(part)]]


def held_twice():
    """A container that an object holds, too."""
    layers = [np.ones(3), np.full(3, 2.0)]
    model = Objects(layers=layers, first=layers[0])

    def f(x):
        factor = (2 if layers is model.layers else 3) * (5 if layers[0] is model.first else 7)
        return factor * np.sum(x * layers[0] * model.layers[1])

    return f, [lambda: put(layers, 0, np.arange(3.0)), lambda: setattr(model, "layers", [*layers])], []


def put_and_taken_back():
    """An entry that is another for a while, in which an object's way is gone."""
    held = {"w": np.ones(3)}
    model = Objects(held=held)

    def inner(x):
        return np.sum(model.held["w"] * x)

    def f(x):
        kept, held["w"] = held["w"], x * 2
        try:
            return inner(x)
        finally:
            held["w"] = kept

    return f, [lambda: held["w"].fill(3.0)], [held]


def put_and_taken_back_by_a_manager():
    """The same, in a generator that the standard library calls."""
    held = {"w": np.ones(3)}

    @contextlib.contextmanager
    def scaled(k):
        kept, held["w"] = held["w"], held["w"] * k
        yield
        held["w"] = kept

    def f(x):
        with scaled(3.0):
            y = np.sum(held["w"] * x)
        return y + np.sum(held["w"] * x * x)

    return f, [lambda: held["w"].fill(3.0), lambda: put(held, "w", np.arange(3.0))], [held]


def asked_by_object():
    """Arrays that are told apart by which object they are."""
    params, gains = [np.ones(3), np.full(3, 4.0)], {}
    gains[id(params[0])] = 10.0
    chosen = [params[1]]

    def f(x):
        y = sum(np.sum(x * p) * gains.get(id(p), 1.0) for p in params)
        return y + sum(np.sum(x * x * p) for p in params if p is chosen[0])

    return f, [params.reverse, lambda: put(chosen, 0, params[1]), lambda: put(params, 1, np.zeros(3))], []


def keyed_by_function():
    """Functions as the keys of dicts, one of which an object holds."""
    w = [np.ones(3)]

    def one(x):
        return x * w[0]

    def two(x):
        return np.sin(x) * w[0]

    gains, table = {one: 2.0}, Objects(gains={two: 5.0})
    functions = [one, two]

    def f(x):
        return sum(np.sum(h(x)) * gains.get(h, 1.0) * table.gains.get(h, 1.0) for h in functions)

    return f, [functions.reverse, lambda: put(gains, two, 3.0), lambda: put(w, 0, np.arange(3.0))], []


def attributes_of_functions():
    """What functions hold as attributes, read and counted."""
    w = [np.ones(3)]

    def g(x):
        return np.sum(x * w[0]) * g.scale * np.sum(g.held[0])

    g.scale, g.held, g.calls = 2.0, [np.ones(3)], 0
    return g, [
        lambda: setattr(g, "scale", 3.0), lambda: put(g.held, 0, np.arange(3.0)), lambda: put(g.held[0], 1, 7.0),
    ], [g.__dict__]  # fmt: skip


def counted_by_functions():
    """A function that counts its calls."""
    w = [np.ones(3)]

    def g(x):
        g.calls += 1
        return np.sum(x * w[0]) * g.calls

    g.calls = 0
    return g, [lambda: w[0].fill(2.0)], [g.__dict__]


def wrapped():
    """A function that is reached through its wrapper, and inside it."""
    w = [np.ones(3)]

    def inner(x):
        return np.sum(w[0] * x)

    @functools.wraps(inner)
    def outer(x):
        return 2 * inner(x)

    return lambda x: outer(x) + outer.__wrapped__(x) + inner(x), [lambda: put(w, 0, np.arange(3.0))], []


def partly_called():
    """A function that is partly called, and the partial call compared with itself."""
    w = [np.ones(3)]

    def inner(k, x):
        return np.sum(w[0] * x) * k

    part = functools.partial(inner, 2.0)
    parts = [part, functools.partial(inner, 3.0)]
    return lambda x: part(x) + sum(p(x) for p in parts if p != part), [lambda: put(w, 0, np.arange(3.0))], []


def in_rings():
    """Containers that hold themselves by way of others."""
    node = {"w": np.ones(3)}
    node["pair"] = ([node], node)

    def f(x):
        return np.sum(node["pair"][0][0]["w"] * x) + np.sum(node["pair"][1]["w"] * x * x)

    return f, [lambda: node["w"].fill(2.0), lambda: put(node, "w", np.arange(3.0))], []


def written_beside():
    """An array that is written by one name and read by another."""
    buffers = [np.ones(3)]
    model = Objects(buffer=buffers[0])

    def f(x):
        buffers[0][:] = buffers[0] + x
        return np.sum(model.buffer)

    return f, [lambda: put(buffers, 0, np.zeros(3)), lambda: setattr(model, "buffer", buffers[0])], [buffers]


def kept():
    """A function, a container and values, in a tuple, that the function keeps."""
    w, seen, model = [np.ones(3)], [], Objects(last=None)

    def inner(x):
        return np.sum(x * w[0])

    def f(x):
        seen.append((w, w[0] * 2, x, {"a": [x + 1]}))
        model.last = inner
        return model.last(x) + len(seen)

    return f, [lambda: put(w, 0, np.arange(3.0)), lambda: put(w, 0, np.zeros(3))], [w, seen]


def kept_once():
    """A function that is made inside, and kept."""
    w, seen = [np.ones(3)], {}

    def f(x):
        def inner(y):
            return np.sum(y * w[0])

        return seen.setdefault("inner", inner)(x)

    return f, [lambda: put(w, 0, np.arange(3.0)), seen.clear, lambda: w[0].fill(3.0)], []


def written_plainly_beside():
    """Two arrays that are written to: one that an object holds, one that is found in two containers."""
    model, both = Objects(w=np.ones(3)), np.full(3, 2.0)
    one, two = [both], [both]

    def f(x):
        model.w[:] *= 0.5
        one[0][0] += 1
        return np.sum(x * model.w) + np.sum(two[0] * x)

    return f, [lambda: put(two, 0, np.ones(3)), lambda: model.w.fill(8.0)], [model.__dict__, one, two]


class Slotted:
    """A counter without a dict."""

    __slots__ = ("n",)


def counted_in_slots():
    """A count in an object with slots."""
    w, count = [np.ones(3)], Slotted()
    count.n = 0

    def f(x):
        count.n = count.n + 1
        return np.sum(x * w[0]) * count.n

    return f, [lambda: put(w, 0, np.arange(3.0)), lambda: setattr(count, "n", 0)], [w]


class Computed:
    """An object with attributes that are computed."""

    def __getattr__(self, name):
        if name == "factor":
            return 2.0
        raise AttributeError(name)


def computed_until_set():
    """An attribute that is computed until it is set."""
    held = Computed()
    return lambda x: np.sum(x) * held.factor, [lambda: setattr(held, "factor", 3.0)], []


def in_context():
    """A list that is the default of a context variable."""
    current = contextvars.ContextVar("current", default=[np.ones(3)])  # noqa: B039 (users do)
    return lambda x: np.sum(x * current.get()[0]), [lambda: put(current.get(), 0, np.arange(3.0))], []


def kept_in_a_long_list():
    """Results in a list that is too long to be compared."""
    w, seen = [np.ones(3)], [0.0] * 10_001

    def f(x):
        seen.append(np.sum(x * w[0]))
        return seen[-1]

    return f, [lambda: w[0].fill(2.0)], [seen, w]


MADE = [
    held_twice, put_and_taken_back, put_and_taken_back_by_a_manager, asked_by_object, keyed_by_function,
    attributes_of_functions, counted_by_functions, wrapped, partly_called, in_rings, written_beside, kept, kept_once,
    kept_in_a_long_list, written_plainly_beside, counted_in_slots, computed_until_set, in_context,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("make", MADE)
def test_results_and_what_is_left_are_those_of_the_plain_function(make, backend):
    same_as_plain(make, backend=backend)


def test_containers_that_hold_themselves_are_read_anew():
    assert same_as_plain(in_rings).stats().traces == 1


def test_objects_that_raise_for_any_name_are_read():
    class Names(dict):
        def __getattr__(self, name):
            return self[name]

    held = Names(w=np.ones(3))
    g = cr.compile(lambda x: np.sum(x * held.w))
    assert g(X) == np.sum(X)
    held["w"] = np.arange(3.0)
    assert g(X) == np.sum(X * held["w"])


def test_an_argument_that_is_written_to_may_be_what_an_object_holds():
    model = Objects(w=np.ones(3))

    def f(x):
        x[:] = 2 * x
        return np.sum(model.w)

    g = cr.compile(f)
    assert [g(model.w) for _ in range(3)] == [6.0, 12.0, 24.0]
    assert [g(np.ones(3)) for _ in range(2)] == [24.0, 24.0]


ASKED = [np.ones(3)]


def test_containers_in_globals_that_code_asks_for_as_a_dict_are_compared():
    def f(x):
        return np.sum(x * globals()["ASKED"][0])

    g = cr.compile(f)
    for w in (np.ones(3), np.arange(3.0)):
        ASKED[0] = w
        for _ in range(2):
            np.testing.assert_allclose(g(X), np.sum(X * w))


def test_an_attribute_that_is_called_id_asks_for_no_object():
    held, model = [np.ones(3)], Objects(id=2.0)
    g = cr.compile(lambda x: np.sum(x * held[0]) * model.id if model is not None else x)
    for w in (np.ones(3), np.arange(3.0)):
        held[0] = w
        np.testing.assert_allclose(g(X), 2 * np.sum(X * w))
    assert g.stats().traces == 1
