"""The one door for rules written outside: derivatives of one's own functions, and of other libraries'.

`rule` gives any function a derivative in one line, and returns what to call: for a function that NumPy's protocols hand
over (a ufunc, or one that dispatches by ``__array_function__``) that is the function itself; for one that takes plain
arrays only, a function around it, which also stands in its place in code under `chainrule.adopt`.

The declarators below it are those of the library's own tables: `elementwise`, `gather`, `linear`, `bilinear`, `select`,
`constant`, `composite`. They register functions that dispatch; one's own is made to dispatch by `primitive`. The kinds
of rules, and what their functions are given, are described in `chainrule.engine.rule`.

Examples
--------
>>> import math
>>> import numpy as np, chainrule as cr
>>> erf = cr.extend.rule(math.erf, partials=lambda y, x: 2 / math.sqrt(math.pi) * np.exp(-x * x))
>>> cr.grad(erf)(0.0), cr.grad(cr.grad(erf))(0.5) == -cr.grad(erf)(0.5)
(1.1283791670955126, True)
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine import rule as _rule
from chainrule.engine.boxed import CALL
from chainrule.engine.calls import LATER
from chainrule.engine.custom import place
from chainrule.engine.rule import RULES, bilinear, composite, constant, elementwise, gather, linear, select
from chainrule.engine.spec import primitive, shape_of
from chainrule.engine.transpose import transposed
from chainrule.errors import NoRuleError, ShapeError
from chainrule.transforms.custom import CustomRule

__all__ = ["bilinear", "composite", "constant", "elementwise", "gather", "linear", "primitive", "rule", "select"]

_DISPATCHER = type(np.sum)


def rule(
    function: Callable,
    *,
    partials: Callable | tuple | None = None,
    adjoint: Callable | tuple | None = None,
    jvp: Callable | tuple | None = None,
    vjp: Callable | tuple | None = None,
    nondiff_argnums: int | str | tuple = (),
    **options: Any,
) -> Callable:
    """Give a function a derivative, and return the function to call.

    One of these definitions serves both modes and all orders. A tuple has one callable for each of the first arguments
    (the operands, which may be traced); the others are constants, given by keyword if they were.

    Parameters
    ----------
    function : callable
        A ufunc, a function that dispatches by NumPy's protocols, or any function of plain arrays.
    partials : callable or tuple of these
        Of an elementwise function: ``partial(y, *xs) -> dy/dx_i``, one per operand; None for one that has none.
    adjoint : callable or tuple of these
        Of a linear function: ``adjoint(ybar, y, x, **params) -> xbar``, one per operand. Here ``y`` is None, and ``x``
        has the shape and dtype of the operand only.
    vjp : callable or tuple of these
        ``vjp(ybar, y, *xs, **params) -> xbar``, one per operand; or one function for all, which returns a tuple.
    jvp : callable or tuple of these
        ``jvp(xdot, y, *xs, **params) -> ydot``, one per operand, whose results are added up; or one function for all,
        which is given the tuple of tangents as `xdot`. Of `jvp` and `vjp` one is enough: each is the other's transpose.
    nondiff_argnums : int, str, or tuple of these
        With one function for several operands: arguments that have no derivative, as for `chainrule.custom_vjp`.
    **options
        Those of the declarators in `chainrule.engine.rule`: ``nin``, ``domain``, ``affine``, ...

    Returns
    -------
    callable
        `function` itself, if it dispatches. Otherwise a function to be called instead: plain arguments go to
        `function`, traced ones are differentiated. In code under `chainrule.adopt` it stands in its place.

    Raises
    ------
    ValueError
        If `function` has a rule already.
    TypeError
        If none, or more than one, of the definitions is given.

    Examples
    --------
    A function of plain arrays that differentiates itself by no means (think of compiled code):

    >>> import numpy as np, chainrule as cr
    >>> def solve(a, b):
    ...     return np.asarray(b).tolist() @ np.linalg.inv(np.asarray(a)).T
    >>> solve = cr.extend.rule(
    ...     solve, vjp=lambda ybar, y, a, b: (-np.outer(solve(a.T, ybar), y), solve(a.T, ybar))
    ... )
    >>> cr.grad(lambda b: np.sum(solve(np.array([[2.0, 0.0], [1.0, 4.0]]), b)))(np.ones(2))
    array([0.375, 0.25 ])
    """
    if not callable(function):
        raise TypeError(f"extend.rule takes a function, not {function!r}")
    for d in (partials, adjoint, jvp, vjp):
        if isinstance(d, tuple) and not any(map(callable, d)):
            raise TypeError(f"a rule is a function, or a tuple of functions, not {d!r}")
    given = [name for name, d in (("partials", partials), ("adjoint", adjoint), ("jvp or vjp", jvp or vjp)) if d]
    if len(given) != 1:
        found = " and ".join(given) or "nothing"
        raise TypeError(f"extend.rule needs one of partials=, adjoint=, or jvp= and/or vjp=; it was given {found}")
    definition = partials or adjoint or vjp or jvp
    own = dispatches(function)
    if own and known(function):
        raise ValueError(f"{_rule.full_name(function)} has a rule already: {RULES[function]!r}")
    skip = 1 if partials else 2
    names, keywords = signature_of(definition, skip)
    if own and function in CALL:
        del CALL[function]  # what was built for it before it had this rule
    target = function if own else wrapped(function, names + keywords)
    if own and not partials and "bind" not in options and not tells_signature(function):
        options["bind"] = bind_by_position(len(names), keywords)
    if partials:
        parts = [checked_partial(d) if d else refusing(target, i) for i, d in enumerate(as_tuple(partials))]
        elementwise(target, *parts, **options)
    elif adjoint:
        linear(target, *as_tuple(adjoint), **options)
        made = RULES[target]
        made.vjps = tuple([checked_pull(d, i) for i, d in enumerate(made.vjps)])
    elif len(names) > 1 and not any(isinstance(d, tuple) for d in (jvp, vjp)) and options.get("nin", 2) > 1:
        custom = CustomRule(function, nondiff_argnums)
        if callable(vjp):
            custom.defvjp(vjp)
        if callable(jvp):
            custom.defjvp(jvp)
        if own:
            composite(function)(custom)
        else:
            target = custom
    else:
        options = {"nin": len(as_tuple(vjp or jvp)), "accepts": keywords, **options}
        pushes = [checked_push(d) if d else refusing(target, i) for i, d in enumerate(as_tuple(jvp if jvp else ()))]
        pulls = [checked_pull(d, i) if d else refusing(target, i) for i, d in enumerate(as_tuple(vjp if vjp else ()))]
        if pushes and pulls and len(pushes) != len(pulls):
            raise TypeError(f"jvp has {len(pushes)} functions, vjp {len(pulls)}: one for each operand is needed")
        jvps = pushes or [forward_of(d, target) for d in pulls]
        vjps = pulls or [reverse_of(d, target, i) for i, d in enumerate(pushes)]
        _rule.rule(target, jvp=tuple(jvps), vjp=tuple(vjps), **options)
    if not own:
        from chainrule.adopt.entries import put

        put(function, target)
    return target


def dispatches(function):
    """Tell whether calls of a function with traced arguments reach us."""
    return isinstance(function, np.ufunc | _DISPATCHER) or hasattr(function, "plain")


def known(function):
    """Tell whether a function has a rule; those of packages that are loaded by now are registered first."""
    for package, register in list(LATER.items()):
        if package in sys.modules:
            register()
            LATER.pop(package, None)
    return function in RULES


def tells_signature(function):
    """Tell whether a function's arguments are known by name."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


