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


def run(name, numbers, seed=0, native=False):
    """Run the fuzzer with a fault until a program differs; return how many programs that took, or None."""
    from chainrule.testing import fuzz

    with FAULTS["native" if native else "eager"][name](), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in numbers:
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


def survey(numbers, seed=0):
    """Print for each program which places it reaches that faults in machine code are planted at. It must agree."""
    from faults_in_machine_code import surveyed

    from chainrule.testing import fuzz

    reached = set()
    with surveyed(reached), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in numbers:
            reached.clear()
            findings, _ = fuzz.check(fuzz.program(seed, k, True), k, native=True)
            print(k, len(findings), *sorted(reached), flush=True)


def main():
    """Run all of them, or one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault", nargs="*", default=[])
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--native", action="store_true", help="those in the lowering to machine code")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--only", help="in this process: run the fuzzer with a fault, or `survey`")
    parser.add_argument("--numbers", help="those of the programs, for `--only`")
    options = parser.parse_args()
    which = "native" if options.native else "eager"
    importlib.import_module(FILES[which])
    numbers = range(options.programs) if options.numbers is None else [*map(int, options.numbers.split(","))]
    if options.only == "survey":
        return survey(numbers, options.seed)
    if options.only:
        taken = run(options.only, numbers, options.seed, options.native)
        print(f"found by program {taken}" if taken else "not found")
        return 0 if taken else 1
    names = options.fault or list(FAULTS[which])
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        reaching = surveys(pool, options) if options.native else {}
        verdicts = list(pool.map(lambda name: verdict(name, options, reaching), names))
    print(f"{sum(verdicts)} of {len(verdicts)} found")
    return 0 if sum(verdicts) >= 0.95 * len(verdicts) else 1


def child(options, only, numbers):
    """Run this script for one fault in a process of its own."""
    command = [sys.executable, __file__, "--seed", str(options.seed), "--only", only]
    command += ["--numbers", ",".join(map(str, numbers))] + ["--native"] * options.native
    return subprocess.run(command, capture_output=True, text=True, check=False)


def surveys(pool, options):
    """Return for each fault in machine code the programs that reach its place: no other one can find it."""
    reaching = {}
    parts = [range(k, options.programs, options.jobs) for k in range(options.jobs)]
    for done in pool.map(lambda part: child(options, "survey", part), parts):
        for k, findings, *names in map(str.split, done.stdout.splitlines()):
            if findings != "0":
                print(f"program {k} differs without a fault")
                continue
            for name in names:
                reaching.setdefault(name, []).append(int(k))
    return {name: sorted(numbers) for name, numbers in reaching.items()}


def verdict(name, options, reaching):
    """Plant one fault, and print what the fuzzer found; tell whether it found it."""
    start = time.perf_counter()
    everywhere = not options.native or not is_place(name)
    numbers = range(options.programs) if everywhere else reaching.get(name, [])
    done = child(options, name, numbers) if numbers else None
    lines = done.stdout.strip().splitlines() if numbers else ["not reached"]
    modes = {line[2:].split(" at point")[0] for line in lines if line.startswith("# ") and " at point" in line}
    text = lines[-1] if lines else done.stderr.strip().splitlines()[-1]
    if numbers and done.returncode < 0:
        text = f"crashed at {text}"
    seconds, tried = time.perf_counter() - start, f"{len(numbers):4} programs"
    print(f"{name.replace('_', ' '):56} {text:24} {tried} {seconds:5.0f} s  {', '.join(sorted(modes))}", flush=True)
    return bool(numbers) and done.returncode not in (1, 2) and bool(lines)


def is_place(name):
    """Tell whether a fault in machine code is planted at a place that a survey sees."""
    from faults_in_machine_code import EDITED

    return name.replace("_", " ") in EDITED


if __name__ == "__main__":
    sys.exit(main())
