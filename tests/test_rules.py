"""Every rule, in every mode. A new line in a rule table, or among the samples, is tested here without a new test."""

import functools
import itertools

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.rule import RULES, full_name
from chainrule.testing.check import MODES, Problem, check_combination, direction, dot
from chainrule.testing.numerical import along, wide
from chainrule.testing.samples import DTYPES, all_samples, constant_samples, policy_samples

ORDERS = [modes for order in (1, 2) for modes in itertools.product(MODES, repeat=order)]
SAMPLES = all_samples()
POLICY = policy_samples()
SAMPLED = {fun for s in SAMPLES for fun in s.tests}

# how far a derivative in a dtype may be from the same in double precision, relative to its largest entry
TOLERANCE = {"float32": 2e-5, "float16": 3e-2, "longdouble": 1e-12, "complex64": 2e-5}


def problem(sample, dtype="float64"):
    """Return what `check_combination` checks: the sample as a function of a list of operands to a list of outputs."""
    xs = sample.operands(dtype)
    p = Problem(outputs_of(sample), xs, [f"operand {k}" for k in range(len(xs))], [], "")
    p.outputs = [f"output {k}" for k in range(len(p.ys))]
    return p


def outputs_of(sample):
    """Return the function of a sample with all of its inexact results in one tuple."""
    f = sample.function()

    @functools.wraps(f)
    def g(*xs):
        y = f(*xs)
        ys = tuple(y) if isinstance(y, tuple | list) else (y,)
        return tuple([v for v in ys if np.asarray(cr.value(v)).dtype.kind in "fc"])

    return g


def by(samples):
    """Return the arguments of a parametrization over samples, named by their calls."""
    return pytest.mark.parametrize("sample", sorted(samples, key=str), ids=str)


@by([s for s in SAMPLES if not s.error])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_match_central_differences(sample, dtype):
    """In forward and reverse mode, and the four second-order combinations; with types, dtypes, values, adjoints."""
    if not sample.accepts(dtype):
        return
    p = problem(sample, dtype)
    for modes in ORDERS:
        if len(modes) <= sample.highest:
            check_combination(p, modes, entries=20 if len(modes) == 1 else 0, directions=2, tolerate=sample.looseness)


@by([s for s in SAMPLES if s.error])
@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_supported_says_so(sample, mode):
    xs = sample.operands()
    with pytest.raises(sample.error):
        derivative(sample, xs, mode)


def derivative(sample, xs, mode, seed=5):
    """Return (values, derivatives, directions) of a sample in one mode, along random directions."""
    f = outputs_of(sample)
    rng = np.random.default_rng(seed)
    if mode == "forward":
        vs = [direction(x, rng) for x in xs]
        return *cr.jvp(f, tuple(xs), tuple(vs)), vs
    ys, pull = cr.vjp(f, *xs)
    ws = [direction(y, rng) for y in ys]
    return ys, pull(tuple(ws)), ws


@by([s for s in SAMPLES if not s.error])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("float64", "complex128")])
def test_other_dtypes_are_kept_and_give_the_same_derivative(sample, dtype):
    if not sample.accepts(dtype):
        return
    xs = sample.operands(dtype)
    double = [np.asarray(x).astype("complex128" if np.dtype(dtype).kind == "c" else "float64")[()] for x in xs]
    with np.errstate(all="ignore"):
        plain = outputs_of(sample)(*xs)
    for mode in MODES:
        ys, found, _ = derivative(sample, xs, mode)
        runs = [derivative(sample, double, mode, seed)[1] for seed in (5, 6, 7)]
        expected = runs[0]  # in one direction terms may cancel: the size of the entries is that in several
        like = plain if mode == "forward" else xs
        assert [np.asarray(y).dtype for y in ys] == [np.asarray(y).dtype for y in plain], mode
        assert [np.asarray(d).dtype for d in found] == [np.asarray(x).dtype for x in like], mode
        assert [np.shape(d) for d in found] == [np.shape(x) for x in like], mode
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            size = max(np.max(np.abs(run[k]), initial=1e-6) for run in runs)
            np.testing.assert_allclose(
                wide(a) / size, b / size, rtol=0, atol=TOLERANCE[dtype] * sample.looseness, err_msg=f"{mode} {dtype}"
            )


@by([s for s in SAMPLES if not s.error])
def test_values_are_those_of_plain_numpy(sample):
    xs = sample.operands()
    with np.errstate(all="ignore"):
        plain = outputs_of(sample)(*xs)
    for mode in MODES:
        ys = derivative(sample, xs, mode)[0]
        assert [type(y) for y in ys] == [type(y) for y in plain], mode
        for y, z in zip(ys, plain, strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-14, atol=1e-14 * np.max(np.abs(z), initial=0), err_msg=mode)


# -- policy points ---------------------------------------------------------------------------------------------


