"""The functions that a kernel is cut into, and the frame through which values go from one to another.

LLVM's time for one function grows faster than its length, so that code is cut into functions of some 256 lines. A value
that is read in a later function goes through the frame: it is stored at the end of the function that makes it, and
loaded where it is read. In a scope (a function, a branch, a loop's body) it is loaded once.

The frame also has the results that are numbers, and memory for arrays. `chainrule.program.native.driver` makes it.
"""

import bisect

from chainrule.program.native import target
from chainrule.program.native.builder import (
    Builder,
    Checks,
    Home,
    Module,
    Value,
    bare,
    constant,
    element_of,
    lanes_of,
)  # fmt: skip
from chainrule.settings import config

LINE = 8  # doubles of a line of the cache, at which a frame begins
CHUNK = 256  # lines of one function, about
FULL, STRANGE, AS_PYTHON, NOT_FINITE = -1, -2, -3, -5  # what a kernel returns: see below


class Functions:
    """The functions of a kernel, which are written one after the other: `b` is that at hand.

    A kernel returns 0, or the number of a guard that failed. It returns `FULL` if a loop's stack is full, `STRANGE` if
    an array is not stored row by row, `AS_PYTHON` where Python raises an exception: a division of its floats by 0, and
    `NOT_FINITE` if all is done, but some entry of a result is not finite.
    With ``config.check_bounds``, it returns `FAULT` before it reads or writes outside of what it may.
    """

    limit = CHUNK  # lines after which the next function begins

    def __init__(self, name: str, numbers: int) -> None:
        self.name = name
        self.module = Module()
        self.words = 0  # of the frame, in doubles
        self.starts: list[int] = []  # the places that were taken
        self.slots: dict[str, int] = {}  # name of a value -> its place in the frame
        self.stacks: list[tuple] = []  # of each stack that may grow: place of its address and room, words of a round
        self.chunks: list[Builder] = []
        self.stages: list[tuple] = []  # functions to call if there are blocks: (name, how many blocks or None)
        self.numbers = self.place(numbers)  # the frame begins with the outputs that are numbers
        if config.check_bounds:
            self.module.checks = Checks(8 * self.place(2))
        self.begin()

    def begin(self, *more: str) -> None:
        """Begin the next function; it may have more arguments than the points and the frame."""
        k = len(self.chunks)
        kinds = ["ptr", "ptr", *more]
        self.b = Builder(self.module, f"{self.name}_{k}", "i32", kinds, "internal noinline nounwind")
        self.b.prefix = self.prefix = f"%k{k}v"
        self.b.tail, self.b.has_loops, self.b.blocks = [], False, None
        self.chunks.append(self.b)
        self.scopes = [{}]

    def place(self, words: int) -> int:
        """Return the place of so many doubles in the frame; that of many begins with a line of the cache."""
        if words >= LINE:
            self.words = -(-self.words // LINE) * LINE
        self.starts.append(self.words)
        self.words += words
        return self.words - words

    def frame(self, first: int, size: int, name: str = "a place in the frame") -> Value:
        """Return the address of the frame, of which code may use so many bytes from the byte `first` on."""
        frame = Value("ptr", "%a1")
        return frame if self.module.checks is None else frame._replace(home=Home(frame, first, first + size, name))

    def at(self, place: int) -> Value:
        """Return the address of a place in the frame."""
        k = bisect.bisect_right(self.starts, place)
        first, last = self.starts[k - 1], self.starts[k] if k < len(self.starts) else self.words
        return self.b.offset("double", self.frame(8 * first, 8 * (last - first)), place)

    def here(self, v: Value) -> Value:
        """Return a value for this function: loaded from the frame if another one made it."""
        text = v.text
        if text[0] != "%" or text.startswith(self.prefix) or text[1] == "a":
            return v
        for scope in reversed(self.scopes):
            if text in scope:
                return scope[text]
        home = v.home
        if home is not None and home.base.text != text:
            high = home.high if home.high.__class__ is int else self.here(home.high)
            home = home._replace(base=self.here(home.base), high=high)
        loaded = self.b.load(v.type, self.at(self.slot(v)))
        if home is not None:
            loaded = loaded._replace(home=home if home.base.text != text else home._replace(base=loaded))
        self.scopes[-1][text] = loaded
        return loaded

    def slot(self, v: Value) -> int:
        """Return the place of a value in the frame; the function that makes it stores it there at its end."""
        if v.text not in self.slots:
            size = {"double": 8, "i64": 8, "ptr": 8, "float": 4, "i32": 4, "i1": 1}[element_of(v.type)]
            self.slots[v.text] = place = self.place((lanes_of(v.type) * size + 7) // 8)
            maker, b = self.chunks[int(v.text[2 : v.text.index("v")])], self.b
            lines, maker.lines, self.b = maker.lines, maker.tail, maker
            maker.store(bare(v), self.at(place))
            maker.lines, self.b = lines, b
        return self.slots[v.text]

    def finish(self) -> str:
        """Write the ends of the functions and the kernel, which calls them; return the module's text."""
        for b in self.chunks:
            b.lines += b.tail
            b.ret(constant("i32", 0))
            if target.host().lanes > 2 and "alignstack" not in b.attributes:
                b.attributes += " alignstack(64)"  # vectors that wait for a call are on the stack
        long = sum([len(b.lines) for b in self.chunks]) > target.SLOW and len(self.chunks) > 1
        if long:
            for b in self.chunks:  # only loops gain from what LLVM's passes do
                if not b.has_loops and not any(" = phi " in line for line in b.lines):
                    b.attributes += " optnone"
        if len(self.chunks) == 1:
            words = [w for w in self.chunks[0].attributes.split() if w not in ("internal", "noinline")]
            self.chunks[0].name, self.chunks[0].attributes = self.name, " ".join(words)
            return self.module.text()
        calls = [(c.name, ()) if c.blocks is None else over_blocks(self.module, c) for c in self.chunks]
        if any(c.blocks is not None and c.blocks.count > 1 for c in self.chunks):  # the driver may call them one by one
            self.stages = [(name, int(more[1].text) if more else None) for name, more in calls]
            for b in self.chunks:
                b.attributes = b.attributes.removeprefix("internal ")
        b = Builder(self.module, self.name, "i32", ["ptr", "ptr"], "nounwind noinline optnone" if long else "nounwind")
        for name, more in calls:
            code = b.call(name, "i32", *b.arguments, *more)
            done, failed = b.block("done"), b.block("failed")
            b.condition(b.compare("eq", code, constant("i32", 0)), done, failed)
            b.start(failed)
            b.ret(code)
            b.start(done)
        b.ret(constant("i32", 0))
        return self.module.text()

    def leave(self, condition: Value, code: int) -> None:
        """Return a code if a condition holds."""
        b = self.b
        go, stop = b.block("go"), b.block("stop")
        b.condition(condition, stop, go)
        b.start(stop)
        b.ret(constant("i32", code))
        b.start(go)


def over_blocks(module: Module, chunk: Builder) -> tuple:
    """Write the function that runs the blocks from one number up to another; return (its name, both for all)."""
    b = Builder(module, f"{chunk.name}_blocks", "i32", ["ptr", "ptr", "i64", "i64"], "nounwind")
    points, frame, first, last = b.arguments
    loop, more, done, failed = map(b.block, ("loop", "more", "done", "failed"))
    b.condition(b.compare("slt", first, last), loop, done)
    b.start(loop)
    index = b.phi("i64")
    code = b.call(chunk.name, "i32", points, frame, index.value)
    following = b.binary("add", index.value, constant("i64", 1))
    index.add(first, "entry")
    index.add(following, more)
    b.condition(b.compare("eq", code, constant("i32", 0)), more, failed)
    b.start(more)
    b.condition(b.compare("slt", following, last), loop, done)
    b.start(failed)
    b.ret(code)
    b.start(done)
    b.ret(constant("i32", 0))
    return b.name, (constant("i64", 0), constant("i64", chunk.blocks.count))
