"""Shapes of derivatives: a Jacobian in both layouts, and the four-dimensional one of a matrix product.

In the numerator layout row i of the Jacobian holds the derivatives of the result's entry i: it has the shape m×n for n
inputs and m results, and the chain rule reads from right to left. The denominator layout is its transpose.
"""

import html
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.explain import notation
from chainrule.explain.arguments import argument_names
from chainrule.explain.layout import length, pad
from chainrule.explain.spying import Spy
from chainrule.transforms import jacobian as jacobian_of
from chainrule.transforms.common import name_of, need_function

LAYOUTS = ("numerator", "denominator")
LARGE = 12  # rows or columns that are written out


class JacobianView:
    """A Jacobian as a matrix with names for its rows and columns. Made by ``chainrule.explain.jacobian``.

    Attributes
    ----------
    matrix : ndarray
        In the layout chosen: m×n (numerator) or n×m (denominator), for n entries of the input and m of the result.
    layout : str
        ``"numerator"`` or ``"denominator"``.
    rows, columns : list of str
        Names of the entries of the result and of the input, or the other way round.
    """

    def __init__(self, matrix, results, inputs, layout, name):
        self.matrix, self.layout, self.name = matrix, layout, name
        self._results, self._inputs = results, inputs
        self.rows, self.columns = (results, inputs) if layout == "numerator" else (inputs, results)

    def switched(self) -> "JacobianView":
        """Return the same Jacobian in the other layout: the transpose."""
        other = LAYOUTS[self.layout == "numerator"]
        return JacobianView(self.matrix.T, self._results, self._inputs, other, self.name)

    def spy(self) -> Spy:
        """Return a picture of where its entries are not zero."""
        return Spy(self.matrix, f"{self.name} in {self.layout} layout")

    @property
    def title(self) -> str:
        """What it is, as a line."""
        rows, columns = self.matrix.shape
        return f"{self.name} in {self.layout} layout, {rows}×{columns}"

    @property
    def explained(self) -> str:
        """What a row of it holds."""
        if self.layout == "numerator":
            return "Row i holds the derivatives of the result's entry i; the chain rule is  ∂z/∂x = ∂z/∂y ∂y/∂x."
        return "Row i holds the derivatives in the input's entry i; the chain rule is  ∂z/∂x = ∂y/∂x ∂z/∂y."

    def __str__(self) -> str:
        if max(self.matrix.shape) > LARGE:
            return f"{self.spy()}\n{self.explained}"
        texts = [[notation.number(v, 6) for v in row] for row in self.matrix]
        cells = [["", *self.columns], *[[n, *row] for n, row in zip(self.rows, texts, strict=True)]]
        widths = [max(length(r[k]) for r in cells) for k in range(len(cells[0]))]
        lines = ["   ".join(pad(c, w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells]
        return "\n".join([self.title, "", *lines, "", self.explained])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if max(self.matrix.shape) > LARGE:
            return f"{self.spy().svg()}<p>{html.escape(self.explained)}</p>"
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in self.columns)
        rows = "".join(
            f'<tr><th scope="row">{html.escape(n)}</th>'
            + "".join(f"<td>{notation.number(v, 6)}</td>" for v in row)
            + "</tr>"
            for n, row in zip(self.rows, self.matrix, strict=True)
        )
        return (
            f"<table><caption>{html.escape(self.title)}</caption><tr><th></th>{head}</tr>{rows}</table>"
            f"<p>{html.escape(self.explained)}</p>"
        )


def jacobian(f: Callable, *args: Any, argnum: int = 0, layout: str = "numerator") -> JacobianView:
    """Show the Jacobian of `f` as a matrix, in one of the two layouts.

    Parameters
    ----------
    f : callable
        Takes and returns arrays or numbers.
    *args
        Where to evaluate.
    argnum : int
        The argument to differentiate in.
    layout : {"numerator", "denominator"}
        ``"numerator"``: rows for the results, m×n. ``"denominator"``: rows for the inputs, n×m.

    Returns
    -------
    JacobianView
        Prints as a table; `switched` gives the other layout, `spy` a picture.

    Raises
    ------
    ValueError
        If `layout` is unknown.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> view = cr.explain.jacobian(lambda x: x[0] * x[1:], np.array([2.0, 3.0, 4.0]))
    >>> print(view)
    ∂f/∂x in numerator layout, 2×3
    <BLANKLINE>
           x[0]   x[1]   x[2]
    f[0]   3      2      0
    f[1]   4      0      2
    <BLANKLINE>
    Row i holds the derivatives of the result's entry i; the chain rule is  ∂z/∂x = ∂z/∂y ∂y/∂x.
    >>> view.switched().matrix.shape
    (3, 2)
    """
    need_function(f, "explain.jacobian(f, x)")
    if layout not in LAYOUTS:
        raise ValueError(f'layout must be "numerator" or "denominator", not {layout!r}')
    name = name_of(f) if name_of(f) != "<lambda>" else "f"
    argument = argument_names(f, args)[argnum]
    x = np.shape(args[argnum])
    full = np.asarray(jacobian_of(f, argnums=argnum)(*args))
    y = full.shape[: full.ndim - len(x)]
    matrix = full.reshape(int(np.prod(y, dtype=int)), int(np.prod(x, dtype=int)))
    view = JacobianView(matrix, entry_names(name, y), entry_names(argument, x), "numerator", f"∂{name}/∂{argument}")
    return view if layout == "numerator" else view.switched()


def entry_names(name, shape):
    """Return a name for each entry of an array."""
    return [f"{name}[{', '.join(map(str, i))}]" if shape else name for i in np.ndindex(*shape)]


class MatmulJacobian:
    """The Jacobians of ``Y = X W``, arrays of four dimensions, and what becomes of them in the backward pass.

    Attributes
    ----------
    in_x, in_w : ndarray
        ``in_x[i, j, k, l] = ∂Y[i, j] / ∂X[k, l]``, and the same for W: formed here for show. Nothing else forms them.
    """

    def __init__(self, x, w):
        self.x, self.w = np.asarray(x, float), np.asarray(w, float)
        (n, m), (_, k) = self.x.shape, self.w.shape
        self.sizes = n, m, k
        self.in_x = np.einsum("ik,lj->ijkl", np.eye(n), self.w)
        self.in_w = np.einsum("jl,ik->ijkl", np.eye(k), self.x)

    def contracted(self, dy: Any) -> tuple:
        """Return the gradients in X and W the long way: sums over all entries of the four-dimensional arrays."""
        return np.einsum("ij,ijkl->kl", dy, self.in_x), np.einsum("ij,ijkl->kl", dy, self.in_w)

    def collapsed(self, dy: Any) -> tuple:
        """Return the same by two products of matrices: ``dY Wᵀ`` and ``Xᵀ dY``."""
        return dy @ self.w.T, self.x.T @ dy

    def spy(self, of: str = "X") -> Spy:
        """Return a picture of one of them as a matrix, with a row for each entry of Y: blocks of W, or stripes of X."""
        if of not in ("X", "W"):
            raise ValueError(f'of must be "X" or "W", not {of!r}')
        n, _, k = self.sizes
        full = self.in_x if of == "X" else self.in_w
        return Spy(full.reshape(n * k, -1), f"∂Y/∂{of}")

    def __str__(self) -> str:
        n, m, k = self.sizes
        lines = [f"Y = X W, with X {n}×{m}, W {m}×{k}, Y {n}×{k}", ""]
        for of, other, shape, cost, entry, why in (
            (
                "X",
                "W",
                (n, m),
                n * k * m,
                "W[l, j] if i = k, else 0",
                "dX[k, l] = Σⱼ dY[k, j] W[l, j],  so  dX = dY Wᵀ",
            ),
            (
                "W",
                "X",
                (m, k),
                n * k * m,
                "X[i, k] if j = l, else 0",
                "dW[k, l] = Σᵢ X[i, k] dY[i, l],  so  dW = Xᵀ dY",
            ),
        ):
            size = n * k * shape[0] * shape[1]
            used = n * k * m
            lines += [
                f"∂Y/∂{of} has the shape {n}×{k}×{shape[0]}×{shape[1]}: {size:,} numbers, {used:,} of them from"
                f" {other}, the others zero:",
                f"  ∂Y[i, j]/∂{of}[k, l] = {entry}",
                "  summed with dY over i and j, only one index is left to sum over:",
                f"  {why}:  {cost:,} multiplications instead of {size:,}",
                "",
            ]
        return "\n".join(lines[:-1])

    __repr__ = __str__


def matmul(x: Any, w: Any) -> MatmulJacobian:
    """Show the four-dimensional Jacobians of ``Y = X W``, and why the backward pass never needs them.

    Parameters
    ----------
    x : array_like, shape (n, m)
    w : array_like, shape (m, k)

    Returns
    -------
    MatmulJacobian
        Prints as an explanation. `contracted` and `collapsed` compute the gradients both ways; `spy` is a picture.

    Raises
    ------
    ValueError
        If the operands are no matrices that can be multiplied, or the arrays would have more than ten million entries.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> shown = cr.explain.matmul(np.ones((2, 3)), np.ones((3, 2)))
    >>> shown.in_x.shape
    (2, 2, 2, 3)
    >>> [bool((a == b).all()) for a, b in zip(shown.contracted(np.eye(2)), shown.collapsed(np.eye(2)))]
    [True, True]
    """
    x, w = np.asarray(x, float), np.asarray(w, float)
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[0]:
        raise ValueError(f"X and W must be matrices that can be multiplied, not of shapes {x.shape} and {w.shape}")
    (n, m), k = x.shape, w.shape[1]
    if n * k * max(n * m, m * k) > 10_000_000:
        raise ValueError(f"for {n}×{m} and {m}×{k} the arrays would be too large to show; take smaller matrices")
    return MatmulJacobian(x, w)
