"""Function: operators that a user defines by ``forward`` and ``backward``. How its calls run: `engine.user_call`."""

from typing import Any

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, value
from chainrule.engine.state import any_part, attributes
from chainrule.engine.tape import leaf
from chainrule.engine.user_call import OURS, Input, Run, as_input, by_hand, current, name_of
from chainrule.engine.variable import Variable
from chainrule.errors import ReusedFunctionError, ShapeError, UnsupportedArgumentError, message


class Function:
    """The base of operators defined by hand: subclass it, and define `forward` and `backward`.

    ``forward(self, *arrays, **kwargs)`` computes the output (or a tuple of outputs) from plain arrays.
    ``backward(self, *ybars)`` takes the gradient in each output, and returns that in each input: a value of the input's
    shape, or None for zero; several as a tuple. It must be linear in them.

    An object is called as a function. Inputs may be plain or traced; keyword arguments are constants, for `forward`.
    Calls can be differentiated in both modes and to any order if `backward` is written in NumPy functions over
    ``self.input.data`` (or ``self.inputs[k].data``); where that can't work, it raises.

    Attributes
    ----------
    input : Variable
        The input of the only call made; its ``.data`` is what `forward` got.
    inputs : tuple of Variable
        All of them.

    Raises
    ------
    NotImplementedError
        If a method that is needed is not defined.
    ShapeError
        If `backward` returns a wrong number of gradients, or one of a wrong shape.
    ReusedFunctionError
        If ``self.input`` is read, outside of a derivative, after more than one call. Derivatives are right even so.

    Notes
    -----
    Each call works on a shallow copy of the object, which then hands its attributes over: so ``f.backward(ybar)`` can
    be called by hand. Attributes that `backward` assigns reach the object, too, in a first derivative.

    Examples
    --------
    >>> import numpy as np, chainrule as cr
    >>> class Exp(cr.Function):
    ...     def forward(self, x):
    ...         return np.exp(x)
    ...
    ...     def backward(self, ybar):
    ...         return np.exp(self.input.data) * ybar
    >>> x = cr.Variable(0.0)
    >>> y = Exp()(x)
    >>> y.backward()
    >>> x.grad
    np.float64(1.0)
    >>> cr.grad(cr.grad(lambda x: Exp()(2 * x)))(0.0)
    4.0
    """

    def forward(self, *arrays: Any, **kwargs: Any) -> Any:
        """Compute the output from plain arrays. Defined by the subclass."""
        raise _missing(self, "forward", "forward(self, x): return the output, computed from plain arrays")

    def backward(self, *ybars: Any, **kwargs: Any) -> Any:
        """Return the gradient in each input, given that in each output. Defined by the subclass."""
        raise _missing(self, "backward", "backward(self, ybar): return the gradient in each input")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run `forward` on the values of `inputs`, and record the call if one of them is traced."""
        holders = [x for x in inputs if x.__class__ in (list, tuple, dict)]
        if (holders or kwargs) and any_part(lambda v: isinstance(v, Boxed), (*holders, kwargs)):
            raise UnsupportedArgumentError(
                name_of(self),
                "of a container or keyword",
                "holds a traced value",
                "pass each traced value as an input of its own:  f(x, y).",
            )
        run = Run(self, kwargs)
        y = run.call(inputs)
        self.__take(run, inputs)
        return y

    def __take(self, run, inputs):
        """Take over what the call left, and remember its inputs."""
        # Stepped through by hand an eager Variable counts as its value, which may be a box of a transform all the same.
        later = run.left and any(isinstance(x.data if by_hand(x) else x, Boxed) for x in inputs)
        new = {n: v for n, v in attributes(run.working).items() if n not in OURS and not (later and n in run.left)}
        for name in attributes(self).keys() - new.keys() - set(OURS):
            object.__delattr__(self, name)
        for name, v in new.items():
            object.__setattr__(self, name, v)
        inputs = tuple([_remembered(x) for x in inputs])
        self.__dict__["_Function__inputs"] = inputs
        self.__dict__["_Function__calls"] = self.__dict__.get("_Function__calls", 0) + 1
        self.__dict__["_Function__later"] = (run, inputs) if later else None

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """The inputs of the call, as a tuple of Variables."""
        found = self.__dict__.get("_Function__inputs")
        if found is None:
            raise AttributeError("inputs")
        if self.__dict__.get("_Function__calls", 0) > 1:
            raise ReusedFunctionError(name_of(self))
        return tuple([_still_open(x) for x in found])

    @property
    def input(self) -> Variable:
        """The input of the call, as a Variable."""
        inputs = self.inputs
        if len(inputs) != 1:
            raise ShapeError(
                f"{name_of(self)} was called with {len(inputs)} inputs, so self.input is not one of them.",
                "use self.inputs[0], self.inputs[1], ...",
            )
        return inputs[0]

    def __getattr__(self, name):
        if name in ("input", "inputs"):
            raise AttributeError(f"this {name_of(self)} object has not been called yet, so it has no {name}")
        later = self.__dict__.get("_Function__later")
        if later is not None and name in later[0].left:
            run, inputs = later
            return getattr(run.prepared([_still_open(x).data for x in inputs]), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self):
        return {n: v for n, v in current(self).items() if n not in OURS}

    def __setstate__(self, state):
        for name, v in state.items():
            object.__setattr__(self, name, v)


def _missing(function, method, how):
    return NotImplementedError(message(f"{name_of(function)} must define {method}.", f"define  {how}."))


def _remembered(x):
    """Return an input as the object remembers it: a name of its own, which later writes don't reach."""
    if isinstance(x, Boxed):
        return x.alias() if x.__class__ is Input or not x.level or by_hand(x) else as_input(x)
    box = object.__new__(Variable)  # as it is: an int stays one
    box.data, box.aux, box.level = x, leaf(), 0.5
    return box


def _still_open(x):
    """Return a remembered input; a value of a transform that has ended as a plain one."""
    if x.__class__ is Input and isinstance(x.data, Boxed) and not _level.is_open(x.data.level):
        return as_input(value(x))
    return x
