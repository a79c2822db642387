"""The ``chainrule`` command: what it prints, and that no text it is given can do harm."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
from typer.testing import CliRunner

import chainrule as cr
from chainrule.errors import ExpressionError
from chainrule.explain.command import app
from chainrule.explain.expression import CONSTANTS, FUNCTIONS, Expression, assignments

PYTHON = (sys.executable, "-m", "chainrule")
NOTE3 = "x - exp(-2*sin(4*x)**2)"


def run(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(app(), list(arguments))


def outside(*arguments, **settings):
    """Run the command in a process of its own."""
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", **settings.pop("env", {})}
    return subprocess.run(
        arguments, capture_output=True, encoding="utf-8", timeout=60, check=False, env=env, **settings
    )


def summary(result):
    """Return the numbers that were printed before the tables."""
    return dict(re.findall(r"^  (\S+) += +(.+)$", result.stdout, re.MULTILINE))


# -- what it prints ------------------------------------------------------------------------------------------


def test_the_example_of_note_3():
    result = run("explain", NOTE3, "--at", "x=pi/16")
    assert result.exit_code == 0, result.output
    shown = summary(result)
    assert float(shown["f"]) == pytest.approx(-0.17152990032208032, rel=1e-15)
    assert float(shown["∂f/∂x"]) == pytest.approx(3.9430355293715387, rel=1e-15)
    assert result.stdout.startswith(f"f(x) = {NOTE3}\n")
    assert "v2     4 * v1" in result.stdout
    assert "v̄7·∂v7/∂v1 = 1 · 1" in result.stdout


@pytest.mark.parametrize("at", [["--at", "x=1,y=2"], ["--at", "y=2", "--at", "x=1"]])
def test_two_variables(at):
    shown = summary(run("explain", "x*y + exp(x*y)", *at))
    assert float(shown["f"]) == pytest.approx(2 + np.e**2, rel=1e-15)
    assert float(shown["∂f/∂x"]) == pytest.approx(2 + 2 * np.e**2, rel=1e-15)
    assert float(shown["∂f/∂y"]) == pytest.approx(1 + np.e**2, rel=1e-15)


@pytest.mark.parametrize(("mode", "forward", "reverse"), [("forward", 1, 0), ("reverse", 0, 1), ("both", 1, 1)])
def test_mode(mode, forward, reverse):
    text = run("explain", "x**2", "--at", "x=3", "--mode", mode).stdout
    assert (text.count("Forward mode"), text.count("Reverse mode")) == (forward, reverse)
    assert "∂f/∂x = 6\n" in text


def test_an_expression_may_begin_with_a_minus_sign():
    assert summary(run("explain", "-x**2", "--at", "x=3")) == {"x": "3", "f": "-9", "∂f/∂x": "-6"}
    assert summary(run("explain", "--x", "--at", "x=-3")) == {"x": "-3", "f": "-3", "∂f/∂x": "1"}


def test_arrays():
    shown = summary(run("explain", "sum(x**2)", "--at", "x=[1, 2, 3]"))
    assert shown["∂f/∂x"] == "[2, 4, 6]"


def test_a_pole_is_shown_and_is_no_error():
    shown = summary(run("explain", "1/x", "--at", "x=0"))
    assert (shown["f"], shown["∂f/∂x"]) == ("inf", "-inf")


def test_version():
    assert run("--version").stdout == f"chainrule {cr.__version__}\n"


def test_no_argument_shows_the_help():
    assert "explain" in run().output


@pytest.mark.parametrize("start", [[sys.executable, "-m", "chainrule"], ["chainrule"]], ids=["module", "script"])
def test_entry_points(start):
    if start == ["chainrule"]:
        start = [shutil.which("chainrule", path=sysconfig.get_path("scripts"))]
        assert start[0], "the package's script is not installed"
    done = outside(*start, "explain", NOTE3, "--at", "x=pi/16")
    assert done.returncode == 0, done.stderr
    assert "-0.1715299003220803" in done.stdout
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 110 and line == line.rstrip() for line in done.stdout.splitlines())


def test_a_terminal_that_knows_ascii_only():
    done = outside(
        sys.executable, "-m", "chainrule", "explain", "x*2", "--at", "x=3", env={"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert "df/dx = 2" in done.stdout
    assert done.stdout.isascii()


# -- functions of modules ------------------------------------------------------------------------------------

MODULE = """
import numpy as np

