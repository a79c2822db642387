"""Programs cut into kernels and calls: whatever has a lowering, the parts compute what the program does."""

import time

import numpy as np
import pytest

import chainrule as cr
from chainrule.program.ir import Equation, Guard, GuardFailed, Program, Symbol, interpret, run_equations
from chainrule.program.loops.ir import Loop
from chainrule.program.native.partition import Kernel, is_view, partition, share, stacks_of
from chainrule.program.passes import optimise
from chainrule.program.trace import trace


def recorded(f, *points):
    program, _ = trace(f, points, {}, [True] * len(points))
    return optimise(program)


def run(program, items, points):
    """Run the parts; a kernel sees what it reads, and what it makes is seen outside only if it is an output."""
    values = dict(program.constants)
    values.update(zip(program.inputs, points, strict=True))
    for k in items:
        if k.__class__ is Kernel:
            inside = {s: values[s] for s in k.reads}
            run_equations(k.equations, inside)
            values.update({s: inside[s] for s in k.outputs})
        else:
            run_equations([k], values)
    return [values[y] if y.__class__ is Symbol else y for y in program.outputs]


def same(xs, ys):
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(xs, ys, strict=True))


def all_but(*names):
    """Say of all but the functions of these names that they have a lowering."""

    def lowerable(e):
        if e.__class__ is Loop:
            return all(lowerable(q) for b in e.blocks if b is not None for q in b.equations)
        return e.__class__ is not Equation or e.rule.name.rpartition(".")[2] not in names

    return lowerable


def solves(a, b):
    x = np.linalg.solve(a @ a.T + 3 * np.eye(3), np.sin(b) * 2 + 1)
    y = np.exp(-x) * np.cos(b) + x
    z = np.linalg.inv(a + 5 * np.eye(3)) @ y.T
    return np.sum(z * z), np.log(1 + z.T * z.T)


def loops(x):
    s = np.zeros(3)
    for _ in range(40):
        s = np.tanh(s + x * 0.1) * 0.9
    return np.sum(s * np.exp(x))


def decides(x):
    y = x * 2 + 1
    if y[0, 0] > 1:
        y = y * y
    z = np.linalg.inv(y + np.eye(3))
    if z[0, 0] > 0:
        z = z * 3 - y
    return np.sum(np.sin(z) * np.cos(z)), z.T


A = np.random.default_rng(0).normal(size=(3, 3)) * 0.5
PROGRAMS = {
    "solves": (solves, (A + 2, A)),
    "gradient of a solve": (cr.value_and_grad(lambda a: solves(a, a)[0]), (A,)),
    "loop": (cr.value_and_grad(loops), (A[0],)),
    "decides": (decides, (A + 1,)),
    "hessian": (cr.hessian(lambda x: np.sum(np.exp(np.outer(x, x))) + np.prod(x)), (A[0],)),
}
OPAQUE = [(), ("solve", "inv"), ("sin", "exp"), ("multiply",), ("transpose", "getitem", "reshape"), ("tanh",),
          ("add", "matmul", "cos"), ("subtract", "scatter", "put", "sum")]  # fmt: skip


@pytest.mark.parametrize("opaque", OPAQUE, ids=" ".join)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_compute_what_the_program_does(name, opaque):
    f, points = PROGRAMS[name]
    program = recorded(f, *points)
    for few in (1, 3):
        items = partition(program, all_but(*opaque), few)
        for scale in (1.0, 1.01):
            xs = [x * scale for x in points]
            assert same(run(program, items, xs), interpret(program, xs))


def test_random_choices_of_what_is_lowered():
    rng = np.random.default_rng(1)
    for f, points in PROGRAMS.values():
        program = recorded(f, *points)
        want = interpret(program, list(points))
        for p in (0.1, 0.5, 0.9):
            for few in (1, 4):
                chosen = {e: rng.random() < p for e in program.equations}
                assert same(run(program, partition(program, chosen.__getitem__, few), points), want)