def along_ones(f, xs, modes):
    """Return the derivative of `modes` of ``sum(f)`` along ones, at every order: a number that all modes share."""
    if not modes:
        return sum(np.sum(y) for y in f(*xs))

    def summed(*zs):
        return along_ones(f, zs, modes[1:])

    ones = tuple([np.ones_like(x) for x in xs])
    if modes[0] == "forward":
        return cr.jvp(summed, tuple(xs), ones)[1]
    bars = cr.vjp(summed, *xs)[1](1.0)
    return sum(np.sum(b) for b in bars)


@by(POLICY)
def test_derivative_at_a_policy_point_is_the_chosen_one(sample):
    xs = sample.operands()
    f = outputs_of(sample)
    if sample.error:
        with pytest.raises(sample.error):
            cr.vjp(f, *xs)
        return
    with np.errstate(all="ignore"):
        ys, pull = cr.vjp(f, *xs)
        bars = pull(tuple([np.ones_like(y) for y in ys]))
        if sample.derivatives is not None:
            for bar, wanted in zip(bars, sample.derivatives, strict=True):
                np.testing.assert_allclose(bar, wanted, rtol=1e-12, atol=1e-14)
        for k, x in enumerate(xs):
            for index in np.ndindex(np.shape(x)):
                vs = [np.zeros_like(z) for z in xs]
                e = np.zeros(np.shape(x), np.asarray(x).dtype)
                e[index] = 1
                vs[k] = e[()]
                dots = cr.jvp(f, tuple(xs), tuple(vs))[1]
                found, expected = sum(np.sum(d) for d in dots), np.asarray(bars[k])[index]
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@by([s for s in POLICY if not s.error])
def test_second_order_at_a_policy_point_is_finite_and_the_same_in_all_modes(sample):
    xs = sample.operands()
    f = outputs_of(sample)
    with np.errstate(all="ignore"):
        found = {" over ".join(m): along_ones(f, xs, m) for m in ORDERS if len(m) <= sample.highest}
    finite = {k: bool(np.isfinite(v)) for k, v in found.items()}
    if sample.reason:
        assert not all(finite.values()), f"finite, though said to be singular ({sample.reason}): {found}"
        return
    assert all(finite.values()), found
    for group in (1, 2):
        numbers = [v for k, v in found.items() if k.count("over") == group - 1]
        np.testing.assert_allclose(numbers, numbers[:1] * len(numbers), rtol=1e-10, atol=1e-12, err_msg=str(found))


@by([s for s in POLICY if not s.error and not s.reason and s.accepts("float32")])
def test_policy_point_is_the_same_in_single_precision(sample):
    double, single = sample.operands(), sample.operands("float32")
    f = outputs_of(sample)
    with np.errstate(all="ignore"):
        for mode in MODES:
            found, expected = along_ones(f, single, (mode,)), along_ones(f, double, (mode,))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# -- constants -------------------------------------------------------------------------------------------------


@by(constant_samples())
def test_constant_has_derivative_zero(sample):
    """By differences at a generic point, in each dtype it takes; and what it returns of a traced value is plain."""
    for dtype in ("float64", "complex128"):
        if not sample.accepts(dtype):
            continue
        f, xs = sample.function(), sample.operands(dtype)
        if not numpy_takes(f, xs):
            with pytest.raises(TypeError, match=sample.fun.__name__):
                f(*map(cr.Variable, xs))
            continue
        numbers = lambda *zs: [np.asarray(v, float) for v in parts(f(*zs)) if np.asarray(v).dtype.kind in "fiub"]
        slopes = along(numbers, xs, [direction(x, np.random.default_rng(1)) for x in xs]).value
        assert all(not np.any(s) for s in slopes), (dtype, slopes)
        plain = f(*xs)
        for kind in (cr.Variable, lambda x: cr.Dual(x, x)):
            y = f(*[kind(x) for x in xs])
            assert all(v is cr.value(v) for v in parts(y))
            assert repr(y) == repr(plain)


def numpy_takes(f, xs):
    """Tell whether plain NumPy has the function for floats: bit operations are for integers only."""
    try:
        f(*xs)
    except TypeError:
        return False
    return True


def parts(y):
    """Return the results of a call as a list."""
    return list(y) if isinstance(y, tuple | list) else [y]


# -- completeness ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fun", sorted(RULES, key=full_name), ids=full_name)
def test_every_rule_has_a_sample(fun):
    tested = SAMPLED | {fun for s in constant_samples() for fun in s.tests}
    assert fun in tested, f"add sample({full_name(fun)}, ...) to a module samples_* of chainrule.testing"


@by(SAMPLES + POLICY)
def test_every_sample_is_of_a_rule(sample):
    assert any(fun in RULES for fun in sample.tests), f"{sample} reaches no rule by its own name"


def test_adjoint_pairing_takes_the_real_part():
    assert dot([np.array([1 + 2j])], [np.array([3 - 1j])]) == 5.0
