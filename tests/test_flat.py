"""Functions and their derivatives as plain NumPy source: right to the last digits, and free of this library."""

import ast
import builtins
import subprocess
import sys
import textwrap
from collections import namedtuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.rule import RULES
from chainrule.errors import ConversionError, NoRuleError, SourceError
from chainrule.program.emit import expression, head, statements
from chainrule.program.flat import Noting
from chainrule.program.ir import Guard, Symbol
from chainrule.program.record import run_recorded
from chainrule.testing.samples import all_samples

RNG = np.random.default_rng(3)

# what depends on values in a way that no program can hold (how many entries differ), or has no derivative so high
UNRECORDED = {
    "histogram", "histogram2d", "histogramdd", "percentile", "quantile", "nanquantile", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "cofactors_by_svd", "unique", "nanpercentile",
}  # fmt: skip


def normal(*shape):
    """Return random numbers."""
    return RNG.normal(size=shape)


# -- every function, forward and backward, to second order ---------------------------------------------------


def listed(y):
    """Return results as a tuple."""
    return tuple(y) if isinstance(y, tuple | list) else (y,)


def derivatives(sample, dtype):
    """Return the operands of a sample, and its function, jvp, vjp, and vjp of the vjp, as functions of them."""
    xs, whole = sample.operands(dtype), sample.function()
    smooth = [np.asarray(y).dtype.kind in "fc" for y in listed(whole(*xs))]
    f = lambda *xs: tuple([y for y, s in zip(listed(whole(*xs)), smooth, strict=True) if s])
    rng = np.random.default_rng(5)
    along = lambda values: tuple([rng.normal(size=np.shape(v)).astype(np.asarray(v).dtype)[()] for v in values])
    ws, vs = along(f(*xs)), along(xs)
    pull = lambda *xs: tuple(cr.vjp(f, *xs)[1](ws))
    return xs, {
        "value": f,
        "jvp": lambda *xs: listed(cr.jvp(f, tuple(xs), vs)[1]),
        "vjp": pull,
        "second": lambda *xs: tuple(cr.vjp(pull, *xs)[1](vs)),
    }


def emitted(program, lines):
    """Write a program without `flat`: each equation a line, as an expression or as statements."""
    name = lambda s: s.name if isinstance(s, Symbol) else None
    body = []
    for e in program.equations:
        if e.__class__ is Guard:
            continue
        if isinstance(e.output, tuple):
            body.append(f"{', '.join('_' if s is None else s.name for s in e.output)}, = {expression(e, name)}")
        else:
            body += statements(e, name, e.output.name) if lines else [f"{e.output.name} = {expression(e, name)}"]
    parameters = ", ".join(s.name for s in [*program.inputs, *program.constants])
    returned = ", ".join(y.name if isinstance(y, Symbol) else "None" for y in program.outputs)
    return f"def run({parameters}):\n" + textwrap.indent("\n".join([*body, f"return [{returned}]\n"]), "    ")


def compare(got, expected, dtype, program):
    """Check values, shapes and dtypes."""
    tolerance = {"float32": 1e-4, "float64": 1e-9, "complex128": 1e-9}[dtype]
    for a, b, y in zip(got, expected, program.outputs, strict=True):
        if isinstance(y, Symbol):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_sample(sample, which, dtype):
    """Emit a derivative of a sample, run it where only NumPy and SciPy are known, and compare with the eager one."""
    xs, functions = derivatives(sample, dtype)
    f = functions[which]
    try:
        program = run_recorded(f, xs, {}, kind=Noting).program
    except (ConversionError, NoRuleError):
        assert {fun.__name__ for fun in sample.tests} & UNRECORDED, f"{sample} can't be recorded"
        return
    expected = f(*xs)
    for lines in (True, False):
        source = emitted(program, lines)
        source = head(source) + "\n\n" + source
        assert "chainrule" not in source
        scope = {}
        exec(source, scope)
        compare(scope["run"](*xs, *program.constants.values()), expected, dtype, program)


SAMPLES = [s for s in all_samples() if not s.error]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", sorted([s for s in SAMPLES if s.accepts("float64")], key=str), ids=str)
def test_emitted_source_computes_what_the_function_does(sample):
    for which in ("value", "jvp", "second")[: 3 if sample.highest > 1 else 2]:
        check_sample(sample, which, "float64")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("sample", sorted(SAMPLES, key=str), ids=str)
