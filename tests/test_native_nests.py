"""Loop nests in machine code against NumPy: every function, layout and length, and what is fused into one pass."""

import ctypes
import dataclasses

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr
from chainrule.engine.batched import Plain
from chainrule.engine.indexing import picked, put, scatter, unpicked
from chainrule.engine.rule import RULES
from chainrule.program.ir import Equation, Symbol, interpret, run_equations
from chainrule.program.native import lanes, nests, target
from chainrule.program.native.builder import STORED, Builder, Module, constant, type_of
from chainrule.program.native.lanes import Lanes
from chainrule.program.native.maps import MAPS
from chainrule.program.native.nests_clusters import Cluster, clusters
from chainrule.program.native.values import Memory
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.testing.samples import all_samples

SIZES = (1, 7, 8, 9, 63, 64, 65, 4097)


# -- running programs --------------------------------------------------------------------------------------------------


class Nest:
    """A cluster, compiled for arguments of given strides."""

    def __init__(self, cluster, values):
        self.cluster = cluster
        module = Module()
        b = Builder(module, "run", "i32", ["ptr"], "nounwind alignstack(64)")
        held, self.symbols = {}, [*cluster.reads, *cluster.outputs]
        pointers = {s: b.load("ptr", b.offset("ptr", b.arguments[0], k)) for k, s in enumerate(self.symbols)}
        for s in cluster.reads:
            x = np.asarray(values[s], s.dtype)
            if x.size <= 4:
                refs = [(v, -1) for v in memory_of(pointers[s], x).load(b)]
                held[s] = Lanes(refs, s.shape, s.dtype)
            else:
                held[s] = memory_of(pointers[s], x)

        def memory(s):
            pointer = pointers[s] if s in pointers else b.alloca(STORED.get(type_of(s.dtype), type_of(s.dtype)), s.size)
            return Memory.of_rows(pointer, s.shape, s.dtype)

        wrong = nests.write_nest(b, cluster, held, memory)
        for s in cluster.outputs:
            if held[s].__class__ is Lanes:
                memory = Memory.of_rows(pointers[s], s.shape, s.dtype)
                lanes.store(b, memory, list(range(len(held[s].refs))), held[s].refs)
        b.ret(b.cast("zext", wrong, "i32") if wrong is not None else constant("i32", 0))
        self.code = target.compiled(module.text(), 1)
        self.run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self.code.address("run"))

    def __call__(self, values):
        """Run it; put the outputs among the values."""
        given = [np.asarray(values[s], s.dtype) for s in self.cluster.reads]
        room = [np.full(np.prod(s.shape, dtype=int) + 16, 77, s.dtype) for s in self.cluster.outputs]
        made = [r[8 : len(r) - 8].reshape(s.shape) for r, s in zip(room, self.cluster.outputs, strict=True)]
        addresses = (ctypes.c_void_p * (len(given) + len(made)))(*[a.ctypes.data for a in given + made])
        if self.run(ctypes.addressof(addresses)):
            raise IndexError("out of bounds")
        for r in room:
            assert (r[:8] == np.asarray(77, r.dtype)).all()
            assert (r[-8:] == np.asarray(77, r.dtype)).all()
        values.update(zip(self.cluster.outputs, made, strict=True))


