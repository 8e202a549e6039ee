"""Self-tests of harness.report.files: a file is written whole, or stays as it was."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.report.files import write_whole


class WriteWholeTest(unittest.TestCase):
    """``write_whole``: the atomic replacement of a file."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "new" / "report.xml"

    def test_makes_the_directory_and_replaces(self) -> None:
        for text in ("first", "second ü \ud800"):
            write_whole(self.path, text)
        self.assertEqual(self.path.read_text(encoding="utf-8"), "second ü \\ud800")
        self.assertEqual([p.name for p in self.path.parent.iterdir()], ["report.xml"])

    def test_failure_leaves_the_old_file_and_nothing_else(self) -> None:
        write_whole(self.path, "old")
        with mock.patch("os.replace", side_effect=OSError(28, "No space left on device")):
            self.assertRaises(OSError, write_whole, self.path, "new")
        self.assertEqual(self.path.read_text(), "old")
        self.assertEqual(len(list(self.path.parent.iterdir())), 1)

    def test_directory_that_cannot_be_made(self) -> None:
        write_whole(self.path, "a file")
        with self.assertRaises(OSError):
            write_whole(self.path / "below" / "x", "text")


if __name__ == "__main__":
    unittest.main()
