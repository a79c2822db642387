"""Derivatives of einsum.

A call is brought to simple steps. Within one operand, repeated indices are a diagonal, and an index that stands nowhere
else is a sum: both are functions with rules of their own. What is left is a chain of products of two operands, in which
each index of an operand stands also in the other or in the result; then the adjoint is again such a product, of the
cotangent with the other operand.
"""

import functools

import numpy as np

from chainrule.engine.rule import bilinear, composite, gather
from chainrule.engine.spec import cast_to, primitive, shape_of
from chainrule.errors import OutArgumentError, UnsupportedArgumentError

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
BLAS_FROM = 4096  # entries of the larger operand from which the detour to a matrix product pays


@primitive
def einsum2(a, b, subscripts):
    """Return ``np.einsum(subscripts, a, b)``; each index of an operand is also in the other or in the result."""
    return np.einsum(subscripts, a, b, optimize=max(np.size(a), np.size(b)) >= BLAS_FROM)


def _split(subscripts):
    operands, out = subscripts.split("->")
    a, b = operands.split(",")
    return a, b, out


def einsum2_abar(ybar, y, a, b, subscripts=None):
    """Contract the cotangent with b over what a lacks."""
    a, second, out = _split(subscripts)
    return einsum2(ybar, b, f"{out},{second}->{a}")


def einsum2_bbar(ybar, y, a, b, subscripts=None):
    """Contract the cotangent with a over what b lacks."""
    first, b, out = _split(subscripts)
    return einsum2(ybar, a, f"{out},{first}->{b}")


bilinear(einsum2, einsum2_abar, einsum2_bbar)


@primitive
def diagonals(x, subscripts):
    """Return ``np.einsum("ii->i", x)`` and its like: a view, which may be written to."""
    return np.einsum(subscripts, x)


gather(diagonals)


# -- reading the call --------------------------------------------------------------------------------------------------


def read(operands):
    """Return the arrays, a list of indices for each, and those of the result, None if not given (... for Ellipsis)."""
    if isinstance(operands[0], str):
        subscripts, *arrays = operands
        left, arrow, right = subscripts.replace(" ", "").partition("->")
        labels = [_letters(part) for part in left.split(",")]
        out = _letters(right) if arrow else None
    else:
        operands = list(operands)
        out = list(operands.pop()) if len(operands) % 2 else None
        arrays, labels = operands[::2], [list(part) for part in operands[1::2]]
    if len(labels) != len(arrays):
        raise ValueError(f"einsum: {len(labels)} terms of indices were given for {len(arrays)} operands")
    return [x if hasattr(x, "reshape") else np.asarray(x) for x in arrays], labels, out


def _letters(term):
    before, dots, after = term.partition("...")
    for c in before + after:
        if c not in LETTERS:
            raise ValueError(f"einsum: invalid subscript '{c}' in '{term}': only letters, '...' and '->' are valid")
    return [*before, ..., *after] if dots else list(before)


def explicit(arrays, labels, out):
    """Return the indices with the axes of each ellipsis spelled out, from the right, and the result's order decided."""
    most = 0
    spelled = []
    for x, term in zip(arrays, labels, strict=True):
        extra = x.ndim - (len(term) - (... in term))
        if extra < 0 or (extra and ... not in term):
            raise ValueError(f"einsum: an operand of {x.ndim} axes does not fit its {len(term)} indices")
        most = max(most, extra)
        dots = [("...", k) for k in range(extra, 0, -1)]
        spelled.append([j for i in term for j in (dots if i is ... else [i])])
    dots = [("...", k) for k in range(most, 0, -1)]
    if out is None:
        names = [i for term in labels for i in term if i is not ...]
        out = [*dots, *sorted(i for i in set(names) if names.count(i) == 1)]
    else:
        if dots and ... not in out:
            raise ValueError("einsum: the result lacks the ellipsis that the operands have")
        out = [j for i in out for j in (dots if i is ... else [i])]
    if len(set(out)) < len(out):
        raise ValueError("einsum: an index stands twice in the result")
    return spelled, out


# -- one operand -------------------------------------------------------------------------------------------------------


def simplified(x, term, needed, sizes):
    """Take the diagonals of repeated indices, drop axes of length 1 that broadcast, sum what no other term has."""
    names = list(dict.fromkeys(term))
    if len(names) < len(term):
        if any(n != sizes[i] for n, i in zip(x.shape, term, strict=True)):
            raise ValueError("einsum: the axes of a repeated index differ in length")
        x = diagonals(x, subscripts=spell([term], names))
        term = names
    wide = [k for k, i in enumerate(term) if x.shape[k] == 1 != sizes[i]]
    if wide:
        x = x.reshape([n for k, n in enumerate(x.shape) if k not in wide])
        term = [i for k, i in enumerate(term) if k not in wide]
    alone = tuple(k for k, i in enumerate(term) if i not in needed)
    if alone:
        x = np.sum(x, axis=alone)
        term = [i for i in term if i in needed]
    return x, term


