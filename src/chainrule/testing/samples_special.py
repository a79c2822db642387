"""Samples of scipy.special: functions with a parameter that has no derivative, and points where formulas are 0/0."""

import numpy as np
from scipy import special

import chainrule.rules.special  # noqa: F401 (registers the rules)
from chainrule.errors import UnsupportedArgumentError
from chainrule.rules.special.bessel import ive_derivative, kve_derivative
from chainrule.rules.special.error_functions import dawsn_derivative, erfcx_derivative
from chainrule.rules.special.gamma import HURWITZ, polygamma_of, zeta_derivative
from chainrule.rules.special.integrals import LAMBERTW
from chainrule.testing.samples import array, policy, sample, values

ORDERS = np.array([0.0, 1.0, 2.5])
DEGREES = np.array([0, 1, 4])
HALF = (0.4, 3)  # above the singularity at 0
INSIDE = (-0.9, 0.9)
UNIT = (0.1, 0.9)


def of_order(*funs, orders=(0, 1, 2.5), domain=HALF):
    """Return samples of functions f(v, x): of a few orders, of an array of orders, and of a traced one."""
    found = []
    for fun in funs:
        found += [sample(fun, v, array(3, domain=domain)) for v in orders]
        found += [sample(fun, np.array(orders)[:, None], array(2, domain=domain)), refused(fun, values(2.0), array())]
    return found


def refused(fun, *args):
    """Return a sample whose traced parameter must be refused."""
    return sample(fun, *args).raises(UnsupportedArgumentError)


