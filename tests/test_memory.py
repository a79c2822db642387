"""The allocator's limits: memory of freed arrays stays with the process, up to a bound unless asked for more."""

import json
import subprocess
import sys

PROGRAM = """
import json, resource
import numpy as np
import chainrule as cr
asked = {asked}
kept = cr.keep_memory() if asked else None
def f(x):
    y = x
    for _ in range(8):
        y = np.sin(y) * x
    return np.sum(y)
x = np.linspace(0.0, 1.0, {size})
for _ in range(3):
    cr.grad(f)(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    cr.grad(f)(x)
faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5
print(json.dumps([kept, faults, 8 * x.size / resource.getpagesize()]))
"""


def run(size, asked):
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(size=size, asked=asked)], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout)


def test_gradients_of_medium_arrays_reuse_their_memory():
    _, faults, pages = run(100_000, False)
    assert faults < 8 * pages / 2  # with glibc's first limits every one of some 30 arrays is fetched anew


def test_keep_memory_says_whether_it_can():
    kept, faults, pages = run(1_000_000, True)
    assert isinstance(kept, bool)
    if kept:
        assert faults < pages


def test_keep_memory_can_be_undone():
    program = "import chainrule as cr; a = cr.keep_memory(); b = cr.keep_memory(False); assert a == b, (a, b)"
    subprocess.run([sys.executable, "-c", program], check=True)
