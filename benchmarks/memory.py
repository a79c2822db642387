"""Peak memory of each family's gradient next to that of its function: no rule may form what its function does not.

    python benchmarks/memory.py

Each call runs alone. Its footprint is the size of its inputs plus the growth of the resident size to its highest point
(Linux tells it; LAPACK's own copies count, too); the gradient is that of the sum of the results. The bar is 4.
"""

import gc
import sys

import numpy as np

import chainrule as cr

BAR = 4.0
rng = np.random.default_rng(0)
V = rng.uniform(0.2, 0.9, 2_000_000)  # a long vector
P = rng.uniform(0.2, 0.9, (1200, 1000))  # a matrix
S = rng.normal(size=(800, 800)) + 40 * np.eye(800)  # a well-conditioned square one
H = S @ S.T
T = rng.normal(size=(4000, 20, 20)) + 10 * np.eye(20)  # a stack
W = rng.normal(size=1000)
Q = np.sort(rng.uniform(size=5000))

# fmt: off
# ruff: noqa: E501 (a table)
CALLS = {
    "elementwise": {
        "sin": (np.sin, V), "exp": (np.exp, V), "sqrt": (np.sqrt, V), "tanh": (np.tanh, V), "power": (np.power, V, V),
        "divide": (np.divide, V, V), "arctan2": (np.arctan2, V, V), "logaddexp": (np.logaddexp, V, V),
        "multiply, spread": (np.multiply, P, W), "abs": (np.abs, V), "sinc": (np.sinc, V), "i0": (np.i0, V),
    },
    "choices": {
        "where": (lambda a, b: np.where(V > 0.5, a, b), V, V[::-1].copy()), "maximum": (np.maximum, V, V[::-1].copy()),
        "clip": (lambda a: np.clip(a, 0.3, 0.6), V), "nan_to_num": (np.nan_to_num, V),
    },
    "reductions": {
        "sum": (np.sum, V), "sum, axis": (lambda a: np.sum(a, 0), P), "mean": (np.mean, V), "prod": (np.prod, 1 + V / 1e6),
        "max": (np.max, V), "max, axis": (lambda a: np.max(a, 1), P), "var": (np.var, V), "std": (np.std, V),
        "cumsum": (np.cumsum, V), "cumprod": (lambda a: np.cumprod(a, axis=1), P), "median": (np.median, V),
        "quantile": (lambda a: np.quantile(a, [0.1, 0.5], axis=1), P), "ptp": (np.ptp, V), "nansum": (np.nansum, V),
        "cov": (np.cov, P[:400]), "corrcoef": (np.corrcoef, P[:400]), "norm": (np.linalg.norm, V),
    },
    "shapes": {
        "reshape": (lambda a: a.reshape(1000, 1200), P), "transpose": (np.transpose, P), "roll": (lambda a: np.roll(a, 3), V),
        "pad": (lambda a: np.pad(a, 5, mode="reflect"), P), "tile": (lambda a: np.tile(a, 3), V),
        "repeat": (lambda a: np.repeat(a, 3), V), "tril": (np.tril, S), "concatenate": (lambda a: np.concatenate([a, a]), V),
        "stack": (lambda a: np.stack([a, a]), V), "diff": (np.diff, V), "gradient": (np.gradient, V), "sort": (np.sort, V),
        "take": (lambda a: np.take(a, np.arange(0, 2_000_000, 2)), V), "index": (lambda a: a[V > 0.5], V),
        "window": (lambda a: np.lib.stride_tricks.sliding_window_view(a, 8).sum(-1), V),
        "unique": (np.unique, V), "diagonal": (np.diagonal, S), "interp": (lambda a: np.interp(a, Q, Q * Q), V),
        "interp, values": (lambda fp: np.interp(V, Q, fp), Q * Q),
    },
    "products": {
        "matmul": (np.matmul, S, S), "matmul, stack": (np.matmul, T, T), "dot": (np.dot, P, W), "outer": (np.outer, W, W),
        "einsum": (lambda a, b: np.einsum("ij,jk->ik", a, b), S, S), "kron": (np.kron, W[:800], W[:800]),
        "tensordot": (lambda a, b: np.tensordot(a, b, 1), T, T[0]), "cross": (np.cross, V[:900_000].reshape(-1, 3), V[:900_000].reshape(-1, 3)),
        "convolve": (lambda a, b: np.convolve(a, b), V[:900_000], V[:20]), "polyval": (lambda p: np.polyval(p, V), V[:4]),
        "trapezoid": (np.trapezoid, V), "vander": (lambda a: np.vander(a, 8), V[:400_000]),
    },
    "linear algebra": {
        "inv": (np.linalg.inv, S), "solve": (np.linalg.solve, S, S), "solve, vector": (np.linalg.solve, S, W[:800]),
        "det": (lambda a: np.linalg.slogdet(a)[1], S), "cholesky": (np.linalg.cholesky, H), "eigh": (lambda a: np.linalg.eigh(a)[1], H),
        "eigvalsh": (np.linalg.eigvalsh, H), "svd": (lambda a: np.linalg.svd(a, full_matrices=False)[1], P),
        "qr": (lambda a: np.linalg.qr(a)[1], S), "pinv": (np.linalg.pinv, P), "lstsq": (lambda a, b: np.linalg.lstsq(a, b)[0], P.T.copy(), W),
        "matrix_power": (lambda a: np.linalg.matrix_power(a / 20, 5), S), "inv, stack": (np.linalg.inv, T),
    },
    "fft": {
        "rfft": (lambda a: np.abs(np.fft.rfft(a)), V), "fft2": (lambda a: np.abs(np.fft.fft2(a)), P),
        "irfft": (lambda a: np.fft.irfft(a), V), "fftshift": (np.fft.fftshift, V),
    },
}
# fmt: on


def resident(field):
    """Return a figure of this process, in bytes: VmRSS now, VmHWM its highest."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def peak(run):
    """Return by how much the resident size grows while `run` runs, in bytes."""
    run()
    gc.collect()
    cr.keep_memory(False)  # gives back what is free
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # the highest point starts anew
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def footprints(f, *xs):
    """Return the footprints of a function and of its gradient."""
    inputs = sum(x.nbytes for x in xs)
    gradient = cr.grad(lambda *xs: np.sum(f(*xs)), argnums=tuple(range(len(xs))))
    return inputs + peak(lambda: np.sum(f(*xs))), inputs + peak(lambda: gradient(*xs))


def main():
    worst = 0.0
    for family, calls in CALLS.items():
        ratios = {}
        for name, (f, *xs) in calls.items():
            forward, backward = footprints(f, *xs)
            ratios[name] = backward / forward
        top = max(ratios, key=ratios.get)
        worst = max(worst, ratios[top])
        print(f"{family:15s} {len(ratios):3d} functions, highest {ratios[top]:.2f} ({top})", flush=True)
        if "-v" in sys.argv:
            print("   ", ", ".join(f"{name} {r:.2f}" for name, r in ratios.items()))
    print(f"highest of all {worst:.2f} (bar {BAR:g}: {'met' if worst <= BAR else 'MISSED'})")


if __name__ == "__main__":
    main()
