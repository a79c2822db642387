"""What a call of a compiled function takes to compare its surroundings: microseconds for five things, for one array.

python benchmarks/surroundings.py
"""

import timeit

import numpy as np

import chainrule as cr

rate, scale, offset = 0.1, 2.0, 1.0
config = {"lr": 0.5, "on": True}
weights = np.ones(3)


def inner(x):
    """Read a global from a function that is a global itself."""
    return x * rate


def five(x):
    """Read four numbers and a function."""
    return inner(x) * scale + offset * config["lr"]


def captured(x):
    """Read an array, which is an input of the program."""
    return x * weights


def alone(x):
    """Read nothing."""
    return x * 2.0


def best(run, number=20_000):
    """Return the microseconds of one run, of the fastest repetition."""
    return min(timeit.repeat(run, number=number, repeat=15)) / number * 1e6


def main():
    """Print a line for each function."""
    x = np.arange(3.0)
    print(f"{'reads':10s} {'things':>7s} {'comparison us':>14s} {'call us':>9s} {'plain us':>9s}")
    for f in (alone, captured, five):
        g = cr.compile(f)
        g(x)
        g(x)
        assert g.stats().traces == 1
        (kind,) = g._kinds.values()
        found = kind.paths[0].surroundings
        times = [best(h) for h in (found.read, lambda g=g: g(x), lambda f=f: f(x))]
        print(f"{f.__name__:10s} {found.count:7d} {times[0]:14.3f} {times[1]:9.2f} {times[2]:9.2f}")


if __name__ == "__main__":
    main()
