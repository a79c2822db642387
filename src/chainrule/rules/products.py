"""Derivative rules of products of vectors, matrices and tensors.

A product is linear in each operand, so each rule is two adjoints, themselves products: for ``Y = A B`` they are
``Abar = Ybar B^T`` and ``Bbar = A^T Ybar``; no Jacobian is formed. Where NumPy broadcasts an operand over a stack, its
cotangent is summed over the stack. Functions that conjugate an operand (vdot, vecdot, vecmat) say so.

`einsum` is in `chainrule.rules.einsum`, norms are in `chainrule.rules.norms`.
"""

import operator

import numpy as np

from chainrule.engine.boxed import Boxed
from chainrule.engine.fastcalls import bilinear_call
from chainrule.engine.rule import RULES, bilinear, composite
from chainrule.engine.spec import primitive, shape_of, sum_to
from chainrule.engine.writes import in_place


def rank(x):
    """Return the number of axes of an operand: an array, a Spec, a Python number."""
    return len(shape_of(x))


def array(x):
    """Return a list or number as an array, and all else as it is."""
    return x if hasattr(x, "reshape") else np.asarray(x)


def conj(x):
    """Conjugate `x` if it is complex."""
    return np.conj(x) if x.dtype.kind == "c" else x


def mT(x):
    """Transpose the matrices of a stack."""
    return x.swapaxes(-1, -2)


# -- matmul ------------------------------------------------------------------------------------------------------------


def matmul_abar(ybar, y, a, b):
    """Abar = Ybar B^T; a vector is one row."""
    m, n = len(a.shape), b.ndim
    if m == 2 and n == 2:
        return ybar @ b.T
    if n == 1:
        if m == 2 and (isinstance(ybar, Boxed) or isinstance(b, Boxed)):
            return np.outer(ybar, b)  # on a batch, one product for each run at once
        return ybar[..., None] * b if m > 1 else ybar * b
    if m == 1:
        return b @ ybar if n == 2 else sum_to((b @ ybar[..., None])[..., 0], a.shape)
    return sum_to(ybar @ mT(b), a.shape)


def matmul_bbar(ybar, y, a, b):
    """Bbar = A^T Ybar; a vector is one column."""
    m, n = a.ndim, len(b.shape)
    if m == 2 and n == 2:
        return a.T @ ybar
    if m == 1:
        return sum_to(a[:, None] * ybar[..., None, :], b.shape) if n > 1 else a * ybar
    if n == 1:
        return a.T @ ybar if m == 2 else sum_to((mT(a) @ ybar[..., None])[..., 0], b.shape)
    return sum_to(mT(a) @ ybar, b.shape)


bilinear(np.matmul, matmul_abar, matmul_bbar)


# -- dot, inner, outer, tensordot: the axes of y are those left of a, then those left of b -----------------------------


def contract(a, b, axes_a, axes_b):
    """Sum the products of `a` and `b` over pairs of axes; with none, or for numbers, an outer product."""
    if not shape_of(a) or not shape_of(b):
        return a * b
    return np.tensordot(a, b, (axes_a, axes_b))


def dot_axes(a, b):
    """Return which axes np.dot sums over."""
    return (rank(a) - 1,), (max(rank(b) - 2, 0),)


def inner_axes(a, b):
    """Return which axes np.inner sums over."""
    return (rank(a) - 1,), (rank(b) - 1,)


def tensordot_axes(a, b, axes):
    """Return which axes np.tensordot sums over, counted from the front."""
    m, n = rank(a), rank(b)
    try:
        axes_a, axes_b = axes
    except TypeError:
        return tuple(range(m - axes, m)), tuple(range(axes))
    return tuple(i % m for i in _tuple(axes_a)), tuple(i % n for i in _tuple(axes_b))


def _tuple(axes):
    try:
        return tuple(operator.index(i) for i in axes)
    except TypeError:
        return (operator.index(axes),)


def contraction_abar(ybar, a, b, axes_a, axes_b):
    """Contract ybar with b over the axes that b left in y; then bring those summed over back to their place in a."""
    m, n = rank(a), rank(b)
    free_a = [i for i in range(m) if i not in axes_a]
    free_b = [i for i in range(n) if i not in axes_b]
    first = len(free_a)
    abar = contract(ybar, b, tuple(range(first, first + len(free_b))), tuple(free_b))
    order = free_a + [axes_a[axes_b.index(i)] for i in sorted(axes_b)]
    return _ordered(abar, order)


