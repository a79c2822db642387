"""Writes in place: ``x[i] = v``, ``x += v``, through views, into buffers, and by NumPy's writing functions.

Each program runs as it stands on plain NumPy, which gives the value and, by central differences, the derivative.
"""

import tracemalloc

import numpy as np
import pytest

import chainrule as cr
import chainrule.numpy as cnp

X = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -1.0]])
V = np.array([[0.5, 1.0, -0.25], [0.125, -0.5, 0.75]])
W = np.arange(1.0, 7.0).reshape(2, 3)

# y is a fresh array made of x, v a vector that depends on x, w constants; the derivative of sum(w * y) is asked for.
PROGRAMS = [
    "y[0, 1] = v[0]",
    "y[1] = v",
    "y[:, 1:] = v[:2]",
    "y[w > 4] = v[0]",
    "y[[1, 0]] = v",
    "y[[0, 0], [1, 1]] = v[:2]",  # the last one wins
    "y[...] = v; y *= y",
    "y += v; y -= 1; y *= v; y /= 2; y **= 2",
    "y[0] += v; y[0] *= 2; y[1, 1] -= v[2]",
    "y[[0, 1], [1, 2]] += v[:2]",
    "z = y; z *= 2; y[0] = z[1] * v",
    "s = y[0, 0]; t = s; s += 1; y[1, 1] = t * s",
    "r = y[0]; r += v",
    "r = y[0]; y[0] = v; y = y + 0; y[1] = r * 2",
    "r = y.T; r[0] = v[:2]; y[1, 1] = r[0, 1] * 3",
    "y.T[0] = v[:2]; y[0][2] = v[1]",
    "r = y.reshape(-1); r[1:4] *= v; q = y[:, 1]; q[0] = v[2]; y[1] = r[:3]",
    "r = y.ravel(); r[0] = v[0]; y[0, 0] = y[0, 0] * r[0]",
    "d = y[:, :2]; e = d.T; e[0] += v[:2]; d[1] *= 2",
    "d = y[:, ::2]; d *= v[:2]; z = d.reshape(-1); z[0] = 7; y[1, 1] = z[0] * d[0, 0]",
    "d = np.flip(y); d[0] = v; y[0] *= d[1]",
    "a, b = np.split(y, [1], axis=1); a[...] = v[1]; b[1] *= v[:2]",
    "d = np.atleast_2d(y); d[0] = v",
    "d = np.moveaxis(y, 0, 1); d[1] = v[:2] * d[2]; d += d",
    "d = np.swapaxes(y, 0, 1)[::2]; d[0] = 5; y *= d[1, 0]",
    "d = y[None]; d[0, 0] = v; d[0][1] = y[0] * 2",
    "d = y[0]; d = d[1:]; d[0] = v[0]; y[0] *= 2; y[1, :2] = d",
    "d = np.broadcast_to(y, (2, 2, 3)); y[0] = v; y[1] = d[1, 0]",
    "a, b = y; a *= v; b[0] = a[1]",
    "for row in y: row *= v",
    "d = y.copy(); d[0] = v; y[1] = d[0]",
    "d = y.flatten(); d[0] = v[0]; y[1, 1] = d[0] * d[1]",
    "d = y[:, [0, 1]]; d[0, 0] = 9; y[1, 1] = d[0, 1]",  # a copy, though its memory has a base
    "d = y[w > 2]; d[0] = 9",
    "y[0], y[1] = y[1].copy(), y[0].copy()",
    "y[:] = y[::-1]",
    "y[1] += y[0]; y[1] -= v",
    "z = np.zeros_like(y); z[0] = v; z[1, :2] = z[0, 1:]; y = y * z",
    "z = np.ones_like(y); y = y * z; z[0] = v; y[1] = z[0]",
    "z = np.full_like(y, v[0]); z[0] = 1; y = y * z",
    "np.put(y, [0, 4, 4], v)",
    "np.put(y, [7, -1], v, mode='wrap')",
    "np.put(y, [1, 2, 3, 5], v[:2])",
    "y.put([1], v)",
    "np.place(y, w > 2, v[:2])",
    "np.putmask(y, w > 2, v)",
    "np.copyto(y, v)",
    "np.copyto(y, v, where=w > 3)",
    "np.put_along_axis(y, np.array([[1, 0], [2, 2]]), v[:2], axis=1)",
    "np.put_along_axis(y, np.array([1, 5]), v[:2], axis=None)",
    "np.fill_diagonal(y, v[1])",
    "np.fill_diagonal(y[:, :2], v)",
    "np.add.at(y, (np.array([0, 0, 1]), np.array([1, 1, 2])), v)",
    "np.subtract.at(y, 1, v)",
    "y.flat[[1, 1, 2]] = v",
    "y.flat = v",
    "y.fill(v[0])",
    "y[0] = -v; y.sort()",
    "y.sort(axis=0); y.partition(1)",
    "np.multiply(y, v, out=y)",
    "np.exp(v, out=y[0]); np.add(y[0], y[1], out=y[1])",
    "np.multiply(y, v, out=y, where=w > 2)",
    "z = np.zeros_like(v); np.sum(y, axis=0, out=z); y.max(axis=0, out=y[1]); y[0] = z",
    "np.add.accumulate(y, axis=1, out=y); np.cumsum(v, out=y[1])",
    "z = np.zeros_like(y); np.modf(0.37 * y, out=(y, z)); y[0] = z[1] * v",
    "np.concatenate([v, v[:1]], out=y.T.reshape(-1)[:4]); np.clip(y, -1, 1, out=y)",
    "r = y[0]; np.negative(v, out=y[0]); y[1] = r",
    "y[0] = y[1]; y[1, 1] = y[0, 2]; y[:, 0] = y[:, 1]",
    "r = y[0]; y[0, 0] = v[0]; y[0, 1] = v[1]; r *= r; y[1] = r",
    "a = y[0]; b = a[1:]; y[0, 2] = v[0]; b[0] = a[2] * b[1]; a[0] = b[0]",
]


