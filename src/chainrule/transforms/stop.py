"""Cutting derivatives off on purpose."""

from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.engine.boxed import value as value_of


def stop_gradient(x: Any) -> Any:
    """Return the value of `x` as a constant for all derivatives.

    Parameters
    ----------
    x : array_like, traced value, or a container of these

    Returns
    -------
    ndarray, number, or container
        The plain value.

    Examples
    --------
    >>> import chainrule as cr
    >>> cr.grad(lambda x: x * cr.stop_gradient(x))(3.0)
    3.0
    """
    return value(x) if isinstance(x, Boxed) else tree.tree_map(value, x)


def value(x: Any) -> Any:
    """Return the plain value of `x`, without derivatives: a number or an ndarray; anything untraced as it is.

    Of a batch (in `vmap`) it is the batch, of a program that is being recorded what computes the value.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.value(cr.Variable(np.array([1.0, 2.0])))
    array([1., 2.])
    """
    plain = value_of(x)
    if isinstance(plain, Boxed) and plain.recorded:  # a call without derivative, in the program, too
        return plain.run_constant(np.positive, (plain,), {}, plain.level)
    return plain


__all__ = ["stop_gradient", "value"]
