"""The eager surface: Variable, backward, no_grad, Dual; and what enters and leaves through NumPy's protocols."""

import asyncio
import copy
import decimal
import gc
import math
import os
import pickle
import re
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr
from chainrule import errors


def leaf(*values, dtype=float):
    return cr.Variable(np.array(values, dtype))


# -- Variable as a value -------------------------------------------------------------------------------------------


def test_data_grad_dtype_and_shape():
    data = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = cr.Variable(data)
    assert x.data is data
    assert x.grad is None
    assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == ((2, 3), np.float32, 2, 6, 4, 24, 2)
    assert x.T.shape == (3, 2)
    assert cr.Variable(3).data == 3.0 and cr.Variable(3).dtype == np.float64
    assert cr.Variable([1, 2]).dtype == np.float64
    assert cr.Variable(np.array([1, 2])).dtype == np.float64


@pytest.mark.parametrize("what", [True, "text", None, np.array(["a"]), np.array([True]), [None], {"a": 1.0}])
def test_what_has_no_derivative_is_no_variable(what):
    with pytest.raises(errors.NotDifferentiableError, match="can't be differentiated"):
        cr.Variable(what)


def test_repr_and_format_show_the_value():
    x = leaf(1.0, 2.5)
    assert repr(x) == "Variable([1. , 2.5])"
    assert str(x) == "[1.  2.5]"
    y = cr.Variable(2.5)
    assert repr(y) == "Variable(2.5)"
    assert f"{y:.3f}" == "2.500" and f"{y}" == "2.5"
    assert "2.5" in repr(x[1]) and "2.5" in repr(cr.Dual(2.5, 1.0))
    assert f"{cr.Dual(2.5, 1.0):.1f}" == "2.5"


def test_equality_is_elementwise_and_hash_by_identity():
    x, y = leaf(1.0, 2.0), leaf(1.0, 3.0)
    assert (x == y).tolist() == [True, False]
    assert (x != y).tolist() == [False, True]
    assert (x < y).tolist() == [False, True]
    assert (x >= [1.0, 5.0]).tolist() == [True, False]
    assert (np.array([1.0, 5.0]) == x).tolist() == [True, False]
    assert type(x == y) is np.ndarray
    assert hash(x) != hash(y)
    assert {x: "a", y: "b"}[x] == "a"
    assert (cr.Variable(2.0) == 2.0) is True or bool(cr.Variable(2.0) == 2.0)


