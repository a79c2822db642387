"""The public surface is a list: `chainrule.__all__`. Each name has a docstring, an example and types."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.elsewhere import HERE

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(cr.__all__)

# a package that is a function, too, has the function inside under the same name
OBJECTS = {name: getattr(getattr(cr, name), name, getattr(cr, name)) for name in NAMES}
CALLABLES = {name: x for name, x in OBJECTS.items() if callable(x)}


def test_no_name_is_listed_twice_and_the_list_is_sorted():
    assert list(cr.__all__) == sorted(set(cr.__all__))


def test_star_import_gives_the_list():
    scope = {}
    exec("from chainrule import *", scope)
    assert sorted(set(scope) - {"__builtins__"}) == NAMES


@pytest.mark.parametrize("name", CALLABLES)
def test_public_name_is_documented_with_an_example_that_runs(name):
    assert ">>> " in (inspect.getdoc(CALLABLES[name]) or "")


def signatures(name):
    """Yield (label, signature) of a public function, or of the public methods of a public class."""
    x = CALLABLES[name]
    if not inspect.isclass(x):
        yield name, inspect.signature(x)
        return
    for key, member in vars(x).items():
        if isinstance(member, property):
            yield f"{name}.{key}", inspect.signature(member.fget)
        elif inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
            yield f"{name}.{key}", inspect.signature(member)


# what the engine calls on every box; public by name only
OF_THE_ENGINE = {"constant", "process", "refuse_write"}


@pytest.mark.parametrize("name", CALLABLES)
def test_public_signatures_are_annotated(name):
    bare = []
    for label, signature in signatures(name):
        if label.rpartition(".")[2] in OF_THE_ENGINE or label == "no_grad.__init__":
            continue
        bare += [
            f"{label}({p.name})" for p in signature.parameters.values() if p.name != "self" and p.annotation is p.empty
        ]
        if signature.return_annotation is signature.empty:
            bare.append(f"{label} -> ?")
    assert bare == []


GOOD = """
import numpy as np
import chainrule as cr

x = cr.Variable(np.array([1.0, 2.0]))
y = np.sum(x**2 + 3 * x / 2 - x @ x)
y.backward(retain_grad=True)
with cr.no_grad():
    x -= 0.1 * x.grad
z = x.reshape(2, 1).T + cr.Dual(1.0, 2.0) * 2
g: float = cr.grad(np.sin, argnums=0)(1.0)
H = cr.hessian(lambda x: x[0] * x[1])(np.ones(2))
n: int = x.ndim + len(x.shape)


class Square(cr.Function):
    def forward(self, x: np.ndarray) -> np.ndarray:
        return x**2

    def backward(self, ybar: np.ndarray) -> np.ndarray:
        return 2 * self.input.data * ybar
"""
BAD = """
import chainrule as cr

cr.grad(1)
cr.jacobian(lambda x: x, mode=2)
cr.Variable(1.0).backward(retain_grad="yes")
"""


def test_type_checker_accepts_right_use_and_refuses_wrong_use(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", str(ROOT / ".mypy_cache"), "good.py", "bad.py"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[:2] for line in lines] == [
        ["bad.py", "4"],
        ["bad.py", "5"],
        ["bad.py", "6"],
    ]


TRANSFORMS = {
    "check_grads": lambda x: cr.check_grads(x, (1.0,)),
    "directional": lambda x: cr.directional(x, 1.0, 1.0),
    "explain": lambda x: cr.explain(x, 1.0),
    "gauss_newton": lambda x: cr.gauss_newton(np.sin, x, 1.0, 1.0),
    "hvp": lambda x: cr.hvp(x, 1.0, 1.0),
    "jvp": lambda x: cr.jvp(x, (1.0,), (1.0,)),
    "linearize": lambda x: cr.linearize(x, 1.0),
    "scan": lambda x: cr.scan(x, 1.0, np.ones(3)),
    "vjp": lambda x: cr.vjp(x, 1.0),
    "why_zero": lambda x: cr.why_zero(x, 1.0),
    **{name: getattr(cr, name) for name in (
        "checkpoint", "compile", "custom_jvp", "custom_vjp", "elementwise_grad", "flat", "grad", "hessian",
        "hessian_diagonal", "jacobian", "numeric", "record", "value_and_grad", "vmap",
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("x", [np.sin(2.0), 3, np.ones((2, 3)), cr.Variable(2.0), [np.sin], "sin"], ids=repr)
def test_a_value_in_place_of_the_function_is_told_at_once(name, x):
    with pytest.raises(TypeError, match=rf"{name} takes a function, not (.|\n)*chainrule.{name}\(.*\bf\b|step, state"):
        TRANSFORMS[name](x)


@pytest.mark.parametrize("name", HERE)
def test_names_of_other_libraries_lead_to_those_of_this_one(name):
    assert not hasattr(cr, name)
    with pytest.raises(
        AttributeError, match=rf"no attribute {name!r}(.|\n)*what does this here is  chainrule\."
    ) as told:
        getattr(cr, name)
    assert set(re.findall(r"chainrule\.(\w+)", str(told.value))) <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("zeros", "np.zeros"),
        ("fori_loop", "for i in range"),
        ("optimize", "scipy.optimize.minimize(chainrule.value_and_grad(f), x0, jac=True)"),
        ("jacobain", "is  chainrule.jacobian  meant"),
        ("whatever_this_is", "dir(chainrule)"),
    ],
)
def test_other_names_that_are_not_there(name, advice):
    with pytest.raises(AttributeError, match=re.escape(advice)):
        getattr(cr, name)
