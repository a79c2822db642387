"""Unrolled machine code against NumPy and the interpreter: the same numbers and types, in memory of their own."""

import ctypes
import math
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import chainrule as cr
from chainrule.program.ir import GuardFailed, interpret
from chainrule.program.loops.ir import Loop
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.program.trace import trace
from chainrule.rules.elementwise import over_length
from chainrule.testing.samples import all_samples

pytest.importorskip("llvmlite")

from chainrule.program.native import driver, layout, target
from chainrule.program.native.builder import Builder, Module, Phi, Value, constant, type_of, with_lanes
from chainrule.program.native.maps import MAPS, computes_in, how_of
from chainrule.program.native.scalars import NotLowered, converted
from chainrule.program.native.straight import Straight
from chainrule.program.native.values import Memory

SAMPLES = [s for s in all_samples() if not s.error]
RNG = np.random.default_rng(11)


# -- text, and views of memory -----------------------------------------------------------------------------------------


def test_layout_of_objects_is_known():
    assert layout.is_known()


def test_a_loop_with_a_phi():
    module = Module()
    b = Builder(module, "triangle", "i64", ["i64"])
    (n,) = b.arguments
    loop, done = b.block("loop"), b.block("done")
    b.branch(loop)
    b.start(loop)
    k, total = b.phi("i64"), b.phi("i64")
    assert isinstance(k, Phi)
    up, new = b.binary("add", k.value, constant("i64", 1)), b.binary("add", total.value, k.value)
    for phi, value in ((k, up), (total, new)):
        phi.add(constant("i64", 0), "entry")
        phi.add(value, loop)
    b.condition(b.compare("sle", up, n), loop, done)
    b.start(done)
    b.ret(new)
    code = target.compiled(module.text())
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("triangle"))(100) == 5050


@pytest.mark.parametrize("x", [0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, 1 / 3])
@pytest.mark.parametrize("kind", ["double", "float"])
def test_constants_are_exact(kind, x):
    module = Module()
    b = Builder(module, "f", kind, [])
    b.ret(constant(kind, x))
    with np.errstate(over="ignore", under="ignore"):
        number = {"double": np.float64, "float": np.float32}[kind](x)
    code = target.compiled(module.text())
    found = ctypes.CFUNCTYPE({"double": ctypes.c_double, "float": ctypes.c_float}[kind])(code.address("f"))()
    np.testing.assert_array_equal(found, number)
    assert np.signbit(found) == np.signbit(number)


def test_views_of_memory_are_those_of_numpy():
    """A view is made of views at random; where its entries are is what the view of the numbers 0, 1, 2, ... holds."""
    whole = np.arange(48).reshape(2, 3, 8)
    count = 0
    for _ in range(300):
        view, memory = whole, Memory.of_rows(Value("ptr", "%p"), whole.shape, np.dtype(float))
        for _ in range(4):
            kind = RNG.integers(4)
            if kind == 0:
                axes = RNG.permutation(view.ndim).tolist()
                view, memory = view.transpose(axes), memory.transpose(axes)
            elif kind == 1 and view.size:
                index = tuple(
                    slice(None, None, int(RNG.choice([1, 2, -1]))) if RNG.random() < 0.7 else int(RNG.integers(n))
                    for n in view.shape
                )
                view, memory = view[index], memory.index(index)
            elif kind == 2:
                shape = (3, *view.shape)
                view, memory = np.broadcast_to(view, shape), memory.broadcast(shape)
            else:
                sizes = [d for d in range(1, view.size + 1) if view.size % d == 0]
                shape = (int(RNG.choice(sizes)), -1) if sizes else view.shape
                try:
                    new = np.reshape(view, shape, copy=False)
                except ValueError:
                    assert memory.reshape(shape) is None
                    continue
                view, memory = new, memory.reshape(shape)
                count += 1
            assert memory.shape == view.shape
            assert memory.positions() == view.ravel().tolist()
    assert count > 50


