"""What functions of JAX, PyTorch, autograd and TensorFlow are called here: for the error of a name that is missing."""

import difflib

import numpy as np

from chainrule.errors import message

# fmt: off
HERE = {
    "jit": "compile(f)", "filter_jit": "compile(f)", "function": "compile(f)", "script": "compile(f)",
    "make_jaxpr": "record(f)(x)", "make_fx": "record(f)(x)", "trace": "record(f)(x)",
    "gradient": "grad(f)(x)", "derivative": "grad(f)(x)", "deriv": "grad(f)(x)", "D": "grad(f)(x)",
    "differentiate": "grad(f)(x)", "backward": "grad(f)(x), or y.backward() of a chainrule.Variable",
    "multigrad": "grad(f, argnums=(0, 1))(x, y)", "grad_named": "grad(f, argnames='x')(x)",
    "multigrad_dict": "grad(f, argnames=('x', 'y'))(x=x, y=y)", "holomorphic_grad": "grad(f, holomorphic=True)(z)",
    "value_and_gradient": "value_and_grad(f)(x)", "value_and_derivative": "value_and_grad(f)(x)",
    "grad_and_value": "value_and_grad(f)(x), which returns the value first", "value_and_jacobian": "vjp(f, x)",
    "value_and_multigrad_dict": "value_and_grad(f, argnames=('x', 'y'))(x=x, y=y)",
    "grad_and_aux": "grad(f, has_aux=True)(x)", "egrad": "elementwise_grad(f)(x)",
    "jac": "jacobian(f)(x)", "jacfwd": "jacobian(f, mode=\"forward\")(x)", "jacrev": "jacobian(f, mode=\"reverse\")(x)",
    "hess": "hessian(f)(x)", "hessian_vector_product": "hvp(f, x, v)", "hessian_tensor_product": "hvp(f, x, v)",
    "make_hvp": "hvp(f, x, v)", "vhp": "hvp(f, x, v)", "make_ggnvp": "gauss_newton(f, loss, x, v)",
    "make_vjp": "vjp(f, x)", "vector_jacobian_product": "vjp(f, x)", "tensor_jacobian_product": "vjp(f, x)",
    "make_jvp": "jvp(f, (x,), (xdot,))", "jacobian_vector_product": "jvp(f, (x,), (xdot,))",
    "pmap": "vmap(f)(xs)", "vectorize": "vmap(f)(xs)", "vectorized_map": "vmap(f)(xs)", "map": "vmap(f)(xs)",
    "remat": "checkpoint(f)(x)", "recompute_grad": "checkpoint(f)(x)",
    "stop_grad": "stop_gradient(x)", "detach": "stop_gradient(x)",
    "custom_gradient": "custom_vjp(f)", "primitive": "extend.rule(f, vjp=...)", "defvjp": "extend.rule(f, vjp=...)",
    "defjvp": "extend.rule(f, jvp=...)", "defgrad": "extend.rule(f, vjp=...)",
    "tensor": "Variable(x)", "Tensor": "Variable(x)", "Parameter": "Variable(x)", "variable": "Variable(x)",
    "GradientTape": "grad(f)(x), or y.backward() of a chainrule.Variable",
    "nograd": "no_grad()", "inference_mode": "no_grad()", "set_grad_enabled": "no_grad()",
    "gradcheck": "check_grads(f, (x,), order=1)", "gradgradcheck": "check_grads(f, (x,))",
    "checkgrad": "check_grads(f, (x,))", "test_grad": "check_grads(f, (x,))", "check_vjp": "check_grads(f, (x,))",
    "taylor": "directional(f, x, v, order=k)", "jet": "directional(f, x, v, order=k)",
    "expit": "sigmoid(x)", "logistic": "sigmoid(x)", "ReLU": "relu(x)", "set_detect_anomaly": "debug_nans()",
}
PYTHON = {
    "cond": "if a > b: ... else: ...", "switch": "if a > b: ... else: ...", "while_loop": "while a > b: ...",
    "fori_loop": "for i in range(n): ...",
}
# fmt: on


def unknown(name: str, names: list[str]) -> AttributeError:
    """Return the error of a name that the package does not have: it says what does the same."""
    if name in HERE:
        advice = f"what does this here is  chainrule.{HERE[name]}."
    elif name in PYTHON:
        advice = f"Python's own control flow is differentiated and compiled:  {PYTHON[name]}"
    elif name == "optimize":
        advice = "give SciPy the derivatives:  scipy.optimize.minimize(chainrule.value_and_grad(f), x0, jac=True)."
    elif callable(getattr(np, name, None)):
        advice = f"call NumPy's own function:  np.{name}(...)."
    else:
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
        advice = f"is  chainrule.{close[0]}  meant?" if close else "dir(chainrule) lists what there is."
    return AttributeError(message(f"module 'chainrule' has no attribute {name!r}.", advice))
