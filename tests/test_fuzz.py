"""The differential fuzzer, a short run; what its long runs found, each as a test of its own."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.engine import writes
from chainrule.program.compiling import compile
from chainrule.program.ir import interpret
from chainrule.testing import fuzz as fuzz_module
from chainrule.testing.fuzz import check, check_program, fuzz, main, printed, program, reduced
from chainrule.testing.fuzz_points import Counts
from chainrule.testing.fuzz_writing import FEATURES, Written


@settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_programs_agree_in_every_mode(random):
    made, findings, counts = check_program(random)
    assert not findings, printed(made, findings)
    assert counts.made > sum(counts.left.values())


def test_programs_of_a_seed_agree_and_few_comparisons_are_left_out():
    report = fuzz(12, seed=3)
    assert not report.failures, printed(*report.failures[0][1:])
    assert report.counts.made > 12 * 80, str(report)
    assert sum(report.counts.left.values()) <= 0.02 * report.counts.made, str(report)
    assert "12 programs, 0 with differences" in str(report)


LEFT_OUT = {
    "v1 = cr.grad(np.std)(np.sum(x) * np.ones(3))": "the tip of a cone",
    "v1 = x[x > 0.5] * np.ones(2)": "the program fails at a point beside",
    "v1 = np.sqrt(0.0 * x) + x": "not finite in either mode",
    "v1 = cr.relu(x - np.array([0.5, 1.0, 2.0]))": "a kink: first order",
    "v1 = np.sin(1e7 * x)": "differences of first order do not settle",
}


@pytest.mark.parametrize("line", LEFT_OUT)
def test_what_can_not_be_compared_is_counted_by_its_reason(line):
    made = Written([line], ["x"], [np.array([0.5, 1.0, 2.0])], ["v1"], (), {})
    findings, counts = check(made)
    assert counts.left[LEFT_OUT[line]] > 0, (str(counts), [str(f) for f in findings])
    assert counts.excess(0.0), str(counts)
    assert not counts.excess(1.0)


def test_a_run_in_which_too_much_is_left_out_fails(monkeypatch, capsys):
    monkeypatch.setattr(Counts, "excess", lambda self: ["a reason"])
    assert main(["--programs", "1"]) == 0  # no share of so few
    monkeypatch.setattr(fuzz_module, "ENOUGH", 1)
    assert main(["--programs", "1"]) == 1
    assert "too many comparisons were left out: a reason" in capsys.readouterr().out


@pytest.fixture(scope="module")
def programs():
    """Return the first programs of a seed."""
    return [program(0, k) for k in range(100)]


@pytest.mark.parametrize("feature", FEATURES)
def test_three_programs_in_ten_have(feature, programs):
    assert np.mean([feature in p.features for p in programs]) >= 0.3


def test_a_program_is_the_same_each_time():
    assert program(5, 7).source == program(5, 7).source != program(5, 8).source


@pytest.fixture
def views_not_renewed(monkeypatch):
    """Plant a fault: views do not see what is written to their base."""
    monkeypatch.setattr(writes, "expire", lambda x: None)


def failing(seed=0, most=30):
    """Return the first failing program of a seed, with its number."""
    found = []
    fuzz(most, seed, each=lambda number, made, findings: findings and (found.append((number, made)) or True))
    return found[0]


def test_a_planted_fault_is_found_shortened_and_printed_to_be_pasted(views_not_renewed):
    number, made = failing()
    shorter, findings = reduced(made, number, 40)
    assert findings
    assert len(shorter.lines) <= len(made.lines)
    text = printed(shorter, findings, number)
    scope = {}
    exec(text, scope)
    assert len(scope["f"](*scope["args"])) == len(shorter.results)
    assert all(f"# {f.mode} at point" in text for f in findings)


def test_the_command_ends_with_1_where_programs_differ(views_not_renewed, capsys):
    number, _ = failing()
    assert main(["--programs", "1", "--first", str(number), "--whole"]) == 1
    assert f"# program {number} differs" in capsys.readouterr().out


def test_the_command_tells_what_was_covered(capsys):
    assert main(["--programs", "2"]) == 0
    assert "have branches" in capsys.readouterr().out


def written_view(x, b):
    """Return a comparison of a view that a write to its base has made stale."""
    base = np.ones((1, 3), like=x)
    view = base[:]
    view[...] = np.sum(x)
    return np.where(view > b, view, b)


def test_a_view_made_stale_is_of_a_batch_before_it_is_read_anew():
    x, b = np.array([[0.5, 0.25], [1.0, 2.0]]), np.array([[1.0, 0.5, 2.0], [2.0, 4.0, 1.0]])
    want = np.stack([written_view(x[k], b[k]) for k in range(2)])
    np.testing.assert_array_equal(cr.vmap(written_view)(x, b), want)


def test_a_comparison_of_a_view_made_stale_is_recorded():
    x, b = np.array([0.5, 0.25]), np.array([1.0, 0.5, 2.0])
    program = cr.record(written_view)(x, b)
    np.testing.assert_array_equal(interpret(program, [4 * x, b])[0], written_view(4 * x, b))


REDUCTIONS = [np.sum, np.prod, np.max, np.min, np.any, np.cumsum, np.cumprod, np.argmax]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("fun", [np.repeat, np.take], ids=lambda fun: fun.__name__)
def test_a_number_is_repeated_and_taken_along_its_axis(fun, axis):
    def f(x):
        return 3 * fun(x, [0, 0], axis=axis) if fun is np.take else 3 * fun(x, 2, axis=axis)

    y, pull = cr.vjp(f, 0.5)
    np.testing.assert_array_equal(y, [1.5, 1.5])
    assert pull(np.array([2.0, 5.0])) == (21.0,)
    np.testing.assert_array_equal(cr.jvp(f, (0.5,), (2.0,))[1], [6.0, 6.0])


@pytest.mark.parametrize("fun", REDUCTIONS, ids=lambda fun: fun.__name__)
def test_a_number_has_an_axis_0_in_every_mode_as_in_numpy(fun):
    def f(x):
        return fun(np.sin(x), axis=0)

    x = np.array([0.5, 1.5])
    np.testing.assert_array_equal(cr.vmap(f)(x), np.stack([f(v) for v in x]))
    if fun not in (np.any, np.argmax):
        tangent = cr.jvp(f, (0.5,), (1.0,))[1]
        np.testing.assert_allclose(tangent, np.cos(0.5) * np.ones(np.shape(f(0.5))), rtol=1e-15)


def test_what_vmap_gives_inside_a_transform_can_be_written_to():
    def f(x):
        y = cr.vmap(cr.grad(lambda t: np.sum(x) * t))(x)
        y[1:] *= x[1:]
        return np.sum(y)

    x = np.array([0.5, 2.0, 3.0])  # s (1 + x1 + x2), s the sum
    np.testing.assert_allclose(cr.grad(f)(x), [6.0, 11.5, 11.5])


def test_casts_to_integers_are_recorded():
    def f(x):
        return (x > 0).astype(int) * x, np.astype(x, int) * x if hasattr(np, "astype") else x

    program = cr.record(f)(np.array([1.5, -2.5]))
    for a, b in zip(interpret(program, [np.array([-3.5, 4.5])]), f(np.array([-3.5, 4.5])), strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_of_writes_to_places_that_depend_on_values_are_recorded():
    def f(x):
        y = np.sin(x)
        y[np.argmax(x)] *= 3 * x[0]
        z = np.zeros(3, like=x)
        z[np.argsort(x)[:2]] = x[:2] ** 2
        return np.sum(y) + np.sum(z * np.arange(3)) + y[np.argmin(x)] * y[np.argmax(x)]

    gradient = cr.grad(f)
    program = cr.record(gradient)(np.array([0.3, 0.7, 0.2]))
    for x in (np.array([0.3, 0.7, 0.2]), np.array([0.2, 0.3, 0.7]), np.array([0.9, 0.6, 0.1])):
        np.testing.assert_allclose(interpret(program, [x])[0], gradient(x), rtol=1e-14)


def test_distinct_values_are_recorded():
    f = cr.grad(lambda x: np.sum(np.unique_values(x) * np.arange(3.0)))
    x = np.array([2.0, 1.0, 3.0])
    np.testing.assert_array_equal(interpret(cr.record(f)(x), [x])[0], [1.0, 0.0, 2.0])


def test_a_number_is_padded_by_nothing_as_in_numpy():
    assert cr.value_and_grad(lambda x: 3 * np.pad(x, 1))(2.0) == (6.0, 3.0)


def test_constants_written_to_places_that_depend_on_values_are_recorded():
    def f(x):
        y = np.zeros(3, like=x)
        y[np.argmax(x)] = 1.0
        z = np.sin(x)
        z[np.argmin(z)] = 0.5
        return np.sum(y * x + z)

    x, other = np.array([1.0, 3.0, 2.0]), np.array([2.5, 1.5, 0.5])
    np.testing.assert_array_equal(interpret(cr.record(f)(x), [other])[0], f(other))
    np.testing.assert_array_equal(interpret(cr.record(cr.grad(f))(x), [other])[0], cr.grad(f)(other))


def test_a_compiled_function_divides_by_zero_as_the_function_does():
    def f(x):
        zero = x - x
        return 2 * np.sum(cr.grad(lambda t: np.sum(np.sin(np.linalg.norm(t)) ** 2))(zero))

    gradient = compile(cr.grad(f))
    for _ in range(2):
        np.testing.assert_array_equal(gradient(np.array([1.0, 2.0])), [0.0, 0.0])


def test_a_checkpoint_whose_cotangent_is_masked_is_compiled():
    def f(x):
        y = cr.checkpoint(np.sin)(x)
        return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), y))

    x = np.array([4.0, 0.0, -1.0])  # the slope of the root at 0 is infinite, and not used
    np.testing.assert_allclose(compile(cr.grad(f))(x), [0.25, 1.0, np.cos(1.0)], rtol=1e-15)


def write_to_the_flat_view(x):
    """Return an array that was written to by way of `np.ravel`, which is a view of it, or a copy: by its layout."""
    y = np.sin(x)
    np.ravel(y)[0] = 0.0
    return y


@pytest.mark.parametrize("first", ["C", "F"])
def test_a_compiled_function_is_traced_for_each_layout_of_its_arguments(first):
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    f = compile(write_to_the_flat_view)
    for order in (first, "C", "F", "C", "F"):
        want = np.sin(x)
        want[0, 0] = 0.0 if order == "C" else np.sin(1.0)
        np.testing.assert_array_equal(f(x.copy(order)), want)


CAPTURED = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_a_compiled_function_is_traced_for_each_layout_of_what_it_captures(monkeypatch):
    f = compile(lambda s: write_to_the_flat_view(s * CAPTURED))
    for order in ("C", "F", "C"):
        monkeypatch.setitem(globals(), "CAPTURED", CAPTURED.copy(order))
        for _ in range(2):
            np.testing.assert_array_equal(f(1.0), write_to_the_flat_view(CAPTURED))


def test_the_method_copy_copies_by_rows_in_every_mode():
    def f(x):
        y = x.T.copy()  # by rows, so that a flat array is a view of it; that of np.copy is not
        np.ravel(y)[1] = 0.0
        z = np.copy(x.T)
        np.ravel(z)[1] = 0.0
        return y, z

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    want = np.array([[1.0, 0.0], [2.0, 4.0]]), np.array([[1.0, 3.0], [2.0, 4.0]])
    found = [f(x), cr.jvp(f, (x,), (x,))[0], cr.vjp(f, x)[0], cr.vmap(f)(np.stack([x, x])), compile(f)(x)]
    found.append(interpret(cr.record(f)(x), [x]))
    for y, z in found:
        np.testing.assert_array_equal(y if y.ndim == 2 else y[1], want[0])
        np.testing.assert_array_equal(z if z.ndim == 2 else z[1], want[1])


def test_a_gradient_in_a_python_number_is_one_in_every_mode():
    def f(s, x):
        slope = cr.grad(lambda t: np.sum(x) * t)(s)
        corner = np.sum(cr.hessian(lambda t: np.sum(np.sin(np.sum(s * x) * t)))(x[:2]))
        return slope, slope * x, corner  # beside a number, float32 stays

    args = 0.5, np.array([0.25, 0.5], np.float32)
    tangents = 1.0, np.ones(2, np.float32)
    recorded = interpret(cr.record(f)(*args), args)
    for ys in (f(*args), cr.jvp(f, args, tangents)[0], cr.vjp(f, *args)[0], compile(f)(*args), recorded):
        assert [np.asarray(y).dtype.name for y in ys] == ["float64", "float32", "float32"]
    for y, bar in zip(f(*args), ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]), strict=True):
        seeds = [np.asarray(b * np.ones(np.shape(v)), np.asarray(v).dtype) for b, v in zip(bar, f(*args), strict=True)]
        assert type(cr.vjp(f, *args)[1](tuple(seeds))[0]) is float, y


def test_the_cotangent_of_an_array_without_axes_is_no_python_number():
    f = cr.checkpoint(lambda t: np.sum(np.resize(t, (3,))) * t)  # 3 t^2, by way of reshape
    slope = cr.grad(f)
    assert cr.vjp(slope, 2.0)[1](1.0) == (6.0,)
    assert cr.grad(cr.checkpoint(slope))(2.0) == 6.0


def test_a_guard_compares_with_the_array_as_it_was_before_it_was_written_to():
    def f(x, b):
        y = np.setxor1d(b, x)
        b[...] = np.max(x)
        return y

    g, x, b = compile(f), np.array([1.0, 2.0]), np.array([1.5, -0.5, 0.25])
    for _ in range(3):
        np.testing.assert_array_equal(g(x, b.copy()), [-0.5, 0.25, 1.0, 1.5, 2.0])
    assert g.stats().traces == 1