def test_a_program_that_is_lowered_as_a_whole_is_one_kernel():
    program = recorded(cr.grad(lambda x: np.sum(np.sin(x) ** 2)), A)
    (kernel,) = partition(program, lambda e: True)
    assert kernel.equations is program.equations
    assert kernel.reads == [*program.inputs, *program.constants]
    assert kernel.outputs == tuple(program.outputs)


def test_a_decomposition_costs_two_kernels_however_the_equations_are_mixed():
    def f(x):
        a, b, c = x * 2, x + 1, np.cos(x)
        first = np.linalg.inv(a * b)
        return np.sum(first * c - a) + np.sum(np.exp(b) * c)

    items = partition(recorded(f, A + 3), all_but("inv"))
    assert [k.__class__ for k in items] == [Kernel, Equation, Kernel]
    assert 0.8 < share(items) < 1


def test_only_arrays_with_memory_of_their_own_cross_a_border():
    def f(x):
        y = (x * 2 + 1 - x * x).T
        z = np.linalg.inv(y)[1:].T
        return np.sin(z) * z + np.exp(z[0])

    items = partition(recorded(f, A + 3), all_but("inv"))
    kernels = [k for k in items if k.__class__ is Kernel]
    assert len(kernels) == 2
    for k in kernels:
        views = {e.output for e in k.equations if is_view(e)}
        assert not views & {*k.reads, *k.outputs}
        made_outside = {e.output for e in items if e.__class__ is Equation and is_view(e)}
        assert not made_outside & {*k.reads}


def test_kernels_that_save_no_calls_are_not_made():
    program = recorded(lambda x: np.linalg.inv(x * 2) + 1, A + 3)
    assert all(k.__class__ is Equation for k in partition(program, all_but("inv")))
    assert len([k for k in partition(program, all_but("inv"), few=1) if k.__class__ is Kernel]) == 2


def test_a_call_waits_for_the_guards_before_it():
    def f(x):
        a = x[0, 0] * 2 + x[1, 1] * 3
        if a > 0:
            return np.linalg.inv(x) * a
        return x

    program = recorded(f, np.eye(3))
    items = partition(program, all_but("inv"), few=1)
    singular = np.zeros((3, 3))
    with pytest.raises(GuardFailed):
        run(program, items, [singular])
    order = [e for k in items for e in (k.equations if k.__class__ is Kernel else [k])]
    kinds = [e.__class__ is Guard for e in order]
    assert kinds.index(True) < next(i for i, e in enumerate(order) if e.__class__ is Equation and "inv" in e.rule.name)


def test_a_loop_and_the_readers_of_its_stack_are_one_group():
    program = recorded(cr.grad(loops), A[0])
    (group,) = stacks_of(program.equations)
    assert all(program.equations[i].__class__ is not Equation for i in group)
    assert len(group) >= 2
    forward, *rest = group
    for torn in rest:  # a reader without lowering leaves none to the others
        odd = program.equations[torn]
        items = partition(program, lambda e, odd=odd: e is not odd, few=1)
        inside = [e for k in items if k.__class__ is Kernel for e in k.equations]
        assert not {program.equations[i] for i in group} & set(inside)
        assert same(run(program, items, [A[0]]), interpret(program, [A[0]]))
    assert program.equations[forward] in partition(program, lambda e: True)[0].equations


def test_long_programs_take_time_in_proportion():
    def f(x):
        for k in range(1500):
            x = np.sin(x) * (1.0 + k) if k % 3 else np.cos(x)
        return x

    program = recorded(f, 0.5)

    def timed(n):
        part = Program(program.inputs, program.equations[:n], [program.equations[n - 1].output])
        start = time.perf_counter()
        items = partition(part, all_but("cos"), few=1)
        seconds = time.perf_counter() - start
        assert len(items) > n // 4
        return seconds

    assert min(timed(2000) for _ in range(3)) < 8 * min(timed(500) for _ in range(3)) + 0.05