def memory_of(pointer, a):
    return Memory(pointer, a.shape, tuple(s // a.itemsize for s in a.strides), a.dtype)


def run(program, points):
    """Return (outputs, clusters), with the clusters as machine code."""
    outputs = [y for y in program.outputs if y.__class__ is Symbol]
    items = clusters(program.equations, outputs, is_memory=lambda s: s.size > 4)
    values = dict(program.constants) | dict(zip(program.inputs, points, strict=True))
    for item in items:
        if item.__class__ is Cluster:
            Nest(item, values)(values)
        else:
            run_equations([item], values)
    got = [values[y] if y.__class__ is Symbol else y for y in program.outputs]
    return got, [c for c in items if c.__class__ is Cluster]


def compare(f, *points, tol=1e-12, count=None, prepare=lambda f, *xs: record(f)(*xs)):
    """Run a function as nests and as NumPy; return the clusters."""
    program = optimise(prepare(f, *points))
    with np.errstate(all="ignore"):
        want = interpret(program, list(points))
        got, made = run(program, list(points))
    for a, b in zip(want, got, strict=True):
        agree(a, b, tol)
    assert made
    if count is not None:
        assert len(made) == count, [len(c.members) for c in made]
    return made


def agree(want, got, tol=1e-12, noise=0.0):
    want, got = np.asarray(want), np.asarray(got)
    assert want.shape == got.shape
    assert want.dtype == got.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype == np.float32:
        tol = max(tol, 2e-6)
    scale = np.abs(want[np.isfinite(want)]).max(initial=0)
    np.testing.assert_allclose(got, want, rtol=tol, atol=max(tol * scale, noise))


def equation(fun, xs, params=None):
    """Return an equation of a call on arrays, its symbols and what NumPy gives."""
    params = params or {}
    symbols = [Symbol(f"x{k}", x.shape, x.dtype) if isinstance(x, np.ndarray) else x for k, x in enumerate(xs)]
    rule = RULES.get(fun)
    if not hasattr(rule, "apply"):
        rule = Plain(fun)
    with np.errstate(all="ignore"):
        want = np.asarray(rule.apply(tuple(xs), params))
    e = Equation(rule, tuple(symbols), params, Symbol("y", want.shape, want.dtype))
    return e, {s: x for s, x in zip(symbols, xs, strict=True) if s.__class__ is Symbol}, want


def run_call(fun, xs, params=None):
    """Return (what a call gives as a nest, what NumPy gives)."""
    e, values, want = equation(fun, xs, params)
    [cluster] = clusters([e], [e.output], is_memory=lambda s: s.size > 0)
    assert cluster.__class__ is Cluster, fun
    Nest(cluster, values)(values)
    return values[e.output], want


# -- elementwise functions ---------------------------------------------------------------------------------------------

TWO = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.fmax, np.fmin, np.remainder, np.fmod,
       np.floor_divide, np.power, np.arctan2, np.hypot, np.copysign, np.heaviside, np.logaddexp, np.logaddexp2,
       np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal]  # fmt: skip
ONE = [f for f in MAPS if isinstance(f, np.ufunc) and f.nin == 1 and f is not np.invert and f is not np.conjugate]


def special(dtype):
    """Return numbers at the ends of all ranges."""
    info = np.finfo(dtype)
    one = np.array(1, dtype)
    some = [0, 1, 0.5, 2, 3, 100, 1e5, 1e10, info.max, info.tiny, info.tiny / 4, info.smallest_subnormal, np.inf, 88.7,
            89, 104, 709.7, 710, 745.2, 750, 1e-5, 1e-10, 1e22, 2.5, 3.5, 0.49999999999999994,
            np.nextafter(one, 2 * one), np.nextafter(one, 0 * one)]  # fmt: skip
    with np.errstate(all="ignore"):
        some = np.array(some, dtype)
    return np.concatenate([some, -some, np.array([np.nan], dtype)])


def ulps(got, want):
    """Return how far results are apart, in units in the last place of the reference."""
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(want))
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0, np.where(np.isfinite(apart), apart, np.inf)).max(initial=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fun", ONE, ids=lambda f: f.__name__)
def test_functions_of_one_number_at_all_kinds_of_numbers(fun, dtype):
    x = special(dtype)
    got, want = run_call(fun, [x])
    if want.dtype.kind == "b":
        assert (got == want).all()
        return
    assert ulps(got, want) <= 5
    zero = (want == 0) & ~np.isnan(want)
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fun", TWO, ids=lambda f: f.__name__)
def test_functions_of_two_numbers_at_all_kinds_of_numbers(fun, dtype):
    x, y = [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(special(dtype), special(dtype))]
    got, want = run_call(fun, [x, y])
    if want.dtype.kind == "b":
        assert (got == want).all()
        return
    if fun in (np.logaddexp, np.logaddexp2):  # near 0 they cancel
        size = np.maximum(1, np.maximum(np.abs(x), np.abs(y)))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        assert (
            np.abs(got[finite] - want[finite]) <= 8 * np.finfo(dtype).eps * np.where(np.isfinite(size), size, 1)[finite]
        ).all()
        return
    assert ulps(got, want) <= 5
    if fun not in (np.maximum, np.minimum, np.fmax, np.fmin):  # of 0 and -0 either is the larger
        zero = (want == 0) & ~np.isnan(want)
        assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lengths(n, dtype):
    r = np.random.default_rng(n)
    x, y = r.normal(size=(2, n)).astype(dtype)
    for xs, fun in (([x], np.exp), ([x, y], np.add), ([x, y], np.greater), ([x, dtype(2)], np.multiply)):
        got, want = run_call(fun, xs)
        agree(want, got)


def test_comparisons_and_choices():
    r = np.random.default_rng(0)
    x, y = r.normal(size=(2, 301))
    x[::7] = np.nan
    compare(lambda x, y: np.where(x > y, np.sin(x), y * 2.0), x, y, count=1)
    compare(lambda x, y: np.where((x > 0.0) & (y > 0.0), x, 0.0) + np.clip(y, -0.5, 0.5), x, y, count=1)
    compare(lambda x, y: np.where(np.isfinite(x), x, -1.0) * np.sign(y), x, y, count=1)


def test_exact_math_calls_the_c_library():
    x = np.random.default_rng(1).normal(size=1000)
    with cr.config(exact_math=True):
        got, want = run_call(np.exp, [x])
    assert ulps(got, np.exp(x.astype(np.longdouble)).astype(float)) <= 1
    assert want.shape == got.shape


# -- layouts -----------------------------------------------------------------------------------------------------------


def strided(name, dtype=float):
    """Return an array of shape (9, 70) of a layout."""
    r = np.random.default_rng(3)
    big = r.normal(size=(20, 150)).astype(dtype)
    whole = r.normal(size=(9, 70)).astype(dtype)
    return {
        "rows": whole, "columns": np.asfortranarray(whole), "back": whole[::-1, ::-1],
        "part": big[3:12, 11:81], "steps": big[::2, ::2][:9, :70],
        "back rows": big[9:0:-1, :70], "row": np.broadcast_to(r.normal(size=70).astype(dtype), (9, 70)),
        "column": np.broadcast_to(r.normal(size=(9, 1)).astype(dtype), (9, 70)),
    }[name]  # fmt: skip


LAYOUTS = ("rows", "columns", "part", "steps", "back", "back rows", "row", "column")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_operands(layout, dtype):
    x, y = strided(layout, dtype), strided("rows", dtype)
    for xs, fun in (([x], np.sin), ([x, y], np.multiply), ([y, x], np.subtract)):
        got, want = run_call(fun, xs)
        agree(want, got)
    for axis in (None, 0, 1):
        got, want = run_call(np.sum, [x], {"axis": axis})
        agree(want, got)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_of_strided_memory(layout):
    for x in (strided(layout)[2], strided(layout)[:, 5]):
        got, want = run_call(np.negative, [x])
        agree(want, got)


@pytest.mark.parametrize("shapes", [
    ((5, 70), (70,)), ((70, 5), (70, 1)), ((40, 70), (1, 70)), ((40, 70), (40, 1)), ((3, 40, 50), (40, 1)),
    ((20, 1, 30), (1, 40, 1)), ((3, 1, 50, 2), (1, 40, 50, 1)), ((2, 3, 4, 50), (3, 1, 50)), ((100,), ()),
    ((40, 1), (40,)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_broadcasting(shapes, dtype):
    r = np.random.default_rng(4)
    xs = [r.normal(size=s).astype(dtype) for s in shapes]
    got, want = run_call(np.add, xs)
    agree(want, got)
    compare(lambda x, y: np.sum(np.exp(x * y)), *xs)
    compare(lambda x, y: np.sum(np.exp(x * y) - x), *xs, prepare=gradients)


def gradients(f, *xs):
    """Record the value and the gradients of a function."""
    return record(cr.value_and_grad(f, argnums=tuple(range(len(xs)))))(*xs)


# -- reductions --------------------------------------------------------------------------------------------------------

AXES = [((1000,), None), ((1000,), 0), ((50, 60), None), ((50, 60), 0), ((50, 60), 1), ((50, 60), -1), ((500, 3), 1),
        ((500, 3), 0), ((3, 500), 0), ((3, 500), 1), ((10, 20, 30), (0, 2)), ((10, 20, 30), 1), ((10, 20, 30), (1, 2)),
        ((2, 3, 4, 100), (0, 3)), ((2, 3, 4, 100), None), ((40, 2, 50), 1), ((40, 50, 2), 0),
        ((40, 50, 2), 2)]  # fmt: skip


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
@pytest.mark.parametrize("fun", [np.sum, np.mean, np.max, np.min, np.prod], ids=lambda f: f.__name__)
def test_reductions(fun, shape, axis, keepdims):
    x = np.random.default_rng(5).uniform(0.9, 1.1, shape)
    program = record(lambda x: fun(x * 1.01, axis=axis, keepdims=keepdims) + 1.0)(x)
    got, made = run(program, [x])
    agree(fun(x * 1.01, axis=axis, keepdims=keepdims) + 1.0, got[0])
    assert made


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fun", [np.sum, np.mean, np.max, np.min, np.prod], ids=lambda f: f.__name__)
def test_reductions_of_all_lengths(fun, n):
    for dtype in (np.float64, np.float32):
        x = np.random.default_rng(n).uniform(0.99, 1.01, n).astype(dtype)
        got, want = run_call(fun, [x])
        agree(want, got, 1e-5 if dtype is np.float32 else 1e-12)


def test_extrema_hand_on_nan():
    for n in (9, 64, 1000):
        for k in (0, n // 2, n - 1):
            x = np.zeros(n)
            x[k] = np.nan
            assert np.isnan(run_call(np.max, [x])[0])
            assert np.isnan(run_call(np.min, [x])[0])


def test_sums_of_many_entries_are_exact_to_rounding():
    x = np.full(1_000_003, 0.1)
    got, _ = run_call(np.sum, [x])
    assert abs(got - 100000.3) < 1e-8
    got, _ = run_call(np.sum, [x.astype(np.float32)])
    assert abs(got / 100000.3 - 1) < 1e-5


def test_any_and_all():
    x = np.random.default_rng(6).normal(size=(40, 50))
    for fun in (np.any, np.all):
        for mask in (x > 3.0, x > -5.0, x > 0.0):
            got, want = run_call(fun, [mask])
            assert got == want


def test_counts():
    x = np.random.default_rng(27).normal(size=(40, 50))
    for axis in (None, 0, 1, (0, 1)):
        got, want = run_call(np.sum, [x > 0.5], {"axis": axis, "dtype": np.int64, "keepdims": True})
        np.testing.assert_array_equal(got, want)
        got, want = run_call(np.sum, [(x * 9).astype(int)], {"axis": axis})
        np.testing.assert_array_equal(got, want)
    y = np.random.default_rng(28).integers(0, 3, (300, 4)).astype(float)
    compare(lambda y: np.sum(np.max(y, axis=1) ** 2), y, prepare=gradients)


# -- what is fused -----------------------------------------------------------------------------------------------------


def chain(x):
    a = np.sin(x)
    c = np.tanh(a + np.exp(-0.5 * (x * x)))
    d = np.sqrt(1.0 + c * c)
    return np.sum(np.cos(a * c - d) * np.log(d + 1.5) / (1.0 + a * a))


@pytest.mark.parametrize("n", SIZES)
def test_value_and_gradient_of_a_chain_are_one_pass(n):
    x = np.random.default_rng(7).normal(size=max(n, 5))
    [c] = compare(chain, x, prepare=gradients, count=1)
    assert len(c.outputs) == 2


@pytest.mark.parametrize("n", [6, 9, 10, 17, 1000])
def test_shifted_slices_are_one_pass(n):
    x = np.random.default_rng(8).normal(size=n)

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    [c] = compare(rosenbrock, x, prepare=gradients, count=1)
    assert len(c.outputs) == 2
    compare(lambda x: np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2), x, prepare=gradients)
    compare(lambda x: np.sum((x[::-1] * x[::2].sum()) ** 2), x, prepare=gradients)


def test_chains_longer_than_the_stack_is_deep():
    x = np.random.default_rng(29).uniform(0.1, 0.5, 150)

    def f(x):
        y = x
        for k in range(1200):
            y = y * x - 0.1 * k if k % 2 else y * 0.5 + x
        return np.sum(y)

    compare(f, x, count=2)


def test_rows_with_few_columns_are_one_pass():
    r = np.random.default_rng(9)
    x, y = r.normal(size=(2, 203, 3))

    def cross(x, y):
        a, b, c = x[:, 0], x[:, 1], x[:, 2]
        p, q, s = y[:, 0], y[:, 1], y[:, 2]
        z = np.stack([b * s - c * q, c * p - a * s, a * q - b * p], axis=1)
        n = np.sqrt(np.sum(z * z, axis=1))[:, None]
        return np.sum(z / n * x[:, ::-1])

    compare(cross, x, y, prepare=gradients, count=1)


def test_concatenations_and_stacks():
    r = np.random.default_rng(10)
    x, y = r.normal(size=300), r.normal(size=20)
    compare(lambda x, y: np.sum(np.concatenate([y[:1], x, y[1:2]]) ** 2), x, y, prepare=gradients)
    compare(lambda x, y: np.exp(np.concatenate([x, x * 2.0])), x, y)
    compare(lambda x, y: np.stack([x, np.sin(x)], axis=0) * 2.0, x, y)
    compare(lambda x, y: np.stack([x, np.sin(x)], axis=1) * 2.0, x, y)
    compare(lambda x, y: np.roll(x, 3) * np.flip(x), x, y)


def test_writes():
    x = np.random.default_rng(11).normal(size=(60, 40))

    def f(x):
        y = np.zeros((60, 40), like=x)
        y[1:-1, 1:-1] = x[1:-1, 1:-1] * 2.0
        y[0] = x[0]
        y[:, 3] += x[:, 4]
        return np.sum(y * y)

    compare(f, x, prepare=gradients)


def test_rows_that_are_normalised():
    for shape in ((50, 10), (40, 100), (3, 1000), (1000, 3)):
        x = np.random.default_rng(12).normal(size=shape)

        def log_sum(x):
            m = np.max(x, axis=1, keepdims=True)
            return np.sum(np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)) + m)

        compare(log_sum, x, prepare=gradients)
    compare(log_sum, np.random.default_rng(13).normal(size=(1000, 10)), prepare=gradients)


def test_transposed_and_reshaped_operands():
    r = np.random.default_rng(14)
    x, y = r.normal(size=(40, 50)), r.normal(size=(50, 40))
    compare(lambda x, y: np.exp(x + y.T) * np.sin(y).T, x, y)
    compare(lambda x, y: np.sin(x).reshape(2000) + y.reshape(-1), x, y)
    compare(lambda x, y: np.sum(np.sin(x).reshape(20, 2, 50), axis=1), x, y)
    compare(lambda x, y: np.sum(np.tanh(x) * y.T) + np.sum(x), x, y, prepare=gradients)
    z = r.normal(size=(45, 45))
    compare(lambda z: np.sum(np.sin(z * z.T)), z, prepare=gradients)


def test_integer_indices():
    r = np.random.default_rng(15)
    x, k = r.normal(size=200), r.integers(-200, 200, 731)
    w = r.normal(size=731)
    compare(lambda x, w: np.sum(np.sin(x[k]) * w), x, w, prepare=gradients)
    z = r.normal(size=(100, 3))
    rows = r.integers(0, 100, 300)
    compare(lambda z: np.sum(np.sin(z[rows]) * z[rows, 0][:, None]), z, prepare=gradients)
    where = r.integers(0, 200, 300)
    compare(lambda x: picked(x, where) if False else np.exp(x[where]), x)


def test_flat_positions():
    r = np.random.default_rng(16)
    x, where, v = r.normal(size=(20, 10)), r.integers(0, 200, 500), r.normal(size=500)
    got, want = run_call(picked, [x, where])
    agree(want, got)
    got, want = run_call(unpicked, [v, where], {"shape": (20, 10)})
    agree(want, got)


def test_one_write_at_an_integer():
    for where in (0, 7, 299):
        got, want = run_call(unpicked, [np.array(2.5), np.array(where)], {"shape": (300,)})
        agree(want, got)
    x = np.random.default_rng(25).normal(size=31)
    compare(lambda x: np.median(x) ** 2 * x, x)
    program = optimise(record(cr.grad(lambda x: np.median(x) ** 2))(x))
    agree(interpret(program, [x])[0], run(program, [x])[0][0])


def test_views_that_are_no_rows_are_copied_for_flat_order():
    x = np.random.default_rng(26).normal(size=(40, 50))
    e, values, _ = equation(np.reshape, [x.T], {"shape": (20, 100)})
    sine = Equation(RULES[np.sin], (e.output,), {}, Symbol("z", (20, 100), np.dtype(float)))
    c = Cluster([e, sine], "flat", (2000,), (sine.output,), [e.inputs[0]])
    Nest(c, values)(values)
    agree(np.sin(x.T.reshape(20, 100)), values[sine.output])


def test_an_index_out_of_bounds_is_told():
    x, where = np.arange(10.0), np.arange(500) % 10
    where[333] = 10
    e, values, _ = equation(picked, [x, np.zeros(500, int)])
    [cluster] = clusters([e], [e.output], is_memory=lambda s: s.size > 0)
    values[e.inputs[1]] = where
    with pytest.raises(IndexError):
        Nest(cluster, values)(values)
    where[333] = -10
    Nest(cluster, values)(values)
    where[333] = -11
    with pytest.raises(IndexError):
        Nest(cluster, values)(values)


def test_products_with_few_terms_are_fused():
    r = np.random.default_rng(17)
    x, m = r.normal(size=(500, 3)), r.normal(size=(3, 3))
    compare(lambda x, m: np.sum(np.tanh(x @ m)), x, m, prepare=gradients)
    compare(lambda x, m: np.outer(x[:, 0], x[:, 1]) * 2.0, x, m)


def test_dtypes_mix_as_in_numpy():
    r = np.random.default_rng(18)
    x, k = r.normal(size=100).astype(np.float32), r.integers(-5, 5, 100)
    compare(lambda x: x * 2.0 + np.float32(1), x)
    got, want = run_call(np.multiply, [x, k])
    agree(want, got)
    for fun in (np.add, np.multiply, np.floor_divide, np.remainder, np.maximum, np.less, np.equal):
        got, want = run_call(fun, [k, np.roll(k, 3)])
        agree(want, got)


def test_data_flow_is_kept():
    r = np.random.default_rng(19)
    x, y = r.normal(size=(2, 100))

    def f(x, y):
        s = np.sum(x * y)
        a = np.exp(x - s * 0.01)
        t = np.max(a)
        b = a / t
        c = np.linalg.norm(b) * y
        return np.sum(b * c), s, t

    program = record(f)(x, y)
    want = interpret(program, [x, y])
    got, _ = run(program, [x, y])
    for a, b in zip(want, got, strict=True):
        agree(a, b)


def test_the_type_of_an_entry_is_known():
    assert type_of(np.dtype(np.float16)) is None


# -- nests of one equation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"), [((300,), 0), ((300,), None), ((40, 50), 0), ((40, 50), 1), ((3, 40, 5), 1)]
)
def test_running_sums(shape, axis):
    x = np.random.default_rng(20).uniform(0.9, 1.1, shape)
    for fun in (np.cumsum, np.cumprod):
        got, want = run_call(fun, [x], {"axis": axis})
        np.testing.assert_array_equal(got, want)
    got, want = run_call(np.cumsum, [x.T if axis is not None else x], {"axis": axis})
    np.testing.assert_array_equal(got, want)
    compare(lambda x: np.sum(np.sin(np.cumsum(x * 0.1, axis=axis)) * x), x, prepare=gradients)


@pytest.mark.parametrize(
    ("shape", "axis"), [((300,), 0), ((300,), None), ((40, 50), 0), ((40, 50), 1), ((40, 50), None)]
)
def test_places_of_extrema(shape, axis):
    x = np.random.default_rng(21).integers(-20, 20, shape)
    y = x.astype(float)
    z = y.copy()
    z[..., 5] = np.nan
    for a in (x, y, z, -z, np.full(shape, -np.inf), y.astype(np.float32)):
        for fun in (np.argmax, np.argmin):
            got, want = run_call(fun, [a], {"axis": axis})
            np.testing.assert_array_equal(got, want)


def test_writes_that_are_alone():
    r = np.random.default_rng(22)
    x, v, k = r.normal(size=300), r.normal(size=100), r.integers(-300, 300, 100)
    for index in (slice(0, None, 3), slice(299, None, -3), k):
        got, want = run_call(put, [x, v], {"index": index})
        np.testing.assert_array_equal(got, want)
        got, want = run_call(scatter, [v], {"index": index, "shape": (300,), "dtype": x.dtype})
        agree(want, got)
    z, w = r.normal(size=(40, 50)), r.normal(size=(20, 50))
    rows = r.integers(0, 40, 20)
    for index in (slice(None, None, 2), rows, (slice(None, None, 2), Ellipsis)):
        got, want = run_call(put, [z, w], {"index": index})
        np.testing.assert_array_equal(got, want)
    compare(lambda x: np.sum(np.exp(x[::3]) * x[100:200]), x, prepare=gradients)


def test_triangles():
    x = np.random.default_rng(23).normal(size=(40, 45))
    for k in (-3, 0, 7):
        compare(lambda x: np.sum(np.sin(np.tril(x, k)) * np.triu(x * 2.0, -k)), x, prepare=gradients)
    y = np.random.default_rng(24).normal(size=(300, 3, 3))
    compare(lambda y: np.sum(np.tril(y) ** 3), y, prepare=gradients)


# -- other processors, and all that the library's own tests call -------------------------------------------------------


@pytest.mark.parametrize("lanes_of_doubles", [2, 4])
def test_processors_with_shorter_registers(monkeypatch, lanes_of_doubles):
    host = dataclasses.replace(target.host(), lanes=lanes_of_doubles)
    monkeypatch.setattr(target, "host", lambda: host)
    for dtype in (np.float64, np.float32):
        x = special(dtype)
        for fun in (np.exp, np.log, np.sin, np.tanh, np.sqrt, np.arctan, np.log1p, np.expm1, np.cbrt):
            got, want = run_call(fun, [x])
            assert ulps(got, want) <= 5, fun
    for n in (5, 17, 1000):
        test_value_and_gradient_of_a_chain_are_one_pass(n)
        test_shifted_slices_are_one_pass(max(n, 6))
    test_rows_with_few_columns_are_one_pass()
    test_integer_indices()
    test_layouts_of_operands("steps", np.float64)
    test_layouts_of_operands("back", np.float32)
    test_reductions(np.mean, (10, 20, 30), (0, 2), False)


def programs_of_samples(part, parts):
    """Find programs: samples of the library's own tests, and their gradients."""
    for sample in list(all_samples())[part::parts]:
        if sample.error or not sample.accepts("float64") or str(sample).startswith(("scipy", "chainrule.scipy")):
            continue
        f, xs = sample.function(), sample.operands()
        if not xs or not all(isinstance(x, np.ndarray) and x.size for x in xs):
            continue
        y = f(*xs)
        if not isinstance(y, np.ndarray | float) or np.asarray(y).dtype != float:
            continue
        yield sample, record(cr.value_and_grad(lambda *a, f=f: np.sum(f(*a) ** 2), tuple(range(len(xs)))))(*xs), xs


@pytest.mark.parametrize("part", range(4))
def test_samples(part):
    made = 0
    for sample, program, xs in programs_of_samples(part, 32):
        program = optimise(program)
        want = interpret(program, xs)
        got, found = run(program, xs)
        made += len(found)
        if "linalg" in str(sample):  # derivatives that are 0 but for rounding
            continue
        for a, b in zip(want, got, strict=True):
            agree(a, b, 1e-10, 1e-14)  # a derivative may be 0 but for rounding
    assert made > 10
