"""Functions of one number, each with a thing in it that NumPy does not hand to chainrule."""

import contextlib
import functools
import math
from math import hypot, log
from math import sqrt as root

import numpy
import numpy as np
from numpy import array, float64, zeros

from . import helpers
from .helpers import filled, scaled

PROGRAMS = []
OFFSET = 0.25
POWERS = (1, 2)
W = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 0.0, 1.0]])


def program(f):
    PROGRAMS.append(f)
    return f


# -- arrays ----------------------------------------------------------------------------------------------------


@program
def buffer_filled_by_element(x):
    buf = np.zeros(4)
    for i in range(4):
        buf[i] = np.sin(i * x)
    return np.sum(buf**2)


@program
def buffer_that_reads_itself(x):
    buf = np.empty(5)
    buf[0] = x
    for i in range(1, 5):
        buf[i] = buf[i - 1] * x + OFFSET
    return buf[-1]


@program
def matrix_of_scalars(x):
    c, s = np.cos(x), np.sin(x)
    return np.sum(np.array([[c, -s], [s, c]]) @ np.array([1.0, 2.0]))


@program
def array_of_rows_and_numbers(x):
    a = np.array([filled(x), [x, 1, 2.0], W[0]])
    return np.sum(a @ W)


@program
def full_and_ones(x):
    a = np.full((2, 2), x)
    b = np.ones(2)
    b[1] = x
    return np.sum(a @ b)


@program
def asarray_of_a_list(x):
    a = np.asarray([x, 2 * x, 1.0])
    b = np.ascontiguousarray([[x, x**2]])
    return np.sum(a) * np.sum(b)


@program
def full_like_and_zeros_like_of_constants(x):
    a = np.zeros_like(W)
    a[1] = x
    b = np.full_like(W, x)
    return np.sum(a * b)


@program
def copy_of_a_constant(x):
    a = np.copy(W)
    a[0, 0] = x
    b = np.concatenate([W[0], W[1]])
    b[2] *= x
    return np.sum(a @ W) * x + np.sum(b)


@program
def dtype_by_type(x):
    a = np.zeros(2, dtype=float)
    a[0] = x
    b = np.empty((2, 2), np.float64)
    b[:] = x
    assert a.dtype == np.float64 and b.dtype.type is np.float64
    return a @ b @ np.ones(2, dtype=np.float64)


@program
def lists_as_operands(x):
    joined = np.hstack([[x], [1.0, x]]) @ np.vstack(([x, 2], np.ones(2), [1.0, x]))
    y = np.sum(joined) + np.concatenate(([x], [2.0]))[0] + np.sum([[x, 1], [2, x * x]])
    return y * np.sum([x, x**2]) + np.max([x, 0.1]) * np.linalg.norm([x, 2.0]) + np.dot([x, 1.0], [2.0, x])


@program
def lists_written_and_added(x):
    a = np.zeros((2, 3))
    a[0] = x, x**2, 1
    a[1, 1:] = [math.sin(x), 2 * x]
    a += [x, 1, 2]
    b = [x, 2.0, x**2] * a[0] + a[1] / (1.0, x, 3)
    b[:] = list(b)[::-1]
    return b @ np.array([1.0, 2.0, 3.0])


@program
def written_by_a_helper(x):
    out = np.empty(3)
    helpers.fill_in(out, x)
    return out @ np.array([1.0, 2.0, 3.0])


@program
def sorted_and_stacked(x):
    rows = []
    for k in range(3):
        row = np.zeros(2)
        row[k % 2] = x * k
        rows.append(row)
    return np.sum(np.vstack(rows) @ np.array([1.0, 3.0]))


@program
def linspace_to_a_traced_end(x):
    t = np.linspace(0.0, x, 5)
    t[2] = t[1] * x
    return np.sum(t**2)


# -- numbers ---------------------------------------------------------------------------------------------------


@program
def math_functions(x):
    return math.exp(x) + math.log(x, 3) * math.atan2(x, 2.0) + math.hypot(x, 1.0, 2.0) + math.pow(x, 2.5) * math.tanh(x)


@program
def math_of_sequences(x):
    return math.fsum([x, x**2, 1]) * math.dist([x, 1.0], (0.0, x)) + math.prod((x, 2, x))


@program
def math_parts(x):
    mantissa, exponent = math.frexp(3 * x)
    fraction, whole = math.modf(5 * x)
    return (
        mantissa * exponent + fraction * whole + math.ldexp(x, 2) + math.remainder(7 * x, 2.0) + math.fmod(7 * x, 2.0)
    )


@program
def float_of_a_result(x):
    return float(np.sum(filled(x)))


@program
def float_in_a_branch(x):
    y = float(x) if float(x) > 0 else -float(x)
    if type(y) is float:
        return y * x
    raise AssertionError(type(y))


@program
def numpy_scalar_types(x):
    return np.float64(x) * x + float64(x) + numpy.float64(x) * 2 + np.double(np.sum(filled(x)))


@program
def complex_number(x):
    z = complex(x, 2.0)
    w = complex(0.0, x) * z
    return abs(z * w) + (z * z).real


@program
def int_is_constant(x):
    return int(10 * x + 0.5) * x + np.int64(20 * x + 0.5) * x


