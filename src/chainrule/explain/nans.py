"""`debug_nans`: a block in which the first NaN or infinity of a traced run is an error that names the user's line.

Within the block, the operators, methods and functions that a traced value goes through look at what they return. What a
rule calls inside is not looked at: an intermediate result there may well be infinite. Each node of a tape is given the
user's line at which it was made, so that a backward pass, which tells its watcher of each cotangent, can say whose is
wrong. The operators are shared by all threads; threads outside the block go through them unchecked.
"""

import contextlib
import threading
from collections.abc import Iterator

import numpy as np

from chainrule.engine import boxed, splitting, tape
from chainrule.engine.boxed import Boxed
from chainrule.engine.cotangent import LAZY, Slots
from chainrule.errors import NonFiniteError
from chainrule.explain.notation import tail
from chainrule.program.places import user_place

# fmt: off
OPERATORS = (
    "__matmul__", "__rmatmul__", "__imatmul__", "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__",
    "__mul__", "__rmul__", "__imul__", "__truediv__", "__rtruediv__", "__itruediv__", "__mod__", "__rmod__", "__imod__",
    "__pow__", "__rpow__", "__ipow__", "__neg__", "__abs__",
)
METHODS = (
    "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod", "std", "sum", "trace", "var", "astype",
)
# fmt: on
ACTIVE: dict = {}  # thread -> its Guard
MOST = 1_000_000  # nodes whose places are kept
LOCK = threading.Lock()
BEFORE: dict = {}  # what was there before the first block was entered


