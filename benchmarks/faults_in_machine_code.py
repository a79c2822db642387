"""Faults in the lowering to machine code, which the fuzzer must find: see `planted_faults`.

Most are one piece of a function's source that is another one: ``module function``, what stands there, what stands there
instead. They are what is written wrong in such code: the rest behind the last full vector, a stride, an offset, which
operand, which lane, which round, which of two ways, memory that is used anew too early, rules for NaN and for signs.
"""

import contextlib

import numpy as np
from planting import FAULTS, edited, marked, replaced

from chainrule.program.native import maps, nests_alone, nests_roots, reductions, scalars

# fmt: off
EDITED = {
    # single values
    "minimum without its rule for NaN": (
        "scalars minimum", 'b.binary("or", b.compare(real, x, y), b.compare("uno", z, z))', "b.compare(real, x, y)"),
    "division of integers rounds toward zero": (
        "scalars floor_divide", 'part = b.select(down, b.binary("sub", part, like(y, 1)), part)', "pass"),
    "remainder of integers with the sign of the dividend": (
        "scalars remainder", 'b.select(turned, b.binary("add", rest, y), rest)', "rest"),
    "remainder moved the wrong way": (
        "scalars modulo", 'b.select(turned, b.binary("fadd", rest, y)', 'b.select(turned, b.binary("fsub", rest, y)'),
    "sign of zero not read": (
        "scalars signbit", 'b.intrinsic("copysign", like(x, 1.0), x)', "x"),
    "negative as a difference from zero": (
        "scalars negative", "b.fneg(x)", "subtract(b, like(x, 0), x)"),
    "negative integers cast as if they had no sign": (
        "scalars converted", '"uitofp" if have == "i1" else "sitofp"', '"uitofp"'),
    "wrong factor in a power by squares": (
        "scalars power_of", "multiply(b, y, x)", "multiply(b, y, y)"),
    "sigmoid by the wrong one of its formulas": (
        "formulas write_sigmoid", '"olt"', '"ogt"'),
    "lanes of a long vector from its first part": (
        "library joined", "b.shuffle(x, y, range(n + m))", "b.shuffle(x, y, [*range(n), *range(m)])"),
    "numbers of a program in single precision": (
        "builder constant", "struct.pack('<d', x)", "struct.pack('<d', np.float32(x))"),
    # small arrays
    "guard of the other answer": (
        "straight Straight.fails", "return scalars.logical_not(b, x) if g.seen else x",
        "return x if g.seen else scalars.logical_not(b, x)"),
    "guard that never fails": (
        "straight Straight.fails", "return scalars.logical_not(b, x) if g.seen else x",
        'return constant("i1", False)'),
    "column repeated as a row": (
        "straight Straight.wanted", "np.broadcast_to(found.positions, shape)", "np.resize(found.positions, shape)"),
    "arguments by columns read as if by rows": (
        "straight Straight.take", 'b.compare("ne", some, constant("i32", 0))', 'b.compare("ne", some, some)'),
    "place in the frame of one lane for a vector": (
        "functions Functions.slot", "lanes_of(v.type) * size + 7", "size + 7"),
    "entries with gaps loaded as neighbours": (
        "lanes runs_of", "p == positions[k - 1] + 1", "p > positions[k - 1]"),
    "lanes behind the half from one place before": (
        "lanes folded", "shuffled(b, vector, None, counted(half, n))",
        "shuffled(b, vector, None, counted(half - 1, n - 1))"),
    "mean divided by the number of means": (
        "reductions averaged", "where.shape[1]", "where.shape[0]"),
    "variance of a sample in place of that of all": (
        "reductions squares_of_deviations", 'n - e.params.get("ddof", 0)', 'n - e.params.get("ddof", 0) - 1'),
    "entries that go to one place not added up": (
        "moves placed", "ref if refs[k] is None else (add(w.b, single(w.b, refs[k]), single(w.b, ref)), -1)", "ref"),
    "of entries written twice the first stays": (
        "moves written", "in zip(where.ravel().tolist(), new.refs, strict=True)",
        "in reversed([*zip(where.ravel().tolist(), new.refs, strict=True)])"),
    # loops
    "stack popped from its start": (
        "rounds Writing.round", 'b.binary("mul", depth, i64(stack.words))',
        'b.binary("mul", b.load("i64", self.count), i64(stack.words))'),
    "fork that goes the other way": (
        "rounds Writing.fork", "((yes, end.yes), (no, end.no))", "((no, end.yes), (yes, end.no))"),
    "table of constants shifted by a row": (
        "rounds Writing.table", "np.array(items, dtype", "np.array(items[1:] + items[:1], dtype"),
    "round too few": (
        "rounds Writing.question", "i64(e.count)", "i64(e.count - 1)"),
    "always the first way in the records": (
        "rounds Writing.push", "i64(end.way)", "i64(0)"),
    # memory
    "start of a slice without its stride": (
        "values Memory.index", "offset += start * s if count else 0", "offset += start"),
    "reshape without the stride of the entries": (
        "values Memory.reshape", "t * olds[-1][1] for t", "t for t"),
    "memory used anew while a view of it is read": (
        "kernels ends_of", "last[root_of(s)] = i", "last[s] = i"),
    "rest of memory not filled": (
        "nests_roots sweep", "range(full, size)", "range(full, full)"),
    # loop nests
    "broadcast axis with a stride": (
        "nests_positions project", "0 if n == 1 else p", "p"),
    "roll by one too few": (
        "nests_handlers roll", "at(n - by)", "at(n - by - 1)"),
    "flip from the last place but one": (
        "nests_handlers flip", "x.shape[k] - 1", "x.shape[k] - 2"),
    "last entry of a written slice left out": (
        "nests_positions inverse", "tests.append((entry, start, start + count))",
        "tests.append((entry, start, start + count - (count > 1)))"),
    "triangle without its diagonal": (
        "nests_handlers triangle", '"sle" if lower else "sge"', '"slt" if lower else "sgt"'),
    "last entry of a rest left out": (
        "nests_loops Loops.inner", "if full < high:", "if full < high - 1:"),
    "shift along an outer axis without its stride": (
        "nests_memory address", "fixed += p.shift * stride", "fixed += p.shift"),
    "reversed rows not reversed": (
        "nests_memory load", "x = b.shuffle(x, None, range(w.lanes)[::-1])", "pass"),
    "strided entries loaded as neighbours": (
        "nests_memory lane_pointers", "n * step", "n"),
    "choice by the other answer": (
        "nests_emit Emit.compute", "return b.select(mask, x, y), level", "return b.select(mask, y, x), level"),
    "one of several rounds taken twice": (
        "nests_loops Loops.in_turns", 'constant("i64", k * w.lanes)', 'constant("i64", w.lanes)'),
    "negative index one place off": (
        "nests_memory checked", 'b.binary("add", value, number(n))', 'b.binary("add", value, number(n - 1))'),
    "lanes beyond the end added up": (
        "nests_roots Total.add", "new = b.select(first_lanes(w.live, w.lanes), new, old)", "pass"),
    "accumulators not emptied": (
        "nests_roots Total.flushes", "b.store(splat(self.start, w.most), self.lanes[c], 8)", "pass"),
    "mean divided by the length of one axis": (
        "nests_roots Total.__init__", "math.prod(shape[a] for a in axes)", "shape[axes[-1]]"),
    "write that overwrites where it should add": (
        "nests_roots Added.add", "more = MAPS[np.add](b, b.load(target.type, p), more)", "pass"),
    "running sum not begun anew": (
        "nests_alone Running.__init__", "self.level = len(axes) - 1", "self.level = 0"),
    "half of an array copied before a write": (
        "nests_alone fill", "target.size * SIZES", "target.size // 2 * SIZES"),
    # products
    "operand of BLAS transposed": (
        "blas Blas.gemm", "other[tb], other[ta]", "other[ta], other[tb]"),
    "BLAS adds to what is there": (
        "blas Blas.gemm", "1.0, y, ldb, x, lda, 0.0", "1.0, y, ldb, x, lda, 1.0"),
    "columns behind the last full vector left out": (
        "products_loops Loops.small", "[n % self.lanes] * (n % self.lanes > 0)", "[n % self.lanes] * (n < self.lanes)"),
    "rest of a block of rows left out": (
        "products_loops Loops.panel", "if rest:", "if rest > 1:"),
    "rest of a product of vectors left out": (
        "products_loops Loops.dots", "if at < count:", "if at < count - 1:"),
    "last block of a long sum of products left out": (
        "products_loops Loops.summed", "return part(number(full * BLOCK), rest, totals) if rest else totals",
        "return totals"),
}
# fmt: on


