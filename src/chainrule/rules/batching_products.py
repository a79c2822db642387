"""How products, and functions of matrices, run on a batch: the second half of the table behind `vmap`.

NumPy's own functions of matrices take stacks, and products have one more axis or index for the runs. The entries are of
the form told in `chainrule.rules.batching`.
"""

import numpy as np

from chainrule.engine.batched import BATCHING, lined_up, looped, ranked, spread
from chainrule.engine.boxed import all_values
from chainrule.engine.rule import RULES
from chainrule.engine.spec import shape_of, spread_to
from chainrule.rules import linalg_factor, linalg_spectrum, linalg_svd, norms, statistics
from chainrule.rules.batching import along, as_it_is
from chainrule.rules.einsum import einsum2
from chainrule.rules.fft import convolve_rows
from chainrule.rules.products import cross3

# -- products --------------------------------------------------------------------------------------------------


def multiplied(rule, n, xs, flags, params):
    """Multiply matrices; a vector is a row on the left and a column on the right."""
    a, b = xs
    left, right = [len(shape_of(x)) - m for x, m in zip(xs, flags, strict=True)]
    if left == 0 or right == 0:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    if left == right == 1 and not (a.dtype == b.dtype == bool):
        return np.add.reduce(a * b, axis=-1)
    if flags == [True, False] and left == 1 and right == 2:
        return np.matmul(a, b)  # the runs are the rows of one matrix
    if flags == [False, True] and left == 2 and right == 1:
        return np.matmul(b, np.swapaxes(a, -1, -2))
    if left == 1:
        a = a[..., None, :]
    if right == 1:
        b = b[..., :, None]
    rank = max(left, right, 2)
    y = np.matmul(*[ranked(x, rank) if m else x for x, m in zip((a, b), flags, strict=True)])
    if left == 1:
        y = y[..., 0, :]
    return y[..., 0] if right == 1 else y


def dotted(rule, n, xs, flags, params):
    """Multiply as `matmul` does up to matrices, and by numbers."""
    ranks = [len(shape_of(x)) - m for x, m in zip(xs, flags, strict=True)]
    if 0 in ranks:
        return lined_up(RULES[np.multiply], n, xs, flags, {})
    if max(ranks) <= 2:
        return multiplied(RULES[np.matmul], n, xs, flags, params)
    return tensor_product(rule, n, xs, flags, {"axes": (-1, -2 if ranks[1] > 1 else -1)})


def outer(rule, n, xs, flags, params):
    """Multiply each entry by each."""
    a, b = [x.reshape(n, -1) if m else np.ravel(x) for x, m in zip(xs, flags, strict=True)]
    plain = a.__class__ is b.__class__ is np.ndarray and a.dtype is b.dtype and a.dtype.char in "fdFD"
    if plain and 1 not in (a.shape[-1], b.shape[-1]):
        return np.einsum(a, [0, 1][not flags[0] :], b, [0, 2][not flags[1] :], [0, 1, 2])  # fast along short axes, too
    return a[..., :, None] * b[..., None, :]


def contracted(rule, n, xs, flags, params):
    """Contract by `einsum`, with one more index for the batch."""
    terms, result = params["subscripts"].split("->")
    letters = "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba"
    batch = next((c for c in letters if c not in params["subscripts"]), None)
    if batch is None:
        return looped(rule, n, xs, flags, params)
    terms = [batch + t if m else t for t, m in zip(terms.split(","), flags, strict=True)]
    return einsum2(*xs, f"{','.join(terms)}->{batch}{result}")


BATCHING.update({np.matmul: multiplied, np.dot: dotted, np.outer: outer, np.linalg.outer: outer, einsum2: contracted})


def convolved(rule, n, xs, flags, params):
    """Convolve along the last axis; a number is a row of one."""
    mode = params.get("mode", "full")
    ranks = [len(shape_of(x)) - m for x, m in zip(xs, flags, strict=True)]
    xs = [x if r else np.reshape(x, (*shape_of(x), 1)) for x, r in zip(xs, ranks, strict=True)]
    if (
        max(ranks) > 1
        or mode not in ("full", "same", "valid")
        or any(x.dtype.kind == "b" or not x.shape[-1] for x in xs)
    ):
        return looped(rule, n, xs, flags, params)
    return convolve_rows(*xs, mode=mode)


BATCHING[np.convolve] = convolved
BATCHING[convolve_rows] = lined_up

# -- linear algebra: NumPy's own functions take stacks ------------------------------------------------------------