# -- each function at special values -----------------------------------------------------------------------------------

SPECIAL = [0.0, 1.0, 0.5, 1.5, 2.5, 3.7, 7.0, 1e-310, 5e-324, 1e308, 1e-160, 710.0, 745.0, 2.0, 3.0, np.inf, 0.3]
FLOATS = [*SPECIAL, *[-x for x in SPECIAL], np.nan, 1e16 + 1]
INTEGERS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 2**31, 100, np.iinfo(np.int64).max, np.iinfo(np.int64).min]
DTYPES = {"float64": FLOATS, "float32": FLOATS, "int64": INTEGERS, "bool": [True, False]}
OWN = {f for f in MAPS if not isinstance(f, np.ufunc)}  # in floating-point numbers only


def run_map(fun, operands, dtype, lanes):
    """Run a function of the table on all of its operands, so many at once."""
    kinds = [type_of(x.dtype) for x in operands]
    kind = computes_in(fun, dtype, [x.dtype for x in operands])
    module = Module()
    b = Builder(module, "f", "void", ["ptr"] * (len(operands) + 1))
    xs = [b.load(with_lanes(k, lanes), a) for k, a in zip(kinds, b.arguments[1:], strict=True)]
    y = converted(b, how_of(fun)(b, *[converted(b, x, kind) for x in xs]), type_of(dtype))
    b.store(y, b.arguments[0])
    b.ret()
    code = target.compiled(module.text(), 1)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(operands) + 1))(code.address("f"))
    size = len(operands[0])
    fill = -size % lanes
    operands = [np.concatenate([x, x[:1].repeat(fill)]) for x in operands]
    result = np.empty(size + fill, dtype)
    for k in range(0, size + fill, lanes):
        run(*[x.ctypes.data + k * x.itemsize for x in (result, *operands)])
    return result[:size]


CASES = [(f, d, n) for f in MAPS for d in DTYPES for n in (1, 2, 5, 8, 19)
         if (f not in OWN or d.startswith("float")) and (n < 5 or d.startswith("float"))]  # fmt: skip


@pytest.mark.parametrize(("fun", "dtype", "lanes"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_special_values(fun, dtype, lanes):
    with np.errstate(all="ignore"):
        values = np.array(DTYPES[dtype]).astype(dtype)
    count = fun.nin if isinstance(fun, np.ufunc) else 2 if fun is over_length else 1
    operands = [g.ravel().copy() for g in np.meshgrid(*[values] * count, indexing="ij")]
    with np.errstate(all="ignore"):
        try:
            expected = fun(*operands)
        except (TypeError, ValueError):  # NumPy has no such function of these numbers
            return
    if type_of(expected.dtype) is None:
        return
    try:
        found = run_map(fun, operands, expected.dtype, lanes)
    except NotLowered:
        assert (fun, dtype) in REFUSED
        return
    assert (fun, dtype) not in REFUSED
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    least = {"float64": 1e-322, "float32": 1e-44}[expected.dtype.name]
    rtol = {"float64": 2e-15, "float32": 1e-6}[expected.dtype.name]
    with np.errstate(all="ignore"):
        scale = abs(expected)
        if fun in (np.logaddexp, np.logaddexp2):  # of numbers of both signs it cancels
            scale = np.maximum(scale, np.where(np.isfinite(expected), 1, 0))
        same = (found == expected) | (abs(found - expected) <= rtol * scale + least)
        same &= np.signbit(found) == np.signbit(expected)
        same |= np.isnan(found) & np.isnan(expected)
    assert same.all(), [(*[x[~same][:5] for x in operands], found[~same][:5], expected[~same][:5])]


REFUSED = {(np.reciprocal, "int64"), (np.signbit, "int64"), (np.signbit, "bool"), (np.power, "int64")}


# -- programs ----------------------------------------------------------------------------------------------------------


def build(program):
    """Return a program as unrolled code, or None if it has something that is not."""
    writer = Straight(program)
    try:
        text = writer.write()
    except NotLowered:
        return None
    return driver.Runner(program, writer, target.compiled(text), text)


def arrays_in(values):
    """Return the arrays among values."""
    return [v for v in values if isinstance(v, np.ndarray)]


def same(program, points, rtol=1e-12, times=2):
    """Build a program, and compare its runs with the interpreter's; None if it has no machine code."""
    run = build(program)
    if run is None:
        return None
    with np.errstate(all="ignore"):
        expected = interpret(program, points)
    before, held = [np.array(p) for p in points], []
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
        if b.dtype.kind == "f":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale))
        else:
            np.testing.assert_array_equal(a, b)


