"""Tests how many ranks a host takes by default."""

from __future__ import annotations

import os
import signal
import unittest
from collections.abc import Callable
from unittest import mock

from harness.agent import slots
from harness.requirements import MachineFacts
from harness.system import processors


def killed() -> MachineFacts:
    """A driver that kills who asks it."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class SlotsTest(unittest.TestCase):
    """What ``default_slots`` finds."""

    def test_table(self) -> None:
        """One rank an accelerator; a processor each where there is none, or none that can be asked."""
        rows: tuple[tuple[Callable[[], MachineFacts], int], ...] = (
            (lambda: MachineFacts(accelerators=(("cuda", 8),)), 8),
            (lambda: MachineFacts(accelerators=(("mps", 1),)), 6),
            (lambda: MachineFacts(), 6),
            (killed, 6),
        )
        for facts, expected in rows:
            with (
                self.subTest(expected=expected),
                mock.patch.object(slots, "probe", side_effect=facts),
                mock.patch.object(processors, "available", return_value=6),
            ):
                self.assertEqual(slots.default_slots(), expected)


if __name__ == "__main__":
    unittest.main()
