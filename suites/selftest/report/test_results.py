"""Self-tests of harness.report.results: the lines of the file, and that nothing of a record is lost in it."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from harness.record import SCHEMA, from_json
from harness.report.results import ResultsReporter, results_text
from suites.selftest.report import runs


class ResultsTest(unittest.TestCase):
    """``ResultsReporter`` and the text that it writes."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "results.jsonl"

    def test_round_trip(self) -> None:
        """Every record is read back as it was written."""
        reporter = ResultsReporter(self.path)
        reporter.start(runs.info())
        reporter.finish(runs.summary())
        lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        read = [from_json(line) for line in lines if line["kind"] == "test"]
        self.assertEqual(read, runs.records())

    def test_first_and_last_line(self) -> None:
        """The first line describes the run, the last one its end, and all lines name the schema."""
        lines = [
            json.loads(x)
            for x in results_text(runs.info(shard=(1, 2), shuffle=5), runs.summary()).splitlines()
        ]
        first, last = lines[0], lines[-1]
        self.assertEqual([line["kind"] for line in lines], ["run", *["test"] * 12, "end"])
        self.assertEqual({line["schema"] for line in lines}, {SCHEMA})
        self.assertEqual((first["shard"], first["seed"], first["hostname"]), ([1, 2], 7, "builder"))
        self.assertEqual(first["shuffle"], 5)
        self.assertEqual((last["passed"], last["failed"], last["skipped"]), (4, 6, 1))
        self.assertEqual(last["flaky"], ["suites.c10d.test_stores.StoreTest.test_wait"])


if __name__ == "__main__":
    unittest.main()