LIMIT = 3

def loss(w, b=1.0):
    return np.sum((w * 2 + b) ** 2)

def broken(x):
    return x + [1, 2][7]

def lost(x):
    return x * float(x)

class Model:
    @staticmethod
    def cube(x):
        return x**3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of its own name in the current directory."""
    name = f"model_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_fails.py").write_text("raise RuntimeError('not today')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def test_a_function_of_a_module(module):
    shown = summary(run("explain", f"{module}:loss", "--at", "w=[1, -2]"))
    assert (shown["loss"], shown["∂loss/∂w"]) == ("18", "[12, -12]")  # (3, -3): 4 * (2 w + 1)
    shown = summary(run("explain", f"{module}:loss", "--at", "b=2, w=[1, -2]"))
    assert (shown["∂loss/∂w"], shown["∂loss/∂b"]) == ("[16, -8]", "4")
    assert summary(run("explain", f"{module}:Model.cube", "--at", "x=2"))["∂cube/∂x"] == "12"


@pytest.mark.parametrize(
    ("target", "at", "what"),
    [
        ("{}:los", "w=1", "did you mean.* loss"),
        ("{}:LIMIT", "w=1", "is no function, but of type int"),
        ("{}:loss", "b=1", "missing a required argument: 'w'"),
        ("{}:loss", "w=1, c=2", "unexpected keyword argument 'c'"),
        ("{}_other:loss", "w=1", "there is no module"),
        ("{}_fails:loss", "w=1", "RuntimeError: not today"),
        ("{}:broken", "x=1", r"IndexError: list index out of range\n  where: \w+.py:10 in broken"),
        ("{}:lost", "x=1", r"ConversionError: float\(x\)(.|\n)*where: \w+.py:13 in lost"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_without_a_traceback(module, target, at, what):
    result = run("explain", target.format(module), "--at", at)
    assert result.exit_code == 2
    assert re.search(what, result.output), result.output
    assert "Traceback" not in result.output


def test_a_function_needs_a_point(module):
    result = run("explain", f"{module}:loss")
    assert result.exit_code == 2
    assert "missing a required argument: 'w'" in result.output


# -- bad input -----------------------------------------------------------------------------------------------

BAD = [  # expression, column of the fault, what the message says
    ("", 0, "empty"),
    ("x +", 3, "not complete"),
    ("sin(x", 3, "never closed"),
    ("x y", 2, "invalid syntax"),
    ("3x", 0, r"write a product with \*"),
    ("x + sine(x)", 4, "no function sine(.|\n)*did you mean sin"),
    ("x + ln(x)", 4, "did you mean log"),
    ("np.sin(x)", 0, r"write functions by their name alone:  sin\(x\)"),
    ("x.__class__", 0, "a dot may not follow"),
    ("(1).__class__.__bases__[0]", 0, "an index is not allowed|a dot may not follow"),
    ("x[0]", 0, "an index is not allowed"),
    ("x^2", 0, r"write  x\*\*2"),
    ("lambda: x", 0, "a definition is not allowed"),
    ("[x for x in x]", 0, "not allowed"),
    ("(x, x)", 0, "a comma may only stand"),
    ("x if x else 1", 0, "where"),
    ("x and 1", 0, "where"),
    ("not x", 0, "not allowed"),
    ("x := 3", 2, "invalid syntax"),
    ("x = 3", 2, "invalid syntax|cannot assign|can't assign"),
    ("x; x", 1, "invalid syntax"),
    ("f'{x}'", 0, "not allowed"),
    ("'a' * x", 0, "'a' is not a real number"),
    ("True * x", 0, "True is not a real number"),
    ("2j * x", 0, "2j is not a real number"),
    ("... + x", 0, "is not a real number"),
    ("await x", 0, "not allowed|invalid syntax"),
    ("sin", 0, r"call it:  sin\(x\)"),
    ("pi(x)", 0, r"pi is a number"),
    ("2(x)", 0, r"write  \*  for a product"),
    ("sin(x, x)", 0, "takes 1 argument, not 2"),
    ("maximum(x)", 0, "takes 2 arguments, not 1"),
    ("sin(x=x)", 4, "by name"),
    ("sin(*x)", 4, "not allowed here"),
    ("0 < x < 1", 0, "chain of comparisons"),
    ("x == 1", 0, "this comparison is not allowed"),
    ("x + 1/0", 4, "divides by zero"),
    ("x + sqrt(-1)", 4, "no real value"),
    ("x + (-8)**0.5", 4, "no real value"),
    ("x + 9**9**9", 4, "too large"),
    ("x + 9" + "9" * 400, 4, "too large"),
    ("x + 1e999", 4, "too large"),
    ("é + bad(x)", 4, "no function bad"),
    ("x\x1b[31m", 1, "not allowed"),
    ("x\x00", 1, "not allowed"),
    ("__import__('os').system('echo hi')", 0, "a dot may not follow"),
    ("eval('1')", 0, "no function eval"),
    ("open('/etc/passwd')", 0, "no function open"),
    ("getattr(x, 'y')", 0, "no function getattr"),
    ("exec", 0, None),  # a variable of that name, with no value
]


@pytest.mark.parametrize(("source", "column", "what"), BAD, ids=[repr(b[0])[:30] for b in BAD])
def test_a_bad_expression_is_refused_at_its_column(source, column, what):
    if what is not None:
        with pytest.raises(ExpressionError, match=what) as caught:
            Expression(source)
        assert caught.value.column == column
    result = run("explain", "--at", "x=1", "--", source)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "\x1b" not in result.output
    assert len(result.output.splitlines()) < 12


@pytest.mark.parametrize(
    "source",
    ["(" * 1900 + "x" + ")" * 1900, "-" * 3900 + "x", "sin(" * 900 + "x" + ")" * 900, "x" * 5000, "~" * 3000 + "x"],
    ids=["brackets", "signs", "calls", "length", "tildes"],
)
def test_deep_or_long_text_is_refused_at_once(source):
    with pytest.raises(ExpressionError, match="nested too deeply|characters"):
        Expression(source)
    with pytest.raises(ExpressionError, match="nested too deeply|characters"):
        assignments(f"x={source}")


def test_long_flat_expressions_are_no_problem():
    terms = "+".join(["x"] * 1500)
    assert Expression(terms)(2.0) == 3000.0
    powers = "**".join(["x"] * 1000)
    assert Expression(powers)(1.0) == 1.0


BAD_POINTS = [
    ("x", 0, "needs a name"),
    ("1", 0, "needs a name"),
    ("x=", (0, 2), "invalid syntax|expected argument value"),
    ("x=y", 2, "y has no value here"),
    ("x=1)+f(", 0, "no list of values"),
    ("x=1)(y=2", 0, "no list of values"),
    ("x=1, x=2", 5, "given twice"),
    ("x=1; y=2", 3, "invalid syntax"),
    ("x=1 y=2", 2, "forgot a comma|invalid syntax"),
    ("pi=3", 0, "a meaning of its own"),
    ("sin=3", 0, "a meaning of its own"),
    ("x=9**9**9", 2, "too large"),
    ("x=[]", 2, "needs an entry"),
    ("x=[[1, 2], [3]]", 2, "same length"),
    ("x=1 < 2", 2, "not a number"),
    ("x='a'", 2, "not a real number"),
    ("x=__import__('os')", 2, "no function __import__"),
    ("**x", 0, "not allowed here"),
    ("x=[y for y in z]", 2, "not allowed"),
]


@pytest.mark.parametrize(("text", "column", "what"), BAD_POINTS, ids=[b[0] for b in BAD_POINTS])
def test_a_bad_point_is_refused_at_its_column(text, column, what):
    with pytest.raises(ExpressionError, match=what) as caught:
        assignments(text)
    assert caught.value.column in (column if isinstance(column, tuple) else (column,))  # versions of Python differ
    result = run("explain", "x*2", "--at", text)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_points_are_constant_expressions():
    point = assignments("x=pi/16, y = -2*e, z=[[1, 2], [3, 4]], w=sqrt(4)")
    assert (point["x"], point["y"], point["w"]) == (np.pi / 16, -2 * np.e, 2.0)
    np.testing.assert_array_equal(point["z"], [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["x*y", "--at", "x=1"], r'y has no value(.|\n)*--at "y=1"'),
        (["x*2"], 'x has no value(.|\n)*--at "x=1"'),
        (["x*2", "--at", "x=1,z=2"], "z, which the expression does not contain"),
        (["alpha*2", "--at", "alhpa=1"], "did you mean alpha"),
        (["x*2", "--at", "x=1", "--at", "x=2"], "x twice"),
        (["2*3"], "no variable"),
        (["x*2", "--at", "x=1", "--mode", "sideways"], "forward, reverse or both"),
        (["x*2", "--at", "x=1", "--mod", "forward"], "unexpected extra argument|No such option"),
        (["x*y", "--at", "x=[1, 2], y=[1, 2, 3]"], "could not be broadcast"),
        (["x < 1", "--at", "x=1"], "of dtype bool"),
    ],
)
def test_wrong_use_is_said_in_a_line(arguments, what):
    result = run("explain", *arguments)
    assert result.exit_code == 2
    assert re.search(what, result.output), result.output
    assert "Traceback" not in result.output


# -- the language --------------------------------------------------------------------------------------------

POINTS = {"arccosh": 1.7, "arctan2": (0.4, 0.7), "where": (True, 0.4, 0.7)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_the_language_is_explained_rightly(name):
    """Against central differences of NumPy's function, at a point where it is smooth."""
    f = FUNCTIONS[name]
    two = name in ("arctan2", "logaddexp", "power", "hypot", "maximum", "minimum", "dot")
    source = f"where(x > 0, x*x, 2*x)" if name == "where" else f"{name}(x, 0.7)" if two else f"{name}(x)"  # noqa: F541
    x = POINTS[name] if isinstance(POINTS.get(name), float) else 0.4
    g = Expression(source)
    h = 1e-6
    expected = (g(x + h) - g(x - h)) / (2 * h)
    e = cr.explain(g, x)
    (derivative,) = e.derivatives.values()
    assert callable(f)
    np.testing.assert_allclose(derivative, expected, rtol=1e-7, atol=1e-9)


