"""`compile`: a function that is run as Python once, and as its program from then on.

The first call with arguments of a kind (containers, shapes, dtypes, the values of ints, strings and bools) traces the
function: see `trace`. Later calls of that kind run the optimised program on the back end. Where a guard of the program
fails, Python would have gone another way: the function is traced again, and has one more path. Before the program runs,
what the function reads from its surroundings (globals, closures, attributes) is compared with what it was.

Whatever the program can't do is done by the function itself: a call whose result is not finite is run again with
cotangents that carry masks, and then by the function; one that raises is run by the function, which raises at the
user's own line. So results are those of the function in all cases.

`kinds` tells which kind of arguments a call has; `derivatives` makes what a compiled function is under transforms.
"""

import functools
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, ordinary
from chainrule.engine.custom import call
from chainrule.errors import BoundsError, CompileWarning, NotDifferentiableError, depth_of_user, user_line
from chainrule.program.arguments import ARRAY, can_write, finite, fresh, orders_of, refuse_generators, static_arguments
from chainrule.program.choice import Choice, checked, installed
from chainrule.program.derivatives import Derivatives, Writes
from chainrule.program.ir import GuardFailed, Program
from chainrule.program.kinds import DYNAMIC, Kind, Path, kind_of, static_flags
from chainrule.program.passes import optimise
from chainrule.program.stats import Lowered, Stats
from chainrule.program.trace import Untraceable
from chainrule.program.watched import Borrowed, Impure, watched
from chainrule.settings import Values, config, replaced
from chainrule.transforms.common import name_of, need_function

PATHS = 16  # how many ways through a function are compiled for one kind of arguments
PATIENCE = 4  # so many times as many traces may be made for them: seldom used ones make room
IMPURE = 3  # so many runs in which it changes what it reads
KINDS = 64  # how many kinds of arguments are kept


