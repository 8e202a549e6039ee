"""Tests what whole tests say that they try, and where that is in reports."""

from __future__ import annotations

import unittest
from typing import Any

from harness.conformance.differences import differences, text
from harness.conformance.document import from_json as document_from_json
from harness.conformance.document import to_json as document_to_json
from harness.conformance.grids import grids
from harness.conformance.matrix import State, matrix
from harness.conformance.page import html_text, markdown_text
from harness.conformance_features import Feature, feature_of, from_json, of_class, of_method, to_json, words
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.scheduling import unit
from suites.selftest.conformance.samples import report
from suites.selftest.conformance.test_grids import texts


class Base(unittest.TestCase):
    """Says what its tests try."""

    def conformance_feature(self) -> Feature:
        """By the class."""
        return of_class(self, "DDP features", world_size="2")


class WordsTest(unittest.TestCase):
    """What ``words`` makes of names."""

    def test_table(self) -> None:
        """What a class or method is about, without what says that it is a test, and its world size."""
        for name, said in (
            ("DdpNoSyncTest", "ddp no sync"),
            ("Fsdp1TrainingWorldSize4Test", "fsdp1 training"),
            ("TestAOTExport", "AOT export"),
            ("PowerSGDStateTest", "power SGD state"),
            ("TestPythonKeyCPU", "python key CPU"),
            ("test_hf_bert_fsdp", "hf bert fsdp"),
            ("TrainingBodies", "training"),
            ("Test", "Test"),
        ):
            with self.subTest(name):
                self.assertEqual(words(name), said)


class FeatureTest(unittest.TestCase):
    """What ``feature_of`` asks a test."""

    def test_class_that_the_test_is_written_in(self) -> None:
        """A test that a class has from another is about what that one is about."""

        class NoSyncTest(Base):
            def test_one(self) -> None:
                pass

        class JoinTest(NoSyncTest):
            def test_two(self) -> None:
                pass

        two = (("world_size", "2"),)
        self.assertEqual(feature_of(JoinTest("test_one")), Feature("DDP features", "no sync", two))
        self.assertEqual(feature_of(JoinTest("test_two")), Feature("DDP features", "join", two))
        self.assertEqual(of_method(JoinTest("test_two"), "S"), Feature("S", "two"))
        self.assertIsNone(feature_of(self))

    def test_lossless(self) -> None:
        """A record and a unit keep it."""
        feature = Feature("compiler features", "views", (("front_end", "dynamo"),))
        self.assertEqual(from_json(to_json(feature)), feature)
        made = unit.of_id("m.T.test_a", "m", feature=feature)
        self.assertEqual(unit.from_json(unit.to_json(made)), made)


class ReportTest(unittest.TestCase):
    """The section of a suite."""

    def record(self, test: str, status: Status, row: str, front_end: str, reason: str = "") -> TestRecord:
        """The record of a test that tries something."""
        extra: dict[str, Any] = {"feature": ["compiler features", row, [["front_end", front_end]]]}
        return TestRecord(id=f"suites.aot.test_x.T.test_{test}", status=status, reason=reason, extra=extra)

    def test_section(self) -> None:
        """Rows are features and columns their coordinates; a cell is as its test is, skips among them."""
        records = [
            self.record("a", Status.PASSED, "views", "AOTAutograd"),
            self.record("b", Status.PASSED, "views", "AOTAutograd"),
            self.record("c", Status.FAILED, "views", "dynamo", "1 is not 2"),
            self.record("d", Status.CRASHED, "hooks", "dynamo", "signal SIGSEGV"),
            self.record("e", Status.SKIPPED, "hooks", "AOTAutograd", "not declared by target mine: inductor"),
            TestRecord(id="suites.aot.test_x.T.test_f", status=Status.PASSED),
        ]
        found = matrix(records, (), lambda test: ())
        (table,) = grids(found)
        self.assertEqual(table.title, "aot: compiler features x front end")
        self.assertEqual(table.columns, ("AOTAutograd", "dynamo"))
        self.assertEqual(texts(table), {"hooks": ["-", "‼ 0/1 crashed"], "views": ["✓ 2", "✗ 0/1 wrong"]})
        document = report(*found.cells, tests=found.tests)
        for shown in (markdown_text(document, [table]), html_text(document, [table])):
            self.assertIn("compiler features x front end", shown)
        self.assertEqual(document_from_json(document_to_json(document)).matrix.cells, found.cells)

    def test_differences(self) -> None:
        """What a new build has lost is told by its feature."""
        old, new = (
            report(*matrix([self.record("a", status, "views", "dynamo")], (), lambda test: ()).cells)
            for status in (Status.PASSED, Status.FAILED)
        )
        self.assertEqual(old.matrix.cells[0].state, State.RIGHT)
        self.assertIn(
            "views (section=compiler features, front_end=dynamo", text(differences(old, new), old, new)
        )


if __name__ == "__main__":
    unittest.main()
