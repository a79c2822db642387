"""The derivatives of a compiled function: a call with a rule of its own, whose two parts are compiled functions."""

import itertools

from chainrule import tree
from chainrule.engine.boxed import Boxed
from chainrule.engine.custom import Definition
from chainrule.program.arguments import inexact_leaf, locked
from chainrule.transforms.common import name_of
from chainrule.transforms.forward import jvp
from chainrule.transforms.reverse import vjp


class Writes(Exception):
    """The function writes into its arguments."""


class Derivatives:
    """The pullback and the pushforward of a compiled function, compiled."""

    def __init__(self, compiled, structure):
        f = compiled._f

        def on_leaves(*leaves):
            args, kwargs = tree.unflatten(structure, [locked(x) for x in leaves])
            if any(isinstance(x, Boxed) for x in leaves):  # on batches the code is gone through
                return f(*args, **kwargs)
            try:
                return compiled(*args, **kwargs)
            except ValueError as error:
                if "read-only" in str(error):
                    raise Writes from None
                raise

        def smooth(leaves):
            """Return the function from the floats among the values to those of the result; and a list for its form."""
            places = [k for k, x in enumerate(leaves) if inexact_leaf(x)]
            form = []

            def of_floats(*xs):
                full = list(leaves)
                for k, x in zip(places, xs, strict=True):
                    full[k] = x
                args, kwargs = tree.unflatten(structure, full)
                numbers, results = tree.flatten_numbers(f(*args, **kwargs))
                smooth_ones = [inexact_leaf(y) for y in numbers]
                form[:] = [results, smooth_ones]
                return list(itertools.compress(numbers, smooth_ones))

            return of_floats, [leaves[k] for k in places], form

        def pull(ybar, *leaves):
            g, xs, form = smooth(leaves)
            _, pullback = vjp(g, *xs)
            return pullback(list(itertools.compress(tree.flatten(ybar)[0], form[1])))

        def push(xdots, *leaves):
            g, xs, form = smooth(leaves)
            ydots = iter(jvp(g, tuple(xs), tuple(xdots))[1])
            results, smooth_ones = form
            return tree.derivatives(results, [next(ydots) if one else None for one in smooth_ones])

        pull.__name__ = pull.__qualname__ = f"pullback_of_{name_of(f)}"
        push.__name__ = push.__qualname__ = f"pushforward_of_{name_of(f)}"
        pull, push = [compiled.__class__(g, backend=compiled._backend) for g in (pull, push)]

        def pulled(ybar, y, *leaves):
            places = [k for k, x in enumerate(leaves) if inexact_leaf(x)]
            bars = [None] * len(leaves)
            for k, bar in zip(places, pull(ybar, *leaves), strict=True):
                bars[k] = bar
            return tuple(bars)

        def pushed(xdots, y, *leaves):
            return push([xdots[k] for k, x in enumerate(leaves) if inexact_leaf(x)], *leaves)

        self.definition = Definition(on_leaves, name_of(f), vjp=pulled, jvp=pushed)
