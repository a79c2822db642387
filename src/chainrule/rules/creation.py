"""Arrays made anew: ``zeros_like(x)``, ``np.zeros(n, like=x)``, ``np.array([x, y], like=x)`` and their kin.

Zeros, ones and the like hold constants, and are given as a `Buffer`: what traced values may be written into. Arrays
made of traced values are built by stacking. `chainrule.numpy` gives the same functions without ``like=``.
"""

import operator

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.buffer import buffer
from chainrule.engine.rule import composite, linear
from chainrule.engine.spec import primitive, shape_of, spread_to, sum_to
from chainrule.rules.shapes import astype, by_rows, laid_like, plain_of


def made(fun):
    """Return the function that gives what NumPy's `fun` makes as a buffer."""

    def make(*args, **kwargs):
        kwargs.pop("like", None)
        return buffer(fun(*args, **kwargs))

    make.__name__ = make.__qualname__ = fun.__name__
    make.__doc__ = (
        f"Return `numpy.{fun.__name__}` of the same arguments, as an array that traced values can be written to."
    )
    return make


zeros, ones, empty, eye, identity, tri = map(made, (np.zeros, np.ones, np.empty, np.eye, np.identity, np.tri))
for _fun, _make in ((np.zeros, zeros), (np.ones, ones), (np.empty, empty), (np.eye, eye), (np.tri, tri)):
    composite(_fun)(_make)
composite(np.identity)(identity)


def model(a):
    """Return a plain array of the shape and dtype of `a`; of a batch, those of one run."""
    a = value(a)
    return np.empty(a.shape, a.dtype) if isinstance(a, Boxed) else a


def made_like(fun):
    """Return the function that gives NumPy's `fun`, which copies the shape and dtype of an array, as a buffer."""

    def make(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
        return buffer(fun(model(a), dtype, order, subok, shape, device=device))

    make.__name__ = make.__qualname__ = fun.__name__
    make.__doc__ = f"Return `numpy.{fun.__name__}` of `a`, as an array that traced values can be written to."
    return make


zeros_like, ones_like, empty_like = map(made_like, (np.zeros_like, np.ones_like, np.empty_like))
composite(np.zeros_like)(zeros_like)
composite(np.ones_like)(ones_like)
composite(np.empty_like)(empty_like)


@composite(np.full)
def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    """Return an array of one value, which keeps its derivative if it is traced."""
    if not isinstance(fill_value, Boxed):
        return buffer(np.full(shape, fill_value, dtype, order, device=device))
    shape = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    return spread_to(_typed(fill_value, dtype), tuple([int(n) for n in shape]))


@composite(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """Return an array like `a` of one value, which keeps its derivative if it is traced."""
    if not isinstance(fill_value, Boxed):
        return buffer(np.full_like(model(a), fill_value, dtype, order, subok, shape, device=device))
    plain = model(a)
    dtype = (plain.dtype if hasattr(plain, "dtype") else np.dtype(type(plain))) if dtype is None else dtype
    if shape is not None:
        return full(shape, fill_value, dtype)
    y = full(shape_of(plain), fill_value, dtype)
    return laid_like(y, plain) if order in ("K", "A") else y


def _typed(x, dtype):
    return x if dtype is None or np.dtype(dtype) == x.dtype else astype(x, dtype)


def is_traced(x):
    """Tell whether `x` is, or holds in nested lists, a box."""
    return isinstance(x, Boxed) or (x.__class__ in (list, tuple) and any(is_traced(v) for v in x))


def joined(x):
    """Return nested lists of numbers and arrays, some of them traced, as one array."""
    if x.__class__ not in (list, tuple):
        return x
    if not is_traced(x):
        return np.asarray(x)
    return np.stack([joined(v) for v in x])


@composite(np.array)
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None):
    """Return an array of nested lists of numbers and arrays, traced or not; a copy of an array."""
    if not is_traced(object):
        return buffer(np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin))
    x = joined(object)
    if x is object and copy:
        x = np.copy(x)
    x = _typed(x, dtype)
    shape = shape_of(x)
    return x.reshape((1,) * (ndmin - len(shape)) + shape) if len(shape) < ndmin else x


@composite(np.asarray, np.asanyarray)
def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    """Return `a` itself if it is traced already, and an array of it otherwise."""
    return array(a, dtype, copy=bool(copy) if is_traced(a) else copy, order=order or "K")


