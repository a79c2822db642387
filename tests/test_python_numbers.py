"""Python's own numbers, which have no dtype: a float has a real gradient, a complex number a complex one."""

import numpy as np
import pytest

import chainrule as cr

THROUGH_COMPLEX = [
    (lambda x: np.abs(x * 1j + 2) ** 2, lambda x: 2 * x),
    (lambda x: np.real(1j * x * 1j), lambda x: -1.0),
    (lambda x: np.abs(np.exp(1j * x) + 1) ** 2, lambda x: -2 * np.sin(x)),
    (lambda x: np.imag((x + 2j) ** 2), lambda x: 4.0),
]


@pytest.mark.parametrize(("f", "derivative"), THROUGH_COMPLEX)
def test_gradient_in_a_float_is_a_float_also_through_complex_numbers(f, derivative):
    g = cr.grad(f)(0.5)
    assert type(g) is float
    assert g == pytest.approx(derivative(0.5), rel=1e-14)
    assert cr.jvp(f, (0.5,), (1.0,))[1] == pytest.approx(g, rel=1e-14)


def test_gradient_in_a_complex_number_is_one():
    g = cr.grad(lambda z: np.real(z) ** 2)(1 + 2j)
    assert type(g) is complex
    assert g == 2
    assert cr.grad(lambda z: np.imag(z) ** 2)(1 + 2j) == -4j  # df/dx - i df/dy
