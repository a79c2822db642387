"""An explanation as plain data: dicts, lists, text and numbers, from which pages, pictures and JSON are made."""

import inspect
import linecache
import re

import numpy as np

from chainrule.engine.spec import shape_of
from chainrule.errors import ChainruleError
from chainrule.explain import gates, notation
from chainrule.explain.graph import picture
from chainrule.program.flat import flat as written_flat
from chainrule.program.ir import Symbol
from chainrule.transforms import value_and_grad

DIGITS = 6
FEW = 6  # entries of an array that are written out
MOST_LINES = 400  # of the user's source
MOST_WRITTEN = 5000  # steps of a function whose gradient is written as source


def data(explanation, graph: bool = True, files: bool = False, flat: bool = True) -> dict:
    """Return an explanation as dicts, lists, text and numbers, with its graph if pygraphviz is there.

    `graph` and `flat` tell whether picture and source are made, which takes time; `files` whether the paths of the
    user's files stay.
    """
    run = explanation.run
    ids = step_ids(run.trace)
    steps = step_list(run.trace, ids)
    fault, ids_by_name = explanation.first_nonfinite(), {s.name: i for s, i in ids.items()}
    made = {
        "title": explanation.title,
        "function": run.name,
        "inputs": [ids[s] for s in run.trace.program.inputs],
        "outputs": list(dict.fromkeys(ids[y] for y in run.trace.program.outputs if isinstance(y, Symbol))),
        "source": source(run.f, run.trace),
        "flat": flat_source(run, steps) if flat else None,
        "steps": steps,
        "forward": forward(explanation.forward, ids, run.trace),
        "backward": [backward(table, run.trace, ids) for table in explanation.reverse],
        "graph": None,
        "notes": explanation.remarks(),
        "nonfinite": None if fault is None else ids_by_name.get(fault.step, fault.step.partition(",")[0]),
        "kinks": [{"id": k.step and k.step.partition(",")[0], "what": str(k)} for k in explanation.kinks()],
    }
    if graph:
        made["graph"] = picture(made)
    if not files:  # they are paths of this machine; lines of other files than the function's are told by `where`
        own = file_of(run.f)
        for step in steps:
            if step.pop("file") not in (None, own) and own is not None:
                step["line"] = None
    return made


def step_ids(trace):
    """Return the id of the step that makes each symbol: the name of its first output."""
    ids = {s: s.name for s in trace.program.constants}
    for step in trace.steps:
        made = [s for s in step.symbols if s is not None]
        ids.update(dict.fromkeys(made, made[0].name))
    return ids


def step_list(trace, ids):
    """Return what each step is, captured arrays first."""
    uses = {}
    for e in trace.program.equations:
        for s in set(e.reads):
            uses[ids[s]] = uses.get(ids[s], 0) + 1
    made = [captured(s, c, uses) for s, c in trace.program.constants.items()]
    for step in trace.steps:
        e, symbols = step.equation, [s for s in step.symbols if s is not None]
        if not symbols:
            continue
        first = symbols[0]
        place = None if e is None else e.place
        made.append({
            "id": ids[first],
            "kind": "input" if e is None else "call",
            "name": step.expression if e is None else first.hint,
            "line": None if place is None else place.line,
            "where": None if place is None else str(place),
            "file": None if place is None else place.file,
            "role": "call" if e is not None else role(step.expression),
            "op": "input" if e is None else e.rule.name,
            "text": step.expression,
            "gate": "input" if e is None else gates.gate(e),
            **facts(step.value if len(step.symbols) == 1 else tuple([trace.values[s] for s in symbols])),
            "parents": [] if e is None else list(dict.fromkeys(ids[s] for s in e.reads)),
            "uses": uses.get(ids[first], 0),
            "jacobian": None if e is None else gates.jacobian_text(e),
        })  # fmt: skip
    return made


PARAMETER = re.compile(r"[wWbB]\d*|weights?|bias(es)?|params?|parameters|theta|beta", re.ASCII)


def role(name):
    """Tell an input from a parameter: what stands in a container, or has a parameter's usual name."""
    return "parameter" if re.search(r"[\[.]", name) or PARAMETER.fullmatch(name) else "input"


def captured(symbol, x, uses):
    """Return what a captured array is."""
    return {
        "id": symbol.name, "kind": "captured", "name": symbol.hint, "line": None, "where": None, "file": None,
        "role": "captured", "op": "captured",
        "text": symbol.hint or symbol.name, "gate": "captured", **facts(x), "parents": [],
        "uses": uses.get(symbol.name, 0), "jacobian": None,
    }  # fmt: skip


def facts(x):
    """Return shape, dtype, text, first entries and norm of a value; of several outputs those of the first."""
    first = x[0] if isinstance(x, tuple) else x
    entries = np.asarray(first)
    return {
        "shape": list(shape_of(first)),
        "dtype": str(entries.dtype),
        "value": text(x),
        "numbers": numbers(first),
        "norm": number(notation.norm(entries)),
    }


def text(x):
    """Write a value: a small one whole, a larger one as shape, norm and its first entries."""
    if isinstance(x, tuple):
        return "; ".join(map(text, x))
    return notation.brief(x, DIGITS, FEW)


def numbers(x):
    """Return the first entries of a value."""
    return [number(v) for v in np.ravel(x)[:FEW]]


