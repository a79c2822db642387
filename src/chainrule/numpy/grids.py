"""``np.r_``, ``np.c_``, ``np.mgrid`` and ``np.ogrid`` that take traced values between their brackets.

NumPy's own build arrays by ``np.array`` and by writes, of which we are not told. Without traced values they are used.

Examples
--------
>>> import chainrule as cr
>>> import chainrule.numpy as cnp
>>> cr.jacobian(lambda x: cnp.r_[0.0, x, x**2])(3.0)
array([0., 1., 6.])
>>> cr.jacobian(lambda x: cnp.mgrid[0:x:3j])(2.0)
array([0. , 0.5, 1. ])
"""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.errors import UnsupportedArgumentError
from chainrule.rules.creation import arange, array, is_traced, linspace
from chainrule.rules.differences import as_array


def has_traced(key):
    """Tell whether a subscript holds a traced value, be it in a slice or in a list."""
    if isinstance(key, slice):
        return any(isinstance(v, Boxed) for v in (key.start, key.stop, key.step))
    return any(map(has_traced, key)) if isinstance(key, list | tuple) else is_traced(key)


def run_of(s):
    """Return the values that ``start:stop:step`` stands for, or ``start:stop:nj`` for n of them, both ends included."""
    start, step = 0 if s.start is None else s.start, 1 if s.step is None else s.step
    if isinstance(value(step), complex):
        return linspace(start, s.stop, int(abs(value(step))))
    return arange(start, s.stop, step)


class Joined:
    """Joins what stands between its brackets, as `numpy.r_` and `numpy.c_` do."""

    __slots__ = ("directive", "plain")

    def __init__(self, plain, directive):
        self.plain, self.directive = plain, directive

    def __len__(self):
        return 0

    def __getitem__(self, key):
        if not has_traced(key):
            return self.plain[key]
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, place = self.directive
        if isinstance(items[0], str):
            axis, ndim, place = self._directive(items.pop(0))
        parts = [self._with_axes(item, ndim, place) for item in items]
        dtype = np.result_type(*[item if isinstance(item, int | float | complex) else p.dtype
                                 for item, p in zip(items, parts, strict=True)])  # fmt: skip
        return np.concatenate([p if p.dtype == dtype else p.astype(dtype) for p in parts], axis=axis)

    def _directive(self, text):
        """Read ``"axis"``, ``"axis,ndim"`` or ``"axis,ndim,place"``."""
        if text in ("r", "c"):
            raise UnsupportedArgumentError(
                "numpy.r_", text, "asks for a np.matrix", "leave it out, and reshape the result."
            )
        axis, ndim, place = self.directive
        numbers = [int(n) for n in text.split(",")]
        return (numbers + [axis, ndim, place][len(numbers) :])[:3]

    @staticmethod
    def _with_axes(item, ndim, place):
        """Return a part with `ndim` axes at least: the axes it has begin at `place`, or come last for -1."""
        x = run_of(item) if isinstance(item, slice) else as_array(item)
        missing = ndim - len(x.shape)
        if missing <= 0:
            return x
        front = missing if place == -1 or not x.shape else place + missing + 1 if place < 0 else place
        return x.reshape((1,) * front + x.shape + (1,) * (missing - front))


class Grid:
    """Spans a grid over the slices between its brackets, as `numpy.mgrid` and `numpy.ogrid` do."""

    __slots__ = ("plain", "sparse")

    def __init__(self, plain, sparse):
        self.plain, self.sparse = plain, sparse

    def __getitem__(self, key):
        if not has_traced(key):
            return self.plain[key]
        if isinstance(key, slice):
            return run_of(key)
        axes = np.meshgrid(*map(run_of, key), indexing="ij", sparse=self.sparse)
        return tuple(axes) if self.sparse else array(list(axes))


r_ = Joined(np.r_, (0, 1, -1))
c_ = Joined(np.c_, (-1, 2, 0))
mgrid = Grid(np.mgrid, sparse=False)
ogrid = Grid(np.ogrid, sparse=True)