def ordered(x, term, out):
    """Bring the axes into the order of the result."""
    order = [term.index(i) for i in out]
    return x if order == list(range(len(order))) else np.transpose(x, order)


@functools.lru_cache(512)
def path(subscripts, shapes, optimize):
    """Return NumPy's order of contractions: tuples of positions, the result of each going to the end of the list."""
    dummies = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    return tuple(tuple(step) for step in np.einsum_path(subscripts, *dummies, optimize=optimize)[0][1:])


def spell(terms, out):
    """Write terms of any indices with letters."""
    letter = {i: LETTERS[k] for k, i in enumerate(dict.fromkeys(i for term in terms for i in term))}
    return ",".join("".join(letter[i] for i in term) for term in terms) + "->" + "".join(letter[i] for i in out)


@functools.lru_cache(512)
def plain_product(subscripts, shape_a, shape_b):
    """Return the subscripts of a product of two operands with nothing to simplify, all spelled out; None for others."""
    if "." in subscripts or subscripts.count(",") != 1:
        return None
    dummies = [np.broadcast_to(np.float64(0), shape) for shape in (shape_a, shape_b)]
    (a, b), out = explicit(dummies, *read((subscripts, *dummies))[1:])
    sizes = dict(zip(a + b, shape_a + shape_b, strict=True))
    simple = len(set(a)) == len(a) and len(set(b)) == len(b) and all(i in b or i in out for i in a)
    simple = simple and all(i in a or i in out for i in b) and set(out) <= set(sizes)
    if not simple or any(sizes[i] != n for i, n in zip(a, shape_a, strict=True)):
        return None
    return f"{''.join(a)},{''.join(b)}->{''.join(out)}"


@composite(np.einsum)
def einsum(*operands, out=None, optimize=False, dtype=None, order="K", casting="safe"):
    """Contract two at a time."""
    if out is not None:
        raise OutArgumentError("numpy.einsum")
    for name, given, default in (("order", order, "K"), ("casting", casting, "safe")):
        if given != default:
            raise UnsupportedArgumentError("numpy.einsum", name, "is not supported with traced values")
    if len(operands) == 3 and isinstance(operands[0], str) and dtype is None:
        subscripts = plain_product(operands[0], shape_of(operands[1]), shape_of(operands[2]))
        if subscripts is not None:
            return einsum2(operands[1], operands[2], subscripts)
    arrays, labels, result = read(operands)
    terms, result = explicit(arrays, labels, result)
    if dtype is not None:
        arrays = [x if x.dtype == dtype else cast_to(x, np.dtype(dtype)) for x in arrays]
    sizes = {}
    for x, term in zip(arrays, terms, strict=True):
        for i, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(i, n) != n:
                if 1 not in (n, sizes[i]):
                    raise ValueError(f"einsum: index {i!r} stands for axes of length {sizes[i]} and {n}")
                sizes[i] = sizes[i] if n == 1 else n
    for i in result:
        if i not in sizes:
            raise ValueError(f"einsum: index {i!r} of the result stands in no operand")
    work = []
    for k, (x, term) in enumerate(zip(arrays, terms, strict=True)):
        needed = {i for j, other in enumerate(terms) if j != k for i in other} | set(result)
        work.append(simplified(x, term, needed, sizes))
    if len(work) > 2:
        how = (
            tuple(tuple(s) if isinstance(s, list) else s for s in optimize) if isinstance(optimize, list) else optimize
        )
        if how is False or how is True:
            how = "greedy"
        subscripts = spell([t for _, t in work], result)
        shapes = tuple(x.shape for x, _ in work)
        steps = path(subscripts, shapes, how) if isinstance(how, str) else how[1:]
    else:
        steps = (tuple(range(len(work))),)
    for step in steps:
        taken = [work.pop(i) for i in sorted(step, reverse=True)][::-1]
        left = {i for _, term in work for i in term} | set(result)
        work.append(contracted(taken, left, result, sizes))
    (y, term), = work  # fmt: skip
    return ordered(y, term, result)


def contracted(taken, left, result, sizes):
    """Multiply the operands taken, two at a time, keeping the indices that are left to do."""
    y, term = taken[0]
    for k, (x, other) in enumerate(taken[1:], 2):
        needed = left | {i for _, later in taken[k:] for i in later}
        y, term = simplified(y, term, needed | set(other), sizes)
        x, other = simplified(x, other, needed | set(term), sizes)
        both = dict.fromkeys([*term, *other])
        new = [i for i in result if i in both] + [i for i in both if i in needed and i not in result]
        y = einsum2(y, x, spell([term, other], new))
        term = new
    return y, term
