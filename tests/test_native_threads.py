"""Blocks of kernels in threads: the same bits for any number of them, whoever calls, and whatever goes wrong."""

import multiprocessing
import os
import threading

import numpy as np
import pytest

import chainrule as cr

pytest.importorskip("llvmlite")

from chainrule.program.arguments import Sound
from chainrule.program.ir import interpret
from chainrule.program.native import blocks, mixed, nests, products_blocks, products_loops, threads
from chainrule.program.passes import optimise
from chainrule.program.trace import trace

RNG = np.random.default_rng(21)
COUNTS = (1, 2, 3, 7)


@pytest.fixture
def small(monkeypatch):
    """Let blocks be small, so that small arrays have many."""
    for module in (blocks, nests):
        monkeypatch.setattr(module, "WORK", 2000)
    monkeypatch.setattr(blocks, "SHARE", 1)
    monkeypatch.setattr(nests, "EVEN", 16)
    monkeypatch.setattr(products_blocks, "LIGHT", 1500)
    monkeypatch.setattr(products_blocks, "HEAVY", 3000)
    for module in (products_blocks, products_loops):
        monkeypatch.setattr(module, "BLOCK", 64)
    monkeypatch.setattr(blocks.count_of, "__defaults__", (2000,))


def built(f, *points):
    """Return (optimised program, its machine code)."""
    program = optimise(trace(f, points, {}, [True] * len(points))[0])
    runner = mixed.build(program)
    assert runner is not None
    return program, runner


def stages_of(runner):
    """Return the stages of all kernels."""
    return [stage for r in getattr(runner, "kernels", {"": runner}).values() for stage in r.stages]


def same_bits(f, *points, rtol=1e-12, cut=True):
    """Run a function with several numbers of threads: the same bits each time, and what NumPy says."""
    program, runner = built(f, *points)
    if cut:
        assert any(n is not None and n > 1 for _, n in stages_of(runner))
    found = []
    for n in COUNTS:
        with cr.config(threads=n):
            for _ in range(3):
                found.append([np.asarray(y) for y in runner(list(points))])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    with np.errstate(all="ignore"):
        expected = interpret(program, list(points))
    for a, b in zip(found[0], expected, strict=True):
        b = np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if b.dtype.kind == "f":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300)
            rtol = max(rtol, 1e-5) if b.dtype == np.float32 else rtol
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale))
        else:
            np.testing.assert_array_equal(a, b)
    return runner


# -- nests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [3001, 4096, 5003, 9999])
def test_chains(small, n, dtype):
    x = RNG.uniform(0.2, 1.5, n).astype(dtype)
    same_bits(lambda x: np.sin(x) * np.exp(-x) + np.sqrt(x) / (1 + x), x)
    same_bits(cr.value_and_grad(lambda x: np.sum(np.tanh(x) * np.log(x) + x**3)), x)
    same_bits(cr.value_and_grad(lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(x[::-1] * x)), x)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(41, 37, 29), (3, 50, 101), (700, 5, 3), (2, 3, 4001)])
def test_reductions(small, shape, axis, keepdims):
    x = RNG.uniform(0.5, 1.5, shape)

    def f(x):
        y = x * x - 1
        return [g(y, axis=axis, keepdims=keepdims) for g in (np.sum, np.mean, np.max, np.min)] + [
            np.any(y > 1.2, axis=axis, keepdims=keepdims), np.prod(x, axis=axis, keepdims=keepdims)
        ]  # fmt: skip

    same_bits(f, x, cut=shape == (41, 37, 29))


def test_extrema_of_nan_and_whole_numbers(small):
    x = RNG.normal(size=8000)
    x[5000] = np.nan
    same_bits(lambda x: (np.max(x * 2), np.min(x * 2), np.sum(np.where(x > 0, x, 0.0)), x + x), x)
    k = RNG.integers(-9, 9, size=9001)
    same_bits(lambda k: (k * 3 + 1, np.sum(k * 3), np.max(k + 1), k * k, np.sum(k > 2)), k)


def test_broadcasting_and_views(small):
    a, b, c = RNG.normal(size=(83, 1, 31)), RNG.normal(size=(57, 1)), RNG.normal(size=31)
    same_bits(lambda a, b, c: np.exp(-np.abs(a * b + c)), a, b, c)
    same_bits(cr.grad(lambda a, b, c: np.sum(np.tanh(a * b + c)), argnums=(0, 1, 2)), a, b, c)
    m = RNG.normal(size=(93, 71))
    same_bits(lambda m: (np.sin(m.T) * 2 + 1, np.concatenate([m[5:], m[:5] * 2]) * 3, np.roll(m, 7, axis=0) + m), m)
    same_bits(lambda m: (np.tril(m * 2) + 1, np.where(m > m[:, :1], m, -m)), m)


