"""Tests under which delays programs of a hunt are played, and what is said of one that they decide."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.communication.record.chaos import PACES, Chaos
from harness.fuzzing import hunted
from harness.fuzzing.player import quiet_environment
from harness.fuzzing.signature import Failure, Kind
from suites.selftest.tools.planted.fuzzers import PLANTED
from suites.selftest.tools.planted.racing import Racing
from tools.hunting import schedules
from tools.hunting.schedules import delays_of, told

LATE = "silently wrong: the flag is not there"


def seed_of(*paces: float) -> int:
    """The first seed under which ranks 0, 1, ... have these paces."""
    return next(s for s in range(10_000) if tuple(Chaos(s, r).pace for r in range(len(paces))) == paces)


# Rank 1 sets the flag long before rank 0 reads it under one seed, and long after under the other.
SET_FIRST, READ_FIRST = seed_of(max(PACES), min(PACES)), seed_of(min(PACES), max(PACES))


class DelaysTest(unittest.TestCase):
    def test_every_other_program(self) -> None:
        """A program of one rank has no delays; of several ranks one in two has, each its own."""
        self.assertEqual({delays_of(5, number, 1) for number in range(4)}, {None})
        found = [delays_of(5, number, 2) for number in range(8)]
        self.assertEqual(found[::2], [None] * 4)
        self.assertEqual(len({*found[1::2], delays_of(6, 1, 2)} - {None}), 5)
        self.assertEqual(found[1], delays_of(5, 1, 2))

    def test_words(self) -> None:
        self.assertEqual(told(None, 2), "no delays")
        self.assertEqual(told(READ_FIRST, 2), f"HARNESS_CHAOS={READ_FIRST} (rank 0 quick, rank 1 slow)")


class SchedulesTest(unittest.TestCase):
    @mock.patch.dict(hunted.FUZZERS, PLANTED)
    def test_race(self) -> None:
        """Each schedule has its own end, on the same kept ranks."""
        with quiet_environment():
            found = schedules.ends(Racing(), (1,), READ_FIRST, (SET_FIRST, READ_FIRST))
        self.assertEqual(found, {told(READ_FIRST, 2): LATE, told(SET_FIRST, 2): ""})

    def test_two_ends(self) -> None:
        """A schedule under which a program passes and fails says nothing."""
        failure = Failure(Kind.WRONG, "sum")
        ends = [failure, failure, None, None, failure, None]
        with mock.patch.object(schedules, "played", side_effect=ends):
            found = schedules.ends(Racing(), (1,), 4, (None, 4, 1))
        self.assertEqual(found, {told(4, 2): "silently wrong: sum", "no delays": ""})


if __name__ == "__main__":
    unittest.main()
