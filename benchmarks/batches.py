"""Batches next to PyTorch and HIPS autograd: dense Jacobians and Hessians, tall Jacobians, per-example gradients.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/batches.py

One process, one thread, interleaved, medians. Needs torch and autograd. Results are compared before they are timed.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is loaded: torch runs on one thread, too

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from timing import medians

import chainrule as cr

rng = np.random.default_rng(0)


def show(name, times, bars, unit=1e3):
    """Print the times in ms, and the ratios that have a bar: (text, ratio, bar, whether larger is better)."""
    print(f"{name:34s} " + ", ".join(f"{tool} {t * unit:.3f} ms" for tool, t in times.items()))
    for text, ratio, bar, larger in bars:
        met = ratio >= bar if larger else ratio <= bar
        print(f"{'':34s} {text} {ratio:.2f} (bar {bar:g}: {'met' if met else 'MISSED'})", flush=True)


def dense_jacobian(n=200):
    a, b, x = rng.normal(size=(n, n)) / n**0.5, rng.normal(size=(n, n)) / n**0.5, rng.normal(size=n)
    f = lambda xp, x, a, b: xp.tanh(b @ (xp.sin(a @ x) * x))
    at, bt, xt = map(torch.tensor, (a, b, x))
    hips = autograd.jacobian(lambda x: f(anp, x, a, b))
    of_torch = {"reverse": torch.func.jacrev(lambda x: f(torch, x, at, bt)),
                "forward": torch.func.jacfwd(lambda x: f(torch, x, at, bt))}  # fmt: skip
    for mode, theirs in of_torch.items():
        ours = cr.jacobian(lambda x: f(np, x, a, b), mode=mode)
        np.testing.assert_allclose(ours(x), theirs(xt).numpy(), rtol=1e-10, atol=1e-12)
        runs = {
            "chainrule": lambda ours=ours: ours(x),
            "torch": lambda theirs=theirs: theirs(xt),
            "autograd": lambda: hips(x),
        }
        t = medians(runs)
        show(f"Jacobian 200 -> 200, {mode}", t, [
            ("autograd / chainrule", t["autograd"] / t["chainrule"], 8, True),
            ("chainrule / torch", t["chainrule"] / t["torch"], 1, False),
        ])  # fmt: skip


def dense_hessian(n=100):
    a, x = 0.3 * rng.normal(size=(2 * n, n)), rng.normal(size=n)

    def f(xp, x, a):
        return xp.log(xp.sum(xp.exp(a @ x))) + 0.25 * xp.sum(x**4) + xp.sum(xp.sin(x[1:] * x[:-1]))

    at, xt = torch.tensor(a), torch.tensor(x)
    ours, hips = cr.hessian(lambda x: f(np, x, a)), autograd.hessian(lambda x: f(anp, x, a))
    func = torch.func.hessian(lambda x: f(torch, x, at))
    classic = lambda: torch.autograd.functional.hessian(lambda x: f(torch, x, at), xt, vectorize=True)
    np.testing.assert_allclose(ours(x), func(xt).numpy(), rtol=1e-9, atol=1e-9)
    t = medians(
        {
            "chainrule": lambda: ours(x),
            "torch.func": lambda: func(xt),
            "torch.autograd": classic,
            "autograd": lambda: hips(x),
        }
    )
    best = min(t["torch.func"], t["torch.autograd"])
    show("Hessian, n = 100", t, [
        ("autograd / chainrule", t["autograd"] / t["chainrule"], 20, True),
        ("chainrule / best of torch", t["chainrule"] / best, 1, False),
    ])  # fmt: skip


def tall_jacobian(m=4000, n=26):
    """Residuals that depend on all of 26 parameters, by sines, exponentials and squares of linear maps."""
    a, b, c = (rng.normal(size=(m, n)) * 0.3 for _ in range(3))
    p = rng.normal(size=n)

    def residuals(p):
        return np.sin(a @ p) * np.exp(-(b @ p)) + (c @ p) ** 2

    def by_hand(p):
        u, e, w = a @ p, np.exp(-(b @ p)), c @ p
        return (np.cos(u) * e)[:, None] * a - (np.sin(u) * e)[:, None] * b + (2 * w)[:, None] * c

    ours = cr.jacobian(residuals, mode="forward")
    np.testing.assert_allclose(ours(p), by_hand(p), rtol=1e-9, atol=1e-12)
    time = medians({"chainrule": lambda: ours(p), "by hand": lambda: by_hand(p)})
    show(f"Jacobian 26 -> {m}, forward", time, [("chainrule / by hand", time["chainrule"] / time["by hand"], 5, False)])


def per_example(count=1000):
    """Gradients of a small MLP for each example, and for their sum."""
    w1, w2 = rng.normal(size=(32, 10)), rng.normal(size=(1, 32))
    x, y = rng.normal(size=(count, 10)), rng.normal(size=count)
    loss = lambda w, x, y: np.sum((w[1] @ np.tanh(w[0] @ x) - y) ** 2)
    summed = cr.grad(lambda w: np.sum((np.tanh(x @ w[0].T) @ w[1].T - y[:, None]) ** 2))
    each = cr.vmap(cr.grad(loss), in_axes=(None, 0, 0))
    w = (w1, w2)
    for one, total in zip(each(w, x, y), summed(w), strict=True):
        np.testing.assert_allclose(one.sum(0), total, rtol=1e-9, atol=1e-9)
    t = medians({"per example": lambda: each(w, x, y), "summed": lambda: summed(w)})
    show(f"per-example gradients, {count}", t, [("per example / summed", t["per example"] / t["summed"], 3, False)])


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dense_jacobian()
    dense_hessian()
    tall_jacobian()
    per_example()


if __name__ == "__main__":
    main()
