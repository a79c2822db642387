"""Cost of one recorded operation, forward and backward together, next to PyTorch eager and HIPS autograd.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/per_operation.py

Chains of 1,000 operations: the plain chain ``y = sin(y) * x + x``, its second derivative, and a mixed chain in which
indexing, a sum over an axis, where, a 4 x 4 matrix product, stack, a broadcast add and reshape take turns. One process,
one thread, interleaved, medians. Needs torch and autograd.
"""

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from timing import medians, report

import chainrule as cr

OPERATIONS = 1000


def chain(xp, x, operations=OPERATIONS):
    y = x
    for _ in range(operations // 3):
        y = xp.sin(y) * x + x
    return y


def mixed(xp, a, m, mask, row):
    """9 recorded operations a turn on a 4 x 4 array."""
    y = a
    for _ in range(OPERATIONS // 9):
        s = y.sum(0)  # (4,)
        t = y[1]  # (4,)
        u = xp.stack([s, t, s, t])  # (4, 4)
        u = u * 0.1 + row  # broadcast add
        u = xp.where(mask, u, y)
        v = m @ u
        y = (v.reshape(2, 8)).reshape(4, 4) * 0.2
    return y.sum()


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    bars = {"scalar": (0.4, 0.15), "4-vector": (0.55, 0.25), "100-vector": (0.7, 0.28)}
    for name, x in (
        ("scalar", 0.3),
        ("4-vector", np.linspace(0.1, 0.4, 4)),
        ("100-vector", np.linspace(0.1, 0.4, 100)),
    ):
        ours = cr.grad(lambda x: chain(np, x) if isinstance(cr.value(x), float) else chain(np, x).sum())
        hips = autograd.grad(lambda x: anp.sum(chain(anp, x)))

        def run_torch(x=x):
            leaf = torch.tensor(x, requires_grad=True)
            chain(torch, leaf).sum().backward()
            return leaf.grad

        np.testing.assert_allclose(ours(x), run_torch().numpy(), rtol=1e-12)
        times = medians({"chainrule": lambda x=x: ours(x), "torch": run_torch, "autograd": lambda x=x: hips(x)})
        report(f"chain, {name}", times, per=OPERATIONS, bars=dict(zip(("torch", "autograd"), bars[name], strict=True)))

    ours = cr.grad(cr.grad(lambda x: chain(np, x, 300)))
    hips = autograd.grad(autograd.grad(lambda x: chain(anp, x, 300)))
    np.testing.assert_allclose(ours(0.3), hips(0.3), rtol=1e-10)
    times = medians({"chainrule": lambda: ours(0.3), "autograd": lambda: hips(0.3)})
    report("second order, scalar", times, per=300, bars={"autograd": 0.2})
    v = np.linspace(0.1, 0.4, 4)
    ours = cr.grad(lambda x: np.sum(cr.grad(lambda x: np.sum(chain(np, x, 300)))(x)))
    hips = autograd.grad(lambda x: anp.sum(autograd.grad(lambda x: anp.sum(chain(anp, x, 300)))(x)))
    np.testing.assert_allclose(ours(v), hips(v), rtol=1e-10)
    times = medians({"chainrule": lambda: ours(v), "autograd": lambda: hips(v)})
    report("second order, 4-vector", times, per=300, bars={"autograd": 0.2})

    rng = np.random.default_rng(0)
    a, m, row = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)) * 0.5, rng.normal(size=4)
    mask = rng.normal(size=(4, 4)) > 0
    ours = cr.grad(lambda a, m: mixed(np, a, m, mask, row), argnums=(0, 1))
    hips = autograd.grad(lambda a, m: mixed(anp, a, m, mask, row), (0, 1))
    mask_t, row_t = torch.tensor(mask), torch.tensor(row)

    def run_torch():
        a_t, m_t = torch.tensor(a, requires_grad=True), torch.tensor(m, requires_grad=True)
        mixed(torch, a_t, m_t, mask_t, row_t).backward()
        return a_t.grad, m_t.grad

    np.testing.assert_allclose(ours(a, m)[1], run_torch()[1].numpy(), rtol=1e-9)
    times = medians({"chainrule": lambda: ours(a, m), "torch": run_torch, "autograd": lambda: hips(a, m)})
    report("mixed chain", times, per=OPERATIONS, bars={"torch": 0.8, "autograd": 0.25})


if __name__ == "__main__":
    main()
