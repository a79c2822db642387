"""The transforms: which arguments, containers, layouts, modes, auxiliary results, and what they refuse."""

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule.errors import HolomorphicError, NotDifferentiableError, NotScalarError, ShapeError

X = np.array([1.0, 2.0, -3.0])


def three(x, y, z=2.0):
    return np.sum(x) * y + z**2


def test_argnums_choose_by_position_and_from_the_end():
    assert_allclose(cr.grad(three)(X, 5.0), [5.0, 5.0, 5.0])
    assert_allclose(cr.grad(three, argnums=1)(X, 5.0), 0.0)
    assert_allclose(cr.grad(three, argnums=-1)(X, 5.0, 7.0), 14.0)
    gz, gx = cr.grad(three, argnums=(-1, 0))(X, 5.0, 7.0)
    assert_allclose(gz, 14.0)
    assert_allclose(gx, [5.0] * 3)
    assert isinstance(cr.grad(three, argnums=(0,))(X, 5.0), tuple)


def test_argnames_choose_by_name_however_the_argument_is_passed():
    g = cr.grad(three, argnames="z")
    assert_allclose(g(X, 5.0, z=7.0), 14.0)
    assert_allclose(g(X, 5.0, 7.0), 14.0)
    both = cr.grad(three, argnames=("z", "x"))(X, 5.0, z=1.5)
    assert_allclose(both[0], 3.0)
    assert_allclose(both[1], [5.0] * 3)
    mixed = cr.grad(three, argnums=0, argnames="z")(X, 5.0, z=1.5)
    assert_allclose(mixed[0], [5.0] * 3)
    assert_allclose(mixed[1], 3.0)


def test_wrong_choices_are_refused_with_the_names_at_hand():
    with pytest.raises(ValueError, match="has no argument 'w'.*x, y, z"):
        cr.grad(three, argnames="w")
    with pytest.raises(ValueError, match="argnums=3.*three was called with 2"):
        cr.grad(three, argnums=3)(X, 5.0)
    with pytest.raises(ValueError, match="was not given"):
        cr.grad(three, argnames="z")(X, 5.0)
    with pytest.raises(ValueError, match="chosen twice"):
        cr.grad(three, argnums=(0, -3))(X, 5.0, 1.0)
    with pytest.raises(TypeError, match="argnames='x'"):
        cr.grad(three, argnums="x")


def test_auxiliary_results_are_passed_out_without_boxes():
    def f(x):
        y = np.sum(x**2)
        return y, {"half": x / 2, "name": "f"}

    g, aux = cr.grad(f, has_aux=True)(X)
    assert_allclose(g, 2 * X)
    assert type(aux["half"]) is np.ndarray
    assert_allclose(aux["half"], X / 2)
    (y, _), g = cr.value_and_grad(f, has_aux=True)(X)
    assert_allclose(y, 14.0)
    y, pullback, aux = cr.vjp(f, X, has_aux=True)
    assert_allclose(pullback(1.0)[0], 2 * X)
    y, ydot, aux = cr.jvp(f, (X,), (np.ones(3),), has_aux=True)
    assert_allclose(ydot, 2 * np.sum(X))
    assert type(aux["half"]) is np.ndarray
    with pytest.raises(TypeError, match="pair"):
        cr.grad(lambda x: np.sum(x), has_aux=True)(X)


Point = namedtuple("Point", "u v")


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: float


@pytest.mark.parametrize(
    ("make", "get"),
    [
        (lambda a, b: {"w": a, "b": b}, lambda p: (p["w"], p["b"])),
        (lambda a, b: OrderedDict([("w", a), ("b", b)]), lambda p: (p["w"], p["b"])),
        (lambda a, b: [a, (b,)], lambda p: (p[0], p[1][0])),
        (lambda a, b: (a, None, b), lambda p: (p[0], p[2])),
        (Point, lambda p: (p.u, p.v)),
        (Layer, lambda p: (p.w, p.b)),
    ],
    ids=["dict", "ordered dict", "nested list", "tuple with None", "named tuple", "dataclass"],
)
def test_gradients_have_the_container_of_their_argument(make, get):
    def f(p):
        w, b = get(p)
        return np.sum(w**2) * b

    p = make(X, 3.0)
    g = cr.grad(f)(p)
    assert type(g) is type(p)
    gw, gb = get(g)
    assert_allclose(gw, 6 * X)
    assert_allclose(gb, 14.0)
    y, ydot = cr.jvp(f, (p,), (make(np.ones(3), 1.0),))
    assert_allclose(ydot, 6 * np.sum(X) + 14.0)


