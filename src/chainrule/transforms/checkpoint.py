"""Recompute instead of store: checkpoint.

A checkpointed call is one node of the tape, which keeps the call's arguments only. Going forward, the function runs one
level down, on plain arrays in the end, so nothing inside is recorded. Its pullback runs it again, records that, and
pulls back through the record, which is then dropped. The pullback and the pushforward of such a call are checkpointed
calls themselves: so nested transforms keep no more.

A function may also use traced values that it is not given (the weights in a closure). One of an outer transform is no
concern of the call's own level. One of the same level shows in the result: it comes out traced. Then the record of that
run tells what it depends on, the nodes that are older than the run. These become parents of the call's node, the record
is dropped, and the pullback makes it again.
"""

import functools
from collections.abc import Callable

import numpy as np

from chainrule import tree
from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, inexact
from chainrule.engine.buffer import plain
from chainrule.engine.cotangent import LAZY, Masked
from chainrule.engine.custom import Call, Definition, call
from chainrule.engine.dual import Dual, make_dual
from chainrule.engine.held import held
from chainrule.engine.tape import BUFFER, SLOT, Node, leaf, pull_back, slot_pull, tick
from chainrule.engine.variable import Variable, reboxed
from chainrule.errors import InPlaceError, NotDifferentiableError
from chainrule.transforms.common import Chosen, name_of, need_function
from chainrule.transforms.forward import pushed
from chainrule.transforms.reverse import Tape


def checkpoint(f: Callable) -> Callable:
    """Return `f`, to be computed again in reverse mode instead of being remembered.

    Reverse mode keeps an array for most operations of a function until the gradient is taken. Of a checkpointed
    function it keeps the arguments only; the pullback runs it once more.

    Parameters
    ----------
    f : callable
        Takes and returns numbers, arrays, or containers of these. It should give the same results when it is run again:
        pass random numbers, or the seed of a generator, as arguments. It must not write into its arguments.

    Returns
    -------
    callable
        As `f`; keyword arguments are taken as constants.

    Raises
    ------
    NotDifferentiableError
        If the second run depends on other traced values than the first.
    InPlaceError
        If `f` writes into its arguments.

    Notes
    -----
    All transforms, to any order. The gradient costs one more run of `f`. The memory inside a call is that of one call
    at a time. Traced values that `f` uses without being given them (weights in a closure) are differentiated, too;
    those found in its closure at once, others by another run going forward. Under `vmap` of the call itself nothing is
    saved: checkpoint the mapped function.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> block = cr.checkpoint(lambda x, w: np.tanh(w @ x))
    >>> loss = lambda w: np.sum(block(block(np.ones(2), w), w))
    >>> cr.grad(loss)(np.array([[0.1, 0.2], [0.3, 0.4]])).shape
    (2, 2)
    """
    need_function(f, "checkpoint(f)(x)")
    definition = Definition(f, name_of(f))

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def checkpointed(*args, **kwargs):
        return call(definition, args, kwargs, Segment)

    return checkpointed


class Closes(Exception):
    """The function of a checkpointed call uses a traced value of `level` without being given it."""

    def __init__(self, level):
        super().__init__(level)
        self.level = level


