"""Python's own numbers out of traced values: what ``float(x)`` and ``complex(x)`` mean where they can be asked of us.

Python insists that ``float(x)`` be a float, so `float` itself can't keep a derivative; `number` does. Its value is a
Python number, which beside arrays is weak: a float32 array times it stays float32, as in a plain run.
"""

import numpy as np

from chainrule.engine.rule import linear
from chainrule.engine.spec import primitive, spread_to


@primitive
def number(x):
    """Return the only entry of `x` as a Python number: ``x.item()``."""
    return np.asarray(x).item()


# the entry takes it all
linear(number, lambda ybar, y, x: ybar if x.kind == "f" and not x.shape else spread_to(ybar, x.shape))
