"""What is supported: every public name of NumPy with its status, read off the registry of rules.

`survey` walks NumPy's names. What is in no table is ``unknown``, and a test fails on it: so a function of a later NumPy
can't be forgotten. Which of them `vmap` calls once per entry is found by running their samples (`loops`). The page
docs/supported.md is written by ::

    python -m chainrule.testing.supported > docs/supported.md
"""

import functools
import inspect
import warnings

import numpy as np

import chainrule.numpy as mirror
from chainrule.engine.boxed import Boxed
from chainrule.engine.rule import RULES, UNSUPPORTED
from chainrule.rules.array_methods import METHODS
from chainrule.rules.array_methods import REFUSED as METHODS_REFUSED
from chainrule.rules.unsupported import FILES, INTEGERS, WITHOUT_DISPATCH
from chainrule.testing.samples import all_samples, constant_samples
from chainrule.transforms import grad, vmap

DIFFERENTIATED, CONSTANT, MIRROR = "differentiated", "constant", "by chainrule.numpy"
PLAIN, UNSUPPORTED_, OTHER, UNKNOWN = "plain values only", "unsupported", "no function of arrays", "unknown"
STATUSES = {
    DIFFERENTIATED: "in forward and reverse mode, to any order",
    CONSTANT: "a result without derivative, or with derivative zero everywhere: it comes out plain",
    MIRROR: "NumPy does not hand it over; `chainrule.numpy` has one that is differentiated",
    PLAIN: "takes whole numbers or dates only, or hands out bytes or Python's numbers: of a traced value it raises",
    UNSUPPORTED_: "raises an error that says why, and what to write instead",
    OTHER: "types, dtypes, files, printing, settings",
}

NAMESPACES = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "numpy.fft": np.fft,
    "numpy.emath": np.emath,
    "numpy.lib.stride_tricks": np.lib.stride_tricks,
}

# fmt: off
# Not handed over by NumPy, and yet as they should be: written in Python, in terms of what is.
BY_THEMSELVES = {"fromfunction", "fftfreq", "poly1d", "rfftfreq", "row_stack"}
# They make arrays out of sizes: constants by nature.
OF_SIZES = {
    "bartlett", "blackman", "broadcast_shapes", "diag_indices", "hamming", "hanning", "indices", "mask_indices",
    "ndindex", "tril_indices", "triu_indices",
}
# They make the constant arrays that traced values may be written into.
BUFFERS = {"empty", "empty_like", "eye", "identity", "ones", "ones_like", "tri", "zeros", "zeros_like"}
BRACKETS = ("c_", "mgrid", "ogrid", "r_")  # objects that are subscripted
REFUSED = {"as_strided", "asmatrix", "bmat", "frompyfunc", "matrix", "nditer", "nested_iters"}
NO_FUNCTION_OF_ARRAYS = {
    "types": {
        "busdaycalendar", "dtype", "finfo", "flatiter", "iinfo", "memmap", "ndarray", "recarray", "record", "ufunc",
    },
    "dtypes": {
        "datetime_data", "isdtype", "issubdtype", "mintypecode", "promote_types", "typename",
    },
    "kinds of objects": {"isfortran", "iterable"},
    "files and memory": {
        "from_dlpack", "frombuffer", "fromfile", "fromregex", "fromstring", "genfromtxt", "load", "loadtxt",
    },
    "printing": {
        "base_repr", "binary_repr", "format_float_positional", "format_float_scientific", "get_printoptions", "info",
        "printoptions", "set_printoptions",
    },
    "settings": {
        "errstate", "get_include", "getbufsize", "geterr", "geterrcall", "setbufsize", "seterr", "seterrcall",
        "show_config", "show_runtime", "test", "LinAlgError",
    },
}

