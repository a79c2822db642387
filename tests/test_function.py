"""User-defined Functions: one call is one node, right in both modes and to any order, or a clear error."""

import copy
import pickle
import threading
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule import errors


class Square(cr.Function):
    def forward(self, x):
        return x**2

    def backward(self, ybar):
        return 2 * self.input.data * ybar


class Exp(cr.Function):
    def forward(self, x):
        return np.exp(x)

    def backward(self, ybar):
        return np.exp(self.input.data) * ybar


class ExpWithState(cr.Function):
    def forward(self, x):
        self.y = np.exp(x)
        return self.y

    def backward(self, ybar):
        return self.y * ybar


class ExpWithDict(cr.Function):
    def __init__(self):
        self.cache = {}

    def forward(self, x):
        self.cache["y"] = np.exp(x)
        return self.cache["y"]

    def backward(self, ybar):
        return self.cache["y"] * ybar


class ExpWithList(cr.Function):
    def __init__(self):
        self.past = []

    def forward(self, x):
        self.past.append([np.exp(x)])
        return self.past[-1][0]

    def backward(self, ybar):
        return self.past[-1][0] * ybar


class ExpInSlots(cr.Function):
    __slots__ = ("y",)

    def forward(self, x):
        self.y = np.exp(x)
        return self.y

    def backward(self, ybar):
        return self.y * ybar


class ExpOfInner(cr.Function):
    """Made of another operator, stepped through by hand."""

    def __init__(self):
        self.inner = ExpWithState()

    def forward(self, x):
        return self.inner(x)

    def backward(self, ybar):
        return self.inner.backward(ybar)


class ExpOfOther(cr.Function):
    """Its backward steps through another operator by hand."""

    def forward(self, x):
        return np.exp(x)

    def backward(self, ybar):
        f = ExpWithState()
        f(self.input.data)
        return f.backward(ybar)


class ExpByInput(cr.Function):
    """Written over ``self.input`` itself instead of its data."""

    def forward(self, x):
        return np.exp(x)

    def backward(self, ybar):
        return np.exp(self.input) * ybar


EXPONENTIALS = (Exp, ExpWithState, ExpWithDict, ExpWithList, ExpInSlots, ExpOfInner, ExpOfOther, ExpByInput)


def forward(f):
    return lambda x: cr.jvp(f, (x,), (1.0,))[1]


# -- the worked example: y = (e^(x^2))^2 at 0.5, y' = 4 x y ----------------------------------------------------------

Y, DY = 1.6487212707001282, 3.297442541400256


@pytest.mark.parametrize("point", [0.5, np.array(0.5), np.array([0.5])], ids=["float", "0-d", "1-d"])
def test_worked_value_and_gradient(point):
    x = cr.Variable(point)
    y = Square()(Exp()(Square()(x)))
    assert isinstance(y, cr.Variable)
    assert_allclose(y.data, Y, rtol=1e-15)
    y.backward()
    assert_allclose(x.grad, DY, rtol=1e-15)
    assert x.grad.shape == np.shape(point)


@pytest.mark.parametrize("exp", EXPONENTIALS)
def test_stepping_backward_by_hand_evaluates_each_operator_at_its_own_input(exp):
    f1, g, f2 = Square(), exp(), Square()
    x = cr.Variable(np.array(0.5))
    a = f1(x)
    b = g(a)
    y = f2(b)
    y.grad = np.array(1.0)
    b.grad = f2.backward(y.grad)
    a.grad = g.backward(b.grad)
    x.grad = f1.backward(a.grad)
    assert_allclose(b.grad, 2.568050833375483, rtol=1e-15)
    assert_allclose(cr.value(a.grad), DY, rtol=1e-15)
    assert_allclose(cr.value(x.grad), DY, rtol=1e-15)


def test_the_input_is_remembered():
    f = Square()
    x = cr.Variable(np.array([1.0, 2.0]))
    f(x)
    assert isinstance(f.input, cr.Variable)
    assert_allclose(f.input.data, [1.0, 2.0])
    assert len(f.inputs) == 1
    with cr.no_grad():
        x -= 1.0
    assert_allclose(f.input.data, [1.0, 2.0])  # the operator's own input, not what x is now


