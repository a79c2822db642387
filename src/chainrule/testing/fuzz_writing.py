"""A writer of random programs: plain Python functions of NumPy arrays, as text.

A program is written statement by statement, beside a plain run of it on an example, which tells the shapes at hand and
keeps the numbers moderate: a statement that NumPy refuses, or whose values leave the range, is taken back. Functions
come from the registry by way of its samples, so that a rule is drawn as soon as it has one. All choices are made by a
`random.Random`: one with a seed for long runs, one of hypothesis's where failures are to be made small.
"""

import functools
import importlib
import itertools
import linecache
import math

import numpy as np

from chainrule import tree
from chainrule.engine.rule import RULES, full_name
from chainrule.testing.samples import all_samples, domains

SHAPES = [(3,), (3,), (4,), (2, 3), (2, 3), (3, 3), (3, 1), (1, 3), (2, 1, 3), ()]
LARGEST = 20.0  # values beyond are scaled down, or the statement is taken back
MOST = 1 << 20  # entries
FEATURES = ("branches", "writes through views", "broadcasting", "nested transforms")
serial = itertools.count()


class Written:
    """A program: its text, arguments for it, and what it is made of."""

    def __init__(self, lines, signature, args, results, features, captured):
        self.lines, self.signature, self.args, self.results = lines, signature, args, results
        self.features, self.captured = frozenset(features), captured

    @property
    def source(self):
        """The text, which runs where np, cr, special and `call` are defined as in `namespace`."""
        captured = {n: a for n, a in self.captured.items() if any(n in line for line in self.lines)}
        kept = [
            f"{n} = {text_of(a)}\n{n}.setflags(write=False)" for n, a in captured.items()
        ]  # each run finds the same
        body = [f"    {line}" for line in self.lines]
        returned = ", ".join(self.results) + ","
        return "\n".join([*kept, f"def f({', '.join(self.signature)}):", *body, f"    return {returned}", ""])

    def function(self):
        """Return the program as a function; its text is kept for tracebacks."""
        source, scope, name = self.source, namespace(), f"<program {next(serial)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), scope)
        return scope["f"]

    def without(self, k):
        """Return the program without its statement `k`, a line with all that is indented below it."""
        block = statements(self.lines)[k]
        lines = [line for i, line in enumerate(self.lines) if i not in block]
        return Written(lines, self.signature, self.args, self.results, self.features, self.captured)

    def returning(self, results):
        """Return the program with fewer results."""
        return Written(self.lines, self.signature, self.args, results, self.features, self.captured)


def text_of(a):
    """Return an array as text that makes one of the same strides: by rows, by columns, or with gaps."""
    if a.flags.c_contiguous:
        return f"np.array({a.tolist()}, np.{a.dtype})"
    if a.flags.f_contiguous:
        return f"np.array({a.T.tolist()}, np.{a.dtype}).T"
    return f"np.repeat(np.array({a.tolist()}, np.{a.dtype}), 2, axis=-1)[..., ::2]"


def statements(lines):
    """Group line numbers by statement: an unindented line that continues none begins one."""
    groups = []
    for i, line in enumerate(lines):
        if groups and (line.startswith(" ") or line.startswith(("else:", "elif "))):
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


@functools.cache
def catalogue():
    """Return what may be drawn: elementwise rules by their number of operands, and the samples by function."""
    plain, by_function = {1: [], 2: []}, {}
    for s in all_samples():
        entry = RULES.get(s.fun)
        if getattr(entry, "kind", None) == "elementwise" and not (entry.domain and None in entry.domain):
            continue
        if s.highest >= 2 and not s.error and s.accepts("float64"):
            by_function.setdefault(full_name(s.fun), []).append(s)
    for fun, entry in RULES.items():
        if entry.kind == "elementwise" and entry.nin in plain and not (entry.domain and None in entry.domain):
            plain[entry.nin].append((spelled(fun), domains(entry)))
    return plain, sorted(by_function.items())


def spelled(fun):
    """Return the name that a function has in a program, or None if it has no public one."""
    name = full_name(fun)
    for module, short in (("numpy.", "np."), ("scipy.special.", "special.")):
        if name.startswith(module) and found(short + name[len(module) :]) is fun:
            return short + name[len(module) :]
    return f"rule({name!r})"


def found(text):
    """Return what a name stands for in a program, or None."""
    try:
        return eval(text, namespace())
    except (AttributeError, SyntaxError):
        return None


@functools.cache
def functions():
    """Return every function of the registry by its full name."""
    catalogue()
    return {full_name(fun): fun for fun in RULES}


def rule(name):
    """Return the function of the registry with this full name."""
    return functions()[name]


@functools.cache
def labelled():
    """Return the samples by their text."""
    return {str(s): s for _, group in catalogue()[1] for s in group}


def call(label, *operands):
    """Call the function of the sample with this label on operands."""
    return labelled()[label].function()(*operands)