def number(x):
    """Return a number as JSON has it: None for NaN, infinities and complex numbers, which the value's text tells."""
    if np.iscomplexobj(x):
        return None
    x = float(x)
    return x if np.isfinite(x) else None


def forward(table, ids, trace):
    """Return the tangents of each step."""
    if table is None:
        return {"directions": [], "tangents": {}}
    tangents = {}
    for row, step in zip(table.rows, trace.steps, strict=True):
        made = next((s for s in step.symbols if s is not None), None)
        if made is not None:
            tangents[ids[made]] = [text(t) for t in row.tangents]
    return {"directions": list(table.directions), "tangents": tangents}


def backward(table, trace, ids):
    """Return the adjoints of one pass in their order, and the paths by which each arrived."""
    order, adjoints, values, paths = [], {}, {}, {}
    names = {s.name: ids[s] for s in ids}
    for row, step in zip(table.rows, reversed(trace.steps), strict=True):
        made = next((s for s in step.symbols if s is not None), None)
        if made is None:
            continue
        k = ids[made]
        adjoints[k] = text(row.adjoint)
        values[k] = numbers(row.adjoint[0] if isinstance(row.adjoint, tuple) else row.adjoint)
        paths[k] = [path(p, names) for p in row.paths]
        if paths[k] or any(s in table.seeds for s in step.symbols):
            order.append(k)
    return {"output": table.output, "order": order, "adjoints": adjoints, "numbers": values, "paths": paths}


def path(p, names):
    """Return one path: where from, and what upstream times local is."""
    local = None
    if p.local is not None:
        local = text(p.local)
    elif p.text is not None or p.diagonal is None:
        local = p.text
    else:
        local = f"diagonal {text(p.diagonal)}"
    upstream = "" if p.upstream is None else text(p.upstream)
    first = p.step.partition(", ")[0] if p.step.partition(", ")[0] in names else p.step
    return {
        "from": names.get(first, first), "of": p.of, "upstream": upstream, "local": local,
        "contribution": text(p.contribution),
    }  # fmt: skip


def file_of(f):
    """Return the path of the file that a function stands in; None if it is not known."""
    try:
        return inspect.getsourcefile(inspect.unwrap(f))
    except TypeError:
        return None


def source(f, trace):
    """Return the user's source: the lines of the function, and those of its file that its steps stand on."""
    try:
        f = inspect.unwrap(f)
        lines, first = inspect.getsourcelines(f)
        file = inspect.getsourcefile(f)
        whole, _ = inspect.findsource(f)
    except (OSError, TypeError):
        return {"file": None, "first": 1, "lines": []}
    last = first + len(lines) - 1
    places = [s.equation.place for s in trace.steps if s.equation is not None and s.equation.place is not None]
    on = [p.line for p in places if p.file == file]
    low, high = min([first, *on]), max([last, *on])
    if high - low < MOST_LINES:
        first, last = low, high
    lines = [line.rstrip("\n") for line in whole[first - 1 : last]]
    return {"file": re.split(r"[\\/]", file)[-1], "first": first, "lines": lines}


def flat_source(run, steps):
    """Return the source of value and gradient, and for each of its lines the step that it belongs to.

    None if the result is no scalar, the steps are too many, or the function can't be written as source.
    """
    if len(steps) > MOST_WRITTEN or len(run.results) != 1 or run.results[0][2] != ():
        return None
    try:
        with np.errstate(all="ignore"):
            gradient = value_and_grad(run.f, argnums=run.arguments.places)
            written = written_flat(gradient)(*run.arguments.values).source
    except (ChainruleError, ValueError, TypeError, IndexError, SyntaxError):
        return None
    lines = written.rstrip("\n").split("\n")
    return {"lines": lines, "of": steps_of_lines(lines, steps)}


_TARGET = re.compile(r"\s+(\w+)(?:, \w+)*(?:\[.*\])? [-+*/]?= ")


def steps_of_lines(lines, steps):
    """Find the step that each line of flat source belongs to: by the name that it assigns, and the line it quotes."""
    named, quoted, count = {}, {}, {}
    for s in steps:
        if s["line"] is not None:
            quoted.setdefault(linecache.getline(s["file"], s["line"]).strip(), []).append(s)
        if s["name"]:  # x, then x_1, x_2, as flat source has them
            n = identifier(s["name"])
            named.setdefault(f"{n}_{count[n]}" if n in count else n, s["id"])
            count[n] = count.get(n, 0) + 1
    of, here = {}, []
    for k, line in enumerate(lines):
        bare = line.strip()
        here = quoted.get(bare.removeprefix("# "), here)  # the user's line, in a comment or as it was
        found = _TARGET.match(line)
        if found and not bare.startswith("#"):
            step = step_of(found[1], here, named)
            if step is not None:
                of[k + 1] = step
    return of


def step_of(name, here, named):
    """Return the step that a name in flat source stands for, given the steps of the user's line."""
    base = re.sub(r"_\d+$", "", name)
    own = [s["id"] for s in here if s["name"] and identifier(s["name"]) in (name, base)]
    if own:
        return own[-1]
    found = [named[n] for n in (name, name.removeprefix("d_"), base.removeprefix("d_")) if n in named]
    return found[0] if found else here[-1]["id"] if here else None


def identifier(name):
    """Return what flat source makes of a name such as ``params['w']``."""
    return re.sub(r"\W+", "_", name).strip("_")
