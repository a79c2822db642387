"""Samples of the functions that change shapes, join, index, choose: one line for each way of calling."""

import numpy as np

from chainrule.testing.samples import array, sample

# fmt: off
SAMPLES = [
    sample(np.reshape, array(2, 3), (3, 2)),
    sample(np.transpose, array(2, 3)),
    sample(np.transpose, array(2, 1, 3), (1, 2, 0)),
]
# fmt: on
