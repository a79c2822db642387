"""Objects whose methods are adopted, without a change of their class: the ``self`` of an adopted method.

``cr.adopt(model.loss)`` runs code that calls ``self.other()``, and `other` must be adopted as well. So ``self`` is, in
that code, an object of a subclass that has the methods in adopted form, and whose attributes are those of the object
itself: both have one ``__dict__``. Of each base in the same package there is such a subclass, too, placed so that
``super()`` reaches it. What is assigned to the subclass goes to the class, and ``self.__class__`` is the class itself.
"""

import abc
import collections
import copy
import copyreg
import types
import weakref
from typing import Any

from chainrule.adopt.snapshot import package_of

# class -> weak reference to its adopted subclass
_classes: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()
_recent: collections.deque = collections.deque(maxlen=64)  # keeps those alive that are in use
_META: dict[type, Any] = {type: None, abc.ABCMeta: None}  # metaclass -> that of adopted subclasses


def self_of(x, adopt_member, is_adopted):
    """Return the object that stands for `x` in adopted code; `x` itself if its class does not allow it."""
    c = type(x)
    if is_adopted(c) or not suits(c) or not isinstance(getattr(x, "__dict__", None), dict):
        return x
    try:
        return standing_in(subclass(c, adopt_member), x)
    except TypeError:  # its memory is laid out by a class written in C, or the bases have no common order
        return x


def standing_in(c, x):
    """Return an object of the adopted subclass `c` whose attributes are those of `x`."""
    stand_in = object.__new__(c)
    object.__setattr__(stand_in, "__dict__", x.__dict__)
    c._chainrule_self.__set__(stand_in, x)
    return stand_in


def behind_self(x):
    """Return the object that `self_of` gave a stand-in for; any other as it is."""
    return x._chainrule_self if "_chainrule_class" in vars(type(x)) else x


def suits(c):
    """Tell whether a class can have an adopted subclass without noticing it."""
    return (
        type(c) in _META
        and "_chainrule_class" not in vars(c)
        and c.__module__ not in ("builtins", "__builtin__")
        and not copyreg._slotnames(c)
        and not any("__init_subclass__" in vars(b) for b in c.__mro__[:-1])
    )


def subclass(c, adopt_member):
    """Return the subclass of `c` with its methods adopted."""
    known = _classes.get(c)
    known = known and known()
    if known is None:
        bases = [subclass(b, adopt_member) for b in c.__bases__ if same_package(b, c) and suits(b)]
        own = {k: adopt_member(k, v) for k, v in vars(c).items()}
        own = {k: v for k, v in own.items() if v is not vars(c)[k]}
        own |= {
            "__slots__": ("_chainrule_self",) if not bases else (),
            "__module__": c.__module__,
            "__qualname__": c.__qualname__,
            "__doc__": c.__doc__,
            "__hash__": c.__hash__,
            "__reduce_ex__": reduce_to_original,
            "__class__": property(lambda self: c),
            "_chainrule_class": c,
        }
        own |= {k: v for k, v in COPIES.items() if not hasattr(c, k)}
        known = metaclass(type(c))(c.__name__, (c, *bases), own)
        _classes[c] = weakref.ref(known)
        _recent.append(known)
    return known


def same_package(b, c):
    """Tell whether a base is of the package of the class."""
    return b is not object and package_of(b.__module__) == package_of(c.__module__)


def reduce_to_original(self, protocol):
    """Pickle the object itself."""
    return behind_self, (self._chainrule_self,)


def copy_original(self):
    """Copy the object itself."""
    return copy.copy(self._chainrule_self)


def deepcopy_original(self, memo):
    """Copy the object itself, and what it holds."""
    return copy.deepcopy(self._chainrule_self, memo)


COPIES = {"__copy__": copy_original, "__deepcopy__": deepcopy_original}


def metaclass(kind):
    """Return the metaclass of adopted subclasses: what is assigned to one goes to its original."""
    if _META[kind] is None:

        def set_attribute(c, name, v):
            setattr(vars(c)["_chainrule_class"], name, v)

        def make(c, *args, **kwargs):
            return standing_in(c, vars(c)["_chainrule_class"](*args, **kwargs))

        def set_up(namespace):
            namespace["__setattr__"], namespace["__call__"] = set_attribute, make

        _META[kind] = types.new_class("Adopted", (kind,), {}, set_up)
    return _META[kind]