def test_gathers_and_scatters(small):
    x, where = RNG.normal(size=5000), RNG.integers(-5000, 5000, size=7003)

    def f(x, where):
        out = np.zeros(900, like=x)
        out[where % 900] += x[where] * 2
        return np.tanh(x[where]) + np.sin(x[where]), out, out * 2 + np.sum(x[where] ** 2)

    same_bits(f, x, where)
    same_bits(cr.grad(lambda x: np.sum(np.sin(x[where]) * x[where])), x)


def test_each_block_tells_whether_its_results_are_finite(small):
    _, runner = built(lambda x: np.exp(x) * 2, np.zeros(9001))
    for n in COUNTS:
        with cr.config(threads=n):
            assert isinstance(runner([np.zeros(9001)]), Sound)
            for k in (0, 17, 4096, 9000):
                x = np.zeros(9001)
                x[k] = 1e6
                found = runner([x])
                assert not isinstance(found, Sound)
                np.testing.assert_array_equal(np.isinf(found[0]), x > 0)


def test_sums_that_others_read(small):
    m = RNG.normal(size=(120, 60))

    def f(m):
        top = np.max(m, axis=1, keepdims=True)
        p = np.exp(m - top)
        q = p / np.sum(p, axis=1, keepdims=True)
        return np.sum(q, axis=0), np.sum(q * np.log(q)), q - np.mean(q), np.sum(q)

    same_bits(f, m)
    same_bits(cr.value_and_grad(lambda m: f(m)[1] + np.sum(f(m)[0] ** 2)), m)


def test_nothing_and_little(small):
    for n in (1, 2, 17):
        x = RNG.normal(size=n)
        same_bits(lambda x: (np.sin(x) * 2 + 1, np.sum(x * x)), x, cut=False)
    empty, large = np.zeros((0, 4)), RNG.normal(size=9000)
    same_bits(lambda e, x: (np.sin(e) * 2 + 1, np.sum(e * e, axis=0), np.sum(np.sin(x) * x)), empty, large)


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("s", "u"),
    [((333, 20), (20,)), ((20,), (20, 333)), ((17, 900), (900,)), ((900,), (900, 17)), ((5001,), (5001,)),
     ((130, 20), (20, 35)), ((20, 35), (35, 130)), ((9, 700), (700, 11)), ((11, 40, 6), (11, 6, 8)),
     ((3, 90, 20), (20, 9)), ((90, 20), (3, 20, 9))],
)  # fmt: skip
def test_products(small, s, u, dtype):
    x, y = RNG.normal(size=s).astype(dtype), RNG.normal(size=u).astype(dtype)
    same_bits(lambda x, y: (x @ y) * 2 + 1, x, y)


def test_products_in_other_layouts(small):
    x, y, v = RNG.normal(size=(130, 40)), RNG.normal(size=(130, 30)), RNG.normal(size=130)
    same_bits(lambda x, y, v: (x.T @ y * 2, x.T @ v * 2, v @ y + 1, np.outer(v, v) * 2), x, y, v)
    same_bits(lambda x, y: np.einsum("ki,kj->ij", x, y[::2][:65].repeat(2, axis=0)) * 2, x, y)
    same_bits(lambda x: np.einsum("ij,ij->i", x, x) * 2 + np.einsum("ij,kj->ik", x, x)[0], x)
    same_bits(lambda x, y: x[::3, ::2] @ y[:20, ::-1] * 2 + 1, x, y)


def test_regression_and_network(small):
    x, w, y = RNG.normal(size=(1100, 9)), RNG.normal(size=9), RNG.normal(size=1100)
    same_bits(cr.value_and_grad(lambda w, x, y: np.mean(np.logaddexp(0.0, -y * (x @ w)))), w, x, y)
    v = RNG.normal(size=(9, 33))
    same_bits(cr.value_and_grad(lambda v, x: np.mean(np.tanh(x @ v) ** 2)), v, x)


# -- at full size ------------------------------------------------------------------------------------------------------


def test_long_arrays_as_they_are():
    x = RNG.uniform(0.1, 0.9, 400_003)
    runner = same_bits(cr.value_and_grad(lambda x: np.sum(np.sin(x) * np.exp(x) / (1 + x * x))), x)
    assert max(n for _, n in runner.stages if n) > 8
    same_bits(lambda m: (np.sum(m * m, axis=0), np.sum(m * m, axis=1)), RNG.normal(size=(2000, 300)))
    same_bits(lambda m, v: (m @ v + 1, v[:300] * 2), RNG.normal(size=(3000, 500)), RNG.normal(size=500))


def test_blocks_depend_on_shapes_only():
    assert blocks.count_of(10**9, 10**6, 0) == blocks.MOST
    assert blocks.count_of(10**9, 5, 0) == 5
    assert blocks.count_of(blocks.WORK - 1, 10**6, 0) == 1
    assert blocks.count_of(10**8, 10**6, 10**6) == 6
    assert blocks.count_of(10**6, 10**6, 10**6) == 1


def test_short_programs_have_no_stages():
    _, runner = built(lambda x: np.sin(x) * 2, RNG.normal(size=2000))
    assert runner.stages == []


# -- threads -----------------------------------------------------------------------------------------------------------


