"""Histograms. A count is a step function of the data, with derivative zero; a sum of weights is linear in the weights.

Bins that are made from the data (``bins=10``) have edges that follow its extremes, and a density divides by the widths
of the bins, so these have derivatives in the data too.
"""

import operator

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.indexing import scatter
from chainrule.engine.rule import composite, constant
from chainrule.engine.spec import choose, primitive
from chainrule.rules.creation import joined
from chainrule.rules.differences import as_array


@primitive
def histogram_and_edges(points, bins, ranges, weights):
    """Return the histogram of plain points in several dimensions, and the edges of each."""
    hist, edges = np.histogramdd(points, bins, ranges, weights=weights)
    return hist, *edges


@primitive
def plain_histogram(a, bins, limits, weights):
    """Return the histogram of plain numbers, and the edges."""
    return tuple(np.histogram(a, bins, limits, weights=weights))


constant(histogram_and_edges, plain_histogram)


def plain_of(x):
    """Return an argument without derivatives, also what is in lists."""
    return type(x)([plain_of(v) for v in x]) if isinstance(x, list | tuple) else value(x)


@composite(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    """Add up the weights of each number; without weights, count."""
    numbers = value(x)
    if not isinstance(weights, Boxed):
        return np.bincount(numbers, weights, minlength)
    plain = np.bincount(numbers, value(weights), minlength)  # raises what NumPy would
    return scatter(doubled(weights), np.asarray(numbers, np.intp), plain.shape, plain.dtype)


def doubled(weights):
    """Return weights in the precision that NumPy adds them up in."""
    return weights if weights.dtype.char in "dD" else weights.astype(complex if weights.dtype.kind == "c" else float)


def outer_edges(a, limits):
    """Return the first and the last edge for data `a`, as NumPy chooses them."""
    if limits is not None:
        low, high = limits
    elif not a.size:
        low, high = 0.0, 1.0
    else:
        low, high = np.min(a), np.max(a)
    return (low - 0.5, high + 0.5) if value(low) == value(high) else (low, high)


def edges_of(a, bins, limits, plain):
    """Return the edges of the bins, given their plain values."""
    if not isinstance(bins, str) and np.ndim(value(joined(bins))):
        return as_array(bins)
    low, high = outer_edges(a, limits)
    if not (isinstance(low, Boxed) or isinstance(high, Boxed)):
        return plain
    return np.linspace(low, high, len(plain), dtype=plain.dtype)


@composite(np.histogram_bin_edges)
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """Spread the edges evenly between the extremes, if they are not given."""
    a = as_array(a)
    plain = np.histogram_bin_edges(value(a), plain_of(bins), plain_of(range), plain_of(weights))
    return edges_of(a, bins, range, plain)


def bins_of(a, edges):
    """Return the number of the bin of each entry, and which entries lie in one; the last bin holds its right edge."""
    number = np.searchsorted(edges, a, side="right") - 1
    number = number - (a == edges[-1])
    return number, (number >= 0) & (number < len(edges) - 1) & ~np.isnan(a)


@composite(np.histogram)
def histogram(a, bins=10, range=None, density=None, weights=None):
    """Count, or add up the weights, and divide by the widths and the total for a density."""
    a = as_array(a)
    n, plain = plain_histogram(value(a), plain_of(bins), plain_of(range), plain_of(weights))
    a = np.ravel(a)
    edges = edges_of(a, bins, range, plain)
    weights = joined(weights)
    if isinstance(weights, Boxed):
        number, inside = bins_of(value(a).astype(plain.dtype, copy=False), plain)
        n = scatter(choose(inside, np.ravel(weights)), np.where(inside, number, 0), n.shape, n.dtype)
    if not density:
        return n, edges
    widths = edges[1:] - edges[:-1]
    widths = widths if widths.dtype == float else widths.astype(float)
    return n / widths / n.sum(), edges


@composite(np.histogramdd)
def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    """Do the same in several dimensions."""
    if len(getattr(sample, "shape", ())) == 2:
        columns = [sample[:, i] for i in np.arange(sample.shape[1]).tolist()]
    else:
        columns = [as_array(c) for c in (sample if isinstance(sample, list | tuple) else [sample])]
    bins = list(bins) if hasattr(bins, "__len__") else [bins] * len(columns)
    ranges = [None] * len(columns) if range is None else list(range)
    known = plain_of(weights)
    points = np.stack([value(c) for c in columns], axis=1)
    hist, *plain = histogram_and_edges(points, plain_of(bins), plain_of(ranges), known)
    edges = [edges_of(c, *given) for c, *given in zip(columns, bins, ranges, plain, strict=True)]
    weights = joined(weights)
    if isinstance(weights, Boxed):
        found = [bins_of(value(c), e) for c, e in zip(columns, plain, strict=True)]
        number, inside = 0, True
        for (n, i), count in zip(found, hist.shape, strict=True):
            number, inside = number * count + n, inside & i
        flat = scatter(choose(inside, doubled(weights)), np.where(inside, number, 0), (hist.size,), hist.dtype)
        hist = flat.reshape(hist.shape)
    if density:
        total = hist.sum()
        for i, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape((1,) * i + (-1,) + (1,) * (len(edges) - i - 1))
        hist = hist / total
    return hist, edges


@composite(np.histogram2d)
def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    """Do the same in two dimensions; one array of edges serves both."""
    x, y = as_array(x), as_array(y)
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]
    elif not hasattr(bins, "__len__"):
        bins = operator.index(bins)
    hist, edges = np.histogramdd([x, y], bins, range, density, weights)
    return hist, edges[0], edges[1]
