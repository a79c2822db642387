"""Random programs for machine code: arrays that fill vectors and leave a rest, products, loops of many rounds.

They are written as other programs are, of arrays that are large enough to be in memory (or just not), with operands of
odd lengths, other strides and both precisions, and with what machine code has a way of its own for: reads and writes at
integers, integers that are divided, places of extrema, stencils, running sums, products by BLAS, loops with forks,
exits and tables.
"""

import numpy as np

from chainrule.testing.fuzz_expressions import METHODS
from chainrule.testing.fuzz_statements import Statements

SHAPES = [
    (130,), (257,), (1000,), (5000,), (7, 41), (33, 20), (3, 67), (200, 2), (1, 150), (150, 1), (5, 4, 13), (2, 1, 131),
    (64, 40), (12, 12), (5, 7), (31,), (17,), (100,), (4, 30), (9,), (3,), (2, 3), (),
]  # fmt: skip
MOVES = """
{v}[np.arange(-9, 9) % len({v})]
{v}[[0, -1, 0, -2, -1]]
{v}[np.arange(300) * 7 % len({v}) - len({v})]
{v}[..., np.arange(150) * 5 % {v}.shape[-1]]
{v}[..., np.array([0, -1, 0])]
{v}[np.arange(len({v})) * 3 % len({v}), np.arange(len({v})) % {v}.shape[1]]
np.take({v}, np.arange(200) % {v}.shape[-1], axis=-1)
np.take({v}, np.arange(160) * 11 % {v}.size)
{v}[np.argsort(np.arange(len({v})) * 7 % 5)]
{v}[np.array([np.argmax({v}), 0, np.argmin({v})]) % len({v})]
{v}.reshape(-1)[np.sum({v} > {c}, axis=-1) - 1]
{v}[1:] - {v}[:-1]
{v}[2:] * {v}[:-2] + {v}[1:-1]
{v}[::-2]
{v}[..., ::3]
{v}[5::7]
{v}.T[1:]
{v}[::-1] * {v}
{v}.T + {v}.T[::-1]
np.roll({v}, 3, axis=-1)
np.flip({v}, axis=0) - {v}
np.tril({v})
np.triu({v}, 1)
np.concatenate([{v}[3:], {c} * {v}, {v}[:5]], axis=0)
np.concatenate([{v}, np.cos({v})], axis=-1)[..., 3:]
np.stack([{v}, {v} * {v}, {c} * {v}], axis=0)
np.stack([{v}, np.sin({v})], axis=-1).sum(axis=0)
np.tile({v}, 2)
np.broadcast_to({v}[..., :1], {v}.shape) * {v}
np.swapaxes(np.atleast_2d({v}), 0, 1) * 1.0
np.moveaxis({v}, 0, -1) + 0.0
{v}.reshape(-1)[::3]
{v}[..., ::3].reshape(-1)
np.ravel({v}.T)
""".strip().split("\n")
SUMS = """
np.sum({v} * np.cos({v}), axis=0)
np.sum({v}, axis=1)
np.sum({v}, axis=(0, -1))
np.mean({v}, axis=(0, -1))
np.max(-np.exp({v}), axis=-1)
np.min(np.exp({v}), axis=0)
np.max(-np.exp({v})) + np.min(1.0 + {v} ** 2)
np.sum({v} ** 2, axis=-1, keepdims=True) * {v}
{v} - np.max({v}, axis=-1, keepdims=True)
{v} - np.min({v}, axis=0)
np.prod(np.cos({v}), axis=-1)
np.prod(1.0 + 0.01 * {v})
np.mean({v}, axis=-1)
np.mean({v}, axis=0, keepdims=True) + {v}
np.mean({v} * {v})
np.min({v}, axis=-1)
np.std({v}, axis=-1)
np.var({v}, axis=-1)
np.sqrt(1.0 + np.sum({v} * {v}, axis=-1))
np.linalg.norm(1.0 + {v} ** 2, axis=-1)
np.cumsum(0.1 * {v}, axis=0)
np.cumsum(0.1 * {v}, axis=-1)
np.cumsum(0.05 * {v})
np.cumprod(np.cos(0.1 * {v}), axis=-1)
np.sort({v}, axis=0)
np.any({v} > {c}, axis=-1) * np.sum({v})
np.all({v} > -{c}, axis=0) * np.mean({v})
np.sum({v} > {c}) * 0.1 * np.mean({v})
np.argmax({v}, axis=-1) * 0.01 * np.mean({v})
np.argmin(np.rint({v}), axis=0) * 0.1 * np.mean({v})
np.argmax(np.rint({v})) * 0.1 * np.mean({v})
np.argmin({v}.T, axis=0) * 0.01 * np.mean({v})
np.max(np.rint({v}), axis=0)
np.exp({v} - np.max({v}, axis=-1, keepdims=True))
np.exp({v}) / np.sum(np.exp({v}), axis=-1, keepdims=True)
special.logsumexp({v}, axis=-1)
special.softmax({v}, axis=0)
np.log(np.sum(np.exp({v}), axis=0))
""".strip().split("\n")
NUMBERS = """
{v} % 0.7
{v} % -0.7
{v} // 0.4 * 0.1 + {v}
np.fmod({v}, 0.6)
(np.sum({v} > {c}, axis=0) - 3) // 2 * 0.1 * {v}
(np.sum({v} > {c}, axis=-1, keepdims=True) - 4) % 3 * 0.1 * {v}
(2 - np.sum({v} > {c}, axis=-1, keepdims=True)) // 3 * 0.01 * {v}
np.sign({v}) * np.floor({v})
np.rint({v} * 2) + np.trunc({v})
np.ceil({v}) * {v}
np.fmax({v}, -{c}) * np.fmin({v}, {c})
np.minimum({v}, {v}[::-1])
np.maximum({v}, np.flip({v}))
np.maximum(np.minimum({v}, {c}), -{c})
np.copysign({v}, {v}[::-1])
np.copysign({c}, -{v})
np.where(np.signbit({v}), {c}, {v})
np.clip({v}, -0.5, {c})
np.where({v} > {c}, {v} / {c}, {c} - {v})
np.where(({v} > 0.3) & ({v} < 1.2), {v} ** 3, -{v})
np.where(np.logical_not({v} > 0.5), np.exp({v}), {v} * {v})
np.where(np.isfinite({v}), {v}, 0.0)
np.where({v} == 0.0, 1.0, np.arctan2({v}, {c}))
np.abs({v}) ** 1.5
np.heaviside({v}, 0.5) * {v}
np.arctan2({v}, {v}[::-1])
1.0 / (2.0 + {v} ** 2)
({c} - {v}) / (1.0 + np.abs({v}))
np.hypot({v}, {c})
np.logaddexp({v}, {c})
np.expm1({v}) * np.log1p(np.abs({v}))
np.sqrt(np.abs({v}) + 0.1)
np.nan_to_num({v})
{v}.astype(np.float64) * {c}
{v} ** 2 - {v} ** 3
-{v} + 0.0
""".strip().split("\n")
SIZES = [
    (3, 4, 5),
    (17, 33, 9),
    (40, 24, 40),
    (2, 300, 3),
    (64, 20, 30),
    (5, 600, 7),
    (31, 1, 18),
    (30, 9, 1),
    (13, 130, 21),
    (3, 1100, 4),
]
LARGE = [(170, 300, 140), (300, 280, 16), (257, 520, 1), (1, 400, 380), (200, 200, 200)]
PRODUCTS = """
{a} @ {b}
np.matmul({a}, {b})
np.dot({a}, {b})
({b}.T @ {a}.T).T
np.einsum('ij,jk->ik', {a}, {b})
np.einsum('ij,jk->ki', {a}, {b})
np.tensordot({a}, {b}, axes=([1], [0]))
np.inner({a}, {b}.T)
{a} @ {b}[:, 0]
{a}[0] @ {b}
np.einsum('ij,j->i', {a}, {b}[:, -1])
np.vdot({a}[0], {b}[:, 0])
np.outer({a}[:, 0], {b}[-1])
{a} @ {a}.T
{a}.T @ {a}
{a}[::-1] @ {b}
{a} @ {b}[:, ::-1]
{a} @ {b} + np.outer({a}[:, -1], {b}[0])
np.stack([{a}, 2 * {a}]) @ {b}
np.stack([{a}, {a} - 1]) @ np.stack([{b}, np.cos({b})])
""".strip().split("\n")
OPERANDS = """
{v}
np.ascontiguousarray({t}.T).T
{t}.T
{w}[:, ::2]
{v}[::-1]
""".strip().split("\n")
LOOPS = """
{y} = {v} * 1.0
for k in range({n}):
    {y} = {y} * 0.5 + np.sin({y} * (k + 1))

{y}, {z} = {v} * 1.0, np.cos({v})
for k in range({n}):
    {y}, {z} = {z} * 0.7 + 0.1 * k, {y} - 0.2 * {z} ** 2
{y} = {y} + {z}

{y} = np.mean({v}) * 1.0
for k in range({n}):
    {y} = 0.6 * {y} + {v}.reshape(-1)[k % {size}] * {t}[k]

{y} = np.sum({v}) * 0.01
for e in {v}.reshape(-1)[:{n}]:
    if e > {level:.3f}:
        {y} = {y} * 0.9 + e * e
    else:
        {y} = {y} - np.sin(e)

{y} = {v} * 0.5
for k in range({n}):
    if np.sum({y}) > {c}:
        {y} = np.cos({y}) * 0.8
    else:
        {y} = {y} + 0.1 * {v} ** 2

{y} = {v} * 1.0
for k in range({n} + 5):
    if np.max(np.abs({y})) < 0.4:
        break
    {y} = {y} * 0.7 - 0.05 * np.sin({y})

{y}, {z} = {v} * 1.0, np.sum({v} ** 2) * 0.01 + 3.0
while {z} > 0.2 and {z} < 1e6:
    {z} = 0.7 * {z}
    {y} = np.sin({y}) + 0.2 * {z}

{y}, {z} = {v} * 1.0, []
for k in range({n}):
    {y} = 0.8 * np.tanh({y}) + {c} * {v}
    {z}.append(np.sum({y}))
{y} = np.stack({z})

{y} = {v} * 1.0
for row in np.atleast_2d({v})[:{n}]:
    {y} = {y} * np.cos(np.sum(row)) + {c}

{y} = {v} * 1.0
for k in range({n}):
    {y} = np.where({y} > {c}, {y} * 0.9, {y} + {v} / {n})

{y} = np.zeros({n} + 1, like={v})
{y}[0] = np.mean({v})
for k in range({n}):
    {y}[k + 1] = 0.9 * {y}[k] + 0.3 * {v}.reshape(-1)[k % {size}]

{y}, {z} = {v} * 1.0, np.cos(1.7 * np.arange({n} * 3.0).reshape({n}, 3))
for k in range({n}):
    if {z}[k, 0] > 0.0:
        {y} = {y} * {z}[k, 1]
    else:
        {y} = {y} - {z}[k, 2] * {y} ** 2 * 0.1

{y} = {v} * 1.0
for k in range({n}):
    for j in range(4):
        {y} = {y} - 0.05 * (j + 1) * np.sin({y} + k)
""".strip().split("\n\n")


