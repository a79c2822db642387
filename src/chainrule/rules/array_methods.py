"""ndarray's methods and attributes on traced values: each is the NumPy function of the same meaning.

`METHODS` maps a method to a function that takes the array first and the same arguments. The others, whose arguments
differ from the function's or that write in place, are written out. What has no meaning for a traced value raises.
"""

import numpy as np

from chainrule.engine.boxed import CALL, Boxed, all_values, value
from chainrule.engine.rule import RULES
from chainrule.engine.writes import write
from chainrule.errors import ConversionError, InPlaceError
from chainrule.rules.shapes import astype as cast
from chainrule.rules.shapes import flatten

METHODS = {
    "all": np.all, "any": np.any, "argmax": np.argmax, "argmin": np.argmin, "argpartition": np.argpartition,
    "argsort": np.argsort, "choose": np.choose, "clip": np.clip, "conj": np.conjugate, "conjugate": np.conjugate,
    "cumprod": np.cumprod, "cumsum": np.cumsum, "diagonal": np.diagonal, "dot": np.dot,
    "flatten": flatten, "max": np.max, "mean": np.mean, "min": np.min, "nonzero": np.nonzero, "prod": np.prod,
    "put": np.put, "ravel": np.ravel, "repeat": np.repeat, "round": np.round, "searchsorted": np.searchsorted,
    "squeeze": np.squeeze, "std": np.std, "sum": np.sum, "swapaxes": np.swapaxes, "take": np.take, "trace": np.trace,
    "var": np.var,
}  # fmt: skip

# Methods and attributes of ndarray that a traced value does not have, and what to use instead.
REFUSED = {
    "__dlpack__": "chainrule.value(x)", "byteswap": "chainrule.value(x).byteswap()",
    "ctypes": "chainrule.value(x).ctypes",
    "dump": "pickle of chainrule.value(x)", "dumps": "pickle of chainrule.value(x)", "getfield": "np.real or np.imag",
    "setfield": "x[...] = v", "tofile": "chainrule.value(x).tofile(file)",
}  # fmt: skip


def _method(name, fun):
    def method(self, *args, **kwargs):
        if isinstance(kwargs.get("out"), Boxed):
            return fun(self, *args, **kwargs)
        call = CALL[fun]  # as NumPy would, without asking it
        if getattr(RULES[fun], "quick", None):  # from now on without this step between
            call.__name__, call.__qualname__, call.__doc__ = name, name, doc
            setattr(Boxed, name, call)
        return call(self, *args, **kwargs)

    doc = f"Return `numpy.{fun.__name__}` of this array."
    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


def _refused(name, instead):
    def get(self):
        raise ConversionError(f"x.{name}", f"use  {instead}.")

    return property(get, doc="Not available on a traced value.")


def reshape(self, *shape, order="C", copy=None):
    """Return the elements in another shape."""
    if len(shape) == 1:
        shape = shape[0]
    if copy is None and order == "C":
        return CALL[np.reshape](self, shape)
    if copy is None:
        return CALL[np.reshape](self, shape, order=order)
    return CALL[np.reshape](self, shape, order=order, copy=copy)


def copy(self, order="C"):
    """Return a copy by rows, where that of `numpy.copy` is in the order of the array."""
    if order == "C" and (len(self.shape) < 2 or all_values(self).flags.c_contiguous):
        return CALL[np.copy](self)
    return CALL[np.copy](self, order=order)


def transpose(self, *axes):
    """Permute the axes, or reverse them."""
    if len(axes) == 1 and (axes[0] is None or hasattr(axes[0], "__len__")):
        axes = axes[0]
    return CALL[np.transpose](self, tuple(axes)) if axes else CALL[np.transpose](self)


def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """Cast. Integers and bools have no derivative, and are plain."""
    if casting != "unsafe" and not np.can_cast(self.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}"
        )
    return cast(self, dtype, copy=copy)


def compress(self, condition, axis=None, out=None):
    """Read the slices where the condition holds."""
    return np.compress(condition, self, axis, out)


