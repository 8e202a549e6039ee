"""Tests how the accelerators of a host are counted."""

from __future__ import annotations

import os
import signal
import unittest
from collections.abc import Callable
from unittest import mock

from harness.agent import slots
from harness.requirements import MachineFacts


def killed() -> MachineFacts:
    """A driver that kills who asks it."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class SlotsTest(unittest.TestCase):
    """What ``count_accelerators`` finds."""

    def test_table(self) -> None:
        """As many as a distributed test can ask for; none where no driver can be asked."""
        rows: tuple[tuple[Callable[[], MachineFacts], int], ...] = (
            (lambda: MachineFacts(accelerators=(("cuda", 8),)), 8),
            (lambda: MachineFacts(accelerators=(("mps", 1),)), 0),
            (lambda: MachineFacts(), 0),
            (killed, 0),
        )
        for facts, expected in rows:
            with (
                self.subTest(expected=expected),
                mock.patch.object(slots, "probe", side_effect=facts),
            ):
                self.assertEqual(slots.count_accelerators(), expected)


if __name__ == "__main__":
    unittest.main()
