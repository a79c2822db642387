"""Functions that run on a batch by an entry of the table: against plain NumPy run by run, and central differences."""

import importlib.util
import itertools

import numpy as np
import pytest

import chainrule as cr

N = 4
rng = np.random.default_rng(11)


def draw(*shape):
    return rng.normal(size=(N, *shape))


def rising(*shape):
    return np.sort(draw(*shape), axis=-1) + np.linspace(-1, 1, shape[-1])


HOLES = draw(2, 5)
HOLES[:, 0, 1] = HOLES[2, 1, 3] = np.nan
TALL = draw(5, 3)

# name -> the function of one run, and the operands of all runs; each operand may also be one for all (in_axes=None)
CASES = {
    "median": (np.median, draw(4)),
    "median of an axis": (lambda x: np.median(x, axis=0, keepdims=True), draw(3, 4)),
    "quantile": (lambda x: np.quantile(x, 0.3), draw(5)),
    "quantiles of rows": (lambda x: np.quantile(x, [[0.1, 0.5]], axis=1), draw(2, 5)),
    "percentile by method": (lambda x: np.percentile(x, [20, 70], axis=0, method="hazen", keepdims=True), draw(4, 2)),
    "nanmedian": (lambda x: np.nanmedian(x, axis=1), HOLES),
    "nanquantile": (lambda x: np.nanquantile(x, 0.4), HOLES),
    "partition": (lambda x: np.partition(x, (1, 3), axis=0) * x[:1], draw(5, 2)),
    "partition flat": (lambda x: np.partition(x, 2, axis=None)[:3].sum(), draw(3, 2)),
    "sort": (lambda x: np.sort(x, axis=0, kind="stable") * x, draw(5, 2)),
    "argsort by position": (lambda x: x[np.argsort(x, 0, "stable")] * np.arange(5.0), draw(5)),
    "argmax": (lambda x: np.take_along_axis(x, np.argmax(x, 1, keepdims=True), 1), draw(3, 4)),
    "lexsort": (lambda x, y: np.take_along_axis(x, np.lexsort((y, np.floor(x))), 0) * np.arange(5.0), draw(5), draw(5)),
    "searchsorted": (lambda a, v: np.searchsorted(a, v) + v, rising(5), draw(2, 3)),
    "searchsorted right": (lambda a, v: np.searchsorted(a, v, "right") * v, rising(4), draw()),
    "digitize": (lambda x, b: np.digitize(x, b, right=True) * x, draw(6), rising(3)),
    "interp": (lambda x, xp, fp: np.interp(x, xp, fp), draw(3), rising(5), draw(5)),
    "interp with ends": (lambda x, fp: np.interp(x, [-1.0, 0.0, 0.5], fp, left=7.0, right=-3.0), draw(2, 2), draw(3)),
    "interp with a period": (lambda x, xp, fp: np.interp(x, xp, fp, period=2.7), draw(4), draw(4), draw(4)),
    "unwrap": (lambda x: np.unwrap(x, axis=0), 6 * draw(5, 2)),
    "convolve": (lambda a, v: np.convolve(a, v), draw(6), draw(3)),
    "convolve same": (lambda a, v: np.convolve(a, v, "same"), draw(3), draw(5)),
    "convolve valid": (lambda a, v: np.convolve(a, v, mode="valid"), draw(6), draw(3)),
    "correlate": (lambda a, v: np.correlate(a, v, "full"), draw(2), draw(4)),
    "convolve long rows": (lambda a, v: np.convolve(a, v, "valid")[:3], draw(190), draw(70)),
    "dot": (np.dot, draw(2, 3), draw(2, 3, 2)),
    "dot by a vector": (np.dot, draw(3), draw(2, 3, 2)),
    "dot of many": (np.dot, draw(2, 2, 3), draw(3)),
    "lstsq": (lambda a, b: np.linalg.lstsq(a, b)[0], draw(5, 3), draw(5)),
    "lstsq of columns": (lambda a, b: np.linalg.lstsq(a, b)[0], draw(3, 4), draw(3, 2)),
    "lstsq of lost rank": (lambda a, b: np.linalg.lstsq(a, b, rcond=1e-3)[0], TALL[..., :2] @ draw(2, 3), draw(5)),
    "squares": (lambda a, b: np.linalg.lstsq(a, b)[1], TALL, draw(5, 2)),
    "linspace": (lambda a, b: np.linspace(a, b, 4, axis=-1), draw(3), draw()),
    "logspace": (lambda a, b: np.logspace(a, b, 3, endpoint=False), draw(), draw(2)),
    "ldexp": (lambda x: np.ldexp(x, [[1], [-2]]), draw(3)),
    "frexp": (lambda x: np.frexp(x)[0], 1.3 + 0.3 * np.tanh(draw(3))),
    "i0": (np.i0, draw(3)),
    "tril of a vector": (lambda x: np.tril(x, 1), draw(3)),
    "emath": (lambda x: np.emath.sqrt(x * x), draw(3)),
    "poly": (np.poly, draw(3)),
}
if importlib.util.find_spec("scipy"):
    import chainrule.scipy.linalg as linalg
    import chainrule.scipy.special as special

    def lifted(a):
        return a @ a.T + 3 * np.eye(3)

    CASES |= {
        "logsumexp": (lambda x, b: special.logsumexp(x, axis=1, b=b), draw(2, 3), np.abs(draw(2, 3))),
        "softmax": (lambda x: special.softmax(x, axis=0) * special.log_softmax(x), draw(3, 2)),
        "special": (lambda x: special.rgamma(x) + special.dawsn(x) * special.psi(3 + x * x) + special.i0e(x), draw(2)),
        "triangles": (lambda a, b: linalg.solve_triangular(lifted(a), b, lower=True), draw(3, 3), draw(3)),
        "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(lifted(a)), b), draw(3, 3), draw(3, 2)),
        "sylvester": (lambda a, b: linalg.solve_sylvester(lifted(a), np.eye(2), b), draw(3, 3), draw(3, 2)),
        "expm": (lambda a: linalg.expm(0.3 * a) @ linalg.sqrtm(lifted(a)), draw(3, 3)),
    }
