"""Rules: what a function's derivative is, and the declarators that make them.

There are seven kinds. `elementwise` functions give their partial derivatives; `gather` functions only move elements and
need no more than their name; `linear` ones give their adjoint, `bilinear` ones two adjoints; `select` ones say which
operand each entry takes; anything else is a `rule` with jvp and vjp; `constant` ones have no derivative, or zero.
A `composite` is written in terms of other functions and needs no rule.

A rule is written once, in plain NumPy, for arrays. Since its own calls are dispatched again, the same lines serve every
mode and every order. `RULES` is the registry: the list of what is differentiable, and of what is tested.

Signatures, where ``xs`` are the operands in order and ``params`` the other arguments by NumPy's names:

========== ==============================================================================================
elementwise ``partial(y, *xs) -> dy/dx_i``, one per operand
linear      ``adjoint(ybar, y, *xs, **params) -> xbar``; ``y`` is None and each ``x`` a `Spec` (shape, dtype)
bilinear    ``adjoint(ybar, y, a, b, **params)``, one per operand
select      ``weights(y, *xs, **params) -> one per operand``: what share of each entry comes from it
rule        ``jvp(xdot, y, *xs, **params) -> ydot``, ``vjp(ybar, y, *xs, **params) -> xbar``, one per operand
========== ==============================================================================================

With ``spread=True`` the function takes a sequence of operands as its first argument; then ``adjoint`` (or ``vjp``)
gets the operands as one tuple, and returns one cotangent for each.
"""

import inspect
import sys

import numpy as np

RULES = {}  # function -> Rule (or a Composite)
UNSUPPORTED = {}  # function or full name -> why it has no rule and will not get one, and what to write instead
WHOLE = set()  # those of them that take whole numbers: in a program that is recorded these may be traced
_MISSING = object()


class Rule:
    """One function's derivative. `kind` says how its other fields are read."""

    __slots__ = (
        "accepts", "affine", "apply", "bind", "complex", "domain", "entrywise", "fun", "gathers", "jvps", "kind",
        "name", "nin", "notes", "pulls", "quick", "reads", "residuals", "spread", "takes", "vjps",
    )  # fmt: skip

    def __init__(self, fun, kind, nin, jvps=(), vjps=(), spread=False, affine=(), bind=None, apply=None, domain=None,
                 complex=True, accepts=(), notes=""):  # fmt: skip
        self.fun, self.kind, self.nin = fun, kind, nin
        self.jvps, self.vjps = tuple(jvps), tuple(vjps)
        self.spread = spread
        self.affine = dict.fromkeys(affine, 0) if not isinstance(affine, dict) else affine
        self.domain, self.complex, self.notes = domain, complex, notes
        self.name = full_name(fun)
        self.accepts = None if accepts is None else frozenset(accepts) | frozenset(self.affine)  # None: all
        self.apply = apply or (self._apply_spread if spread else self._apply)
        self.bind = bind or self._first_bind
        self.pulls = None  # of elementwise rules: see engine.elementwise
        self.entrywise = False  # of a `rule` of one operand: whether each entry depends on that entry alone
        self.takes = False  # of a `rule`: whether it is an average of some entries, so that masks pass through it
        self.quick = {}  # names of arguments -> function of a plain array and their values: see `quick`
        self.reads = None  # filled at first use: for each vjp, which of (y, *xs) it reads
        self.residuals = {}  # wanted operands -> which of (y, *xs) are kept

    def _apply(self, operands, params):
        return self.fun(*operands, **params)

    def _apply_spread(self, operands, params):
        return self.fun(list(operands), **params)

    def _first_bind(self, *args, **kwargs):
        """Build the binder from NumPy's own signature at the rule's first use, then use that."""
        self.bind = make_binder(self)
        return self.bind(*args, **kwargs)

    def keeps(self, wanted):
        """Tell which of (y, *xs) the pullbacks to the operands `wanted` need: one bool each."""
        kept = self.residuals.get(wanted)
        if kept is None:
            if self.reads is None:
                skip = 0 if self.kind in ("elementwise", "select") else 1
                self.reads = [reads(f, skip) for f in self.vjps]
            if self.spread or self.kind == "select":
                kept = self.reads[0]
            else:
                columns = zip(*(self.reads[i][: self.nin + 1] for i in wanted), strict=True)
                kept = tuple(any(c) for c in columns)
            self.residuals[wanted] = kept
        return kept

    def __repr__(self):
        return f"<{self.kind} rule of {self.name}>"