def run(program, x):
    scope = {"y": x * 1.5, "v": x[0] * x[0], "w": W, "np": np}
    exec(program, scope)
    return scope["y"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_writes_has_numpy_s_value_and_derivatives(program):
    def loss(x):
        return np.sum(W * run(program, x))

    def differences(f, step=1e-6):
        return (f(X + step * V) - f(X - step * V)) / (2 * step)

    before = X.copy()
    value, g = cr.value_and_grad(loss)(X)
    np.testing.assert_allclose(value, loss(X), rtol=1e-14)
    np.testing.assert_allclose(np.sum(g * V), differences(loss), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(cr.jvp(loss, (X,), (V,))[1], differences(loss), rtol=1e-7, atol=1e-7)
    want = differences(cr.grad(loss))
    np.testing.assert_allclose(cr.jvp(cr.grad(loss), (X,), (V,))[1], want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(V * cr.grad(loss)(x)))(X), want, rtol=1e-6, atol=1e-6)
    x = cr.Variable(X)
    loss(x).backward()
    np.testing.assert_allclose(x.grad, g, rtol=1e-14)
    np.testing.assert_array_equal(before, X)


def test_with_repeated_indices_only_the_last_write_gets_the_cotangent():
    def f(v):
        y = np.zeros(3, like=v)
        y[[0, 0]] = v
        return y[0]

    np.testing.assert_array_equal(cr.grad(f)(np.array([4.0, 5.0])), [0.0, 1.0])


def test_in_place_arithmetic_changes_an_array_for_all_its_names_and_makes_a_new_number():
    x = cr.Variable(np.array([1.0, 2.0])) * 1.0
    y = x
    y *= 3
    np.testing.assert_array_equal(x.data, [3.0, 6.0])
    x = cr.Variable(1.0) * 1.0
    y = x
    y *= 3
    assert x.data == 1.0
    assert y.data == 3.0


def test_a_value_kept_by_the_tape_is_not_changed_by_a_later_write():
    def f(x):
        b = np.zeros(1, like=x)
        b[0] = x
        y = b * b
        b[0] = 100.0
        return y[0] + 0 * b[0]

    assert cr.grad(f)(3.0) == 6.0
    assert cr.grad(cr.grad(f))(3.0) == 2.0


def test_a_buffer_takes_the_level_of_what_is_written_into_it():
    def outer(x):
        b = cnp.zeros(2)
        alias = b
        row = b[:1]
        b[0] = x
        inner = cr.grad(lambda z: np.sum(np.sin(z) * alias) * z)(x * 1.0)
        return inner + row[0]

    # inner(x) = d/dz [z sin(z) x] at z = x = x (sin x + x cos x); plus x
    x = 0.7
    want = np.sin(x) + x * np.cos(x) + x * (2 * np.cos(x) - x * np.sin(x)) + 1
    np.testing.assert_allclose(cr.grad(outer)(x), want, rtol=1e-14)
    np.testing.assert_allclose(cr.jvp(outer, (x,), (1.0,))[1], want, rtol=1e-14)


def test_a_buffer_filled_in_a_loop():
    def f(x):
        a = cnp.zeros(6)
        a[0] = x
        for k in range(1, 6):
            a[k] = a[k - 1] * x
        return a

    np.testing.assert_allclose(cr.jacobian(f)(2.0), [k * 2.0 ** (k - 1) for k in range(1, 7)])


def test_a_buffer_without_traced_values_is_as_good_as_an_array():
    b = cnp.ones((2, 2))
    b[0, 1] = 5
    b *= 2
    np.testing.assert_array_equal(np.asarray(b), [[2, 10], [2, 2]])
    assert float(b[0, 1]) == 10.0
    assert b.tolist() == [[2.0, 10.0], [2.0, 2.0]]
    assert b.sum() == 16.0
    g = cr.grad(lambda x: np.sum(x * b))(np.ones(2))
    assert type(g) is np.ndarray
    np.testing.assert_array_equal(g, [4.0, 12.0])
    y, _ = cr.vjp(lambda x: cnp.zeros(3), 1.0)
    assert type(y) is np.ndarray


def test_functions_without_a_rule_and_plain_destinations_take_buffers():
    np.testing.assert_array_equal(np.unique(cnp.ones(3)), [1.0])
    np.testing.assert_array_equal(np.unique(ar=cnp.ones(3)), [1.0])
    np.testing.assert_array_equal(np.full_like(X, cnp.full((), 2.0)), np.full((2, 3), 2.0))
    a = np.ones(2)
    a += cnp.ones(2)
    np.copyto(a[:1], cnp.zeros(1))
    assert type(a) is np.ndarray
    np.testing.assert_array_equal(a, [0.0, 2.0])
    b = cnp.zeros(2)
    np.put(b, 0, 3.0)
    np.testing.assert_array_equal(np.asarray(b), [3.0, 0.0])
    with pytest.raises(cr.errors.OutArgumentError):
        np.add(b, cr.Variable(1.0), out=a)


def test_buffers_of_whole_numbers_are_plain():
    assert type(cnp.zeros(3, dtype=int)) is np.ndarray
    assert type(np.zeros_like(cr.Variable(X), dtype=bool)) is np.ndarray


def test_an_input_is_not_changed_while_operations_are_recorded():
    x = cr.Variable(X.copy())
    for change in (lambda: x.__setitem__(0, 1.0), lambda: x.__iadd__(1), lambda: x[0].__iadd__(1), lambda: x.sort()):
        with pytest.raises(cr.errors.InPlaceError, match="no_grad"):
            change()
    np.testing.assert_array_equal(x.data, X)


def test_views_of_an_input_follow_an_update_without_recording():
    x = cr.Variable(np.array([[1.0, 2.0], [3.0, 4.0]]))
    row, across = x[0], x.T
    with cr.no_grad():
        x -= 0.5
    np.testing.assert_array_equal(row.data, [0.5, 1.5])
    np.testing.assert_array_equal(across.data, [[0.5, 2.5], [1.5, 3.5]])
    np.sum(row * row).backward()
    np.testing.assert_array_equal(x.grad, [[1.0, 3.0], [0.0, 0.0]])


def check(f, x):
    """Compare value, and derivatives along a direction in both modes and twice, with plain NumPy and differences."""
    v, step = np.cos(np.arange(1.0, x.size + 1)).reshape(x.shape), 1e-6
    want = (f(x + step * v) - f(x - step * v)) / (2 * step)
    value, gradient = cr.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-14)
    assert np.sum(gradient * v) == pytest.approx(want, rel=1e-6)
    assert cr.jvp(f, (x,), (v,))[1] == pytest.approx(want, rel=1e-6)
    curved = (cr.grad(f)(x + step * v) - cr.grad(f)(x - step * v)) / (2 * step)
    np.testing.assert_allclose(cr.hvp(f, x, v), curved, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(cr.grad(f)(x) * v))(x), curved, rtol=1e-5, atol=1e-7)


