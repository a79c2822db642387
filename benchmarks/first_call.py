"""The first call of a compiled gradient: loops of plain Python are run once, recorded, rolled, checked, and built.

Each row is measured in a process of its own, with llvmlite loaded and a small function compiled before the clock: best
of some. Of JAX the same loop is written with ``lax.scan``, as a person would who wants it to compile at all.

    python benchmarks/first_call.py [--jax] [--runs 3] [--steps 100 1000 4000] [part of a name]
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np

WIDTH = 14


def ode(xp, w, b, y, steps):
    """Classical Runge-Kutta steps of y' = tanh(W y + b) - y/2, in four dimensions."""
    h = 5.0 / steps

    def f(y):
        return xp.tanh(w @ y + b) - 0.5 * y

    def step(y):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        return y + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    if xp is not np:
        y = scanned(lambda y, _: step(y), y, steps)
    else:
        for _ in range(steps):
            y = step(y)
    return xp.sum(y * y)


def sigmoid(xp, x):
    """The logistic function."""
    return 1.0 / (1.0 + xp.exp(-x))


def lstm(xp, main, extra, state, seq):
    """A recurrent network of two layers with diagonal weights, and its loss on a sequence."""
    weights = [[main[i, k * WIDTH : (k + 1) * WIDTH] for k in range(4)] for i in range(4)]

    def step(total, h, s, now, after):
        h, s = list(h), list(s)
        x = now * extra[0]
        for i in range(2):
            w, v = weights[2 * i], weights[2 * i + 1]
            forget = sigmoid(xp, x * w[0] + v[0])
            add = sigmoid(xp, h[i] * w[1] + v[1])
            out = sigmoid(xp, x * w[2] + v[2])
            s[i] = s[i] * forget + add * xp.tanh(h[i] * w[3] + v[3])
            h[i] = x = out * xp.tanh(s[i])
        y = x * extra[1] + extra[2]
        return total + xp.sum(after * (y - xp.log(xp.sum(xp.exp(y)) + 2.0))), h, s

    h, s, total = [state[0], state[2]], [state[1], state[3]], 0.0
    if xp is not np:
        total, _, _ = scanned(lambda c, x: step(*c, *x), (total, h, s), len(seq) - 1, (seq[:-1], seq[1:]))
    else:
        for t in range(len(seq) - 1):
            total, h, s = step(total, h, s, seq[t], seq[t + 1])
    return -total / ((len(seq) - 1) * WIDTH)


def newton(xp, a, steps):
    """Square root by Newton's method, on numbers."""
    x = 0.5 * a
    if xp is not np:
        return scanned(lambda x, _: 0.5 * (x + a / x), x, steps)
    for _ in range(steps):
        x = 0.5 * (x + a / x)
    return x


def scanned(step, carry, steps, xs=None):
    """Run the steps by JAX's loop."""
    import jax

    return jax.lax.scan(lambda c, x: (step(c, x), None), carry, xs, length=steps)[0]


def problem(name, steps):
    """Return a function of the module of functions and of points, and points."""
    rng = np.random.default_rng(10)
    if name == "ode":
        points = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
        return lambda xp, *points: ode(xp, *points, steps), points
    if name == "lstm":
        points = rng.uniform(-1, 1, (4, 4 * WIDTH)), rng.uniform(-1, 1, (3, WIDTH))
        state, seq = rng.uniform(-1, 1, (4, WIDTH)), rng.integers(0, 2, (steps + 1, WIDTH)).astype(float)
        return lambda xp, *points: lstm(xp, *points, state, seq), points
    return lambda xp, a: newton(xp, a, steps), (2.0,)


def ours(f, points):
    """Return a compiled gradient; what tells how many equations were recorded."""
    import llvmlite.binding  # noqa: F401 (not on the clock)

    import chainrule as cr
    from chainrule.program import trace

    recorded, roll = [], trace.roll

    def counting(program, recording):
        recorded.append(len(program.equations))
        return roll(program, recording)

    cr.compile(cr.value_and_grad(lambda x: np.sum(x * x)))(np.ones(3))
    trace.roll = counting
    return cr.compile(cr.value_and_grad(lambda *p: f(np, *p), tuple(range(len(points))))), recorded


def theirs(f, points):
    """Return JAX's compiled gradient."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jax.block_until_ready(jax.jit(jax.value_and_grad(lambda x: jnp.sum(x * x)))(np.ones(3)))
    g = jax.jit(jax.value_and_grad(lambda *p: f(jnp, *p), tuple(range(len(points)))))
    return lambda *p: jax.block_until_ready(g(*p)), []


def measure(who, name, steps):
    """Print what the first call takes, and whether its result is that of the second."""
    f, points = problem(name, steps)
    g, recorded = (ours if who == "chainrule" else theirs)(f, points)
    start, cpu = time.perf_counter(), time.process_time()
    first = g(*points)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    np.testing.assert_allclose(g(*points)[0], first[0], rtol=1e-9)
    print(json.dumps([seconds, cpu, sum(recorded), float(first[0])]))


def best(who, name, steps, runs):
    """Measure in processes of their own; return the least seconds, those of the processor, equations, and the value."""
    command = [sys.executable, __file__, "--measure", who, name, str(steps)]
    found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs)]
    return min(f[0] for f in found), min(f[1] for f in found), *found[0][2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jax", action="store_true", help="beside JAX's scan")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000, 4000])
    parser.add_argument("part", nargs="?", default="")
    options = parser.parse_args()
    print(f"{'':12}{'seconds':>10}{'processor':>11}{'equations':>11}{'us each':>9}{'JAX':>9}")
    for name in ("ode", "lstm", "newton"):
        for steps in options.steps:
            row = f"{name} {steps}"
            if options.part not in row:
                continue
            seconds, cpu, count, value = best("chainrule", name, steps, options.runs)
            text = f"{row:12}{seconds:10.3f}{cpu:11.3f}{count:11}{cpu / max(count, 1) * 1e6:9.1f}"
            if options.jax:
                jax_seconds, jax_cpu, _, other = best("jax", name, steps, options.runs)
                np.testing.assert_allclose(value, other, rtol=1e-6)
                text += f"{jax_seconds:9.3f} s, processor {jax_cpu:.3f}; ours {seconds / jax_seconds:.2f}"
            print(text, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
