"""Self-tests of harness.report.results: what is written can be read again, and what cannot is named."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from harness.errors import ProtocolError
from harness.record import SCHEMA, dumps
from harness.report.results import ResultsReporter, read_results, results_text
from suites.selftest.report import runs
from suites.selftest.report.runs import NASTY


class ResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "results.jsonl"

    def test_round_trip(self) -> None:
        reporter = ResultsReporter(self.path)
        reporter.start(runs.info())
        reporter.finish(runs.summary())
        read = list(read_results(self.path))
        self.assertEqual(read[:-1], runs.records()[:-1])
        self.assertEqual(read[-1].details, NASTY.replace("\ud800", "?"))

    def test_first_and_last_line(self) -> None:
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

    def test_line_that_a_kill_cut_short(self) -> None:
        whole = [dumps(r) for r in runs.records()[:2]]
        self.path.write_text("\n".join([*whole, whole[0][:50]]), encoding="utf-8")
        self.assertEqual(list(read_results(self.path)), runs.records()[:2])

    def test_unknown_kinds_and_fields_are_passed_over(self) -> None:
        value = {**json.loads(dumps(runs.records()[0])), "new_field": 1}
        lines = [json.dumps({"schema": SCHEMA, "kind": "weather"}), json.dumps(value)]
        self.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.assertEqual(list(read_results(self.path)), runs.records()[:1])

    def test_what_is_wrong_is_named_with_its_line(self) -> None:
        table = {
            "not JSON": "{nonsense}\n",
            "not an object": "[1]\n",
            "schema": json.dumps({"schema": SCHEMA + 1, "kind": "test"}) + "\n",
            "not a test record": json.dumps({"schema": SCHEMA, "kind": "test", "id": "a"}) + "\n",
        }
        for said, line in table.items():
            with self.subTest(said):
                self.path.write_text(f"{dumps(runs.records()[0])}\n{line}", encoding="utf-8")
                with self.assertRaisesRegex(ProtocolError, f"jsonl:2: .*{said}"):
                    list(read_results(self.path))


if __name__ == "__main__":
    unittest.main()
