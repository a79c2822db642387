"""Samples of interpolation, polynomials, sets, histograms, covariances, `numpy.emath` and functions of functions."""

import numpy as np

from chainrule.rules.choices import CLIP
from chainrule.rules.histograms import histogram_and_edges, plain_histogram
from chainrule.rules.interpolation import through_values
from chainrule.rules.polynomials import characteristic, roots_of
from chainrule.testing.samples import array, policy, sample, values

KNOTS = values([-2.5, -1.0, -0.2, 0.7, 2.5])
DATA = values([0.1, 2.0, 0.35, 1.2, 0.5])
INSIDE = (-1.9, 1.9)
EDGES = [-2.5, -1.0, 0.25, 2.5]
complexes = ("complex128", "complex64")


def quotient_and_rest(y):
    """Join quotient and rest, without the zeros, or nearly zeros, in front of the rest."""
    return np.concatenate((y[0], y[1][-2:]))


def norm(x):
    """Return a smooth number of a slice."""
    return np.sqrt(np.sum(x * x))


def both(x):
    """Return an array of a slice: its square and its running sums."""
    return np.stack((x * x, np.cumsum(x)))


def doubled_ends(line, widths, axis, options):
    """Write twice the neighbour to the left of a line, and a multiple of its square to the right."""
    line[: widths[0]] = 2 * line[widths[0]]
    line[len(line) - widths[1] :] = options["factor"] * line[widths[0]] ** 2


def spread_out(p):
    """Return coefficients of a polynomial whose roots lie far apart: four corners of a square, moved a little."""
    return np.array([1.0, 0.0, 0.0, 0.0, 3.0]) + 0.1 * p


def near_real(p):
    """Return coefficients of a polynomial near (x - 1) (x - 3) (x + 2)."""
    return np.array([1.0, -2.0, -5.0, 6.0]) + 0.1 * p