def bind_by_position(count, keywords):
    """Return the binding of arguments by position to operands and parameters, for a function that names none."""

    def bind(*args, **kwargs):
        return args[:count], {**dict(zip(keywords, args[count:], strict=False)), **kwargs}

    return bind


def as_tuple(x):
    """Return definitions as a tuple."""
    return x if isinstance(x, tuple) else (x,)


def signature_of(definition, skip):
    """Return the names of operands and of keyword parameters of a rule's function."""
    first = next(d for d in as_tuple(definition) if d is not None)
    try:
        return _rule.parameters(first, skip)
    except AttributeError:
        raise TypeError(f"a rule must be a Python function (a def or lambda), not {first!r}") from None


def wrapped(function, names):
    """Return a function around one that takes plain arrays only: traced arguments go to its rule."""

    def run(*args, **kwargs):
        return function(*args, **kwargs)

    with_names = getattr(function, "__name__", None) or type(function).__name__
    run.__name__ = run.__qualname__ = with_names
    run.__module__ = getattr(function, "__module__", None) or __name__
    run.__doc__ = getattr(function, "__doc__", None)
    try:
        run.__signature__ = inspect.signature(function)
    except (TypeError, ValueError):  # compiled code that tells none: take the rule's own
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
        run.__signature__ = inspect.Signature(parameters)
    return primitive(run)


