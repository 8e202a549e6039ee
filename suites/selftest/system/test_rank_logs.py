"""Tests what the log files of ranks are called, and which of them an earlier run's are."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path

from harness.system.rank_logs import log_file, remove_logs


class LogsTest(unittest.TestCase):
    """The files of a directory."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_name(self) -> None:
        """It has the test, the attempt and the rank, and its directory is made."""
        deep = os.path.join(self.directory, "deep", "er")
        for attempt, name in (("", "a.B.test_c.rank2.log"), (".attempt2", "a.B.test_c.attempt2.rank2.log")):
            path = log_file(deep, "a.B.test_c", 2, attempt)
            self.assertEqual(path, Path(deep, name))
        self.assertTrue(os.path.isdir(deep))

    def test_no_directory(self) -> None:
        """Without a directory there is no log file."""
        self.assertIsNone(log_file(None, "a", 0))
        self.assertIsNone(log_file("", "a", 0))

    def test_odd_names(self) -> None:
        """No test id leads out of the directory or makes a file name that is too long."""
        for test_id in ("../../etc/passwd", "a b/c\0d", "x" * 500):
            path = log_file(self.directory, test_id, 0, ".repeat999.attempt999")
            assert path is not None
            self.assertEqual(path.parent, Path(self.directory))
            self.assertLess(len(path.name), 255)
            path.touch()

    def test_removed(self) -> None:
        """The logs of ranks are removed, and nothing else that a user keeps there."""
        logs = ("a.B.test_c.rank2.log", "a.B.test_c.attempt2.rank10.log")
        others = ("notes.log", "my.rank2.log.txt", ".rank1.log", "rank1.log")
        for name in (*logs, *others):
            Path(self.directory, name).touch()
        remove_logs(Path(self.directory))
        self.assertEqual(sorted(os.listdir(self.directory)), sorted(others))
        remove_logs(Path(self.directory, "nothing"))


if __name__ == "__main__":
    unittest.main()
