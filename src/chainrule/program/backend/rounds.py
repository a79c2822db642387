"""Loops of a program as Python's: ``while`` and ``for`` with the rounds' equations in them, forks as ``if``.

What a round makes is fresh, since the stack may hold it. Numbers are carried as Python's from round to round, and on
the stack.
"""

from chainrule.program.backend.arrays import kind_of
from chainrule.program.ir import PYTHON, Guard, Symbol, symbols_in
from chainrule.program.loops.ir import Exit, Fork, Loop, Pop, blocks_of


def inner_equations(equations, body):
    """Find all equations, those inside of loops too; ``body(block)`` returns those of a block."""
    for e in equations:
        if e.__class__ is Loop:
            for block in e.blocks:
                for b in blocks_of(block):
                    yield from inner_equations(body(b), body)
        elif e.__class__ is not Pop:
            yield e


class Rounds:
    """Writes the loops of one program; `writer` writes their equations."""

    def __init__(self, writer) -> None:
        self.writer = writer

    def indented(self, write) -> list:
        """Return the lines that a function writes, indented."""
        writer = self.writer
        outer, writer.lines = writer.lines, []
        write()
        lines, writer.lines = writer.lines, outer
        return [f"    {line}" for line in lines] or ["    pass"]

    def equations(self, equations) -> None:
        """Write equations of a round."""
        writer = self.writer
        outer, writer.plain = writer.plain, True
        for e in equations:
            kind = kind_of(e)
            start = len(writer.lines)
            getattr(writer, f"write_{kind}")(None, e)
            writer.remark(start, e)
        writer.plain = outer

    def raw(self, x) -> str:
        """Return a value as it stands in its variable."""
        return self.writer.names[x] if x.__class__ is Symbol else self.writer.nested(x)

    def carried(self, symbol, x) -> str:
        """Return a value as the variable of another symbol carries it."""
        writer = self.writer
        kind = writer.carries(symbol)
        if kind is None:
            return writer.nested(x)
        if x.__class__ is Symbol and writer.carried.get(x) is kind:
            return writer.names[x]
        if x.__class__ in PYTHON and x.__class__ is kind:
            return writer.nested(x)
        return f"{kind.__name__}({self.raw(x)})"

    def named(self, symbol) -> str:
        """Let a symbol be a variable, and return its name."""
        writer = self.writer
        writer.names[symbol] = symbol.name
        kind = writer.carries(symbol)
        if kind is not None:
            writer.carried[symbol] = kind
        return symbol.name

    def received(self, symbols) -> None:
        """Write what makes numbers from the stack, or out of a table, what their variables carry."""
        writer = self.writer
        for s in symbols:
            if s is None or s.shape != () or s.dtype in PYTHON:
                continue
            kind = writer.carries(s)
            if kind is not None:
                writer.lines.append(f"{s.name} = {kind.__name__}({s.name})")
            elif s.dtype.kind in "fb" and s.dtype.itemsize in (1, 8):
                writer.lines.append(f"{s.name} = {'f64' if s.dtype.kind == 'f' else 'bool_'}({s.name})")

    def loop(self, e) -> None:
        """Write a loop."""
        writer, lines = self.writer, self.writer.lines
        lines += [f"{self.named(s)} = {self.carried(s, x)}" for s, x in zip(e.state, e.init, strict=True)]
        number = writer.counter()
        tables = [(s, writer.nested(tuple(table)) if any(True for _ in symbols_in(list(table)))
                   else writer.constant(tuple(table))) for s, table in e.tables]  # fmt: skip
        for n, (s, text) in enumerate(tables):
            lines.append(f"table{number}_{n} = {text}")
            self.named(s)
        stack = f"stack{number}"
        if e.pushes is not None:
            lines.append(f"{stack} = []")
            writer.names[e.pushes] = stack
        for s in e.outputs:
            if s is not e.pushes:
                self.named(s)
        if e.count is not None:
            lines.append(f"for round{number} in range({e.count}):")
        else:
            if tables:
                lines.append(f"round{number} = -1")
            lines.append("while True:")
        lines += self.indented(lambda: self.round(e, number, tables, stack))
        if e.finals and not self.leaves(e):
            lines += [f"{s.name} = {self.carried(s, e.state[i])}" for s, i in zip(e.output, e.finals, strict=True)]

    def leaves(self, e) -> bool:
        """Tell whether a loop has an exit."""
        return any(b.end.__class__ is Exit for block in e.blocks for b in blocks_of(block))

    def round(self, e, number, tables, stack) -> None:
        """Write one round."""
        lines = self.writer.lines
        if e.pops is not None:
            given = self.writer.names[e.pops]
            fails = self.failure(e, None)
            lines.append(f"if len({given}) <= {e.left}:")
            if e.left:
                lines.append(f"    if len({given}) < {e.left}: {fails}")
            lines += ["    break", f"kept{number} = {given}.pop()"]
        if tables and e.count is None:
            lines.append(f"round{number} += 1")
        for n, (s, _) in enumerate(tables):
            lines.append(f"{s.name} = table{number}_{n}[round{number}]")
        self.received([s for s, _ in tables])
        if e.pops is None:
            self.block(e, e.blocks[0], stack)
            return
        word = "if"
        for way, block in enumerate(e.blocks):
            if block is not None:
                lines.append(f"{word} kept{number}[0] == {way}:")
                lines += self.indented(lambda b=block: self.taken(e, b, number, stack))
                word = "elif"
        fails = self.failure(e, -1)
        lines += ["else:", f"    {fails}"] if word == "elif" else [fails]

    def failure(self, e, seen) -> str:
        """Return the statement for a stack that has other rounds than any that were seen."""
        return f"raise GuardFailed({self.writer.constant(Guard(e.pops, 'value', seen, e.place))})"

    def taken(self, e, block, number, stack) -> None:
        """Write the block of one way, with what it takes off the stack."""
        names = ", ".join(["_", *[self.named(s) for s in block.takes]])
        self.writer.lines.append(f"{names} = kept{number}" if block.takes else "pass")
        self.received(block.takes)
        self.block(e, block, stack)

    def block(self, e, block, stack) -> None:
        """Write a block and what follows it."""
        lines = self.writer.lines
        self.equations(self.writer.body(block))
        end = block.end
        if end.__class__ is Fork:
            guard = end.guard
            text, yes, no = self.raw(guard.symbol), end.yes, end.no
            fails = f"raise GuardFailed({self.writer.constant(guard)})"
            if yes is None or no is None:
                lines.append(f"if {'not ' if no is None else ''}{text}: {fails}")
                self.block(e, yes or no, stack)
                return
            lines.append(f"if {text}:")
            lines += self.indented(lambda: self.block(e, yes, stack))
            lines.append("else:")
            lines += self.indented(lambda: self.block(e, no, stack))
        else:
            if e.pushes is not None:
                kept = "".join([f", {self.raw(x)}" for x in end.kept])
                lines.append(f"{stack}.append(({end.way}{kept or ','}))")
            if end.__class__ is Exit:
                lines += [f"{s.name} = {self.carried(s, x)}" for s, x in zip(e.output, end.values, strict=True)]
                lines.append("break")
            elif e.state:
                values = [self.carried(s, x) for s, x in zip(e.state, end.state, strict=True)]
                lines.append(f"{', '.join([s.name for s in e.state])} = {', '.join(values)}")

    def pop(self, e) -> None:
        """Write what takes one round off a stack."""
        lines, stack = self.writer.lines, self.writer.names[e.stack]
        guard = self.writer.constant(Guard(e.stack, "value", e.way, e.place))
        lines.append(f"if not {stack} or {stack}[-1][0] != {e.way}: raise GuardFailed({guard})")
        names = ", ".join(["_", *["_" if s is None else self.named(s) for s in e.output]])
        lines.append(f"{names} = {stack}.pop()" if e.output else f"{stack}.pop()")
        self.received(e.output)