def test_iteration_len_unpacking_and_membership():
    x = leaf(1.0, 2.0, 3.0)
    a, *rest = x
    assert a.data == 1.0 and len(rest) == 2 and len(x) == 3
    (a * rest[1]).backward()
    assert_allclose(x.grad, [3.0, 0.0, 1.0])
    assert 2.0 in x and 5.0 not in x
    assert [v.data for v in reversed(x)] == [3.0, 2.0, 1.0]
    with pytest.raises(TypeError, match="unsized"):
        len(cr.Variable(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(cr.Variable(1.0))


def test_bool_follows_numpy():
    assert cr.Variable(1.0) and not cr.Variable(0.0)
    assert leaf(2.0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(leaf(1.0, 2.0))


def test_python_builtins():
    x = leaf(3.0, -1.0, 2.0)
    assert max(x).data == 3.0 and min(x).data == -1.0
    assert_allclose(cr.grad(lambda x: sum(x) * max(x) - abs(min(x)))(np.array([3.0, -1.0, 2.0])), [7.0, 4.0, 3.0])
    assert_allclose(cr.grad(lambda x: pow(x, 3) + 2**x)(2.0), 12.0 + 4 * math.log(2.0))
    assert cr.grad(lambda x: round(x * x, 1))(2.03) == 0.0
    assert cr.value(round(cr.Variable(2.567), 2)) == 2.57
    q, r = divmod(cr.Variable(7.5), 2.0)
    assert (cr.value(q), cr.value(r)) == (3.0, 1.5)
    assert [v.data for v in sorted(x)] == [-1.0, 2.0, 3.0]
    assert math.floor(cr.Variable(2.5)) == 2 and cr.grad(lambda x: math.floor(x) * x)(2.5) == 2.0


def test_operators_with_plain_values_on_either_side():
    a = np.array([1.0, 2.0])
    for op in ("x + a", "a + x", "x - a", "a - x", "x * a", "a * x", "x / a", "a / x", "x ** a", "a ** x", "x @ a",
               "a @ x", "-x", "+x", "abs(x)",  "a % x", "2 * x", "x / 2", "np.float32(2) * x", "[3, 4] * x",
               "x - (3, 4)", "True * x", "2**x", "x * 1j"):  # fmt: skip
        x = leaf(3.0, 5.0)
        y = eval(op)
        assert isinstance(y, cr.Variable), op
        plain = eval(op, {"x": x.data, "a": a, "np": np})
        assert_allclose(y.data, plain)
        assert np.asarray(plain).dtype == y.dtype, op


# -- backward ------------------------------------------------------------------------------------------------------


def test_backward_adds_to_what_is_there():
    x = leaf(1.0, 2.0)
    for k in (1, 2, 3):
        np.sum(x**2).backward()
        assert_allclose(x.grad, 2 * k * x.data)
    x.zero_grad()
    assert x.grad is None
    np.sum(x).backward()
    assert_allclose(x.grad, [1.0, 1.0])
    x.grad = None
    np.sum(3 * x).backward()
    assert_allclose(x.grad, [3.0, 3.0])


def test_several_paths_are_added():
    # f = xy + e^(xy) at (1, 2): (2 + 2 e^2, 1 + e^2)
    x, y = cr.Variable(1.0), cr.Variable(2.0)
    (x * y + np.exp(x * y)).backward()
    assert_allclose([x.grad, y.grad], [2 + 2 * np.e**2, 1 + np.e**2], rtol=1e-15)


def test_the_base_case_is_one():
    x = cr.Variable(2.0)
    x.backward()
    assert x.grad == 1.0
    x = leaf(2.0)  # one entry
    x.backward()
    assert_allclose(x.grad, [1.0])


def test_the_seed():
    x = leaf(1.0, 2.0)
    y = x**2
    with pytest.raises(errors.NotScalarError, match=r"y\.backward\(np\.ones_like"):
        y.backward()
    y.backward(np.array([1.0, 10.0]))
    assert_allclose(x.grad, [2.0, 40.0])
    x.grad = None
    y.backward([1, 2])
    assert_allclose(x.grad, [2.0, 8.0])
    with pytest.raises(errors.ShapeError, match=r"shape \(3,\), the value \(2,\)"):
        y.backward(np.ones(3))
    with pytest.raises(errors.ShapeError):
        y.backward(1.0)
    x = cr.Variable(np.array([1.0], np.float32))
    (x * 2).backward(np.array([1.0]))
    assert x.grad.dtype == np.float32
    with pytest.raises(errors.ChainruleError):
        (x * 2).backward(np.array(["a"]))


def test_backward_twice_over_one_graph():
    x = cr.Variable(3.0)
    y = x**2
    y.backward()
    y.backward()
    assert x.grad == 12.0


def test_gradients_are_not_shared():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = np.ones(2)
    (x + y).backward(seed)
    assert x.grad is not y.grad
    x.grad *= 10
    assert_allclose(y.grad, [1.0, 1.0])
    assert_allclose(seed, [1.0, 1.0])
    kept, x.grad = x.grad, None
    np.sum(x * 3).backward()
    assert_allclose(kept, [10.0, 10.0])
    z = leaf(1.0, 2.0)
    np.sum(z.reshape(2, 1)).backward()
    assert z.grad.flags.owndata and z.grad.flags.writeable
    before = z.grad
    np.sum(z).backward()
    assert_allclose(before, [1.0, 1.0])  # what the user kept is not written to


def test_a_result_without_inputs_has_nothing_to_do():
    with cr.no_grad():
        y = cr.Variable(2.0) * 3
    y.backward()
    assert y.data == 6.0


def test_retain_grad_keeps_the_gradients_of_intermediate_results():
    x = cr.Variable(0.5)
    a = x**2
    b = np.exp(a)
    y = b**2
    y.backward()
    assert a.grad is None and b.grad is None
    x.grad = None
    y.backward(retain_grad=True)
    assert y.grad == 1.0
    assert_allclose([b.grad, a.grad, x.grad], [2.568050833375483, 3.297442541400256, 3.297442541400256], rtol=1e-15)
    y.backward(retain_grad=True)  # those of the last pass; inputs add up
    assert_allclose([b.grad, x.grad], [2.568050833375483, 2 * 3.297442541400256], rtol=1e-15)


def test_the_creator_gives_upstream_local_and_downstream_gradients():
    x, w = leaf(1.0, 2.0), cr.Variable(np.array([[1.0, 2.0], [3.0, 4.0]]))
    h = w @ x
    y = np.sum(h * h)
    assert x.creator is None
    with pytest.raises(AttributeError, match="retain_grad=True"):
        h.creator.upstream  # noqa: B018
    y.backward(retain_grad=True)
    node = h.creator
    assert node.name.endswith("matmul")
    assert_allclose(node.upstream, 2 * h.data)
    wbar, xbar = node.downstream
    assert_allclose(wbar, np.outer(2 * h.data, x.data))  # dW = dY X^T
    assert_allclose(xbar, w.data.T @ (2 * h.data))  # dX = W^T dY
    wbar, xbar = node.local(np.array([1.0, 0.0]))  # any upstream gradient, no Jacobian formed
    assert_allclose(wbar, [[1.0, 2.0], [0.0, 0.0]])
    assert_allclose(xbar, [1.0, 2.0])
    assert y.creator.upstream == 1.0
    assert node == h.creator and len({node, h.creator}) == 1
    assert "matmul" in repr(node)
    assert (2.0 * x).creator.local(np.ones(2))[0] is None or (2.0 * x).creator.local(np.ones(2))[1] is None


def test_local_gradients_of_a_function_and_of_several_outputs():
    class Swap(cr.Function):
        def forward(self, a, b):
            return 2 * b, 3 * a

        def backward(self, p, q):
            return 3 * q, 2 * p

    a, b = cr.Variable(1.0), cr.Variable(1.0)
    p, q = Swap()(a, b)
    (p * q).backward(retain_grad=True)
    assert (p.grad, q.grad, a.grad, b.grad) == (3.0, 2.0, 6.0, 6.0)
    assert p.creator.name == "Swap"


def test_create_graph_to_third_order():
    x = cr.Variable(2.0)
    y = x**4
    for want in (32.0, 48.0, 48.0, 24.0):
        x.grad = None
        y.backward(create_graph=True)
        y = x.grad
        assert cr.value(y) == want
    x.grad = None
    x = leaf(0.3, 0.4)
    y = np.sum(np.sin(x) * x)
    y.backward(create_graph=True)
    g, x.grad = x.grad, None
    g.backward(np.array([1.0, 0.0]), create_graph=True)
    h, x.grad = x.grad, None
    assert_allclose(cr.value(h), [2 * np.cos(0.3) - 0.3 * np.sin(0.3), 0.0], rtol=1e-14)
    h.backward(np.array([1.0, 0.0]))
    assert_allclose(x.grad, [-3 * np.sin(0.3) - 0.3 * np.cos(0.3), 0.0], rtol=1e-14)


def test_the_penalty_on_a_gradient():
    # R = |dL/dW|^2, dR/dW = 2 H g, with L = sum(tanh(W x))
    w, v = np.array([[0.1, -0.2], [0.3, 0.5]]), np.array([1.0, 2.0])
    loss = lambda w: np.sum(np.tanh(w @ v))
    x = cr.Variable(w)
    loss(x).backward(create_graph=True)
    g, x.grad = x.grad, None
    np.sum(g * g).backward()
    plain = cr.grad(loss)(w)
    assert_allclose(x.grad, 2 * np.einsum("ijkl,kl->ij", cr.hessian(loss)(w), plain), rtol=1e-12)
    assert_allclose(x.grad, 2 * cr.hvp(loss, w, plain), rtol=1e-12)


def test_backward_on_a_value_of_a_running_transform_raises_with_advice():
    def f(x):
        y = x * x
        y.backward()
        return y

    with pytest.raises(errors.InPlaceError, match=r"chainrule\.grad, which nests"):
        cr.grad(f)(2.0)


def test_a_variable_over_a_value_of_a_transform():
    def f(a):  # d/da of (d/dx a x^2 at 3) = 6
        x = cr.Variable(3.0)
        (a * x**2).backward()
        return x.grad

    def g(a):
        x = cr.Variable(a)
        (x**3).backward()
        return x.grad

    assert cr.grad(g)(2.0) == 12.0
    assert cr.jvp(g, (2.0,), (1.0,))[1] == 12.0
    with pytest.raises(errors.InPlaceError):  # the product belongs to grad: advice, not a wrong number
        cr.grad(f)(2.0)


# -- in place ------------------------------------------------------------------------------------------------------


def test_a_leaf_changed_in_place_while_recording_raises_with_advice():
    x = leaf(1.0, 2.0)
    np.sum(x**2).backward()
    with pytest.raises(errors.InPlaceError, match=r"with chainrule\.no_grad\(\): x -= lr \* x\.grad"):
        x -= 0.1 * x.grad
    with pytest.raises(errors.InPlaceError):
        x[0] = 5.0
    with pytest.raises(errors.InPlaceError):
        x[0] += 1.0
    with pytest.raises(errors.ChainruleError):
        np.add(x, 1, out=x)
    s = cr.Variable(2.0)
    with pytest.raises(errors.InPlaceError):
        s += 1.0
    assert_allclose(x.data, [1.0, 2.0])
    assert s.data == 2.0


def test_gradient_descent():
    x = leaf(3.0, -2.0)
    same = x
    for _ in range(50):
        x.grad = None
        np.sum((x - 1) ** 2).backward()
        with cr.no_grad():
            x -= 0.2 * x.grad
    assert_allclose(x.data, [1.0, 1.0], atol=1e-9)
    assert x is same and x.creator is None


def test_an_update_leaves_recorded_graphs_alone():
    x = leaf(3.0)
    y = x * x
    with cr.no_grad():
        x -= 1.0
        x[0] = 7.0
    y.backward()
    assert_allclose(x.grad, [6.0])
    assert_allclose(x.data, [7.0])


# -- no_grad and stop_gradient -------------------------------------------------------------------------------------


def test_no_grad_as_a_context():
    x = cr.Variable(3.0)
    with cr.no_grad():
        y = x * x
        with cr.no_grad():
            pass
        z = x * x
        assert cr.grad(lambda t: t * t)(2.0) == 4.0  # a transform that starts inside is not affected
        assert cr.grad(lambda t: t * x)(2.0) == 3.0
    (x * y + z).backward()
    assert x.grad == 9.0


def test_no_grad_restores_after_an_exception():
    x = cr.Variable(3.0)
    with pytest.raises(KeyError), cr.no_grad():
        raise KeyError
    (x * x).backward()
    assert x.grad == 6.0
    context = cr.no_grad()
    for _ in range(2):
        with context, context:
            assert (x * x).creator is None
    assert (x * x).creator is not None


def test_no_grad_as_a_decorator():
    x = cr.Variable(3.0)

    @cr.no_grad()
    def f(v):
        """Doc."""
        return v * v

    @cr.no_grad
    def g(v):
        return v * v

    (f(x) * x + g(x) + x).backward()
    assert x.grad == 10.0
    assert f.__name__ == "f" and f.__doc__ == "Doc."
    assert cr.grad(lambda x: f(x) * x)(3.0) == 9.0
    assert cr.jvp(lambda x: f(x) * x, (3.0,), (1.0,))[1] == 9.0


def test_no_grad_around_a_generator_leaves_the_caller_recording():
    x = cr.Variable(3.0)

    @cr.no_grad()
    def g():
        got = yield x * x
        yield got * x

    steps = g()
    first = next(steps)
    mine = x * x  # the caller records between the steps
    second = steps.send(mine)
    steps.close()
    (first + mine + second).backward()
    assert x.grad == 6.0

    @cr.no_grad()
    def failing():
        try:
            yield x * x
        except KeyError:
            yield 2 * x

    steps = failing()
    next(steps)
    assert steps.throw(KeyError()).creator is None
    assert (x * x).creator is not None


def test_no_grad_around_coroutines_and_async_generators():
    x = cr.Variable(3.0)

    @cr.no_grad()
    async def inner():
        y = x * x
        await asyncio.sleep(0)
        return y + x * x

    @cr.no_grad()
    async def stream():
        yield x * x
        await asyncio.sleep(0)
        yield x * x

    async def other():
        await asyncio.sleep(0)
        return x * x

    async def main():
        y, mine = await asyncio.gather(inner(), other())
        return y, mine, [v async for v in stream()], x * x

    y, mine, streamed, last = asyncio.run(main())
    assert all(v.creator is None for v in [y, *streamed])
    assert mine.creator is not None and last.creator is not None
    (y + mine + sum(streamed) + last).backward()
    assert x.grad == 12.0


def test_no_grad_does_not_reach_other_threads():
    x, seen = cr.Variable(3.0), []
    with cr.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * x).creator))
        thread.start()
        thread.join()
        assert (x * x).creator is None
    assert seen[0] is not None