class Segment(Call):
    """A checkpointed call at one level."""

    __slots__ = ()
    masks = True

    def run(self, leaves):
        """Run the call; where the function closes over values of the call's levels, recorded once."""
        try:
            if self.level and closes_over(self.definition.f, self.level):
                raise Closes(self.level)
            return self.run_open(leaves)
        except Closes as found:
            if any(isinstance(x, Boxed) and x.level > found.level for x in leaves):
                raise
            return self.captured(leaves)

    def run_open(self, leaves):
        """Run the call at the highest level among `leaves`."""
        if not self.places:
            return self.captured(leaves)
        top = max((leaves[k] for k in self.places), key=lambda x: x.level)
        if top.__class__ is Variable:
            return super().run(leaves)
        if top.__class__ is Dual:
            return self.forward_mode(leaves)
        return self.bottom(leaves)

    def apply(self, operands, params):
        """Make the same call one level down."""
        leaves = self.filled(operands)
        below = Segment(self.definition, leaves, self.shape, self.kwargs)
        y = below.run(leaves)
        self.several, self.out_structure = below.several, below.out_structure
        highest = level_of(y if self.several else (y,))
        if highest >= self.level:
            raise Closes(highest)
        return y

    def bottom(self, leaves):
        """Run the function: on plain values, or on traced ones, which then record it."""
        leaves = [guarded(v) for v in leaves]
        f = self.definition.f
        try:
            y = f(*self.arguments(leaves), **self.kwargs)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise InPlaceError(
                f"the checkpointed function {self.name} writes into one of its arguments, or into what shares their "
                f"memory: {error}.",
                "work on a copy:  x = x.copy().",
            ) from error
        values, self.out_structure = tree.flatten_numbers(y)
        values = [own(plain(v)) for v in values]
        self.several = self.out_structure is not None
        self.checked_values(f, values)
        return tuple(values) if self.several else values[0]

    def outputs(self, xs):
        """Return those results that have derivatives, as a function of the operands."""
        y = Segment(self.definition, self.filled(xs), self.shape, self.kwargs).bottom(self.filled(xs))
        return [v for v in (y if isinstance(y, tuple) else (y,)) if inexact(v)]

    # -- derivatives of a call whose function closes over nothing of its level ---------------------------------

    def pull(self, ybar, y, xs):
        """Run the function again, recorded, and pull back through it."""
        ybars = [b for b, v in zip(ybar, y, strict=True) if inexact(v)] if self.several else [ybar]
        masks = [b.mask if b.__class__ is Masked else None for b in ybars]  # of choices outside: see `engine.cotangent`
        ybars = [b.value if b.__class__ is Masked else b for b in ybars]

        def pulled(xs, ybars):
            tape = Tape(self.outputs, Chosen(self.outputs, (0,), None), (xs,), {})
            if len(tape.outputs) != len(ybars):
                raise other_run(self.name)
            return tape.pull([b if m is None else Masked(b, m) for b, m in zip(ybars, masks, strict=True)])[0]

        if any(isinstance(v, Boxed) for v in (*xs, *ybars)):
            return checkpoint(pulled)(list(xs), ybars)
        return pulled(list(xs), ybars)

    def forward_mode(self, leaves):
        """Run the function on Duals one level down, all of it a checkpointed call again."""
        level = self.level
        mine = [k for k in self.places if leaves[k].level == level]

        def both(primals, tangents):
            def f(xs):
                inner = list(primals)
                for k, x in zip(mine, xs, strict=True):
                    inner[k] = x
                y = self.bottom(inner)
                return list(y) if self.several else [y]

            return pushed(f, ([primals[k] for k in mine],), (list(tangents),), False)

        primals = [x.data if k in mine else x.alias() if isinstance(x, Boxed) else x for k, x in enumerate(leaves)]
        run = both if not any(isinstance(x, Boxed) for x in primals) else checkpoint(both)
        ys, ydots = run(primals, [leaves[k].aux for k in mine])
        highest = level_of((*ys, *ydots))
        if highest >= level:
            raise Closes(highest)
        duals = [make_dual(y, t, level) if inexact(y) else y for y, t in zip(ys, ydots, strict=True)]
        return tuple(duals) if self.several else duals[0]

    def keeps(self, wanted):
        """Keep the operands; of several results, which have derivatives."""
        self.constants = [held(x) if x.__class__ is np.ndarray else x for x in self.constants]
        return (self.several,)

    # -- a call whose function closes over traced values ---------------------------------------------------------

    def captured(self, leaves):
        """Run the function on `leaves` as they are; if that was recorded, put one node in place of the record."""
        start = tick()
        y = self.bottom(leaves)
        ys = y if self.several else (y,)
        level = level_of(ys)
        if not level or not all(v.__class__ is Variable for v in ys if isinstance(v, Boxed) and v.level == level):
            return y
        mine = [v.__class__ is Variable and v.level == level for v in ys]
        parents = boundary([v.aux for v, m in zip(ys, mine, strict=True) if m], start)
        kept = [x.alias() if isinstance(x, Boxed) else held(x) if x.__class__ is np.ndarray else x for x in leaves]
        pull = Again(self, kept, level, parents, [k for k, m in enumerate(mine) if m])
        node = Node(parents, pull, (0.0,), SEGMENT)
        out = []
        for k, (v, m) in enumerate(zip(ys, mine, strict=True)):
            if m:
                data = v.data.alias() if isinstance(v.data, Boxed) else v.data
                v = Variable(data, Node((node,), slot_pull(k), None, SLOT), level)
            out.append(v)
        return tuple(out) if self.several else out[0]


class _Segment:
    """Stands as the rule of a node that a recorded and dropped run has left."""

    kind, name, nin, fun, complex = "rule", "checkpoint", 0, None, True
    entrywise = takes = masks = False


SEGMENT = _Segment()


