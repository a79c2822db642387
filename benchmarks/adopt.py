"""What `adopt` adds to a call: microseconds, for a small function, for one with helpers, and in a large module.

python benchmarks/adopt.py
"""

import math
import timeit

import numpy as np

import chainrule as cr

for _k in range(20_000):  # a large module: names that the functions do not mention
    globals()[f"name_{_k}"] = _k


def square(x):
    """Mention no global at all."""
    return x * x


def helper(x):
    """Use two modules."""
    return math.sin(x) + np.sum(np.zeros(3))


def with_helpers(x):
    """Call two other functions."""
    return helper(x) + square(x) + len([x])


def filled(x, n=100):
    """Fill a buffer."""
    out = np.zeros(n)
    out[0] = x
    for i in range(1, n):
        out[i] = math.sin(out[i - 1])
    return out[-1]


def microseconds(f):
    """Return the least time of a call, over five series."""
    f(0.5)
    n = 2000
    return min(timeit.repeat(lambda: f(0.5), number=n, repeat=5)) / n * 1e6


if __name__ == "__main__":
    print(f"{'':16}{'plain':>10}{'adopted':>10}{'gradient':>10}   us per call")
    for f in (square, with_helpers, filled):
        g = cr.adopt(f)
        print(f"{f.__name__:16}{microseconds(f):10.2f}{microseconds(g):10.2f}{microseconds(cr.grad(g)):10.2f}")