def total(y):
    """Return a real number that depends on all parts of a result, on each in another way."""
    if isinstance(y, tuple | list):
        return sum([total(v) for v in y])
    dtype = np.dtype(getattr(y, "dtype", type(y)))
    if dtype.kind != "f":
        return 0.0
    return np.sum(y * np.cos(np.arange(np.size(y))).astype(dtype).reshape(np.shape(y)))


def must(program, points, rtol=1e-12):
    """Compare as `same` does; there must be machine code."""
    run = same(program, points, rtol)
    assert run is not None
    return run


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_and_their_gradients(sample):
    f = sample.function()
    for dtype, rtol in (("float64", 1e-12), ("float32", 2e-5)):
        if not sample.accepts(dtype):
            continue
        points = sample.operands(dtype)
        g = cr.grad(lambda *xs: total(f(*xs)), argnums=tuple(range(len(points))))
        for h in (f, g, lambda *xs: [np.sum(np.sin(v)) for v in cr.grad(lambda *xs: total(g(*xs)))(*xs)]):
            try:
                program = optimise(record(h)(*points))
            except Exception:  # what can't be recorded is no matter of the back end
                continue
            same(program, points, rtol)


def same_for(f, *points, rtol=1e-12):
    """Check a function, its gradient and its second derivatives."""
    numbers = tuple(range(len(points)))
    g = cr.grad(lambda *xs: total(f(*xs)), argnums=numbers)
    for h in (f, g, cr.grad(lambda *xs: sum([np.sum(np.cos(v)) for v in g(*xs)]), argnums=numbers)):
        must(optimise(record(h)(*points)), points, rtol)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 14, 16, 17, 31, 64, 100, 128])
def test_vectors_of_any_length(size):
    x, w = RNG.uniform(0.5, 2, size), RNG.normal(size=size)
    same_for(lambda x, w: np.sum(np.tanh(x * w) / (1 + np.exp(-x)) + np.max(w) * np.log(x)), x, w)
    same_for(lambda x, w: np.prod(x) * np.mean(w) + x @ w + np.sum(np.cumsum(x) * w), x / np.max(x), w)


def test_views_writes_and_products():
    a, b, v = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=4)
    same_for(lambda a, b, v: np.sin(a @ b)[::-1, 1:4] * np.sum(np.outer(v, v)), a, b, v)
    same_for(lambda a, b, v: np.concatenate([a.T, b, np.stack([v, v * 2], 1)], axis=1) / 2, a, b, v)
    same_for(lambda a, b, v: np.einsum("ij,jk,j->k", a, b, v) + (a.reshape(2, 6) ** 3)[1, :5], a, b, v)
    same_for(lambda a, b, v: np.where(a > 0, a, -v) + np.clip(v, -0.5, 0.5) + np.maximum(a, v), a, b, v)

    def written(a, b, v):
        out = np.zeros((4, 5), like=a)
        out[:3, 1:] = a
        out[[0, 0, 2], [4, 4, 0]] += v[:3]
        return np.tanh(out) * b

    same_for(written, a, b, v)