class Guard:
    """What a block watches for, in one thread. It stands as the watcher of backward passes, too."""

    masks = tape.ALL  # inactive branches have exact zeros, not 0 * inf

    def __init__(self, infinite, outer):
        self.infinite, self.outer = infinite, outer
        self.inside = self.passing = 0  # depth of calls and of backward passes
        self.events = splitting.events  # of quotients 0 / 0, for which there is a second run
        self.pending = None  # what was found where a second run may do better, and what is known of that
        self.first = None
        self.second = False
        self.places = {}  # serial of a node -> (place, name of the function)
        self.current = (None, None)  # place and function of the node that a pass is at
        self.users = {}  # node -> the last node whose pass handed a cotangent to it

    # -- values and tangents -------------------------------------------------------------------------------------

    def bad(self, x) -> str | None:
        """Say what is wrong with a plain value."""
        if not isinstance(x, np.ndarray | np.inexact | float | complex):
            return None
        kind = getattr(x, "dtype", None)
        if kind is not None and kind.kind not in "fc":
            return None
        if np.isnan(x).any():
            return "NaN"
        return "infinite" if self.infinite and not np.isfinite(x).all() else None

    def call(self, function, name, args, kwargs):
        """Run a call, and look at its result."""
        if self.inside:
            return function(*args, **kwargs)
        if splitting.is_apart():
            self.second = True
            return function(*args, **kwargs)
        if self.passing:  # a call of a rule, for a derivative of higher order: its place is that of the rule's call
            y = function(*args, **kwargs)
            self.note(y, *self.current)
            return y
        if self.second:
            self.settle()
        self.events = splitting.events
        self.inside += 1
        try:
            y = function(*args, **kwargs)
        finally:
            self.inside -= 1
        place = None
        for v in y if isinstance(y, tuple | list) else (y,):
            if not isinstance(v, Boxed):
                continue
            place = place or user_place().place
            self.look(v, name, args, place)
        return y

    def look(self, v, name, args, place):
        """Look at a result and its tangents, and note where its nodes were made."""
        self.note(v, place, name)
        while isinstance(v, Boxed):
            if hasattr(v, "tangent"):
                found = self.bad(plain(v.tangent))
                before = any(self.bad(plain(a.tangent)) for a in flat(args) if hasattr(a, "tangent"))
                if found and not before and not self.bad(plain(v.data)):
                    self.report(NonFiniteError("tangent", found, name, place))
            v = v.data
        found = self.bad(v)
        if found and not (found == "infinite" and any(self.bad(plain(a)) for a in flat(args))):
            raise NonFiniteError("value", found, name, place)

    def report(self, error):
        """Raise an error, or keep it until it is known whether a second run does better: see `engine.splitting`."""
        if splitting.is_apart():  # it would be caught there
            self.pending, self.second = self.first or error, False
            return
        if splitting.events == self.events:
            self.passing = 0
            raise error
        if self.pending is None:
            self.pending, self.second = error, False

    def settle(self):
        """Raise what was found in a first run, unless the second did better."""
        error, self.pending, second, self.second = self.pending, None, self.second, False
        if error is not None and not (second and error.kind == "tangent"):
            self.passing = 0
            raise error

    def note(self, y, place, name):
        """Note the place and the function of the nodes of a result."""
        for v in y if isinstance(y, tuple | list) else (y,):
            while isinstance(v, Boxed):
                if isinstance(v.aux, tape.Node):
                    self.places.setdefault(v.aux.serial, (place, name))
                    if v.aux.rule is tape.SLOT:  # one of several results: the call has a node of its own
                        self.places.setdefault(v.aux.parents[0].serial, (place, name))
                v = v.data

    # -- the watcher of backward passes --------------------------------------------------------------------------

    def seed(self, ybar):
        """Take the cotangent that a pass begins with."""
        return ybar if self.outer is None else self.outer.seed(ybar)

    def differentiated(self, outputs):
        """Take the values of what is differentiated."""
        if self.outer is not None:
            self.outer.differentiated(outputs)

    def begin(self, bars):
        """Take note that a pass begins."""
        if not splitting.is_apart():
            self.settle()
        elif self.pending is not None and self.pending.kind == "cotangent":
            self.first, self.pending = self.pending, None  # unless the leaves of this pass say otherwise
        self.passing += 1
        self.events = splitting.events
        self.users = {}
        if self.outer is not None:
            self.outer.begin(bars)

    def leave(self):
        """Take note that a pass is over."""
        self.passing = max(self.passing - 1, 0)
        self.users = {}
        if len(self.places) > MOST:
            self.places = dict(list(self.places.items())[MOST // 2 :])
        if self.outer is not None:
            self.outer.leave()

    def visit(self, node, ybar):
        """Look at the cotangent of a node."""
        if self.outer is not None:
            self.outer.visit(node, ybar)
        if ybar.__class__ is not Slots:
            x = ybar.dense() if ybar.__class__ in LAZY else ybar
            found = self.bad(plain(x)) or self.bad_tangent(x)
            if found and not (splitting.is_apart() and node.parents):
                by = self.users.get(node)
                place, name = self.places.get(by.serial if by is not None else node.serial, (None, None))
                if name is None:
                    name = tail((by or node).rule.name) if (by or node).rule is not None else "the seed"
                self.report(NonFiniteError("cotangent", found, name, place))
        self.current = self.places.get(node.serial, (None, None))
        for p in node.parents:
            if p is not None:
                self.users[p] = node

    def bad_tangent(self, x):
        """Say what is wrong with the tangents that a cotangent carries."""
        while isinstance(x, Boxed):
            found = hasattr(x, "tangent") and self.bad(plain(x.tangent))
            if found:
                return found
            x = x.data
        return None


def plain(x):
    """Return what is at the bottom of a box."""
    while isinstance(x, Boxed):
        x = x.data
    return x


def flat(args):
    """Iterate over arguments, and those in lists of them."""
    for a in args:
        if isinstance(a, list | tuple):
            yield from flat(a)
        else:
            yield a


def checked(function, name):
    """Return a call that looks at its result where its thread is in a block."""

    def call(*args, **kwargs):
        guard = ACTIVE.get(threading.get_ident())
        if guard is None:
            return function(*args, **kwargs)
        return guard.call(function, name, args, kwargs)

    call.__name__ = call.__qualname__ = getattr(function, "__name__", name)
    call.checks = function
    return call


SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "mod": "%", "pow": "**", "matmul": "@", "neg": "-",
}  # fmt: skip


def operator(name):
    """Return the operator or method `name` of traced values with its check."""
    held = [Boxed.__dict__[name]]

    def run(*args, **kwargs):
        y = held[0](*args, **kwargs)
        now = Boxed.__dict__[name]
        if now is not call and "operators" in BEFORE:  # it was built at its first use, and has taken our place
            held[0] = BEFORE["operators"][name] = now
            setattr(Boxed, name, call)
        return y

    bare = name.strip("_")
    call = checked(run, SIGNS.get(bare) or SIGNS.get(bare[1:]) or bare)
    call.__name__ = call.__qualname__ = name
    return call


def install():
    """Put the checks into the table of calls and among the operators."""
    BEFORE["operators"] = {n: Boxed.__dict__[n] for n in (*OPERATORS, *METHODS) if n in Boxed.__dict__}
    BEFORE["build"], BEFORE["method"] = boxed.BUILD[0], boxed.UFUNC_METHOD[0]
    for name in BEFORE["operators"]:
        setattr(Boxed, name, operator(name))
    for function, call in list(boxed.CALL.items()):
        boxed.CALL[function] = checked(call, named(function))
    build = BEFORE["build"]
    boxed.BUILD[0] = lambda function: checked(build(function), named(function))
    method = BEFORE["method"]
    boxed.UFUNC_METHOD[0] = lambda ufunc, how, inputs, kwargs: (
        checked(lambda *inputs: method(ufunc, how, inputs, kwargs), f"{ufunc.__name__}.{how}")(*inputs)
        if threading.get_ident() in ACTIVE
        else method(ufunc, how, inputs, kwargs)
    )


def remove():
    """Take the checks out again."""
    for name, function in BEFORE["operators"].items():
        setattr(Boxed, name, function)
    for name, call in list(vars(Boxed).items()):  # methods that were built in the block, of what is in the table
        if hasattr(call, "checks"):
            setattr(Boxed, name, call.checks)
    for function, call in list(boxed.CALL.items()):
        boxed.CALL[function] = getattr(call, "checks", call)
    boxed.BUILD[0], boxed.UFUNC_METHOD[0] = BEFORE["build"], BEFORE["method"]
    BEFORE.clear()


def named(function):
    """Return the name of a function."""
    return getattr(function, "__name__", type(function).__name__)


@contextlib.contextmanager
def debug_nans(*, infinite: bool = True) -> Iterator[None]:
    """Raise at the first NaN or infinity of a traced run within this block, and name the user's line.

    Parameters
    ----------
    infinite : bool
        Raise for infinities, too, unless one was among the operands.

    Raises
    ------
    NonFiniteError
        At the call whose value or tangent is not finite, or by whose backward pass a cotangent became so. Its
        ``kind``, ``found``, ``function``, ``line`` and ``where`` say the same for programs.

    Notes
    -----
    Looks at each result of transforms (`grad`, `jvp`, ...) and of `Variable`, in this thread; it costs some
    microseconds for each call, and a pass over each array. Where derivatives at repeated eigenvalues are found by a
    second run, what stays wrong is raised at the end of the block, or at the next transform. A compiled
    function is looked at where its result is not finite: then it is run again, as Python. What is computed by plain
    NumPy is not seen.

    Examples
    --------
    >>> import numpy as np
    >>> import chainrule as cr
    >>> def f(x):
    ...     r = x - 1
    ...     return np.sqrt(r)
    >>> with cr.debug_nans():
    ...     cr.grad(f)(1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chainrule.errors.NonFiniteError: a cotangent became infinite in the backward pass of sqrt.
      where: ...:3 in f
      ...
    """
    thread = threading.get_ident()
    outer, watcher = ACTIVE.get(thread), tape.WATCHERS.get(thread)
    with LOCK:
        if not ACTIVE:
            install()
        ACTIVE[thread] = guard = Guard(infinite, watcher if not isinstance(watcher, Guard) else None)
    tape.WATCHERS[thread] = guard
    try:
        yield
        guard.settle()
    finally:
        if watcher is None:
            tape.WATCHERS.pop(thread, None)
        else:
            tape.WATCHERS[thread] = watcher
        with LOCK:
            if outer is None:
                del ACTIVE[thread]
            else:
                ACTIVE[thread] = outer
            if not ACTIVE:
                remove()


__all__ = ["debug_nans"]
