"""Tests the table of signals that the harness sends."""

from __future__ import annotations

import runpy
import signal
import sys
import unittest
from unittest import mock

from harness.system import signals

NAMES = ("RANK_STACKS", "WORKER_STACKS", "STOP_TEST")


class SignalsTest(unittest.TestCase):
    """The numbers, by platform."""

    def numbers(self, platform: str) -> dict[str, int]:
        """Returns the signals' numbers by name, as they are on that platform."""
        with mock.patch.object(sys, "platform", platform):
            found = runpy.run_path(signals.__file__)
        return {name: found[name] for name in NAMES}

    def test_each_purpose_has_its_own(self) -> None:
        """On Linux the numbers differ and are those of real-time signals, without the last one."""
        numbers = set(self.numbers("linux").values())
        self.assertEqual(len(numbers), len(NAMES))
        for number in numbers:
            self.assertTrue(signal.SIGRTMIN < number < signal.SIGRTMAX, number)

    def test_elsewhere(self) -> None:
        """On other platforms, which may lack real-time signals, they are the user signals."""
        numbers = self.numbers("darwin")
        self.assertLessEqual(set(numbers.values()), {signal.SIGUSR1, signal.SIGUSR2})
        self.assertNotEqual(numbers["RANK_STACKS"], numbers["WORKER_STACKS"])

    def test_settle(self) -> None:
        """Afterwards no signal is blocked, and the exit codes of children are there to be waited for."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signals.RANK_STACKS])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        self.addCleanup(signal.signal, signal.SIGCHLD, signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        signals.settle()
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), set())
        self.assertIs(signal.getsignal(signal.SIGCHLD), signal.SIG_DFL)

    def test_plain_numbers(self) -> None:
        """They are plain numbers, which cross a process as JSON."""
        for name in NAMES:
            self.assertIs(type(getattr(signals, name)), int)


if __name__ == "__main__":
    unittest.main()
