"""`adopt` and `unadopt`: functions by a twin, classes and modules by changing what they hold, until it is undone."""

import functools
import inspect
import types
import weakref
from typing import Any, TypeVar

from chainrule.adopt import modules
from chainrule.adopt.running import adopted, original
from chainrule.adopt.selves import behind_self, self_of
from chainrule.adopt.session import SELF_OF
from chainrule.adopt.snapshot import CACHE, package_of
from chainrule.errors import NotDifferentiableError

Adoptable = TypeVar("Adoptable")

# methods that Python calls for its own purposes; they stay as they are
LEFT = frozenset({
    "__class_getitem__", "__del__", "__delattr__", "__getattribute__", "__getstate__", "__hash__", "__init_subclass__",
    "__new__", "__reduce__", "__reduce_ex__", "__repr__", "__set_name__", "__setattr__", "__setstate__", "__str__",
    "__subclasshook__",
})  # fmt: skip

# class or module -> [how often adopted, {name: (before, after)}]
_changed: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def adopt(f: Adoptable) -> Adoptable:
    """Return `f` in a form that can be differentiated although it uses plain buffers, ``np.array``, `math`, SciPy.

    NumPy hands most calls with a traced value to chainrule, but not all: ``buf = np.zeros(n); buf[i] = x``,
    ``np.array([x, y])``, ``math.exp(x)``, ``float(x)`` and SciPy's functions that are no ufuncs end in an error. In
    the adopted form they work, without a change of the code: it runs with NumPy, SciPy and `math` seen by chainrule.
    Functions of the same package that it calls are adopted with it.

    Parameters
    ----------
    f : function, method, class or module
        A function written in Python; also a method, a `functools.partial`, or an object with a ``__call__``. Of a class
        or module the methods and functions are adopted **in place**, until `unadopt`; all else leaves the user's
        module untouched.

    Returns
    -------
    callable
        The adopted function; called on plain values it gives what `f` gives. A class or module itself.

    Raises
    ------
    NotDifferentiableError
        If `f` is written in C, is an asynchronous generator, or is nothing that can be called.

    Notes
    -----
    A call costs a few microseconds more than one of `f`; the first one, which reads the byte code, about a millisecond.
    What adopted code sees, and what it does not, is on the page "adopt" of the documentation.

    Examples
    --------
    >>> import math, numpy as np, chainrule as cr
    >>> @cr.adopt
    ... def falling(x):
    ...     height = np.zeros(3)
    ...     for i in range(3):
    ...         height[i] = math.exp(-i * x)
    ...     return height @ np.array([1.0, x, 0.0])
    >>> round(cr.grad(falling)(0.0), 12)
    1.0
    >>> falling(0.0)
    np.float64(1.0)
    """
    made = adopted_form(f)
    if made is None:
        name = getattr(f, "__qualname__", None) or repr(f)
        if not callable(f):
            raise NotDifferentiableError(
                f"adopt was given {name}, of type {type(f).__name__}, which is no function, class or module.",
                "give it the function:  chainrule.grad(chainrule.adopt(f))(x).",
            )
        if inspect.isasyncgenfunction(f):
            raise NotDifferentiableError(
                f"adopt was given {name}, an asynchronous generator, which has no adopted form.",
                "adopt the functions that it calls.",
            )
        raise NotDifferentiableError(
            f"adopt was given {name}, which is not written in Python: there is no code to run in another way.",
            "if NumPy or SciPy has it, call it on traced values as it is, or look it up in chainrule.numpy;",
            f"write its derivative:  chainrule.extend.rule(chainrule.extend.primitive({name}), jvp=..., vjp=...);",
            "adopt the Python function that calls it.",
        )
    return made


def unadopt(f: Adoptable) -> Adoptable:
    """Undo `adopt`: return the function as it was, or give a class or module back what it held.

    A class or module that was adopted several times keeps its adopted form until each is undone. Names that were
    assigned anew since are left alone, as is anything that was not adopted.

    Examples
    --------
    >>> import chainrule as cr
    >>> def f(x):
    ...     return x**2
    >>> cr.unadopt(cr.adopt(f)) is f
    True
    """
    if isinstance(f, type):
        for c in lineage(f):
            restore(c)
        return f
    if isinstance(f, types.ModuleType):
        for v in list(vars(f).values()):
            if isinstance(v, type) and v.__module__ == f.__name__ and f in _changed:
                unadopt(v)
        restore(f)
        return f
    return undone(f)


