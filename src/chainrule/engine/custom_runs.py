"""A call of a function with a rule by the user on many runs, which are traced below the batch.

That is how ``grad`` of a sum over ``vmap(f)`` meets `f`. One level down all runs are one value, with their axis in
front, and the call of all of them is one operation: `Runs`. What it does, forward and in its derivatives, is to make a
batch of its operands again, on a level of its own, and to run the user's code on that; or once for each run, if the
code can't go on with a batch.
"""

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.batched import STOPPED, Batched, NeedsLoop, batched, note_loops
from chainrule.engine.boxed import Boxed
from chainrule.engine.dispatch import dispatch
from chainrule.engine.spec import shape_of, spread_to


class Runs:
    """The call of all runs. It stands where the engine looks for a `Rule`. `flags` says which operands have runs."""

    __slots__ = ("call", "flags", "n")

    kind, spread, complex = "rule", True, True
    affine, accepts, params = {}, frozenset(), {}
    pulls = domain = None
    entrywise = takes = masks = False

    def __init__(self, call, flags, n):
        self.call, self.flags, self.n = call, flags, n

    name = property(lambda self: self.call.name)
    fun = property(lambda self: self.call.fun)
    nin = property(lambda self: len(self.flags))
    vjps = property(lambda self: (self.pull,))
    jvps = property(lambda self: (self.push,))

    def keeps(self, wanted):
        """Keep the results."""
        return (True,)

    def outputs(self, y):
        """Return one result, or several, as a tuple."""
        return tuple(y) if self.call.several else (y,)

    def result(self, parts):
        """Return the tuple of results as the call does."""
        return tuple(parts) if self.call.several else parts[0]

    def apply(self, xs, params):
        """Make the same call one level down; at the bottom that of the user's function."""
        if any(isinstance(x, Boxed) for x in xs):
            return dispatch(self, tuple(xs), {})
        call = self.call
        with _level.running(call.fun) as level:
            leaves = call.filled(self.boxed(xs, self.flags, level))
            made = call.__class__(call.definition, leaves, call.shape, call.kwargs)
            y = made.run(leaves)
            call.several, call.out_structure = made.several, made.out_structure
            parts = [self.all_runs(v, level) for v in self.outputs(y)]
        if any(isinstance(v, Boxed) for v in parts):
            raise call.missed()
        return self.result(parts)

    def pull(self, ybar, y, xs):
        """Return the cotangents of the operands; one that is the same in all runs gets the sum of theirs."""
        ys, ybars = self.outputs(y), self.outputs(ybar)
        count = len(ys)

        def one(parts):
            made = self.again(parts[2 * count :])
            return made.pull(self.result(parts[:count]), self.result(parts[count : 2 * count]), parts[2 * count :])

        bars = self.of_runs(one, (*ybars, *ys, *xs), (True,) * (2 * count) + tuple(self.flags))
        return [bar if m else np.add.reduce(bar, axis=0) for bar, m in zip(bars, self.flags, strict=True)]

    def push(self, xdots, y, xs):
        """Return the tangents of the results."""
        ys, operands = self.outputs(y), len(xs)

        def one(parts):
            given = parts[2 * operands :]
            made = self.again(parts[operands : 2 * operands])
            return self.outputs(made.push(parts[:operands], self.result(given), parts[operands : 2 * operands]))

        flags = tuple(self.flags)
        return self.result(self.of_runs(one, (*xdots, *xs, *ys), flags + flags + (True,) * len(ys)))

    def again(self, xs):
        """Return the call for the given operands, as it is after the user's function has run."""
        call = self.call
        leaves = call.filled(xs)
        made = call.__class__(call.definition, leaves, call.shape, call.kwargs)
        made.places, made.constants = call.places, call.constants
        made.several, made.out_structure = call.several, call.out_structure
        if call.definition.fwd is not None and not any(isinstance(x, Boxed) for x in xs):
            made.kept = made.forward(leaves)[1]
        return made

    def of_runs(self, one, parts, flags):
        """Return what ``one(parts)`` gives for all runs, with their axis in front."""
        with _level.running(self.call.fun) as level:
            try:
                found = [self.all_runs(v, level) for v in one(self.boxed(parts, flags, level))]
                if level not in STOPPED:
                    return found
            except NeedsLoop as stop:
                if stop.level is not None and stop.level != level:
                    raise
            except Exception:  # each run will raise it; or the code can't take a batch
                found = None
            STOPPED.discard(level)
        note_loops((self.name,))
        runs = [one(tuple([v[k] if m else v for v, m in zip(parts, flags, strict=True)])) for k in range(self.n)]
        return [np.stack(vs) for vs in zip(*runs, strict=True)]

    def boxed(self, parts, flags, level):
        """Return the values of all runs as batches."""
        return tuple([batched(v, level) if m else v for v, m in zip(parts, flags, strict=True)])

    def all_runs(self, v, level):
        """Return a value of the runs with their axis in front."""
        if v.__class__ is Batched and v.level == level:
            return v.data
        return spread_to(v, (self.n, *shape_of(v)))
