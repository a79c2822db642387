"""Running the blocks of a kernel in several threads.

There is one pool of threads for a process, made when it is first needed; the child of a fork makes its own. Blocks are
given out a few at a time, to whoever asks next. The thread that called does its share, so that it never waits for
another call's work: what the pool has not begun when nothing is left to do is taken back.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

MOST = 64  # threads of the pool
TURNS = 4  # how often each thread is given blocks


class Pool:
    """The threads of a process."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew: a child of a fork has none of its parent's threads."""
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None

    def submit(self, work: Callable) -> Any:
        """Let a thread do something; None if there is none to be had, as when Python is about to end."""
        with self.lock:
            if self.executor is None:
                self.executor = ThreadPoolExecutor(MOST, "chainrule")
        try:
            return self.executor.submit(work)
        except RuntimeError:
            return None


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.renew)


def run_blocks(call: Callable, points: tuple, frame: int, count: int, threads: int) -> int:
    """Run ``call(points, frame, first, last)`` for all of so many blocks; return the first code that is not 0.

    Returns when no thread is at work any more, also if the calling one is interrupted.
    """
    pieces = min(count, TURNS * threads)
    bounds = [count * k // pieces for k in range(pieces + 1)]
    codes = [0] * pieces
    todo = iter(range(pieces))  # Python's lock makes `next` of it one step

    def work() -> None:
        for k in todo:
            codes[k] = call(points, frame, bounds[k], bounds[k + 1])

    others = [POOL.submit(work) for _ in range(min(threads, pieces) - 1)]
    try:
        work()
    finally:
        settle([other for other in others if other is not None])
    return next((code for code in codes if code), 0)


def settle(others: list) -> None:
    """Take back what has not begun, and wait for the rest, however often the user interrupts: it writes into memory."""
    stop = None
    for other in others:
        while not (other.cancel() or other.done()):
            try:
                wait([other])
            except KeyboardInterrupt as error:
                stop = error
    if stop is not None:
        raise stop
    for other in others:
        if not other.cancelled():
            other.result()
