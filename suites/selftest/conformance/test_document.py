"""Tests ``conformance.json``: that it says all of a report, and what is said of a file that is none."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from harness.conformance.document import NAME, SCHEMA, dumps, from_json, load, to_json
from harness.errors import UsageError
from suites.selftest.conformance.samples import everything, report


class DocumentTest(unittest.TestCase):
    """The document of a report."""

    def test_round_trip(self) -> None:
        """Nothing is lost, and the file has a cell a line."""
        for found in (everything(), report()):
            text = dumps(found)
            self.assertEqual(from_json(json.loads(text)), found)
            self.assertEqual(json.loads(text), json.loads(json.dumps(to_json(found))))
        lines = dumps(everything()).splitlines()
        self.assertEqual(sum('"state"' in line for line in lines), 18)

    def test_counts(self) -> None:
        """The document has the numbers of each suite, for those who read no cells."""
        value = to_json(everything())
        self.assertEqual(value["suites"]["spmd"], {"tests": {"right": 1}, "cells": {}})
        self.assertEqual(value["suites"]["c10d"]["cells"]["wrong"], 2)
        self.assertIn("c10d 1/5", value["summary"])

    def test_no_report(self) -> None:
        """What is no report of this schema is one line about the file."""
        good = to_json(everything())
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        root = Path(place.name)
        for text, said in (
            ("{", "cannot be read"),
            ("[]", "no conformance report"),
            ("{}", "no conformance report"),
            (json.dumps({**good, "kind": "run"}), "no conformance report"),
            (json.dumps({**good, "schema": SCHEMA + 1}), f"reads up to {SCHEMA}"),
            (json.dumps({**good, "cells": [{"suite": "c10d"}]}), "no conformance report"),
            (json.dumps({**good, "tests": [{**good["tests"][0], "state": "odd"}]}), "odd"),
        ):
            with self.subTest(text[:60]):
                (root / NAME).write_text(text)
                with self.assertRaises(UsageError) as caught:
                    load(root)
                self.assertIn(said, str(caught.exception))
                self.assertIn(str(root / NAME), str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))
        with self.assertRaisesRegex(UsageError, "is not there: run_tests.py --report conformance"):
            load(root / "nowhere")

    def test_load(self) -> None:
        """A report is found by its file and by its run's directory."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        file = Path(place.name, NAME)
        file.write_text(dumps(everything()), encoding="utf-8")
        for path in (file, file.parent):
            self.assertEqual(load(path), everything())


if __name__ == "__main__":
    unittest.main()
