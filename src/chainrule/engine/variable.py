"""Variable: a value on the tape, and the eager surface around it."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, inexact
from chainrule.engine.cotangent import LAZY
from chainrule.engine.dispatch import uncarried
from chainrule.engine.dual import float_point
from chainrule.engine.held import held
from chainrule.engine.pulls import pull_of, residuals
from chainrule.engine.spec import Spec, fit, ones_of, spec_of
from chainrule.engine.tape import BUFFER, SLOT, Node, leaf, pull_back, reachable, slot_pull
from chainrule.errors import InPlaceError, NotScalarError, ShapeError


class Variable(Boxed):
    """An array that remembers how it was computed, so that its gradient can be asked for.

    Operators, NumPy functions and ndarray's methods work on it and record what they do. `backward` on a scalar result
    then leaves the gradient of that result in ``x.grad`` of each input ``x``, added to what was there.

    Parameters
    ----------
    data : array_like of float or complex
        The value. Python ints and integer arrays are taken as floats. A plain array is not copied.

    Attributes
    ----------
    data : ndarray or scalar
        The value, without derivative.
    grad : ndarray or None
        The gradient that `backward` left here; set it to None to start afresh.
    creator : Creator or None
        The call that made this value; None for an input.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> x = cr.Variable(np.array([1.0, 2.0]))
    >>> y = np.sum(x**2)
    >>> y.backward()
    >>> x.grad
    array([2., 4.])
    """

    __slots__ = ()

    def __init__(self, data: Any, node: Any = None, level: float | None = None) -> None:
        if node is None:
            data = float_point(data)
            if isinstance(data, Boxed):
                data, level = data.alias(), _level.above(data.level)
            else:
                level = 0.5
            node = leaf()
        self.data = data
        self.aux = node
        self.level = level

    # -- the tape --------------------------------------------------------------------------------------------

    def constant(self, y):  # noqa: D102 (see Boxed)
        return Variable(y, Node((), None, None, BUFFER), self.level)

    @staticmethod
    def process(rule, level, operands, params):  # noqa: D102 (see Boxed)
        mine = [x.__class__ is Variable and x.level == level for x in operands]
        xs = tuple([x.data if m else x for x, m in zip(operands, mine, strict=True)])
        y = rule.apply(xs, params)
        several = isinstance(y, tuple | list)
        if not several and not inexact(y):
            return uncarried(rule, y)
        wanted = tuple([i for i, m in enumerate(mine) if m])
        parents = tuple([x.aux if m else None for x, m in zip(operands, mine, strict=True)])
        saved = residuals(rule, wanted, y, xs)
        if len(wanted) < len(mine):  # constants that the pullback reads must stay what they are
            saved = (saved[0], *[v if m or v.__class__ is not np.ndarray else held(v) for v, m in zip(saved[1:], mine)])  # noqa: B905
        pull = pull_of(rule, wanted, y, xs, params)
        if several:
            node = Node(parents, pull.slots, saved, rule)
            return slot_outputs(node, y, level)
        return Variable(y, Node(parents, pull, saved, rule), level)

    # -- gradients -------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Any:
        """The gradient that `backward` left here, or None. It is kept with the node, so a copied name sees it, too.

        For complex ``x = u + iv`` it is df/du - i df/dv: a step of gradient descent is ``x - rate * np.conj(x.grad)``.
        """
        return getattr(self.aux, "grad", None)

    @grad.setter
    def grad(self, gradient: Any) -> None:
        self.aux.grad = gradient

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.aux.grad = None

    @property
    def creator(self) -> "Creator | None":
        """The call that made this value (a `Creator`), or None for an input."""
        rule = self.aux.rule
        return None if rule is None or rule is BUFFER else Creator(self.aux, self.level)

    def backward(self, seed: Any = None, *, retain_grad: bool = False, create_graph: bool = False) -> None:
        """Leave the gradient of this value in ``x.grad`` of every input ``x``, added to what is there.

        Parameters
        ----------
        seed : array_like, shape of this value, optional
            The cotangent of this value. May be left out for a scalar: it is 1 then (dL/dL = 1).
        retain_grad : bool
            Also keep the gradients of all intermediate results (those of this pass; they are not added up), and the
            upstream, local and downstream gradients of each ``creator``.
        create_graph : bool
            Record the backward pass itself: the gradients are Variables, and can be differentiated again.

        Raises
        ------
        NotScalarError
            If the value has axes with more than one entry and no seed is given.
        ShapeError
            If the seed does not have the shape of this value.

        Notes
        -----
        The cost is a small multiple of that of computing the value, whatever the number of inputs. `backward` may be
        called again: the residuals stay until the result is dropped.
        """
        if self.level == int(self.level):
            raise InPlaceError(
                "backward() was called on a value of a running transform (grad, jvp, ...), which does that itself.",
                "return the value from the function, and let the transform do it;",
                "for an inner derivative use chainrule.grad, which nests.",
            )
        spec = spec_of(self)
        if seed is None:
            if spec.size != 1:
                raise NotScalarError("the computation", spec.shape, "backward()")
            seed = ones_of(spec)
        elif isinstance(seed, Boxed):
            if seed.shape != spec.shape:
                raise ShapeError(
                    f"the seed has shape {seed.shape}, the value {spec.shape}.", "give both the same shape."
                )
        else:
            seed = np.asarray(seed)
            if seed.dtype.kind not in "fciub":
                raise ShapeError(
                    f"the seed has dtype {seed.dtype}, which is no number.", "give a number or an array of numbers."
                )
            if seed.shape != spec.shape:
                raise ShapeError(
                    f"the seed has shape {seed.shape}, the value {spec.shape}.", "give both the same shape."
                )
            seed = fit(seed if seed.ndim else seed[()], spec)
        visit = None
        if retain_grad:
            for n in reachable(self.aux):
                n.shown = None

            def visit(n, ybar):
                n.shown = ybar
                if n.parents:
                    n.grad = ybar

        record = None
        if create_graph:
            level = self.level

            def record(n, saved):
                return reboxed(n, saved, level)

        masks = create_graph or isinstance(self.data, Boxed) or isinstance(seed, Boxed)
        leaves = pull_back(self.aux, seed, record=record, visit=visit, masks=masks)
        handed = {id(seed)} if isinstance(seed, np.ndarray) else set()
        for node, xbar in leaves.items():
            before = getattr(node, "grad", None)
            node.grad = fresh(xbar, handed) if before is None else before + xbar

    # -- copies ----------------------------------------------------------------------------------------------

    def __copy__(self):
        if self._is_parameter():
            return self._new_leaf(self.data)
        return self.alias()

    def __deepcopy__(self, memo):
        if not self._is_parameter():
            return super().__deepcopy__(memo)
        copied = self._new_leaf(copy.deepcopy(self.data, memo))
        copied.aux.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = copied
        return copied

    def _is_parameter(self):
        """Whether this is an eager input: a copy is an input of its own. Copies of all else are recorded."""
        return self.aux.rule is None and self.level != int(self.level)

    def _new_leaf(self, data):
        made = Variable(data, leaf(), self.level)
        made.aux.grad = self.grad
        return made

    def __reduce__(self):
        if isinstance(self.data, Boxed) or self.level != 0.5 or self.aux.rule is not None:
            raise TypeError(
                "only an input Variable can be pickled; pickle  chainrule.value(x)  of a result or traced value"
            )
        return _unpickle, (self.data, self.grad)

    @property
    def is_input(self) -> bool:
        """Whether no operation made this value."""
        return self.aux.rule is None

    def refuse_write(self):
        """Raise if this is an input that the tape is recording: changing it would change the past."""
        if (
            self.aux.rule is None
            and self.level != int(self.level)
            and not (_level.paused and _level.is_paused(self.level))
        ):
            raise InPlaceError(
                "an input Variable was changed in place while operations are recorded.",
                "update parameters without recording:  with chainrule.no_grad(): x -= lr * x.grad;",
                "make a new value:  y = x - lr * x.grad.",
            )


def _unpickle(data, grad):
    x = Variable(data)
    x.aux.grad = grad
    return x


def slot_outputs(node, y, level):
    """Box the outputs of a call with several, each as a node of its own that feeds its slot of `node`."""
    outputs = [
        Variable(v, Node((node,), slot_pull(k), None, SLOT), level) if inexact(v) else v for k, v in enumerate(y)
    ]
    return type(y)(*outputs) if hasattr(y, "_fields") else type(y)(outputs)


def reboxed(node, saved, level):
    """Return a node's residuals as Variables of the same tape: the output by the node, operands by its parents."""
    if saved is None:
        return None
    y, *xs = saved
    boxed = [
        x if p is None or x is None or x.__class__ is Spec else Variable(x, p, level)
        for x, p in itertools.zip_longest(xs, node.parents)
    ]
    if isinstance(y, tuple | list):
        y = slot_outputs(node, y, level)
    elif y is not None:
        y = Variable(y, node, level)
    return (y, *boxed)