def refusing(function, i):
    """Return the derivative in operand `i` that was declared as missing: it raises."""

    def missing(y, *xs, **params):
        raise NoRuleError(_rule.full_name(function), f" for argument {i}")

    return missing


def checked_partial(partial):
    """Return a partial derivative whose shape is checked: it must broadcast to that of the result."""

    @functools.wraps(partial)
    def checked(y, *xs):
        d = partial(y, *xs)
        shape = shape_of(y)
        if shape_of(d) not in ((), shape) and not broadcasts(shape_of(d), shape):
            raise wrong_shape(partial, "partial derivative", shape_of(d), shape)
        return d

    return checked


def broadcasts(shape, to):
    """Tell whether an array of `shape` broadcasts to the shape `to`."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


def checked_pull(vjp, i):
    """Return a rule of reverse mode for operand `i` whose result's shape is checked.

    It is given the result in any case: of several results the engine needs it.
    """

    @functools.wraps(vjp)
    def checked(ybar, y, *xs, **params):
        xbar = vjp(ybar, y, *xs, **params)
        if shape_of(xbar) != shape_of(xs[i]):
            raise wrong_shape(vjp, f"cotangent of operand {i}", shape_of(xbar), shape_of(xs[i]))
        return xbar

    return checked


def checked_push(jvp):
    """Return a rule of forward mode whose result's count and shapes are checked."""

    @functools.wraps(jvp)
    def checked(xdot, y, *xs, **params):
        ydot = jvp(xdot, y, *xs, **params)
        several = isinstance(y, tuple | list)
        found = [shape_of(t) for t in ydot] if several and isinstance(ydot, tuple | list) else shape_of(ydot)
        wanted = [shape_of(v) for v in y] if several else shape_of(y)
        if found != wanted:
            raise wrong_shape(jvp, "tangent", found, wanted)
        return ydot

    return checked


def wrong_shape(rule, what, found, wanted):
    """Return the error of a rule that returned an array of a wrong shape."""
    return ShapeError(
        f"{place(rule)} returned a {what} of shape {found}; it must be {wanted}.",
        "return the derivative in the shape of its value: summed over what the function broadcast, spread over what it "
        "summed.",
    )


def forward_of(vjp, function):
    """Return the rule of forward mode for one operand, the transpose of that of reverse mode."""

    @functools.wraps(vjp)
    def jvp(xdot, y, *xs, **params):
        several = isinstance(y, tuple | list)
        ys = y if several else (y,)
        ydots = transposed(
            lambda *ws: (vjp(ws if several else ws[0], y, *xs, **params),), (xdot,), ys, _rule.full_name(function)
        )
        return ydots if several else ydots[0]

    return jvp


def reverse_of(jvp, function, i):
    """Return the rule of reverse mode for operand `i`, the transpose of that of forward mode."""

    @functools.wraps(jvp)
    def vjp(ybar, y, *xs, **params):
        several = isinstance(y, tuple | list)

        def push(xdot):
            ydot = jvp(xdot, y, *xs, **params)
            return tuple(ydot) if several else (ydot,)

        ybars = tuple(ybar) if several else (ybar,)
        advice = ("use forward mode (chainrule.jvp);", "define vjp=, too.")
        name = _rule.full_name(function)
        return transposed(push, ybars, (xs[i],), name, given="tangent", lost="reverse mode", advice=advice)[0]

    return vjp
