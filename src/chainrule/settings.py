"""Switches of the library: `chainrule.config`. Few, and none that a program needs to be right.

An assignment holds for the process. ``with config(...)`` holds for the thread or task that is in the block, and wins
over what others assign. All values live in one tuple that is replaced as a whole, so that a reader never sees half of a
change.
"""

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

CORES = "\n  to go on: 1 is the calling thread alone; for all cores, os.cpu_count()"
BACKENDS = ("auto", "numpy", "native")


class Values(NamedTuple):
    """The settings at one moment."""

    backend: str = "auto"
    exact_math: bool = False
    check_bounds: bool = False
    threads: int = 1


_INSIDE: ContextVar[Values | None] = ContextVar("chainrule_config", default=None)


class Config:
    """The switches of `chainrule.compile`. They are read when a program is built; what is built stays as it is.

    `threads` is read at each call, since it changes nothing but the time.

    Attributes
    ----------
    backend : str
        What runs compiled functions. ``"numpy"``: calls of NumPy. ``"native"``: machine code at once, as far as there
        is a lowering. ``"auto"``: calls of NumPy first, and machine code once a program has run for longer than its
        translation will take. Machine code needs llvmlite (``pip install 'chainrule[fast]'``); without it, ``"auto"``
        is ``"numpy"``, and ``"native"`` an error.
    exact_math : bool
        Let machine code call the scalar functions of the C library (within 1 ulp, mostly) where it would call vector
        mathematics (within 4 ulp).
    check_bounds : bool
        Let machine code check each address before it reads or writes there, and raise `chainrule.errors.BoundsError`
        for one that is not in the memory it is meant for: a fault of chainrule's own. It takes a little longer.
    threads : int
        How many threads a call of machine code may use for its long loops, the calling one among them. Results do not
        depend on it. (What BLAS does with threads is BLAS's own setting.)

    Notes
    -----
    ``config(backend="numpy")`` is a context manager (and a decorator) for the thread or asynchronous task that is in
    it; an assignment within the block ends with the block. An assignment outside holds for all threads.

    Examples
    --------
    >>> import chainrule as cr
    >>> with cr.config(backend="numpy"):
    ...     cr.config.backend
    'numpy'
    >>> cr.config
    config(backend='auto', exact_math=False, check_bounds=False, threads=1)
    """

    __slots__ = ("_lock", "_values")

    def __init__(self) -> None:
        object.__setattr__(self, "_values", Values())
        object.__setattr__(self, "_lock", threading.Lock())

    @property
    def values(self) -> Values:
        """All settings, as a tuple that stays as it is."""
        return _INSIDE.get() or self._values

    def __getattr__(self, name: str) -> Any:
        if name in Values._fields:
            return getattr(self.values, name)
        raise AttributeError(f"config has no {name!r}; it has {', '.join(Values._fields)}")

    def __setattr__(self, name: str, value: Any) -> None:
        with self._lock:
            inside = _INSIDE.get()
            changed = replaced(inside or self._values, {name: value})
            if inside is None:
                object.__setattr__(self, "_values", changed)
            else:
                _INSIDE.set(changed)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *Values._fields})

    def __repr__(self) -> str:
        return f"config({', '.join(f'{k}={v!r}' for k, v in self.values._asdict().items())})"

    @contextlib.contextmanager
    def __call__(self, **changes: Any) -> Iterator["Config"]:
        """Change settings within a ``with`` block."""
        token = _INSIDE.set(replaced(self.values, changes))
        try:
            yield self
        finally:
            _INSIDE.reset(token)


def replaced(values: Values, changes: dict) -> Values:
    """Return the settings after changes.

    Raises
    ------
    AttributeError
        For a name that is no setting.
    TypeError, ValueError
        For a value that a setting can't have.
    """
    for name, value in changes.items():
        if name not in Values._fields:
            raise AttributeError(f"config has no {name!r}; it has {', '.join(Values._fields)}")
        if name == "backend" and value not in BACKENDS:
            raise ValueError(f"config.backend is one of {', '.join(map(repr, BACKENDS))}, not {value!r}")
        if name in ("exact_math", "check_bounds") and value.__class__ is not bool:
            raise TypeError(f"config.{name} is True or False, not {value!r}")
        if name == "threads" and value.__class__ is not int:
            raise TypeError(f"config.threads is a number of threads, an int from 1 on, not {value!r}{CORES}")
        if name == "threads" and value < 1:
            raise ValueError(f"config.threads is a number of threads, 1 or more, not {value!r}{CORES}")
    return values._replace(**changes)


config = Config()
