"""Reverse mode for functions: vjp, grad and their kin. Each runs the function on Variables of a level of its own."""

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine import splitting
from chainrule.engine.boxed import Boxed
from chainrule.engine.spec import fit, ones_of, shape_of, spec_of, zeros_of
from chainrule.engine.tape import WATCHERS, Node, leaf, masks_for, pull_back
from chainrule.engine.variable import Variable, fresh
from chainrule.errors import ChainruleError, HolomorphicError, NotDifferentiableError, NotScalarError, ShapeError
from chainrule.transforms.common import (
    Chosen,
    describe,
    name_of,
    need_function,
    opened_aux,
    output_point,
    own,
    points,
    run,
    settle,
    split_aux,
)


class Tape:
    """One recorded run of a function: its points, its outputs, and how to pull back from the outputs to the points.

    `outputs` are the values one level down, in `out_structure`; `roots` the nodes that made them (None for constants).
    """

    __slots__ = (
        "apart", "aux", "call", "chosen", "f", "nodes", "out_structure", "outputs", "points", "roots", "structures",
    )  # fmt: skip

    def __init__(self, f, chosen, args, kwargs, has_aux=False, keep=False):
        """Run `f`. With `keep` the tape outlives this call: arrays that the user also holds are copied."""
        self.f, self.chosen = f, chosen
        self.call, self.apart = (args, kwargs, has_aux), None
        args = list(args)
        kwargs = dict(kwargs)
        self.points, self.structures, self.nodes = [], [], []
        with _level.running(f) as level:
            for place in chosen.places(f, args, kwargs):
                holder = kwargs if place.__class__ is str else args
                values, structure = points(holder[place], f"argument {place!r} of {name_of(f)}")
                if keep:
                    values = [v.copy() if v.__class__ is np.ndarray else v for v in values]
                nodes = [leaf() for _ in values]
                boxes = [Variable(v, n, level) for v, n in zip(values, nodes, strict=True)]
                holder[place] = tree.unflatten(structure, boxes)
                self.points.append(values)
                self.structures.append(structure)
                self.nodes.append(nodes)
            out = run(f, args, kwargs)
            self.aux = None
            if has_aux:
                out, aux = split_aux(out, f)
                self.aux = opened_aux(aux, level)
            if isinstance(out, Boxed) or out is None:
                leaves, self.out_structure = [out], None
            else:
                leaves, self.out_structure = tree.flatten(out)
            self.outputs, self.roots = [], []
            for y in leaves:
                y = output_point(y, f)
                if own(y, level, f, Variable):
                    self.roots.append(y.aux)
                    data = y.data
                    if isinstance(data, Boxed):
                        data = data.alias()
                    elif keep and data.__class__ is np.ndarray:
                        data = data.copy()
                    self.outputs.append(data)
                else:
                    self.roots.append(None)
                    self.outputs.append(y)
        watcher = WATCHERS.get(threading.get_ident()) if WATCHERS else None
        if watcher is not None:
            watcher.differentiated(self.outputs)

    def value(self):
        """Return the outputs in their container."""
        return tree.unflatten(self.out_structure, self.outputs)

    def pull(self, seeds):
        """Return the cotangents of the points, given those of the outputs (None: not used), one list per argument.

        If a rule met a quotient 0 / 0 that may have a limit, `f` is run again to find it: see `engine.splitting`.
        """
        before = splitting.events
        bars = self.pulled(seeds)
        if splitting.events == before or any(isinstance(v, Boxed) for v in itertools.chain(self.outputs, seeds, *bars)):
            return bars  # (of an inner transform: the outermost one sees to it)
        if self.apart is None:
            self.apart = self.run_apart()
        if self.apart:
            with splitting.apart(), contextlib.suppress(ChainruleError):
                again = self.apart.pulled(seeds)
                if splitting.better(itertools.chain(*again), itertools.chain(*bars)):
                    return again
        return bars

    def run_apart(self):
        """Return the tape of a second run with coinciding values set apart; False if it gave other values."""
        args, kwargs, has_aux = self.call
        args, kwargs = list(args), dict(kwargs)
        for place, values, structure in zip(
            self.chosen.places(self.f, args, kwargs), self.points, self.structures, strict=True
        ):
            (kwargs if place.__class__ is str else args)[place] = tree.unflatten(structure, values)
        try:
            with splitting.apart():
                second = Tape(self.f, self.chosen, args, kwargs, has_aux)
        except Exception:  # of a rule that does not take values set apart, or an iterator used up: the first run stands
            return False
        if not splitting.agree(second.outputs, self.outputs):
            return False
        self.outputs = [splitting.mended(y, z) for y, z in zip(second.outputs, self.outputs, strict=True)]
        return second

    def pulled(self, seeds):
        """Return what `pull` does, by one pass, as standard numbers."""
        pairs = [(r, s) for r, s in zip(self.roots, seeds, strict=True) if r is not None and s is not None]
        masks = masks_for((*self.outputs, *seeds))
        if not pairs:
            bars = {}
        elif len(pairs) == 1:
            bars = pull_back(*pairs[0], masks=masks)
        else:
            root = Node(tuple([r for r, _ in pairs]), lambda ybar, saved: ybar, None, _JOIN)
            bars = pull_back(root, [s for _, s in pairs], masks=masks)
        handed = {id(s) for s in seeds}
        return [
            [
                settle(fresh(splitting.standard(bars[n]), handed), x) if n in bars else zeros_of(spec_of(x))
                for n, x in zip(nodes, values, strict=True)
            ]
            for nodes, values in zip(self.nodes, self.points, strict=True)
        ]

    def packed(self, bars):
        """Return cotangents in the containers of their arguments."""
        return self.chosen.pack([tree.unflatten(s, b) for s, b in zip(self.structures, bars, strict=True)])


