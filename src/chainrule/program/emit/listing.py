"""The statements of a program, as a person would write them.

Each value that the user gave a name, or that is used more than once, gets a line; what is used once stands in the
expression that uses it, as long as that stays short. A cotangent is ``d_h`` if its primal is the variable ``h``. A
write is made in place where nothing reads the old values any more, through no other name either.

Above the lines that come from one line of the user's stands that line, as a comment.
"""

import builtins
import keyword
import linecache
import re

import numpy as np

from chainrule.engine.indexing import getitem, put
from chainrule.program.emit import primitives
from chainrule.program.emit.calls import Writer, expression, statements
from chainrule.program.emit.text import COMPARE, array, is_name, literal, subscript, within
from chainrule.program.ir import PYTHON, Equation, Guard, Program, Symbol, symbols_in
from chainrule.program.passes.liveness import aliases, lifetimes

SHORT = 44  # an expression of so many columns may stand inside another one
LINE = 76  # and the line is not longer than this for that
RESERVED = {*keyword.kwlist, *dir(builtins), "np", "scipy", "math"}


class Names:
    """Variables that differ from each other, and from all else that has a name in the module."""

    def __init__(self, taken=()):
        self.taken = {*RESERVED, *taken}
        self.of = {}  # symbol -> variable
        self.counts = {}

    def give(self, symbol, wish):
        """Give a symbol the name `wish`, or that with a number after it."""
        name = wish if wish and is_name(wish) else "x"
        k = 0
        while name in self.taken:
            k += 1
            name = f"{wish}_{k}"
        self.taken.add(name)
        self.of[symbol] = name
        return name

    def count(self, symbol, letter):
        """Give a symbol the next of the names ``t1``, ``t2``, ..."""
        while True:
            k = self.counts[letter] = self.counts.get(letter, 0) + 1
            if f"{letter}{k}" not in self.taken:
                return self.give(symbol, f"{letter}{k}")


