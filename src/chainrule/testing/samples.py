"""A sample of arguments for every rule: what the tests of all modes, orders and dtypes are run on.

A sample is one way of calling a function. `array` stands for an operand: it is filled with numbers that are the same in
each run, in any dtype the test asks for, far enough from kinks for differences to be taken. What is no `array` (an
axis, an index, a name) is passed on as it is::

    sample(np.sum, array(2, 3), axis=1)                       # one line for each way of calling
    sample(np.concatenate, [array(2), array(3)])              # operands may be in lists and tuples
    sample(np.linalg.cholesky, array(3, 3)).before(spd)       # the operand is spd(x): symmetric, positive definite
    sample(np.linalg.eigh, array(3, 3)).after(lambda y: y[0]) # only that part of the result has a derivative
    sample(np.angle, array(3)).only("complex128")             # otherwise every dtype of the rule is tried
    policy(np.maximum, 1.0, 1.0).gives(0.5, 0.5)              # a kink: the derivatives chosen there

Elementwise rules need no sample: their arity and `domain` are enough. The samples are listed by family, in the
modules ``samples_*``; `all_samples` collects them.
"""

import copy
import importlib
import importlib.util
import itertools

import numpy as np

from chainrule.engine.rule import RULES, full_name

FAMILIES = ("primitives", "elementwise", "shapes", "products", "linalg", "functions")
OPTIONAL = {"special": "scipy", "scipy": "scipy"}  # families of rules for another library: sampled if that is installed
DTYPES = ("float64", "float32", "float16", "longdouble", "complex128", "complex64")

UNARY_SHAPES = ((), (3,), (2, 3), (0, 2))
PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((2,), ()), ((0, 2), (2,)))
DEFAULT_DOMAIN = (-2.0, 2.0)


class Operand:
    """Stands for an array operand of a sample: a shape and a domain, or given values."""

    __slots__ = ("domain", "given", "serial", "shape")

    def __init__(self, shape, domain=DEFAULT_DOMAIN, given=None):
        self.shape, self.domain, self.given = shape, domain, given

    def fill(self, dtype, key):
        """Return numbers of the domain, irregular and the same in each run; `key` tells operands apart."""
        dtype = np.dtype(dtype)
        if self.given is not None:
            return np.asarray(self.given).astype(dtype)[()]
        size = int(np.prod(self.shape))
        real = self._numbers(size, key)
        if dtype.kind == "c":
            real = real + 1j * (self._numbers(size, key + 31) if self.domain == DEFAULT_DOMAIN else 0.3 * np.sin(real))
        return real.astype(dtype).reshape(self.shape)[()]

    def _numbers(self, size, key):
        """Spread `size` numbers over the domain; their gaps keep ties and the middle (often a kink, 0) away."""
        low, high = self.domain
        order = np.random.default_rng(1000 + key).permutation(size)
        unit = (order + 0.31 + 0.083 * (key % 4)) / max(size, 1) if size > 1 else np.full(size, 0.62 + 0.06 * (key % 4))
        return low + (high - low) * np.clip(unit, 0.02, 0.98)

    def __repr__(self):
        return f"array{self.shape}" if self.given is None else f"values({np.asarray(self.given).tolist()})"


def array(*shape, domain=DEFAULT_DOMAIN):
    """Stand for an operand of a shape, with entries in the interval `domain`."""
    return Operand(shape, domain)


def values(given):
    """Stand for an operand with the given entries."""
    return Operand(np.shape(given), given=given)


class Sample:
    """One way of calling a function, and what the tests may expect of it."""

    def __init__(self, fun, args, kwargs, policy=False):
        self.fun, self.args, self.kwargs, self.policy = fun, args, kwargs, policy
        self.pre = self.post = self.derivatives = self.reason = self.error = self.label = None
        self.dtypes, self.highest, self.looseness = None, 2, 1.0
        self.tests = (fun,)

    # -- what is special about it: each returns the sample

    def before(self, function):
        """Let the operands be ``function(operand)``, each: for functions of matrices of a special kind."""
        self.pre = function
        return self

    def after(self, function):
        """Test ``function(result)``: for results of which only a part has a derivative."""
        self.post = function
        return self

    def of(self, *funs):
        """Say which rules this is a sample of, where they are called by the function given."""
        self.tests = (*self.tests, *funs)
        return self

    def only(self, *dtypes):
        """Test these dtypes only: the function itself takes no others."""
        self.dtypes = dtypes
        return self

    def without(self, *dtypes):
        """Test all dtypes but these: the function itself does not take them."""
        self.dtypes = tuple(d for d in DTYPES if d not in dtypes)
        return self

    def order(self, highest):
        """Test derivatives up to this order only: say why beside it."""
        self.highest = highest
        return self

    def loose(self, factor):
        """Multiply the tolerances: for functions that lose digits by themselves."""
        self.looseness = factor
        return self

    def gives(self, *derivatives):
        """State the chosen first derivative in each operand, of the sum of all results."""
        self.derivatives = derivatives
        return self

    def singular(self, reason):
        """Say why the derivative at this policy point is infinite or undefined, in first or second order."""
        self.reason = reason
        return self

    def raises(self, error):
        """Expect this error of every mode, instead of a derivative."""
        self.error = error
        return self

    def named(self, label):
        """Add a word to the name of the test."""
        self.label = label
        return self

    # -- what the tests use

    def accepts(self, dtype):
        """Tell whether a dtype is to be tested: not if NumPy's own function refuses it."""
        if self.dtypes is not None and dtype not in self.dtypes:
            return False
        if np.dtype(dtype).kind == "c" and not getattr(RULES.get(self.fun), "complex", True):
            return False
        try:
            with np.errstate(all="ignore"):
                self.function()(*self.operands(dtype))
        except TypeError:
            return dtype == "float64"  # which must be taken, or the sample is wrong
        return True

    def operands(self, dtype="float64"):
        """Return the arrays to differentiate in, of a dtype."""
        found = []
        _walk((self.args, self.kwargs), lambda x: found.append(x.fill(dtype, len(found))))
        if self.policy:  # arguments that are numbers are operands of the dtype, as 0-d values
            return [x if x.shape else x[()] for x in found]
        return found

    def function(self):
        """Return the function of the operands alone."""

        def f(*operands):
            rest = iter(operands)
            pre = self.pre or (lambda x: x)
            args, kwargs = _walk((self.args, self.kwargs), lambda x: pre(next(rest)))
            y = self.fun(*args, **kwargs)
            return y if self.post is None else self.post(y)

        f.__name__ = full_name(self.fun)
        return f

    def __str__(self):
        parts = [_short(a) for a in self.args]
        parts += [f"{k}={_short(v)}" for k, v in self.kwargs.items()]
        label = f" {self.label}" if self.label else ""
        for word, function in (("of", self.pre), ("then", self.post)):
            name = getattr(function, "__name__", "<lambda>")
            label += f" {word} {name}" if function is not None and name != "<lambda>" else ""
        return f"{full_name(self.fun)}({', '.join(parts)}){label}"


