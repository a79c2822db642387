"""Loops that fill and read an array entry by entry: time and memory per entry, as the array grows.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/filling.py

Reverse mode (`grad`), forward mode (`jvp`), forward over reverse (`hvp`) and reverse over reverse, each with entries
and with rows. Linear cost means that twice the entries take twice the time: the bar is 2.3. Peak memory is Python's own
count (tracemalloc) of a run of its own.
"""

import statistics
import sys
import time
import tracemalloc

import numpy as np

import chainrule as cr


def entries(x, n):
    """Fill a vector; each entry is computed from the one before."""
    y = np.zeros(n, like=x)
    y[0] = x[0]
    for k in range(1, n):
        y[k] = np.sin(y[k - 1]) * x[k % 4] + 0.1
    return y[-1] + np.sum(y) / n


def rows(x, n):
    """Fill the rows of a matrix; each row is computed from the one before."""
    y = np.zeros((n // 4, 4), like=x)
    y[0] = x
    for k in range(1, n // 4):
        y[k] = np.sin(y[k - 1]) * x + 0.1
        y[k, 0] += y[k - 1, 1]
    return np.sum(y[-1]) + np.sum(y) / n


def columns(x, n):
    """Fill the columns of a matrix."""
    y = np.zeros((4, n // 4), like=x)
    y[:, 0] = x
    for k in range(1, n // 4):
        y[:, k] = np.cos(y[:, k - 1]) * x
    return np.sum(y[:, -1]) + np.sum(y) / n


X = np.linspace(0.3, 0.6, 4)
MODES = {
    "reverse": lambda f: cr.grad(f)(X),
    "forward": lambda f: cr.jvp(f, (X,), (np.ones(4),)),
    "hvp": lambda f: cr.hvp(f, X, np.ones(4)),
}


def seconds(mode, f, n):
    samples = []
    for _ in range(3):
        start = time.perf_counter()
        mode(lambda x: f(x, n))
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def peak(mode, f, n):
    tracemalloc.start()
    mode(lambda x: f(x, n))
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


def main(sizes):
    print("t(2n)/t(n), and memory likewise; bar 2.3")
    for f in (entries, rows, columns):
        for name, mode in MODES.items():
            for n in sizes:
                once, twice = seconds(mode, f, n), seconds(mode, f, 2 * n)
                size = min(n, 20_000)  # tracing memory takes ten times the time
                ratio = peak(mode, f, 2 * size) / peak(mode, f, size)
                print(
                    f"{f.__name__:8s} {name:8s} n = {n:7,d}  {once / n * 1e6:6.1f} us an entry,"
                    f"  time {twice / once:.2f}  memory {ratio:.2f} (n = {size:,d})",
                    flush=True,
                )


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [10_000, 20_000, 100_000])
