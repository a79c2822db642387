"""Imports point one way, the public surface is a list, and importing it loads nothing that was not asked for."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule as cr
from chainrule.engine.rule import RULES, full_name

PACKAGE = Path(cr.__file__).parent

# from the top down: a package imports from lower rows, and from its own row as long as no cycle arises
ROWS = (
    ("chainrule", "__main__", "extend"),
    ("testing", "explain"),
    ("transforms", "program", "numpy", "scipy", "adopt"),
    ("rules",),
    ("engine",),
    ("tree", "errors", "settings", "elsewhere"),
)
RANK = {package: -row for row, packages in enumerate(ROWS) for package in packages}

# what a module of formulas may see of the engine; the others are the bridge between NumPy's entries and the rules
PRIMITIVES = {
    "chainrule.engine.rule": None,
    "chainrule.engine.spec": None,
    "chainrule.engine.splitting": None,
    "chainrule.engine.boxed": {"Boxed", "all_values", "array_value", "differentiated", "known", "ordinary", "value"},
    "chainrule.engine.indexing": {"getitem", "picked", "put", "scatter", "unpicked", "written"},
}
BRIDGE = {
    "__init__",
    "array_methods",
    "batching",
    "batching_order",
    "batching_products",
    "batching_scipy",
    "batching_units",
    "creation",
    "indexing",
    "methods",
    "primitives",
    "ufunc_methods",
}
ENTRIES = {  # what a few of them need in addition, to register an operator, a ufunc's method, a view
    "complexes": {"WRITE_BACK", "noted"},
    "joining": {"PLAIN"},
    "products": {"bilinear_call", "in_place"},
    "reductions": {"chainrule.engine.calls"},
    "unsupported": {"ADVICE"},
    "windows": {"OVERLAPPING"},
}

# fmt: off
PUBLIC = [
    "Dual", "Function", "Variable", "adopt", "check_grads", "checkpoint", "compile", "config", "custom_jvp",
    "custom_vjp", "debug_nans", "directional", "elementwise_grad", "explain", "extend", "flat", "gauss_newton",
    "grad", "hessian", "hessian_diagonal", "hvp", "jacobian", "jvp", "keep_memory", "linearize", "no_grad",
    "numeric", "record", "relu", "scan", "sigmoid", "stop_gradient", "unadopt", "value", "value_and_grad", "vjp",
    "vmap", "why_zero",
]
# fmt: on


def modules():
    """Return the package's source files, by module name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("chainrule", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(path):
    """Yield (module, name, line) of each import of chainrule in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "chainrule":
                    yield alias.name, None, node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "chainrule"):
            assert not node.level, f"{path.name}:{node.lineno}: write imports in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole, None, node.lineno) if whole in MODULES else (node.module, alias.name, node.lineno)


def package_of(module):
    """Return the part of the package that a module belongs to: the second name, or the root itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "chainrule"


def arrows():
    """Return the pairs of packages of which the first imports the second, each with a place where it does."""
    found = {}
    for module, path in MODULES.items():
        for target, name, line in imports(path):
            if target == "chainrule" and name == "__version__":
                continue  # a string, defined before anything is imported
            pair = package_of(module), package_of(target)
            if pair[0] != pair[1]:
                found.setdefault(pair, f"{path.relative_to(PACKAGE)}:{line} imports {target}")
    return found


def test_every_package_has_its_row():
    assert {package_of(m) for m in MODULES} - set(RANK) == set()


def test_imports_point_down():
    up = [place for (a, b), place in arrows().items() if RANK[b] > RANK[a]]
    assert not up, up


def test_imports_within_a_row_form_no_cycle():
    level = {a: {b for (x, b) in arrows() if x == a and RANK[b] == RANK[a]} for a in RANK}
    while level:
        free = [a for a, targets in level.items() if not targets & set(level)]
        assert free, f"a cycle among {sorted(level)}"
        for a in free:
            del level[a]


FORMULAS = sorted(
    str(p.relative_to(PACKAGE / "rules").with_suffix(""))
    for p in (PACKAGE / "rules").rglob("*.py")
    if p.stem not in BRIDGE
)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_module_of_formulas_sees_declarators_and_primitives_only(name):
    for target, what, line in imports(PACKAGE / "rules" / f"{name}.py"):
        if package_of(target) == "engine" and (what or target) not in ENTRIES.get(name, ()):
            allowed = PRIMITIVES.get(target, set())
            assert allowed is None or what in allowed, f"rules/{name}.py:{line} imports {what} from {target}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "engine").glob("*.py")), ids=lambda path: path.stem)
def test_the_engine_knows_no_function_by_its_derivative(path):
    """It may use NumPy to build, move and add up arrays; what has a derivative worth a formula belongs to the rules."""
    formulas = {full_name(f) for f, r in RULES.items() if r.kind in ("elementwise", "bilinear")}
    arithmetic = {"numpy.add", "numpy.subtract", "numpy.multiply", "numpy.divide", "numpy.negative"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np."):
            name = "numpy." + ast.unparse(node)[3:]
            assert name not in formulas - arithmetic, f"{path.name}:{node.lineno} {name}"


def test_the_public_surface_is_this_list():
    assert sorted(cr.__all__) == PUBLIC


@pytest.mark.parametrize("name", [n for n in PUBLIC if callable(getattr(cr, n))])
def test_each_public_name_has_a_docstring_with_an_example(name):
    x = getattr(cr, name)
    text = (getattr(x, name) if inspect.ismodule(x) else x).__doc__ or ""
    assert text.strip(), f"{name} has no docstring"
    assert ">>> " in text, f"{name}'s docstring shows no example"


def test_import_loads_numpy_and_optree_only():
    code = (
        "import sys, chainrule; print(*sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {m for m in done.stdout.split() if not m.startswith("_")}
    assert loaded <= {"chainrule", "numpy", "optree", "typing_extensions"}, loaded
    assert "chainrule" in loaded


def test_import_loads_no_samples_and_no_command():
    code = "import sys, chainrule; print(*[m for m in sys.modules if m.startswith('chainrule.')])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert not [m for m in done.stdout.split() if "samples" in m or m.startswith("chainrule.explain")]
