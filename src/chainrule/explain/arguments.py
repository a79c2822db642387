"""The arguments of a function that is explained: their names, and which of their values are differentiated.

Floats, and arrays of floats, are inputs; so are Python's ints, taken as floats. Arrays of integers and bools, strings,
bools and None are constants: labels, indices, options.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chainrule import tree
from chainrule.engine.boxed import inexact, value
from chainrule.transforms.common import name_of, points

INTEGER_WANTED = ("an integer", "must be integers", "only integer", "use as an index")


@dataclass(frozen=True)
class Arguments:
    """Names and values of the arguments; `labels` names each input, that is each float in them."""

    names: tuple
    values: tuple
    labels: tuple

    @property
    def places(self) -> tuple:
        """The numbers of the arguments with inputs in them."""
        return tuple([k for k, x in enumerate(self.values) if any(map(inexact, tree.flatten(x)[0]))])

    def closed(self, f: Callable) -> tuple:
        """Return `f` as a function of the inputs only, and the inputs."""
        leaves, structure = tree.flatten(list(self.values))
        inputs = [k for k, x in enumerate(leaves) if inexact(x)]

        def of_inputs(*xs):
            filled = list(leaves)
            for k, x in zip(inputs, xs, strict=True):
                filled[k] = x
            return f(*tree.unflatten(structure, filled))

        return of_inputs, [leaves[k] for k in inputs]


def arguments(f: Callable, args: tuple, ints: bool = False) -> Arguments:
    """Return the arguments of a call; with `ints`, Python's ints stay what they are."""
    names = argument_names(f, args)
    function = name_of(f)
    constant = [is_constant(x, ints) for a in args for x in tree.flatten(a)[0]]
    if all(constant):  # there would be nothing to differentiate
        constant = [False] * len(constant)
    stays = iter(constant)
    values, labels = [], []
    for k, (name, x) in enumerate(zip(names, args, strict=True)):
        leaves, structure = tree.flatten(x)
        made = []
        for leaf, path in zip(leaves, tree.paths(x), strict=True):
            if next(stays):
                made.append(leaf)
                continue
            made += [value(v) for v in points(leaf, f"argument {k} of {function}{path}")[0]]
            labels.append(name + path)
        values.append(tree.unflatten(structure, made))
    return Arguments(tuple(names), tuple(values), tuple(labels))


def is_constant(x, ints):
    """Tell whether a value in an argument is no input."""
    if isinstance(x, np.ndarray):
        return bool(x.shape) and x.dtype.kind in "biu"
    return x is None or isinstance(x, str | bool | np.bool_) or (ints and isinstance(x, int))


def taken(f: Callable, args: tuple, run: Callable) -> tuple:
    """Return the arguments and what `run` gives for their values; once more with ints where `f` needs those."""
    found = arguments(f, args)
    try:
        return found, run(*found.values)
    except (TypeError, IndexError) as error:
        if not any(isinstance(x, int) for x in tree.flatten(list(args))[0]) or not wants_integer(error):
            raise
    found = arguments(f, args, ints=True)
    return found, run(*found.values)


def wants_integer(error):
    """Tell whether an error says that a float stands where an integer is needed."""
    return any(part in str(error) for part in INTEGER_WANTED)


def argument_names(f, args):
    """Return a name for each positional argument, as the function's signature has it."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"x{k}" for k in range(len(args))]
    names = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}[{k}]" for k in range(len(args) - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    if not args or len(names) < len(args):
        inspect.signature(f).bind(*args)  # raises as the call would
    if not args:
        raise TypeError(f"explain needs a point: call explain({name_of(f)}, x, ...)")
    return names[: len(args)]