def test_results_have_numpys_types():
    x = np.array([0.3, -1.2, 2.0])
    f = lambda x: (x[0], np.where(x[0] > 0, x[1], x[2]), np.sum(x > 0), np.argmax(x), x[0] > 0, x > 0, x[0, ...])
    run = must(record(f)(x), [x])
    found = run([x])
    assert [type(y) for y in found] == [np.float64, np.ndarray, np.int64, np.int64, np.bool_, np.ndarray, np.ndarray]
    for x in (0.5, np.float64(0.5), np.float32(0.5), np.array(0.5)):
        must(record(lambda x: (x * 2, np.sin(x), x))(x), [x])


def test_outputs_that_are_inputs_constants_or_twice_the_same():
    x = RNG.normal(size=3)
    y = np.arange(3.0)
    must(record(lambda x: (x, x * 1, x[:2], np.sin(x), x.T, y, 3.5, x + y))(x), [x])
    must(record(lambda x: [x * 2] * 3)(x), [x])


def test_arrays_that_are_not_stored_row_by_row():
    x = RNG.normal(size=(3, 4))
    run = must(record(lambda x: np.sin(x) * x[0])(x), [x])
    wide = np.zeros((6, 8))
    wide[::2, ::2] = x
    shifted = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.uint8)
    shifted[:] = x.view(np.uint8).ravel()
    odd = shifted.view(np.float64).reshape(3, 4)
    for y in (np.asfortranarray(x), wide[::2, ::2], x[::-1][::-1], odd):
        np.testing.assert_array_equal(y, x)
        np.testing.assert_allclose(run([y])[0], np.sin(x) * x[0], rtol=1e-14)


def test_captured_arrays_are_read_anew():
    c = np.ones(3)
    program = record(lambda x: x * c)(np.ones(3))
    run = build(program)
    (inside,) = program.constants.values()
    inside[1] = 5
    assert run([np.ones(3)])[0].tolist() == [1, 5, 1]


def test_guards():
    x = np.array([0.5, 1.0])

    program, _ = trace(lambda x: x * 2 if x[0] > 0 and x[1] < 2 else x * 3, (x,), {}, [True])
    run = must(program, [x])
    for y in ([-0.5, 1.0], [0.5, 3.0], [np.nan, 1.0]):
        with pytest.raises(GuardFailed) as caught:
            run([np.array(y)])
        assert caught.value.guard in program.guards
    np.testing.assert_array_equal(run([x])[0], x * 2)


def test_python_numbers_raise_where_python_does():
    run = must(record(lambda a, b: (a / b, a * b))(1.0, 4.0), [1.0, 4.0])
    with pytest.raises(ArithmeticError):
        run([1.0, 0.0])
    run = must(record(lambda a: a**-0.5)(4.0), [4.0])
    for a in (0.0, -1.0):
        with pytest.raises(ArithmeticError):
            run([a])
    run = must(record(lambda a: a**3)(4.0), [4.0])
    with pytest.raises(ArithmeticError):
        run([1e200])
    assert run([-2.0]) == [-8.0]


def test_long_programs_are_cut_into_functions():
    def f(x):
        y = x
        kept = []
        for k in range(200):
            y = np.sin(y) * x[0] + 0.1 * k
            kept.append(y[1])
        return np.sum(y) + kept[3] * kept[50]

    x = RNG.normal(size=5)
    program = record(cr.value_and_grad(f))(x)
    must(program, [x], 1e-11)
    writer = Straight(program)
    writer.write()
    assert len(writer.chunks) > 3
    assert max(len(c.lines) for c in writer.chunks) < 500


# -- loops -------------------------------------------------------------------------------------------------------------


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def branching(x):
    total = x * 0
    while x < 1000.0:
        if np.sin(x) > 0:
            x = x * 1.5
            total = total + np.sin(x)
        else:
            x = x + 1.0
            total = total * 0.5
    return total


def rolled(f, *points):
    """Return the optimised program of a run, with its loops rolled."""
    program = optimise(trace(f, points, {}, [True] * len(points))[0])
    assert any(e.__class__ is Loop for e in program.equations)
    return program


