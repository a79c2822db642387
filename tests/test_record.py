"""A recorded run: its equations, and what is a constant in it."""

from collections import namedtuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.tape import Node
from chainrule.errors import LeakedValueError, NotDifferentiableError
from chainrule.program.ir import Equation, GuardFailed, Symbol, interpret, verify
from chainrule.program.passes.smooth import smooth
from chainrule.program.record import record
from chainrule.program.tracing import Tracer


def lines(program):
    """Write the equations as text: output, function, operands."""
    return [
        (str(e.output), e.rule.name.rpartition(".")[2], *[str(x) for x in e.inputs])
        for e in program.equations
        if e.__class__ is Equation
    ]


def rerun(program, *points):
    """Evaluate a program at other points."""
    return interpret(verify(program), points)


def test_equations_are_the_calls_in_their_order():
    program = record(lambda x, y: x * y + np.sin(x))(1.0, 2.0)
    assert lines(program) == [("v3", "multiply", "v1", "v2"), ("v4", "sin", "v1"), ("v5", "add", "v3", "v4")]
    assert [str(s) for s in program.inputs] == ["v1", "v2"]
    assert [str(s) for s in program.outputs] == ["v5"]


def test_values_are_kept_on_request_only():
    f = lambda x: np.exp(x) * 2.0
    assert [e.value for e in record(f)(0.0).equations] == [None, None]
    program = record(f, values=True)(0.0)
    assert [e.value for e in program.equations] == [1.0, 2.0]
    assert program.points == [0.0]


def test_a_program_computes_what_the_function_does():
    w = np.array([[1.0, -2.0], [0.5, 3.0]])

    def f(x):
        y = w @ x
        y[0] = y[0] * x[1]
        return np.sum(np.exp(y) / (1 + np.exp(y)))

    program = record(f)(np.array([0.3, 0.7]))
    x = np.array([-0.4, 1.1])
    np.testing.assert_allclose(rerun(program, x), [f(x)], rtol=1e-15)


def test_the_program_of_a_gradient_holds_the_backward_pass():
    program = record(cr.grad(lambda x: np.sin(x) * x))(0.5)
    x = 1.3
    np.testing.assert_allclose(rerun(program, x), [np.cos(x) * x + np.sin(x)], rtol=1e-15)


def test_recording_inside_a_gradient_leaves_the_gradient_right():
    programs = []

    def f(t):
        programs.append(record(lambda x: x * t)(2.0))
        return t * t

    assert cr.grad(f)(3.0) == 6.0
    assert lines(programs[0])[0][1] == "multiply"


def test_captured_arrays_are_constants_by_value():
    w = np.array([1.0, 2.0])

    def f(x):
        y = w * x
        z = w * y  # the same array: the same constant
        w[0] = 5.0
        return np.sum(z + w * x)

    program = record(f)(np.array([1.0, 1.0]))
    assert [c.tolist() for c in program.constants.values()] == [[1.0, 2.0], [5.0, 2.0]]
    assert [str(c) for c in program.constants] == ["c1", "c2"]


def test_python_numbers_stay_python_numbers():
    program = record(lambda x, a: (x * x + 2) * a, values=True)(3.0, np.ones(2, np.float32))
    assert type(program.equations[1].value) is float
    assert program.equations[-1].value.dtype == np.float32


def test_arguments_that_are_no_floats_are_constants():
    program = record(lambda x, n, flag: x**n if flag else x)(2.0, 3, True)
    assert len(program.inputs) == 1
    assert program.equations[0].inputs == (program.inputs[0], 3)


def test_containers_in_and_out():
    Point = namedtuple("Point", "x y")
    program = record(lambda p, d: {"a": p.x * d["k"], "b": 1.0})(Point(2.0, 3.0), {"k": np.ones(2)})
    assert len(program.inputs) == 3
    assert [str(y) for y in program.outputs] == ["v4", "1.0"]


