"""The computational graph as a picture, drawn by Graphviz through pygraphviz, which is imported here only.

Each node shows its step, its value and, in red, the gradient that arrived. Inputs, parameters, captured arrays and
results have colours and shapes of their own. A value that is used several times passes through a copy gate.
"""

import html
import re
from pathlib import Path

from chainrule.errors import MissingDependencyError
from chainrule.explain.fold import MOST, Group, fold

FORMATS = ("svg", "dot", "png", "pdf")
SHORT = 34  # characters of one line in a node
WHOLE = 30  # steps of a graph with copy gates

# fmt: off
STYLES = {  # role: shape, fill, border
    "input":     ("box",     "#dbeafe", "#1d4ed8"),
    "parameter": ("box",     "#dcfce7", "#15803d"),
    "captured":  ("box",     "#f3f4f6", "#6b7280"),
    "call":      ("box",     "#ffffff", "#4b5563"),
    "output":    ("box",     "#fef3c7", "#b45309"),
    "loop":      ("box3d",   "#f5f3ff", "#6d28d9"),
    "group":     ("folder",  "#f9fafb", "#4b5563"),
}
# fmt: on
VALUE, GRADIENT, QUIET = "#1e3a8a", "#b91c1c", "#4b5563"


class Svg(str):
    """An SVG picture as text. Notebooks show it as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def graph(data: dict, path=None, format=None, *, most: int = MOST, output: int = 0):
    """Draw the graph of an explanation's data; see `Explanation.graph`."""
    form = format or (Path(path).suffix.lstrip(".").lower() if path is not None and Path(path).suffix else "svg")
    if form not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {form!r}")
    drawn, _, _ = draw(data, most, output)
    made = drawn.to_string() if form == "dot" else rendered(drawn, form)
    if path is not None:
        Path(path).write_bytes(made if isinstance(made, bytes) else made.encode())
    return made


def picture(data: dict, most: int = MOST) -> dict | None:
    """Return the graph for a page: SVG, the element of each step, and the groups; None without pygraphviz."""
    try:
        drawn, nodes, folded = draw(data, most, 0)
    except MissingDependencyError:
        return None
    return {"svg": str(rendered(drawn, "svg")), "nodes": nodes, "folded": folded}


def rendered(drawn, form):
    """Run Graphviz: bytes, or for SVG its text without the prologue."""
    made = drawn.draw(format=form, prog="dot")
    if form != "svg":
        return made
    text = made.decode("utf-8")
    return Svg(re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL).strip())


def draw(data, most, output):
    """Return the graph as pygraphviz has it, the element id of each step, and the groups."""
    try:
        import pygraphviz
    except ImportError as error:
        raise MissingDependencyError("pygraphviz", "explain", "a graph") from error
    steps = {s["id"]: s for s in data["steps"]}
    groups = fold(data["steps"], most)
    of = {i: f"n{k + 1}" for k, g in enumerate(groups) for i in g.steps}
    made = pygraphviz.AGraph(
        directed=True, strict=False, rankdir="TB", bgcolor="transparent", nodesep="0.3", ranksep="0.4",
        tooltip=plain(data["title"]),
    )  # fmt: skip
    made.node_attr.update(fontname="Helvetica,Arial,sans-serif", fontsize="11", margin="0.09,0.05", penwidth="1.2")
    made.edge_attr.update(color="#6b7280", arrowsize="0.7", fontname="Helvetica,Arial,sans-serif", fontsize="9")
    gradients = data["backward"][output]["adjoints"] if data["backward"] else {}
    tangents = data["forward"]["tangents"] if not data["backward"] else {}
    outputs = set(data["outputs"])
    for k, g in enumerate(groups):
        single = len(g.steps) == 1
        role = "loop" if g.rounds > 1 else "group" if not single else role_of(steps[g.steps[0]], outputs)
        if not single and g.kind != "call":
            role = g.kind
        lines = step_lines(steps[g.steps[0]], gradients, tangents) if single else group_lines(g, steps, gradients)
        shape, fill, border = STYLES[role]
        if not single and outputs.intersection(g.steps):
            lines.append(("holds the result", STYLES["output"][2], True))
            border = STYLES["output"][2]
        name = f"n{k + 1}"
        made.add_node(
            name, id=f"{name}", label=table_label(lines), shape=shape, fillcolor=fill, color=border,
            style="filled,rounded" if shape == "box" and role != "call" else "filled", **{"class": role},
            tooltip=plain(" ".join(filter(None, [steps[g.steps[0]]["text"], steps[g.steps[0]].get("where")]))),
        )  # fmt: skip
    add_edges(made, groups, steps, of, len(data["steps"]) <= WHOLE)
    folded = [
        {"id": f"n{k + 1}", "label": g.label or "group", "steps": g.steps}
        for k, g in enumerate(groups)
        if len(g.steps) > 1
    ]
    return made, of, folded


