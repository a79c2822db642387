"""Every public name of NumPy has a status, what is said to raise does, and the page of them all is up to date."""

import re
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
import chainrule.numpy as cnp
from chainrule.engine.rule import RULES, UNSUPPORTED, full_name
from chainrule.errors import ChainruleError, UnsupportedFunctionError
from chainrule.testing import supported
from chainrule.testing.samples import array, sample
from chainrule.testing.supported import DIFFERENTIATED, MIRROR, NAMESPACES, PLAIN, UNKNOWN, UNSUPPORTED_, survey

PAGE = Path(__file__).resolve().parents[1] / "docs" / "supported.md"
FOUND = survey()
X = np.array([1.5, -2.0, 3.25])
SIGNS = {"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}


def names(status):
    """Return the (namespace, name) pairs of a status."""
    return [(title, n) for title, of in FOUND.items() for n, s in of.items() if s == status]


@pytest.mark.parametrize("title", FOUND)
def test_every_public_name_has_a_status(title):
    unknown = [n for n, s in FOUND[title].items() if s == UNKNOWN]
    assert not unknown, f"write rules for these, or list them in chainrule/testing/supported.py: {unknown}"


def test_a_new_function_would_be_noticed(monkeypatch):
    monkeypatch.setattr(np, "brand_new", lambda x: x, raising=False)
    assert survey()["numpy"]["brand_new"] == UNKNOWN


def test_no_name_has_two_statuses():
    listed = set.union(*supported.NO_FUNCTION_OF_ARRAYS.values(), supported.OF_SIZES, supported.BY_THEMSELVES)
    for module in NAMESPACES.values():
        for name in listed:
            x = getattr(module, name, None)
            assert x is None or x not in RULES, name
    for tables in (supported.OF_NDARRAY, supported.OPERATORS):
        found = [n for of in tables.values() for n in of]
        assert len(found) == len(set(found))


def test_few_names_are_unsupported():
    refused = [n for _, n in names(UNSUPPORTED_) if n != "as_strided"]
    assert len(refused) <= 15, refused


def test_the_page_is_up_to_date():
    written = PAGE.read_text(encoding="utf-8")
    version = re.search(r"NumPy (\d+\.\d+)", written)[1]
    if np.__version__.startswith(version + "."):
        assert written == supported.page(), "python -m chainrule.testing.supported > docs/supported.md"
    else:  # another NumPy has other names: those that both have must be listed alike
        there = set(re.findall(r"`(\w+)`", written))
        assert there & set(FOUND["numpy"]) == set(re.findall(r"`(\w+)`", supported.page())) & there & set(
            FOUND["numpy"]
        )


AT_ONCE = {
    "": "sum mean prod max min var std ptp median average cumsum cumprod any all argmax argmin sort argsort "
    "where select clip take dot matmul inner outer tensordot einsum vdot kron trace concatenate stack reshape "
    "transpose roll repeat tile diff diag",
    "linalg": "solve inv det slogdet norm eigh svd qr cholesky",
    "fft": "fft ifft rfft",
}


@pytest.mark.parametrize("module", AT_ONCE)
def test_common_functions_run_at_once_on_a_batch(module):
    looped = [n for n in AT_ONCE[module].split() if getattr(getattr(np, module, np), n) in supported.loops()]
    assert not looped


def test_elementwise_functions_run_at_once_on_a_batch():
    looped = [fun for fun in supported.loops() if isinstance(fun, np.ufunc) and RULES[fun].kind == "elementwise"]
    assert not looped


def test_functions_of_scipy_run_at_once_on_a_batch():
    pytest.importorskip("scipy")
    looped = [n for n in map(full_name, supported.loops()) if n.startswith(("scipy.", "chainrule.scipy."))]
    assert not looped


def runs_and_knows(x, how=None):
    """Take a plain array only, if asked to."""
    return np.sin(x) if how is None else np.sin(np.array([float(v) for v in x]))


@pytest.mark.parametrize(("how", "looped"), [(None, False), ("plain", True)])
def test_a_loop_is_found_by_running_a_sample(how, looped):
    assert supported.runs_as_loop(sample(runs_and_knows, array(3), how=how).after(np.cos)) is looped


def test_the_page_marks_what_runs_once_per_entry():
    written = PAGE.read_text(encoding="utf-8")
    marks = {(word, mark) for word, mark in re.findall(r"`(\w+)` \((loop|partly)\)", written)}
    batch = np.array([[1.0, -3.0, 2.0], [1.0, -5.0, 6.0]])
    for name in ("roots", "histogram"):
        assert (name, "loop") in marks
        assert cr.vmap(getattr(np, name)).loops(batch)
    assert "sum" not in {word for word, _ in marks}


@pytest.mark.parametrize(("title", "name"), names(MIRROR))
def test_what_numpy_does_not_hand_over_is_in_chainrule_numpy(title, name):
    assert getattr(cnp, name) is not getattr(np, name)


@pytest.mark.parametrize("name", [n for t, n in names(DIFFERENTIATED) if t in ("ndarray", "operators")])
def test_differentiated_methods_and_operators_are_there(name):
    for kind in (cr.Variable, cr.Dual):
        found = getattr(kind, name, None) is not None or (name[3:] and getattr(kind, f"__{name[3:]}", None) is not None)
        assert found, f"{kind.__name__} has no {name}"


def test_what_works_by_itself_does():
    """NumPy does not hand these over; they are written in terms of what it does."""
    spacing = {n: cr.jacobian(lambda d, n=n: getattr(np.fft, n)(4, d))(0.5) for n in ("fftfreq", "rfftfreq")}
    for name, slope in spacing.items():
        np.testing.assert_allclose(slope, -getattr(np.fft, name)(4, 0.5) / 0.5)  # k / (n d)
    np.testing.assert_allclose(cr.jacobian(lambda a: np.fromfunction(lambda i: a * i, (3,)))(2.0), [0.0, 1.0, 2.0])
    assert cr.grad(lambda c: np.poly1d(c)(2.0))(np.ones(3)).tolist() == [4.0, 2.0, 1.0]
    if hasattr(np, "row_stack"):
        with pytest.warns(DeprecationWarning):
            assert cr.grad(lambda x: np.sum(np.row_stack([x, 2 * x])))(X).tolist() == [3.0, 3.0, 3.0]
    tested = {"fftfreq", "rfftfreq", "fromfunction", "poly1d", "row_stack"}
    assert tested == supported.BY_THEMSELVES


# -- what raises says what to write instead ----------------------------------------------------------------------------

CALLS = {
    "as_strided": lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)),
    "asmatrix": np.asmatrix,
    "bmat": lambda x: np.bmat([[x]]),
    "frompyfunc": lambda x: np.frompyfunc(lambda a: a, 1, 1)(x),
    "getfield": lambda x: x.getfield(float),
    "matrix": np.matrix,
    "nditer": cnp.nditer,
    "nested_iters": lambda x: cnp.nested_iters([x], [[0], [0]]),
    "resize": lambda x: x.resize((2,)),
    "setfield": lambda x: x.setfield(1.0, float),
    "setflags": lambda x: x.setflags(write=False),
    "datetime_as_string": np.datetime_as_string,
    "busday_count": lambda x: np.busday_count(x, x),
    "busday_offset": lambda x: np.busday_offset(x, 1),
    "is_busday": np.is_busday,
    "packbits": np.packbits,
    "unpackbits": np.unpackbits,
    "ravel_multi_index": lambda x: np.ravel_multi_index((x,), (4,)),
    "unravel_index": lambda x: np.unravel_index(x, (4,)),
    "save": lambda x: np.save("unused", x),
    "savez": lambda x: np.savez("unused", x),
    "savez_compressed": lambda x: np.savez_compressed("unused", x),
    "savetxt": lambda x: np.savetxt("unused", x),
    "byteswap": lambda x: x.byteswap(),
    "ctypes": lambda x: x.ctypes,
    "dump": lambda x: x.dump("unused"),
    "dumps": lambda x: x.dumps(),
    "item": lambda x: x.item(0),
    "tobytes": lambda x: x.tobytes(),
    "tofile": lambda x: x.tofile("unused"),
    "tolist": lambda x: x.tolist(),
    "__complex__": lambda x: complex(x[0]),
    "__float__": lambda x: float(x[0]),
    "__int__": lambda x: int(x[0]),
    "__index__": lambda x: [1, 2][x[0]],
}
RAISING = [n for s in (UNSUPPORTED_, PLAIN) for t, n in names(s)]
OF_BITS = [n for n in RAISING if n.startswith("__") and n not in CALLS]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", [cr.Variable, lambda x: cr.Dual(x, x)], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", sorted(set(RAISING) - set(OF_BITS)))
def test_what_is_not_differentiated_raises_with_advice(name, kind):
    with pytest.raises(ChainruleError, match=r"to go on") as caught:
        CALLS[name](kind(X))
    assert "test_supported.py" in str(caught.value)


@pytest.mark.parametrize("name", OF_BITS)
def test_operators_of_bits_refuse_floats_as_numpy_does(name):
    word = name.strip("_")
    if word == "invert":
        statement = "~x"
    elif word in SIGNS:
        statement = f"x {SIGNS[word]} 1"
    else:
        statement = f"1 {SIGNS[word[1:]]} x" if word[0] == "r" else f"x {SIGNS[word[1:]]}= 1"
    for x in (X.copy(), cr.Variable(X), cr.Dual(X, X)):
        with pytest.raises(TypeError):
            exec(statement, {"x": x})


@pytest.mark.parametrize("fun", [f for f in UNSUPPORTED if callable(f)], ids=lambda f: f.__name__)
def test_the_error_of_an_unsupported_function_gives_its_reason(fun):
    why, *instead = UNSUPPORTED[fun]
    with pytest.raises(UnsupportedFunctionError) as caught:
        CALLS[fun.__name__](cr.Variable(X))
    assert why in str(caught.value)
    assert instead[0] in str(caught.value)
