"""Derivative rules of linear systems: inverses, solutions, least squares.

The formulas of the inverse and of systems are those of [Giles]_: M. B. Giles, "An extended collection of matrix
derivative results for forward and reverse mode algorithmic differentiation", Oxford University Computing Laboratory,
report 08/01, 2008; those of the pseudo-inverse are of [Golub]_: G. H. Golub and V. Pereyra, "The differentiation of
pseudo-inverses and nonlinear least squares problems whose variables separate", SIAM J. Numer. Anal. 10(2), 1973. They
hold while the rank stays the same: where it changes, the pseudo-inverse jumps, and the derivative is that along the
directions that keep the rank. All work on stacks of matrices.
"""

import math

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.rule import composite, constant, rule
from chainrule.engine.spec import real_part, shape_of, sum_to
from chainrule.rules.matrices import hermitian, mH, product, unused
from chainrule.rules.products import array, conj, mT

constant(np.linalg.matrix_rank)

# -- inverse and systems -----------------------------------------------------------------------------------------------

rule(                                                                 # Y = A^-1                        Giles 2.2.3
    np.linalg.inv,
    jvp=lambda adot, y, a: -(y @ adot @ y),                           # Ydot = -Y Adot Y
    vjp=lambda ybar, y, a: -(mT(y) @ ybar @ mT(y)),                   # Abar = -Y^T Ybar Y^T
)  # fmt: skip


def columns(v, b):
    """Return right sides (or solutions) as matrices: vectors are one column."""
    return v[..., None] if len(shape_of(b)) == 1 else v


def vectors(v, b):
    """Return matrices of one column as vectors again, if that is what b is."""
    return v[..., 0] if len(shape_of(b)) == 1 else v


def solve_adot(adot, y, a, b):
    """Ydot = -A^-1 Adot Y."""
    return vectors(-np.linalg.solve(a, adot @ columns(y, b)), b)


def solve_bdot(bdot, y, a, b):
    """Ydot = A^-1 Bdot."""
    return np.linalg.solve(a, bdot)


def solve_abar(ybar, y, a, b):
    """Abar = -(A^-T Ybar) Y^T."""
    return sum_to(-(np.linalg.solve(mT(a), columns(ybar, b)) @ mT(columns(y, b))), a.shape)


def solve_bbar(ybar, y, a, b):
    """Bbar = A^-T Ybar."""
    return sum_to(vectors(np.linalg.solve(mT(a), columns(ybar, b)), b), b.shape)


rule(np.linalg.solve, jvp=(solve_adot, solve_bdot), vjp=(solve_abar, solve_bbar))  # A Y = B  Giles 2.3.1


