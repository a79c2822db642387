"""The tape: reverse mode.

A `Variable` (in `engine.variable`) carries the `Node` that made it. A node keeps its parents (one per operand, None
for constants), the residuals its rule needs, and the function that pulls a cotangent back to the parents. `pull_back`
visits the nodes from the output to the inputs, each after all of its uses, and adds up what arrives at each.

A node's residuals are values laid out as ``(y, x0, x1, ...)``, None where not needed. So nothing more has to be stored
for pullbacks that are recorded themselves (`create_graph`): the output is a Variable of the node itself, an operand a
Variable of the parent.

Nothing here knows any NumPy function by name: `chainrule.rules` does.
"""

import functools
import itertools
import threading
from operator import attrgetter

import numpy as np

from chainrule.engine import level as _level
from chainrule.engine.boxed import Boxed, ordinary
from chainrule.engine.cotangent import LAZY, Accumulator, Masked, Scatter, Slots
from chainrule.engine.held import check_kept
from chainrule.engine.pulls import float_residuals, pulled

tick = itertools.count().__next__
_by_serial = attrgetter("serial")


class Node:
    """One call on the tape. `serial` grows with time: a node's parents have smaller ones. A leaf has no rule.

    `grad` is set on leaves by `backward`, and on every node by ``backward(retain_grad=True)``; `shown` holds what the
    explanation of a node needs beyond that.
    """

    __slots__ = ("grad", "parents", "pull", "rule", "saved", "serial", "shown")

    def __init__(self, parents, pull, saved, rule):
        self.parents = parents
        self.pull = pull
        self.saved = saved
        self.rule = rule
        self.serial = tick()


class Origin:
    """Stands as the rule of nodes that no rule made: buffers, and results under `no_grad`. They are constants."""

    kind = "constant"
    nin = 0

    def __init__(self, name, masks=False):
        self.name = name
        self.fun = None
        self.masks = masks  # whether a pullback hands masks on

    def __repr__(self):
        return f"<{self.name}>"


BUFFER = Origin("constant")


SLOT = Origin("output", masks=True)


def slot_pull(k):
    """Return the pull of output number `k` of a call with several: its cotangent goes into that slot."""

    def pull(ybar, saved):
        return (Slots({k: ybar.dense() if ybar.__class__ in LAZY and ybar.__class__ is not Masked else ybar}),)

    return pull


def leaf():
    """Return a node that no operation made: an input."""
    return Node((), None, None, None)


def reachable(node):
    """Return `node` and all nodes it depends on, oldest first."""
    order = [node]
    seen = {node}
    see, add = seen.add, order.append
    for n in order:
        for p in n.parents:
            if p is not None and p not in seen:
                see(p)
                add(p)
    order.sort(key=_by_serial)
    return order


def pull_back(node, seed, *, record=None, visit=None, masks=None):
    """Return {leaf: cotangent} of all leaves that `node` depends on, given `node`'s own cotangent `seed`.

    A node is visited once, after all nodes that use it: its serial is smaller than theirs, and the newest comes first.
    There is no recursion, so the tape may be as long as memory allows.

    `record(node, saved)` gives the residuals as Variables: the pullbacks' own operations are then recorded;
    `visit(node, ybar)` is told each cotangent.

    `masks` tells whether the cotangents of a choice carry their mask along (see `cotangent.Masked`). What a mask
    prevents is 0 * inf in a branch that was not taken, and that NaN reaches the leaves, unless a further choice drops
    it. So where nothing is recorded, the pass is run without masks. Where something is recorded (`record`, or boxed
    cotangents), derivatives of this pass need the selections, and choices and single reads have masks. If a leaf comes
    out NaN, the pass is run once more with a mask at every cotangent: what writes, maxima and linear functions leave
    out stays zero, too.
    """
    seeds = seed if isinstance(seed, list) else (seed,)
    if masks is None:
        masks = record is not None or any(isinstance(s, Boxed) for s in seeds)
    if masks is True:
        masks = NONE if any(ordinary(s) for s in seeds) else READS
    watcher = WATCHERS.get(threading.get_ident()) if WATCHERS else None
    if watcher is not None:
        visit, masks = watched(watcher, visit), watcher.masks or masks
        seed = [watcher.seed(s) for s in seed] if isinstance(seed, list) else watcher.seed(seed)
    try:
        leaves, nan = one_pass(node, seed, record, visit, masks or NONE)
    finally:
        if watcher is not None:
            watcher.leave()
    if nan:
        leaves, _ = one_pass(node, seed, record, visit, ALL)
    return leaves


NONE, CHOICES, READS, ALL = 0, 1, 2, 3  # which cotangents carry masks in a pass: READS are choices and single reads


