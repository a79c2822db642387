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
    function, source = found(module, name, old)
    with recoded(function, ast.parse(source.replace(old, new))):
        yield


@contextlib.contextmanager
def marked(module, name, marks):
    """Call functions where statements of a function begin: those that pieces of its source stand in.

    `marks` has (piece, what is called) for each.
    """
    function, source = found(module, name, *[old for old, _ in marks])
    tree = ast.parse(source)
    lines = [source[: source.index(old)].count("\n") + 1 for old, _ in marks]
    statements = [innermost(tree, line) for line in lines]
    for (_, do), (body, statement) in zip(marks, statements, strict=True):
        call = ast.Expr(ast.Call(ast.Name(f"__{do.__name__}", ast.Load()), [], []))
        body.insert(body.index(statement), ast.copy_location(call, statement))
        function.__globals__[f"__{do.__name__}"] = do
    with recoded(function, tree):
        yield


def found(module, name, *pieces):
    """Return a function of a module, or a method, and its source, which must have each piece once."""
    function = importlib.import_module(module)
    for part in name.split("."):
        function = inspect.getattr_static(function, part)
    function = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    function = function.fget if isinstance(function, property) else function
    source = textwrap.dedent(inspect.getsource(function))
    for old in pieces:
        if source.count(old) != 1:
            raise ValueError(f"{module}.{name} has {old!r} {source.count(old)} times, not once")
    return function, source


def innermost(tree, line):
    """Return the list of statements with the innermost one that a line belongs to, and that."""
    best = None
    for node in ast.walk(tree):  # from outside to the inside
        for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            for inner in body if body.__class__ is list and node is not tree else []:
                if inner.lineno <= line <= inner.end_lineno:
                    best = body, inner
    return best


@contextlib.contextmanager
def recoded(function, tree):
    """Give a function the code of a source."""
    code = inner_code(tree, function.__code__)
    right, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = right


def inner_code(tree, like):
    """Compile the syntax tree of a function that may be one of a closure; return its code."""
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