# fmt: off
SAMPLES = [
    # -- Bessel functions
    *of_order(special.jv, special.yv, special.iv, special.kv, special.hankel1, special.hankel2),
    *of_order(special.ive, special.kve),
    *of_order(special.yn, special.kn, orders=(0, 1, 3)),
    *[sample(ive_derivative, array(3, domain=d), v=v, n=n)
      for v, n, d in ((0, 1, HALF), (1.5, 2, (30, 60)), (2, 1, (-3, -1)))],
    *[sample(kve_derivative, array(3, domain=d), v=v, n=n) for v, n, d in ((0, 1, HALF), (1.5, 2, (30, 60)))],
    sample(special.airy, array(3)), sample(special.airy, array()),
    policy(special.j0, 0.0).gives(0.0), policy(special.j1, 0.0).gives(0.5),
    policy(special.i0, 0.0).gives(0.0), policy(special.i1, 0.0).gives(0.5),
    policy(special.i0e, 0.0).gives(0.0),

    # -- error functions
    *[sample(erfcx_derivative, array(3, domain=d), n=n) for n, d in ((1, (-2, 2)), (2, (5, 9)), (3, (-2, 2)))],
    *[sample(dawsn_derivative, array(3, domain=d), n=n) for n, d in ((1, (-2, 2)), (2, (5, 9)), (2, (-9, -5)))],

    # -- gamma and beta functions
    *[sample(polygamma_of, array(3, domain=HALF), n=n) for n in (1, 2, 4)],
    *[sample(zeta_derivative, array(3, domain=(1.3, 5)), n=n) for n in (1, 2)],
    sample(HURWITZ, 2.5, array(3, domain=HALF)), refused(HURWITZ, array(), array()),
    *[s for f, d in ((special.gammainc, HALF), (special.gammaincc, HALF), (special.gammaincinv, UNIT),
                     (special.gammainccinv, UNIT), (special.chdtr, HALF), (special.chdtrc, HALF),
                     (special.chdtri, UNIT), (special.stdtr, (-2, 2)), (special.stdtrit, UNIT))
      for s in of_order(f, orders=(1.0, 2.5), domain=d)],
    *[s for f in (special.betainc, special.betaincinv, special.betaincc, special.betainccinv)
      for s in (sample(f, 1.5, 2.5, array(3, domain=UNIT)), sample(f, 1.0, 2.0, array(2, 2, domain=UNIT)),
                refused(f, array(domain=UNIT), 2.0, 0.5), refused(f, 2.0, array(domain=UNIT), 0.5))],
    policy(special.rgamma, -2.0).gives(2.0),

    # -- entropies and power transforms
    policy(special.xlogy, 0.0, 2.0).gives(np.log(2.0), 0.0),
    sample(special.huber, array(3, domain=(1, 2)), array(3, domain=(-0.8, 0.8))),
    policy(special.xlog1py, 0.0, 1.0).gives(np.log(2.0), 0.0),
    policy(special.entr, 0.0).singular("infinite slope"),
    policy(special.kl_div, 1.0, 1.0).gives(0.0, 0.0),
    policy(special.rel_entr, 1.0, 1.0).gives(1.0, -1.0),
    policy(special.boxcox, 2.0, 0.0).gives(0.5, 0.5 * np.log(2.0) ** 2),
    policy(special.boxcox, 1.0, 0.0).gives(1.0, 0.0),
    policy(special.exprel, 0.0).gives(0.5),
    policy(special.huber, 1.0, 0.0).gives(0.0, 0.0),
    policy(special.pseudo_huber, 1.0, 0.0).gives(0.0, 0.0),
    policy(special.spence, 1.0).gives(-1.0),

    # -- integrals and series
    sample(special.sici, array(3, domain=HALF)), sample(special.shichi, array(3, domain=HALF)),
    sample(special.fresnel, array(3)),
    sample(special.sici, array(3)).after(lambda y: y[0]), sample(special.shichi, array(3)).after(lambda y: y[0]),
    sample(special.expn, 1, array(3, domain=HALF)), sample(special.expn, 3, array(3, domain=HALF)),
    sample(special.expn, np.array([0, 1, 4]), array(3, domain=HALF)), refused(special.expn, values(2.0), array()),
    policy(special.ellipk, 0.0).gives(np.pi / 8), policy(special.ellipe, 0.0).gives(-np.pi / 8),
    *[s for f in (special.ellipkinc, special.ellipeinc)
      for s in (sample(f, array(3, domain=(-1.2, 1.2)), 0.4), refused(f, array(), array(domain=UNIT)))],
    sample(special.hyp0f1, 1.5, array(3)), refused(special.hyp0f1, array(domain=HALF), array()),
    sample(special.hyp1f1, 0.7, 1.5, array(3)).only("float64", "float32"),
    refused(special.hyp1f1, array(domain=HALF), 1.5, array()),
    sample(special.hyperu, 0.7, 1.5, array(3, domain=HALF)), refused(special.hyperu, array(domain=HALF), 1.5, array()),
    sample(special.hyp2f1, 0.7, 0.4, 1.5, array(3, domain=(-0.8, 0.8))),
    refused(special.hyp2f1, 0.7, 0.4, array(domain=HALF), array(domain=INSIDE)),
    sample(special.lambertw, array(3, domain=HALF)).of(LAMBERTW),
    sample(special.lambertw, array(3, domain=(-0.3, -0.1)), -1).of(LAMBERTW),
    policy(special.lambertw, 0.0).of(LAMBERTW).gives(1.0),

    # -- orthogonal polynomials
    *[s for f, d in ((special.eval_legendre, INSIDE), (special.eval_chebyt, INSIDE), (special.eval_chebyu, INSIDE),
                     (special.eval_hermite, (-2, 2)), (special.eval_hermitenorm, (-2, 2)),
                     (special.eval_laguerre, HALF))
      for s in (sample(f, 3, array(3, domain=d)), sample(f, 0, array(3, domain=d)),
                sample(f, DEGREES, array(3, domain=d)))],
    *[refused(f, array(domain=HALF), array())
      for f in (special.eval_legendre, special.eval_chebyt, special.eval_chebyu, special.eval_laguerre)],
    *[s for f, d in ((special.eval_genlaguerre, HALF), (special.eval_gegenbauer, INSIDE))
      for s in (sample(f, 3, 0.7, array(3, domain=d)), sample(f, DEGREES, 0.7, array(3, domain=d)),
                refused(f, 3, array(domain=HALF), array()))],
    sample(special.eval_jacobi, 3, 0.7, 0.4, array(3, domain=INSIDE)),
    sample(special.eval_jacobi, DEGREES, 0.7, 0.4, array(3, domain=INSIDE)),
    refused(special.eval_jacobi, 3, 0.7, array(domain=HALF), array()),
]
# fmt: on