def test_a_container_entry_that_is_no_number_is_named():
    with pytest.raises(NotDifferentiableError, match=r"\['name'\].*str"):
        cr.grad(lambda p: np.sum(p["w"]))({"w": X, "name": "layer"})
    with pytest.raises(NotDifferentiableError, match="bool"):
        cr.grad(lambda x: x)(True)


def test_python_ints_and_integer_arrays_are_taken_as_floats():
    assert cr.grad(lambda x: x * x)(3) == 6.0
    g = cr.grad(lambda x: np.sum(x**2) / 4)(np.array([1, 2, 5]))
    assert g.dtype == np.float64
    assert_allclose(g, [0.5, 1.0, 2.5])


def test_gradients_are_fresh_writable_and_unshared():
    ga, gb = cr.grad(lambda a, b: np.sum(a + b), argnums=(0, 1))(X.copy(), X.copy())
    ga *= 10.0
    assert_allclose(gb, np.ones(3))
    seed = np.ones(3)
    _, pullback = cr.vjp(lambda x: x, X)
    (bar,) = pullback(seed)
    bar += 1.0
    assert_allclose(seed, np.ones(3))


def test_results_of_forward_mode_are_writable_and_unshared():
    x, v = np.ones(2), np.full(2, 3.0)
    (y1, y2, y3), (t1, t2, t3) = cr.jvp(lambda a: (a, a, a[:1]), (x,), (v,))
    for array in (y1, y2, y3, t1, t2, t3):
        array += 1
    assert x.tolist() == [1, 1] and v.tolist() == [3, 3]
    assert y1.tolist() == y2.tolist() == [2, 2] and t1.tolist() == t2.tolist() == [4, 4]
    assert y3.tolist() == [2] and t3.tolist() == [4]


def test_a_pullback_does_not_see_later_changes_of_argument_or_output():
    x = X.copy()
    y, pullback = cr.vjp(np.exp, x)
    want = np.exp(X)
    y += 1.0
    x *= 0.0
    assert_allclose(pullback(np.ones(3))[0], want)
    assert_allclose(pullback(np.ones(3))[0], want)


def test_seeds_and_tangents_must_fit():
    _, pullback = cr.vjp(lambda x: x * 2.0, X)
    with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
        pullback(np.ones(2))
    with pytest.raises(ShapeError, match="structure"):
        pullback([np.ones(3), np.ones(3)])
    with pytest.raises(ShapeError, match="shape"):
        cr.jvp(np.sin, (X,), (1.0,))
    with pytest.raises(ShapeError, match="complex"):
        cr.jvp(np.sin, (X,), (np.ones(3) * 1j,))
    with pytest.raises(ShapeError, match="2 tangents"):
        cr.jvp(np.sin, (X,), (X, X))
    with pytest.raises(TypeError, match="tuple"):
        cr.jvp(np.sin, X, X)


def test_outputs_in_containers_pull_back_and_push_forward():
    f = lambda x: {"s": np.sum(x**2), "v": [x * 3.0, np.sin(x)]}
    y, pullback = cr.vjp(f, X)
    (bar,) = pullback({"s": 1.0, "v": [np.ones(3), np.zeros(3)]})
    assert_allclose(bar, 2 * X + 3.0)
    _, ydot = cr.jvp(f, (X,), (np.ones(3),))
    assert_allclose(ydot["v"][1], np.cos(X))


def test_linearize_gives_the_pushforward_without_running_again():
    runs = []

    def f(x, w):
        runs.append(1)
        return np.sin(x) * w, np.sum(x)

    y, push = cr.linearize(f, X, 2.0)
    for v in (np.ones(3), X):
        got = push(v, 0.5)
        want = cr.jvp(f, (X, 2.0), (v, 0.5))[1]
        assert_allclose(got[0], want[0], rtol=1e-14)
        assert_allclose(got[1], want[1], rtol=1e-14)
    assert len(runs) == 3  # once for linearize, once for each jvp
    with pytest.raises(ShapeError):
        push(np.ones(2), 0.5)


A = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
def test_jacobian_layouts(mode):
    f = lambda x: np.sin(A @ x)
    want = np.cos(A @ X)[:, None] * A
    assert_allclose(cr.jacobian(f, mode=mode)(X), want, rtol=1e-13)
    assert_allclose(cr.jacobian(f, mode=mode, layout="denominator")(X), want.T, rtol=1e-13)
    g = lambda w: w @ X  # (2, 3) -> (2,)
    want = np.einsum("ik,l->ikl", np.eye(2), X)
    assert_allclose(cr.jacobian(g, mode=mode)(A), want)
    j = cr.jacobian(g, mode=mode, layout="denominator")(A)
    assert j.shape == (2, 3, 2)
    assert_allclose(j, np.moveaxis(want, 0, -1))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobian_of_containers(mode):
    f = lambda p: {"u": p["a"] * p["b"], "s": np.sum(p["a"])}
    j = cr.jacobian(f, mode=mode)({"a": X, "b": 2.0})
    assert_allclose(j["u"]["a"], 2 * np.eye(3))
    assert_allclose(j["u"]["b"], X)
    assert_allclose(j["s"]["a"], np.ones(3))
    assert_allclose(j["s"]["b"], 0.0)
    ja, jb = cr.jacobian(lambda a, b: a * b, argnums=(0, 1), mode=mode)(X, 2.0)
    assert_allclose(ja, 2 * np.eye(3))
    assert_allclose(jb, X)


