"""Functions with a rule of their own: custom_vjp and custom_jvp."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

X = np.array([0.5, -1.0, 2.0])


def plain_only(f):
    """Make a function that takes plain arrays only, as compiled code does."""

    def run(*args):
        assert all(type(a) in (float, int, np.ndarray, np.float64) for a in args), "given a traced value"
        return f(*args)

    return run


@cr.custom_vjp
def power_sum(x, n=2):
    return np.sum(x**n)


@power_sum.defvjp
def power_sum_vjp(ybar, y, x, n):
    return ybar * n * x ** (n - 1), None


def made(kind):
    """Return sin(x) * w, of plain arrays only, with a rule of the given kind."""
    run = plain_only(lambda x, w: np.sin(x) * w)
    if kind == "jvp":
        f = cr.custom_jvp(run)
        f.defjvp(lambda xdots, y, x, w: np.cos(x) * w * xdots[0] + np.sin(x) * xdots[1])
        return f
    f = cr.custom_vjp(run)
    if kind == "vjp":
        f.defvjp(lambda ybar, y, x, w: (ybar * np.cos(x) * w, ybar * np.sin(x)))
    elif kind == "fwd":
        f.defvjp(
            lambda x, w: (f(x, w), (np.cos(x), np.sin(x), w)),
            lambda kept, ybar: (ybar * kept[0] * kept[2], ybar * kept[1]),
        )
    else:
        f.defvjp(lambda ybar, y, x, w: (ybar * np.cos(x) * w, ybar * np.sin(x)))
        f.defjvp(lambda xdots, y, x, w: np.cos(x) * w * xdots[0] + np.sin(x) * xdots[1])
    return f


KINDS = ("vjp", "fwd", "jvp", "both")


@pytest.mark.parametrize("kind", KINDS)
def test_one_rule_serves_both_modes_and_all_orders(kind):
    f = made(kind)
    w = np.array([2.0, 3.0, -1.0])
    assert_allclose(cr.grad(lambda x: np.sum(f(x, w)))(X), w * np.cos(X), rtol=1e-14)
    assert_allclose(cr.jvp(f, (X, w), (w, X))[1], np.cos(X) * w * w + np.sin(X) * X, rtol=1e-14)
    assert_allclose(cr.hessian(lambda x: np.sum(f(x, w)))(X), np.diag(-w * np.sin(X)), rtol=1e-13, atol=1e-15)
    assert_allclose(cr.grad(cr.grad(cr.grad(lambda x: f(x, 2.0))))(0.3), -2 * np.cos(0.3), rtol=1e-13)
    for mode in ("forward", "reverse"):
        assert_allclose(cr.jacobian(f, mode=mode)(X, w), np.diag(w * np.cos(X)), rtol=1e-14, atol=1e-15)
    cr.check_grads(lambda x, w: f(x, w) ** 2, (X, w), order=2)


@pytest.mark.parametrize("kind", KINDS)
def test_nested_transforms_reach_through_a_rule(kind):
    f = made(kind)
    # d/dx (d/dx sin(x) x) = 2 cos x - x sin x
    inner = cr.grad(lambda x: f(x, x))
    assert_allclose(cr.jvp(inner, (0.7,), (1.0,))[1], 2 * np.cos(0.7) - 0.7 * np.sin(0.7), rtol=1e-13)
    assert_allclose(cr.grad(inner)(0.7), 2 * np.cos(0.7) - 0.7 * np.sin(0.7), rtol=1e-13)
    assert_allclose(cr.hvp(lambda x: np.sum(f(x, x)), X, X), (2 * np.cos(X) - X * np.sin(X)) * X, rtol=1e-13)
    y, push = cr.linearize(lambda x: f(x, x), X)
    assert_allclose(push(X), (np.sin(X) + X * np.cos(X)) * X, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_the_eager_tape_and_its_second_derivative(kind):
    f = made(kind)
    x = cr.Variable(X)
    y = np.sum(f(x, 2.0))
    y.backward(create_graph=True)
    assert_allclose(x.grad.data, 2 * np.cos(X), rtol=1e-14)
    g = np.sum(x.grad)
    x.grad = None
    g.backward()
    assert_allclose(x.grad, -2 * np.sin(X), rtol=1e-13)


def test_the_rule_decides_not_the_code_of_the_function():
    @cr.custom_vjp
    def rounded(x):
        return np.round(x)

    rounded.defvjp(lambda ybar, y, x: ybar)  # straight through
    assert_allclose(cr.grad(lambda x: np.sum(rounded(x) * X))(X), X)
    assert cr.grad(cr.grad(lambda x: rounded(x) ** 2))(1.2) == 2.0  # at both levels


def test_static_arguments_defaults_and_keywords():
    assert_allclose(cr.grad(power_sum)(X), 2 * X)
    assert_allclose(cr.grad(power_sum)(X, 3), 3 * X**2)
    assert_allclose(cr.grad(power_sum)(X, n=3), 3 * X**2)
    assert_allclose(cr.grad(lambda x: power_sum(n=3, x=x))(X), 3 * X**2)

    @cr.custom_vjp(nondiff_argnums=("g", 2))
    def applied(x, g, mode, *, scale=1.0):
        assert mode == "in"
        return g(x) * scale

    @applied.defvjp
    def applied_vjp(ybar, y, x, g, mode, scale):
        return ybar * cr.grad(g)(x) * scale

    assert cr.grad(lambda x: applied(x, lambda t: t**2, "in"))(3.0) == 6.0
    assert cr.grad(lambda x: applied(x, g=lambda t: t**2, mode="in", scale=2.0))(3.0) == 12.0
    assert cr.jvp(lambda x: applied(x, lambda t: t**2, "in"), (3.0,), (1.0,))[1] == 6.0
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="'scale' is a traced value"):
        cr.grad(lambda s: applied(1.0, lambda t: t, "in", scale=s))(1.0)
    with pytest.raises(cr.errors.UnsupportedArgumentError, match="'g' is a traced value"):
        cr.grad(lambda s: applied(1.0, s, "in"))(1.0)


class Pair(NamedTuple):
    a: object
    b: object


@pytest.mark.parametrize("kind", ["vjp", "fwd", "jvp"])
def test_containers_of_arguments_and_results(kind):
    def run(p, extra):
        return {"product": p.a * p.b["w"] + extra[0], "sine": np.sin(p.a), "count": 3}

    def vjp(ybar, y, p, extra):
        abar = ybar["product"] * p.b["w"] + ybar["sine"] * np.cos(p.a)
        return Pair(abar, {"w": ybar["product"] * p.a, "unused": None}), [ybar["product"]]

    if kind == "jvp":
        f = cr.custom_jvp(run)

        @f.defjvp
        def jvp(xdots, y, p, extra):
            pdot, (edot,) = xdots
            product = pdot.a * p.b["w"] + p.a * pdot.b["w"] + edot
            return {"product": product, "sine": np.cos(p.a) * pdot.a, "count": None}

    else:
        f = cr.custom_vjp(run)
        if kind == "vjp":
            f.defvjp(vjp)
        else:
            f.defvjp(lambda p, extra: (run(p, extra), (p, extra)), lambda kept, ybar: vjp(ybar, None, *kept))

    def g(a, w, e):
        out = f(Pair(a, {"w": w, "unused": a * 5}), [e])
        assert out["count"] == 3
        return out["product"] ** 2 * out["sine"]

    cr.check_grads(g, (X, X + 1.5, X - 0.2), order=2)
    only = cr.grad(lambda a: np.sum(f(Pair(a, {"w": 2.0, "unused": 1.0}), [1.0])["sine"]))(X)
    assert_allclose(only, np.cos(X))


def test_values_of_a_transform_further_out_are_differentiated():
    def f(w, x):
        @cr.custom_vjp
        def scaled(x):
            return w * x * x

        scaled.defvjp(lambda ybar, y, x: ybar * 2 * w * x)
        return scaled(x)

    assert cr.grad(lambda w: cr.grad(f, 1)(w, 3.0) * w)(2.0) == 24.0  # d/dw 2 w^2 x
    assert cr.grad(f, 0)(2.0, 3.0) == 9.0
    with pytest.raises(cr.errors.NotDifferentiableError, match=r"not among the arguments of scaled.*\n.*test_custom"):
        cr.grad(f, (0, 1))(2.0, 3.0)
    with pytest.raises(cr.errors.NotDifferentiableError, match="not among the arguments of scaled"):
        cr.grad(lambda x: cr.grad(f, 1)(x, x))(3.0) + cr.grad(lambda x: f(x, x))(2.0)


def test_a_rule_that_uses_a_traced_value_which_the_function_does_not_is_refused():
    def f(w, x):
        g = cr.custom_vjp(lambda x: x * 1.0)
        g.defvjp(lambda ybar, y, x: ybar * w)
        return g(x) * w

    with pytest.raises(cr.errors.NotDifferentiableError, match="not among the arguments"):
        cr.grad(f, (0, 1))(2.0, 3.0)


BAD = {
    "none": (lambda ybar, y, x, w: None, "returned None"),
    "count": (lambda ybar, y, x, w: (ybar,), r"1 cotangent for 2 arguments"),
    "bare": (lambda ybar, y, x, w: ybar * x, r"1 cotangent for 2 arguments"),
    "shape": (lambda ybar, y, x, w: (np.sum(ybar), None), r"shape \(\); it must be \(3,\)"),
    "dtype": (lambda ybar, y, x, w: (np.array(["a", "b", "c"]), None), "dtype <U1"),
    "type": (lambda ybar, y, x, w: ("x", None), "a value of type str"),
    "container": (lambda ybar, y, x, w: ([ybar], None), "a value of type list"),
}


@pytest.mark.parametrize(("rule", "match"), BAD.values(), ids=BAD)
def test_what_a_rule_returns_is_checked(rule, match):
    f = cr.custom_vjp(lambda x, w: x * w)
    f.defvjp(rule)
    with pytest.raises(cr.errors.ChainruleError, match=match) as error:
        cr.grad(lambda x: np.sum(f(x, 2.0)))(X)
    assert "test_custom.py:" in str(error.value)  # the rule's line


def test_what_a_rule_of_forward_mode_returns_is_checked():
    f = cr.custom_jvp(lambda x: x * 2)
    f.defjvp(lambda xdots, y, x: np.sum(xdots[0]))
    with pytest.raises(cr.errors.ShapeError, match=r"shape \(\); it must be \(3,\)"):
        cr.jvp(f, (X,), (X,))
    f.defjvp(lambda xdots, y, x: 2 * xdots[0] ** 2)
    with pytest.raises(cr.errors.NotDifferentiableError, match="not linear in the tangent"):
        cr.grad(lambda x: np.sum(f(x)))(X)


def test_other_mistakes_are_told():
    f = cr.custom_vjp(lambda x: x)
    with pytest.raises(cr.errors.NotDifferentiableError, match="no rule is defined"):
        cr.grad(f)(1.0)
    with pytest.raises(TypeError, match="takes one function"):
        f.defvjp(1)
    with pytest.raises(TypeError, match="takes a function"):
        f.defjvp(1)
    with pytest.raises(TypeError, match="custom_vjp takes a function"):
        cr.custom_vjp(3)
    with pytest.raises(ValueError, match="has no argument 'n'"):
        cr.custom_vjp(lambda x: x, nondiff_argnums="n")
    with pytest.raises(ValueError, match="numbered from 0"):
        cr.custom_vjp(lambda x: x, nondiff_argnums=1)
    clip = cr.custom_vjp(lambda x: x * 1.0)
    clip.defvjp(lambda ybar, y, x: np.clip(ybar, -1, 1))
    assert cr.grad(lambda x: 5 * clip(x))(2.0) == 1.0
    with pytest.raises(cr.errors.NotDifferentiableError, match="not linear in the gradient"):
        cr.jvp(clip, (2.0,), (1.0,))
    pair = cr.custom_vjp(lambda x: x)
    pair.defvjp(lambda x: x, lambda kept, ybar: ybar)
    with pytest.raises(cr.errors.ShapeError, match="must return a pair"):
        cr.grad(pair)(1.0)
    none = cr.custom_vjp(lambda x: None)
    none.defvjp(lambda ybar, y, x: ybar)
    with pytest.raises(cr.errors.NotDifferentiableError, match="returned None"):
        cr.grad(none)(1.0)


def test_writing_into_an_argument_is_refused():
    def doubled(x):
        x *= 2
        return x

    f = cr.custom_vjp(doubled)
    f.defvjp(lambda ybar, y, x: 2 * ybar)
    with pytest.raises(cr.errors.InPlaceError, match="doubled .* changed an argument"):
        cr.grad(lambda x: np.sum(f(x)))(X.copy())


def test_what_fwd_kept_is_safe_from_later_writes():
    f = cr.custom_vjp(lambda x, w: x * w)
    f.defvjp(lambda x, w: (x * w, w), lambda w, ybar: (ybar * w, None))
    work = np.array([1.0, 2.0, 3.0])
    x = cr.Variable(X)
    y = np.sum(f(x, work))
    work[:] = 0
    y.backward()
    assert_allclose(x.grad, [1.0, 2.0, 3.0])


def test_dtypes_are_those_of_the_arguments():
    f = cr.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda ybar, y, x: np.full(x.shape, 2.0) * ybar)  # float64
    assert cr.grad(lambda x: np.sum(f(x)))(X.astype(np.float32)).dtype == np.float32
    z = cr.custom_vjp(lambda x: x * 1j)
    z.defvjp(lambda ybar, y, x: ybar * 1j)  # complex for a real argument: its real part counts
    assert_allclose(cr.grad(lambda x: np.sum(z(x).imag * X))(X), X)


def test_methods_names_and_pickles():
    class Model:
        @cr.custom_vjp
        def square(self, x):
            """Square."""
            return x * x

        @square.defvjp
        def _(ybar, y, self, x):
            return None, 2 * x * ybar

    assert cr.grad(Model().square)(3.0) == 6.0
    assert Model.square.__doc__ == "Square."
    assert Model.square.__name__ == "square"
    assert pickle.loads(pickle.dumps(power_sum)) is power_sum
    assert power_sum(X) == np.sum(X**2)


def test_one_function_called_twice_keeps_its_calls_apart():
    f = made("fwd")
    expected = 3 * np.cos(2 * np.sin(0.4)) * 2 * np.cos(0.4)
    assert_allclose(cr.grad(lambda x: f(f(x, 2.0), 3.0))(0.4), expected, rtol=1e-14)


def test_explain_shows_a_custom_function_as_one_step():
    text = str(cr.explain(lambda x: power_sum(x) + 1.0, X))
    assert "power_sum" in text
