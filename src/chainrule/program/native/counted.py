"""Loops of a known number of rounds, and pointers that go along with these.

They are what products are written with, and what puts the parts of a result together. The loops of a nest are in
`chainrule.program.native.nests_loops`, those that a program has recorded in `chainrule.program.native.rounds`.
"""

from chainrule.program.native.builder import Builder, Value


def number(n: int) -> Value:
    """Return an integer constant."""
    return Value("i64", str(n))


def repeat(b: Builder, count: int, body, carried=()) -> list:
    """Write `count` rounds, one or more. ``body(round, carried)`` returns what it hands on; return that of the last."""
    if count == 1:
        return body(number(0), list(carried)) or []
    before, label, done = b.current, b.block("round"), b.block("done")
    b.branch(label)
    b.start(label)
    phis = [b.phi("i64"), *[b.phi(v.type) for v in carried]]
    for p, v in zip(phis, (number(0), *carried), strict=True):
        p.add(v, before)
    last = body(phis[0].value, [p.value for p in phis[1:]]) or []
    following = b.binary("add", phis[0].value, number(1))
    for p, v in zip(phis, (following, *last), strict=True):
        p.add(v, b.current)
    b.condition(b.compare("slt", following, number(count)), label, done)
    b.start(done)
    return last


def moved(b: Builder, kind: str, pointer: Value, i: Value, stride: int) -> Value:
    """Return a pointer ``i * stride`` entries further on."""
    if stride == 0 or i.text == "0":
        return pointer
    if i.text.lstrip("-").isdigit():
        return b.offset(kind, pointer, int(i.text) * stride)
    return b.offset(kind, pointer, b.binary("mul", i, number(stride)) if stride != 1 else i)
