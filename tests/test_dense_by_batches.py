"""Dense Jacobians and Hessians by batches: all rows or columns at once, beginning with unit vectors."""

import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.batched import BATCHING
from chainrule.engine.indexing import put

rng = np.random.default_rng(11)
N = 7
A, B = rng.normal(size=(N, N)), rng.normal(size=(N + 2, N))
X, D = rng.normal(size=N), rng.normal(size=N)
MODES = pytest.mark.parametrize("mode", ["forward", "reverse"])
CHUNKS = pytest.mark.parametrize("chunk", [None, 3, 4])


def counted(monkeypatch, function):
    """Return a list that grows by the shapes of the operands whenever `function` runs on a batch."""
    how, calls = BATCHING[function], []

    def noting(rule, n, xs, flags, params):
        calls.append([np.shape(x) for x in xs])
        return how(rule, n, xs, flags, params)

    monkeypatch.setitem(BATCHING, function, noting)
    return calls


def layers(x):
    return np.tanh(B @ (np.sin(A @ x) * x))


def of_layers(x, a=A, b=B):
    """The Jacobian of `layers`, by hand."""
    u = a @ x
    y = np.tanh(b @ (np.sin(u) * x))
    return (1 - y**2)[:, None] * (b @ ((np.cos(u) * x)[:, None] * a + np.diag(np.sin(u))))


@MODES
@CHUNKS
def test_one_of_two_products_is_read_off_the_matrix(mode, chunk, monkeypatch):
    calls = counted(monkeypatch, np.matmul)
    np.testing.assert_allclose(cr.jacobian(layers, mode=mode, chunk=chunk)(X), of_layers(X), rtol=1e-12, atol=1e-13)
    full, rest = divmod(N if mode == "forward" else N + 2, chunk or 20)
    assert len(calls) == full + (rest > 1)  # a chunk of one is no batch


FROM_UNITS = {
    "matrix @ x": (lambda x: B @ x, B),
    "x @ matrix": (lambda x: x @ B.T, B),
    "scaled": (lambda x: B @ (x * D), B * D),
    "scaled from the left": (lambda x: B @ (D * x), B * D),
    "scaled by a number": (lambda x: (3 * x) @ B.T, 3 * B),
    "summed": (lambda x: B @ (x + 2 * x), 3 * B),
    "negative": (lambda x: B @ -x, -B),
    "reversed": (lambda x: B @ x[::-1], B[:, ::-1]),
    "a part": (lambda x: B[:, 2:] @ x[2:], B * (np.arange(N) >= 2)),
    "twice": (lambda x: A @ (A @ x), A @ A),
    "a column of a stack": (lambda x: (np.stack([A, A.T]) @ x)[1], A.T),
    "float32": (lambda x: B.astype(np.float32) @ x, B.astype(np.float32)),
    "integers": (lambda x: np.round(B).astype(int) @ x, np.round(B)),
}


@pytest.mark.parametrize("name", FROM_UNITS)
@MODES
@CHUNKS
def test_products_with_unit_vectors(name, mode, chunk):
    f, want = FROM_UNITS[name]
    np.testing.assert_allclose(cr.jacobian(f, mode=mode, chunk=chunk)(X), want, rtol=1e-14, atol=1e-14)


@MODES
def test_products_with_complex_unit_vectors(mode):
    c = A + 1j * B[:N]
    z = X + 1j * D
    have = cr.jacobian(lambda z: c @ (z * D), mode=mode, holomorphic=True)(z)
    np.testing.assert_allclose(have, c * D, rtol=1e-14)
    of_real = cr.jacobian(lambda x: c @ (x * D), mode=mode)(X)
    np.testing.assert_allclose(of_real, c * D, rtol=1e-14)


def first_is_three(x):
    x[0] = 3.0
    return B @ x


def shifted(x):
    y = x * 2.0
    y[1:] = x[:-1]
    return B @ y


def doubled(x):
    x *= 2.0
    x[2] += x[3]
    return B @ x


def through_a_view(x):
    part = x[1:]
    part[0] = 7.0
    part[2:] *= part[1]
    return B @ x


def seen_by_a_view(x):
    part = x[2:]
    x[2] = x[0] * 2.0
    x[3:5] = 1.0
    return B[:, 2:] @ part