@functools.cache
def base_namespace():
    """Return the names that a program may use."""
    public = importlib.import_module("chainrule")  # a program is a user's code
    scope = {"np": np, "cr": public, "call": call, "rule": rule, "__name__": "fuzzed"}  # loops of modules are rolled
    try:
        from scipy import special

        scope["special"] = special
    except ImportError:
        pass
    return scope


def namespace():
    """Return a fresh scope for a program to run in."""
    return dict(base_namespace())


def is_float(x):
    """Tell whether a value of a program can be an operand: a float or an array of floats."""
    return isinstance(x, float) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f")


def moderate(x):
    """Tell whether all entries are finite and of moderate size."""
    return not np.size(x) or (np.size(x) <= MOST and bool(np.all(np.abs(x) <= LARGEST)))


class Writer:
    """Writes one program. `random` makes all choices."""

    shapes = SHAPES

    def __init__(self, random, single=False):
        self.random, self.single = random, single
        self.lines, self.features, self.names, self.captured = [], set(), itertools.count(1), {}
        self.signature, self.args, head = self.arguments()
        self.restart()
        for line in head:
            self.lines.append(line)
        self.restart()

    # -- the example that runs beside ---------------------------------------------------------------------------

    def arguments(self):
        """Draw the arguments: arrays, a number, a container."""
        kinds = ["array"] + self.some(["array", "number", "dict", "tuple", "0-d"], self.random.randrange(3))
        signature, args, head = [], [], []
        for k, kind in enumerate(kinds):
            name = "xyz"[k]
            signature.append(name)
            if kind == "dict":
                args.append({"w": self.numbers(self.pick(self.shapes)), "b": self.numbers((3,))})
                head += [f'w{k}, b{k} = {name}["w"], {name}["b"]']
            elif kind == "tuple":
                args.append((self.numbers(self.pick(self.shapes)), self.number()))
                head += [f"a{k}, s{k} = {name}"]
            elif kind == "number":
                args.append(self.number())
            elif kind == "0-d":
                args.append(np.array(self.number(), self.dtype))
            else:
                shape = self.pick(self.shapes[:-1] if k == 0 else self.shapes)
                args.append(self.numbers((0, 3) if k and self.chance(0.1) else shape))
        if self.chance(0.3):
            self.captured["C"] = np.array([self.number() for _ in range(3)])
            self.captured["C"].setflags(write=False)
        return signature, args, head

    @property
    def dtype(self):
        """The dtype of the arguments."""
        return np.float32 if self.single else np.float64

    def number(self):
        """Draw a number that is not near zero."""
        return round(self.random.uniform(0.2, 2.0), 3) * self.pick([1, 1, -1])

    def numbers(self, shape):
        """Draw an array."""
        return np.array([self.number() for _ in range(math.prod(shape))], self.dtype).reshape(shape)

    def restart(self):
        """Run what is written so far, from the arguments."""
        self.scope = {**namespace(), **self.captured}
        self.scope.update(zip(self.signature, [copied(a) for a in self.args], strict=True))
        self.execute(self.lines)

    def execute(self, lines):
        """Run lines in the scope of the example."""
        with np.errstate(all="ignore"):
            exec(compile("\n".join(lines), "<program>", "exec"), self.scope)

    def value(self, text):
        """Return the value of an expression on the example."""
        with np.errstate(all="ignore"):
            return eval(text, self.scope)

    def add(self, lines, *features):
        """Append a statement if it runs and its values are moderate; tell whether it was."""
        try:
            self.execute(lines)
            ok = all(moderate(v) for n, v in self.variables().items())
        except Exception:
            ok = False
        if ok:
            self.lines += lines
            self.features.update(features)
        else:
            self.restart()
        return ok

    def variables(self):
        """Return the names that stand for floats, with their values."""
        return {n: v for n, v in self.scope.items() if is_float(v) and not n.startswith("__")}

    # -- choices --------------------------------------------------------------------------------------------------

    def pick(self, options):
        """Return one of several."""
        return options[self.random.randrange(len(options))]

    def some(self, options, count):
        """Return several of a list, in any order, perhaps one twice."""
        return [self.pick(options) for _ in range(count)]

    def chance(self, p):
        """Return True with probability `p`."""
        return self.random.random() < p

    def fresh(self):
        """Return a name that was not used."""
        return f"v{next(self.names)}"

    def constant(self):
        """Return a number as text."""
        return self.pick(["0.5", "1.5", "2", "0.3", "1.0", "0.7", "3"])

    def name(self, test=lambda v: True):
        """Return the name of a value that passes a test, recent ones more often; None if there is none."""
        names = [n for n, v in self.variables().items() if test(v)]
        if not names:
            return None
        return self.pick(names[-4:]) if self.chance(0.5) else self.pick(names)

    def wide(self):
        """Return the name of an array that has entries and axes."""
        return self.name(lambda v: np.ndim(v) and np.size(v))


def copied(x):
    """Return arguments with fresh arrays."""
    return tree.tree_map(lambda v: v.copy() if isinstance(v, np.ndarray) else v, x)
