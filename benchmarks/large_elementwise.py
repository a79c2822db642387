"""Gradient of an elementwise function of 10^6 elements (20 ufuncs): time next to NumPy's, memory next to PyTorch's.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/large_elementwise.py

Each measurement runs in a process of its own, one thread, with the same glibc malloc thresholds for all
(MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ are set so that freed memory is kept), in turn. Peak memory is the
growth of the resident size's high-water mark from just before the first gradient to after the last.
"""

import json
import os
import statistics
import subprocess
import sys
import time

SIZE = 1_000_000
TOOLS = ("numpy", "chainrule", "torch")


def f(xp, x):
    """20 ufuncs."""
    a = xp.sin(x)
    b = xp.exp(-a)
    c = a * b + x
    d = xp.tanh(c)
    e = xp.sqrt(d * d + 1.0)
    g = xp.log(e + b)
    h = xp.cos(g * 2.0)
    i = h * a - c
    j = xp.exp(i * 0.1)
    k = j / e
    return k * xp.sin(k)


def peak():
    """High-water mark of the resident size, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def worker(tool):
    import numpy as np

    x = np.linspace(0.1, 2.0, SIZE)
    if tool == "numpy":
        run = lambda: f(np, x).sum()
    elif tool == "chainrule":
        import chainrule as cr

        gradient = cr.grad(lambda x: np.sum(f(np, x)))
        cr.grad(lambda x: np.sum(f(np, x)))(np.linspace(0.1, 2.0, 4))
        run = lambda: gradient(x)
    else:
        import torch

        torch.set_num_threads(1)
        leaf = torch.tensor(x, requires_grad=True)
        f(torch, torch.ones(4, requires_grad=True)).sum().backward()

        def run():
            leaf.grad = None
            f(torch, leaf).sum().backward()

    before = peak()
    run()
    samples = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(samples), "peak": peak() - before}))


def main():
    env = dict(
        os.environ, OMP_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="1000000000", MALLOC_TRIM_THRESHOLD_="4000000000"
    )
    results = {tool: [] for tool in TOOLS}
    for _ in range(5):
        for tool in TOOLS:
            out = subprocess.run([sys.executable, __file__, tool], env=env, capture_output=True, text=True, check=True)
            results[tool].append(json.loads(out.stdout))
    seconds = {t: statistics.median(r["seconds"] for r in rs) for t, rs in results.items()}
    memory = {t: statistics.median(r["peak"] for r in rs) for t, rs in results.items()}
    for t in TOOLS:
        print(f"{t:10s} {seconds[t] * 1e3:8.1f} ms   peak {memory[t] / 1e6:8.1f} MB")
    print(f"gradient / plain NumPy: {seconds['chainrule'] / seconds['numpy']:.2f} (bar 3)")
    print(f"peak chainrule / torch: {memory['chainrule'] / memory['torch']:.3f} (bar 1)")


if __name__ == "__main__":
    worker(sys.argv[1]) if len(sys.argv) > 1 else main()
