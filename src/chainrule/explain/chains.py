"""In which order to multiply a chain of Jacobians: forward, in reverse, or the cheapest way.

For values of sizes n0 -> n1 -> ... -> nk, Jacobian ``Ji`` has the shape ``ni × n(i-1)``, and the derivative is the
product ``Jk ... J2 J1``. All orders give the same; they differ in cost. From the right (forward mode) it is cheap for
few inputs, from the left (reverse mode) for few results. The cheapest order is found by dynamic programming.
"""

from dataclasses import dataclass

from chainrule.explain.gates import size
from chainrule.program.ir import Symbol


@dataclass(frozen=True)
class Order:
    """Numbers of multiplications of a chain of Jacobians. It prints as a table.

    Attributes
    ----------
    sizes : tuple of int
        Of the values, from the input to the result.
    forward, reverse, best : int
        Multiplications from the right, from the left, and in the cheapest order.
    text : str
        The cheapest order, with parentheses.
    """

    sizes: tuple
    forward: int
    reverse: int
    best: int
    text: str

    def __str__(self) -> str:
        k = len(self.sizes) - 1
        names = " ".join(f"J{i}" for i in range(k, 0, -1))
        shapes = ", ".join(f"J{i} {self.sizes[i]}×{self.sizes[i - 1]}" for i in range(k, 0, -1))
        rows = [
            ("forward, from the right", nested(k, forward=True), self.forward),
            ("reverse, from the left", nested(k, forward=False), self.reverse),
            ("the cheapest order", self.text, self.best),
        ]
        wide = max(len(r[1]) for r in rows)
        digits = max(len(f"{r[2]:,}") for r in rows)
        lines = [f"{way:23}   {text:{wide}}   {count:{digits},} multiplications" for way, text, count in rows]
        return "\n".join([f"{names}, with {shapes}", "", *lines])


def nested(count, forward):
    """Write the product of `count` Jacobians from the right or from the left."""
    names = [f"J{i}" for i in range(count, 0, -1)]
    made = names[-1] if forward else names[0]
    for k, name in enumerate(reversed(names[:-1]) if forward else names[1:]):
        inner = f"({made})" if k else made
        made = f"{name} {inner}" if forward else f"{inner} {name}"
    return made


def order(*sizes: int) -> Order:
    """Count the multiplications that a chain of Jacobians takes forward, in reverse, and in the cheapest order.

    Parameters
    ----------
    *sizes : int
        Numbers of entries of the values, from the input to the result: at least two.

    Returns
    -------
    Order
        Prints as a table.

    Raises
    ------
    ValueError
        For fewer than two sizes, or sizes below one.

    Examples
    --------
    >>> import chainrule as cr
    >>> print(cr.explain.order(100, 50, 20, 1))
    J3 J2 J1, with J3 1×20, J2 20×50, J1 50×100
    <BLANKLINE>
    forward, from the right   J3 (J2 J1)   102,000 multiplications
    reverse, from the left    (J3 J2) J1     6,000 multiplications
    the cheapest order        (J3 J2) J1     6,000 multiplications
    """
    if len(sizes) < 2 or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in sizes):
        raise ValueError(f"order needs at least two sizes, whole numbers from 1 on, not {sizes}")
    k = len(sizes) - 1
    forward = sum(sizes[i] * sizes[i - 1] * sizes[0] for i in range(2, k + 1))
    reverse = sum(sizes[k] * sizes[i] * sizes[i - 1] for i in range(1, k))
    best, split = cheapest(sizes)
    return Order(tuple(sizes), forward, reverse, best, written(split, 1, k)[0])


def cheapest(sizes):
    """Return the least number of multiplications, and where each product of Jacobians a to b is split."""
    k = len(sizes) - 1
    cost = {(i, i): 0 for i in range(1, k + 1)}
    split = {}
    for span in range(2, k + 1):
        for a in range(1, k - span + 2):
            b = a + span - 1
            cost[a, b], split[a, b] = min(
                (cost[a, c] + cost[c + 1, b] + sizes[b] * sizes[c] * sizes[a - 1], c) for c in range(a, b)
            )
    return cost[1, k], split


def written(split, a, b):
    """Write the product of Jacobians b down to a, and tell whether it is one name."""
    if a == b:
        return f"J{a}", True
    c = split[a, b]
    parts = [text if single else f"({text})" for text, single in (written(split, c + 1, b), written(split, a, c))]
    return " ".join(parts), False


def order_of(explanation) -> Order:
    """Return the order of the Jacobians of an explanation whose steps are a chain: each of one value before it."""
    trace = explanation.run.trace
    sizes = [sum(size(s.shape) for s in trace.program.inputs)]
    known = set(trace.program.inputs)
    for e in trace.program.equations:
        reads = {s for s in e.reads if isinstance(s, Symbol) and s not in trace.program.constants}
        if not reads <= known:
            raise ValueError(
                f"{explanation.title}: the steps are no chain; give the sizes:  chainrule.explain.order(...)"
            )
        known = set(e.outputs)
        sizes.append(sum(s.size for s in e.outputs))
    return order(*sizes)
