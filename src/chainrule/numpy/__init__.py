"""NumPy, with array creation that takes and returns traced values.

NumPy hands us every function that is called with a traced value, but not the call that makes an array:
``np.array([x, y])`` and ``a = np.zeros(n); a[0] = x`` know nothing of derivatives. The functions defined here do. All
other names are NumPy's own, so ``import chainrule.numpy as np`` may stand in place of ``import numpy as np``.

An array that holds traced values is traced. One that holds none is a buffer: an array of constants into which traced
values can be written, and which turns into a traced array then. Buffers convert to plain arrays wherever NumPy asks
for one; arrays of integers and bools are plain.

Also here: functions that NumPy does not hand over because they call a function of the user's (`vectorize`, `piecewise`,
`apply_along_axis`), build arrays between brackets (`r_`, `c_`, `mgrid`, `ogrid`) or walk over elements (`ndenumerate`).

Plain NumPy has the same by its own ``like=``: ``np.zeros(n, like=x)``, ``np.array([x, y], like=x)``.

Examples
--------
>>> import numpy as np
>>> import chainrule as cr
>>> import chainrule.numpy as cnp
>>> def f(x):
...     a = cnp.zeros(3)
...     a[0] = x
...     a[1:] = cnp.array([x**2, 5.0])
...     return np.sum(a)
>>> cr.grad(f)(3.0)
7.0
"""

import numpy as _numpy

from chainrule.numpy.calling import (
    apply_along_axis,
    apply_over_axes,
    asarray_chkfinite,
    broadcast,
    fromiter,
    isscalar,
    kaiser,
    ndenumerate,
    nditer,
    nested_iters,
    piecewise,
    vectorize,
)
from chainrule.numpy.grids import c_, mgrid, ogrid, r_
from chainrule.rules.creation import (
    arange,
    array,
    asarray,
    ascontiguousarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    geomspace,
    identity,
    linspace,
    logspace,
    ones,
    ones_like,
    tri,
    zeros,
    zeros_like,
)
from chainrule.rules.creation import asarray as asanyarray
from chainrule.rules.creation import ascontiguousarray as asfortranarray

__all__ = [
    "apply_along_axis", "apply_over_axes", "arange", "array", "asanyarray", "asarray", "asarray_chkfinite",
    "ascontiguousarray", "asfortranarray", "broadcast", "c_", "empty", "empty_like", "eye", "fromiter", "full",
    "full_like", "geomspace", "identity", "isscalar", "kaiser", "linspace", "logspace", "mgrid", "ndenumerate",
    "nditer", "nested_iters", "ogrid", "ones", "ones_like", "piecewise", "r_", "tri", "vectorize", "zeros",
    "zeros_like",
]  # fmt: skip


def __getattr__(name):
    return getattr(_numpy, name)


def __dir__():
    return sorted({*__all__, *dir(_numpy)})
