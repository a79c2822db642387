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
from chainrule.engine.caller import IN_ADOPTED

SPARE = 8  # sessions kept for one function: as many as run at the same time

IN_ADOPTED[0] = is_adopting  # for the text of errors

# function -> weak reference to what `adopt` returned for it
_wrappers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


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


# function -> Pool
_pools: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def pool_of(f):
    """Return the pool of a function, so that adopting it once more does not make its sessions anew.

    That of a closure belongs to its adopted form alone: a closure that refers to itself would be kept alive by it.
    """
    if f.__closure__:
        return Pool(home_of(f))
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


class Steps:
    """A generator or coroutine of which each step runs in a session."""

    def __init__(self, generator, session, is_traced):
        self.generator, self.session, self.traced = generator, session, is_traced

    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return self.step(self.generator.send, None)

    def send(self, v):
        """Resume with a value."""
        self.traced = self.traced or holds_traced([v])
        return self.step(self.generator.send, v)

    def throw(self, *error):
        """Resume with an exception."""
        return self.step(self.generator.throw, *error)

    def close(self):
        """End it."""
        return self.step(self.generator.close)

    def step(self, resume, *args):
        """Run up to the next stop with the session as this thread's."""
        before = here.sessions, here.traced
        here.sessions = {**here.sessions, self.session.package: self.session}
        here.traced = here.traced or self.traced
        try:
            return unbuffered(resume(*args))
        finally:
            here.sessions, here.traced = before
            self.session.flush()


def begun(session, args, kwargs):
    """Begin a generator or coroutine in a session that is its own until it ends."""
    is_traced = holds_traced(args) or holds_traced(kwargs.values()) or session.holds_traced()
    generator = session.entry(*map(session.argument, args), **arguments(session, kwargs))
    return Steps(generator, session, is_traced)


def stepwise(f):
    """Return the adopted form of a generator function."""
    pool = pool_of(f)

    def steps(session, generator):
        try:
            return (yield from generator)
        finally:
            pool.give(session)

    @functools.wraps(f)
    def call(*args, **kwargs):
        session = pool.take(f)
        return steps(session, begun(session, args, kwargs))

    return call


def awaited(f):
    """Return the adopted form of a coroutine function."""
    pool = pool_of(f)

    @functools.wraps(f)
    async def call(*args, **kwargs):
        session = pool.take(f)
        try:
            return unbuffered(await begun(session, args, kwargs))
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
