"""Tests the number that a run of each kind gives, and which runs must give none."""

import unittest

from tools.bench.bodies import BODIES, Bodies
from tools.bench.kinds import DEATH_SEEN, DEATH_UNSEEN, KEPT, KINDS, MEMORY, TEST, MeasureError, value


class Value(unittest.TestCase):
    """The function ``value``, on every kind."""

    def test_a_test_is_its_wall_time(self) -> None:
        """The value of a test is its wall time, for which no rank writes anything."""
        self.assertEqual(value(TEST, 10.0, 10.5, "", True), 0.5)

    def test_memory_is_in_megabytes(self) -> None:
        """Ranks write their memory in bytes, and the value is in megabytes."""
        self.assertEqual(value(MEMORY, 0.0, 9.0, "25000000", True), 25.0)

    def test_a_death_counts_from_the_moment_that_the_rank_wrote_down(self) -> None:
        """The time to a verdict starts at the rank's death, not at the start of the test."""
        self.assertEqual(value(DEATH_SEEN, 1.0, 7.5, "6.5", False), 1.0)

    def test_a_wrong_verdict_is_no_number(self) -> None:
        """A test that passes although its rank was killed, or fails although it must pass, has no value."""
        for kind in (DEATH_SEEN, DEATH_UNSEEN):
            with self.assertRaisesRegex(MeasureError, "passed"):
                value(kind, 1.0, 2.0, "1.5", True)
        with self.assertRaisesRegex(MeasureError, "failed"):
            value(TEST, 1.0, 2.0, "", False)

    def test_nothing_written_down_is_no_number(self) -> None:
        """A memory test in which no rank wrote its measurement has no value."""
        with self.assertRaisesRegex(MeasureError, "wrote"):
            value(MEMORY, 1.0, 2.0, "", True)


class Methods(unittest.TestCase):
    """The names of kinds, bodies and test methods."""

    def test_each_kind_has_a_body_and_a_test_method(self) -> None:
        """Each kind's method is a body, for the bare program, and a test method, for the cases."""
        self.assertEqual({kind.method for kind in KINDS.values() if kind not in KEPT}, set(BODIES))
        self.assertEqual({name for name in vars(Bodies) if name.startswith("test_")}, set(BODIES))
