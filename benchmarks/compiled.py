"""What compiled functions take: microseconds for a call, beside plain Python, and milliseconds to compile.

Arguments and captured arrays change between the calls. Each row checks that no call was run as Python, and that nothing
was traced but what had to be.

    python benchmarks/compiled.py
"""

import timeit
import warnings

import numpy as np

import chainrule as cr

rng = np.random.default_rng(0)
weights = rng.normal(size=(20, 20))


def plus_one(x):
    """Add one: the overhead of a call."""
    return x + 1


def rosenbrock(x):
    """A valley of a hundred dimensions."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_by_hand(x):
    """Its value and gradient, as a person would write them."""
    a, b = x[:-1], x[1:]
    r = b - a * a
    s = 1.0 - a
    g = np.zeros_like(x)
    g[1:] = 200.0 * r
    g[:-1] += -400.0 * r * a - 2.0 * s
    return 100.0 * (r @ r) + s @ s, g


def layer(x):
    """A layer whose weights are captured."""
    return np.sum(np.tanh(weights @ x) ** 2)


def newton(a):
    """Square root by Newton's method: the number of steps depends on `a`."""
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def branches(x):
    """Go another way for each entry."""
    total = 0.0
    for i in range(len(x)):
        v = x[i]
        total = total + (np.sin(v) if v > 0 else v * v)
    return total


def softplus(x):
    """A million entries, in blocks."""
    return np.mean(np.logaddexp(0.0, x) * np.tanh(x))


def vectors(n, positive=False):
    """Return a function that makes new arguments."""
    return lambda: np.abs(rng.normal(size=n)) if positive else rng.normal(size=n)


# function compiled, the one to compare with, new arguments, traces at most
ROWS = (
    ("x + 1, n=4", plus_one, None, vectors(4), 1),
    ("Rosenbrock, n=100", cr.value_and_grad(rosenbrock), rosenbrock_by_hand, vectors(100), 1),
    ("layer, n=20", cr.value_and_grad(layer), None, vectors(20), 1),
    ("Newton's while", cr.value_and_grad(newton), None, lambda: np.float64(10.0 ** rng.uniform(-8, 40)), 8),
    ("branch per entry, n=8", cr.value_and_grad(branches), None, vectors(8), 8),
    ("softplus, n=10^6", cr.value_and_grad(softplus), None, vectors(10**6), 1),
)


def microseconds(f, make, number):
    """Return the least mean time of `number` calls, each with new arguments."""
    best = float("inf")
    for _ in range(5):
        points = [make() for _ in range(number)]
        if f is not None:
            best = min(best, timeit.timeit(lambda ps=points: [f(p) for p in ps], number=1) / number)
    return best * 1e6


def row(name, f, other, make, most):
    """Time one function, compiled and as it is; return the line of the table."""
    compiled = cr.compile(f)
    for _ in range(20):
        compiled(make())
    warm = compiled.stats()
    number = 3 if make().size > 10**4 else 200
    fast = microseconds(compiled, make, number)
    plain = microseconds(other or f, make, number)
    weights[...] += 1e-3
    np.testing.assert_allclose(compiled(x := make())[0], f(x)[0], rtol=1e-9)
    stats = compiled.stats()
    notes = [f"{stats.fallbacks} run as Python"] * bool(stats.fallbacks) + list(stats.eager)
    if stats.traces > most:
        notes.append(f"{stats.traces} traces, expected {most}")
    text = f"{name:24}{fast:10.2f}{plain:12.2f}{fast / plain:8.2f}{warm.seconds / max(warm.traces, 1) * 1e3:10.1f}"
    return f"{text}{stats.traces:8}   {'; '.join(notes)}".rstrip()


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)  # the table says what is run as Python
    print(f"{'':24}{'compiled':>10}{'plain':>12}{'ratio':>8}{'build ms':>10}{'traces':>8}")
    for each in ROWS:
        print(row(*each))
