"""Samples of reductions, products, norms and Fourier transforms: one line for each way of calling."""

import numpy as np

from chainrule.rules.einsum import diagonals, einsum2
from chainrule.rules.fft import convolve_rows
from chainrule.rules.norms import length, tip, unit
from chainrule.rules.products import cross3
from chainrule.rules.statistics import deviation_of, median_of, neighbours, quantile_of, variance
from chainrule.testing.samples import array, policy, sample

COMPLEX = ("complex128", "complex64")
MASK = np.array([[True, False, True], [True, True, False]])
POSITIVE = (0.3, 2.0)


def gaps(x):
    """Put NaN where `MASK` is False."""
    return np.where(MASK, x, x.dtype.type(np.nan))


def each_axis(fun, complex=True, **options):
    """Return samples of a reduction over no, one and several axes."""
    found = [
        sample(fun, array(2, 3), **options),
        sample(fun, array(2, 3), axis=0, **options),
        sample(fun, array(2, 3, 2), axis=-2, keepdims=True, **options),
        sample(fun, array(2, 3, 2), axis=(0, -1), **options),
        sample(fun, array(2, 3), keepdims=True, **options),
    ]
    return found if complex else [s.without(*COMPLEX) for s in found]


REAL = ("float64", "float32")
HALVES: tuple = (
    ((6,), {}),
    ((5,), {"n": 5}),
    ((4,), {"n": 9}),
    ((2, 7), {"n": 4, "norm": "ortho"}),
    ((5, 2), {"axis": 0}),
)

# fmt: off
REDUCTIONS = [
    *each_axis(np.sum), *each_axis(np.mean), *each_axis(np.prod), *each_axis(np.var), *each_axis(np.std),
    *each_axis(np.max, complex=False), *each_axis(np.min, complex=False), *each_axis(np.ptp, complex=False),
    sample(np.any, array(2, 3), axis=1), sample(np.all, array(2, 3), keepdims=True),
    sample(np.amax, array(2, 3), axis=1).without(*COMPLEX),
    sample(np.amin, array(2, 3), axis=1).without(*COMPLEX),
    sample(np.sum, array()), sample(np.prod, array()), sample(np.mean, array(1)), sample(np.max, array()),
    sample(np.sum, array(2, 3), axis=1, where=MASK),
    sample(np.sum, array(2, 3), axis=1, initial=2.0),
    sample(np.sum, array(2, 3), axis=()),
    sample(np.mean, array(2, 3), axis=1, where=MASK),
    sample(np.mean, array(2, 3), where=MASK, keepdims=True),
    sample(np.prod, array(2, 3), axis=1, where=MASK, initial=2.0),
    sample(np.prod, array(0, 3), axis=0),
    sample(np.max, array(2, 3), axis=1, where=MASK, initial=-9.0).without(*COMPLEX),
    sample(np.min, array(2, 3), axis=1, initial=0.5).without(*COMPLEX),
    sample(np.var, array(3, 2), axis=0, ddof=1),
    sample(np.var, array(2, 3), axis=1, where=MASK),
    sample(np.std, array(2, 3), axis=1, where=MASK),
    sample(variance, array(3), ddof=1), sample(deviation_of, array(3), ddof=1),
    sample(np.cumsum, array(2, 3)), sample(np.cumsum, array(2, 3), axis=-1), sample(np.cumsum, array()),
    sample(np.cumprod, array(2, 3)), sample(np.cumprod, array(2, 4), axis=-1), sample(np.cumprod, array()),
    sample(np.average, array(2, 3)),
    sample(np.average, array(2, 3), axis=1, weights=array(3, domain=POSITIVE)),
    sample(np.average, array(2, 3), weights=array(2, 3, domain=POSITIVE), keepdims=True),
    sample(np.average, array(2, 3, 4), axis=(2, 0), weights=array(4, 2, domain=POSITIVE)),
    sample(np.median, array(5)), sample(np.median, array(4, 3), axis=0), sample(np.median, array(2, 3), keepdims=True),
    sample(median_of, array(4)),
    sample(neighbours, array(5)), sample(neighbours, array(2, 4), q=[0.3, 0.8], axis=1),
    sample(np.quantile, array(5), 0.3).without(*COMPLEX),
    sample(np.quantile, array(4, 3), [0.2, 0.7], axis=0).without(*COMPLEX),
    sample(np.quantile, array(4, 3), 0.2, axis=(0, 1), keepdims=True, method="midpoint").without(*COMPLEX),
    sample(np.percentile, array(5), [10, 55]).without(*COMPLEX),
    sample(quantile_of, array(5), q=0.4).without(*COMPLEX),
    sample(np.nansum, array(2, 3), axis=1).before(gaps),
    sample(np.nanmean, array(2, 3), axis=1).before(gaps),
    sample(np.nanmean, array(2, 3)).before(gaps),
    sample(np.nanprod, array(2, 3), axis=1).before(gaps),
    sample(np.nanmax, array(2, 3), axis=1).before(gaps).without(*COMPLEX),
    sample(np.nanmin, array(2, 3), axis=0).before(gaps).without(*COMPLEX),
    sample(np.nancumsum, array(2, 3), axis=1).before(gaps),
    sample(np.nancumprod, array(2, 3), axis=1).before(gaps),
    sample(np.nanvar, array(2, 3)).before(gaps),
    sample(np.nanstd, array(2, 3)).before(gaps),
    sample(np.nanmedian, array(2, 3)).before(gaps).without(*COMPLEX),
    sample(np.nanquantile, array(2, 3), 0.4).before(gaps).without(*COMPLEX),
    sample(np.nanpercentile, array(2, 3), 40).before(gaps).without(*COMPLEX),
    policy(np.prod, np.array([0.0, 3.0, 4.0])).gives([12.0, 0.0, 0.0]),
    policy(np.prod, np.array([0.0, 0.0, 4.0])).gives([0.0, 0.0, 0.0]),
    policy(np.cumprod, np.array([0.0, 3.0])).gives([4.0, 0.0]),
    policy(np.max, np.array([2.0, 2.0, 1.0])).gives([0.5, 0.5, 0.0]),
    policy(np.min, np.array([2.0, 1.0, 1.0])).gives([0.0, 0.5, 0.5]),
    policy(np.var, np.array([2.0, 2.0])).gives([0.0, 0.0]),
    policy(np.std, np.array([2.0, 2.0])).gives([0.0, 0.0]),
]
if hasattr(np, "cumulative_sum"):
    REDUCTIONS += [
        sample(np.cumulative_sum, array(2, 3), axis=1, include_initial=True),
        sample(np.cumulative_prod, array(2, 3), axis=0),
    ]

