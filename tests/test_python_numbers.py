"""Python's own numbers, which have no dtype: a float has a real gradient, a complex number a complex one."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import UnsupportedArgumentError
from chainrule.program.ir import interpret
from chainrule.rules.choices import CLIP
from chainrule.testing.samples import all_samples

THROUGH_COMPLEX = [
    (lambda x: np.abs(x * 1j + 2) ** 2, lambda x: 2 * x),
    (lambda x: np.real(1j * x * 1j), lambda x: -1.0),
    (lambda x: np.abs(np.exp(1j * x) + 1) ** 2, lambda x: -2 * np.sin(x)),
    (lambda x: np.imag((x + 2j) ** 2), lambda x: 4.0),
]


@pytest.mark.parametrize(("f", "derivative"), THROUGH_COMPLEX)
def test_gradient_in_a_float_is_a_float_also_through_complex_numbers(f, derivative):
    g = cr.grad(f)(0.5)
    assert type(g) is float
    assert g == pytest.approx(derivative(0.5), rel=1e-14)
    assert cr.jvp(f, (0.5,), (1.0,))[1] == pytest.approx(g, rel=1e-14)


def test_gradient_in_a_complex_number_is_one():
    g = cr.grad(lambda z: np.real(z) ** 2)(1 + 2j)
    assert type(g) is complex
    assert g == 2
    assert cr.grad(lambda z: np.imag(z) ** 2)(1 + 2j) == -4j  # df/dx - i df/dy


def beside_float32():
    """Yield ufuncs of several operands with one as a number and the others as arrays of float32, and the other way."""
    seen = set()
    for sample in all_samples():
        fun, given = sample.fun, sample.operands()
        if not isinstance(fun, np.ufunc) or fun.signature or fun.nout > 1 or sample.error or sample.kwargs:
            continue
        if len(given) != fun.nin or len(given) < 2 or fun in seen or not all(map(np.size, given)) or fun is CLIP:
            continue
        seen.add(fun)
        numbers = [float(np.ravel(x)[0]) for x in given]
        for k in range(fun.nin):
            for some in ({k}, set(range(fun.nin)) - {k}):
                yield fun, [np.full(3, x, np.float32) if i in some else x for i, x in enumerate(numbers)]


@pytest.mark.parametrize(("fun", "xs"), list(beside_float32()))
def test_derivatives_of_numbers_beside_single_precision_have_the_dtypes_of_their_primals(fun, xs):
    with np.errstate(all="ignore"):
        y = fun(*xs)
        for i, x in enumerate(xs):

            def f(v, i=i):
                return fun(*xs[:i], v, *xs[i + 1 :])

            try:
                bar = cr.grad(lambda v: np.sum(f(v)))(x)
            except UnsupportedArgumentError:  # in a parameter without a derivative
                continue
            assert getattr(bar, "dtype", type(bar)) == getattr(x, "dtype", float)
            assert cr.jvp(f, (x,), (np.ones_like(x)[()] if np.ndim(x) else 1.0,))[1].dtype == y.dtype


@pytest.mark.parametrize(("fun", "xs"), list(beside_float32()))
def test_programs_of_numbers_beside_single_precision_have_these_dtypes_too(fun, xs):
    with np.errstate(all="ignore"):
        try:
            program = cr.record(cr.grad(lambda *vs: np.sum(fun(*vs)), tuple(range(len(xs)))))(*xs)
        except UnsupportedArgumentError:
            return
        for bar, x in zip(interpret(program, xs), xs, strict=True):
            assert getattr(bar, "dtype", type(bar)) == getattr(x, "dtype", float)


@pytest.mark.parametrize("call", [lambda f: f, cr.compile, lambda f: lambda z: cr.jvp(f, (z,), (1 + 0j,))[0]])
def test_the_conjugate_of_a_number_is_weak_as_the_number_is(call):
    f = call(lambda z: (z.conjugate() * np.complex64(1 + 1j), z.conjugate()))
    for _ in range(2):
        product, conjugate = f(1 + 2j)
        assert (type(product), product) == (np.complex64, 3 - 1j)
        assert (type(conjugate), conjugate) == (complex, 1 - 2j)
    assert cr.grad(lambda z: (z.conjugate() * z).real)(1 + 2j) == 2 - 4j