def test_constants_and_precedence():
    f = Expression("-x**2 + 2**-1 * x // 1 - 7 % 4 + e - pi")
    assert f(3.0) == -(3.0**2) + 2**-1 * 3.0 // 1 - 7 % 4 + np.e - np.pi
    assert f.names == ("x",)
    assert set(CONSTANTS) == {"pi", "e", "inf"}


# -- without the extras --------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extras_the_command_says_what_to_install(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "sys.argv = ['chainrule', 'explain', 'x*2', '--at', 'x=1']\n"
        "from chainrule.explain.command import main\n"
        "main()\n"
    )
    done = outside(sys.executable, "-c", code)
    assert done.returncode == 2
    assert f"needs {missing}, which is not installed" in done.stderr
    assert "pip install 'chainrule[explain]'" in done.stderr
    assert "Traceback" not in done.stderr


# -- files, source, checks, what is supported ----------------------------------------------------------------


def test_the_graph_and_the_data_are_written_to_files(tmp_path):
    pytest.importorskip("pygraphviz")
    svg, png, data = tmp_path / "a.svg", tmp_path / "b.png", tmp_path / "c.json"
    result = run("explain", NOTE3, "--at", "x=pi/16", "--svg", str(svg), "--graph", str(png), "--json", str(data))
    assert result.exit_code == 0, result.output
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    read = json.loads(data.read_text(encoding="utf-8"))
    assert read["title"] == f"f(x) = {NOTE3}"
    assert read["source"]["lines"] == [NOTE3]
    assert read["backward"][0]["numbers"]["v1"] == pytest.approx([3.9430355293715387], rel=1e-15)
    assert "Reverse mode" not in result.stdout
    assert f"the graph is in {svg}" in result.stdout


