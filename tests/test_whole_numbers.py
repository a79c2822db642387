"""Whole numbers and masks that a function makes of its values, and on which shapes, positions, keys and text depend.

A program stands for those of one run. At other points it must be another path, in `compile`, or refuse, in `flat`.
"""

import warnings

import numpy as np
import pytest

import chainrule as cr

POINTS = [
    np.array(p) for p in ([0.5, -1.0, 1.2], [-1.2, 1.0, -0.5], [3.0, 4.0, 5.0], [-1.0, -2.0, -3.0], [2.0, 2.0, 1.0])
]


def positive(x):
    return (x > 0).astype(int)


def added_at(x):
    y = np.zeros(2, like=x)
    np.add.at(y, positive(x), x)
    return y


CASES = {
    "bincount": lambda x: len(np.bincount(positive(x))) * x,
    "bincountw": lambda x: np.mean(np.bincount(positive(x), weights=x)),
    "extract2": lambda x: np.extract(x > 0, np.arange(3)).size * x,
    "compress": lambda x: np.compress(x > 0, np.arange(3)).size * x,
    "ix": lambda x: np.arange(3)[x > 0].size * x,
    "setdiff": lambda x: np.setdiff1d(positive(x), [1]).size * x,
    "union": lambda x: np.union1d(positive(x), [1]).size * x,
    "setxor": lambda x: np.setxor1d(positive(x), [1, 0]).size * x,
    "inter": lambda x: np.intersect1d(positive(x), [1]).size * x,
    "unique": lambda x: np.unique(positive(x)).size * x,
    "uniquec": lambda x: np.unique(positive(x), return_counts=True)[1].size * x,
    "repeat": lambda x: np.repeat(np.arange(3), positive(x)).size * x,
    "repeatx": lambda x: np.mean(np.repeat(x, positive(x) + 1)),
    "trim": lambda x: np.trim_zeros(positive(x)).size * x,
    "delete": lambda x: np.delete(np.arange(3), np.nonzero(positive(x))[0]).size * x,
    "deletem": lambda x: np.delete(np.arange(3), x > 0).size * x,
    "deletex": lambda x: np.mean(np.delete(x, np.argmax(x)) * np.arange(2.0)),
    "insert": lambda x: np.insert(np.arange(3), np.argmax(x), 7).size * x,
    "zeros": lambda x: np.zeros(np.argmax(x) + 1).size * x,
    "full": lambda x: np.full(int(np.argmax(x)) + 1, 2.0).sum() * x,
    "eye": lambda x: np.eye(np.argmax(x) + 1).size * x,
    "linspace": lambda x: np.linspace(0, 1, np.argmax(x) + 2).sum() * x,
    "tile": lambda x: np.tile(np.arange(3), np.argmax(x) + 1).sum() * x,
    "tilex": lambda x: np.tile(x, np.argmax(x) + 1).sum(),
    "broadcast": lambda x: np.broadcast_to(1.0, (np.argmax(x) + 1,)).sum() * x,
    "pad": lambda x: np.pad(np.arange(3), np.argmax(x)).size * x,
    "split": lambda x: len(np.array_split(np.arange(6), np.argmax(x) + 1)) * x,
    "splitx": lambda x: np.split(x, [np.argmax(x)])[0].sum(),
    "roll": lambda x: np.roll(x, np.argmax(x)) * x,
    "rot": lambda x: np.rot90(np.outer(x, x * 2), np.argmax(x)),
    "range": lambda x: sum(x[i] * i for i in range(np.argmax(x) + 1)),
    "slice": lambda x: x[: np.argmax(x) + 1].sum(),
    "slice2": lambda x: x[np.argmax(x) :].mean(),
    "neg": lambda x: x[-np.argmax(x) :].mean(),
    "where1": lambda x: np.where(x > 0)[0].size * x,
    "where1b": lambda x: len(np.where(x > 0)[0]) * x,
    "nz": lambda x: (x > 0).nonzero()[0].size * x,
    "argw": lambda x: np.argwhere(x > 0).size * x,
    "hist": lambda x: np.histogram(x, bins="auto")[0].size * x,
    "hbe": lambda x: np.histogram_bin_edges(x, bins="auto").size * x,
    "shape": lambda x: np.reshape(np.arange(6), (-1, np.argmax(x) + 1)).shape[0] * x,
    "diag": lambda x: np.diag(np.arange(3), np.argmax(x)).size * x,
    "diagx": lambda x: np.diagonal(np.outer(x, x), np.argmax(x)).sum(),
    "trace": lambda x: np.trace(np.outer(x, x), np.argmax(x)),
    "triux": lambda x: np.triu(np.outer(x, x), np.argmax(x)),
    "power": lambda x: x ** np.argmax(x),
    "matpow": lambda x: np.linalg.matrix_power(np.outer(x, x), np.argmax(x)),
    "diff": lambda x: np.diff(x, np.argmax(x)).sum(),
    "fftn": lambda x: np.abs(np.fft.fft(x, np.argmax(x) + 1)).sum(),
    "partition": lambda x: np.partition(x, np.argmax(x)),
    "take": lambda x: np.take(x, np.argmax(x)) * x,
    "axis": lambda x: np.outer(x, x * x).sum(axis=int(np.argmax(x) > 0)),
    "axis2": lambda x: np.outer(x, x * x).sum(axis=np.argmax(x) // 2),
    "moveaxis": lambda x: np.moveaxis(np.outer(x, x * x), 0, np.argmax(x) // 2),
    "packbits": lambda x: np.packbits(x > 0).sum() * x,
    "lenu": lambda x: len(set(positive(x))) * x,
    "sortedk": lambda x: sorted(positive(x))[0] * x,
    "choose": lambda x: np.choose(positive(x), [x, x * 2]),
    "str": lambda x: x * len(str(np.argmax(x) * 10)),
    "fmt": lambda x: x * len(f"{np.argmax(x) * 10}"),
    "dictkey": lambda x: {0: x, 1: x * 2, 2: x * 3}[np.argmax(x)],
    "listidx": lambda x: [x, x * 2, x * 3][np.argmax(x)],
    "dictint": lambda x: {0: x, 1: x * 2, 2: x * 3}[int(np.argmax(x))],
    "lexsort": lambda x: x[np.lexsort((x, positive(x)))],
    "isin": lambda x: x[np.isin(positive(x), [1])].sum(),
    "ravelmi": lambda x: np.ravel_multi_index((np.argmax(x), 0), (3, 2)) * x,
    "unravel": lambda x: np.unravel_index(np.argmax(x), (3, 1))[0] * x,
    "unravel2": lambda x: np.outer(x, x)[np.unravel_index(np.argmax(np.outer(x, x)), (3, 3))],
    "cond": lambda x: np.linalg.matrix_rank(np.outer(x, x)) * x,
    "mr": lambda x: (x * 2) if np.linalg.matrix_rank(np.diag(x)) == 3 else x,
    "divmod": lambda x: divmod(np.argmax(x), 2)[1] * x,
    "bitw": lambda x: (np.argmax(x) & 1) * x + (np.argmax(x) << 1) * x,
    "float": lambda x: x * float(np.argmax(x)),
    "itemi": lambda x: x * np.argmax(x).item(),
    "ptpk": lambda x: np.ptp(positive(x)) * x,
    "sumw": lambda x: np.sum(x, where=x > 0),
    "maxw": lambda x: np.max(x, where=x > 0, initial=-9.0),
    "percent": lambda x: np.percentile(x, np.argmax(x) * 10),
    "accum": lambda x: np.add.reduceat(x, [0, np.argmax(x)]),
    "addat": added_at,
}


def found(f, x):
    """Return what a function gives, or the class of what it raises."""
    try:
        return f(x)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_compiled(name, backend):
    f = CASES[name]
    slope = cr.grad(lambda x: np.sum(f(x) ** 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", cr.errors.CompileWarning)
        for g in (f, slope):
            compiled = cr.compile(g, backend=backend)
            for x in (*POINTS, *POINTS[:2]):
                same(found(compiled, x), found(g, x))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_written(name):
    f = CASES[name]
    for g in (f, cr.grad(lambda x: np.sum(f(x) ** 2))):
        source = cr.flat(g)(POINTS[0]).function
        same(source(POINTS[0]), g(POINTS[0]))
        for x in POINTS[1:]:
            try:
                y = source(x)
            except ValueError as error:
                assert "this was written for" in str(error)
            else:
                same(y, found(g, x))


def same(y, expected):
    """Compare results, or classes of errors."""
    if isinstance(expected, type):
        assert y is expected
    else:
        np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