def test_before_the_first_call_there_is_no_input():
    assert not hasattr(Square(), "input")
    with pytest.raises(AttributeError, match="has not been called"):
        Square().inputs  # noqa: B018
    with pytest.raises(AttributeError, match="'Square' object has no attribute 'weight'"):
        Square().weight  # noqa: B018


# -- what a subclass must define ------------------------------------------------------------------------------------


def test_the_base_class_names_the_missing_method_and_the_class():
    class Half(cr.Function):
        def forward(self, x):
            return x / 2

    class Empty(cr.Function):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define forward"):
        Empty()(cr.Variable(1.0))
    with pytest.raises(NotImplementedError, match=r"Function must define forward"):
        cr.Function()(1.0)
    with pytest.raises(NotImplementedError, match=r"Function must define backward"):
        cr.Function().backward(1.0)
    y = Half()(cr.Variable(1.0))
    assert y.data == 0.5
    with pytest.raises(NotImplementedError, match=r"Half must define backward"):
        y.backward()
    with pytest.raises(NotImplementedError, match=r"Half must define backward"):
        cr.jvp(Half(), (1.0,), (1.0,))


# -- one call, one node ----------------------------------------------------------------------------------------------


def test_one_object_called_twice_is_two_nodes():
    f = Square()
    x = cr.Variable(3.0)
    f(f(x)).backward()
    assert x.grad == 108.0  # 4 x**3
    f = Square()
    assert cr.grad(lambda x: f(f(x)))(3.0) == 108.0
    assert cr.jvp(lambda x: f(f(x)), (3.0,), (1.0,))[1] == 108.0


@pytest.mark.parametrize("exp", EXPONENTIALS)
def test_one_object_with_state_called_twice_keeps_the_calls_apart(exp):
    f = exp()
    want = np.exp(0.3) * np.exp(np.exp(0.3))
    assert_allclose(cr.grad(lambda x: f(f(x)))(0.3), want, rtol=1e-14)
    x = cr.Variable(0.3)
    f(f(x)).backward()
    assert_allclose(x.grad, want, rtol=1e-14)


def test_reading_the_input_of_a_reused_object_raises_instead_of_giving_324():
    f = Square()
    f(f(cr.Variable(3.0)))
    with pytest.raises(errors.ReusedFunctionError, match="f1, f2 = Square"):
        f.backward(f.backward(1.0))
    with pytest.raises(errors.ReusedFunctionError):
        f.inputs  # noqa: B018


def test_a_variable_used_in_several_calls_adds_its_gradients():
    x = cr.Variable(2.0)
    (Square()(x) + Exp()(x) * x).backward()
    assert_allclose(x.grad, 2 * 2.0 + np.exp(2.0) * 3.0, rtol=1e-15)


def test_calls_leave_no_chain_of_earlier_ones():
    f, x = Exp(), cr.Variable(np.zeros(3))
    y = f(x)
    ref = weakref.ref(y)
    for _ in range(3):
        y = f(x)
    assert ref() is None


# -- any order, both modes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exp", EXPONENTIALS)
@pytest.mark.parametrize("third", [cr.grad, forward], ids=["reverse", "forward"])
@pytest.mark.parametrize("second", [cr.grad, forward], ids=["reverse", "forward"])
@pytest.mark.parametrize("first", [cr.grad, forward], ids=["reverse", "forward"])
def test_derivatives_to_third_order_in_every_combination_of_modes(exp, first, second, third):
    f = lambda x: exp()(2 * x)
    assert_allclose(first(f)(0.3), 2 * np.exp(0.6), rtol=1e-13)
    assert_allclose(second(first(f))(0.3), 4 * np.exp(0.6), rtol=1e-13)
    assert_allclose(third(second(first(f)))(0.3), 8 * np.exp(0.6), rtol=1e-13)


@pytest.mark.parametrize("exp", EXPONENTIALS)
def test_create_graph_to_third_order(exp):
    x = cr.Variable(np.array(0.3))
    y = exp()(2 * x)
    for order in (1, 2, 3):
        x.grad = None
        y.backward(create_graph=True)
        y = x.grad
        assert_allclose(cr.value(y), 2**order * np.exp(0.6), rtol=1e-13)


