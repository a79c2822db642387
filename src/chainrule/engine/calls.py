"""What happens when NumPy hands a call to us: the functions behind the table `boxed.CALL`, built at their first use."""

import inspect
import itertools
import sys
import threading

import numpy as np

from chainrule.engine import boxed, elementwise
from chainrule.engine.boxed import CALL, Boxed, keeper, value
from chainrule.engine.dispatch import dispatch
from chainrule.engine.fastcalls import bilinear_call, direct_call, linear_run, spread_run, with_keywords
from chainrule.engine.leaves import leaf
from chainrule.engine.rule import RULES, UNSUPPORTED, WHOLE, full_name
from chainrule.engine.selects import select_run
from chainrule.engine.spec import cast_to, choose, shape_of, spread_to
from chainrule.engine.views import noted
from chainrule.engine.writes import into
from chainrule.errors import NoRuleError, OutArgumentError, UnsupportedArgumentError, UnsupportedFunctionError

LATER = {}  # package name -> function that registers the rules of that package when it is first met
UFUNC_METHODS = {}  # (ufunc, method) -> the function that does the same


def build(function):
    """Return what runs when `function` is called with a traced value."""
    entry = RULES.get(function)
    if entry is None:
        for package, register in list(LATER.items()):
            if package in sys.modules:
                register()  # an import: another thread that comes here meanwhile waits for it to be done
                LATER.pop(package, None)
        entry = RULES.get(function)
        if entry is None:
            name = full_name(function)
            why = UNSUPPORTED.get(function) or UNSUPPORTED.get(name)
            if function in WHOLE:
                return whole_call(function, why)
            raise UnsupportedFunctionError(name, *why) if why else NoRuleError(name)
    if entry.kind == "composite":
        return guarded(function, composite_call(entry))
    if entry.kind == "constant":
        return constant_call(function)
    if entry.kind == "elementwise":
        return elementwise_call(entry)
    return leaf(entry, call_of(entry))


def call_of(entry):
    """Return the call of a rule that is not elementwise, by its kind."""
    if entry.kind == "gather":
        return direct_call(entry, gather_call(entry))
    if entry.kind == "linear" and entry.nin == 1 and not entry.spread:
        return direct_call(entry, run_call(entry, linear_run(entry)))
    if entry.kind == "linear" and entry.spread:
        return run_call(entry, spread_run(entry))
    if entry.kind == "select":
        return run_call(entry, select_run(entry))
    if entry.kind == "bilinear":
        return with_keywords(entry, bilinear_call(entry))
    return rule_call(entry)


