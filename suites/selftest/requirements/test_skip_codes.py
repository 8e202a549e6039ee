"""Tests that a rank's exit by a skip's code is a skip, and that another number is a crash."""

from __future__ import annotations

import pickle
import sys
import unittest
from typing import Any

from torch.testing._internal import common_distributed

from harness import TEST_SKIPS, MultiProcessTestCase
from harness.outcomes import SkipExitCode


class Skips(MultiProcessTestCase):
    """Ranks that exit."""

    world_size = 2

    def by_code(self) -> None:
        """Exits with a skip's code."""
        sys.exit(TEST_SKIPS["multi-gpu-2"].exit_code)

    def by_number(self) -> None:
        """Exits with the same number."""
        sys.exit(77)


class SkipsBefore(MultiProcessTestCase):
    """Ranks that exit before their test."""

    world_size = 2

    @classmethod
    def _run(cls, *args: Any, **kwargs: Any) -> None:
        sys.exit(TEST_SKIPS["nccl"].exit_code)

    def body(self) -> None:
        """Never runs."""


class SkipCodesTest(unittest.TestCase):
    """Codes and verdicts."""

    def test_verdicts(self) -> None:
        for case, skipped in (
            (Skips("by_code"), "needs 2 accelerators"),
            (SkipsBefore("body"), "needs a torch build with NCCL"),
            (Skips("by_number"), None),
        ):
            with self.subTest(case.id()):
                result = case.run()
                assert result is not None
                self.assertEqual([reason for _, reason in result.skipped], [skipped] if skipped else [])
                self.assertEqual(len(result.errors), 0 if skipped else 1)

    def test_codes(self) -> None:
        """They are torch's, and survive a pickle."""
        theirs = {name: skip.exit_code for name, skip in common_distributed.TEST_SKIPS.items()}
        self.assertEqual({name: int(skip.exit_code) for name, skip in TEST_SKIPS.items()}, theirs)
        again = pickle.loads(pickle.dumps(SkipExitCode(7, "why")))
        self.assertEqual((again, again.reason), (7, "why"))


if __name__ == "__main__":
    unittest.main()
