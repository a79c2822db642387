"""What each NumPy function's derivative is: one table per family. Knows no engine but the declarators."""

import functools
import importlib

from chainrule.engine import calls
from chainrule.rules import choices, complexes, elementwise, gates, primitives, series  # noqa: F401
from chainrule.rules import creation, differences, indexing, joining, shapes  # noqa: F401
from chainrule.rules import einsum, fft, norms, products, reductions, statistics  # noqa: F401
from chainrule.rules import linalg_det, linalg_factor, linalg_solve, linalg_spectrum, linalg_svd  # noqa: F401
from chainrule.rules import callables, covariance, emath, histograms, interpolation, polynomials, sets, windows  # noqa: F401
from chainrule.rules import unsupported  # noqa: F401
from chainrule.rules import scalars  # noqa: F401
from chainrule.rules import ufunc_methods  # noqa: F401 (after all ufuncs)
from chainrule.rules import array_methods  # noqa: F401
from chainrule.rules import batching, batching_order, batching_products  # noqa: F401 (after all rules)
from chainrule.rules import batching_units  # noqa: F401
from chainrule.rules import methods  # noqa: F401 (last: installs operators built from the rules)

# SciPy's ufuncs reach us by NumPy's protocol: their rules are loaded when one of them first does
calls.LATER["scipy.special"] = functools.partial(importlib.import_module, "chainrule.rules.special")