def test_a_dash_writes_to_the_terminal():
    read = json.loads(run("explain", "x**2", "--at", "x=3", "--json", "-").stdout)
    assert read["backward"][0]["adjoints"]["v1"] == "6"


def test_the_page_is_written_and_opened(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    path = tmp_path / "page.html"
    result = run("explain", "x**2", "--at", "x=3", "--html", str(path), "--open")
    assert result.exit_code == 0, result.output
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    run("explain", "x**2", "--at", "x=3", "--open")
    assert opened[1].endswith(".html")
    assert opened[1] != opened[0]


@pytest.mark.parametrize(
    ("option", "what"),
    [
        (["--graph", "out.gif"], "format must be one of"),
        (["--svg", "no/such/folder/out.svg"], "can't be written"),
        (["--json", "no/such/folder/out.json"], "can't be written"),
    ],
)
def test_files_that_cannot_be_written_are_said_in_a_line(option, what):
    result = run("explain", "x*2", "--at", "x=1", *option)
    assert result.exit_code == 2
    assert what in result.output
    assert "Traceback" not in result.output


def test_flat_prints_a_module_that_runs():
    result = run("flat", "x*y + exp(x*y)", "--at", "x=1, y=2")
    assert result.exit_code == 0, result.output
    scope = {}
    exec(result.stdout, scope)
    value, (dx, dy) = scope["f"](1.0, 2.0)
    np.testing.assert_allclose([value, dx, dy], [2 + np.e**2, 2 + 2 * np.e**2, 1 + np.e**2], rtol=1e-15)
    assert "# x*y + exp(x*y)" in result.stdout
    assert "# backward" not in run("flat", "x*y", "--at", "x=1, y=2", "--forward").stdout


def test_flat_and_check_of_a_module(tmp_path):
    (tmp_path / "model.py").write_text(
        "import numpy as np\n"
        "import chainrule as cr\n"
        "def loss(w, b=0.5):\n"
        "    r = w * 2 - b\n"
        "    return np.sum(r ** 2)\n"
        "@cr.custom_vjp\n"
        "def wrong(x):\n"
        "    return x * 2\n"
        "wrong.defvjp(lambda x: (x * 2, None), lambda r, y: (y * 5,))\n"
    )
    done = outside(*PYTHON, "flat", "model:loss", "--at", "w=[1, -2]", cwd=tmp_path)
    assert "d_w" in done.stdout, done.stderr
    done = outside(*PYTHON, "check", "model:loss", "--at", "w=[1, -2]", cwd=tmp_path)
    assert done.stdout == (
        "loss: derivatives up to order 2 agree with central differences, in forward and reverse mode.\n"
    )
    done = outside(
        sys.executable, "-m", "chainrule", "check", "model:wrong", "--at", "x=1", "--order", "1", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "GradientCheckError" in done.stderr
    assert "Traceback" not in done.stderr
    done = outside(
        sys.executable, "-m", "chainrule", "explain", "model:loss", "--at", "w=[1, -2]", "--json", "-", cwd=tmp_path
    )
    read = json.loads(done.stdout)
    assert read["source"]["lines"][0] == "def loss(w, b=0.5):"
    assert [s["line"] for s in read["steps"] if s["name"] == "r"] == [4]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("sin", "numpy.sin: differentiated, "),
        ("np.linalg.inv", "numpy.linalg.inv: differentiated, "),
        ("floor", "numpy.floor: constant, "),
        ("frompyfunc", "numpy.frompyfunc: unsupported, "),
        ("erf", "scipy.special.erf: differentiated, "),
        ("relu", "chainrule.relu: differentiated, "),
    ],
)
def test_supported_tells_the_status_of_a_name(name, line):
    result = run("supported", name)
    assert result.exit_code == 0, result.output
    assert line in result.stdout


def test_supported_lists_all_and_refuses_what_it_does_not_know():
    text = run("supported").stdout
    assert re.search(r"^  numpy.linalg \(\d+\)$", text, re.MULTILINE)
    assert " sin," in text
    assert "did you mean sin" in run("supported", "sine").output
    result = run("supported", "qwertyuiop")
    assert result.exit_code == 2
    assert "no function qwertyuiop" in result.output