@pytest.mark.parametrize("f", [newton, branching], ids=lambda f: f.__name__)
@pytest.mark.parametrize("start", [1e4, 3.0])
def test_loops_of_a_varying_number_of_rounds(f, start):
    for h in (f, cr.value_and_grad(f)):
        program = optimise(trace(h, (start,), {}, [True])[0])
        run = build(program)
        assert run is not None
        with np.errstate(all="ignore"):
            for a in np.exp(RNG.uniform(0.1, 9, 40)).tolist():
                try:
                    expected = interpret(program, [a])
                except GuardFailed:
                    with pytest.raises(GuardFailed):
                        run([a])
                    continue
                compare(run([a]), expected, 1e-11)


def test_a_stack_grows():
    def f(x, limit):
        while np.sum(x) < limit:
            x = x + 0.01 * np.sin(x) ** 2 + 0.01
        return np.sum(x * x)

    x = RNG.uniform(0.1, 1, 5)
    program = rolled(cr.value_and_grad(f), x, 7.0)
    run = must(program, [x, 7.0])
    before = run.bytes
    for limit in (9.0, 60.0, 8.0, 200.0):
        compare(run([x, limit]), interpret(program, [x, limit]), 1e-11)
    assert run.bytes > before
    assert run.frames.rounds > driver.ROUNDS


def test_loops_over_rows_and_numbers():
    data, w, y = RNG.normal(size=(40, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=3)

    def f(w, y, data):
        total = 0.0
        for k, row in enumerate(data):
            y = np.tanh(w @ y + row) * (0.5 + 0.01 * k)
            total = total + y[0] * row[1]
        return total + np.sum(y)

    for h in (f, cr.value_and_grad(f, (0, 1, 2)), lambda w, y, data: cr.jvp(f, (w, y, data), (w, y, data))[1]):
        must(rolled(h, w, y, data), (w, y, data), 1e-11)

    must(rolled(lambda y: cr.hvp(lambda y: f(w, y, data), y, np.arange(3.0)), y), (y,), 1e-10)


def test_the_state_of_a_loop_may_be_of_any_kind():
    def f(x):
        up, count, flags, total = True, np.sum(x > 0), x > 0, np.float32(0.5) * x[0]
        y = x
        for _ in range(20):
            y = np.where(flags, np.sin(y), y * 0.9)
            flags = y > 0.1
            count = count + np.sum(flags)
            total = total + y[1]
        return y, count, flags, total, up

    x = RNG.normal(size=6)
    program = trace(f, (x,), {}, [True])[0]
    must(optimise(program), (x,))


# -- calls -------------------------------------------------------------------------------------------------------------


def test_threads_have_memory_of_their_own():
    def f(x):
        for _ in range(30):
            x = np.sin(x) + 0.5 * x
        return x

    run = build(rolled(cr.grad(lambda x: np.sum(f(x))), np.ones(9)))
    points = [RNG.normal(size=9) for _ in range(8)]
    expected = [run([x])[0] for x in points]
    wrong = []

    def work(k):
        for _ in range(300):
            if not np.array_equal(run([points[k]])[0], expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(run.frames.pool) <= 8


def test_exact_math_calls_the_c_library():
    x = RNG.normal(size=16)
    program = record(lambda x: np.sin(x))(x)
    vector = Straight(program).write()
    with cr.config(exact_math=True):
        exact = Straight(program).write()
        run = must(program, [x])
    assert "_ZGV" not in exact
    assert "@sin(" in exact
    if target.host().level:
        assert "_ZGV" in vector
    assert run([x])[0].tolist() == [math.sin(v) for v in x.tolist()]


def test_what_has_no_machine_code():
    a = RNG.normal(size=(3, 3))
    for f, x in ((np.linalg.inv, a), (np.sin, a + 1j), (np.sin, np.float16(a)), (np.sin, np.zeros(100000))):
        assert build(record(f)(x)) is None


def test_nothing_is_built_without_llvmlite():
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import chainrule as cr, numpy as np\n"
        "from chainrule.program import native\n"
        "from chainrule.program.record import record\n"
        "print(native.build(record(np.sin)(0.5)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


SCIPY = ["erf", "erfc", "expit", "log_expit", "logit", "xlogy", "xlog1py", "entr", "rel_entr", "exp2", "exp10", "cbrt",
         "expm1", "log1p", "ndtr", "exprel"]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SCIPY)
def test_special_functions_of_scipy(name, dtype):
    fun = getattr(pytest.importorskip("scipy.special"), name)
    with np.errstate(all="ignore"):
        values = np.array([*FLOATS, 0.4, 0.5001, 0.64, 0.95, 1.05, -5.0]).astype(dtype)
        xs = [g.ravel().copy() for g in np.meshgrid(*[values] * fun.nin, indexing="ij")]
        expected = fun(*xs)
        found = run_map(fun, xs, expected.dtype, 8)
        rtol = {"float64": 2e-14, "float32": 2e-6}[expected.dtype.name]
        same = (found == expected) | (abs(found - expected) <= rtol * abs(expected) + np.finfo(dtype).tiny)
        same |= np.isnan(found) & np.isnan(expected)
    assert same.all(), [(*[x[~same][:5] for x in xs], found[~same][:5], expected[~same][:5])]


def test_long_kernels_let_other_threads_run():
    def f(x):
        for _ in range(3000):
            x = np.sin(x) + 0.5 * x
        return np.sum(x)

    x = RNG.normal(size=8)
    run = build(rolled(f, x))
    ticks, done = [0], threading.Event()

    def tick():
        while not done.wait(1e-4):  # between two ticks it lets go by itself
            ticks[0] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody is asked to stop
    thread = threading.Thread(target=tick)
    try:
        thread.start()
        first, end = ticks[0], time.monotonic() + 30
        while ticks[0] == first and time.monotonic() < end:  # a busy machine may not run the other at once
            run([x])
        seen = ticks[0] - first
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)
    assert seen > 0