@composite(np.linalg.tensorinv)
def tensorinv(a, ind=2):
    """Invert the matrix whose rows are numbered by the first `ind` axes."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows, others = a.shape[:ind], a.shape[ind:]
    return np.linalg.inv(a.reshape(math.prod(others), -1)).reshape(others + rows)


@composite(np.linalg.tensorsolve)
def tensorsolve(a, b, axes=None):
    """Solve the system whose unknowns are numbered by the last axes of a; `axes` are moved there first."""
    a, b = array(a), array(b)
    if axes is not None:
        a = a.transpose([k for k in range(a.ndim) if k not in axes] + list(axes))
    unknowns = a.shape[b.ndim :]
    size = math.prod(unknowns)
    if a.size != size**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return np.linalg.solve(a.reshape(size, size), b.reshape(-1)).reshape(unknowns)


# -- pseudo-inverse ----------------------------------------------------------------------------------------------------


def pinv_jvp(adot, y, a, rcond=None, hermitian=False, rtol=np._NoValue):
    """Ydot = -Y Adot Y + Y Y^H Adot^H (I - A Y) + (I - Y A) Adot^H Y^H Y [Golub]_."""
    if hermitian:
        adot = symmetric(adot)
    adot_h = mH(adot)
    ydot = -product(y, adot, y)
    if a.shape[-2] > a.shape[-1] or rank_is_less(y, a):
        left = product(y, mH(y), adot_h)
        ydot = ydot + left - product(left, a, y)
    if a.shape[-2] < a.shape[-1] or rank_is_less(y, a):
        right = product(adot_h, mH(y), y)
        ydot = ydot + right - product(y, a, right)
    return ydot


def pinv_vjp(ybar, y, a, rcond=None, hermitian=False, rtol=np._NoValue):
    """Abar^* = -Y^H G Y^H + (I - A Y) G^H Y Y^H + Y^H Y G^H (I - Y A), where G = Ybar^*."""
    g = conj(ybar)
    g_h, y_h = mH(g), mH(y)
    abar = -product(y_h, g, y_h)
    if a.shape[-2] > a.shape[-1] or rank_is_less(y, a):
        left = product(g_h, y, y_h)
        abar = abar + left - product(a, y, left)
    if a.shape[-2] < a.shape[-1] or rank_is_less(y, a):
        right = product(y_h, y, g_h)
        abar = abar + right - product(right, y, a)
    return conj(symmetric(abar) if hermitian else abar)


def rank_is_less(y, a):
    """Tell whether a matrix of the stack has not the full rank: the trace of Y A is the rank."""
    y, a = value(y), value(a)
    rank = np.einsum("...ij,...ji->...", y, a)
    return bool(np.any(np.abs(rank - min(a.shape[-2:])) > 0.5))


symmetric = hermitian  # the rules above have an argument of that name
rule(np.linalg.pinv, jvp=pinv_jvp, vjp=pinv_vjp)


# -- least squares -----------------------------------------------------------------------------------------------------


def pseudo_inverse(a, rcond):
    """Return the pseudo-inverse with the cutoff that lstsq takes."""
    if rcond is None:
        rcond = np.finfo(a.dtype).eps * max(a.shape)
    return np.linalg.pinv(a, np.finfo(a.dtype).eps if rcond == -1 else rcond)


def lstsq_adot(adot, y, a, b, rcond=None):
    """Xdot = A+ (A+^H Adot^H R - Adot X) + (I - A+ A) Adot^H A+^H X, where R = B - A X."""
    p, (x, squares, rank, _) = pseudo_inverse(a, rcond), y
    x, b = columns(x, b), columns(b, b)
    r, change = b - a @ x, adot @ x
    xdot = -(p @ change)
    if rank < a.shape[0]:
        xdot = xdot + p @ (mH(p) @ (mH(adot) @ r))
    if rank < a.shape[1]:
        other = mH(adot) @ (mH(p) @ x)
        xdot = xdot + other - p @ (a @ other)
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    sdot = np.add.reduce(conj(u) * (adot @ mH(vh)), axis=0)
    return vectors(xdot, y[0]), squares_dot(-change, r, squares), 0, real_part(sdot)


def lstsq_bdot(bdot, y, a, b, rcond=None):
    """Xdot = A+ Bdot."""
    x, squares, _, s = y
    r = columns(b, b) - a @ columns(x, b)
    return pseudo_inverse(a, rcond) @ bdot, squares_dot(columns(bdot, b), r, squares), 0, s * 0


def squares_dot(rdot, r, squares):
    """Return 2 Re(R^H Rdot) of each column; NumPy gives no squares of a rank that is not full."""
    if not squares.shape[0]:
        return squares
    return 2 * np.add.reduce(real_part(conj(r) * rdot), axis=0)


def lstsq_abar(ybar, y, a, b, rcond=None):
    """The transpose of the above, term by term."""
    (xbar, squaresbar, _, sbar), (x, squares, rank, _) = ybar, y
    r = columns(b, b) - a @ columns(x, b)
    g, x_h = conj(columns(xbar, b)), mH(columns(x, b))
    abar = 0
    if not unused(xbar):
        p = pseudo_inverse(a, rcond)
        p_h = mH(p)
        abar = abar - (p_h @ g) @ x_h
        if rank < a.shape[0]:
            abar = abar + r @ mH(p @ (p_h @ g))
        if rank < a.shape[1]:
            rest = g - mH(a) @ (p_h @ g)
            abar = abar + (p_h @ columns(x, b)) @ mH(rest)
    if squares.shape[0] and not unused(squaresbar):
        abar = abar - (r * (2 * squaresbar)) @ x_h
    if not unused(sbar):
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        abar = abar + (u * sbar) @ vh
    return conj(abar) if shape_of(abar) else np.zeros_like(a)


def lstsq_bbar(ybar, y, a, b, rcond=None):
    """Bbar = A+^T Xbar."""
    (xbar, squaresbar, _, _), (x, squares, _, _) = ybar, y
    bbar = mT(pseudo_inverse(a, rcond)) @ xbar
    if squares.shape[0] and not unused(squaresbar):
        r = columns(b, b) - a @ columns(x, b)
        bbar = bbar + vectors(conj(r) * (2 * squaresbar), b)
    return bbar


rule(np.linalg.lstsq, jvp=(lstsq_adot, lstsq_bdot), vjp=(lstsq_abar, lstsq_bbar))
