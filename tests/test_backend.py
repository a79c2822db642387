"""The back end against the interpreter: the same numbers of the same types, in memory that nothing else holds."""

import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule.program.backend import blocks, build
from chainrule.program.ir import GuardFailed, interpret
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.program.trace import trace
from chainrule.testing.samples import all_samples

SAMPLES = [s for s in all_samples() if not s.error]
UNRECORDED = {np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all}  # the shapes of whose results vary
LOOSE = {"float16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


def arrays_in(values):
    """Return the arrays among values."""
    return [v for v in values if isinstance(v, np.ndarray)]


def same(program, points, rtol=1e-12, times=3):
    """Run a program with memory poisoned between its uses, and compare each run with the interpreter's."""
    run = build(program, poison=True)
    with np.errstate(all="ignore"):
        expected = interpret(program, points)
    before = [np.array(p) for p in points]
    held = []
    for _ in range(times):
        found = run(points)
        compare(found, expected, rtol)
        kept = arrays_in(found)
        for k, y in enumerate(kept):
            assert y.flags.writeable
            others = [*held, *kept[:k], *arrays_in(points), *program.constants.values()]
            assert not any(np.may_share_memory(y, z) for z in others if z.size)
        for y in kept:  # what the caller does to a result is seen by no later call
            y[...] = 0
        held += kept
    for a, b in zip(points, before, strict=True):
        np.testing.assert_array_equal(a, b)
    return run


def compare(found, expected, rtol):
    """Compare outputs: types, shapes, dtypes and numbers."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert np.shape(a) == np.shape(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        b = np.asarray(b)
        if b.dtype.kind in "fc":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale))
        else:
            np.testing.assert_array_equal(a, b)


def total(y):
    """Return a real number that depends on all parts of a result."""
    if isinstance(y, tuple | list):
        return sum([total(v) for v in y])
    kind = np.dtype(getattr(y, "dtype", type(y))).kind
    if kind not in "fc":
        return 0.0
    return np.sum(np.real(y) * 1.25) + (np.sum(np.imag(y)) if kind == "c" else 0.0)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_and_their_gradients(sample):
    f = sample.function()
    for dtype in ("float64", "float32", "complex128"):
        if not sample.accepts(dtype):
            continue
        points = sample.operands(dtype)
        rtol = LOOSE.get(dtype, 1e-12) * max(sample.looseness, 1)
        where = tuple(range(len(points)))
        both = (f, cr.grad(lambda *xs: total(f(*xs)), argnums=where))
        for g in both[: 1 if sample.fun in UNRECORDED else 2]:
            program = record(g)(*points)
            same(program, points, rtol, times=2)
            same(optimise(program), points, rtol, times=1)


def same_for(f, *points, **options):
    """Compare the program of a function, as recorded and as optimised."""
    program = record(f)(*points)
    same(program, points, **options)
    return same(optimise(program), points, **options)


def test_python_numbers_stay_python_numbers():
    run = same_for(lambda x, a: (x * a, a * 2.0, -a, a > 1.0, x + 1), np.ones(3), 2.0)
    assert type(run([np.ones(3), 3.0])[1]) is float


def test_scalars_are_computed_by_python():
    run = same_for(cr.value_and_grad(lambda x: np.exp(-(np.sin(x) ** 2)) / np.sqrt(x)), np.float64(0.7))
    assert "math_exp" in run.source and "np." not in run.source


def test_scalars_without_axes_are_arrays_where_numpy_makes_arrays():
    same_for(lambda x: (np.reshape(x, ()), np.where(x > 0, x, 2.0), x[...], x[()], np.sum(x)), np.array(0.7))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int8", "int64", "bool"])
def test_mixed_dtypes(dtype):
    a = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    b = np.float64(1.5)
    f = lambda x, y, z: (x * 2, x + 1.5, x * y, np.sum(x) * z, x == 1, np.sum(x, axis=0) * y)
    same(traced(f, a, b, 2.5), [a, b, 2.5], LOOSE.get(dtype, 1e-12))


def test_strided_empty_and_shapeless_operands():
    a = np.arange(24.0).reshape(4, 6)
    f = lambda x: (np.sum(x * 2 + 1, axis=0), np.sum(np.sin(x)), x.T @ x, np.reshape(x, -1) * 2, x[::2].T)
    for x in (a, a.T, a[::2, ::3], a[::-1], np.asfortranarray(a), a[:0], a[:, :0], np.broadcast_to(a[0], (3, 6))):
        same_for(f, x)
    same_for(lambda x: (np.sum(x) * 2.0, x * x, np.exp(x)), np.array(2.0))


def test_outputs_that_are_inputs_constants_views_or_twice_the_same():
    c = np.arange(4.0)

    def f(x):
        y = x * 2
        z = y[1:]
        return x, y, y, z, y.T, x[1:], np.sum(y), c, x + c, 3.0

    same_for(f, np.arange(4.0))


def test_writes_go_to_memory_that_nothing_else_reads():
    def f(x):
        y = x * 1.0
        z = y * 1.0
        z[1:] = y[:-1] * 2
        u = z[1:]  # read after the next write: z must not be overwritten
        z[0] = np.sum(u)
        z[1:] = z[:-1] + u
        return np.sum(z * u[0]) + np.sum(y)

    for n in (4, 5000):
        same_for(f, np.linspace(0.1, 1, n))
        same_for(cr.value_and_grad(f), np.linspace(0.1, 1, n), rtol=1e-11)


def test_hessian_and_captured_arrays():
    w = np.linspace(-1, 1, 12).reshape(3, 4)
    f = lambda x: np.sum(np.tanh(w @ x) ** 3) + np.max(x) * np.sum(x[1:] * x[:-1])
    same_for(cr.hessian(f), np.array([0.3, -0.2, 0.9, 0.5]))


def test_captured_arrays_are_read_anew():
    w = np.arange(6.0).reshape(2, 3)
    g = cr.compile(lambda x: w.T @ x)
    x = np.array([1.0, 2.0])
    g(x)
    w[0] += 1.0
    np.testing.assert_allclose(g(x), w.T @ x)


def test_guards():
    program = traced(lambda x: np.sum(x) if np.sum(x) > 0 else np.sum(x * 2), np.ones(3))
    run = build(program)
    np.testing.assert_allclose(run([np.full(3, 2.0)]), [6.0])
    with pytest.raises(GuardFailed):
        run([np.full(3, -2.0)])
    np.testing.assert_allclose(run([np.full(3, 2.0)]), [6.0])


def traced(f, *points):
    """Return the program of a function as compile has it, with guards for its branches."""
    return optimise(trace(f, points, {}, [True] * len(points))[0])


def test_threads_have_memory_of_their_own():
    run = build(record(lambda x: np.cumsum(np.sin(x) * 2 + np.cos(x * 3)) @ np.exp(x))(np.ones(50)))
    points = [np.linspace(0, k, 50) for k in range(8)]
    expected = [run([p])[0] for p in points]
    wrong = []

    def work(k):
        for _ in range(300):
            if run([points[k]])[0] != expected[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_a_run_inside_a_run_has_memory_of_its_own():
    def again(v):  # runs the program once more, in the middle of its own run
        if depth[0]:
            depth[0] -= 1
            run([np.full(3, 5.0)])
        return v * 2

    depth = [0]
    program = record(lambda x: np.sin(x) * np.apply_along_axis(again, 0, np.exp(x)) + np.cos(x))(np.ones(3))
    run = build(program)
    depth[0] = 2
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(run([x])[0], np.sin(x) * np.exp(x) * 2 + np.cos(x), rtol=1e-14)


def test_warnings_of_numpy_do_not_appear(recwarn):
    program = record(lambda x: (np.log(x), 1.0 / x, np.sqrt(x), np.exp(x * 1e4)))(np.array([0.01, 0.02]))
    build(program)([np.array([0.0, -1.0])])
    assert not recwarn.list


def test_loops_of_a_program():
    def newton(a):
        x = a
        while np.max(np.abs(x * x - a)) > 1e-12 * np.max(a):
            x = 0.5 * (x + a / x)
        return np.sum(x * a)

    def rounds(x):
        y = x
        for k in range(60):
            y = y + 0.01 * np.sin(y) * (k % 3)
        return np.sum(y)

    for f, points in (
        (newton, [np.float64(3e5), np.float64(2.0), np.float64(7.0)]),
        (newton, [np.array([1e5, 3.0]), np.array([2.0, 3.0])]),
        (rounds, [np.ones(3), np.zeros(3)]),
        (rounds, [np.float64(0.5), np.float64(1.5)]),
    ):
        for g in (f, cr.value_and_grad(f)):
            program = trace(g, points[:1], {}, [True])[0]
            same(program, points[:1], 1e-11, times=2)
            for x in points[1:]:
                try:
                    interpret(program, [x])
                except GuardFailed:
                    with pytest.raises(GuardFailed):
                        build(program)([x])
                else:
                    same(program, [x], 1e-11, times=2)


def test_expanded_calls_in_and_around_a_loop():
    def f(x):
        y = np.logaddexp(0.0, x)
        z = x
        for _ in range(20):
            z = z + 0.1 * np.logaddexp(z, x)
        return np.sum(y * z) + np.sum(np.logaddexp(0.0, -x))

    for x in (np.float64(0.3), np.array([0.5, -40.0, 800.0])):
        for g in (f, cr.value_and_grad(f)):
            same(trace(g, [x], {}, [True])[0], [x])


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20])
def test_blocks(monkeypatch, n):
    for name, value in (("LARGE", 4), ("BLOCK", 4), ("SEVERAL", 2)):
        monkeypatch.setattr(blocks, name, value)
    w = np.linspace(-1, 1, n)

    def f(x, a):
        y = np.where(x > 0.2, np.sin(x) * a, x**2) + w
        s = np.mean(y) + np.sum(y * x)
        z = y[1:] * x[:-1] * s + np.sum(np.exp(y))
        return np.sum(z * z) + np.sum(np.logaddexp(0.0, y) / (1 + y * y)), np.tanh(y) * s

    x = np.linspace(-1, 2, n)
    g = cr.value_and_grad(lambda x, a: f(x, a)[0], argnums=(0, 1))
    for h in (f, g):
        run = same_for(h, x, np.float64(1.3))
        same_for(h, np.repeat(x, 2)[::2], np.float64(1.3))
        assert ("for i in range" in run.source) == (n > 4)
    same_for(lambda x: (np.exp(np.sin(x) * 2), np.sum(np.exp(x) * 2 + 1)), np.outer(x, x))
    same_for(lambda x: (np.exp(np.sin(x) * 2), np.sum(np.exp(x) * 2 + 1)), np.outer(x, w).T)


def test_loops_over_large_arrays_are_written_out():
    def f(x):
        y = x
        for k in range(12):
            y = y * x * 0.1 + (k % 3)
        return np.sum(y * y)

    def decided(x):
        y = x
        while np.sum(y) > 1.0:
            y = y * 0.5
        return np.sum(y * y)

    for n in (3, 2000):
        x = np.linspace(0.1, 1, n)
        for g in (f, cr.value_and_grad(f), decided, cr.value_and_grad(decided)):
            program = trace(g, [x], {}, [True])[0]
            same(program, [x], 1e-11, times=2)
            run = same(optimise(program), [x], 1e-11, times=2)
            if g is f:
                assert ("for round" in run.source) == (n == 3)


def test_what_is_spread_is_read_as_it_is():
    def f(x, a):
        row = np.broadcast_to(np.sin(x[0]), x.shape)
        return np.sum(np.mean(x * x, axis=0) * a) + np.sum(np.exp(x) * row), np.ones(x.shape) * a, a

    x = np.arange(12.0).reshape(4, 3) / 7
    for g in (f, cr.value_and_grad(lambda x, a: f(x, a)[0], argnums=(0, 1))):
        same_for(g, x, np.float64(1.5))
        same_for(g, np.broadcast_to(x, (2, 4, 3))[0], np.float64(1.5))
    run = same_for(cr.grad(lambda x: np.sum(np.sin(x) ** 2)), x)
    assert "full" not in run.source
