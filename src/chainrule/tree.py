"""Nested containers <-> flat lists of values, by optree: dicts, lists, tuples, named tuples, dataclasses, None."""

import dataclasses

import numpy as np
import optree

_SPACE = "chainrule"
_LEAF_TYPES = frozenset({float, int, complex, np.ndarray, np.float64, np.float32, str, bool})
_registered: set[type] = set()


def flatten(tree):
    """Return (values, structure). An array or number is its own only value, and its structure is None."""
    if tree.__class__ in _LEAF_TYPES:
        return [tree], None
    leaves, structure = optree.tree_flatten(tree, namespace=_SPACE)
    fresh = {type(v) for v in leaves if dataclasses.is_dataclass(v) and type(v) not in _registered}
    if fresh:
        for kind in fresh:
            _register(kind)
        return flatten(tree)
    if len(leaves) == 1 and leaves[0] is tree:
        return leaves, None
    return leaves, structure


def unflatten(structure, leaves):
    """Put values back into the container they came from."""
    if structure is None:
        (leaf,) = leaves
        return leaf
    return optree.tree_unflatten(structure, leaves)


def tree_map(function, tree):
    """Apply `function` to each value of a container."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(v) for v in leaves])


def paths(tree):
    """Return a readable path for each value: ``['w'][0]``; an empty one for a value by itself."""
    if tree.__class__ in _LEAF_TYPES:
        return [""]
    found, leaves, structure = optree.tree_flatten_with_path(tree, namespace=_SPACE)
    if structure is not None and len(leaves) == 1 and leaves[0] is tree:
        return [""]
    return ["".join(f"[{p!r}]" for p in path) for path in found]


def _register(kind):
    """Make a dataclass a container whose init fields hold values."""
    names = [f.name for f in dataclasses.fields(kind)]
    initial = {f.name for f in dataclasses.fields(kind) if f.init}

    def flat(value):
        return [getattr(value, n) for n in names], None, tuple(names)

    def unflat(_, children):
        made = kind(**{n: c for n, c in zip(names, children, strict=True) if n in initial})
        for n, c in zip(names, children, strict=True):
            if n not in initial:
                object.__setattr__(made, n, c)
        return made

    optree.register_pytree_node(kind, flat, unflat, namespace=_SPACE)
    _registered.add(kind)