class Composite:
    """A function written in terms of others: its derivative follows from theirs."""

    __slots__ = ("fun", "kind", "name", "written")

    def __init__(self, fun, written):
        self.fun, self.written, self.kind, self.name = fun, written, "composite", full_name(fun)


def full_name(fun):
    """Return ``numpy.linalg.inv`` for the function of that name."""
    name = getattr(fun, "__name__", type(fun).__name__)
    if name.endswith("(vectorized)"):  # a ufunc made of a Python function
        return "numpy.frompyfunc"
    module = getattr(fun, "__module__", None) or ("numpy" if type(fun).__name__ == "ufunc" else "")
    if type(fun).__name__ == "ufunc":
        special = sys.modules.get("scipy.special")
        module = "scipy.special" if hasattr(special, name) and getattr(np, name, None) is not fun else "numpy"
    return f"{module}.{name}" if module else name


def reads(function, skip):
    """Tell which of the parameters (y, *xs) of a rule's function its code uses.

    The first `skip` parameters (``ybar`` of a vjp) are left out. Read from the byte code: a parameter that
    is never loaded is not kept by the tape.
    """
    function = getattr(function, "reads_like", function)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    used = {i.argval for i in _instructions(code)} | set(code.co_cellvars) | set(code.co_freevars)
    flags = [n in used for n in names[skip:]]
    if code.co_flags & inspect.CO_VARARGS:
        flags += [True] * 32
    return tuple(flags)


def _instructions(code):
    import dis

    for i in dis.get_instructions(code):
        if i.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST")):
            if isinstance(i.argval, tuple):  # Python 3.13 loads two names at once
                for name in i.argval:
                    yield i._replace(argval=name)
            else:
                yield i


def parameters(function, skip):
    """Split a rule function's parameters after the first `skip`: names of operands, names of keyword parameters.

    Read off the code object: `inspect.signature` would take half of the time of the import.
    """
    code = function.__code__
    count = code.co_argcount - len(function.__defaults__ or ())
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return list(names[skip:count]), list(names[max(skip, count) :])