SHAPES_OF_MATMUL = (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((2, 0), (0, 3)),
)
SHAPES_OF_DOT = (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((), (2,)), ((2, 2), ()), ((), ()), ((3,), (2, 3, 4)),
)
SHAPES_OF_INNER = (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), (4, 3)), ((2, 3), (5, 4, 3)), ((), (2,)), ((2, 2), ()),
)
EINSUMS = (
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->ji", (3, 3, 2)),
    ("ij->", (2, 3)), ("ba", (2, 3)), ("i,i", (3,), (3,)), ("ij,kl->il", (2, 3), (4, 5)), (",i->i", (), (3,)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("i...->...", (3, 2, 2)), ("...,...", (2, 3), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,ij,j->i", (2, 3), (2, 3), (3,)), ("ij,ij->ij", (1, 3), (2, 3)),
    ("iij,jk,kk->", (2, 2, 3), (3, 2), (2, 2)),
)
TENSORDOTS = (
    (2, (2, 3, 4), (3, 4, 5)), (1, (2, 3, 4), (4, 2)), (0, (2,), (3, 2)), (([2, 1], [0, 1]), (2, 3, 4), (4, 3)),
    (([-1], [1]), (2, 4), (3, 4)), (((1, 2), (1, 0)), (2, 3, 4), (4, 3, 2)), ((0, -1), (2, 3), (3, 2)),
)

PRODUCTS = [
    *[sample(np.matmul, array(*a), array(*b)) for a, b in SHAPES_OF_MATMUL],
    *[sample(np.dot, array(*a), array(*b)) for a, b in SHAPES_OF_DOT],
    *[sample(np.inner, array(*a), array(*b)) for a, b in SHAPES_OF_INNER],
    *[sample(np.einsum, subscripts, *[array(*s) for s in shapes]) for subscripts, *shapes in EINSUMS],
    *[sample(np.tensordot, array(*a), array(*b), axes=axes) for axes, a, b in TENSORDOTS],
    sample(np.einsum, array(2, 3), [0, 1], array(3, 4), [1, 2], [2, 0]),
    sample(np.einsum, array(2, 3), [0, 1], array(3, 4), [1, 2]),
    sample(np.einsum, "ij,jk,kl->il", array(2, 3), array(3, 4), array(4, 2), optimize="optimal"),
    sample(einsum2, array(2, 3), array(3, 2), subscripts="ij,jk->ik"),
    sample(diagonals, array(2, 3, 2), subscripts="aba->ab"),
    sample(np.outer, array(3), array(2)), sample(np.outer, array(2, 2), array(2)),
    sample(np.linalg.outer, array(3), array(2)),
    sample(np.vdot, array(2, 3), array(2, 3)),
    sample(np.vecdot, array(2, 3), array(3)), sample(np.vecdot, array(2, 3), array(2, 3), axis=0),
    sample(np.linalg.vecdot, array(2, 3), array(2, 3), axis=0),
    sample(np.kron, array(3), array(2)), sample(np.kron, array(2, 2), array(3)), sample(np.kron, array(), array(2)),
    sample(np.cross, array(3), array(3)), sample(np.cross, array(5, 1, 3), array(4, 3)),
    sample(np.cross, array(3, 4), array(4, 3), axisa=0, axisb=1, axisc=0),
    sample(np.cross, array(3, 2), array(3, 2), axis=0),
    sample(np.linalg.cross, array(2, 3), array(3)), sample(cross3, array(3), array(3)),
    sample(np.trace, array(3, 4)), sample(np.trace, array(2, 3, 4), 1, 1, 2),
    sample(np.linalg.trace, array(2, 3, 4), offset=-1),
    sample(np.linalg.diagonal, array(2, 3, 4), offset=1),
    sample(np.linalg.matrix_transpose, array(2, 3, 4)),
    sample(np.linalg.matmul, array(2, 3), array(3, 2)),
    sample(np.linalg.tensordot, array(2, 3), array(3, 2), axes=1),
    *[sample(np.linalg.matrix_power, array(3, 3), k) for k in (0, 1, 2, 3, 5)],
    sample(np.linalg.multi_dot, [array(3), array(3, 2), array(2, 4), array(4)]),
    sample(np.linalg.multi_dot, [array(2, 3), array(3, 2)]),
]
if hasattr(np, "matvec"):
    PRODUCTS += [sample(np.matvec, array(4, 2, 3), array(3)), sample(np.vecmat, array(3), array(4, 3, 2))]

NORMS = [
    sample(np.linalg.norm, array(3)), sample(np.linalg.norm, array(2, 3)),
    sample(np.linalg.norm, array(2, 3), keepdims=True),
    sample(np.linalg.norm, array(2, 3), axis=1), sample(np.linalg.norm, array(2, 3), axis=(0, 1), keepdims=True),
    *[sample(np.linalg.norm, array(2, 3), ord, axis=1) for ord in (1, 1.5, 3, np.inf, -np.inf)],
    *[sample(np.linalg.norm, array(2, 3), ord) for ord in (1, -1, np.inf, -np.inf, "fro")],
    sample(np.linalg.vector_norm, array(2, 3), axis=(0, 1), ord=3),
    sample(np.linalg.matrix_norm, array(2, 3, 4)),
    sample(length, array(3)), sample(unit, array(3)), sample(tip, array(3)), sample(unit, array(2, 3), axis=1),
    policy(np.linalg.norm, np.array([0.0, 0.0])).gives([0.0, 0.0])
    .singular("0 is the subgradient taken at the origin; there is no second derivative"),
]

FOURIER = [
    *[sample(fun, array(5)).without("longdouble", "float16") for fun in (np.fft.fft, np.fft.ifft)],
    *[sample(fun, array(2, 4), n, 0, norm).without("longdouble", "float16")
      for fun in (np.fft.fft, np.fft.ifft) for n, norm in ((3, "ortho"), (1, "forward"))],
    *[sample(np.fft.rfft, array(*s), **o).only(*REAL) for s, o in HALVES],
    *[sample(np.fft.irfft, array(*s), **o).without("longdouble", "float16") for s, o in HALVES],
    *[sample(fun, array(2, 3, 4)).without("longdouble", "float16") for fun in
      (np.fft.fftn, np.fft.ifftn, np.fft.fft2, np.fft.ifft2, np.fft.irfftn, np.fft.irfft2)],
    sample(np.fft.rfftn, array(2, 3, 4)).only(*REAL), sample(np.fft.rfft2, array(2, 3, 4)).only(*REAL),
    sample(np.fft.fftn, array(3, 4), (2, 5), (1, 0)).without("longdouble", "float16"),
    sample(np.fft.hfft, array(4)).without("longdouble", "float16"), sample(np.fft.ihfft, array(5)).only(*REAL),
    sample(np.fft.fftshift, array(5)), sample(np.fft.ifftshift, array(2, 3), axes=1),
    *[sample(convolve_rows, array(*a), array(*b), mode=mode)
      for a, b in (((2, 4), (3,)), ((2,), (2, 5)), ((2, 1, 4), (3, 3))) for mode in ("full", "same", "valid")],
    *[sample(fun, array(*a), array(*b), mode) for fun in (np.convolve, np.correlate)
      for mode in ("full", "same", "valid") for a, b in (((5,), (3,)), ((2,), (5,)), ((4,), (2,)))],
    *[sample(np.convolve, array(*a), array(*b), mode)
      for mode in ("full", "same", "valid") for a, b in (((), (3,)), ((4,), ()), ((), ()))],
]

SAMPLES = REDUCTIONS + PRODUCTS + NORMS + FOURIER
# fmt: on
