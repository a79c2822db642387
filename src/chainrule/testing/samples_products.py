"""Samples of reductions, products and linear algebra: one line for each way of calling."""

from chainrule.testing.samples import array, sample  # noqa: F401

# fmt: off
SAMPLES = [
]
# fmt: on
