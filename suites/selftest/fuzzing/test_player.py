"""Tests how a program is played on ranks, with a fuzzer that has a planted bug."""

from __future__ import annotations

import unittest

from harness.fuzzing.player import played, quiet_environment, smallest
from harness.fuzzing.signature import Failure, Kind
from suites.selftest.tools.planted.odd_sums import OddSums

WRONG = Failure(Kind.WRONG, "sum #")


class PlayedTest(unittest.TestCase):
    """Ranks know the fuzzer by its class: none of them has its name."""

    def test_end_of_the_process(self) -> None:
        with quiet_environment():
            failure = played(OddSums(), (7,))
            self.assertIsNone(played(OddSums(), (1,)), "the next program has ranks of its own")
        assert failure is not None
        self.assertIs(failure.kind, Kind.DIES)

    def test_shrinking_keeps_the_failure(self) -> None:
        with quiet_environment():
            self.assertEqual(smallest(OddSums(), (1, 13, 2, 3), WRONG), (13,))


if __name__ == "__main__":
    unittest.main()