class Compiled:
    """A compiled function. Made by `compile`."""

    def __init__(
        self, f: Callable, static_argnums: Any = (), static_argnames: Any = (), paths: int = PATHS,
        backend: str | None = None,
    ) -> None:  # fmt: skip
        need_function(f, "compile(f)(x)")
        refuse_generators(f)
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._static, self._static_names = static_arguments(f, static_argnums, static_argnames)
        self._most = paths
        self._backend = backend if backend is None else checked(replaced(Values(), {"backend": backend}).backend)
        self._reset()

    def _reset(self):
        self._kinds: dict[Any, Kind] = {}
        self._usual: dict[Any, Kind] = {}
        self._stats = Stats()
        self._lock = threading.RLock()
        self._warned = False
        self._derivatives = None

    def __get__(self, owner, kind=None):
        return self if owner is None else types.MethodType(self, owner)

    def __reduce__(self):
        return Compiled, (self._f, tuple(self._static), tuple(self._static_names), self._most, self._backend)

    def __repr__(self):
        return f"<compiled {name_of(self._f)}>"

    # -- the call ----------------------------------------------------------------------------------------------

    def __call__(self, *args, **kwargs):
        """Call the function."""
        if kwargs or self._static:
            kind = None
        else:  # the usual arguments are arrays and floats: a class stands for all else, and is in no key of `_usual`
            points = args
            kind = self._usual.get(
                tuple([(x.shape, x.dtype, x.flags.c_contiguous) if x.__class__ is ARRAY else x.__class__ for x in args])
            )
        if kind is None:
            key, points = kind_of(args, kwargs, self._static, self._static_names, self._forget)
            if key is None:
                return self._boxed_call(args, kwargs) if points is None else self._plain_call(args, kwargs, points)
            kind = self._kinds.get(key)
            if kind is None:
                return self._trace(key, args, kwargs, points, None)
            if not kwargs and not self._static and all(x.__class__ is ARRAY or x.__class__ is float for x in args):
                self._note_usual(args, kind)
        if kind.eager is not None:
            return self._f(*args, **kwargs)
        paths = kind.paths
        for path in paths:
            outside = path.surroundings.read()
            if outside is None:
                continue
            try:
                outputs = path.choice.run((*points, *outside) if outside else points)
            except GuardFailed as stop:
                if stop.guard.finite:
                    return self._careful(kind, args, kwargs, points)
                continue
            except BoundsError:  # a fault of ours, which is to be seen
                raise
            except Exception:  # the function itself raises it, at the user's line
                return self._fallback(args, kwargs)
            path.hits += 1
            if not finite(outputs):
                return self._careful(kind, args, kwargs, points)
            if path.writes:
                return self._finish(path, outputs, (*points, *outside), args, kwargs)
            return tree.unflatten(path.program.structure, outputs)
        if points is args:
            key, points = kind_of(args, kwargs, self._static, self._static_names, self._forget)
        return self._trace(key, args, kwargs, points, paths)

    def _finish(self, path, outputs, points, args, kwargs):
        """Return results of a path; see `_written`."""
        others = [x for x, *_ in path.surroundings.arrays]  # the function reads these, too
        return self._written(path.program.structure, outputs, path.writes, points, others, args, kwargs)

    def _written(self, structure, outputs, writes, points, others, args, kwargs):
        """Return results; what the function wrote into its arguments, or arrays outside, is written there."""
        if writes:
            if len(points) <= max(writes) or not can_write([*points, *others], writes):
                return self._fallback(args, kwargs)
            for k, y in zip(writes, outputs[-len(writes) :], strict=True):
                points[k][...] = y
            outputs = outputs[: -len(writes)]
        return tree.unflatten(structure, outputs)

    def _note_usual(self, args, kind):
        """Let later calls with such arguments, arrays by rows and floats, by position, find their kind at once."""
        if not all(x.__class__ is float or x.flags.c_contiguous for x in args):
            return
        if len(self._usual) >= KINDS:
            self._usual.clear()
        self._usual[tuple([(x.shape, x.dtype, True) if x.__class__ is ARRAY else x.__class__ for x in args])] = kind

    def _forget(self, dead):
        """Drop what is kept for an object that is no more."""
        for key in [k for k in list(self._kinds) if any(part.__class__ is tuple and part[-1] is dead for part in k)]:
            self._kinds.pop(key, None)

    def _plain_call(self, args, kwargs, why):
        """Run a call that no program can take as Python."""
        y = self._fallback(args, kwargs)
        self._warn(why)
        return y

    # -- tracing -----------------------------------------------------------------------------------------------

    def _trace(self, key, args, kwargs, points, tried):
        """Run the function once as Python, record it, and compile what was recorded; `tried` paths did not fit."""
        with self._lock:
            kind = self._kinds.get(key)
            if kind is not None and kind.paths is not tried:  # another thread was faster
                return self(*args, **kwargs)
            if kind is None:
                if len(self._kinds) >= KINDS:
                    self._kinds.pop(next(iter(self._kinds)))
                    self._usual.clear()
                kind = self._kinds[key] = Kind()
            kind.paths = [p for p in kind.paths if p.surroundings.same()]
            kind.careful = [p for p in kind.careful if p.surroundings.same()]
            if kind.traces >= PATIENCE * self._most:
                guards = kind.paths[0].program.guards if kind.paths else ()  # none of the paths may be left
                return self._give_up(
                    kind, args, kwargs,
                    f"it took {kind.traces} different ways, the last one at {guards[-1].place}" if guards
                    else f"its surroundings changed {kind.traces} times",
                )  # fmt: skip
            kind.traces += 1
            if len(kind.paths) >= self._most:  # the one that served least often makes room
                least = min(kind.paths, key=lambda p: p.hits)
                kind.paths = [p for p in kind.paths if p is not least]  # others may be going through the old list
            start = time.perf_counter()
            try:
                path, outputs = self._path(args, kwargs, careful=False)
            except Borrowed:
                kind.traces -= 1
                y = self._fallback(args, kwargs)
                self._warn("it reads a value that another transform traces; give it as an argument", for_good=False)
                return y
            except Untraceable as why:
                kind.impure += 1
                if isinstance(why, Impure) and kind.impure < IMPURE:
                    return self._as_run(why, args, kwargs)
                return self._give_up(kind, args, kwargs, why)
            finally:
                self._stats.seconds += time.perf_counter() - start
            kind.paths = [path, *kind.paths]
            if finite(outputs):
                given = (*points, *(path.surroundings.read() or ()))
                outputs = [fresh(y) for y in outputs]
                return self._finish(path, outputs, given, args, kwargs)
            return self._careful(kind, args, kwargs, points)

    def _as_run(self, why, args, kwargs):
        """Return what a run gave that can't be a program; it is run anew where its results may not be eager's."""
        result = why.result
        if result is None:
            return self._f(*args, **kwargs)
        apart = not result.writes or can_write([*result.points, *result.others], result.writes)
        if not (apart and finite(result.values)):
            result.undo()
            return self._f(*args, **kwargs)
        return self._written(result.structure, result.values, result.writes, result.points, result.others, args, kwargs)

    def _path(self, args, kwargs, careful):
        """Record the function, and compile what was recorded. Much is made for it, and little of that can be freed."""
        _level.hold_gc(times=20)
        try:
            return self._recorded(args, kwargs, careful)
        finally:
            _level.release_gc()

    def _recorded(self, args, kwargs, careful):
        backend = checked(self._backend or config.backend)
        leaves, _ = tree.flatten((args, kwargs))
        static = static_flags(args, kwargs, self._static, self._static_names) or [False] * len(leaves)
        dynamic = [isinstance(x, DYNAMIC) and not s for x, s in zip(leaves, static, strict=True)]
        roots = [self._f, *[x for x, d in zip(leaves, dynamic, strict=True) if not d]]
        with np.errstate(all="ignore"):
            try:
                self._stats.traces += 1
                made, surroundings = watched(self._f, roots, args, kwargs, dynamic, careful=careful)
            except Borrowed:  # it has not run
                self._stats.traces -= 1
                raise
        try:
            program = optimise(made.program)
            choice = Choice(program, "numpy" if careful and backend == "auto" else backend)
        except Exception as error:  # a fault of ours; the function can still be run
            raise Untraceable(f"its program can't be built: {type(error).__name__}: {error}".split("\n")[0]) from error
        self._stats.paths += 1
        return Path(program, choice, surroundings, made.writes), made.outputs

    def _careful(self, kind, args, kwargs, points):
        """Run a call whose result is not finite again: by a program with masks, then by the function."""
        with self._lock:
            for other in kind.careful:
                outside = other.surroundings.read()
                if outside is not None:
                    try:
                        outputs = other.choice.run((*points, *outside))
                    except GuardFailed as stop:
                        if stop.guard.finite:
                            return self._fallback(args, kwargs)
                        continue
                    except BoundsError:
                        raise
                    except Exception:
                        return self._fallback(args, kwargs)
                    return self._finish_careful(other, outputs, (*points, *outside), args, kwargs)
            if len(kind.careful) < self._most and kind.eager is None:
                start = time.perf_counter()
                try:
                    other, outputs = self._path(args, kwargs, careful=True)
                except (Untraceable, Borrowed):
                    return self._fallback(args, kwargs)
                finally:
                    self._stats.seconds += time.perf_counter() - start
                kind.careful.insert(0, other)
                given = (*points, *(other.surroundings.read() or ()))
                return self._finish_careful(other, [fresh(y) for y in outputs], given, args, kwargs)
        return self._fallback(args, kwargs)

    def _finish_careful(self, path, outputs, points, args, kwargs):
        if finite(outputs):
            return self._finish(path, outputs, points, args, kwargs)
        return self._fallback(args, kwargs)

    def _fallback(self, args, kwargs):
        self._stats.fallbacks += 1
        return self._f(*args, **kwargs)

    def _give_up(self, kind, args, kwargs, why):
        """Run the function as Python from now on, for arguments of this kind."""
        if isinstance(why, Untraceable):
            y = self._as_run(why, args, kwargs)
        else:
            y = self._f(*args, **kwargs)  # raises what the function raises
        kind.eager = str(why)
        self._stats.eager = (*self._stats.eager, str(why))
        self._warn(str(why))
        return y

    def _warn(self, why, for_good=True):
        """Say once why the function is run as Python."""
        if not self._warned:
            self._warned = True
            line = user_line()
            warnings.warn(
                f"{name_of(self._f)} is {'not compiled but' if for_good else 'this time'} run as Python: {why}"
                + (f"\n  called at {line}" if line else ""),
                CompileWarning,
                stacklevel=depth_of_user(),
            )  # fmt: skip

    # -- under transforms --------------------------------------------------------------------------------------

    def _boxed_call(self, args, kwargs):
        """Call with traced values among the arguments.

        A program that is being recorded takes in the calls of the function. For derivatives the call is one with a rule
        of its own, whose pullback and pushforward are compiled functions.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if any(ordinary(x) for x in leaves if isinstance(x, Boxed)):
            return self._f(*args, **kwargs)
        if self._derivatives is None:
            self._derivatives = {}
        key = (structure, *orders_of(args, kwargs))
        known = self._derivatives.get(key)
        if known is None:
            known = self._derivatives[key] = Derivatives(self, structure).definition
        try:
            return call(known, leaves, {})
        except (Writes, NotDifferentiableError):  # it does what a call with a rule can't: its code is gone through
            return self._f(*args, **kwargs)

    # -- for people --------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return counts of what has happened so far."""
        paths = [p.choice for k in list(self._kinds.values()) for p in (*k.paths, *k.careful)]
        shares = [c.share for c in paths if c.native]
        found = Stats(**vars(self._stats))
        found.bytes, found.native = sum([c.bytes for c in paths]), len(shares)
        found.share = sum(shares) / len(shares) if shares else 0.0
        return found

    def programs(self) -> list[Program]:
        """Return the optimised programs that are compiled, the last used kind of arguments last."""
        return [p.program for k in self._kinds.values() for p in (*k.paths, *k.careful)]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return what a call with these arguments runs: the program, and the source that the back end made of it."""
        leaves, _ = tree.flatten((args, kwargs))
        if any(isinstance(x, Boxed) for x in leaves):
            raise TypeError("lower needs plain arguments")
        path, _ = self._path(args, kwargs, careful=False)
        choice = path.choice
        if not choice.native and checked(self._backend or config.backend) == "auto" and installed():
            choice.switch()
        return Lowered(path.program, choice.source, choice.native, choice.share)


def compile(
    f: Callable | None = None, *, static_argnums: Any = (), static_argnames: Any = (), paths: int = PATHS,
    backend: str | None = None,
) -> Any:  # fmt: skip
    """Return `f` compiled: run as Python once for each kind of arguments, and as a program afterwards.

    Parameters
    ----------
    f : callable
        Takes and returns arrays, numbers, or containers of them; it may be the result of a transform. Left out,
        `compile` is a decorator with options.
    static_argnums, static_argnames
        Arguments (numbers, names) that are constants: the function is compiled anew for each value, which must be
        hashable. Python's ints, strings, bools and None always are.
    paths : int
        How many ways through the function, by its ``if`` and ``while``, are compiled for one kind of arguments. With
        more, the function is run as Python, and a `CompileWarning` says why.
    backend : str, optional
        What runs its programs: ``"numpy"``, ``"native"`` (machine code at once; needs llvmlite) or ``"auto"`` (NumPy
        first, machine code for what runs long enough). By default `chainrule.config.backend`.

    Returns
    -------
    Compiled
        Called as `f`, with the same results. ``stats()`` counts what happened, ``lower(*args)`` shows the program.

    Notes
    -----
    Output (``print``) takes place while the function is traced, not in later calls. What the function writes into
    arrays is written in each call. A function that draws random numbers, asks a clock, or changes objects and lists
    that it reads, is run as Python. What it reads from its surroundings is compared at each call; arrays of floats in
    globals and closures are read anew.

    Examples
    --------
    >>> import chainrule as cr, numpy as np
    >>> @cr.compile
    ... def f(x):
    ...     return np.sum(np.sin(x) ** 2) if x[0] > 0 else np.sum(x)
    >>> f(np.array([0.5, 1.0])), f(np.array([-0.5, 1.0])), f(np.array([-2.5, 1.0]))
    (np.float64(0.9379222653395013), np.float64(0.5), np.float64(-1.5))
    >>> f.stats().traces
    2
    >>> cr.compile(cr.grad(f))(np.array([0.5, 1.0]))
    array([0.84147098, 0.90929743])
    """
    if f is None:
        return functools.partial(
            compile, static_argnums=static_argnums, static_argnames=static_argnames, paths=paths, backend=backend
        )
    if isinstance(f, Compiled):
        if static_argnums == () and static_argnames == () and backend in (None, f._backend):
            return f
        f = f._f
    return Compiled(f, static_argnums, static_argnames, paths, backend)