def test_stop_gradient():
    assert cr.grad(lambda x: x * cr.stop_gradient(x * x))(3.0) == 9.0
    assert cr.jvp(lambda x: x * cr.stop_gradient(x * x), (3.0,), (1.0,))[1] == 9.0
    assert cr.grad(cr.grad(lambda x: x * cr.stop_gradient(x * x)))(3.0) == 0.0
    x = cr.Variable(3.0)
    (x * cr.stop_gradient({"a": x * x})["a"]).backward()
    assert x.grad == 9.0


# -- copies and pickles --------------------------------------------------------------------------------------------


def test_copies_of_an_input_are_inputs_of_their_own():
    x = leaf(1.0, 2.0)
    np.sum(x * x).backward()
    for y in (copy.deepcopy(x), copy.copy(x)):
        assert_allclose(y.data, x.data)
        assert_allclose(y.grad, [2.0, 4.0])
        y.grad = None
        np.sum(y * 10).backward()
        assert_allclose(x.grad, [2.0, 4.0])
        assert_allclose(y.grad, [10.0, 10.0])
    y = copy.deepcopy(x)
    y.grad[0] = 7.0
    y.data[0] = 7.0
    assert_allclose(x.data, [1.0, 2.0])
    assert_allclose(x.grad, [2.0, 4.0])
    both = copy.deepcopy({"a": x, "b": [x]})
    assert both["a"] is both["b"][0] is not x


