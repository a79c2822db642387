"""From a program to Python source.

The source has two functions. ``buffers()`` makes the memory that runs write to, and the views of it; ``run(points)``
takes one such set from the pool, or makes one if all are in use by other threads or callers up the stack. In `run` each
equation is a line or two. Values are named as in the program; those in a set are called ``b1``, ``b2``, ... (memory),
``w1``, ... (views of it) and ``h1``, ... (a number, as an array without axes).
"""

import itertools
from collections import defaultdict

import numpy as np

from chainrule.program.backend import arrays, blocks, numbers
from chainrule.program.backend.arrays import Words, kind_of
from chainrule.program.backend.expand import expanded, unspread
from chainrule.program.backend.numbers import FLOAT, is_float, is_truth, reads_of
from chainrule.program.backend.rounds import Rounds, inner_equations
from chainrule.program.backend.storage import FOREVER, Lives
from chainrule.program.backend.unroll import unrolled
from chainrule.program.emit import statements
from chainrule.program.emit.text import literal, subscript
from chainrule.program.ir import PYTHON, GuardFailed, Program, Symbol, replaced, symbols_in

COMPLEX = np.dtype(complex)
SMALL = 4096  # outputs of up to so many entries may be written in memory of the set, and copied


class Writer:
    """Writes one program. `space` is the namespace that the source runs in."""

    def __init__(self, program: Program, poison: bool = False) -> None:
        self.program, self.poison = program, poison = unrolled(program), poison
        self.space = {"np": np, "f64": np.float64, "bool_": np.bool_, "GuardFailed": GuardFailed}
        self.space |= numbers.SPACE | arrays.SPACE
        self.words = Words(self.operand, self.bind)
        self.new_symbols = itertools.count(1)
        plain = unspread(program.equations, program.outputs, blocks.LARGE)
        self.expanded = expanded(plain, self.new_symbols)
        self.bodies = {}  # block of a loop -> its equations, expanded
        self.equations = blocks.arranged(program, self.expanded)
        self.kinds = [getattr(e, "kind", None) or kind_of(e) for e in self.equations]  # clusters and kernels have one
        self.lives = Lives(program, self.equations, self.kinds)
        self.lines, self.setup = [], []  # of `run`, of `buffers`
        self.calls = []  # lines that the emitter wrote: they may need functions of their own
        self.names = {}  # symbol -> its source
        self.carried = {}  # symbol -> float or bool: a number that is Python's
        self.forms = {}  # symbol -> "array" if eager code has an array without axes
        self.memory = {}  # name of memory -> the array of the first set
        self.free = defaultdict(list)  # (shape, dtype) -> names of memory not in use
        self.slots = {}  # root -> name of its memory
        self.views = {}  # expression of a view -> its name
        self.holders = {}  # number -> its array without axes
        self.inplace = set()  # puts that write into their operand
        self.plain = False  # whether all that is written is made anew: inside of loops
        self.rounds = Rounds(self)
        self.numbers_of_loops = itertools.count(1)
        self.plan_numbers()

    # -- names -------------------------------------------------------------------------------------------------

    def bind(self, name: str, value) -> str:
        """Give a constant a name; the same name for the same."""
        have = self.space.get(name)
        if have is None:
            self.space[name] = value
            return name
        if have is value or (isinstance(value, np.ndarray) and have.dtype == value.dtype
                             and have.tobytes() == value.tobytes() and have.shape == value.shape):  # fmt: skip
            return name
        return self.bind(f"{name}_", value)

    def constant(self, value) -> str:
        """Return a new name for a constant."""
        name = next(n for n in map("k{}".format, itertools.count(len(self.space))) if n not in self.space)
        self.space[name] = value
        return name

    def body(self, block) -> list:
        """Return the equations of a block of a loop."""
        if block not in self.bodies:
            self.bodies[block] = expanded(block.equations, self.new_symbols)
        return self.bodies[block]

    def plan_numbers(self):
        """Find the numbers that are carried as Python's: what equations on numbers make and read."""
        self.wanted, self.held = set(), set()
        known = dict(zip(self.equations, self.kinds, strict=True))
        for e in inner_equations(self.expanded, self.body):
            kind = known.get(e) or kind_of(e)
            if kind == "number":
                self.wanted.update([x for x in (*e.inputs, e.output) if x.__class__ is Symbol])
            elif kind == "elementwise" and doubles(e):
                self.held.update([x for x in e.inputs if x.__class__ is Symbol and x.shape == () and is_float(x)])

    def general(self, x: Symbol) -> str:
        """Return a value for NumPy at large: of a carried number NumPy's scalar."""
        if x.__class__ is not Symbol:
            return self.constant(x) if isinstance(x, np.ndarray) else None
        text = self.names[x]
        if x in self.carried and x.dtype not in PYTHON:
            return f"{'f64' if self.carried[x] is float else 'bool_'}({text})"
        return text

    def operand(self, e, x) -> str:
        """Return an operand of a call on arrays."""
        if x.__class__ is Symbol:
            if x.shape == () and x in self.holders and e is not None and doubles(e):
                return self.holders[x]
            if self.plain and x in self.carried and e is not None and doubles(e):
                return self.names[x]
            return self.general(x)
        kind = x.__class__
        if kind in (float, int, np.float64) and e is not None:
            dtype = common_dtype(e)
            if dtype is not None and (kind is not np.float64 or dtype.char in "dD"):
                with np.errstate(all="ignore"):
                    return self.words.number(x, dtype)
        if kind in (float, int, bool, complex):
            return literal(x)
        return self.constant(x)

    # -- memory ------------------------------------------------------------------------------------------------

    def take_memory(self, root, shape, dtype) -> str:
        """Return memory for a root."""
        stock = self.free[shape, dtype]
        if stock:
            name = stock.pop()
        else:
            name = f"b{len(self.memory) + 1}" if shape else f"h{len(self.memory) + 1}"
            self.memory[name] = np.empty(shape, dtype)
            kind = "" if dtype == FLOAT else f", {literal(np.dtype(dtype))}"
            self.setup.append(f"{name} = empty({literal(shape)}{kind})")
        self.slots[root] = name
        return name

    def release(self, i: int) -> list:
        """Give back the memory that equation `i` is the last to read; return its names."""
        names = []
        for root in self.ends.pop(i, ()):
            if self.lives.last[root] <= i and root in self.slots:
                name = self.slots.pop(root)
                self.free[self.memory[name].shape, self.memory[name].dtype].append(name)
                names.append(name)
        return names

    def view(self, e) -> None:
        """Write a view: of memory of the set in `buffers`, otherwise in `run`."""
        x, s = e.inputs[0], e.output
        text = self.words.view(e)
        if text is None:
            self.write_call(None, e)
            return
        base = self.names[x]
        known = self.views.get(text)
        if known is None and (base in self.memory or base in self.space):
            whole = self.memory[base] if base in self.memory else self.space[base]
            seen = eval(text, {base: whole, "np": np})
            if np.may_share_memory(seen, whole) or not seen.size:
                known = self.views[text] = f"w{len(self.views) + 1}"
                if base in self.memory:
                    self.memory[known] = seen
                    self.setup.append(f"{known} = {text}")
                else:
                    self.space[known] = seen
        if known is None:
            self.lines.append(f"{s.name} = {text}")
            known = s.name
        self.names[s] = known

    def fresh(self, root) -> bool:
        """Tell whether a root is made anew in each run: an output is handed out without a copy."""
        if self.plain:
            return True
        ys = self.lives.outputs.get(root)
        if not ys or len(ys) > 1 or self.lives.roots[ys[0]] != {root} or ys[0].size != root.size:
            return False
        return root.size > SMALL or self.writes[root] < 2

    # -- equations ---------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write all lines."""
        lives = self.lives
        self.writes = defaultdict(int)
        for e, kind in zip(self.equations, self.kinds, strict=True):
            if kind in ("view", "put"):
                for r in lives.roots[e.inputs[0]]:
                    self.writes[r] += 1
        self.head()
        for i, (e, kind) in enumerate(zip(self.equations, self.kinds, strict=True)):
            if kind == "put":
                self.plan_put(i, e)
        self.ends = defaultdict(list)
        for r, i in lives.last.items():
            if i is not FOREVER:
                self.ends[i].append(r)
        for i, (e, kind) in enumerate(zip(self.equations, self.kinds, strict=True)):
            start = len(self.lines)
            freed = getattr(self, f"write_{kind}")(i, e) or []
            freed += self.release(i)
            if self.poison:
                self.lines += [f"{n}.fill({'nan' if self.memory[n].dtype.kind in 'fc' else 1})" for n in freed
                               if n not in self.slots.values()]  # fmt: skip
            self.remark(start, e)
        self.results()

    def remark(self, start, e) -> None:
        """Put the user's name and line behind the first line of an equation."""
        if len(self.lines) > start:
            made = ", ".join([f"{s} {s.hint}" if s.hint else str(s) for s in e.outputs if s is not None])
            where = f"  {e.place}" if e.place and e.place != getattr(self, "place", None) else ""
            self.place = e.place
            self.lines[start] += f"  # {made}{where}"

    def head(self) -> None:
        """Name the inputs and the captured arrays."""
        for s in self.program.inputs:
            self.names[s] = s.name
            self.number_made(s)
        for s, value in self.program.constants.items():
            self.names[s] = s.name
            kind = self.carries(s)
            self.space[s.name] = value if kind is None else kind(value)
            if kind is not None:
                self.carried[s] = kind
            self.hold(s)

    def number_made(self, s, text=None) -> None:
        """Write a number that NumPy made, as Python's if it is read as such, and as an array if it is read as that."""
        kind = self.carries(s)
        if kind is not None:
            self.carried[s] = kind
            if s.dtype not in PYTHON:
                text = text or s.name
                text = text[4:-1] if text.startswith("f64(") else f"{kind.__name__}({text})"
        if text is not None:
            self.lines.append(f"{s.name} = {text}")
        self.hold(s)

    def carries(self, s):
        """Return the type of Python's numbers that a symbol is carried as; None if it is what NumPy makes of it."""
        return None if s not in self.wanted else float if is_float(s) else bool if is_truth(s) else None

    def counter(self) -> int:
        """Return the number of the next loop."""
        return next(self.numbers_of_loops)

    def write_loop(self, i, e):
        """Write a loop."""
        self.rounds.loop(e)

    def write_cluster(self, i, e):
        """Write calls that are run in blocks."""
        return blocks.write(self, e)

    def write_pop(self, i, e):
        """Write what takes a round off a stack."""
        self.rounds.pop(e)

    def hold(self, s) -> None:
        """Put a number into an array without axes, for ufuncs to read."""
        if not self.plain and s in self.held and self.lives.reads[s]:
            root = ("holder", s)
            self.holders[s] = self.take_memory(root, (), FLOAT)
            last = max(self.lives.reads[s])
            self.lives.last[root] = last
            self.ends_later(last, root)
            self.lines.append(f"{self.holders[s]}[()] = {s.name}")

    def ends_later(self, i, root):
        """Note when a root ends, before or after `ends` is there."""
        if hasattr(self, "ends"):
            self.ends[i].append(root)

    def write_guard(self, i, e):
        """Write a guard as a condition."""
        text, guard = self.names[e.symbol], self.constant(e)
        if e.how == "bool":
            self.lines.append(f"if {'not ' if e.seen else ''}{text}: raise GuardFailed({guard})")
        else:
            self.lines.append(f"if not {guard}.holds({self.general(e.symbol)}): raise GuardFailed({guard})")

    def write_number(self, i, e):
        """Write an expression of Python's numbers."""
        s = e.output
        text, form = numbers.expression(e)
        xs = [self.names[x] if x.__class__ is Symbol else numbers.literal(x) for x in e.inputs]
        self.lines.append(f"{s.name} = {text.format(*xs)}")
        self.names[s], self.forms[s] = s.name, form
        self.carried[s] = float if is_float(s) else bool
        self.hold(s)

    def write_same(self, i, e):
        """Let a value have the name of its operand."""
        self.names[e.output] = self.names[e.inputs[0]]

    def write_view(self, i, e):
        """Write a view."""
        self.view(e)

    def write_take(self, i, e):
        """Write a number out of an array."""
        self.names[e.output] = e.output.name
        self.number_made(e.output, self.words.take(e))

    def write_call(self, i, e):
        """Write any call as the emitter does, or as a call of the rule."""
        made = e.output if isinstance(e.output, tuple) else (e.output,)
        target = ", ".join(["_" if s is None else s.name for s in made])
        if isinstance(e.output, tuple) and len(made) == 1:
            target += ","
        try:
            lines = self.words.by_positions(e, target) or statements(e, self.general, target)
            if (
                e.fun in arrays.SUMS and e.fun is not np.mean and e.params.get("axis") is not None
            ):  # not by way of NumPy's wrapper
                name = e.fun.__name__
                lines = [line.replace(f"np.{name}(", f"{arrays.SUMS[e.fun]}_reduce(", 1) for line in lines]
        except NotImplementedError:
            rule, params = self.constant(e.rule), e.params
            if any(True for _ in symbols_in(params)):
                inner = ", ".join([f"{k!r}: {self.nested(v)}" for k, v in params.items()])
                text = f"{{{inner}}}"
            else:
                text = self.constant(replaced(params, {}))
            lines = [f"{target} = {rule}.apply({self.nested(tuple(e.inputs))}, {text})"]
        self.calls += lines
        self.lines += lines
        for s in made:
            if s is not None:
                self.names[s] = s.name
                if s.dtype is complex or s.dtype is int:  # of Python's operators, that are weak
                    self.lines.append(f"{s.name} = {s.dtype.__name__}({s.name})")
                self.number_made(s, s.name if s in self.wanted else None)

    def nested(self, x) -> str:
        """Return operands in nested containers as source."""
        if x.__class__ is Symbol:
            return self.general(x)
        if x.__class__ is tuple or x.__class__ is list:
            inner = ", ".join(map(self.nested, x))
            return f"[{inner}]" if x.__class__ is list else f"({inner}{',' * (len(x) == 1)})"
        return self.constant(x)

    def write_elementwise(self, i, e):
        """Write a ufunc: into an operand's memory if that is free now."""
        return self.write_out(i, e, self.release)

    def write_out(self, i, e, release=None):
        """Write a call that is given the memory for its result."""
        s = e.output
        freed = release(i) if release else []
        if self.fresh(s):
            if self.words.needs_memory(e):
                self.lines.append(f"{s.name} = empty({literal(s.shape)}, {literal(s.dtype)})")
                lines = self.words.out(e, s.name)
            else:
                lines = f"{s.name} = {self.words.out(e, None)}"
            self.names[s] = s.name
        else:
            operands = [self.names[x] for x in e.inputs if x.__class__ is Symbol] if release else []
            stock = self.free[s.shape, s.dtype]
            for name in operands:  # the memory of an operand is in the cache
                if name in stock:
                    stock.remove(name)
                    stock.append(name)
                    break
            target = self.take_memory(s, s.shape, s.dtype)
            lines = self.words.out(e, target)
            self.names[s] = target
        self.lines += lines if lines.__class__ is list else [lines]
        return freed

    def place_of(self, e) -> str:
        """Return the subscript of a write."""
        return subscript(e.params["index"], literal)

    def make_zeros(self, s) -> None:
        """Write zeros for the result of a scatter."""
        if self.fresh(s):
            kind = "" if s.dtype == FLOAT else f", {literal(s.dtype)}"
            self.lines.append(f"{s.name} = zeros({literal(s.shape)}{kind})")
            self.names[s] = s.name
        else:
            self.names[s] = self.take_memory(s, s.shape, s.dtype)
            self.lines.append(f"{self.names[s]}.fill(0)")

    def write_scatter(self, i, e):
        """Write zeros, and a value into them."""
        self.make_zeros(e.output)
        v = e.inputs[0]
        self.lines.append(f"{self.names[e.output]}[{self.place_of(e)}] = {self.operand(None, v)}")

    def write_put(self, i, e):
        """Write a value into the operand, or into a copy."""
        x, v, s = e.inputs[0], e.inputs[1], e.output
        if i in self.inplace:
            self.names[s] = self.names[x]
        elif self.fresh(s):
            self.lines.append(f"{s.name} = {self.names[x]}.copy()")
            self.names[s] = s.name
        else:
            self.names[s] = self.take_memory(s, s.shape, s.dtype)
            self.lines.append(f"{self.names[s]}[...] = {self.names[x]}")
        self.lines.append(f"{self.names[s]}[{self.place_of(e)}] = {self.operand(None, v)}")

    def plan_put(self, i, e) -> None:
        """Find out whether a put may write into its operand."""
        x, lives = e.inputs[0], self.lives
        root = lives.whole.get(x)
        if root is None or root in lives.outside or lives.last[root] > i:
            return
        if self.kinds[lives.made[root]] not in ("elementwise", "out", "scatter", "put"):
            return
        lives.join(e.output, x)
        self.writes[root] += self.writes.pop(e.output, 0)
        self.inplace.add(i)

    # -- results -----------------------------------------------------------------------------------------------

    def results(self) -> None:
        """Write the list of outputs: fresh arrays, numbers of the type that eager code has."""
        made, seen = [], set()
        for y in self.program.outputs:
            made.append(self.result(y, seen))
        self.lines.append(f"return [{', '.join(made)}]")

    def result(self, y, seen) -> str:
        """Return an output as source."""
        if y.__class__ is not Symbol:
            text = self.constant(y)
            return f"{text}.copy()" if isinstance(y, np.ndarray) else text
        if y in self.program.inputs:
            text = f"points[{self.program.inputs.index(y)}]"
            return text if y.dtype in PYTHON else f"{text}.copy()"
        text = self.names[y]
        if y in self.carried and y.dtype not in PYTHON:
            if self.forms.get(y) == "array":
                return f"array({text})"
            return f"{'f64' if self.carried[y] is float else 'bool_'}({text})"
        if y.dtype in PYTHON or y.dtype is None:
            return text
        roots = self.lives.roots[y]
        alone = len(roots) == 1 and all(self.lives.outputs[r] == [y] and r not in self.slots for r in roots)
        root = next(iter(roots))
        alone = alone and root not in self.lives.outside and root.size == y.size and y not in seen
        seen.add(y)
        return text if alone else f"{text}.copy()"


def doubles(e) -> bool:
    """Tell whether a call on arrays computes in float64 or complex128 whatever numbers stand beside these."""
    return all(x.dtype is FLOAT or x.dtype in (FLOAT, float, int, COMPLEX) for x in reads_of(e))


def common_dtype(e):
    """Return the dtype that numbers take beside the arrays of a call, if these are inexact and of one dtype."""
    if numbers.function_of(e) not in arrays.ARITHMETIC:
        return None
    found = {x.dtype for x in reads_of(e) if x.shape != () and x.dtype not in PYTHON}
    if len(found) != 1:
        return None
    dtype = next(iter(found))
    return dtype if dtype.kind in "fc" and dtype.char in "dfDF" else None
