"""What the transforms share: choosing arguments, boxing them, checking what a function returned."""

import inspect
import os

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, all_values, value
from chainrule.engine.buffer import plain
from chainrule.engine.dual import float_point
from chainrule.engine.held import is_locked
from chainrule.engine.spec import shape_of, spec_of
from chainrule.errors import ChainruleError, InPlaceError, NotDifferentiableError, message, unwrap
from chainrule.rules.scalars import number


def name_of(f):
    """Return a function's name for messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def need_function(f, usage):
    """Raise if a transform was given a value in place of the function, as in ``grad(f(x))``; `usage` shows its call."""
    if not callable(f):
        what = f"an array of shape {f.shape}" if getattr(f, "shape", ()) else f"{f!r:.60}"
        raise TypeError(message(
            f"{usage.partition('(')[0]} takes a function, not {what}.",
            f"give it the function itself, and not a result of it:  chainrule.{usage}.",
        ))  # fmt: skip


class Chosen:
    """The arguments of a call that a transform differentiates: by position (`argnums`), by name, or both."""

    __slots__ = ("argnums", "names", "one", "signature")

    def __init__(self, f, argnums, argnames):
        if argnums is None and argnames is None:
            argnums = 0
        self.one = (argnums is None) != (argnames is None) and not isinstance(
            argnums if argnames is None else argnames, tuple | list
        )
        self.argnums = () if argnums is None else tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
        self.names = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
        for n in self.argnums:
            if isinstance(n, bool) or not isinstance(n, int | np.integer):
                if isinstance(n, str):
                    raise TypeError(f"argnums must be an int or a tuple of ints; for a name use argnames={n!r}")
                raise TypeError(
                    f"argnums must be an int or a tuple of ints, not {describe(n)}; "
                    "a transform is given the function first, and its result the arguments:  chainrule.grad(f)(x)"
                )
        self.signature = None
        if self.names:
            self.signature = inspect.signature(f)
            known = self.signature.parameters
            for n in self.names:
                if n not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
                    raise ValueError(f"{name_of(f)} has no argument {n!r}; it has: {', '.join(known)}")

    def places(self, f, args, kwargs):
        """Return, for one call, where the chosen arguments are: ints into `args`, names into `kwargs`."""
        count = len(args)
        places = []
        for n in self.argnums:
            if not -count <= n < count:
                raise ValueError(
                    f"argnums={n} needs at least {n + 1 if n >= 0 else -n} positional arguments, "
                    f"but {name_of(f)} was called with {count}"
                )
            places.append(n % count)
        if self.names:
            positional = [
                p.name
                for p in self.signature.parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
            for n in self.names:
                if n in kwargs:
                    places.append(n)
                elif n in positional and positional.index(n) < count:
                    places.append(positional.index(n))
                else:
                    raise ValueError(f"argument {n!r} of {name_of(f)} was not given in this call")
        if len(set(places)) != len(places):
            raise ValueError(
                f"the same argument of {name_of(f)} was chosen twice: argnums={self.argnums}, argnames={self.names}"
            )
        return places

    def pack(self, values):
        """Return one result for a single choice, a tuple for several."""
        return values[0] if self.one else tuple(values)


def points(x, what):
    """Return the values of an argument as points of differentiation: floats, in their container."""
    leaves, structure = tree.flatten(x)
    out = []
    for k, v in enumerate(leaves):
        try:
            v = float_point(v)
        except NotDifferentiableError:
            path = tree.paths(x)[k]
            raise NotDifferentiableError(
                f"{what}{path}: a value of type {describe(v)} can't be differentiated.",
                "use floats, or arrays of floats;",
                "leave it out of the container, or pass it as an argument of its own that is not differentiated.",
            ) from None
        if isinstance(v, Boxed):
            v = v.alias()
        elif v.__class__ is np.ndarray and not v.shape:
            v = v[()]  # NumPy's own results of shape () are scalars; their arithmetic is six times faster
        out.append(v)
    return out, structure


def describe(v):
    """Name a value's type, with its dtype if it has one."""
    dtype = getattr(v, "dtype", None)
    return f"{type(v).__name__} of dtype {dtype}" if dtype is not None else type(v).__name__


