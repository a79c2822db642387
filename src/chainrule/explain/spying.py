"""Sparsity pictures: where a matrix has entries that are not zero, as text and as SVG."""

import html
from pathlib import Path
from typing import Any

import numpy as np

WIDE, HIGH = 64, 32  # characters of a picture in text
CELLS = 120  # cells of a picture in SVG, along each side
SHADES = "·░▒▓█"
POSITIVE, NEGATIVE = "#1d4ed8", "#b91c1c"


class Spy:
    """Where the entries of a matrix are that are not zero. It prints as text; notebooks show it as SVG.

    Attributes
    ----------
    shape : tuple
        Of the matrix.
    nonzeros : int
        How many of its entries are not zero.
    """

    def __init__(self, matrix: Any, title: str = ""):
        self.matrix = matrix = np.atleast_2d(matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix))
        if matrix.ndim != 2:
            raise ValueError(f"a picture needs a matrix, not an array of shape {matrix.shape}")
        self.shape, self.title = matrix.shape, title
        self.nonzeros = int(np.count_nonzero(matrix))

    def __str__(self) -> str:
        rows, columns = self.shape
        if rows <= HIGH and columns <= WIDE:
            lines = [" ".join("■" if v else "·" for v in row) for row in self.matrix != 0]
        else:
            shares = binned(self.matrix != 0, min(rows, HIGH), min(columns, WIDE))
            lines = ["".join(SHADES[int(np.ceil(v * (len(SHADES) - 1)))] for v in row) for row in shares]
        return "\n".join([*lines, self.caption])

    __repr__ = __str__

    @property
    def caption(self) -> str:
        """What the picture shows, as a line."""
        rows, columns = self.shape
        share = f", {100 * self.nonzeros / (rows * columns):.3g} %" if rows * columns else ""
        head = f"{self.title}: " if self.title else ""
        return f"{head}{rows}×{columns}, {self.nonzeros:,} of {rows * columns:,} entries are not zero{share}"

    def svg(self, path: Any = None, width: int = 320) -> str:
        """Return the picture as SVG, and write it to `path`: blue where entries are positive, red where negative."""
        rows, columns = self.shape
        high, wide = min(rows, CELLS), min(columns, CELLS)
        cell = width / max(wide, high, 1)
        shares = binned(self.matrix != 0, high, wide)
        signs = binned(np.sign(np.real(np.nan_to_num(self.matrix))), high, wide)
        cells = []
        for i, j in np.argwhere(shares > 0):
            colour = NEGATIVE if signs[i, j] < 0 else POSITIVE
            strength = "" if shares[i, j] == 1 else f' fill-opacity="{0.25 + 0.75 * shares[i, j]:.2f}"'
            cells.append(
                f'<rect x="{j * cell:.2f}" y="{i * cell:.2f}" width="{cell * 0.94:.2f}" height="{cell * 0.94:.2f}" '
                f'fill="{colour}"{strength}/>'
            )
        caption = html.escape(self.caption)
        w, h = wide * cell, high * cell
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {max(w, 300) + 8:.0f} {h + 32:.0f}" '
            f'width="{max(w, 300) + 8:.0f}" height="{h + 32:.0f}" role="img"><title>{caption}</title>'
            f'<rect x="-1" y="-1" width="{w + 2:.2f}" height="{h + 2:.2f}" fill="#ffffff" stroke="#6b7280"/>'
            f'{"".join(cells)}<text x="0" y="{h + 20:.0f}" font-family="Helvetica,Arial,sans-serif" font-size="12" '
            f'fill="#6b7280">{caption}</text></svg>'
        )
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_svg_(self) -> str:
        return self.svg()


def binned(values, high, wide):
    """Return the means of a matrix over `high` times `wide` blocks."""
    if not values.size:
        return np.zeros((high, wide))
    totals = np.add.reduceat(values.astype(float), starts(values.shape[0], high), axis=0)
    totals = np.add.reduceat(totals, starts(values.shape[1], wide), axis=1)
    counts = np.outer(np.diff([*starts(values.shape[0], high), values.shape[0]]),
                      np.diff([*starts(values.shape[1], wide), values.shape[1]]))  # fmt: skip
    return totals / counts


def starts(size, count):
    """Return where `count` blocks of nearly equal size begin."""
    return [size * k // count for k in range(count)]


def spy(matrix: Any, title: str = "") -> Spy:
    """Picture where a matrix has entries that are not zero.

    Parameters
    ----------
    matrix : array_like, shape (m, n)
        A matrix, or one of scipy.sparse.
    title : str
        Stands before the caption.

    Returns
    -------
    Spy
        Prints as text; its `svg` gives a picture.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> J = cr.jacobian(lambda x: np.maximum(x, 0))(np.array([1.0, -2.0, 3.0]))
    >>> print(cr.explain.spy(J, "ReLU"))
    ■ · ·
    · · ·
    · · ■
    ReLU: 3×3, 2 of 9 entries are not zero, 22.2 %
    """
    return Spy(matrix, title)
