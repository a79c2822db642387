"""vmap: one run of a function for a whole batch of arguments."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine import splitting
from chainrule.engine.batched import STOPPED, Batched, NeedsLoop, batched, note_loops, noted_loops
from chainrule.engine.boxed import Boxed, all_values
from chainrule.engine.spec import shape_of
from chainrule.errors import ShapeError, raised_in
from chainrule.rules.shapes import by_rows
from chainrule.transforms.common import name_of, need_function, own, run


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """Return a function that runs `f` on each entry of its arguments' axes, on all of them at once.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, or containers of arrays.
    in_axes : int, None, or a tuple of these, one per positional argument
        The axis of each array that counts the runs; None for an argument that is the same in all. An entry may be a
        container like the beginning of its argument. Keyword arguments are mapped along axis 0.
    out_axes : int, None, or a container like the beginning of the result
        Where the runs are counted in each output; None for an output that is the same in all.

    Returns
    -------
    callable
        Takes the arguments of `f`, with one more axis, and gives its results, with one more axis. Its method ``loops``
        takes the same arguments, and returns what of `f` was run once per entry with them: a tuple of names, empty if
        all was run at once.

    Raises
    ------
    ShapeError
        If an argument lacks the axis, or the lengths of the axes differ.

    Notes
    -----
    The cost is that of one run on larger arrays: Python's part is paid once. Functions without a batching rule are
    called once per run. Where Python itself asks for a value (``if x > 0`` with runs that differ, a mask as an index,
    ``int(x)``), `f` as a whole is run once for each entry, with the same result; it should have no side effects.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> w, x = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> loss = lambda w, x: np.sum(w * x) ** 2
    >>> cr.vmap(cr.grad(loss), in_axes=(None, 0))(w, x)
    array([[2., 0.],
           [0., 4.],
           [6., 6.]])

    What ran once per entry:

    >>> import math
    >>> lgamma = cr.numeric(math.lgamma)  # takes numbers only
    >>> cr.vmap(lambda x: lgamma(x[0] + 1) * x).loops(x)
    ('lgamma',)
    >>> cr.vmap(lambda x: x.sum() if x[0] > 0 else x.prod()).loops(x)  # doctest: +ELLIPSIS
    ('the function itself: a branch on a value that differs, ...:1 in <lambda>',)
    """
    need_function(f, "vmap(f)(xs)")

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def evaluate(*args, **kwargs):
        leaves, structure, axes = arguments(f, args, kwargs, in_axes)
        n = length(f, leaves, axes)
        with _level.running(f) as level:
            boxes = [x if a is None else batched(front(x, a), level) for x, a in zip(leaves, axes, strict=True)]
            given, named = tree.unflatten(structure, boxes)
            before = splitting.events
            try:
                held = {id(b.data) for b in boxes if b.__class__ is Batched}
                results = gathered(f, run(f, given, named), n, level, out_axes, held)
                if level in STOPPED:  # and the function caught that
                    raise NeedsLoop(level, "a value that differs between the runs")
                if splitting.events == before:  # else a quotient 0 / 0 may have a limit: found for each run by itself
                    return results
                reason = "a quotient 0 / 0 that may have a limit"
            except NeedsLoop as stop:
                if stop.level is not None and stop.level != level:
                    raise
                reason = reason_of(stop, stop.what)
            except ShapeError:  # of vmap's own arguments
                raise
            except Exception as error:  # the user's, which each run will raise; or of code that can't take a batch
                reason = reason_of(error, f"{type(error).__name__} ({str(error).partition(chr(10))[0]})")
            finally:
                STOPPED.discard(level)
        note_loops((f"the function itself: {reason}",))
        return one_by_one(f, leaves, structure, axes, n, out_axes)

    def loops(*args, **kwargs):
        with noted_loops() as names:
            evaluate(*args, **kwargs)
        return tuple(names)

    found: Any = evaluate
    found.loops = loops
    return found


def reason_of(error, what):
    """Return why a function could not run on all entries at once, with the user's line."""
    line = raised_in(error)
    return f"{what}, {line}" if line else what


