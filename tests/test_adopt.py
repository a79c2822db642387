"""`adopt`: plain code that NumPy does not hand to us, run and differentiated without a change.

The programs stand in `adopted_code`, and know nothing of chainrule. What they should give is what they give as plain
code; what their derivatives should be, central differences of the plain code say.
"""

import numpy as np
import pytest
from adopted_code import helpers, programs

import chainrule as cr

X = 0.7


def slope(f, x=X, h=1e-5):
    """The derivative by central differences of fourth order."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def curvature(f, x=X, h=1e-3):
    """The second derivative by differences of fourth order."""
    return (16 * (f(x + h) + f(x - h)) - (f(x + 2 * h) + f(x - 2 * h)) - 30 * f(x)) / (12 * h**2)


@pytest.mark.parametrize("f", programs.PROGRAMS, ids=lambda f: f.__name__)
class TestProgram:
    def test_plain_call_gives_what_the_plain_function_gives(self, f):
        y, adopted = f(X), cr.adopt(f)(X)
        assert type(adopted) is type(y)
        assert adopted == y

    def test_gradient(self, f):
        g = cr.grad(cr.adopt(f))
        assert g(X) == pytest.approx(slope(f), rel=1e-8)
        assert g(X) == g(X)

    def test_forward(self, f):
        y, ydot = cr.jvp(cr.adopt(f), (X,), (2.0,))
        assert y == pytest.approx(f(X), rel=1e-14)
        assert ydot == pytest.approx(2 * slope(f), rel=1e-8)

    def test_second_order_in_every_mode(self, f):
        g = cr.adopt(f)
        expected = pytest.approx(curvature(f), rel=1e-6, abs=1e-6)
        assert cr.grad(cr.grad(g))(X) == expected
        assert cr.jvp(cr.grad(g), (X,), (1.0,))[1] == expected
        assert cr.grad(lambda x: cr.jvp(g, (x,), (1.0,))[1])(X) == expected
        assert cr.hessian(g)(X) == expected
