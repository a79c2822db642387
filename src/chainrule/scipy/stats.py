"""scipy.stats for traced values: densities and distribution functions, with their logarithms and inverses.

Each distribution is given in its standard form, by functions of z = (x - loc) / scale and its shape parameters. The
logarithm of the density is written out, the density is its exponential. Plain arguments, and all other methods
(``rvs``, ``fit``, ``moment``), go to SciPy's own object.
"""

import math

import numpy as np
from scipy import special as _special
from scipy import stats as _stats

from chainrule.engine.boxed import all_values, array_value, value
from chainrule.engine.spec import shape_of
from chainrule.rules.products import mT
from chainrule.rules.scipy_linalg import solve_triangle
from chainrule.scipy.entries import ENTRIES, traced
from chainrule.scipy.linalg import matrix

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
OF_POINTS = {"pdf": 0.0, "logpdf": -np.inf, "cdf": 0.0, "logcdf": -np.inf, "sf": 1.0, "logsf": 0.0}  # below the support
ABOVE = {"pdf": 0.0, "logpdf": -np.inf, "cdf": 1.0, "logcdf": 0.0, "sf": 0.0, "logsf": -np.inf}
OF_PROBABILITIES = ("ppf", "isf")


class Distribution:
    """A distribution of SciPy, with methods for traced values.

    Parameters
    ----------
    original : scipy.stats.rv_continuous
        SciPy's object.
    support : tuple of float
        The ends of the standard form's support.
    functions : dict of callable
        ``logpdf``, ``cdf``, ``sf``, ``ppf``, ``isf`` and, if there is a better way than the logarithm, ``logcdf`` and
        ``logsf``, each a function of z (or of a probability) and the shape parameters.
    """

    def __init__(self, original, support, **functions):
        self._original, self._support, self._functions = original, support, functions
        self._shapes = [s.strip() for s in original.shapes.split(",")] if original.shapes else []
        self.__doc__ = original.__doc__
        ENTRIES[original] = self

    def __call__(self, *args, **kwargs):  # noqa: D102 (freezes, as SciPy)
        return Frozen(self, args, kwargs)

    def freeze(self, *args, **kwargs):
        """Fix the parameters."""
        return Frozen(self, args, kwargs)

    def __getattr__(self, name):
        return getattr(self.__dict__["_original"], name)

    def _split(self, args, kwargs):
        """Return (shape parameters, loc, scale) of a call."""
        names = [*self._shapes, "loc", "scale"]
        if len(args) > len(names):
            raise TypeError(f"{self._original.name} takes at most {len(names)} parameters, but {len(args)} were given")
        given = {"loc": 0, "scale": 1} | dict(zip(names, args, strict=False))
        for name, v in kwargs.items():
            if name not in names:
                raise TypeError(f"{self._original.name}: unknown parameter {name!r}")
            given[name] = v
        missing = [n for n in names if n not in given]
        if missing:
            raise TypeError(f"{self._original.name}: parameter {missing[0]!r} is missing")
        return [given[n] for n in self._shapes], given["loc"], given["scale"]

    def _standard(self, name, z, shapes):
        """Return a function of the standard form."""
        f = self._functions
        if name in f:
            return f[name](z, *shapes)
        if name == "pdf":
            return np.exp(f["logpdf"](z, *shapes))
        return np.log(f[name.removeprefix("log")](z, *shapes))

    def _of_points(self, name, x, *args, **kwargs):
        shapes, loc, scale = self._split(args, kwargs)
        if not traced([x, loc, scale, *shapes]):
            return getattr(self._original, name)(x, *args, **kwargs)
        z = (x - loc) / scale
        low, high = self._support
        plain = array_value(z)
        inside = (plain >= low) & (plain <= high)
        middle = 0.5 * (low + high) if np.isfinite(low + high) else low + 1.0 if np.isfinite(low) else 0.0
        everywhere = np.all(all_values(inside))
        safe = z if everywhere else np.where(inside, z, plain.dtype.type(middle))
        y = self._standard(name, safe, shapes)
        if name == "pdf":
            y = y / scale
        elif name == "logpdf":
            y = y - np.log(scale)
        if not everywhere:
            outer = np.where(plain < low, OF_POINTS[name], np.where(plain > high, ABOVE[name], np.nan))
            y = np.where(inside, y, outer.astype(plain.dtype))
        return self._valid(y, scale)

    def _of_probabilities(self, name, q, *args, **kwargs):
        shapes, loc, scale = self._split(args, kwargs)
        if not traced([q, loc, scale, *shapes]):
            return getattr(self._original, name)(q, *args, **kwargs)
        return self._valid(self._standard(name, q, shapes) * scale + loc, scale)

    @staticmethod
    def _valid(y, scale):
        """Return NaN where the scale is not positive, as SciPy does."""
        positive = array_value(scale) > 0
        return y if np.all(all_values(positive)) else np.where(positive, y, array_value(y).dtype.type(np.nan))


