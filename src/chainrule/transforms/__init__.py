"""What a user calls to differentiate a function."""

from chainrule.transforms.batches import vmap
from chainrule.transforms.checkpoint import checkpoint
from chainrule.transforms.custom import custom_jvp, custom_vjp
from chainrule.transforms.forward import jvp, linearize
from chainrule.transforms.jacobians import hessian, hvp, jacobian
from chainrule.transforms.numeric import numeric
from chainrule.transforms.products import directional, gauss_newton, hessian_diagonal
from chainrule.transforms.reverse import elementwise_grad, grad, value_and_grad, vjp
from chainrule.transforms.scan import scan
from chainrule.transforms.stop import stop_gradient, value

__all__ = [
    "checkpoint", "custom_jvp", "custom_vjp", "directional", "elementwise_grad", "gauss_newton", "grad", "hessian",
    "hessian_diagonal", "hvp", "jacobian", "jvp", "linearize", "numeric", "scan", "stop_gradient", "value",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip
