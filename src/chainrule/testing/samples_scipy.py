"""Samples of the functions of `chainrule.scipy` that stand in for SciPy's."""

import inspect

import numpy as np
import scipy.linalg
import scipy.special

from chainrule.rules import scipy_linalg, scipy_sums
from chainrule.rules.scipy_linalg import solve_sylvester, solve_triangle
from chainrule.scipy import linalg, special
from chainrule.scipy.entries import ENTRIES
from chainrule.testing.samples import array, policy, sample
from chainrule.testing.samples_linalg import positive, regular

REAL = ("float64", "float32")
DOUBLE = ("float64", "complex128")
NOT_LAPACK = ("float16", "longdouble")  # types that LAPACK does not take
MANY = "assume_a" in inspect.signature(scipy.linalg.inv).parameters  # SciPy's newer versions know more structures
STRUCTURES = ["gen", "sym", "her", "pos"]
STRUCTURES += ["upper triangular", "lower triangular", "diagonal", "tridiagonal"] if MANY else []
INVERSES = [{"assume_a": "sym"}] if MANY else []
NAMES = {ours: original for original, ours in ENTRIES.items() if callable(ours)}


def lapack(fun, *args, **options):
    """Return a sample of one of our functions, in the types of LAPACK, with well-conditioned matrices."""
    return sample(fun, *args, **options).of(NAMES.get(fun, fun)).before(regular).without(*NOT_LAPACK)


def first(y):
    """Return the first of several results."""
    return y[0]


def lower_part(y):
    """Return the triangle of `cho_factor`'s matrix that it promises; versions of SciPy differ in the other."""
    return np.tril(y[0])


def upper_part(y):
    """Return the other triangle, that of ``lower=False``."""
    return np.triu(y[0])


def twice(y):
    """Return a number as an array of two."""
    return y * np.ones(2)


# fmt: off
SAMPLES = [
    # -- linear systems
    lapack(linalg.solve, array(3, 3), array(3)),
    lapack(linalg.solve, array(3, 3), array(3, 2), transposed=True).only(*REAL),
    *[lapack(linalg.solve, array(3, 3), array(3), assume_a=kind)
      for kind in STRUCTURES],
    lapack(linalg.solve, array(3, 3), array(3, 2), assume_a="pos", lower=True),
    *[lapack(linalg.solve_triangular, array(3, 3), array(*shape), trans=trans, lower=lower)
      for shape in ((3,), (3, 2)) for trans in (0, 1, "C") for lower in (False, True)],
    lapack(linalg.solve_triangular, array(3, 3), array(3), unit_diagonal=True),
    *[lapack(solve_triangle, array(*a), array(*b), lower=lower, transposed=not lower, unit_diagonal=lower)
      for a, b in (((3, 3), (3,)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)), ((2, 3, 3), (3,)))
      for lower in (False, True)],
    lapack(linalg.solve_sylvester, array(3, 3), array(2, 2), array(3, 2)).of(solve_sylvester),
    lapack(solve_sylvester, array(2, 3, 3), array(2, 2), array(3, 2)),
    lapack(linalg.inv, array(3, 3)), *[lapack(linalg.inv, array(3, 3), **o) for o in INVERSES],
    lapack(linalg.det, array(3, 3)),

    # -- Cholesky
    *[sample(linalg.cholesky, array(3, 3), lower=lower).of(scipy.linalg.cholesky).before(positive).without(*NOT_LAPACK)
      for lower in (False, True)],
    *[sample(linalg.cho_factor, array(3, 3), lower=lower).of(scipy.linalg.cho_factor).before(positive)
      .after(lower_part if lower else upper_part).without(*NOT_LAPACK).named(f"{lower}") for lower in (False, True)],
    *[lapack(linalg.cho_solve, (array(3, 3), lower), array(*shape))
      for lower in (False, True) for shape in ((3,), (3, 2))],

    # -- functions of a matrix
    *[s.of(getattr(scipy.linalg, name), getattr(scipy_linalg, name)).without(*NOT_LAPACK)
      for name in ("expm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")
      for s in (sample(getattr(linalg, name), array(2, 2, domain=(-0.7, 0.7))),)],
    lapack(linalg.sqrtm, array(3, 3)).of(scipy_linalg.sqrtm), lapack(scipy_linalg.sqrtm, array(2, 3, 3)),
    lapack(linalg.logm, array(2, 2)).of(scipy_linalg.logm).only(*DOUBLE),  # in single precision SciPy warns
    sample(linalg.expm, array(2, 3, 3, domain=(-0.7, 0.7))).of(scipy.linalg.expm).only(*REAL),

    # -- norms and spectra
    *[lapack(linalg.norm, array(*shape), **options).after(twice).only(*DOUBLE)  # SciPy's is a Python float
      for shape, options in (((3,), {}), ((2, 3), {"ord": 1}), ((2, 3), {"axis": 1}))],
    *[sample(linalg.eigh, array(3, 3), **options).of(scipy.linalg.eigh).before(positive).after(first)
      .without(*NOT_LAPACK) for options in ({}, {"lower": False}, {"subset_by_index": (1, 2)})],
    sample(linalg.eigvalsh, array(3, 3)).of(scipy.linalg.eigvalsh).before(positive).without(*NOT_LAPACK),
    lapack(linalg.svdvals, array(2, 3)),

    # -- matrices made of vectors and blocks
    sample(linalg.block_diag, array(2, 2), array(3), array(1, 2)).of(scipy.linalg.block_diag).without("float16"),
    sample(linalg.toeplitz, array(3)).of(scipy.linalg.toeplitz),
    sample(linalg.toeplitz, array(3), array(2)).of(scipy.linalg.toeplitz),
    sample(linalg.circulant, array(3)).of(scipy.linalg.circulant),

    # -- sums of exponentials
    *[sample(special.logsumexp, array(2, 3), **options).of(scipy.special.logsumexp).without("longdouble", "float16")
      for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"axis": (0, 1)})],
    sample(special.logsumexp, array(2, 3), axis=-1, b=array(3, domain=(0.3, 2))).of(scipy.special.logsumexp)
    .only("float64", "float32"),
    sample(special.logsumexp, array(3), b=np.array([2.0, -0.01, 0.0])).of(scipy.special.logsumexp).only("float64"),
    sample(special.logsumexp, array(3), b=array(3), return_sign=True).of(scipy.special.logsumexp)
    .only("float64").after(first),
    *[sample(scipy_sums.log_of_sum, array(2, 3), axis=axis).without("longdouble", "float16") for axis in (None, 1)],
    *[sample(fun, array(2, 3), axis=axis).of(NAMES.get(fun, fun)).only("float64", "float32")
      for fun in (special.softmax, special.log_softmax, scipy_sums.soft_max, scipy_sums.log_soft_max)
      for axis in (None, 0, -1, (0, 1))],
    policy(scipy_sums.log_of_sum, np.array([-np.inf, -np.inf])).gives([0.0, 0.0]),
    policy(scipy_sums.log_of_sum, np.array([-np.inf, 1.0])).gives([0.0, 1.0]),
    policy(scipy_sums.log_of_sum, np.array([800.0, 800.0])).gives([0.5, 0.5]),

    # -- gamma functions
    *[sample(special.polygamma, n, array(3, domain=(0.4, 3))).of(scipy.special.polygamma).only("float64")
      for n in (0, 1, 3, [[0], [1]])],
    sample(special.multigammaln, array(3, domain=(2, 4)), 3).of(scipy.special.multigammaln).only("float64"),
]
# fmt: on
