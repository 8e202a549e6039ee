"""Tests ``needs`` and ``require``: what the target does not declare is skipped, and its reason says so."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from harness.targets import declared
from harness.targets.target import Capability

NONE = {"HARNESS_BACKEND": "", "HARNESS_DEVICE": "", "HARNESS_PLUGIN": ""}
STACKED = "not declared by target gloo: all_gather_into_tensor into a stack"


class Sample(unittest.TestCase):
    """Tests that gloo can do, and that it cannot."""

    @declared.needs(Capability.OBJECTS, operation="all_reduce", reduction="sum", dtype="float32")
    def test_declared(self) -> None:
        """Runs to its end."""

    @declared.needs(Capability.STACKED_OUTPUTS)
    def test_undeclared(self) -> None:
        """Does not run."""
        self.fail("it ran")

    def test_required(self) -> None:
        """Skips itself by a call."""
        declared.require(operation="all_reduce", reduction="premul_sum")
        self.fail("it went on")

    @declared.needs(Capability.OBJECTS)
    def test_failing(self) -> None:
        """Fails, though the target declares what it needs."""
        self.fail("wrong")


@declared.needs(backend="nonesuch")
class OfAnother(unittest.TestCase):
    """Tests of another backend."""

    @classmethod
    def setUpClass(cls) -> None:
        """Is not reached."""
        raise AssertionError("the class ran")

    def test_nothing(self) -> None:
        """Does not run."""


def outcome(case: type[unittest.TestCase], name: str) -> tuple[str, str]:
    """Runs one test on gloo and returns "passed", "failed" or "skipped", with the reason of a skip."""
    result = unittest.TestResult()
    with mock.patch.dict(os.environ, NONE):
        unittest.TestSuite([case(name)]).run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return ("passed" if result.wasSuccessful() else "failed"), ""


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """The tests of ``DeclaredTest``; the sample's are run by them."""
    return loader.loadTestsFromTestCase(DeclaredTest)


class DeclaredTest(unittest.TestCase):
    """The outcome of the sample's tests on gloo."""

    def test_outcomes(self) -> None:
        """What is not declared is skipped with a reason of its own kind; what is declared may fail."""
        for case, name, expected in (
            (Sample, "test_declared", ("passed", "")),
            (Sample, "test_undeclared", ("skipped", STACKED)),
            (
                Sample,
                "test_required",
                ("skipped", "not declared by target gloo: reduction PREMUL_SUM of all_reduce"),
            ),
            (Sample, "test_failing", ("failed", "")),
            (
                OfAnother,
                "test_nothing",
                ("skipped", "not declared by target gloo: what only the backend nonesuch does"),
            ),
        ):
            with self.subTest(test=name):
                found = outcome(case, name)
                self.assertEqual(found, expected)
                self.assertEqual(declared.is_undeclared(found[1]), found[0] == "skipped")

    def test_other_skips_are_not_undeclared(self) -> None:
        """Neither an ordinary reason, nor one that quotes the phrase."""
        for reason in ("", "needs a GPU", f"see {declared.UNDECLARED}"):
            self.assertFalse(declared.is_undeclared(reason))


if __name__ == "__main__":
    unittest.main()