def of_seen_parts():
    """The Jacobian of the entries of `x` in `through_a_view`: entry 1 is a constant, entries from 3 on are x_i x_2."""
    j = np.eye(N)
    j[1, 1] = 0
    for i in range(3, N):
        j[i, i], j[i, 2] = X[2], X[i]
    return j


WRITES = {
    through_a_view: B @ of_seen_parts(),
    seen_by_a_view: B[:, 2:] @ np.vstack([2 * np.eye(N)[0], np.zeros((2, N)), np.eye(N)[5:]]),
    first_is_three: B * (np.arange(N) > 0),
    shifted: B @ (np.diag([2.0] + [0.0] * (N - 1)) + np.eye(N, k=-1)),
    doubled: B @ (2 * np.eye(N) + 2 * np.outer(np.arange(N) == 2, np.arange(N) == 3)),
}


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
@MODES
@CHUNKS
def test_unit_vectors_that_are_written_to_are_none_any_more(f, mode, chunk):
    x = X.copy()
    np.testing.assert_allclose(cr.jacobian(f, mode=mode, chunk=chunk)(x), WRITES[f], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(x, X)


def test_a_product_that_does_not_fit_raises():
    with pytest.raises(ValueError, match="matmul"):
        cr.jacobian(lambda x: B[:, 1:] @ x)(X)


def test_an_infinite_factor_stays_in_its_own_column():
    m = A.copy()
    m[0, 1] = np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(cr.jacobian(lambda x: m @ x, mode="forward")(X), m)


# -- Hessians ------------------------------------------------------------------------------------------------------


def smooth(x):
    return np.log(np.sum(np.exp(A[:, : len(x)] @ x))) + 0.25 * np.sum(x**4) + np.sum(np.sin(x[1:] * x[:-1]))


def hessian_of_smooth(x):
    """The Hessian of `smooth`, by hand."""
    a = A[:, : len(x)]
    p = np.exp(a @ x)
    p /= p.sum()
    u = x[1:] * x[:-1]
    h = a.T @ (np.diag(p) - np.outer(p, p)) @ a + np.diag(3 * x**2)
    for i in range(len(u)):
        c, s = np.cos(u[i]), np.sin(u[i])
        h[i, i] -= s * x[i + 1] ** 2
        h[i + 1, i + 1] -= s * x[i] ** 2
        h[i, i + 1] += c - s * u[i]
        h[i + 1, i] += c - s * u[i]
    return h


@CHUNKS
def test_hessian_equals_the_one_by_hand(chunk):
    np.testing.assert_allclose(cr.hessian(smooth, chunk=chunk)(X), hessian_of_smooth(X), rtol=1e-12, atol=1e-12)


def calls_of(function, *args):
    """Count the calls, of Python and of C, while `function` runs."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    function(*args)  # what is built at its first use is there now
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "transform",
    [
        lambda: cr.hessian(smooth),
        lambda: cr.jacobian(lambda x: np.exp(np.sin(x)) * x, mode="forward"),
        lambda: cr.jacobian(lambda x: np.cumsum(x**2), mode="reverse"),
    ],
    ids=["hessian", "forward", "reverse"],
)
def test_the_number_of_calls_does_not_grow_with_the_rows(transform):
    small, large = (calls_of(transform(), rng.normal(size=n)) for n in (3, N))
    assert small == large


# -- writes to a batch ------------------------------------------------------------------------------------------------


def filled(x):
    a = np.zeros(len(x), like=x)
    for i in range(len(x)):
        a[i] = x[i] ** 2
    return a


@pytest.mark.parametrize(
    ("evaluate", "want"),
    [
        (lambda: cr.vmap(filled)(np.stack([X, D])), np.stack([X**2, D**2])),
        (lambda: cr.jacobian(filled, mode="forward")(X), np.diag(2 * X)),
    ],
    ids=["vmap", "jacobian"],
)
def test_a_loop_that_fills_a_batch_copies_its_array_once_at_most(evaluate, want, monkeypatch):
    calls = counted(monkeypatch, put)
    np.testing.assert_allclose(evaluate(), want, rtol=1e-14)
    assert len(calls) <= 1


def test_a_name_for_the_same_batch_keeps_its_value():
    def f(x):
        y = x * 1.0
        z = +y
        row = y[1:]
        y[0] = 5.0
        y[2:4] = x[:2]
        return z, y, row

    z, y, row = cr.vmap(f)(np.stack([X, D]))
    for k, x in enumerate((X, D)):
        want = x.copy()
        want[0] = 5.0
        want[2:4] = x[:2]
        np.testing.assert_array_equal(z[k], x)
        np.testing.assert_array_equal(y[k], want)
        np.testing.assert_array_equal(row[k], want[1:])


# -- several inputs -------------------------------------------------------------------------------------------------

PARAMETERS = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=3), "scale": np.float64(0.7), "unused": np.ones(2)}
POINTS, TARGETS = rng.normal(size=(5, 2)), rng.normal(size=5)


def loss(p):
    return np.sum((np.tanh(POINTS @ p["w"].T + p["b"]).sum(axis=1) * p["scale"] - TARGETS) ** 2)


def outputs(p):
    return {"y": np.tanh(POINTS @ p["w"].T + p["b"]), "s": p["scale"] * p["b"][0], "constant": np.arange(2.0)}


def flattened(tree):
    return np.concatenate([np.ravel(tree[k]) for k in sorted(tree)])


def from_flat(v):
    cut = np.split(v, np.cumsum([np.size(PARAMETERS[k]) for k in sorted(PARAMETERS)])[:-1])
    return {k: part.reshape(np.shape(PARAMETERS[k])) for k, part in zip(sorted(PARAMETERS), cut, strict=True)}


@pytest.mark.parametrize("chunk", [None, 1, 2, 4, 5])
def test_columns_of_several_inputs_go_together(chunk):
    """Against complex steps, of all inputs in one vector."""
    step, v = 1e-30, flattened(PARAMETERS)
    want = {k: np.stack([np.ravel(outputs(from_flat(v + 1j * step * e))[k]).imag / step for e in np.eye(len(v))], -1)
            for k in ("y", "s", "constant")}  # fmt: skip
    have = cr.jacobian(outputs, mode="forward", chunk=chunk)(PARAMETERS)
    for k, row in have.items():
        shape = np.shape(outputs(PARAMETERS)[k])
        parts = [np.reshape(row[name], (max(1, int(np.prod(shape))), -1)) for name in sorted(row)]
        np.testing.assert_allclose(np.concatenate(parts, axis=1), want[k], rtol=1e-13, atol=1e-15)
        assert all(row[name].shape == shape + np.shape(PARAMETERS[name]) for name in row)
    hessian = cr.hessian(loss, chunk=chunk)(PARAMETERS)
    slope = lambda v: flattened(cr.grad(loss)(from_flat(v)))
    h = 1e-5
    differences = np.stack([(slope(v + h * e) - slope(v - h * e)) / (2 * h) for e in np.eye(len(v))], axis=1)
    names = sorted(PARAMETERS)
    blocks = [[np.reshape(hessian[a][b], (np.size(PARAMETERS[a]), -1)) for b in names] for a in names]
    np.testing.assert_allclose(np.block(blocks), differences, rtol=1e-6, atol=1e-7)


def test_columns_of_several_small_inputs_take_one_run():
    runs = []

    def noted(p):
        runs.append(1)
        return loss(p)

    cr.hessian(noted)(PARAMETERS)
    assert len(runs) == 1


def test_blocks_of_several_inputs_are_written_to_apart():
    have = cr.jacobian(outputs, mode="forward")(PARAMETERS)
    again = cr.jacobian(outputs, mode="forward")(PARAMETERS)
    blocks = [block for row in have.values() for block in row.values() if isinstance(block, np.ndarray)]
    for block in blocks:
        block[...] = 1e9
    assert all(np.all(block == 1e9) for block in blocks)
    assert all(np.all(block != 1e9) for row in again.values() for block in row.values())


def test_large_inputs_go_one_after_the_other():
    u, v = rng.normal(size=300), rng.normal(size=200)
    widths = []

    def f(u, v):
        widths.append([len(cr.value(x.tangent).data) if cr.value(x.tangent).__class__ is not np.ndarray else 0
                       for x in (u, v)])  # fmt: skip
        return np.sin(u[:200]) * v

    ju, jv = cr.jacobian(f, argnums=(0, 1), mode="forward", chunk=250)(u, v)
    np.testing.assert_allclose(ju, np.eye(200, 300) * (np.cos(u[:200]) * v)[:, None], atol=1e-15)
    np.testing.assert_allclose(jv, np.diag(np.sin(u[:200])), atol=1e-15)
    assert widths == [[250, 0], [50, 0], [0, 200]]
