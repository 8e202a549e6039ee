"""Tests how a program is played on ranks, with a fuzzer that has a planted bug."""

from __future__ import annotations

import itertools
import unittest
from typing import Any
from unittest import mock

from harness.fuzzing import player
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

    def test_shrinking_is_given_the_time_without_a_processor(self) -> None:
        """Tries that take all of the time are few, unless their ranks waited for so long."""
        for waited_s, found in ((0.0, (13, 2, 3)), (player.SHRINKING_S, (13,))):
            with self.subTest(waited_s=waited_s):
                self.assertEqual(self.shrunk_while_waiting(waited_s), found)

    def shrunk_while_waiting(self, waited_s: float) -> Any:
        """What is found where each try takes ``SHRINKING_S``, of which its ranks wait for ``waited_s``."""
        clock = mock.Mock(monotonic=mock.Mock(side_effect=itertools.count(0.0, player.SHRINKING_S - 1)))

        def try_one(fuzzer: OddSums, program: tuple[int, ...], **kwargs: Any) -> Failure | None:
            return WRONG if 13 in program else None

        with (
            mock.patch.object(player, "played", try_one),
            mock.patch.object(player, "time", clock),
            mock.patch.object(player, "Waiting") as waiting,
        ):
            waiting.return_value.__enter__.return_value.seconds = waited_s
            return smallest(OddSums(), (1, 13, 2, 3), WRONG)


if __name__ == "__main__":
    unittest.main()
