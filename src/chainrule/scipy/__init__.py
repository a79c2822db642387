"""SciPy, with functions that take and return traced values where SciPy's own convert to plain arrays first.

SciPy's ufuncs (``scipy.special.erf`` and some 120 others) are differentiated as they are. Functions that are no ufuncs,
like ``scipy.linalg.solve`` or ``scipy.stats.norm.logpdf``, never ask us: call them from here. All other names are
SciPy's own, so ``import chainrule.scipy as scipy`` may stand in place of ``import scipy``.

The parts `linalg`, `special` and `stats` are loaded at their first use. What they define is listed in `ENTRIES`.

Examples
--------
>>> import numpy as np
>>> import chainrule as cr
>>> from chainrule.scipy import linalg, stats
>>> cr.grad(lambda s: linalg.expm(s * np.diag([1.0, 2.0]))[1, 1])(0.0)
2.0
>>> cr.grad(stats.norm.logpdf)(1.5)
-1.5
"""

import importlib as _importlib

from chainrule.errors import MissingDependencyError as _MissingDependencyError

try:
    import scipy as _scipy
except ImportError:
    raise _MissingDependencyError("SciPy", "scipy", "chainrule.scipy") from None

from chainrule.scipy.entries import ENTRIES

__all__ = ["ENTRIES", "ORIGINALS", "linalg", "special", "stats"]
_PARTS = ("linalg", "special", "stats")


def ORIGINALS():
    """Return pairs of a function or object of SciPy and what stands in its place here; loads all parts."""
    for name in _PARTS:
        _importlib.import_module(f"chainrule.scipy.{name}")
    return list(ENTRIES.items())


def __getattr__(name):
    if name in _PARTS:
        return _importlib.import_module(f"chainrule.scipy.{name}")
    return getattr(_scipy, name)


def __dir__():
    return sorted({*__all__, *dir(_scipy)})
