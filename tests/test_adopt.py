"""`adopt`: plain code that NumPy does not hand to us, run and differentiated without a change.

The programs stand in `adopted_code`, and know nothing of chainrule. What they should give is what they give as plain
code; what their derivatives should be, central differences of the plain code say.
"""

import asyncio
import cmath
import concurrent.futures
import copy
import functools
import gc
import math
import operator
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
from adopted_code import helpers, models, programs

import chainrule as cr
import chainrule.errors
from chainrule.adopt.running import Pool
from chainrule.adopt.state import here

X = 0.7


def slope(f, x=X, h=1e-5):
    """The derivative by central differences of fourth order."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def curvature(f, x=X, h=1e-3):
    """The second derivative by differences of fourth order."""
    return (16 * (f(x + h) + f(x - h)) - (f(x + 2 * h) + f(x - 2 * h)) - 30 * f(x)) / (12 * h**2)


@pytest.mark.parametrize("f", programs.PROGRAMS, ids=lambda f: f.__name__)
class TestProgram:
    def test_plain_call_gives_what_the_plain_function_gives(self, f):
        y, adopted = f(X), cr.adopt(f)(X)
        assert type(adopted) is type(y)
        assert adopted == y

    def test_gradient(self, f):
        g = cr.grad(cr.adopt(f))
        assert g(X) == pytest.approx(slope(f), rel=1e-8)
        assert g(X) == g(X)

    def test_forward(self, f):
        y, ydot = cr.jvp(cr.adopt(f), (X,), (2.0,))
        assert y == pytest.approx(f(X), rel=1e-14)
        assert ydot == pytest.approx(2 * slope(f), rel=1e-8)

    def test_second_order_in_every_mode(self, f):
        g = cr.adopt(f)
        expected = pytest.approx(curvature(f), rel=1e-6, abs=1e-6)
        assert cr.grad(cr.grad(g))(X) == expected
        assert cr.jvp(cr.grad(g), (X,), (1.0,))[1] == expected
        assert cr.grad(lambda x: cr.jvp(g, (x,), (1.0,))[1])(X) == expected
        assert cr.hessian(g)(X) == expected


@pytest.fixture(autouse=True)
def fresh_globals():
    helpers.calls, helpers.total = 0, 0.0
    yield
    vars(helpers).pop("made_here", None)


# -- the user's module ---------------------------------------------------------------------------------------------


def test_the_module_of_an_adopted_function_stays_as_it_was():
    before = dict(vars(programs))
    for f in programs.PROGRAMS:
        cr.grad(cr.adopt(f))(X)
    assert vars(programs).keys() == before.keys()
    assert all(vars(programs)[name] is v for name, v in before.items())
    assert programs.helper_of_this_module.__globals__ is vars(programs)


def test_globals_that_code_assigns_are_copied_back():
    f = cr.adopt(helpers.write_globals)
    assert f(1.0) == pytest.approx(2 * np.exp(1.0) + 2)
    assert (helpers.calls, helpers.total) == (2, 1.0)
    assert type(helpers.made_here) is np.ndarray
    helpers.calls = 10  # seen by the next call
    assert f(1.0) == pytest.approx(12 * np.exp(1.0) + 12)
    assert (helpers.calls, helpers.total) == (12, 2.0)
    cr.adopt(helpers.delete_global)(1.0)
    assert not hasattr(helpers, "made_here")
    with pytest.raises(NameError):
        cr.adopt(helpers.delete_global)(1.0)


def test_globals_are_copied_back_after_an_error():
    def f(x):
        global marked
        marked = x
        raise KeyError(x)

    with pytest.raises(KeyError):
        cr.adopt(f)(3.0)
    assert marked == 3.0


def test_attributes_assigned_to_a_module_reach_it_at_once():
    g = cr.grad(cr.adopt(helpers.count_up_through_the_module))
    assert g(0.0) == 10.0
    assert helpers.calls == 10
    assert g(0.0) == 20.0


def test_globals_changed_between_calls_are_seen(monkeypatch):
    f = cr.grad(cr.adopt(programs.helper_of_another_module))
    before = f(X)
    assert before == pytest.approx(slope(programs.helper_of_another_module), rel=1e-8)
    monkeypatch.setattr(helpers, "SCALE", 5.0)
    assert f(X) == pytest.approx(slope(programs.helper_of_another_module), rel=1e-8) != before
    monkeypatch.setattr(helpers, "filled", programs.root_pair)
    assert f(X) == pytest.approx(slope(programs.helper_of_another_module), rel=1e-8)
    monkeypatch.setattr(programs, "scaled", programs.cube)
    assert f(X) == pytest.approx(slope(programs.helper_of_another_module), rel=1e-8)
    monkeypatch.setattr(programs.helpers.scaled, "__code__", (lambda x: x**4).__code__)
    assert f(X) == pytest.approx(slope(programs.helper_of_another_module), rel=1e-8)


def test_a_closure_that_changes_between_calls_is_seen():
    def factory():
        g, k = math.sin, 2.0

        def change(new):
            nonlocal g, k
            g, k = new, 3.0

        return lambda x: k * g(x), change

    f, change = factory()
    df = cr.grad(cr.adopt(f))
    assert df(0.0) == 2.0
    change(math.exp)
    assert df(0.0) == 3.0


# -- what comes out ------------------------------------------------------------------------------------------------


def test_results_are_plain_arrays_also_beside_a_transform():
    f = cr.adopt(helpers.plain_results)
    cr.grad(lambda x: check_plain(f(2)) * x)(1.0)
    check_plain(f(2))


def check_plain(y):
    assert type(y["a"]) is type(y["b"][0]) is type(y["c"][0]) is np.ndarray
    np.testing.assert_array_equal(y["b"][0], [1.0, 1.0])
    return 1.0


def test_an_object_keeps_no_buffer():
    m = models.Model(0.5, 2.0)
    cr.grad(cr.adopt(m))(X)
    assert type(m.table) is np.ndarray


def test_float32_stays():
    def f(x):
        a = np.zeros(3, np.float32)
        a[0] = x[0]
        return np.sum(a * math.sin(x[1]) * float(x[0]) * np.float32(x[1]))

    y, g = cr.value_and_grad(cr.adopt(f))(np.array([0.5, 0.25], np.float32))
    assert y.dtype == g.dtype == np.float32
    assert f(np.array([0.5, 0.25], np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        g, [2 * 0.5 * 0.25 * math.sin(0.25), 0.25 * (math.sin(0.25) + 0.25 * math.cos(0.25))], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("f", "x", "error"),
    [
        (lambda x: math.sqrt(x), -1.0, ValueError),
        (lambda x: math.log(x), 0.0, ValueError),
        (lambda x: math.exp(x), 1e4, OverflowError),
        (lambda x: math.sin(x), np.ones(2), TypeError),
        (lambda x: float(x), np.ones(2), TypeError),
        (lambda x: float(x * 1j), 2.0, TypeError),
    ],
)
def test_what_raises_in_plain_code_raises_in_adopted_code(f, x, error):
    with pytest.raises(error) as plain:
        f(x)
    with pytest.raises(error) as traced:
        cr.grad(cr.adopt(f))(x)
    assert str(traced.value) == str(plain.value)


def test_an_error_names_the_users_line():
    with pytest.raises(cr.errors.ConversionError, match=r"where: helpers.py:\d+ in scaled"):
        cr.grad(cr.adopt(helpers.through_a_list))(X)


DATA = np.array([1.0, 2.0, 3.0])


def written_into_data(x):
    w = 2.0 * DATA
    w[0] = x
    return np.sum(w)


def added_to_data(x):
    w = 2.0 * DATA
    w += x
    return np.sum(w)


LIMITS = [
    written_into_data,
    added_to_data,
    lambda x: DATA.dot(np.array([x, x, 1.0])),
    lambda x: np.array([x, 1.0]).tolist()[0],
    lambda x: np.sum(x).item(),
    lambda x: np.exp([x, 1.0])[0],
    lambda x: sum(map(float, [x])),
    lambda x: cmath.exp(x).real,
    lambda x: np.multiply(x, DATA, out=np.array([1, 2, 3]))[0],
    lambda x: functools.reduce(operator.add, [helpers.scaled(x)]),  # of another package
]


@pytest.mark.parametrize("f", LIMITS)
def test_what_adopted_code_can_not_do_raises_and_loses_nothing(f):
    with pytest.raises(cr.errors.ChainruleError, match="to go on"):
        cr.grad(cr.adopt(f))(X)
    with pytest.raises(cr.errors.ChainruleError, match="to go on"):
        cr.jvp(cr.adopt(f), (X,), (1.0,))


# -- functions of every kind ---------------------------------------------------------------------------------------


def test_adopted_twice_is_the_same_function():
    f = cr.adopt(programs.square)
    assert cr.adopt(programs.square) is f
    assert cr.adopt(f) is f
    assert f.__name__ == "f" and f.__wrapped__ is programs.square
    assert cr.unadopt(f) is programs.square
    assert cr.unadopt(programs.square) is programs.square


def test_closures_that_share_code_are_told_apart():
    f, g = programs.power(2), programs.power(3)
    assert cr.grad(cr.adopt(f))(X) == pytest.approx(slope(f), rel=1e-8)
    assert cr.grad(cr.adopt(g))(X) == pytest.approx(slope(g), rel=1e-8)


def test_a_closure_is_freed_with_its_adopted_form_also_if_it_calls_itself():
    def factory():
        def f(x, n=2):
            return math.sin(f(x, n - 1)) if n else x

        return f

    for make in (lambda: programs.power(2), factory):
        f = make()
        cr.grad(cr.adopt(f))(X)
        gone = weakref.ref(f)
        del f
        gc.collect()
        gc.collect()  # what the first one frees may have held a cycle
        assert gone() is None


def test_adopted_functions_call_each_other_in_one_session():
    inner = cr.adopt(helpers.count)
    f = cr.adopt(lambda x: inner(x) + helpers.calls)
    assert f(0.0) == 2.0
    assert helpers.calls == 1


def test_functions_given_as_arguments_are_adopted():
    f = cr.adopt(helpers.apply)
    assert cr.grad(lambda x: f(helpers.scaled, x))(X) == pytest.approx(
        slope(lambda x: helpers.apply(helpers.scaled, x)), rel=1e-8
    )
    assert cr.grad(f, argnums=1)(helpers.scaled, X) == pytest.approx(
        slope(lambda x: helpers.apply(helpers.scaled, x)), rel=1e-8
    )
    assert cr.grad(f, argnames="x")(f=helpers.scaled, x=X) == cr.grad(f, argnums=1)(helpers.scaled, X)


def test_a_gradient_inside_adopted_code_is_of_adopted_code():
    def f(x):
        return cr.grad(cubed)(x) * cr.grad(local)(x) + gradient_of_cube(x)

    def local(x):
        a = np.zeros(1)
        a[0] = math.exp(x)
        return a[0]

    expected = (6 * X + 3 * X**2) * np.exp(X) + 6 * X
    assert cr.grad(cr.adopt(f))(X) == pytest.approx(expected)


def cubed(x):
    a = np.zeros(2)
    a[1] = x**3
    return math.fsum(a)


gradient_of_cube = cr.grad(cubed)


def test_a_gradient_can_be_adopted():
    assert cr.adopt(gradient_of_cube)(X) == pytest.approx(3 * X**2)


def test_a_function_that_calls_itself_another_is_of_its_own_package():
    @functools.wraps(np.sum)
    def f(x):
        return math.sin(x)

    @functools.wraps(helpers.scaled)
    def g(x):
        return math.exp(x)

    assert cr.grad(cr.adopt(f))(X) == pytest.approx(np.cos(X))
    assert cr.grad(cr.adopt(g))(X) == pytest.approx(np.exp(X))


def decorator_of_another_package(f):
    @functools.wraps(f)
    def wrapper(x):
        return 3 * f(x)

    return wrapper


def test_a_decorator_of_another_package_leads_to_the_function_inside():
    f = decorator_of_another_package(helpers.scaled)
    assert cr.grad(cr.adopt(f))(X) == pytest.approx(6 * np.cos(X))
    both = cr.adopt(lambda x: f(x) + math.sin(x))  # of this package: the decorator is adopted, what it holds is not
    with pytest.raises(cr.errors.ConversionError, match="in scaled"):
        cr.grad(both)(X)


def test_generators_run_each_step_in_a_session():
    steps = cr.adopt(helpers.tally)()
    assert next(steps) == 0
    assert cr.grad(steps.send)(0.5) == pytest.approx(np.exp(0.5))
    assert helpers.calls == 1
    assert next(steps) == 1
    assert steps.send(0.0) == 1.0
    x = cr.Variable(0.5)
    assert next(steps) == 2
    steps.send(x).backward()
    assert x.grad == pytest.approx(np.exp(0.5))
    steps.close()
    with pytest.raises(TypeError):
        cr.adopt(helpers.tally)(1)


def test_coroutines():
    def run(x):
        return asyncio.run(cr.adopt(helpers.awaited)(x))

    assert cr.grad(run)(0.5) == pytest.approx(np.exp(0.5))
    assert run(0.5) == np.exp(0.5)
    x = cr.Variable(0.5)
    run(x).backward()
    assert x.grad == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize("f", [helpers.of_scipy, helpers.vectorized, helpers.piecewise_and_along_axis])
def test_functions_that_numpy_and_scipy_do_not_hand_over(f):
    assert cr.adopt(f)(X) == f(X)
    assert type(cr.adopt(f)(X)) is type(f(X))
    assert cr.grad(cr.adopt(f))(X) == pytest.approx(slope(f), rel=1e-8)
    assert cr.jvp(cr.adopt(f), (X,), (1.0,))[1] == pytest.approx(slope(f), rel=1e-8)
    assert cr.hessian(cr.adopt(f))(X) == pytest.approx(curvature(f), rel=1e-5)


@pytest.mark.parametrize(
    "f",
    [len, math.sin, operator.itemgetter(0), 3.0, "text", helpers.asynchronous_steps, np.ndarray, int, np, object()],
    ids=lambda f: type(f).__name__ + getattr(f, "__name__", ""),
)
def test_what_has_no_adopted_form_is_refused_with_a_reason(f):
    if f is math.sin:  # stands for itself in adopted code
        assert cr.grad(cr.adopt(f))(0.0) == 1.0
        return
    with pytest.raises(cr.errors.NotDifferentiableError, match=r"(?s)adopt was given .*to go on"):
        cr.adopt(f)


# -- methods, classes, modules -------------------------------------------------------------------------------------


def test_a_method_whose_object_has_other_methods():
    m = models.Model(0.5, 2.0)
    expected = pytest.approx(slope(m.loss), rel=1e-8)
    used, logged = models.Model.used, len(m.log)
    f = cr.adopt(m.loss)
    assert cr.grad(f)(X) == expected
    assert cr.grad(cr.adopt(models.Model.loss), argnums=1)(m, X) == expected
    assert (models.Model.used, len(m.log)) == (used + 2, logged + 2)  # class and object see what the method does
    assert type(m) is models.Model and "loss" not in vars(m)
    assert cr.unadopt(f) == m.loss
    assert cr.grad(cr.adopt(m))(X) == pytest.approx(slope(m), rel=1e-8)


def test_a_method_of_a_frozen_dataclass():
    line = models.Line(1.0, 2.0)
    assert cr.grad(cr.adopt(line.squared))(X) == pytest.approx(2 * (X + 2.0))
    assert cr.grad(lambda x: cr.adopt(models.Line(x, 2.0).squared)(3.0))(X) == pytest.approx(6 * (3 * X + 2.0))


def test_a_decorated_method_reaches_the_others():
    class Wave:
        @cr.adopt
        def energy(self, x):
            return self.height(x) ** 2

        def height(self, x):
            return math.sin(x)

    assert cr.grad(Wave().energy)(X) == pytest.approx(np.sin(2 * X))


def test_a_class_is_adopted_in_place_until_undone():
    before = {c: dict(vars(c)) for c in (models.Model, models.Base)}
    m = models.Model(0.5, 2.0)
    expected = pytest.approx(slope(m.loss), rel=1e-8)
    assert cr.adopt(models.Model) is models.Model
    cr.adopt(models.Model)
    assert cr.grad(m.loss)(X) == expected
    assert cr.grad(cr.grad(m))(X) == pytest.approx(curvature(m), rel=1e-6)
    assert cr.grad(lambda w: models.Model(w, 2.0).loss(X))(0.5) == pytest.approx(
        slope(lambda w: models.Model(w, 2.0).loss(X), 0.5), rel=1e-8
    )
    cr.unadopt(models.Model)
    assert cr.grad(m.loss)(X) == expected  # it was adopted twice
    cr.unadopt(models.Model)
    for c, attributes in before.items():
        assert {k: v for k, v in vars(c).items() if k not in ("used", "made")} == {
            k: v for k, v in attributes.items() if k not in ("used", "made")
        }
    with pytest.raises(cr.errors.ConversionError):
        cr.grad(m.penalty)(X)


def test_a_class_with_slots_is_adopted_in_place():
    s = models.Slotted(3.0)
    cr.adopt(models.Slotted)
    assert cr.grad(s.twice)(X) == 6.0
    cr.unadopt(models.Slotted)
    with pytest.raises((cr.errors.ConversionError, ValueError)):
        cr.grad(s.twice)(X)


def test_a_module_is_adopted_in_place_until_undone():
    before = dict(vars(models))
    line = models.Line(1.0, 2.0)
    assert cr.adopt(models) is models
    assert cr.grad(line.squared)(X) == pytest.approx(2 * (X + 2.0))
    cr.unadopt(models)
    assert dict(vars(models)) == before
    before = dict(vars(helpers))
    cr.adopt(helpers)
    try:
        assert cr.grad(helpers.scaled)(X) == pytest.approx(2 * np.cos(X))
        assert cr.grad(lambda x: np.sum(helpers.filled(x)))(X) == pytest.approx(1 + 4 * X)
        assert helpers.count(0.0) == helpers.calls == 1
        helpers.apply = before["fill_in"]  # replaced meanwhile: left alone
    finally:
        cr.unadopt(helpers)
        assert helpers.apply is before["fill_in"]
        helpers.apply = before["apply"]
    assert {k: v for k, v in vars(helpers).items() if k != "calls"} == {k: v for k, v in before.items() if k != "calls"}


# -- threads, repeated calls, eager values ---------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other():
    f = cr.grad(cr.adopt(programs.in_a_recursion))
    xs = np.linspace(0.1, 2.0, 40)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(f, xs))
    assert together == [f(x) for x in xs]


def test_an_adopted_function_may_call_itself_through_other_code():
    def f(x, n=3):
        a = np.zeros(2)
        a[0] = math.sin(x)
        return a[0] * functools.reduce(lambda y, k: adopted(k, n - 1), [x], 0.0) if n else a[0]

    adopted = cr.adopt(f)
    expected = np.sin(X) ** 3 * 4 * np.cos(X)
    assert cr.grad(adopted)(X) == pytest.approx(expected)


def test_eager_values_are_seen_in_arguments_objects_and_globals():
    x = cr.Variable(X)
    cr.adopt(programs.buffer_filled_by_element)(x).backward()
    assert x.grad == pytest.approx(slope(programs.buffer_filled_by_element), rel=1e-8)
    w = cr.Variable(0.5)
    models.Base.features(models.Base(0.5), X)
    y = cr.adopt(models.Base(w).features)(X)
    np.sum(y).backward()
    assert w.grad == pytest.approx(X * np.exp(0.5 * X))

    def closed(t):
        a = np.zeros(2)
        a[0] = w * t
        return a[0]

    w.grad = None
    cr.adopt(closed)(3.0).backward()
    assert w.grad == 3.0

    def made_inside():
        v = cr.Variable(2.0)
        a = np.zeros(1)
        a[0] = math.exp(v)
        a[0].backward()
        return v.grad

    assert cr.adopt(made_inside)() == pytest.approx(np.exp(2.0))


def test_a_cache_does_not_hand_traced_values_from_one_run_to_the_next():
    f = cr.adopt(programs.behind_a_cache)
    programs.cached.cache_clear()
    cr.grad(f)(0.5)
    assert programs.cached.cache_info().currsize == 0
    assert [cr.grad(f)(x) for x in (0.5, 0.5, 0.25)] == [
        pytest.approx(slope(programs.behind_a_cache, x), rel=1e-8) for x in (0.5, 0.5, 0.25)
    ]


@cr.adopt
def decorated_here(x):
    return np.array([math.sin(x), x])[0]


def test_an_adopted_function_can_be_pickled():
    decorated_here(X)
    assert pickle.loads(pickle.dumps(decorated_here)) is decorated_here
    parts = [c.cell_contents for c in decorated_here.__closure__]  # what a pickler by value has to take along
    (pool,) = [p for p in parts if isinstance(p, Pool)]
    assert pickle.loads(pickle.dumps(pool)).take(programs.in_a_lambda).entry(X) == programs.in_a_lambda(X)
    assert pool.spare and pickle.loads(pickle.dumps(here)) is here
    line = models.Line(1.0, 2.0)
    myself = cr.adopt(line.squared).__self__
    assert pickle.loads(pickle.dumps(myself)) == copy.copy(myself) == copy.deepcopy(myself) == line
    assert type(copy.copy(myself)) is models.Line and copy.copy(myself) is not line


def test_importing_chainrule_does_not_load_adopt_or_scipy():
    code = "import sys, chainrule; print([m for m in sys.modules if m.startswith(('chainrule.adopt', 'scipy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = "import sys, chainrule as cr; cr.adopt(lambda x: x)(1.0); print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Half:
    """A class that adopted code uses, and that is not adopted."""

    def fill(self, x):
        a = np.zeros(1)
        a[0] = x
        return a[0] / 2


def test_code_that_adopting_did_not_reach_is_told_apart():
    """What to adopt by name if adopted code calls it; what to copy if it came from outside; else, to adopt."""
    outside = np.zeros(1)

    def written(x):
        outside[0] = x
        return outside[0]

    with pytest.raises(cr.errors.ConversionError, match=r"differentiate  chainrule\.adopt\(f\)  instead of f"):
        cr.grad(Half().fill)(1.0)
    with pytest.raises(cr.errors.ConversionError, match="adopt its class, module or function by name"):
        cr.grad(cr.adopt(lambda x: Half().fill(x)))(1.0)
    with pytest.raises(cr.errors.ConversionError, match=r"copy it in that code:  a = np\.array\(a\)"):
        cr.grad(cr.adopt(written))(1.0)
