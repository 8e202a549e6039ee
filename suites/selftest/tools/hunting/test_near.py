"""Tests that most programs are changes of those that failed, as many of each bug."""

from __future__ import annotations

import itertools
import random
import tempfile
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path

from harness.fuzzing.signature import Failure, Kind, Signature
from suites.selftest.tools.planted.odd_sums import OddSums
from tools.hunting import journal
from tools.hunting.journal import Find
from tools.hunting.near import FRESH, Failed, failed_before, near

SIGNATURE = Signature("odd sums", Failure(Kind.WRONG, "sum #"), "")
FIND = Find(SIGNATURE, 1, 0, True, "", "often", {}, program=[13, 2])
COUNT = 400


class NearTest(unittest.TestCase):
    def test_while_nothing_failed_all_are_drawn(self) -> None:
        drawn = [(1,), (2,)]
        self.assertEqual(list(near(OddSums(), iter(drawn), Failed(), random.Random(0))), drawn)

    def test_what_fails_meanwhile_is_changed(self) -> None:
        failed = Failed()
        drawn = ((number,) for number in itertools.count())
        programs = near(OddSums(), drawn, failed, random.Random(0))
        self.assertEqual(next(programs), (0,))
        failed.add(FIND, (13, 2))
        found = Counter(len(program) for program in itertools.islice(programs, COUNT))
        self.assertEqual(set(found), {1, 2})
        self.assertAlmostEqual(found[1] / COUNT, 1 / FRESH, delta=0.1)

    def test_bugs_have_equal_parts(self) -> None:
        """One that is met often leaves room for the others, which have most to show."""
        failed, choice = Failed(), random.Random(0)
        for _ in range(50):
            failed.add(FIND, (13, 1))
        failed.add(replace(FIND, entry=None), (13, 2))
        found = Counter(failed.one(choice) for _ in range(COUNT))
        self.assertAlmostEqual(found[13, 2] / COUNT, 0.5, delta=0.1)


class FailedBeforeTest(unittest.TestCase):
    def test_the_journal_has_what_failed(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            self.assertFalse(failed_before(OddSums(), directory))
            other = Signature("another", SIGNATURE.failure, "")
            for find in (FIND, replace(FIND, program=None), replace(FIND, signature=other, program=[1])):
                journal.append(directory, find)
            failed = failed_before(OddSums(), directory)
        self.assertEqual({failed.one(random.Random(seed)) for seed in range(20)}, {(13, 2)})


if __name__ == "__main__":
    unittest.main()