def test_several_threads_do_run_blocks():
    met = threading.Barrier(3, timeout=30)
    seen = set()

    def call(points, frame, first, last):
        if len(seen) < 3 and threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            met.wait()  # nobody goes on before three are here
        return 0

    assert threads.run_blocks(call, (), 0, 12, 3) == 0
    assert len(seen) == 3


def test_all_blocks_are_run_once():
    for count in (1, 2, 5, 64):
        for n in (2, 3, 7, 100):
            done = []
            assert threads.run_blocks(lambda p, f, a, z: done.extend(range(a, z)) or 0, (), 0, count, n) == 0
            assert sorted(done) == list(range(count))


def test_the_first_code_counts():
    assert threads.run_blocks(lambda p, f, a, z: -3 if a <= 40 < z else 2 if a >= 50 else 0, (), 0, 64, 4) == -3


def test_an_error_waits_for_the_others():
    running = []

    def call(points, frame, first, last):
        running.append(first)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        threading.Event().wait(0.01)
        running.remove(first)
        return 0

    with pytest.raises(KeyboardInterrupt):
        threads.run_blocks(call, (), 0, 16, 4)
    assert len(running) == 1


def test_interrupts_while_others_are_at_work(monkeypatch):
    patience = iter([KeyboardInterrupt, KeyboardInterrupt])
    plain, ended = threads.wait, []

    def impatient(futures):
        stop = next(patience, None)
        if stop is not None:
            raise stop
        return plain(futures)

    def call(points, frame, first, last):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            threading.Event().wait(0.05)
            ended.append(first)
        else:
            begun.wait(30)
        return 0

    begun = threading.Event()
    monkeypatch.setattr(threads, "wait", impatient)
    with pytest.raises(KeyboardInterrupt):
        threads.run_blocks(call, (), 0, 2, 2)
    assert len(ended) == 1


def test_an_error_of_a_thread_is_raised():
    begun = threading.Event()

    def call(points, frame, first, last):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            raise MemoryError
        begun.wait(30)
        return 0

    with pytest.raises(MemoryError):
        threads.run_blocks(call, (), 0, 2, 2)


def test_without_a_thread_to_be_had(monkeypatch):
    class Ended:
        def submit(self, work):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(threads.POOL, "executor", Ended())
    done = []
    threads.run_blocks(lambda p, f, a, z: done.extend(range(a, z)) or 0, (), 0, 9, 4)
    assert sorted(done) == list(range(9))


def test_many_callers_at_once(small):
    g = cr.compile(cr.value_and_grad(lambda x: np.sum(np.sin(x) * x[::-1])), backend="native")
    arrays = [RNG.normal(size=6000) for _ in range(6)]
    want = [[np.asarray(y).tobytes() for y in g(x)] for x in arrays]
    want = [[np.asarray(y).tobytes() for y in g(x)] for x in arrays]
    wrong, start = [], threading.Barrier(6)

    def caller(k):
        start.wait()
        with cr.config(threads=k % 3 + 1):
            for _ in range(40):
                if [np.asarray(y).tobytes() for y in g(arrays[k])] != want[k]:
                    wrong.append(k)

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(6)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_an_index_out_of_bounds_and_a_guard_in_threads(small):
    _, runner = built(lambda x, k: np.sin(x[k]) * 2 + 1, np.zeros(3000), np.zeros(5000, np.int64))
    wrong = np.zeros(5000, np.int64)
    wrong[4900] = 3000
    with cr.config(threads=3):
        with pytest.raises(ArithmeticError):
            runner([np.zeros(3000), wrong])
        np.testing.assert_array_equal(runner([np.zeros(3000), wrong * 0])[0], np.ones(5000))

    def decides(x):
        return x * 3 if np.sum(x * 2) > 0 else -x

    g = cr.compile(decides, backend="native")
    x = np.abs(RNG.normal(size=5000))
    with cr.config(threads=2):
        for _ in range(2):
            np.testing.assert_array_equal(g(x), x * 3)
            np.testing.assert_array_equal(g(-x), x)


def in_child(queue, x):
    with cr.config(threads=2):
        queue.put([np.asarray(y).tobytes() for y in RUNNER([x])])


RUNNER = None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork(small):
    global RUNNER
    x = RNG.normal(size=6000)
    _, RUNNER = built(cr.value_and_grad(lambda x: np.sum(np.sin(x) * x)), x)
    with cr.config(threads=2):
        want = [np.asarray(y).tobytes() for y in RUNNER([x])]
    assert threads.POOL.executor is not None
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue, x))
    child.start()
    assert queue.get(timeout=60) == want
    child.join(timeout=60)
    assert child.exitcode == 0


def test_addresses_are_checked_in_threads(small):
    with cr.config(check_bounds=True, threads=3):
        same_bits(cr.value_and_grad(lambda x: np.sum(np.sin(x) * x[::-1])), RNG.normal(size=5003))
        m = RNG.normal(size=(200, 40))
        same_bits(lambda m: (m.T @ m * 2, np.sum(np.tanh(m), axis=0), m @ m[0] * 2), m)
