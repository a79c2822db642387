"""The expressions of random programs: functions of the registry on operands led into their domains."""

import math

import numpy as np

from chainrule.testing.fuzz_writing import Writer, catalogue, is_float, moderate, spelled
from chainrule.testing.samples import DEFAULT_DOMAIN, Operand

OPERATORS = ["+", "+", "-", "*", "*", "/"]
METHODS = """
{v}.T
{v}.ravel()
{v}.reshape(-1)
{v}[None]
{v}[..., None]
{v}[::-1]
{v}.copy()
-{v}
{v} ** 2
{v} * {v}
np.swapaxes({v}, 0, -1)
np.flip({v})
np.roll({v}, 1, axis=0)
{v}.reshape({v}.shape[::-1])
np.sum({v})
{v}.sum(axis=0)
np.sum({v}, axis=-1, keepdims=True)
np.mean({v}, axis=0)
{v}.mean()
np.max({v}, axis=-1)
{v}.min()
np.prod({v}, axis=0)
np.std({v})
np.var({v}, axis=0)
np.linalg.norm({v})
np.cumsum({v}, axis=0)
np.cumsum({v}, axis=-1)
np.cumprod({v}, axis=-1)
np.sort({v}, axis=-1)
np.diff({v}, axis=-1)
{v}[0]
{v}[-1]
{v}[1:]
{v}[..., :2]
{v}[..., 0]
{v}[[0, -1]]
{v}[[0, 0, -1]]
{v}[np.array([0, 1, 0])]
{v}[{v} > {c}]
{v}[np.argsort({v}.sum(axis=tuple(range(1, {v}.ndim))))]
{v}[np.argmax(np.sum({v}.reshape(len({v}), -1), axis=1))]
np.where({v} > {c}, {v}, {c} * {v})
np.where({v} > 0, np.sqrt(np.abs({v})), 0.0)
np.maximum({v}, {c})
np.minimum({v}, -{c})
np.clip({v}, -{c}, {c})
np.abs({v})
np.tril({v} * np.ones((3, 3)))
np.concatenate([{v}, {c} * {v}], axis=0)
np.stack([{v}, np.sin({v})], axis=-1)
np.outer({v}, {v})[:2]
np.tanh({v})
np.square({v})
np.max({v})
np.exp(-{v} ** 2)
np.sin({v})
{v} - {v}.mean(axis=-1, keepdims=True)
np.log1p(np.exp({v}))
np.repeat({v}, 2, axis=0)
np.pad({v}, 1)
np.arange(3) * np.sum({v})
np.atleast_2d({v}) @ np.atleast_2d({v}).T
np.einsum('...i,...i->...', {v}, {v})
np.array([np.sum({v}), {c}], like={v})
cr.relu({v})
cr.sigmoid({v})
""".strip().split("\n")
MATRICES = """
np.linalg.solve(np.eye(3) * 4 + {m}, {b})
np.linalg.inv(np.eye(3) * 4 + {m})
np.linalg.det(np.eye(3) * 2 + {m})
{m} @ {b}
{m} @ {m}
{m}.T @ {b}
{b} @ {m}
np.dot({m}, {m}.T)
np.einsum('ij,j->i', {m}, {b})
np.einsum('ij,jk->ki', {m}, {m})
np.linalg.cholesky({m} @ {m}.T + 3 * np.eye(3))
np.trace({m})
np.diag({m})
np.tensordot({m}, {m}, axes=([1], [1]))
np.linalg.eigvalsh({m} + {m}.T + np.diag([0.0, 9.0, 20.0]))
np.diagonal({m}) * {b}
np.linalg.slogdet(np.eye(3) * 4 + {m})[1]
np.matmul({m}, {b}[:, None])
np.kron({b}, {b})
np.inner({m}, {b})
np.vecdot({m}, {b})
np.cross({m}, {b})
""".strip().split("\n")