@composite(np.ascontiguousarray)
def ascontiguousarray(a, dtype=None, *, like=None):
    """Return `a` with at least one axis; a copy if it does not lie by rows."""
    return by_rows(array(a, dtype, copy=False if is_traced(a) else None, ndmin=1))


@composite(np.asfortranarray)
def asfortranarray(a, dtype=None, *, like=None):
    """Return `a` with at least one axis; a copy if it does not lie by columns."""
    y = array(a, dtype, copy=False if is_traced(a) else None, ndmin=1)
    return y if plain_of(y).flags.f_contiguous else np.copy(y, order="F")


@composite(np.require)
def require(a, dtype=None, requirements=None, *, like=None):
    """Return `a`, as a copy if it shall own its memory."""
    wanted = {str(r).upper() for r in (requirements or [])}
    return array(a, dtype, copy=bool(wanted & {"O", "OWNDATA"}) if is_traced(a) else None)


@composite(np.arange)
def arange(*args, dtype=None, device=None, like=None, **kwargs):
    """Return evenly spaced values: their number is read off the values, their places follow start and step."""
    if not any(isinstance(v, Boxed) for v in (*args, *kwargs.values())):
        return buffer(np.arange(*args, dtype=dtype, device=device, **kwargs))
    start, stop, step = _range(*args, **kwargs)
    count = len(np.arange(value(start), value(stop), value(step)))
    return _typed(start + step * np.arange(float(count)), dtype)


def _range(start=0, stop=None, step=1, **kwargs):
    start = kwargs.get("start_or_stop", start)
    return (0, start, 1 if step is None else step) if stop is None else (start, stop, 1 if step is None else step)


@primitive
def spaced(start, stop, num, endpoint, axis):
    """Return `numpy.linspace`: as a primitive, since its adjoint loses digits if it is made of steps."""
    return np.linspace(start, stop, num, endpoint, axis=axis)


def spaced_back(share):
    """Return the adjoint to one end: each value takes the ``share(t)`` of it, t from 0 to 1."""

    def adjoint(ybar, y, start, stop, num=50, endpoint=True, axis=0):
        x = start if share is first_share else stop
        k = normalize_axis_index(axis, len(ybar.shape))
        t = share(np.linspace(0.0, 1.0, num, endpoint)).astype(np.zeros((), ybar.dtype).real.dtype)
        return sum_to((ybar * t.reshape((-1,) + (1,) * (len(ybar.shape) - k - 1))).sum(axis=k), x.shape)

    return adjoint


def first_share(t):
    """Return the share of the first end in the values between the two."""
    return 1 - t


def last_share(t):
    """Return the share of the last end."""
    return t


linear(spaced, spaced_back(first_share), spaced_back(last_share))


@composite(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """Return evenly spaced values, linear in both ends."""
    if not (isinstance(start, Boxed) or isinstance(stop, Boxed)):
        y = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)
        return (buffer(y[0]), y[1]) if retstep else buffer(y)
    num = operator.index(num)
    y = _typed(spaced(start, stop, num, bool(endpoint), axis), dtype)
    if not retstep:
        return y
    gaps = num - 1 if endpoint else num
    return y, ((stop - start) / gaps if gaps > 0 else np.nan)


@composite(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """Return powers of `base` with evenly spaced exponents."""
    if not any(isinstance(v, Boxed) for v in (start, stop, base)):
        return buffer(np.logspace(start, stop, num, endpoint, base, dtype, axis))
    if shape_of(base):
        ndim = max(len(shape_of(v)) for v in (start, stop, base))
        start, stop, base = (np.reshape(v, (1,) * (ndim - len(shape_of(v))) + shape_of(v)) for v in (start, stop, base))
        base = np.expand_dims(base, axis)
    return _typed(base ** linspace(start, stop, num, endpoint, axis=axis), dtype)


@composite(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """Return values with evenly spaced logarithms."""
    if not any(isinstance(v, Boxed) for v in (start, stop)):
        return buffer(np.geomspace(start, stop, num, endpoint, dtype, axis))
    ratio = stop / start
    exponent = np.linspace(0.0, 1.0, num, endpoint)
    shape = shape_of(ratio)
    y = start * ratio ** exponent.reshape((-1,) + (1,) * len(shape))
    if shape and axis not in (0, -len(shape) - 1):
        y = np.moveaxis(y, 0, axis)
    return _typed(y, dtype)
