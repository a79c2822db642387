"""The statements of random programs: assignments, branches, loops, writes, writes through views, nested transforms."""

import warnings

import numpy as np

from chainrule import tree
from chainrule.testing.fuzz_compare import REFUSALS
from chainrule.testing.fuzz_expressions import Expressions, broadcast
from chainrule.testing.fuzz_writing import Written, copied, is_float
from chainrule.transforms import jvp, vjp

VIEWS = """
{b}[0]
{b}[1:]
{b}[:-1]
{b}[::-1]
{b}[..., 0]
{b}[..., 1:]
{b}.T
{b}.reshape(-1)
{b}[None]
{b}[:, :2]
np.swapaxes({b}, 0, -1)
{b}.T[0]
np.ravel({b})[1:]
{b}[::-1][1:]
{b}[...]
{b}[::2]
""".strip().split("\n")
PLACES = [
    "[0]",
    "[-1]",
    "[1:]",
    "[:2]",
    "[...]",
    "[::-1]",
    "[..., 0]",
    "[[0, -1]]",
    "[[0, 0]]",
    "[{v} > {c}]",
    "[np.argmax({v}.sum())]",
]
NESTED = """
cr.grad(lambda t: np.sum({e}))({o})
cr.grad(lambda t: np.sum(np.sin({e}) ** 2))({o})
cr.jvp(lambda t: {e}, ({o},), (np.cos({o}),))[1]
cr.vjp(lambda t: np.sin({e}), {o})[1](np.cos({e_at}))
cr.value_and_grad(lambda t: np.sum({e}))({o})[1]
cr.hvp(lambda t: np.sum(np.sin({e})), {o}, np.cos({o}))
cr.jacobian(lambda t: np.sin({e}))({o}).sum(axis=0)
cr.vmap(lambda t: np.sin({e}))({rows})
cr.vmap(cr.grad(lambda t: np.sum({e})))({rows})
cr.checkpoint(lambda t: {closed})({o})
cr.linearize(lambda t: {e}, {o})[1](np.sin({o}))
cr.grad(cr.checkpoint(lambda t: np.sum({closed})))({o})
cr.elementwise_grad(lambda t: np.sin(t) * {c})({o})
cr.hessian(lambda t: np.sum(np.sin({e})))({o}[:2]).sum(axis=0)
""".strip().split("\n")

KINDS = ["assign"] * 5 + ["broadcast", "branch", "for", "while", "write", "write", "view", "nested"]


