"""NumPy's functions that call a function of the user's, or walk over elements: with traced values, also in closures.

NumPy's own put what the function returns into a plain array. These stack it.
"""

import functools
import re

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.buffer import buffer
from chainrule.errors import NotDifferentiableError, UnsupportedFunctionError
from chainrule.rules import callables, choices
from chainrule.rules.creation import array, asarray, is_traced
from chainrule.rules.differences import as_array
from chainrule.rules.unsupported import WITHOUT_DISPATCH

apply_along_axis = callables.apply_along_axis
apply_over_axes = callables.apply_over_axes


def piecewise(x, condlist, funclist, *args, **kw):
    """Return `numpy.piecewise`: each function of its part of `x`. `x` and what the functions hold may be traced.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> t = cnp.array([0.5, 3.0])
    >>> cr.grad(lambda a: cnp.sum(cnp.piecewise(t, [t < 1], [lambda t: a * t, lambda t: a**2])))(4.0)
    8.5
    """
    return choices.piecewise(buffer(as_array(x)), condlist, funclist, *args, **kw)


class vectorize:
    """Calls a function of numbers once for each element of its arguments, broadcast: `numpy.vectorize`.

    The arguments, and values that the function takes from elsewhere, may be traced.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> relu = cnp.vectorize(lambda x: x if x > 0 else 0.0)
    >>> cr.grad(lambda x: cnp.sum(relu(x)))(cnp.array([3.0, -2.0]))
    array([1., 0.])
    """

    def __init__(self, pyfunc=None, otypes=None, doc=None, excluded=None, cache=False, signature=None):
        self.pyfunc, self.otypes, self.cache, self.signature = pyfunc, otypes, cache, signature
        self.excluded = set(excluded or ())
        if pyfunc is not None:
            functools.update_wrapper(self, pyfunc)
        if doc is not None:
            self.__doc__ = doc

    def __call__(self, *args, **kwargs):  # noqa: D102 (what the class says)
        if self.pyfunc is None:  # as a decorator with arguments
            return vectorize(*args, self.otypes, None, self.excluded, self.cache, self.signature)
        given = {**dict(enumerate(args)), **kwargs}
        arrays = {k: as_array(v) for k, v in given.items() if k not in self.excluded}
        core = dict(zip(arrays, self._core_axes(len(arrays)), strict=True))
        loops = {k: v.shape[: len(v.shape) - core[k]] for k, v in arrays.items()}
        loop = np.broadcast_shapes(*loops.values())
        if 0 in loop:
            return self._plain()(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
        spread = {k: np.broadcast_to(v, loop + v.shape[len(loops[k]) :]) for k, v in arrays.items()}
        results = []
        for index in np.ndindex(loop):
            each = {**given, **{k: v[index] for k, v in spread.items()}}
            results.append(self.pyfunc(*[each[i] for i in range(len(args))], **{k: each[k] for k in kwargs}))
        if isinstance(results[0], tuple):
            return tuple([self._joined(list(parts), loop, i) for i, parts in enumerate(zip(*results, strict=True))])
        return self._joined(results, loop, 0)

    def _core_axes(self, count):
        """Return how many axes of each argument the function gets at once."""
        if self.signature is None:
            return (0,) * count
        return [len(re.findall(r"\w+", part)) for part in re.findall(r"\(([^)]*)\)", self.signature.split("->")[0])]

    def _plain(self):
        options = {"excluded": self.excluded or None, "cache": self.cache, "signature": self.signature}
        return np.vectorize(self.pyfunc, self.otypes, None, **options)

    def _joined(self, results, loop, i):
        """Return results in the dtype of the first, as NumPy does, or in that asked for."""
        parts = [as_array(r) for r in results]
        dtype = np.dtype(self.otypes[i]) if self.otypes else parts[0].dtype
        if dtype.kind not in "fc" and any(isinstance(p, Boxed) for p in parts):
            raise NotDifferentiableError(
                f"numpy.vectorize makes all results {dtype}, as the first one is, and that loses their derivatives.",
                "say what they are:  np.vectorize(f, otypes=[float]);",
                "return floats in all cases:  0.0 for 0.",
            )
        y = np.stack(parts)
        y = y if y.dtype == dtype else y.astype(dtype)
        y = y.reshape(loop + parts[0].shape)
        return y if y.shape else y[()]


def fromiter(iter, dtype, count=-1, *, like=None):
    """Return `numpy.fromiter`: an array of the numbers that an iterable gives, traced or not, at most `count` of them.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> cr.jacobian(lambda x: cnp.fromiter((x**k for k in range(4)), float))(2.0)
    array([ 0.,  1.,  4., 12.])
    """
    items = [v for _, v in zip(range(count), iter, strict=False)] if count >= 0 else list(iter)
    if not is_traced(items):
        return np.fromiter(items, dtype, count)
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    return array(items, dtype)


def asarray_chkfinite(a, dtype=None, order=None):
    """Return `numpy.asarray_chkfinite`: `a` as an array; a ValueError if an entry is infinite or NaN."""
    x = asarray(a, dtype, order)
    plain = value(x)
    if np.asarray(plain).dtype.kind in "fc" and not np.isfinite(plain).all():
        raise ValueError("array must not contain infs or NaNs")
    return x


def isscalar(element):
    """Tell whether `element` is a number, traced or not: `numpy.isscalar`."""
    return np.isscalar(value(element))


def kaiser(M, beta):
    """Return `numpy.kaiser`, the window of `M` points; its shape `beta` may be traced.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> cr.jacobian(lambda beta: cnp.kaiser(3, beta))(2.0).round(3)
    array([-0.306,  0.   , -0.306])
    """
    if M == 1:
        return np.ones(1, np.result_type(M, 0.0))
    middle = (M - 1) / 2.0
    return np.i0(beta * np.sqrt(1 - ((np.arange(M) - middle) / middle) ** 2.0)) / np.i0(beta)


class ndenumerate:
    """Iterates over pairs of an index and the element there, traced or not: `numpy.ndenumerate`.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> cr.grad(lambda x: sum(i * v for (i,), v in cnp.ndenumerate(x)))(cnp.ones(3))
    array([0., 1., 2.])
    """

    def __init__(self, arr):
        x = as_array(arr)
        self._pairs = ((index, x[index]) for index in np.ndindex(x.shape))

    def __next__(self):
        return next(self._pairs)

    def __iter__(self):
        return self


class broadcast:
    """Iterates over the elements of arrays, broadcast against each other: `numpy.broadcast`.

    Examples
    --------
    >>> import chainrule as cr
    >>> import chainrule.numpy as cnp
    >>> cr.grad(lambda x: sum(a * b for a, b in cnp.broadcast(x, [[1.0], [2.0]])))(cnp.ones(2))
    array([3., 3.])
    """

    def __init__(self, *args):
        arrays = [as_array(a) for a in args]
        self.shape = np.broadcast_shapes(*[a.shape for a in arrays])
        self.ndim = self.nd = len(self.shape)
        self.numiter, self.size = len(arrays), int(np.prod(self.shape))
        self.iters = tuple([iter(np.ravel(np.broadcast_to(a, self.shape))) for a in arrays])
        self._all = zip(*self.iters, strict=True)

    def __next__(self):
        return next(self._all)

    def __iter__(self):
        return self


def refused(name):
    """Return NumPy's function or class of that name, for plain values; of traced ones it raises what to write."""

    def call(*args, **kwargs):
        if is_traced(list(args)) or is_traced(list(kwargs.values())):
            raise UnsupportedFunctionError(f"numpy.{name}", *WITHOUT_DISPATCH[name])
        return getattr(np, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return `numpy.{name}` of plain values."
    return call


nditer = refused("nditer")
nested_iters = refused("nested_iters")
