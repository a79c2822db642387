"""Does the fuzzer find faults? One is planted at a time, in a rule, in the engine, in a pass or in the lowering to
machine code, and the fuzzer run.

    python benchmarks/planted_faults.py                    all of them, each in a process of its own
    python benchmarks/planted_faults.py --native           those in machine code
    python benchmarks/planted_faults.py --fault NAME       one, in this process; prints the first failing program
    python benchmarks/planted_faults.py --programs 500     how many programs each may take

Each fault is a context manager that replaces one thing while it is open. Its process is fresh, since rules are built
into closures at their first use.
"""

import argparse
import concurrent.futures
import importlib
import subprocess
import sys
import time
import warnings

from planting import FAULTS

FILES = {"eager": "faults_in_rules", "native": "faults_in_machine_code"}


def run(name, programs, seed=0, native=False):
    """Run the fuzzer with a fault until a program differs; return how many programs that took, or None."""
    from chainrule.testing import fuzz

    with FAULTS["native" if native else "eager"][name](), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(programs):
            print(f"program {k}", flush=True)  # the last line if the process crashes
            try:
                made = fuzz.program(seed, k, native)
                findings, _ = fuzz.check(made, k, native=native)
            except Exception as error:  # the writer itself, which runs nested transforms
                print(f"{name}: program {k} can't be run: {error!r}")
                return k + 1
            if findings:
                print(fuzz.printed(made, findings, k))
                return k + 1
    return None


def main():
    """Run all of them, or one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault")
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--native", action="store_true", help="those in the lowering to machine code")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    options = parser.parse_args()
    which = "native" if options.native else "eager"
    importlib.import_module(FILES[which])
    if options.fault:
        taken = run(options.fault, options.programs, options.seed, options.native)
        print(f"found by program {taken}" if taken else "not found")
        return 0 if taken else 1
    arguments = [a for n, a in enumerate(sys.argv[1:]) if "--jobs" not in (a, sys.argv[n])]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(lambda name: verdict(name, arguments), FAULTS[which]))
    print(f"{sum(verdicts)} of {len(verdicts)} found")
    return 0 if sum(verdicts) >= 0.95 * len(verdicts) else 1


def verdict(name, arguments):
    """Plant one fault in a process of its own, and print what the fuzzer found; tell whether it found it."""
    start = time.perf_counter()
    command = [sys.executable, __file__, *arguments, "--fault", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    modes = {line[2:].split(" at point")[0] for line in lines if line.startswith("# ") and " at point" in line}
    text = lines[-1] if lines else done.stderr.strip().splitlines()[-1]
    if done.returncode < 0:
        text = f"crashed at {text}"
    seconds = time.perf_counter() - start
    print(f"{name.replace('_', ' '):56} {text:24} {seconds:5.0f} s  {', '.join(sorted(modes))}", flush=True)
    return done.returncode not in (1, 2) and bool(lines)


if __name__ == "__main__":
    sys.exit(main())
