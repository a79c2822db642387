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
    if structure.__class__ is Texts:
        return structure.filled(leaves, structure.texts)
    return optree.tree_unflatten(structure, leaves)


class Texts:
    """The structure of a container in which text stands beside the numbers; its values are the numbers."""

    __slots__ = ("structure", "texts")

    def __init__(self, structure, texts):
        self.structure, self.texts = structure, texts

    def __eq__(self, other):
        return other.__class__ is Texts and (self.structure, self.texts) == (other.structure, other.texts)

    __hash__ = None  # type: ignore[assignment]

    def filled(self, leaves, texts):
        """Return the container of the values, and of what stands in place of the texts."""
        values = iter(leaves)
        count = self.structure.num_leaves
        return optree.tree_unflatten(self.structure, [texts[k] if k in texts else next(values) for k in range(count)])

    def flatten_up_to(self, tree):
        """Return the parts of a container of this structure that stand in the places of the values."""
        return [part for k, part in enumerate(self.structure.flatten_up_to(tree)) if k not in self.texts]


def flatten_numbers(tree):
    """Return (values, structure) as `flatten`, but without text in a container, which the structure keeps."""
    leaves, structure = flatten(tree)
    if structure is None or not any(isinstance(v, str | bytes) for v in leaves):
        return leaves, structure
    texts = {k: v for k, v in enumerate(leaves) if isinstance(v, str | bytes)}
    return [v for k, v in enumerate(leaves) if k not in texts], Texts(structure, texts)


def derivatives(structure, leaves):
    """Put derivatives into the container of their values, with None in place of text."""
    if structure.__class__ is Texts:
        return structure.filled(leaves, dict.fromkeys(structure.texts))
    return unflatten(structure, leaves)


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
