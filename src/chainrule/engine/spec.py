"""Shapes and dtypes: what a cotangent must look like, and our own primitives that bring it there.

A cotangent has the shape and dtype of its primal. `Spec` keeps those two of an operand, instead of the operand itself.
"""

import inspect

import numpy as np

from chainrule.engine.boxed import CALL, Boxed, holds_box


class Spec:
    """Shape and dtype of a value that itself need not be kept. `dtype` is None for Python numbers, which are weak."""

    __slots__ = ("dtype", "kind", "shape")

    def __init__(self, shape, dtype, kind):
        self.shape, self.dtype, self.kind = shape, dtype, kind

    @property
    def ndim(self):
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self):
        """Number of entries."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"Spec({self.shape}, {self.dtype})"


_WEAK = {float: Spec((), None, "f"), complex: Spec((), None, "c"), int: Spec((), None, "i"), bool: Spec((), None, "b")}


def spec_of(x):
    """Return the `Spec` of a value, boxed or not."""
    if x.__class__ is np.ndarray:
        dtype = x.dtype
        return Spec(x.shape, dtype, dtype.kind)
    weak = _WEAK.get(x.__class__)
    if weak is not None:
        return weak
    if isinstance(x, Boxed):
        inner, batches = x.data, int(x.batch)
        while isinstance(inner, Boxed):
            batches += inner.batch
            inner = inner.data
        if inner.__class__ is np.ndarray:
            dtype = inner.dtype
            return Spec(inner.shape[batches:] if batches else inner.shape, dtype, dtype.kind)
        spec = spec_of(inner)
        return Spec(spec.shape[batches:], spec.dtype, spec.kind) if batches else spec
    if isinstance(x, Spec):
        return x
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        x = np.asarray(x)
        dtype = x.dtype
    return Spec(x.shape, dtype, dtype.kind)


def primitive(function):
    """Make one of our own functions dispatch on boxes, as NumPy's functions do."""

    signature = inspect.signature(function)
    place = list(signature.parameters).index("index") if "index" in signature.parameters else None

    def call(*args, **kwargs):
        for a in args:
            if isinstance(a, Boxed):
                return CALL[call](*args, **kwargs)
        if place is not None:  # integers of a program
            index = args[place] if len(args) > place else kwargs.get("index")
            if isinstance(index, Boxed) or (index.__class__ is tuple and holds_box(index)):
                return CALL[call](*args, **kwargs)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    call.__module__ = function.__module__
    call.__signature__ = signature
    call.plain = function
    return call


@primitive
def sum_to(x, shape):
    """Sum `x` down to `shape`: the adjoint of broadcasting from `shape`."""
    have = x.shape if hasattr(x, "shape") else ()
    if have == shape:
        return x
    extra = len(have) - len(shape)
    if have[extra:] == shape:  # the usual case: all else was in front
        return np.add.reduce(x, axis=0 if extra == 1 else tuple(range(extra)))
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1)
    if axes:
        x = np.add.reduce(x, axis=axes, keepdims=True)
    return x.reshape(shape) if x.shape != shape else x


@primitive
def spread_to(x, shape):
    """Broadcast `x` to `shape`, as a fresh array: the adjoint of summing."""
    y = np.empty(shape, getattr(x, "dtype", None) or np.dtype(type(x)))
    y[...] = x
    return y


@primitive
def cast_to(x, dtype):
    """Cast to `dtype`; a complex value loses its imaginary part where `dtype` is real."""
    if dtype.kind in "fiub" and np.asarray(x).dtype.kind == "c":
        x = x.real
    return x.astype(dtype) if isinstance(x, np.ndarray | np.generic) else dtype.type(x)


@primitive
def real_part(x):
    """Return the real part: what a real operand receives of a complex cotangent."""
    return x.real


@primitive
def choose(mask, x):
    """Return `x`, spread over the mask, where `mask` holds and zero elsewhere, whatever `x` is there (NaN too)."""
    if x.__class__ is np.ndarray and np.shape(mask) == x.shape:
        return np.where(mask, x, 0.0)
    shape = np.broadcast_shapes(np.shape(mask), np.shape(x))
    y = np.zeros(shape, getattr(x, "dtype", None) or np.dtype(type(x)))
    np.copyto(y, x, where=mask)
    return y if y.ndim else y[()]


def shape_of(x):
    """Return the shape of a value, boxed or not, without a dispatched call."""
    return x.shape if hasattr(x, "shape") else np.shape(x)


def fit(xbar, spec):
    """Give a cotangent the dtype of its primal: cast, and take the real part for a real primal."""
    dtype = spec.dtype
    if dtype is None:
        if spec.kind == "f" and xbar.__class__ is not float and getattr(xbar, "dtype", COMPLEX).kind == "c":
            return real_part(xbar)
        return xbar
    have = getattr(xbar, "dtype", None)
    if have is dtype or (have is not None and have == dtype):  # None equals the dtype of floats
        return xbar
    return cast_to(xbar, dtype)


COMPLEX = np.dtype(complex)


def fit_broadcast(xbar, spec):
    """Give the cotangent of a broadcast operand the shape and dtype of its primal."""
    if xbar.__class__ is np.ndarray:
        if xbar.shape != spec.shape:
            xbar = sum_to.plain(xbar, spec.shape)
    elif shape_of(xbar) != spec.shape:
        xbar = sum_to(xbar, spec.shape)
    return fit(xbar, spec)


def fit_tangent(ydot, spec):
    """Give a tangent the shape and dtype of its primal."""
    if shape_of(ydot) != spec.shape:
        ydot = spread_to(ydot, spec.shape)
    return fit(ydot, spec)


def tangent_like(ydot, y):
    """Give a tangent the shape and dtype of its primal `y`."""
    if isinstance(ydot, Boxed) and ydot.batch:  # of many directions: the tangents of whole matrices of derivatives
        data, kind = ydot.data, y.__class__
        if (
            data.__class__ is np.ndarray and (kind is np.ndarray or kind is np.float64)
            and data.dtype is y.dtype and data.shape[1:] == y.shape
        ):  # fmt: skip
            return ydot
    return fit_tangent(ydot, spec_of(y))


def zeros_of(spec):
    """Return zeros of the shape and dtype of a value or `Spec`."""
    spec = spec_of(spec)
    if spec.dtype is None:
        return 0.0
    return np.zeros(spec.shape, spec.dtype) if spec.shape else spec.dtype.type(0)


def ones_of(spec):
    """Return ones of the shape and dtype of a value or `Spec`: the seed of a scalar output."""
    spec = spec_of(spec)
    if spec.dtype is None:
        return 1.0
    return np.ones(spec.shape, spec.dtype) if spec.shape else spec.dtype.type(1)