def composite_call(entry):
    """Return what a composite is written as; if it takes no ``out=`` and NumPy does, arguments are bound as NumPy's."""
    written, fun = entry.written, entry.fun
    try:
        theirs, ours = inspect.signature(fun), inspect.signature(written)
    except (TypeError, ValueError):  # a C function that tells no signature
        return written
    pairs = zip(theirs.parameters, ours.parameters, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if isinstance(fun, np.ufunc) or "out" not in theirs.parameters or "out" in ours.parameters:
        return written

    unnamed = [n for n, p in theirs.parameters.items() if p.kind is p.POSITIONAL_ONLY]

    def call(*args, **kwargs):
        if len(args) <= same and "out" not in kwargs:
            return written(*args, **kwargs)
        named = theirs.bind(*args, **kwargs).arguments
        out = named.pop("out", None)
        if out is not None and not isinstance(out, Boxed):
            raise OutArgumentError(entry.name)
        y = written(*[named.pop(n) for n in unnamed if n in named], **named)
        return y if out is None else into(out, y, entry.name)

    return call


_inside = threading.local()
HOLDERS = (list, tuple)


def boxes_in(values):
    """Iterate over the boxes in nested lists and tuples."""
    for v in values:
        if isinstance(v, Boxed):
            yield v
        elif v.__class__ in HOLDERS:
            yield from boxes_in(v)


def guarded(fun, written):
    """Return the call of a composite that may hand on the plain values of its arguments to the function itself.

    Of what stays in plain values these are the arguments, and the composite would be called again without end: then the
    function is one without derivative.
    """

    def call(*args, **kwargs):
        for a in args:
            if isinstance(a, Boxed) and not a.kept:
                return written(*args, **kwargs)
        given = (*args, *kwargs.values())
        top = keeper(given)
        if top is None:
            return written(*args, **kwargs)
        active = _inside.__dict__.setdefault("active", set())
        key = (fun, *map(id, boxes_in(given)))
        if key in active:
            return top.run_constant(fun, args, kwargs, top.level)
        active.add(key)
        try:
            return written(*args, **kwargs)
        finally:
            active.discard(key)

    call.__name__, call.__doc__ = getattr(written, "__name__", "call"), written.__doc__
    return call


def rule_call(rule):
    """Return the general call: bind the arguments, and dispatch."""

    def call(*args, **kwargs):
        operands, params = rule.bind(*args, **kwargs)
        return dispatch(rule, operands, params)

    return call


def run_call(rule, run):
    """Return the call of a rule that has a faster way than `dispatch`."""

    def call(*args, **kwargs):
        return run(*rule.bind(*args, **kwargs))

    return call


def gather_call(rule):
    """Return the call of a function that moves elements: its result may be a view, which later writes must know."""
    run = linear_run(rule)

    def call(*args, **kwargs):
        operands, params = rule.bind(*args, **kwargs)
        y = run(operands, params)
        x = operands[0]
        return noted(y, x, rule, params) if isinstance(y, Boxed) and isinstance(x, Boxed) else y

    return call


def elementwise_call(rule):
    """Return the fast call, with a way for keyword arguments (ufuncs reach `ufunc_method` before)."""
    fast = elementwise.build(rule)
    if isinstance(rule.fun, np.ufunc):
        return fast

    def call(*args, **kwargs):
        if kwargs:
            operands, _ = rule.bind(*args, **kwargs)
            return dispatch(rule, operands, {})
        return fast(*args)

    return call


def opened(x):
    """Open every box in an argument by one level; NumPy dispatches what remains."""
    if isinstance(x, Boxed):
        return x if x.kept else x.data
    if x.__class__ is list or x.__class__ is tuple:
        return x.__class__([opened(v) for v in x])
    return x


def whole_call(function, why):
    """Return the call of a function of whole numbers: run it on the values, and refuse floats."""
    run = constant_call(function)

    def call(*args, **kwargs):
        if any(x.dtype.kind not in "iub" for x in boxes_in((*args, *kwargs.values()))):
            raise UnsupportedFunctionError(full_name(function), *why)
        return run(*args, **kwargs)

    return call


def constant_call(function):
    """Return the call of a function without derivative: run it on the values."""

    def call(*args, **kwargs):
        if kwargs:
            out = kwargs.get("out")
            if isinstance(out, Boxed):
                return into(kwargs.pop("out"), call(*args, **kwargs), full_name(function))
            if isinstance(out, np.ndarray):
                raise OutArgumentError(full_name(function))
            kwargs = {k: opened(v) for k, v in kwargs.items()}
        args = tuple([opened(a) for a in args])
        top = keeper((*args, *kwargs.values()))
        if top is None:
            return function(*args, **kwargs)
        return top.__class__.run_constant(function, args, kwargs, top.level)

    return call


def as_written(ufunc):
    """Return the name of a ufunc as users write it: np.sin, scipy.special.erf."""
    name = full_name(ufunc)
    return f"np.{name[6:]}" if name.startswith("numpy.") else name


def ufunc_method(ufunc, method, inputs, kwargs):
    """Run a ufunc that was called with keyword arguments, or one of its methods (``np.add.reduce``)."""
    out = kwargs.pop("out", None)
    if out is not None and any(o is not None for o in out):
        return into_all(out, ufunc, method, inputs, kwargs)
    if method == "__call__":
        return ufunc_keywords(ufunc, inputs, kwargs)
    function = UFUNC_METHODS.get((ufunc, method))
    if function is not None:
        if method != "outer" and "axis" not in kwargs and len(inputs) < 2:
            kwargs["axis"] = 0  # of ufuncs' methods the default axis is the first, of the functions all
        if not any(isinstance(x, Boxed) for x in inputs):  # but a keyword: the function itself would come back here
            return CALL[function](*inputs, **kwargs)
        return function(*inputs, **kwargs)
    if method == "outer" and not kwargs:
        a, b = inputs
        return CALL[ufunc](a.reshape(shape_of(a) + (1,) * len(shape_of(b))) if isinstance(a, Boxed)
                           else np.asarray(a).reshape(np.shape(a) + (1,) * len(shape_of(b))), b)  # fmt: skip
    raise NoRuleError(f"{full_name(ufunc)}.{method}")


def into_all(out, ufunc, method, inputs, kwargs):
    """Write a ufunc's results into the destinations given as ``out=``, which must be traced."""
    name = as_written(ufunc)
    if any(o is not None and not isinstance(o, Boxed) for o in out):
        raise OutArgumentError(name)
    where = kwargs.get("where", True) if method == "__call__" else True
    y = getattr(ufunc, method)(*inputs, **kwargs)
    if len(out) == 1:
        return into(out[0], y, name, where)
    return tuple([v if o is None else into(o, v, name, where) for o, v in zip(out, y, strict=True)])


def ufunc_keywords(ufunc, inputs, kwargs):
    """Run a ufunc with ``where=`` or ``dtype=``; the others change nothing here, or are refused."""
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    for name, harmless in (("casting", "same_kind"), ("order", "K"), ("subok", True)):
        if kwargs.get(name, harmless) == harmless:
            kwargs.pop(name, None)
    if ufunc.signature is None and kwargs:
        raise UnsupportedArgumentError(as_written(ufunc), next(iter(kwargs)), "is not supported with traced values")
    if dtype is not None:
        dtype = np.dtype(dtype)
        inputs = [cast_to(x, dtype) if isinstance(x, Boxed) else x for x in inputs]
        y = CALL[ufunc](*inputs, **kwargs)
        if isinstance(y, Boxed) and y.dtype != dtype:
            y = cast_to(y, dtype)
    elif where is True:
        return CALL[ufunc](*inputs, **kwargs)
    else:
        y = None
    if where is True:
        return y
    if y is None:
        with np.errstate(all="ignore"):
            y = CALL[ufunc](*inputs, **kwargs)
    mask = np.asarray(value(where))
    shape = np.broadcast_shapes(mask.shape, shape_of(y))
    if shape_of(y) != shape:
        y = spread_to(y, shape)
    return choose(np.broadcast_to(mask, shape), y)


boxed.BUILD[0] = build
boxed.INTO[0] = into
boxed.UFUNC_METHOD[0] = ufunc_method
