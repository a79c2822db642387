"""From rows to cells of text: what a table says, in which columns, with how many digits. Knows no terminal.

Numbers of a column stand with their decimal points below one another. They are exact if the width allows; otherwise all
are rounded to as many digits as fit.
"""

import re
import unicodedata
from dataclasses import dataclass

import numpy as np

from chainrule.explain import notation

MOST_PATHS = 8  # lines of one cell
MOST_EXPRESSION = 40  # characters
GAP = 3  # between columns
WIDEST = 100  # columns that a table takes at most, however wide the terminal


@dataclass(frozen=True)
class Table:
    """Cells of text. A cell is a list of lines; each row has one for each header."""

    title: str
    caption: str
    headers: tuple
    rows: tuple

    def widths(self) -> list:
        """Return the width of each column."""
        return [
            max([length(h), *[length(line) for row in self.rows for line in row[k]]])
            for k, h in enumerate(self.headers)
        ]

    def width(self) -> int:
        """Return the width of the whole table."""
        return sum(self.widths()) + GAP * (len(self.headers) - 1) + 2

    def in_ascii(self) -> "Table":
        """Return the table for a terminal that can't show more than ASCII."""
        return Table(
            ascii_only(self.title),
            ascii_only(self.caption),
            tuple([ascii_only(h) for h in self.headers]),
            tuple([tuple([[ascii_only(line) for line in cell] for cell in row]) for row in self.rows]),
        )

    def __str__(self) -> str:
        widths = self.widths()
        gap = " " * GAP

        def line(cells):
            return (" " + gap.join(pad(c, w) for c, w in zip(cells, widths, strict=True))).rstrip()

        lines = [self.title, "", line(self.headers), " " + gap.join("─" * w for w in widths)]
        for row in self.rows:
            height = max(map(len, row))
            lines += [line([cell[k] if k < len(cell) else "" for cell in row]) for k in range(height)]
        return "\n".join([*lines, "", self.caption])


def length(text):
    """Return the columns that a text takes: the dot of v̇ and the bar of v̄ take none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pad(text, width):
    """Fill a text with blanks up to `width`."""
    return text + " " * (width - length(text))


def shorten(text, most=MOST_EXPRESSION):
    """Cut a text that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def cell(x, digits, most=8, norms=None):
    """Write one value; of a step with several outputs all of them. `norms` keeps those of arrays, by their id."""
    if isinstance(x, tuple):
        return "; ".join(cell(v, digits, most, norms) for v in x)
    if np.size(x) <= most:
        return notation.array(x, digits, most)
    if most < 3:
        return f"array {notation.shape(np.shape(x))}"
    norms = {} if norms is None else norms
    if id(x) not in norms:
        norms[id(x)] = notation.norm(x)
    return notation.brief(x, digits, most, norms[id(x)]) if most > 3 else notation.sized(x, digits, norms[id(x)])


_NUMBER = re.compile(r"(-?\d+)((?:\.\d+)?(?:e[-+]\d+)?)", re.ASCII)


def aligned(texts):
    """Move the numbers of a column so that their decimal points stand below one another."""
    parts = [_NUMBER.fullmatch(t) for t in texts]
    before = max([len(p[1]) for p in parts if p], default=0)
    return [" " * (before - len(p[1])) + t if p else t for t, p in zip(texts, parts, strict=True)]


# Ways of writing a table, wide to narrow: digits, whether paths show their numbers, entries of an array written out.
WIDE = ((17, True, 8), (12, True, 8), (10, True, 8), (8, True, 8))
NARROW = (
    *WIDE, (6, True, 8), (5, True, 8), (4, True, 8), (6, False, 8), (5, False, 8), (4, False, 8), (4, True, 3),
    (4, False, 3), (3, True, 2), (3, False, 2),
)  # fmt: skip


def fit(make, count, width):
    """Return the tables of `count` columns that `make(columns, *way)` lays out, to fit into `width`.

    Digits are given up down to eight; then the columns are spread over several tables, and what is still too wide loses
    more digits, the numbers of its paths, and the entries of its arrays.
    """
    columns = list(range(count))
    tables = []
    while columns or not tables:
        for size in range(len(columns), -1, -1):
            head = columns[: max(size, 1)]
            tried = (make(head, *way) for way in (NARROW if size <= 1 else WIDE))
            made = next((t for t in tried if t.width() <= width), None) or make(head, *NARROW[-1])
            if size <= 1 or made.width() <= width:
                break
        tables.append(made)
        columns = columns[max(size, 1) :]
    return tables


