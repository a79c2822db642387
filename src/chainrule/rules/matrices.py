"""What the rules of linear algebra share: Hermitian parts, outputs nobody used, chains of products.

The rules of factorisations are written for complex matrices, with the *gradient* ``G = conj(Ybar)``, for which the
derivative of the result is ``Re tr(G^H Ydot)``; for real matrices it is the cotangent itself.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.errors import NotDifferentiableError
from chainrule.rules.products import conj, mT


def mH(x):
    """Transpose the matrices of a stack, and conjugate them."""
    return conj(mT(x))


def hermitian(x):
    """Return the symmetric (Hermitian) part."""
    return (x + mH(x)) * 0.5


def skew(x):
    """Return twice the skew-symmetric (skew-Hermitian) part."""
    return x - mH(x)


def diagonal(x):
    """Return the diagonals of a stack of matrices."""
    return np.diagonal(x, axis1=-2, axis2=-1)


def on_diagonal(d):
    """Return diagonal matrices."""
    return d[..., None, :] * np.eye(d.shape[-1], dtype=d.dtype)


def real(x):
    """Return the real part of what may be complex."""
    return np.real(x) if x.dtype.kind == "c" else x


def unused(xbar):
    """Tell whether a cotangent is that of an output nobody used: the tape fills these in as one zero, broadcast.

    A cotangent that is zero by its numbers is something else: ``V log(w) V^T`` has ``Vbar = 0`` at w = 1.
    """
    return not isinstance(xbar, Boxed) and not xbar.flags.writeable and not any(xbar.strides)


def product(a, b, c):
    """Multiply three stacks of matrices, in the order that takes fewer operations and less memory."""
    m, k, l, n = a.shape[-2], a.shape[-1], c.shape[-2], c.shape[-1]
    return (a @ b) @ c if m * k * l + m * l * n <= k * l * n + m * k * n else a @ (b @ c)


def refuse_choice(found, cotangent, what, *advice):
    """Raise if `found`, by which a result would change if LAPACK had chosen other vectors, is not zero.

    It is zero up to rounding for whatever does not depend on that choice.
    """
    found, cotangent = np.abs(value(found)), np.abs(value(cotangent))
    if found.size and found.max() > cotangent.shape[-2] * cotangent.max() * np.finfo(found.dtype).eps ** 0.4:
        raise NotDifferentiableError(f"a result depends on {what}, which is arbitrary: it has no derivative.", *advice)
