"""What makes a function give another result each time: random generators, clocks, files, the system's randomness."""

import random

import numpy as np

from chainrule.program.names import Names

CLOCKS = {
    "time": {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
             "process_time_ns", "thread_time", "localtime", "gmtime", "ctime", "strftime"},
    "datetime": {"now", "today", "utcnow"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4"},
    "secrets": {"token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice", "SystemRandom"},
    "random": {"SystemRandom"},
    "numpy": {"load", "loadtxt", "genfromtxt", "fromfile", "memmap"},
}  # fmt: skip
MODULES = {"posix": "os", "nt": "os"}


def clock(names: Names, space: dict) -> str | None:
    """Return the name of a clock, a file, or the system's randomness, that code with these globals reads."""
    for name in {"open", "input"} & names.globals:
        if name not in space:
            return name
    for name in names.imports & CLOCKS.keys():
        hit = CLOCKS[name] & names.attributes
        if hit:
            return f"{name}.{min(hit)}"
    for name in names.globals & space.keys():
        v = space[name]
        if hasattr(v.__class__, "__getattr__"):  # code of a user's, which may do anything
            continue
        own = getattr(v, "__name__", None)
        home = getattr(v, "__module__", None)
        home = MODULES.get(home, home) if isinstance(home, str) else None
        if isinstance(own, str) and own in CLOCKS and v.__class__.__name__ == "module":
            hit = CLOCKS[own] & names.attributes
        elif home == "datetime" and isinstance(v, type):
            hit = CLOCKS[home] & names.attributes
        else:
            hit = {own} if home in CLOCKS and own in CLOCKS[home] else None
        if hit:
            return f"{own}.{min(hit)}" if min(hit) != own else f"{home}.{own}"
    return None


def is_generator(v) -> bool:
    """Tell whether an object is a random generator."""
    return isinstance(v, (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random))


def state_of(v):
    """Return the state of a random generator."""
    if isinstance(v, random.Random):
        return v.getstate()
    if isinstance(v, np.random.Generator):
        v = v.bit_generator
    return v.get_state(legacy=False) if isinstance(v, np.random.RandomState) else v.state


def put_back(v, state) -> None:
    """Give a random generator an earlier state."""
    if isinstance(v, random.Random):
        v.setstate(state)
        return
    if isinstance(v, np.random.Generator):
        v = v.bit_generator
    if isinstance(v, np.random.RandomState):
        v.set_state(state)
    else:
        v.state = state


class Chance:
    """The random generators that a function can reach, with NumPy's and Python's global ones, before a run of it."""

    def __init__(self, generators=()) -> None:
        self.before = [(np.random.mtrand._rand, None), (random._inst, None)]
        self.before = [(g, state_of(g)) for g in [g for g, _ in self.before] + list(generators)]

    def moved(self) -> bool:
        """Tell whether one of them has been drawn from."""
        return any(not equal(state_of(g), state) for g, state in self.before)

    def knows(self, g) -> bool:
        """Tell whether a generator is among them."""
        return any(g is known for known, _ in self.before)

    def put_back(self) -> None:
        """Undo what was drawn."""
        for g, state in self.before:
            if not equal(state_of(g), state):
                put_back(g, state)


def equal(a, b) -> bool:
    """Compare states: nested dicts and tuples of numbers and arrays."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
