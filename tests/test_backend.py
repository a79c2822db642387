"""The back end against the interpreter: the same numbers of the same types, in memory that nothing else holds."""


import numpy as np
import pytest

import chainrule as cr
from chainrule.program.backend import build
from chainrule.program.ir import interpret
from chainrule.program.passes import optimise
from chainrule.program.record import record
from chainrule.testing.samples import all_samples

SAMPLES = [s for s in all_samples() if not s.error]
LOOSE = {"float16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


def arrays_in(values):
    """Return the arrays among values."""
    return [v for v in values if isinstance(v, np.ndarray)]


def same(program, points, rtol=1e-12, times=3):
    """Run a program with memory poisoned between its uses, and compare each run with the interpreter's."""
    run = build(program, poison=True)
    with np.errstate(all="ignore"):
        expected = interpret(program, points)
    before = [np.array(p) for p in points]
    held = []
    for _ in range(times):
        found = run(points)
        compare(found, expected, rtol)
        kept = arrays_in(found)
        for k, y in enumerate(kept):
            assert y.flags.writeable
            others = [*held, *kept[:k], *arrays_in(points), *program.constants.values()]
            assert not any(np.may_share_memory(y, z) for z in others if z.size)
        for y in kept:  # what the caller does to a result is seen by no later call
            y[...] = 0
        held += kept
    for a, b in zip(points, before, strict=True):
        np.testing.assert_array_equal(a, b)
    return run


def compare(found, expected, rtol):
    """Compare outputs: types, shapes, dtypes and numbers."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert np.shape(a) == np.shape(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        b = np.asarray(b)
        if b.dtype.kind in "fc":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale))
        else:
            np.testing.assert_array_equal(a, b)


def total(y):
    """Return a real number that depends on all parts of a result."""
    if isinstance(y, tuple | list):
        return sum([total(v) for v in y])
    kind = np.dtype(getattr(y, "dtype", type(y))).kind
    if kind not in "fc":
        return 0.0
    return np.sum(np.real(y) * 1.25) + (np.sum(np.imag(y)) if kind == "c" else 0.0)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_and_their_gradients(sample):
    f = sample.function()
    for dtype in ("float64", "float32", "complex128"):
        if not sample.accepts(dtype):
            continue
        points = sample.operands(dtype)
        rtol = LOOSE.get(dtype, 1e-12) * max(sample.looseness, 1)
        where = tuple(range(len(points)))
        for g in (f, cr.grad(lambda *xs: total(f(*xs)), argnums=where)):
            program = record(g)(*points)
            same(program, points, rtol, times=2)
            same(optimise(program), points, rtol, times=1)
