"""A module of the package that others import from, in every way there is."""

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
