"""An explanation as data, as tables in Markdown and HTML, and as a graph: contents, folding, escaping."""

import html.parser
import json
import re
import sys
import xml.dom.minidom

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import MissingDependencyError
from chainrule.explain import explain
from chainrule.explain.fold import fold

pytest.importorskip("pygraphviz")


def two_paths(x, y):
    z = x * y
    return z + np.exp(z)


def mlp(p, x, t):
    h = np.tanh(x @ p["W1"] + p["b1"])
    y = h @ p["W2"]
    return np.sum((y - t) ** 2)


def logistic(x, r):
    for _ in range(1000):
        x = r * x * (1 - x)
    return x


def nested(w, x):
    h = x
    for k in range(30):
        a = np.tanh(w * h)
        h = h + a / 10
        if k % 10 == 9:
            h = h / np.sqrt(1 + h * h)
    return h


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(3)
    p = {"W1": rng.normal(size=(4, 5)), "b1": rng.normal(size=5), "W2": rng.normal(size=(5, 2))}
    return p, rng.normal(size=(3, 4)), rng.normal(size=(3, 2))


def by_id(data):
    return {s["id"]: s for s in data["steps"]}


# -- data ----------------------------------------------------------------------------------------------------


def test_data_of_a_scalar_function():
    data = explain(two_paths, 1.0, 2.0).data()
    steps = by_id(data)
    first = two_paths.__code__.co_firstlineno
    assert [(s["id"], s["kind"], s["name"], s["gate"], s["line"]) for s in data["steps"]] == [
        ("v1", "input", "x", "input", None),
        ("v2", "input", "y", "input", None),
        ("v3", "call", "z", "multiply", first + 1),
        ("v4", "call", None, "function", first + 2),
        ("v5", "call", None, "add", first + 2),
    ]
    assert (data["inputs"], data["outputs"]) == (["v1", "v2"], ["v5"])
    assert steps["v5"]["parents"] == ["v3", "v4"]
    assert steps["v3"]["uses"] == 2  # a copy gate
    assert data["source"]["first"] == first
    assert data["source"]["lines"][1] == "    z = x * y"
    assert data["forward"]["directions"] == ["x", "y"]
    assert data["forward"]["tangents"]["v3"] == ["2", "1"]
    (back,) = data["backward"]
    assert back["order"] == ["v5", "v4", "v3", "v2", "v1"]
    np.testing.assert_allclose(back["numbers"]["v1"], 2 + 2 * np.e**2, rtol=1e-15)
    np.testing.assert_allclose(back["numbers"]["v3"], 1 + np.e**2, rtol=1e-15)
    assert back["paths"]["v3"] == [
        {"from": "v5", "of": "v3", "upstream": "1", "local": "1", "contribution": "1"},
        {"from": "v4", "of": "v3", "upstream": "1", "local": "7.38906", "contribution": "7.38906"},
    ]


def test_data_is_json_also_where_numbers_are_not_finite():
    with np.errstate(all="ignore"):
        data = explain(lambda x: np.log(x) * 2, np.array([0.0, -1.0, 1.0])).data()
    text = json.dumps(data, allow_nan=False)
    steps = by_id(json.loads(text))
    assert steps["v2"]["value"] == "[-inf, nan, 0]"
    assert steps["v2"]["numbers"] == [None, None, 0.0]
    assert data["nonfinite"] == "v2"


def test_lines_of_the_flat_gradient_belong_to_steps():
    data = explain(two_paths, 1.0, 2.0).data()
    lines, of = data["flat"]["lines"], data["flat"]["of"]
    found = {lines[int(n) - 1].split(" = ")[0].strip(): step for n, step in of.items()}
    assert found["z"] == "v3"
    assert (found["d_z"], found["d_x"], found["d_y"]) == ("v3", "v1", "v2")