class Statements(Expressions):
    """Writes statements: each method appends one, or none if its draw does not run."""

    kinds = KINDS
    singles = 0.08  # the share of programs in single precision

    def statement(self, kind):
        """Append a statement of a kind; tell whether one was."""
        try:
            with np.errstate(all="ignore"):
                done = getattr(self, f"{kind}_statement")()
        except Exception:  # what was drawn makes no program: NumPy refuses it
            done = False
        if not done:
            self.restart()
        return done

    def assign_statement(self):
        """Append an assignment to a new name."""
        text = self.scaled(self.expression(self.pick([1, 2, 2, 3])))
        if text is None:
            return False
        return self.add([f"{self.fresh()} = {text}"], *self.marks(text))

    def broadcast_statement(self):
        """Append an operation of two arrays whose shapes differ and broadcast."""
        name = self.wide()
        shape = np.shape(self.scope[name])
        other = self.name(
            lambda v: np.ndim(v) and np.size(v) and np.shape(v) != shape and broadcast(np.shape(v), shape)
        )
        if other is None:
            n = shape[-1]
            other = self.pick(
                [
                    f"{name}[..., :1]",
                    f"np.sum({name}, axis=-1, keepdims=True)",
                    f"np.resize({name}, ({n},))",
                    f"{name}[:1]",
                ]
            )
            if np.shape(self.value(other)) == shape:
                other = f"{name}[None, ..., :1]" if n > 1 else f"np.resize({name}, (4, {n}))"
        pair = [name, other] if self.chance(0.5) else [other, name]
        fun = self.pick(
            [
                "{0} * {1}",
                "{0} + {1}",
                "{0} - {1}",
                "np.arctan2({0}, 2 + {1} ** 2)",
                "np.maximum({0}, {1})",
                "{0} / (1 + {1} ** 2)",
                "np.where({0} > {1}, {0}, {1} * {0})",
                "np.hypot({0}, 1 + np.abs({1}))",
                "np.logaddexp({0}, {1})",
            ]
        )
        text = self.scaled(fun.format(*pair))
        return text is not None and self.add([f"{self.fresh()} = {text}"], "broadcasting")

    def marks(self, text):
        """Return the features of an expression that its statement does not tell."""
        return ("nested transforms",) if "cr.grad" in text else ()

    # -- control flow --------------------------------------------------------------------------------------------

    def condition(self):
        """Draw a condition on values: both of its outcomes occur at points nearby."""
        v = self.wide()
        text = self.pick([f"np.sum({v})", f"np.max({v})", f"np.mean({v})", f"{v}.reshape(-1)[0]", f"np.sum({v} * {v})"])
        number = self.name(lambda x: not np.ndim(x))
        if number and self.chance(0.3):
            text = number
        level = float(self.value(text)) + self.pick([-0.4, -0.15, 0.15, 0.4])
        form = self.pick(
            [
                "{0} > {1:.3f}",
                "{0} < {1:.3f}",
                "not {0} > {1:.3f}",
                "{0} > {1:.3f} and np.all(np.abs({2}) < 50)",
                "np.any({2} > {1:.3f})",
            ]
        )
        return form.format(text, level, v)

    def branch_statement(self):
        """Append an `if` with two branches: both run on the example, or the statement is left out."""
        condition, target = self.condition(), self.wide()
        shape = np.shape(self.scope[target])
        name = self.fresh()
        ways = []
        for _ in range(2):
            text = self.scaled(self.fitted(self.expression(2), shape))
            if text is None:
                return False
            ways.append([f"    {name} = {text}"])
            if self.chance(0.3):
                ways[-1].append(f"    {name} = {name} + np.sin({target}) * {self.constant()}")
        if self.chance(0.15):
            flipped = [f"{name} = {ways[0][0].split(' = ', 1)[1]} if {condition} else {ways[1][0].split(' = ', 1)[1]}"]
            return self.add(flipped, "branches")
        for way in ways:  # the other branch must run, too
            self.execute([line[4:] for line in way])
            if not np.all(np.isfinite(self.scope[name])) or not is_float(self.scope[name]):
                return False
        return self.add([f"if {condition}:", *ways[0], "else:", *ways[1]], "branches")

    def for_statement(self):
        """Append a loop over numbers, or over the parts of an array."""
        name, v = self.fresh(), self.wide()
        n = self.random.randrange(1, 4)
        kind = self.pick(["update", "sum", "fill", "rows", "branch"])
        if kind == "update":
            lines = [
                f"{name} = {v} * 1.0",
                f"for k in range({n}):",
                f"    {name} = {name} * 0.5 + np.sin({name} * (k + 1))",
            ]
        elif kind == "sum":
            part = self.scaled(self.expression(1)) or v
            lines = [f"{name} = 0.0", f"for k in range({n}):", f"    {name} += np.sum({part}) * 0.{n} ** k"]
        elif kind == "fill":
            lines = [
                f"{name} = {self.buffer((n + 1,), v)}",
                f"{name}[0] = np.mean({v})",
                f"for k in range({n}):",
                f"    {name}[k + 1] = np.sin({name}[k]) + 0.3 * {v}.reshape(-1)[k % {np.size(self.scope[v])}]",
            ]
        elif kind == "rows":
            lines = [
                f"{name} = 1.0",
                f"for row in {v}:",
                f"    {name} = {name} * np.cos(np.sum(row)) + {self.constant()}",
            ]
        else:
            level = float(np.mean(self.scope[v]))
            lines = [
                f"{name} = 0.0",
                f"for e in {v}.reshape(-1):",
                f"    if e > {level:.3f}:",
                f"        {name} += e * e",
                "    else:",
                f"        {name} -= np.sin(e)",
            ]
        return self.add(lines, *(["branches"] if kind == "branch" else []))

    def while_statement(self):
        """Append a loop whose number of turns depends on values."""
        name, size, v = self.fresh(), self.fresh(), self.wide()
        lines = [
            f"{name}, {size} = {v} * 1.0, np.sum({v} ** 2) + 1.0",
            f"while {size} > {self.pick(['0.6', '1.0', '2.0'])} and {size} < 1e6:",
            f"    {size} = 0.4 * {size}",
            f"    {name} = np.sin({name}) + 0.2 * {size}",
        ]
        return self.add(lines, "branches")

    # -- writes --------------------------------------------------------------------------------------------------

    def buffer(self, shape, like):
        """Draw an array to write to."""
        dtype = ", np.float32" if self.single else ""
        return self.pick(
            [
                f"np.zeros({shape}{dtype}, like={like})",
                f"np.zeros_like({like}, shape={shape})",
                f"np.ones({shape}{dtype}, like={like})",
                f"np.full({shape}, {self.constant()}{dtype}, like={like})",
            ]
        )

    def own(self):
        """Return the name of an array to write to: a new one, an older one, rarely an argument."""
        if self.chance(0.35):
            old = self.name(lambda v: isinstance(v, np.ndarray) and v.ndim and v.size and v.flags.writeable)
            if old and (old not in self.captured):
                return old
        v, name = self.wide(), self.fresh()
        shape = np.shape(self.scope[v])
        made = self.pick([f"{v}.copy()", f"{v} * {self.constant()}", f"np.sin({v})", self.buffer(shape, v)])
        return name if self.add([f"{name} = {made}"]) else None

    def write_lines(self, name):
        """Draw a statement that writes to the array `name`."""
        v = self.scope[name]
        kind = self.pick(["place", "place", "in place", "out", "entry"])
        if kind == "entry":
            where = ", ".join(str(self.random.randrange(-n, n)) for n in v.shape)
            return f"{name}[{where}] {self.pick(['=', '+=', '*='])} {self.fitted(self.expression(1), ())}"
        if kind == "place":
            where = self.pick(PLACES).format(v=name, c=self.constant())
            part = self.value(f"{name}{where}")
            return f"{name}{where} {self.pick(['=', '=', '+=', '*='])} {self.stretchable(np.shape(part))}"
        value = self.stretchable(v.shape)
        if kind == "out":
            return f"np.{self.pick(['add', 'multiply', 'maximum'])}({name}, {value}, out={name})"
        return f"{name} {self.pick(['+=', '*=', '-='])} {value}"

    def stretchable(self, shape):
        """Draw an expression that broadcasts to a shape."""
        if self.chance(0.15):
            return self.constant()
        smaller = shape[1:] if shape and self.chance(0.25) else shape
        return self.scaled(self.fitted(self.expression(1), smaller)) or self.constant()

    def write_statement(self):
        """Append a write to an array."""
        name = self.own()
        return name is not None and self.add([self.write_lines(name)])

    def view_statement(self):
        """Append a view of an array, perhaps one of that, and a write to it; sometimes a write to the base as well."""
        base = self.own()
        if base is None:
            return False
        lines, name = [], base
        for _ in range(self.pick([1, 1, 2])):
            view = self.fresh()
            text = self.pick(VIEWS).format(b=name)
            y = self.value(text)
            if not np.size(y) or not np.ndim(y) or not np.shares_memory(y, self.scope[base]):
                return False
            self.scope[view] = y
            lines.append(f"{view} = {text}")
            name = view
        lines.append(self.write_lines(name))
        if self.chance(0.4):
            lines.append(f"{self.fresh()} = np.sum(np.sin({base}))")
        if self.chance(0.3):
            lines.append(f"{base} *= {self.constant()}")
        self.restart()
        return self.add(lines, "writes through views")

    # -- nested transforms ---------------------------------------------------------------------------------------

    def nested_statement(self):
        """Append a transform of a function that closes over what is at hand."""
        operand = self.name(lambda v: 0 < np.size(v) <= 12 and not (np.ndim(v) and np.shape(v)[0] == 0))
        form = self.pick(NESTED)
        outer = dict(self.scope)
        if "{rows}" in form:
            operand = self.wide()
            self.scope["t"] = np.asarray(self.scope[operand])[0]
        else:
            self.scope["t"] = self.scope[operand]
        texts = {"o": operand, "rows": operand, "c": self.constant(), "e": self.inner()}
        texts["e_at"] = f"(lambda t: {texts['e']})({operand})"
        kept = self.scope
        self.scope = {n: v for n, v in kept.items() if n == "t" or not is_float(v)}
        texts["closed"] = self.inner()
        self.scope = outer
        text = self.scaled(form.format(**texts))
        return text is not None and self.add([f"{self.fresh()} = {text}"], "nested transforms")

    def inner(self):
        """Draw the body of an inner function of `t`."""
        text = self.scaled(self.expression(2)) or "t"
        if "t" not in text.replace("np.", "").split("(")[-1]:
            text = f"np.sum({text}) * t"
        return text


