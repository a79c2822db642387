"""Passes: what they leave of a program, and that what is left gives the same bits."""

import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.batched import Plain
from chainrule.engine.indexing import getitem, put, scatter
from chainrule.engine.rule import RULES
from chainrule.engine.spec import cast_to, choose, real_part, spread_to, sum_to
from chainrule.errors import ChainruleError
from chainrule.program.ir import Equation, Guard, GuardFailed, Program, Symbol, form, interpret, verify
from chainrule.program.loops.ir import Block, Loop
from chainrule.program.passes import optimise
from chainrule.program.passes.algebra import algebra
from chainrule.program.passes.common import common, key_of
from chainrule.program.passes.dead import dead
from chainrule.program.passes.folding import folding
from chainrule.program.passes.liveness import aliases, lifetimes
from chainrule.program.passes.sharing import may_share
from chainrule.program.record import record, recording
from chainrule.testing.samples import all_samples, policy_samples

rng = np.random.default_rng(5)


# -- programs by hand --------------------------------------------------------------------------------------------------


def program_of(f, *points):
    """Return the program of a function that is run on plain values and writes calls with `Writer.call`."""
    made = Writer(points)
    made.program.outputs = list(f(made, *made.program.inputs))
    return verify(made.program)


class Writer:
    """Writes a program call by call; the values of the inputs say what the shapes and dtypes are."""

    def __init__(self, points):
        self.program, self.values = Program(), {}
        for x in points:
            self.program.inputs.append(self.symbol(x))

    def symbol(self, x):
        s = self.program.symbol(x)
        self.values[s] = x
        return s

    def constant(self, x, fixed=True):
        s = Symbol(f"c{len(self.program.constants) + 1}", *form(x))
        self.program.constants[s] = self.values[s] = x
        if fixed:
            self.program.fixed.add(s)
        return s

    def call(self, fun, *xs, plain=False, **params):
        e = Equation(Plain(fun) if plain else RULES[fun], xs, params, None)
        alone = Program(equations=[e], constants=self.values)
        e.output = Symbol("y")
        alone.outputs = [e.output]
        with np.errstate(all="ignore"):
            e.output = self.symbol(interpret(alone, [])[0])
        self.program.equations.append(e)
        return e.output

    def guard(self, s, how, seen):
        self.program.equations.append(Guard(s, how, seen))


def lines(program):
    """Write equations as text without hints: ``v3 = multiply(v1, 2)``."""
    found = []
    for text in str(program).split("\n")[1:]:
        text = text.strip().split("  #")[0].strip()
        if " = captured" in text:
            continue
        name, _, right = text.partition(": ")
        right = right.partition(" = ")[2]
        fun, bracket, arguments = right.partition("(")
        found.append(f"{name} = {fun.rpartition('.')[2]}{bracket}{arguments}" if right else text)
    return found


V, W, M = np.array([1.0, -2.0, 0.5]), np.array([0.3, 2.0, -0.0]), np.arange(6.0).reshape(2, 3)
DOUBLE = np.dtype(float)
X32 = np.array([1.0, -2.5], np.float32)


