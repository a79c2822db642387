"""Every rule, recorded: its program holds at other points, and asks for no values that it could compute with.

A program is recorded of the function, of its derivatives in both modes, and of second ones; it is then run at points
near by, and with the entries in another order or of other sign, and compared with the function itself there.
"""

import itertools
import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule import tree
from chainrule.program.ir import Guard, GuardFailed, Symbol, applied, form, replaced, verify
from chainrule.program.record import finished, recording
from chainrule.program.recording import Recording
from chainrule.program.tracing import Tracer
from chainrule.testing.samples import all_samples, policy_samples

# Where rules ask for a value while they are recorded, and why they must: what they compute goes another way then.
DECLARED = {
    # the shape of the result depends on values
    "choices.piecewise": ("each function gets its part", lambda x: np.piecewise(x, [x > 0], [np.sin, np.cos])),
    "indexing.compress": ("as many entries as the condition has", lambda x: np.compress(x > 0, x)),
    "indexing.extract": ("as many entries as the condition has", lambda x: np.extract(x > 0, x)),
    "shapes.trim_zeros": ("as many entries as there are between the zeros", "numpy.trim_zeros"),
    "polynomials.polydiv": ("zeros in front of the rest are cut off", "numpy.polydiv"),
    "polynomials.roots": ("as many roots as there are coefficients between the zeros", "numpy.roots"),
    "sets.intersect1d": ("as many entries as there are of both", "numpy.intersect1d"),
    "sets.call": ("as many entries as there are distinct ones", "numpy.unique_counts"),
    "sets.setdiff1d": ("as many entries as there are in the first only", "numpy.setdiff1d"),
    "sets.setxor1d": ("as many entries as there are in one only", "numpy.setxor1d"),
    "sets.unique": ("as many entries as there are distinct ones", "numpy.unique("),
    # the dtype of the result depends on values
    "polynomials.poly": ("real if complex roots are pairs", lambda x: np.poly(x + 1j)),
    "emath.power": ("complex if a base is negative", "numpy.lib.scimath.power"),
    "emath.widened": ("complex if an argument is negative", "numpy.lib.scimath.sqrt"),
    "linalg_spectrum.note_complex": ("complex if an eigenvalue or root is", "numpy.linalg.eig("),
    # the formula is another one at such points, and the usual one would give a wrong number there, not NaN
    "linalg_det._regular": ("cofactors of a nearly singular matrix", "numpy.linalg.det"),
    "linalg_solve.rank_is_less": ("a rank that is not full", "numpy.linalg.pinv"),
    "linalg_solve.lstsq_abar": ("a rank that is not full", "numpy.linalg.lstsq"),
    "linalg_solve.lstsq_adot": ("a rank that is not full", "numpy.linalg.lstsq"),
    "linalg_spectrum.coinciding": ("eigenvalues or singular values that nearly coincide", "numpy.linalg.eigh"),
    "linalg_spectrum.well_posed": ("eigenvectors that are nearly dependent", "numpy.linalg.eigvals"),
    "linalg_svd.svd_vjp": ("singular values that are zero up to rounding", "numpy.linalg.svd("),
    "quotients.cotangent_over": ("gaps that are zero up to rounding", "numpy.linalg.svd("),
    "quotients.reciprocal": ("gaps that are zero up to rounding", "numpy.linalg.svd("),
    "quotients.tangent_over": ("gaps that are zero up to rounding", "numpy.linalg.svd("),
    "histograms.outer_edges": ("a range without width is widened", "numpy.histogram_bin_edges"),
    # errors and warnings
    "covariance.cov": ("no degrees of freedom are left: a warning", "numpy.cov"),
    "covariance.observation_weights": ("negative weights: an error", "numpy.cov"),
    "matrices.refuse_choice": ("a result that depends on an arbitrary choice: an error", "numpy.linalg.qr"),
    "polynomials.polyfit": ("a rank that is not full: a warning", "numpy.polyfit"),
}
SAMPLES = [s for s in all_samples() if not s.error]


