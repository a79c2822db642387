"""Derivative rules of Fourier transforms and convolutions.

The matrix of the discrete Fourier transform is symmetric, so the adjoint of `fft` (its plain transpose) is `fft` again,
with the same normalisation; padding and cutting to length ``n`` are each other's adjoints. The transforms of real
signals are the complex ones with half of the spectrum left out.
"""

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.indexing import scatter
from chainrule.engine.rule import RULES, bilinear, composite, gather, linear
from chainrule.engine.spec import primitive, shape_of, spec_of, sum_to
from chainrule.rules.products import array, conj


def along(axis, part):
    """Return the index that takes the slice `part` of the axis `axis`, counted from the end."""
    return (..., part, *[slice(None)] * (-1 - axis))


def fitted(x, n, axis):
    """Cut `x` to length `n` along the axis `axis` (counted from the end), or fill it up with zeros."""
    have = x.shape[axis]
    if have == n:
        return x
    if have > n:
        return x[along(axis, slice(0, n))]
    shape = list(x.shape)
    shape[axis] = n
    return scatter(x, along(axis, slice(0, have)), tuple(shape), spec_of(x).dtype)


def from_end(x, axis):
    """Return `axis` counted from the end."""
    return axis % len(x.shape) - len(x.shape)


def symmetric_adjoint(fun):
    """Return the adjoint of a transform with a symmetric matrix: the transform itself."""

    def adjoint(ybar, y, x, n=None, axis=-1, norm=None):
        axis = from_end(x, axis)
        return fitted(fun(ybar, axis=axis, norm=norm), x.shape[axis], axis)

    return adjoint


def rfft_adjoint(ybar, y, x, n=None, axis=-1, norm=None):
    """The transform of the half spectrum with zeros for the rest; the engine takes the real part for a real x."""
    axis = from_end(x, axis)
    n = x.shape[axis] if n is None else n
    return fitted(np.fft.fft(fitted(ybar, n, axis), axis=axis, norm=norm), x.shape[axis], axis)


