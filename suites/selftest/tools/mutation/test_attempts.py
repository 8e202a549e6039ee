"""Tests what an outcome says failed."""

from __future__ import annotations

import unittest

from tools.mutation.attempts import Outcome, Ran


class OutcomeTest(unittest.TestCase):
    """``failed``: the first one."""

    def test_failed(self) -> None:
        good, bad = Ran("a", 1.0), Ran("b", 1.0, "words")
        self.assertIsNone(Outcome((good,)).failed)
        self.assertEqual(Outcome((good, bad, Ran("c", 1.0, "others"))).failed, bad)