def test_an_mlp_has_its_gradients_and_forms_no_jacobian(net):
    p, x, t = net
    e = explain(mlp, p, x, t)
    data = e.data()
    steps = by_id(data)
    h = np.tanh(x @ p["W1"] + p["b1"])
    dy = 2 * (h @ p["W2"] - t)
    dz = (dy @ p["W2"].T) * (1 - h * h)
    np.testing.assert_allclose(e.derivatives["mlp", "p['W2']"], h.T @ dy, rtol=1e-10)
    np.testing.assert_allclose(e.derivatives["mlp", "p['W1']"], x.T @ dz, rtol=1e-10)
    np.testing.assert_allclose(e.derivatives["mlp", "p['b1']"], dz.sum(0), rtol=1e-10)
    named = {s["name"]: s for s in data["steps"] if s["name"]}
    assert named["h"]["gate"] == "activation"
    assert named["h"]["jacobian"] == "15×15 (225 numbers, not formed)"
    assert named["y"]["jacobian"] == "6×15 (90 numbers, not formed); 6×10 (60 numbers, not formed)"
    assert named["p['W1']"]["role"] == "parameter"
    assert named["x"]["role"] == "input"
    (path,) = data["backward"][0]["paths"][named["p['W2']"]["id"]]
    assert path["local"] == f"{named['h']['id']}ᵀ ȳ"
    assert named["h"]["norm"] == pytest.approx(np.linalg.norm(h), rel=1e-12)
    assert named["h"]["numbers"] == pytest.approx(list(h.ravel()[:6]), rel=1e-12)
    assert not [s for s in steps.values() if "file" in s]  # no paths of this machine


def test_gradients_of_thousands_of_parameters_need_one_pass():
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(100, 80)), rng.normal(size=(50, 100))
    e = explain(lambda w, x: np.mean(np.tanh(x @ w)), w, x)
    expected = x.T @ (1 - np.tanh(x @ w) ** 2) / (50 * 80)
    np.testing.assert_allclose(e.derivatives["f", "w"], expected, rtol=1e-10, atol=1e-15)
    assert e.forward is None


def test_captured_arrays_have_the_users_name():
    weights = np.arange(12.0)
    data = explain(lambda x: np.sum(weights * x), 2.0).data()
    assert next((s["id"], s["kind"], s["name"]) for s in data["steps"]) == ("c1", "captured", "weights")


# -- tables --------------------------------------------------------------------------------------------------