def fill(self, v):
    """Write `v` to all entries."""
    write(self, Ellipsis, v)


def sort(self, axis=-1, kind=None, order=None, *, stable=None):
    """Sort in place."""
    write(self, Ellipsis, np.sort(self, axis, kind, order, stable=stable))


def partition(self, kth, axis=-1, kind="introselect", order=None):
    """Partition in place."""
    write(self, Ellipsis, np.partition(self, kth, axis, kind, order))


def resize(self, *args, **kwargs):
    """Refuse: a traced array keeps its size."""
    raise InPlaceError("x.resize changes the size of an array in place.", "make a new one:  y = np.resize(x, shape).")


def view(self, dtype=None, type=None):
    """Return another name for the same elements; their bytes can't be read as another dtype."""
    if (dtype is None or dtype == self.dtype) and type in (None, np.ndarray):
        return self[...]
    raise ConversionError(
        "x.view(dtype)",
        "cast:  x.astype(dtype);",
        "for pairs of floats as complex numbers:  x[..., 0::2] + 1j * x[..., 1::2];",
        "of complex numbers use  x.real  and  x.imag.",
    )


def to_device(self, device, /, *, stream=None):
    """Return this array: there is one device, the CPU."""
    if device != "cpu" or stream is not None:
        raise ValueError(f"NumPy's arrays are on the device 'cpu' only, not on {device!r}")
    return self


def delete_item(self, index):
    """Refuse, as NumPy does."""
    raise ValueError("cannot delete array elements")


def setflags(self, *args, **kwargs):
    """Refuse: the flags belong to the plain array."""
    raise InPlaceError(
        "x.setflags changes the plain array behind a traced value.", "use  chainrule.value(x).setflags(...)."
    )


class Flat:
    """The elements of a traced array in row-major order: ``x.flat``."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return self.x.size

    def __iter__(self):
        return iter(np.ravel(self.x))

    def __getitem__(self, index):
        y = np.ravel(self.x)[index]
        return np.copy(y) if getattr(y, "shape", ()) else y

    def __setitem__(self, index, v):
        where = np.arange(self.x.size)[index]
        v = v if hasattr(v, "shape") else np.asarray(v)
        if where.size:
            v = np.ravel(v)[np.arange(where.size) % v.size].reshape(where.shape)
            write(self.x, np.unravel_index(where, self.x.shape), v)


def _set_flat(x, v):
    Flat(x)[:] = v


def _set_shape(x, shape):
    raise InPlaceError("x.shape = ... changes an array in place.", "make a new one:  y = x.reshape(shape).")


def _flags(x):
    return np.asarray(value(x)).flags


def _strides(x):
    return np.asarray(value(x)).strides


def install():
    """Put methods and attributes on `Boxed`."""
    for name, fun in METHODS.items():
        setattr(Boxed, name, _method(name, fun))
    for fun in (copy, reshape, transpose, astype, compress, fill, sort, partition, resize, setflags, to_device, view):
        setattr(Boxed, fun.__name__, fun)
    for name, instead in REFUSED.items():
        setattr(Boxed, name, _refused(name, instead))
    Boxed.__delitem__ = delete_item
    Boxed.__array_namespace__ = lambda self, *, api_version=None: np
    Boxed.device = property(lambda self: "cpu", doc="Where the array is: NumPy knows one place.")
    Boxed.T = property(transpose, doc="The array with its axes reversed.")
    Boxed.mT = property(np.matrix_transpose, doc="The array with its last two axes swapped.")
    Boxed.flat = property(Flat, _set_flat, doc="The elements in row-major order.")
    Boxed.flags = property(_flags, doc="Flags of the plain array.")
    Boxed.strides = property(_strides, doc="Steps in bytes of the plain array.")
    Boxed.shape = property(Boxed.shape.fget, _set_shape, doc="Tuple of lengths.")


install()
__all__ = ["METHODS", "REFUSED", "Flat", "install"]