def test_copies_of_a_result_are_recorded():
    x = leaf(1.0, 2.0)
    y = x * x
    z, c, m = copy.deepcopy(y), copy.copy(y), y.copy()
    z[0] = 0.0
    assert_allclose(y.data, [1.0, 4.0])
    np.sum(z * c + m).backward()  # [0, 2x x^2 ...]: d/dx0 (0*x0^2 + x0^2), d/dx1 (x1^4 + x1^2)
    assert_allclose(x.grad, [2.0, 4 * 8.0 + 4.0])
    assert cr.grad(lambda x: copy.deepcopy(x * x))(3.0) == 6.0
    assert cr.jvp(lambda x: copy.deepcopy(x * x), (3.0,), (1.0,))[1] == 6.0
    assert cr.grad(lambda x: copy.deepcopy({"a": x})["a"] * x)(3.0) == 6.0


def test_pickles():
    x = leaf(1.0, 2.0)
    np.sum(x * x).backward()
    y = pickle.loads(pickle.dumps(x))
    assert isinstance(y, cr.Variable)
    assert_allclose(y.data, [1.0, 2.0])
    assert_allclose(y.grad, [2.0, 4.0])
    with pytest.raises(TypeError, match=r"chainrule\.value"):
        pickle.dumps(x * x)
    with pytest.raises(TypeError, match=r"chainrule\.value"):
        cr.grad(lambda x: pickle.dumps(x) and x)(1.0)
    with pytest.raises(TypeError, match=r"chainrule\.value"):
        cr.jvp(lambda x: pickle.dumps(x) and x, (1.0,), (1.0,))
    d = pickle.loads(pickle.dumps(cr.Dual(2.0, 1.0)))
    assert (d.primal, d.tangent) == (2.0, 1.0)