def contraction_bbar(ybar, a, b, axes_a, axes_b):
    """Contract a with ybar over the axes that a left in y."""
    m, n = rank(a), rank(b)
    free_a = [i for i in range(m) if i not in axes_a]
    free_b = [i for i in range(n) if i not in axes_b]
    bbar = contract(a, ybar, tuple(free_a), tuple(range(len(free_a))))
    order = [axes_b[axes_a.index(i)] for i in sorted(axes_a)] + free_b
    return _ordered(bbar, order)


def _ordered(x, order):
    """Transpose `x`, whose axis k is to become axis ``order[k]``."""
    if order == sorted(order):
        return x
    return x.transpose(sorted(range(len(order)), key=order.__getitem__))


def adjoints(axes):
    """Return both adjoints of a contraction over ``axes(a, b)``; the matrix product, the usual case, is told apart."""

    def abar(ybar, y, a, b):
        if len(shape_of(b)) == 2 and len(shape_of(a)) == 2 and axes is dot_axes:
            return ybar @ b.T
        if not shape_of(a):
            return np.sum(ybar * b)
        if not shape_of(b):
            return ybar * b
        return contraction_abar(ybar, a, b, *axes(a, b))

    def bbar(ybar, y, a, b):
        if len(shape_of(a)) == 2 and len(shape_of(b)) == 2 and axes is dot_axes:
            return a.T @ ybar
        if not shape_of(b):
            return np.sum(a * ybar)
        if not shape_of(a):
            return a * ybar
        return contraction_bbar(ybar, a, b, *axes(a, b))

    return abar, bbar


def tensordot_abar(ybar, y, a, b, axes=2):
    """See `contraction_abar`."""
    return contraction_abar(ybar, a, b, *tensordot_axes(a, b, axes))


def tensordot_bbar(ybar, y, a, b, axes=2):
    """See `contraction_bbar`."""
    return contraction_bbar(ybar, a, b, *tensordot_axes(a, b, axes))


def outer_abar(ybar, y, a, b):
    """Abar = Ybar b, in the shape of a."""
    return (ybar @ array(b).reshape(-1)).reshape(shape_of(a))


def outer_bbar(ybar, y, a, b):
    """Bbar = a Ybar, in the shape of b."""
    return (array(a).reshape(-1) @ ybar).reshape(shape_of(b))


bilinear(np.dot, *adjoints(dot_axes))
bilinear(np.inner, *adjoints(inner_axes))
bilinear(np.tensordot, tensordot_abar, tensordot_bbar)
bilinear(np.outer, outer_abar, outer_bbar)
bilinear(np.linalg.outer, outer_abar, outer_bbar)


# -- cross -------------------------------------------------------------------------------------------------------------


@primitive
def cross3(a, b):
    """Return the cross products of 3-vectors along the last axis."""
    return np.cross(a, b)


bilinear(                                                   # y = a x b, and  c . (a x b) = a . (b x c) = b . (c x a)
    cross3,
    lambda ybar, y, a, b: sum_to(cross3(b, ybar), a.shape),
    lambda ybar, y, a, b: sum_to(cross3(ybar, a), b.shape),
)  # fmt: skip


