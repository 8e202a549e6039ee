"""Tests which attributes of test classes are taken for misspelt ones, and where that is said."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import harness
from harness.cases.misspelt_attributes import hint, warn
from harness.cases.usual_mistakes import hints
from harness.outcomes import RankOutcome, Status, TestOutcome


def made(*bases: type, **attributes: Any) -> Any:
    """A class of a user's with these attributes."""
    return type("Sums", bases or (harness.MultiProcessTestCase,), {"__module__": "test_sums", **attributes})


class HintTest(unittest.TestCase):
    """``hint``, of a class."""

    def test_table(self) -> None:
        """Names that are nearly one that is read, and names of a class's own."""
        table = {
            "worldsize": "world_size",
            "worldSize": "world_size",
            "WORLD_SIZE": "world_size",
            "wolrd_size": "world_size",
            "word_size": "world_size",
            "rank_mode": "rank_modes",
            "setup_rank": "setUpRank",
            "tearDownRanK": "tearDownRank",
            "import_in_rank": "import_in_ranks",
            "world_sizes": "",
            "old_world_size": "",
            "world_size_2": "",
            "_worldsize": "",
            "test_worldsize": "",
            "world": "",
            "size": "",
            "setUpGroup": "",
            "perThreadSetup": "",  # of a case whose ranks are processes
        }
        for name, meant in table.items():
            with self.subTest(name):
                said = f"nothing reads Sums.{name}: did you mean {meant}?" if meant else ""
                self.assertEqual(hint(made(**{name: 2})), said)
        self.assertIn("perThreadSetUp", hint(made(harness.MultiThreadedTestCase, perThreadSetup=2)))

    def test_right_name_too(self) -> None:
        """Where the class or a base of it says the right name, the other one is its own."""
        self.assertEqual(hint(made(WORLD_SIZE=2, world_size=2)), "")
        self.assertEqual(hint(made(made(world_size=2), WORLD_SIZE=2)), "")
        self.assertIn("Sums.worldsize", hint(made(made(worldsize=2))))

    def test_read_by_the_class(self) -> None:
        """A name that a method of the class reads is its own, in a function inside of it too."""

        def test_table(self: Any) -> list[int]:
            return [self.PRECISION + n for n in (lambda: self.worldsize)()]

        self.assertEqual(hint(made(PRECISION=2, worldsize=[1], test_table=test_table)), "")
        self.assertIn("Sums.WORLD_SIZE", hint(made(PRECISION=2, WORLD_SIZE=1, test_table=test_table)))

    def test_of_the_harness(self) -> None:
        """No name of the harness's own cases is taken for another one, nor any of a case of upstream's."""
        for cls in (harness.DTensorTestBase, harness.MultiProcContinuousTest, harness.MultiThreadedTestCase):
            self.assertEqual(hint(made(cls)), "")
        self.assertEqual(hint(made(unittest.TestCase, worldsize=2)), "")


class ToldTest(unittest.TestCase):
    """Who is told."""

    def test_warning(self) -> None:
        """A run warns once for each class, at the class."""
        cls = made(worldsize=2)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(2):
                warn(cls)
                warn(made(world_size=2))
        (told,) = seen
        self.assertIn("did you mean world_size?", str(told.message))

    def test_of_a_run(self) -> None:
        """A case warns when it is run."""
        cls = made(worldsize=2, test_it=unittest.skip("is about the class")(lambda self: None))
        with self.assertWarnsRegex(UserWarning, "nothing reads Sums.worldsize"):
            cls("test_it").run(unittest.TestResult())

    def test_failure(self) -> None:
        """It is a hint in the failure of a test, which ran on more or fewer ranks than was meant."""
        outcome = TestOutcome(Status.FAILED, (RankOutcome(0, Status.FAILED),))
        case = made(worldsize=2, test_it=lambda self: None)("test_it")
        self.assertEqual(hints(case, outcome), ("nothing reads Sums.worldsize: did you mean world_size?",))


if __name__ == "__main__":
    unittest.main()
