"""Products in machine code against NumPy's: every layout of the operands and the result, with BLAS and without."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.program.ir import Equation, Symbol
from chainrule.program.native import blas, products, target
from chainrule.program.native.builder import Builder, Module
from chainrule.program.native.values import Memory
from chainrule.rules.einsum import einsum2

CASES = {
    np.matmul: [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((7,), (7,)), ((33, 17), (17, 9)), ((100, 70), (70, 90)),
        ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 5), (5, 1)),
        ((6, 1), (1, 6)), ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((300,), (300, 40)), ((40, 300), (300,)),
        ((3, 40, 20), (20,)), ((64, 64), (64, 64)), ((5,), (3, 5, 4)), ((20, 50), (50, 20)),
    ],
    np.dot: [((2, 3, 4), (5, 4, 6)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((90,), (90,))],
    np.inner: [((2, 3, 4), (5, 4)), ((9,), (9,))],
    np.outer: [((13,), (21,))],
    np.vdot: [((31,), (31,))],
}  # fmt: skip
AXES = [
    ((2, 3, 4), (3, 4, 5), 2), ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])), ((3, 4), (2, 5), 0),
    ((2, 3, 4), (5, 3), (1, 1)), ((20, 30, 4), (4, 30, 50), ([1, 2], [1, 0])), ((3, 4), (4, 5), ((-1,), (0,))),
]  # fmt: skip
TERMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ki", (3, 4), (5, 4)), ("bij,bjk->bik", (3, 4, 5), (3, 5, 6)),
    ("bi,bi->b", (4, 5), (4, 5)), ("i,j->ij", (4,), (5,)), ("ij,ij->ij", (4, 5), (4, 5)),
    ("nij,nj->ni", (6, 3, 3), (6, 3)), ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)), ("ij,ij->", (4, 5), (4, 5)),
    ("ijkl,jmln->imkn", (2, 3, 4, 5), (3, 6, 5, 7)), ("ab,b->ba", (3, 4), (4,)),
]  # fmt: skip
ALL = [(f, s, u, {}) for f, pairs in CASES.items() for s, u in pairs]
ALL += [(np.tensordot, s, u, {"axes": a}) for s, u, a in AXES] + [
    (einsum2, s, u, {"subscripts": t}) for t, s, u in TERMS
]


def equation(fun, x, y, **params):
    """Return a product's equation, and its result."""
    want = np.asarray(fun(x, y, **params))
    symbols = Symbol("x", x.shape, x.dtype), Symbol("y", y.shape, y.dtype)
    rule = SimpleNamespace(fun=fun, name=fun.__name__, kind="bilinear")
    return Equation(rule, symbols, params, Symbol("z", want.shape, want.dtype)), want


def memory(pointer, a):
    return Memory(pointer, a.shape, tuple(s // a.itemsize for s in a.strides), a.dtype)


def run(e, x, y, out):
    """Compile a product, and run it once."""
    module = Module()
    b = Builder(module, "run", "void", ["ptr"] * 4)
    used = [0]

    def scratch(count):
        used[0] += count
        return b.offset("double" if x.dtype == float else "float", b.arguments[3], used[0] - count)

    arrays = [memory(p, a) for p, a in zip(b.arguments, (x, y, out), strict=False)]
    products.multiply(b, e, *arrays, scratch, target.host().lanes * 8)
    b.ret()
    code = target.compiled(module.text())
    pad = np.full(used[0], np.nan, x.dtype)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address("run"))(
        *[a.ctypes.data for a in (x, y, out, pad)]
    )  # fmt: skip


def layouts(rng, shape, dtype):
    """Make an array row by row, column by column, with its axes rotated, as every second entry, backwards, repeated."""
    a = rng.normal(size=shape).astype(dtype)
    yield a
    yield rng.normal(size=[2 * n + 1 for n in shape]).astype(dtype)[tuple(slice(1, None, 2) for _ in shape)]
    yield a[::-1]
    yield np.broadcast_to(a[:1], shape) if a.size else a
    if len(shape) > 1:
        yield np.asfortranarray(a)
        yield np.ascontiguousarray(np.moveaxis(a, 0, -1)).transpose(-1, *range(len(shape) - 1))


def results(shape, dtype):
    """Make memory for a result, in several layouts, filled with NaN."""
    yield np.full(shape, np.nan, dtype)
    if shape:
        yield np.full(shape, np.nan, dtype, order="F")
        yield np.full([2 * n for n in shape], np.nan, dtype)[tuple(slice(None, None, 2) for _ in shape)]


@pytest.mark.parametrize("dtype", ["d", "f"])
@pytest.mark.parametrize(("fun", "s", "u", "params"), ALL)
def test_layouts(fun, s, u, params, dtype):
    rng = np.random.default_rng(0)
    for i, x in enumerate(layouts(rng, s, dtype)):
        for j, y in enumerate(layouts(rng, u, dtype)):
            e, want = equation(fun, x, y, **params)
            assert products.lowerable(e)
            scale = fun(abs(x).astype(float), abs(y).astype(float), **params)
            for k, out in enumerate(results(want.shape, want.dtype)):
                if k == (i + j) % 3 and (i + 2 * j) % (2 if dtype == "d" else 5) == 0:
                    run(e, x, y, out)
                    assert np.all(np.abs(out - want) <= (1e-13 if dtype == "d" else 1e-5) * scale)


@pytest.mark.parametrize("shapes", [((40, 33), (33, 50)), ((90, 60), (60, 80)), ((200, 130), (130,))])
def test_without_blas_and_with_blas_only(monkeypatch, shapes):
    rng = np.random.default_rng(1)
    for called in (False, True)[: 1 + blas.has_blas(float)]:
        monkeypatch.setattr(products, "has_blas", lambda dtype, called=called: called)
        monkeypatch.setattr(products.Writer, "is_small", lambda self, m, k, n, called=called: not called)
        for i, x in enumerate(layouts(rng, shapes[0], "d")):
            for j, y in enumerate(layouts(rng, shapes[1], "d")):
                e, want = equation(np.matmul, x, y)
                made = list(results(want.shape, want.dtype))
                out = made[(i + j) % len(made)]
                run(e, x, y, out)
                assert np.all(np.abs(out - want) <= 1e-13 * (abs(x) @ abs(y)))


def test_what_is_not_finite_stays_so():
    x, y = np.ones((3, 20)), np.ones((20, 9))
    x[0, 3], y[4, 2], y[3, 5] = np.inf, np.nan, 0.0
    with np.errstate(invalid="ignore"):
        e, want = equation(np.matmul, x, y)
    out = np.empty(want.shape)
    run(e, x, y, out)
    assert np.array_equal(out, want, equal_nan=True)


@pytest.mark.parametrize(
    ("fun", "x", "y", "params"),
    [(np.matmul, np.ones((2, 2), complex), np.ones((2, 2), complex), {}),
     (np.matmul, np.ones((2, 2), int), np.ones((2, 2), int), {}),
     (np.matmul, np.ones((2, 2), "f"), np.ones((2, 2)), {}),
     (einsum2, np.ones((2, 2)), np.ones((2, 2)), {"subscripts": "ii,ij->j"})],
)  # fmt: skip
def test_what_has_no_lowering(fun, x, y, params):
    assert not products.lowerable(equation(fun, x, y, **params)[0])


def test_large_products_need_blas(monkeypatch):
    e, _ = equation(np.matmul, np.ones((100, 100)), np.ones((100, 100)))
    assert products.lowerable(e) == blas.has_blas(float)
    monkeypatch.setattr(products, "has_blas", lambda dtype: False)
    assert not products.lowerable(e)
