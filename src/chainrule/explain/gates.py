"""What a step is in a computational graph: its gate, what it hands back, and the Jacobian that was not formed.

An add gate hands its gradient on to all operands, a multiply gate that times the other operand, a max gate to the
larger one only; a value that is used several times is a copy gate, where gradients are added up.
"""

from chainrule.engine.spec import shape_of, spec_of
from chainrule.explain import notation
from chainrule.program.ir import Symbol

# fmt: off
GATES = {
    "add":        ("numpy.add", "numpy.subtract", "numpy.sum"),
    "multiply":   ("numpy.multiply", "numpy.prod"),
    "max":        ("numpy.maximum", "numpy.minimum", "numpy.fmax", "numpy.fmin", "numpy.max", "numpy.min",
                   "numpy.amax", "numpy.amin"),
    "copy":       ("numpy.broadcast_to", "numpy.repeat", "numpy.tile"),
    "activation": ("chainrule.rules.gates.relu", "chainrule.rules.gates.sigmoid", "numpy.tanh",
                   "scipy.special.expit", "scipy.special.log_ndtr"),
    "product":    ("numpy.matmul", "numpy.dot", "numpy.einsum", "numpy.tensordot", "numpy.inner", "numpy.outer",
                   "numpy.vdot", "numpy.kron", "numpy.convolve"),
}
KINDS = {"gather": "move", "select": "choice", "linear": "linear", "bilinear": "product", "elementwise": "function"}
# fmt: on
_GATE_OF = {name: gate for gate, names in GATES.items() for name in names}


def gate(equation):
    """Name the gate of a call."""
    rule = equation.rule
    return _GATE_OF.get(rule.name) or KINDS.get(rule.kind, "function")


def local_text(equation, j):
    """Write what a call multiplies its upstream gradient by for operand `j`, where that is no number; None if unknown.

    ``ȳ`` is the gradient of the call's result.
    """
    name, rank = equation.rule.name, [len(shape_of(spec_of_operand(x))) for x in equation.inputs]
    if name in ("numpy.add",) or (name == "numpy.subtract" and j == 0):
        return "ȳ"
    if name in ("numpy.subtract", "numpy.negative"):
        return "-ȳ"
    if name == "numpy.matmul" and rank == [2, 2]:
        a, b = [notation.operand(x) for x in equation.inputs]
        return f"ȳ {b}ᵀ" if j == 0 else f"{a}ᵀ ȳ"
    if name == "numpy.matmul" and rank == [2, 1]:
        a, b = [notation.operand(x) for x in equation.inputs]
        return f"ȳ {b}ᵀ" if j == 0 else f"{a}ᵀ ȳ"
    if name == "numpy.sum":
        return "ȳ spread"
    if equation.rule.kind == "gather":
        return "ȳ moved back"
    return None


def spec_of_operand(x):
    """Return what tells the shape of an operand."""
    return x if isinstance(x, Symbol) else spec_of(x)


def size(shape):
    """Return the number of entries of an array."""
    count = 1
    for n in shape:
        count *= n
    return count


def jacobian_sizes(equation):
    """Return ``(entries of the result, entries of the operand)`` of the Jacobian in each traced operand."""
    rows = sum(s.size for s in equation.outputs)
    return [(rows, x.size) if isinstance(x, Symbol) else None for x in equation.inputs]


def jacobian_text(equation):
    """Say how large the Jacobians of a call would be; None if all are single numbers."""
    sizes = list(dict.fromkeys(s for s in jacobian_sizes(equation) if s is not None and s != (1, 1)))
    texts = [f"{rows}×{columns} ({rows * columns:,} numbers, not formed)" for rows, columns in sizes]
    return "; ".join(texts) or None
