"""Functions that move, join, split and read elements: values, types, and both modes against plain NumPy itself.

All of them are linear, or affine, or so near a point where no order changes. So the exact derivative along `v` is what
plain NumPy gives for ``f(x + v) - f(x)``, and no step size has to be chosen.
"""

import numpy as np
import pytest

import chainrule as cr

X = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -1.0]])
V = np.array([[0.25, 0.5, -0.125], [0.0625, -0.25, 0.375]])

FUNCTIONS = {
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "reshape to -1 in column order": lambda x: np.reshape(x, -1, order="F"),
    "reshape in memory order of a transposed array": lambda x: np.reshape(x.T, (2, 3), order="A"),
    "ravel": lambda x: np.ravel(x),
    "ravel in memory order": lambda x: np.ravel(x.T, order="K"),
    "flatten": lambda x: x.flatten("F"),
    "reshape method with numbers": lambda x: x.reshape(3, 2),
    "reshape method with a tuple": lambda x: x.reshape((6, 1), order="F"),
    "transpose": np.transpose,
    "transpose with axes": lambda x: np.transpose(x[None], (2, 0, 1)),
    "transpose with negative axes": lambda x: np.transpose(x[None], (-1, 0, 1)),
    "transpose method": lambda x: x[None].transpose(2, 0, 1),
    "transpose method with a tuple": lambda x: x.transpose((1, 0)),
    "permute_dims": lambda x: np.permute_dims(x, (1, 0)),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "matrix_transpose": lambda x: np.matrix_transpose(x[None]),
    "swapaxes": lambda x: np.swapaxes(x, 0, -1),
    "moveaxis": lambda x: np.moveaxis(x[None], [0, 1], [2, 0]),
    "rollaxis": lambda x: np.rollaxis(x[None], 2),
    "squeeze": lambda x: np.squeeze(x[None]),
    "squeeze of one axis": lambda x: np.squeeze(x[:, None], axis=1),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "broadcast_to of an axis of length 1": lambda x: np.broadcast_to(x[:, :1], (2, 5)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, np.ones((4, 1, 3)))[0],
    "atleast_1d": np.atleast_1d,
    "atleast_1d of several": lambda x: np.atleast_1d(x[0, 0], 2.0)[0],
    "atleast_2d": lambda x: np.atleast_2d(x[0]),
    "atleast_3d": np.atleast_3d,
    "atleast_3d of a vector": lambda x: np.atleast_3d(x[0]),
    "flip": np.flip,
    "flip of an axis": lambda x: np.flip(x, 1),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "roll": lambda x: np.roll(x, 1),
    "roll of two axes": lambda x: np.roll(x, (1, -2), (0, 1)),
    "rot90": lambda x: np.rot90(x, 3),
    "repeat": lambda x: np.repeat(x, 3),
    "repeat with counts": lambda x: np.repeat(x, [0, 2, 1], axis=1),
    "repeat of the last axis": lambda x: x.repeat(2, axis=-1),
    "repeat no times": lambda x: np.repeat(x, 0, axis=1),
    "tile": lambda x: np.tile(x, (2, 2, 1)),
    "resize to more": lambda x: np.resize(x, (3, 5)),
    "resize to less": lambda x: np.resize(x, (2,)),
    "copy": np.copy,
    "copy method": lambda x: x.copy(),
    "trim_zeros": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0], np.zeros(1)])),
    "trim_zeros at the back": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0], np.zeros(1)]), "b"),
    "diagonal": lambda x: np.diagonal(x, 1),
    "diagonal of other axes": lambda x: np.diagonal(np.stack([x, 2 * x]), -1, 2, 0),
    "diagonal method": lambda x: x.diagonal(),
    "diag of a vector": lambda x: np.diag(x[0], -1),
    "diag of a matrix": lambda x: np.diag(x, 1),
    "diagflat": lambda x: np.diagflat(x, 1),
    "tril": np.tril,
    "triu": lambda x: np.triu(x, 1),
    "tril of a vector": lambda x: np.tril(x[0]),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1])[0],
    "meshgrid ij": lambda x: np.meshgrid(x[0], x[1], indexing="ij")[1],
    "meshgrid sparse": lambda x: np.meshgrid(x[0], x[1], sparse=True)[1],
    "concatenate": lambda x: np.concatenate([x, 2 * x, x[:1]]),
    "concatenate flat": lambda x: np.concatenate([x, 2 * x], axis=None),
    "concatenate last axis": lambda x: np.concatenate((x, x[:, :1]), axis=-1),
    "stack": lambda x: np.stack([x, 2 * x]),
    "stack last axis": lambda x: np.stack([x, 2 * x], axis=-1),
    "stack of numbers": lambda x: np.stack([x[0, 0], x[1, 1]]),
    "hstack": lambda x: np.hstack([x, 2 * x]),
    "hstack of vectors": lambda x: np.hstack([x[0], 2 * x[1]]),
    "vstack": lambda x: np.vstack([x, x[0]]),
    "dstack": lambda x: np.dstack([x, 2 * x]),
    "column_stack": lambda x: np.column_stack([x[:, 0], x]),
    "append": lambda x: np.append(x, x[0]),
    "append along an axis": lambda x: np.append(x, 2 * x, axis=1),
    "block": lambda x: np.block([[x, 2 * x], [x[:, :1], x[1:] * np.ones((2, 1), x.dtype), x[:, 1:]]]),
    "split": lambda x: np.split(x, 3, axis=1)[1],
    "array_split": lambda x: np.array_split(x, 2, axis=1)[0],
    "hsplit": lambda x: np.hsplit(x, [1, 2])[1],
    "vsplit": lambda x: np.vsplit(x, 2)[1],
    "dsplit": lambda x: np.dsplit(x[None], 3)[2],
    "delete": lambda x: np.delete(x, [1], axis=1),
    "delete of a slice": lambda x: np.delete(x, slice(0, 2)),
    "insert": lambda x: np.insert(x, 1, x[:, 0], axis=1),
    "insert of constants": lambda x: np.insert(x, [0, 2, 2], [1.0, 2.0, 3.0]),
    "insert of one element": lambda x: np.insert(x[0], 1, x[1, 1]),
    "pad": lambda x: np.pad(x, 1),
    "pad with widths and constants": lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=7),
    "pad with a traced constant": lambda x: np.pad(x, 1, constant_values=x[0, 0]),
    "pad edge": lambda x: np.pad(x, 2, "edge"),
    "pad wrap": lambda x: np.pad(x, 4, "wrap"),
    "pad reflect": lambda x: np.pad(x, (1, 4), "reflect"),
    "pad odd reflect": lambda x: np.pad(x, (1, 4), "reflect", reflect_type="odd"),
    "pad symmetric": lambda x: np.pad(x, (2, 4), "symmetric"),
    "pad odd symmetric": lambda x: np.pad(x, (2, 4), "symmetric", reflect_type="odd"),
    "pad linear_ramp": lambda x: np.pad(x, (2, 4), "linear_ramp", end_values=(8, 4)),
    "pad mean": lambda x: np.pad(x, ((2, 3), (0, 1)), "mean", stat_length=2),
    "pad maximum": lambda x: np.pad(x, (2, 3), "maximum", stat_length=2),
    "pad minimum": lambda x: np.pad(x, (2, 3), "minimum"),
    "take": lambda x: np.take(x, [0, 0, 5]),
    "take along an axis": lambda x: np.take(x, [[0, -1], [2, 0]], axis=1),
    "take clip": lambda x: np.take(x, [[0, -1], [2, 7]], axis=1, mode="clip"),
    "take wrap": lambda x: x.take([[0, -1], [2, 7]], mode="wrap"),
    "take of one": lambda x: np.take(x, 3),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0, 0, 1], [2, 1, 0]]), axis=1),
    "take_along_axis flat": lambda x: np.take_along_axis(x, np.array([3, 3, 1]), axis=None),
    "compress": lambda x: np.compress([True, False, True], x, axis=1),
    "compress method": lambda x: x.compress([True, False, True]),
    "extract": lambda x: np.extract(np.abs(X) > 1.2, x),
    "choose": lambda x: np.choose([[0, 1, 1], [1, 0, 0]], [x, 2 * x]),
    "sort": np.sort,
    "sort of the first axis": lambda x: np.sort(x, axis=0),
    "sort flat": lambda x: np.sort(x, axis=None),
    "partition": lambda x: np.partition(x, 1),
    "diff": np.diff,
    "second diff of the first axis": lambda x: np.diff(np.stack([x[0], x[1], x[1] - x[0]]), 2, axis=0),
    "diff with ends": lambda x: np.diff(x, axis=0, prepend=x[:1] * 2, append=0.5),
    "ediff1d": lambda x: np.ediff1d(x, to_begin=x[1, 1], to_end=[1.0, 2.0]),
    "trapezoid": lambda x: np.trapezoid(x, dx=0.5),
    "trapezoid with places": lambda x: np.trapezoid(x, np.array([0.0, 0.5, 2.0]).astype(x.dtype)),
    "vander": lambda x: np.vander(x[0], 2, increasing=True),
    "gradient of an axis": lambda x: np.gradient(x, 0.5, axis=1),
    "gradient of all axes": lambda x: np.stack(np.gradient(x)),
    "gradient with places": lambda x: np.gradient(x, np.array([0.0, 0.5, 2.0]).astype(x.dtype), axis=1, edge_order=2),
    "gradient with an even grid": lambda x: np.gradient(
        x, np.array([0.0, 0.5, 1.0]).astype(x.dtype), axis=1, edge_order=2
    ),
    "index": lambda x: x[1],
    "two indices": lambda x: x[1, 2],
    "slice": lambda x: x[::-1, 1:],
    "ellipsis and new axis": lambda x: x[..., None, 0],
    "list with repeats": lambda x: x[:, [0, 0, 1]],
    "pairs with repeats": lambda x: x[np.array([0, 1, 1]), np.array([2, 0, 0])],
    "mask": lambda x: x[np.abs(X) > 1.2],
    "mask of rows": lambda x: x[np.array([False, True])],
    "flat": lambda x: x.flat[[1, 1, 3]],
    "flat iteration": lambda x: np.stack(list(x.flat)),
    "iteration": lambda x: np.concatenate([2 * row for row in x]),
    "linspace": lambda x: np.linspace(x[0], x[1], 5),
    "linspace along another axis": lambda x: np.linspace(x[0], x[1], 4, axis=1, endpoint=False),
}
if hasattr(np, "unstack"):  # NumPy 2.1
    FUNCTIONS["unstack"] = lambda x: np.unstack(x, axis=1)[2]