def written(random, longest=7, writer=Statements):
    """Return a random program, as a `Written`, that needs nothing which is refused by design."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of what is drawn
        warnings.simplefilter("error", np.exceptions.ComplexWarning)  # complex numbers into real arrays: refused
        for _ in range(20):
            program = one(random, longest, writer)
            leaves, structure = tree.flatten(program.args)
            tangents = tree.unflatten(
                structure, [np.ones_like(x) if isinstance(x, np.ndarray) else 1.0 for x in leaves]
            )
            try:
                jvp(program.function(), tuple(program.args), tuple(tangents))
                vjp(program.function(), *copied(program.args))
            except REFUSALS:
                continue
            except Exception:  # a finding: for who compares to tell
                pass
            break
    return program


def one(random, longest, writer):
    """Write one program."""
    writer = writer(random, single=random.random() < writer.singles)
    wanted = [kind for kind in ("branch", "view", "broadcast", "nested") if random.random() < 0.38]
    kinds = wanted + [writer.pick(writer.kinds) for _ in range(random.randrange(1, longest))]
    for k in range(len(kinds) - 1, 0, -1):
        j = random.randrange(k + 1)
        kinds[k], kinds[j] = kinds[j], kinds[k]
    for kind in kinds:
        for _ in range(4 if kind in wanted else 2):
            if writer.statement(kind):
                break
    results = [n for n in writer.variables() if n.startswith("v")]
    if not results:
        writer.add(["v0 = np.sin(x)"])
        results = ["v0"]
    return Written(writer.lines, writer.signature, writer.args, results[-8:], writer.features, writer.captured)