def arguments(f, args, kwargs, in_axes):
    """Return the values of all arguments, their structure, and an axis (or None) for each value."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple):
        if len(in_axes) != len(args):
            raise ShapeError(
                f"in_axes has {len(in_axes)} entries, but {name_of(f)} was called with {len(args)} arguments.",
                "give one axis (or None) for each positional argument.",
            )
        prefix = in_axes
    else:
        prefix = (in_axes,) * len(args)
    axes = [axis for p, a in zip(prefix, args, strict=True) for axis in spread_axes(p, a, "in_axes")]
    axes += [0 for v in kwargs.values() for _ in tree.flatten(v)[0]]
    leaves, structure = tree.flatten((list(args), kwargs))
    if len(axes) != len(leaves):  # a container that sorts its keys: pair by structure
        axes = [a for p, v in zip(prefix, args, strict=True) for a in spread_axes(p, v, "in_axes")]
        axes += [0] * (len(leaves) - len(axes))
    return leaves, structure, axes


def spread_axes(prefix, value, name):
    """Return one axis for each value of a container, from a container like its beginning."""
    count = len(tree.flatten(value)[0])
    if prefix is None or isinstance(prefix, int):
        return [prefix] * count
    if isinstance(prefix, dict) and isinstance(value, dict) and set(prefix) == set(value):
        return [a for k in sorted(value, key=str) for a in spread_axes(prefix[k], value[k], name)]
    if isinstance(prefix, tuple | list) and isinstance(value, tuple | list) and len(prefix) == len(value):
        return [a for p, v in zip(prefix, value, strict=True) for a in spread_axes(p, v, name)]
    raise ShapeError(
        f"{name}={prefix!r} does not fit a value of type {type(value).__name__}.",
        "give an axis, None, or a container like the beginning of the value.",
    )


def length(f, leaves, axes):
    """Return the number of runs: the common length of the mapped axes."""
    n = None
    for x, a in zip(leaves, axes, strict=True):
        if a is None:
            continue
        shape = shape_of(x)
        if not -len(shape) <= a < len(shape):
            raise ShapeError(
                f"vmap of {name_of(f)} maps axis {a} of an argument of shape {shape}, which has no such axis.",
                "pass None in in_axes for arguments that are the same in all runs.",
            )
        if n is None:
            n = shape[a]
        elif shape[a] != n:
            raise ShapeError(
                f"vmap of {name_of(f)}: the mapped axes have different lengths, {n} and {shape[a]}.",
                "the axes that in_axes names must be equally long;",
                "give None for an argument that is the same in all runs:  in_axes=(None, 0).",
            )
    if n is None:
        raise ShapeError(f"vmap of {name_of(f)} has nothing to map: all axes are None.", "call the function itself.")
    return n


def front(x, axis):
    """Return a value with the axis that counts the runs in front."""
    if isinstance(x, Boxed):
        x = x.alias()
    elif x.__class__ is not np.ndarray:
        x = np.asarray(x)
    return x if axis in (0, -len(x.shape)) else np.moveaxis(x, axis, 0)


def back(y, axis, shared):
    """Move the axis that counts the runs from the front to its place; an array in `shared` is copied.

    The result lies by rows, so that its flat views are views.
    """
    y = y if axis == 0 else np.moveaxis(y, 0, axis)
    if isinstance(y, Boxed):
        y = by_rows(y)
        return y if all_values(y).flags.writeable else y.copy()  # what was broadcast is no array to write to
    if y.__class__ is np.ndarray and y.flags.owndata and y.flags.c_contiguous and id(y) not in shared:
        shared.add(id(y))  # the caller's from now on
        return y
    return np.array(y, order="C")


def gathered(f, out, n, level, out_axes, shared):
    """Return the outputs of all runs with their axis in place."""
    leaves, structure = tree.flatten(out)
    axes = spread_axes(out_axes, out, "out_axes")
    results = []
    for y, a in zip(leaves, axes, strict=True):
        if own(y, level, f, Batched):
            if a is None:
                raise differs(f)
            results.append(back(y.data, a, shared))
        else:
            results.append(y if a is None else back(np.broadcast_to(y, (n, *shape_of(y))), a, shared))
    return tree.unflatten(structure, results)


def differs(f):
    """Return the error of an output that should be the same in all runs."""
    return ShapeError(f"an output of {name_of(f)} has out_axes=None, but differs between the runs.", "give it an axis.")


def entry(x, k):
    """Return the argument of one run, which may write to it."""
    part = x[k]
    return part.copy() if part.__class__ is np.ndarray else part


def one_by_one(f, leaves, structure, axes, n, out_axes):
    """Run `f` once for each entry, and stack the results."""
    fronts = [x if a is None else front(x, a) for x, a in zip(leaves, axes, strict=True)]
    runs = []
    for k in range(n):
        given, named = tree.unflatten(
            structure, [x if a is None else entry(x, k) for x, a in zip(fronts, axes, strict=True)]
        )
        runs.append(run(f, given, named))
    if not runs:
        raise ShapeError(
            f"vmap of {name_of(f)} over an axis of length 0, and it asks for the value of a run.",
            "give at least one entry.",
        )
    flat = [tree.flatten(r) for r in runs]
    structure = flat[0][1]
    if any(s != structure for _, s in flat[1:]):
        raise ShapeError(
            f"{name_of(f)} returned containers that differ between the runs.", "return the same structure in all."
        )
    out_axes = spread_axes(out_axes, runs[0], "out_axes")
    results = []
    for parts, a in zip(zip(*[r for r, _ in flat], strict=True), out_axes, strict=True):
        if len({shape_of(p) for p in parts}) > 1:
            raise ShapeError(
                f"{name_of(f)} returned arrays whose shapes differ between the runs: "
                f"{', '.join(map(str, dict.fromkeys(shape_of(p) for p in parts)))}.",
                "pad them to one shape.",
            )
        if a is None and any(not np.array_equal(all_values(p), all_values(parts[0])) for p in parts[1:]):
            raise differs(f)
        results.append(parts[0] if a is None else back(np.stack(parts), a, set()))
    return tree.unflatten(structure, results)


__all__ = ["vmap"]
