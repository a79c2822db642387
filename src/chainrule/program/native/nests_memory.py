"""Memory in a nest: addresses, loads and stores of entries, and of vectors of neighbouring ones.

The functions write for an `Emit`, as its round stands: for the lanes at hand, of which those that are live count. An
address is made up at the lowest level that knows it: what the outer loops add to a pointer is added once for all rounds
of the loops inside. At integers each lane has an address of its own. `nests_emit` loads by these functions what comes
from outside the nest, and `nests_roots` stores what it makes.
"""

from chainrule.program.native.builder import constant, first_lanes, lanes_of, splat, with_lanes
from chainrule.program.native.nests_positions import At, Unfit


def times(b, index, step):
    """Return an index times a number."""
    if step == 1:
        return index
    if index.is_constant:
        return constant("i64", int(index.text) * step)
    return b.binary("mul", index, constant("i64", step))


def flat_view(held):
    """Return memory as one row."""
    if not held.is_rows:
        raise Unfit("memory with gaps, in flat order")
    return held.like((held.size,), (1,))


def address(w, memory, position):
    """Return (pointer at the lowest level possible, that level, stride along the innermost loop)."""
    b, fixed, steps = w.b, memory.offset, [0] * w.depth
    for p, stride in zip(position, memory.strides, strict=True):
        if p.__class__ is At:
            fixed += p.shift * stride
            steps[p.loop] += p.step * stride
        else:
            fixed += p * stride
    pointer, level = memory.pointer, 0
    for k in range(w.depth - 1):
        if steps[k]:
            key = "row", pointer, memory.type, k, steps[k]
            env = w.env[k + 1]
            if key not in env:
                with w.at(k + 1):
                    env[key] = b.offset(memory.type, pointer, times(b, w.index[k], steps[k]))
            pointer, level = env[key], k + 1
    if fixed:
        key = "shift", pointer, memory.type, fixed
        env = w.env[level]
        if key not in env:
            with w.at(level):
                env[key] = b.offset(memory.type, pointer, fixed)
        pointer = env[key]
    return pointer, level, steps[-1] if steps else 0


def lane_pointers(w, memory, pointer, step):
    """Return the pointers of the live lanes of a strided vector."""
    b = w.b
    first = b.offset(memory.type, pointer, times(b, w.index[-1], step))
    return [b.offset(memory.type, first, n * step) for n in range(w.live)]


def load(w, memory, position):
    """Load an entry, or a vector of entries."""
    b = w.b
    pointer, level, step = address(w, memory, position)
    if step == 0 or w.depth == 0:
        key = "load", pointer, memory.type
        env = w.env[level]
        if key not in env:
            with w.at(level):
                env[key] = b.load(memory.type, pointer), level
        return env[key]
    key = "load", pointer, memory.type, step
    env = w.env[w.depth]
    if key in env:
        return env[key]
    with w.at(w.depth):
        if w.lanes == 1:
            x = b.load(memory.type, b.offset(memory.type, pointer, times(b, w.index[-1], step)))
        elif step == 1:
            x = load_row(w, memory.type, b.offset(memory.type, pointer, w.index[-1]))
        elif step == -1 and w.live == w.lanes:
            back = b.binary("sub", constant("i64", 1 - w.lanes), w.index[-1])
            x = load_row(w, memory.type, b.offset(memory.type, pointer, back))
            x = b.shuffle(x, None, range(w.lanes)[::-1])
        else:
            xs = [b.load(memory.type, p) for p in lane_pointers(w, memory, pointer, step)]
            x = b.pack(xs + [constant(memory.type, 1)] * (w.lanes - w.live))
    env[key] = x, w.depth
    return env[key]


def load_row(w, kind, pointer):
    """Load neighbouring entries; lanes that do not count are 1."""
    if w.live == w.lanes:
        return w.b.load(with_lanes(kind, w.lanes), pointer)
    return w.b.load_some(kind, pointer, w.live, w.lanes)


