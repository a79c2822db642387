"""The evaluation trace as a table in Markdown or HTML: wider than a terminal's, with gates, lines and Jacobians."""

import html
import re
from dataclasses import dataclass

MOST_ROWS = 120  # of a table in a notebook
STYLE = (
    "<style>.chainrule-trace table{border-collapse:collapse;font-size:0.9em}"
    ".chainrule-trace caption{text-align:left;font-weight:bold;padding:0.6em 0}"
    ".chainrule-trace th,.chainrule-trace td{text-align:left;vertical-align:top;padding:0.2em 0.8em;"
    "border-bottom:1px solid #8884;white-space:pre-line}"
    ".chainrule-trace td{font-family:ui-monospace,monospace}</style>"
)


@dataclass(frozen=True)
class Wide:
    """A table of text cells, of one or more lines each."""

    title: str
    headers: tuple
    rows: tuple
    caption: str = ""

    def cut(self, most):
        """Return the table with its first and last rows only, if it has more than `most`."""
        if len(self.rows) <= most:
            return self
        half = most // 2
        gap = ("…", *[""] * (len(self.headers) - 1))
        left = len(self.rows) - 2 * half
        caption = f'{left} steps are left out here; table(format="html") has them all. {self.caption}'
        return Wide(self.title, self.headers, (*self.rows[:half], gap, *self.rows[-half:]), caption)


def wide_tables(data: dict, mode: str = "both") -> list[Wide]:
    """Return the tables of an explanation's data: forward, and one for each entry of the result."""
    made = []
    steps = {s["id"]: s for s in data["steps"]}
    if mode != "reverse" and data["forward"]["directions"]:
        directions = data["forward"]["directions"]
        rows = [
            (*about(steps[k]), steps[k]["value"], *tangents)
            for k, tangents in data["forward"]["tangents"].items()
        ]  # fmt: skip
        headers = ("step", "name", "line", "expression", "gate", "value", *[f"v̇ = ∂v/∂{d}" for d in directions])
        made.append(trimmed(Wide("Forward mode: tangents, from the inputs to the result", headers, tuple(rows))))
    for back in data["backward"] if mode != "forward" else []:
        rows = []
        for k, adjoint in back["adjoints"].items():
            paths = back["paths"][k]
            arrives = [path_text(p) for p in paths] or ["seed" if k in back["order"] else "not used"]
            rows.append(
                (*about(steps[k]), steps[k]["value"], adjoint, "\n+ ".join(arrives), steps[k]["jacobian"] or "")
            )
        headers = ("step", "name", "line", "expression", "gate", "value", f"v̄ = ∂{back['output']}/∂v",
                   "upstream · local", "Jacobian")  # fmt: skip
        caption = "Several paths into one step: it is used several times (a copy gate), and they are added up."
        title = "Reverse mode: adjoints, from the result back to the inputs"
        made.append(trimmed(Wide(title, headers, tuple(rows), caption)))
    return made


def about(step):
    """Return the first cells of a row."""
    line = (step["where"] or "").partition(" in ")[0] if step["line"] is None else str(step["line"])
    gate = step["gate"] + (f", copy × {step['uses']}" if step["uses"] > 1 else "")
    return step["id"], step["name"] or "", line, step["text"], gate


def path_text(p):
    """Write one path: upstream times local, and what that gives."""
    made = f"∂{p['from']}/∂{p['of']}"
    if p["local"] is not None:
        made = (
            f"{made}: {p['upstream']} · {signed(p['local'])}" if plain_number(p["local"]) else f"{made}: {p['local']}"
        )
    return f"{made} = {p['contribution']}"


def plain_number(text):
    """Tell whether a text is a number."""
    return re.fullmatch(r"-?[\d.]+(e[-+]\d+)?|-?inf|nan", text) is not None


def signed(text):
    """Write a factor, with parentheses around a negative one."""
    return f"({text})" if text.startswith("-") else text


def trimmed(table):
    """Return a table without columns that are empty."""
    keep = [k for k in range(len(table.headers)) if k in (0, 3) or any(row[k] for row in table.rows)]
    return Wide(
        table.title,
        tuple([table.headers[k] for k in keep]),
        tuple([tuple([row[k] for k in keep]) for row in table.rows]),
        table.caption,
    )


def markdown(table: Wide) -> str:
    """Write a table in Markdown; what has a meaning there, or in HTML, is escaped."""

    def line(cells):
        return "| " + " | ".join(cells) + " |"

    rows = [line([escaped(c).replace("\n", "<br>") for c in row]) for row in table.rows]
    head = [line([escaped(h) for h in table.headers]), line(["---"] * len(table.headers))]
    caption = ["", escaped(table.caption)] if table.caption else []
    return "\n".join([f"**{escaped(table.title)}**", "", *head, *rows, *caption])


def escaped(text):
    """Escape a text for Markdown."""
    return html.escape(re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text), quote=False)


def html_table(table: Wide) -> str:
    """Write a table in HTML, with all text escaped."""
    head = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in table.headers)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>\n" for row in table.rows)
    caption = f"<p>{html.escape(table.caption)}</p>" if table.caption else ""
    return (
        f"<table><caption>{html.escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>{caption}"
    )


def notebook(explanation) -> str:
    """Return what a notebook shows: title, results, graph and tables."""
    from chainrule.explain.data import data as data_of

    data = data_of(explanation, flat=False)
    pairs = "".join(
        f"<tr><th scope=\"row\">{html.escape(n)}</th><td>{html.escape(v.strip())}</td></tr>"
        for n, v in explanation.summary()
    )  # fmt: skip
    graph = data["graph"]["svg"] if data["graph"] else ""
    tables = "".join(
        f"<details{' open' if len(t.rows) <= 40 else ''}><summary>{html.escape(t.title)}</summary>"
        f"{html_table(t.cut(MOST_ROWS))}</details>"
        for t in wide_tables(data)
    )
    notes = "".join(f"<p>{html.escape(n)}</p>" for n in data["notes"])
    return (
        f'{STYLE}<div class="chainrule-trace"><table><caption>{html.escape(data["title"])}</caption>'
        f"{pairs}</table>{graph}{tables}{notes}</div>"
    )
