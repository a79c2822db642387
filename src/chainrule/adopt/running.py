"""What `adopt` returns for a function: a function that runs the twin in a session.

While a session runs, adopted functions of its package that are called in any way run in it, too, so that all see the
same globals. One of another package has a session of its own.
"""

import functools
import inspect
import types
import weakref
from typing import Any

from chainrule.adopt.session import ADOPTED, SELF_OF, Session, home_of, is_adopting
from chainrule.adopt.state import here, holds_traced
from chainrule.engine import level
from chainrule.engine.buffer import Buffer, plain

SPARE = 8  # sessions kept for one function: as many as run at the same time

_wrappers: weakref.WeakKeyDictionary[Any, Any] = (
    weakref.WeakKeyDictionary()
)  # function -> weak reference to what `adopt` returned for it


def adopted(f):
    """Return the adopted form of a Python function, always the same one."""
    if f in ADOPTED or is_adopting(f.__globals__):
        return f
    known = _wrappers.get(f)
    known = known and known()
    if known is None:
        if inspect.isgeneratorfunction(f):
            known = stepwise(f)
        elif inspect.iscoroutinefunction(f):
            known = awaited(f)
        else:
            known = direct(f)
        ADOPTED[known] = f
        _wrappers[f] = weakref.ref(known)
    return known


class Pool:
    """Sessions of one function that are not in use. They live as long as the function, and do not keep it alive."""

    __slots__ = ("package", "spare")

    def __init__(self, package):
        self.package, self.spare = package, []

    def __reduce__(self):
        return Pool, (self.package,)

    def take(self, f):
        """Return a session that is up to date."""
        while self.spare:
            try:
                session = self.spare.pop()
            except IndexError:  # another thread was faster
                break
            if session.renew():
                return session
        return Session(f)

    def give(self, session):
        """End a session's run."""
        session.flush()
        if len(self.spare) < SPARE:
            self.spare.append(session)


_pools: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # function -> Pool


def pool_of(f):
    """Return the pool of a function, so that adopting it once more does not make its sessions anew."""
    if f not in _pools:
        _pools[f] = Pool(home_of(f))
    return _pools[f]


def direct(f):
    """Return the adopted form of a function that runs when it is called."""
    pool = pool_of(f)
    method = "." in f.__qualname__ and f.__name__ if not f.__qualname__.endswith(f"<locals>.{f.__name__}") else None

    @functools.wraps(f)
    def call(*args, **kwargs):
        if method and args and getattr(type(args[0]), method, None) in (f, call):
            args = (SELF_OF[0](args[0]), *args[1:])
        before, was_traced = here.sessions, here.traced
        session = before.get(pool.package)
        if session is not None:
            return session.twin(f)(*args, **kwargs)
        session = pool.take(f)
        here.sessions = {**before, pool.package: session}
        try:
            here.traced = bool(
                was_traced
                or level._open
                or holds_traced(args)
                or (kwargs and holds_traced(kwargs.values()))
                or session.holds_traced()
            )
            y = session.entry(*map(session.argument, args), **arguments(session, kwargs))
            return unbuffered(y) if here.traced and not before else y
        finally:
            if here.traced and method and args:
                tidy(args[0])
            here.sessions, here.traced = before, was_traced
            pool.give(session)

    return call


def arguments(session, kwargs):
    """Return keyword arguments as the code shall see them."""
    return {k: session.argument(v) for k, v in kwargs.items()} if kwargs else kwargs


class inside:
    """Context in which a session is this thread's: around each step of a generator."""

    __slots__ = ("before", "session")

    def __init__(self, session):
        self.session = session

    def __enter__(self):
        self.before = here.sessions, here.traced
        here.sessions, here.traced = {**here.sessions, self.session.package: self.session}, True

    def __exit__(self, *exc):
        here.sessions, here.traced = self.before
        self.session.flush()


def stepwise(f):
    """Return the adopted form of a generator function. A session is its own until it ends."""
    pool = pool_of(f)

    @functools.wraps(f)
    def steps(*args, **kwargs):
        session = pool.take(f)
        try:
            generator = session.entry(*map(session.argument, args), **arguments(session, kwargs))
            yield from Steps(generator, session)
        finally:
            pool.give(session)

    # the body runs at the first step; wrong arguments raise at the call, as in the original
    signature = inspect.signature(f)

    @functools.wraps(f)
    def call(*args, **kwargs):
        signature.bind(*args, **kwargs)
        return steps(*args, **kwargs)

    return call


class Steps:
    """A generator of which each step runs in a session."""

    def __init__(self, generator, session):
        self.generator, self.session = generator, session

    def __iter__(self):
        return self

    def __next__(self):
        with inside(self.session):
            return unbuffered(next(self.generator))

    def send(self, v):
        """Resume with a value."""
        with inside(self.session):
            return unbuffered(self.generator.send(v))

    def throw(self, *error):
        """Resume with an exception."""
        with inside(self.session):
            return unbuffered(self.generator.throw(*error))

    def close(self):
        """End the generator."""
        with inside(self.session):
            self.generator.close()


def awaited(f):
    """Return the adopted form of a coroutine function. Adopted code that it awaits has sessions of its own."""
    pool = pool_of(f)

    @functools.wraps(f)
    async def call(*args, **kwargs):
        session = pool.take(f)
        try:
            return unbuffered(await session.entry(*map(session.argument, args), **arguments(session, kwargs)))
        finally:
            pool.give(session)

    return call


def tidy(x):
    """Put plain arrays in place of the buffers that code left in the attributes of an object."""
    for name, v in list(getattr(x, "__dict__", {}).items()):
        if v.__class__ is Buffer:
            x.__dict__[name] = plain(v)


def unbuffered(y, depth=8):
    """Return a result with plain arrays in place of the buffers in it, and in the lists and dicts of it."""
    kind = y.__class__
    if kind is Buffer:
        return plain(y)
    if not depth:
        return y
    if kind is dict or kind is list:
        for k, v in list(y.items() if kind is dict else enumerate(y)):
            new = unbuffered(v, depth - 1)
            if new is not v:
                y[k] = new
    elif isinstance(y, tuple):
        new = [unbuffered(v, depth - 1) for v in y]
        if not all(a is b for a, b in zip(new, y, strict=True)):
            return kind(*new) if hasattr(y, "_fields") else kind(new)
    return y


def original(f):
    """Return the function behind an adopted one; anything else as it is."""
    return ADOPTED.get(f, f) if isinstance(f, types.FunctionType) else f
