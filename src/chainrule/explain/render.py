"""Tables in colour, by the library rich, which is imported here only."""

import shutil

from chainrule.errors import MissingDependencyError
from chainrule.explain import layout

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingDependencyError("rich", "explain", "a table in colour") from error

STYLES = {"step": "bold cyan", "line": "dim", "name": "bold", "expression": "", "value": "green", "arrives by": "dim"}


def show(explanation, console=None):
    """Print an explanation: the point, the derivatives, and a table for each mode. To a file goes the plain text."""
    console = console or Console(highlight=False)
    write = Writer(console)
    width = min(shutil.get_terminal_size((layout.WIDEST, 24)).columns, layout.WIDEST)
    if not console.is_terminal:
        print(explanation.text(width, ascii_only=write.plain), file=console.file)
        return
    write(explanation.title, "bold")
    write("")
    pairs = explanation.summary()
    names = max([layout.length(n) for n, _ in pairs])
    for name, text in pairs:
        style = "yellow" if name.startswith("∂") else "green"
        write(f"  {layout.pad(name, names)} = ", "bold", text, style)
    for table in explanation.tables(width):
        write("")
        write.table(table)
    for line in ["", *explanation.remarks()] if explanation.remarks() else []:
        write(line, "italic")


class Writer:
    """Writes to a console, in ASCII where it can show no more."""

    def __init__(self, console):
        self.console = console
        self.plain = not console.encoding.lower().startswith("utf")

    def text(self, text, style=""):
        """Return a piece of styled text."""
        return Text(layout.ascii_only(text) if self.plain else text, style)

    def __call__(self, *pieces):
        """Write one line, given as text and style in turn."""
        line = Text()
        for text, style in zip(pieces[::2], [*pieces[1::2], ""], strict=False):
            line.append_text(self.text(text, style))
        self.console.print(line, soft_wrap=True)

    def table(self, table):
        """Write a table between its title and its caption."""
        table = table.in_ascii() if self.plain else table
        made = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1), pad_edge=True, show_edge=False)
        for header, width in zip(table.headers, table.widths(), strict=True):
            style = STYLES.get(header, "yellow")
            made.add_column(self.text(header), style=style, no_wrap=True, min_width=width)
        for row in table.rows:
            made.add_row(*[self.text("\n".join(cell)) for cell in row])
        self(table.title, "bold magenta")
        self("")
        self.console.print(made, soft_wrap=True)
        self("")
        self(table.caption, "italic")
