"""The table of SciPy's functions that have an entry here, and how one is added.

To add one: write it in terms of functions that have rules (NumPy's, scipy.special's ufuncs, our own primitives in
`chainrule.rules`), with SciPy's signature, and put `entry` above it::

    @entry(scipy.linalg.cho_solve)
    def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True): ...

It then runs wherever an argument is traced; plain arguments go to SciPy's own function. The rule tests ask for a sample
of it, in ``chainrule/testing/samples_scipy.py``. Objects with methods (distributions) are put into `ENTRIES` by hand.
"""

import functools

from chainrule.engine.boxed import Boxed
from chainrule.engine.rule import composite
from chainrule.errors import UnsupportedArgumentError

ENTRIES = {}  # SciPy's function or object -> ours


def traced(x):
    """Tell whether an argument is traced, or a list or tuple that holds a traced value."""
    return isinstance(x, Boxed) or (isinstance(x, list | tuple) and any(map(traced, x)))


def entry(original):
    """Declare a function, given for traced arguments, as the stand-in of one of SciPy's."""

    def declare(written):
        composite(original)(written)

        @functools.wraps(original)
        def call(*args, **kwargs):
            if any(map(traced, args)) or any(map(traced, kwargs.values())):
                return written(*args, **kwargs)
            return original(*args, **kwargs)

        call.__module__, call.__doc__ = written.__module__, written.__doc__  # SciPy's examples are not ours
        ENTRIES[original] = call
        return call

    return declare


def refuse(name, **options):
    """Raise for an option of SciPy's function that has no meaning for traced values, if it is given."""
    for argument, given in options.items():
        if given:
            raise UnsupportedArgumentError(name, argument, "is not supported with traced values", "leave it out.")
