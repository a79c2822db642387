"""Machine code whose addresses are checked: sound programs run as ever, and a planted fault is told instead of done."""

import numpy as np
import pytest

import chainrule as cr

pytest.importorskip("llvmlite")

from chainrule.errors import BoundsError
from chainrule.program.ir import interpret
from chainrule.program.native import blas, builder, functions, mixed, nests_loops
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.program.trace import trace
from chainrule.testing.samples import all_samples

RNG = np.random.default_rng(5)


class Captured:
    """What holds an array that is compared, and no input of a program."""

    a = RNG.normal(size=(9, 400))[::-2, 3:303:2]


TABLE = RNG.integers(-50, 50, size=500)
X = RNG.uniform(0.5, 1.5, size=1003)
M = RNG.normal(size=(40, 37))


@pytest.fixture(autouse=True)
def checked():
    with cr.config(check_bounds=True, backend="native"):
        yield


# -- sound programs ----------------------------------------------------------------------------------------------------


def chain(x):
    return np.sum(np.tanh(x[1:] * x[:-1]) + np.exp(-x[:-1]) * x[::-1][1:])


def rows(m):
    p = np.exp(m - np.max(m, axis=1, keepdims=True))
    return np.sum(np.log(np.sum(p, axis=0)) * np.mean(m, axis=0)) + np.sum(np.cumsum(m, axis=1) ** 2)


def gathers(x):
    y = x[TABLE] * np.sin(x[TABLE[::-1] + 60])
    out = np.zeros(200, like=x)
    out[TABLE % 150] += y
    return np.sum(out * out) + x[np.argmax(x)]


def multiplies(m):
    g = m.T @ m
    h = np.einsum("ij,kj->ik", m, np.tanh(m)) @ m[:, 0]
    return np.sum(g @ g[:, :5]) + np.sum(h * h) + np.sum(np.outer(m[0], m[1])[::3])


def captures(x):
    a = Captured.a
    return np.sum(a * x[:150] + a.T[:, :1].T) + np.sum(np.float32(2) * x.astype(np.float32)[::2])


def joins(m):
    out = np.concatenate([m[::-1], m[:3] * 2, np.zeros((2, 37), like=m)])
    out[5:20, ::4] = np.tril(m)[5:20, ::4]
    return np.sum(np.where(out > 0, out, 0.1 * out) ** 2) + np.sum(np.roll(out, 3, axis=0)[:, 1] * out[:, 2])


def counts(x):
    y, n = x[0] * 1.0, 0
    while y < 40.0 and n < 500:
        y, n = y + 0.1 * np.sin(y) ** 2 + 0.05, n + 1
    return y


def grows(x):
    y = x[:5] * 1.0
    while np.sum(y) < 60.0:
        y = y + 0.01 * np.sin(y) ** 2 + 0.01
    return np.sum(y * y)


def rounds(x):
    s = np.zeros(5)
    for k in range(40):
        s = np.tanh(s + x[k] * 0.1) * 0.9 + x[k : k + 5] * 0.01
    return np.sum(s)


PROGRAMS = {"chain": (chain, X), "rows": (rows, M), "gathers": (gathers, X), "multiplies": (multiplies, M),
            "captures": (captures, X), "joins": (joins, M), "counts": (counts, X), "grows": (grows, X),
            "rounds": (rounds, X)}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_sound_programs_run(name):
    f, x = PROGRAMS[name]
    for g in (f, cr.value_and_grad(f)) if name != "multiplies" else (cr.value_and_grad(f),):
        compiled = cr.compile(g)
        compiled(x)
        for found, want in zip(*[y if isinstance(y, tuple) else (y,) for y in (compiled(x), g(x))], strict=True):
            scale = np.max(np.abs(want))
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11 * scale)
        assert compiled.stats().native
        assert compiled.stats().fallbacks == 0
        assert "good" in compiled.lower(x).source


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 63, 65, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_odd_lengths(size, dtype):
    x = np.linspace(0.1, 1, size).astype(dtype)
    f = lambda x: np.sum(np.where(x > 0.5, np.sin(x) * x[::-1], x)) + x @ x
    _, (value, gradient) = twice(cr.value_and_grad(f), x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12 if dtype == np.float64 else 1e-5)
    np.testing.assert_allclose(gradient, cr.grad(f)(x), rtol=1e-12 if dtype == np.float64 else 1e-5)


def total(y):
    """Return a real number that depends on all parts of a result."""
    if isinstance(y, tuple | list):
        return sum([total(v) for v in y])
    return np.sum(np.sin(y)) if np.asarray(y).dtype.kind == "f" else 0.0


