"""Functions of sets of values: what they return are elements of their arguments, read at the places NumPy finds.

An element that occurs several times is read at its first occurrence, which receives the cotangent. Indices, counts and
memberships have no derivative.
"""

import numpy as np

from chainrule.engine.boxed import value
from chainrule.engine.indexing import getitem
from chainrule.engine.rule import composite, constant
from chainrule.rules.differences import as_array


def read_unique(x, result, equal_nan):
    """Read the elements `result`, distinct entries of `x` in any order, at their first places in the flat `x`."""
    plain = value(x).reshape(-1)
    _, first = np.unique(plain, return_index=True, equal_nan=equal_nan)
    rank = np.argsort(np.argsort(result, kind="stable"))  # of each element among them
    return np.ravel(x)[getitem(first, rank)]


@composite(np.unique)
def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, **options):
    """Read each distinct element, or slice along an axis, once."""
    x = as_array(ar)
    found = np.unique(value(x), True, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    first, rest = found[1], found[2:]
    y = np.ravel(x)[first] if axis is None else np.take(x, first, axis)
    extra = ((first,) if return_index else ()) + tuple(rest)
    return (y, *extra) if extra else y


def _by_value(fun):
    def call(x, /):
        x = as_array(x)
        found = fun(value(x))
        y = read_unique(x, getattr(found, "values", found), equal_nan=False)
        return found._replace(values=y) if hasattr(found, "values") else y

    call.__name__ = call.__qualname__ = fun.__name__
    call.__doc__ = "Read each distinct element once, in NumPy's order."
    composite(fun)(call)


for _fun in (np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all):
    _by_value(_fun)


@composite(np.union1d)
def union1d(ar1, ar2):
    """Read each element of either once; an element of both is that of the first."""
    return np.unique(np.concatenate((as_array(ar1), as_array(ar2)), axis=None))


@composite(np.intersect1d)
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    """Read the elements of both in the first."""
    a, b = as_array(ar1), as_array(ar2)
    _, first, second = np.intersect1d(value(a), value(b), assume_unique, return_indices=True)
    y = np.ravel(a)[first]
    dtype = np.result_type(a.dtype, b.dtype)
    y = y if y.dtype == dtype else y.astype(dtype)
    return (y, first, second) if return_indices else y


@composite(np.setdiff1d)
def setdiff1d(ar1, ar2, assume_unique=False):
    """Read the elements of the first that are not in the second."""
    a = np.ravel(as_array(ar1)) if assume_unique else np.unique(as_array(ar1))
    return a[np.isin(value(a), value(as_array(ar2)), invert=True)]


@composite(np.setxor1d)
def setxor1d(ar1, ar2, assume_unique=False):
    """Read the elements of one of the two, but not of both."""
    parts = [np.ravel(as_array(a)) if assume_unique else np.unique(as_array(a)) for a in (ar1, ar2)]
    joint = np.sort(np.concatenate(parts))
    plain = value(joint)
    if not plain.size:
        return joint
    differs = np.concatenate(([True], plain[1:] != plain[:-1], [True]))
    return joint[differs[1:] & differs[:-1]]


constant(np.isin)
if hasattr(np, "in1d"):  # NumPy before 2.4
    constant(np.in1d)