# -- Dual ----------------------------------------------------------------------------------------------------------


def test_dual_arithmetic():
    # (a + b eps)(c + d eps) = ac + (ad + bc) eps, and so on
    x, y = cr.Dual(3.0, 1.0), cr.Dual(2.0, 5.0)
    for z, primal, tangent in [
        (x + y, 5.0, 6.0),
        (x - y, 1.0, -4.0),
        (x * y, 6.0, 17.0),
        (x / y, 1.5, (1 * 2 - 3 * 5) / 4),
        (x**2, 9.0, 6.0),
        (x**y, 9.0, 9 * (2 / 3 + 5 * math.log(3))),
        (2 - x, -1.0, -1.0),
        (1 / x, 1 / 3, -1 / 9),
        (-x, -3.0, -1.0),
        (abs(-x), 3.0, 1.0),
        (np.sin(x), math.sin(3), math.cos(3)),
        (np.exp(x) * 2, 2 * math.e**3, 2 * math.e**3),
    ]:
        assert isinstance(z, cr.Dual)
        assert_allclose([z.primal, z.tangent], [primal, tangent], rtol=1e-14)
    assert x > y and x == 3.0 and max(x, y) is x
    assert repr(cr.Dual(2.0, 1.0)) == "Dual(2.0, 1.0)"


