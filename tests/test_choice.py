"""Which back end runs a compiled function: NumPy first, machine code for what runs long enough, or as one says."""

import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import CompileWarning
from chainrule.program import choice as choices

llvmlite = pytest.importorskip("llvmlite")


def f(x):
    return np.sum(np.sin(x) * np.exp(-x) + x * x)


def mixed(a):
    return np.sum(np.linalg.inv(a) ** 2 * np.sin(a) + a * np.exp(-a))


X = np.linspace(0.1, 1.0, 300)
A = np.eye(3) * 2 + 0.1


def agree(a, b):
    return np.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_numpy_at_first_and_machine_code_after_its_price(monkeypatch):
    g = cr.compile(cr.grad(f))
    want = cr.grad(f)(X)
    g(X)
    g(X)
    assert g.stats().native == 0
    monkeypatch.setattr(choices, "MOST", 0.0)  # of new programs
    h = cr.compile(cr.grad(f))
    h(X)
    assert h.stats().native == 0
    assert agree(h(X), want)  # in this call it is translated
    assert (h.stats().native, h.stats().share) == (1, 1.0)
    assert agree(h(X), want)


def test_the_price_grows_with_the_program():
    def price(f, x):
        return choices.price(cr.compile(f, backend="numpy").lower(x).program)

    small, large = price(lambda x: np.sin(x) * 2, 0.5), price(lambda x: np.sin(x) * 2, X)
    assert 0 < small < large <= choices.MOST
    assert price(lambda x: sum([np.sin(x) ** k @ np.cos(x - k * k) for k in range(9)], 0.0), X) == choices.MOST


def test_native_at_once():
    g = cr.compile(f, backend="native")
    assert agree(g(X), f(X))
    assert g.stats().native == 1
    assert agree(g(X + 1), f(X + 1))
    with cr.config(backend="native"):
        g = cr.compile(f)
        g(X)
    assert g.stats().native == 1


def test_numpy_only(monkeypatch):
    monkeypatch.setattr(choices, "MOST", 0.0)
    for g in (cr.compile(f, backend="numpy"), cr.compile(backend="numpy")(f)):
        for _ in range(3):
            assert agree(g(X), f(X))
        assert g.stats().native == 0
    with cr.config(backend="numpy"):
        g = cr.compile(f)
        g(X)
    g(X)
    assert g.stats().native == 0


def test_calls_without_lowering_stand_between_kernels():
    g = cr.compile(cr.value_and_grad(mixed), backend="native")
    g(A)
    y, abar = g(A + 0.2)
    want, abar_want = cr.value_and_grad(mixed)(A + 0.2)
    assert agree(y, want)
    assert agree(abar, abar_want)
    assert 0.5 < g.stats().share < 1
    text = str(g.lower(A))
    assert "np.linalg.inv(" in text
    assert "define" in text


def test_what_has_no_lowering_stays_with_numpy():
    g = cr.compile(lambda z: np.sum(np.abs(np.fft.fft(z)) ** 2), backend="native")
    g(X)
    assert agree(g(X + 1), np.sum(np.abs(np.fft.fft(X + 1)) ** 2))
    assert g.stats().native == 0
    assert g.stats().share == 0.0


def test_lower_shows_the_machine_code():
    low = cr.compile(f).lower(X)
    assert low.native
    assert low.share == 1.0
    assert "define" in str(low)
    assert "fmul" in str(low)
    assert not cr.compile(f, backend="numpy").lower(X).native


def test_guards_choose_among_machine_code():
    def g(x):
        return np.sum(np.sin(x) * x * x) if x[0] > 0 else np.sum(np.cos(x) * x)

    h = cr.compile(g, backend="native")
    for x in (X, -X, X + 1, -X - 1):
        assert agree(h(x), g(x))
    assert (h.stats().traces, h.stats().native) == (2, 2)


def test_results_that_are_not_finite_are_those_of_the_function():
    def g(x):
        return np.where(x > 0, np.log(x), 0.0) * x

    h = cr.compile(cr.grad(lambda x: np.sum(g(x))), backend="native")
    x = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        h(np.abs(x) + 1)
        assert np.array_equal(h(x), cr.grad(lambda x: np.sum(g(x)))(x), equal_nan=True)


def test_without_llvmlite(monkeypatch):
    monkeypatch.setattr(choices, "installed", lambda: False)
    with pytest.raises(ImportError, match=r"chainrule\[fast\]"):
        cr.compile(f, backend="native")
    with cr.config(backend="native"), pytest.raises(ImportError, match=r"chainrule\[fast\]"):
        cr.compile(f)(X)
    monkeypatch.setattr(choices, "MOST", 0.0)
    g = cr.compile(f)
    for _ in range(3):
        g(X)
    assert g.stats().native == 0


def test_a_fault_of_the_translation_leaves_numpy_at_work(monkeypatch):
    from chainrule.program import native

    def broken(program):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(native, "build", broken)
    monkeypatch.setattr(choices, "MOST", 0.0)
    g = cr.compile(f)
    for _ in range(3):
        assert agree(g(X), f(X))
    (kind,) = g._kinds.values()
    assert kind.paths[0].choice.fault == "RuntimeError: no such instruction"
    with pytest.warns(CompileWarning, match="no such instruction"):
        assert agree(cr.compile(f, backend="native")(X), f(X))


def test_threads_go_over_to_machine_code_once(monkeypatch):
    from chainrule.program import native

    built, build = [], native.build
    monkeypatch.setattr(native, "build", lambda program: (built.append(1), build(program))[1])
    monkeypatch.setattr(choices, "MOST", 0.0)
    g = cr.compile(cr.grad(f))
    g(X)
    want, wrong = cr.grad(f)(X), []

    def work():
        wrong.extend([1 for _ in range(50) if not agree(g(X), want)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (wrong, len(built), g.stats().native) == ([], 1, 1)


def test_an_unknown_back_end_is_refused():
    with pytest.raises(ValueError, match="'fortran'"):
        cr.compile(f, backend="fortran")


def test_the_back_end_goes_with_copies_and_derivatives():
    import pickle

    g = cr.compile(np.sin, backend="native")
    assert pickle.loads(pickle.dumps(g))._backend == "native"
    assert cr.compile(g) is g
    assert cr.compile(g, backend="numpy")._backend == "numpy"
    assert agree(
        cr.grad(lambda x: np.sum(cr.compile(f, backend="native")(x) * x))(X), cr.grad(lambda x: np.sum(f(x) * x))(X)
    )


def test_rounds_are_taken_off_a_stack_in_their_order():
    def f(x):
        y = x * 0.3 + 0.1
        while np.sum(y) < 1e6:
            y = y * x + 0.5
        return np.sum(y * y)

    x = np.linspace(1.3, 1.4, 140_000)
    want = cr.grad(f)(x * 1.0001)
    for backend in ("numpy", "native"):
        g = cr.compile(cr.grad(f), backend=backend)
        g(x)
        assert np.allclose(g(x * 1.0001), want, rtol=1e-12)
        assert g.stats().traces == 1


def test_guards_on_the_bits_of_computed_numbers_keep_numpy():
    def f(x):
        return np.sum(np.setxor1d(np.tanh(x * 1.7), x[:2]) ** 2)

    g = cr.compile(f, backend="native")
    for _ in range(3):
        assert agree(g(X[:5]), f(X[:5]))
    assert (g.stats().traces, g.stats().native) == (1, 0)