def add_edges(made, groups, steps, of, copies):
    """Draw the arrows; with `copies` a value used several times passes through a copy gate."""
    uses = {}
    for s in steps.values():
        for p in s["parents"]:
            uses[p] = uses.get(p, 0) + 1
    order = {i: k for k, i in enumerate(steps)}
    known, gates = {}, set()
    for s in steps.values():
        for p in s["parents"]:
            a, b = of[p], of[s["id"]]
            if copies and uses[p] > 1:
                gate = f"{a}_copy"
                if gate not in gates:
                    gates.add(gate)
                    made.add_node(
                        gate, id=gate, label="copy", shape="circle", fontsize="8", margin="0.01", width="0.1",
                        color="#9ca3af", fontcolor=QUIET, tooltip="copy gate: gradients are added up here",
                        **{"class": "copy"},
                    )  # fmt: skip
                    made.add_edge(a, gate)
                a = gate
            first = groups[int(of[p][1:]) - 1]
            turn = a == b or (first.rounds > 1 and order[first.steps[0]] > order[groups[int(b[1:]) - 1].steps[0]])
            if a == b and first.rounds == 1:
                continue  # inside a group
            known[a, b, turn] = known.get((a, b, turn), 0) + 1
    for a, b, turn in known:
        style = {"style": "dashed", "color": "#6d28d9", "constraint": "false", "tooltip": "next round"} if turn else {}
        made.add_edge(a, b, **style)


def role_of(step, outputs):
    """Tell what a step is in the picture."""
    if step["kind"] != "call":
        return step.get("role", step["kind"])
    return "output" if step["id"] in outputs else "call"


def step_lines(step, gradients, tangents):
    """Return the lines of a node: (text, colour, bold)."""
    name = step["name"]
    if step["kind"] != "call":
        head = name or step["id"]
    else:
        head = f"{name} = {step['text']}" if name else step["text"]
    lines = [(f"{step['id']}  {head}" if head != step["id"] else head, "#111827", True)]
    if step["shape"] and "×" not in step["value"]:
        lines.append((f"shape {'×'.join(map(str, step['shape']))}", QUIET, False))
    lines.append((step["value"], VALUE, False))
    if step["id"] in gradients:
        lines.append((f"∇ {gradients[step['id']]}", GRADIENT, False))
    if tangents.get(step["id"]):  # an input without entries has none
        lines.append((f"ε {tangents[step['id']][0]}", GRADIENT, False))
    return lines


def group_lines(group: Group, steps, gradients):
    """Return the lines of a node that stands for several steps: what they do, the first and the last value."""
    ids = group.steps
    lines = [(group.label, "#111827", True)]
    first, last = steps[ids[0]], steps[ids[-1]]
    at = f"line {group.line}" if group.line is not None else ""
    lines.append((", ".join(filter(None, [at, f"{ids[0]} to {ids[-1]}"])), QUIET, False))
    if group.code and group.code not in group.label:
        lines.append((group.code, QUIET, False))
    if group.kind == "call":
        lines.append((f"{cut(first['value'], 16)} → {cut(last['value'], 16)}", VALUE, False))
        if ids[0] in gradients and ids[-1] in gradients:
            text = f"∇ {cut(gradients[ids[-1]], 16)} → {cut(gradients[ids[0]], 16)}"
            lines.append((text, GRADIENT, False))
    return lines


def table_label(lines):
    """Return a label in Graphviz's own markup, with all text escaped."""
    rows = []
    for text, colour, bold in lines:
        inner = html.escape(printable(cut(text, SHORT + 6)))
        inner = f"<b>{inner}</b>" if bold else inner
        rows.append(f'<tr><td><font color="{colour}">{inner}</font></td></tr>')
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{"".join(rows)}</table>>'


def cut(text, most):
    """Cut a text that is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text):
    """Replace characters that XML can't hold."""
    return "".join(c if c.isprintable() else "�" for c in text)


def plain(text):
    """Return a tooltip: Graphviz reads backslashes and entities in it, and text between < and > as markup."""
    return html.escape(printable(text), quote=False).replace("\\", "\\\\")
