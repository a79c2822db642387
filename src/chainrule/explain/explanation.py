"""`Explanation`: the evaluation trace of a function, with its derivatives, as an object that prints itself."""

from dataclasses import dataclass
from typing import Any

from chainrule.errors import MissingDependencyError
from chainrule.explain import layout, notation
from chainrule.explain.table import ForwardTable, ReverseTable

MODES = ("forward", "reverse", "both")
WIDTH = 100


@dataclass(frozen=True, repr=False)
class Explanation:
    """A function at a point: its value, its derivatives, and how they come about. Made by `explain`.

    ``print(explanation)`` shows it as text; `show` prints it with colours.

    Attributes
    ----------
    title : str
        What is explained.
    inputs, outputs : dict
        Name -> value.
    derivatives : dict
        ``(name of an output entry, name of an input)`` -> derivative, of the input's shape. An output of more than 100
        entries stands as a whole where forward mode gave its derivative: of its shape, followed by the input's.
    forward : ForwardTable or None
        The rows of forward mode: step, expression, value, one tangent for each entry of the inputs.
    reverse : tuple of ReverseTable
        For each entry of the output the rows of reverse mode: step, expression, value, adjoint, and the paths by which
        it arrived.
    notes : tuple of str
        What is not shown, and why.
    run : Run
        The run that this is made of: the function, its arguments, and the program with its values.
    """

    title: str
    inputs: dict
    outputs: dict
    derivatives: dict
    forward: ForwardTable | None
    reverse: tuple[ReverseTable, ...]
    constants: dict
    notes: tuple[str, ...]
    run: Any = None

    @property
    def rows(self) -> tuple:
        """The rows of the first table."""
        return self.forward.rows if self.forward is not None else self.reverse[0].rows

    def summary(self) -> list[tuple[str, str]]:
        """Return (name, value) of the point, the result and its derivatives, as exact text."""
        pairs = [*self.inputs.items(), *self.outputs.items()]
        pairs += [(f"∂{y}/∂{x}", d) for (y, x), d in self.derivatives.items()]
        texts = [notation.array(v) for _, v in pairs]
        return list(zip([n for n, _ in pairs], layout.aligned(texts), strict=True))

    def tables(self, width: int = WIDTH) -> list[layout.Table]:
        """Lay out the tables so that each fits into `width` columns."""
        made = [] if self.forward is None else layout.forward_tables(self.forward, width)
        for table in self.reverse:
            made += layout.reverse_tables(table, width)
        return made

    def table(self, mode: str = "both", width: int = WIDTH, *, format: str = "text") -> str:
        """Return the evaluation-trace tables of one mode, or of both, as text.

        `format` is ``"text"`` (for a terminal, in `width` columns), ``"markdown"`` or ``"html"``; the last two have
        more columns: the gate of each step, how often its value is used, and the sizes of the Jacobians that were not
        formed. Names and values in them are escaped.

        Raises
        ------
        ValueError
            If `mode` is none of ``"forward"``, ``"reverse"``, ``"both"``, or `format` is unknown.
        """
        check_mode(mode)
        if format in ("markdown", "html"):
            from chainrule.explain import markup
            from chainrule.explain.data import data

            write = markup.markdown if format == "markdown" else markup.html_table
            return "\n\n".join(map(write, markup.wide_tables(data(self, graph=False, flat=False), mode)))
        if format != "text":
            raise ValueError(f'format must be "text", "markdown" or "html", not {format!r}')
        made = []
        if mode != "reverse" and self.forward is not None:
            made += layout.forward_tables(self.forward, width)
        if mode != "forward":
            made += [t for table in self.reverse for t in layout.reverse_tables(table, width)]
        return "\n\n".join(map(str, made))

    def graph(self, path: Any = None, format: str | None = None, *, most: int = 60, output: int = 0) -> Any:
        """Draw the computational graph: each step with its value, shape and gradient.

        Inputs, parameters (what stands in a container, or has a usual name such as ``W`` or ``b``), captured arrays and
        results have shapes and colours of their own. A value used several times passes through a copy gate. Where there
        would be more than `most` nodes, the body of a loop is drawn once, with its number of rounds, and what is still
        too much is put together by source line.

        Parameters
        ----------
        path : path-like, optional
            Where to write the picture, too.
        format : {"svg", "dot", "png", "pdf"}, optional
            By default what the name of the file ends in, or SVG.
        most : int
            How many nodes there may be before the graph is folded.
        output : int
            Number of the entry of the result whose gradients are shown.

        Returns
        -------
        str or bytes
            SVG (which notebooks show) and DOT as text, the others as bytes.

        Raises
        ------
        MissingDependencyError
            If pygraphviz is not installed.
        """
        from chainrule.explain.data import data
        from chainrule.explain.graph import graph

        return graph(data(self, graph=False, files=True, flat=False), path, format, most=most, output=output)

    def to_html(self, path: Any = None) -> str:
        """Return one self-contained page that can be stepped through, and write it to `path`; it needs no network."""
        from pathlib import Path

        from chainrule.explain.data import data
        from chainrule.explain.page import page

        text = page(data(self, graph=False, files=True))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        from chainrule.explain.markup import notebook

        return notebook(self)

    def remarks(self) -> list[str]:
        """Return the captured arrays and the notes, one a line."""
        lines = [f"{s} = {notation.array(c)}" for s, c in self.constants.items()]
        return lines + list(self.notes)

    def text(self, width: int = WIDTH, ascii_only: bool = False) -> str:
        """Return all of it as text that fits into `width` columns; with `ascii_only`, without accents and signs."""
        pairs = self.summary()
        names = max([layout.length(n) for n, _ in pairs])
        head = [self.title, "", *[f"  {layout.pad(n, names)} = {v}" for n, v in pairs]]
        tables = [t.in_ascii() if ascii_only else t for t in self.tables(width)]
        parts = ["\n".join(head), *map(str, tables)]
        if self.remarks():
            parts.append("\n".join(self.remarks()))
        text = "\n\n".join(parts)
        return layout.ascii_only(text) if ascii_only else text

    def first_nonfinite(self) -> Any:
        """Return the first value, tangent or cotangent that is NaN or infinite, with the user's line; None if none is.

        Returns
        -------
        Fault or None
            Prints as a sentence. Of a cotangent `where` is the line whose backward pass made it.
        """
        from chainrule.explain.faults import first_nonfinite

        return first_nonfinite(self)

    def kinks(self) -> list:
        """Return the ties and kinks that the run hit exactly: `Kink` objects, which print as lines.

        Ties of maxima, ``abs`` and ``relu`` at 0, infinite slopes such as that of ``sqrt`` at 0, jumps, and comparisons
        whose sides are equal.
        """
        from chainrule.explain.faults import kinks

        return kinks(self)

    def order(self) -> Any:
        """Count the multiplications of the chain of Jacobians, forward, in reverse and in the cheapest order.

        Raises
        ------
        ValueError
            If the steps are no chain, each of the one before it.
        """
        from chainrule.explain.chains import order_of

        return order_of(self)

    def cost(self, repeat: int = 3) -> Any:
        """Count operations and bytes, and measure time, for each of the user's lines, forward and backward.

        Returns
        -------
        Cost
            Prints as a table; `rows` has one `LineCost` per line.
        """
        from chainrule.explain.cost import cost

        return cost(self, repeat)

    def data(self) -> dict:
        """Return all of it as dicts, lists, text and numbers, as for JSON. Values are text, rounded to six digits.

        The steps with their user's names and lines, gates, shapes and parents; tangents; for each entry of the result
        the adjoints in the order of the pass, with the paths by which each arrived; the user's source, and that of the
        gradient.
        """
        from chainrule.explain.data import data

        return data(self)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def show(self) -> None:
        """Print to the terminal, with colours if the library rich is installed."""
        try:
            from chainrule.explain.render import show
        except MissingDependencyError:
            print(self)
        else:
            show(self)


def check_mode(mode):
    """Raise unless `mode` is one of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