def of_any(f, *points):
    """Check a function of arrays of any dtype."""
    must(optimise(trace(f, points, {}, [True] * len(points))[0]), points)


def test_arrays_of_integers_and_truth_values():
    n, flags, x = np.arange(-3, 4), np.arange(7) % 2 == 0, RNG.normal(size=7)
    of_any(lambda n, x: (n * 2 + 1, n // 2, n % 3, np.sum(n), n * x, n > 0, np.max(n)), n, x)
    of_any(lambda n, x: (~n, n & 6, n | 1, n ^ 3, np.cumsum(n), np.argmin(n), np.abs(n)), n, x)
    of_any(lambda f, x: (f & (x > 0), ~f, np.sum(f), np.where(f, x, 0), np.any(f), np.all(f), f * x), flags, x)


def test_subscripts_that_are_integers_of_the_program():
    x = RNG.normal(size=(5, 3))

    def f(x, n):
        k = n[0]
        y = np.zeros((5, 3), like=x)
        y[k] = np.sin(x[k])
        y[1, n[1]] += x[n[1] * 1, 0]
        return y * 2, x[k, ::-1], y[k, 0]

    program = optimise(trace(f, (x, np.array([2, 1])), {}, [True, True])[0])
    run = must(program, (x, np.array([2, 1])))
    for n in ([0, 0], [-1, -3], [-5, 2], [4, 1]):
        try:
            compare(run((x, np.array(n))), interpret(program, (x, np.array(n))), 1e-14)
        except GuardFailed:  # the answer was a value that Python needed
            assert program.guards
    if not program.guards:
        for n in ([5, 0], [-6, 0], [0, 3], [0, -6]):
            with pytest.raises(ArithmeticError):
                run((x, np.array(n)))
