"""Tests for a soak to run: one that fails at its first run of all, one that waits until the run is ended."""

from __future__ import annotations

import os
import threading
import unittest
from pathlib import Path

from suites.selftest.faults.base import announce

# The file by which the flaky test knows that it has run before.
SEEN = "PLANTED_SEEN"


class FlakyTest(unittest.TestCase):
    """A test that fails once, and one that never does."""

    def test_sometimes(self) -> None:
        seen = Path(os.environ[SEEN])
        first = not seen.exists()
        seen.touch()
        self.assertFalse(first, "the first run")

    def test_always(self) -> None:
        self.assertTrue(os.environ[SEEN])


class WaitingTest(unittest.TestCase):
    """A test that announces its process and never ends by itself."""

    def test_waits(self) -> None:
        announce(os.getpid())
        threading.Event().wait()
