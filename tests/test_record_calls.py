"""Calls with a rule of their own, batches, checkpoints and writes, recorded: the programs hold at other points."""

import math

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConversionError
from chainrule.program.ir import interpret, verify
from chainrule.program.record import finished, recording
from chainrule.program.tracing import Opaque, Tracer

X = np.array([0.4, -1.2, 2.0])
OTHERS = [np.array([-0.3, 0.8, 1.1]), np.array([2.0, -0.5, -0.7])]


def recorded(f, *xs):
    """Return the program of `f` as `compile` records it: through calls with rules, captured arrays by reference."""
    with recording(f, asks="guard", through=True, borrow=True) as made:
        program, boxes = made.program, []
        for x in xs:
            program.inputs.append(program.symbol(x))
            boxes.append(Tracer(x, program.inputs[-1], made.level))
        finished(program, f(*boxes), f, made.level)
    return verify(program)


def holds(f, x=X, others=OTHERS, guards=0):
    """Assert that the programs of a function of one array and of its derivatives hold at other points."""
    loss = lambda x: np.sum(f(x) * np.cos(1 + np.arange(np.size(f(x)))).reshape(np.shape(f(x))))
    v = np.sin(1 + np.arange(np.size(x))).reshape(np.shape(x))
    derived = [
        f, cr.value_and_grad(loss), lambda x: cr.jvp(f, (x,), (v,)),
        lambda x: cr.jvp(cr.grad(loss), (x,), (v,))[1], cr.grad(lambda x: np.sum(cr.grad(loss)(x) * v)),
    ]  # fmt: skip
    for g in derived:
        program = recorded(g, x)
        assert len(program.guards) <= guards, [str(p) for p in program.guards]
        for at in others:
            found, expected = interpret(program, [at]), cr.tree.flatten(g(at))[0]
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return program


def opaque_calls(program):
    """Return the equations that stand for whole calls."""
    return [e for e in program.equations if isinstance(getattr(e, "rule", None), Opaque)]


# -- calls with rules --------------------------------------------------------------------------------------------


def test_custom_vjp_is_gone_through():
    @cr.custom_vjp
    def f(x, a):
        return np.exp(x * a["k"]) + 1

    f.defvjp(lambda ybar, y, x, a: (ybar * (y - 1) * a["k"], {"k": None}))
    program = holds(lambda x: f(x, {"k": 0.5}) * x)
    assert not opaque_calls(program)


def test_custom_vjp_of_two_parts():
    @cr.custom_vjp
    def f(x):
        return np.sin(x) * x

    f.defvjp(
        lambda x: (np.sin(x) * x, (x, np.cos(x))), lambda kept, ybar: (ybar * (np.sin(kept[0]) + kept[0] * kept[1]),)
    )
    assert not opaque_calls(holds(f))


def test_custom_jvp_is_gone_through():
    @cr.custom_jvp
    def f(x):
        return np.tanh(x), np.sum(x * x)

    f.defjvp(lambda dots, y, x: (dots[0] * (1 - y[0] ** 2), np.sum(2 * x * dots[0])))
    assert not opaque_calls(holds(lambda x: f(x)[0] * f(x)[1]))


def test_a_rule_differs_from_the_function_it_belongs_to():
    @cr.custom_vjp
    def straight_through(x):
        return np.round(x)

    straight_through.defvjp(lambda ybar, y, x: (ybar,))
    g = lambda x: np.sum(straight_through(x) * x)
    for at in OTHERS:
        np.testing.assert_allclose(interpret(recorded(cr.grad(g), X), [at])[0], np.round(at) + at, rtol=1e-14)


def test_a_function_of_plain_numbers_only_is_one_equation():
    erf = cr.extend.rule(
        np.vectorize(math.erf, otypes=[float]), partials=lambda y, x: 2 / math.sqrt(math.pi) * np.exp(-x * x)
    )
    holds(lambda x: erf(x) * x)


def test_a_black_box_with_a_rule_is_one_equation_and_its_constants_are_read_anew():
    w = np.array([1.0, 2.0, 3.0])

    @cr.custom_vjp
    def f(x, w):
        return np.array([math.exp(a) * b for a, b in zip(x.tolist(), w, strict=True)])

    f.defvjp(lambda ybar, y, x, w: (ybar * y, ybar * np.exp(x)))
    g = lambda x: f(x, w) * x
    for h in (g, cr.grad(lambda x: np.sum(g(x)))):
        program = recorded(h, X)
        assert len(opaque_calls(program)) == 1
        assert not program.guards
        w[0] += 1.0  # read anew, as any array from outside
        for at in OTHERS:
            np.testing.assert_allclose(interpret(program, [at])[0], h(at), rtol=1e-14)


def test_what_the_tape_keeps_of_an_array_from_outside_is_that_array():
    for size in (3, 4096):  # a small array is copied when the tape keeps it, a large one is shown by a view
        w, x = np.cos(np.arange(size)), np.sin(np.arange(size))
        f = cr.grad(lambda x, w=w: np.sum(np.sin(x * w)))
        program = recorded(f, x)
        assert len(program.constants) == 1
        w[0] = 9.0
        np.testing.assert_allclose(interpret(program, [x])[0], f(x), rtol=1e-14)


def test_extended_rules_of_several_operands():
    def plain(a, b):
        return np.asarray(a, float) * np.asarray(b, float) ** 2

    f = cr.extend.rule(plain, vjp=lambda ybar, y, a, b: (ybar * b**2, 2 * ybar * a * b))
    holds(lambda x: f(x, x + 1.0))


class Cubed(cr.Function):
    """Leaves its square for the backward pass."""

    def forward(self, x):
        self.square = x * x
        return self.square * x

    def backward(self, ybar):
        return 3 * self.square * ybar