@pytest.mark.parametrize("exp", EXPONENTIALS)
def test_hessian_of_a_composition(exp):
    f = lambda x: np.sum(exp()(x) * x) + np.sum(x) ** 2
    x = np.array([0.1, -0.4])
    want = np.diag((x + 2) * np.exp(x)) + 2
    assert_allclose(cr.hessian(f)(x), want, rtol=1e-13)


@pytest.mark.parametrize("exp", [Exp, ExpWithState, ExpWithDict, ExpInSlots])
@pytest.mark.parametrize("mode", [cr.grad, forward], ids=["reverse", "forward"])
def test_stepping_by_hand_inside_a_transform_is_differentiated(exp, mode):
    def by_hand(x):
        f = exp()
        f(2 * x)
        return 2 * f.backward(1.0)

    def over_a_variable(x):
        f = exp()
        f(cr.Variable(2 * x))
        return 2 * f.backward(1.0)

    assert_allclose(mode(by_hand)(0.3), 4 * np.exp(0.6), rtol=1e-13)
    assert_allclose(mode(over_a_variable)(0.3), 4 * np.exp(0.6), rtol=1e-13)
    assert_allclose(mode(mode(by_hand))(0.3), 8 * np.exp(0.6), rtol=1e-13)


def test_after_a_transform_the_object_holds_plain_values():
    f = ExpWithState()
    cr.grad(lambda x: f(x))(0.3)
    assert not isinstance(f.input.data, cr.Variable)
    assert_allclose([f.input.data, f.y], [0.3, np.exp(0.3)])
    assert_allclose(f.backward(1.0), np.exp(0.3))


def test_the_users_backward_holds_at_every_level():
    class Reversed(cr.Function):  # its derivative is not that of its forward
        def forward(self, x):
            return np.sin(x)

        def backward(self, ybar):
            return -3 * self.input.data * ybar

    for mode in (cr.grad, forward):
        assert_allclose(mode(Reversed())(2.0), -6.0)
        for outer in (cr.grad, forward):
            assert_allclose(
                outer(mode(lambda x: Reversed()(x) * x))(2.0), -9 * 2.0
            )  # of -3 x^2 + sin x, where sin' is -3 x
    # an inner transform over a constant: the outer one sees the user's backward, too
    assert_allclose(cr.grad(lambda x: cr.grad(lambda t: t * Reversed()(x))(1.0))(2.0), -6.0)


def test_linearize_and_vjp():
    y, pushforward = cr.linearize(lambda x: ExpWithState()(x), np.array([0.0, 1.0]))
    assert_allclose(pushforward(np.array([1.0, 0.0])), [1.0, 0.0])
    assert_allclose(pushforward(np.array([0.0, 1.0])), [0.0, np.e])
    y, pullback = cr.vjp(lambda x: ExpWithState()(x), np.array([0.0, 1.0]))
    for _ in range(2):
        assert_allclose(pullback(np.array([1.0, 1.0]))[0], [1.0, np.e])
    assert_allclose(
        cr.jacobian(lambda x: ExpWithState()(x), mode="forward")(np.array([0.0, 1.0])), np.diag([1.0, np.e])
    )


# -- several inputs and outputs, keywords, constants -------------------------------------------------------------------


class Scaled(cr.Function):
    def forward(self, a, b, *, power=1):
        self.power = power
        return a * b**power

    def backward(self, ybar):
        a, b = (v.data for v in self.inputs)
        k = self.power
        return ybar * b**k, ybar * a * k * b ** (k - 1)


class Polar(cr.Function):
    def forward(self, r, t):
        return r * np.cos(t), r * np.sin(t)

    def backward(self, xbar, ybar):
        r, t = (v.data for v in self.inputs)
        return xbar * np.cos(t) + ybar * np.sin(t), r * (ybar * np.cos(t) - xbar * np.sin(t))