@program
def type_tests(x):
    a = np.zeros(2)
    a[0] = x
    assert isinstance(a, np.ndarray)
    assert type(a) is np.ndarray
    assert isinstance(x, (float, np.floating))
    assert not isinstance(x, (int, list))
    assert not isinstance(a, float) and not isinstance(np.float64, np.ndarray)
    if isinstance(a, np.ndarray):
        return x * a[0]
    return 0.0


# -- ways to reach a function ----------------------------------------------------------------------------------


@program
def helper_of_this_module(x):
    return doubled(filled(x))


def doubled(a):
    b = np.zeros(3)
    b[:] = a
    return 2 * np.sum(b * a)


@program
def helper_of_another_module(x):
    return np.sum(helpers.filled(x)) * helpers.scaled(x) + scaled(x)


@program
def in_a_comprehension(x):
    a = np.array([math.sin(k * x) for k in range(3)])
    b = {k: math.exp(k * x) for k in range(2)}
    return np.sum(a) + b[1] + sum(math.sqrt(x + k) for k in range(2)) + len({float(k) for k in range(3)})


@program
def in_nested_functions(x):
    def outer(y):
        def inner(z):
            buf = np.zeros(2)
            buf[0] = math.cos(z * y)
            return buf

        return inner(y) + inner(x)

    return np.sum(outer(x))


@program
def in_a_lambda(x):
    f = lambda y: math.sin(y) + float(y)
    return sum(map(f, [x, 2 * x]))


def steps(x, n):
    for k in range(n):
        a = np.zeros(2)
        a[k % 2] = math.exp(k * x)
        yield a


@program
def in_a_generator(x):
    return np.sum(sum(steps(x, 3)))


@program
def in_a_recursion(x, n=3):
    if n == 0:
        return math.sin(x)
    a = np.zeros(2)
    a[0] = in_a_recursion(x * 0.5, n - 1)
    return a[0] * x


@program
def mutual_recursion(x):
    return even(x, 4)


def even(x, n):
    return math.exp(x) if n == 0 else odd(x, n - 1) * x


def odd(x, n):
    return even(x, n - 1) + float(x)


@program
def in_a_class_body(x):
    class Table:
        size = 3
        values = np.zeros(size)
        values[0] = x
        logs = tuple([math.log(x + k) for k in range(2)])

        def total(self):
            return np.sum(self.values) + math.exp(x) + self.logs[0]

    return Table().total()


@program
def import_in_the_body(x):
    import math as m

    import numpy as n
    import numpy.linalg as la
    from numpy import empty

    from .helpers import filled as other

    a = empty(2)
    a[:] = m.exp(x)
    b = n.zeros(2)
    b[1] = n.float64(x)
    return a @ b + n.sum(other(x)) + la.norm([x, x])


@program
def import_seen_from_inside(x):
    import numpy as n

    def inner(y):
        a = n.zeros(1)
        a[0] = y
        return n.float64(a[0])

    return inner(x) ** 2


@program
def from_imports(x):
    a = zeros(2)
    a[0] = root(x)
    return np.sum(array([x, a[0]])) + hypot(x, 2.0) + log(x)


def with_defaults(x, f=math.exp, make=np.zeros, *, g=scaled, lib=np):
    a = make(2)
    a[0] = f(x)
    return np.sum(a) * g(x) + lib.array([x])[0]


program(with_defaults)


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args) * math.cos(args[0])

    return wrapper


@program
@decorated
@decorated
def behind_decorators(x):
    a = np.zeros(2)
    a[1] = x
    return np.sum(a)


@functools.lru_cache(maxsize=64)
def coefficient(k):
    a = np.zeros(k + 1)
    a[-1] = 1 + (coefficient(k - 1)[-1] if k else 0.0)
    return a


@functools.cache
def cached(x):
    return math.exp(x)


@program
def behind_a_cache(x):
    a = coefficient(3)
    return np.sum(a) * cached(x) + cached(x) * coefficient(2)[-1]


@contextlib.contextmanager
def buffered(x):
    a = np.zeros(2)
    a[0] = x
    yield a


@program
def behind_a_decorator_of_a_library(x):
    with buffered(x) as a:
        a[1] = math.sin(x)
        return np.sum(a**2)


def power(n):
    lib, sin = np, math.sin

    def f(x):
        a = lib.zeros(2)
        a[0] = x**n
        return a[0] + sin(n * x)

    return f


square, cube = power(2), power(3)
program(square)
program(cube)


@program
def both_closures_of_a_factory(x):
    return square(x) - cube(x)


def cell_that_is_written(x):
    f = math.exp

    def change():
        nonlocal f
        f = math.sin

    y = f(x)
    change()
    return y * f(x)


program(cell_that_is_written)


def root_pair(x):
    return np.array([root(x), x])


half = functools.partial(with_defaults, f=math.sinh)
pair = (scaled, square)


@program
def partial_and_tuple_of_functions(x):
    return half(x) + sum(f(x) for f in pair)


@program
def reaching_globals_by_name(x):
    return globals()["scaled"](x) + eval("np.zeros(1) + math.exp(x)")[0]
