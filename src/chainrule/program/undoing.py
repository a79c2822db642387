"""What a traced run has changed in what it reads from outside: found, and taken back.

`before` and `after` are walks from the same function, before and after its run.
"""

import types

import numpy as np

from chainrule.engine.boxed import Boxed
from chainrule.program.surroundings import MISSING, alike_or_same, same_bytes, same_content
from chainrule.program.walk import ATOMS, PLAIN, Current


def changed(before, after) -> str | None:
    """Return the name of something that is not what it was, of what a later walk goes through; None if all is."""
    for mapping, key, seen in before.surroundings.slots:
        if (id(mapping), key) in after.places and not alike_or_same(mapping.get(key, MISSING), seen):
            return str(key)
    for mapping, key, _ in after.surroundings.slots:
        had = before.spaces.get(id(mapping))
        if had is not None and key not in had[1] and key in mapping:
            return str(key)
    for cell, seen in before.surroundings.cells:
        if (id(cell), None) in after.places and not alike_or_same(cell.cell_contents, seen):
            return "a variable of the function around it"
    for holder, name, seen in before.surroundings.attributes:  # of __slots__, or of functions
        reached = (id(holder), name) in after.places or isinstance(holder, Current | types.FunctionType)
        if reached and not alike_or_same(getattr(holder, name, MISSING), seen):
            return name
    met = {id(container) for container, _, _ in after.surroundings.contents}
    for container, keys, values in before.surroundings.contents:
        if id(container) in met and not same_content(container, keys, values):
            return f"a {type(container).__name__}"
    met = {id(x) for x in after.arrays}
    for x, shape, dtype, raw in before.surroundings.arrays:
        if id(x) in met and (x.shape != shape or x.dtype != dtype or not same_bytes(x, raw)):
            return "an array"
    return None


def undo(before) -> None:
    """Make what a run has changed what it was, so that the function can be run once more."""
    found = before.surroundings
    for mapping, key, seen in found.slots:
        if isinstance(mapping, dict) and mapping.get(key, MISSING) is not seen:
            if seen is MISSING:
                del mapping[key]
            else:
                mapping[key] = seen
    for space, had in before.spaces.values():
        if isinstance(space, dict) and "__spec__" not in space:  # of modules: an import has its effect once
            for key in space.keys() - had:
                del space[key]
    for cell, seen in found.cells:
        cell.cell_contents = seen
    for holder, name, seen in found.attributes:
        if seen is not MISSING and holder.__class__ is not Current and getattr(holder, name, MISSING) is not seen:
            setattr(holder, name, seen)
    for container, keys, values in found.contents:
        if not same_content(container, keys, values):
            refill(container, values if keys is None else zip(keys, values, strict=True))
    for container, count in before.large:
        if len(container) > count and isinstance(container, list | dict):
            for key in reversed(range(count, len(container)) if isinstance(container, list) else [*container][count:]):
                del container[key]
    for x, shape, dtype, raw in found.arrays:
        if raw.__class__ is bytearray and x.shape == shape and x.dtype == dtype and not same_bytes(x, raw):
            x[...] = np.frombuffer(raw, dtype).reshape(shape)


def mend(walk, twins=None) -> None:
    """Put plain values in place of Tracers that a run has left behind, and containers in place of their `twins`."""
    originals = {} if twins is None else twins

    def put(holder, key, v):
        if id(v) in originals:
            holder[key] = originals[id(v)]
        elif isinstance(v, Boxed):
            holder[key] = unboxed(v)

    for mapping, key, _ in walk.surroundings.slots:
        if isinstance(mapping, dict):
            put(mapping, key, mapping.get(key, MISSING))
    for space, _ in walk.spaces.values():
        for key, v in list(space.items()) if isinstance(space, dict) else ():
            put(space, key, v)
    for cell, _ in walk.surroundings.cells:
        v = cell.cell_contents
        if id(v) in originals or isinstance(v, Boxed):
            cell.cell_contents = originals[id(v)] if id(v) in originals else unboxed(v)
    for container in [c for c, *_ in (*walk.surroundings.contents, *walk.large)]:
        entries = container.items() if isinstance(container, dict) else enumerate(container)
        for key, v in list(entries) if hasattr(container, "__setitem__") else ():
            put(container, key, v)


def settled(before) -> bool:
    """Tell whether a run has left nothing in what it reads but plain values, and what stood there before.

    An object or a function that it has made may hold Tracers and twins, or be one. But what it has written to a
    large array, of which there is a checksum only, can't be taken back: then things are left as they are.
    """
    found, known = before.surroundings, {id(v) for v in before.known.values()}

    if any(raw.__class__ is int and not same_bytes(x, raw) for x, _, _, raw in found.arrays):
        return True

    def plain(v):
        if v is MISSING or id(v) in known or v.__class__ in ATOMS or isinstance(v, (*PLAIN, types.ModuleType)):
            return True
        if v.__class__ in (list, tuple, dict, set):
            return all(map(plain, v)) and (v.__class__ is not dict or all(map(plain, v.values())))
        return v.__class__ is np.ndarray and v.dtype != object

    now = [(mapping.get(key, MISSING), seen) for mapping, key, seen in found.slots]
    now += [(v, MISSING) for space, had in before.spaces.values() for key, v in space.items() if key not in had]
    now += [(cell.cell_contents, seen) for cell, seen in found.cells]
    now += [(getattr(holder, name, MISSING), seen) for holder, name, seen in found.attributes]
    for container, keys, values in found.contents:
        if not same_content(container, keys, values):
            now += [(v, MISSING) for v in (container if keys is None else [*container, *container.values()])]
    return all(v is seen or plain(v) for v, seen in now) and not any(len(v) > count for v, count in before.large)


def refill(container, entries):
    """Give a container the entries that it had."""
    if hasattr(container, "clear"):
        container.clear()
        (container.extend if hasattr(container, "extend") else container.update)(entries)


def unboxed(v):
    """Return the plain value of a Tracer; boxes of other transforms are left with plain values in them."""
    while getattr(type(v), "recorded", False):
        v = v.data
    if isinstance(v, Boxed) and isinstance(v.data, Boxed):
        v.data = unboxed(v.data)
    return v
