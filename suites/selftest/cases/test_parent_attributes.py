"""Tests what is said of attributes that fixtures set in the parent, and that ranks lack."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

from harness.cases.parent_attributes import hints
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome, TestOutcome
from suites.selftest.faults import parent_attributes
from suites.selftest.faults.rows import OnForkServer

ROOT = Path(__file__).parents[3]


class Sums:
    """Stands for the parent's instance of a case."""

    shared = 1

    def __init__(self) -> None:
        self.model = 2


def outcome(type_name: str, message: str) -> TestOutcome:
    """The outcome of a test that one rank did not pass for an error."""
    error = ErrorInfo(type_name, message, "trace")
    return TestOutcome(
        Status.ERROR, (RankOutcome(0, Status.PASSED), RankOutcome(1, Status.ERROR, error=error))
    )


class HintsTest(unittest.TestCase):
    """A hint for what the parent's instance has, and for nothing else."""

    def test_errors(self) -> None:
        table = {
            ("AttributeError", "'Sums' object has no attribute 'model'"): "self.model was set by setUp,",
            (
                "AttributeError",
                "'Sums' object has no attribute 'shared'",
            ): "cls.shared was set by setUpClass",
            ("AttributeError", "type object 'Sums' has no attribute 'shared'"): "cls.shared was set by",
            ("AttributeError", "'Sums' object has no attribute 'other'"): "",
            ("AttributeError", "'Products' object has no attribute 'model'"): "",
            ("RuntimeError", "'Sums' object has no attribute 'model'"): "",
            ("AttributeError", "model"): "",
        }
        for (type_name, message), said in table.items():
            with self.subTest(message, type_name=type_name):
                found = hints(Sums(), outcome(type_name, message))
                self.assertEqual(len(found), bool(said))
                self.assertTrue("".join(found).startswith(said))

    def test_each_once(self) -> None:
        """An attribute that several ranks and sub-tests lack has one hint."""
        error = ErrorInfo("AttributeError", "'Sums' object has no attribute 'model'", "trace")
        subtest = SubtestOutcome(None, (), Status.ERROR, error)
        ranks = (
            RankOutcome(0, Status.ERROR, error=error),
            RankOutcome(1, Status.ERROR, subtests=(subtest, subtest)),
        )
        self.assertEqual(len(hints(Sums(), TestOutcome(Status.ERROR, ranks))), 1)


class RanksTest(OnForkServer):
    """The same with ranks."""

    def test_said_in_the_failure(self) -> None:
        played = self.play(parent_attributes.Fixtures, "test_of_instance")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("hint: self.from_set_up was set by setUp, ", played.text)
        # The server from which ranks are forked has been started by now, and knows nothing of this.
        parent_attributes.Fixtures.setUpClass()
        self.addCleanup(parent_attributes.Fixtures.tearDownClass)
        played = self.play(parent_attributes.Fixtures, "test_of_class")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("hint: cls.from_set_up_class was set by setUpClass, ", played.text)

    def test_alone(self) -> None:
        """Ranks of the first test of a process lack what ``setUpClass`` set, as those of later ones do."""
        for name in ("Fixtures", "Mixed"):
            with self.subTest(name):
                done = subprocess.run(
                    [sys.executable, "-m", "unittest", f"{parent_attributes.__name__}.{name}.test_of_class"],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("hint: cls.from_set_up_class was set by setUpClass, ", done.stderr)


if __name__ == "__main__":
    unittest.main()
