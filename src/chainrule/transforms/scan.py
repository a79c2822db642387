"""Long loops: scan runs the steps in checkpointed segments."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.custom import place
from chainrule.errors import ShapeError
from chainrule.transforms.checkpoint import checkpoint as recomputed
from chainrule.transforms.common import need_function


def scan(
    step: Callable, state: Any, xs: Any = None, checkpoint: str | int | None = "sqrt", length: int | None = None
) -> tuple:
    """Run a loop that carries a state along, with a reverse mode that does not remember every step.

    As ``for x in xs: state, y = step(state, x)``, with the ``y`` stacked. The steps are grouped into segments, each of
    which is a checkpointed call: remembered are the states between segments and, while it is pulled back, one segment.

    Parameters
    ----------
    step : callable
        ``step(state, x) -> (state, y)``. States, ``x`` and ``y`` are numbers, arrays, or containers of these; None
        stands for nothing. What is said of functions in `checkpoint` holds for it, too.
    state
        The first state.
    xs : array or container of arrays, shape (n, ...), optional
        What the steps are given: entry ``k`` of each array for step ``k``.
    checkpoint : "sqrt", int or None
        Steps in a segment: about the square root of their number, a number, or None for a plain loop.
    length : int, optional
        How many steps, if there is no `xs` to tell.

    Returns
    -------
    state
        The last state.
    ys : array or container of arrays, shape (n, ...)
        What the steps returned, stacked; None if that is None.

    Raises
    ------
    ShapeError
        If the arrays in `xs` differ in length, if `step` returns no pair, or other containers from step to step.

    Notes
    -----
    With "sqrt" the memory for a gradient, apart from `xs` and `ys` themselves, grows with the square root of the number
    of steps. The gradient takes one more run of all steps, without recording, than that of the plain loop.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> def step(balance, payment):
    ...     balance = 1.5 * balance + payment
    ...     return balance, balance
    >>> cr.scan(step, 0.0, np.ones(3))
    (np.float64(4.75), array([1.  , 2.5 , 4.75]))
    >>> cr.grad(lambda payments: cr.scan(step, 0.0, payments)[0])(np.ones(3))
    array([2.25, 1.5 , 1.  ])
    """
    need_function(step, "scan(step, state, xs)")
    n = steps_of(xs, length)
    size = segment_size(checkpoint, n)
    if size is None:
        return loop(step, state, xs, n)
    segment = recomputed(functools.partial(loop, step))
    parts = []
    for start in range(0, n, size):
        stop = min(start + size, n)
        part = tree.tree_map(lambda v, a=start, b=stop: v[a:b], xs)
        state, ys = segment(state, part, stop - start)
        parts.append(ys)
    if not parts:
        return loop(step, state, xs, 0)
    return state, joined(parts, np.concatenate)


def loop(step, state, xs, n):
    """Run `n` steps; return the last state, and what they returned, stacked."""
    leaves, structure = tree.flatten(xs)
    if xs is None:
        leaves, structure = [None], None
    outs = []
    for k in range(n):
        x = tree.unflatten(structure, [None if v is None else v[k] for v in leaves])
        out = step(state, x)
        if not isinstance(out, tuple) or len(out) != 2:
            raise ShapeError(
                f"{place(step)} must return a pair, the next state and an output.", "return state, y;",
                "return state, None  if there is no output.",
            )  # fmt: skip
        state, y = out
        outs.append(y)
    return state, joined(outs, np.stack)


def joined(outs, join):
    """Join the outputs of steps, or of segments, value by value; None if there are none."""
    if not outs or outs[0] is None:
        if any(v is not None for v in outs):
            raise ShapeError("one step returned None, and another an output.", "return the same containers always.")
        return None
    flat = [tree.flatten(v) for v in outs]
    structure = flat[0][1]
    if any(s != structure for _, s in flat):
        raise ShapeError(
            "the outputs of the steps are different containers.", "return the same containers of values in each step."
        )
    columns = zip(*(values for values, _ in flat), strict=True)
    return tree.unflatten(structure, [join(list(column)) for column in columns])


def steps_of(xs, length):
    """Return the number of steps: the common length of the arrays in `xs`, or `length`."""
    sizes = []
    for v in [] if xs is None else tree.flatten(xs)[0]:
        shape = getattr(v, "shape", ())
        if not shape:
            raise ShapeError(
                "xs must hold arrays, whose first axis runs over the steps.",
                "pass what is the same in all steps by a closure, or as part of the state.",
            )
        sizes.append(shape[0])
    if length is not None:
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 0:
            raise TypeError(f"length must be a number of steps, not {length!r}")
        sizes.append(int(length))
    if not sizes:
        raise TypeError("scan needs xs, or length=n: the number of steps")
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"the number of steps is not clear: {', '.join(map(str, sizes))}.",
            "give arrays of one length in xs (and the same number, or none, as length=).",
        )
    return sizes[0]


def segment_size(checkpoint, n):
    """Return the number of steps in a segment, None for a plain loop."""
    if checkpoint is None:
        return None
    if isinstance(checkpoint, str) and checkpoint == "sqrt":
        return max(1, math.isqrt(max(n - 1, 0)) + 1)
    if isinstance(checkpoint, bool) or not isinstance(checkpoint, int | np.integer) or checkpoint < 1:
        raise ValueError(f'checkpoint must be "sqrt", a number of steps, or None, not {checkpoint!r}')
    return int(checkpoint)