class Listing:
    """The lines of a program's function.

    Parameters
    ----------
    program : Program
    names : Names
        With a name for each input.
    cotangents : dict
        Symbol of a cotangent -> that of its primal.
    is_backward : callable
        Tells whether an equation belongs to a backward pass.
    caller : tuple
        File and line of where the function was called: it is no line of the function, and not quoted.
    """

    def __init__(self, program: Program, names: Names, cotangents: dict, is_backward, caller: tuple = ()):
        self.caller = caller
        self.program, self.names, self.cotangents, self.is_backward = program, names, cotangents, is_backward
        self.pending: dict[Symbol, str] = {}  # symbol -> the expression that stands for it until it is used
        self.made: dict[Symbol, Equation] = {}  # symbol -> its equation
        self.addends: dict[Symbol, str] = {}  # symbol of a sum -> its second operand, as source
        self.rows: list[tuple] = []  # (place of the user's line, whether backward, statement)
        self.last = lifetimes(program)
        self.group = aliases(program)
        self.own: set[Symbol] = set()  # symbols whose array was made here, by a write
        self.uses: dict[Symbol, int] = {}
        for e in program.equations:
            for s in e.reads:
                self.uses[s] = self.uses.get(s, 0) + 1
        for s in symbols_in(list(program.outputs)):
            self.uses[s] = self.uses.get(s, 0) + 1
        self.heirs = {e.inputs[0]: e.output for e in program.equations
                      if e.__class__ is Equation and e.fun is put and e.inputs[0].__class__ is Symbol}  # fmt: skip
        self.results = set(symbols_in(list(program.outputs)))
        self.both = any(is_backward(e) for e in program.equations)
        self.arrays: dict[Symbol, str] = {}  # symbol of a captured array -> its name in the module
        self.name_arrays(program.constants)
        self.python = python_numbers(program)
        for k, e in enumerate(program.equations):
            self.guard(e) if e.__class__ is Guard else self.equation(k, e)

    def name_arrays(self, constants):
        """Name the captured arrays; one that is the transpose of another has no name of its own."""
        by_hint = sorted(constants.items(), key=lambda item: item[0].hint is None)
        for s, c in by_hint:
            text = fresh(c)
            if text is not None and self.uses.get(s) == 1:
                self.pending[s] = text
                self.own.add(s)
                continue
            turned = next((o for o in self.arrays if o.hint and is_transpose(c, constants[o])), None)
            if turned is not None and not s.hint:
                self.names.of[s] = f"{self.arrays[turned]}.T"
            else:
                self.arrays[s] = self.names.give(s, s.hint or s.name)

    # -- operands ------------------------------------------------------------------------------------------------

    def name(self, x):
        """Return what stands for a symbol: its variable, or the expression that is pending."""
        if x.__class__ is not Symbol:
            return None
        text = self.pending.get(x)
        return self.names.of[x] if text is None else text

    def settle(self, symbol):
        """Give a pending expression a line of its own."""
        e = self.made.get(symbol)
        text = self.pending.pop(symbol)
        name = self.variable(symbol, e)
        self.rows.append((e.place if e else None, e is not None and self.is_backward(e), f"{name} = {text}"))

    def variable(self, symbol, e):
        """Return a new variable for a symbol."""
        if self.names.of.get(symbol):
            return self.names.of[symbol]
        primal = self.cotangents.get(symbol)
        heir = symbol
        while heir in self.heirs and self.cotangents.get(heir) not in self.names.of:
            heir = self.heirs[heir]
        heir = self.cotangents.get(heir)
        if heir in self.names.of:
            return self.names.give(symbol, f"d_{self.names.of[heir]}")
        if symbol.hint and is_name(symbol.hint) and not (primal is not None and symbol.hint.startswith("d_")):
            return self.names.give(symbol, symbol.hint)
        written = None if e is None or self.is_backward(e) else target_of(e)
        if written:
            return self.names.give(symbol, written)
        if symbol in self.results and self.both and not any(back for _, back, _ in self.rows):
            return self.names.give(symbol, "value")
        return self.names.count(symbol, "d" if primal is not None else "t")

    def is_named(self, symbol, e):
        """Tell whether a value has a line of its own in any case."""
        primal = self.cotangents.get(symbol)
        if symbol in self.results and self.both and not any(back for _, back, _ in self.rows):
            return True
        if primal is not None:
            return primal in self.names.of and bool(primal.hint)
        return symbol in self.names.of or bool(symbol.hint and is_name(symbol.hint))

    # -- statements ------------------------------------------------------------------------------------------------

    def equation(self, k, e: Equation):
        """Write a call, or keep its expression until it is used."""
        row = lambda text: self.rows.append((e.place, self.is_backward(e), text))
        if e.output.__class__ is tuple:
            self.shorten(e)
            text = expression(e, self.name)
            targets = ["_" if s is None else self.variable(s, e) for s in e.output]
            self.use(e)
            row(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {text}")
            return
        y = e.output
        self.made[y] = e
        if e.fun in primitives.LINES:
            self.write(k, e, row)
            return
        self.shorten(e)
        text = self.unscaled(e) or expression(e, self.name, self.bare(e))
        if e.fun is np.add and len(e.inputs) == 2:
            self.addends[y] = Writer(e, self.name)(e.inputs[1])
        self.use(e)
        if self.uses.get(y, 0) == 1 and len(text) <= SHORT and not self.is_named(y, e):
            self.pending[y] = text
            return
        row(f"{self.variable(y, e)} = {text}")

    def bare(self, e):
        """Tell whether a call's float64 scalars may be Python's floats, which do the same in what follows."""
        return True if e.output in self.python else None

    def unscaled(self, e):
        """Return the other factor of a product with 1 of numbers; None of other calls."""
        if e.fun is not np.multiply or e.output not in self.python:
            return None
        others = [x for x in e.inputs if x.__class__ is Symbol or x != 1]
        return self.name(others[0]) if len(others) == 1 and others[0].__class__ is Symbol else None

    def shorten(self, e):
        """Give the longest pending operands lines of their own until the expression is short enough."""
        while True:
            inside = [s for s in e.reads if s in self.pending and s in self.made]
            if not inside or len(expression(e, self.name)) <= LINE - 8:
                return
            self.settle(max(inside, key=lambda s: len(self.pending[s])))

    def finish(self, results):
        """Write what the results still wait for: those of a line that would be too long, each its own."""
        waiting = [y for y in results if y in self.pending and y in self.made]
        while waiting and sum(len(self.name(y)) + 2 for y in results) > LINE:
            longest = max(waiting, key=lambda y: len(self.pending[y]))
            waiting.remove(longest)
            self.settle(longest)

    def use(self, e):
        """Take the pending operands of an equation off the list: they have been written."""
        for s in e.reads:
            self.pending.pop(s, None)

    def write(self, k, e, row):
        """Write zeros or a copy and a write into it; in place where the old values are not read any more."""
        self.shorten(e)
        y = e.output
        if e.fun is put:
            x, v = e.inputs
            index = e.params["index"]
            if x.__class__ is Symbol and x in self.own and self.last[x] <= k:
                if x in self.pending:
                    name = self.variable(y, e)
                    row(f"{name} = {self.pending.pop(x)}")
                else:
                    name = self.names.of[y] = self.names.of[x]
                self.flush({s for s in e.reads if s in self.pending})
                write = Writer(e, self.name)
                added = self.added(x, v, index)
                at = f"{name}[{subscript(index, write)}]"
                row(f"{at} += {added}" if added is not None else f"{at} = {write(v)}")
                self.use(e)
                self.own.add(y)
                return
        for text in statements(e, self.name, self.variable(y, e)):
            row(text)
        self.use(e)
        self.own.add(y)

    def flush(self, kept):
        """Give all pending expressions lines but these: what they read is about to change."""
        for s in [s for s in self.pending if s in self.made and s not in kept]:
            self.settle(s)

    def added(self, x, v, index):
        """Return what a write ``x[i] = x[i] + v`` adds; None if it is no such write."""
        e = self.made.get(v) if v.__class__ is Symbol and v in self.pending else None
        if e is None or e.fun is not np.add or e.params:
            return None
        a, b = e.inputs
        read = self.made.get(a) if a.__class__ is Symbol else None
        if read is None or read.fun is not getitem or read.inputs[0] is not x or self.uses.get(a) != 1:
            return None
        if primitives.repeats(index) or repr(read.params["index"]) != repr(index):
            return None
        return None if b is a else self.addends[v]

    def guard(self, e: Guard):
        """Write a test that the function goes the way it went."""
        where = (
            ""
            if e.place is None or e.place.file.startswith("<")
            else f" at {e.place.file.rpartition('/')[2]}:{e.place.line}"
        )
        text = self.name(e.symbol)
        if e.how == "bool":
            test, told = (f"not {within(text, COMPARE)}", text) if e.seen else (text, f"not {within(text, COMPARE)}")
        else:
            told = f"{text} = {literal(e.seen)}" if np.size(e.seen) <= 16 else f"a certain {text}"
            test = f"not np.array_equal({text}, {literal(e.seen)}, equal_nan=True)"
        if e.symbol.__class__ is Symbol and self.uses[e.symbol] == 1:
            self.pending.pop(e.symbol, None)
        told = told.replace("\\", "\\\\").replace('"', "'")
        self.rows.append((e.place, self.is_backward(e), f"if {test}:\n"
                          f'    raise ValueError("this was written for {told}{where}")'))  # fmt: skip

    # -- the text ------------------------------------------------------------------------------------------------

    def text(self) -> list:
        """Return the lines, with the user's as comments."""
        lines, told, backward = [], None, False
        runs: list[tuple] = []
        for place, back, text in self.rows:
            key = (place.file, place.line, back) if place is not None else (None, None, back)
            if runs and runs[-1][0] == key:
                runs[-1][1].append(text)
            else:
                runs.append((key, [text]))
        for (file, line, back), texts in runs:
            if back != backward:
                lines += ["", "# backward"] if back else [""]
                backward, told = back, None
            comment = None if (file, line) == self.caller else user_line(file, line)
            whole = "\n".join(texts)
            if comment and comment != told and squeezed(comment) != squeezed(whole):
                lines.append(f"# {comment}")
                told = comment
            lines += whole.split("\n")
        return lines


def fresh(c):
    """Return an expression for a captured array that is all one number; None for others."""
    if c.size and c.ndim and c.dtype.kind in "fciub" and (c == c.flat[0]).all() and not np.signbit(c.real).any():
        shape = str(c.shape[0]) if c.ndim == 1 else literal(c.shape)
        kind = "" if c.dtype == np.dtype(float) else f", {literal(c.dtype)}"
        first = c.flat[0].item()
        if first in (0, 1):
            return f"np.{'ones' if first else 'zeros'}({shape}{kind})"
        return f"np.full({shape}, {literal(first)}{kind})"
    return array(c) if c.size <= 4 and c.ndim == 1 and c.dtype != np.longdouble else None


ARITHMETIC = {np.add, np.subtract, np.multiply, np.negative}


def python_numbers(program):
    """Find the scalars of which nothing is asked but sums, products and NumPy's functions: they may be Python's floats.

    Where numbers are narrower than double there are none: a Python float beside them takes their dtype.
    """
    safe = {}
    for e in reversed(program.equations):
        if e.__class__ is Guard:
            safe[e.symbol] = False
            continue
        for s in e.outputs:
            if s.dtype not in PYTHON and np.dtype(s.dtype).kind in "fc" and np.dtype(s.dtype).char not in "dD":
                return set()
        plain = e.output.__class__ is Symbol and not e.params
        if plain and e.fun in ARITHMETIC:
            fine = safe.setdefault(e.output, True)
        else:
            fine = plain and isinstance(e.fun, np.ufunc) and e.fun.nin == 1 and e.fun is not np.invert
        if not fine:
            safe.update(dict.fromkeys(e.reads, False))
    return {e.output for e in program.equations
            if e.__class__ is Equation and e.fun in ARITHMETIC and e.output.__class__ is Symbol
            and e.output.shape == () and safe.get(e.output, True)}  # fmt: skip


def is_transpose(a, b):
    """Tell whether a captured matrix is the transpose of another one."""
    return a.ndim == b.ndim == 2 and a.shape == b.shape[::-1] and a.dtype == b.dtype and np.array_equal(a, b.T)


def user_line(file, line):
    """Return the text of a line of the user's; file and line, if it can't be found."""
    if file is None:
        return None
    text = linecache.getline(file, line).strip()
    if not text:
        return None if file.startswith("<") else f"{file.rpartition('/')[2]}:{line}"
    return text if len(text) <= 100 else text[:97] + "..."


def squeezed(text):
    """Return code without spaces and parentheses, to compare it."""
    return re.sub(r"[\s()]", "", text.partition("  #")[0])


def target_of(e):
    """Return the name of the array that a statement such as ``y[0] = v`` of the user's writes to; None for others."""
    if e.fun is not put or e.place is None:
        return None
    found = re.match(r"\s*([A-Za-z_]\w*)\s*\[.*\]\s*[-+*/@]?=[^=]", linecache.getline(e.place.file, e.place.line))
    return found.group(1) if found else None