def test_dual_of_arrays():
    x = cr.Dual(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    y = np.sum(x**2) + x[1] * x[0]
    assert_allclose([y.primal, y.tangent], [7.0, 4.0])
    assert cr.Dual(np.ones(3), 2.0).tangent.shape == (3,)
    assert_allclose(cr.Dual(np.ones(3)).tangent, np.zeros(3))
    assert cr.Dual(3, 1).primal == 3.0
    with pytest.raises(errors.ShapeError, match="tangent has shape"):
        cr.Dual(np.ones(3), np.ones(2))
    with pytest.raises(errors.ShapeError):
        cr.Dual(1.0, np.ones(2))


def test_duals_nest():
    x = cr.Dual(cr.Dual(2.0, 1.0), cr.Dual(1.0, 0.0))
    y = x**3 * np.sin(x)
    f = 8 * math.sin(2), 12 * math.sin(2) + 8 * math.cos(2)
    second = 12 * math.sin(2) + 24 * math.cos(2) - 8 * math.sin(2)
    assert_allclose([y.primal.primal, y.primal.tangent, y.tangent.primal, y.tangent.tangent], [*f, f[1], second])
    assert_allclose(cr.grad(lambda a: cr.Dual(a * a, a).tangent * cr.value(a))(3.0), 3.0)
    z = cr.grad(lambda a: a**3)(cr.Dual(2.0, 1.0))
    assert_allclose([z.primal, z.tangent], [12.0, 12.0])


def test_a_dual_and_a_variable_of_one_depth_nest_or_raise():
    x, d = cr.Variable(3.0), cr.Dual(2.0, 1.0)
    try:
        y = x * d
    except errors.MixedLevelError as error:
        assert "transforms" in str(error)
        return
    y = cr.value(y)
    assert y == 6.0


# -- entry by NumPy's protocols ------------------------------------------------------------------------------------

HOLES = {
    "np.array of traced values": (lambda x: np.sum(np.array([x, x * x])), r"like=x"),
    "np.asarray": (lambda x: np.asarray(x) * 2, r"like=x"),
    "np.array of one": (lambda x: np.array(x) * 2, r"like=x"),
    "a write into a plain array": (lambda x: _write(x), r"np\.zeros\(n, like=x\)"),
    "float": (lambda x: float(x) * x, r"float\(chainrule\.value\(x\)\)"),
    "int": (lambda x: int(x) * x, r"int\(chainrule\.value\(x\)\)"),
    "complex": (lambda x: complex(x) * x, r"chainrule\.value"),
    "math.sin": (lambda x: math.sin(x) * x, r"np\.sin\(x\) for math\.sin"),
    "item": (lambda x: x.item() * x, r"chainrule\.value"),
    "tolist": (lambda x: x.tolist() * x, r"chainrule\.value"),
    "an index": (lambda x: [1.0, 2.0, 3.0][x] * x, r"chainrule\.value"),
    "range": (lambda x: sum(x for _ in range(x)), r"chainrule\.value"),
    "np.float64": (lambda x: np.float64(x) * x, r"chainrule\.value"),
    "np.fromiter": (lambda x: np.sum(np.fromiter([x, x], float)), r"like=x"),
    "out=": (lambda x: np.multiply(x, x, out=np.zeros(())), r"without out="),
    "copyto": (lambda x: _copyto(x), r""),
    "add.at": (lambda x: _add_at(x), r""),
    "put": (lambda x: _put(x), r""),
    "fill": (lambda x: np.zeros(2).fill(x), r"like=x"),
}


def _write(x):
    a = np.zeros(2)
    a[0] = x
    return np.sum(a)


def _copyto(x):
    a = np.zeros(())
    np.copyto(a, x)
    return a


def _add_at(x):
    a = np.zeros(2)
    np.add.at(a, [0], x)
    return np.sum(a)


def _put(x):
    a = np.zeros(2)
    np.put(a, [0], x)
    return np.sum(a)


@pytest.mark.parametrize("name", HOLES)
@pytest.mark.parametrize("mode", ["reverse", "forward", "eager", "nested"])
def test_what_numpy_does_not_hand_over_raises_with_the_line_to_write_instead(name, mode):
    f, advice = HOLES[name]
    run = {
        "reverse": lambda: cr.grad(f)(1.5),
        "forward": lambda: cr.jvp(f, (1.5,), (1.0,)),
        "eager": lambda: f(cr.Variable(1.5)),
        "nested": lambda: cr.grad(cr.grad(f))(1.5),
    }[mode]
    kinds = (errors.ChainruleError,) if mode != "eager" else (errors.ChainruleError, ValueError, TypeError)
    with pytest.raises(kinds) as caught:
        run()
    error = caught.value
    ours = error if isinstance(error, errors.ChainruleError) else errors.unwrap(error)
    assert ours is not None
    assert re.search(advice, str(ours)), str(ours)
    assert "where: test_eager.py" in str(ours)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "traced", [lambda: leaf(1.0, 2.0), lambda: cr.Dual(np.array([1.0, 2.0]))], ids=["Variable", "Dual"]
)
def test_foreign_arrays_are_refused_with_advice(traced):
    m, masked = np.matrix([[1.0, 2.0]]), np.ma.array([1.0, 2.0], mask=[True, False])
    for run in (
        lambda x: x * m,
        lambda x: m * x,
        lambda x: np.add(x, m),
        lambda x: x + m,
        lambda x: np.stack([x, m[0]]),
    ):
        with pytest.raises(errors.ForeignArrayError, match=r"np\.asarray\(m\)"):
            run(traced())
    for run in (lambda x: x * masked, lambda x: masked * x, lambda x: np.add(masked, x), lambda x: np.dot(x, masked)):
        with pytest.raises(errors.ForeignArrayError, match=r"np\.where\(mask"):
            run(traced())
    with pytest.raises(errors.ForeignArrayError):
        cr.Variable(m)
    with pytest.raises(errors.ForeignArrayError):
        cr.Variable(masked)