def fresh(x, handed):
    """Return `x` as an array nobody else holds: gradients are handed to the user, who may write to them."""
    if x.__class__ in LAZY:
        x = x.dense()
    if x.__class__ is np.ndarray:
        if id(x) in handed or not x.flags.owndata or not x.flags.writeable:
            x = x.copy()
        handed.add(id(x))
    return x


class Creator:
    """The call that made a Variable: its function, and the gradients around it after ``backward(retain_grad=True)``.

    ``upstream`` is the gradient that arrived at the output, ``local`` the derivative of the call itself, as a function
    from a gradient of the output to those of the inputs (its transposed Jacobian, never formed), ``downstream`` what it
    passed on to each input: ``downstream == local(upstream)``.
    """

    __slots__ = ("_level", "_node")

    def __init__(self, node, level):
        self._node, self._level = node, level

    @property
    def name(self) -> str:
        """Name of the function."""
        rule = self._node.rule
        if rule is SLOT:
            rule = self._node.parents[0].rule
        return rule.name

    @property
    def inputs(self) -> "tuple[Creator | None, ...]":
        """One entry per operand: its node's gradient holder, as a `Creator` or None for a constant or an input."""
        return tuple(
            Creator(p, self._level) if p is not None and p.rule is not None else None for p in self._node.parents
        )

    @property
    def upstream(self) -> Any:
        """Gradient that arrived at the output."""
        shown = getattr(self._node, "shown", None)
        if shown is None:
            raise AttributeError("no gradient was kept here: call backward(retain_grad=True) on the final result first")
        return shown

    @property
    def local(self) -> Callable[[Any], tuple]:
        """Function from a gradient of the output to the tuple of gradients of the inputs (None for a constant)."""
        node = self._node

        def local(ybar):
            with _level.quiet():
                bars = node.pull(ybar, node.saved)
            return tuple(b.dense() if b.__class__ in LAZY else b for b in bars)

        return local

    @property
    def downstream(self) -> tuple:
        """Tuple of the gradients that this call passed on to its inputs (None for a constant)."""
        return self.local(self.upstream)

    def __eq__(self, other):
        return isinstance(other, Creator) and other._node is self._node

    def __hash__(self):
        return hash(self._node)

    def __repr__(self):
        return f"<call of {self.name}>"