@pytest.mark.parametrize(
    ("write", "points", "expected"),
    [
        (lambda p, x: [p.call(np.multiply, p.call(np.sin, x), 1.0)], [V], ["v2 = sin(v1)", "return v2"]),
        (lambda p, x: [p.call(np.multiply, 1, p.call(np.sin, x))], [V], ["v2 = sin(v1)", "return v2"]),
        (lambda p, x: [p.call(np.divide, p.call(np.sin, x), 1)], [V], ["v2 = sin(v1)", "return v2"]),
        (lambda p, x: [p.call(np.subtract, x, 0.0)], [V], ["return v1"]),
        (lambda p, x: [p.call(np.subtract, x, -0.0)], [V], ["v2 = subtract(v1, -0.0)", "return v2"]),
        (lambda p, x: [p.call(np.add, x, 0.0)], [V], ["v2 = add(v1, 0.0)", "return v2"]),
        (lambda p, x: [p.call(np.add, x, -0.0)], [V], ["return v1"]),
        (lambda p, x: [p.call(np.multiply, x, 0.0)], [V], ["v2 = multiply(v1, 0.0)", "return v2"]),
        (lambda p, x: [p.call(np.power, x, 1)], [V], ["return v1"]),
        (lambda p, x: [p.call(np.power, x, 2)], [V], ["v2 = multiply(v1, v1)", "return v2"]),
        (lambda p, x: [p.call(np.power, x, 2)], [0.3], ["v2 = power(v1, 2)", "return v2"]),  # Python's own power
        (lambda p, x: [p.call(np.power, x, 3)], [V], ["v2 = power(v1, 3)", "return v2"]),
        (lambda p, x: [p.call(np.multiply, x, -1)], [V], ["v2 = negative(v1)", "return v2"]),
        (lambda p, x: [p.call(np.multiply, np.float64(-1), x)], [V], ["v2 = negative(v1)", "return v2"]),
        (lambda p, x: [p.call(np.negative, p.call(np.negative, x))], [V], ["return v1"]),
        (lambda p, x: [p.call(np.positive, x)], [V], ["return v1"]),
        (lambda p, x: [p.call(np.conjugate, x)], [V], ["return v1"]),
        (lambda p, x: [p.call(np.conjugate, x)], [V + 1j], ["v2 = conjugate(v1)", "return v2"]),
        (lambda p, x, y: [p.call(np.add, x, p.call(np.negative, y))], [V, W], ["v4 = subtract(v1, v2)", "return v4"]),
        (lambda p, x, y: [p.call(np.add, p.call(np.negative, x), y)], [V, W], ["v4 = subtract(v2, v1)", "return v4"]),
        (lambda p, x, y: [p.call(np.subtract, x, p.call(np.negative, y))], [V, W], ["v4 = add(v1, v2)", "return v4"]),
        (lambda p, x: [p.call(np.multiply, p.call(np.negative, x), 2.0)], [V],
         ["v3 = multiply(v1, -2.0)", "return v3"]),
        (lambda p, x: [p.call(np.negative, p.call(np.divide, 3, x))], [V], ["v3 = divide(-3, v1)", "return v3"]),
        (
            lambda p, x, y: [p.call(np.multiply, p.call(np.negative, x), p.call(np.negative, y))],
            [V, W],
            ["v5 = multiply(v1, v2)", "return v5"],
        ),
        (  # an int has no -0: (-x) * 0 is not x * 0
            lambda p, x: [p.call(np.multiply, p.call(np.negative, x), 0)],
            [V],
            ["v2 = negative(v1)", "v3 = multiply(v2, 0)", "return v3"],
        ),
        # dtypes: a float64 scalar beside float32 makes float64
        (lambda p, x: [p.call(np.multiply, x, 1.0)], [X32], ["return v1"]),
        (lambda p, x: [p.call(np.multiply, x, np.float64(1))], [X32],
         ["v2 = multiply(v1, np.float64(1.0))", "return v2"]),
        (lambda p, x: [p.call(np.multiply, x, True)], [V], ["v2 = multiply(v1, True)", "return v2"]),
        (lambda p, x: [p.call(np.multiply, x, 1.0)], [V + 1j], ["v2 = multiply(v1, 1.0)", "return v2"]),  # inf * 0
        (lambda p, x: [p.call(np.multiply, x, np.float64(1))], [2.0],
         ["v2 = multiply(v1, np.float64(1.0))", "return v2"]),
        (lambda p, x: [p.call(np.multiply, x, 1)], [2.0], ["return v1"]),
        # an input of no shape may be a 0-d array, and a product of it is none
        (lambda p, x: [p.call(np.multiply, x, 1)], [np.float64(2)], ["v2 = multiply(v1, 1)", "return v2"]),
        # an input may have gaps in memory, on which np.exp may round otherwise
        (
            lambda p, x: [p.call(np.exp, p.call(np.multiply, x, 1))],
            [V],
            ["v2 = multiply(v1, 1)", "v3 = exp(v2)", "return v3"],
        ),
        # movements
        (lambda p, x: [p.call(np.transpose, p.call(np.transpose, x))], [M], ["return v1"]),
        (
            lambda p, x: [p.call(np.transpose, p.call(np.transpose, x, axes=(1, 2, 0)), axes=(0, 2, 1))],
            [M[None]],
            ["v3 = transpose(v1, axes=(1, 0, 2))", "return v3"],
        ),
        (lambda p, x: [p.call(np.swapaxes, p.call(np.transpose, x), axis1=0, axis2=1)], [M], ["return v1"]),
        (lambda p, x: [p.call(np.reshape, p.call(np.reshape, x, shape=(3, 1)), shape=(3,))], [V], ["return v1"]),
        (lambda p, x: [p.call(np.reshape, x, shape=(2, 3))], [M], ["return v1"]),
        (  # not if the first one may copy
            lambda p, x: [p.call(np.reshape, p.call(np.reshape, x, shape=(6,)), shape=(2, 3))],
            [M],
            ["v2 = reshape(v1, shape=(6,))", "v3 = reshape(v2, shape=(2, 3))", "return v3"],
        ),
        (lambda p, x: [p.call(sum_to, x, shape=(3,))], [V], ["return v1"]),
        (lambda p, x: [p.call(spread_to, x, shape=(3,))], [V], ["return v1"]),
        (lambda p, x: [p.call(np.broadcast_to, x, shape=(3,))], [V], ["return v1"]),
        (lambda p, x: [p.call(cast_to, x, dtype=np.dtype(float))], [V], ["return v1"]),
        (lambda p, x: [p.call(real_part, x)], [V], ["return v1"]),
        (
            lambda p, x: [p.call(cast_to, p.call(cast_to, x, dtype=np.dtype(float)), dtype=np.dtype(np.float16))],
            [X32],
            ["v3 = cast_to(v1, dtype=dtype('float16'))", "return v3"],
        ),
        (  # a narrower one on the way rounds
            lambda p, x: [p.call(cast_to, p.call(cast_to, x, dtype=np.dtype("f4")), dtype=np.dtype(float))],
            [V],
            ["v2 = cast_to(v1, dtype=dtype('float32'))", "v3 = cast_to(v2, dtype=dtype('float64'))", "return v3"],
        ),
        (
            lambda p, x, y: [p.call(np.multiply, p.call(spread_to, y, shape=(3,)), x)],
            [V, np.float64(2)],
            ["v4 = multiply(v2, v1)", "return v4"],
        ),
        (  # a Python float that was spread is float64, and no weak number
            lambda p, x, y: [p.call(np.multiply, p.call(spread_to, y, shape=(2,)), x)],
            [X32, 2.0],
            ["v3 = spread_to(v2, shape=(2,))", "v4 = multiply(v3, v1)", "return v4"],
        ),
        # parts
        (
            lambda p, x, v: [p.call(getitem, p.call(put, x, v, index=slice(0, 2)), index=slice(0, 2))],
            [V, W[:2]],
            ["return v2"],
        ),
        (
            lambda p, x, v: [p.call(getitem, p.call(put, x, v, index=slice(0, 2)), index=slice(1, 3))],
            [V, W[:2]],
            ["v3 = put(v1, v2, index=0:2)", "v4 = getitem(v3, index=1:3)", "return v4"],
        ),
        (
            lambda p, x, v, w: [p.call(put, p.call(put, x, v, index=0), w, index=0)],
            [V, np.float64(1), np.float64(2)],
            ["v5 = put(v1, v3, index=0)", "return v5"],
        ),
        (
            lambda p, v, w: [p.call(np.add, *[p.call(scatter, u, index=1, shape=(3,), dtype=DOUBLE) for u in (v, w)])],
            [np.float64(1), np.float64(2)],
            ["v6 = add(v1, v2)", "v5 = scatter(v6, index=1, shape=(3,), dtype=dtype('float64'))", "return v5"],
        ),
        (  # an index that may name an entry twice
            lambda p, x, v: [p.call(getitem, p.call(put, x, v, index=[0, 0]), index=[0, 0])],
            [V, W[:2]],
            ["v3 = put(v1, v2, index=[0, 0])", "v4 = getitem(v3, index=[0, 0])", "return v4"],
        ),
        # choices
        (lambda p, x: [p.call(choose, p.constant(np.ones(3, bool)), x)], [V], ["return v1"]),
        (lambda p, x: [p.call(choose, True, x)], [V], ["return v1"]),
        (
            lambda p, x: [p.call(choose, p.constant(np.ones(3, bool), fixed=False), x)],
            [V],
            ["v2 = choose(c1, v1)", "return v2"],
        ),
        (lambda p, m, x: [p.call(np.where, m, x, x)], [V > 0, V], ["return v2"]),
    ],
)  # fmt: skip
def test_algebra(write, points, expected):
    program = program_of(write, *points)
    found = optimise(program)
    assert lines(verify(found)) == expected
    assert check(program, list(points)) > 3