def test_the_choice_of_mode_follows_the_sizes_and_can_be_asked_for():
    wide = cr.jacobian(lambda x: np.stack([np.sum(x), np.sum(x**2)]))
    tall = cr.jacobian(lambda t: np.stack([t, t**2, np.sin(t)]))
    assert wide.choice(X).mode == "reverse"
    assert tall.choice(0.5).mode == "forward"
    assert (
        str(tall.choice(0.5)) == "forward: 1 column (one for each input) costs less than 3 rows (one for each output)"
    )
    assert wide.choice(X).reason == "2 rows (one for each output) cost no more than 3 columns (one for each input)"
    assert cr.jacobian(lambda x: x * X).choice(X).mode == "reverse"  # as many of both
    assert cr.jacobian(np.sin).choice(0.5).mode == "forward"
    assert cr.jacobian(np.sin, mode="forward").choice(X).mode == "forward"


def test_a_jacobian_in_one_number_runs_the_function_once():
    runs = []
    f = lambda t: runs.append(t) or np.stack([t, t**2, t**3])
    assert_allclose(cr.jacobian(f)(2.0), [1.0, 4.0, 12.0])
    assert_allclose(cr.jacobian(lambda t: {"a": f(t[0]), "b": 1.0})(np.array([2.0]))["a"], [[1.0], [4.0], [12.0]])
    assert len(runs) == 2


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobians_in_and_of_nothing(mode):
    J = cr.jacobian(lambda x: np.ones(3) * np.sum(x), mode=mode)
    assert J(np.zeros(0)).shape == (3, 0)
    assert cr.jacobian(lambda x: x[:0], mode=mode)(X).shape == (0, 3)
    assert cr.jacobian(lambda x: x * X[:0], mode=mode)(2.0).shape == (0,)


def test_cost_of_the_two_modes_is_counted():
    calls = []

    def f(x):
        calls.append(1)
        return x * 2.0

    cr.jacobian(f, mode="reverse")(X)
    assert len(calls) == 1  # one recorded run serves all rows
    calls.clear()
    cr.jacobian(f, mode="forward")(X)
    assert len(calls) == 1  # all columns go through one run
    calls.clear()
    cr.jacobian(f, mode="forward", chunk=2)(X)
    assert len(calls) == 2


def test_hessian_and_product_agree():
    f = lambda x: np.sum(np.sin(x)) * x[0] + x[1] * x[2] ** 3
    h = cr.hessian(f)(X)
    assert_allclose(h, h.T, atol=1e-14)
    v = np.array([0.5, -1.0, 2.0])
    assert_allclose(cr.hvp(f, X, v), h @ v, rtol=1e-12)
    direct = cr.grad(lambda x: np.dot(cr.grad(f)(x), v))(X)
    assert_allclose(direct, h @ v, rtol=1e-12)
    step = 1e-5
    central = [(cr.grad(f)(X + step * e) - cr.grad(f)(X - step * e)) / (2 * step) for e in np.eye(3)]
    assert_allclose(h, central, rtol=1e-8, atol=1e-8)


def test_gradient_norm_penalty_is_twice_the_hessian_times_the_gradient():
    # R = |dL/dw|^2, so dR/dw = 2 H g
    loss = lambda w: np.sum(np.tanh(A @ w) ** 2)
    penalty = lambda w: np.sum(cr.grad(loss)(w) ** 2)
    g, h = cr.grad(loss)(X), cr.hessian(loss)(X)
    assert_allclose(cr.grad(penalty)(X), 2 * h @ g, rtol=1e-10)


def test_complex_points():
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    g = cr.grad(lambda z: np.sum(np.abs(z) ** 2))(z)
    assert_allclose(g, 2 * z.conj())  # df/dx - i df/dy
    with pytest.raises(HolomorphicError, match="holomorphic=True"):
        cr.grad(lambda z: z[0] ** 2)(z)
    assert_allclose(cr.grad(lambda z: z**3, holomorphic=True)(1 + 1j), 3 * (1 + 1j) ** 2)
    with pytest.raises(NotDifferentiableError, match="complex"):
        cr.grad(lambda x: x * 1j, holomorphic=True)(1.0)
    j = cr.jacobian(lambda z: z**2, holomorphic=True)(z)
    assert_allclose(j, np.diag(2 * z))
    for mode in ("auto", "reverse"):
        assert_allclose(cr.jacobian(lambda z: np.real(z * z), mode=mode)(z), np.diag(2 * z))


