"""Samples of the engine's own primitives, which rules are written with: reading, writing, broadcasting, casting."""

import numpy as np

from chainrule.engine.indexing import final_entries, getitem, picked, put, scatter, unpicked
from chainrule.engine.spec import cast_to, choose, real_part, spread_to, sum_to
from chainrule.rules.scalars import number
from chainrule.testing.samples import array, sample

MASK = np.array([[True, False, True], [False, False, True]])


def scattered(v, index, shape):
    """Scatter into zeros of the dtype of what is scattered."""
    return scatter(v, index=index, shape=shape, dtype=v.dtype)


# fmt: off
SAMPLES = [
    sample(getitem, array(3), index=1), sample(getitem, array(2, 3), index=(slice(None), 1)),
    sample(getitem, array(2, 3), index=(Ellipsis, None, slice(None, None, -2))),
    sample(getitem, array(4), index=np.array([2, 0, 2])), sample(getitem, array(2, 3), index=MASK),
    sample(getitem, array(2, 3, 4), index=(np.array([[1], [0]]), slice(1, None), np.array([3, 3]))),
    sample(getitem, array(2, 0), index=(0,)),
    sample(scattered, array(2), np.array([3, 1]), (4,)).of(scatter),
    sample(scattered, array(3), np.array([3, 1, 3]), (4,)).of(scatter),
    sample(scattered, array(2), (slice(None), 1), (2, 3)).of(scatter),
    sample(scattered, array(3), MASK, (2, 3)).of(scatter),
    sample(picked, array(2, 3), np.array([[5, 0], [5, 1]])), sample(picked, array(3), np.array(1)),
    sample(unpicked, array(2, 2), np.array([[5, 0], [5, 1]]), shape=(2, 3)),
    sample(put, array(3), array(), index=1), sample(put, array(2, 3), array(3), index=1),
    sample(put, array(2, 3), array(2, 1), index=(slice(None), slice(1, None))),
    sample(put, array(4), array(3), index=np.array([2, 0, 2])).of(final_entries),
    sample(put, array(2, 3), array(), index=MASK),
    sample(put, array(3), array(1, 2), index=slice(0, 2)),
    sample(sum_to, array(2, 3), shape=(3,)), sample(sum_to, array(2, 3), shape=(2, 1)),
    sample(sum_to, array(2, 3), shape=()), sample(sum_to, array(2, 3), shape=(2, 3)),
    sample(spread_to, array(3), shape=(2, 3)), sample(spread_to, array(2, 1), shape=(2, 3)),
    sample(spread_to, array(), shape=(2,)),
    sample(cast_to, array(3), dtype=np.dtype("float64")), sample(cast_to, array(3), dtype=np.dtype("complex128")),
    sample(cast_to, array(2, 3), dtype=np.dtype("float32")).only("float32", "float16", "complex64"),
    sample(choose, MASK, array(2, 3)), sample(choose, np.array([True, False]), array(2)),
    sample(real_part, array(3)), sample(real_part, array()),
    sample(number, array()), sample(number, array(1)), sample(number, array(1, 1)),
]
# fmt: on