def undone(f: Any) -> Any:
    """Return a function as it was before `adopt`."""
    if isinstance(f, types.MethodType):
        return types.MethodType(original(f.__func__), behind_self(f.__self__))
    if isinstance(f, functools.partial):
        return functools.partial(original(f.func), *f.args, **f.keywords)
    return original(f)


def adopted_form(f: Any) -> Any:
    """Return the adopted form of `f`, or None if it has none."""
    if isinstance(f, types.FunctionType):
        return None if inspect.isasyncgenfunction(f) else adopted(f)
    if isinstance(f, types.MethodType):
        made = adopted_form(f.__func__)
        return made and types.MethodType(made, adopted_self(f.__self__))
    if isinstance(f, CACHE):
        return adopted_form(f.__wrapped__)
    if isinstance(f, functools.partial):
        made = adopted_form(f.func)
        return made and functools.partial(made, *f.args, **f.keywords)
    if isinstance(f, staticmethod | classmethod | property | functools.cached_property):
        return descriptor(f)
    if isinstance(f, type):
        return adopt_class(f)
    if isinstance(f, types.ModuleType):
        return None if modules.is_mirrored(f) else adopt_module(f)
    ours = modules.in_place_of(f)
    if ours is not f:
        return ours
    call = getattr(type(f), "__call__", None)  # noqa: B004
    return adopted_form(types.MethodType(call, f)) if isinstance(call, types.FunctionType) else None


def adopted_self(x):
    """Return the object that stands for `x` where its methods are adopted."""
    return self_of(x, lambda name, v: v if name in LEFT else descriptor(v), _changed.__contains__)


SELF_OF[0] = adopted_self


# -- classes and modules ---------------------------------------------------------------------------------------


def descriptor(v):
    """Return an attribute of a class with the functions in it adopted; one that holds none as it is."""
    if isinstance(v, types.FunctionType):
        return adopted_form(v) or v
    if isinstance(v, staticmethod | classmethod):
        inner = descriptor(v.__func__)
        return v if inner is v.__func__ else type(v)(inner)
    if type(v) is property:
        return property(*[g and descriptor(g) for g in (v.fget, v.fset, v.fdel)], doc=v.__doc__)
    if type(v) is functools.cached_property:
        made = functools.cached_property(descriptor(v.func))
        made.__doc__, made.attrname = v.__doc__, v.attrname
        return made
    return v


def lineage(c):
    """Return a class and those of its bases that are of the same package."""
    return [b for b in c.__mro__ if package_of(b.__module__) == package_of(c.__module__)]


def adopt_class(c):
    """Adopt the methods of a class, and of its bases in the same package, in place."""
    if not c.__flags__ & _HEAP or package_of(c.__module__) in modules.MIRRORED:
        return None
    for b in lineage(c):
        change(b, {k: descriptor(v) for k, v in vars(b).items() if k not in LEFT})
    return c


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of classes made by a class statement


def adopt_module(module):
    """Adopt the functions and classes that a module defines, in place."""
    package = package_of(module.__name__)
    if module not in _changed:
        for v in list(vars(module).values()):
            if isinstance(v, type) and v.__module__ == module.__name__:
                adopt_class(v)
    after = {}
    for name, v in list(vars(module).items()):
        if isinstance(v, CACHE) or (isinstance(v, types.FunctionType) and package_of(v.__module__) == package):
            after[name] = adopted_form(v) or v
    change(module, after)
    return module


def change(owner, after):
    """Set attributes, and remember what they were."""
    record = _changed.setdefault(owner, [0, {}])
    record[0] += 1
    for name, v in after.items():
        before = vars(owner)[name]
        if v is not before and name not in record[1]:
            setattr(owner, name, v)
            record[1][name] = before, v


def restore(owner):
    """Undo one `change`; the last one brings back what was there, where it has not been replaced since."""
    record = _changed.get(owner)
    if record is None:
        return
    record[0] -= 1
    if record[0] == 0:
        del _changed[owner]
        for name, (before, after) in record[1].items():
            if vars(owner).get(name) is after:
                setattr(owner, name, before)
