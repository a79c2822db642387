"""One mode from the other: a pullback is linear in its cotangent, and the pushforward is its transpose; and back."""

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, all_values, inexact, value
from chainrule.engine.cotangent import LAZY
from chainrule.engine.spec import spec_of, zeros_of
from chainrule.engine.tape import BUFFER, Node, leaf, pull_back
from chainrule.engine.variable import Variable
from chainrule.errors import NotDifferentiableError

REVERSE = (
    "use reverse mode (chainrule.grad, chainrule.vjp);",
    "move what is not linear (clipping, say) out of it.",
)


def transposed(pull, xdots, outputs, name, given="gradient", lost="forward mode", advice=REVERSE):
    """Return the tangents of `outputs`, given those of the inputs and ``pull(*ybars) -> xbars``.

    The pullback is recorded at some cotangent, and pulled back. Which one does not matter, if it is linear; so it is
    taken without any pattern, and <xdot, B w> = <ydot, w> is checked for it, which fails if it is not. Any linear map
    is transposed in this way; `given`, `lost` and `advice` say in the error what it is given and what fails without it.
    """
    specs = [spec_of(v) for v in outputs]
    nodes = [leaf() for _ in specs]
    with _level.running(name) as level:
        ws = [
            Variable(generic(s), n, level) if inexact(v) else zeros_of(s)
            for s, n, v in zip(specs, nodes, outputs, strict=True)
        ]
        bars = pull(*ws)
        pairs = [(b, d) for b, d in zip(bars, xdots, strict=True) if isinstance(b, Boxed) and b.level == level]
        found = {}
        if pairs:
            join = Node(tuple([b.aux for b, _ in pairs]), lambda ybar, saved: ybar, None, BUFFER)
            found = pull_back(join, [d for _, d in pairs])
        ydots = [found[n] if n in found else zeros_of(s) for n, s in zip(nodes, specs, strict=True)]
        ydots = tuple([t.dense() if t.__class__ in LAZY else t for t in ydots])
    if not is_linear(*([value(v) for v in vs] for vs in (bars, xdots, ws, ydots))):
        raise NotDifferentiableError(
            f"{name} is not linear in the {given} it is given (or takes its value out of the computation), so there is "
            f"no {lost}.",
            *advice,
        )
    return ydots


def generic(spec):
    """Return a cotangent without any pattern, of large entries of both signs, so that clipping shows."""
    count = np.arange(1.0, spec.size + 1)
    entries = ((count * 0.6180339887498949) % 1.0 + 0.5) * np.where(count % 2, 1000.0, -1000.0)
    if spec.dtype is None:
        return float(entries[0])
    entries = entries.reshape(spec.shape).astype(spec.dtype)
    return entries if spec.shape else entries[()]


def is_linear(bars, xdots, ws, ydots):
    """Tell whether <xdot, B w> = <B^T xdot, w>, in real parts: a map to real values is linear over the reals only.

    Of batches, in all runs.
    """
    batches = any(isinstance(v, Boxed) for vs in (bars, xdots, ws, ydots) for v in vs)

    def products(left, right):
        pairs = zip(left, right, strict=True)
        if batches:
            return [np.real(np.multiply(a, b)) for a, b in pairs]
        return np.concatenate([np.ravel(np.multiply(np.asarray(a, complex), b).real) for a, b in pairs])

    with _level.quiet():
        left, right = products(bars, xdots), products(ws, ydots)
        if batches:
            scale = sum(np.sum(np.abs(v)) for v in left + right)
            gap = abs(sum(np.sum(v) for v in left) - sum(np.sum(v) for v in right))
            scale, gap = all_values(scale), all_values(gap)
            return bool(np.all(~np.isfinite(scale) | (gap <= 1e4 * resolution(bars, ws) * scale)))
        scale = np.sum(np.abs(left)) + np.sum(np.abs(right))
        gap = abs(np.sum(left) - np.sum(right))
    return not np.isfinite(scale) or gap <= 1e4 * resolution(bars, ws) * scale


def resolution(bars, ws):
    """Return the spacing of numbers near 1 in the coarsest dtype of some values."""
    dtypes = [v.dtype if isinstance(v, Boxed) else np.asarray(v).dtype for v in (*bars, *ws)]
    return max([float(np.finfo(d).eps) for d in dtypes if d.kind in "fc"], default=0.0)
