"""Planting a fault: replacing one thing, or one piece of a function's source, for a while."""

import ast
import contextlib
import importlib
import inspect
import textwrap

FAULTS = {"eager": {}, "native": {}}  # by what the fuzzer compares: name -> context manager


def fault(function, which="eager"):
    """List a fault: a generator that replaces something, yields, and puts it back."""
    FAULTS[which][function.__name__] = contextlib.contextmanager(function)
    return function


@contextlib.contextmanager
def replaced(owner, name, new):
    """Replace an attribute, or an entry of a dict, for a while."""
    is_dict = isinstance(owner, dict)
    old = owner[name] if is_dict else getattr(owner, name)
    set_ = owner.__setitem__ if is_dict else lambda n, v: setattr(owner, n, v)
    set_(name, new)
    try:
        yield old
    finally:
        set_(name, old)


@contextlib.contextmanager
def edited(module, name, old, new):
    """Give a function of a module, or a method, other code: its own with a piece of its source replaced.

    The function stays the same object, so that all who have it run the other code.
    """
    function = importlib.import_module(module)
    for part in name.split("."):
        function = inspect.getattr_static(function, part)
    function = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    function = function.fget if isinstance(function, property) else function
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise ValueError(f"{module}.{name} has {old!r} {source.count(old)} times, not once")
    code = inner_code(source.replace(old, new), function.__code__)
    right, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = right


def inner_code(source, like):
    """Compile the source of a function that may be one of a closure; return its code."""
    tree = ast.parse(source)
    tree.body[0].decorator_list = []
    if like.co_freevars:  # within a function that has these names
        outer = ast.parse(f"def outer({', '.join(like.co_freevars)}): return 0").body[0]
        outer.body = tree.body
        tree.body = [outer]
    code = compile(ast.fix_missing_locations(tree), like.co_filename, "exec")
    for _ in range(1 + bool(like.co_freevars)):
        code = next(c for c in code.co_consts if inspect.iscode(c))
    if code.co_freevars != like.co_freevars:
        raise ValueError(f"{like.co_name} with other names from outside")
    return code