TOLERANCE = {"d": 1e-13, "D": 1e-13, "f": 1e-5, "e": 2e-2}


def closely(dtype):
    tolerance = TOLERANCE[np.dtype(dtype).char]
    return {"rtol": tolerance, "atol": tolerance}


def weights(y):
    """Return distinct weights of the shape and dtype of `y`."""
    w = (np.arange(np.size(y)).reshape(np.shape(y)) % 7 - 2.5) / 4
    return (w * (1 - 0.5j) if np.iscomplexobj(y) else w).astype(y.dtype)


def point(dtype):
    dtype = np.dtype(dtype)
    twist = 1 + 0.5j if dtype.kind == "c" else 1
    return (X * twist).astype(dtype), (V / 64 * twist).astype(dtype)


@pytest.mark.parametrize("dtype", "dfeD")
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_value_and_both_modes_agree_with_numpy(f, dtype):
    x, v = point(dtype)
    want = f(x)
    slope = (f(x.astype("D" if dtype == "D" else "d") + v) - f(x.astype("D" if dtype == "D" else "d"))).astype(dtype)
    y, ydot = cr.jvp(f, (x,), (v,))
    assert type(y) is type(want)
    assert y.dtype == ydot.dtype == want.dtype
    np.testing.assert_array_equal(y, want)
    np.testing.assert_allclose(ydot, slope, **closely(dtype))
    y, pullback = cr.vjp(f, x)
    np.testing.assert_array_equal(y, want)
    w = weights(want)
    (xbar,) = pullback(w)
    assert xbar.dtype == x.dtype
    assert xbar.shape == x.shape
    np.testing.assert_allclose(np.sum(xbar * v), np.sum(w * slope), **closely(dtype))


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_hessian_products_in_all_four_pairs_of_modes(f):
    """With f seeing ``c + x**2 / 2``, which is X at X, the gradient is x times the pullback of f, and linear in x."""

    def inner(x):
        return X - X * X / 2 + x * x / 2

    w = weights(f(X))
    xbar = cr.vjp(f, X)[1](w)[0]
    want = V * xbar  # the derivative along V of x * xbar: f's own pullback does not change near X

    def loss(x):
        return np.sum(w * f(inner(x)))

    def slope(x):
        return cr.jvp(loss, (x,), (V,))[1]

    np.testing.assert_allclose(cr.jvp(cr.grad(loss), (X,), (V,))[1], want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(V * cr.grad(loss)(x)))(X), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cr.grad(slope)(X), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cr.jvp(slope, (X,), (V,))[1], np.sum(V * want), rtol=1e-12, atol=1e-13)


