"""Derivative rules of what scipy.linalg has and NumPy lacks: triangular systems, Sylvester's, functions of a matrix.

Imported by `chainrule.scipy.linalg` only, never with chainrule itself: SciPy is no requirement.

The derivative of a function of a matrix is part of the same function of a larger one ([Higham]_ 3.6)::

    f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]],     L(A, E) the derivative of f at A along E

so the rule calls f again, and serves every order. Its adjoint is the derivative at A^T. The square root alone has a
shorter way, by Sylvester's equation.

.. [Higham] N. J. Higham, "Functions of matrices", SIAM, 2008.
"""

import numpy as np
from scipy import linalg

from chainrule.engine.rule import rule
from chainrule.engine.spec import primitive, shape_of, sum_to
from chainrule.rules.products import mT

# -- triangular systems ------------------------------------------------------------------------------------------------


@primitive
def solve_triangle(a, b, lower=False, transposed=False, unit_diagonal=False):
    """Solve A X = B (or A^T X = B) with one triangle of A, for stacks of matrices; b of one axis is one vector."""
    if a.ndim == 2 and b.ndim <= 2:
        return _solve(a, b, lower, transposed, unit_diagonal)
    vectors = b.ndim == 1
    b = b[:, None] if vectors else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    y = np.empty(b.shape, np.result_type(a, b))
    for i in np.ndindex(*batch):
        y[i] = _solve(a[i], b[i], lower, transposed, unit_diagonal)
    return y[..., 0] if vectors else y


def _solve(a, b, lower, transposed, unit_diagonal):
    return linalg.solve_triangular(
        a, b, trans=int(transposed), lower=lower, unit_diagonal=unit_diagonal, check_finite=False
    )


def triangle(x, lower, unit_diagonal):
    """Keep the triangle that is read."""
    if lower:
        return np.tril(x, -1 if unit_diagonal else 0)
    return np.triu(x, 1 if unit_diagonal else 0)


def columns(v, b):
    """Return right sides (or solutions) as matrices: vectors are one column."""
    return v[..., None] if len(shape_of(b)) == 1 else v


def vectors(v, b):
    """Return matrices of one column as vectors again, if that is what b is."""
    return v[..., 0] if len(shape_of(b)) == 1 else v


def triangle_adot(adot, y, a, b, lower=False, transposed=False, unit_diagonal=False):
    """Ydot = -A^-1 Adot Y."""
    t = triangle(adot, lower, unit_diagonal)
    right = -((mT(t) if transposed else t) @ columns(y, b))
    return vectors(solve_triangle(a, right, lower, transposed, unit_diagonal), b)


def triangle_bdot(bdot, y, a, b, lower=False, transposed=False, unit_diagonal=False):
    """Ydot = A^-1 Bdot."""
    return solve_triangle(a, bdot, lower, transposed, unit_diagonal)


def triangle_abar(ybar, y, a, b, lower=False, transposed=False, unit_diagonal=False):
    """Abar = -(A^-T Ybar) Y^T, or its transpose: the triangle of it."""
    x = columns(y, b)
    bbar = solve_triangle(a, columns(ybar, b), lower, not transposed, unit_diagonal)
    abar = -(x @ mT(bbar)) if transposed else -(bbar @ mT(x))
    return sum_to(triangle(abar, lower, unit_diagonal), a.shape)


def triangle_bbar(ybar, y, a, b, lower=False, transposed=False, unit_diagonal=False):
    """Bbar = A^-T Ybar."""
    bbar = solve_triangle(a, columns(ybar, b), lower, not transposed, unit_diagonal)
    return sum_to(vectors(bbar, b), b.shape)


rule(solve_triangle, jvp=(triangle_adot, triangle_bdot), vjp=(triangle_abar, triangle_bbar))


# -- Sylvester's equation ----------------------------------------------------------------------------------------------


@primitive
def solve_sylvester(a, b, q):
    """Solve A X + X B = Q, for stacks of matrices."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    if not batch:
        return linalg.solve_sylvester(a, b, q)
    a, b, q = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b, q))
    y = np.empty(q.shape, np.result_type(a, b, q))
    for i in np.ndindex(*batch):
        y[i] = linalg.solve_sylvester(a[i], b[i], q[i])
    return y


rule(                                                                 # A X + X B = Q
    solve_sylvester,
    jvp=(
        lambda adot, x, a, b, q: -solve_sylvester(a, b, adot @ x),    # A Xdot + Xdot B = -Adot X
        lambda bdot, x, a, b, q: -solve_sylvester(a, b, x @ bdot),    # ... = -X Bdot
        lambda qdot, x, a, b, q: solve_sylvester(a, b, qdot),         # ... = Qdot
    ),
    vjp=(                                                             # with S: A^T S + S B^T = Xbar
        lambda xbar, x, a, b, q: sum_to(-(solve_sylvester(mT(a), mT(b), xbar) @ mT(x)), a.shape),
        lambda xbar, x, a, b, q: sum_to(-(mT(x) @ solve_sylvester(mT(a), mT(b), xbar)), b.shape),
        lambda xbar, x, a, b, q: sum_to(solve_sylvester(mT(a), mT(b), xbar), q.shape),
    ),
)  # fmt: skip


@primitive
def sqrtm(a):
    """Return the principal square root, for stacks of matrices."""
    if a.ndim == 2:
        return linalg.sqrtm(a)
    roots = [linalg.sqrtm(a[i]) for i in np.ndindex(*a.shape[:-2])]
    return np.reshape(roots, a.shape) if roots else np.empty_like(a)


rule(                                                                 # Y Y = A
    sqrtm,
    jvp=lambda adot, y, a: solve_sylvester(y, y, adot),               # Y Ydot + Ydot Y = Adot
    vjp=lambda ybar, y, a: solve_sylvester(mT(y), mT(y), ybar),
)  # fmt: skip


# -- functions of a matrix ---------------------------------------------------------------------------------------------


def derivative(f, a, e):
    """Return the derivative of `f` at A along E: a block of f([[A, E], [0, A]])."""
    n = a.shape[-1]
    top = np.concatenate([a, e], axis=-1)
    bottom = np.concatenate([np.zeros(shape_of(a), a.dtype), a], axis=-1)
    return f(np.concatenate([top, bottom], axis=-2))[..., :n, n:]


def matrix_function(fun):
    """Return SciPy's function of a matrix as one that dispatches, with its rule."""

    def call(a):
        return fun(a) if a.size else np.empty(a.shape, a.dtype)

    call.__name__ = fun.__name__
    call.__doc__ = f"Return scipy.linalg.{fun.__name__}(a)."
    f = primitive(call)

    def jvp(adot, y, a):
        return derivative(f, a, adot)

    def vjp(ybar, y, a):
        return derivative(f, mT(a), ybar)

    rule(f, jvp=jvp, vjp=vjp)
    return f


expm, logm = map(matrix_function, (linalg.expm, linalg.logm))
sinm, cosm, tanm = map(matrix_function, (linalg.sinm, linalg.cosm, linalg.tanm))
sinhm, coshm, tanhm = map(matrix_function, (linalg.sinhm, linalg.coshm, linalg.tanhm))
