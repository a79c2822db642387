"""Draw the graphs of this folder: python docs/pictures/draw.py (needs the extra `explain`)."""

from pathlib import Path

import numpy as np

import chainrule as cr

HERE = Path(__file__).parent
rng = np.random.default_rng(0)
x, t = rng.normal(size=(8, 2)).round(2), rng.normal(size=(8, 1)).round(2)
parameters = rng.normal(size=(2, 3)).round(2), np.zeros(3), rng.normal(size=(3, 1)).round(2), np.zeros(1)
q = rng.normal(size=(3, 2)).round(2)


def note(x):
    """Note 3 of the tutorial."""
    angle = 4 * x
    s = np.sin(angle)
    bell = np.exp(-2 * s**2)
    return x - bell


def loss(W1, b1, W2, b2):
    """A step of a small network."""
    h = np.tanh(x @ W1 + b1)
    z = h @ W2 + b2
    return np.mean((z - t) ** 2)


def loop(x):
    """A thousand rounds."""
    for _ in range(1000):
        x = x - 0.02 * np.exp(-2.0 * np.sin(4.0 * x) ** 2)
    return x


def attention(q, k, v):
    """Two einsums."""
    scores = np.einsum("id,jd->ij", q, k)
    return np.sum(np.einsum("ij,jd->id", np.exp(scores), v))


if __name__ == "__main__":
    cr.explain(note, np.pi / 16).graph(HERE / "graph-note.svg")
    cr.explain(loss, *parameters).graph(HERE / "graph-mlp.svg")
    cr.explain(loop, 0.7).graph(HERE / "graph-loop.svg")
    cr.explain(attention, q, q[::-1].copy(), q * 2).graph(HERE / "graph-einsum.svg")