def test_names_of_the_user_are_kept():
    def f(x):
        scaled = np.sin(x) * 1.0  # the sine has no name: it gets that of what it stands for
        other = scaled * 1.0
        return other * other

    assert [e.output.hint for e in optimise(record(f)(V)).equations] == ["scaled", None]


def test_calls_without_derivative_are_left_as_they_are():
    program = program_of(lambda p, x: [p.call(np.multiply, x, 1.0, plain=True)], V)
    assert algebra(program) is program


def test_dead_code_goes_and_guards_stay():
    def write(p, x, y):
        a, b = p.call(np.sin, x), p.call(np.cos, y)
        c = p.call(np.greater, y, 0.0, plain=True)
        p.guard(c, "bool", True)
        p.call(np.multiply, b, p.constant(V))
        return [a]

    found = dead(program_of(write, 1.0, 2.0))
    assert lines(found) == ["v3 = sin(v1)", "v5 = greater(v2, 0.0)", "guard bool(v5) is True", "return v3"]
    assert not found.constants
    assert not found.fixed
    assert dead(found) is found


def test_an_output_of_several_keeps_its_call():
    f = lambda a: np.linalg.qr(a)[1] * 1.0
    program = optimise(record(f)(np.eye(2)))
    assert len(program.equations) <= 2
    assert_same_bits(interpret(program, [M[:, :2]]), interpret(record(f)(np.eye(2)), [M[:, :2]]))


