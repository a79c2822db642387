"""checkpoint and scan: the derivatives of the plain code, to any order and in any nesting, and less memory."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import chainrule as cr

X = np.array([0.5, -1.0, 2.0])
W = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, -0.9]])


def plain(w, x):
    return np.sum(np.tanh(w @ np.sin(x)) ** 2)


block = cr.checkpoint(lambda w, x: np.tanh(w @ np.sin(x)))


def by_arguments(w, x):
    return np.sum(block(w, x) ** 2)


def by_closure(w, x):
    return np.sum(cr.checkpoint(lambda x: np.tanh(w @ np.sin(x)))(x) ** 2)


def by_closure_alone(w, x):
    return np.sum(cr.checkpoint(lambda: np.tanh(w @ np.sin(x)))() ** 2)


def by_attribute(w, x):
    class Layer:
        pass

    layer = Layer()
    layer.w = w
    return np.sum(cr.checkpoint(lambda x: np.tanh(layer.w @ np.sin(x)))(x) ** 2)


def nested(w, x):
    inner = cr.checkpoint(lambda w, s: w @ s)
    return np.sum(cr.checkpoint(lambda x: np.tanh(inner(w, np.sin(x))))(x) ** 2)


WAYS = (by_arguments, by_closure, by_closure_alone, by_attribute, nested)


def same(a, b, rtol=1e-11):
    for u, v in zip(a if isinstance(a, tuple) else [a], b if isinstance(b, tuple) else [b], strict=True):
        assert_allclose(u, v, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("f", WAYS, ids=lambda f: f.__name__)
def test_derivatives_are_those_of_the_plain_code(f, argnums):
    same(cr.grad(f, argnums)(W, X), cr.grad(plain, argnums)(W, X))
    for mode in ("forward", "reverse"):
        same(cr.jacobian(f, argnums, mode=mode)(W, X), cr.jacobian(plain, argnums, mode=mode)(W, X))


@pytest.mark.parametrize("f", WAYS, ids=lambda f: f.__name__)
def test_higher_orders_and_nestings(f):
    def penalty(g, inner):
        return lambda w, x: np.sum(cr.grad(g, inner)(w, x) ** 2)

    for a in (0, 1):
        same(cr.hessian(f, a)(W, X), cr.hessian(plain, a)(W, X))
        for inner in (0, 1):
            same(cr.grad(penalty(f, inner), a)(W, X), cr.grad(penalty(plain, inner), a)(W, X))
    twice = [cr.grad(lambda x, g=g: np.sum(cr.grad(penalty(g, 1), 1)(W * x, x) ** 2))(X) for g in (f, plain)]
    same(*twice)
    push = cr.linearize(f, W, X)[1]
    same(push(W, X), cr.jvp(plain, (W, X), (W, X))[1])
    over = [cr.jvp(cr.grad(penalty(g, 1), 1), (W, X), (W, X))[1] for g in (f, plain)]
    same(*over)
    cr.check_grads(f, (W, X), order=2)


@pytest.mark.parametrize("f", WAYS, ids=lambda f: f.__name__)
def test_the_eager_tape_and_its_second_derivative(f):
    def second(g):
        w, x = cr.Variable(W), cr.Variable(X)
        g(w, x).backward(create_graph=True)
        total = np.sum(w.grad**2) + np.sum(x.grad**3)
        first = w.grad.data, x.grad.data
        w.grad = x.grad = None
        with cr.no_grad():  # the second run is recorded nevertheless
            total.backward()
        return (*first, w.grad, x.grad)

    same(second(f), second(plain))


def test_containers_constants_and_results_without_derivative():
    @cr.checkpoint
    def f(p, mode, k=1):
        assert mode == "in"
        return {"y": p["a"] * p["b"] ** k, "n": 3, "index": np.argmax(p["a"])}

    def g(a, b):
        out = f({"a": a, "b": b}, "in", k=2)
        assert out["n"] == 3
        assert out["index"] == 2
        return out["y"]

    cr.check_grads(g, (X, W[0]), order=2)
    assert f({"a": X, "b": X}, "in")["index"] == 2
    assert_allclose(cr.grad(lambda a: np.sum(f({"a": a, "b": X}, "in")["y"]))(X), X)


def test_closures_of_the_weights_are_written_later():
    """A value written after the call is not the one that the call used."""

    def f(w):
        v = w * 1.0
        y = cr.checkpoint(lambda x: v * x)(X)
        v[0] = 7.0
        return np.sum(y * v)

    with pytest.raises(cr.errors.NotDifferentiableError, match="depends on other values when it is run again"):
        cr.grad(f)(X)

    def g(w):
        v = w * 1.0
        y = cr.checkpoint(lambda v, x: v * x)(v, X)
        v[0] = 7.0
        return np.sum(y * v)  # 7 w0 x0 + w1^2 x1 + w2^2 x2

    assert_allclose(cr.grad(g)(X), [7 * X[0], 2 * X[1] ** 2, 2 * X[2] ** 2])


def test_plain_arrays_that_are_overwritten_later():
    work = np.array([1.0, 2.0, 3.0])
    x = cr.Variable(X)
    y = np.sum(cr.checkpoint(lambda x, w: np.sin(x) * w)(x, work))
    work[:] = 0
    y.backward()
    assert_allclose(x.grad, np.cos(X) * [1.0, 2.0, 3.0])


def test_a_result_that_is_an_argument_is_a_copy():
    same = cr.checkpoint(lambda x: x)

    def f(x):
        y = same(x)
        y[0] = 5.0
        return np.sum(x * y)

    assert_allclose(cr.grad(f)(X), [5.0, 2 * X[1], 2 * X[2]])
    assert_allclose(f(X), 5 * X[0] + X[1] ** 2 + X[2] ** 2)


def test_threads_share_a_checkpointed_function():
    from concurrent.futures import ThreadPoolExecutor

    w = cr.Variable(W)
    outer = [by_arguments, by_closure]

    def run(k):
        f = outer[k % 2]
        return cr.grad(f, 1)(W, X + k / 10), cr.grad(lambda x: f(w, x), 0)(X + k / 10)

    with ThreadPoolExecutor(4) as pool:
        for k, (a, b) in enumerate(pool.map(run, range(24))):
            assert_allclose(a, cr.grad(plain, 1)(W, X + k / 10), rtol=1e-12)
            assert_allclose(cr.value(b), a, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 100_000])
def test_writing_into_an_argument_is_refused(n):
    def f(x):
        x *= 2
        return np.sum(x**2)

    with pytest.raises(cr.errors.InPlaceError, match="checkpointed function f writes into"):
        cr.grad(lambda x: cr.checkpoint(f)(x * 1.0))(np.ones(n))


def test_a_function_of_another_result_at_its_second_run_is_refused():
    runs = []

    def f(x):
        runs.append(0)
        return (x, x * 2) if len(runs) == 1 else x

    with pytest.raises(cr.errors.NotDifferentiableError, match="when it is run again"):
        cr.grad(lambda x: cr.checkpoint(f)(x)[1])(1.0)
    with pytest.raises(TypeError, match="takes a function"):
        cr.checkpoint(3)


def test_what_a_choice_left_out_stays_out():
    """0 times the infinite slope of the root at 0 is no NaN where `where` went elsewhere."""
    x = np.array([0.0, 4.0])
    root = cr.checkpoint(np.sqrt)
    pair = cr.checkpoint(lambda x: (np.sqrt(x), 3))
    ways = {
        "arguments": lambda x: np.sum(np.where(x > 0, root(x), 0.0)),
        "several": lambda x: np.sum(np.where(x > 0, pair(x)[0], 0.0)),
        "closure": lambda x: np.sum(np.where(x > 0, cr.checkpoint(lambda: np.sqrt(x))(), 0.0)),
        "inside": lambda x: np.sum(cr.checkpoint(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(x)),
        "nested": lambda x: np.sum(np.where(x > 0, cr.checkpoint(lambda x: root(x) * 1.0)(x), 0.0)),
    }
    for name, f in ways.items():
        assert_allclose(cr.grad(f)(x), [0.0, 0.25], err_msg=name)
        assert_allclose(cr.hessian(f)(x), np.diag([0.0, -1 / 32]), err_msg=name)


# -- scan ----------------------------------------------------------------------------------------------------


def step(state, x):
    state = {"s": np.sin(state["s"]) * W[0] + x["u"]}
    return state, (state["s"][0], None)


@pytest.mark.parametrize("checkpoint", [None, "sqrt", 1, 3, 20], ids=str)
def test_scan_is_the_loop(checkpoint):
    u = np.random.default_rng(0).normal(size=(10, 3))

    def loop(s, u):
        total = 0.0
        for k in range(10):
            s = np.sin(s) * W[0] + u[k]
            total = total + s[0] ** 2
        return np.sum(s) + total

    def f(s, u):
        last, (ys, none) = cr.scan(step, {"s": s}, {"u": u}, checkpoint=checkpoint)
        assert none is None
        return np.sum(last["s"]) + np.sum(ys**2)

    assert_allclose(f(X, u), loop(X, u), rtol=1e-14)
    same(cr.grad(f, (0, 1))(X, u), cr.grad(loop, (0, 1))(X, u))
    same(cr.hessian(f)(X, u), cr.hessian(loop)(X, u))
    same(cr.jvp(f, (X, u), (X, u))[1], cr.jvp(loop, (X, u), (X, u))[1])


def test_scan_without_inputs_without_outputs_and_of_no_steps():
    def double(s, _):
        return s * 2, None

    assert cr.scan(double, 1.0, length=5) == (32.0, None)
    assert cr.grad(lambda s: cr.scan(double, s, length=5)[0])(1.0) == 32.0
    assert cr.scan(double, 1.0, length=0) == (1.0, None)
    assert_allclose(cr.scan(lambda s, x: (s, x), 0.0, X)[1], X)


def test_scan_differentiates_the_closure_of_its_step():
    def f(w):
        return cr.scan(lambda s, x: (np.tanh(w * s + x), s), 0.1, np.ones(9) / 3)[0]

    def loop(w):
        s = 0.1
        for _ in range(9):
            s = np.tanh(w * s + 1 / 3)
        return s

    assert_allclose(cr.grad(f)(0.7), cr.grad(loop)(0.7), rtol=1e-13)
    assert_allclose(cr.grad(cr.grad(f))(0.7), cr.grad(cr.grad(loop))(0.7), rtol=1e-12)


def test_mistakes_are_told():
    with pytest.raises(cr.errors.ShapeError, match="number of steps is not clear: 3, 2"):
        cr.scan(lambda s, x: (s, x), 0.0, (X, X[:2]))
    with pytest.raises(cr.errors.ShapeError, match="xs must hold arrays"):
        cr.scan(lambda s, x: (s, x), 0.0, (X, 2.0))
    with pytest.raises(TypeError, match="needs xs, or length"):
        cr.scan(lambda s, x: (s, x), 0.0)
    with pytest.raises(TypeError, match="length must be"):
        cr.scan(lambda s, x: (s, x), 0.0, length=-1)
    with pytest.raises(cr.errors.ShapeError, match=r"<lambda> \(test_checkpoint.py:\d+\) must return a pair"):
        cr.scan(lambda s, x: s, 0.0, X)
    with pytest.raises(ValueError, match='must be "sqrt"'):
        cr.scan(lambda s, x: (s, x), 0.0, X, checkpoint="all")
    with pytest.raises(cr.errors.ShapeError, match="different containers"):
        cr.scan(lambda s, x: (s + 1, (x,) if s < 1 else [x]), 0.0, X, checkpoint=None)
    with pytest.raises(TypeError, match="scan takes a function"):
        cr.scan(0.0, 0.0, X)


# -- memory --------------------------------------------------------------------------------------------------


def peak(run):
    run()
    tracemalloc.start()
    run()
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


@pytest.mark.parametrize("way", ["arguments", "closure"])
def test_memory_grows_with_the_square_root_of_the_steps(way):
    """The state has 8 kB; of a plain loop the tape keeps several of these for each step."""
    s, w = np.full(1000, 0.1), np.full(1000, 0.9)

    def gradient(n, checkpoint):
        def f(w):
            if way == "closure":
                return np.sum(cr.scan(lambda s, _: (np.tanh(s * w) + 0.1, None), s, None, checkpoint, n)[0])
            state = cr.scan(lambda p, _: ((np.tanh(p[0] * p[1]) + 0.1, p[1]), None), (s, w), None, checkpoint, n)[0]
            return np.sum(state[0])

        return lambda: cr.grad(f)(w)

    assert_allclose(gradient(100, "sqrt")(), gradient(100, None)(), rtol=1e-12)
    few, many = peak(gradient(100, "sqrt")), peak(gradient(1600, "sqrt"))
    assert many < 4 * 1.5 * few  # sixteen times the steps: 4 by the square root
    assert many < peak(gradient(1600, None)) / 8