def where_asked():
    """Return the function of a rule that asks for a value, as ``module.function``; None if no rule does."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("chainrule.rules."):
            return f"{module.rpartition('.')[2]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return None


@pytest.fixture
def asked(monkeypatch):
    """List where rules ask for values."""
    found, guard = [], Recording.guard

    def noted(self, symbol, how, seen):
        found.append(where_asked())
        return guard(self, symbol, how, seen)

    monkeypatch.setattr(Recording, "guard", noted)
    return found


def recorded(f, xs, **options):
    """Return the program of `f`, a function of several arrays, as `compile` records it."""
    with recording(f, asks="guard", **options) as made:
        program, boxes = made.program, []
        for x in xs:
            symbol = program.symbol(x)
            program.inputs.append(symbol)
            boxes.append(Tracer(x, symbol, made.level))
        finished(program, f(*boxes), f, made.level)
    return verify(program)


def run_at(program, points):
    """Run a program equation by equation; each value must have the shape and dtype that its symbol tells."""
    values = {**program.constants, **dict(zip(program.inputs, points, strict=True))}
    for e in program.equations:
        if e.__class__ is Guard:
            if not e.holds(values[e.symbol]):
                raise GuardFailed(e)
            continue
        y = applied(e.rule, tuple([replaced(x, values) for x in e.inputs]), replaced(e.params, values))
        pairs = zip(e.output, y, strict=True) if isinstance(e.output, tuple) else [(e.output, y)]
        for symbol, v in pairs:
            if symbol is not None:
                assert form(v) == (symbol.shape, symbol.dtype), f"{e.rule.name} gave {form(v)} for {symbol!r}"
                values[symbol] = v
    return [values[y] if y.__class__ is Symbol else y for y in program.outputs]


def weights(values):
    """Return fixed arrays like the given ones."""
    return [np.cos(1.0 + np.arange(np.size(v))).reshape(np.shape(v)).astype(np.asarray(v).dtype)[()] for v in values]


def variants(sample, xs):
    """Return the functions to record: of the sample's operands, each to a tuple of arrays."""
    call = sample.function()

    def f(*zs):
        y = call(*zs)
        ys = tuple(y) if isinstance(y, tuple | list) else (y,)
        return tuple([v for v in ys if np.dtype(getattr(v, "dtype", type(v))).kind in "fc"])

    with np.errstate(all="ignore"):
        ws = weights(f(*xs))
    vs = tuple(weights(xs))
    numbers = tuple(range(len(xs)))
    is_complex = any(np.asarray(v).dtype.kind == "c" for v in (*xs, *ws))

    def weighed(ys, zs):
        total = sum(np.sum(y * w) for y, w in zip(ys, zs, strict=True))
        return np.real(total) if is_complex else total

    def loss(*zs):
        return weighed(f(*zs), ws)

    def gradient(*zs):
        return cr.grad(loss, numbers)(*zs)

    return {
        "function": f,
        "value and gradient": lambda *zs: cr.value_and_grad(loss, numbers)(*zs),
        "tangent": lambda *zs: cr.jvp(f, zs, vs),
        "forward over reverse": lambda *zs: cr.jvp(gradient, zs, vs)[1],
        "reverse over reverse": lambda *zs: cr.grad(lambda *us: weighed(gradient(*us), vs), numbers)(*zs),
    }


def points(xs, seed=3):
    """Yield other arguments: near by, in reversed order, and with other signs."""
    rng = np.random.default_rng(seed)

    def all_by(change):
        return [np.asarray(change(np.asarray(x))).astype(np.asarray(x).dtype)[()] for x in xs]

    yield "near by", all_by(lambda x: x * (1 + 0.02 * rng.uniform(-1, 1, x.shape)))
    yield "reversed", all_by(lambda x: x.reshape(-1)[::-1].reshape(x.shape))
    yield "other signs", all_by(lambda x: x * rng.choice([-1, 1], x.shape))


def flat(y):
    """Return the values in containers."""
    return [np.asarray(v) for v in tree.flatten(y)[0]]


def eager(f, at):
    """Return what a function gives by itself; None where it is not defined."""
    try:
        found = flat(f(*at))
    except (ValueError, ZeroDivisionError, np.linalg.LinAlgError, cr.errors.ChainruleError):
        return None
    return found if all(np.isfinite(v).all() for v in found) else None


def agree(found, expected, tolerance):
    """Tell whether arrays are the same, relative to the largest entry of all."""
    size = max([1e-3, *[np.max(np.abs(b), initial=0) for b in expected]])
    return all(
        a.dtype == b.dtype and a.shape == b.shape and np.max(np.abs(a - b), initial=0) <= tolerance * size
        for a, b in zip(found, expected, strict=True)
    )


