"""Tests a worker's batch in this process: which tests run, and what is torn down around them."""

from __future__ import annotations

import json
import unittest
from unittest import mock

from harness.record import TestRecord, from_json
from harness.runner.messages import Ended, Fork, Item, Message
from harness.runner.scheduling.plan import Attempt
from harness.runner.worker_process.worker import BatchRunner, WorkerChannel
from harness.system import originals
from suites.selftest.faults import patches


class Told(WorkerChannel):
    """Keeps the records that a worker sends to the controller."""

    def __init__(self) -> None:
        self.records: list[TestRecord] = []

    def send(self, message: Message) -> None:
        """Keeps the record of a test that is over."""
        if isinstance(message, Ended):
            self.records.append(from_json(message.record))

    def mark(self, seq: int) -> None:
        """Does nothing, because no output is captured."""


class StopTest(unittest.TestCase):
    """A batch that stops at a failure."""

    def setUp(self) -> None:
        """Makes two classes of one module that note what is called."""
        self.notes: list[str] = []
        self.bad: set[str] = set()
        cases = self.make("A"), self.make("B")
        self.tests = [case(method) for case in cases for method in ("test_1", "test_2")]

    def make(self, name: str) -> type[unittest.TestCase]:
        """Returns a class that notes what is called."""

        class Noting(unittest.TestCase):
            __qualname__ = name

            @classmethod
            def tearDownClass(cls) -> None:
                self.say(name)

            def test_1(self_) -> None:
                self.say(f"{name}1")

            def test_2(self_) -> None:
                self.say(f"{name}2")

        return Noting

    def say(self, note: str) -> None:
        """Notes a call, and fails if it is a bad one."""
        self.notes.append(note)
        self.assertNotIn(note, self.bad)

    def run_batch(self, *, stop_at_failure: bool) -> list[str]:
        """Returns the statuses of the tests that have run."""
        tests = {test.id(): test for test in self.tests}
        items = [Item(seq, __name__, Attempt(test_id)) for seq, test_id in enumerate(tests, 1)]
        told = Told()
        BatchRunner(Fork("w", items, "", stop_at_failure=stop_at_failure), tests, told).run()
        return [record.status.value for record in told.records]

    def test_table(self) -> None:
        """What was set up is torn down once, and an error in it counts for the last test."""
        everything = ["A1", "A2", "A", "B1", "B2", "B"]
        table: tuple[tuple[set[str], list[str], list[str]], ...] = (
            (set(), everything, ["passed"] * 4),
            ({"A1"}, ["A1", "A"], ["failed"]),
            ({"A1", "A"}, ["A1", "A"], ["error"]),
            ({"A"}, ["A1", "A2", "A"], ["passed", "error"]),
            ({"B2"}, everything, ["passed"] * 3 + ["failed"]),
        )
        for bad, notes, statuses in table:
            with self.subTest(bad=bad):
                self.notes, self.bad = [], bad
                self.assertEqual(self.run_batch(stop_at_failure=True), statuses)
                self.assertEqual(self.notes, notes)

    def test_goes_on(self) -> None:
        """A batch that was not told to stop goes on after a failure."""
        self.bad = {"A1", "A"}
        statuses = self.run_batch(stop_at_failure=False)
        self.assertEqual(statuses, ["failed", "error", "passed", "passed"])
        self.assertEqual(self.notes, ["A1", "A2", "A", "B1", "B2", "B"])


class PatchesTest(unittest.TestCase):
    """What tests leave replaced in a worker."""

    def test_reports(self) -> None:
        """Every test is reported, and what one leaves replaced is so for the next one, as in unittest."""
        self.addCleanup(originals.restore)
        cases = patching_case()
        tests = {name: cases(name) for name in ("test_fails", "test_passes")}
        items = [Item(seq, __name__, Attempt(test_id)) for seq, test_id in enumerate(tests, 1)]
        told = Told()
        BatchRunner(Fork("w", items, ""), tests, told).run()
        self.assertEqual([r.status.value for r in told.records], ["failed", "passed"], told.records)
        self.assertIn("AssertionError: the test's own", told.records[0].details)
        self.assertEqual(originals.patched(), ())


def patching_case() -> type[unittest.TestCase]:
    """Returns a class whose first test leaves functions and builtins replaced, which the second one needs."""

    class Patching(unittest.TestCase):
        def test_fails(self) -> None:
            for name in (*patches.OF_SET_UP, "builtins.sorted", "builtins.map"):
                mock.patch(name, patches.refuse).start()
            raise AssertionError("the test's own")

        def test_passes(self) -> None:
            with self.assertRaises(patches.Refused):
                json.dumps([])

    return Patching


if __name__ == "__main__":
    unittest.main()