def test_emitted_source_keeps_the_dtype(sample, dtype):
    if sample.accepts(dtype):
        check_sample(sample, "vjp", dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", sorted([s for s in SAMPLES if s.accepts("float64")], key=str)[::7], ids=str)
def test_flat_of_a_derivative_gives_what_the_derivative_does(sample):
    xs, functions = derivatives(sample, "float64")
    try:
        source = cr.flat(functions["vjp"])(*xs)
    except (ConversionError, NoRuleError):
        assert {fun.__name__ for fun in sample.tests} & UNRECORDED, f"{sample} can't be recorded"
        return
    for a, b in zip(source.function(*xs), functions["vjp"](*xs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# -- precedence ----------------------------------------------------------------------------------------------

EXPRESSIONS = [
    lambda a, b: (a - b) - (b - a),
    lambda a, b: a - (b - (a + b)),
    lambda a, b: a / (b * a) / (a / b),
    lambda a, b: (-a) ** 2 - -(a**2) + (a**2) ** b,
    lambda a, b: a ** (b**0.5) * -b,
    lambda a, b: a + (-b) * a - (a * b + -a),
    lambda a, b: (a + b) * (a - b) % 0.7,
    lambda a, b: np.where((a > b) & (a * 2 > b) | (b > 1), a * b, -(a + b)),
    lambda a, b: np.abs(-(a - b)) // 0.25 * b + -(a % b),
    lambda a, b: 1 / (1 + np.exp(-(a - b) / (2 * b))),
]


@pytest.mark.parametrize("k", range(len(EXPRESSIONS)))
def test_parentheses_stand_where_they_are_needed(k):
    f, (a, b) = EXPRESSIONS[k], (np.array([0.3, 1.7, 2.2]), np.array([1.1, 0.6, 2.9]))
    np.testing.assert_array_equal(cr.flat(f)(a, b).function(a, b), f(a, b))


def test_parentheses_stand_only_where_they_are_needed():
    assert "return x * y + (x - y)" in cr.flat(lambda x, y: (x * y) + (x - y))(1.5, 2.5).source


# -- what it looks like --------------------------------------------------------------------------------------


def loss(W1, b1, W2, b2, x, t):
    h = np.tanh(x @ W1 + b1)
    y = h @ W2 + b2
    return np.mean((y - t) ** 2)


POINT = (normal(3, 4), normal(4), normal(4, 2), normal(2), normal(5, 3), normal(5, 2))


def test_the_gradient_of_a_net_reads_as_by_hand():
    source = cr.flat(cr.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*POINT).source
    lines = [line.strip() for line in source.splitlines()]
    forward, backward = source.split("# backward")
    for line in ("h = np.tanh(x @ W1 + b1)", "y = h @ W2 + b2"):
        assert line in forward.splitlines() or f"    {line}" in forward.splitlines()
    for line in ("d_b2 = d_y.sum(axis=0)", "d_h = d_y @ W2.T", "d_W2 = h.T @ d_y"):
        assert f"    {line}" in backward.splitlines()
    assert lines[-1] == "return value, (d_W1, d_b1, d_W2, d_b2)"
    assert "# y = h @ W2 + b2" in lines
    assert len(lines) < 40


def test_the_gradient_of_a_net_is_right():
    f = cr.value_and_grad(loss, argnums=(0, 1, 2, 3))
    other = tuple(x + 0.1 for x in POINT)
    value, gradient = cr.flat(f)(*POINT).function(*other)
    assert value == loss(*other)
    h = 1e-6
    for k in range(4):
        v = normal(*POINT[k].shape)
        moved = [loss(*[x + s * h * v if i == k else x for i, x in enumerate(other)]) for s in (1, -1)]
        np.testing.assert_allclose(np.sum(gradient[k] * v), (moved[0] - moved[1]) / (2 * h), rtol=1e-6)


def test_the_users_line_is_quoted_only_where_it_says_more():
    def f(x):
        y = np.sin(x)
        return np.exp(y) * y

    lines = cr.flat(f)(2.0).source.splitlines()
    assert "    y = np.sin(x)" in lines
    assert "    # y = np.sin(x)" not in lines


def test_names_that_mean_something_else_are_changed():
    def f(np_, sum):
        sigmoid = np_ * sum
        lambda_ = cr.sigmoid(sigmoid)
        return lambda_ * sigmoid + sigmoid

    source = cr.flat(cr.grad(f))(0.5, 2.0)
    names = [n for n in ast.walk(ast.parse(source.source)) if isinstance(n, ast.Name)]
    assert not {n.id for n in names if isinstance(n.ctx, ast.Store)} & {"sum", "np", "sigmoid"}
    np.testing.assert_allclose(source.function(0.5, 2.0), cr.grad(f)(0.5, 2.0), rtol=1e-14)


# -- what it holds for ---------------------------------------------------------------------------------------


def test_another_branch_is_refused():
    def f(x):
        if x > 0:
            return x * 2
        return x * 3

    source = cr.flat(f)(1.0)
    assert source.function(4.0) == 8.0
    with pytest.raises(ValueError, match="this was written for x > 0 at test_flat"):
        source.function(-1.0)
    below = cr.flat(f)(-1.0)
    assert below.function(-2.0) == -6.0
    with pytest.raises(ValueError, match=r"this was written for not x > 0"):
        below.function(1.0)


def test_values_that_python_asked_for_are_tested():
    f = lambda x: np.sum(x[np.flatnonzero(x > 0)] ** 2)
    source = cr.flat(cr.grad(f))(np.array([1.0, -2.0, 3.0]))
    np.testing.assert_array_equal(source.function(np.array([2.0, -1.0, 5.0])), [4.0, 0.0, 10.0])
    with pytest.raises(ValueError, match="this was written for"):
        source.function(np.array([2.0, 1.0, 5.0]))


def test_results_share_no_memory():
    c, x = np.array([1.0, 2.5]), np.array([3.0, 4.0])
    call = cr.flat(lambda x: (c, x, x[:1], x * c))(x).function
    for y in call(x):
        y[:] = 0.0
    np.testing.assert_array_equal(x, [3.0, 4.0])
    np.testing.assert_array_equal(call(x)[0], [1.0, 2.5])
    np.testing.assert_array_equal(call(x)[3], [3.0, 10.0])


def test_other_shapes_and_arguments_are_refused():
    source = cr.flat(lambda x, n: np.sum(x) ** n)(np.ones(3), 2)
    assert source.function(np.ones(3), 2) == 9.0
    with pytest.raises(ValueError, match="other shapes"):
        source.function(np.ones(4), 2)
    with pytest.raises(ValueError, match="a constant in it"):
        source.function(np.ones(3), 3)
    with pytest.raises(ValueError, match="other arguments"):
        source.function([np.ones(3)], 2)


def test_a_branch_of_where_that_is_not_taken_gives_zero():
    f = lambda x: np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0)), 0.0)) + np.sqrt(x)[0]
    with np.errstate(all="ignore"):
        gradient = cr.flat(cr.grad(f))(np.array([1.0, 2.0, 3.0])).function(np.array([4.0, 0.0, -1.0]))
    np.testing.assert_array_equal(gradient, [0.5, 0.0, 0.0])


