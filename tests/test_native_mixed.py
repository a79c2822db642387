"""Kernels between calls of Python: whatever is left to Python, results are those of the interpreted program."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr
from chainrule.program.ir import Equation, GuardFailed, interpret
from chainrule.program.native import mixed
from chainrule.program.native.partition import Kernel, partition
from chainrule.program.passes import optimise
from chainrule.program.trace import trace
from chainrule.rules.special.common import ratio_or_zero

A = np.random.default_rng(0).normal(size=(3, 3)) * 0.5
B = np.random.default_rng(1).normal(size=(40, 30)) * 0.5


def recorded(f, *points):
    program, _ = trace(f, points, {}, [True] * len(points))
    return optimise(program)


def solves(a, b):
    x = np.linalg.solve(a @ a.T + 3 * np.eye(3), np.sin(b) * 2 + 1)
    y = np.exp(-x) * np.cos(b) + x
    z = np.linalg.inv(a + 5 * np.eye(3)) @ y.T
    return np.sum(z * z), np.log(1 + z.T * z.T), z.T


def loops(x):
    s = np.zeros(3)
    for _ in range(40):
        s = np.tanh(s + x * 0.1) * 0.9
    return np.sum(s * np.exp(x))


def decides(x):
    y = x * 2 + 1
    if y[0, 0] > 1:
        y = y * y
    z = np.linalg.inv(y + np.eye(3))
    if z[0, 0] > -10:
        z = z * 3 - y
    return np.sum(np.sin(z) * np.cos(z)), z.T


def large(x):
    y = np.exp(-x * x).T
    w = np.concatenate([y[1:], y[:1] * 2]) @ x
    m = np.max(w, axis=0, keepdims=True)
    p = np.exp(w - m) / np.sum(np.exp(w - m), axis=0)
    return np.sum(np.where(p > 0.01, np.log(p), 0.0)) + np.sum(np.fft.ifft(np.fft.fft(y, axis=0), axis=0).real * y)


def writes(x):
    y = np.tanh(x)
    y[1:, ::2] += y[:-1, ::2] * 2
    y[3] = np.sin(y[2])
    return np.mean(y * y) + y[0, 0]


def blocks(x):
    y = np.sin(x * np.cos(x)) + np.exp(-x)  # what NumPy is left of such long arrays is run in blocks
    return np.sum(y * np.tanh(y)) + np.sum(y[::2]) * np.mean(x)


PROGRAMS = {
    "blocks": (cr.value_and_grad(blocks), (np.linspace(-1, 1, 140_000),)),
    "solves": (solves, (A + 2, A)),
    "gradient of a solve": (cr.value_and_grad(lambda a: solves(a, a)[0]), (A,)),
    "loop": (cr.value_and_grad(loops), (A[0],)),
    "decides": (decides, (A + 1,)),
    "hessian": (cr.hessian(lambda x: np.sum(np.exp(np.outer(x, x))) + np.prod(x)), (A[0],)),
    "large": (cr.value_and_grad(large), (B,)),
    "writes": (cr.value_and_grad(writes), (B,)),
}


def alike(found, want):
    for a, b in zip(found, want, strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.shape(a) == np.shape(b)
        assert np.allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_as_it_is_built(name):
    f, points = PROGRAMS[name]
    program = recorded(f, *points)
    runner = mixed.build(program)
    for scale in (1.0, 1.01, 1.0):
        xs = [x * scale for x in points]
        alike(runner.run(xs), interpret(program, xs))
    assert getattr(runner, "share", 1.0) > 0.5


@pytest.mark.parametrize("part", [0.2, 0.6, 0.9])
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_parts_left_to_python(name, part):
    f, points = PROGRAMS[name]
    program = recorded(f, *points)
    rng, lowerable = np.random.default_rng(int(10 * part)), mixed.Lowerable(program)
    for few in (1, 3):
        chosen = {e: rng.random() < part and lowerable(e) for e in program.equations}
        items = partition(program, chosen.__getitem__, few)
        if not any(k.__class__ is Kernel for k in items):
            continue
        runner = mixed.Mixed(program, items)
        for scale in (1.0, 1.01, 1.0):
            xs = [x * scale for x in points]
            alike(runner.run(xs), interpret(program, xs))


def test_results_are_the_callers():
    program = recorded(*PROGRAMS["solves"][:1], *PROGRAMS["solves"][1])
    runner = mixed.build(program)
    first = runner.run([A + 2, A])
    kept = [np.array(y) for y in first]
    runner.run([A + 3, A])
    for y, z in zip(first, kept, strict=True):
        assert np.array_equal(y, z)
    for y in first[1:]:
        y.fill(np.nan)
    alike(runner.run([A + 2, A]), interpret(program, [A + 2, A]))


def test_guards_fail_in_kernels():
    program = recorded(decides, A + 1)
    runner = mixed.build(program)
    with pytest.raises(GuardFailed):
        runner.run([A - 5])
    alike(runner.run([A + 1]), interpret(program, [A + 1]))


def test_one_output_twice_and_views_of_it():
    def f(x):
        y = np.sin(x) * x
        return y, y, y.T, y[3:, 1], x, np.sum(y)

    program = recorded(f, B)
    found = mixed.build(program).run([B])
    alike(found, interpret(program, [B]))
    for i, a in enumerate(found[:5]):
        for b in found[i + 1 : 5]:
            assert not np.may_share_memory(a, b)
        assert not np.may_share_memory(a, B)


def test_arguments_in_other_layouts():
    program = recorded(cr.grad(writes), B)
    runner = mixed.build(program)
    for x in (np.asfortranarray(B), np.repeat(B, 2, axis=0)[::2], B[::-1], np.broadcast_to(B[:1], B.shape)):
        alike(runner.run([x]), interpret(program, [x]))


def test_captured_arrays_in_other_layouts():
    c = np.random.default_rng(3).normal(size=(30, 40))

    def f(x):
        return np.sum(np.tanh(c.T * x) * c[::-1].T + (x @ c)[:, :30])

    program = recorded(cr.grad(f), B)
    alike(mixed.build(program).run([B]), interpret(program, [B]))


def test_a_program_with_nothing_to_lower():
    assert mixed.build(recorded(lambda z: np.fft.fft(np.fft.fft(z)), B)) is None
    assert mixed.build(recorded(lambda x: x, B)) is None


def test_what_python_runs_is_seen():
    runner = mixed.build(recorded(*PROGRAMS["solves"][:1], *PROGRAMS["solves"][1]))
    assert "np.linalg.solve(" in runner.source
    assert runner.source.count("define ") == 2
    assert 0 < runner.share < 1
    assert sum(e.__class__ is Equation for e in runner.program.equations) > 10
    assert runner.bytes > 0


def test_memory_that_rounds_kept_lasts_until_they_are_taken_off():
    from types import SimpleNamespace

    from chainrule.program.ir import Symbol
    from chainrule.program.loops.ir import Block, Loop, Next, Pop
    from chainrule.program.native.kernels import ends_of

    def array(name):
        return Symbol(name, (200,), np.dtype(float))

    x, y, z, s, t, stack = map(array, ["x", "y", "z", "s", "t", "stack"])
    rule = SimpleNamespace(fun=np.exp, name="exp", kind="elementwise")
    made = Equation(rule, (x,), {}, y)
    forward = Loop([Block([], Next([s], [y]))], [s], [x], (t,), [0], count=2, pushes=stack, free=[y])
    other = Equation(rule, (t,), {}, z)
    taken = Pop(stack, 0, (array("k"),))
    ends = ends_of([made, forward, other, taken], [z], lambda v: v)
    assert y in ends[3]
    assert not any(y in roots for i, roots in ends.items() if i != 3)


def test_a_number_out_of_a_product_of_long_vectors():
    x = np.linspace(0.1, 1.0, 300)

    def f(x):
        return np.tanh(x * (x @ x) - x[7] * x)

    program = recorded(f, x)
    alike(mixed.build(program).run([x]), interpret(program, [x]))


def test_what_is_made_of_an_empty_array_is_made_by_numpy():
    def f(x):
        chosen = x[x > 0.5]  # of no entry: `resize` makes zeros of it
        return np.sum(np.resize(chosen, (2, 4)) * np.arange(8.0).reshape(2, 4)) + np.sum(np.sin(x))

    g = cr.compile(cr.value_and_grad(f), backend="native")
    for x in (np.linspace(0.0, 0.4, 5), np.linspace(0.1, 0.9, 5)):
        for _ in range(2):
            value, slope = g(x)
            assert value == pytest.approx(f(x), rel=1e-14)
            chosen = np.flatnonzero(x > 0.5)
            weights = np.bincount(np.resize(chosen, 8), np.arange(8.0), len(x)) if chosen.size else 0.0
            np.testing.assert_allclose(slope, np.cos(x) + weights, rtol=1e-14)
    assert not g.stats().eager


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3,), 0),
        ((300,), 0),
        ((3, 3), 1),
        ((4, 1, 50), 1),
        ((13, 3, 65), 1),
        ((500, 2), 1),
        ((2, 500), 0),
        ((65, 9), None),
        ((5, 13, 9), (0, 2)),
    ],
)
@pytest.mark.parametrize("fun", [np.sum, np.mean])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_sum_of_zeros_has_numpys_sign(backend, fun, shape, axis):  # fmt: skip
    def f(x):
        return np.copysign(1.0, fun(x, axis=axis)) + np.copysign(2.0, fun(np.minimum(x, 0.0), axis=axis, keepdims=True))

    g = cr.compile(f, backend=backend)
    for x in (np.ones(shape), np.full(shape, -0.0), np.zeros(shape), np.full(shape, -0.0)):
        np.testing.assert_array_equal(g(x), f(x))
    assert backend == "numpy" or g.stats().share > 0.9


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("n", [2, 300])
def test_logarithms_of_sums_of_infinities(backend, n):
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 1.0, -700.0])
    a, b = (np.resize(v, (n, 81)) for v in (np.repeat(ends, 9), np.tile(ends, 9)))
    g = cr.compile(lambda a, b: np.nan_to_num(np.logaddexp(a, b), nan=-3.0, posinf=7.0, neginf=-9.0), backend=backend)
    for x, y in ((np.ones((n, 81)), np.ones((n, 81))), (a, b), (b, a)):
        with np.errstate(all="ignore"):
            want = np.nan_to_num(np.logaddexp(x, y), nan=-3.0, posinf=7.0, neginf=-9.0)
            np.testing.assert_allclose(g(x, y), want)
    assert g.stats().fallbacks == 0


@pytest.mark.parametrize("a", [3.0, -2.0, 0.0])
def test_a_ratio_at_zeros_of_both_signs(a):
    def f(x):
        return np.clip(ratio_or_zero(a, x), -1e3, 1e3)

    g = cr.compile(f, backend="native")
    with np.errstate(all="ignore"):
        for x in (np.ones(4), np.array([0.0, -0.0, 5e-324, -2.0])):
            np.testing.assert_array_equal(g(x), f(x))
