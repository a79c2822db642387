"""What a function reads from its surroundings, globals, closures, defaults, attributes, and whether it is what it was.

Numbers, strings and containers of them are compared by type and value, arrays by identity and content, all else by
identity. Arrays of floats that are inputs of the program are not compared, but read.
"""

import types
import zlib
from operator import is_

import numpy as np

MISSING = type("Missing", (), {"__repr__": lambda self: "<missing>"})()
ANY = object()  # stands for an entry that is not compared
FEW = 16  # values of a container that are compared one by one


class Surroundings:
    """What a function and the functions that it calls found outside of their arguments, to be compared later.

    ``lifted`` are the places of arrays that are inputs of the program: there each call takes what it finds. ``read()``
    returns these arrays, or None if something is not what it was; it is there after ``finish()``.
    """

    __slots__ = ("arrays", "attributes", "cells", "contents", "lifted", "read", "slots")

    def __init__(self) -> None:
        self.slots = []  # (mapping, key, what was there)
        self.cells = []  # (closure cell, what was in it)
        self.attributes = []  # (object, name, what it was)
        self.arrays = []  # (array, shape, dtype, its bytes)
        self.contents = []  # (container, keys or None, values)
        self.lifted = []  # (cell, None) or (mapping, key), then shape, strides (some views are copies) and dtype

    def finish(self) -> None:
        """Write `read`, as code: a comparison takes some 30 nanoseconds so."""
        space = {"alike": alike, "same_bytes": same_bytes, "same_content": same_content, "ndarray": np.ndarray}
        space["MISSING"] = MISSING
        lines = []

        def name(v):
            space[f"x{len(space)}"] = v
            return f"x{len(space) - 1}"

        def compare(text, seen):
            s = name(seen)
            lines.append(f"if {text} is not {s} and not alike({text}, {s}): return None")

        for mapping, key, seen in self.slots:
            if seen is MISSING:
                lines.append(f"if {key!r} in {name(mapping)}: return None")
            else:
                compare(f"{name(mapping)}[{key!r}]", seen)
        for cell, seen in self.cells:
            compare(f"{name(cell)}.cell_contents", seen)
        for holder, attribute, seen in self.attributes:
            if seen is MISSING:
                lines.append(f"if getattr({name(holder)}, {attribute!r}, MISSING) is not MISSING: return None")
            else:
                compare(f"{name(holder)}.{attribute}", seen)
        for x, shape, dtype, raw in self.arrays:
            x = name(x)
            form = f"{x}.shape != {shape!r} or {x}.dtype != {name(dtype)}"
            lines.append(f"if {form} or not same_bytes({x}, {name(raw)}): return None")
        for container, keys, values in self.contents:
            x, plain = name(container), all(isinstance(k, str) for k in keys or ())
            if len(values) > FEW or container.__class__ not in (dict, list) or not plain:
                lines.append(f"if not same_content({x}, {name(keys)}, {name(values)}): return None")
                continue
            lines.append(f"if {f'len({x}) != {len(values)}' if keys is None else f'[*{x}] != {keys!r}'}: return None")
            for k, v in enumerate(values) if keys is None else zip(keys, values, strict=True):
                if v is not ANY:
                    compare(f"{x}[{k!r}]", v)
        found = []
        for n, (holder, key, shape, strides, dtype) in enumerate(self.lifted):
            x, d = f"a{n}", name(dtype)
            lines.append(f"{x} = {name(holder)}{'.cell_contents' if key is None else f'[{key!r}]'}")
            form = (
                f"{x}.shape != {shape!r} or {x}.strides != {strides!r} or ({x}.dtype is not {d} and {x}.dtype != {d})"
            )
            lines.append(f"if {x}.__class__ is not ndarray or {form}: return None")
            found.append(f"{x},")
        body = "\n    ".join([*lines, f"return ({' '.join(found)})"])
        text = f"def read():\n  try:\n    {body}\n  except (LookupError, ValueError, AttributeError): return None"
        exec(compile(text, "<chainrule surroundings>", "exec"), space)
        self.read = space.pop("read")

    def same(self) -> bool:
        """Tell whether all of it is what it was."""
        return self.read() is not None

    @property
    def count(self) -> int:
        """How many things are compared."""
        return sum(len(getattr(self, name)) for name in self.__slots__ if name != "read")


def alike(a, b):
    """Tell whether two different objects are the same plain value: of one type, with NaN and -0.0 as they are."""
    c = a.__class__
    if c is not b.__class__:
        return False
    if c is float or c is complex or isinstance(a, np.generic):
        return np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if c in (int, str, bytes, bool, range, slice) or isinstance(a, np.dtype):
        return a == b
    if c is types.MethodType:
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    if c is tuple:
        return len(a) == len(b) and all(x is y or alike(x, y) for x, y in zip(a, b, strict=True))
    return False


def same_bytes(array, raw):
    """Tell whether an array holds these bytes, or has this checksum."""
    if raw.__class__ is int:
        return zlib.crc32(array) == raw
    if array.flags.c_contiguous and array.dtype != object:
        return bytearray.__eq__(raw, array) is True  # compares memory, without a copy
    return array.tobytes() == raw


def same_content(container, keys, values):
    """Tell whether a container holds what it held."""
    if len(container) != len(values):
        return False
    if keys is not None:
        if not all(map(is_, container, keys)) and not all(map(alike_or_same, container, keys)):
            return False
        container = container.values()
    try:
        return all(map(is_, container, values)) or all(map(alike_or_same, container, values))
    except RuntimeError:  # another thread changes it
        return False


def alike_or_same(a, b):
    """Tell whether two values are one object or the same plain value; the second may be `ANY`."""
    return a is b or b is ANY or alike(a, b)


__all__ = ["ANY", "MISSING", "Surroundings", "alike", "alike_or_same", "same_bytes", "same_content"]
