"""Derivative rules of the ufuncs of scipy.special: one table per family.

SciPy is no requirement of chainrule: nothing imports this package but the engine, when a function of a loaded
scipy.special first meets a traced value, and `chainrule.scipy`.

What has no closed derivative (the order of a Bessel function, the parameters of an incomplete gamma function) raises
when a derivative in it is asked for; see `fixed`.
"""

from scipy import special

from chainrule.engine.batched import BATCHING
from chainrule.rules.batching import as_it_is, with_parameters
from chainrule.rules.special import bessel, entropies, error_functions, gamma, integrals, polynomials  # noqa: F401

BATCHING.update(
    dict.fromkeys(
        (
            bessel.ive_derivative,
            bessel.kve_derivative,
            error_functions.erfcx_derivative,
            error_functions.dawsn_derivative,
            gamma.polygamma_of,
            gamma.zeta_derivative,
        ),
        with_parameters,
    )
)
BATCHING[special.airy] = as_it_is
