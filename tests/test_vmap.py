"""Batches: every rule under vmap, alone and with derivatives inside and around, against a loop over the entries."""

import re
import threading
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.batched import noted_loops
from chainrule.testing.samples import all_samples

RUNS = 3
SAMPLES = [s for s in all_samples() if not s.error]
rng = np.random.default_rng(5)
X = rng.normal(size=(5, 3))
W = rng.normal(size=(4, 3))
M = rng.normal(size=(5, 3, 3)) + 4 * np.eye(3)


def outputs(sample):
    """Return the function of a sample with its inexact results in one flat array."""
    f = sample.function()

    def g(*xs):
        y = f(*xs)
        ys = y if isinstance(y, tuple | list) else (y,)
        parts = [np.reshape(v, (-1,)) for v in ys if getattr(v, "dtype", np.dtype(float)).kind in "fc"]
        return np.concatenate([p if p.dtype.kind == "f" else np.concatenate([p.real, p.imag]) for p in parts])

    return g


def batch_of(xs):
    """Return operands for several runs near the given ones, along a new first axis."""
    return [np.stack([np.asarray(x) * (1 + 0.01 * k) for k in range(RUNS)]) for x in xs]


def by_loop(f, *batches):
    return np.stack([f(*[b[k] for b in batches]) for k in range(len(batches[0]))])


@pytest.mark.parametrize("sample", sorted(SAMPLES, key=str), ids=str)
def test_a_batch_gives_what_a_loop_gives(sample):
    if not sample.accepts("float64"):
        return
    f = outputs(sample)
    batches = batch_of(sample.operands("float64"))
    where = tuple(range(len(batches)))
    want = by_loop(f, *batches)
    np.testing.assert_allclose(cr.vmap(f)(*batches), want, rtol=1e-9, atol=1e-9)
    weights = np.cos(np.arange(want.shape[1]))
    loss = lambda *xs: np.sum(f(*xs) * weights)
    gradients = [cr.grad(loss, argnums=where)(*[b[k] for b in batches]) for k in range(RUNS)]
    for have, parts in zip(cr.vmap(cr.grad(loss, argnums=where))(*batches), zip(*gradients, strict=True), strict=True):
        np.testing.assert_allclose(have, np.stack(parts), rtol=1e-8, atol=1e-8)


PROGRAMS = {
    "mlp": lambda x: np.sum(np.tanh(W @ x) ** 2),
    "branch that differs": lambda x: x.sum() if x[0] > 0 else x.prod(),
    "branch that agrees": lambda x: x.sum() if x[0] > -100 else x.prod(),
    "writes": lambda x: written(x),
    "mask": lambda x: np.sum(x[x > 0] ** 2),
    "place of the maximum": lambda x: x[np.argmax(x)] ** 2,
    "logsumexp": lambda x: np.log(np.sum(np.exp(x - np.max(x)))),
    "gradient inside": lambda x: np.sum(cr.grad(lambda y: np.sum(y**3 * x))(x * 2)),
    "batch inside": lambda x: np.sum(cr.vmap(lambda r: np.tanh(r) * x.sum())(W)),
    "jacobian inside": lambda x: np.sum(cr.jacobian(lambda y: np.sin(W @ y))(x) ** 2),
    "norm and median": lambda x: np.linalg.norm(x) * np.median(x),
    "number": lambda x: x[0] * float(3) + len(x),
    "constant": lambda x: 2.0,
}


def written(x):
    y = np.zeros(3, like=x)
    y[0] = x[1]
    y[1:] += x[:2]
    y[[0, 2]] *= 2
    y.T[1] = x[2] ** 2
    return np.sum(np.sin(y))