def irfft_adjoint(ybar, y, x, n=None, axis=-1, norm=None):
    """Entries of the half spectrum stand for two of the whole, but for the first and, of even length, the last."""
    axis = from_end(x, axis)
    n = shape_of(ybar)[axis]
    m = n // 2 + 1
    weights = np.full(m, 2.0, spec_of(ybar).dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    half = np.fft.ifft(ybar, axis=axis, norm=norm)[along(axis, slice(0, m))]
    return fitted(half * weights.reshape((m,) + (1,) * (-1 - axis)), x.shape[axis], axis)


linear(np.fft.fft, symmetric_adjoint(np.fft.fft))
linear(np.fft.ifft, symmetric_adjoint(np.fft.ifft))
linear(np.fft.rfft, rfft_adjoint)
linear(np.fft.irfft, irfft_adjoint)
for _fun in (np.fft.fftshift, np.fft.ifftshift):
    if _fun not in RULES:
        gather(_fun)


# -- several axes ------------------------------------------------------------------------------------------------------


def lengths(a, s, axes, halved=False):
    """Return the lengths and axes of a transform over several axes, as NumPy reads them."""
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(len(a.shape))
    axes = list(axes)
    if s is None:
        s = [a.shape[i] for i in axes]
        if halved and axes:
            s[-1] = (s[-1] - 1) * 2
    s = [a.shape[i] if n == -1 else n for n, i in zip(s, axes, strict=True)]
    return list(zip(s, axes, strict=True))


def _declare(name, one, axes):
    @composite(getattr(np.fft, name))
    def transform(a, s=None, axes=axes, norm=None):
        for n, axis in reversed(lengths(a, s, axes)):
            a = one(a, n, axis, norm)
        return a

    transform.__name__ = name


def _declare_real(name, axes):
    @composite(getattr(np.fft, name))
    def transform(a, s=None, axes=axes, norm=None):
        *others, (n, axis) = lengths(a, s, axes)
        a = np.fft.rfft(a, n, axis, norm)
        for n, axis in reversed(others):
            a = np.fft.fft(a, n, axis, norm)
        return a

    transform.__name__ = name


def _declare_inverse_real(name, axes):
    @composite(getattr(np.fft, name))
    def transform(a, s=None, axes=axes, norm=None):
        *others, (n, axis) = lengths(a, s, axes, halved=True)
        for m, i in others:
            a = np.fft.ifft(a, m, i, norm)
        return np.fft.irfft(a, n, axis, norm)

    transform.__name__ = name


for _suffix, _axes in (("n", None), ("2", (-2, -1))):
    _declare("fft" + _suffix, np.fft.fft, _axes)
    _declare("ifft" + _suffix, np.fft.ifft, _axes)
    _declare_real("rfft" + _suffix, _axes)
    _declare_inverse_real("irfft" + _suffix, _axes)

OTHER_NORM = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@composite(np.fft.hfft)
def hfft(a, n=None, axis=-1, norm=None):
    """Transform a signal with a real spectrum."""
    n = (a.shape[axis] - 1) * 2 if n is None else n
    return np.fft.irfft(conj(a), n, axis, OTHER_NORM[norm])


@composite(np.fft.ihfft)
def ihfft(a, n=None, axis=-1, norm=None):
    """The inverse of `hfft`."""
    return np.conj(np.fft.rfft(a, n, axis, OTHER_NORM[norm]))


# -- convolutions ------------------------------------------------------------------------------------------------------


def row(x):
    """Return an operand as `np.convolve` reads it: a number is a row of one."""
    return x if shape_of(x) else np.reshape(x, (1,))


def whole(ybar, a, v, mode):
    """Put the cotangent of a part of a convolution into zeros of the length of the full one."""
    (size,), (n,), (m,) = [shape_of(x) or (1,) for x in (ybar, a, v)]
    first = {"full": 0, "same": (min(n, m) - 1) // 2, "valid": min(n, m) - 1}[mode]
    return scatter(ybar, slice(first, first + size), (n + m - 1,), spec_of(ybar).dtype)


def slid(ybar, a, v, mode, over):
    """Slide one operand over the cotangent, the other way round."""
    return np.convolve(whole(ybar, a, v, mode), row(over)[::-1], "valid")


def convolve_abar(ybar, y, a, v, mode="full"):
    """Slide v over the cotangent; a number gets a number."""
    return slid(ybar, a, v, mode, v).reshape(shape_of(a))


def convolve_vbar(ybar, y, a, v, mode="full"):
    """Slide a over the cotangent; a number gets a number."""
    return slid(ybar, a, v, mode, a).reshape(shape_of(v))


bilinear(np.convolve, convolve_abar, convolve_vbar)


def span(n, m, mode):
    """Return where the part that `mode` names begins in a full convolution, and how long it is."""
    least, most = min(n, m), max(n, m)
    return {"full": (0, n + m - 1), "same": ((least - 1) // 2, most), "valid": (least - 1, most - least + 1)}[mode]


SHORT = 4000  # products of a row: with more of them than this a call for each row costs less than a pass for each entry


@primitive
def convolve_rows(a, v, mode="full"):
    """Convolve along the last axes, the others broadcast."""
    n, m = a.shape[-1], v.shape[-1]
    if n < m:
        a, v, n, m = v, a, m, n
    first, size = span(n, m, mode)
    lead = np.broadcast_shapes(a.shape[:-1], v.shape[:-1])
    y = np.zeros((*lead, size), np.result_type(a, v))
    if m * size > SHORT:
        a, v = np.broadcast_to(a, (*lead, n)), np.broadcast_to(v, (*lead, m))
        for i in np.ndindex(*lead):
            y[i] = np.convolve(a[i], v[i], mode)
        return y
    whole = np.zeros((*a.shape[:-1], n + 2 * m - 2), a.dtype)
    whole[..., m - 1 : m - 1 + n] = a
    for k in range(m):
        start = first + m - 1 - k
        y += v[..., k, None] * whole[..., start : start + size]
    return y


def whole_rows(ybar, a, v, mode):
    """Put the cotangent of a part of a convolution into zeros of the length of the full one."""
    n, m = a.shape[-1], v.shape[-1]
    first, size = span(n, m, mode)
    shape = (*shape_of(ybar)[:-1], n + m - 1)
    return scatter(ybar, (Ellipsis, slice(first, first + size)), shape, spec_of(ybar).dtype)


bilinear(
    convolve_rows,
    lambda ybar, y, a, v, mode="full": sum_to(
        convolve_rows(whole_rows(ybar, a, v, mode), v[..., ::-1], mode="valid"), a.shape
    ),
    lambda ybar, y, a, v, mode="full": sum_to(
        convolve_rows(whole_rows(ybar, a, v, mode), a[..., ::-1], mode="valid"), v.shape
    ),
)


@composite(np.correlate)
def correlate(a, v, mode="valid"):
    """Convolve with the other, reversed and conjugated."""
    a, v = array(a), array(v)
    if not shape_of(a) or not shape_of(v):
        return np.correlate(np.zeros(shape_of(a)), np.zeros(shape_of(v)), mode)  # raises: it takes no numbers
    if len(value(v)) > len(value(a)):
        return conj(correlate(v, a, mode))[::-1]
    return np.convolve(a, conj(v)[::-1], mode)
