"""Tests the reading of faulthandler's stack dumps: when one is complete, and what a reader is shown."""

from __future__ import annotations

import unittest

from harness.ranks.processes import stacks

FORKED = b"""Thread 0x00007f2b1c9fe640 [worker] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f2b5d3f5000 (most recent call first):
  File "/home/u/test_x.py", line 7 in wait
  File "/home/u/test_x.py", line 12 in test_hang
  File "/usr/lib/python3.11/unittest/case.py", line 579 in _callTestMethod
  File "/usr/lib/python3.11/unittest/case.py", line 623 in run
  File "/src/harness/ranks/result.py", line 120 in run_body
  File "/src/harness/cases/multiprocess.py", line 300 in run_test
  File "/src/harness/ranks/processes/rank.py", line 115 in _run
  File "/src/harness/ranks/processes/rank.py", line 90 in live
  File "/src/harness/ranks/processes/fork_server.py", line 101 in fork_birth
  File "/home/u/run.py", line 3 in <module>
"""
DEEP = (
    b"Current thread 0x00007f (most recent call first):\n"
    + b'  File "/home/u/test_x.py", line 7 in deeper\n' * 100
    + b"  ...\n"
)
START = b"""Current thread 0x00007f2b5d3f5000 (most recent call first):
  File "/src/harness/ranks/processes/module_import.py", line 50 in ensure
  File "/src/harness/ranks/processes/rank.py", line 90 in live
  File "/src/harness/ranks/processes/rank.py", line 40 in from_exec
  File "<string>", line 1 in <module>
"""


class CompleteTest(unittest.TestCase):
    """``looks_complete``, which says whether more of a dump is to come."""

    def test_whole(self) -> None:
        """A dump is complete at a module's frame, or where faulthandler gives up."""
        for dump in (FORKED, DEEP, START):
            self.assertTrue(stacks.looks_complete(dump))

    def test_every_part_of_one(self) -> None:
        """No beginning of a dump counts as complete, because the bottom of the main thread comes last."""
        for end in range(len(FORKED)):
            self.assertFalse(stacks.looks_complete(FORKED[:end]), FORKED[:end][-60:])

    def test_nothing(self) -> None:
        """Text that is not a dump is not complete."""
        for dump in (b"", b"\n", b"in <module>\n", b"hello\n"):
            self.assertFalse(stacks.looks_complete(dump))


class ReadableTest(unittest.TestCase):
    """``readable``, which cuts a dump down for a reader."""

    def test_own_part(self) -> None:
        """Each thread is shown from its innermost frame to the test's method, without harness and callers."""
        threads = stacks.readable(FORKED).split("\n\n")
        self.assertEqual(len(threads), 2)
        self.assertIn("_bootstrap", threads[0])
        self.assertEqual(
            threads[1].splitlines(),
            [
                "Current thread 0x00007f2b5d3f5000 (most recent call first):",
                '  File "/home/u/test_x.py", line 7 in wait',
                '  File "/home/u/test_x.py", line 12 in test_hang',
            ],
        )

    def test_before_the_test(self) -> None:
        """The stack of a rank that hangs before its test is shown."""
        self.assertIn("line 50 in ensure", stacks.readable(START))

    def test_cut_off(self) -> None:
        """The beginning of a dump is shown if the rest is missing."""
        self.assertIn("line 7 in wait", stacks.readable(FORKED[: FORKED.index(b"test_hang")]))

    def test_too_long(self) -> None:
        """The length is bounded, apart from the empty lines between threads."""
        whole = DEEP * 100
        self.assertGreater(len(whole), 1.5 * stacks.STACK_BYTES)
        self.assertLess(len(stacks.readable(whole)), 1.01 * stacks.STACK_BYTES)

    def test_nonsense(self) -> None:
        """Bytes that are not a dump give an empty text and no error."""
        for dump in (b"", b"\xff\xfe\n", b"  File without a thread\n"):
            self.assertEqual(stacks.readable(dump), "")


if __name__ == "__main__":
    unittest.main()
