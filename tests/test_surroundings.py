"""What compiled functions read from outside: after each change results are those of the plain function."""

import array
import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import math
import os
import random
import sys
import time
import types
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import CompileWarning
from chainrule.program.names import names_in
from chainrule.program.surroundings import alike

X = np.array([0.5, 1.5, -2.0])
G, A, W, Z = 1.0, np.arange(9.0).reshape(3, 3), np.ones(3), np.array(2.0)


def put(holder, key, v):
    """Return a step that writes an entry."""
    return lambda: holder.__setitem__(key, v)


def attr(holder, name, v):
    """Return a step that sets an attribute."""
    return lambda: setattr(holder, name, v)


def glob(**values):
    """Return a step that sets globals."""
    return lambda: globals().update(values)


class Color(enum.Enum):
    R = 1
    G = 2


@dataclasses.dataclass
class Config:
    lr: float
    w: np.ndarray


class Base:
    factor = 3.0

    def __init__(self):
        self._k, self.h, self.store = 2.0, 2.0, {"a": 1.0}

    @property
    def k(self):
        return self._k

    @functools.cached_property
    def cached(self):
        return self._k * 3

    @staticmethod
    def static(x):
        return x * G

    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    def __getattr__(self, name):
        if name == "dynamic":
            return self.__dict__["_k"] * 10
        raise AttributeError(name)

    def __getitem__(self, key):
        return self.store[key]

    def __len__(self):
        return len(self.store)

    def __iter__(self):
        return iter(list(self.store.values()))


class Derived(Base):
    def __call__(self, x):
        return super().static(x) * self.k


class Descriptor:
    def __get__(self, owner, kind):
        return owner.h * G


class Described(Base):
    d = Descriptor()


class Meta(type):
    @property
    def z(cls):
        return G


class WithMeta(metaclass=Meta):
    pass


class Listed(list):
    pass


def module():
    made = types.ModuleType("a_module_of_the_user")
    exec("import numpy as np\nk, w = 2.0, np.ones(3)\ndef f(x): return x * k * w\n", made.__dict__)
    return made


@contextlib.contextmanager
def context():
    yield G


def in_context(x):
    with context() as g:
        return x * g


def numbers(n):
    for i in range(n):
        yield i * G


@functools.singledispatch
def dispatched(x):
    return x * G


def import_inside(x):
    import a_module_of_the_user

    return x * a_module_of_the_user.k


def namespace():
    ns = types.SimpleNamespace(a=2.0, w=np.ones(3), sub=types.SimpleNamespace(b=1.0))
    steps = attr(ns, "a", 3.0), attr(ns.sub, "b", 5.0), put(ns.w, 0, 9.0), attr(ns, "w", X)
    return lambda x: x * ns.a * ns.sub.b * ns.w, *steps


def containers():
    d, o = collections.deque([1.0, 2.0]), collections.OrderedDict(a=1.0, b=2.0)
    dd = collections.defaultdict(float, a=1.0)
    s, fs, t = {1.0, 2.0}, frozenset({3.0}), (1.0, [2.0], {"a": W})
    f = lambda x: x * sum(d) + next(iter(o.values())) + dd["a"] * sum(s) * sum(fs) + x * t[1][0] + t[2]["a"]
    return (
        f,
        lambda: d.append(3.0),
        lambda: o.move_to_end("a"),
        put(dd, "a", 4.0),
        lambda: s.add(7.0),
        put(t[1], 0, 9.0),
    )


def views_of_containers():
    base = {"a": 2.0}
    ro, chain, user = types.MappingProxyType(base), collections.ChainMap({}, base), collections.UserDict(a=1.0)
    return lambda x: x * ro["a"] * chain["a"] * user["a"], put(base, "a", 5.0), put(user, "a", 4.0)


def bytes_and_numbers():
    ba, ar = bytearray(b"\x01"), array.array("d", [1.0, 2.0])
    return lambda x: x * ba[0] + ar[1], put(ba, 0, 7), put(ar, 1, 3.0)