def _method(name, kind):
    """Return the method `name` of all distributions."""

    def method(self, x, *args, **kwargs):
        x = matrix(x, False) if isinstance(x, list | tuple) else x
        return getattr(self, kind)(name, x, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Return the {name}, as SciPy's method does."
    return method


for _name in OF_POINTS:
    setattr(Distribution, _name, _method(_name, "_of_points"))
for _name in OF_PROBABILITIES:
    setattr(Distribution, _name, _method(_name, "_of_probabilities"))


class Frozen:
    """A distribution with its parameters fixed, which may be traced values."""

    def __init__(self, distribution, args, kwargs):
        self._distribution, self._args, self._kwargs = distribution, args, kwargs

    def __getattr__(self, name):
        distribution = self.__dict__["_distribution"]
        if name in OF_POINTS or name in OF_PROBABILITIES:
            return lambda x: getattr(distribution, name)(x, *self._args, **self._kwargs)
        return getattr(distribution._original(*self._args, **self._kwargs), name)


INF = math.inf

norm = Distribution(
    _stats.norm,
    (-INF, INF),
    logpdf=lambda z: -0.5 * z * z - LOG_SQRT_2PI,
    cdf=lambda z: _special.ndtr(z),
    sf=lambda z: _special.ndtr(-z),
    logcdf=lambda z: _special.log_ndtr(z),
    logsf=lambda z: _special.log_ndtr(-z),
    ppf=lambda q: _special.ndtri(q),
    isf=lambda q: -_special.ndtri(q),
)
expon = Distribution(
    _stats.expon,
    (0.0, INF),
    logpdf=lambda z: -z,
    cdf=lambda z: -np.expm1(-z),
    sf=lambda z: np.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -np.log1p(-q),
    isf=lambda q: -np.log(q),
)
uniform = Distribution(
    _stats.uniform,
    (0.0, 1.0),
    logpdf=lambda z: 0 * z,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
)
logistic = Distribution(
    _stats.logistic,
    (-INF, INF),
    logpdf=lambda z: _special.log_expit(z) + _special.log_expit(-z),
    cdf=lambda z: _special.expit(z),
    sf=lambda z: _special.expit(-z),
    logcdf=lambda z: _special.log_expit(z),
    logsf=lambda z: _special.log_expit(-z),
    ppf=lambda q: _special.logit(q),
    isf=lambda q: -_special.logit(q),
)
laplace = Distribution(
    _stats.laplace,
    (-INF, INF),
    logpdf=lambda z: -np.abs(z) - math.log(2),
    cdf=lambda z: _laplace_cdf(z),
    sf=lambda z: _laplace_cdf(-z),
    ppf=lambda q: np.where(value(q) < 0.5, np.log(2 * q), -np.log(2 * (1 - q))),
    isf=lambda q: np.where(value(q) < 0.5, -np.log(2 * q), np.log(2 * (1 - q))),
)
cauchy = Distribution(
    _stats.cauchy,
    (-INF, INF),
    logpdf=lambda z: -np.log1p(z * z) - math.log(math.pi),
    cdf=lambda z: np.arctan2(1, -z) / math.pi,
    sf=lambda z: np.arctan2(1, z) / math.pi,
    ppf=lambda q: -1 / np.tan(math.pi * q),
    isf=lambda q: 1 / np.tan(math.pi * q),
)
lognorm = Distribution(
    _stats.lognorm,
    (0.0, INF),
    logpdf=lambda z, s: -0.5 * np.square(np.log(z) / s) - np.log(s * z) - LOG_SQRT_2PI,
    cdf=lambda z, s: _special.ndtr(np.log(z) / s),
    sf=lambda z, s: _special.ndtr(-np.log(z) / s),
    logcdf=lambda z, s: _special.log_ndtr(np.log(z) / s),
    logsf=lambda z, s: _special.log_ndtr(-np.log(z) / s),
    ppf=lambda q, s: np.exp(s * _special.ndtri(q)),
    isf=lambda q, s: np.exp(-s * _special.ndtri(q)),
)
gamma = Distribution(
    _stats.gamma,
    (0.0, INF),
    logpdf=lambda z, a: _special.xlogy(a - 1, z) - z - _special.gammaln(a),
    cdf=lambda z, a: _special.gammainc(a, z),
    sf=lambda z, a: _special.gammaincc(a, z),
    ppf=lambda q, a: _special.gammaincinv(a, q),
    isf=lambda q, a: _special.gammainccinv(a, q),
)
chi2 = Distribution(
    _stats.chi2,
    (0.0, INF),
    logpdf=lambda z, df: (
        _special.xlogy(0.5 * df - 1, z) - 0.5 * z - _special.gammaln(0.5 * df) - 0.5 * math.log(2) * df
    ),
    cdf=lambda z, df: _special.chdtr(df, z),
    sf=lambda z, df: _special.chdtrc(df, z),
    ppf=lambda q, df: _special.chdtri(df, 1 - q),
    isf=lambda q, df: _special.chdtri(df, q),
)
beta = Distribution(
    _stats.beta,
    (0.0, 1.0),
    logpdf=lambda z, a, b: _special.xlogy(a - 1, z) + _special.xlog1py(b - 1, -z) - _special.betaln(a, b),
    cdf=lambda z, a, b: _special.betainc(a, b, z),
    sf=lambda z, a, b: _special.betainc(b, a, 1 - z),
    ppf=lambda q, a, b: _special.betaincinv(a, b, q),
    isf=lambda q, a, b: _special.betaincinv(a, b, 1 - q),
)
t = Distribution(
    _stats.t,
    (-INF, INF),
    logpdf=lambda z, df: (
        _special.gammaln(0.5 * (df + 1))
        - _special.gammaln(0.5 * df)
        - 0.5 * np.log(math.pi * df)
        - 0.5 * (df + 1) * np.log1p(z * z / df)
    ),
    cdf=lambda z, df: _special.stdtr(df, z),
    sf=lambda z, df: _special.stdtr(df, -z),
    ppf=lambda q, df: _special.stdtrit(df, q),
    isf=lambda q, df: -_special.stdtrit(df, q),
)


def _laplace_cdf(z):
    """Return the distribution function of the Laplace distribution; |z| in the exponents keeps them from overflow."""
    low = value(z) < 0
    tail = 0.5 * np.exp(np.where(low, z, -z))
    return np.where(low, tail, 1 - tail)


class MultivariateNormal:
    """scipy.stats.multivariate_normal, with `logpdf` and `pdf` for traced values."""

    def __getattr__(self, name):
        return getattr(_stats.multivariate_normal, name)

    def __call__(self, *args, **kwargs):  # noqa: D102 (freezes, as SciPy)
        return _stats.multivariate_normal(*args, **kwargs)

    def logpdf(self, x, mean=None, cov=1, allow_singular=False):
        """Return the logarithm of the density; by the Cholesky factor of the covariance matrix if traced."""
        if not traced([x, mean, cov]):
            return _stats.multivariate_normal.logpdf(x, mean, cov, allow_singular)
        x, cov = matrix(x, False), matrix(cov, False)
        mean = None if mean is None else matrix(mean, False)
        n = len(shape_of(cov))
        k = np.size(value(mean)) if mean is not None else shape_of(cov)[0] if n == 2 else 1
        if n < 2:  # one variance for all, or one for each
            cov = cov * np.eye(k) if n == 0 else np.diag(cov)
        if shape_of(cov) != (k, k):
            raise ValueError(f"`cov` has shape {shape_of(cov)}, and the mean {k} entries")
        if len(shape_of(x)) == 0:
            x = x.reshape(1)
        elif len(shape_of(x)) == 1 and k == 1:
            x = x[:, None]
        d = x if mean is None else x - mean
        factor = np.linalg.cholesky(cov)
        rows = d.reshape(-1, k)
        u = solve_triangle(factor, mT(rows), lower=True)
        half_log_det = np.sum(np.log(np.diagonal(factor)))
        y = -0.5 * np.sum(u * u, axis=0) - half_log_det - k * LOG_SQRT_2PI
        return y.reshape(shape_of(d)[:-1]) if shape_of(d)[:-1] else y[0]

    def pdf(self, x, mean=None, cov=1, allow_singular=False):
        """Return the density."""
        if not traced([x, mean, cov]):
            return _stats.multivariate_normal.pdf(x, mean, cov, allow_singular)
        return np.exp(self.logpdf(x, mean, cov))


multivariate_normal = MultivariateNormal()
ENTRIES[_stats.multivariate_normal] = multivariate_normal


def __getattr__(name):
    return getattr(_stats, name)