def test_a_derivative_of_the_users_own_is_written_out():
    @cr.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, ybar: (7 * x * ybar,))
    assert cr.flat(f)(2.0).function(3.0) == 9.0
    assert cr.flat(cr.grad(lambda x: f(x) + x))(2.0).function(3.0) == 22.0


def test_a_function_without_a_name_is_refused():
    cube = np.frompyfunc(lambda x: x**3, 1, 1)
    cr.extend.elementwise(cube, lambda y, x: 3 * x * x)
    try:
        with pytest.raises(SourceError, match="can't write <lambda>|can't write f as NumPy source"):
            cr.flat(lambda x: cube(x) + 1)(2.0)
    finally:
        del RULES[cube]


def test_float32_stays():
    f = lambda x, w: np.sum(np.tanh(x * w) * 2 + 1.5 / (1 + x**2))
    xs = (np.array([0.5, 1.5], np.float32), np.array([1.0, 2.0], np.float32))
    gradient = cr.flat(cr.grad(f))(*xs).function(*xs)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, cr.grad(f)(*[x.astype(float) for x in xs]), rtol=1e-5)


# -- writes, loops, containers, captured arrays --------------------------------------------------------------


def test_writes_are_made_in_place():
    def f(x):
        y = np.zeros(4, like=x)
        y[0] = x[0]
        for i in range(1, 4):
            y[i] = y[i - 1] * x[i] + 1
        return y

    x = np.array([2.0, 3.0, 5.0, 7.0])
    source = cr.flat(f)(x)
    assert source.source.count("y[") >= 4
    assert ".copy()" not in source.source
    np.testing.assert_array_equal(source.function(x + 1), f(x + 1))
    for mode in (cr.jacobian(f, mode="reverse"), cr.jacobian(f, mode="forward")):
        np.testing.assert_allclose(cr.flat(mode)(x).function(x + 1), cr.jacobian(f)(x + 1), rtol=1e-13)


