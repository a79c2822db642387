"""NumPy's functions that call a function of the user's: it gets traced slices, and what it returns is stacked.

NumPy hands these calls to us if the array is traced. Of a plain array and a function that holds traced values it does
not know; `chainrule.numpy` has them for this.
"""

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from chainrule.engine.rule import composite
from chainrule.engine.spec import shape_of
from chainrule.rules.differences import as_array


@composite(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """Apply a function to each line along an axis, and put its results in the place of that axis."""
    x = as_array(arr)
    k = normalize_axis_index(axis, len(x.shape))
    lines = np.moveaxis(x, k, -1)
    front = lines.shape[:-1]
    if 0 in front:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [as_array(func1d(lines[index], *args, **kwargs)) for index in np.ndindex(front)]
    inner = shape_of(results[0])
    y = np.reshape(np.stack(results), front + inner)
    last = tuple(range(len(front), len(front) + len(inner)))
    return np.moveaxis(y, last, tuple(range(k, k + len(inner))))


@composite(np.apply_over_axes)
def apply_over_axes(func, a, axes):
    """Apply a function of an array and an axis for each axis in turn; a lost axis is put back."""
    x = as_array(a)
    n = len(x.shape)
    for axis in [axes] if np.ndim(axes) == 0 else axes:
        axis = axis + n if axis < 0 else axis
        y = func(x, axis)
        if len(shape_of(y)) == n - 1:
            y = np.expand_dims(y, axis)
        if len(shape_of(y)) != n:
            raise ValueError("function is not returning an array of the correct shape")
        x = y
    return x
