"""What ``import chainrule`` adds to ``import numpy``: medians over fresh processes, taken in turn.

python benchmarks/import_time.py
"""

import os
import statistics
import subprocess
import sys

CODE = (
    "import time; t = time.perf_counter(); import numpy; u = time.perf_counter(); {} ; print(time.perf_counter() - u)"
)


def main():
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import chainrule"], env=env, check=True)
    samples = []
    for _ in range(15):
        out = subprocess.run(
            [sys.executable, "-c", CODE.format("import chainrule")], capture_output=True, text=True, check=True, env=env
        )
        samples.append(float(out.stdout) * 1e3)
    print(f"import chainrule adds {statistics.median(samples):.1f} ms to import numpy (bar 60; min {min(samples):.1f})")


if __name__ == "__main__":
    main()
