"""Products with second derivatives, and derivatives of higher order along a direction, without forming any matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.engine.spec import shape_of, spec_of
from chainrule.errors import NotScalarError
from chainrule.transforms.common import Chosen, name_of, need_function, points
from chainrule.transforms.forward import jvp
from chainrule.transforms.jacobians import hvp
from chainrule.transforms.reverse import seeds_like, vjp


def gauss_newton(f: Callable, loss: Callable, x: Any, v: Any) -> Any:
    """Multiply the Gauss-Newton matrix of ``loss(f(x))`` by `v`, without forming it.

    The matrix is ``J^T H J``, with the Jacobian ``J`` of `f` at `x` and the Hessian ``H`` of `loss` at ``f(x)``: the
    Hessian of the composition without the curvature of `f`. It is positive semidefinite if `loss` is convex.

    Parameters
    ----------
    f : callable
        The model: takes an array or container of arrays, and returns an array or container of arrays.
    loss : callable
        Takes what `f` returns, and returns a scalar.
    x, v : array or container of arrays
        Where to evaluate, and the vector: the same container and shapes.

    Returns
    -------
    array or container of arrays, as `x`
        ``J^T H J v``.

    Raises
    ------
    NotScalarError
        If `loss` returns an array with axes.
    ShapeError
        If `v` does not fit `x`.

    Notes
    -----
    One tangent through `f`, a Hessian-vector product of `loss`, and one pullback through `f`: a small multiple of the
    cost of both, whatever the sizes [1]_.

    References
    ----------
    .. [1] N. N. Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent", Neural
       Computation 14(7), 2002.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> f = lambda x: np.array([x[0] ** 2, x[0] * x[1]], like=x)
    >>> loss = lambda y: np.sum(y**2) / 2
    >>> cr.gauss_newton(f, loss, np.array([1.0, 2.0]), np.array([1.0, 0.0]))  # J = [[2, 0], [2, 1]]
    array([8., 2.])
    """
    for function in (f, loss):
        need_function(function, "gauss_newton(f, loss, x, v)")
    y, ydot = jvp(f, (x,), (v,))
    hv = hvp(loss, y, ydot)
    _, pullback = vjp(f, x)
    return pullback(hv)[0]


def directional(f: Callable, x: Any, v: Any, order: int = 1) -> tuple:
    """Return the derivatives of `f` along a direction, of all orders up to `order`: those of ``t -> f(x + t v)`` at 0.

    Parameters
    ----------
    f : callable
        Takes an array or container of arrays, and returns an array or container of arrays.
    x, v : array or container of arrays
        Where to evaluate, and the direction: the same container and shapes.
    order : int
        The highest order, 0 or more.

    Returns
    -------
    tuple of length ``order + 1``
        The value, the first derivative, the second, ..., each as `f` returns its value. Term ``k`` of Taylor's series
        is entry ``k`` divided by ``k!``.

    Raises
    ------
    ShapeError
        If `v` does not fit `x`.

    Notes
    -----
    Duals inside of duals: one run of `f`, whose cost doubles with each order. No memory is kept.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> [float(d) for d in cr.directional(lambda x: x**3, 2.0, 1.0, order=4)]
    [8.0, 12.0, 12.0, 6.0, 0.0]
    """
    need_function(f, "directional(f, x, v)")
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 0:
        raise ValueError(f"order must be 0 or a positive int, not {order!r}")
    if order == 0:
        primals, structure = points(x, f"the argument of {name_of(f)}")
        seeds_like(v, [spec_of(p) for p in primals], structure, "tangent")
        return (f(x),)

    def below(x):
        return directional(f, x, v, order - 1)

    derivatives, dots = jvp(below, (x,), (v,))
    return (*derivatives, dots[-1])


def hessian_diagonal(f: Callable, argnums: int | None = None, argnames: str | None = None) -> Callable:
    """Return a function that evaluates the second derivatives of `f` in each entry by itself.

    Parameters
    ----------
    f : callable
        Returns a scalar.
    argnums, argnames : optional
        Which argument, as for `grad`; one.

    Returns
    -------
    callable
        Takes the arguments of `f`. Entry ``i`` of the result is ``d2f/dx_i^2``; it has the container and shapes of the
        argument.

    Raises
    ------
    NotScalarError
        If `f` returns an array with axes, or a container.

    Notes
    -----
    Exact, by second derivatives along each entry, forward over forward: ``n`` runs of `f`, each at about four times its
    cost, and no memory. (From products with the Hessian as many are needed; a sum over random directions estimates.)

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.hessian_diagonal(lambda x: x[0] ** 3 * x[1] + x[1] ** 2)(np.array([2.0, 5.0]))
    array([60.,  2.])
    """
    need_function(f, "hessian_diagonal(f)(x)")
    chosen = Chosen(f, argnums, argnames)
    if not chosen.one:
        raise ValueError("hessian_diagonal takes one argument: an int for argnums, or a name")

    def diagonal(*args, **kwargs):
        (place,) = chosen.places(f, args, kwargs)
        holder = kwargs if isinstance(place, str) else args
        x = holder[place]
        values, structure = points(x, f"argument {place!r} of {name_of(f)}")

        def of(x):
            if isinstance(place, str):
                y = f(*args, **{**kwargs, place: x})
            else:
                y = f(*args[:place], x, *args[place + 1 :], **kwargs)
            if not isinstance(y, Boxed) and tree.flatten(y)[1] is not None:
                raise NotScalarError(name_of(f), "a container", "hessian_diagonal")
            if shape_of(y) != ():
                raise NotScalarError(name_of(f), shape_of(y), "hessian_diagonal")
            return y

        zeros = [np.zeros(shape_of(v), spec_of(v).dtype) for v in values]
        parts = []
        for k, v in enumerate(values):
            shape, entries = shape_of(v), []
            for i in range(zeros[k].size):
                direction = list(zeros)
                unit = zeros[k].copy()
                unit.reshape(-1)[i] = 1
                direction[k] = unit if shape else unit[()]
                along = directional(
                    of, tree.unflatten(structure, values), tree.unflatten(structure, direction), order=2
                )
                entries.append(along[2])
            parts.append(np.stack(entries).reshape(shape) if shape and entries else entries[0] if entries else zeros[k])
        return tree.unflatten(structure, parts)

    return diagonal
