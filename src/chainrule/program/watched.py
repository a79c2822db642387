"""A function is traced, and what it reads from its surroundings is found, and left as plain Python would leave it.

Before the run, a walk takes note of all that the function's code can reach. After it, a second one keeps to the code
that ran. What is not what it was before has been changed by the function itself: that can't be in a program. Nor can
random numbers, clocks, and values of other transforms.
"""

from chainrule.program import undoing
from chainrule.program.chance import Chance
from chainrule.program.ir import Symbol
from chainrule.program.lifting import Lift
from chainrule.program.surroundings import Surroundings
from chainrule.program.trace import Result, Traced, Untraceable, traced
from chainrule.program.walk import Unclear, Walk


class Borrowed(Exception):
    """The function reads a value that another transform traces."""


class Impure(Untraceable):
    """The function changes what it reads. This may have been the only time: what it keeps in a cache, say."""


def watched(f, roots, args, kwargs, dynamic, *, careful=False) -> tuple[Traced, Surroundings]:
    """Trace `f`; return the run, and what it found outside. See `trace.traced`.

    Raises
    ------
    Borrowed
        If it reads a traced value from outside; it has not run then.
    Untraceable
        If the program would not stand for the function.
    """
    before = Walk(roots, guards=False)
    if before.boxes:
        raise Borrowed
    chance = Chance(before.generators)

    def undo():
        """Take back what the run has done, before the function is run once more."""
        chance.put_back()
        undoing.undo(before)

    lift = Lift(before)
    options = {"careful": careful}
    made = None
    if lift:
        try:
            made = ran(before, f, args, kwargs, dynamic, lift=lift, **options)
            lift.check(made.frames)
        except Exception:  # plain code needs plain arrays; what the function itself raises is raised again
            undo()
            made = None
    if made is None:
        lift = None
        try:
            made = ran(before, f, args, kwargs, dynamic, **options)
        except Untraceable:
            undo()
            raise
    frames, twins = made.frames, None
    if lift is not None:
        frames = lift.originals(frames)
        twins = {id(twin): v for twin, v, _ in lift.containers.values()}
        lift.clear()
    others = [x for x, *_ in before.surroundings.arrays if not any(x is y for y in made.points)]
    result = Result(made.program.structure, made.outputs, made.writes, made.points, others, undo)
    try:
        after = Walk(roots, frames, lift=lift)
    except Unclear as why:
        undoing.mend(before, twins)
        if why.wrong or not undoing.settled(before):
            undo()
            result = None
        raise Untraceable(str(why), result=result) from None
    changed = undoing.changed(before, after)
    if after.boxes or changed is not None:
        undoing.mend(before, twins)
        undoing.mend(after, twins)
        if not undoing.settled(before):
            undo()
            result = None
        raise Impure(f"it changes {changed or 'an object'}, which stands outside of it", result=result)
    if chance.moved() or not all(map(chance.knows, after.generators)):
        raise Untraceable("it draws random numbers, which would be the same in each run", result=result)
    order_inputs(made, after.surroundings, lift)
    after.surroundings.finish()
    return made, after.surroundings


def ran(before, *args, **options):
    """Trace; if that is left by an exception, of whatever kind, no traced value stays behind."""
    try:
        return traced(*args, **options)
    except BaseException:
        undoing.mend(before)
        raise


def order_inputs(made, surroundings, lift):
    """Let the inputs be the arguments, and the arrays from outside in the order in which they are looked up."""
    program = made.program
    if lift is None:
        return
    count = len(program.inputs) - len(lift.found)
    read = {s for e in program.equations for s in e.reads} | {y for y in program.outputs if y.__class__ is Symbol}
    places = [(id(holder), key) for holder, key, *_ in surroundings.lifted]
    for place, symbol in lift.symbols.items():
        if symbol in read and place not in places:
            holder, key, array, _ = lift.found[place]
            surroundings.lifted.append((holder, key, array.shape, array.strides, array.dtype))
            places.append(place)
    old = list(program.inputs)
    program.inputs = old[:count] + [lift.symbols[place] for place in places]
    made.writes = [program.inputs.index(old[k]) for k in made.writes]
