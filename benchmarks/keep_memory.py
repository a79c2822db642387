"""What the allocator's limits are worth: one gradient, in a process without, with the first, with the second step.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/keep_memory.py

Each measurement runs in a process of its own, one thread, in turn; `without` pins glibc's first limits (128 kB), which
it would else leave as soon as something large is freed; `settled` is what the first pass does by itself, `kept` adds
`chainrule.keep_memory()`. Page faults are counted by the system.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time

SIZES = (10_000, 100_000, 1_000_000)
WAYS = ("without", "settled", "kept")


def worker(way, size):
    import numpy as np
    from large_elementwise import f

    import chainrule as cr

    if way == "kept":
        cr.keep_memory()
    x = np.linspace(0.1, 2.0, size)
    gradient = cr.grad(lambda x: np.sum(f(np, x)))
    for _ in range(3):
        gradient(x)
    samples, faults = [], resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        start = time.perf_counter()
        gradient(x)
        samples.append(time.perf_counter() - start)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps({"seconds": statistics.median(samples), "faults": faults / 20}))


def main():
    plain = dict(os.environ, OMP_NUM_THREADS="1")
    for size in SIZES:
        results = {way: [] for way in WAYS}
        for _ in range(5):
            for way in WAYS:
                env = dict(plain, MALLOC_TRIM_THRESHOLD_="131072") if way == "without" else plain
                command = [sys.executable, __file__, way, str(size)]
                out = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                results[way].append(json.loads(out.stdout))
        for way in WAYS:
            seconds = statistics.median(r["seconds"] for r in results[way])
            faults = statistics.median(r["faults"] for r in results[way])
            print(f"{size:9,d} numbers  {way:8s} {seconds * 1e3:8.2f} ms  {faults:9,.0f} page faults a gradient")


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else main()