def least_squares(rule, n, xs, flags, params):
    """Solve least squares by singular values, if the ranks of all runs are the same."""
    a, b = xs
    rcond = params.get("rcond")
    if not flags[0] and len(shape_of(a)) == 2 and len(b.shape) < 4:  # the right sides of all runs, side by side
        x, squares, rank, s = np.linalg.lstsq(a, np.moveaxis(b, 0, 1).reshape(b.shape[1], -1), rcond=rcond)
        x = np.moveaxis(x.reshape(x.shape[0], n, *b.shape[2:]), 1, 0)
        squares = squares.reshape(n, -1) if squares.shape[0] else np.zeros((n, 0), squares.dtype)
        return x, squares, np.full(n, rank), spread(s, n)
    known, given = all_values(a), all_values(b)
    if not flags[0] or len(a.shape) != 3 or known.ndim != 3 or not known.size or not given.size:
        return looped(rule, n, xs, flags, params)
    rows, columns = a.shape[1:]
    vectors = len(shape_of(b)) - flags[1] == 1
    if shape_of(b)[flags[1]] != rows or not (np.isfinite(known).all() and np.isfinite(given).all()):
        return looped(rule, n, xs, flags, params)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    eps = np.finfo(a.dtype).eps
    cutoff = eps * max(rows, columns) if rcond is None else eps if rcond == -1 else rcond
    ranks = np.sum(all_values(s) > cutoff * all_values(s)[:, :1], axis=-1)
    rank = int(ranks[0])
    if (ranks != rank).any() or not rank:
        return looped(rule, n, xs, flags, params)
    right = b[..., None] if vectors else b
    conj = np.conjugate if a.dtype.kind == "c" else lambda v: v
    parts = np.matmul(conj(np.swapaxes(u[..., :rank], -1, -2)), right) / s[..., :rank, None]
    x = np.matmul(conj(np.swapaxes(vh[..., :rank, :], -1, -2)), parts)
    if rank == columns and rows > columns:
        rest = right - np.matmul(a, x)
        squares = np.add.reduce((rest * conj(rest)).real if a.dtype.kind == "c" else rest * rest, axis=1)
    else:
        squares = np.zeros((n, 0), s.dtype)
    return x[..., 0] if vectors else x, squares, ranks, s


BATCHING[np.linalg.lstsq] = least_squares


def solved(rule, n, xs, flags, params):
    """Solve systems: a right-hand side that is a vector gets a second axis."""
    a, b = [x if m else spread(x, n) for x, m in zip(xs, flags, strict=True)]
    if len(b.shape) == 2:
        return np.linalg.solve(a, ranked(b[..., None], len(a.shape) - 1))[..., 0]
    rank = max(len(a.shape), len(b.shape)) - 1
    return np.linalg.solve(ranked(a, rank), ranked(b, rank))


for _fun in (
    np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.pinv, np.linalg.cond, np.matrix_transpose,
    linalg_factor.cholesky, linalg_factor.qr, linalg_spectrum.eigh, linalg_spectrum.eig, linalg_svd.svd,
):  # fmt: skip
    BATCHING[_fun] = as_it_is
BATCHING[np.linalg.solve] = solved


def of_axes(rule, n, xs, flags, params):
    """Run one of our functions of `axis` (None: all axes), which keeps the others."""
    return along(None)(rule, n, xs, flags, params)


for _fun in (statistics.variance, statistics.deviation_of, norms.length):
    BATCHING[_fun] = of_axes
BATCHING[norms.unit] = of_axes


def tensor_product(rule, n, xs, flags, params):
    """Contract pairs of axes: by `einsum`, with one more index for the batch."""
    axes = params.get("axes", 2)
    ranks = [len(shape_of(x)) - m for x, m in zip(xs, flags, strict=True)]
    if not hasattr(axes, "__len__"):
        axes = (range(ranks[0] - axes, ranks[0]), range(axes))
    ours, theirs = [[k] if not hasattr(k, "__len__") and not isinstance(k, range) else list(k) for k in axes]
    if sum(ranks) > 40:
        return looped(rule, n, xs, flags, params)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"
    a, b = list(letters[: ranks[0]]), list(letters[ranks[0] : sum(ranks)])
    for i, j in zip(ours, theirs, strict=True):
        b[j] = a[i]
    summed = {a[i] for i in ours}
    result = "".join(["Z", *[c for c in a if c not in summed], *[c for c in b if c not in summed]])
    terms = ["Z" * m + "".join(t) for t, m in zip((a, b), flags, strict=True)]
    return einsum2(*xs, f"{terms[0]},{terms[1]}->{result}")


BATCHING[np.tensordot] = tensor_product


def inner_product(rule, n, xs, flags, params):
    """Sum over the last axes of both."""
    if any(len(shape_of(x)) - m == 0 for x, m in zip(xs, flags, strict=True)):
        return lined_up(RULES[np.multiply], n, xs, flags, {})
    return tensor_product(rule, n, xs, flags, {"axes": (-1, -1)})


def of_matrices(rule, n, xs, flags, params):
    """Run a function of the last two axes, which makes a matrix of a vector."""
    (x,) = xs
    if len(x.shape) == 2:
        x = spread_to(x[:, None, :], (n, x.shape[1], x.shape[1]))
    return rule.apply((x,), params)


BATCHING.update(
    {
        np.inner: inner_product,
        np.tril: of_matrices,
        np.triu: of_matrices,
        cross3: lined_up,
        statistics.median_of: of_axes,
    }
)
