"""Time and memory of gradients through long recurrences: every step remembered, or segments computed again.

    python benchmarks/checkpoint.py

A state of 1,000 numbers runs through up to 10,000 steps. Memory is Python's own count (tracemalloc) of a run of its
own, the time a median of interleaved runs. The bars: 2.5 times the time of the plain loop, and memory that grows no
faster than the square root of the steps (by 4 for 16 times the steps, with a tenth for what does not grow smoothly).
"""

import tracemalloc

import numpy as np
from timing import medians

import chainrule as cr

STATE = np.full(1000, 0.1)
W = np.linspace(0.5, 0.9, 1000)
TIME_BAR, MEMORY_BAR = 2.5, 4.4


def gradient(n, checkpoint, closure):
    """Return a function that takes the gradient, in the weights, of a recurrence of `n` steps."""

    def of_closure(w):
        state, _ = cr.scan(lambda s, _: (np.tanh(s * w) + 0.1, None), STATE, None, checkpoint, n)
        return np.sum(state)

    def of_state(w):
        def step(state, _):
            s, w = state
            return (np.tanh(s * w) + 0.1, w), None

        (state, _), _ = cr.scan(step, (STATE, w), None, checkpoint, n)
        return np.sum(state)

    f = cr.grad(of_closure if closure else of_state)
    return lambda: f(W)


def peak(run):
    """Return the most memory that a run takes, in bytes."""
    tracemalloc.start()
    run()
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


def verdict(value, bar):
    return f"{value:.2f} (bar {bar:g}: {'met' if value <= bar else 'MISSED'})"


def main():
    for closure in (False, True):
        print("weights in the closure of the step" if closure else "weights in the state")
        runs = {name: gradient(10_000, name, closure) for name in (None, "sqrt")}
        np.testing.assert_allclose(runs[None](), runs["sqrt"](), rtol=1e-12)
        times = medians(runs, rounds=7)
        memory = {name: peak(run) for name, run in runs.items()}
        for name in runs:
            print(f"  checkpoint={name!r:7s} {times[name]:6.3f} s, {memory[name] / 2**20:7.1f} MB")
        growth = memory["sqrt"] / peak(gradient(625, "sqrt", closure))
        print(f"  time, of the plain loop:             {verdict(times['sqrt'] / times[None], TIME_BAR)}")
        print(f"  memory, of the plain loop:           {memory['sqrt'] / memory[None]:.3f}")
        print(f"  memory, 10,000 to 625 steps:         {verdict(growth, MEMORY_BAR)}", flush=True)


if __name__ == "__main__":
    main()