def test_several_inputs_and_keywords():
    a, b = cr.Variable(2.0), cr.Variable(3.0)
    f = Scaled()
    f(a, b, power=2).backward()
    assert (a.grad, b.grad) == (9.0, 12.0)
    assert [v.data for v in f.inputs] == [2.0, 3.0]
    with pytest.raises(errors.ShapeError, match=r"self\.inputs\[0\]"):
        f.input  # noqa: B018
    assert cr.grad(lambda b: Scaled()(2.0, b, power=3))(3.0) == 54.0
    assert cr.grad(cr.grad(lambda b: Scaled()(2.0, b, power=3)))(3.0) == 36.0
    assert cr.jvp(lambda a, b: Scaled()(a, b, power=2), (2.0, 3.0), (1.0, 10.0))[1] == 9.0 + 120.0
    # d/da d/db a b^2 = 2 b, with the operands at different levels
    assert cr.grad(lambda a: cr.grad(lambda b: Scaled()(a, b, power=2))(3.0))(2.0) == 6.0
    assert cr.grad(lambda b: cr.jvp(lambda a: Scaled()(a, b, power=2), (2.0,), (1.0,))[1])(3.0) == 6.0


def test_several_outputs():
    r, t = cr.Variable(2.0), cr.Variable(0.5)
    x, y = Polar()(r, t)
    (x * 3 + y).backward()
    assert_allclose(r.grad, 3 * np.cos(0.5) + np.sin(0.5), rtol=1e-15)
    assert_allclose(t.grad, 2 * (np.cos(0.5) - 3 * np.sin(0.5)), rtol=1e-15)
    x, _ = Polar()(cr.Variable(2.0), cr.Variable(0.5))
    x.backward()  # the other output is not used: its cotangent is zero
    want = [[np.cos(0.5), -2 * np.sin(0.5)], [np.sin(0.5), 2 * np.cos(0.5)]]
    f = lambda v: np.stack(list(Polar()(v[0], v[1])))
    for mode in ("forward", "reverse"):
        assert_allclose(cr.jacobian(f, mode=mode)(np.array([2.0, 0.5])), want, rtol=1e-14)
    h = lambda v: np.prod(np.stack(list(Polar()(v[0], v[1]))))  # r^2 sin(2t) / 2
    want = [[np.sin(1.0), 4 * np.cos(1.0)], [4 * np.cos(1.0), -8 * np.sin(1.0)]]
    assert_allclose(cr.hessian(h)(np.array([2.0, 0.5])), want, rtol=1e-13)


def test_integer_and_none_inputs_are_constants():
    class Pick(cr.Function):
        def forward(self, x, i, scale):
            return x[i] * (1.0 if scale is None else scale)

        def backward(self, ybar):
            x, i, _ = (v.data for v in self.inputs)
            assert i.dtype.kind == "i"
            xbar = np.zeros_like(x)
            np.add.at(xbar, i, ybar)
            return xbar, None, None

    index = np.array([0, 0, 2])
    x = cr.Variable(np.array([1.0, 2.0, 3.0]))
    Pick()(x, index, None).backward(np.array([1.0, 10.0, 100.0]))
    assert_allclose(x.grad, [11.0, 0.0, 100.0])


def test_none_is_a_zero_gradient():
    class First(cr.Function):
        def forward(self, a, b):
            return a + b

        def backward(self, ybar):
            return ybar, None

    f = lambda a, b: np.sum(First()(a, b))
    a, b = cr.grad(f, argnums=(0, 1))(np.ones(2), np.ones(2, np.float32))
    assert_allclose(a, [1.0, 1.0])
    assert_allclose(b, [0.0, 0.0])
    assert b.dtype == np.float32


def test_plain_inputs_give_plain_outputs():
    y = Square()(np.array([1.0, 3.0]))
    assert type(y) is np.ndarray
    assert_allclose(y, [1.0, 9.0])
    f = Square()
    assert f(3.0) == 9.0
    assert f.backward(1.0) == 6.0
    assert Square()(np.array([3]))[0] == 9


def test_no_grad_and_stop_gradient():
    x = cr.Variable(3.0)
    with cr.no_grad():
        y = Square()(x)
    (y * x).backward()
    assert x.grad == 9.0
    assert cr.grad(lambda x: cr.stop_gradient(Square()(x)) * x)(3.0) == 9.0


def test_dtypes_follow_the_inputs():
    x = cr.Variable(np.array([1.0, 2.0], np.float32))
    y = Square()(x)
    y.backward(np.ones(2))
    assert y.dtype == x.grad.dtype == np.float32

    class Careless(Square):
        def backward(self, ybar):
            return super().backward(ybar).astype(np.float64)

    assert cr.grad(lambda x: np.sum(Careless()(x)))(np.ones(2, np.float32)).dtype == np.float32


