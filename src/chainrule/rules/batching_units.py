"""How products run on a batch of unit vectors, or of multiples of them.

The passes of a matrix of derivatives begin so, all rows or columns at once. A product with unit vectors is a choice of
rows or columns of the other factor: n times fewer operations.
"""

import numpy as np

from chainrule.engine.batched import UNITS
from chainrule.engine.boxed import ordinary


def multiplied(start, n, xs, flags):
    """Multiply a matrix by the vector of each run; None for all else."""
    a, b = xs
    if not all((x.__class__ is np.ndarray or ordinary(x)) and x.ndim == 2 and x.dtype.kind in "fc" for x in xs):
        return None
    if flags == [False, True] and a.shape[1] == b.shape[1]:
        if a.__class__ is np.ndarray and b.__class__ is np.ndarray:
            return np.multiply(a[:, start : start + n].T, np.diagonal(b, start)[:, None], order="C")
        return a[:, start : start + n].T * np.diagonal(b, start)[:, None]
    if flags == [True, False] and a.shape[1] == b.shape[0]:
        return b[start : start + n] * np.diagonal(a, start)[:, None]
    return None


UNITS[np.matmul] = multiplied