def test_common_calls_are_made_once():
    def write(p, x):
        a, b = p.call(np.sin, x), p.call(np.sin, x)
        c, d = p.call(np.multiply, a, 2.0), p.call(np.multiply, 2.0, b)
        e, f = p.call(getitem, c, index=slice(1, None)), p.call(getitem, d, index=slice(1, None))
        return [e, f]

    assert lines(dead(common(program_of(write, V)))) == [
        "v2 = sin(v1)", "v4 = multiply(v2, 2.0)", "v6 = getitem(v4, index=1:)", "return v6, v6",
    ]  # fmt: skip


def test_keys_tell_numbers_apart_by_type_and_by_bits():
    different = [
        1, 1.0, True, np.float32(1), np.float64(1), np.int64(1), 1 + 0j, complex(1, -0.0), 0.0, -0.0, 0, False, None,
        "1", np.inf, np.nan, slice(0, 1), slice(0, 1.0), (1,), [1], (1.0,), Ellipsis, float, DOUBLE, np.sin, np.cos,
        np.array([0.0]), np.array([-0.0]), np.array([0]), np.zeros((2, 2)), np.zeros((2, 2), order="F"), np.arange(40),
    ]  # fmt: skip
    keys = [key_of(x) for x in different]
    assert len(set(keys)) == len(different)
    assert key_of(float("nan")) == key_of(float("nan"))
    assert key_of((slice(1, None), np.arange(40))) == key_of((slice(1, None), np.arange(40)))


def test_calls_with_and_without_derivative_are_not_one():
    program = program_of(lambda p, x: [p.call(np.sin, x), p.call(np.sin, x, plain=True)], V)
    assert common(program) is program