def test_complex_values():
    z = 0.3 + 0.4j
    # u = Re(exp(z)): du/dx - i du/dy = exp(z)
    assert_allclose(cr.grad(lambda z: np.real(Exp()(z)))(z), np.exp(z), rtol=1e-14)
    assert_allclose(cr.jvp(lambda z: Exp()(z), (z,), (1j,))[1], 1j * np.exp(z), rtol=1e-14)
    assert_allclose(cr.jvp(lambda t: Exp()(1j * t), (0.3,), (1.0,))[1], 1j * np.exp(0.3j), rtol=1e-14)


# -- what backward returns is checked ----------------------------------------------------------------------------------


def returning(what, nin=1):
    class Broken(cr.Function):
        def forward(self, *xs):
            return np.sum(xs[0])

        def backward(self, ybar):
            return what(ybar)

    return Broken()


@pytest.mark.parametrize(
    "what, nin, match",
    [
        (lambda g: g * np.ones((2, 5)), 1, r"Broken\.backward .* shape \(2, 5\) for input 0 of shape \(5,\)"),
        (lambda g: g, 1, r"shape \(\) for input 0 of shape \(5,\)"),
        (lambda g: 1.0, 1, r"shape \(\) for input 0"),
        (lambda g: (np.ones(5), np.ones(5)), 1, r"2 gradients for 1 input"),
        (lambda g: np.ones(5), 2, r"1 gradient for 2 inputs"),
        (lambda g: (np.ones(5), np.ones(4)), 2, r"shape \(4,\) for input 1 of shape \(5,\)"),
    ],
)
def test_a_wrong_shape_or_count_is_refused(what, nin, match):
    f = returning(what)
    with pytest.raises(errors.ShapeError, match=match):
        f(*[cr.Variable(np.arange(5.0)) for _ in range(nin)]).backward()
    with pytest.raises(errors.ShapeError, match=match):
        cr.grad(lambda x: f(*[x] * nin))(np.arange(5.0))
    with pytest.raises(errors.ShapeError, match=match):
        cr.jvp(lambda x: f(*[x] * nin), (np.arange(5.0),), (np.ones(5),))


def test_a_gradient_that_is_no_number_is_refused():
    with pytest.raises(errors.NotDifferentiableError, match="type str"):
        returning(lambda g: "slope")(cr.Variable(np.arange(5.0))).backward()
    with pytest.raises(errors.NotDifferentiableError, match="returned None"):

        class Forgetful(Square):
            def forward(self, x):
                x**2

        Forgetful()(cr.Variable(1.0))


# -- never silently wrong --------------------------------------------------------------------------------------------


def test_traced_values_that_are_no_inputs_are_refused():
    class Layer(cr.Function):
        def __init__(self, w):
            self.w = w

        def forward(self, x):
            return self.w * x

        def backward(self, ybar):
            return self.w * ybar

    with pytest.raises(errors.NotDifferentiableError, match="pass it as an input"):
        cr.grad(lambda w: Layer(w)(2.0))(3.0)
    with pytest.raises(errors.NotDifferentiableError, match="pass it as an input"):
        Layer(cr.Variable(3.0))(cr.Variable(2.0))
    with pytest.raises(errors.UnsupportedArgumentError, match="input of its own"):
        cr.grad(lambda p: Scaled()(2.0, 3.0, power=p))(2.0)
    with pytest.raises(errors.UnsupportedArgumentError, match="input of its own"):
        cr.grad(lambda x: Square()([x, x]))(2.0)
    assert cr.grad(Layer(3.0))(2.0) == 3.0


def test_forward_that_changes_its_input_is_refused():
    class Clipped(cr.Function):
        def forward(self, x):
            x[x < 0] = 0
            return x

        def backward(self, ybar):
            return ybar

    with pytest.raises(errors.InPlaceError, match=r"Clipped\.forward .*\n.*\n.*x\.copy\(\)"):
        Clipped()(cr.Variable(np.array([-1.0, 1.0])))


def test_backward_may_write_into_its_gradient():
    class Relu(cr.Function):
        def forward(self, x):
            return np.where(x > 0, x, 0)

        def backward(self, ybar):
            ybar[self.input.data <= 0] = 0
            return ybar

    x, z = cr.Variable(np.array([-1.0, 1.0])), cr.Variable(np.array([2.0, 2.0]))
    (Relu()(x) + z).backward(np.ones(2))
    assert_allclose(x.grad, [0.0, 1.0])
    assert_allclose(z.grad, [1.0, 1.0])