def test_pandas_and_xarray_like_types_are_refused_with_advice():
    Series = type("Series", (), {"__module__": "pandas.core.series", "__array_ufunc__": lambda *a, **k: NotImplemented})
    x = leaf(1.0, 2.0)
    with pytest.raises(errors.ForeignArrayError, match="to_numpy"):
        x * Series()
    DataArray = type("DataArray", (), {"__module__": "xarray.core", "__array__": lambda *a, **k: np.ones(2)})
    with pytest.raises(errors.ForeignArrayError, match="values"):
        x + DataArray()


class Opaque:
    """Takes part in no protocol, and has operators of its own."""

    __array_ufunc__ = None

    def __rmul__(self, other):
        return "rmul"

    def __radd__(self, other):
        return "radd"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __rpow__(self, other):
        return "rpow"

    def __gt__(self, other):
        return "gt"

    def __eq__(self, other):
        return "eq"

    __hash__ = None


@pytest.mark.parametrize("kind", ["Variable", "Dual", "transform"])
def test_foreign_operands_get_not_implemented(kind):
    def f(x):
        other = Opaque()
        assert (x * other, x + other, x @ other, x**other) == ("rmul", "radd", "rmatmul", "rpow")
        assert (x < other) == "gt" and (x == other) == "eq"
        with pytest.raises(TypeError, match="unsupported operand"):
            x - other
        with pytest.raises(TypeError):
            np.add(x, other)
        y = x * 1
        y *= other
        assert y == "rmul"
        return np.sum(x)

    x = np.array([1.0, 2.0])
    {"Variable": lambda: f(cr.Variable(x)), "Dual": lambda: f(cr.Dual(x)), "transform": lambda: cr.grad(f)(x)}[kind]()


def test_objects_that_are_no_arrays():
    x = leaf(1.0, 2.0)
    for other in (object(), "text", decimal.Decimal(2), {1}):
        with pytest.raises(TypeError):
            x * other
        with pytest.raises(TypeError):
            other * x
    assert not np.any(x == "text")
    assert (x == None) is not True  # noqa: E711


def test_traced_values_in_stack_and_like():
    f = lambda x: np.sum(np.stack([x, 2.0, x * x]) * np.array([1.0, 2.0, 3.0], like=x))
    assert cr.grad(f)(3.0) == 1.0 + 18.0
    g = lambda x: np.sum(np.array([x, [x * x, 1.0][0]], like=x))
    assert cr.grad(g)(3.0) == 7.0

    def h(x):
        a = np.zeros(3, like=x)
        a[0] = x
        b = np.full_like(a, 2.0)
        b[1] = a[0] * x
        return np.sum(a * x + b)

    assert cr.grad(h)(3.0) == 12.0
    assert cr.jvp(h, (3.0,), (1.0,))[1] == 12.0


# -- what a user may overwrite -------------------------------------------------------------------------------------


def right_or_raises(run, want):
    try:
        got = run()
    except (errors.ChainruleError, ValueError):
        return
    assert_allclose(got, want)


@pytest.mark.parametrize("n", [2, 100_000])
def test_overwriting_a_constant_after_its_use_never_changes_a_gradient(n):
    def f(x):
        work = np.full(n, 3.0)
        y = np.sum(x * work)
        work[:] = 0.0
        return y

    def g(x):
        work = np.full(n, 3.0)
        y = np.sum(work / x)
        work *= 2
        return y

    def h(x):
        work = np.full((2, n), 3.0)
        y = np.sum(np.matmul(work, x))
        work[...] = 0.0
        return y

    def k(x):
        work = np.arange(n) % 2 == 0
        y = np.sum(np.where(work, x, 0.0))
        work[:] = False
        return y

    def m(x):
        work = np.full(n, 3.0)
        y = np.sum(np.arctan2(work, x) + np.hypot(work, x) + work**x)
        work[:] = 1.0
        return y

    x = np.full(n, 2.0)
    right_or_raises(lambda: cr.grad(f)(x), np.full(n, 3.0))
    right_or_raises(lambda: cr.grad(g)(x), np.full(n, -0.75))
    right_or_raises(lambda: cr.grad(h)(x), np.full(n, 6.0))
    right_or_raises(lambda: cr.grad(k)(x), (np.arange(n) % 2 == 0) * 1.0)
    right_or_raises(lambda: cr.grad(m)(x), np.full(n, -3 / 13 + 2 / np.sqrt(13) + 9 * np.log(3.0)))
    right_or_raises(lambda: cr.grad(lambda x: cr.grad(lambda t: f(t) * np.sum(x))(x)[0])(x), np.full(n, 3.0))


