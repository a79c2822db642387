"""Cotangents that are not arrays yet. Rules never see them; `tape.pull_back` does.

`Masked` goes with a cotangent whose entries outside `mask` are zero because a choice (`where`, `clip`) did not take
them: after each elementwise pull it is selected by the mask again, so that 0 * inf in an inactive branch gives 0.
`Scatter` is the cotangent of an indexed read: the value and its place. The first two of one node are written into one
dense accumulator, the later ones too. `Slots` collects the cotangents of the outputs of one call.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, holds_box, ordinary
from chainrule.engine.spec import spec_of, zeros_of


class Masked:
    """A cotangent that is zero outside `mask` by a choice. The mask is plain and has the value's shape."""

    __slots__ = ("mask", "value")
    __array_ufunc__ = None  # so that `array + Masked` comes here

    def __init__(self, value, mask):
        self.value, self.mask = value, mask

    def __add__(self, other):
        if other.__class__ is Masked:
            return Masked(self.value + other.value, self.mask | other.mask)
        if other.__class__ is Scatter or other.__class__ is Accumulator:
            other = other.dense()
        return self.value + other

    def __radd__(self, other):
        return other + self.value

    def dense(self):
        """Return the cotangent as an array."""
        return self.value


class Scatter:
    """The cotangent of ``x[index]``: `value` at `index` of an array of zeros like `spec`."""

    __slots__ = ("index", "spec", "value")
    __array_ufunc__ = None

    def __init__(self, value, index, spec):
        self.value, self.index, self.spec = value, index, spec

    @property
    def dtype(self):
        """That of the primal, so that there is nothing to cast."""
        return self.spec.dtype

    def touched(self):
        """Return the mask of the entries that were read."""
        return touched_by([self.index], self.spec.shape)

    def begun(self):
        """Return the same as the first part of a sum."""
        return Accumulator(self.dense(), self.spec, [self.index])

    def dense(self):
        """Return the cotangent as an array."""
        return SCATTER[0](self.value, self.index, self.spec.shape, self.spec.dtype)

    def __add__(self, other):
        if other.__class__ is Accumulator:
            return other + self
        if other.__class__ is Scatter:
            return Accumulator(self.dense(), self.spec, [self.index]) + other
        return self.dense() + (other.dense() if other.__class__ is Masked else other)

    def __radd__(self, other):
        return other + self.dense()


class Accumulator:
    """A dense sum of `Scatter`s, owned by one node of one backward pass: later ones are written into it.

    A pullback with the attribute `takes_sums` gets the Accumulator itself, and may write to it and hand it on.
    `places` are the indices that were read; None if something else was added.
    """

    __slots__ = ("places", "spec", "value")
    __array_ufunc__ = None

    def __init__(self, value, spec, places=None):
        self.value, self.spec, self.places = value, spec, places

    def touched(self):
        """Return the mask of the entries that were read."""
        if self.places is None:
            return np.ones(self.spec.shape, bool)
        return touched_by(self.places, self.spec.shape)

    def dense(self):
        """Return the cotangent as an array."""
        return self.value

    def __add__(self, other):
        if other.__class__ is Scatter:
            if self.places is not None:
                self.places.append(other.index)
            if isinstance(other.value, Boxed) or isinstance(self.value, Boxed) or holds_box((other.index,)):
                self.value = ADD_INTO[0](self.value, other.index, other.value)
            else:
                ADD_AT[0](self.value, other.index, other.value)
            return self
        self.places = None
        if other.__class__ is Masked or other.__class__ is Accumulator:
            other = other.dense()
        if isinstance(other, Boxed) or isinstance(self.value, Boxed):
            self.value = self.value + other
            return self
        np.add(self.value, other, out=self.value, casting="same_kind")
        return self

    __radd__ = __add__


def touched_by(places, shape):
    """Return the mask of the entries that the indices `places` name; those of a recorded run are not known yet."""
    mask = np.zeros(shape, bool)
    for index in places:
        if any(ordinary(i) for i in (index if index.__class__ is tuple else (index,))):
            mask = mask | SCATTER[0](True, index, shape, mask.dtype)
        else:
            mask[index] = True
    return mask


ADD_INTO = [None]  # set by engine.writes: the same into a box
SCATTER = [None]  # set by engine.indexing: the primitive `scatter`
ADD_AT = [None]  # set by engine.indexing: add into a plain array at an index, repeated entries included


class Slots(dict):
    """Cotangents of some of the outputs of one call, by number."""

    __slots__ = ()

    def __add__(self, other):
        total = Slots(self)
        for k, ybar in other.items():
            total[k] = total[k] + ybar if k in total else ybar
        return total

    def filled(self, outputs, masks=False):
        """Return a cotangent for each output; of an unused one a single zero, broadcast, so that a rule may tell.

        `masks` leaves masked ones as they are: for rules that hand them on.
        """

        def one(ybar):
            return ybar.dense() if ybar.__class__ in LAZY and not (masks and ybar.__class__ is Masked) else ybar

        return tuple(one(self[k]) if k in self else unused_zeros(spec_of(y)) for k, y in enumerate(outputs))


def unused_zeros(spec):
    """Return read-only zeros of the shape and dtype of an output that nobody used."""
    return np.broadcast_to(spec.dtype.type(0), spec.shape) if spec.shape else zeros_of(spec)


LAZY = frozenset({Masked, Scatter, Accumulator})