def test_backward_may_calculate_with_the_input_itself():
    class Double(cr.Function):
        def forward(self, x):
            return x**2

        def backward(self, ybar):
            return ybar * 2 * self.input

    for x in (1.5, np.array([1.5, -2.0])):
        one = np.ones_like(x) if np.ndim(x) else 1.0
        np.testing.assert_allclose(cr.grad(lambda z: np.sum(Double()(z)))(x), 2 * x)
        np.testing.assert_allclose(cr.jvp(Double(), (x,), (one,))[1], 2 * x)
        np.testing.assert_allclose(cr.jvp(cr.grad(lambda z: np.sum(Double()(z))), (x,), (one,))[1], 2 * one)
        np.testing.assert_allclose(cr.jvp(lambda z: cr.jvp(Double(), (z,), (one,))[1], (x,), (one,))[1], 2 * one)


def test_state_in_an_array_written_in_place():
    class Buffered(cr.Function):
        def __init__(self, n):
            self.y = np.empty(n)

        def forward(self, x):
            np.exp(x, out=self.y)
            return self.y

        def backward(self, ybar):
            return self.y * ybar

    for n in (2, 5000):  # small, and too large to be compared at every call
        x = cr.Variable(np.full(n, 0.3))
        f = Buffered(n)
        y = f(x)
        z = f(2 * x)
        assert_allclose(y.data, np.exp(0.3))
        np.sum(y + z).backward()
        assert_allclose(x.grad, np.exp(0.3) + 2 * np.exp(0.6), rtol=1e-14)
        with pytest.raises(errors.NotDifferentiableError, match=r"self\.y as traced values"):
            cr.grad(lambda x: np.sum(cr.grad(lambda x: np.sum(Buffered(n)(x)))(x)))(np.zeros(n))


def test_state_that_forward_cannot_make_from_traced_values():
    class Opaque(cr.Function):
        def forward(self, x):
            self.y = float(x) ** 2
            self.positive = bool(x > 0)
            return self.y

        def backward(self, ybar):
            return 2 * np.sqrt(self.y) * ybar

    assert cr.grad(Opaque())(3.0) == 6.0
    with pytest.raises(errors.NotDifferentiableError, match=r"(?s)self\.y .*compute it in backward"):
        cr.grad(cr.grad(Opaque()))(3.0)


def test_state_that_carries_no_derivative_is_kept():
    class Masked(cr.Function):
        def forward(self, x):
            self.shape, self.index, self.on = x.shape, int(np.argmax(x)), x > 0
            return float(np.sum(x[self.on] ** 2))  # does not run on traced values, and need not

        def backward(self, ybar):
            assert self.shape == (3,) and self.index == 2
            return 2 * self.input.data * self.on * ybar

    x = np.array([-1.0, 2.0, 3.0])
    assert_allclose(cr.grad(Masked())(x), [0.0, 4.0, 6.0])
    assert_allclose(cr.hessian(Masked())(x), np.diag([0.0, 2.0, 2.0]))


def test_random_state_is_made_once():
    rng = np.random.default_rng(0)

    class Dropout(cr.Function):
        def forward(self, x):
            self.mask = rng.random(x.shape) < 0.5
            return x**2 * self.mask

        def backward(self, ybar):
            return 2 * self.input.data * self.mask * ybar

    class Noise(cr.Function):
        def forward(self, x):
            self.noise = rng.random(x.shape)
            return x**2 * self.noise

        def backward(self, ybar):
            return 2 * self.input.data * self.noise * ybar

    x = cr.Variable(np.ones(20))
    f = Dropout()
    np.sum(f(x)).backward(create_graph=True)
    g, x.grad = x.grad, None
    np.sum(g).backward()
    assert_allclose(x.grad, 2.0 * f.mask)
    with pytest.raises(errors.NotDifferentiableError, match="another value when it is run again"):
        cr.hessian(lambda x: np.sum(Noise()(x)))(np.ones(3))