def test_complex_products_keep_the_order_of_their_operands():
    program = program_of(lambda p, x, y: [p.call(np.multiply, x, y), p.call(np.multiply, y, x)], V + 1j, W - 2j)
    assert common(program) is program


def test_a_question_asked_twice_is_asked_once():
    def write(p, x):
        for _ in range(2):
            p.guard(p.call(np.greater, x, 0.0, plain=True), "bool", True)
        return [x]

    assert lines(optimise(program_of(write, 1.0))) == ["v2 = greater(v1, 0.0)", "guard bool(v2) is True", "return v1"]


def test_calls_on_constants_are_made_once_and_for_all():
    def write(p, x):
        a = p.call(np.multiply, p.call(np.sin, 0.5), 2.0)
        b = p.call(np.multiply, p.constant(V), 3.0)
        return [p.call(np.multiply, x, a), p.call(np.dot, x, b)]

    found = optimise(program_of(write, V))
    assert [e.rule.name for e in found.equations] == ["numpy.multiply", "numpy.dot"]
    assert [c.tolist() for c in found.constants.values()] == [(V * 3.0).tolist()]
    assert found.fixed == set(found.constants)
    verify(found)


def test_arrays_of_the_user_are_not_read():
    def write(p, x):
        c = p.constant(np.ones(3), fixed=False)
        return [p.call(np.multiply, x, p.call(np.multiply, c, 3.0)), p.call(np.multiply, c, x)]

    program = program_of(write, V)
    assert folding(program) is program
    with recording(np.sin, borrow=True) as made:
        made.operand(V)
    assert not made.program.fixed
    assert list(record(lambda x: x * W)(V).fixed)


def test_large_results_are_not_kept():
    program = program_of(lambda p, x: [p.call(np.add, x, p.call(np.cumsum, p.constant(np.arange(200.0))))], 1.0)
    assert folding(program) is program


def test_an_array_of_one_number_is_that_number():
    write = lambda c: lambda p, x: [p.call(np.multiply, p.constant(c), x)]
    assert lines(optimise(program_of(write(np.full(3, 2.5)), V))) == ["v2 = multiply(2.5, v1)", "return v2"]
    assert lines(optimise(program_of(write(np.ones(3)), V))) == ["return v1"]
    for c in (
        np.array([0.0, -0.0, 0.0]),
        np.array([1.0, 1.0, 2.0]),
        np.full(3, np.nan),
        np.ones(3, "f4"),
        np.ones((1, 3)),
    ):
        assert "c1" in lines(optimise(program_of(write(c), V)))[0]


def test_a_guard_on_a_constant_goes_if_it_holds():
    def write(seen):
        def f(p, x):
            p.guard(p.call(np.greater, 2.0, 1.0, plain=True), "bool", seen)
            return [x]

        return f

    assert lines(optimise(program_of(write(True), 1.0))) == ["return v1"]
    never = optimise(program_of(write(False), 1.0))
    with pytest.raises(GuardFailed):
        interpret(verify(never), [1.0])


def test_the_program_given_is_left_as_it_is():
    program = record(cr.grad(lambda x: np.sum((x * 1.0) ** 2 + (x * 1.0))))(V)
    before = str(program), list(program.constants), program.count
    optimise(program)
    assert (str(program), list(program.constants), program.count) == before


# -- the same bits -----------------------------------------------------------------------------------------------------


def same_bits(a, b):
    """Tell whether two results have one type, shape, dtype, and the same bits but for the sign of NaN."""
    if type(a) is not type(b):
        return False
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same_bits(np.array(a.real), np.array(b.real)) and same_bits(np.array(a.imag), np.array(b.imag))
    if a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    nan, other = np.isnan(a), np.isnan(b)
    alike = (nan & other) | ((a == b) & (np.signbit(a) == np.signbit(b)))
    return bool(alike.all())


