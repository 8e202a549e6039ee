"""Tests that every contender runs its ranks and returns a number, and that a failed test gives none."""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from unittest import mock

from harness import slow_test
from suites.selftest.forked_case import ForkedCase
from tools.bench import bodies
from tools.bench.contenders import KEPT, TITLES
from tools.bench.contenders.base import CaseContender
from tools.bench.contenders.kept import timed
from tools.bench.kinds import MEMORY, MeasureError
from tools.bench.remote import Remote

DEATHS = ["death-seen", "death-unseen"]
CLASS = ["class-start", "kept-test"]
#: The kinds that each contender supports.
SUPPORTED = {
    "bare": ["test", "memory"],
    "forkserver": ["test", "memory", *DEATHS],
    "spawn": ["test", "memory", *DEATHS],
    "upstream": ["test", "memory", "death-seen"],
    "pooled": [*CLASS, "dtensor-test"],
    "threads": [*CLASS, "dtensor-test"],
    "local": ["dtensor-test"],
    "fresh": ["dtensor-test"],
    "upstream-pooled": CLASS,
    "upstream-threads": CLASS,
}
#: The contenders whose ranks are new interpreters, or are fresh for dozens of tests.
SLOW = ("spawn", "upstream", "upstream-pooled", "fresh")


class ContendersTest(ForkedCase):
    """Each contender in a process of its own, as the benchmark runs it."""

    def check(self, name: str) -> None:
        """Checks the contender's kinds, and makes one measurement on two ranks (four for DTensor)."""
        with self.subTest(name), Remote(name) as remote:
            self.assertEqual(remote.kinds, SUPPORTED[name])
            kind = SUPPORTED[name][0]
            self.assertGreater(remote.measure(kind, 4 if kind == "dtensor-test" else 2), 0)

    def test_quick(self) -> None:
        """Contenders that fork ranks or need no processes measure their first kind."""
        for name in TITLES:
            if name not in SLOW:
                self.check(name)

    @slow_test
    def test_slow(self) -> None:
        """Contenders that start interpreters measure their first kind."""
        for name in SLOW:
            self.check(name)

    def test_all_are_known(self) -> None:
        """Every contender is in the table above, and those of kept ranks measure classes only."""
        self.assertEqual(SUPPORTED.keys(), TITLES.keys())
        for name, kinds in SUPPORTED.items():
            self.assertEqual("test" in kinds, name not in KEPT, name)


class Outcomes(unittest.TestCase):
    """A case with one test for each outcome, which the tests below run; discovery does not find it."""

    def passes(self) -> None:
        """Writes what a rank would write: the bytes of its memory, which grow with the world size."""
        megabytes = 10 * int(os.environ[bodies.WORLD_SIZE])
        Path(os.environ[bodies.SPOT]).write_text(f"{megabytes}000000")

    def fails(self) -> None:
        self.fail("a rank was lost")

    def skips(self) -> None:
        self.skipTest("no ranks")


class CaseContenderTest(unittest.TestCase):
    """``CaseContender``, which runs one case of the method that a kind names."""

    def measure(self, method: str, world_size: int) -> float:
        class Scripted(CaseContender):
            def case(self, _: str) -> unittest.TestCase:
                return Outcomes(method)

        with mock.patch.dict(os.environ):
            return Scripted().measure(MEMORY, world_size)

    def test_ranks_learn_the_world_size_and_the_spot(self) -> None:
        """What a rank writes to its file is the measurement."""
        self.assertEqual([self.measure("passes", size) for size in (2, 8)], [20.0, 80.0])

    def test_a_failed_case(self) -> None:
        """A test that fails raises an error with its traceback."""
        with self.assertRaisesRegex(MeasureError, r"(?s)the test failed\n.*a rank was lost"):
            self.measure("fails", 2)


class TimedTest(unittest.TestCase):
    """The function ``timed``, which runs one test of a kept class."""

    def test_only_a_pass_has_a_time(self) -> None:
        """A test that fails or is skipped raises an error."""

        class Kept(Outcomes):
            def passes(self) -> None:
                """Does nothing."""

        self.assertGreater(timed(Kept, "passes"), 0)
        for method in ("fails", "skips"):
            with self.assertRaisesRegex(MeasureError, "the test did not pass"):
                timed(Kept, method)


if __name__ == "__main__":
    unittest.main()