def store(w, memory, position, x):
    """Store an entry, or the live lanes of a vector."""
    b = w.b
    value, level = w.cast(x, memory.dtype)
    pointer, below, step = address(w, memory, position)
    deep = w.depth if step else max(level, below)
    if not step:
        raise Unfit("a store outside the innermost loop")
    value = w.wide((value, level), deep)
    kind = memory.type
    with w.at(deep):
        if w.lanes == 1:
            b.store(value, b.offset(kind, pointer, times(b, w.index[-1], step)))
        elif step == 1:
            store_row(w, value, b.offset(kind, pointer, w.index[-1]))
        elif step == -1 and w.live == w.lanes:
            back = b.binary("sub", constant("i64", 1 - w.lanes), w.index[-1])
            value = b.shuffle(value, None, range(w.lanes)[::-1])
            store_row(w, value, b.offset(kind, pointer, back))
        else:
            for n, p in enumerate(lane_pointers(w, memory, pointer, step)):
                b.store(b.lane(value, n), p)


def store_row(w, value, pointer):
    """Store the live lanes in neighbouring entries."""
    if w.live == w.lanes:
        w.b.store(value, pointer)
    else:
        w.b.store_some(value, pointer, w.live)


# -- at integers -------------------------------------------------------------------------------------------------------


def checked(w, index, n):
    """Return an index from 0 on, as a value at its level; what is out of bounds is noted, and becomes 0."""
    b = w.b
    if index.__class__ is not tuple:
        return index
    value, level = index
    lanes = lanes_of(value.type)

    def number(k):
        return splat(constant("i64", k), lanes) if lanes > 1 else constant("i64", k)

    with w.at(level):
        value = b.select(b.compare("slt", value, number(0)), b.binary("add", value, number(n)), value)
        wrong = b.compare("uge", value, number(n))
        if lanes > 1 and w.live < lanes:
            wrong = b.binary("and", wrong, first_lanes(w.live, w.lanes))
        value = b.select(wrong, number(0), value)
        if w.bad is None:
            w.bad = b.alloca("i64")
            first = []
            with w.into(first):
                b.store(constant("i64", 0), w.bad)
            w.code[0][:0] = first
        some = wrong
        if lanes > 1:
            some = b.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", wrong)
    with w.into(w.updates) if level == w.depth else w.at(level):
        b.store(b.binary("or", b.load("i64", w.bad), b.cast("zext", some, "i64")), w.bad)
    return value, level


def lane_addresses(w, memory, position, pieces):
    """Return (pointers of the lanes, level): a position, and more along axes by integers."""
    b = w.b
    pointer, below, step = address(w, memory, position)
    level = max(below, w.depth if step else 0, w.level_of([i for i, _ in pieces]))
    total = None
    for i, stride in pieces:
        part = w.wide(i, level)
        with w.at(level):
            if stride != 1:
                part = b.binary("mul", part, w.wide((constant("i64", stride), 0), level))
            total = part if total is None else b.binary("add", total, part)
    with w.at(level):
        if lanes_of(total.type) == 1:
            if step:
                total = b.binary("add", total, times(b, w.index[-1], step))
            return [b.offset(memory.type, pointer, total)], level
        pointers = []
        for n in range(w.live):
            here = b.offset(memory.type, pointer, b.lane(total, n))
            if step:
                here = b.offset(memory.type, here, times(b, w.index[-1], step))
                here = b.offset(memory.type, here, n * step)
            pointers.append(here)
    return pointers, level


def load_at(w, memory, position, pieces):
    """Load entries at a position, and more along axes by integers."""
    b = w.b
    pointers, level = lane_addresses(w, memory, position, pieces)
    with w.at(level):
        xs = [b.load(memory.type, p) for p in pointers]
        if level < w.depth or w.lanes == 1:
            return xs[0], level
        return b.pack(xs + [constant(memory.type, 1)] * (w.lanes - w.live)), level