def assert_same_bits(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert same_bits(a, b), (a, b)


def run(program, points):
    """Return the outputs of a program, or the type of what it raises."""
    with np.errstate(all="ignore"):
        try:
            return interpret(program, points)
        except Exception as error:
            return type(error)


def variants(xs, special=(0.0, -0.0, np.inf, np.nan)):
    """Iterate over points of the same shapes and dtypes: others near by, and some with every second entry special."""
    yield xs
    yield [x * x.__class__(0.93) if x.__class__ is not np.ndarray else (x * 0.93).astype(x.dtype) for x in xs]
    for value in special:
        found = []
        for x in xs:
            if x.__class__ is np.ndarray:
                x = x.copy()
                if x.dtype.kind in "fc" and x.size:
                    x.reshape(-1)[::2] = value
            elif not isinstance(x, int | np.integer):
                x = type(x)(value)
            found.append(x)
        yield found


def check(program, xs, **options):
    """Check that a program and what the passes leave of it give the same bits; return how often there was a result."""
    found = verify(optimise(program))
    assert len(found.equations) <= len(program.equations)
    results = 0
    for points in variants(xs, **options):
        expected = run(program, points)
        if isinstance(expected, list):
            assert_same_bits(run(found, points), expected)
            results += 1
    return results


def inexact_outputs(f):
    """Return a function of arrays to the tuple of all of its results that are floats."""

    def g(*xs):
        y = f(*xs)
        ys = tuple(y) if isinstance(y, tuple | list) else (y,)
        return tuple([v for v in ys if getattr(v, "dtype", np.dtype(type(v))).kind in "fc"])

    return g


def program_or_none(f, xs, **options):
    """Return the program of a function; None if it takes no operands of this dtype, or has no derivative there."""
    try:
        with np.errstate(all="ignore"):
            return record(f, **options)(*xs)
    except (ChainruleError, TypeError, ValueError, ArithmeticError):
        return None


def weighted(g):
    """Return a real function of all results: their sum with different weights."""

    def h(*xs):
        total = 0.0
        for y in g(*xs):
            w = np.cos(np.arange(np.size(y))).reshape(np.shape(y))
            s = np.sum(y * w)
            total = total + (s.real if s.dtype.kind == "c" else s)
        return total

    return h


SAMPLES = [s for s in all_samples() + policy_samples() if not s.error]


@pytest.mark.filterwarnings("ignore")  # NumPy's, of overflows, and of np.interp of complex numbers
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("part", range(8))
def test_every_function_and_its_gradient_keep_their_bits(part, dtype):
    """At the sample's point, at one beside it, and at 0.0, -0.0, inf and NaN (where some of SciPy's never end)."""
    recorded = checked = 0
    for sample in sorted(SAMPLES, key=str)[part::8]:
        if not sample.accepts(dtype):
            continue
        xs = sample.operands(dtype)
        g = inexact_outputs(sample.function())
        special = () if str(sample).startswith("scipy") else (0.0, -0.0, np.inf, np.nan)
        for f in (g, cr.grad(weighted(g), argnums=tuple(range(len(xs))))):
            program = program_or_none(f, xs)
            if program is None:
                continue
            recorded += 1
            checked += check(program, xs, special=special) > 0
    assert recorded > 60
    assert checked > 0.95 * recorded


def fill(x):
    y = np.zeros(4, like=x)
    y[0] = x[0]
    for k in range(1, 4):
        y[k] = np.sin(y[k - 1]) * x[k]
    y[1:3] = y[2:4] * 2.0
    return np.sum(y)


def branch(x):
    total = 0.0
    for k in range(4):
        total = total + (x[k] * 2 if x[k] > 0 else np.exp(x[k]) * 1.0)
    return total


def masks(x):
    y = np.where(x > 0, x, -0.5 * x) * np.maximum(x, 0.1) + np.clip(x, -1, 1) ** 2
    return np.sum(y[::2]) + x[np.argmax(x)] + np.max(x) - np.abs(x).sum()


def matrices(x):
    a = x.reshape(2, 2)
    return np.sum((a @ a.T).T.reshape(4) * 1.0) + np.trace(a.T.T) + np.sum(np.mean(a, axis=0) - (-a) / 1)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def logistic(w, x, y):
    z = x @ w
    return np.mean(np.logaddexp(0, z) - y * z) + 0.01 * np.sum(w * w)


def network(p, x, y):
    h = np.tanh(x @ p["w1"] + p["b1"])
    o = h @ p["w2"] + p["b2"]
    return np.mean((o - y) ** 2)


FOUR = np.array([0.3, -0.7, 1.9, 0.4])


@pytest.mark.parametrize("f", [fill, branch, masks, matrices, rosenbrock], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        cr.grad,
        cr.hessian,
        lambda f: lambda x: cr.jvp(f, (x,), (FOUR,)),
        lambda f: cr.grad(lambda x: np.sum(cr.grad(f)(x) ** 2)),
        lambda f: lambda x: cr.vmap(cr.grad(f))(np.stack([x, x * 0.9])),
    ],
    ids=["itself", "grad", "hessian", "jvp", "grad-of-grad", "vmap"],
)
def test_loops_writes_and_branches_keep_their_bits(transform, f):
    with np.errstate(all="ignore"):
        program = record(transform(f))(FOUR)
    assert check(program, [FOUR]) >= 2
    other = optimise(program)
    assert_same_bits(run(other, [FOUR * 0.5]), run(program, [FOUR * 0.5]))


