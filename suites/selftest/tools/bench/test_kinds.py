"""Kinds: how a run becomes a number, and when it must not."""

import unittest

from tools.bench.bodies import BODIES, Bodies
from tools.bench.kinds import DEATH_SEEN, DEATH_UNSEEN, KEPT, KINDS, MEMORY, TEST, MeasureError, value


class Value(unittest.TestCase):
    """The number that a run comes to."""

    def test_a_test_is_its_wall_time(self) -> None:
        """No rank writes anything down for it."""
        self.assertEqual(value(TEST, 10.0, 10.5, "", True), 0.5)

    def test_memory_is_in_megabytes(self) -> None:
        """Ranks write bytes."""
        self.assertEqual(value(MEMORY, 0.0, 9.0, "25000000", True), 25.0)

    def test_a_death_counts_from_the_moment_that_the_rank_wrote_down(self) -> None:
        """Not from the start of the test."""
        self.assertEqual(value(DEATH_SEEN, 1.0, 7.5, "6.5", False), 1.0)

    def test_a_wrong_verdict_is_no_number(self) -> None:
        """A harness that passes a test whose rank was killed is not fast but wrong."""
        for kind in (DEATH_SEEN, DEATH_UNSEEN):
            with self.assertRaisesRegex(MeasureError, "passed"):
                value(kind, 1.0, 2.0, "1.5", True)
        with self.assertRaisesRegex(MeasureError, "failed"):
            value(TEST, 1.0, 2.0, "", False)

    def test_nothing_written_down_is_no_number(self) -> None:
        """The rank failed before it came to that."""
        with self.assertRaisesRegex(MeasureError, "wrote"):
            value(MEMORY, 1.0, 2.0, "", True)


class Methods(unittest.TestCase):
    """Kinds, bodies and test methods name each other."""

    def test_each_kind_has_a_body_and_a_test_method(self) -> None:
        """The bare program calls the body, cases the method."""
        self.assertEqual({kind.method for kind in KINDS.values() if kind not in KEPT}, set(BODIES))
        self.assertEqual({name for name in vars(Bodies) if name.startswith("test_")}, set(BODIES))