VIEWS = {
    "squeeze": lambda y: y.squeeze(),
    "np.squeeze": np.squeeze,
    "einsum, one diagonal": lambda y: np.einsum("ii->i", y),
    "einsum, a part": lambda y: np.einsum("ii->i", y[:2, 1:]),
    "windows": lambda y: np.lib.stride_tricks.sliding_window_view(y, 2, axis=0, writeable=True)[:, :, 1],
    "a part of windows": lambda y: np.lib.stride_tricks.sliding_window_view(y, 2, 0, writeable=True)[:, None][..., 1],
    "windows of a view": lambda y: np.lib.stride_tricks.sliding_window_view(y.T, (2, 2), writeable=True)[0, 0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_every_kind_follow_writes_and_write_through(view):
    def f(x):
        y = x * 1.0
        part = view(y)
        y[0] = y[1] * y[2]
        s = np.sum(part**2)
        part[0] = 3.0 * x[0, 0]
        part[:, None][-1] *= x[1, 1]
        part *= part
        return s + np.sum(y**3 * X)

    x = np.array([[0.5, -1.0, 1.5], [0.75, 0.25, -0.5], [-0.25, 1.25, 2.0]])
    X = np.cos(np.arange(9.0)).reshape(3, 3)
    check(f, x)


@pytest.mark.parametrize("n", [3, 10_000])
def test_a_buffer_of_constants_is_filled_again_after_it_was_used(n):
    def f(x):
        work, total = np.zeros(n, like=x), 0.0
        part = work[1:]
        for k in range(1, 4):
            work[:] = k
            total = total + np.sum(work * x) + np.sum(x * part)
            work += 1.0
            np.multiply(work, 2.0, out=work)
            total = total + np.sum(x * x * work)
        return total

    coefficient = 6.0 * (2 * n - 1)  # of x, over three turns
    assert cr.grad(f)(1.5) == coefficient + 2 * 1.5 * n * (4 + 6 + 8)
    assert cr.jvp(f, (1.5,), (1.0,))[1] == cr.grad(f)(1.5)
    assert cr.hvp(f, 1.5, 1.0) == 2.0 * n * (4 + 6 + 8)


def test_an_argument_that_an_outer_tape_holds_may_be_written_to_inside():
    def inner(a):
        a *= a
        return np.sum(a)

    def f(t):
        w = np.full(10_000, 3.0)
        s = np.sum(w * t)
        return s + t * np.sum(cr.grad(inner)(w))

    assert cr.grad(f)(2.0) == 3.0 * 10_000 + 6.0 * 10_000


def test_entries_that_several_windows_show_are_added_to_by_each():
    def f(x):
        y = x * 1.0
        windows = np.lib.stride_tricks.sliding_window_view(y, 2, writeable=True)
        np.add.at(windows, ([0, 1, 1, 2], [1, 0, 1, 1]), x * x)
        return np.sum(windows**3)

    check(f, np.array([0.5, -1.5, 0.25, 1.0]))
    z = cr.Variable(np.ones(3, complex)) * 1.0
    with pytest.raises(cr.errors.InPlaceError, match="windows that overlap"):
        np.real(np.lib.stride_tricks.sliding_window_view(z, 2, writeable=True))[0, 0] = 2.0


def test_the_diagonal_of_a_matrix_follows_writes():
    y = cr.Variable(np.eye(3)) * 2.0
    d = np.diag(y)
    y[0, 0] = 7.0
    np.testing.assert_array_equal(d.data, [7.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        d[0] = 1.0


def test_the_method_sum_writes_to_out_each_time():
    def f(x):
        out = np.zeros_like(x)
        for _ in range(3):
            np.stack([x, x * x]).sum(0, out=out)
            out.sum(out=out[:1].reshape(()))
        return out[0] * out[1]

    check(f, np.array([0.5, -1.5]))


def test_arrays_without_axes_are_indexed_as_numpy_does():
    def f(x):
        y = np.zeros_like(x)
        y[np.newaxis, ...] = x * x
        y[y > 0.1] *= x
        return y[()] + np.sum(y)

    check(f, np.array(1.5))
    with pytest.raises(IndexError, match="too many indices"):
        (cr.Variable(np.array(1.0)) * 1.0)[0] = 2.0


def test_copyto_by_a_mask_drops_leading_axes_as_numpy_does():
    def f(x):
        y = x * 1.0
        np.copyto(y, (x * x)[None], where=x > 0)
        return np.sum(y * y)

    check(f, np.array([0.5, -1.5, 2.0]))


def test_read_only_views_stay_read_only():
    for view in (lambda y: np.broadcast_to(y, (2, 2, 3)), np.diagonal):
        y = cr.Variable(X) * 1.0
        with pytest.raises(ValueError, match="read-only"):
            view(y)[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            v = view(y)
            v += 1.0


WRITERS = {
    "put": lambda b, x: np.put(b, [0], x),
    "place": lambda b, x: np.place(b, b == 0, x),
    "copyto": np.copyto,
    "putmask": lambda b, x: np.putmask(b, b == 0, x),
    "put_along_axis": lambda b, x: np.put_along_axis(b, np.zeros((1, 2), int), x, 0),
    "fill_diagonal": np.fill_diagonal,
    "add.at": lambda b, x: np.add.at(b, 0, x),
    "setitem": lambda b, x: b.__setitem__(0, x),
    "fill": lambda b, x: b.fill(x),
    "in-place operator": lambda b, x: b.__iadd__(x),
    "out": lambda b, x: np.add(x, 1, out=b),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_plain_destination_is_refused_with_advice(write):
    def f(x):
        b = np.zeros((2, 2))
        write(b, x)
        return np.sum(b)

    with pytest.raises(cr.errors.ChainruleError, match="to go on"):
        cr.grad(f)(2.0)


def test_arrays_of_traced_values():
    turn = lambda t: np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]], like=t)
    np.testing.assert_array_equal(cr.jacobian(turn)(0.0), [[0.0, -1.0], [1.0, 0.0]])
    mixed = lambda x: cnp.array([x[0], 2.0, [3.0, x[1]][1], x[0] * x[1]])
    np.testing.assert_array_equal(cr.jacobian(mixed)(np.array([3.0, 5.0])), [[1, 0], [0, 0], [0, 1], [5, 3]])
    rows = lambda x: cnp.array([x, [1.0, 2.0]], ndmin=3)
    assert rows(cr.Variable(np.ones(2))).shape == (1, 2, 2)
    x = cr.Variable(np.ones(2))
    assert cnp.asarray(x) is x
    assert cnp.array(x) is not x
    assert cnp.array(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(cr.errors.ConversionError, match="like=x"):
        np.array([x, x])


def test_made_arrays_follow_what_they_are_made_of():
    x = 1.5
    np.testing.assert_array_equal(cr.jacobian(lambda x: np.full(3, x * x, like=x))(x), [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(cr.jacobian(lambda x: cnp.full((2,), x))(x), [1.0, 1.0])
    np.testing.assert_array_equal(cr.jacobian(lambda x: cnp.arange(x, 4.0, 1.0))(x), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(cr.jacobian(lambda x: cnp.arange(0.0, 5.0, x))(x), [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(cr.jacobian(lambda x: np.linspace(x, 2 * x, 3))(x), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(
        cr.jacobian(lambda x: np.logspace(0 * x, x, 3))(x), [0, 0.5, 1] * 10 ** (np.array([0, 0.5, 1]) * x) * np.log(10)
    )
    np.testing.assert_allclose(cr.jacobian(lambda x: np.geomspace(x, 4 * x, 3))(x), [1.0, 2.0, 4.0])


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_like_gives_buffers_of_the_asked_shape_and_dtype(name):
    x = cr.Variable(X)
    for made in (getattr(np, name)((2, 3), like=x), getattr(np, name + "_like")(x), getattr(cnp, name)((2, 3))):
        assert made.shape == (2, 3)
        assert made.dtype == np.float64
        made[0] = x[0]
        assert isinstance(made, cr.Variable)
    assert getattr(np, name + "_like")(x, dtype=np.float32, shape=(4,)).dtype == np.float32


def test_square_matrices_like_a_traced_value():
    x = cr.Variable(2.0)
    np.testing.assert_array_equal(np.asarray(np.eye(2, 3, 1, like=x)), np.eye(2, 3, 1))
    np.testing.assert_array_equal(np.asarray(np.identity(2, like=x)), np.identity(2))
    np.testing.assert_array_equal(np.asarray(np.arange(3.0, like=x)), np.arange(3.0))


def test_the_mirror_passes_everything_else_on_to_numpy():
    assert cnp.sin is np.sin
    assert cnp.linalg is np.linalg
    assert {"zeros", "sin"} <= set(dir(cnp))
    with pytest.raises(AttributeError):
        cnp.no_such_name  # noqa: B018


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("written", ["array", "view"])
@pytest.mark.parametrize("used", ["array", "view"])
def test_a_workspace_that_is_filled_again_gives_the_right_gradient_or_an_error(size, written, used):
    def f(x):
        w = np.zeros(size)
        v = w[:]
        total = 0.0
        for k in (1.0, 2.0, 3.0):
            (w if written == "array" else v)[...] = k
            total = total + np.sum(x * (w if used == "array" else v))
        return total

    x = np.ones(size)
    assert cr.jvp(f, (x,), (x,))[1] == 6 * size
    try:
        g = cr.grad(f)(x)
    except cr.errors.InPlaceError as error:
        assert size == 100_000
        assert "copy it before its use" in str(error)
    else:
        np.testing.assert_array_equal(g, np.full(size, 6.0))


# -- the cost of writes ------------------------------------------------------------------------------------------------


def addresses(f, x):
    """Return where the array that `f` fills was after each write."""
    seen = []

    def loss(x):
        y = np.zeros((50, 3), like=x)
        for k in range(50):
            f(y, x, k)
            seen.append(cr.value(y).__array_interface__["data"][0])
        return np.sum(y * y)

    cr.grad(loss)(x)
    return seen


def test_a_loop_writes_into_one_array():
    def entry(y, x, k):
        y[k, k % 3] = x[0] * k

    def row(y, x, k):
        y[k] = y[k - 1] * 0.5 + x

    def row_entry(y, x, k):
        y[k][1] = x[1]

    def column(y, x, k):
        y[:, k % 3] = y[:, (k + 1) % 3] + x[k % 3]

    for fill in (entry, row, row_entry, column):
        assert len(set(addresses(fill, X[0]))) == 1


def test_an_array_that_somebody_keeps_is_copied_before_a_write():
    kept = []

    def f(x):
        y = x * 2
        kept.append(cr.value(y))
        before = y * y  # the tape keeps y's array for this one
        y[0] = 7.0
        kept.append(cr.value(y))
        y[1] = x[0]
        return np.sum(before) + np.sum(y)

    np.testing.assert_allclose(cr.grad(f)(V[0]), 8 * V[0] + [1, 0, 2])
    np.testing.assert_array_equal(kept[0], 2 * V[0])
    np.testing.assert_array_equal(kept[1], [7.0, *2 * V[0, 1:]])


def test_the_way_back_along_a_chain_of_writes_takes_one_array():
    def f(x):
        y = np.zeros(2000, like=x)
        for k in range(2000):
            y[k] = x * k
        return np.sum(y)

    y = f(x := cr.Variable(1.5))
    tracemalloc.start()
    y.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.grad == 2000 * 1999 / 2
    assert peak < 2000 * 8 * 100  # an array of 16 kB for each of the 2000 writes would be 2000 of them


def test_a_stale_view_is_a_variable_to_all_who_ask():
    y = cr.Variable(X) * 1.0
    row = y[0]
    y[0, 0] = 9.0
    assert isinstance(row, cr.Variable)
    assert row.__class__ is cr.Variable
    y[0, 1] = 8.0
    assert repr(row) == "Variable([9.  , 8.  , 3.25])"
    y[0, 2] = 7.0
    np.testing.assert_array_equal(np.stack([row, row])[1] == [9.0, 8.0, 7.0], True)


def test_a_stale_view_of_a_buffer_still_is_a_plain_number_to_python():
    b = cnp.zeros(3)
    view = b[:1]
    b[0] = 2.5
    assert float(view.reshape(())) == 2.5
    b[0] = 1.5
    assert view.tolist() == [1.5]
    b[0] = 0.0
    assert not bool(view.reshape(()))
    np.testing.assert_array_equal(np.asarray(view), [0.0])


def test_full_like_of_a_plain_array_says_what_to_write_instead():
    with pytest.raises(
        cr.errors.InPlaceError, match=r"np.full_like of a plain array(.|\n)*np.full\(shape, value, like=value\)"
    ):
        cr.grad(lambda x: np.sum(np.full_like(np.ones(3), x)))(2.0)
    assert cr.grad(lambda x: np.sum(np.full((3,), x, like=x)))(2.0) == 3.0


def test_a_value_whose_tangents_show_a_read_only_array_may_be_written_to():
    def f(x):
        s = np.linalg.svdvals(np.resize(x, (3, 3)) + np.arange(9.0).reshape(3, 3) ** 2)
        np.add(s, np.sin(x), out=s)
        return s

    x, h = np.array([0.9, 0.4, -0.3]), 1e-6
    want = np.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(3)], axis=1)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(cr.jacobian(f, mode=mode)(x), want, rtol=1e-7, atol=1e-8)