def run(f, args, kwargs):
    """Call `f`; an error of ours that NumPy wrapped in one of its own is raised itself."""
    try:
        return f(*args, **kwargs)
    except ChainruleError:
        raise
    except Exception as error:
        ours = unwrap(error)
        if ours is not None:
            raise ours from None
        if is_locked(error):
            raise InPlaceError(
                f"an array was overwritten that a derivative still needs: {place_of(error)}.",
                "make a new array instead:  work = work + 1, not  work += 1;",
                "copy it before its use:  y = x * work.copy().",
            ) from error
        raise


def place_of(error):
    """Return ``file:line in function`` where an error was raised."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    code = step.tb_frame.f_code
    return f"{os.path.basename(code.co_filename)}:{step.tb_lineno} in {code.co_name}"


def own(y, level, f, kind):
    """Tell whether an output is a box of this transform; a box of an ended or inner one raises."""
    if not isinstance(y, Boxed):
        return False
    if y.level == level:
        if y.__class__ is not kind:
            from chainrule.errors import MixedLevelError

            raise MixedLevelError()
        return True
    _level.check_open(y.level)
    if y.level > level:
        from chainrule.errors import LeakedValueError

        raise LeakedValueError(_level.describe(int(y.level)))
    return False


def opened_aux(aux, level):
    """Return a function's auxiliary results without the boxes of this transform."""

    def opened(v):
        if isinstance(v, Boxed) and v.level == level:
            v = v.data
            return v.alias() if isinstance(v, Boxed) else v
        return plain(v)

    return tree.tree_map(opened, aux)


def output_point(y, f):
    """Return an output value of a function, checked to be a number or an array."""
    if isinstance(y, Boxed | np.ndarray | float | int | complex | np.generic):
        return plain(y)
    if y is None:
        raise NotDifferentiableError(f"{name_of(f)} returned None.", "return the result of the computation.")
    if hasattr(y, "dtype") and hasattr(y, "shape"):
        return y
    raise NotDifferentiableError(
        f"{name_of(f)} returned a value of type {describe(y)}, which has no derivative.",
        "return a number, an array, or a container of these;",
        "pass other results out with has_aux=True.",
    )


def split_aux(out, f):
    """Split the pair that a function with has_aux=True returns."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(f"has_aux=True: {name_of(f)} must return a pair (output, aux), but returned {describe(out)}")
    return out


def settle(xbar, point):
    """Return a gradient in the type of its argument: a Python number for a Python number."""
    if point.__class__ is float and isinstance(xbar, np.floating | np.ndarray):
        return float(xbar)
    if point.__class__ is complex and isinstance(xbar, np.number | np.ndarray | float):
        return complex(xbar)
    if point.__class__ is np.ndarray and xbar.__class__ is not np.ndarray and not isinstance(xbar, Boxed):
        return np.asarray(xbar, point.dtype)
    if isinstance(point, Boxed):
        return point.settled(xbar) if point.recorded else settled_number(xbar, all_values(point).__class__)
    return xbar


def settled_number(xbar, kind):
    """Return a gradient, itself traced perhaps, in a value of this type: in a Python number it is one."""
    if kind is not float and kind is not complex:
        return xbar
    x = all_values(xbar)
    if x.__class__ is kind or getattr(x, "shape", ()):  # or many, of a batch
        return xbar
    return number(xbar) if isinstance(xbar, Boxed) else kind(xbar)


__all__ = [
    "Chosen", "describe", "name_of", "need_function", "opened_aux", "output_point", "own", "points", "run", "settle",
    "shape_of", "spec_of", "split_aux", "value",
]  # fmt: skip
