"""The page: an explanation as one HTML file that can be stepped through, and that needs no network.

The file is put together from the sources beside this module: `page.html` is the frame, `style.css` the looks, and the
scripts in `SCRIPTS`, in that order, share one module scope. What the page shows is handed over as JSON in a block by
itself; the scripts put every text of it into the document as text, never as markup. A content security policy lets only
these scripts and styles run, by their hashes, and nothing be loaded. The graph is laid out in the page itself: its
cards show values and gradients from when they are computed, and it may be drawn around any one step.
"""

import base64
import hashlib
import html
import json
import math
from importlib import resources

from chainrule.explain.fold import MOST, fold

SCRIPTS = (
    "words.js", "model.js", "state.js", "dom.js", "layout.js", "graph.js", "rows.js", "source.js", "table.js",
    "panel.js", "player.js", "main.js",
)  # fmt: skip


def page(data: dict) -> str:
    """Return the page that shows an explanation's data.

    Parameters
    ----------
    data : dict
        What ``Explanation.data()`` returns: dicts, lists, texts and numbers.

    Returns
    -------
    str
        A whole HTML document.

    Examples
    --------
    >>> step = {"id": "v1", "kind": "input", "name": "x", "text": "x", "value": "2", "parents": []}
    >>> page({"title": "f(x)", "steps": [step]}).startswith("<!doctype html>")
    True
    """
    style = source("style.css")
    script = "".join(f"// {name}\n{source(name)}\n" for name in SCRIPTS)
    policy = (
        f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = [{k: v for k, v in s.items() if k != "file"} for s in data["steps"]]  # a path of this machine is nobody's
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(str(data.get("title") or "chainrule")),
        "STYLE": style,
        "DATA": block({**data, "steps": shown, "graph": {"folded": folded(data["steps"])}}),
        "SCRIPT": script,
    }
    pieces = source("page.html").split("%%")  # text, name, text, name, ..., text: nothing is replaced twice
    return "".join(parts[p] if k % 2 else p for k, p in enumerate(pieces))


def folded(steps):
    """Return the groups of steps that share a card where there are too many for one each."""
    if len(steps) <= MOST:
        return []
    return [{"label": g.label or g.code, "steps": g.steps} for g in fold(steps) if len(g.steps) > 1]


def source(name):
    """Return the text of one of the page's sources."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def hashed(text):
    """Return what a content security policy calls a script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def block(data):
    """Write JSON that may stand inside a script element: no ``<`` could end it or open another."""
    text = json.dumps(finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def finite(data):
    """Return the data with NaN and the infinities, which JSON lacks, as texts."""
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {k: finite(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [finite(v) for v in data]
    return data
