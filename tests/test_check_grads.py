"""check_grads finds what is wrong, says where, and lets pass what is right."""

import re

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientCheckError, NotDifferentiableError
from chainrule.testing.numerical import along, one_sided


class Scaled(cr.Function):
    """sin, with a derivative that is wrong by a factor."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, x):
        return np.sin(x)

    def backward(self, ybar):
        return ybar * self.factor * np.cos(self.input)


def fails(*args, **kwargs):
    """Return the message of the error that check_grads raises."""
    with pytest.raises(GradientCheckError) as info:
        cr.check_grads(*args, **kwargs)
    return re.sub(r"\s+", " ", str(info.value))


@pytest.mark.parametrize(
    "f, args",
    [
        (lambda x, n: np.sin(x) ** n, (np.array([0.3, 1.2]), 3)),
        (lambda x: x.T[::-1], (np.array([[1.0, 2.0], [3.0, 4.0]]),)),
        (lambda p: {"y": p["w"] * p["b"][0], "count": 3, "name": "a"}, ({"w": np.ones((2, 3)), "b": [2.0, 1]},)),
        (lambda x: np.exp(x) * x, (np.array([1 + 2j, 0.5j]),)),
        (lambda x: x * np.cos(x), (np.float32([0.5, 2.0]),)),
        (lambda x: np.log(x), (1e-6,)),
        (lambda x: np.sin(1000 * x), (3.0,)),
        (lambda x: 1e6 + 1e-6 * x, (3.0,)),
        (lambda x: np.sin(x) * x, (np.linspace(0, 1, 500),)),
        (lambda x: x[:0], (np.ones(3),)),
        (lambda x, i: x[i], (np.ones(3), np.array([2, 0]))),
    ],
)
def test_right_derivatives_pass(f, args):
    cr.check_grads(f, args)


def test_third_order_passes():
    cr.check_grads(lambda x: np.sin(x) * x, (0.7,), order=3)


@pytest.mark.parametrize("modes", [("reverse",), ("forward",), ("forward", "reverse")])
def test_a_wrong_factor_is_found_in_each_mode(modes):
    text = fails(lambda x: Scaled(1.001)(x), (np.array([0.3, 1.2]),), order=1, modes=modes)
    assert f"{modes[0]} mode: the derivative of output 0[0] in argument 0[0] is 0.95629" in text
    assert f"differences give {np.cos(0.3):.10g}" in text


def test_the_wrong_entry_is_named_by_its_path():
    def f(p, k):
        return {"a": np.sin(p["w"]) * cr.stop_gradient(p["b"][1])}

    for mode in ("forward", "reverse"):
        text = fails(f, ({"w": np.ones((2, 3)), "b": [4, 2.0]}, 7), order=1, modes=(mode,))
        assert (
            f"{mode} mode: the derivative of output ['a'][0, 0] in argument 0['b'][1] is 0, differences give 0.841"
            in text
        )


def test_the_wrong_entry_of_a_large_array_is_found():
    keep = np.arange(1000) == 500
    text = fails(lambda x: x + keep * (cr.stop_gradient(x) - x) * 0.5, (np.linspace(0, 1, 1000),), order=1)
    assert "derivative of output 0[500] in argument 0[500] is 0.5, differences give 1." in text


class HalfRight(cr.Function):
    """The first derivative is right, its own derivative is lost."""

    def forward(self, x):
        return x**3

    def backward(self, ybar):
        return ybar * cr.stop_gradient(3 * self.input**2)


def test_a_wrong_second_derivative_is_found_and_the_combination_named():
    cr.check_grads(lambda x: HalfRight()(x), (1.5,), order=1)
    text = fails(lambda x: HalfRight()(x), (1.5,), modes=("reverse",))
    assert "reverse over reverse mode: the derivative of cotangent of argument 0 in argument 0 is" in text


def test_a_kink_is_recognized():
    text = fails(lambda x: x * np.heaviside(x, 0.0) + 3 * x, (np.array([1.0, 0.0]),), order=1)
    assert "argument 0[1]" in text
    assert "looks like a kink: the one-sided differences are 4 (right) and 3 (left)" in text
    assert "check at a point beside the kink" in text


def test_a_smooth_point_is_not_called_a_kink():
    assert "kink" not in fails(lambda x: Scaled(2.0)(x), (0.3,), order=1)


def test_the_adjoint_identity_is_checked_between_modes():
    """Differences can't see a relative error of 1e-7; the identity, which needs no step, can."""

    def f(x):
        return Scaled(1 + 1e-8)(x) if isinstance(x, cr.Variable) else np.sin(x)

    text = fails(f, (np.array([0.3, 1.2]),), order=1)
    assert "not adjoint" in text
    cr.check_grads(f, (np.array([0.3, 1.2]),), order=1, modes=("reverse",))


def test_a_value_that_changes_under_differentiation_is_found():
    f = lambda x: x * 2 if isinstance(cr.value(x), np.ndarray) and not isinstance(x, np.ndarray) else x
    assert "in a plain run" in fails(f, (np.array([1.0]),), order=1)


def test_arguments_stay_as_they_were():
    x = np.array([1.0, 2.0])

    def f(x):
        x[0] = x[1] ** 2
        return x

    cr.check_grads(f, (x,))
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_tolerances_are_those_given():
    f = lambda x: Scaled(1.001)(x)
    cr.check_grads(f, (0.3,), order=1, rtol=1e-2)
    cr.check_grads(f, (0.3,), order=1, rtol=0.0, atol=1e-2)
    fails(f, (0.3,), order=1, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("f, args", [(lambda n: n, (2,)), (lambda x: "a", (2.0,))])
def test_nothing_to_check_is_an_error(f, args):
    with pytest.raises(NotDifferentiableError, match="nothing to check"):
        cr.check_grads(f, args)


@pytest.mark.parametrize("options", [{"order": 0}, {"modes": ("backward",)}, {"modes": ()}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError):
        cr.check_grads(np.sin, (1.0,), **options)


# -- the differences themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, x, expected, accuracy",
    [
        (np.sin, 0.5, np.cos(0.5), 1e-11),
        (np.exp, 10.0, np.exp(10.0), 1e-10),
        (np.log, 1e-6, 1e6, 1e-8),
        (lambda x: x**5, 100.0, 5e8, 1e-10),
        (np.sqrt, 1e-3, 0.5 / np.sqrt(1e-3), 1e-8),
        (np.sin, np.float32(0.5), np.cos(0.5), 2e-5),
        (np.sin, np.longdouble(0.5), np.cos(np.longdouble(0.5)), 1e-14),
    ],
)
def test_differences_are_accurate_and_know_how_accurate(f, x, expected, accuracy):
    found = along(lambda x: [f(x)], [x], [type(x)(1)])
    assert abs(found.value[0] - expected) <= accuracy * abs(expected)
    assert abs(found.value[0] - expected) <= max(10 * found.error[0], 1e-15 * abs(expected))


def test_differences_of_a_function_that_is_not_holomorphic():
    x, v = 3 + 4j, 1j
    assert abs(along(lambda z: [np.abs(z)], [x], [v]).value[0] - 0.8) < 1e-10


def test_one_sided_differences_tell_kink_from_curve():
    _, _, kinks = one_sided(lambda x: [np.abs(x), x**2 + x, np.maximum(x, 0)], [0.0], [1.0])
    assert [bool(k) for k in kinks] == [True, False, True]