def test_empty_arrays_have_empty_gradients():
    for f in (np.ravel, np.flip, lambda x: np.repeat(x, 2, axis=0), lambda x: np.concatenate([x, x]), np.sort):
        xbar = cr.grad(lambda x, f=f: np.sum(f(x)))(np.zeros((0, 3)))
        assert xbar.shape == (0, 3)


def test_resize_of_an_empty_array_is_zeros_without_derivative():
    y, pullback = cr.vjp(lambda x: np.resize(x, (2, 2)), np.zeros(0))
    np.testing.assert_array_equal(y, np.zeros((2, 2)))
    assert pullback(np.ones((2, 2)))[0].shape == (0,)


def test_numbers_have_shapes_too():
    assert cr.grad(lambda x: np.reshape(x, (1, 1))[0, 0] * 3)(2.0) == 3.0
    assert cr.grad(lambda x: np.sum(np.broadcast_to(x, (2, 3))))(2.0) == 6.0
    assert cr.grad(lambda x: np.sum(np.atleast_2d(x)))(2.0) == 1.0
    assert cr.grad(lambda x: np.sum(np.stack([x, 2.0, x * x])))(3.0) == 7.0
    assert cr.grad(lambda x: np.sum(np.tile(x, 4)))(3.0) == 4.0