# Of ndarray: what is not a function of the same name (those are in `METHODS`).
OF_NDARRAY = {
    DIFFERENTIATED: {
        "T", "astype", "compress", "copy", "fill", "flat", "imag", "mT", "partition", "real", "reshape", "sort",
        "to_device", "transpose", "view",
    },
    CONSTANT: {"device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"},
    PLAIN: {"byteswap", "ctypes", "dump", "dumps", "item", "tobytes", "tofile", "tolist"},
    UNSUPPORTED_: {"getfield", "resize", "setfield", "setflags"},
    OTHER: {"base", "data", "itemset", "newbyteorder", "ptp", "tostring"},  # the last four are gone by NumPy 2.4
}
_ARITHMETIC = {"add", "matmul", "mod", "mul", "pow", "sub", "truediv"}
_BITS = {"and", "lshift", "or", "rshift", "xor"}
_IN_TURN = ("__{}__", "__r{}__", "__i{}__")  # forward, reflected, in place
OPERATORS = {
    DIFFERENTIATED: {form.format(name) for name in _ARITHMETIC for form in _IN_TURN}
    | {"__abs__", "__copy__", "__deepcopy__", "__divmod__", "__getitem__", "__iter__", "__neg__", "__pos__",
       "__rdivmod__", "__setitem__"},
    CONSTANT: {form.format("floordiv") for form in _IN_TURN}
    | {"__bool__", "__contains__", "__eq__", "__ge__", "__gt__", "__le__", "__len__", "__lt__", "__ne__"},
    PLAIN: {form.format(name) for name in _BITS for form in _IN_TURN}
    | {"__complex__", "__float__", "__index__", "__int__", "__invert__"},
    OTHER: {"__delitem__", "__format__", "__repr__", "__str__"},
}
# fmt: on


def status_of(name, x):
    """Return the status of a public name of one of the namespaces."""
    if name in REFUSED:
        return UNSUPPORTED_
    if x in FILES or x in INTEGERS:
        return PLAIN
    rule = RULES.get(x)
    if rule is not None:
        return CONSTANT if rule.kind == "constant" or name in BUFFERS else DIFFERENTIATED
    if x in UNSUPPORTED:
        return UNSUPPORTED_
    if name in BY_THEMSELVES:
        return DIFFERENTIATED
    if name in OF_SIZES:
        return CONSTANT
    if name in mirror.__all__:
        return MIRROR
    listed = any(name in names for names in NO_FUNCTION_OF_ARRAYS.values())
    return OTHER if listed or (inspect.isclass(x) and issubclass(x, np.generic)) else UNKNOWN


def method_status(name):
    """Return the status of a public name of ndarray."""
    if name in METHODS:
        return CONSTANT if RULES[METHODS[name]].kind == "constant" else DIFFERENTIATED
    return next((s for s, names in OF_NDARRAY.items() if name in names), UNKNOWN)


def is_operator(name):
    """Tell whether a special name of ndarray is an operator, or asks for a number, an entry or text."""
    inherited = {n for n in dir(object) if n not in ("__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__",
                                                     "__format__", "__repr__", "__str__")}  # fmt: skip
    return (
        name.startswith("__")
        and callable(getattr(np.ndarray, name))
        and name not in inherited
        and not name.startswith(("__array_", "__dlpack", "__buffer", "__release"))
        and name not in ("__class_getitem__", "__setstate__", "__array__")
    )


def survey():
    """Return ``{namespace: {name: status}}`` of all public callables, of ndarray's methods and of its operators."""
    found = {}
    for title, module in NAMESPACES.items():
        names = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
        found[title] = {
            n: status_of(n, x)
            for n, x in names.items()
            if (callable(x) or (module is np and n in BRACKETS)) and not inspect.ismodule(x)
        }
    found["ndarray"] = {n: method_status(n) for n in dir(np.ndarray) if not n.startswith("_")}
    found["operators"] = {
        n: next((s for s, names in OPERATORS.items() if n in names), UNKNOWN) for n in dir(np.ndarray) if is_operator(n)
    }
    return found


# -- batches -----------------------------------------------------------------------------------------------------------

ALL, SOME = "loop", "partly"  # how many of the ways of calling a function are run once per entry


@functools.cache
def loops():
    """Return which functions `vmap` runs once per entry: ``{function: ALL or SOME}``, found by running their samples.

    Each is run on a batch of two entries, as it is and under `grad` if it is differentiated.
    """
    ways = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for s in [*all_samples(), *constant_samples()]:
            if not s.error and takes_floats(s):
                found = runs_as_loop(s)
                for fun in (f for f in s.tests if f is not None):
                    ways.setdefault(fun, []).append(found)
    return {fun: ALL if all(found) else SOME for fun, found in ways.items() if any(found)}


def takes_floats(sample):
    """Tell whether a function takes the floats of its sample; those of bits and dates do not."""
    try:
        sample.function()(*sample.operands("float64"))
    except TypeError:
        return False
    return sample.accepts("float64")