@composite(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Move the vectors to the last axis; a vector of two components is one of three, the last being 0."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(array(a), axisa, -1), np.moveaxis(array(b), axisb, -1)
    sizes = {a.shape[-1], b.shape[-1]}
    if not sizes <= {2, 3}:
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    y = cross3(_with_third(a), _with_third(b))
    return y[..., 2] if sizes == {2} else np.moveaxis(y, -1, axisc)


def _with_third(x):
    if x.shape[-1] == 3:
        return x
    return np.concatenate([x, np.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)


@composite(np.linalg.cross)
def linalg_cross(x1, x2, /, *, axis=-1):
    """Vectors of three components only."""
    x1, x2 = array(x1), array(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {x1.shape[axis]} and {x2.shape[axis]} dimensional instead."
        )
    return np.cross(x1, x2, axis=axis)


# -- functions written in terms of these -------------------------------------------------------------------------------


@composite(np.vdot)
def vdot(a, b, /):
    """Flatten both, conjugate the first."""
    return np.dot(conj(array(a)).reshape(-1), array(b).reshape(-1))


def vecdot(x1, x2, /, *, axis=-1):
    """Conjugate the first, multiply row by column."""
    x1, x2 = array(x1), array(x2)
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return (conj(x1)[..., None, :] @ x2[..., :, None])[..., 0, 0]


composite(np.vecdot, np.linalg.vecdot)(vecdot)


if hasattr(np, "matvec"):  # NumPy 2.2 and newer

    @composite(np.matvec)
    def matvec(x1, x2, /):
        """Multiply matrices by vectors."""
        return (array(x1) @ array(x2)[..., None])[..., 0]

    @composite(np.vecmat)
    def vecmat(x1, x2, /):
        """Multiply conjugated vectors by matrices."""
        return (conj(array(x1))[..., None, :] @ array(x2))[..., 0, :]


@composite(np.linalg.matmul)
def linalg_matmul(x1, x2, /):
    """The same as np.matmul."""
    return np.matmul(x1, x2)


@composite(np.linalg.tensordot)
def linalg_tensordot(x1, x2, /, *, axes=2):
    """The same as np.tensordot."""
    return np.tensordot(x1, x2, axes=axes)


@composite(np.kron)
def kron(a, b):
    """Multiply each pair of entries, with the axes of a and b interleaved, and join each pair of axes."""
    a, b = array(a), array(b)
    n = max(a.ndim, b.ndim)
    sa, sb = (1,) * (n - a.ndim) + a.shape, (1,) * (n - b.ndim) + b.shape
    pairs = a.reshape([k for i in sa for k in (i, 1)]) * b.reshape([k for i in sb for k in (1, i)])
    return pairs.reshape([i * k for i, k in zip(sa, sb, strict=True)])


@composite(np.trace)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    """Sum the diagonal."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@composite(np.linalg.trace)
def linalg_trace(x, /, *, offset=0, dtype=None):
    """Sum the diagonals of a stack of matrices."""
    return np.trace(x, offset, -2, -1, dtype)


@composite(np.linalg.diagonal)
def linalg_diagonal(x, /, *, offset=0):
    """Take the diagonals of a stack of matrices."""
    return np.diagonal(x, offset, -2, -1)


@composite(np.linalg.matrix_transpose)
def linalg_matrix_transpose(x, /):
    """The same as np.matrix_transpose."""
    return np.matrix_transpose(x)


@composite(np.linalg.matrix_power)
def matrix_power(a, n):
    """Square and multiply, in NumPy's order."""
    n = operator.index(n)
    if rank(a) < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n == 0:
        return np.zeros_like(a) + np.eye(a.shape[-1], dtype=a.dtype)
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 3:
        return (a @ a) @ a
    result = None
    while n:
        n, bit = divmod(n, 2)
        if bit:
            result = a if result is None else result @ a
        if n:
            a = a @ a
    return result


@composite(np.linalg.multi_dot)
def multi_dot(arrays, *, out=None):
    """Multiply the matrices of a chain in the order that takes the fewest operations."""
    if out is not None:
        from chainrule.errors import OutArgumentError

        raise OutArgumentError("numpy.linalg.multi_dot")
    arrays = [array(a) for a in arrays]
    n = len(arrays)
    if n < 2:
        raise ValueError("Expecting at least two arrays.")
    sizes = [1 if arrays[0].ndim == 1 else arrays[0].shape[0], *[a.shape[0] for a in arrays[1:]]]
    sizes.append(1 if arrays[-1].ndim == 1 else arrays[-1].shape[1])
    cost = {(i, i): (0, i) for i in range(n)}  # (first, last) -> operations, where to split
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i, j):
        if i == j:
            return arrays[i]
        k = cost[i, j][1]
        return product(i, k) @ product(k + 1, j)

    return product(0, n - 1)


# -- the operator ------------------------------------------------------------------------------------------------------

Boxed.__matmul__ = bilinear_call(RULES[np.matmul], operator.matmul)
Boxed.__rmatmul__ = bilinear_call(RULES[np.matmul], operator.matmul, swap=True)
Boxed.__imatmul__ = in_place("__matmul__", "__imatmul__")