def check(f, xs, others, tolerance, name):
    """Record `f` at `xs`, and compare its program with itself at the others."""
    program = recorded(f, xs)
    for what, at in others:
        expected = eager(f, at)
        if expected is None:
            continue
        try:
            found = flat(run_at(program, at))
        except (GuardFailed, np.linalg.LinAlgError):  # another way: it is recorded anew, or run by Python
            assert program.guards or what != "near by"
            continue
        if not all(np.isfinite(v).all() for v in found):  # of branches not taken: masks keep it out
            found = flat(run_at(recorded(f, xs, careful=True), at))
            if what == "near by":
                assert all(np.isfinite(v).all() for v in found), name
            elif not all(np.isfinite(v).all() for v in found):
                continue
        assert agree(found, expected, tolerance), f"{name} {what}: {found} for {expected}"


def unsorted_knots(sample):
    """Tell whether the operands of a sample must be in order."""
    return sample.fun is np.interp and len(sample.operands()) == 2


@pytest.mark.parametrize("sample", sorted(SAMPLES, key=str), ids=str)
def test_programs_hold_at_other_points(sample, asked):
    xs = sample.operands()
    others = list(itertools.islice(points(xs), 1 if unsorted_knots(sample) else 3))
    with np.errstate(all="ignore"):
        for name, f in variants(sample, xs).items():
            if sample.highest > 1 or "over" not in name:
                check(f, xs, others, 1e-12 * max(10, sample.looseness), name)
    assert {a for a in asked if a} <= set(DECLARED)


NUMBERS = {}  # of each function of single entries one sample for each number of operands
for _sample in SAMPLES:
    if isinstance(_sample.fun, np.ufunc) and not _sample.fun.signature and _sample.operands() and not _sample.kwargs:
        NUMBERS.setdefault((_sample.fun, len(_sample.operands())), _sample)


@pytest.mark.parametrize("sample", sorted(NUMBERS.values(), key=str), ids=str)
def test_programs_of_python_numbers(sample):
    """Comparisons of Python's numbers are Python's truth values: ``~True`` is -2."""
    xs = [float(np.ravel(x)[0]) for x in sample.operands()]
    others = [(what, [float(x) for x in at]) for what, at in points(xs)]
    with np.errstate(all="ignore"):
        for name, f in variants(sample, xs).items():
            if sample.highest > 1 or "over" not in name:
                check(f, xs, others, 1e-12 * max(10, sample.looseness), name)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("sample", sorted(SAMPLES, key=str), ids=str)
def test_programs_of_other_dtypes(sample, dtype, asked):
    if not sample.accepts(dtype):
        return
    xs = sample.operands(dtype)
    tolerance = 3e-5 if dtype == "float32" else 1e-11
    with np.errstate(all="ignore"):
        fs = variants(sample, xs)
        for name in ("value and gradient", "tangent")[: 1 + (dtype == "complex128")]:
            check(fs[name], xs, itertools.islice(points(xs), 1), tolerance * sample.looseness, name)
    assert {a for a in asked if a} <= set(DECLARED)


@pytest.mark.parametrize("sample", [s for s in policy_samples() if not s.error], ids=str)
def test_programs_recorded_near_a_kink_do_not_give_other_numbers_at_it(sample):
    """They give the chosen derivative, or NaN, or fail a guard: then the function itself is run."""
    xs = sample.operands()
    rng = np.random.default_rng(5)
    near = [np.asarray(x + 0.013 * rng.uniform(0.5, 1, np.shape(x))).astype(np.asarray(x).dtype)[()] for x in xs]
    if not all(np.isfinite(x).all() for x in near) or sample.fun in (np.unique, np.intersect1d):  # of another shape
        return
    with np.errstate(all="ignore"):
        for name, f in variants(sample, xs).items():
            if name in ("function", "value and gradient", "tangent") and eager(f, near) is not None:
                check(f, near, [("at the kink", xs)], 1e-12, name)


@pytest.mark.parametrize("place", DECLARED)
def test_what_is_declared_is_asked_for(place, asked):
    """So that the list above holds nothing that is no longer so."""
    of = DECLARED[place][1]
    if callable(of):
        recorded(of, [np.array([1.0, -2.0, 3.0])])
        assert place in asked
        return
    for sample in SAMPLES:
        if str(sample).startswith(of):
            xs = sample.operands()
            with np.errstate(all="ignore"):
                for f in variants(sample, xs).values():
                    if place not in asked:
                        recorded(f, xs)
    assert place in asked


def test_few_rules_ask_for_values():
    assert len(DECLARED) == 30
