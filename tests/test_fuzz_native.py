"""The differential fuzzer on machine code, a short run; what its long runs found, each as a test of its own."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.testing.fuzz import check, fuzz, main, printed, program, reduced
from chainrule.testing.fuzz_writing import Written

pytest.importorskip("llvmlite")

from chainrule.program.native import maps, nests_roots


def test_programs_of_a_seed_agree_as_machine_code():
    report = fuzz(16, seed=3, native=True)
    assert not report.failures, printed(*report.failures[0][1:])
    assert report.counts.made > 16 * 20, str(report)
    assert sum(report.counts.left.values()) <= 0.02 * report.counts.made, str(report)
    for part in ("machine code", "arrays in memory", "vector mathematics", "rolled loops"):
        assert report.counts.reached[part] > 0, str(report)


PROGRAMS = {
    "arrays in memory": ["v1 = np.sin(x) * np.resize(x, (7, 41))[0, :3]", "v2 = np.resize(x, (7, 41)) * 2 + 1"],
    "calls of BLAS": ["v1 = np.resize(x, (170, 300)) @ np.resize(np.cos(x), (300, 140))"],
    "rolled loops": ["v1 = x * 1.0", "for k in range(6):", "    v1 = v1 * 0.5 + np.sin(v1 * k)"],
    "kernels and calls": [
        "v1 = np.sin(x) * 2 + 1",
        "v2 = np.linalg.inv(np.outer(v1, v1) + np.eye(3)) * v1 + np.cos(x)",
    ],
}


@pytest.mark.parametrize("part", PROGRAMS)
def test_what_is_reached_of_machine_code_is_counted(part):
    lines = PROGRAMS[part]
    made = Written(lines, ["x"], [np.array([0.5, 1.0, 2.0])], [lines[-1].split()[0]], (), {})
    findings, counts = check(made, native=True)
    assert not findings, printed(made, findings)
    assert counts.reached["machine code"] > 0
    assert counts.reached[part] > 0, str(counts)


def test_every_other_program_is_of_larger_arrays():
    sizes = [max(np.size(a) for a in program(3, k, True).args if not isinstance(a, dict | tuple)) for k in range(20)]
    assert max(sizes[::2]) <= 9 < max(sizes[1::2])


@pytest.fixture(params=["a lane too many", "an operand of the other side"])
def fault(request, monkeypatch):
    """Plant a fault: see benchmarks/planted_faults.py for more."""
    if request.param == "a lane too many":
        monkeypatch.setitem(nests_roots.START, np.add, 1)
    else:
        right = maps.MAPS[np.subtract]
        monkeypatch.setitem(maps.MAPS, np.subtract, lambda b, x, y: right(b, y, x))


def test_a_fault_in_machine_code_is_found_shortened_and_printed(fault):
    found = []
    fuzz(30, 0, each=lambda k, made, findings: findings and (found.append((k, made)) or True), native=True)
    number, made = found[0]
    shorter, findings = reduced(made, number, 10, native=True)
    assert len(shorter.lines) <= len(made.lines)
    scope = {}
    exec(printed(shorter, findings, number), scope)
    assert len(scope["f"](*scope["args"])) == len(shorter.results)
    assert main(["--native", "--programs", "1", "--first", str(number), "--whole"]) == 1


LEFT_OUT = np.array([0.5, 1.0, 2.0])


def test_rounding_that_a_function_amplifies_is_no_difference():
    made = Written(["v1 = np.sin(1e9 * np.exp(x))"], ["x"], [LEFT_OUT], ["v1"], (), {})
    findings, counts = check(made, native=True)
    assert not findings
    assert counts.left["ill conditioned"] > 0


def test_captured_arrays_keep_their_strides_in_the_text_of_a_program():
    base = np.arange(12.0).reshape(3, 4)
    for a in (base, base.T, base[:, ::2], base[:, 1]):
        made = Written(["v1 = np.sum(x) * C"], ["x"], [LEFT_OUT], ["v1"], (), {"C": a})
        c = made.function().__globals__["C"]
        np.testing.assert_array_equal(c, a)
        assert c.flags.c_contiguous == a.flags.c_contiguous
        assert c.flags.f_contiguous == a.flags.f_contiguous


# -- what long runs found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_running_sum_of_a_number_is_an_array_of_one_entry(axis):
    def f(x):
        return np.cumsum(np.sin(np.sum(x)) * 2.0, axis=axis) * x

    g, x = cr.compile(f, backend="native"), np.array([0.25, 0.5])
    np.testing.assert_allclose(g(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(cr.compile(cr.jacobian(f), backend="native")(x), cr.jacobian(f)(x), rtol=1e-14)
    assert g.stats().native == 1


WHOLE = {  # calls whose rules have all of NumPy's parameters, also those that were not given
    "var": lambda x: np.var(x, axis=0),
    "var of a sample": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: np.std(x, keepdims=True),
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "cumsum": lambda x: np.cumsum(x),
    "mean": lambda x: np.mean(x, axis=0),
    "sum": lambda x: np.sum(x, axis=(0, 1)),
    "max": lambda x: np.max(x, axis=1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_calls_on_small_arrays_are_all_machine_code(name):
    def f(x):
        return np.sin(WHOLE[name](np.cos(x))) * 2.0 + 1.0

    g, x = cr.compile(f, backend="native"), np.array([[0.25, 1.5, -2.0], [3.0, 0.5, 1.0]])
    np.testing.assert_allclose(g(x), f(x), rtol=1e-14)
    assert g.stats().share == 1.0
    slope = cr.grad(lambda x: np.sum(f(x) ** 2))
    np.testing.assert_allclose(cr.compile(slope, backend="native")(x), slope(x), rtol=1e-12)


def test_a_computed_subscript_may_be_out_of_bounds_of_an_example():
    def f(x):
        y = np.cos(x)[:1]
        return y[np.sum(x > 0.0) - 1] * 2.0, y[np.sum(x > 0.0) - 1]

    g, x = cr.compile(f, backend="native"), np.array([0.5, -1.0, -2.0])
    np.testing.assert_allclose(g(x), f(x), rtol=1e-14)
    assert not g.stats().eager
