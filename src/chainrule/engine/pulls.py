"""The pullback of one call of any rule, and what it keeps. The general path; `elementwise` has a faster one."""

import numpy as np

from chainrule.engine.boxed import Boxed, value
from chainrule.engine.cotangent import Masked
from chainrule.engine.held import frozen_param
from chainrule.engine.spec import choose, fit, fit_broadcast, shape_of, spec_of, sum_to

BOOL = np.dtype(bool)


class Pull:
    """Pull a cotangent back through one call: ``pull(ybar, saved)`` gives one per operand (None for constants)."""

    __slots__ = ("params", "rule", "specs", "wanted")

    def __init__(self, rule, wanted, specs, params):
        self.rule, self.wanted, self.specs, self.params = rule, wanted, specs, params

    def __call__(self, ybar, saved):  # noqa: D102 (see the class)
        rule = self.rule
        kind = rule.kind
        xbars = [None] * len(self.specs)
        if kind == "elementwise":
            for i in self.wanted:
                xbars[i] = fit_broadcast(ybar * rule.vjps[i](*saved), self.specs[i])
        elif rule.spread:
            y, *xs = saved
            parts = rule.vjps[0](ybar, y, tuple(xs), **self.params)
            for i in self.wanted:
                xbars[i] = fit(parts[i], self.specs[i])
        else:
            for i in self.wanted:
                xbars[i] = fit(rule.vjps[i](ybar, *saved, **self.params), self.specs[i])
        return xbars

    def slots(self, ybar, saved):
        """Pull back through a call with several outputs; `ybar` holds the cotangents of those that are used."""
        y = saved[0]
        if y is None:
            raise RuntimeError(f"{self.rule.name}: a rule with several outputs must read y")
        return self(ybar.filled(y, getattr(self.rule, "masks", False)), saved)


def pull_of(rule, wanted, y, xs, params):
    """Return the pullback of one call of `rule`."""
    if params:
        params = {k: frozen_param(v) for k, v in params.items()}
    if rule.kind == "select":
        return SelectPull(rule, wanted, [unlike(x, y) if i in wanted else None for i, x in enumerate(xs)], params)
    return Pull(rule, wanted, [spec_of(x) if i in wanted else None for i, x in enumerate(xs)], params)


def residuals(rule, wanted, y, xs):
    """Return ``(y, *xs)`` with None for what the pullback does not read, shapes for what a linear rule reads."""
    kind = rule.kind
    if kind == "linear" or kind == "gather":
        return (None, *[spec_of(x) for x in xs])
    if kind == "bilinear":  # the adjoint to one operand reads the other, and its own operand's shape only
        a, b = xs
        return (None, a if 1 in wanted else spec_of(a), b if 0 in wanted else spec_of(b))
    keep = rule.keeps(wanted)
    if rule.spread:
        return (y if keep[0] else None, *xs)
    kept = tuple([v if k else None for v, k in zip((y, *xs), keep, strict=False)])
    return float_residuals(kept) if kind == "rule" else kept  # such rules may ask for a dtype or shape


class SelectPull:
    """Pull a cotangent back through one choice: each operand receives the entries that were taken from it.

    `specs` has the shape and dtype of each operand that wants a cotangent, None for one that is like the result;
    `wanted` their numbers.
    """

    __slots__ = ("params", "rule", "specs", "wanted")

    def __init__(self, rule, wanted, specs, params):
        self.rule, self.wanted, self.specs, self.params = rule, wanted, specs, params

    def __call__(self, ybar, saved):  # noqa: D102 (see the class)
        weights = self.rule.vjps[0](*saved, **self.params)
        plain = ybar.__class__ is np.ndarray
        shape = ybar.shape if plain else shape_of(ybar)
        specs = self.specs
        xbars = [None] * len(specs)
        for i in self.wanted:
            weight, spec = weights[i], specs[i]
            if plain and weight.__class__ is np.ndarray and weight.dtype is BOOL and weight.shape == shape:
                xbar = np.zeros(shape, ybar.dtype)
                np.copyto(xbar, ybar, where=weight)
            else:
                xbar = taken(weight, ybar, shape)[0]
            xbars[i] = xbar if spec is None else fit_broadcast(xbar, spec)
        return xbars

    def masked(self, ybar, saved, mask=None):
        """Return each operand's cotangent with the mask of the entries taken from it, of those in `mask` only."""
        weights = self.rule.vjps[0](*saved, **self.params)
        shape = shape_of(ybar)
        xbars = [None] * len(self.specs)
        for i in self.wanted:
            spec = self.specs[i]
            xbar, active = taken(weights[i], ybar, shape)
            if mask is not None:
                active = active & mask
            if spec is not None:
                xbar, active = fit_broadcast(xbar, spec), any_to(active, spec.shape)
            xbars[i] = Masked(xbar, active)
        return xbars