def test_arrays_with_gaps_and_by_columns_keep_their_bits():
    """How an array lies in memory decides in which order NumPy adds up, and which of its loops runs."""

    def f(x, y):
        a = (x * 1.0).reshape(-1) ** 1
        b = np.exp((y - 0) * np.ones((30, 20))) + np.broadcast_to(np.sum(x), (30, 20)) * (1.0 * y)
        return np.sum(a), np.sum(b), np.sum((x**1).T.T), np.exp(x[::2] * 1), np.sum(np.sin(x * 1), axis=0) + (-y)[0]

    big = rng.normal(size=(60, 40))
    for x in (big[:30, :20], big[::2, ::2], np.asfortranarray(big)[:30, 20:], big.T[:30, :20], big[::-2, ::-2]):
        program = record(f)(x, x)
        found = optimise(program)
        assert len(found.equations) < len(program.equations)
        for points in ([x, x], [x, big[:30, :20]], [big[:30, :20], x]):
            assert_same_bits(interpret(found, points), interpret(program, points))


def test_inputs_of_no_shape_keep_their_types():
    f = lambda x: (x * 1, x**1, np.negative(-x), np.sum(x) * 1.0, x - 0)
    for recorded in (2.0, np.float64(2), np.float32(2), np.array(2.0)):
        program = record(f)(recorded)
        found = optimise(program)
        points = (recorded,) if isinstance(recorded, float | np.float32) else (np.float64(3), np.array(3.0))
        for x in points[:1] if type(recorded) is float else points:
            assert_same_bits(interpret(found, [x]), interpret(program, [x]))


# -- counts and costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "args", "most"),
    [
        (rosenbrock, (rng.normal(size=10),), 16),
        (lambda x: x - np.exp(-2 * np.sin(4 * x) ** 2), (0.3,), 12),
        (logistic, (V, rng.normal(size=(5, 3)), np.ones(5)), 10),
        (
            network,
            ({"w1": np.ones((4, 8)), "b1": V[0], "w2": np.ones((8, 2)), "b2": V[1]}, np.ones((6, 4)), np.ones((6, 2))),
            19,
        ),
    ],
    ids=["rosenbrock", "x - exp(-2 sin(4x)**2)", "logistic", "network"],
)  # fmt: skip
def test_a_gradient_has_no_more_equations_than_one_by_hand(f, args, most):
    assert len(optimise(record(cr.grad(f))(*args)).equations) <= most