def subclass_of_list():
    made = Listed([1.0])
    made.extra = 2.0
    return lambda x: x * made[0] * made.extra, put(made, 0, 3.0), attr(made, "extra", 4.0), lambda: made.append(1.0)


def enumeration():
    cell = [Color.R]
    return lambda x: x * (2 if cell[0] is Color.R else 3), put(cell, 0, Color.G)


def dataclass():
    c = Config(1.0, np.ones(3))
    return lambda x: x * c.lr + c.w, attr(c, "lr", 2.0), put(c.w, 1, 7.0)


def modules():
    m = module()
    steps = attr(m, "k", 5.0), put(m.w, 0, 3.0), attr(m, "w", X * 2), put(m.w, 0, 4.0), attr(m, "f", lambda x: x)
    return lambda x: m.f(x) + m.k, *steps


def imported():
    sys.modules["a_module_of_the_user"] = m = module()
    return import_inside, attr(m, "k", 5.0)


def attributes():
    p = Base()
    f = lambda x: p.k * x + p.cached + p.static(x) + p.of_class(x) + p.dynamic
    return f, attr(p, "_k", 4.0), glob(G=2.0), attr(Base, "factor", 7.0), lambda: p.__dict__.pop("cached")


def protocols():
    p = Base()
    return lambda x: x * p["a"] * len(p) + sum(p), put(p.store, "a", 3.0), put(p.store, "b", 4.0)


def callable_object():
    q = Derived()
    return q, attr(q, "_k", 4.0), glob(G=3.0)


def computed_attributes():
    p, name = Base(), ["_k"]
    f = lambda x: x * getattr(p, name[0]) + vars(p)["h"] + (1.0 if hasattr(p, "flag") else 0.0)
    return f, attr(p, "_k", 19.0), put(name, 0, "factor"), attr(p, "h", 5.0), attr(p, "flag", True)


def defaults():
    k, w = [2.0], np.ones(3)
    return (lambda x, k=k, w=w: x * k[0] * w * 2), put(k, 0, 5.0), put(w, 0, 5.0)


def index_arrays():
    i, m = np.array([0, 2]), np.array([True, False, True])
    return lambda x: x[i] * 2 + x[m], put(i, 0, 1), put(m, slice(None), [False, True, True])


def arrays_of_other_kinds():
    z, o = np.array(2.0), np.array([1.0, [2.0]], dtype=object)
    return lambda x: x * z + o[0] + o[1][0], put(z, (), 5.0), put(o, 0, 7.0), put(o[1], 0, 8.0)


def table_of_functions():
    table = [lambda x, i=i: x * i * G for i in range(3)]
    return lambda x: sum(f(x) for f in table), glob(G=2.5), lambda: table.append(lambda x: x)


def variable_of_a_context():
    v = contextvars.ContextVar("v", default=2.0)
    return lambda x: x * v.get(), lambda: v.set(3.0)


def environment():
    os.environ["CHAINRULE_TEST"] = "2"
    return lambda x: x * float(os.environ["CHAINRULE_TEST"]), put(os.environ, "CHAINRULE_TEST", "3")


def scaled(v):
    return v * G


def simple(f, *steps):
    """Return a maker of a case that has no state of its own."""
    return lambda: (f, *steps)


