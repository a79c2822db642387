"""Interleaved timing: all contestants take turns in short bursts, so that a noisy machine hits all of them alike."""

import gc
import statistics
import time


def medians(contestants, rounds=15, burst=0.02):
    """Return {name: median seconds of one call}; `contestants` maps names to functions without arguments.

    Each round runs every contestant for about `burst` seconds and records its mean; the median is over rounds.
    """
    counts = {}
    for name, run in contestants.items():
        run()
        start = time.perf_counter()
        run()
        counts[name] = max(1, int(burst / (time.perf_counter() - start + 1e-9)))
    samples = {name: [] for name in contestants}
    for _ in range(rounds):
        gc.collect()
        for name, run in contestants.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            samples[name].append((time.perf_counter() - start) / counts[name])
    return {name: statistics.median(s) for name, s in samples.items()}


def report(title, times, ours="chainrule", per=1.0, unit="us", scale=1e6, bars=None):
    """Print one line: each time per operation, and the ratio of ours to each peer, next to its bar."""
    cells = [f"{name} {t / per * scale:.3g} {unit}" for name, t in times.items()]
    ratios = []
    for name, t in times.items():
        if name != ours:
            bar = (bars or {}).get(name)
            verdict = "" if bar is None else f" (bar {bar}: {'met' if times[ours] / t <= bar else 'MISSED'})"
            ratios.append(f"{ours}/{name} {times[ours] / t:.3f}{verdict}")
    print(f"{title:28s} {', '.join(cells)}  |  {', '.join(ratios)}", flush=True)
