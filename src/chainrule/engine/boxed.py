"""Boxed: what all traced values share.

A box stands for a value while a transform runs: `data` is the value one level down (a number, an array, or a box of a
lower level), `aux` what the interpreter adds (`Variable`: its node on the tape; `Dual`: its tangent), `level` the
transform it belongs to. NumPy hands every call with a box among its arguments to us; a call goes to the highest level
among its arguments, is opened one level, and what remains is dispatched again.

`Boxed` is abstract. Its subclasses are final and all have the same slots, so that a write can raise a box to a higher
level in place (`become`). ndarray's operators and methods are installed on it by `chainrule.rules`; nothing here knows
a NumPy function by name. What happens to a call with a rule is told in `dispatch`; here are the box, the questions that
rules and transforms ask of values that may be boxed, and the table of what to do when a function is called with one.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.engine.caller import adopt_advice, asked_by
from chainrule.errors import ConversionError, ForeignArrayError

if TYPE_CHECKING:
    from chainrule.engine.surface import Surface
else:
    Surface = object


class Boxed(Surface):
    """A traced value. See the module's docstring."""

    __slots__ = ("__weakref__", "aux", "base", "data", "level", "views", "written")
    __hash__ = object.__hash__
    batch = False  # whether it stands for one value of each of many runs: see engine.batched
    kept = False  # whether it stays in plain values, which depend on it: of a batch, of a program that is recorded
    recorded = False  # whether calls on it become equations of a program: see chainrule.program
    __array_priority__ = 1000.0

    def __init__(self):
        raise TypeError("Boxed is abstract: make a Variable or a Dual")

    # -- what each interpreter defines -----------------------------------------------------------------------

    @staticmethod
    def process(rule, level, operands, params):
        """Run one call of `rule` whose operands are of `level` or lower, and return boxed results."""
        raise NotImplementedError

    def constant(self, y):
        """Box `y` at this box's level, as a value that depends on nothing."""
        raise NotImplementedError

    def alias(self):
        """Return a new box with the same value: a name that later writes to this one can't change."""
        box = object.__new__(self.__class__)
        box.data, box.aux, box.level = self.data, self.aux, self.level
        return box

    def become(self, other):
        """Take over the value, and if need be the level and kind, of `other`: what a write to this name does."""
        self.data  # noqa: B018 (a stale view is read anew first)
        self.__class__ = other.__class__
        self.data, self.aux, self.level = other.data, other.aux, other.level
        return self

    def refuse_write(self):
        """Raise if this value may not be changed in place. Only inputs of an eager tape may not."""

    # -- NumPy's protocols -----------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "__call__" and not kwargs:
            return CALL[ufunc](*inputs)
        return UFUNC_METHOD[0](ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        if len(types) > 1:
            for kind in types:
                if kind is not np.ndarray and not issubclass(kind, Boxed) and not is_duck(kind, args):
                    refuse_foreign(kind)
                    return NotImplemented
        if kwargs and isinstance(kwargs.get("out"), Boxed):
            return INTO[0](kwargs.pop("out"), function(*args, **kwargs), f"np.{function.__name__}")
        return CALL[function](*args, **kwargs)

    # -- what would take the number out of the box -----------------------------------------------------------

    def __deepcopy__(self, memo):
        memo[id(self)] = copied = self.copy("K")  # a recorded copy: it depends on what this value depends on
        return copied

    def __array__(self, dtype=None, copy=None):
        if sys._getframe(1).f_globals.get("__name__", "").startswith("numpy.ma."):  # masked_array * x does not ask us
            refuse_foreign(np.ma.MaskedArray)
        self.advise()
        raise ConversionError(
            "np.array or np.asarray",
            "build arrays from traced values with  np.array([x, y], like=x)  or  np.stack([x, y]);",
            "write into a traced buffer:  a = np.zeros(n, like=x); a[0] = x;",
            adopt_advice(),
            "take the plain value with  chainrule.value(x)  if no derivative is wanted.",
        )

    def __float__(self):
        self.advise()
        raise ConversionError(
            "float(x), a function of the math module, or `a[i] = x` into a plain array",
            "use NumPy's function (np.sin(x) for math.sin(x));",
            "write into a traced buffer:  a = np.zeros(n, like=x); a[i] = x;",
            adopt_advice(),
            "take the plain value with  float(chainrule.value(x))  if no derivative is wanted.",
        )

    def told(self):
        """Hand out what is in the box, as of one that stays in plain values: see `known`."""
        return self.item()

    @staticmethod
    def advise():
        """Raise with the advice that belongs to the function asking for a plain value, if there is any."""
        found = ADVICE[0](*asked_by(), adopt_advice())
        if found is not None:
            raise ConversionError(found[0], *found[1])

    def _no_number(self):
        raise ConversionError(
            "int(x), complex(x), item(), tolist() or use as an index",
            "take the plain value with  chainrule.value(x)  if no derivative is wanted, e.g.  int(chainrule.value(x)).",
        )

    __int__ = __index__ = __complex__ = _no_number

    def item(self, *args):
        """Refuse: a Python number has no derivative."""
        self._no_number()

    def tolist(self):
        """Refuse: Python numbers have no derivative."""
        self._no_number()

    def tobytes(self, *args):
        """Refuse: bytes have no derivative."""
        self._no_number()

    def __bool__(self):
        return bool(self.data)

    # -- shape and text --------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Tuple of lengths."""
        data = self.data
        shape = data.shape if hasattr(data, "shape") else ()
        return shape[1:] if self.batch else shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the value."""
        data = self.data
        return data.dtype if hasattr(data, "dtype") else np.dtype(type(data))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def itemsize(self):
        """Bytes of one entry."""
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """Bytes of the value."""
        return self.size * self.dtype.itemsize

    def __len__(self):
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self):
        text = repr(value(self))
        text = text[6:-1] if text.startswith("array(") else text
        return f"{type(self).__name__}({text})"

    def __str__(self):
        return str(value(self))

    def __format__(self, spec):
        return format(value(self), spec)


def value(x: Any) -> Any:
    """Return the plain value of `x`, without derivatives: a number or an ndarray; anything untraced as it is.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> cr.value(cr.Variable(np.array([1.0, 2.0])))
    array([1., 2.])
    """
    while isinstance(x, Boxed):
        if x.kept:  # a batch has no single value, a program must know where one comes from: without derivatives
            inner = value(x.data)
            if inner is not x.data:
                x = x.alias()
                x.data = inner
            return x
        x = x.data
    return x


def array_value(x: Any) -> Any:
    """Return the plain value of `x` as an array; a batch, and what is recorded, as it is."""
    x = value(x)
    return x if isinstance(x, Boxed) else np.asarray(x)


def ordinary(x: Any) -> bool:
    """Tell whether the calls on `x` are being recorded: a program is written for numbers that call for no care.

    Rules look for overflows and the like, and then go other ways. A program has none of these; who runs it takes care
    of results that are not finite.
    """
    while isinstance(x, Boxed):
        if x.recorded:
            return True
        x = x.data
    return False


def known(x: Any) -> Any:
    """Return the plain value of `x` for what can't go on without it: an array whose shape depends on it.

    A program notes that it holds for this value only; a batch is stopped.
    """
    x = value(x)
    while isinstance(x, Boxed):
        x = x.told()
    return x


def differentiated(x: Any) -> bool:
    """Tell whether `x` is traced by a transform that takes derivatives: not only by a batch or a program."""
    while isinstance(x, Boxed):
        if not x.kept:
            return True
        x = x.data
    return False


def all_values(x: Any) -> Any:
    """Return the plain value of `x`; of a batch the array of all its runs.

    For questions about all entries, such as whether one is infinite, whose answer may be the same for all runs.
    """
    while isinstance(x, Boxed):
        x = x.data
    return x


def keeper(values: Any) -> "Boxed | None":
    """Return the highest of the boxes in `values`, and in lists of them, if all of these stay in plain values."""
    top = None
    for x in values:
        if isinstance(x, list | tuple):
            found = keeper(x)
            if found is None:
                if holds_box(x):
                    return None
                continue
            x = found
        if isinstance(x, Boxed):
            if not x.kept:
                return None
            if top is None or x.level > top.level:
                top = x
    return top


def holds_box(items):
    """Tell whether a box is in nested lists or tuples."""
    return any(isinstance(v, Boxed) or (isinstance(v, list | tuple) and holds_box(v)) for v in items)


def inexact(y):
    """Tell whether a value can carry a derivative: floats and complex numbers, and boxes (which hold those)."""
    kind = y.__class__
    if kind is float or kind is np.float64 or kind is complex:
        return True
    dtype = getattr(y, "dtype", None)
    return dtype is not None and dtype.kind in "fc"


# -- foreign arrays ----------------------------------------------------------------------------------------

_FOREIGN_ADVICE = {
    "matrix": "use a plain array:  np.asarray(m)  (np.matrix changes the meaning of * and of shapes).",
    "MaskedArray": "use plain arrays and np.where(mask, a, b), which differentiates.",
    "pandas": "use the values:  s.to_numpy().",
    "xarray": "use the values:  da.values.",
    "polars": "use the values:  s.to_numpy().",
}


def refuse_foreign(kind):
    """Raise with advice for array types that are known not to work."""
    root = kind.__module__.partition(".")[0]
    for name in (kind.__name__, root):
        if name in _FOREIGN_ADVICE:
            raise ForeignArrayError(f"{root}.{kind.__name__}", _FOREIGN_ADVICE[name])


def is_duck(kind, args):
    """Tell whether some box among `args` holds an array of this foreign type, which then may stand beside it."""
    for a in args:
        if isinstance(a, Boxed) and type(value(a)) is kind:
            return True
        if isinstance(a, list | tuple) and is_duck(kind, a):
            return True
    return False


# -- the table of calls --------------------------------------------------------------------------------------


class _Calls(dict):
    """Function -> what to do when it is called with a traced value. Entries are built at their first use."""

    def __missing__(self, function):
        call = BUILD[0](function)
        self[function] = call
        return call


CALL = _Calls()
BUILD = [None]  # set by engine.calls: function -> callable, or raises NoRuleError
ADVICE = [lambda module, path, adopt: None]  # set by chainrule.rules.unsupported: what to write instead of a call
INTO = [None]  # set by engine.calls: (out, result, name) -> out, the result written into a traced destination
UFUNC_METHOD = [None]  # set by engine.calls: ufunc methods and keyword arguments
