"""Runs of a program that round otherwise: how much it amplifies what two libraries round differently.

Arguments moved by a last digit do not tell where a program starts from constants, or goes through `tanh` of a large
number: there rounding inside is all the noise that there is.
"""

import functools

import numpy as np

from chainrule.engine.spec import sum_to
from chainrule.program.ir import Program, interpret, run_equations

EXACT = {
    np.negative, np.positive, np.absolute, np.fabs, np.sign, np.maximum, np.minimum, np.fmax, np.fmin, np.copysign,
    np.floor, np.ceil, np.trunc, np.rint, np.heaviside, np.where, np.nextafter, np.ldexp, np.fmod, np.remainder,
}  # fmt: skip
ADDING = {
    np.sum, np.prod, np.mean, np.var, np.std, np.cumsum, np.cumprod, np.matmul, np.dot, np.einsum, np.tensordot,
    np.inner, np.outer, np.vdot, np.trace, np.convolve, np.average, np.cov, np.corrcoef, np.trapezoid, sum_to,
}  # fmt: skip
LINEAR = {np.sum, np.mean, np.cumsum, np.trace, sum_to}
DIGITS = 4  # the units in the last place of a function of `libmvec`


def rounds(fun) -> bool:
    """Tell whether the results of a function depend on how it rounds."""
    if fun in EXACT:
        return False
    module = getattr(fun, "__module__", "") or ""
    return isinstance(fun, np.ufunc) or fun in ADDING or "linalg" in module or "fft" in module or "special" in module


def shaken(rng, program: Program, points: list) -> list:
    """Run a program as `interpret` does, with the results of its calls moved by a few last digits."""
    return interpret(program, points, functools.partial(run_shaken, rng))


def multiplied(program: Program, points: list) -> list:
    """Run a program as `interpret` does, with whole powers as products by squares.

    Where a difference is exactly 0 in the one and not in the other, noise never tells.
    """
    return interpret(program, points, run_multiplied)


def run_multiplied(equations, values):
    """Run equations one by one, powers as products."""
    for e in equations:
        if hasattr(e, "run"):
            e.run(values, run_multiplied)
            continue
        run_equations([e], values)
        if getattr(e, "fun", None) is np.power and e.inputs[1].__class__ is int and 2 < e.inputs[1] < 64:
            values[e.output] = by_squares(values[e.inputs[0]], e.inputs[1])


def by_squares(x, n):
    """Return x to a whole power, as machine code has it."""
    y = None
    while n:
        if n & 1:
            y = x if y is None else y * x
        x, n = x * x, n // 2
    return y


def run_shaken(rng, equations, values):
    """Run equations one by one, and move what rounds."""
    for e in equations:
        if hasattr(e, "run"):  # a loop: its rounds come back here
            e.run(values, functools.partial(run_shaken, rng))
            continue
        fun = getattr(e, "fun", None)
        kept = {s: values[s] for s in e.reads} if fun in ADDING else {}
        scale = 2.0**-20 if fun in LINEAR and rng.random() < 0.5 else 1  # which sum overflows depends on the order, too
        values.update({s: scaled(stirred(rng, v), scale) for s, v in kept.items()})  # as another order does
        run_equations([e], values)
        values.update(kept)
        if fun is not None and rounds(fun):
            for s in e.outputs:
                values[s] = scaled(stirred(rng, values[s]), 1 / scale)


def scaled(x, scale):
    """Return a floating-point result times a power of 2."""
    kind = np.asarray(x).dtype
    return x if scale == 1 or kind.kind not in "fc" else x * kind.type(scale)


def stirred(rng, x):
    """Return a result whose entries are moved by a few last digits; others are returned as they are."""
    kind = np.asarray(x).dtype
    if kind.kind not in "fc" or not np.size(x):
        return x
    noise = DIGITS * rng.uniform(-1, 1, np.shape(x))
    y = x * (1 + np.finfo(kind).eps * noise) + np.where(x == 0, 0, np.rint(noise) * np.finfo(kind).smallest_subnormal)
    return y if x.__class__ in (float, complex) else y.astype(kind)
