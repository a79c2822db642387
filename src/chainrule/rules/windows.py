"""Views of sliding windows: the same elements, each as often as a window reaches it."""

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from chainrule.engine.indexing import scatter
from chainrule.engine.rule import gather
from chainrule.engine.writes import OVERLAPPING


def windows_back(ybar, y, x, window_shape=None, axis=None, subok=False, writeable=False):
    """Add up, place by place in the window, what comes back from there: each place saw a shifted part of the array."""
    window = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    xbar = np.zeros(x.shape, x.dtype)
    for place in np.ndindex(window):
        shift = [0] * x.ndim
        for a, i in zip(axes, place, strict=True):
            shift[a] += i
        part = tuple([slice(s, s + n) for s, n in zip(shift, ybar.shape, strict=False)])
        xbar = xbar + scatter(ybar[(Ellipsis, *place)], part, x.shape, x.dtype)
    return xbar


gather(np.lib.stride_tricks.sliding_window_view, adjoint=windows_back)
OVERLAPPING.add(np.lib.stride_tricks.sliding_window_view)