class Expressions(Writer):
    """Writes expressions: each method returns one as text."""

    methods = METHODS

    def expression(self, depth=2):
        """Draw an expression of any shape."""
        if depth == 0 or self.chance(0.08):
            return self.name() or self.constant()
        kind = self.pick(["unary", "binary", "binary", "method", "method", "sample", "sample", "matrix", "scalar"])
        return getattr(self, f"{kind}_expression")(depth)

    def unary_expression(self, depth):
        """Draw an elementwise function of one operand."""
        fun, (domain,) = self.pick(catalogue()[0][1])
        return f"{fun}({self.within(self.expression(depth - 1), domain)})"

    def binary_expression(self, depth):
        """Draw an elementwise function or operator of two operands, which often broadcast."""
        left, right = self.operands(depth)
        if self.chance(0.6):
            operator = self.pick(OPERATORS)
            right = self.within(right, (0.3, 2.0)) if operator == "/" else right
            return f"({left} {operator} {right})"
        fun, (first, second) = self.pick(catalogue()[0][2])
        return f"{fun}({self.within(left, first)}, {self.within(right, second)})"

    def operands(self, depth):
        """Draw two operands whose shapes broadcast."""
        left = self.expression(depth - 1)
        a = np.shape(self.value(left))
        fits = self.name(lambda v: broadcast(np.shape(v), a))
        stretched = self.name(lambda v: broadcast(np.shape(v), a) and np.shape(v) != a and np.ndim(v) and a)
        right = stretched if stretched and self.chance(0.6) else fits
        if right is None or self.chance(0.1):
            right = self.constant()
        elif self.chance(0.3):
            right = f"np.sin({right})"
        return (left, right) if self.chance(0.5) else (right, left)

    def method_expression(self, depth):
        """Draw one of the common ways of calling NumPy, as people write them."""
        v = self.wide() if depth < 2 or self.chance(0.7) else f"({self.expression(depth - 1)})"
        return self.pick(self.methods).format(v=v, c=self.constant())

    def matrix_expression(self, depth):
        """Draw linear algebra of well-conditioned matrices."""
        m, b = self.fitted(self.wide() or "1.0", (3, 3)), self.fitted(self.wide() or "1.0", (3,))
        return self.pick(MATRICES).format(m=self.within(m, (-1.2, 1.2)), b=b)

    def scalar_expression(self, depth):
        """Draw a number."""
        v = self.wide()
        return self.pick([f"np.sum(np.sin({v}))", f"np.mean({v})", f"{v}.flat[0]", f"{v}.reshape(-1)[-1]"])

    def sample_expression(self, depth):
        """Draw a function of the registry, called as one of its samples calls it."""
        name, group = self.pick(catalogue()[1])
        s = self.pick(group)
        literal = s.pre is None and s.post is None
        texts = []

        def at_operand(x):
            base = self.wide() if self.chance(0.7) else self.expression(depth - 1)
            if x.given is not None:
                given = repr(np.asarray(x.given, float).tolist())
                text = f"np.array({given}) + 0.01 * np.tanh({self.fitted(base, x.shape)})"
            else:
                text = self.within(self.fitted(base, x.shape), x.domain)
                if "linalg" in name or "roots" in name:  # equal rows, as repetition makes, have no singular vectors
                    text = f"({text} + 0.8 * np.sin(1.7 * np.arange({math.prod(x.shape)}.0).reshape({x.shape}) ** 2))"
            texts.append(text)
            return text

        try:
            args = [literal_text(a, at_operand) for a in s.args]
            keywords = [f"{k}={literal_text(v, at_operand)}" for k, v in s.kwargs.items()]
        except TypeError:
            literal, args, keywords = False, None, None
        if literal:
            text = f"{spelled(s.fun)}({', '.join(args + keywords)})"
        else:
            if args is None:  # something that has no text
                texts.clear()
                every((s.args, s.kwargs), at_operand)
            text = f"call({', '.join([repr(str(s)), *texts])})"
        return self.real_array(text)

    def real_array(self, text):
        """Take a part of a result that is a tuple, and the sum of both parts of a complex one."""
        y = self.value(text)
        if isinstance(y, tuple | list):
            text = f"{text}[{self.random.randrange(len(y))}]"
            y = self.value(text)
        if np.iscomplexobj(y):
            text = f"(np.real({text}) + np.imag({text}))"
        return text

    # -- operands ----------------------------------------------------------------------------------------------

    def fitted(self, text, shape):
        """Return an expression of a given shape made of another."""
        y = self.value(text)
        if np.shape(y) == shape:
            return text
        if not np.size(y):
            return f"np.ones({shape})"
        if not shape:
            return f"np.sum({text})"
        exact = self.name(lambda v: np.shape(v) == shape)
        if exact and self.chance(0.5):
            return exact
        if broadcast(np.shape(y), shape) and np.broadcast_shapes(np.shape(y), shape) == shape and self.chance(0.3):
            return f"np.broadcast_to({text}, {shape})"
        return f"np.resize({text}, {shape})"

    def within(self, text, domain):
        """Lead a value into a domain, unless it lies there already."""
        y = np.asarray(self.value(text))
        if y.dtype.kind != "f":
            return text
        low, high = domain
        margin = 0.02 * (high - low)
        if y.size and np.all((y > low + margin) & (y < high - margin)):
            return text
        if domain == DEFAULT_DOMAIN and moderate(y) and np.all(np.abs(y) < 3):
            return text
        return f"({(low + high) / 2:.4g} + {0.45 * (high - low):.4g} * np.tanh({text}))"

    def scaled(self, text):
        """Return an expression whose value is a float of moderate size, or None."""
        y = self.value(text)
        if not is_float(y) or not np.all(np.isfinite(y)):
            return None
        size = float(np.max(np.abs(y))) if np.size(y) else 0.0
        return text if size <= 6 else f"{4 / size:.1g} * {text}"


def broadcast(a, b):
    """Tell whether two shapes broadcast."""
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def every(x, at_operand):
    """Call a function on each operand in nested containers."""
    if isinstance(x, Operand):
        at_operand(x)
    elif isinstance(x, list | tuple):
        for v in x:
            every(v, at_operand)
    elif isinstance(x, dict):
        every(list(x.values()), at_operand)


def literal_text(x, at_operand):
    """Return an argument of a sample as text; raise TypeError if it has none."""
    if isinstance(x, Operand):
        return at_operand(x)
    if type(x) in (list, tuple):
        inner = ", ".join(literal_text(v, at_operand) for v in x)
        return f"[{inner}]" if type(x) is list else f"({inner}{',' * (len(x) == 1)})"
    if x is None or type(x) in (int, float, bool, str, slice):
        return repr(x)
    if type(x) is np.ndarray and x.dtype.kind in "ib":
        return f"np.array({x.tolist()})"
    raise TypeError(f"{x!r} has no text")
