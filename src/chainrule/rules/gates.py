"""The gates of neural networks that NumPy lacks, each a single node: `relu` and `sigmoid`.

Both are functions of our own with a rule like NumPy's, so they work on plain and on traced values, in every mode and to
any order. `sigmoid` is evaluated without overflow, and its derivative keeps its digits in both tails.
"""

from typing import Any

import numpy as np

from chainrule.engine.boxed import Boxed, array_value
from chainrule.engine.rule import elementwise, select
from chainrule.engine.spec import primitive, spec_of


def as_float(x):
    """Return what a user gave as a float or an array of floats; floats, complex numbers and boxes stay as they are."""
    if isinstance(x, Boxed | float | complex) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c"):
        return x
    x = np.asarray(x)
    return (x if x.dtype.kind in "fc" else x.astype(float))[()]


@primitive
def relu(x: Any) -> Any:
    """Return the positive part of `x`: x where x > 0, and 0 elsewhere.

    The derivative is 1 where x > 0 and 0 elsewhere, also at the kink x = 0. (``np.maximum(x, 0)`` has the same values,
    but shares the derivative at 0 between its arguments, so it is 1/2 there.)

    Parameters
    ----------
    x : array_like of float, shape (...)
        Where to evaluate; plain or traced. NaN stays NaN.

    Returns
    -------
    ndarray or scalar, shape (...)
        Of the dtype of `x`; integers are taken as floats.

    Raises
    ------
    TypeError
        If `x` is complex: complex numbers have no order.

    Notes
    -----
    One node on the tape. It keeps a mask of the active entries at most; no Jacobian is formed.

    Examples
    --------
    >>> import numpy as np
    >>> import chainrule as cr
    >>> cr.relu(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    >>> cr.elementwise_grad(cr.relu)(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 1.])
    """
    x = as_float(x)
    if np.asarray(x).dtype.kind == "c":
        raise TypeError("chainrule.relu takes real values: complex numbers have no order")
    return np.maximum(x, 0)


@primitive
def sigmoid(x: Any) -> Any:
    """Return the logistic function 1 / (1 + exp(-x)).

    Parameters
    ----------
    x : array_like of float or complex, shape (...)
        Where to evaluate; plain or traced. No argument overflows.

    Returns
    -------
    ndarray or scalar, shape (...)
        Of the dtype of `x`; integers are taken as floats.

    Notes
    -----
    One node on the tape. The local derivative is ``y * (1 - y)``, computed as ``e / (1 + e)**2`` with e = exp(-abs(x)),
    which stays exact to rounding where ``1 - y`` would cancel.

    Examples
    --------
    >>> import numpy as np
    >>> import chainrule as cr
    >>> cr.sigmoid(np.array([-800.0, 0.0, 800.0]))
    array([0. , 0.5, 1. ])
    >>> cr.grad(cr.sigmoid)(0.0)
    0.25
    """
    x = as_float(x)
    if np.iscomplexobj(x):
        negative = x.real < 0
        e = np.exp(np.where(negative, x, -x))
    else:
        negative = x < 0
        e = np.exp(-abs(x))
    return np.where(negative, e, 1) / (1 + e)  # e is at most 1 in size, so nothing overflows


@primitive
def bell(x):
    """Return the derivative of the sigmoid of real numbers, ``e / (1 + e)**2`` with e = exp(-|x|).

    Its own derivative by this formula keeps its digits near 0, where that of y * (1 - y) cancels.
    """
    e = np.exp(-abs(x))
    return e / ((1 + e) * (1 + e))


def sigmoid_dx(y, x):
    """y (1 - y), without cancellation."""
    return y * sigmoid(-x) if spec_of(x).kind == "c" else bell(x)


select(relu, lambda y, x: (positive(x),), nin=1, complex=False)
elementwise(sigmoid, sigmoid_dx)
elementwise(bell, lambda y, x: -y * np.tanh(x / 2), complex=False)


def positive(x):
    """Return where relu is active; a NaN reaches the result, too."""
    return np.logical_not(array_value(x) <= 0)