class _Join:
    """Stands as the rule of the node that joins several outputs."""

    kind, name, nin, fun = "constant", "outputs", 0, None


_JOIN = _Join()


def vjp(f: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Evaluate `f` and return its value and its pullback: the map from a cotangent of `y` to those of the inputs.

    Parameters
    ----------
    f : callable
        Takes arrays, or containers of arrays, and returns an array or a container of arrays.
    *primals
        Where to evaluate: one for each argument of `f`.
    has_aux : bool
        `f` returns ``(y, aux)``; `aux` is passed out as a third result.

    Returns
    -------
    y
        ``f(*primals)``.
    pullback : callable
        ``pullback(ybar) -> (xbar0, xbar1, ...)``, the product of the transposed Jacobian with `ybar`, which has the
        structure and shapes of `y`. May be called any number of times; each costs a small multiple of ``f``.

    Raises
    ------
    ShapeError
        If `ybar` does not fit `y`.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> y, pullback = cr.vjp(lambda w, x: w @ x, np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
    >>> y
    array([11.])
    >>> pullback(np.array([1.0]))
    (array([[3., 4.]]), array([1., 2.]))
    """
    need_function(f, "vjp(f, x)")
    record = Tape(f, Chosen(f, tuple(range(len(primals))), None), primals, {}, has_aux, keep=True)
    specs = [spec_of(y) for y in record.outputs]

    def pullback(ybar):
        return record.packed(record.pull(seeds_like(ybar, specs, record.out_structure, "cotangent")))

    y = record.value()
    return (y, pullback, record.aux) if has_aux else (y, pullback)


def seeds_like(given, specs, structure, what):
    """Return the given cotangents (or tangents) as a list, checked against the values they belong to."""
    if structure is None and not isinstance(given, list | tuple | dict):
        leaves = [given]
    else:
        leaves, found = tree.flatten(given)
        if found != structure:
            raise ShapeError(
                f"the {what} has the structure {found if found is not None else 'of one array'}, "
                f"the value {structure if structure is not None else 'of one array'}.",
                f"give the {what} the container of the value.",
            )
    out = []
    for s, spec in zip(leaves, specs, strict=True):
        if not isinstance(s, Boxed | np.ndarray | float | complex | np.generic):
            s = np.asarray(s)
            if s.dtype.kind not in "iufcb":
                raise ShapeError(
                    f"a {what} must be a number or an array, not {describe(s)}.", "use np.ones_like(y), e.g."
                )
        if shape_of(s) != spec.shape:
            raise ShapeError(
                f"the {what} has shape {shape_of(s)}, the value {spec.shape}.",
                f"give the {what} the shape of the value.",
            )
        if s.__class__ is np.ndarray and not s.shape:
            s = s[()]
        if getattr(s, "dtype", None) is not None and s.dtype.kind in "iub" and spec.dtype is None:
            s = float(s)
        out.append(
            s
            if isinstance(s, float) and not spec.shape and spec.kind == "f" and spec.dtype is None
            else fit_seed(s, spec)
        )
    return out


def fit_seed(s, spec):
    """Give a seed the dtype of its value; a complex seed of a real value raises."""
    have = spec_of(s)
    if have.kind == "c" and spec.kind == "f":
        raise ShapeError("a complex cotangent or tangent was given for a real value.", "give its real part.")
    if s.__class__ in (int, float, complex) and spec.dtype is not None:
        return spec.dtype.type(s)
    return fit(s, spec) if spec.kind in "fc" else s


def value_and_grad(
    f: Callable,
    argnums: int | tuple[int, ...] | None = None,
    argnames: str | tuple[str, ...] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """Return a function that evaluates `f` and its gradient together.

    As `grad`, but the result is ``(value, gradient)``, or ``((value, aux), gradient)`` with ``has_aux=True``.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    need_function(f, "value_and_grad(f)(x)")
    chosen = Chosen(f, argnums, argnames)

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def value_and_gradient(*args, **kwargs):
        record = Tape(f, chosen, args, kwargs, has_aux)
        if record.out_structure is not None:
            raise NotScalarError(name_of(f), "a container")
        (y,) = record.outputs
        spec = spec_of(y)
        if spec.shape != ():
            raise NotScalarError(name_of(f), spec.shape)
        if spec.kind == "c":
            if not holomorphic:
                raise HolomorphicError(name_of(f))
            for values in record.points:
                if any(spec_of(v).kind != "c" for v in values):
                    raise NotDifferentiableError(
                        f"holomorphic=True needs complex arguments, but {name_of(f)} was given a real one.",
                        "convert it:  x + 0j  or  x.astype(complex).",
                    )
        seed = ones_of(spec) if spec.kind in "fc" else 1.0
        gradient = record.packed(record.pull([seed]))
        (y,) = record.outputs
        return ((y, record.aux), gradient) if has_aux else (y, gradient)

    return value_and_gradient


def grad(
    f: Callable,
    argnums: int | tuple[int, ...] | None = None,
    argnames: str | tuple[str, ...] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """Return a function that evaluates the gradient of `f`.

    Parameters
    ----------
    f : callable
        Returns a scalar. Its arguments are arrays, numbers, or containers of them.
    argnums : int or tuple of int, optional
        Which positional arguments to differentiate in; may count from the end; the first, if nothing is said. A tuple
        gives a tuple of gradients.
    argnames : str or tuple of str, optional
        The same by name.
    has_aux : bool
        `f` returns ``(y, aux)``; the result is then ``(gradient, aux)``.
    holomorphic : bool
        Allow a complex output: the result is the complex derivative f'(z), right if `f` is holomorphic.

    Returns
    -------
    callable
        Takes the arguments of `f`, keyword arguments too. The gradient has the shape, dtype and container of its
        argument; zeros where `f` does not depend on it. Python ints and integer arrays are taken as floats. For a real
        `f` of complex ``z = x + iy`` it is ``df/dx - i df/dy``.

    Raises
    ------
    NotScalarError
        If `f` returns an array with axes.
    HolomorphicError
        If `f` returns a complex number and `holomorphic` is not set.
    NotDifferentiableError
        If an argument holds something that is not a number or array of floats.

    Notes
    -----
    Reverse mode: one run of `f` and one pass back, a small multiple of the cost of `f` whatever the number of inputs.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.grad(lambda x: np.sum(np.sin(x) * x))(np.array([0.0, 1.0]))
    array([0.        , 1.38177329])
    >>> cr.grad(cr.grad(lambda x: x**3))(2.0)
    12.0
    """
    need_function(f, "grad(f)(x)")
    both = value_and_grad(f, argnums, argnames, has_aux, holomorphic)

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def gradient(*args, **kwargs):
        y, xbar = both(*args, **kwargs)
        return (xbar, y[1]) if has_aux else xbar

    return gradient


def elementwise_grad(f: Callable, argnums: int | None = None, argnames: str | None = None) -> Callable:
    """Return the derivative of a function whose output entry ``i`` depends on input entry ``i`` only.

    It is the gradient of the sum of the outputs; for other functions that sum over columns of the Jacobian is what you
    get.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.elementwise_grad(np.square)(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    need_function(f, "elementwise_grad(f)(x)")
    chosen = Chosen(f, argnums, argnames)

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def derivative(*args, **kwargs):
        record = Tape(f, chosen, args, kwargs)
        seeds = [ones_of(spec_of(y)) for y in record.outputs]
        return record.packed(record.pull(seeds))

    return derivative