def make_binder(rule):
    """Write a function with NumPy's own signature that returns (operands, params given).

    Python then binds the arguments, and complains about wrong ones as NumPy would. An argument that the rule does not
    take may be given with its default value only.
    """
    try:
        signature = list(inspect.signature(rule.fun).parameters.values())
    except (TypeError, ValueError):  # NumPy before 2.4 tells no signature of its C functions: take the rule's own
        source = rule.vjps[0] if rule.vjps else rule.jvps[0]
        names, keywords = parameters(source, 1 if rule.kind in ("elementwise", "select") else 2)
        text = ", ".join(names + [f"{k}=_MISSING" for k in keywords])
        signature = list(inspect.signature(eval(f"lambda {text}: 0", {"_MISSING": _MISSING})).parameters.values())
    head, body, operands, scope = (
        [],
        [],
        [],
        {"_MISSING": _MISSING, "_refuse": _refuse, "_rule": rule, "_is": _is_default},
    )
    star = slash = False
    for p in signature:
        if p.kind is p.POSITIONAL_ONLY:
            slash = True
        elif slash:
            head.append("/")
            slash = False
        if p.name == "out" and rule.accepts is None:
            scope["_default_out"] = p.default
            head.append("out=_MISSING")
            body.append("    if out is not _MISSING and out is not None: _refuse(_rule, 'out')")
            continue
        if p.kind is p.VAR_POSITIONAL:
            head.append(f"*{p.name}")
            star = True
            if len(operands) < rule.nin:
                operands.append(f"*{p.name}")
            continue
        if p.kind is p.VAR_KEYWORD:
            head.append(f"**{p.name}")
            body.append(f"    for k in {p.name}: _refuse(_rule, k)")
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            head.append("*")
            star = True
        if len(operands) < rule.nin and p.kind is not p.KEYWORD_ONLY:
            head.append(p.name)
            operands.append(p.name)
            continue
        head.append(f"{p.name}=_MISSING" if p.default is not p.empty else p.name)
        if rule.accepts is None or p.name in rule.accepts:
            body.append(f"    if {p.name} is not _MISSING: params[{p.name!r}] = {p.name}")
        else:
            scope[f"_default_{p.name}"] = p.default
            body.append(
                f"    if {p.name} is not _MISSING and not _is({p.name}, _default_{p.name}): _refuse(_rule, {p.name!r})"
            )
    if slash:
        head.append("/")
    if rule.spread:
        operands = [f"*{operands[0]}"]
    name = getattr(rule.fun, "__name__", "function")
    name = name if name.isidentifier() else "function"
    lines = [
        f"def {name}({', '.join(head)}):",
        "    params = {}",
        *body,
        f"    return ({', '.join(operands)},), params",
    ]
    exec(compile("\n".join(lines), f"<chainrule: {rule.name}>", "exec"), scope)
    return scope[name]


def _is_default(x, default):
    return (
        x is default or (x is None) or (type(x) is type(default) and isinstance(x, str | bool | int) and x == default)
    )


def _refuse(rule, argument):
    from chainrule.errors import OutArgumentError, UnsupportedArgumentError

    if argument == "out":
        raise OutArgumentError(rule.name)
    raise UnsupportedArgumentError(
        rule.name,
        argument,
        "is not supported with traced values",
        "leave it out, and write the same with other functions.",
    )


def register(rule):
    """Put a rule into the registry. A second rule for the same function is a mistake."""
    if rule.fun in RULES:
        raise ValueError(f"{rule.name} has a rule already: {RULES[rule.fun]!r}")
    RULES[rule.fun] = rule
    return rule


# -- the declarators -----------------------------------------------------------------------------------------


def elementwise(fun, *partials, domain=None, complex=True, notes=""):
    """Declare an elementwise function by its partial derivatives ``partial(y, *xs)``, one per operand.

    `domain` is where the rule holds: a pair of bounds, or one pair per operand; tests draw their inputs from it.
    `complex` says whether it holds for complex operands. Broadcasting, dtypes and the real part are the engine's.
    """
    return register(
        Rule(fun, "elementwise", len(partials), partials, partials, domain=domain, complex=complex, notes=notes)
    )


def gather(*funs, adjoint=None, complex=True):
    """Declare functions whose result holds nothing but elements of their first argument, each moved unchanged.

    A name is enough: run once on positions, the function itself tells where each element comes from. `adjoint` gives a
    faster one by hand, with the signature of `linear`'s.
    """
    from chainrule.engine.indexing import adjoint_by_positions

    for fun in funs:
        vjp = adjoint or adjoint_by_positions(fun)
        accepts = parameters(adjoint, 3)[1] if adjoint else None
        register(Rule(fun, "gather", 1, (), (vjp,), accepts=accepts, complex=complex))


def linear(fun, *adjoints, spread=False, affine=(), nin=None, bind=None, apply=None, complex=True, accepts=()):
    """Declare a linear function by its adjoint ``adjoint(ybar, y, x, **params)``, one per operand.

    The tangent of a linear function is the function of the tangent. `affine` names keyword arguments that only add a
    constant (``initial=``): tangents are computed with 0 there, or with ``affine[name](value)``.
    """
    names, keywords = parameters(adjoints[0], 2)
    nin = nin if nin is not None else (1 if spread else len(names))
    return register(
        Rule(
            fun,
            "linear",
            nin,
            (),
            adjoints,
            spread=spread,
            affine=affine,
            bind=bind,
            apply=apply,
            complex=complex,
            accepts=(*keywords, *accepts),
        )  # fmt: skip
    )


