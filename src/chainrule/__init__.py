"""Exact derivatives of plain NumPy code: forward and reverse mode, to any order."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from chainrule import (
    extend,
    numpy,  # noqa: F401 (not in __all__: a star import would hide NumPy itself)
)
from chainrule import rules as _rules  # noqa: F401
from chainrule.engine.dual import Dual
from chainrule.engine.function import Function
from chainrule.engine.level import no_grad
from chainrule.engine.memory import keep_memory
from chainrule.engine.variable import Variable
from chainrule.rules.gates import relu, sigmoid
from chainrule.settings import config
from chainrule.testing import check_grads
from chainrule.transforms import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    directional,
    elementwise_grad,
    gauss_newton,
    grad,
    hessian,
    hessian_diagonal,
    hvp,
    jacobian,
    jvp,
    linearize,
    numeric,
    scan,
    stop_gradient,
    value,
    value_and_grad,
    vjp,
    vmap,
)

__version__ = "0.1.0"
__all__ = [
    "Dual",
    "Function",
    "Variable",
    "adopt",
    "check_grads",
    "checkpoint",
    "compile",
    "config",
    "custom_jvp",
    "custom_vjp",
    "debug_nans",
    "directional",
    "elementwise_grad",
    "explain",
    "extend",
    "flat",
    "gauss_newton",
    "grad",
    "hessian",
    "hessian_diagonal",
    "hvp",
    "jacobian",
    "jvp",
    "keep_memory",
    "linearize",
    "no_grad",
    "numeric",
    "record",
    "relu",
    "scan",
    "sigmoid",
    "stop_gradient",
    "unadopt",
    "value",
    "value_and_grad",
    "vjp",
    "vmap",
    "why_zero",
]


# loaded at their first use; the packages of these names are the functions, too
_LATER = {
    "adopt": "chainrule.adopt",
    "unadopt": "chainrule.adopt",
    "explain": "chainrule.explain",
    "debug_nans": "chainrule.explain.nans",
    "why_zero": "chainrule.explain.why",
    "flat": "chainrule.program",
    "record": "chainrule.program",
    "compile": "chainrule.program",
    "scipy": "chainrule.scipy",  # not in __all__: a star import would hide SciPy itself
}

if _TYPE_CHECKING:
    from chainrule.adopt import adopt, unadopt
    from chainrule.explain import explain
    from chainrule.explain.nans import debug_nans
    from chainrule.explain.why import why_zero
    from chainrule.program import compile, flat, record
else:

    def __getattr__(name):
        if name in _LATER:
            import importlib

            module = importlib.import_module(_LATER[name])
            return module if module.__name__.endswith(f".{name}") else getattr(module, name)
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from chainrule.elsewhere import unknown

        raise unknown(name, __all__)

    def __dir__():
        return sorted({*globals(), *_LATER})
