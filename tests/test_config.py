"""The switches: what they take, and for whom a change holds."""

import threading

import pytest

import chainrule as cr


@pytest.fixture(autouse=True)
def restored():
    before = cr.config.values
    yield
    for name, value in before._asdict().items():
        setattr(cr.config, name, value)


def in_thread(f):
    found = []
    t = threading.Thread(target=lambda: found.append(f()))
    t.start()
    t.join()
    return found[0]


def test_a_block_holds_for_its_thread_only():
    with cr.config(backend="numpy", exact_math=True):
        assert (cr.config.backend, cr.config.exact_math) == ("numpy", True)
        assert in_thread(lambda: (cr.config.backend, cr.config.exact_math)) == ("auto", False)
        with cr.config(exact_math=False):
            assert (cr.config.backend, cr.config.exact_math) == ("numpy", False)
        assert cr.config.exact_math
    assert (cr.config.backend, cr.config.exact_math) == ("auto", False)


def test_an_assignment_holds_for_all_threads_and_within_a_block_for_the_block():
    cr.config.exact_math = True
    assert in_thread(lambda: cr.config.exact_math)
    with cr.config(backend="numpy"):
        cr.config.exact_math = False
        assert not cr.config.exact_math
        assert in_thread(lambda: cr.config.exact_math)
    assert cr.config.exact_math


def test_a_block_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), cr.config(backend="numpy"):
        raise ZeroDivisionError
    assert cr.config.backend == "auto"


def test_a_number_of_threads_that_makes_no_sense_is_explained():
    for value in (0, -1, 2.5, True, None):
        with pytest.raises(
            (TypeError, ValueError), match=r"1 is the calling thread alone; for all cores, os.cpu_count"
        ):
            cr.config.threads = value
    assert cr.config.threads == 1
    cr.config.threads = 5
    assert cr.config.threads == 5
    assert cr.compile(lambda x: x * 2)(3.0) == 6.0


def test_a_function_can_be_decorated():
    @cr.config(backend="numpy")
    def f():
        return cr.config.backend

    assert (f(), f(), cr.config.backend) == ("numpy", "numpy", "auto")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("backend", "fortran", ValueError), ("exact_math", 1, TypeError), ("exact_math", "yes", TypeError),
     ("check_bounds", 1, TypeError), ("threads", 0, ValueError), ("threads", -1, ValueError),
     ("threads", 2.5, TypeError), ("threads", True, TypeError), ("threads", "all", TypeError),
     ("speed", 9, AttributeError)],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused(name, value, error):
    with pytest.raises(error, match=name):
        setattr(cr.config, name, value)
    with pytest.raises(error, match=name), cr.config(**{name: value}):
        pass
    with pytest.raises(AttributeError, match="backend"):
        cr.config.fortran  # noqa: B018
