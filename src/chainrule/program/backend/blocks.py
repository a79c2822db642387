"""Elementwise calls on large arrays, run block by block, so that what they hand on stays in the cache.

`arranged` moves such calls together, as far as none has to wait for another equation between them. A `Cluster` of them
is one loop over blocks: each operand is read, and each result that is needed later written, once. Sums of all entries
are added up on the way: those of the blocks by NumPy, and these exactly, by `math.fsum`.
"""

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from chainrule.engine.spec import choose, sum_to
from chainrule.program.backend.arrays import kind_of
from chainrule.program.backend.numbers import BOOL, FLOAT, function_of, is_float, reads_of
from chainrule.program.emit.text import literal
from chainrule.program.ir import Symbol
from chainrule.program.loops.ir import taken_from

BLOCK = 8192
LARGE = 131072  # arrays of more entries are run in blocks: several of others fit in the cache as they are
SEVERAL = 3  # calls that are worth a loop
WAITING = 64  # equations that may wait for a cluster before it is closed


@dataclass(eq=False, slots=True)
class Cluster:
    """Calls on arrays of one shape; `outputs` are the results that are read elsewhere."""

    members: list
    shape: tuple
    outputs: tuple = ()
    reads: list = field(default_factory=list)
    place: object = None
    kind: str = "cluster"


def arranged(program, equations) -> list:
    """Return the equations of a program, with clusters among them."""
    if not any(shape_of(e) for e in equations):
        return equations
    work, done = deque(equations), []
    while work:
        shape = shape_of(work[0])
        if shape is None:
            done.append(work.popleft())
            continue
        members, waiting = grown(work, shape, done)
        calls = [e for e in members if e.output.shape]
        done += [Cluster(members, shape)] if len(calls) >= SEVERAL else members
        work.extendleft(reversed(waiting))
    return finished(program, done)


def grown(work, shape, done):
    """Take equations for a cluster off `work`; return its members, and the equations that wait for them.

    Those that need not wait are put before it, in `done`.
    """
    members, waiting, made, late = [], [], set(), set()
    while work and len(waiting) < WAITING:
        e = work[0]
        reads = set(e.reads)
        if reads & late:
            waiting.append(e)
            late.update(e.outputs, taken_from(e))
        elif shape_of(e) == shape or (members and sums(e, made)):
            members.append(e)
            (made if e.output.shape else late).update(e.outputs)
        elif reads & made:
            waiting.append(e)
            late.update(e.outputs, taken_from(e))
        elif shape_of(e) is not None:
            break
        else:
            done.append(e)
        work.popleft()
    return members, waiting


def finished(program, equations):
    """Find out what the clusters read, and what is read of them."""
    readers = {}
    for e in equations:
        for part in e.members if e.__class__ is Cluster else (e,):
            for s in part.reads:
                readers.setdefault(s, []).append(e)
    outputs = {y for y in program.outputs if y.__class__ is Symbol}
    for c in equations:
        if c.__class__ is Cluster:
            made = [m.output for m in c.members]
            inner = set(made)
            c.outputs = tuple([s for s in made if s in outputs or any(e is not c for e in readers.get(s, ()))])
            c.reads = list(dict.fromkeys([s for m in c.members for s in m.reads if s not in inner]))
            c.place = c.members[0].place
    return equations


def shape_of(e):
    """Return the shape of an elementwise call on large arrays of one shape; None of anything else."""
    s = getattr(e, "output", None)
    if s.__class__ is not Symbol or not s.shape or s.size <= LARGE or s.dtype not in (FLOAT, BOOL):
        return None
    kind = kind_of(e)
    if kind != "elementwise" and not (kind == "out" and (function_of(e) in (np.where, choose, np.power))):
        return None
    for x in reads_of(e):
        if x.shape != s.shape if x.shape else not is_float(x):
            return None
        if x.shape and x.dtype not in (FLOAT, BOOL):
            return None
    return s.shape if any(x.shape for x in reads_of(e)) else None


def sums(e, made) -> bool:
    """Tell whether an equation sums all entries of a value of the cluster."""
    if kind_of(e) != "take" or e.inputs[0] not in made or e.inputs[0].dtype != FLOAT:
        return False
    return function_of(e) in (np.sum, np.mean, sum_to)