def _short(x):
    """Name an argument in one line, the same in every run."""
    if type(x) in (list, tuple):
        left, right = "[]" if type(x) is list else "()"
        return f"{left}{', '.join(map(_short, x))}{',' * (type(x) is tuple and len(x) == 1)}{right}"
    if isinstance(x, np.ndarray):
        return _short(x.tolist())
    return getattr(x, "__name__", None) or repr(x)


def _walk(x, at_operand):
    """Return a copy of nested lists, tuples and dicts with each `Operand` replaced by ``at_operand(it)``."""
    if isinstance(x, Operand):
        return at_operand(x)
    if type(x) in (list, tuple):
        return type(x)([_walk(v, at_operand) for v in x])
    if type(x) is dict:
        return {k: _walk(v, at_operand) for k, v in x.items()}
    return x


def sample(fun, *args, **kwargs):
    """Return a sample: the call ``fun(*args, **kwargs)``, in which each `array` is an operand."""
    return Sample(fun, args, kwargs)


def policy(fun, *args, **kwargs):
    """Return a sample at a kink, tie or border, where differences give nothing: floats and arrays are operands.

    The tests ask that all modes give the same finite derivatives there, and those stated by ``gives``.
    """

    def operand(x):
        return values(x) if isinstance(x, float | complex | np.ndarray) else x

    return Sample(fun, tuple([operand(a) for a in args]), kwargs, policy=True)


def elementwise_samples():
    """Return samples of all elementwise rules, at several shapes and broadcasting pairs, in their domain.

    Those with None for the domain of an operand have no derivative in that one: they are listed by hand.
    """
    found = []
    for fun, entry in RULES.items():
        if entry.kind != "elementwise" or (entry.domain and None in entry.domain):
            continue
        shapes = [(s,) for s in UNARY_SHAPES] if entry.nin == 1 else PAIRS
        if entry.nin > 2:
            shapes = [((3,),) * entry.nin, ((2, 1), (3,)) + ((),) * (entry.nin - 2)]
        for each in shapes:
            operands = [array(*s, domain=d) for s, d in zip(each, domains(entry), strict=True)]
            found.append(sample(fun, *operands))
    return found


def domains(entry):
    """Return the domain of each operand of an elementwise rule."""
    domain = entry.domain or DEFAULT_DOMAIN
    return domain if isinstance(domain[0], tuple) else (domain,) * entry.nin


def listed_samples():
    """Return the samples listed in the modules of the families."""
    names = FAMILIES + tuple([name for name, library in OPTIONAL.items() if importlib.util.find_spec(library)])
    modules = [importlib.import_module(f"chainrule.testing.samples_{name}") for name in names]
    return [copy.copy(s) for s in itertools.chain.from_iterable(m.SAMPLES for m in modules)]


def of_a_constant(s):
    """Tell whether a sample is of a function declared `constant`."""
    return getattr(RULES.get(s.fun), "kind", None) == "constant"


def constant_samples():
    """Return samples of the functions without derivative: those listed, and of ufuncs by their arity."""
    found = [s for s in listed_samples() if of_a_constant(s)]
    listed = {s.fun for s in found}
    for fun, entry in RULES.items():
        if entry.kind == "constant" and fun not in listed and isinstance(fun, np.ufunc):
            found.append(sample(fun, *[array(3)] * fun.nin))
    return found


def all_samples():
    """Return every sample at a generic point: compared with central differences."""
    listed = listed_samples()  # first: the modules of other libraries' functions register their rules
    return [s for s in elementwise_samples() + listed if not s.policy and not of_a_constant(s)]


def policy_samples():
    """Return every sample at a kink, a tie or a border."""
    return [s for s in listed_samples() if s.policy]
