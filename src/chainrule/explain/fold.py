"""Fewer nodes for a large graph: a loop's body is drawn once, and the steps of one source line become one node.

A loop shows in the list of steps as a stretch that repeats itself: the same calls, from the same lines, of the same
shapes. Such a stretch is found by comparing the list with itself, shifted by each possible length of a round. Each call
of the body then stands for its turns in all rounds; loops in loops fold from the inside out. What is still too much is
put together by source line: neighbours first, then all visits to a line, and at last by neighbourhood.
"""

import linecache
from dataclasses import dataclass

import numpy as np

MOST = 60  # nodes that a picture may have
LEAST = 3  # rounds that are worth folding
LONGEST = 400  # calls of one round that are looked for
BODY = 24  # calls of one round that are drawn as they are
WIDE = 30  # characters of a loop's label, before the number of rounds
ROOTS = 6  # inputs of one container that are drawn one by one


@dataclass
class Group:
    """A node of the picture: the ids of its steps, what it says, and how many rounds of a loop it stands for."""

    steps: list
    label: str = ""
    rounds: int = 1
    line: int | None = None
    kind: str = "call"
    code: str = ""
    where: str | None = None  # the user's line as text


def fold(steps: list, most: int = MOST) -> list:
    """Return the nodes for `steps` (as ``Explanation.data()["steps"]``) in their order: single steps, or groups."""
    groups = [Group([s["id"]], line=s["line"], kind=s["kind"], where=s["where"]) for s in steps]
    if len(groups) <= most:
        return groups
    by_id = {s["id"]: s for s in steps}
    groups = folded_inputs(groups, by_id)
    head = [g for g in groups if g.kind != "call"]
    calls = [g for g in groups if g.kind == "call"]
    made = [g for part in rolled([Part([g], signature(by_id[g.steps[0]])) for g in calls]) for g in part.groups]
    for g in made:
        if g.rounds > 1:
            g.label = f"{shortened(label(g, by_id))}  × {g.rounds}"
    if len(head) + len(made) > most:
        made = by_line(made)
    if len(head) + len(made) > most:
        made = by_visits(made, by_id)
    if len(head) + len(made) > most:
        made = together(made, max(most - len(head), 10))
    for g in made:
        if len(g.steps) > 1 and not g.label:
            g.label = label(g, by_id)
        g.code = code(by_id[g.steps[0]])
    return head + made


def signature(step):
    """Return what two steps must share to be turns of one call."""
    return step["op"], step["where"], tuple(step["shape"]), len(step["parents"])


def folded_inputs(groups, by_id):
    """Put the many inputs of one container together, and many captured arrays."""
    roots = {}
    for g in groups:
        if g.kind != "call":
            roots.setdefault(root(by_id[g.steps[0]]), []).append(g)
    made = []
    for g in groups:
        together = roots.get(root(by_id[g.steps[0]]), []) if g.kind != "call" else []
        if len(together) <= ROOTS:
            made.append(g)
        elif g is together[0]:
            ids = [i for m in together for i in m.steps]
            name = root(by_id[g.steps[0]])
            made.append(Group(ids, f"{name or 'captured'}: {len(ids)} values", kind=g.kind))
    return made


def root(step):
    """Return the argument that an input belongs to: ``p`` for ``p['w'][0]``; an empty text for captured arrays."""
    return "" if step["kind"] == "captured" else step["name"].partition("[")[0].partition(".")[0]


@dataclass
class Part:
    """A stretch of the list: the nodes it is drawn as, and what it must share with another to be its repetition."""

    groups: list
    signature: object


def rolled(parts: list) -> list:
    """Fold all stretches that repeat themselves, those of short rounds first: so inner loops before outer ones."""
    period = 1
    while period <= min(LONGEST, len(parts) // LEAST):
        found = repeats(parts, period)
        if not found:
            period += 1
            continue
        made, at = [], 0
        for start, rounds in found:
            made += parts[at:start]
            made.append(one_round(parts[start : start + period * rounds], period))
            at = start + period * rounds
        parts = made + parts[at:]
        period = 1
    return parts


def repeats(parts, period):
    """Find the stretches of at least `LEAST` equal rounds of `period` parts: (start, rounds)."""
    kinds = {s: k for k, s in enumerate(dict.fromkeys(p.signature for p in parts))}
    codes = np.array([kinds[p.signature] for p in parts], int)
    same = np.concatenate([[False], codes[:-period] == codes[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    found, end = [], 0
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        first = max(int(start), end)
        rounds = (int(stop) - first) // period + 1
        if rounds >= LEAST:
            found.append((first, rounds))
            end = first + rounds * period
    return found


def one_round(parts, period):
    """Return the rounds of a loop as one part, in which each node stands for its turns in all of them."""
    columns = [parts[k::period] for k in range(period)]
    groups = []
    for column in columns:
        for turns in zip(*[p.groups for p in column], strict=True):
            ids = [i for g in turns for i in g.steps]
            first = turns[0]
            groups.append(Group(ids, rounds=sum(g.rounds for g in turns), line=first.line, where=first.where))
    if len(groups) > BODY:
        groups = by_line(groups)
    return Part(groups, ("loop", tuple([p.signature for p in parts[:period]])))


def by_line(groups):
    """Put neighbours of one source line together, where none is a loop's and the other not."""
    made = []
    for g in groups:
        last = made[-1] if made else None
        if last is not None and g.where is not None and (last.where, last.rounds) == (g.where, g.rounds):
            made[-1] = Group(last.steps + g.steps, "", g.rounds, g.line, where=g.where)
        else:
            made.append(g)
    return made


def by_visits(groups, by_id):
    """Put all that one source line did together, over all visits to it: for loops whose rounds differ."""
    lines = {}
    for k, g in enumerate(groups):
        lines.setdefault(g.where or k, []).append(g)
    made = []
    for visits in lines.values():
        first = visits[0]
        if len(visits) == 1:
            made.append(first)
            continue
        ids = [i for g in visits for i in g.steps]
        whole = Group(ids, "", sum(g.rounds for g in visits), first.line, where=first.where)
        whole.label = f"{shortened(label(whole, by_id))}  {len(ids)} calls"
        made.append(whole)
    return made


def together(groups, most):
    """Put neighbours together until there are no more than `most` nodes."""
    size = -(-len(groups) // most)
    made = []
    for k in range(0, len(groups), size):
        part = groups[k : k + size]
        lines = sorted({g.line for g in part if g.line is not None})
        ids = [i for g in part for i in g.steps]
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}" if lines else ""
        made.append(Group(ids, f"{where}: {len(ids)} steps" if where else f"{len(ids)} steps", line=part[0].line))
    return made


def shortened(text):
    """Cut a text that is too long for a label."""
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"


def label(group, by_id):
    """Say what a group does: the function called, or the user's source line."""
    ops = list(dict.fromkeys(by_id[i]["op"].rpartition(".")[2] for i in group.steps))
    if len(ops) == 1:
        return ops[0]
    return code(by_id[group.steps[0]]) or ", ".join(ops[:4]) + (", …" if len(ops) > 4 else "")


def code(step):
    """Return the user's source line of a step; an empty text if it is not known."""
    file = step.get("file")
    return linecache.getline(file, step["line"]).strip() if file and step["line"] else ""