@pytest.mark.parametrize("name", PROGRAMS)
def test_nestings(name):
    f = PROGRAMS[name]
    want = by_loop(f, X)
    np.testing.assert_allclose(cr.vmap(f)(X), want, rtol=1e-12)
    total = lambda X: np.sum(np.cos(cr.vmap(f)(X)))
    looped = lambda X: np.sum(np.cos(np.stack([f(X[k]) for k in range(5)])))
    np.testing.assert_allclose(cr.grad(total)(X), cr.grad(looped)(X), rtol=1e-10, atol=1e-12)
    V = np.cos(X)
    np.testing.assert_allclose(cr.jvp(total, (X,), (V,))[1], cr.jvp(looped, (X,), (V,))[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(cr.vmap(cr.grad(f))(X), by_loop(cr.grad(f), X), rtol=1e-10, atol=1e-12)
    hvp = lambda x: cr.hvp(f, x, np.ones(3))
    np.testing.assert_allclose(cr.vmap(hvp)(X), by_loop(hvp, X), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(cr.vmap(cr.hessian(f))(X), by_loop(cr.hessian(f), X), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(cr.hvp(total, X, V), cr.hvp(looped, X, V), rtol=1e-9, atol=1e-11)


def test_axes_in_and_out_and_containers():
    f = lambda p, x, s: {"y": p["w"] @ x * s, "s": s * 2}
    p = {"w": W, "b": np.ones((2, 5))}
    out = cr.vmap(f, in_axes=({"w": None, "b": 1}, 0, None), out_axes={"y": 1, "s": None})(p, X, 3.0)
    np.testing.assert_allclose(out["y"], (X @ W.T).T * 3)
    assert out["s"] == 6.0
    np.testing.assert_allclose(
        cr.vmap(lambda a, b: a @ b, in_axes=(2, -1))(M.transpose(1, 2, 0), X.T), by_loop(np.matmul, M, X)
    )
    np.testing.assert_allclose(cr.vmap(lambda x, k=None: x * k)(X, k=np.arange(5.0)), X * np.arange(5.0)[:, None])
    assert cr.vmap(lambda x: x)(X.astype(np.float32)).dtype == np.float32


def test_results_share_no_memory_with_arguments():
    y = cr.vmap(lambda x: x)(X)
    assert not np.shares_memory(y, X)
    assert y.flags.writeable


BAD = {
    "lengths": (lambda: cr.vmap(lambda a, b: a + b)(X, W), "different lengths"),
    "no axis": (lambda: cr.vmap(lambda a: a)(1.0), "has no such axis"),
    "nothing": (lambda: cr.vmap(lambda a: a, in_axes=None)(X), "nothing to map"),
    "count": (lambda: cr.vmap(lambda a: a, in_axes=(0, 0))(X), "in_axes has 2 entries"),
    "container": (lambda: cr.vmap(lambda a: a, in_axes=({"w": 0},))(X), "does not fit"),
    "out": (lambda: cr.vmap(lambda a: a, out_axes=None)(X), "differs between the runs"),
    "shapes": (lambda: cr.vmap(lambda a: a[a > 0])(X), "shapes differ"),
    "structure": (lambda: cr.vmap(lambda a: {"p": a} if a[0] > 0 else {"n": a})(X), "differ between the runs"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    call, message = BAD[name]
    with pytest.raises(cr.errors.ShapeError, match=message):
        call()


def test_a_box_that_outlives_its_batch_raises():
    kept = []
    cr.vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(cr.errors.LeakedValueError):
        cr.grad(lambda y: np.sum(y * kept[0]))(X[0])


BY_RULE = {
    "elementwise": lambda x: np.exp(np.sin(x)) / (1 + x * x),
    "reductions": lambda x: x.sum() * x.mean() * x.max() * np.var(x) * np.prod(x) * np.linalg.norm(x),
    "indexing": lambda x: x[1:] * x[:-1] + x[[0, 2]],
    "products": lambda x: np.dot(np.outer(x, x) @ x, x) + np.einsum("i,ij->", x, W.T),
    "where": lambda x: np.where(x > 0, x, x**2) + np.clip(x, -0.5, 0.5) + np.maximum(x, 0.1),
    "linear algebra": lambda x: (
        np.linalg.solve(np.eye(3) * 4 + np.outer(x, x), x)
        + np.linalg.inv(np.eye(3) + np.outer(x, x))[0]
        + np.linalg.det(np.outer(x, x) + np.eye(3))
        + np.linalg.eigvalsh(np.outer(x, x) + np.diag(np.arange(3.0)))
    ),
    "shapes": lambda x: np.stack([x, 2 * x]).T.reshape(-1)[::2] + np.roll(np.concatenate([x, x]), 1)[:3],
}


@pytest.mark.parametrize("name", BY_RULE)
def test_the_common_functions_run_without_a_loop(name):
    f = lambda x: np.sum(BY_RULE[name](x))
    assert cr.vmap(f).loops(X) == ()
    assert cr.vmap(cr.grad(f)).loops(X) == ()
    assert cr.vmap(lambda x: cr.hvp(f, x, np.ones(3))).loops(X) == ()
    with noted_loops() as names:
        cr.grad(lambda X: np.sum(cr.vmap(f)(X)))(X)
    assert not names


def test_a_jacobian_calls_each_rule_once_for_all_rows():
    calls = []

    class Count(cr.Function):
        def forward(self, x):
            return x * 1.0

        def backward(self, gy):
            calls.append(1)
            return gy * 1.0

    f = lambda x: np.tanh(W @ Count()(x))
    j = cr.jacobian(f, mode="reverse")(X[0])
    assert len(calls) == 1
    np.testing.assert_allclose(j, (1 - np.tanh(W @ X[0]) ** 2)[:, None] * W, rtol=1e-12)


def test_jacobians_in_chunks_and_of_containers():
    f = lambda p: {"a": np.sin(p["w"] @ p["x"]), "b": np.sum(p["x"] ** 2)}
    p = {"w": W, "x": X[0]}
    full = cr.jacobian(f)(p)
    for mode in ("forward", "reverse"):
        for chunk in (1, 2, 100):
            part = cr.jacobian(f, mode=mode, chunk=chunk)(p)
            for k in "ab":
                for name in ("w", "x"):
                    np.testing.assert_allclose(part[k][name], full[k][name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(full["b"]["x"], 2 * X[0])
    np.testing.assert_allclose(full["a"]["x"], np.cos(W @ X[0])[:, None] * W, rtol=1e-12)
    with pytest.raises(ValueError, match="chunk"):
        cr.jacobian(f, chunk=0)


def test_infinite_slopes_that_are_dropped_stay_out_of_jacobians():
    z = np.array([0.0, 4.0])
    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(cr.jacobian(lambda z: np.sqrt(z)[z > 0], mode=mode)(z), [[0.0, 0.25]])


def views(x):
    y = x * 1.0
    np.moveaxis(y, 0, -1)[0] = 2 * y[:, 1]
    np.flip(y)[0, 0] = x[0, 0] ** 2
    z = y.T.ravel()  # a copy
    z[0] = 100.0
    w = np.squeeze(y[None])
    w[1] *= x[0]
    np.rot90(y)[0, 1] = 5.0
    y.reshape(-1)[4] = x[2, 2]
    np.swapaxes(y, 0, 1).ravel()[0] = 7.0  # a copy, too
    v = y[1]
    y[1, 0] = 2 * v[2]
    v[len(v) - 1 :] = 3.0
    return y + z.reshape(3, 3)


@pytest.mark.parametrize("around", [lambda f: f, lambda f: cr.grad(lambda x: np.sum(np.sin(f(x))))])
def test_writes_through_views_of_a_batch(around):
    f = around(views)
    np.testing.assert_allclose(cr.vmap(f)(M), by_loop(f, M), rtol=1e-12)
    total = lambda M: np.sum(np.cos(cr.vmap(f)(M)))
    looped = lambda M: np.sum(np.cos(np.stack([f(m) for m in M])))
    np.testing.assert_allclose(cr.grad(total)(M), cr.grad(looped)(M), rtol=1e-10, atol=1e-12)


def aliases(x):
    y = x * 1.0
    row, number, entry = y[0], y[1, 1], y[2, 2, ...]
    row += 1  # an array: y sees it
    number += 1  # a number: y does not
    entry *= 3  # an array without axes: y sees it
    y[1, 1] = 7 * x[0, 0]
    total = y.sum()
    kept = total
    kept += 1
    np.multiply(y[1], 2, out=y[1])
    for r in y:
        r -= x[0]
    return y * number + total * kept


@pytest.mark.parametrize("around", [lambda f: f, lambda f: cr.grad(lambda x: np.sum(np.sin(f(x))))])
def test_augmented_assignments_of_a_batch(around):
    f = around(aliases)
    np.testing.assert_allclose(cr.vmap(f)(M), by_loop(f, M), rtol=1e-12)


def test_a_run_with_nan_leaves_the_gradients_of_the_others():
    x = np.array([0.25, -1.0, 4.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(cr.vmap(cr.grad(lambda v: np.sum(np.sqrt(v))))(x), [1.0, np.nan, 0.25])


class KeepsState(cr.Function):
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, ybar):
        return ybar * (1 - self.y**2)


def test_state_that_a_function_object_keeps_is_that_of_its_run():
    f = lambda X: np.sum(cr.vmap(lambda x: KeepsState()(x))(X) ** 2)
    np.testing.assert_allclose(cr.grad(f)(X), 2 * np.tanh(X) * (1 - np.tanh(X) ** 2), rtol=1e-12)


def halved(x):
    while np.sum(x) > 1:
        x = x / 2
    return x


def test_a_loop_over_no_runs_ends():
    with pytest.raises(cr.errors.ShapeError, match="length 0"):
        cr.vmap(halved)(X[:0])
    assert cr.vmap(np.sin)(X[:0]).shape == (0, 3)


def catches_all(x):
    try:
        return x * 2 if x[0] > 0 else x * 3
    except BaseException:
        return x * 100


def test_a_function_that_catches_all_exceptions_has_its_branches():
    np.testing.assert_allclose(cr.vmap(catches_all)(X), by_loop(catches_all, X))


def test_out_axes_none_of_runs_that_branch():
    f = lambda x: x.sum() if x[0] > 0 else x.prod()
    with pytest.raises(cr.errors.ShapeError, match="differs between the runs"):
        cr.vmap(f, out_axes=None)(X)


def writes_and_branches(x):
    x[0] = 5.0
    return x.sum() if x[1] > 0 else x.prod()


def test_arguments_stay_what_they_are_in_a_loop():
    given = X.copy()
    cr.vmap(writes_and_branches)(given)
    np.testing.assert_array_equal(given, X)


INTEGERS = {
    "nansum": np.nansum,
    "nancumsum": np.nancumsum,
    "argmax": lambda x: np.argmax(x, keepdims=True),
    "bools": lambda x: (x > 0) @ (x > 1),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_batches_of_integers_keep_dtype_and_shape(name):
    f = INTEGERS[name]
    batch = np.arange(6).reshape(2, 3)
    have, want = cr.vmap(f)(batch), by_loop(f, batch)
    assert have.dtype == want.dtype
    np.testing.assert_array_equal(have, want)


MORE_BY_RULE = {
    "inner": lambda x: np.inner(W, x),
    "triangles": lambda x: np.tril(np.outer(x, x)) + np.triu(W.T @ W * x, 1),
    "diagonals": lambda x: np.diag(x, 1) @ np.ones(4) + np.diag(x, -2)[2, 0],
    "cross": lambda x: np.cross(x, W),
    "extrema": lambda x: np.clip(x, -0.5, 0.5) * np.max(x) + np.ptp(np.outer(x, x), axis=1) * np.std(x),
    "sorting": lambda x: np.sort(x) * x + np.sort(np.outer(x, x), axis=0)[1] + x[np.argmax(x)],
    "rows of their own": lambda x: np.outer(x, x)[:, np.argsort(x)] * x + np.outer(x, x)[np.arange(3), np.argsort(x)],
    "products behind a choice": lambda x: np.where(x > 0, W.T @ (W @ x), np.cumsum(x)),
}


@pytest.mark.parametrize("name", MORE_BY_RULE)
def test_more_functions_run_without_a_loop(name):
    f = lambda x: np.sum(np.sin(MORE_BY_RULE[name](x)))
    want = by_loop(f, X), by_loop(cr.grad(f), X)
    with noted_loops() as names:
        np.testing.assert_allclose(cr.vmap(f)(X), want[0], rtol=1e-12)
        np.testing.assert_allclose(cr.vmap(cr.grad(f))(X), want[1], rtol=1e-10, atol=1e-12)
    assert not names


@cr.numeric
def box(x):
    """Stand for code that takes plain arrays only, and can't be run on a batch."""
    assert x.__class__ is np.ndarray
    return np.sin(x)


def raises(x):
    return [x.sum() if x.__class__ is np.ndarray else {}[x.size]]


SEEN = {  # what ran once per entry: a pattern for each name
    "nothing": (np.sin, []),
    "a function": (box, ["box"]),
    "each once": (lambda x: box(x) + box(2 * x), ["box"]),
    "a branch": (
        PROGRAMS["branch that differs"],
        [r"the function itself: a branch on a value that differs, test_vmap.py:\d+ in <lambda>"],
    ),
    "a mask": (
        PROGRAMS["mask"],
        [r"the function itself: a plain number or array was asked for, test_vmap.py:\d+ in .*"],
    ),
    "a number": (lambda x: float(x[0]) * 2, [r"the function itself: a plain number .*, test_vmap.py:\d+ in <lambda>"]),
    "a caught stop": (catches_all, ["the function itself: a value that differs between the runs"]),
    "an error": (raises, [r"the function itself: KeyError \(3\), test_vmap.py:\d+ in raises"]),
    "a batch inside": (lambda x: cr.vmap(lambda r: box(r).sum() * x)(np.outer(x, x)), ["box"]),
    "an operator": (lambda x: cr.checkpoint(KeepsState())(x), ["KeepsState"]),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_ran_as_a_loop_can_be_asked(name):
    f, patterns = SEEN[name]
    names = cr.vmap(f).loops(X)
    assert isinstance(names, tuple)
    assert len(names) == len(patterns), names
    for n, pattern in zip(names, patterns, strict=True):
        assert re.fullmatch(pattern, n), n


def test_loops_are_noted_per_call_and_per_thread():
    found = {}
    both = threading.Barrier(2)

    def ask(key, f):
        both.wait()
        found[key] = [cr.vmap(f).loops(X) for _ in range(20)]

    threads = [threading.Thread(target=ask, args=a) for a in [("loop", box), ("rule", np.sin)]]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {"loop": [("box",)] * 20, "rule": [()] * 20}


def test_loops_take_the_axes_and_arguments_of_the_call():
    f = cr.vmap(lambda a, x, k=0.0: box(x @ a) * k, in_axes=(None, 1))
    assert f.loops(W.T, X.T, k=np.ones(5)) == ("box",)


def test_sums_with_masks_that_differ_between_the_runs():
    w = np.arange(3.0)
    f = lambda x: np.sum(w, where=x > 0) + np.add.reduce(w, where=x > 0)
    np.testing.assert_allclose(cr.vmap(f)(X), by_loop(f, X))


def test_a_row_named_by_a_number_of_each_run_is_a_view():
    def f(m):
        y = m * 1.0
        row = y[np.argmax(m[:, 0])]
        row += 5
        return y

    np.testing.assert_allclose(cr.vmap(f)(M), by_loop(f, M))


def reads(x):
    return np.stack([x[0] * np.sin(x[1]), x[2] ** 2, np.cos(x[0])])


def test_reads_of_a_batch_need_no_masks(monkeypatch):
    """A batch of plain values is pulled back as these are: a mask at each read would take most of the time."""
    monkeypatch.setattr("chainrule.engine.pulls.masked_pull", None)
    have = cr.jacobian(reads, mode="reverse")(X[0])
    x, y, z = X[0]
    want = [[np.sin(y), x * np.cos(y), 0], [0, 0, 2 * z], [-np.sin(x), 0, 0]]
    np.testing.assert_allclose(have, want, rtol=1e-14)
    np.testing.assert_allclose(cr.vmap(cr.grad(lambda x: reads(x)[1]))(X)[:, 2], 2 * X[:, 2])


def test_infinite_slopes_of_branches_that_some_runs_leave_out():
    f = lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x).sum()
    z = np.array([[0.0, 4.0], [1.0, 0.0]])
    np.testing.assert_array_equal(cr.vmap(cr.grad(f))(z), [[1.0, 0.25], [0.5, 1.0]])
    np.testing.assert_array_equal(cr.vmap(cr.grad(lambda x: np.sqrt(x)[x > 0].sum()))(z), [[0, 0.25], [0.5, 0]])
    each = cr.vmap(lambda x: cr.jacobian(lambda x: np.where(x > 0, np.sqrt(x), 0.0), mode="reverse")(x))(z)
    np.testing.assert_array_equal(each, [[[0, 0], [0, 0.25]], [[0.5, 0], [0, 0]]])
    rate = lambda X: cr.vmap(cr.grad(lambda x: np.where(x > 0, x**1.5, x * x).sum()))(X).sum()
    np.testing.assert_array_equal(cr.grad(rate)(z), [[2.0, 0.375], [0.75, 2.0]])


def test_deviations_of_single_entries_under_masks_are_those_of_the_rows():
    def f(row):
        return np.sum(np.std(row[None], axis=0, where=row > 1.5))

    rows = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]])  # of one entry 0; of none NaN, and so is the derivative
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want = np.stack([cr.grad(f)(row) for row in rows])
        np.testing.assert_array_equal(want, [[np.nan, np.nan], [0.0, 0.0], [np.nan, 0.0]])
        np.testing.assert_array_equal(cr.vmap(cr.grad(f))(rows), want)
