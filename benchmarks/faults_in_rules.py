"""Faults in rules, in the engine, in programs and in passes, which the fuzzer must find: see `planted_faults`."""

import contextlib
import dataclasses
import importlib

import numpy as np
from planting import fault, replaced

from chainrule.engine import batched, cotangent, indexing, pulls, spec, views, writes
from chainrule.engine.boxed import value
from chainrule.engine.rule import RULES
from chainrule.program import passes, tracing
from chainrule.program.backend import storage
from chainrule.program.ir import Guard

algebra = importlib.import_module("chainrule.program.passes.algebra")  # the package has functions of these names
common = importlib.import_module("chainrule.program.passes.common")


@contextlib.contextmanager
def partials(fun, *new):
    """Give an elementwise function other partial derivatives."""
    with replaced(RULES[fun], "vjps", new), replaced(RULES[fun], "jvps", new):
        yield


@contextlib.contextmanager
def adjoint(fun, change, place=0):
    """Change what an adjoint returns: ``change(xbar)``."""
    right = RULES[fun].vjps

    def wrong(*args, **kwargs):
        return change(right[place](*args, **kwargs))

    wrong.reads_like = getattr(right[place], "reads_like", right[place])
    with replaced(RULES[fun], "vjps", (*right[:place], wrong, *right[place + 1 :])):
        yield


# -- in rules --------------------------------------------------------------------------------------------------


@fault
def wrong_sign_in_a_partial():
    with partials(np.cos, lambda y, x: np.sin(x)):
        yield


@fault
def dropped_factor():
    with partials(np.square, lambda y, x: x):
        yield


@fault
def swapped_partials():
    right = RULES[np.arctan2].vjps
    with partials(np.arctan2, right[1], right[0]):
        yield


@fault
def second_order_term_dropped():
    with partials(np.exp, lambda y, x: value(y)):
        yield


@fault
def product_with_its_operands_swapped():
    with partials(np.multiply, lambda y, a, b: a, lambda y, a, b: b):
        yield


@fault
def running_sum_not_reversed():
    def wrong(ybar, y, x, axis=None, dtype=None):
        return np.cumsum(ybar, axis=axis).reshape(x.shape)

    with replaced(RULES[np.cumsum], "vjps", (wrong,)):
        yield


@fault
def ties_not_shared():
    right = RULES[np.max].vjps[0]

    def wrong(ybar, y, x, axis=None, keepdims=False, initial=None, where=True):
        xbar = right(ybar, y, x, axis, keepdims, initial, where)
        return np.where(x == np.max(x), 1.5 * xbar, xbar)

    with replaced(RULES[np.max], "vjps", (wrong,)):
        yield


@fault
def matmul_adjoint_without_transpose():
    def wrong(ybar, y, a, b):
        square = len(b.shape) == 2 and b.shape[0] == b.shape[1] and len(a.shape) == 2
        return ybar @ b if square else right[0](ybar, y, a, b)

    right = RULES[np.matmul].vjps
    with replaced(RULES[np.matmul], "vjps", (wrong, right[1])):
        yield


@fault
def mask_of_where_inverted():
    def wrong(y, condition, a, b):
        return None, ~np.asarray(value(condition), bool), np.asarray(value(condition), bool)

    with replaced(RULES[np.where], "vjps", (wrong,)):
        yield


@fault
def parts_of_a_concatenation_in_reverse():
    right = RULES[np.concatenate].vjps[0]

    def wrong(ybar, y, xs, axis=0, dtype=None, casting="same_kind"):
        parts = right(ybar, y, xs, axis, dtype, casting)
        same = len({np.shape(p) for p in parts}) == 1
        return parts[::-1] if same else parts

    with replaced(RULES[np.concatenate], "vjps", (wrong,)):
        yield


@fault
def mean_not_divided():
    with adjoint(np.mean, lambda xbar: 2.0 * xbar):
        yield


@fault
def inverse_with_the_wrong_sign():
    with adjoint(np.linalg.inv, lambda xbar: -xbar):
        yield


@fault
def transpose_pulled_back_by_nothing():
    right = RULES[np.transpose].vjps[0]

    def wrong(ybar, y, x, axes=None):
        xbar = right(ybar, y, x, axes)
        return ybar if ybar.shape == xbar.shape else xbar

    with replaced(RULES[np.transpose], "vjps", (wrong,)):
        yield


