"""How products, and functions of matrices, run on a batch: the second half of the table behind `vmap`.

NumPy's own functions of matrices take stacks, and products have one more axis or index for the runs. The entries are of
the form told in `chainrule.rules.batching`.
"""

import numpy as np

from chainrule.engine.batched import BATCHING, lined_up, looped, ranked, spread
from chainrule.engine.rule import RULES
from chainrule.engine.spec import shape_of
from chainrule.rules import linalg_factor, linalg_spectrum, linalg_svd, norms, statistics
from chainrule.rules.batching import along, as_it_is
from chainrule.rules.einsum import einsum2
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
    return looped(rule, n, xs, flags, params)


def outer(rule, n, xs, flags, params):
    """Multiply each entry by each."""
    a, b = [x.reshape(n, -1) if m else np.ravel(x) for x, m in zip(xs, flags, strict=True)]
    return a[..., :, None] * b[..., None, :]


def contracted(rule, n, xs, flags, params):
    """Contract by `einsum`, with one more index for the batch."""
    terms, result = params["subscripts"].split("->")
    batch = next(c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in params["subscripts"])
    terms = [batch + t if m else t for t, m in zip(terms.split(","), flags, strict=True)]
    return einsum2(*xs, f"{','.join(terms)}->{batch}{result}")


BATCHING.update({np.matmul: multiplied, np.dot: dotted, np.outer: outer, np.linalg.outer: outer, einsum2: contracted})


# -- linear algebra: NumPy's own functions take stacks ------------------------------------------------------------


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
    return rule.apply((x,), params) if len(x.shape) > 2 else looped(rule, n, xs, flags, params)


BATCHING.update(
    {
        np.inner: inner_product,
        np.tril: of_matrices,
        np.triu: of_matrices,
        cross3: lined_up,
        statistics.median_of: of_axes,
    }
)