def test_a_write_leaves_what_is_still_read_and_the_argument():
    def f(x):
        y = x * 2
        top = y[:2]
        before = y.copy()
        y[0] = 10 * x[1]
        z = y * 1
        y[1:] = top
        x[0] = 7
        return y, z, before, top, x

    x = np.array([2.0, 3.0, 5.0])
    got, expected = cr.flat(f)(x).function(x), f(x.copy())
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, [2.0, 3.0, 5.0])


def test_repeated_indices_add_up():
    i = np.array([0, 2, 0, 1, 0])
    f = lambda x: np.sum(x[i] * np.arange(1.0, 6.0) * x[i])
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(cr.flat(cr.grad(f))(x).function(x), [18.0, 16.0, 12.0], rtol=1e-14)


Pair = namedtuple("Pair", "left right")


def test_containers_go_in_and_come_out():
    f = lambda p, q: {"a": Pair(p["u"] * q[0], 1.0), "b": [np.sum(p["v"]), None]}
    args = ({"u": np.ones(2), "v": np.ones(3)}, (2.0, "name"))
    got = cr.flat(f)(*args).function({"u": np.array([3.0, 4.0]), "v": np.ones(3)}, (2.5, "name"))
    assert isinstance(got["a"], Pair)
    np.testing.assert_array_equal(got["a"].left, [7.5, 10.0])
    assert (got["a"].right, got["b"]) == (1.0, [3.0, None])
    gradient = cr.flat(cr.grad(lambda p: np.sum(p["u"] ** 2) * p["k"]))({"u": np.array([1.0, 2.0]), "k": 3.0})
    assert "d_p_u" in gradient.source
    assert "return {" in gradient.source


def test_captured_arrays_stand_in_the_module_by_their_names():
    weights = np.array([[1.0, 2.0], [3.0, 4.5]])
    source = cr.flat(lambda x: np.sum(weights @ x))(np.ones(2))
    assert "weights = np.array([[1.0, 2.0], [3.0, 4.5]])" in source.source
    assert source.function(np.array([1.0, 2.0])) == 17.0


def test_large_captured_arrays_are_keyword_arguments():
    table = normal(40, 50)
    source = cr.flat(cr.grad(lambda x: np.sum(np.sin(table @ x))))(np.ones(50))
    assert "def f(x, *, table):" in source.source
    assert len(source.source) < 2000
    x = normal(50)
    np.testing.assert_allclose(source.function(x), table.T @ np.cos(table @ x), rtol=1e-12)


# -- over every transform ------------------------------------------------------------------------------------


def smooth(x):
    y = np.sin(x) * x[0]
    return np.sum(np.exp(-y * y)) + np.prod(x)


def while_loop(x):
    while np.sum(x) > 1:
        x = x * 0.5 + np.sin(x) * 0.1
    return np.sum(x**3)


