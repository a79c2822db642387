"""Functions that bring their own derivative: custom_vjp and custom_jvp. How their calls run: `engine.custom`."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.engine.custom import Definition, call
from chainrule.errors import NotDifferentiableError, UnsupportedArgumentError
from chainrule.transforms.common import name_of, need_function


class CustomRule:
    """A function with a rule of its own. Made by `custom_vjp` and `custom_jvp`; called as the function itself."""

    def __init__(self, f: Callable, nondiff_argnums: Any = ()) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self.__name__ = getattr(f, "__name__", type(f).__name__)  # of ufuncs and of objects, too
        self.__qualname__ = getattr(f, "__qualname__", self.__name__)
        self._rules: dict[str, Callable] = {}
        try:
            self._signature = None if isinstance(f, np.ufunc) else inspect.signature(f)
        except (TypeError, ValueError):  # a C function that tells none: as of ufuncs, arguments are given by position
            self._signature = None
        kinds = [] if self._signature is None else [p.kind for p in self._signature.parameters.values()]
        simple = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        self._plain = len(kinds) if set(kinds) <= simple else -1  # so many arguments need no binding
        given = nondiff_argnums if isinstance(nondiff_argnums, tuple | list) else (nondiff_argnums,)
        self._skip = frozenset(map(self._number, given))
        self._definition: Definition | None = None

    def _number(self, which):
        """Return the number of an argument given by number or name."""
        names = [] if self._signature is None else list(self._signature.parameters)
        if isinstance(which, str):
            if which not in names:
                raise ValueError(f"{name_of(self)} has no argument {which!r}; it has: {', '.join(names) or 'no names'}")
            return names.index(which)
        if isinstance(which, bool) or not isinstance(which, int):
            raise TypeError(f"nondiff_argnums must be numbers or names of arguments, not {which!r}")
        if which < 0 or (names and which >= len(names) and not self._variadic()):
            raise ValueError(f"nondiff_argnums={which}: {name_of(self)} has {len(names)} arguments, numbered from 0")
        return which

    def _variadic(self):
        return any(p.kind is p.VAR_POSITIONAL for p in self._signature.parameters.values())

    def defvjp(self, *rules: Callable) -> Callable:
        """Define the rule of reverse mode: ``vjp(ybar, y, *args)``, or the pair ``fwd(*args)``, ``bwd(kept, ybar)``.

        Parameters
        ----------
        *rules : one or two callables
            ``vjp(ybar, y, *args) -> xbars`` is given the cotangent of the result, the result, and the arguments;
            ``fwd(*args) -> (y, kept)`` runs in place of the function where a derivative will be taken, and
            ``bwd(kept, ybar) -> xbars`` is given what it kept. `xbars` is a tuple with an entry for each argument (but
            those in `nondiff_argnums`), of its shape and container, or None for zero; for one argument it may be the
            entry itself.

        Returns
        -------
        callable
            The first of `rules`: so `defvjp` also serves as a decorator.
        """
        if not rules:
            return self.defvjp
        if len(rules) > 2 or not all(map(callable, rules)):
            raise TypeError(f"{name_of(self)}.defvjp takes one function, vjp(ybar, y, *args), or two: fwd and bwd")
        for name in ("vjp", "fwd", "bwd"):
            self._rules.pop(name, None)
        self._rules.update(zip(("vjp",) if len(rules) == 1 else ("fwd", "bwd"), rules, strict=True))
        self._definition = None
        return rules[0]

    def defjvp(self, rule: Callable) -> Callable:
        """Define the rule of forward mode: ``jvp(xdots, y, *args) -> ydot``.

        Parameters
        ----------
        rule : callable
            Given the tangents of the arguments, a tuple with one for each (but those in `nondiff_argnums`), the result,
            and the arguments, it returns the tangent of the result. It must be linear in the tangents.

        Returns
        -------
        callable
            `rule`: so `defjvp` also serves as a decorator.
        """
        if not callable(rule):
            raise TypeError(f"{name_of(self)}.defjvp takes a function, jvp(xdots, y, *args)")
        self._rules["jvp"] = rule
        self._definition = None
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; where an argument is traced, the rule says what its derivative is."""
        if not any(map(holds_box, args)) and not any(map(holds_box, kwargs.values())):
            return self._f(*args, **kwargs)
        definition = self._definition
        if definition is None:
            if not self._rules:
                raise NotDifferentiableError(
                    f"{name_of(self)} is to have a derivative of its own, but no rule is defined.",
                    f"reverse mode:  @{name_of(self)}.defvjp  above  def rule(ybar, y, x): return xbar;",
                    f"forward mode:  @{name_of(self)}.defjvp  above  def rule(xdots, y, x): return ydot.",
                )
            definition = Definition(self._f, name_of(self), self._skip, **self._rules)
            self._definition = definition
        if (kwargs or len(args) != self._plain) and self._signature is not None:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        constants = [(i, args[i]) for i in self._skip if i < len(args)]
        for name, given in (*constants, *kwargs.items()):
            if holds_box(given):
                if name.__class__ is int and self._signature is not None:
                    name = [*self._signature.parameters, name][min(name, len(self._signature.parameters))]
                raise UnsupportedArgumentError(
                    name_of(self),
                    name,
                    "is a traced value, and the rule takes no derivative in it",
                    "take it out of nondiff_argnums, or (of a keyword) make it an argument by position, and return its "
                    "derivative in the rule;",
                    "pass  chainrule.stop_gradient(...)  if it is meant to be constant.",
                )
        return call(definition, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method, as functions do."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce_ex__(self, protocol: Any) -> Any:
        found: Any = sys.modules.get(self.__module__) if self.__module__ != "__main__" else None
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else super().__reduce_ex__(protocol)

    def __repr__(self):
        return f"<{name_of(self)} with a rule of its own: {', '.join(self._rules) or 'not defined yet'}>"


def holds_box(x):
    """Tell whether an argument is a traced value or a container that holds one."""
    if isinstance(x, Boxed):
        return True
    return any(isinstance(v, Boxed) for v in tree.flatten(x)[0])


def custom_vjp(f: Callable | None = None, *, nondiff_argnums: int | str | tuple = ()) -> Any:
    """Decorate a function to define its derivative by hand, by its rule of reverse mode.

    The function may be anything that takes plain arrays: compiled code, a solver, a simulation. Or NumPy code whose
    derivative is known better than its operations can tell: more stable, cheaper, or other on purpose.

    Parameters
    ----------
    f : callable
        Takes and returns numbers, arrays, or containers of these. Arguments by position, given by keyword or not, may
        be traced; keyword-only ones are constants, which the rules are given by keyword.
    nondiff_argnums : int, str, or tuple of these
        Arguments, by number or name, that are constants: the rule gives no cotangent for them.

    Returns
    -------
    callable
        As `f`, with the decorator ``defvjp``:

        * ``@f.defvjp`` above ``def rule(ybar, y, *args)``: given the cotangent of the result, the result, and the
          arguments, it returns the cotangents of the arguments;
        * ``f.defvjp(fwd, bwd)``: ``fwd(*args)`` returns ``(y, kept)``, and ``bwd(kept, ybar)`` the cotangents.

        Several arguments have a tuple of cotangents, each of the argument's shape and container; None stands for zero.
        With ``@f.defjvp`` forward mode has a rule of its own, too.

    Raises
    ------
    ShapeError
        If a rule returns a wrong number of cotangents, or one of a wrong shape or container.
    NotDifferentiableError
        If there is no rule; if the function or its rule uses a traced value that is not among its arguments; in forward
        mode, if the rule is not linear in `ybar`.

    Notes
    -----
    All orders and both modes: where the derivative itself is differentiated, the rule is given traced values, so it
    should be written in NumPy functions and in `f` itself. Forward mode transposes the rule. With `fwd` a higher
    derivative runs `fwd` on traced values. Values of a transform further out that `f` uses without being given them are
    differentiated as the code of `f` and of the rule is written.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> @cr.custom_vjp
    ... def norm(x):
    ...     return np.sqrt(np.sum(x**2))
    >>> @norm.defvjp
    ... def norm_vjp(ybar, y, x):
    ...     return ybar * x / np.maximum(y, 1e-300)  # 0, not NaN, at 0
    >>> cr.grad(norm)(np.array([3.0, 4.0])), cr.grad(norm)(np.zeros(2))
    (array([0.6, 0.8]), array([0., 0.]))
    """
    if f is None:
        return functools.partial(custom_vjp, nondiff_argnums=nondiff_argnums)
    need_function(f, "custom_vjp(f)")
    return CustomRule(f, nondiff_argnums)


def custom_jvp(f: Callable | None = None, *, nondiff_argnums: int | str | tuple = ()) -> Any:
    """Decorate a function to define its derivative by hand, by its rule of forward mode.

    Parameters
    ----------
    f, nondiff_argnums
        As for `custom_vjp`.

    Returns
    -------
    callable
        As `f`, with the decorator ``defjvp``: ``@f.defjvp`` above ``def rule(xdots, y, *args)``. It is given the tuple
        of the arguments' tangents (but those in `nondiff_argnums`), each of its argument's shape and container, the
        result, and the arguments; it returns the tangent of the result, and must be linear in `xdots`.

    Raises
    ------
    ShapeError
        If the rule returns a tangent of a wrong shape or container.
    NotDifferentiableError
        If there is no rule; if the function or its rule uses a traced value that is not among its arguments; in reverse
        mode, if the rule is not linear in `xdots`.

    Notes
    -----
    All orders and both modes. Reverse mode transposes the rule: it is run on traced tangents, and pulled back.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> @cr.custom_jvp
    ... def log1pexp(x):
    ...     return np.logaddexp(0.0, x)
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(xdots, y, x):
    ...     (xdot,) = xdots
    ...     return cr.sigmoid(x) * xdot
    >>> cr.jvp(log1pexp, (0.0,), (1.0,))[1], cr.grad(cr.grad(log1pexp))(0.0)
    (np.float64(0.5), 0.25)
    """
    if f is None:
        return functools.partial(custom_jvp, nondiff_argnums=nondiff_argnums)
    need_function(f, "custom_jvp(f)")
    return CustomRule(f, nondiff_argnums)
