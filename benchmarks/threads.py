"""Machine code with one thread and with more: milliseconds of a call, and how many times faster.

For each gradient, the best of several rounds in which the numbers of threads take turns, so that other load of the
machine hits all alike. Results are compared bit for bit.

    python benchmarks/threads.py [most threads, by default all cores] [part of a name]
"""

import os
import sys
import time

import numpy as np

import chainrule as cr

ROUNDS, SECONDS = 15, 0.1
rng = np.random.default_rng(0)
COEFFICIENTS = (0.5, -1.2, 0.3, 0.7, -0.4, 0.9, -0.8, 0.6, 0.2)


def poly(x):
    """Multiplications and additions: as fast as memory is."""
    y = x * 0.3 + 0.1
    for c in COEFFICIENTS:
        y = y * x + c
    return np.sum(y)


def trans(x):
    """Eight functions of mathematics for each entry."""
    a = np.sin(x)
    b = np.exp(-0.5 * (x * x))
    c = np.tanh(a + b)
    d = np.sqrt(1.0 + c * c)
    e = np.log(d + 1.5)
    return np.sum(np.cos(a * b + c * d - e) * e / (1.0 + a * a))


def logreg(w, x, y):
    """Logistic regression: two products of a matrix and a vector."""
    return np.mean(np.logaddexp(0.0, -y * (x @ w))) + 0.0005 * np.sum(w * w)


def gmm(alphas, means, factors, x):
    """A mixture of Gaussians: stacks of products, and a log of sums of exponentials."""
    z = np.einsum("kde,kne->knd", factors, x[None] - means[:, None])
    m = alphas[:, None] - 0.5 * np.sum(z * z, axis=2)
    top = np.max(m, axis=0)
    return np.sum(np.log(np.sum(np.exp(m - top), axis=0)) + top)


def network(w1, w2, x):
    """Two layers; their products are BLAS's."""
    return np.mean((np.tanh(x @ w1) @ w2) ** 2)


X, Y = rng.normal(size=(100_000, 50)), np.sign(rng.normal(size=100_000))
CASES = {
    "elementwise/poly1e6": (poly, 1, (rng.uniform(0.1, 0.9, 10**6),)),
    "elementwise/trans1e5": (trans, 1, (rng.uniform(0.1, 0.9, 10**5),)),
    "elementwise/trans1e6": (trans, 1, (rng.uniform(0.1, 0.9, 10**6),)),
    "logreg/N100k": (logreg, 1, (0.1 * rng.normal(size=50), X, Y)),
    "gmm/d20": (gmm, 3, (rng.normal(size=25), rng.normal(size=(25, 20)), rng.normal(size=(25, 20, 20)),
                         rng.normal(size=(1000, 20)))),
    "gmm/d64": (gmm, 3, (rng.normal(size=25), rng.normal(size=(25, 64)), rng.normal(size=(25, 64, 64)),
                         rng.normal(size=(1000, 64)))),
    "network": (network, 2, (rng.normal(size=(784, 512)), rng.normal(size=(512, 512)), rng.normal(size=(128, 784)))),
}  # fmt: skip


def best_of(g, points, seconds: float) -> float:
    """Return the shortest time of a call within so many seconds, in milliseconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        g(*points)
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def bits(value) -> list:
    """Return a value and its gradients as bytes."""
    y, gradients = value
    return [np.asarray(a).tobytes() for a in (y, *gradients)]


def main(most: int, part: str) -> None:
    """Print the table."""
    counts = sorted({1, 2, most})
    print(f"{'':22}" + "".join([f"{n:>10} thr" for n in counts]) + "    times faster")
    for name, (f, n, points) in CASES.items():
        if part not in name:
            continue
        g = cr.compile(cr.value_and_grad(f, argnums=tuple(range(n))), backend="native")
        g(*points)
        want, best = bits(g(*points)), dict.fromkeys(counts, float("inf"))
        for _ in range(ROUNDS):
            for k in counts:
                with cr.config(threads=k):
                    assert bits(g(*points)) == want
                    best[k] = min(best[k], best_of(g, points, SECONDS))
        times = "".join([f"{best[k]:14.3f}" for k in counts])
        print(f"{name:22}{times}    {'  '.join([f'{best[1] / best[k]:.2f}' for k in counts[1:]])}", flush=True)


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    main(max(numbers, default=os.cpu_count() or 2), next((a for a in sys.argv[1:] if not a.isdigit()), ""))
