"""What a user calls to differentiate a function."""

from chainrule.transforms.custom import custom_jvp, custom_vjp
from chainrule.transforms.forward import jvp, linearize
from chainrule.transforms.jacobians import hessian, hvp, jacobian
from chainrule.transforms.reverse import elementwise_grad, grad, value_and_grad, vjp
from chainrule.transforms.stop import stop_gradient

__all__ = [
    "custom_jvp", "custom_vjp", "elementwise_grad", "grad", "hessian", "hvp", "jacobian", "jvp", "linearize",
    "stop_gradient", "value_and_grad", "vjp",
]  # fmt: skip