SLOPES_OF_SPLITS = {"lstsq of lost rank"}  # by differences the rank is full, and the solution jumps


def operands(name, dtype=float):
    return [x.astype(dtype) for x in CASES[name][1:]]


def runs(f, axes, xs, n=N):
    return [f(*[x if a is None else x[k] for x, a in zip(xs, axes, strict=True)]) for k in range(n)]


def shared(axes, xs):
    return [x[1] if a is None else x for x, a in zip(xs, axes, strict=True)]


WAYS = [(n, axes) for n in CASES for axes in itertools.product((0, None), repeat=len(CASES[n]) - 1) if 0 in axes]


@pytest.mark.parametrize(("name", "axes"), WAYS)
def test_values_are_those_of_the_runs(name, axes):
    f = CASES[name][0]
    for dtype, digits in ((np.float64, 1e-11), (np.float32, 3e-4)):
        xs = shared(axes, operands(name, dtype))
        want = np.stack(runs(f, axes, xs))
        have = cr.vmap(f, in_axes=axes)(*xs)
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=digits, atol=digits)
        one = cr.vmap(f, in_axes=axes)(*[x if a is None else x[:1] for x, a in zip(xs, axes, strict=True)])
        np.testing.assert_allclose(one, want[:1], rtol=digits, atol=digits)


@pytest.mark.parametrize(("name", "axes"), WAYS)
def test_nothing_is_called_once_per_run(name, axes):
    f = CASES[name][0]
    xs = shared(axes, operands(name))
    loss = lambda *xs: np.sum(np.sin(np.abs(f(*xs))))
    everywhere = tuple(range(len(xs)))
    assert cr.vmap(f, in_axes=axes).loops(*xs) == ()
    assert cr.vmap(cr.grad(loss, argnums=everywhere), in_axes=axes).loops(*xs) == ()
    assert cr.vmap(lambda *xs: cr.jvp(f, xs, xs)[1], in_axes=axes).loops(*xs) == ()


@pytest.mark.parametrize("name", sorted(set(CASES) - SLOPES_OF_SPLITS))
def test_gradients_are_slopes(name):
    f, xs = CASES[name][0], operands(name)
    everywhere = tuple(range(len(xs)))
    loss = lambda *xs: np.sum(np.sin(np.abs(f(*xs))))
    total = lambda *xs: np.sum(cr.vmap(loss)(*xs))
    inside, around = cr.vmap(cr.grad(loss, argnums=everywhere))(*xs), cr.grad(total, argnums=everywhere)(*xs)
    for k, x in enumerate(xs):
        step = 1e-6 * np.cos(np.arange(x.size)).reshape(x.shape)
        ends = [runs(loss, [0] * len(xs), [*xs[:k], x + s * step, *xs[k + 1 :]]) for s in (1, -1)]
        want = (np.array(ends[0]) - np.array(ends[1])) / 2
        for bar in (inside[k], around[k]):
            terms = np.where(np.isnan(x), 0, bar * step)
            np.testing.assert_allclose(terms.reshape(N, -1).sum(axis=1), want, rtol=1e-5, atol=3e-12)


@pytest.mark.parametrize("name", sorted(CASES))
def test_no_runs_give_no_results(name):
    f, xs = CASES[name][0], operands(name)
    try:
        have = cr.vmap(f)(*[x[:0] for x in xs])
    except cr.errors.ShapeError as error:
        assert "length 0" in str(error)
    else:
        assert have.shape == (0, *np.shape(f(*[x[0] for x in xs])))