def operands_swapped(fun):
    """Return the function of the builder, for vectors with its operands swapped."""
    right = maps.MAPS[fun]
    return lambda b, x, y: right(b, y, x) if x.type[0] == "<" else right(b, x, y)


REPLACED = {
    "operands of a subtraction of vectors swapped": lambda: (maps.MAPS, np.subtract, operands_swapped(np.subtract)),
    "operands of a division of vectors swapped": lambda: (maps.MAPS, np.divide, operands_swapped(np.divide)),
    "place of the last of equal entries": lambda: (reductions.REDUCTIONS, np.argmax, reductions.first_of("oge", "sge")),
    "place of the last of equal entries in memory": lambda: (nests_alone.PLACES, np.argmin, "ole"),
    "maximum that begins with zero": lambda: (nests_roots.START, np.maximum, 0),
    "halves rounded up": lambda: (maps.MAPS, np.rint, half_up),
}


def half_up(b, x):
    """Return floor(x + 1/2)."""
    return b.intrinsic("floor", b.binary("fadd", x, scalars.like(x, 0.5)))


def planted(name):
    """Return the context manager of a fault."""
    if name in REPLACED:
        return lambda: replaced(*REPLACED[name]())
    where, old, new = EDITED[name]
    module, function = where.split(" ")
    return lambda: edited(f"chainrule.program.native.{module}", function, old, new)


FAULTS["native"].update({name.replace(" ", "_"): planted(name) for name in [*EDITED, *REPLACED]})


@contextlib.contextmanager
def surveyed(reached):
    """Note in a set which of the places that faults are planted at a program reaches; nothing is planted."""
    with contextlib.ExitStack() as stack:
        places = {}
        for name, (where, old, _) in EDITED.items():
            places.setdefault(where, []).append((name, old))
        for where, faults in places.items():
            module, function = where.split(" ")
            marks = [(old, noting(name.replace(" ", "_"), reached)) for name, old in faults]
            stack.enter_context(marked(f"chainrule.program.native.{module}", function, marks))
        yield


def noting(name, reached):
    """Return a function that notes a name."""

    def note():
        reached.add(name)

    note.__name__ = name
    return note