class Scaled(cr.Function):
    """Reads an attribute, and its input."""

    def __init__(self, k):
        self.k = k

    def forward(self, x, y):
        return self.k * x * y, np.sum(x)

    def backward(self, zbar, sbar):
        x, y = self.inputs[0].data, self.inputs[1].data
        return self.k * zbar * y + sbar, self.k * zbar * x


def test_functions():
    holds(lambda x: Cubed()(x) + x)


def test_functions_of_several_values():
    holds(lambda x: Scaled(np.array([1.0, 2.0, 3.0]))(x, np.sin(x))[0] * Scaled(2.0)(x, x)[1])


def test_arrays_from_outside_that_a_function_is_given_are_read_anew():
    w = np.array([1.0, 2.0, 3.0])
    f = lambda x: np.sum(Scaled(2.0)(x, w)[0] * x)
    for h in (f, cr.grad(f)):
        program = recorded(h, X)
        w[0] += 1.0
        for at in OTHERS:
            np.testing.assert_allclose(interpret(program, [at])[0], h(at), rtol=1e-14)


def test_what_cannot_be_recorded_says_so():
    @cr.custom_vjp
    def f(x):
        return math.exp(x)

    f.defvjp(lambda x: (math.exp(x), math.exp(x)), lambda kept, ybar: (ybar * kept,))
    assert len(opaque_calls(recorded(f, 0.5))) == 1
    with pytest.raises(ConversionError, match="<lambda>"):
        recorded(cr.grad(f), 0.5)
    assert cr.grad(f)(0.5) == math.exp(0.5)


# -- transforms --------------------------------------------------------------------------------------------------


def test_checkpoint_and_scan():
    w = np.array([0.3, -0.2, 0.5])
    block = cr.checkpoint(lambda x: np.tanh(w * x) * x)
    holds(lambda x: block(block(x)))
    step = lambda s, x: (s * 0.5 + np.sin(x), s * x)
    holds(lambda x: cr.scan(step, 1.0, x)[1])
    holds(lambda x: cr.scan(step, x[0], x, checkpoint=2)[1])


MAPPED = {
    "elementwise": lambda x: np.sin(x) * x,
    "matrix": lambda x: np.outer(x, x) @ x,
    "reductions": lambda x: np.max(x) * np.prod(x) + np.linalg.norm(x),
    "order": lambda x: np.sort(x) * np.argsort(x),
    "choices": lambda x: np.where(x > 0, x * x, np.clip(x, -1, 1)),
    "indices": lambda x: x[np.argmax(x)] * x[[0, 2]],
    "statistics": lambda x: np.median(x) + np.std(x) * np.quantile(x, 0.3),
    "systems": lambda x: np.linalg.solve(np.eye(3) * 4 + np.outer(x, x), x),
    "spectra": lambda x: np.linalg.eigvalsh(np.outer(x, x) + np.diag([1.0, 5.0, 9.0])),
    "running": lambda x: np.cumsum(x) * np.cumprod(x),
    "joining": lambda x: np.concatenate([x, x[::-1]]),
    "gradients": cr.grad(lambda x: np.sum(np.exp(x) * x)),
    "interpolation": lambda x: np.interp(x, [-2.0, 0.0, 2.5], [1.0, 3.0, -1.0]),
}


@pytest.mark.parametrize("name", MAPPED)
def test_batches(name):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-2, 2, (2, 4, 3))
    holds(cr.vmap(MAPPED[name]), a, [b], guards=20 if name == "spectra" else 0)


# -- writes ------------------------------------------------------------------------------------------------------


def entries(x):
    y = x * 1.0
    y[1] = y[0] * x[2]
    y[0] += y[1] ** 2
    return y


def filled(x):
    y = np.zeros(4, like=x)
    y[0] = 1.0
    for k in range(3):
        y[k + 1] = y[k] * np.sin(x[k])
    return y


def views(x):
    y = np.outer(x, x)
    row, turned = y[1], y.T
    row *= 2.0
    turned[0] = x
    y.reshape(-1)[4] = x[0]
    return row + turned[2]


def into(x):
    y = np.empty(3, like=x)
    np.multiply(x, 2.0, out=y)
    np.add(y, x, out=y)
    y -= x[::-1]
    return y


def masked(x):
    y = x * x
    y[x > 0] = 0.0
    y[np.abs(x) > 1.5] = x[0]
    return y


def at_indices(x):
    y = np.zeros(3, like=x)
    order = np.argsort(x)
    y[order] = x * np.arange(3)
    y[np.argmax(x)] += x[0]
    np.add.at(y, [0, 0, 2], x)
    return y


def filled_by_list(x):
    return np.array([x[0], x[1] * x[2], 1.0], like=x) + np.stack([x[2], x[0], x[1]])


def twice_at_one_place(x):
    y = x * 1.0
    y[np.array([0, 0, 1])] = x * np.array([1.0, 2.0, 3.0])
    return y


WRITES = [entries, filled, views, into, masked, at_indices, filled_by_list, twice_at_one_place]


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_writes(f):
    holds(f, guards=8 if f is at_indices else 0)


def test_reading_by_a_mask_holds_while_the_mask_is_the_same():
    f = lambda x: np.sum(x[x > 0] ** 2)
    program = recorded(cr.grad(f), X)
    at = np.array([3.0, -1.0, 0.1])
    np.testing.assert_allclose(interpret(program, [at])[0], [6.0, 0.0, 0.2], rtol=1e-15)


def test_integers_of_a_program_read_plain_arrays():
    table = np.array([1.0, 10.0, 100.0])
    f = lambda x: np.take_along_axis(table, np.argsort(x), 0) * x
    holds(f)
