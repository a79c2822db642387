"""The evaluation trace: its numbers against closed forms and central differences, and how it is laid out."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import NotDifferentiableError, ShapeError
from chainrule.explain import Explanation, explain, layout, notation
from chainrule.program.record import record

X = math.pi / 16


def note3(x):
    return x - np.exp(-2 * np.sin(4 * x) ** 2)


def two_paths(x, y):
    return x * y + np.exp(x * y)


# The trace of note 3 by hand: (value, derivative in x, adjoint of the step).
S, C, E = math.sin(4 * X), math.cos(4 * X), math.exp(-2 * math.sin(4 * X) ** 2)
TRACE = {
    "v1": ("x", X, 1, 1 + 16 * S * C * E),
    "v2": ("4 * v1", 4 * X, 4, 4 * S * C * E),
    "v3": ("sin(v2)", S, 4 * C, 4 * S * E),
    "v4": ("v3 ** 2", S**2, 8 * S * C, 2 * E),
    "v5": ("-2 * v4", -2 * S**2, -16 * S * C, -E),
    "v6": ("exp(v5)", E, -16 * S * C * E, -1),
    "v7": ("v1 - v6", X - E, 1 + 16 * S * C * E, 1),
}


def test_forward_table_of_note_3():
    table = explain(note3, X).forward
    assert table.directions == ("x",)
    assert [(r.step, r.expression) for r in table.rows] == [(k, t[0]) for k, t in TRACE.items()]
    np.testing.assert_allclose([r.value for r in table.rows], [t[1] for t in TRACE.values()], rtol=1e-14)
    np.testing.assert_allclose([r.tangents[0] for r in table.rows], [t[2] for t in TRACE.values()], rtol=1e-14)


def test_reverse_table_of_note_3():
    (table,) = explain(note3, X).reverse
    assert [r.step for r in table.rows] == list(TRACE)[::-1]
    np.testing.assert_allclose([r.adjoint for r in table.rows], [TRACE[r.step][3] for r in table.rows], rtol=1e-14)
    x = table.rows[-1]
    assert [p.step for p in x.paths] == ["v7", "v2"]  # two paths lead from x to the result, and are added up
    assert x.adjoint == pytest.approx(sum(p.contribution for p in x.paths), rel=1e-15)
    assert x.adjoint == pytest.approx(3.9430355293715387, rel=1e-15)


def test_value_and_derivatives_of_the_two_worked_examples():
    e = explain(note3, X)
    assert e.outputs["note3"] == pytest.approx(-0.17152990032208032, rel=1e-15)
    assert e.derivatives["note3", "x"] == pytest.approx(3.9430355293715387, rel=1e-15)
    e = explain(two_paths, 1, 2)
    assert e.outputs["two_paths"] == pytest.approx(2 + math.e**2, rel=1e-15)
    assert e.derivatives["two_paths", "x"] == pytest.approx(2 + 2 * math.e**2, rel=1e-15)
    assert e.derivatives["two_paths", "y"] == pytest.approx(1 + math.e**2, rel=1e-15)


@pytest.mark.parametrize("mode", ["forward", "reverse", "both"])
def test_the_modes_show_what_they_are_asked_for_and_agree(mode):
    e = explain(two_paths, 1.0, 2.0, mode=mode)
    assert (e.forward is not None) == (mode != "reverse")
    assert len(e.reverse) == (mode != "forward")
    assert e.derivatives["two_paths", "x"] == pytest.approx(2 + 2 * math.e**2, rel=1e-15)


def test_each_path_is_upstream_times_local():
    for row in explain(note3, X).reverse[0].rows[1:]:
        assert row.paths
        for p in row.paths:
            assert p.contribution == pytest.approx(p.upstream * p.local, rel=1e-15)


def test_an_operand_used_twice_in_one_call_is_one_path():
    rows = explain(lambda x: x * x, 3.0).reverse[0].rows
    (path,) = rows[-1].paths
    assert (path.local, path.contribution) == (6.0, 6.0)


def test_arrays_and_containers():
    w, b, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2), np.array([1.0, 2.0])
    e = explain(lambda p, x: np.sum((p["w"] @ x + p["b"]) ** 2), {"w": w, "b": b}, x)
    r = 2 * (w @ x + b)
    np.testing.assert_allclose(e.derivatives["f", "p['w']"], np.outer(r, x), rtol=1e-15)
    np.testing.assert_allclose(e.derivatives["f", "p['b']"], r, rtol=1e-15)
    np.testing.assert_allclose(e.derivatives["f", "x"], w.T @ r, rtol=1e-15)


def test_several_outputs_get_a_reverse_table_each():
    f = lambda x: {"a": x[0] * x[1], "b": np.exp(x)}
    e = explain(f, np.array([1.0, 2.0]))
    assert [t.output for t in e.reverse] == ["f['a']", "f['b'][0]", "f['b'][1]"]
    np.testing.assert_allclose(e.derivatives["f['a']", "x"], [2.0, 1.0])
    np.testing.assert_allclose(e.derivatives["f['b'][1]", "x"], [0.0, math.e**2])
    only = explain(f, np.array([1.0, 2.0]), mode="forward")
    assert e.derivatives.keys() == only.derivatives.keys()
    for k, d in e.derivatives.items():
        np.testing.assert_allclose(d, only.derivatives[k], rtol=1e-15)


def test_a_call_with_several_outputs_is_one_step():
    a = np.array([[2.0, 1.0], [1.0, 3.0]])

    def f(x):
        values, vectors = np.linalg.eigh(x * a)
        return values[1] * vectors[0, 1] ** 2

    e = explain(f, 1.5)  # scaling a matrix scales its eigenvalues and leaves its eigenvectors
    values, vectors = np.linalg.eigh(a)
    expected = values[1] * vectors[0, 1] ** 2
    assert e.derivatives["f", "x"] == pytest.approx(expected, rel=1e-12)
    assert e.forward.rows[-1].tangents[0] == pytest.approx(expected, rel=1e-12)
    rows = {r.step: r for r in e.reverse[0].rows}
    row = rows["v3, v4"]
    assert row.expression == "eigh(v2)"
    assert [p.of for p in row.paths] == ["v3", "v4"]
    assert max(layout.length(line) for line in e.table().splitlines()) <= 100


def test_forward_columns_of_an_array_are_its_entries():
    e = explain(lambda x, y: x[0] * x[1] + y, np.array([3.0, 5.0]), 1.0)
    assert e.forward.directions == ("x[0]", "x[1]", "y")
    assert e.forward.rows[-1].tangents == (5.0, 3.0, 1.0)


def test_the_cheaper_mode_is_chosen_and_the_other_explained_away():
    many = np.arange(1.0, 11.0)
    e = explain(lambda x: np.sum(x**2), many)
    assert e.forward is None
    assert e.notes == (
        "Not shown: forward mode takes 10 passes, one for each entry of the inputs; reverse mode takes 1.",
    )
    e = explain(lambda t: t * many, 2.0)
    assert e.reverse == ()
    assert "reverse mode takes 10 passes" in e.notes[0]
    np.testing.assert_allclose([e.derivatives[f"f[{i}]", "t"] for i in range(10)], many)


def test_too_many_passes_are_refused_with_advice():
    x = np.ones(40)
    with pytest.raises(ShapeError, match=r"forward mode takes 40 passes.*mode=\"reverse\", which takes 1"):
        try:
            explain(np.sum, x, mode="forward")
        except ShapeError as error:
            raise ShapeError(" ".join(str(error).split())) from None
    with pytest.raises(ShapeError, match="reduce the output"):
        explain(lambda x: x * 2, x, mode="reverse")


def test_many_results_of_many_inputs_are_summed():
    x = np.linspace(0.0, 1.0, 40)
    e = explain(lambda x: {"a": x**2, "b": 3 * x[0]}, x)
    assert [t.output for t in e.reverse] == ["sum(f['a'])", "f['b']"]
    np.testing.assert_allclose(e.derivatives["sum(f['a'])", "x"], 2 * x, rtol=1e-15)
    np.testing.assert_array_equal(e.derivatives["f['b']", "x"], [3.0] + [0.0] * 39)
    assert "sum of the entries" in e.notes[0]


def test_a_large_result_of_few_inputs_stands_as_a_whole():
    t = np.arange(2000.0)
    e = explain(lambda x: x[0] * t + x[1] ** 2, np.array([2.0, 3.0]))
    assert e.reverse == ()
    np.testing.assert_array_equal(e.derivatives["f", "x"], np.stack([t, np.full(2000, 6.0)], axis=1))
    assert explain(lambda x: (x, t), 1.0, mode="forward").derivatives["f[1]", "x"].shape == (2000,)
    assert "∂f/∂x" in str(e)


def test_a_direction_that_does_not_reach_a_step_gives_an_exact_zero():
    e = explain(lambda x, y: np.sqrt(x) + y, 0.0, 1.0)
    assert e.forward.rows[-1].tangents[1] == 1.0  # and not 0 * inf = nan
    assert e.derivatives["f", "y"] == 1.0


def test_steps_that_do_not_reach_the_result_have_adjoint_zero():
    def f(x):
        np.exp(x)  # unused
        return x * 2

    rows = {r.step: r for r in explain(f, 1.0).reverse[0].rows}
    assert rows["v2"].expression == "exp(v1)"
    assert rows["v2"].adjoint == 0
    assert rows["v1"].adjoint == 2
    assert "not used" in explain(f, 1.0).table("reverse")


def test_a_constant_result_has_zero_derivatives():
    e = explain(lambda x: 3.0, 1.0)
    assert e.derivatives["f", "x"] == 0.0


def test_an_inactive_branch_gives_an_exact_zero():
    e = explain(lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 0.0)), x * 2).sum(), np.array([-1.0, 4.0]))
    np.testing.assert_array_equal(e.derivatives["f", "x"], [2.0, 0.25])


def test_single_precision_stays():
    e = explain(lambda x: np.sum(x * 2.5), np.array([1.0, 2.0], np.float32))
    assert e.derivatives["f", "x"].dtype == np.float32
    assert all(np.asarray(r.adjoint).dtype == np.float32 for r in e.reverse[0].rows)


def test_the_argument_is_not_kept_by_name():
    x = np.array([1.0, 2.0])
    e = explain(lambda x: np.sum(x * x), x)
    x[0] = 99.0
    np.testing.assert_array_equal(e.inputs["x"], [1.0, 2.0])


@pytest.mark.parametrize(
    ("f", "x", "what"),
    [
        (lambda x: x, 1j, "is complex"),
        (lambda x: x * 1j, 1.0, "is complex"),
        (lambda x: x > 0, 1.0, "of dtype bool"),
        (lambda x: None, 1.0, "returned None"),
        (lambda x: x, "text", "can't be differentiated"),
    ],
)
def test_what_has_no_derivative_is_refused(f, x, what):
    with pytest.raises(NotDifferentiableError, match=what):
        explain(f, x)


def test_a_wrong_call_raises_as_the_function_would():
    with pytest.raises(TypeError, match="too many positional"):
        explain(lambda x: x, 1.0, 2.0)
    with pytest.raises(TypeError, match="missing"):
        explain(lambda x, y: x, 1.0)
    with pytest.raises(ValueError, match="'forward', 'reverse', 'both', not 'backward'"):
        explain(lambda x: x, 1.0, mode="backward")
    with pytest.raises(TypeError, match="needs a point"):
        explain(lambda *xs: 1.0)


# -- text ----------------------------------------------------------------------------------------------------


def expressions(f, *args):
    return [notation.expression(e) for e in record(f)(*args).equations]


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x - -2, "v1 - (-2)"),
        (lambda x: (-2.0) ** x, "(-2) ** v1"),
        (lambda x: -2.0 * x, "-2 * v1"),
        (lambda x: -x, "-v1"),
        (lambda x: 1 / x, "1 / v1"),
        (lambda x: x * 1e-20, "v1 * 1e-20"),
    ],
)
def test_arithmetic_is_written_with_operators(f, text):
    assert expressions(f, 2.0) == [text]


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x[0], "v1[0]"),
        (lambda x: x[1:], "v1[1:]"),
        (lambda x: x[::-1], "v1[::-1]"),
        (lambda x: x[..., None], "v1[..., None]"),
        (lambda x: x[[0, 2]], "v1[[0, 2]]"),
        (lambda x: np.sum(x), "sum(v1)"),
        (lambda x: np.sum(x, axis=0), "sum(v1, axis=0)"),
        (lambda x: np.concatenate([x, x]), "concatenate([v1, v1])"),
        (lambda x: np.arange(3.0) @ x, "c1 @ v1"),
    ],
)
def test_calls_and_indices_are_written_as_in_numpy(f, text):
    assert expressions(f, np.array([1.0, 2.0, 3.0])) == [text]


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (2.0, 17, "2"),
        (-0.0, 17, "0"),
        (0.1, 17, "0.1"),
        (0.1 + 0.2, 17, "0.30000000000000004"),
        (0.1 + 0.2, 8, "0.3"),
        (2 / 3, 4, "0.6667"),
        (1e300, 17, "1e+300"),
        (123456789.0, 4, "1.235e+08"),
        (np.float32(0.1), 17, "0.1"),
        (math.inf, 17, "inf"),
        (math.nan, 4, "nan"),
        (3, 1, "3"),
        (True, 4, "True"),
        (1.5 - 2j, 17, "1.5 - 2j"),
    ],
)
def test_numbers_are_exact_where_the_digits_are_enough(x, digits, text):
    assert notation.number(x, digits) == text


def test_arrays_are_written_on_one_line():
    assert notation.array(np.array([[1.0, 2.5], [3.0, 4.0]])) == "[[1, 2.5], [3, 4]]"
    assert notation.array(np.arange(100.0)) == "[0, 1, 2, … 99]"
    assert notation.array(np.ones((5, 6))) == "array 5×6"


def test_numbers_of_a_column_stand_with_their_points_below_one_another():
    assert layout.aligned(["1", "-10.5", "0.25", "[1, 2]", "nan"]) == ["  1", "-10.5", "  0.25", "[1, 2]", "nan"]


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_width(width):
    x = np.array([0.3, 0.7, 1.1])
    for e in (
        explain(note3, X),
        explain(two_paths, 1 / 3, 2.0),
        explain(lambda x: np.exp(x[0] * x[1]) / x[2], x),
    ):
        assert max(layout.length(line) for line in e.table(width=width).splitlines()) <= width


def test_many_columns_are_spread_over_several_tables():
    x = np.arange(1, 9) / 7
    e = explain(lambda x: np.exp(np.sum(x)) * x[0], x, mode="forward")
    tables = e.tables(90)
    assert len(tables) > 1
    shown = [h for t in tables for h in t.headers if "∂" in h]
    assert shown == [f"v̇ = ∂v/∂x[{i}]" for i in range(8)]


def test_the_text_shows_point_value_derivatives_and_both_tables():
    text = str(explain(note3, X))
    assert text == repr(explain(note3, X))
    assert re.search(r"note3 += -0\.17152990032208032\n", text)
    assert text.index("Forward mode") < text.index("Reverse mode")
    assert "v̄7·∂v7/∂v1 = 1 · 1" in text
    assert "+ v̄2·∂v2/∂v1 = 0.735759 · 4" in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_captured_arrays_are_listed():
    w = np.arange(12.0)
    assert str(explain(lambda x: np.sum(w * x), 2.0)).endswith("c1 = [0, 1, 2, … 11]")


def test_many_paths_are_counted_not_listed():
    f = lambda x: sum(x * k for k in range(1, 21))
    lines = explain(f, 1.0).table("reverse").splitlines()
    assert any("+ 12 more" in line for line in lines)
    assert explain(f, 1.0).derivatives["f", "x"] == 210


def test_ascii_text_keeps_the_columns_in_line():
    text = explain(lambda x, y: two_paths(x, y), 1.0, 2.0).text(ascii_only=True)
    assert text.isascii()
    lines = text.splitlines()
    k = next(k for k, line in enumerate(lines) if line.startswith(" step") and "v_ = df/dv" in line)
    starts = [m.start() for m in re.finditer("-+", lines[k + 1])]
    assert [lines[k].index(h) for h in ("step", "expression", "value", "v_ = df/dv", "arrives by")] == starts
    assert lines[k + 2][starts[4] :] == "seed"


def test_show_without_rich_prints_plain_text(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "chainrule.explain.render", raising=False)
    for name in ("rich", "rich.box", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    e = explain(note3, X)
    e.show()
    assert capsys.readouterr().out == f"{e}\n"


def test_show_writes_colours_to_a_terminal_and_none_to_a_file():
    import io

    from rich.console import Console

    from chainrule.explain.render import show

    class Terminal(io.StringIO):
        encoding = "utf-8"

    e = explain(note3, X)
    plain, coloured = Terminal(), Terminal()
    show(e, Console(file=plain, force_terminal=False))
    show(e, Console(file=coloured, force_terminal=True, color_system="standard", width=100, highlight=False))
    assert "\x1b" not in plain.getvalue()
    assert "\x1b[" in coloured.getvalue()
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue())
    for row in e.reverse[0].rows:
        assert re.search(rf"^ {row.step} +{re.escape(row.expression)} ", stripped, re.MULTILINE)


def test_the_public_name_is_a_function_before_and_after_its_package_is_loaded():
    assert isinstance(cr.explain(lambda x: x * x, 2.0), Explanation)
    code = (
        "import sys, chainrule as cr\n"
        "assert not {'rich', 'typer', 'chainrule.explain'} & set(sys.modules)\n"
        "e = cr.explain(lambda x: x * x, 3.0)\n"
        "assert e.derivatives['f', 'x'] == 6.0\n"
        "assert not {'rich', 'typer'} & set(sys.modules)\n"
        "import chainrule.explain.command\n"
        "assert cr.explain(lambda x: x, 3.0).derivatives['f', 'x'] == 1.0\n"
        "assert not {'rich', 'typer'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


TABLE = np.arange(200.0)


@pytest.mark.parametrize(
    ("f", "constant"),
    [
        (lambda x: (x * 2, np.sign(x)), "f[1][1]"),
        (lambda x: (x * 2, x.round(1)), "f[1][1]"),
        (lambda x: (x * 2, np.array([1.0, 2.0])), "f[1][1]"),
        (lambda x: (x * 2, TABLE), "f[1]"),
    ],
)
def test_results_that_are_constants_have_derivatives_of_zero(f, constant):
    for mode in ("forward", "both"):
        explanation = cr.explain(f, np.array([0.5, 1.0]), mode=mode)
        zero = explanation.derivatives[constant, "x"]
        assert zero.shape[-1] == 2
        assert not zero.any()
        np.testing.assert_array_equal(explanation.derivatives["f[0][1]", "x"], [0.0, 2.0])
        assert str(explanation)


def test_inputs_without_entries_are_drawn():
    explanation = cr.explain(lambda x: x.T @ x + np.sum(x, axis=0), np.zeros((0, 3)))
    assert "<svg" in explanation.graph()._repr_svg_()