class Wide(Statements):
    """Writes programs that machine code has something to do for."""

    shapes = SHAPES
    singles = 0.2
    methods = METHODS + MOVES + SUMS + NUMBERS
    kinds = ["assign"] * 2 + ["form"] * 7 + ["for"] * 3 + ["product"] * 2 + ["broadcast", "branch", "write", "view"]

    def arguments(self):
        """Draw the arguments; some arrays have the shape of the first, or one that broadcasts with it."""
        signature, args, head = super().arguments()
        first = args[0].shape
        for k in range(1, len(args)):
            if isinstance(args[k], np.ndarray) and args[k].ndim and self.chance(0.5):
                args[k] = self.numbers(self.pick([first, first[-1:], (*first[:-1], 1)]))
                if self.single and self.chance(0.4):
                    args[k] = args[k].astype(np.float64)
        if self.captured and self.chance(0.7):
            c = self.numbers(self.pick([first, first[::-1], (*first, 2)]))
            self.captured["C"] = c if c.shape == first else c.T if c.ndim == len(first) else c[..., 0]
            self.captured["C"].setflags(write=False)
        return signature, args, head

    def method_expression(self, depth):
        """Draw one of the common ways of calling NumPy, most often on arrays of many entries."""
        return super().method_expression(depth if self.chance(0.5) else 1)

    def form_statement(self):
        """Append a few values, each by something that machine code has a way of its own for."""
        done = 0
        for forms in (NUMBERS, MOVES, SUMS, NUMBERS, MOVES, SUMS):
            for _ in range(3):
                try:
                    text = self.scaled(self.pick(forms).format(v=self.wide(), c=self.constant()))
                except (ValueError, IndexError, TypeError):  # of other shapes
                    continue
                if text is not None and self.add([f"{self.fresh()} = {text}"]):
                    done += 1
                    break
        return done > 0

    def for_statement(self):
        """Append a loop of enough rounds to be one in machine code."""
        y, z, v = self.fresh(), self.fresh(), self.wide()
        n = self.random.randrange(4, 11)
        text = self.pick(LOOPS).format(
            y=y, z=z, v=v, n=n, c=self.constant(), size=np.size(self.scope[v]), t=f"np.cos(np.arange({n}.0))",
            level=float(np.mean(self.scope[v])),
        )  # fmt: skip
        return self.add(text.split("\n"), *(["branches"] if "if " in text else []))

    while_statement = for_statement

    def product_statement(self):
        """Append a product of matrices, seldom of large ones, some of them transposed or strided."""
        m, k, n = self.pick(LARGE if self.chance(0.2) else SIZES)
        a, b, y = self.fresh(), self.fresh(), self.fresh()
        lines = [f"{a} = {self.matrix(m, k)}", f"{b} = {self.matrix(k, n)}"]
        if not self.add(lines):
            return False
        text = self.scaled(self.pick(PRODUCTS).format(a=a, b=b))
        return text is not None and self.add([f"{y} = {text}"])

    def matrix(self, m, n):
        """Draw a matrix made of the entries of an array."""
        v = self.wide()
        dtype = ", dtype=np.float32" if self.single else ""

        def of(m, n):
            c = self.pick(["0.7", "1.1", "0.3"])
            return f"(np.resize({v}, ({m}, {n})) * np.cos({c} * np.arange({m * n}{dtype or '.0'}).reshape({m}, {n})))"

        return self.pick(OPERANDS).format(v=of(m, n), t=of(n, m), w=of(m, 2 * n))