def test_constants_beside_traced_arrays_keep_their_share():
    f = lambda x: np.concatenate([np.ones(2), x, [5.0]])
    np.testing.assert_array_equal(cr.jacobian(f)(np.ones(2)), [[0, 0], [0, 0], [1, 0], [0, 1], [0, 0]])


def test_equal_elements_are_sorted_as_they_stand():
    jacobian = cr.jacobian(np.sort)(np.array([2.0, 1.0, 2.0]))
    np.testing.assert_array_equal(jacobian, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_memory_order_that_a_cotangent_can_not_know_is_refused():
    x = np.ones((4, 4, 4))[:, ::2]
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="order='C'"):
        cr.grad(lambda x: np.sum(np.ravel(x, order="K")))(x)


def test_indices_are_copied_when_they_are_used():
    index = np.array([0, 1])
    x = cr.Variable(np.array([3.0, 4.0]))
    counts = np.array([1, 1])
    y = np.sum(x[index] * np.take(x, index)) + np.sum(np.repeat(x, counts))
    index[:] = 0
    counts[:] = 0
    y.backward()
    np.testing.assert_array_equal(x.grad, [7.0, 9.0])


@pytest.mark.parametrize(
    "f",
    [
        np.argsort, np.argmax, np.nonzero, np.flatnonzero, np.count_nonzero, np.shape, np.ndim, np.size, np.isrealobj,
        lambda x: np.searchsorted(np.sort(x[0]), 1.0), lambda x: np.array_equal(x, X), lambda x: np.allclose(x, X),
        lambda x: np.isclose(x, X), np.result_type, np.array2string, lambda x: x.argsort(axis=0), lambda x: x.nonzero(),
    ],
)  # fmt: skip
def test_functions_of_order_and_shape_give_plain_results(f):
    got, want = f(cr.Variable(X)), f(X)
    assert type(got) is type(want)
    np.testing.assert_equal(got, want)