@fault
def running_sum_of_a_batch_along_the_wrong_axis():
    right = batched.BATCHING[np.cumsum]

    def wrong(rule, n, xs, flags, params):
        if len(xs[0].shape) == 3 and params.get("axis") in (0, 1, -1):
            params = {**params, "axis": {0: 1, 1: 0, -1: 0}[params["axis"]]}
        return right(rule, n, xs, flags, params)

    with replaced(batched.BATCHING, np.cumsum, wrong):
        yield


# -- in the engine ---------------------------------------------------------------------------------------------


@fault
def broadcast_not_summed():
    right = spec.sum_to.plain

    def wrong(x, shape):
        return right(x, shape) / 2 if len(np.shape(x)) > len(shape) else right(x, shape)

    with replaced(spec.sum_to, "plain", wrong):
        yield


@fault
def repeated_index_counted_once():
    with replaced(indexing, "may_repeat", lambda index: False):
        yield


@fault
def float32_cast_lost():
    right = pulls.fit

    def wrong(xbar, spec_):
        y = right(xbar, spec_)
        return y.astype(np.float64) if getattr(y, "dtype", None) == np.float32 and y.__class__ is np.ndarray else y

    with replaced(pulls, "fit", wrong):
        yield


@fault
def write_not_seen_by_views():
    with replaced(writes, "expire", lambda x: None):
        yield


@fault
def overwritten_entries_keep_their_cotangent():
    right = writes.put_pull

    def wrong(ybar, saved):
        total, vbar = right(ybar, saved)
        if (
            vbar is not None
            and isinstance(total.value, np.ndarray)
            and np.shape(vbar) == np.shape(total.value[saved[3]])
        ):
            total.value[saved[3]] = vbar
        return total, vbar

    wrong.takes_sums = True
    with replaced(writes, "put_pull", wrong):
        yield


@fault
def second_read_of_a_place_forgotten():
    right = cotangent.ADD_AT[0]

    def wrong(x, index, v):
        if index.__class__ is int and index == 0:
            x[index] = v
        else:
            right(x, index, v)

    with replaced(cotangent, "ADD_AT", [wrong]):
        yield


@fault
def stale_view_keeps_its_value():
    right = views.live_views
    with replaced(views, "live_views", lambda x: right(x)[1:]):
        yield


# -- in programs and passes ------------------------------------------------------------------------------------


@fault
def branches_not_guarded():
    with replaced(tracing.Tracer, "__bool__", lambda self: bool(self.data)):
        yield


@contextlib.contextmanager
def changed_pass(place, change):
    """Replace the pass number `place` by ``change(pass)``."""
    new = list(passes.PASSES)
    new[place] = change(new[place])
    with replaced(passes, "PASSES", tuple(new)):
        yield


@fault
def dead_code_takes_guards_along():
    def change(dead):
        def wrong(program):
            kept = [e for e in program.equations if e.__class__ is not Guard]
            same = len(kept) == len(program.equations)
            return dead(program if same else dataclasses.replace(program, equations=kept))

        return wrong

    with changed_pass(0, change):
        yield


@fault
def common_calls_without_their_parameters():
    right = common.key_of_call

    def wrong(e):
        return *right(e)[:-1], ()

    with replaced(common, "key_of_call", wrong):
        yield


@fault
def common_calls_of_any_order():
    with replaced(common, "COMMUTATIVE", {*common.COMMUTATIVE, np.subtract}):
        yield


@fault
def sum_with_a_negative_loses_the_sign():
    def wrong(sweep, e, a, b):
        q = algebra.unsigned(sweep, b)
        return algebra.call(e, np.add, a, q) if q is not None else None

    right = algebra.TABLE[np.add]
    with replaced(algebra.TABLE, np.add, tuple([wrong if r is algebra.plus_negative else r for r in right])):
        yield


@fault
def memory_used_again_too_early():
    right = storage.Lives.__init__

    def wrong(self, *args):
        right(self, *args)
        for s, last in list(self.last.items()):
            if last != storage.FOREVER and last > self.made.get(s, -1) + 1:
                self.last[s] = last - 1

    with replaced(storage.Lives, "__init__", wrong):
        yield
