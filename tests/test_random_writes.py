"""Random programs of slices, views of views and writes: each value against NumPy, gradients against differences.

A program is drawn step by step beside a plain run of it, which tells the shapes at hand. It is text, so that a failing
one can be read.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chainrule as cr

X = np.array([[0.5, -1.25, 2.0, 0.75], [1.5, 0.25, -0.5, 1.0], [-0.75, 1.75, 0.125, -1.5]])
DIRECTION = np.cos(np.arange(12.0)).reshape(3, 4)


def index(draw, n):
    """Draw a subscript of one axis: mostly slices, which give views."""
    kind = draw(st.sampled_from(["int", "slice", "slice", "step", "all"]))
    if kind == "int" and n:
        return str(draw(st.integers(-n, n - 1)))
    if kind == "all" or not n:
        return ":"
    start, stop = draw(st.integers(0, n - 1)), draw(st.integers(0, n))
    return f"{start}:{max(stop, start + 1)}" if kind == "slice" else draw(st.sampled_from(["::-1", "::2", "1::2"]))


def subscript(draw, shape):
    return ", ".join(index(draw, n) for n in shape[: draw(st.integers(1, len(shape)))])


def view(draw, name, a):
    """Draw an expression that shows a part of `a`."""
    ways = [f"{name}[{subscript(draw, a.shape)}]", f"{name}.T", f"{name}.reshape(-1)", f"{name}.ravel()",
            f"{name}[None]", f"{name}[...]", f"np.flip({name})"]  # fmt: skip
    if a.ndim > 1:
        ways += [f"np.swapaxes({name}, 0, 1)", f"{name}.reshape({a.size}, 1)[:, 0]"]
    return draw(st.sampled_from(ways))


def term(draw, scope, shape):
    """Draw an expression that broadcasts to `shape` and stays of moderate size."""
    fitting = [n for n, a in scope.items() if np.ndim(a) <= len(shape) and fits(np.shape(a), shape)]
    name = draw(st.sampled_from(fitting)) if fitting else "x[0, 1]"
    return draw(
        st.sampled_from([name, f"np.sin({name})", f"0.5 * {name}", "1.5", "x[1, 2]", f"np.cos({name}) * x[2, 0]"])
    )


def fits(shape, target):
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def statement(draw, scope, count):
    """Draw one line."""
    arrays = [n for n, a in scope.items() if np.ndim(a) and np.size(a)]
    name = draw(st.sampled_from(arrays))
    a = scope[name]
    kind = draw(st.sampled_from(["view", "view", "write", "write", "write", "in place", "new", "out", "entry"]))
    if kind == "view":
        return f"v{count} = {view(draw, name, a)}"
    if kind == "new":
        return f"v{count} = np.tanh({name}) + {term(draw, scope, a.shape)}"
    if kind == "in place":
        return f"{name} {draw(st.sampled_from(['+=', '*=', '-=']))} {term(draw, scope, a.shape)}"
    if kind == "out":
        return f"np.add({name}, {term(draw, scope, a.shape)}, out={name})"
    if kind == "entry":
        where = ", ".join(str(draw(st.integers(0, n - 1))) for n in a.shape)
        return f"{name}[{where}] {draw(st.sampled_from(['=', '+=']))} {term(draw, scope, ())}"
    where = subscript(draw, a.shape)
    part = eval(f"{name}[{where}]", {}, scope)
    return f"{name}[{where}] {draw(st.sampled_from(['=', '=', '*=']))} {term(draw, scope, np.shape(part))}"


@st.composite
def programs(draw):
    """Draw a program of up to 12 lines that NumPy runs."""
    x = X.copy()
    scope = {"v0": x * 0.5, "v1": np.sin(x[0])}
    lines = []
    for count in range(2, 2 + draw(st.integers(2, 12))):
        line = statement(draw, scope, count)
        trial = {"np": np, "x": x, **scope}
        with np.errstate(all="raise"):
            try:
                exec(line, trial)
            except (ValueError, FloatingPointError):  # NumPy refuses it
                continue
        scope = {n: a for n, a in trial.items() if n.startswith("v")}
        lines.append(line)
    return lines


def run(lines, x, plain=lambda a: a):
    """Run a program on `x`; return its variables, and what each was after each line."""
    scope = {"np": np, "x": x, "v0": x * 0.5, "v1": np.sin(x[0])}
    history = []
    for line in lines:
        exec(line, scope)
        history.append([np.array(plain(a)) for n, a in sorted(scope.items()) if n.startswith("v")])
    return [a for n, a in sorted(scope.items()) if n.startswith("v")], history


def loss(lines):
    def f(x):
        return sum(np.sum(np.sin(a) * (k + 1)) for k, a in enumerate(run(lines, x, cr.value)[0]))

    return f


def check_values(lines, x):
    """Compare all intermediate values with NumPy's, bit by bit."""
    want = run(lines, X.copy())[1]
    have = run(lines, x, cr.value)[1]
    for line, a, b in zip(lines, have, want, strict=True):
        for p, q in zip(a, b, strict=True):
            np.testing.assert_array_equal(p, q, err_msg=f"after {line!r} of {lines}")


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(programs())
def test_a_random_program_has_numpy_s_values_and_derivatives(lines):
    check_values(lines, cr.Variable(X))
    check_values(lines, cr.Dual(X, DIRECTION))
    f = loss(lines)
    step = 1e-6
    want = (f(X + step * DIRECTION) - f(X - step * DIRECTION)) / (2 * step)
    gradient = cr.grad(f)(X)
    scale = 1 + abs(want)
    assert cr.jvp(f, (X,), (DIRECTION,))[1] == pytest.approx(want, abs=1e-6 * scale), lines
    assert np.sum(gradient * DIRECTION) == pytest.approx(want, abs=1e-6 * scale), lines
    curved = (cr.grad(f)(X + step * DIRECTION) - cr.grad(f)(X - step * DIRECTION)) / (2 * step)
    scale = 1 + np.max(abs(curved))
    np.testing.assert_allclose(cr.hvp(f, X, DIRECTION), curved, rtol=0, atol=1e-5 * scale, err_msg=str(lines))
    twice = cr.grad(lambda x: np.sum(cr.grad(f)(x) * DIRECTION))(X)
    np.testing.assert_allclose(twice, curved, rtol=0, atol=1e-5 * scale, err_msg=str(lines))
