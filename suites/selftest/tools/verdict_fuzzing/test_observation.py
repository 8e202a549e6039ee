"""Tests what is read of a verdict's text, and what unittest says of tests of every kind."""

from __future__ import annotations

import unittest

from tools.verdict_fuzzing.observation import Observation, of_record, verdict_of, worst


class Samples(unittest.TestCase):
    """Tests of every verdict, which only ``VerdictTest`` runs."""

    def runTest(self) -> None:
        """Does nothing; the samples below are made with a name."""

    def passes(self) -> None:
        """Passes."""

    def fails(self) -> None:
        """Fails in a sub-test."""
        with self.subTest(n=1):
            self.fail("as planned")

    def raises(self) -> None:
        """Raises after a failed sub-test."""
        self.fails()
        raise ValueError("as planned")

    def skips(self) -> None:
        """Skips the whole test."""
        self.skipTest("as planned")

    def skips_a_part(self) -> None:
        """Skips a sub-test, and passes."""
        with self.subTest(n=1):
            self.skipTest("as planned")

    @unittest.expectedFailure
    def expects(self) -> None:
        """Fails, as expected."""
        self.fail("as planned")

    @unittest.expectedFailure
    def surprises(self) -> None:
        """Passes, which is not expected."""


class VerdictTest(unittest.TestCase):
    """``verdict_of`` and ``of_record``."""

    def test_by_unittest(self) -> None:
        """Each sample has its verdict, the worst of what was said of it."""
        for name, verdict in (
            ("passes", "pass"),
            ("fails", "fail"),
            ("raises", "error"),
            ("skips", "skip"),
            ("skips_a_part", "pass"),
            ("expects", "expected failure"),
            ("surprises", "unexpected success"),
        ):
            with self.subTest(name):
                self.assertEqual(verdict_of(Samples(name))[0], verdict)
        self.assertEqual(worst([]), "pass")

    def test_by_a_record(self) -> None:
        """Statuses of a run's results are verdicts; those that nobody listed are errors."""
        for status, verdict in (
            ("passed", "pass"),
            ("failed", "fail"),
            ("crashed", "error"),
            ("timed out", "error"),
        ):
            with self.subTest(status):
                found = of_record({"status": status, "duration_s": 2, "details": "cause: rank 3 crashed"})
                self.assertEqual((found[0], found[2]), (verdict, 2.0))
                self.assertIn("rank 3", found[1])


class TextTest(unittest.TestCase):
    """What an observation reads of its text."""

    def test_cause(self) -> None:
        """The cause is the rank after "cause", or after "at first" where the cause is a divergence."""
        for text, causes in (
            ("RankError: x: error\ncause: rank 12 raised: E\nalso: rank 3: F", (12,)),
            ("cause: ranks 1-2, 5 never came to barrier #1; rank 0 waits in barrier #1", (1, 2, 5)),
            ("cause: divergent skip: rank 1 skipped (why), rank 0 did not\nat first: rank 0 failed", (0,)),
            ("cause: ranks 1, 2 had to be ended", ()),
            ("cause: ranks 0 -> 1 -> 0 wait for each other in recv", ()),
            ("because: rank 4", ()),
            ("", ()),
        ):
            with self.subTest(text):
                self.assertEqual(Observation(text=text).causes, causes)

    def test_skipped(self) -> None:
        """Ranks are read singly, in lists and in ranges."""
        for told, ranks in (("rank 1", (1,)), ("ranks 0, 2", (0, 2)), ("ranks 0-2, 5", (0, 1, 2, 5))):
            with self.subTest(told):
                text = f"cause: divergent skip: {told} skipped (because), rank 7 did not"
                self.assertEqual(Observation(text=text).skipped, ranks)

    def test_round_trip(self) -> None:
        """A line has everything."""
        seen = Observation("fail", "text\nof two lines", "pass", "error", ("w",), ("l",), 1.5)
        self.assertEqual(Observation.loads(seen.dumps()), seen)


if __name__ == "__main__":
    unittest.main()
