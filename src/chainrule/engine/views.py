"""Views: boxes that show a part of another box, so that a write to either is seen by both.

A box that was read off another as a view (NumPy says whether it is one) remembers that base, and the rule that read it.
The base keeps weak references to its views. A write turns the views of what it changed into `Stale` boxes; a stale box
is read off its base anew at its next use, whatever that is. So reads and writes need no version numbers, and a write
costs nothing for views that nobody looks at again.
"""

import weakref

import numpy as np

from chainrule.engine.boxed import Boxed, all_values, value
from chainrule.engine.dispatch import dispatch
from chainrule.engine.dual import Dual

_class = object.__dict__["__class__"]  # the true class of a box: `Stale` hides its own


class Stale(Boxed):
    """A view whose base was written to: whoever asks for its value gets that of the view read anew.

    It is of its base's class to all who ask. (Were it read anew for that, `isinstance` would miss it: it compares the
    answer with the class that the object has afterwards.)
    """

    __slots__ = ()

    # what a box is by its class; `value` asks for it before anything is read anew
    batch = property(lambda self: self.base[0].batch)
    kept = property(lambda self: self.base[0].kept)
    recorded = property(lambda self: self.base[0].recorded)

    @property
    def __class__(self):
        return self.base[0].__class__

    def __getattr__(self, name):
        if name not in ("data", "aux", "level"):
            raise AttributeError(name)
        refresh(self)
        return object.__getattribute__(self, name)


def _forward(name):
    """Return a method that reads the view anew and goes on with the same method of the class it then has."""

    def method(self, *args, **kwargs):
        refresh(self)
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in (  # what subclasses of Boxed define for themselves, and Python looks up by the class of the stale box
    "__array__", "__array_function__", "__array_ufunc__", "__bool__", "__complex__", "__copy__", "__deepcopy__",
    "__float__", "__format__", "__index__", "__int__", "__reduce__", "__repr__", "__str__", "constant", "item",
    "refuse_write", "tobytes", "tolist",
):  # fmt: skip
    setattr(Stale, _name, _forward(_name))


def note_view(view, base, rule, params):
    """Remember that `view` shows what ``rule`` reads off `base`."""
    view.base = (base, rule, params)
    views = getattr(base, "views", ())
    if views == ():  # the first view; a write would have set it to None
        base.views = [weakref.ref(view)]
        return
    if getattr(base, "written", False):
        detach(view)
    if views is None:
        base.views = [weakref.ref(view)]
    else:
        n = len(views)
        if n >= 32 and n & (n - 1) == 0:  # at powers of two only, so that many live views cost no more each than few
            views[:] = [v for v in views if v() is not None]
        views.append(weakref.ref(view))


def detach(view):
    """Give a view an array of its own, so that a residual made of it does not hold its base's array.

    Else the next write to the base would have to copy all of it. Done for bases that are being written to.
    """
    data = view.data
    if isinstance(data, Boxed):
        detach(data)
    elif data.__class__ is np.ndarray:
        view.data = detached(data)
    if view.__class__ is Dual:
        tangent = view.aux
        if isinstance(tangent, Boxed):
            detach(tangent)
        elif tangent.__class__ is np.ndarray:
            view.aux = detached(tangent)


def detached(part):
    """Return a copy with the same kind of strides, for whether a reshape of it is a view depends on them.

    Views with gaps in several axes are given back as they are.
    """
    if part.base is None:
        return part
    if part.flags.c_contiguous or part.flags.f_contiguous:
        copy = part.copy("K")
    elif part.ndim == 1:
        copy = np.empty(2 * part.size, part.dtype)[::2]
        copy[...] = part
    else:
        return part
    if not part.flags.writeable:
        copy.flags.writeable = False
    return copy


def noted(y, x, rule, params):
    """Return `y`, which `rule` made of `x` by moving elements; if NumPy made it a view of `x`, it remembers that."""
    if value(y) is value(x):
        return x  # NumPy gave the very array back: the same name
    plain = value(x)
    batch = isinstance(plain, Boxed) and plain.batch
    if batch and not y.shape:  # an entry of each run: an array of all runs shows them, one run gives a number
        shown = shows_in_one_run(x, rule, params)
    else:
        shown = shows(y.data, x.data) or (batch and shows_in_one_run(x, rule, params))
    if shown:
        note_view(y, x, rule, params)
    return y


def shows_in_one_run(x, rule, params):
    """Tell whether the function gives a view of the array of one run of a batch."""
    one = all_values(x)
    while one.ndim > len(x.shape):
        if not len(one):
            return False
        one = one[0]
    if getattr(x, "base", None) is None:  # what one run makes anew has no gaps
        one = np.empty_like(one)
    part = rule.apply((one,), params)
    return part.__class__ is np.ndarray and part.base is not None and np.may_share_memory(part, one)


def shows(a, b):
    """Tell whether the value `a` is a view of `b`: a lower box that remembers it, or an array with the same memory."""
    if isinstance(a, Boxed) and isinstance(b, Boxed):
        base = getattr(a, "base", None)
        return (base is not None and base[0] is b) or shows(a.data, b.data)
    if a.__class__ is b.__class__ is np.ndarray:
        base = a.base
        if base is None:
            return False
        return base is b or base is b.base or owner(base) is owner(b)
    return False


def owner(a):
    """Return what owns the memory of an array; `sliding_window_view` puts an object between a view and its base."""
    while (base := getattr(a, "base", None)) is not None:
        a = base
    return a


def live_views(x):
    """Return the views of `x` that somebody still holds."""
    views = getattr(x, "views", None)
    return [v for v in [ref() for ref in views] if v is not None] if views else ()


def expire(x):
    """Turn the views of `x`, and theirs, into `Stale` boxes: `x` is about to change, or has."""
    for view in live_views(x):
        expire(view)
        if type(view) is not Stale:
            _class.__set__(view, Stale)
            del view.data, view.aux, view.level
    x.views = None


def refresh(view):
    """Read a stale view off its base."""
    base, rule, params = view.base
    new = dispatch(rule, (base,), params)
    _class.__set__(view, new.__class__)
    view.data, view.aux, view.level = new.data, new.aux, new.level
    note_view(view, base, rule, params)
