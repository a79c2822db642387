"""A module of the package that others import from, in every way there is."""

import asyncio
import math

import numpy as np

SCALE = 2.0
calls = 0
total = 0.0


def filled(x):
    out = np.zeros(3)
    out[0] = x
    out[1:] = x**2
    return out


def scaled(x):
    return SCALE * math.sin(x)


def count(x):
    global calls
    calls += 1
    return math.exp(x) * calls


def fill_in(out, x):
    for i in range(len(out)):
        out[i] = math.cos(i * x)


def write_globals(x):
    global calls, total, made_here
    calls += 1
    total = float(x) + total
    made_here = np.zeros(2)
    return count(x) + calls


def delete_global(x):
    global made_here
    del made_here
    return math.exp(x)


def count_up_through_the_module(x):
    import adopted_code.helpers as this

    this.calls = calls + 10
    return math.exp(x) * this.calls


def tally():
    global calls
    calls = 0
    while True:
        x = yield calls
        a = np.zeros(1)
        a[0] = math.exp(x)
        calls += 1
        yield a[0]


async def awaited(x):
    await asyncio.sleep(0)
    a = np.zeros(1)
    a[0] = math.exp(x)
    return a[0]


async def asynchronous_steps(x):
    yield x


def apply(f, x):
    return f(x) * math.exp(x)


def adds_to(out, x):
    out.append(math.exp(x))
    a = np.zeros(1)
    out.append(a)
    return out[0]


def plain_results(n):
    a = np.zeros(n)
    return {"a": a, "b": [np.ones(n), 1.0], "c": (np.array([1.0, 2.0]), "text")}


def of_scipy(x):
    import scipy.linalg
    from scipy.special import logsumexp
    from scipy.stats import norm

    a = np.array([[2.0 + x, 0.5], [0.5, 3.0]])
    b = np.array([x, 1.0])
    y = scipy.linalg.solve(a, b) + scipy.linalg.solve_triangular(scipy.linalg.cholesky(a, lower=True), b, lower=True)
    return np.sum(y) + norm.logpdf(x, 0.5, 2.0) + logsumexp([x, 1.0])


@np.vectorize
def stepped(x):
    return math.sin(x) if x > 0.5 else math.exp(x)


def vectorized(x):
    inner = np.vectorize(lambda y: math.sqrt(y))
    return np.sum(stepped(np.array([x, 0.2, 2 * x]))) + np.sum(inner([x, 2.0]))


def piecewise_and_along_axis(x):
    a = np.piecewise(x * np.ones(3), [np.array([True, False, True])], [lambda v: v**2, 1.0])
    b = np.apply_along_axis(lambda row: np.array([math.exp(x) * row[0], 1.0]), 1, np.ones((2, 3)))
    return np.sum(a) + np.sum(b) + np.sum(np.r_[x, 1.0, x**2] ** 2)


gradient_free = [scaled]


def through_a_list(x):
    return gradient_free[0](x)