def bilinear(fun, left, right, *, bind=None, apply=None, complex=True, accepts=()):
    """Declare a function linear in each of two operands by its two adjoints ``adjoint(ybar, y, a, b, **params)``."""
    _, keywords = parameters(left, 2)
    return register(
        Rule(
            fun,
            "bilinear",
            2,
            (),
            (left, right),
            bind=bind,
            apply=apply,
            complex=complex,
            accepts=(*keywords, *accepts),
        )
    )


def select(fun, weights, *, nin, bind=None, apply=None, complex=True, accepts=()):
    """Declare a function that takes each entry from one of its operands.

    ``weights(y, *xs, **params)`` gives, for each operand, a boolean mask of the entries taken from it (or None for an
    operand that is not copied, such as a condition). Entries not taken get an exact zero in both modes, whatever the
    derivative behind them is.
    """
    _, keywords = parameters(weights, 1)
    return register(
        Rule(
            fun,
            "select",
            nin,
            (weights,),
            (weights,),
            bind=bind,
            apply=apply,
            complex=complex,
            accepts=(*keywords, *accepts),
        )
    )


def rule(
    fun, *, jvp, vjp, nin=None, spread=False, affine=(), bind=None, apply=None, domain=None, complex=True, accepts=(),
    takes=False, entrywise=False,
):  # fmt: skip
    """Declare any other function by its jvp and vjp: one callable each, or one per operand.

    `takes` says that a result is an average of some entries, as a maximum is: what is left out gets an exact zero,
    whatever the derivative behind it is. `entrywise` says so of functions of single entries that have parameters.
    """
    jvps = jvp if isinstance(jvp, tuple) else (jvp,)
    vjps = vjp if isinstance(vjp, tuple) else (vjp,)
    names, keywords = parameters(vjps[0], 2)
    nin = nin if nin is not None else (1 if spread else len(names))
    made = register(
        Rule(
            fun,
            "rule",
            nin,
            jvps,
            vjps,
            spread=spread,
            affine=affine,
            bind=bind,
            apply=apply,
            domain=domain,
            complex=complex,
            accepts=(*keywords, *accepts),
        )  # fmt: skip
    )
    made.takes, made.entrywise = takes, entrywise
    return made


def quick(fun, **methods):
    """Run `fun`, linear in its one operand, on plain arrays by another function, without NumPy's wrapper around it.

    `methods` has a function of the array and the arguments' values for each way of calling: ``none``, or the names of
    the arguments joined by underscores. The adjoint must take these in the same order.
    """
    rule = RULES[fun]
    rule.quick = table = {() if names == "none" else tuple(names.split("_")): m for names, m in methods.items()}

    def apply(operands, params):
        x = operands[0]
        if x.__class__ is np.ndarray:
            method = table.get(tuple(params))
            if method is not None:
                return method(x, *params.values())
        return fun(x, **params)

    rule.apply = apply


def constant(*funs):
    """Declare functions whose output has no derivative (an index, a bool) or derivative zero everywhere (`floor`)."""
    for fun in funs:
        register(Rule(fun, "constant", 0))


def composite(*funs):
    """Declare functions by what they are written in: decorates a function of the same arguments, in plain NumPy."""

    def declare(written):
        if "<locals>" in written.__qualname__:  # made in a loop: errors of wrong arguments shall name the function
            written.__name__ = written.__qualname__ = funs[0].__name__
        for fun in funs:
            register(Composite(fun, written))
        return written

    return declare


def unsupported(fun, why, *instead, whole=False):
    """Declare that a function (or all of a full name) is not differentiated; its error says `why`, and what to do.

    With `whole` it takes whole numbers, of which a program that is recorded has traced ones.
    """
    UNSUPPORTED[fun] = (why, *instead)
    if whole:
        WHOLE.add(fun)
