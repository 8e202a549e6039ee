"""Tests the journal of a hunt: records come back as they were written, and a line that was cut is no harm."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.fuzzing.signature import Failure, Kind, Signature
from tools.hunting import journal
from tools.hunting.journal import Batch, Find

FIND = Find(Signature("aot", Failure(Kind.WRONG, "values"), "a"), 3, 1, True, "assert 0", None, {"2.13": "x"})
BATCH = Batch("aot", 3, ran=5, rejected=1, failed=1, seconds=2.5)


class JournalTest(unittest.TestCase):
    def test_records_come_back(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            self.assertEqual(journal.read(Path(name)), [])
            for record in (FIND, BATCH, FIND):
                journal.append(Path(name), record)
            self.assertEqual(journal.read(Path(name)), [FIND, BATCH, FIND])
            with open(Path(name, journal.NAME), "a") as file:
                file.write('{"record": "Fin')
            self.assertEqual(journal.read(Path(name)), [FIND, BATCH, FIND])

    def test_confirmed(self) -> None:
        self.assertTrue(FIND.confirmed)
        self.assertFalse(Find(FIND.signature, 3, 1, True, "", None, {"2.13": "", "2.12": ""}).confirmed)

    def test_race(self) -> None:
        """What passes under some delays and fails under others is confirmed by that."""
        for ends, is_race in (
            ({}, False),
            ({"a": ""}, False),
            ({"a": "x"}, False),
            ({"a": "", "b": "x"}, True),
        ):
            with self.subTest(ends):
                find = Find(FIND.signature, 3, 1, True, "", None, {"2.13": ""}, ends)
                self.assertEqual((find.is_race, find.confirmed), (is_race, is_race))


if __name__ == "__main__":
    unittest.main()