WHOLE = {
    "median": (np.median, (5,)),
    "quantile": (lambda x: np.quantile(x, [0.2, 0.9]), (5,)),
    "partition": (lambda x: np.partition(x, 2), (5,)),
    "sort": (np.sort, (5,)),
    "convolve": (lambda x: np.convolve(x, x[:2]), (5,)),
    "dot": (lambda x: np.dot(x, x), (2, 3, 3)),
    "digitize": (lambda x: np.digitize(x, [2, 5]), (4,)),
    "searchsorted": (lambda x: np.searchsorted(np.sort(x), 3), (4,)),
    "interp": (lambda x: np.interp(x, [0, 4, 9], [1, 2, 8]), (4,)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_keep_their_dtype(name):
    f, shape = WHOLE[name]
    xs = rng.integers(0, 9, size=(N, *shape))
    want = np.stack([f(x) for x in xs])
    have = cr.vmap(f)(xs)
    assert have.dtype == want.dtype
    np.testing.assert_allclose(have, want, rtol=1e-12)


def test_equal_entries_are_searched_as_by_numpy():
    a = np.array([[0.0, 1.0, 1.0, 2.0], [1.0, 1.0, np.nan, np.nan], [np.inf] * 4])
    v = np.array([[1.0, 2.0, np.nan], [np.nan, 1.0, 0.0], [np.inf, -np.inf, 3.0]])
    for side in ("left", "right"):
        want = [np.searchsorted(p, q, side) for p, q in zip(a, v, strict=True)]
        np.testing.assert_array_equal(cr.vmap(lambda p, q: np.searchsorted(p, q, side))(a, v), want)


def test_an_infinite_value_at_a_knot_stays_there():
    f = lambda fp: np.interp([0.0, 0.5, 2.0], [0.0, 1.0, 2.0], fp)
    fp = np.array([[0.0, 1.0, np.inf], [1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(cr.vmap(f)(fp), [f(p) for p in fp])


def test_ranks_that_differ_between_the_runs():
    a = np.stack([np.eye(3), np.diag([1.0, 2.0, 0.0])])
    b = np.ones((2, 3))
    have = cr.vmap(lambda a, b: np.linalg.lstsq(a, b)[0])(a, b)
    np.testing.assert_allclose(have, [[1, 1, 1], [1, 0.5, 0]], atol=1e-12)


# -- subscripts that differ between the runs ----------------------------------------------------------------------

K = np.array([2, 0, 1, 2])
KS = np.array([[0, 2], [1, 1], [2, 0], [1, 0]])
TABLE = rng.normal(size=(3, 4, 5))
READS = {
    "number": lambda x, k, ks: x[k] ** 2,
    "numbers": lambda x, k, ks: x[k, ks[0], k] * x[0, ks[1], -1],
    "several": lambda x, k, ks: x[ks] * 2,
    "behind a slice": lambda x, k, ks: x[:, ks] + x[2:, k, None],
    "around a slice": lambda x, k, ks: x[k, :, ks] * x[ks, 1:3, 0].sum(),
    "beside arrays": lambda x, k, ks: x[[0, 2], ks] * x[[[0], [1]], ks, :],
    "ellipsis": lambda x, k, ks: x[..., k, ks] + x[ks, ..., 0][:, :3].sum(),
    "mask": lambda x, k, ks: x[[True, False, True], ks],
    "take": lambda x, k, ks: np.take(x, ks, axis=1) + np.take(x, k, axis=2)[:, :2, None],
    "take wrap": lambda x, k, ks: np.take(x, ks - 5, mode="wrap") + np.take(x, ks * 99, mode="clip"),
    "a table of all runs": lambda x, k, ks: np.take_along_axis(TABLE[0, :2], ks[:, None], 1) * x[0, :2, :1],
    "along": lambda x, k, ks: np.take_along_axis(x[0, :2], ks[:, None], 1) * x[0, 0, 0],
    "choose": lambda x, k, ks: np.choose(ks, [x[0, 0, :2], x[1, 1, 1:3], 3.0]),
    "roll": lambda x, k, ks: np.take(x[0, 0], np.arange(5) - k, mode="wrap"),
}


@pytest.mark.parametrize("name", READS)
def test_reads_at_integers_of_each_run(name):
    f = READS[name]
    x = draw(3, 4, 5)
    want = np.stack([f(*each) for each in zip(x, K, KS, strict=True)])
    np.testing.assert_allclose(cr.vmap(f)(x, K, KS), want, rtol=1e-13)
    assert cr.vmap(f).loops(x, K, KS) == ()
    loss = lambda x, k, ks: np.sum(np.sin(f(x, k, ks)))
    slopes = np.stack([cr.grad(loss)(*each) for each in zip(x, K, KS, strict=True)])
    np.testing.assert_allclose(cr.vmap(cr.grad(loss))(x, K, KS), slopes, rtol=1e-12, atol=1e-14)
    total = lambda x: np.sum(cr.vmap(loss)(x, K, KS))
    np.testing.assert_allclose(cr.grad(total)(x), slopes, rtol=1e-12, atol=1e-14)
    assert cr.vmap(cr.grad(loss)).loops(x, K, KS) == ()
    if "table" not in name:
        one = x[0]
        want = np.stack([f(one, *each) for each in zip(K, KS, strict=True)])
        boxed = lambda one: np.sum(np.cos(cr.vmap(f, in_axes=(None, 0, 0))(one, K, KS)))
        looped = lambda one: np.sum(np.cos(np.stack([f(one, *each) for each in zip(K, KS, strict=True)])))
        assert cr.grad(boxed)(one) == pytest.approx(cr.grad(looped)(one), rel=1e-12)


def entry_written(y, x, k, ks):
    y[k, 0] = x[1, 1] ** 2
    y[k, 1] += 3.0
    y[0, k] *= x[0, 0]


def row_written(y, x, k, ks):
    y[k] = x[0] * x[1]
    y[1:, k] = 2.0


def entries_written(y, x, k, ks):
    y[[0, 1], ks] = x[0, :2]
    y[ks % 3, [3, 2]] = x[:2, 1:2].T


def written_twice(y, x, k, ks):
    y[ks, 0] = x[0, :2]  # where both are one entry, the last wins


def masked(y, x, k, ks):
    y[x > 0.3] = x[0, 0]
    y[y < 0] = 0
    y[1][x[1] < 0] = 5


def added_up(y, x, k, ks):
    np.add.at(y, ks, x[0])
    np.subtract.at(y, (k, ks), x[1, :2])


def along_written(y, x, k, ks):
    np.put_along_axis(y, np.argsort(x, axis=1)[:, :2], x[:, 1:3] ** 2, 1)


def view_written(y, x, k, ks):
    row = y[k]
    row += x[0]
    y[k, 1] = 7.0
    y[0] *= row


WRITES = [entry_written, row_written, entries_written, masked, added_up, along_written, written_twice, view_written]


@pytest.mark.parametrize("write", WRITES)
def test_writes_at_integers_and_masks_of_each_run(write):
    def f(x, k, ks):
        y = np.zeros(np.shape(x), like=x) if write in WRITES[:3] else x * 1.0
        write(y, x, k, ks)
        return y * np.arange(1.0, 5.0)

    def plain(x, k, ks):
        y = np.zeros(x.shape) if write in WRITES[:3] else x * 1.0
        write(y, x, k, ks)
        return y * np.arange(1.0, 5.0)

    x = draw(3, 4)
    want = np.stack([plain(*each) for each in zip(x, K, KS, strict=True)])
    np.testing.assert_allclose(cr.vmap(f)(x, K, KS), want, rtol=1e-13)
    loss = lambda x, k, ks: np.sum(np.sin(f(x, k, ks)))
    slopes = np.stack([cr.grad(loss)(*each) for each in zip(x, K, KS, strict=True)])
    np.testing.assert_allclose(cr.vmap(cr.grad(loss))(x, K, KS), slopes, rtol=1e-12, atol=1e-14)
    total = lambda x: np.sum(cr.vmap(loss)(x, K, KS))
    np.testing.assert_allclose(cr.grad(total)(x), slopes, rtol=1e-12, atol=1e-14)
    jvp = lambda x, k, ks: cr.jvp(lambda x: f(x, k, ks), (x,), (np.cos(x),))[1]
    tangents = np.stack([jvp(*each) for each in zip(x, K, KS, strict=True)])
    np.testing.assert_allclose(cr.vmap(jvp)(x, K, KS), tangents, rtol=1e-12, atol=1e-14)
    if write not in (written_twice, view_written):
        assert cr.vmap(f).loops(x, K, KS) == ()
        assert cr.vmap(cr.grad(loss)).loops(x, K, KS) == ()


def test_complex_numbers_are_not_written_into_real_arrays():
    def f(x):
        y = x * 1.0
        y[x > 0] = 1j
        return y

    with pytest.raises(TypeError):
        cr.vmap(f)(draw(3))


# -- rules of the user --------------------------------------------------------------------------------------------


def scaled(x, w):
    return np.sin(x) * np.sum(w * x)


def by_vjp(calls):
    f = cr.custom_vjp(lambda x, w: calls.append("f") or scaled(x, w))

    def back(ybar, y, x, w):
        calls.append("vjp")
        return ybar * np.cos(x) * np.sum(w * x) + w * np.sum(ybar * np.sin(x)), x * np.sum(ybar * np.sin(x))

    f.defvjp(back)
    return f


def by_jvp(calls):
    f = cr.custom_jvp(lambda x, w: calls.append("f") or scaled(x, w))

    def forth(dots, y, x, w):
        calls.append("jvp")
        return dots[0] * np.cos(x) * np.sum(w * x) + np.sin(x) * (np.sum(dots[0] * w) + np.sum(dots[1] * x))

    f.defjvp(forth)
    return f


@pytest.mark.parametrize("make", [by_vjp, by_jvp])
def test_a_rule_of_the_user_runs_once_on_a_batch(make):
    calls = []
    f, x, w = make(calls), draw(3), draw(3)
    np.testing.assert_allclose(cr.vmap(f)(x, w), [scaled(*each) for each in zip(x, w, strict=True)], rtol=1e-13)
    assert calls == ["f"]
    loss, plain = [lambda x, w, g=g: np.sum(np.cos(g(x, w))) for g in (f, scaled)]
    for ways in (cr.grad(loss, argnums=(0, 1)), lambda x, w: cr.jvp(loss, (x, w), (w, x))[1]):
        calls.clear()
        assert cr.vmap(ways).loops(x, w) == ()
        once = len(calls)
        cr.vmap(ways)(x[:2], w[:2])
        assert len(calls) == 2 * once
    want = [cr.grad(plain, argnums=(0, 1))(*each) for each in zip(x, w, strict=True)]
    for have, parts in zip(cr.vmap(cr.grad(loss, argnums=(0, 1)))(x, w), zip(*want, strict=True), strict=True):
        np.testing.assert_allclose(have, parts, rtol=1e-11)
    total, looped = [lambda x, g=g: np.sum(np.sin(cr.vmap(g, in_axes=(0, None))(x, w[0]))) for g in (f, scaled)]
    np.testing.assert_allclose(cr.grad(total)(x), cr.grad(looped)(x), rtol=1e-11)
    np.testing.assert_allclose(cr.hvp(total, x, w), cr.hvp(looped, x, w), rtol=1e-10)
    hessians = cr.vmap(cr.hessian(loss))(x, w)
    np.testing.assert_allclose(hessians, [cr.hessian(plain)(*each) for each in zip(x, w, strict=True)], rtol=1e-9)


def test_a_function_of_the_user_that_can_take_one_run_only():
    f = cr.custom_vjp(lambda x: float(x) ** 2 if x > 0 else 0.0)
    f.defvjp(lambda ybar, y, x: ybar * 2 * np.maximum(x, 0))
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(cr.vmap(f)(x), [1, 0, 9])
    np.testing.assert_array_equal(cr.vmap(cr.grad(f))(x), [2, 0, 6])
    assert len(cr.vmap(f).loops(x)) == 1
    assert not cr.vmap(f).loops(x)[0].startswith("the function itself")


def test_a_rule_given_to_a_function_of_numpy_is_that_of_each_run():
    total = cr.custom_vjp(np.sum)
    total.defvjp(lambda ybar, y, x, *options: (3 * ybar * np.ones_like(x), *[None] * len(options)))
    x = draw(3)
    np.testing.assert_allclose(cr.vmap(total)(x), x.sum(axis=1))
    np.testing.assert_array_equal(cr.vmap(cr.grad(total))(x), np.full((N, 3), 3.0))
    np.testing.assert_array_equal(cr.grad(lambda x: np.sum(cr.vmap(total)(x)))(x), np.full((N, 3), 3.0))


def pair(x, w):
    return np.sin(x) * w, np.sum(x) ** 2


def pair_back(kept, bars):
    x, w = kept
    return bars[0] * np.cos(x) * w + 2 * bars[1] * np.sum(x), bars[0] * np.sin(x)


def one_run_only(x, w):
    return (np.sin(x) * w, float(x.sum()) ** 2)


@pytest.mark.parametrize("forward", [pair, one_run_only])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_derivatives_around_a_batch_of_a_rule_with_several_results(forward, axes):
    seen = []
    f = cr.custom_vjp(forward)
    f.defvjp(lambda x, w: (forward(x, w), (x, w)), lambda *kept_and_bars: seen.append(1) or pair_back(*kept_and_bars))
    xs = shared(axes, [draw(3), draw(3)])
    total, want = [
        lambda *xs, g=g: sum(np.sum(np.cos(v)) for v in cr.vmap(lambda x, w: g(x * 1.0, w * 2), in_axes=axes)(*xs))
        for g in (f, pair)
    ]
    for k in (0, 1):
        np.testing.assert_allclose(cr.grad(total, argnums=k)(*xs), cr.grad(want, argnums=k)(*xs), rtol=1e-11)
    dots = [np.cos(x) for x in xs]
    np.testing.assert_allclose(cr.jvp(total, xs, dots)[1], cr.jvp(want, xs, dots)[1], rtol=1e-11)
    seen.clear()
    cr.grad(total)(*xs)
    assert len(seen) == (1 if forward is pair else N) or axes[0] is None


VARYING = {
    "nanvar": lambda x: np.nanvar(x, axis=1, ddof=1),
    "nanstd": np.nanstd,
    "nanmean": lambda x: np.nanmean(x, axis=0),
    "nanmean keepdims": lambda x: x * np.nanmean(x, axis=1, keepdims=True),
    "nanstd of equal entries": lambda x: np.nanstd(x * 0 + 2, axis=1),
    "var where": lambda x: np.var(np.where(np.isnan(x), 0, x), where=x > -0.5),
}


@pytest.mark.parametrize("name", VARYING)
def test_statistics_of_entries_that_differ_between_the_runs(name):
    f = VARYING[name]
    loss = lambda x: np.nansum(np.sin(f(x)))
    forward = lambda x: np.nan_to_num(cr.jvp(f, (x,), (np.where(np.isnan(x), 0, np.cos(x)),))[1])
    for way in (f, cr.grad(loss), forward):
        want = np.stack([way(x) for x in HOLES])
        np.testing.assert_allclose(cr.vmap(way)(HOLES), want, rtol=1e-11, atol=1e-13)
        assert cr.vmap(way).loops(HOLES) == ()