def test_a_small_workspace_may_be_overwritten_and_a_large_one_is_locked_meanwhile():
    def f(x, work):
        total = 0.0
        for k in range(3):
            work[:] = k + 1.0
            total = total + np.sum(x * work)
        return total

    assert_allclose(cr.grad(f)(np.ones(3), np.empty(3)), np.full(3, 6.0))
    work = np.empty(100_000)
    with pytest.raises(errors.InPlaceError, match=r"(?s)overwritten .*test_eager\.py:\d+ in f\..*work\.copy\(\)"):
        cr.grad(f)(np.ones(100_000), work)
    work[:] = 0.0  # free again
    part = work[:50_000]
    x = cr.Variable(np.ones(50_000))
    y, z = x * part, part * x
    for locked in (part, work):
        with pytest.raises(ValueError, match="read-only"):
            locked[0] = 1.0
    del y
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 1.0
    del z
    part[0] = work[-1] = 1.0
    fixed = np.ones(100_000)
    fixed.flags.writeable = False
    cr.grad(lambda x: np.sum(x * fixed))(np.ones(100_000))
    assert not fixed.flags.writeable


@pytest.mark.parametrize(
    "show",
    [
        lambda w: np.lib.stride_tricks.sliding_window_view(w, 1)[:, 0],
        lambda w: np.lib.stride_tricks.as_strided(w, (w.size // 2,), (16,)),
        lambda w: np.asarray(memoryview(w)),
        lambda w: np.broadcast_arrays(w[:, None], np.zeros((1, 2)))[0],
        lambda w: w.view(complex).imag,
        lambda w: w.view([("a", float), ("b", float)])["a"],
    ],
    ids=["windows", "strided", "memoryview", "broadcast", "imaginary part", "field"],
)
@pytest.mark.parametrize("n", [4, 100_000])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::FutureWarning")
def test_a_workspace_reused_behind_a_view_never_changes_a_gradient(n, show):
    def f(x):
        work, total = np.zeros(n), 0.0
        part = show(work)
        for k in range(1, 4):
            work[:] = k
            total = total + np.sum(x * part)
        return total

    right_or_raises(lambda: cr.grad(f)(2.0), 6.0 * show(np.zeros(n)).size)


def test_lists_of_axes_may_be_changed_after_the_call():
    def f(x):
        axes = ([1], [0])
        y = np.tensordot(x, np.array([[1.0, 2.0], [3.0, 4.0]]), axes=axes)
        axes[0][0] = axes[1][0] = 99
        return np.sum(y)

    assert_allclose(cr.grad(f)(np.zeros((3, 2))), [[3.0, 7.0]] * 3)


@pytest.mark.parametrize("n", [4, 100_000])
def test_memory_that_no_array_owns_may_be_overwritten(n):
    memory = bytearray(8 * n)

    def f(x):
        work, total = np.frombuffer(memory), 0.0
        for k in range(1, 4):
            memory[:] = np.full(n, float(k)).tobytes()
            total = total + np.sum(x * work)
        return total

    assert cr.grad(f)(2.0) == 6.0 * n


# -- size ----------------------------------------------------------------------------------------------------------


def test_a_chain_of_a_million_operations():
    x = cr.Variable(1.0)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0000001
    y.backward()
    assert_allclose(x.grad, 1.0000001**1_000_000, rtol=1e-9)
    del y  # freed without recursion, too
    gc.collect()

    def f(x):
        for _ in range(200_000):
            x = x + 1e-6 * x
        return x

    assert_allclose(cr.grad(f)(1.0), (1 + 1e-6) ** 200_000, rtol=1e-9)


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the resident size from /proc")
def test_ten_thousand_gradients_leave_the_memory_where_it_was():
    class Cube(cr.Function):
        def forward(self, x):
            self.y = x**3
            return self.y

        def backward(self, ybar):
            return 3 * self.y / self.input.data * ybar

    cube = Cube()
    f = cr.grad(lambda x: np.sum(np.sin(x) * x + x[::2].sum() * cube(x)))
    hvp = lambda x: cr.hvp(lambda x: np.sum(cube(x) * x[0]), x, x)
    leafs = leaf(*[0.5] * 200)
    x = np.full(200, 0.5)

    def step():
        f(x)
        hvp(x)
        leafs.grad = None
        np.sum(leafs * leafs).backward()

    for _ in range(300):
        step()
    gc.collect()
    before = _resident()
    for _ in range(3_000):  # three or more gradients each
        step()
    assert _resident() - before < 3_000_000


def test_object_arrays_and_dates_beside_a_traced_value_are_refused():
    dull = np.array([1.0, 2.0], object)
    for run in (
        lambda x: np.stack([x, dull]),
        lambda x: x * dull,
        lambda x: x * np.array([1, 2], "m8[s]"),
    ):
        for x in (cr.Variable(np.array([1.0, 2.0])), cr.Dual(np.array([1.0, 2.0]), np.ones(2))):
            with pytest.raises(cr.errors.NotDifferentiableError, match="dtype"):
                run(x)
