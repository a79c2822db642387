"""Classes with methods that call each other."""

import dataclasses
import functools
import math

import numpy as np

registry = []


class Base:
    made = 0

    def __init__(self, w):
        self.w = w
        self.log = []
        Base.made += 1

    def features(self, x):
        out = np.zeros(2)
        out[0] = math.exp(self.w * x)
        return out

    def penalty(self, x):
        return float(x) ** 2


class Model(Base):
    used = 0

    def __init__(self, w, scale):
        super().__init__(w)
        self.scale = scale

    def features(self, x):
        out = np.empty(3)
        out[:2] = super().features(x)
        out[2] = x
        return out

    def loss(self, x):
        self.log.append("loss")
        type(self).used += 1
        return np.sum(self.features(x)) * self.scale + self.penalty(x) + self.offset + self.shift(x) + self.sized(x)

    @property
    def offset(self):
        a = np.zeros(1)
        a[0] = self.w
        return a[0]

    @staticmethod
    def shift(x):
        return math.sin(x)

    @classmethod
    def sized(cls, x):
        return cls.shift(x) * math.cos(x)

    @functools.cached_property
    def table(self):
        return np.array([math.sqrt(self.w), 1.0])

    def __call__(self, x):
        return self.loss(x) + np.sum(self.table) * x


@dataclasses.dataclass(frozen=True)
class Line:
    a: float
    b: float

    def at(self, x):
        y = np.zeros(1)
        y[0] = self.a * x + self.b
        return y[0]

    def squared(self, x):
        assert self == Line(self.a, self.b) and Line(self.a, self.b) == self and hash(self) == hash((self.a, self.b))
        return self.at(x) * type(self)(self.a, self.b).at(x)


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w):
        self.w = w

    def at(self, x):
        y = np.zeros(1)
        y[0] = self.w * x
        return y[0]

    def twice(self, x):
        return 2 * self.at(x)