def runs_as_loop(sample):
    """Tell whether a sample, or its gradient, is run once per entry of a batch."""
    f, operands = sample.function(), sample.operands("float64")
    batches = [np.stack([x, np.multiply(x, 1.01)]) for x in operands]

    def total(*xs):
        y = f(*xs)
        parts = y if isinstance(y, tuple | list) else (y,)
        return sum(np.sum(np.real(v)) for v in parts if getattr(v, "dtype", np.dtype(float)).kind in "fc")

    if vmap(f).loops(*batches):
        return True
    constant = getattr(RULES.get(sample.fun), "kind", None) == "constant"
    return not constant and bool(vmap(grad(total, argnums=tuple(range(len(batches))))).loops(*batches))


def marked(title, name):
    """Return a name of one of the namespaces as a code word, with a mark if it is run once per entry of a batch."""
    if title == "ndarray":
        fun = METHODS.get(name)
    else:
        fun = getattr(NAMESPACES[title], name) if title in NAMESPACES else None
    mark = loops().get(fun) if fun.__class__.__hash__ else None
    return f"`{name}` ({mark})" if mark else f"`{name}`"


# -- the page ----------------------------------------------------------------------------------------------------------

_HEAD = """\
# Supported functions

Every public name of NumPy {version}, with what chainrule does with it. This page is written by
`python -m chainrule.testing.supported` from the registry of rules; a test keeps it up to date, and fails on a name
without a status.

`cr.vmap` runs them at once on all entries of a batch, but for those marked *(loop)*, which it calls once per entry,
themselves or in their gradient. *(partly)* means that some ways of calling them (an axis, a method, a mask) run so. The
marks are found by running the samples of each function; [`vmap(f).loops`](transforms.md#many-runs-at-once-vmap) tells
it of a function of your own.

What of it raises says so, with what to write instead: see [the errors](errors.md) and [the limits](limits.md).
"""

_TAIL = """\
## Not walked

`numpy.polynomial` keeps plain coefficients: its functions of a traced point work (`chebval(x, c)`), those of traced
coefficients raise. `numpy.random` draws from plain parameters, and raises for traced ones. `numpy.ma`, `numpy.char`,
`numpy.strings` and `numpy.rec` are about other kinds of arrays.
"""


def counts(found):
    """Return the table of counts: a row per namespace, a column per status."""
    lines = ["| | " + " | ".join(STATUSES) + " |", "|---|" + "--:|" * len(STATUSES)]
    for title, names in found.items():
        numbers = [sum(s == status for s in names.values()) for status in STATUSES]
        lines.append(f"| {title} | " + " | ".join(str(n) if n else "" for n in numbers) + " |")
    return lines


def wrapped(words, width=130):
    """Return words as lines, with commas."""
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) + 2 > width:
            lines.append(line + ",")
            line = ""
        line += (", " if line else "") + word
    return [*lines, line]


def page():
    """Return the page of supported functions."""
    found = survey()
    lines = [_HEAD.format(version=".".join(np.__version__.split(".")[:2])), *counts(found), ""]
    lines += [f"* **{status}**: {text}." for status, text in STATUSES.items()]
    for title, names in found.items():
        lines += ["", f"## {title}"]
        for status in STATUSES:
            chosen = [n for n, s in names.items() if s == status]
            if not chosen or status == OTHER:
                continue
            if status == UNSUPPORTED_:
                lines += ["", f"**{status}**", "", *[reason(n) for n in sorted(chosen)]]
            else:
                lines += ["", f"**{status}** ({len(chosen)})", "", *wrapped([marked(title, n) for n in sorted(chosen)])]
    return "\n".join(lines) + "\n\n" + _TAIL


def reason(name):
    """Return the line of an unsupported name: why, and what to write instead."""
    if name in METHODS_REFUSED:
        return f"* `{name}`: use `{METHODS_REFUSED[name]}`."
    if name not in WITHOUT_DISPATCH:
        return f"* `{name}`: {getattr(Boxed, name).__doc__.removeprefix('Refuse: ')}"
    why, *instead = WITHOUT_DISPATCH[name]
    return f"* `{name}` {why}: " + " ".join(instead)


if __name__ == "__main__":
    print(page(), end="")
