"""Functions without a derivative rule that will not get one: why, and what to write instead. Their errors say so.

`FILES` and `INTEGERS` are functions that NumPy hands to us. Those of `WITHOUT_DISPATCH` it does not: they ask a traced
value for a plain one, and the error of that is given the advice of the name that asked.
"""

import functools

import numpy as np

from chainrule.engine.boxed import ADVICE
from chainrule.engine.rule import unsupported
from chainrule.rules.mirrored import scipy_advice

_INTEGERS = "takes whole numbers, bools or dates only, which carry no derivative"
_PLAIN = "take the plain value:  chainrule.value(x)."

FILES = (np.save, np.savez, np.savez_compressed, np.savetxt)
INTEGERS = (
    np.packbits, np.unpackbits, np.ravel_multi_index, np.unravel_index,
    np.is_busday, np.busday_count, np.busday_offset, np.datetime_as_string,
)  # fmt: skip

# name -> why, what to write instead
WITHOUT_DISPATCH = {
    # refused for good
    "as_strided": (
        "reads memory by addresses, past what is traced",
        "use np.lib.stride_tricks.sliding_window_view, slices or np.take.",
    ),
    "nditer": (
        "hands out pieces of memory, past what is traced",
        "write a loop:  for i in np.ndindex(x.shape): ... x[i] ...;",
        "use np.ndenumerate or np.broadcast of chainrule.numpy.",
    ),
    "nested_iters": ("hands out pieces of memory, past what is traced", "write loops over np.ndindex(...)."),
    "frompyfunc": (
        "gives arrays of Python objects, which have no derivative rules",
        "use chainrule.numpy.vectorize(f);",
        "write f with NumPy's functions, of whole arrays.",
    ),
    "matrix": ("changes the meaning of * and of shapes", "use plain arrays and @."),
    "asmatrix": ("changes the meaning of * and of shapes", "use plain arrays and @."),
    "bmat": ("changes the meaning of * and of shapes", "use np.block, and plain arrays and @."),
    "memmap": ("is an array in a file", _PLAIN),
    "from_dlpack": ("reads memory, past what is traced", _PLAIN),
    # chainrule.numpy has them
    "AxisConcatenator": ("builds a plain array", "use np.concatenate;", "use chainrule.numpy.r_ or c_."),
    "nd_grid": ("builds a plain array", "use np.meshgrid and np.linspace;", "use chainrule.numpy.mgrid, ogrid."),
    "vectorize": (
        "puts the results into a plain array",
        "use chainrule.numpy.vectorize(f);",
        "write f with NumPy's functions, of whole arrays.",
    ),
    "apply_along_axis": ("puts the results into a plain array", "use chainrule.numpy.apply_along_axis."),
    "apply_over_axes": ("takes a plain array", "use chainrule.numpy.apply_over_axes."),
    "piecewise": ("puts the results into a plain array", "use np.where;", "use chainrule.numpy.piecewise."),
    "fromiter": ("builds a plain array", "use np.array(list(...), like=x);", "use chainrule.numpy.fromiter."),
    "asarray_chkfinite": ("makes a plain array", "use chainrule.numpy.asarray_chkfinite."),
    "ndenumerate": (
        "takes a plain array",
        "use chainrule.numpy.ndenumerate;",
        "write a loop over np.ndindex(x.shape).",
    ),
    "broadcast": ("takes plain arrays", "use np.broadcast_arrays;", "use chainrule.numpy.broadcast."),
    "kaiser": ("takes plain numbers", "use chainrule.numpy.kaiser."),
    "isscalar": ("looks at the type", "use chainrule.numpy.isscalar."),
    # other entries
    "arange": ("makes a plain array", "use np.arange(..., like=x), whose values follow start and step."),
    "ascontiguousarray": ("makes a plain array", "leave it out: how a traced value lies in memory is NumPy's affair."),
    "asfortranarray": ("makes a plain array", "leave it out: how a traced value lies in memory is NumPy's affair."),
    "poly1d": (
        "keeps a plain array here",
        "use functions of the coefficients, such as np.polydiv(p.coeffs, q.coeffs).",
    ),
    "polynomial": (
        "keeps plain coefficients",
        "multiply by the values of the basis:  np.polynomial.chebyshev.chebvander(t, n) @ c;",
        "evaluate power series by np.polyval, which differentiates in both.",
    ),
}

# methods that do not ask us when called of a plain array with a traced argument: the functions do
OF_PLAIN_ARRAYS = frozenset({"choose", "dot", "searchsorted"})
_DRAWING = (
    "draw apart from the parameters:  x + s * rng.normal(size=...);",
    "put uniform numbers into the inverse of the distribution:  -x * np.log1p(-rng.random(size=...));",
    "if the numbers drawn are meant to be constants:  chainrule.value(x) as the parameter;",
    "to choose, shuffle or permute, draw indices:  x[rng.permutation(len(x))].",
)


@functools.cache
def drawing_functions():
    """Return the names of the functions that draw random numbers; `np.random` is loaded only when they are needed."""
    kinds = np.random.Generator, np.random.RandomState
    return {n for kind in kinds for n in dir(kind) if not n.startswith("_")} - {"bytes", "bit_generator"}


def advice(module, path, adopt):
    """Return what asks for a plain value, and what to write instead, or None for what is not listed.

    `path` is the name of a function called, as its caller wrote it, in parts; `adopt` a line of advice.
    """
    if not path:
        return None
    if module.startswith("scipy."):
        return scipy_advice(module, path[-1], adopt)
    if module.startswith("numpy.polynomial"):
        return "numpy.polynomial", WITHOUT_DISPATCH["polynomial"][1:]
    if not module and len(path) > 1 and path[-1] in drawing_functions() and path[0] != "math":
        return ".".join(path), _DRAWING
    if not module and len(path) > 1 and path[-1] in OF_PLAIN_ARRAYS:
        name = path[-1]
        return f"the method {name!r} of a plain array", (
            f"use the function, which is handed to us:  np.{name}(a, ...).",
        )
    if path[-1] in WITHOUT_DISPATCH and (module or path[0] != "math"):
        name = {"AxisConcatenator": "r_ or numpy.c_", "nd_grid": "mgrid or numpy.ogrid"}.get(path[-1], path[-1])
        return f"numpy.{name}", WITHOUT_DISPATCH[path[-1]][1:]
    return None


for _name in ("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"):
    WITHOUT_DISPATCH[_name] = ("makes a plain number", f"use  x.astype(np.{_name}),  or leave it out;", _PLAIN)
for _fun in FILES:
    unsupported(_fun, "writes a file, which keeps plain values only", _PLAIN)
for _fun in INTEGERS:
    unsupported(_fun, _INTEGERS, "take a plain value of that kind:  chainrule.value(x).astype(int).", whole=True)
unsupported("numpy.frompyfunc", *WITHOUT_DISPATCH["frompyfunc"])
ADVICE[0] = advice