X = np.array([0.5, 1.2, -0.3])
TRANSFORMS = {
    "grad": cr.grad(smooth),
    "value_and_grad": cr.value_and_grad(smooth),
    "hessian": cr.hessian(smooth),
    "grad of grad": cr.grad(lambda x: np.sum(cr.grad(smooth)(x) ** 2)),
    "jvp": lambda x: cr.jvp(smooth, (x,), (np.arange(3.0),)),
    "hvp": lambda x: cr.hvp(smooth, x, np.arange(3.0)),
    "jacobian": cr.jacobian(lambda x: np.outer(x, np.cos(x))),
    "vmap": cr.vmap(lambda x: np.sin(x) * x),
    "vmap of grad": lambda x: cr.vmap(cr.grad(smooth))(np.stack([x, 2 * x])),
    "elementwise_grad": cr.elementwise_grad(np.tanh),
    "loop": cr.grad(while_loop),
    "solve": cr.grad(lambda x: np.sum(np.linalg.solve(np.diag(x) + np.ones((3, 3)), x))),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_flat_over(name):
    f = TRANSFORMS[name]
    source = cr.flat(f)(X)
    for x in (X, X * 1.01):
        for a, b in zip(listed(source.function(x)), listed(f(x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    check_syntax(source.source)


# -- free of this library ------------------------------------------------------------------------------------


def check_syntax(source):
    """Check that all names are NumPy's, SciPy's, Python's, or the module's own, and that no name is of the library."""
    module = ast.parse(source)
    own = {n.name for n in module.body if isinstance(n, ast.FunctionDef)}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            assert {a.name for a in node.names} <= {"numpy", "math", "scipy.special", "scipy.linalg"}
        assert not isinstance(node, ast.ImportFrom)
        if isinstance(node, ast.Name | ast.Attribute | ast.FunctionDef):
            assert "chainrule" not in getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in own or hasattr(builtins, node.func.id), ast.unparse(node)
            assert node.func.id not in {"exec", "eval", "__import__", "getattr", "open"}


def test_a_saved_file_runs_where_the_library_is_not(tmp_path):
    def f(x, y):
        h = cr.sigmoid(x @ y) * np.sinc(x[0, 0])
        return np.sum(np.linalg.norm(h) ** 2 * np.tanh(h))

    x, y = normal(2, 3), normal(3, 2)
    source = cr.flat(cr.value_and_grad(f, argnums=(0, 1)))(x, y)
    check_syntax(source.source)
    source.save(tmp_path / "written.py")
    np.savez(tmp_path / "points.npz", x=x, y=y)
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
        import sys
        sys.modules["chainrule"] = None  # importing it fails
        import numpy as np
        import written
        points = np.load("points.npz")
        value, (x, y) = written.f(points["x"], points["y"])
        np.savez("results.npz", value=value, x=x, y=y)
        assert not [m for m in sys.modules if m.startswith("chainrule.")]
    """)
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = np.load(tmp_path / "results.npz")
    value, (xbar, ybar) = cr.value_and_grad(f, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(results["value"], value, rtol=1e-13)
    np.testing.assert_allclose(results["x"], xbar, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(results["y"], ybar, rtol=1e-11, atol=1e-13)


def test_a_source_prints_as_text():
    source = cr.flat(np.sin)(1.0)
    assert repr(source) + "\n" == str(source) + "\n" == source.source


def put_where(x):
    y = x * 2
    np.copyto(y, x * 3, where=x > 0)
    return y


def added_at(x):
    y = x * 2
    np.add.at(y, np.argsort(x)[:2], x[:2])
    return y


@pytest.mark.parametrize(
    "f",
    [
        put_where,
        added_at,
        lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v**2, lambda v: -v]),
        lambda x: cr.numpy.piecewise(x, [x < 0, x >= 0], [lambda v: v**2, lambda v: -v]),
        lambda x: np.sqrt(np.abs(x), where=x > -5, out=np.zeros(3, like=x)),
        lambda x: x[np.where(x > 0)],
        lambda x: x[np.asarray(x > 0)] * np.asarray(np.argmax(x)),
    ],
    ids=["copyto", "add.at", "piecewise", "cr.numpy.piecewise", "where=", "where of one", "asarray"],
)
def test_masks_and_indices_that_plain_code_asks_for_are_tested(f):
    x, other = np.array([0.5, -1.0, 1.2]), np.array([0.7, -2.0, 1.5])
    slope = cr.grad(lambda x: np.sum(f(x) ** 2))
    for g in (f, slope):
        source = cr.flat(g)(x)
        for point in (x, other):
            np.testing.assert_allclose(source.function(point), g(point), rtol=1e-12)
        assert str(cr.explain(lambda x: np.sum(f(x)), x))
    refused = cr.flat(lambda x: f(x) if x[0] > -9 else x)(x).function
    with pytest.raises(ValueError, match="this was written for"):
        refused(np.array([-9.5, 1.0, -1.2]))
