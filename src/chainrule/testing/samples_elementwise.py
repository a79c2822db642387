"""Samples of elementwise functions: policy points, and functions that take more than operands.

Generic points of elementwise rules need no line here; see `samples`.
"""

import numpy as np

from chainrule.rules.choices import replaced
from chainrule.rules.complexes import imag_part
from chainrule.rules.gates import relu
from chainrule.rules.series import bessel_derivative, sinc_derivative
from chainrule.testing.samples import array, policy, sample

REAL = ("float64", "float32", "float16", "longdouble")
COMPLEX = ("complex128", "complex64")
MASK = np.array([True, False, True])
PARTS = [MASK, np.array([False, True, False])]


def squared_piece(t, c=1.0):
    """Return c t**2: a function for piecewise."""
    return c * t * t


# fmt: off
SAMPLES = [
    # -- kinks, ties, borders: the page of policies
    policy(np.power, 0.0, 2.0).gives(0.0, 0.0),
    policy(np.power, 0.0, 1.0).gives(1.0, 0.0),
    policy(np.power, 0.0, 0.0).gives(0.0, 0.0),
    policy(np.square, 0.0).gives(0.0),
    policy(np.absolute, 0.0).gives(0.0),
    policy(np.fabs, 0.0).gives(0.0),
    policy(np.sqrt, 0.0).singular("infinite slope"),
    policy(np.cbrt, 0.0).singular("infinite slope"),
    policy(np.arcsin, 1.0).singular("infinite slope"),
    policy(np.arccosh, 1.0).singular("infinite slope"),
    policy(np.log, 0.0).singular("infinite slope"),
    policy(np.hypot, 0.0, 0.0).gives(0.0, 0.0).singular("the curvature at the tip of a cone is infinite"),
    policy(np.arctan2, 0.0, 0.0).gives(0.0, 0.0).singular("no direction at the origin"),
    policy(np.maximum, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.minimum, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.fmax, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.fmin, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.fmax, 1.0, np.nan).gives(1.0, 0.0),
    policy(np.maximum, np.array([0.0, 1.0, 2.0]), 1.0).gives([0.0, 0.5, 1.0], 1.5),
    policy(relu, 0.0).gives(0.0),
    policy(np.clip, np.array([0.0, 0.5, 1.0, 2.0, -1.0]), 0.0, 1.0).gives([1.0, 1.0, 1.0, 0.0, 0.0], 1.0, 1.0),
    policy(np.clip, 0.5, 1.0, 0.0).gives(0.0, 0.0, 1.0),          # crossed limits: the upper one
    policy(np.logaddexp, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.logaddexp, -np.inf, 1.0).gives(0.0, 1.0),
    policy(np.logaddexp, -np.inf, -np.inf).gives(0.0, 0.0),
    policy(np.logaddexp2, 1.0, 1.0).gives(0.5, 0.5),
    policy(np.sinc, 0.0).gives(0.0),
    policy(np.i0, 0.0).gives(0.0),
    policy(np.heaviside, 0.0, 0.5).gives(0.0, 1.0),
    policy(np.copysign, 0.0, 1.0).gives(0.0, 0.0),
    policy(np.nan_to_num, np.array([np.nan, np.inf, 1.0])).gives([0.0, 0.0, 1.0]),

    # -- choices
    *[sample(f, array(*a), array(*b)) for f in (np.maximum, np.minimum, np.fmax, np.fmin)
      for a, b in (((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 2), (2,)))],
    sample(np.maximum, array(3), 0.1).only(*REAL),
    sample(np.heaviside, array(3), array(3)).only(*REAL),
    sample(relu, array(2, 3)).only(*REAL),
    sample(np.where, MASK, array(2, 3), array(3)),
    sample(np.where, MASK, array(3), 1.0),
    sample(np.where, True, array(), array(3)),
    sample(np.where, [1, 0, 2], array(3), array(3)),
    sample(np.select, PARTS, [array(3), array(3)], 2.0),
    sample(np.select, PARTS, [array(2, 3), array()], array(3)),
    sample(np.piecewise, array(3), PARTS, [squared_piece, np.sin]),
    sample(np.piecewise, array(3), PARTS, [squared_piece, np.sin, 1.0]),
    sample(np.piecewise, array(3), MASK, [squared_piece, np.sin], c=2.0).raises(TypeError).named("passes c to all"),
    sample(np.piecewise, array(3), [MASK], [squared_piece, 0.5], c=2.0),
    sample(np.piecewise, array(), [True], [squared_piece, np.sin]),
    sample(np.clip, array(2, 3), -1.0, 1.0).only(*REAL),
    sample(np.clip, array(2, 3), None, 0.6).only(*REAL),
    sample(np.clip, array(2, 3), -0.6, None).only(*REAL),
    sample(np.clip, array(4), a_min=-0.6, a_max=array(domain=(0.3, 0.9))).only(*REAL),
    sample(np.clip, array(4), array(4, domain=(-1.5, -0.2)), array(4, domain=(0.3, 1.5))).only(*REAL),
    sample(np.nan_to_num, array(2, 3)),
    sample(np.nan_to_num, array(3), nan=1.0, posinf=2.0, neginf=-2.0),
    sample(np.nan_to_num, array(3), copy=False).raises(TypeError),
    sample(replaced, array(3)).only(*REAL),

    # -- complex numbers and their parts
    sample(np.conjugate, array(2, 3)),
    sample(np.real, array(2, 3)),
    sample(np.imag, array(2, 3)).only(*COMPLEX),
    sample(imag_part, array(2, 3)).only(*COMPLEX),
    sample(np.angle, array(2, 3)).only(*COMPLEX),
    sample(np.angle, array(3), deg=True).only(*COMPLEX),
    sample(np.angle, array(3)).only(*REAL),
    sample(lambda x: np.angle(0 * x) * x, array(3)).of(np.angle).only(*REAL),  # a constant, also at 0
    sample(np.real_if_close, array(3)),
    sample(np.sign, array(3)).only(*COMPLEX),

    # -- parts of floating-point numbers
    sample(np.modf, array(3)).only(*REAL),
    sample(np.frexp, array(3, domain=(1.1, 1.9))).only(*REAL),
    sample(np.ldexp, array(3), np.array([1, -2, 3])).only(*REAL),
    sample(np.ldexp, array(), np.array([[1, -2]])).only(*REAL),
    sample(np.divmod, array(3, domain=(3.1, 3.9)), array(3, domain=(1.2, 1.5))).only(*REAL),

    # -- members of the families of sinc and i0
    *[sample(sinc_derivative, array(3), n) for n in (1, 2, 5)],
    *[sample(bessel_derivative, array(3), n).only(*REAL) for n in (1, 2, 5)],

    # -- without derivative
    sample(np.round, array(3)),
    sample(np.around, array(3), 1),
    sample(np.fix, array(3)).only(*REAL),
    sample(np.isreal, array(3)),
    sample(np.iscomplex, array(3)),
    sample(np.isposinf, array(3)).only(*REAL),
    sample(np.isneginf, array(3)).only(*REAL),
]
# fmt: on
