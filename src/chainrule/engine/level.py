"""Levels: which of several nested transforms a value belongs to.

A level is a token from one process-wide counter, taken when a transform starts and never used again. An inner
transform always has the higher token, in whatever thread, task or generator it runs; so the derivatives of nested
transforms can't be confused, and nothing has to be restored when a function is left by an exception.

Values made by hand (`Variable`, `Dual`) get a fraction: above every box inside them, below every transform that
starts later.

`no_grad` is a level, too: the token taken when the block starts. Values with a lower level are not recorded inside it;
a transform that starts inside the block has a higher one, and works as always. It is the only state kept per context.
"""

import contextvars
import functools
import gc
import inspect
import itertools
import math
import threading
from collections.abc import Callable

import numpy as np

from chainrule.engine.memory import settle
from chainrule.errors import LeakedValueError

_tokens = itertools.count(1)
_open = {}  # token -> the function under the transform
_ended = {}  # the last few thousand ended tokens, for the error message only
_ENDED_KEPT = 4096

paused = 0  # how many no_grad blocks are open in the whole process: 0 lets every operation skip the context variable
_pause_level = contextvars.ContextVar("chainrule_no_grad", default=0)
_lock = threading.Lock()

gc_threshold = 200_000  # first threshold of the garbage collector while a transform runs; 0 leaves it alone
_gc_users = 0
_gc_before = None


class running:
    """Context of one transform: takes a level, and closes it at the end."""

    __slots__ = ("origin", "token")

    def __init__(self, origin):
        self.origin = origin

    def __enter__(self):
        token = self.token = next(_tokens)
        _open[token] = self.origin
        hold_gc()
        return token

    def __exit__(self, *exc):
        token = self.token
        origin = _open.pop(token)
        if len(_ended) >= _ENDED_KEPT:
            with _lock:
                for old in list(itertools.islice(_ended, _ENDED_KEPT // 2)):
                    _ended.pop(old, None)
        _ended[token] = getattr(origin, "__code__", origin if isinstance(origin, str) else None)
        release_gc()
        return False


class reopened:
    """Context in which the values of `level` are recorded although its transform has ended: to run a part of it again.

    A pullback may run after its transform's own code, or inside `no_grad`.
    """

    __slots__ = ("closed", "pause", "token")

    def __init__(self, level):
        self.token = int(level)

    def __enter__(self):
        self.closed = self.token not in _open
        if self.closed and self.token:
            _open[self.token] = _ended.get(self.token)
        self.pause = _pause_level.set(0)

    def __exit__(self, *exc):
        if self.closed:
            _open.pop(self.token, None)
        _pause_level.reset(self.pause)
        return False


def hold_gc(times=1):
    """Raise the garbage collector's first threshold: its default takes half the time of a long tape.

    Programs are recorded with one that is so many `times` larger: next to nothing of what is made then can be freed.
    """
    global _gc_users, _gc_before
    if not gc_threshold:
        return
    with _lock:
        if _gc_before is None:  # the first pass of the process
            settle()
        if _gc_users == 0:
            _gc_before = gc.get_threshold()
        if 0 < gc.get_threshold()[0] < gc_threshold * times:
            gc.set_threshold(gc_threshold * times, *_gc_before[1:])
        _gc_users += 1


def release_gc():
    """Undo `hold_gc` when its last user is done."""
    global _gc_users
    if not gc_threshold and not _gc_users:
        return
    with _lock:
        _gc_users -= 1
        if _gc_users == 0:
            gc.set_threshold(*_gc_before)


def above(level):
    """Return a level above `level` and below that of every transform that starts later."""
    return (level + int(level) + 1) / 2


def is_open(level):
    """Tell whether the transform of `level` is still running (levels 0 and infinity are no transform's)."""
    if level == math.inf:
        return True
    token = int(level)
    return token == 0 or token in _open


def check_open(level):
    """Raise `LeakedValueError` unless `level` is open."""
    if not is_open(level):
        raise LeakedValueError(describe(int(level)))


def describe(token):
    """Name the function that a level's transform ran, with its file and line."""
    origin = _open.get(token, _ended.get(token))
    code = getattr(origin, "__code__", origin)
    if hasattr(code, "co_filename"):
        return f"{code.co_name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"
    return str(code) if isinstance(code, str) else "a function under a transform"


def is_paused(level):
    """Tell whether operations on values of `level` go unrecorded here. Ask only while `paused` is not 0."""
    return level < _pause_level.get()


class no_grad:
    """Do not record operations inside a block, or inside a function.

    Results of operations on traced values inside the block are constants for all derivatives. A transform that starts
    inside the block is not affected. As a decorator it also covers generators and coroutines: the block is entered
    anew at each resumption, so the caller's own code in between records as always. (A plain ``with no_grad():`` around
    a ``yield`` holds, as everything in the generator's context, until the generator leaves the block.)

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> x = cr.Variable(np.array([1.0, 2.0]))
    >>> np.sum(x**2).backward()
    >>> with cr.no_grad():
    ...     x -= 0.1 * x.grad
    >>> x.data
    array([0.8, 1.6])
    """

    def __init__(self):
        self._tokens = []

    def __enter__(self):
        global paused
        self._tokens.append(_pause_level.set(next(_tokens)))
        with _lock:
            paused += 1
        return self

    def __exit__(self, *exc):
        global paused
        with _lock:
            paused -= 1
        token = self._tokens.pop()
        try:
            _pause_level.reset(token)
        except ValueError:  # left in another context than it was entered in (a generator closed elsewhere)
            _pause_level.set(token.old_value if token.old_value is not token.MISSING else 0)
        return False

    def __new__(cls, function=None):  # noqa: D102 (`@no_grad` without parentheses)
        if function is not None:
            return object.__new__(cls)(function)
        return object.__new__(cls)

    def __call__(self, function: Callable) -> Callable:  # noqa: D102 (the decorator)
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapped(*args, **kwargs):
                return _drive(function(*args, **kwargs))

        elif inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapped(*args, **kwargs):
                return await _Awaited(function(*args, **kwargs))

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapped(*args, **kwargs):
                source = function(*args, **kwargs)
                sent = None
                try:
                    while True:
                        try:
                            sent = yield await _Awaited(source.asend(sent))
                        except StopAsyncIteration:
                            return
                finally:
                    await source.aclose()

        else:

            @functools.wraps(function)
            def wrapped(*args, **kwargs):
                with no_grad():
                    return function(*args, **kwargs)

        return wrapped


def _drive(generator):
    """Run a generator or coroutine, inside `no_grad` while its own code runs and outside while it waits."""
    send, value = generator.send, None
    try:
        while True:
            with no_grad():
                try:
                    item = send(value)
                except StopIteration as stop:
                    return stop.value
            try:
                value = yield item
                send = generator.send
            except GeneratorExit:
                raise
            except BaseException as error:
                value, send = error, generator.throw
    finally:
        with no_grad():
            generator.close()


class _Awaited:
    """An awaitable whose own code runs inside `no_grad`, and whose waiting does not."""

    def __init__(self, awaitable):
        self.awaitable = awaitable

    def __await__(self):
        inner = self.awaitable
        if not hasattr(inner, "send"):
            inner = inner.__await__()
        return _drive(inner)


def quiet():
    """Silence NumPy's float warnings: one `errstate` per backward pass, since 0 * inf in a dead branch is no fault."""
    return np.errstate(all="ignore")
