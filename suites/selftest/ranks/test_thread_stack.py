"""Tests the stack of a thread as text."""

from __future__ import annotations

import contextlib
import functools
import threading
import unittest
from collections.abc import Callable, Iterator

from harness.ranks.thread_stack import STACK_DEPTH, stack_of


def waits(inside: threading.Event, go_on: threading.Event) -> None:
    """Says that it is here and waits."""
    inside.set()
    go_on.wait()


def enters(inside: threading.Event, go_on: threading.Event) -> None:
    """Calls what waits."""
    waits(inside, go_on)


def recurs(inside: threading.Event, go_on: threading.Event, depth: int = 2 * STACK_DEPTH) -> None:
    """Calls itself so often, and waits then."""
    if depth:
        recurs(inside, go_on, depth - 1)
    else:
        waits(inside, go_on)


@contextlib.contextmanager
def running(target: Callable[[threading.Event, threading.Event], object]) -> Iterator[int]:
    """Yields the identity of a thread that has come to where it waits."""
    inside, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=target, args=(inside, go_on))
    thread.start()
    inside.wait()
    try:
        assert thread.ident is not None
        yield thread.ident
    finally:
        go_on.set()
        thread.join()


def functions(stack: str) -> list[str]:
    """Returns the functions of a stack, innermost first."""
    return [line.rpartition(" in ")[2] for line in stack.splitlines()[1:]]


class StackOfTest(unittest.TestCase):
    """``stack_of`` a thread that waits."""

    def test_form(self) -> None:
        """It has faulthandler's form, innermost frame first, and leaves out the thread's own start."""
        with running(enters) as thread:
            stack = stack_of(thread)
        lines = stack.splitlines()
        self.assertEqual(lines[0], f"Thread 0x{thread:016x} (most recent call first):")
        self.assertRegex(lines[-1], rf'^  File "{__file__}", line \d+ in enters$')
        self.assertEqual(functions(stack)[-3:], ["wait", "waits", "enters"])

    def test_from_an_entry(self) -> None:
        """Frames outside of a call of the entry are left out, and so is the entry."""
        with running(enters) as thread:
            stack = stack_of(thread, enters.__code__)
        self.assertEqual(functions(stack)[-1], "waits")

    def test_machinery(self) -> None:
        """The frames of unittest that run a test are left out."""

        def runs_a_test(inside: threading.Event, go_on: threading.Event) -> None:
            unittest.FunctionTestCase(functools.partial(waits, inside, go_on)).run()

        with running(runs_a_test) as thread:
            within = functions(stack_of(thread, runs_a_test.__code__))
        self.assertEqual(within[-2:], ["wait", "waits"])

    def test_depth(self) -> None:
        """A recursion is cut."""
        with running(recurs) as thread:
            self.assertEqual(len(stack_of(thread).splitlines()), 1 + STACK_DEPTH)

    def test_nowhere(self) -> None:
        """A thread that has ended, or never was, has no stack."""
        with running(waits) as thread:
            pass
        for gone in (thread, 0):
            self.assertEqual(stack_of(gone), "")


if __name__ == "__main__":
    unittest.main()