def masks_for(values):
    """Return which masks a pass needs whose outputs or cotangents are `values`.

    Where all that goes along are tangents, a NaN that reads let through shows in the leaves, as it does where nothing
    goes along; a tape that records the pass may meet it in its own pass only. A batch is as the values in it.
    """
    boxed = []
    for v in values:
        while isinstance(v, Boxed) and v.batch:
            v = v.data
        if isinstance(v, Boxed):
            boxed.append(v)
    if not boxed or any(ordinary(v) for v in boxed):
        return NONE
    return CHOICES if all(hasattr(v, "tangent") and not isinstance(v.data, Boxed) for v in boxed) else READS


def has_nan(x):
    """Tell whether an entry of a value is NaN, or of its tangent; in most cases the sum tells that none is."""
    while isinstance(x, Boxed):
        if x.recorded:
            return False
        if hasattr(x, "tangent") and has_nan(x.tangent):
            return True
        x = x.data
    total = np.add.reduce(x, axis=None) if x.__class__ is np.ndarray else x
    return not abs(total) < np.inf and bool(np.isnan(x).any())


WATCHERS = {}  # thread -> who is told of each step of its backward passes: programs that are being recorded


def watched(watcher, visit):
    """Return a `visit` that tells a watcher, too."""

    def both(node, ybar):
        watcher.visit(node, ybar)
        visit(node, ybar)

    told = functools.partial(watcher.visit) if visit is None else both
    told.begin = watcher.begin
    return told


def one_pass(node, seed, record, visit, masks):
    """Run one backward pass; return the cotangents of the leaves, and whether a pass without masks found NaN."""
    order = reachable(node)
    check_kept(order)
    bars = {node: seed}
    begins = hasattr(visit, "begin")
    if begins:
        visit.begin(bars)
    leaves = {}
    take, lazy = bars.pop, LAZY
    plain = visit is None and record is None
    ybar = xbar = xbars = None
    _level.hold_gc()
    try:
        with _level.quiet():
            while order:
                n = order.pop()
                ybar = take(n, None)
                if ybar is None:
                    continue
                parents = n.parents
                if masks == ALL or (
                    masks == READS and parents and (ybar.__class__ is Scatter or (begins and is_read(ybar)))
                ):
                    ybar = masked(ybar)
                elif (
                    ybar.__class__ in lazy
                    and not (masks and ybar.__class__ is Masked)
                    and (ybar.__class__ is not Accumulator or visit is not None or not hasattr(n.pull, "takes_sums"))
                ):
                    ybar = ybar.dense()
                if plain and parents and ybar.__class__ is not Masked and not (masks and n.rule.kind == "select"):
                    try:
                        xbars = n.pull(ybar, n.saved)
                    except (ZeroDivisionError, OverflowError):  # Python floats in the rule: again, as NumPy's floats
                        xbars = n.pull(*float_residuals((ybar,)), float_residuals(n.saved))
                else:
                    xbars = unusual(n, ybar, leaves, record, visit, masks)
                    if xbars is None:
                        continue
                    if begins and xbars[0].__class__ is Scatter and parents[0] not in bars:
                        xbars = (xbars[0].begun(),)  # one array from the first on: rounds of a loop are then alike
                if len(parents) == 2:  # unrolled: most nodes have one or two parents
                    p, q = parents
                    xbar, zbar = xbars
                    if p is not None and xbar is not None:
                        bars[p] = take(p) + xbar if p in bars else xbar
                    if q is not None and zbar is not None:
                        bars[q] = take(q) + zbar if q in bars else zbar
                    zbar = None
                else:
                    for p, xbar in zip(parents, xbars):  # noqa: B905 (strict costs time)
                        if p is not None and xbar is not None:
                            bars[p] = take(p) + xbar if p in bars else xbar
                ybar = xbar = xbars = None  # locals count as owners of what they hold
            nan = masks != ALL and any(has_nan(x) for x in leaves.values())
    finally:
        _level.release_gc()
    return leaves, nan


def is_read(ybar):
    """Tell whether a cotangent is that of a single read, begun as a sum: as in passes of recorded loops."""
    return ybar.__class__ is Accumulator and ybar.places is not None and len(ybar.places) == 1


def masked(ybar):
    """Return a cotangent with its mask: all of it, or the entries that were read."""
    if ybar.__class__ is Masked or ybar.__class__ is Slots or isinstance(ybar, list):
        return ybar
    if ybar.__class__ in LAZY:
        return Masked(ybar.dense(), ybar.touched())
    return Masked(ybar, np.ones(np.shape(ybar), bool))


def unusual(n, ybar, leaves, record, visit, masks):
    """Pull back through a node where something is asked beyond the plain pull: leaves, masks, records, visits."""
    saved = n.saved
    if visit is not None:
        visit(n, ybar.value if ybar.__class__ is Masked else ybar)
    if not n.parents:
        if n.rule is None:
            leaves[n] = ybar.value if ybar.__class__ is Masked else ybar
        return None
    if record is not None:
        saved = record(n, saved)
    return pulled(n, ybar, saved, masks)
