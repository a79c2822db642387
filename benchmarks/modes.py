"""Forward against reverse mode for dense Jacobians, by sizes: what `jacobian(mode="auto")` goes by.

    OPENBLAS_NUM_THREADS=1 python benchmarks/modes.py

For functions from n inputs to m outputs: the cost of all columns in forward mode (batched tangents, no tape) over that
of all rows in reverse mode, after the run that both need to learn the sizes. One thread, interleaved, medians. At the
end stands what simple rules lose against the better mode in each place: those that count passes, with a factor `c` for
the cost of a column against that of a row, and a batch of `s` passes that costs as much as one.
"""

import argparse

import numpy as np
from timing import medians

import chainrule as cr

SIZES = (1, 3, 10, 30, 60, 100, 130, 300)
FACTORS = (0.25, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0)  # c
FLOORS = (0, 10, 30, 100)  # s
rng = np.random.default_rng(0)


def matrix(*shape):
    return rng.normal(size=shape) / shape[-1] ** 0.5


def products(m, n):
    a, b = matrix(m, n), matrix(m, n)
    return lambda x: np.tanh(a @ x) * (b @ x)


def network(m, n, hidden=50):
    a, b, c = matrix(hidden, n), matrix(hidden, hidden), matrix(m, hidden)
    return lambda x: c @ np.tanh(b @ np.tanh(a @ x))


def sums(m, n):
    t = np.linspace(0.0, 1.0, m)[:, None]
    return lambda x: np.sum(np.exp(-((t - x) ** 2)) * np.sin(x), axis=1)


def steps(m, n):
    a, b = matrix(n, n), matrix(m, n)

    def f(x):
        for _ in range(10):
            x = x + 0.1 * np.sin(a @ x) - 0.05 * x**2
        return b @ x

    return f


def entries(m, n):
    def f(x):
        parts = [x[k % n] * np.sin(x[(k + 1) % n]) for k in range(min(max(m, n), 30))]
        y = np.stack(parts * (max(m, n) // len(parts) + 1))[: max(m, n)]
        return y[:m] + 0.0 * np.sum(y)

    return f


def filters(m, n):
    t, s = np.arange(m), np.arange(n)
    return lambda x: np.interp(t * (n / m), s, np.cumsum(x)) * np.mean(x * x) if n > 1 else np.cos(t * x[0])


FUNCTIONS = {f.__name__: f for f in (products, network, sums, steps, entries, filters)}


def costs(make, m, n):
    """Return the time of forward and of reverse mode, each after the recorded run that tells the sizes."""
    f, x = make(m, n), rng.normal(size=n)
    forward = cr.jacobian(f, mode="forward", chunk=n)  # all at once, as where the sizes are known
    reverse = cr.jacobian(f, mode="reverse")
    np.testing.assert_allclose(forward(x), reverse(x), rtol=1e-8, atol=1e-10)
    runs = {"forward": lambda: forward(x), "reverse": lambda: reverse(x), "run": lambda: cr.vjp(f, x)}
    t = medians(runs, ROUNDS, BURST)
    return t["forward"], max(t["reverse"] - t["run"], 0.1 * t["reverse"]), t["run"]


def losses(found, floor):
    """Yield, for each factor, the mean and the largest loss of the rule in all places."""
    for factor in FACTORS:
        lost = []
        for (_, m, n), (forward, reverse, run) in found.items():
            columns = m > 1 and (n == 1 or n + floor <= factor * (m + floor))
            lost.append(((forward if columns else reverse) + run) / (min(forward, reverse) + run))
        yield np.exp(np.mean(np.log(lost))), max(lost)


def main():
    found = {}
    for name, make in FUNCTIONS.items():
        print(f"\n{name}: forward / reverse, a row for each m (outputs), a column for each n (inputs)")
        print("      m \\ n " + "".join(f"{n:>8d}" for n in SIZES))
        for m in SIZES:
            row = []
            for n in SIZES:
                found[name, m, n] = forward, reverse, _ = costs(make, m, n)
                row.append(forward / reverse)
            print(f"{m:>11d} " + "".join(f"{r:8.2f}" for r in row), flush=True)
    print("\nforward if n + s <= c (m + s), but reverse for one output, forward for one input of several outputs:")
    print("mean (and largest) loss against the better mode")
    print("          c " + "".join(f"{c:>13}" for c in FACTORS))
    for floor in FLOORS:
        print(f"   s = {floor:<4d} " + "".join(f"{mean:6.3f} ({most:4.2f})" for mean, most in losses(found, floor)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.004)
    given = parser.parse_args()
    ROUNDS, BURST = given.rounds, given.burst
    main()