def write(writer, c) -> list:
    """Write a cluster as a loop over blocks; return the names of the memory that is free again."""
    lines, number = writer.lines, writer.counter()
    size = math.prod(c.shape)
    outer = writer.names
    inside = dict(outer)
    slices = []
    for s in c.reads:
        if s.shape:
            flat = flat_name(writer, s, lines, number)
            inside[s] = f"x{number}_{len(slices)}"
            slices.append(f"{inside[s]} = {flat}[i:j]")
    full = {}
    for s in c.outputs:
        if s.shape:
            if writer.fresh(s):
                lines.append(f"{s.name} = empty({literal(s.shape)}, {literal(s.dtype)})")
                outer[s] = s.name
            else:
                outer[s] = writer.take_memory(s, s.shape, s.dtype)
            flat = flat_name(writer, s, lines, number)
            full[s] = inside[s] = f"y{number}_{len(full)}"
            slices.append(f"{full[s]} = {flat}[i:j]")
    scratch, body = {}, []
    last = {s: k for k, m in enumerate(c.members) for s in m.reads}
    totals = []
    writer.names = inside
    for k, m in enumerate(c.members):
        s = m.output
        if not s.shape:
            totals.append((m, f"sum{number}_{len(totals)}"))
            body.append(f"{totals[-1][1]}.append(add_reduce({inside[m.inputs[0]]}))")
            continue
        ends = [inside[x] for x in dict.fromkeys(m.reads) if last.get(x) == k and inside.get(x) in scratch]
        target = full.get(s) or scratch_for(writer, scratch, ends, s.dtype, number, kind_of(m) == "elementwise")
        made = writer.words.out(m, target)
        start = len(body)
        body += made if made.__class__ is list else [made]
        body[start] += f"  # {s} {s.hint or ''}".rstrip()
        inside[s] = target
        for name in ends:
            if name != target:
                scratch[name][1] = True
        if s not in last and s not in full:
            scratch[target][1] = True
    writer.names = outer
    lines += [f"{name} = []" for _, name in totals]
    lines += [f"{name} = {memory}" for name, (memory, _) in scratch.items()]
    lines.append(f"for i in range(0, {size}, {BLOCK}):")
    lines.append(f"    j = i + {BLOCK}")
    if size % BLOCK and scratch:
        names = list(scratch)
        lines.append(f"    if j > {size}: {', '.join(names)} = {', '.join(f'{n}[:{size % BLOCK}]' for n in names)}")
    lines += [f"    {line}" for line in [*slices, *body]]
    freed = [writer.slots.pop(("block", name)) for name in scratch]
    for name in freed:
        writer.free[writer.memory[name].shape, writer.memory[name].dtype].append(name)
    for m, name in totals:
        s = m.output
        writer.names[s] = s.name
        mean = f" / {float(size)!r}" if function_of(m) is np.mean else ""
        writer.number_made(s, f"f64(math_fsum({name}){mean})")
    return freed


def flat_name(writer, s, lines, number) -> str:
    """Return the name of an array as one row of numbers."""
    text = writer.names[s]
    if len(s.shape) == 1:
        return text
    if text in writer.memory:
        known = writer.views.get(f"{text}.reshape(-1)")
        if known is None and writer.memory[text].flags.c_contiguous:
            known = writer.views[f"{text}.reshape(-1)"] = f"w{len(writer.views) + 1}"
            writer.memory[known] = writer.memory[text].reshape(-1)
            writer.setup.append(f"{known} = {text}.reshape(-1)")
        if known is not None:
            return known
    name = f"{s.name}_flat{number}"
    lines.append(f"{name} = {text}.reshape(-1)")
    return name


def scratch_for(writer, scratch, ends, dtype, number, inplace) -> str:
    """Return the name of memory for a block of a result: that of an operand, if this is read no more."""
    if inplace:
        for name in ends:
            if writer.memory[scratch[name][0]].dtype == dtype:
                return name
    for name, (memory, free) in scratch.items():
        if free and writer.memory[memory].dtype == dtype:
            scratch[name][1] = False
            return name
    name = f"t{number}_{len(scratch)}"
    scratch[name] = [writer.take_memory(("block", name), (BLOCK,), dtype), False]
    return name