def forward_tables(table, width):
    """Lay out a forward table."""
    norms: dict = {}

    def make(columns, digits, numbers, most):
        values = aligned([cell(r.value, digits, most, norms) for r in table.rows])
        names, cells = places(table.rows if most > 2 else ())
        tangents = [aligned([cell(r.tangents[k], digits, most, norms) for r in table.rows]) for k in columns]
        return Table(
            "Forward mode: tangents, from the inputs to the result",
            "v̇ is the tangent of a step: the derivative of that step in an input.",
            ("step", *names, "expression", "value", *[f"v̇ = ∂v/∂{table.directions[k]}" for k in columns]),
            tuple(
                [
                    (
                        [r.step],
                        *(cells[n] if cells else ()),
                        [shorten(r.expression)],
                        [values[n]],
                        *[[t[n]] for t in tangents],
                    )
                    for n, r in enumerate(table.rows)
                ]
            ),
        )

    return fit(make, len(table.directions), width)


def reverse_tables(table, width):
    """Lay out a reverse table."""
    norms: dict = {}

    def make(columns, digits, numbers, most):
        values = aligned([cell(r.value, digits, most, norms) for r in table.rows])
        names, cells = places(table.rows if most > 2 else ())
        adjoints = aligned([cell(r.adjoint, digits, most, norms) for r in table.rows])
        return Table(
            "Reverse mode: adjoints, from the result back to the inputs",
            f"v̄ is the adjoint of a step: the derivative of {table.output} in that step.\n"
            "Several paths back to it are added up.",
            ("step", *names, "expression", "value", f"v̄ = ∂{table.output}/∂v", "arrives by"),
            tuple(
                [
                    (
                        [r.step],
                        *(cells[n] if cells else ()),
                        [shorten(r.expression)],
                        [values[n]],
                        [adjoints[n]],
                        path_lines(r, min(digits, 6), numbers),
                    )
                    for n, r in enumerate(table.rows)
                ]
            ),
        )

    return fit(make, 1, width)


def places(rows):
    """Return the headers and cells of the columns for the user's lines and names: none where they would say little."""
    lines, names = {r.line for r in rows} - {None}, {r.name for r in rows} - {None}
    headers = (["line"] if len(lines) > 1 else []) + (["name"] if names else [])
    cells = []
    for r in rows:
        line = [["" if r.line is None else str(r.line)]] if len(lines) > 1 else []
        cells.append(line + ([[shorten(r.name or "", 16)]] if names else []))
    return headers, cells


def path_lines(row, digits, numbers):
    """Write the paths that add up to an adjoint, one a line; with `numbers`, what each brings."""
    if not row.paths:
        return ["seed"] if np.any(_flat(row.adjoint)) else ["not used"]
    lines = []
    several = len(row.paths) > 1
    for k, p in enumerate(row.paths[:MOST_PATHS]):
        sign = ("+ " if k else "  ") if several else ""
        text = f"{sign}{barred(p.step)}·∂{grouped(p.step)}/∂{p.of}"
        if not numbers:
            pass
        elif p.local is not None and np.isfinite(p.local):
            text += f" = {notation.number(p.upstream, digits)} · {signed(p.local, digits)}"
        elif p.local is None and p.text:
            text += f" = {p.text.replace('ȳ', barred(p.step))}"
        elif several or p.local is not None:
            text += f" = {shorten(cell(p.contribution, min(digits, 4)), 30)}"
        lines.append(text)
    if len(row.paths) > MOST_PATHS:
        lines.append(f"+ {len(row.paths) - MOST_PATHS} more")
    return lines


def signed(x, digits):
    """Write a factor, with parentheses around a negative one."""
    text = notation.number(x, digits)
    return f"({text})" if text.startswith("-") else text


def grouped(step):
    """Write the name of a step as a whole: several outputs get parentheses."""
    return f"({step})" if "," in step else step


def barred(step):
    """Write the name of an adjoint: ``v̄3`` for ``v3``."""
    return grouped(step.replace("v", "v̄"))


def _flat(x):
    return np.concatenate([np.ravel(v) for v in x]) if isinstance(x, tuple) else np.ravel(x)


_ASCII = str.maketrans({"̇": "'", "̄": "_", "∂": "d", "·": "*", "─": "-", "…": "~", "×": "x"})


def ascii_only(text):
    """Return the text for terminals that can't show more than ASCII."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()
