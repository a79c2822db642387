"""What the passes over a recorded program take, and what they save.

    python benchmarks/passes.py

Prints for some gradients the equations before and after, and the time for each equation recorded; then that of ever
longer loops, which must not grow with their length.
"""

import time

import numpy as np

import chainrule as cr
from chainrule.program.passes import PASSES, optimise

rng = np.random.default_rng(0)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def network(p, x, y):
    h = np.tanh(x @ p["w1"] + p["b1"])
    return np.mean((h @ p["w2"] + p["b2"] - y) ** 2)


def mixture(means, weights, x):
    d = x[:, None, :] - means[None]
    q = -0.5 * np.sum(d * d, axis=-1) + weights
    m = np.max(q, axis=1, keepdims=True)
    return np.sum(m[:, 0] + np.log(np.sum(np.exp(q - m), axis=1)))


def logistic(w, x, y):
    z = x @ w
    return np.mean(np.logaddexp(0, z) - y * z) + 0.01 * np.sum(w * w)


def spring(y, k, steps=20):
    for _ in range(steps):
        y = y + 0.1 * np.stack([y[1], -k * y[0]])
    return np.sum(y**2)


def chain(x, steps):
    for k in range(steps):
        x = np.sin(x) * 1.0 + (-x) * (k % 3)
    return np.sum(x)


def numbers(*shape):
    return rng.normal(size=shape)


PROGRAMS = {
    "Rosenbrock": (rosenbrock, numbers(100)),
    "x - exp(-2 sin(4x)**2)": (lambda x: x - np.exp(-2 * np.sin(4 * x) ** 2), 0.3),
    "network 4-8-2": (
        network, {"w1": numbers(4, 8), "b1": numbers(8), "w2": numbers(8, 2), "b2": numbers(2)}, numbers(6, 4),
        numbers(6, 2),
    ),
    "mixture of Gaussians": (mixture, numbers(3, 2), numbers(3), numbers(5, 2)),
    "logistic regression": (logistic, numbers(3), numbers(7, 3), np.ones(7)),
    "spring, 20 steps": (spring, numbers(2), 1.3),
    "chain of 100": (lambda x: chain(x, 100), numbers(3)),
    "chain of 1000": (lambda x: chain(x, 1000), numbers(3)),
    "chain of 2000": (lambda x: chain(x, 2000), numbers(3)),
}  # fmt: skip


def main():
    print(f"{'gradient of':28s} {'recorded':>8s} {'left':>6s} {'us/equation':>12s}  share of each pass")
    for name, (f, *args) in PROGRAMS.items():
        program = cr.record(cr.grad(f))(*args)
        n = len(program.equations)
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            made = optimise(program)
            seconds.append(time.perf_counter() - start)
        parts = []
        for run in PASSES:
            start = time.perf_counter()
            run(program)
            parts.append(f"{run.__name__} {(time.perf_counter() - start) / n * 1e6:.1f}")
        print(f"{name:28s} {n:8d} {len(made.equations):6d} {min(seconds) / n * 1e6:12.1f}  {', '.join(parts)}")


if __name__ == "__main__":
    main()
