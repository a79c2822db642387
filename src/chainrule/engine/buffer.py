"""Buffers: constant arrays that traced values may be written into.

NumPy never tells us of ``a[0] = x`` where `a` is a plain array. A `Buffer` stands for the plain array in that place: it
belongs to no transform and depends on nothing, so operations on buffers alone are computed at once and give buffers
again, and beside a traced value it counts as the plain array it holds. The first traced value written into it turns
that very object into a box of the value's level, so all names of the buffer see it.

Since nothing can be lost by it, a Buffer also converts to a plain array or number wherever one is asked for.
"""

import numpy as np

from chainrule.engine.boxed import Boxed, inexact
from chainrule.engine.dispatch import map_outputs
from chainrule.errors import NoRuleError

LEVEL = 0  # below every Variable and Dual


class Buffer(Boxed):
    """A constant array or number that takes part in writes. Made by `buffer`."""

    __slots__ = ()

    @staticmethod
    def process(rule, level, operands, params):
        """Compute on the plain arrays."""
        return map_outputs(buffer, rule.apply(tuple([plain(x) for x in operands]), params))

    def constant(self, y):
        """Box `y` as another buffer."""
        return buffer(y)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        out = kwargs.get("out")
        if out is not None and not any(isinstance(o, Boxed) for o in out) and only_buffers(inputs):
            return getattr(ufunc, method)(*opened(inputs), **kwargs)  # a plain destination loses nothing here
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        if not only_buffers((args, kwargs)):
            return super().__array_function__(function, types, args, kwargs)
        if args and args[0].__class__ is Buffer:  # may be a view of that buffer, or a write to it
            try:
                return super().__array_function__(function, types, args, kwargs)
            except NoRuleError:
                pass
        return map_outputs(buffer, function(*opened(args), **opened(kwargs)))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype=dtype)

    def __float__(self):
        return float(self.data)

    def __int__(self):
        return int(self.data)

    def __complex__(self):
        return complex(self.data)

    def item(self, *args):
        """Return an entry as a Python number."""
        return self.data.item(*args)

    def tolist(self):
        """Return the entries as nested lists of Python numbers."""
        return self.data.tolist()

    def tobytes(self, *args):
        """Return the entries as bytes."""
        return self.data.tobytes(*args)

    def __copy__(self):
        return buffer(self.data)

    def __deepcopy__(self, memo):
        return buffer(np.array(self.data))

    def __reduce__(self):
        return buffer, (self.data,)


def buffer(y):
    """Return the plain array or number `y` as a `Buffer`; what can't carry a derivative (ints, bools) as it is."""
    if isinstance(y, Boxed) or not inexact(y):
        return y
    box = object.__new__(Buffer)
    box.data, box.aux, box.level = y, None, LEVEL
    return box


def only_buffers(x):
    """Tell whether there is no box but buffers in `x` and in the containers of it."""
    if x.__class__ is dict:
        x = tuple(x.values())
    if x.__class__ in (list, tuple):
        return all(only_buffers(v) for v in x)
    return x.__class__ is Buffer or not isinstance(x, Boxed)


def opened(x):
    """Return `x` with the plain arrays in place of its buffers."""
    if x.__class__ is dict:
        return {k: opened(v) for k, v in x.items()}
    if x.__class__ in (list, tuple):
        return x.__class__([opened(v) for v in x])
    return plain(x)


def plain(x):
    """Return the array that a Buffer holds; anything else as it is."""
    return x.data if x.__class__ is Buffer else x