# fmt: off
SAMPLES = [
    # interpolation
    sample(np.interp, array(2, 3, domain=INSIDE), KNOTS, array(5)).without(*complexes),
    sample(np.interp, array(3), [-1.0, 0.1, 1.0], [0.5, 2.0, -1.0]).without(*complexes),
    sample(np.interp, 0.4, KNOTS, array(5)).without(*complexes),
    sample(np.interp, array(), [0.0, 1.0], [1.0, 2.0], period=1.7).without(*complexes),
    sample(np.interp, array(4), [2.0, -1.1, 0.1], array(3), period=array(domain=(3.0, 4.0))).without(*complexes),
    sample(np.interp, array(4), [-0.6, 0.6], array(2), left=array(), right=array()).without(*complexes),
    sample(np.interp, [0.5, -3.0], [-1.0, 0.1, 1.0], array(3)).of(np.interp, through_values),
    sample(np.interp, [0.5, -3.0, 3.0], [-1.0, 0.1, 1.0], array(3), left=2.0).of(np.interp, through_values),
    sample(np.interp, array(2), [0.3], array(1)).without(*complexes),
    policy(np.interp, 1.0, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]).gives(4.0),
    policy(np.interp, 0.0, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]).gives(1.0),
    policy(np.interp, 2.0, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]).gives(4.0),
    policy(np.interp, 3.0, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]).gives(0.0),
    sample(np.unwrap, array(5, domain=(-9.0, 9.0))),
    sample(np.unwrap, values([[0.1, 2.0, -0.4, 1.3], [1.7, 0.3, 2.9, 1.0]]), discont=1.5, axis=0, period=2.0),

    # polynomials
    sample(np.polyval, array(4), array(2, 3)),
    sample(np.polyval, array(3), 0.7),
    sample(np.polyval, [1.0, -2.0, 0.5], array(3)),
    sample(np.polyadd, array(4), array(2)),
    sample(np.polyadd, [1.0, 2.0], array(3)),
    sample(np.polysub, array(2), array(4)),
    sample(np.polymul, array(3), array(2)),
    sample(np.polydiv, array(5), array(3, domain=(0.5, 2.0))).after(quotient_and_rest),
    sample(np.polydiv, array(2), array(3)).after(lambda y: y[0] + y[1]),
    sample(np.polyder, array(4)),
    sample(np.polyder, array(4), 2),
    sample(np.polyint, array(3)),
    sample(np.polyint, array(3), 2, k=[0.5, 1.0]),
    sample(np.polyint, array(3), m=2, k=array()),
    sample(np.roots, array(4)).of(roots_of).before(near_real).without(*complexes),
    sample(np.roots, array(5)).before(spread_out).after(lambda y: y.imag**2 + y.real**3),
    sample(np.roots, values([2.0, 1.0, -4.0, 0.0])).after(lambda r: np.stack([np.sum(r**2), np.sum(r**3)])),
    policy(np.roots, np.array([1.0, 0.0, 0.0])).singular("a repeated root"),
    sample(np.poly, array(3)),
    sample(np.poly, array(3, 3)),
    sample(np.poly, values(np.eye(3))).named("repeated eigenvalues").without(*complexes),
    sample(characteristic, array(2, 2)),
    sample(np.poly1d, array(3)).after(lambda p: (p * p + p.deriv() - 2 * p.integ())(0.5)).of(np.polyint),
    sample(np.polyfit, array(6), array(6), 2).without(*complexes),
    sample(np.polyfit, array(5), array(5, 2), 1, w=array(5, domain=(0.5, 2.0))).without(*complexes),
    sample(np.polyfit, array(6), array(6), 2, full=True).after(lambda y: np.concatenate(y[:2])).without(*complexes),
    sample(np.polyfit, array(6), array(6), 1, cov=True).after(lambda y: y[1]).without(*complexes).loose(10),
    sample(np.polyfit, array(6), array(6), 1, cov="unscaled").after(lambda y: y[1]).without(*complexes),

    # sets
    sample(np.unique, array(2, 3)),
    sample(np.unique, values([3.0, 1.0, 2.0, -1.0]), True, True, True).after(lambda y: y[0] * y[3]),
    sample(np.unique, array(3, 2), axis=0),
    policy(np.unique, np.array([2.0, 1.0, 2.0])).gives([1.0, 1.0, 0.0]),
    sample(np.unique_values, array(4)).after(np.sort),  # NumPy's order follows no rule
    sample(np.unique_counts, array(4)).after(lambda y: np.sort(y.values * y.counts)),
    sample(np.unique_inverse, array(4)).after(lambda y: y.values[y.inverse_indices]),
    sample(np.unique_all, array(2, 2)).after(lambda y: y.values[y.inverse_indices]),
    sample(np.union1d, array(2), array(3)),
    policy(np.intersect1d, np.array([1.0, 2.0, 3.0]), [3.0, 1.0, 5.0]).gives([1.0, 0.0, 1.0]),
    sample(np.intersect1d, values([1.0, 2.0]), [7.0], return_indices=True).after(lambda y: y[0]),
    sample(np.setdiff1d, array(4), [3.0]),
    sample(np.setdiff1d, array(4), array(2), assume_unique=True),
    sample(np.setxor1d, array(3), array(2)),
    sample(np.isin, array(3), [0.5, 1.0]).of(getattr(np, "in1d", None)),

    sample(np.sort_complex, array(4)),

    # histograms
    sample(np.bincount, [0, 2, 2, 1], array(4)),
    sample(np.bincount, [0, 2, 2, 1], weights=array(4), minlength=6),
    sample(np.histogram_bin_edges, array(6), 3).without(*complexes),
    sample(np.histogram_bin_edges, array(6), "sturges").without(*complexes),
    sample(np.histogram_bin_edges, [0.1, 0.7], 2, range=(0.0, array(domain=(1.0, 2.0)))).without(*complexes),
    sample(np.histogram, DATA, 3).after(lambda y: y[0] * y[1][1:]).without(*complexes),
    sample(np.histogram, DATA, 3, density=True).after(lambda y: y[0]).without(*complexes),
    sample(np.histogram, [0.1, 0.4, 2.0, 9.0], EDGES, weights=array(4)).after(lambda y: y[0]),
    sample(np.histogram, array(5), 4, (-1.5, 1.5), weights=array(5)).after(lambda y: y[0]).without(*complexes),
    sample(np.histogram2d, array(6), array(6), 2).after(lambda y: y[0] * y[1][1:] * y[2][1:]).without(*complexes),
    sample(np.histogram2d, array(6), array(6), EDGES, weights=array(6)).after(lambda y: y[0]).without(*complexes),
    sample(np.histogramdd, array(6, 2), 2, density=True).of(histogram_and_edges, plain_histogram)
        .after(lambda y: y[0]).without(*complexes),
    sample(np.histogramdd, array(6, 2), (2, EDGES), weights=array(6)).after(lambda y: y[0] * y[1][0][1:, None])
        .without(*complexes),

    # covariances
    sample(np.cov, array(2, 4)),
    sample(np.cov, array(4)),
    sample(np.cov, array(4), array(4), bias=True),
    sample(np.cov, array(4, 2), rowvar=False, ddof=0),
    sample(np.cov, array(2, 4), fweights=[1, 2, 1, 3], aweights=array(4, domain=(0.5, 2.0))).without(*complexes),
    sample(np.cov, array(2, 3), aweights=[0.5, 1.5, 1.0], ddof=0),
    sample(np.corrcoef, array(2, 4)),
    sample(np.corrcoef, array(4), array(4)),
    sample(np.corrcoef, array(4)).after(lambda y: y + 0.0),

    # functions of another domain
    sample(np.emath.sqrt, array(3)), sample(np.emath.sqrt, array(3, domain=(0.5, 2.0))),
    sample(np.emath.log, array(3)), sample(np.emath.log2, array(3)), sample(np.emath.log10, array(3)),
    sample(np.emath.logn, 2.0, array(3)), sample(np.emath.logn, array(domain=(1.5, 2.0)), array(2)),
    sample(np.emath.power, array(3), 1.5), sample(np.emath.power, array(3), -2),
    sample(np.emath.power, array(3, domain=(0.5, 2.0)), array(3)),
    sample(np.emath.arcsin, array(3)), sample(np.emath.arccos, array(3)), sample(np.emath.arctanh, array(3)),

    sample(np.einsum_path, "ij,jk,kl", array(2, 3), array(3, 2), array(2, 2)).after(lambda y: y[1]),

    # borders and quantiles with traced, or unusual, arguments
    sample(np.pad, array(2, 3), 1, constant_values=array(2)),
    sample(np.pad, array(2, 3), ((1, 2), (2, 1)), constant_values=((array(), 1.0), (2.0, array()))),
    sample(np.pad, array(2, 3), ((1, 2), (2, 1)), "linear_ramp", end_values=array()).without(*complexes),
    sample(np.pad, array(2, 2), ((2, 1), (1, 2)), doubled_ends, factor=3.0),
    sample(np.quantile, array(2, 4), [0.2, 0.7], 1, method="inverted_cdf", weights=[1.0, 3.0, 0.5, 2.0])
        .without(*complexes),
    sample(np.percentile, array(2, 3), [20.0], (0, 1), method="inverted_cdf", weights=[[1, 3, 1], [2, 1, 1]],
           keepdims=True).without(*complexes),
    sample(np.logspace, 0.0, array(), 4, base=array(2, domain=(1.5, 3.0)), axis=-1),

    sample(CLIP, array(3), values([-3.0, 0.5, -3.0]), values([0.1, 3.0, 3.0])),
    sample(np.std, values([[1.0, 1.0], [0.5, 2.0]]), axis=1, mean=array(2, 1)),
    policy(np.std, np.array([2.0, 2.0]), mean=2.0).gives([0.0, 0.0]),

    sample(np.quantile, array(5), array(2, domain=(0.1, 0.9))).without(*complexes),
    sample(np.quantile, array(4, 3), array(domain=(0.1, 0.9)), axis=0, method="hazen").without(*complexes),
    sample(np.percentile, array(2, 3), array(2, domain=(10, 90)), (0, 1), method="weibull", keepdims=True)
        .without(*complexes),
    sample(np.quantile, [1.0, 5.0, 2.0, 7.0], array(2, 2, domain=(0.1, 0.9)), method="median_unbiased")
        .without(*complexes),
    sample(np.nanquantile, [[1.0, np.nan, 2.5], [0.5, 4.0, 3.0]], array(domain=(0.1, 0.9)), axis=1).without(*complexes),
    sample(np.quantile, array(5), array(domain=(0.1, 0.9)), method="lower").without(*complexes),
    policy(np.quantile, np.array([1.0, 4.0, 9.0]), 1.0).gives([0.0, 0.0, 1.0], 10.0),
    policy(np.quantile, np.array([1.0, 4.0, 9.0]), 0.0).gives([1.0, 0.0, 0.0], 6.0),
    policy(np.quantile, np.array([1.0, 4.0, 9.0]), 0.5).gives([0.0, 1.0, 0.0], 10.0),
    policy(np.quantile, np.array([1.0, 4.0, 9.0]), 0.9, method="hazen").gives([0.0, 0.0, 1.0], 0.0),

    # windows, and functions of functions
    sample(np.lib.stride_tricks.sliding_window_view, array(5), 3),
    sample(np.lib.stride_tricks.sliding_window_view, array(3, 4), (2, 2)),
    sample(np.lib.stride_tricks.sliding_window_view, array(3, 4), 2, axis=1),
    sample(np.lib.stride_tricks.sliding_window_view, array(2, 6), (2, 3), axis=(-1, 1)),
    sample(np.apply_along_axis, norm, 1, array(2, 3)),
    sample(np.apply_along_axis, both, 0, array(3, 2)),
    sample(np.apply_along_axis, np.polyval, -1, array(2, 2, 3), x=array()),
    sample(np.apply_over_axes, np.prod, array(2, 3, 2), [0, -1]),
    sample(np.apply_over_axes, np.cumsum, array(2, 3), 1),
]
# fmt: on
