"""Samples of elementwise functions: policy points, and functions that take more than operands.

Generic points of elementwise rules need no line here; see `samples`.
"""

import numpy as np

from chainrule.testing.samples import policy

# fmt: off
SAMPLES = [
    policy(np.power, 0.0, 2.0).gives(0.0, 0.0),
    policy(np.power, 0.0, 1.0).gives(1.0, 0.0),
    policy(np.square, 0.0).gives(0.0),
]
# fmt: on