def test_long_programs_take_work_in_proportion():
    """No recursion, no squares: four times the equations take four times the calls."""

    def f(x, steps):
        for k in range(steps):
            x = np.sin(x) * 1.0 + (-x) * (k % 3)
        return np.sum(x)

    def counted(frame, event, arg):
        calls[-1] += event.endswith("call")

    calls = []
    for steps in (300, 1200):
        program = record(cr.grad(lambda x, steps=steps: f(x, steps)))(V)
        calls.append(0)
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            found = optimise(program)
        finally:
            sys.setprofile(before)
        assert len(found.equations) < 0.7 * len(program.equations)
    assert calls[0] > 1000
    assert calls[1] < 4.4 * calls[0]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_views_stand_for_their_base():
    def f(x, i):
        row = x[0]
        part = row[1:]
        taken = x[[0, 1]]
        number = row[1]
        flat = np.reshape(x.T, -1)
        return np.sum(part * taken[0, 1:] + number) + flat[0] + i

    program = record(f)(M, 1.0)
    base = aliases(program)
    x, i = program.inputs
    by_hint = {s.hint: s for s in base}
    assert base[x] is x
    assert base[by_hint["row"]] is base[by_hint["part"]] is base[by_hint["flat"]] is x
    for name in ("taken", "number", "i"):
        assert base[by_hint[name]] is by_hint[name], name
    last = lifetimes(program)
    k = next(k for k, e in enumerate(program.equations) if by_hint["flat"] in e.reads)
    assert last[x] == last[by_hint["row"]] == last[by_hint["part"]] == k
    assert last[by_hint["number"]] < k
    assert last[program.outputs[0]] == len(program.equations)


def test_a_view_keeps_its_base_in_use():
    """The write may not be made in place: the slice of what is written to is read after it."""

    def write(p, x):
        y = p.call(np.sin, x)
        t = p.call(getitem, y, index=slice(0, 2))
        z = p.call(put, y, 5.0, index=0)
        return [p.call(np.sum, t), p.call(np.sum, z)]

    program = program_of(write, V)
    y, t, z, first, second = [e.output for e in program.equations]
    assert lifetimes(program) == {program.inputs[0]: 0, y: 3, t: 3, z: 4, first: 5, second: 5}
    assert aliases(program)[t] is y
    assert aliases(program)[z] is z


def test_results_and_unused_values():
    program = program_of(lambda p, x, y: [x, p.call(np.negative, p.call(np.transpose, x))], M, 1.0)
    x, y = program.inputs
    t, negative = [e.output for e in program.equations]
    assert lifetimes(program) == {x: 2, t: 2, negative: 2, y: -1}


def test_what_a_function_of_the_user_returns_may_be_its_operand():
    @cr.custom_vjp
    def same(x):
        return x

    same.defvjp(lambda ybar, y, x: (ybar,))
    program = record(lambda x: same(x) * 2.0)(V)
    assert may_share(program.equations[0])


@pytest.mark.filterwarnings("ignore")  # for np.interp of complex numbers
@pytest.mark.parametrize("part", range(4))
def test_every_function_that_shares_memory_is_known(part):
    """For all samples: where NumPy says that a result lies in the memory of an operand, the table says that it may."""
    calls = 0
    for sample in sorted(SAMPLES, key=str)[part::4]:
        for dtype in ("float64", "complex128"):
            if not sample.accepts(dtype):
                continue
            program = program_or_none(inexact_outputs(sample.function()), sample.operands(dtype), values=True)
            if program is None:
                continue
            values = dict(program.constants)
            values.update(zip(program.inputs, program.points, strict=True))
            for e in program.equations:
                if e.__class__ is Guard:
                    continue
                several = isinstance(e.output, tuple)
                for s, y in zip(e.output if several else (e.output,), e.value if several else (e.value,), strict=True):
                    if s is not None:
                        values[s] = y
                        if any(np.shares_memory(y, values[x]) for x in e.reads):
                            assert may_share(e), e.rule.name
                        calls += 1
    assert calls > 300


def test_what_a_loop_gives_may_be_what_it_began_with():
    x, y = Symbol("x", (3,), DOUBLE), Symbol("y", (3,), DOUBLE)
    inside = Symbol("s", (3,), DOUBLE)
    loop = Loop([Block([], [])], [inside], [x], (y,), [0], count=0)
    program = Program([x], [loop], [y])
    assert aliases(program)[y] is aliases(program)[x]
    assert lifetimes(program)[x] == 1