def test_what_is_no_scalar_is_refused_with_advice():
    for f in (lambda x: x * 2.0, lambda x: [np.sum(x)], lambda x: np.reshape(np.sum(x), (1,))):
        with pytest.raises(NotScalarError, match="(?s)scalar.*jacobian"):
            cr.grad(f)(X)
    with pytest.raises(NotDifferentiableError, match="None"):
        cr.grad(lambda x: None)(X)


def test_transforms_keep_the_name_and_pass_keywords_on():
    assert cr.grad(three).__name__ == "three"
    assert_allclose(cr.grad(three)(X, y=2.0), [2.0] * 3)


def test_stop_gradient_is_constant_at_every_level():
    f = lambda x: x * cr.stop_gradient(x**2)
    assert cr.grad(f)(3.0) == 9.0
    assert cr.grad(cr.grad(f))(3.0) == 0.0
    assert cr.jvp(f, (3.0,), (1.0,)) == (27.0, 9.0)


def written_over(z):
    y = np.sqrt(z)
    y[0] = 1.0
    return np.sum(y)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.sum(np.sqrt(z)[z > 0]),
        lambda z: np.sqrt(z)[1],
        lambda z: np.sum(np.sqrt(z)[1:]),
        lambda z: np.sort(np.sqrt(z))[1],
        lambda z: np.sum(np.sqrt(z), where=z > 0),
        lambda z: np.split(np.sqrt(z), 2)[1][0],
        written_over,
    ],
    ids=["boolean mask", "index", "slice", "sort", "where=", "split", "overwritten"],
)
def test_an_entry_that_is_left_out_has_derivative_zero_though_its_slope_is_infinite(f):
    x = np.array([0.0, 4.0])  # d sqrt = inf at 0; only the second entry counts, where it is 1/4
    assert_allclose(cr.grad(f)(x), [0.0, 0.25])
    v = cr.Variable(x)
    f(v).backward()
    assert_allclose(v.grad, [0.0, 0.25])


def test_a_derivative_that_does_not_exist_stays_nan():
    assert np.isnan(cr.grad(lambda x: np.sqrt(x) * np.sqrt(x))(0.0))
    assert np.isnan(cr.grad(lambda x: x * 2.0 + np.nan * x)(1.0))


def test_a_quotient_of_unlike_dtypes_has_its_derivative_in_the_dtype_of_the_numerator():
    for den in (np.float16(3), np.int8(3), np.array(3, np.int8), np.float32(3)):
        for num in (np.float32(1), np.float64(1)):
            g = cr.grad(lambda a, den=den: a / den)(num)
            assert g.dtype == num.dtype
            assert abs(g - num.dtype.type(1) / num.dtype.type(3)) <= np.finfo(num.dtype).eps


def test_a_power_with_a_bool_exponent():
    assert cr.grad(lambda a: a**np.True_)(2.0) == 1.0


def test_jacobian_of_complex_outputs_of_real_inputs():
    c = np.array([1 + 2j, 3 - 1j, 2j])
    want = np.outer(c, [1, 1]) * np.exp(c)[:, None]
    for mode in ("auto", "forward", "reverse"):
        for dtype, chunk in ((np.float64, None), (np.float32, 2)):
            k = c.astype(np.result_type(dtype, np.complex64))
            j = cr.jacobian(lambda x, k=k: np.exp(k * np.sum(x)), mode=mode, chunk=chunk)(np.array([0.25, 0.75], dtype))
            assert j.dtype == k.dtype
            np.testing.assert_allclose(j, want, rtol=1e-5 if dtype is np.float32 else 1e-13)
    j = cr.jacobian(lambda x, z: x * z**2, argnums=(0, 1), mode="reverse", holomorphic=True)(2.0, 1 + 1j)
    np.testing.assert_allclose(j, [2j, 4 + 4j])


@pytest.mark.parametrize("f", [np.std, np.linalg.norm, np.var], ids=lambda f: f.__name__)
def test_gradients_of_lengths_at_the_number_0_are_numbers(f):
    for x in (0.0, np.float64(0.0), np.float32(0.0)):
        g = cr.grad(f)(x)
        assert np.shape(g) == ()
        assert g == 0
        assert np.shape(cr.jvp(f, (x,), (x,))[1]) == ()