class Cells(html.parser.HTMLParser):
    """Collects the texts of the cells of a table."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.inside = [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_an_html_table_has_a_cell_for_each_fact():
    text = explain(two_paths, 1.0, 2.0).table("reverse", format="html")
    cells = Cells()
    cells.feed(text)
    head, *rows = cells.rows
    assert head[0] == "step"
    row = dict(zip(head, next(r for r in rows if r[0] == "v3"), strict=True))
    assert row["gate"] == "multiply, copy × 2"
    assert row["upstream · local"] == "∂v5/∂v3: 1 · 1 = 1\n+ ∂v4/∂v3: 1 · 7.38906 = 7.38906"
    assert row["name"] == "z"


def test_a_markdown_table_has_as_many_cells_in_each_row():
    text = explain(two_paths, 1.0, 2.0).table(format="markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows[:7]} == {9}
    assert "v1 \\* v2" in text
    with pytest.raises(ValueError, match='"text", "markdown" or "html"'):
        explain(two_paths, 1.0, 2.0).table(format="latex")


EVIL = ["<script>alert(1)</script>", "a&b", '"|`*\\', "\n", "</table>", "]]>"]


def test_a_title_that_looks_like_markup_is_text():
    svg = explain(lambda x: x * 2, 3.0, title='<b>a & b</b> \\N "c"').graph()
    titles = [a.getAttribute("xlink:title") for a in xml.dom.minidom.parseString(svg).getElementsByTagName("a")]
    assert titles[0] == '<b>a & b</b> \\N "c"'


def test_lines_of_other_files_are_told_with_their_file(tmp_path, monkeypatch):
    (tmp_path / "helper_of_a_test.py").write_text("def double(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import helper_of_a_test

    def f(x):
        y = helper_of_a_test.double(x)
        return y + 1

    e = explain(f, 3.0)
    lines = {s["op"]: (s["line"], s["where"]) for s in e.data()["steps"]}
    assert lines["numpy.multiply"] == (None, "helper_of_a_test.py:2 in double")
    assert lines["numpy.add"][0] == f.__code__.co_firstlineno + 2
    assert "helper_of_a_test.py:2" in e.table(format="markdown").replace("\\", "")


@pytest.mark.parametrize("name", EVIL)
def test_names_from_the_user_are_text(name):
    e = explain(lambda p: p[name] * 2, {name: 3.0})
    for text in (e._repr_html_(), e.table(format="html"), e.graph()):
        assert "<script" not in text
    cells = Cells()
    cells.feed(e.table("reverse", format="html"))
    assert set(cells.tags) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert any(f"p[{name!r}]" in row for row in cells.rows)
    xml.dom.minidom.parseString(e.graph())
    assert "<script" not in e.table(format="markdown")


def test_a_notebook_shows_results_graph_and_tables():
    text = explain(two_paths, 1.0, 2.0)._repr_html_()
    assert "16.7781121978613" in text
    assert text.count("<svg") == 1
    assert "Forward mode" in text
    assert "Reverse mode" in text


# -- graph ---------------------------------------------------------------------------------------------------


def nodes(svg):
    """Return the text of each node of a picture, by the id of its element."""
    made = {}
    for g in xml.dom.minidom.parseString(svg).getElementsByTagName("g"):
        if "node" in g.getAttribute("class").split():
            words = [t.firstChild.data.replace("\xa0", " ") for t in g.getElementsByTagName("text") if t.firstChild]
            made[g.getAttribute("id")] = (g.getAttribute("class").split(), words)
    return made


def edges(dot):
    return set(re.findall(r"^\s*(\w+) -> (\w+)", dot, re.MULTILINE))


def test_the_graph_shows_values_gradients_and_kinds():
    e = explain(two_paths, 1.0, 2.0)
    data = e.data()
    shown = nodes(e.graph())
    kinds = {i: shown[data["graph"]["nodes"][i]][0][-1] for i in ("v1", "v3", "v5")}
    assert kinds == {"v1": "input", "v3": "call", "v5": "output"}
    assert shown[data["graph"]["nodes"]["v3"]][1] == ["v3  z = v1 * v2", "2", "∇ 8.38906"]


def test_a_value_used_twice_passes_through_a_copy_gate():
    found = edges(explain(two_paths, 1.0, 2.0).graph(format="dot"))
    assert found == {
        ("n1", "n3"), ("n2", "n3"), ("n3", "n3_copy"), ("n3_copy", "n4"), ("n3_copy", "n5"), ("n4", "n5"),
    }  # fmt: skip


def test_inputs_and_parameters_are_told_apart(net):
    shown = nodes(explain(mlp, *net).graph())
    kinds = {words[0].split("  ")[1]: kind[-1] for kind, words in shown.values() if "  " in words[0]}
    assert kinds["p['W1']"] == "parameter"
    assert kinds["x"] == "input"


def test_a_loop_of_a_thousand_rounds_is_drawn_as_its_body():
    e = explain(logistic, 0.3, 3.7)
    data = e.data()
    assert len(data["steps"]) == 3002
    shown = nodes(e.graph())
    heads = sorted(words[0] for _, words in shown.values())
    assert heads == ["multiply  × 1000", "multiply  × 1000", "subtract  × 1000", "v1  x", "v2  r"]
    assert sum(len(f["steps"]) for f in data["graph"]["folded"]) == 3000
    assert set(data["graph"]["nodes"]) == {s["id"] for s in data["steps"]}
    assert set(data["graph"]["nodes"].values()) == set(shown)


def test_loops_in_loops_fold_from_the_inside_out():
    shown = nodes(explain(nested, 0.5, 0.3).graph())
    rounds = sorted(int(words[0].rpartition("× ")[2]) for _, words in shown.values() if "×" in words[0])
    assert rounds == [3, 3, 3, 3, 30, 30, 30, 30]


def walk(x, turns):
    for turn in turns:
        if turn:
            x = np.sin(x) * 2
        else:
            x = x - np.exp(-x) / 7
    return x


def test_a_loop_whose_rounds_differ_is_drawn_by_its_lines():
    turns = tuple(np.random.default_rng(5).integers(2, size=300))
    data = explain(lambda x: walk(x, turns), 0.4).data()
    shown = nodes(data["graph"]["svg"])
    assert len(shown) < 20
    calls = {words[0].rpartition("  ")[0]: words[0] for _, words in shown.values() if "calls" in words[0]}
    assert calls["x = np.sin(x) * 2"].endswith(f"  {2 * sum(turns)} calls")
    assert set(data["graph"]["nodes"]) == {s["id"] for s in data["steps"]}


def step(k, op, where, kind="call"):
    return {
        "id": f"v{k}", "kind": kind, "name": f"p[{k}]" if kind == "input" else None, "line": where, "where": where,
        "op": op, "shape": [], "parents": [],
    }  # fmt: skip


def test_folding_keeps_each_step_once_and_stays_small():
    rng = np.random.default_rng(0)
    steps = [step(k, f"f{rng.integers(9)}", int(rng.integers(400))) for k in range(3000)]
    groups = fold(steps, 60)
    assert len(groups) <= 60
    assert sorted(i for g in groups for i in g.steps) == sorted(s["id"] for s in steps)


def test_many_inputs_of_one_container_are_one_node():
    steps = [step(k, "input", None, "input") for k in range(100)] + [step(100, "f", 1)]
    assert [(g.label, len(g.steps)) for g in fold(steps, 60)] == [("p: 100 values", 100), ("", 1)]


def test_a_small_graph_is_not_folded():
    steps = [step(k, "f", 1) for k in range(20)]
    assert [g.steps for g in fold(steps, 60)] == [[f"v{k}"] for k in range(20)]


@pytest.mark.parametrize(
    ("form", "begin"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("dot", b"digraph")]
)
def test_the_graph_is_written_in_the_format_of_the_file(tmp_path, form, begin):
    path = tmp_path / f"graph.{form}"
    made = explain(two_paths, 1.0, 2.0).graph(path)
    content = path.read_bytes()
    assert content.lstrip().removeprefix(b"strict ").startswith(begin)
    assert content == (made if isinstance(made, bytes) else made.encode())
    if form == "svg":
        assert made._repr_svg_() == str(made)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="svg, dot, png, pdf, not 'gif'"):
        explain(two_paths, 1.0, 2.0).graph("graph.gif")


def test_without_pygraphviz_all_but_the_graph_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    e = explain(two_paths, 1.0, 2.0)
    with pytest.raises(MissingDependencyError, match="pygraphviz"):
        e.graph()
    assert e.data()["graph"] is None
    assert "<svg" not in e._repr_html_()


def test_a_forward_table_alone_is_drawn_with_tangents():
    shown = nodes(explain(lambda x: x * x, 3.0, mode="forward").graph())
    assert [words[-1] for _, words in shown.values()] == ["ε 1", "ε 6"]


def test_cr_explain_is_the_function_and_has_the_pictures():
    assert cr.explain.order(3, 2, 1).reverse == 6


# -- whatever can be traced ----------------------------------------------------------------------------------


class Square(cr.Function):
    def forward(self, x):
        return x**2

    def backward(self, gy):
        return 2 * self.input * gy


@cr.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (x * 2, None), lambda _, ybar: (ybar * 2,))

A = np.array([[2.0, 1.0], [1.0, 3.0]])
V = np.array([1.0, 2.0, 3.0])


def buffer(x):
    y = np.zeros(3, like=x)
    y[0] = x[0]
    y[1:] = x[1:] ** 2
    return np.sum(y)


@pytest.mark.parametrize(
    ("f", "x", "gradient"),
    [
        (lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2), V, 6 * V),  # Parseval: 3·|x|²
        (lambda x: np.real(np.exp(1j * x)), 0.3, -np.sin(0.3)),
        (lambda x: Square()(Square()(x)), 3.0, 108.0),
        (lambda x: doubled(x) * x, 2.0, 8.0),
        (lambda x: np.sum(np.linalg.solve(A, x)), np.ones(2), np.linalg.inv(A).sum(0)),
        (lambda x: np.sum(x[np.array([0, 1, 1])] ** 2), V, [2.0, 8.0, 0.0]),
        (lambda x: np.sum(x[x > 1.5] ** 2), V, [0.0, 4.0, 6.0]),
        (buffer, V, [1.0, 4.0, 6.0]),
        (lambda x: cr.grad(lambda y: y**3)(x), 2.0, 12.0),
        (lambda x: np.sum(cr.vmap(lambda a: a * a)(x)), V, 2 * V),
        (lambda x: cr.checkpoint(lambda a: a * a * a)(x), 2.0, 12.0),
        (lambda x: np.sum(np.linalg.inv(x)), A, -np.outer(np.linalg.inv(A).sum(0), np.linalg.inv(A).sum(1))),
        (lambda x: np.einsum("ij,jk->", x, x), A, A.sum(1)[None, :] + A.sum(0)[:, None]),
        (lambda x: np.sort(x)[0] * 5, np.array([3.0, 1.0, 2.0]), [0.0, 5.0, 0.0]),
        (lambda x: np.sum(x * x) + np.sum(x[:0]), V, 2 * V),
        (lambda x: np.sum(x.astype(np.float32)), V, [1.0, 1.0, 1.0]),
    ],
    ids=[
        "fft", "complex", "Function", "custom", "solve", "repeated index", "mask", "buffer", "grad", "vmap",
        "checkpoint", "inv", "einsum", "sort", "empty", "cast",
    ],
)  # fmt: skip
def test_whatever_can_be_traced_is_explained_in_every_form(f, x, gradient):
    e = explain(f, x, mode="reverse")
    (found,) = e.derivatives.values()
    np.testing.assert_allclose(found, gradient, rtol=1e-7, atol=1e-12)
    data = e.data()
    json.dumps(data, allow_nan=False)
    assert set(data["graph"]["nodes"]) == {s["id"] for s in data["steps"]}
    assert all(p in by_id(data) for s in data["steps"] for p in s["parents"])
    order = data["backward"][0]["order"]
    assert all(p["from"] in order for paths in data["backward"][0]["paths"].values() for p in paths)
    assert e.cost(repeat=1).total.calls[0] > 0
    assert "Reverse mode" in e._repr_html_()


# -- arguments that are no inputs ----------------------------------------------------------------------------


def cross_entropy(w, x, labels):
    z = x @ w
    return -np.mean((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[np.arange(len(labels)), labels])


def power(x, n):
    y = x
    for _ in range(n - 1):
        y = y * x
    return y


def test_arrays_of_integers_are_constants():
    rng = np.random.default_rng(2)
    w, x, labels = rng.normal(size=(4, 3)), rng.normal(size=(5, 4)), np.array([0, 2, 1, 1, 0])
    e = explain(cross_entropy, w, x, labels)
    z = np.exp(x @ w)
    expected = x.T @ (z / z.sum(1, keepdims=True) - np.eye(3)[labels]) / 5
    np.testing.assert_allclose(e.derivatives["cross_entropy", "w"], expected, rtol=1e-10)
    assert {name for _, name in e.derivatives} == {"w", "x"}
    assert e.data()["flat"] is not None
    assert e.cost(repeat=1).total.calls[1] > 0
    assert [a.name for a in cr.why_zero(cross_entropy, w, x, labels)] == ["w", "x"]


def test_ints_stay_ints_where_the_function_needs_them():
    e = explain(power, 2.0, 4)
    assert e.derivatives == {("power", "x"): 32.0}
    assert explain(lambda x, k: x[k] ** 2, V, 1).derivatives["f", "x"].tolist() == [0.0, 4.0, 0.0]
    assert explain(lambda x, y: x * y, 2, 3).derivatives == {("f", "x"): 3.0, ("f", "y"): 2.0}
    with pytest.raises(TypeError, match="integer"):
        explain(power, 2.0, 4.0)


def test_options_are_constants():
    f = lambda x, way, flag=None: np.sum(x * 2) if way == "double" and flag is None else x
    assert explain(f, 3.0, "double", None).derivatives == {("f", "x"): 2.0}


def test_integers_alone_are_taken_as_floats():
    assert explain(lambda x: np.sum(x * x), np.array([1, 2])).derivatives["f", "x"].tolist() == [2.0, 4.0]
