"""Machine code beside the NumPy back end: microseconds for a call, milliseconds to compile, and what is in kernels.

For each gradient: the time of a run on either back end and of plain NumPy's value alone; of machine code also the time
that it took to make, the length of its text, which part of the program's calls is in kernels, and which part of the
time. Arguments change between the runs, and the results of both back ends are compared.

    python benchmarks/native.py [part of a name]
"""

import sys
import time

import numpy as np

import chainrule as cr
from chainrule.program import native
from chainrule.program.backend import build as build_numpy
from chainrule.program.native.mixed import Mixed
from chainrule.program.passes import optimise
from chainrule.program.trace import trace

rng = np.random.default_rng(0)
FIXED = rng.normal(size=(256, 256))


def rosenbrock(x):
    """A valley."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def chain(x):
    """Elementwise mathematics."""
    return np.sum(np.log(1.0 + np.sqrt(1.0 + np.tanh(x * np.sin(x)) ** 2 + np.exp(-x * x))) * np.cos(x))


def steps(x):
    """Five hundred steps of a pendulum."""
    for _ in range(500):
        x = x + 0.01 * np.stack([x[1], -np.sin(x[0])])
    return x[0] * x[1]


def newton(a):
    """Square root by Newton's method: the number of steps depends on `a`."""
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def softmax(w, x):
    """Cross entropy of a linear classifier."""
    z = x @ w
    m = np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z - m), axis=1)) + m[:, 0] - z[:, 0])


def network(w1, w2, x):
    """Two layers."""
    return np.mean((np.tanh(x @ w1) @ w2) ** 2)


def kernel(a):
    """A Gaussian process: decompositions between elementwise calls."""
    d = np.sum((a[:, None] - a[None]) ** 2, axis=2)
    k = np.exp(-0.5 * d) + 0.1 * np.eye(len(a))
    return np.sum(np.linalg.solve(k, np.sin(a[:, 0]))) + np.linalg.slogdet(k)[1]


def heat(u):
    """A step of the heat equation on a grid, and its energy."""
    v = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return np.sum(v * v) + np.sum((v[1:] - v[:-1]) ** 2)


# fmt: off
CASES = {
    "rosenbrock 10":      (rosenbrock, (rng.normal(size=10),)),
    "rosenbrock 1e5":     (rosenbrock, (rng.normal(size=100_000),)),
    "chain 1e4":          (chain, (rng.normal(size=10_000),)),
    "chain 1e6":          (chain, (rng.normal(size=1_000_000),)),
    "pendulum":           (steps, (np.array([1.0, 0.1]),)),
    "newton":             (newton, (2.7,)),
    "softmax 1000x50x10": (softmax, (rng.normal(size=(50, 10)), rng.normal(size=(1000, 50)))),
    "network 32x16":      (network, (rng.normal(size=(8, 16)), rng.normal(size=(16, 1)), rng.normal(size=(32, 8)))),
    "network 256x256":    (network, (FIXED / 16, rng.normal(size=(256, 8)), rng.normal(size=(256, 256)))),
    "kernel 60":          (kernel, (rng.normal(size=(60, 2)),)),
    "heat 200x200":       (heat, (rng.normal(size=(200, 200)),)),
}
# fmt: on


def timed(f, budget=0.2):
    """Return the seconds of the fastest batch of calls, for one of them."""
    f(0)
    best, count, end = np.inf, 1, time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        for n in range(count):
            f(n % 2)
        taken = time.perf_counter() - start
        best = min(best, taken / count)
        if taken < 2e-3:
            count *= 2
    return best


def part_of_the_time(runner, points) -> float:
    """Return which part of the time of a runner is spent in kernels."""
    if not isinstance(runner, Mixed):
        return 1.0
    inside = 0.0

    def watched(run):
        def call(xs):
            nonlocal inside
            start = time.perf_counter()
            y = run(xs)
            inside += time.perf_counter() - start
            return y

        return call

    space = runner.run.__globals__
    for name, value in list(space.items()):
        if any(value is r.run for r in runner.kernels.values()):
            space[name] = watched(value)
    start = time.perf_counter()
    for n in range(200):
        runner.run(points[n % 2])
    return inside / (time.perf_counter() - start)


def main(wanted=""):
    """Print a row for each case."""
    heads = ["value", "NumPy", "machine", "ratio", "compile", "lines", "calls", "time"]
    print(f"{'':20}", *[f"{h:>10}" for h in heads])
    for name, (f, args) in CASES.items():
        if wanted not in name:
            continue
        numbers = tuple(range(len(args)))
        program = optimise(trace(cr.value_and_grad(f, argnums=numbers), args, {}, [True] * len(args))[0])
        points = [list(args), [x * 1.001 for x in args]]
        plain = build_numpy(program)
        start = time.perf_counter()
        runner = native.build(program)
        seconds = time.perf_counter() - start
        value = timed(lambda n: f(*points[n]))
        before = timed(lambda n: plain.run(points[n]))
        if runner is None:
            print(f"{name:20} {value * 1e6:8.1f}us {before * 1e6:8.1f}us  stays with NumPy")
            continue
        for xs in points:
            for a, b in zip(runner.run(xs), plain.run(xs), strict=True):
                scale = 1e-10 * np.max(np.abs(b)) + 1e-300
                assert np.all(np.abs(np.subtract(a, b)) <= scale), f"{name}: the back ends differ"
        after = timed(lambda n: runner.run(points[n]))
        share, text = getattr(runner, "share", 1.0), runner.source.count("\n")
        times = [f"{t * 1e6:8.1f}us" for t in (value, before, after)]
        cells = [*times, f"{before / after:.1f}", f"{seconds * 1e3:.0f}ms", text, f"{share:.0%}"]
        print(f"{name:20}", *[f"{c:>10}" for c in [*cells, f"{part_of_the_time(runner, points):.0%}"]], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