def taken(weight, x, shape):
    """Return what a choice takes of `x`, and where; `weight` is a mask, or shares from 0 to 1 where operands tie."""
    if isinstance(weight, Boxed):
        weight = value(weight)
    if weight.__class__ is not np.ndarray or weight.shape != shape:
        weight = np.broadcast_to(weight, shape)
    if weight.dtype.kind == "b":
        return (choose.plain if x.__class__ is np.ndarray else choose)(weight, x), weight
    mask = weight != 0
    dtype = spec_of(x).dtype
    return choose(mask, x) * (weight if dtype is None else weight.astype(dtype)), mask


def any_to(mask, shape):
    """Reduce a mask to `shape`: an operand's entry is active where any of its broadcast copies is."""
    if mask.shape == shape:
        return mask
    return sum_to(mask.astype(np.int64), shape) > 0


def unlike(x, y):
    """Return the spec of an operand that differs from the result in shape or dtype; None for one that does not."""
    if x.__class__ is y.__class__ is np.ndarray and x.dtype is y.dtype and x.shape == y.shape:
        return None
    spec = spec_of(x)
    other = spec_of(y)
    return None if spec.shape == other.shape and spec.dtype is other.dtype and spec.kind == other.kind else spec


def pulled(node, ybar, saved, masks):
    """Pull a cotangent, masked or not, back through `node`; with `masks` those of a choice get theirs."""
    if ybar.__class__ is Masked:
        pull = masked_pull
    elif masks and node.rule.kind == "select":
        pull = masks_of
    else:
        pull = plain_pull
    try:
        return pull(node, ybar, saved)
    except (ZeroDivisionError, OverflowError):  # Python floats in the rule: again, as NumPy's floats
        if ybar.__class__ is Masked:
            return pull(node, Masked(*float_residuals((ybar.value,)), ybar.mask), float_residuals(saved))
        return pull(node, *float_residuals((ybar,)), float_residuals(saved))


def plain_pull(node, ybar, saved):
    """Pull a cotangent back."""
    return node.pull(ybar, saved)


def masks_of(node, ybar, saved):
    """Pull a cotangent back through a choice, which gives each operand's its mask."""
    return node.pull.masked(ybar, saved)


def masked_pull(node, ybar, saved):
    """Pull a masked cotangent back, so that what the choice left out stays an exact zero.

    Elementwise rules multiply by a partial derivative that may be infinite where the choice went elsewhere: their
    result is selected by the mask again. Linear rules carry the mask along: it is pulled back as weights that can't
    cancel. So do rules that take averages of entries, and products, whose factors count as not zero (0 * inf in a
    product is honest). Other rules mix entries, and the mask ends there.
    """
    rule = node.rule
    kind = rule.kind
    if kind == "rule" and rule.entrywise:
        (xbar,) = node.pull(ybar.value, saved)
        return [Masked(choose(ybar.mask, xbar), ybar.mask)]
    if kind == "constant" or (kind == "rule" and not rule.takes):
        return node.pull(ybar if getattr(rule, "masks", False) else ybar.value, saved)
    mask = ybar.mask
    parents = node.parents
    if kind == "elementwise":
        xbars = []
        specs = getattr(node.pull, "specs", None)
        for i, p in enumerate(parents):
            if p is None:
                xbars.append(None)
                continue
            xbar = choose(mask, ybar.value * rule.vjps[i](*saved))
            spec = specs[i] if specs is not None else None
            if spec is None:  # the operand is like the result
                spec = spec_of(value(ybar.value))
            xbars.append(Masked(fit_broadcast(xbar, spec), any_to(mask, spec.shape)))
        return xbars
    if kind == "select":
        return node.pull.masked(ybar.value, saved, mask)
    xbars = node.pull(ybar.value, saved)
    probe = np.where(mask, 1.0 + np.arange(mask.size).reshape(mask.shape) * 0.6180339887498949 % 1.0, 0.0)
    probe = probe if probe.shape else probe[()]
    plain = [value(s) if isinstance(s, Boxed) else s for s in saved]
    if kind == "bilinear":
        plain = [np.ones_like(s) if isinstance(s, np.ndarray) else s for s in plain]
    traces = node.pull(probe, tuple(plain))
    out = []
    for x, t in zip(xbars, traces, strict=True):
        x = x.dense() if hasattr(x, "dense") else x
        t = t.dense() if hasattr(t, "dense") else t
        out.append(None if x is None else Masked(x, np.broadcast_to(value(t) != 0, shape_of(x))))
    return out


def float_residuals(saved):
    """Return residuals with Python floats as NumPy's, whose division by zero and overflow give inf as arrays do."""

    def convert(x):
        if x.__class__ is float:
            return np.float64(x)
        if x.__class__ is complex:
            return np.complex128(x)
        if isinstance(x, Boxed) and (isinstance(x.data, Boxed) or x.data.__class__ in (float, complex)):
            x = x.alias()
            x.data = convert(x.data)
        return x

    return tuple([convert(x) for x in saved])
