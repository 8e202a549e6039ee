"""Tests which tests a change can affect, by a map, as a table."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.impact.changes import Change
from harness.impact.decision import decide
from harness.impact.known_tests import KnownTests

SUMS, MODEL, FSDP = "app/sums.py", "app/model.py", "torch/distributed/fsdp/api.py"
RANK = "harness/ranks/rank.py"
KNOWN = KnownTests(
    "2.13",
    {
        "t.A.add": frozenset({SUMS, FSDP}),
        "t.A.mul": frozenset({SUMS, RANK}),
        "u.B.fit": frozenset({MODEL}),
    },
)
TESTS = (*KNOWN.tests, "u.B.new")
IMPORTING = {SUMS: ("t.A.add", "t.A.mul"), MODEL: ("u.B.fit", "u.B.new"), "app/plain.py": ("t.A.add",)}


class DecideTest(unittest.TestCase):
    """``decide``, on a map of three tests."""

    def decide(self, *changes: Change, changed: tuple[str, ...] = ()) -> tuple[str, str]:
        """The names of the tests to run, "all", and the words."""
        known = replace(KNOWN, changed={file: frozenset(KNOWN.executing(file)) for file in changed})
        decision = decide(changes, known, "2.13", TESTS, lambda file: IMPORTING.get(file, ()))
        tests = "all" if decision.tests is None else " ".join(sorted(decision.tests))
        return tests, decision.words

    def test_known(self) -> None:
        """Those that executed a function of the file, or import it where it changed elsewhere; new ones."""
        for changes, tests in (
            ((), "u.B.new"),
            ((Change(SUMS, inside=True),), "t.A.add t.A.mul u.B.new"),
            ((Change(FSDP, inside=True),), "t.A.add u.B.new"),
            ((Change(MODEL, inside=True),), "u.B.fit u.B.new"),
            ((Change(SUMS),), "t.A.add t.A.mul u.B.new"),
            ((Change("app/plain.py"),), "t.A.add u.B.new"),
            ((Change("app/plain.py", inside=True),), "t.A.add u.B.new"),
            ((Change(FSDP, inside=True), Change(MODEL)), "t.A.add u.B.fit u.B.new"),
        ):
            with self.subTest(changes=changes):
                self.assertEqual(self.decide(*changes)[0], tests)

    def test_unknown(self) -> None:
        """What the map cannot tell has all tests run, and says what that is."""
        for change, words in (
            (Change("csrc/a.cpp"), "csrc/a.cpp"),
            (Change("pyproject.toml"), "pyproject.toml"),
            (Change("tests/conftest.py", inside=True), "may change every test"),
            (Change(SUMS, gone=True), "no more"),
            (Change(FSDP), "outside of functions"),
            (Change("torch/onnx/ops.py", inside=True), "no test in the map executes torch/onnx/ops.py"),
            (
                Change("app/new.py"),
                "no test in the map executes app/new.py, and none imports it by its source",
            ),
        ):
            with self.subTest(change=change):
                tests, said = self.decide(Change(SUMS, inside=True), change)
                self.assertEqual(tests, "all")
                self.assertIn("all tests run: ", said)
                self.assertIn(words, said)

    def test_changed_since(self) -> None:
        """Tests run, too, that executed a file which has changed since the map was recorded."""
        tests, words = self.decide(Change(FSDP, inside=True), changed=(MODEL, FSDP))
        self.assertEqual(tests, "t.A.add u.B.fit u.B.new")
        self.assertIn("; 1 file changed since the map was recorded: counted as changed", words)

    def test_changed_harness(self) -> None:
        """A file of the harness that has changed since counts where one is asked for, and then alone."""
        for file, tests in ((FSDP, "t.A.add u.B.new"), ("harness/cases/base.py", "all")):
            self.assertEqual(self.decide(Change(file, inside=True), changed=(RANK,))[0], tests)
        mixed = self.decide(Change(FSDP, inside=True), Change(RANK, inside=True), changed=(RANK, MODEL))
        self.assertEqual(mixed[0], "t.A.add t.A.mul u.B.fit u.B.new")

    def test_words(self) -> None:
        """They say how many tests of how many, and how many for want of a record."""
        said = "2 of 4 tests can be affected by app/model.py, 1 of them not in the map yet"
        self.assertEqual(self.decide(Change(MODEL, inside=True))[1], said)
        self.assertIn("by 0 changed files", self.decide()[1])

    def test_no_map(self) -> None:
        """Without a map of these tests, or with one of another release of torch, all tests run."""
        for known, words in (
            (KnownTests("2.13"), "no map of them yet"),
            (replace(KNOWN, tests={"suites.c10d.a": frozenset({FSDP})}), "no map of them yet"),
            (KnownTests("2.12"), "of torch 2.12, here is 2.13"),
        ):
            decision = decide((), known, "2.13", TESTS, lambda file: ())
            self.assertIsNone(decision.tests)
            self.assertIn(words, decision.words)


if __name__ == "__main__":
    unittest.main()