def test_casts_to_integers_are_plain_and_those_to_floats_keep_the_derivative():
    x = cr.Variable(X)
    assert type(x.astype(int)) is np.ndarray
    np.testing.assert_array_equal(x.astype(int), X.astype(int))
    g = cr.grad(lambda x: np.sum(x.astype(np.float32) * 3))(X)
    assert g.dtype == np.float64
    np.testing.assert_array_equal(g, np.full((2, 3), 3.0))
    with pytest.raises(TypeError, match="safe"):
        x.astype(np.float32, casting="safe")


@pytest.mark.parametrize("name", ["getfield", "byteswap", "tofile", "ctypes"])
def test_methods_without_a_meaning_say_what_to_use(name):
    with pytest.raises(cr.errors.ConversionError, match="use"):
        getattr(cr.Variable(X), name)


def test_unknown_attributes_are_errors():
    with pytest.raises(AttributeError):
        cr.Variable(X).foo  # noqa: B018


def test_out_arrays_are_refused():
    with pytest.raises(cr.errors.OutArgumentError):
        np.take(cr.Variable(X), [0], out=np.zeros(1))
    with pytest.raises(cr.errors.OutArgumentError):
        np.concatenate([cr.Variable(X), X], out=np.zeros((4, 3)))


def test_numpy_s_own_complaints_remain():
    x = cr.Variable(X)
    for wrong in (
        lambda x: np.reshape(x, (4, 2)), lambda x: np.split(x, 4, axis=1), lambda x: np.concatenate([x, x[0]]),
        lambda x: np.squeeze(x, axis=0), lambda x: np.swapaxes(x, 0, 5), lambda x: np.take(x, 9),
        lambda x: np.take_along_axis(x, np.array([0]), 1), lambda x: np.pad(x, 1, "nonsense"),
    ):  # fmt: skip
        with pytest.raises(Exception) as ours:
            wrong(x)
        with pytest.raises(type(ours.value)):
            wrong(X)


def test_differences_depend_on_their_places_and_steps():
    """Of samples y = t**2 at the places t: by hand, entry by entry."""
    t, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 4.0, 16.0])
    area = lambda t: np.trapezoid(y, t)  # ((t1 - t0) 5 + (t2 - t1) 20) / 2
    np.testing.assert_allclose(cr.grad(area)(t), [-2.5, -7.5, 10.0])
    ends = lambda t: np.gradient(y, t)[::2]  # (y1 - y0) / (t1 - t0), (y2 - y1) / (t2 - t1)
    np.testing.assert_allclose(cr.jacobian(ends)(t), [[3.0, -3.0, 0.0], [0.0, 3.0, -3.0]])
    np.testing.assert_allclose(cr.jacobian(lambda h: np.gradient(y, h))(2.0), -np.gradient(y, 1.0) / 4)
    middle = lambda t: np.gradient(y, t)[1]
    step = 1e-6 * np.eye(3)
    want = [(middle(t + e) - middle(t - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(cr.grad(middle)(t), want, rtol=1e-8, atol=1e-9)
    even = np.array([1.0, 2.0, 3.0])
    want = [(middle(even + e) - middle(even - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(cr.grad(middle)(even), want, rtol=1e-8, atol=1e-9)


def test_powers_of_zero_in_vander_have_finite_slopes():
    np.testing.assert_array_equal(cr.jacobian(lambda x: np.vander(x, 3)[0])(np.array([0.0])), [[0.0], [1.0], [0.0]])


def test_many_live_views_of_one_array_stay_cheap():
    y = cr.Variable(np.zeros((3000, 2))) * 1.0
    rows = [y[i] for i in range(3000)]
    assert len(y.views) == 3000
    del rows
    for i in range(2000):
        y[i % 3000]
    assert len(y.views) < 5000
