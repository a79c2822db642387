"""What the command ``chainrule supported`` says: the status of a function, or the list of all."""

import difflib
import importlib
import importlib.util
import textwrap

from chainrule.engine.rule import RULES, UNSUPPORTED, full_name
from chainrule.explain.notation import tail
from chainrule.testing.supported import CONSTANT, DIFFERENTIATED, OTHER, STATUSES, UNSUPPORTED_, survey

SHORT = {"np": "numpy", "sp": "scipy", "cr": "chainrule"}
GATES = ("chainrule.rules.gates.relu", "chainrule.rules.gates.sigmoid")
WIDTH = 100


def statuses():
    """Return ``{full name: status}`` of all public names of NumPy, and of what is supported of SciPy and of our own."""
    found = {f"{space}.{name}": status for space, names in survey().items() for name, status in names.items()}
    scipy = importlib.util.find_spec("scipy") is not None
    if scipy:
        importlib.import_module("chainrule.rules.special")
    for rule in RULES.values():
        name = rule.name
        if name.startswith("scipy.") or name in GATES:
            name = name if name.startswith("scipy.") else f"chainrule.{tail(name)}"
            found.setdefault(name, CONSTANT if rule.kind == "constant" else DIFFERENTIATED)
    if scipy:
        from chainrule.scipy import ORIGINALS

        for original, _ in ORIGINALS():
            name = full(original)
            if name is not None:
                found.setdefault(name, DIFFERENTIATED)
    return found


def full(original):
    """Return the full name of a function or distribution of SciPy."""
    name = getattr(original, "__name__", None) or getattr(original, "name", None)
    module = getattr(original, "__module__", None) or type(original).__module__
    if name is None or module is None or not module.startswith("scipy."):
        return None
    public = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return f"{public}.{name}"


def listing() -> list[str]:
    """Return all that is supported, by status and namespace, as lines."""
    groups: dict = {}
    for name, status in sorted(statuses().items()):
        space, _, short = name.rpartition(".")
        groups.setdefault(status, {}).setdefault(space, []).append(short)
    lines = []
    for status, text in STATUSES.items():
        if status == OTHER or status not in groups:
            continue
        lines += [f"{status}: {text}", ""]
        for space, names in groups[status].items():
            lines.append(f"  {space} ({len(names)})")
            lines += textwrap.wrap(", ".join(names), WIDTH, initial_indent="    ", subsequent_indent="    ")
            lines.append("")
    return lines[:-1]


def status(name: str) -> list[str]:
    """Return what there is to say about a function, given by its name with or without its module; empty if unknown."""
    first, dot, rest = name.strip().partition(".")
    wanted = SHORT.get(first, first) + dot + rest
    known = statuses()
    found = [n for n in known if n == wanted or (not dot and tail(n) == wanted)]
    if dot and not found:
        found = [n for n in known if n.endswith(f".{wanted}")]
    lines = []
    for n in found:
        lines.append(f"{n}: {known[n]}, {STATUSES[known[n]]}")
        if known[n] == UNSUPPORTED_:
            lines += [f"  {line}" for line in why_not(n)]
    if lines:
        return lines
    near = difflib.get_close_matches(tail(wanted), {tail(n) for n in known}, 3)
    return [f"{name} is not known; did you mean {' or '.join(near)}?"] if near else []


def why_not(name):
    """Return why a function is not supported, and what to write instead."""
    for fun, (why, *instead) in UNSUPPORTED.items():
        if (fun if isinstance(fun, str) else full_name(fun)) == name:
            return [f"it {why}.", *instead]
    return []
