"""Cutting derivatives off on purpose."""

from typing import Any

from chainrule import tree
from chainrule.engine.boxed import Boxed, value


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