@pytest.mark.parametrize("part", range(4))
def test_samples_and_their_gradients(monkeypatch, part):
    monkeypatch.setattr(mixed, "LEAST", 1)
    built = 0
    for sample in [s for s in all_samples() if not s.error and s.accepts("float64")][9 * part :: 80]:
        f, points = sample.function(), sample.operands("float64")
        g = cr.grad(lambda *xs: total(f(*xs)), argnums=tuple(range(len(points))))
        for h in (f, g):
            try:
                program = optimise(record(h)(*points))
            except Exception:  # what can't be recorded is no matter of the back end
                continue
            runner = mixed.build(program)
            if runner is not None:
                built += 1
                with np.errstate(all="ignore"):
                    for a, b in zip(runner(points), interpret(program, points), strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert built > 5


# -- planted faults ----------------------------------------------------------------------------------------------------


def twice(f, x):
    """Compile and call: the first call is traced, the second one machine code."""
    compiled = cr.compile(f)
    return compiled(x), compiled(x)


def shorter(monkeypatch, name, by=8):
    """Let the memory of a name be taken for some bytes shorter than it is."""
    based, frame = builder.Module.based, functions.Functions.frame

    def less(high):
        return high - by if isinstance(high, int) else high._replace(text="8")

    monkeypatch.setattr(builder.Module, "based", lambda self, p, high, what, low=0: based(
        self, p, less(high) if what.startswith(name) else high, what, low))  # fmt: skip
    monkeypatch.setattr(functions.Functions, "frame", lambda self, first, size, what="a place": frame(
        self, first, size - by if what.startswith(name) else size, what))  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "what", "f", "x"),
    [("the input", "load", chain, X), ("the output", "store", lambda x: x * 2.0 + 1.0, X),
     ("the captured array", "load", captures, X), ("a table", "load", gathers, X),
     ("the frame's memory", "load", rows, M), ("the records", "store", cr.grad(grows), X),
     ("a place", "store", lambda x: np.sum(x[:3]) * 2.0, X),
     ("the object", "load", lambda x: x * 2.0 + 1.0, X),
     ("the tuple", "load", lambda x: x[:3] * 2.0 + 1.0, X)],
)  # fmt: skip
def test_memory_that_is_shorter_than_the_code_believes(monkeypatch, memory, what, f, x):
    shorter(monkeypatch, memory, 32 if memory == "the object" else 8)
    with pytest.raises(BoundsError, match=memory) as caught:
        twice(f, x)
    if memory in ("the input", "the output", "the captured array"):
        assert f"would {what} " in str(caught.value)
        assert "test_native_checks.py:" in str(caught.value)
        assert "equation: " in str(caught.value)


def test_the_error_tells_index_extent_and_equation(monkeypatch):
    def doubled(x):
        return np.arctan(x) / 3.0

    shorter(monkeypatch, "the output")
    with pytest.raises(BoundsError) as caught:
        twice(doubled, np.arange(1000.0))
    text = str(caught.value)
    assert "at byte 7936 of the output" in text  # the last vector or the last entries
    assert "which has 0 to 7992" in text
    assert "divide(" in text
    assert f"where: test_native_checks.py:{doubled.__code__.co_firstlineno + 1} in doubled" in text


def test_a_lane_too_many(monkeypatch):
    plain = builder.Builder.load_some
    monkeypatch.setattr(builder.Builder, "load_some",
                        lambda self, kind, p, live, lanes: plain(self, kind, p, live + 1, lanes))  # fmt: skip
    with pytest.raises(BoundsError, match="would load"):
        twice(lambda x: np.sum(np.sin(x) * 2.0), X)  # the rest of a sum is a vector with a mask


def test_a_loop_that_is_a_round_too_long(monkeypatch):
    plain = nests_loops.Loops.inner
    monkeypatch.setattr(nests_loops.Loops, "inner", lambda self, low, high: plain(self, low, high + 1))
    with pytest.raises(BoundsError, match="would load"):
        twice(lambda x: x * x + 1.0, X)


def test_a_step_too_wide_in_an_operand_of_blas(monkeypatch):
    if not blas.has_blas("d"):
        pytest.skip("there is no BLAS")
    plain = blas.reach
    monkeypatch.setattr(blas, "reach", lambda name, *axes: plain(name, *axes) + (name == "y"))
    with pytest.raises(BoundsError, match="would load"):
        twice(lambda x: x @ (x.T + 1.0), RNG.normal(size=(300, 300)))


def test_nothing_is_written(monkeypatch):
    room = np.full(1010, 7.0)
    x = np.arange(1003.0)
    program, _ = trace(lambda x: np.sqrt(x) + 1.0, (x,), {}, [True])
    program = optimise(program)
    plain = nests_loops.Loops.inner
    monkeypatch.setattr(nests_loops.Loops, "inner", lambda self, low, high: plain(self, low, high + 5))
    monkeypatch.setattr(builder.Builder, "check", only_stores(builder.Builder.check))
    runner = mixed.build(program)
    runner.run.__globals__["empty"] = lambda *_: room[:1003]
    given = np.arange(1010.0)[:1003]  # reads behind it are not looked at here
    with pytest.raises(BoundsError, match="would store"):
        runner([given])
    assert (room[1003:] == 7.0).all()


def only_stores(check):
    return lambda self, p, size, what="load": check(self, p, size, what) if what == "store" else None


def test_a_pointer_from_nowhere_is_refused():
    module = builder.Module()
    module.checks = builder.Checks(0)
    b = builder.Builder(module, "f", "i32", ["ptr", "ptr"])
    with pytest.raises(AssertionError, match="no home"):
        b.load("double", b.arguments[0])


def test_without_the_setting_there_are_no_checks():
    with cr.config(check_bounds=False):
        assert "good" not in cr.compile(chain).lower(X).source