def test_a_branch_is_guarded_by_the_answer_it_got():
    f = lambda x: x * 2 if x > 0 else x * 3
    program = record(f)(1.0)
    assert [line[1:] for line in lines(program)] == [("gt", "v1", "0"), ("multiply", "v1", "2")]
    assert rerun(program, 5.0) == [10.0]
    with pytest.raises(GuardFailed):
        rerun(program, -1.0)
    assert rerun(record(f)(-1.0), -2.0) == [-6.0]


def test_masks_and_indices_are_computed_anew():
    f = lambda x: np.sum(np.where(x > 0, x, -2 * x)) + x[np.argmax(x)]
    program = record(cr.grad(f))(np.array([1.0, -2.0, 3.0]))
    np.testing.assert_array_equal(rerun(program, np.array([4.0, 2.0, -3.0]))[0], [2.0, 1.0, -2.0])


def test_smooth_leaves_what_carries_derivatives():
    f = lambda x: np.where(x > 0, x * 2, x * 3)
    program = smooth(record(f, values=True)(np.array([1.0, -1.0])))
    assert [line[1] for line in lines(verify(program))] == ["multiply", "multiply", "where"]
    assert [c.tolist() for c in program.constants.values()] == [[True, False]]


def test_writes_into_a_traced_buffer_are_equations():
    def f(x):
        y = np.zeros(2, like=x)
        y[0] = x[1]
        y[1] = x[0] * y[0]
        return y

    program = record(f)(np.array([2.0, 3.0]))
    assert [line[1] for line in lines(program)].count("put") == 2
    np.testing.assert_array_equal(rerun(program, np.array([5.0, 7.0]))[0], [7.0, 35.0])


def test_composites_appear_as_their_parts():
    names = [line[1] for line in lines(record(lambda x: np.average(x, weights=[1.0, 3.0]))(np.array([1.0, 2.0])))]
    assert "average" not in names
    assert names


def test_no_grad_makes_constants():
    def f(x):
        with cr.no_grad():
            y = x * 2
        return x * y

    program = smooth(record(f, values=True)(3.0))
    assert [line[1:] for line in lines(program)] == [("multiply", "v1", "6.0")]


def test_a_kept_tracer_raises_after_the_run():
    kept = []
    record(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(LeakedValueError, match="after its transform had ended"):
        cr.grad(lambda y: y * kept[0])(2.0)


def test_a_result_without_derivative_is_refused():
    with pytest.raises(NotDifferentiableError, match="returned None"):
        record(lambda x: None)(1.0)


def test_tracer_keeps_no_tape():
    seen = []
    record(lambda x: seen.append(type((x * 2).aux)) or x)(1.0)
    assert seen == [Symbol]
    assert Tracer.__slots__ == ()
    assert Node not in seen


def test_integer_arrays_are_points_of_floats_in_compiled_gradients_too():
    gradient = cr.compile(cr.grad(lambda x: np.sum(x**2 / 4)))
    for x in (np.array([1, 2, 5]), np.array([-1, 0, 7])):
        found = gradient(x)
        assert found.dtype == float
        np.testing.assert_array_equal(found, x / 2)
    assert gradient.stats().traces == 1


def test_text_of_a_recorded_value_is_that_of_the_value():
    seen = []

    def f(x):
        seen.append((f"{x:.1f}", str(x)))
        return x * x

    assert cr.compile(f)(2.0) == 4.0
    assert seen == [("2.0", "2.0")]


@pytest.mark.parametrize("first", [2.0, 1e200])
def test_a_finite_gradient_that_comes_of_an_overflow_is_not_given(first):
    f = lambda x: np.log(x * x)
    gradient = cr.compile(cr.grad(f))
    with np.errstate(over="ignore"):
        for x in (first, 1e200, 2.0, 1e200, 3.0):
            np.testing.assert_equal(gradient(x), cr.grad(f)(x))