class Again:
    """The pullback of a call with closures: run it again on the same tape, and pull back to where the call began."""

    __slots__ = ("call", "leaves", "level", "parents", "places")

    def __init__(self, call, leaves, level, parents, places):
        self.call, self.leaves, self.level, self.parents, self.places = call, leaves, level, parents, places

    def __call__(self, ybar, saved):  # noqa: D102 (see the class)
        level, name = self.level, self.call.name
        recorded = isinstance(saved[0], Boxed)  # the pass itself is recorded on this tape
        start = tick()
        with _level.reopened(level):
            again = Segment(self.call.definition, self.leaves, self.call.shape, self.call.kwargs)
            y = again.bottom(self.leaves)
            ys = y if again.several else (y,)
            if again.out_structure != self.call.out_structure:
                raise other_run(name)
            pairs = [(ys[k], ybar[k]) for k in self.places if k in ybar]
            if not all(v.__class__ is Variable and v.level == level for v, _ in pairs):
                raise other_run(name)
            roots = [v.aux for v, _ in pairs]
            if not set(boundary(roots, start)) <= set(self.parents):
                raise other_run(name)
            ends = cut(roots, start)
            seeds = [b.dense() if b.__class__ in LAZY and b.__class__ is not Masked else b for _, b in pairs]
            join = Node(tuple([ends.get(n, n) for n in roots]), lambda ybars, saved: ybars, None, BUFFER)
            record = (lambda n, saved: reboxed(n, saved, level)) if recorded else None
            masks = recorded or any(isinstance(v, Boxed) for v in (*ybar.values(), *[v.data for v, _ in pairs]))
            found = pull_back(join, seeds, record=record, masks=masks)
        bars = [found.get(ends.get(p)) for p in self.parents]
        for p, end in ends.items():  # what was recorded goes on from the ends to the nodes they stand for
            end.parents, end.pull, end.rule = (p,), lambda ybar, saved: (ybar,), BUFFER
        return [b.dense() if b.__class__ in LAZY else b for b in bars]


def boundary(roots, start):
    """Return the nodes older than `start` that `roots` depend on directly, without the constants among them."""
    found, seen, todo = {}, set(roots), list(roots)
    for n in todo:
        if n.serial < start:
            if n.parents or n.rule is None:
                found[n] = None
            continue
        for p in n.parents:
            if p is not None and p not in seen:
                seen.add(p)
                todo.append(p)
    return tuple(found)


def cut(roots, start):
    """Let the nodes made since `start` end at leaves of their own; return these by the older nodes they stand for."""
    ends = {}

    def end_of(p):
        if p is None or p.serial > start:
            return p
        if p not in ends:
            ends[p] = leaf()
            ends[p].serial = p.serial + 0.5  # older than all that use it
        return ends[p]

    seen, todo = set(roots), [n for n in roots if n.serial > start]
    for n in roots:
        end_of(n)
    for n in todo:
        for p in n.parents:
            if p is not None and p not in seen and p.serial > start:
                seen.add(p)
                todo.append(p)
        n.parents = tuple([end_of(p) for p in n.parents])
    return ends


def level_of(values):
    """Return the highest level among values, 0 if none is traced."""
    return max([v.level for v in values if isinstance(v, Boxed)], default=0)


def closes_over(f, level):
    """Tell whether the closure of `f` holds a traced value of `level`, by itself, in a container or in a function."""
    todo, seen = [f], set()
    while todo:
        g = todo.pop()
        if id(g) in seen:
            continue
        seen.add(id(g))
        if g.__class__ is functools.partial:
            todo += [g.func, *g.args, *g.keywords.values()]
        elif isinstance(g, Boxed):
            if g.level == level:
                return True
        elif g.__class__ in (list, tuple, dict):
            todo += tree.flatten(g)[0]
        for cell in getattr(g, "__closure__", None) or ():
            try:
                todo.append(cell.cell_contents)
            except ValueError:  # not assigned yet
                continue
    return False


def guarded(v):
    """Return a plain array as a view that can't be written to: the caller's array shall stay as it is."""
    if v.__class__ is not np.ndarray:
        return v
    v = v.view()
    v.flags.writeable = False
    return v


def own(v):
    """Return a result that may be written to: not an argument of the call, or a view of one."""
    return v.copy() if v.__class__ is np.ndarray and not v.flags.writeable else v


def other_run(name):
    """Return the error of a function that does not do the same when it is run again."""
    return NotDifferentiableError(
        f"the checkpointed function {name} depends on other values when it is run again for its derivative.",
        "pass what changes meanwhile (random numbers, variables that are assigned anew) as arguments;",
        "call it without checkpoint.",
    )