def test_forward_mode_of_a_backward_that_is_not_linear_is_refused():
    class Clip(Square):
        def backward(self, ybar):
            return np.clip(super().backward(ybar), -1, 1)

    class Outside(Square):
        def backward(self, ybar):
            return 2 * self.input.data * float(ybar)

    class Lost(Square):
        def backward(self, ybar):
            return 2 * self.input.data * cr.value(ybar)

    assert cr.grad(Clip())(3.0) == 1.0
    for f, match in ((Clip(), "not linear"), (Outside(), "reverse mode"), (Lost(), "takes its value out")):
        assert cr.grad(f)(0.25) == 0.5
        with pytest.raises(errors.NotDifferentiableError, match=match):
            cr.jvp(f, (3.0,), (1.0,))


def test_attributes_that_backward_assigns_reach_the_object():
    class Linear(cr.Function):
        def __init__(self, w):
            self.w, self.wbar = w, np.zeros_like(w)

        def forward(self, x):
            return self.w @ x

        def backward(self, ybar):
            self.wbar = self.wbar + np.outer(ybar, self.input.data)
            return self.w.T @ ybar

    f = Linear(np.array([[1.0, 2.0], [3.0, 4.0]]))
    x = cr.Variable(np.array([1.0, -1.0]))
    np.sum(f(f(x))).backward()  # W^2 x; its gradient in W: 1 (W x)^T + W^T 1 x^T
    assert_allclose(f.wbar, np.outer([1, 1], [-1.0, -1.0]) + np.outer([4.0, 6.0], [1.0, -1.0]))
    assert_allclose(x.grad, [22.0, 32.0])


# -- objects -----------------------------------------------------------------------------------------------------------


def test_copies_and_pickles():
    f = ExpWithState()
    f(cr.Variable(0.5))
    for g in (copy.copy(f), copy.deepcopy(f)):
        assert_allclose(g.y, np.exp(0.5))
        assert not hasattr(g, "input")
        assert_allclose(cr.grad(g)(0.0), 1.0)
    g = pickle.loads(pickle.dumps(f))
    assert_allclose([g.y, cr.grad(g)(0.0)], [np.exp(0.5), 1.0])


def test_running_averages_survive_transforms():
    class Centred(cr.Function):
        mean = 0.0

        def forward(self, x):
            self.mean = 0.5 * self.mean + 0.5 * float(np.mean(x))
            return x - self.mean

        def backward(self, ybar):
            return ybar

    f = Centred()
    for _ in range(2):
        assert_allclose(cr.grad(lambda x: np.sum(f(f(x))))(np.full(2, 4.0)), 1.0)
    assert np.isfinite(f.mean) and isinstance(f.mean, float)


def test_an_exception_in_forward_leaves_the_object_as_it_was():
    class Fragile(cr.Function):
        count = 0

        def forward(self, x):
            self.count += 1
            if x < 0:
                raise ZeroDivisionError("negative")
            return x

        def backward(self, ybar):
            return ybar

    f = Fragile()
    f(cr.Variable(1.0))
    with pytest.raises(ZeroDivisionError):
        f(cr.Variable(-1.0))
    assert f.count == 1
    assert f.input.data == 1.0


def test_one_object_from_several_threads():
    f, wrong = ExpWithState(), []

    def work(k):
        for i in range(50):
            x = 0.01 * (k + i)
            if abs(cr.grad(lambda x: f(f(x)))(x) - np.exp(x) * np.exp(np.exp(x))) > 1e-12:
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_function_of_functions_under_vector_code():
    f = lambda x: np.sum(Square()(np.sin(x)[1:]) * Exp()(x[:-1]))
    x = np.array([0.1, 0.2, 0.3])
    g = lambda x: np.sum(np.sin(x[1:]) ** 2 * np.exp(x[:-1]))
    assert_allclose(cr.grad(f)(x), cr.grad(g)(x), rtol=1e-14)
    assert_allclose(cr.hessian(f)(x), cr.hessian(g)(x), rtol=1e-13)


def test_a_backward_without_return_is_refused():
    class Forgetful(cr.Function):
        def forward(self, x):
            return np.sum(x)

        def backward(self, ybar):
            ybar * np.ones(3)

    with pytest.raises(errors.ShapeError, match="returned None: a return statement is missing"):
        cr.grad(lambda x: Forgetful()(x))(np.ones(3))