DESCRIBED = Described()
fortran = np.asfortranarray(np.arange(9.0).reshape(3, 3))
CASES = {
    f.__name__: f
    for f in (
        namespace, containers, views_of_containers, bytes_and_numbers, subclass_of_list, enumeration, dataclass,
        modules, imported, attributes, protocols, callable_object, computed_attributes, defaults, index_arrays,
        arrays_of_other_kinds,
        table_of_functions, variable_of_a_context, environment,
    )
} | {
    "globals()": simple(lambda x: x * globals()["G"], glob(G=4.0)),
    "matrix": simple(lambda x: A.T @ x + A[0] + A[:, 1].sum() + A.shape[0], lambda: A.__setitem__((0, 1), -4.0),
                     glob(A=np.ones((3, 3))), glob(A=fortran)),
    "branch": simple(lambda x: x * 2 if A[0, 1] > 0.5 else x, lambda: A.__setitem__((0, 1), 0.25)),
    "plain arrays": simple(lambda x: np.asarray(A)[0] * x + sum(float(v) for v in A[1]),
                           lambda: A.__setitem__((0, 1), 7.0)),
    "gradient": simple(cr.grad(lambda x: np.sum(A @ x * G) ** 2), lambda: A.__setitem__((0, 1), 7.0), glob(G=2.0)),
    "context manager": simple(in_context, glob(G=5.0)),
    "generator": simple(lambda x: x * sum(numbers(3)), glob(G=6.0)),
    "metaclass": simple(lambda x: x * WithMeta.z, glob(G=7.0)),
    "descriptor": simple(lambda x, h=DESCRIBED: x * h.d, glob(G=7.0)),
    "key": simple(lambda x: sorted(x, key=lambda v: v * G)[0] * G, glob(G=-9.0)),
    "map": simple(lambda x: np.stack(list(map(scaled, x))), glob(G=-9.0)),
    "class inside": simple(lambda x: type("T", (), {"v": G})().v * x, glob(G=1.5)),
    "dispatch": simple(lambda x: dispatched(x), glob(G=5.5)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Put back what the steps change."""
    for name in ("G", "A", "W", "Z"):
        v = globals()[name]
        monkeypatch.setitem(globals(), name, v.copy() if isinstance(v, np.ndarray) else v)
    monkeypatch.setattr(Base, "factor", 3.0)
    yield
    sys.modules.pop("a_module_of_the_user", None)
    os.environ.pop("CHAINRULE_TEST", None)


@pytest.mark.parametrize("name", CASES)
def test_after_each_change_results_are_those_of_the_plain_function(name):
    f, *steps = CASES[name]()
    g = cr.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        for step in (lambda: None, *steps):
            step()
            for _ in range(3):
                np.testing.assert_allclose(g(X), f(X), rtol=1e-13)
    stats = g.stats()
    assert stats.traces <= 3 * (1 + len(steps))
    assert stats.fallbacks == 0
    before = stats.traces
    for _ in range(5):
        g(X)
    assert g.stats().traces == before


@pytest.mark.parametrize("f", [
    lambda x: x * A[0] if isinstance(A, np.ndarray) else x * 0, lambda x: x * 2 if type(x) is np.ndarray else x,
    lambda x: x[0] * 2 if isinstance(x, np.ndarray | float) else x, lambda x: x * 2 if np.isscalar(x[0]) else x,
    lambda x: x * 2 if hasattr(x, "shape") else x,
])  # fmt: skip
def test_code_that_asks_for_the_type_of_an_array_is_run_as_python(f):
    g = cr.compile(f)
    with pytest.warns(CompileWarning, match="of type"):
        np.testing.assert_array_equal(g(X), f(X))
    np.testing.assert_array_equal(g(X + 1), f(X + 1))


def test_code_that_reads_files_is_run_as_python(tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, 2.0)
    f = lambda x: x * np.load(path)
    g = cr.compile(f)
    with pytest.warns(CompileWarning, match=r"numpy\.load"):
        np.testing.assert_array_equal(g(X), X * 2)
    np.save(path, 3.0)
    np.testing.assert_array_equal(g(X), X * 3)


def test_too_large_a_container_is_refused():
    table = list(range(20_000))
    with pytest.warns(CompileWarning, match="20000 values"):
        assert cr.compile(lambda x: x * table[3])(2.0) == 6.0


def test_a_large_array_that_plain_code_changes_is_seen():
    work = np.zeros(1 << 18)  # 2 MB

    def f(x):
        work[3] += 1
        return x * float(work[3])

    g = cr.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        assert [g(2.0) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]


def test_names_in_code():
    def f(x):
        import math

        return [a.b.c(G) for a in x] + (lambda: math.pi)()

    found = names_in(f.__code__)
    assert found.globals >= {"G"}
    assert found.attributes >= {"b", "c", "pi"}
    assert found.imports == {"math"}


def test_alike():
    nan = float("nan")
    assert alike(nan, float("nan"))
    assert alike((1, "a", (2.0,)), (1, "a", (2.0,)))
    for a, b in ((0.0, -0.0), (1, True), (1, 1.0), (np.float32(1), np.float64(1)), ((1,), (1.0,)), ([1], [1])):
        assert not alike(a, b)


class Slotted:
    __slots__ = ("n",)


def iterating():
    endless = itertools.count()
    return lambda x: x + 1 if isinstance(x, np.ndarray) and endless else x


TABLE = np.array([1.0, 2.0])
WAYS = {
    "nothing": lambda x: x,
    "float": lambda x: x * math.sin(x[0]),
    "asarray": lambda x: x * np.asarray(x)[0],
    "not finite": lambda x: x * np.nan,
    "plain code with an array from outside": lambda x: x * np.interp(0.5, TABLE, np.asarray(TABLE)),
    "an error": lambda x: x[7],
    "isinstance": lambda x: x + 1 if isinstance(x, np.ndarray) else x,
    "isinstance, and a clock": lambda x: x + 1 if isinstance(x, np.ndarray) and time.time() else x,
    "isinstance, and an iterator": iterating(),
}


def with_memory(way):
    """Return a function that changes all kinds of things, and one that tells what they are."""
    holder, slotted, n = types.SimpleNamespace(n=0), Slotted(), 0
    listed, mapped, queue, known, array = [], {}, collections.deque(maxlen=3), set(), np.zeros(2)
    rng, slotted.n = random.Random(0), 0

    def f(x):
        nonlocal n
        n += 1
        holder.n += 1
        slotted.n += 1
        listed.append(n)
        mapped[n] = n
        queue.append(n)
        known.add(n)
        array[0] += 1
        setattr(holder, f"new{n}", n)
        return WAYS[way](x) * 2 + n + rng.random()

    def told():
        return repr((n, holder, slotted.n, listed, mapped, queue, known, array, rng.getstate()[1][:4]))

    return f, told


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore")
def test_what_a_function_changes_is_changed_once_in_each_call(way):
    f, after = with_memory(way)
    g, expected = with_memory(way)
    compiled = cr.compile(f)
    for _ in range(5):
        found = []
        for h in (compiled, g):
            try:
                found.append(h(np.ones(2)))
            except IndexError:
                found.append(None)
        np.testing.assert_array_equal(*found)
        assert after() == expected()


def test_code_that_was_put_into_a_function_is_seen():
    def inner(x):
        return x * 2

    def other(x):
        return x * 3

    f = cr.compile(lambda x: inner(x))
    assert [f(1.0), f(1.0)] == [2.0, 2.0]
    inner.__code__ = other.__code__  # as tools do that reload modules
    assert [f(1.0), f(1.0)] == [3.0, 3.0]


def test_surroundings_that_change_in_each_call_end_as_python():
    class Model:
        w = 1.0

    model = Model()
    g = cr.compile(lambda x: np.sum(x * model.w), paths=2)
    with pytest.warns(CompileWarning, match="its surroundings changed 8 times"):
        for k in range(20):
            model.w = np.full(3, float(k))
            assert g(np.ones(3)) == 3.0 * k


def test_a_function_that_calls_itself_without_end_says_so():
    @cr.compile
    def f(x):
        return f(x) + 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for _ in range(2):
            with pytest.raises(RecursionError):
                f(1.0)
    assert cr.compile(cr.grad(np.sin))(0.0) == 1.0
