"""Where the command writes to: files, the terminal, the browser."""

import json
import sys
import tempfile
import webbrowser
from pathlib import Path

from chainrule.errors import ChainruleError


class OutputError(ChainruleError, OSError):
    """A file can't be written; the message is all the user needs."""


def write(explanation, files, browse):
    """Write an explanation to the files asked for (kind -> path, or ``-`` for the terminal), and open the page."""
    for kind, path in files.items():
        if kind == "html":
            put(path, explanation.to_html(), "the page")
        elif kind == "json":
            text = json.dumps(explanation.data(), ensure_ascii=False, indent=1, allow_nan=False)
            put(path, text + "\n", "the data")
        else:
            form = "svg" if kind == "svg" or path == "-" else None
            try:
                put(path, explanation.graph(None, form or suffix(path)), "the graph")
            except ValueError as error:
                raise OutputError(f"--graph {path}: {error}") from None
    if browse:
        show_page(explanation, files.get("html"))


def suffix(path):
    """Return the format that the name of a file asks for."""
    return Path(path).suffix.lstrip(".").lower() or "svg"


def put(path, content, what):
    """Write text or bytes to a file, and say so; ``-`` is the terminal."""
    if path == "-":
        if isinstance(content, bytes):
            sys.stdout.buffer.write(content)
        else:
            print(content.rstrip("\n"))
        return
    try:
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror}.") from None
    print(f"{what} is in {path}")


def show_page(explanation, path):
    """Show the page in the browser: the file written, or one of its own."""
    if path in (None, "-"):
        with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as file:
            file.write(explanation.to_html())
        path = file.name
    address = Path(path).resolve().as_uri()
    if not webbrowser.open(address):
        print(f"no browser was found; open {address}")
