"""Tests which files are found, and that one is replaced in one step."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.errors import UsageError
from harness.migrate.files import python_files, replace_file


class FilesTest(unittest.TestCase):
    """In a temporary directory."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)

    def test_found(self) -> None:
        for name in ("b.py", "a/c.py", "a/d.txt", ".git/e.py", "__pycache__/f.py"):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).touch()
        found = [
            str(p.relative_to(self.root)) for p in python_files([str(self.root), str(self.root / "b.py")])
        ]
        self.assertEqual(found, ["b.py", "a/c.py"])
        with self.assertRaisesRegex(UsageError, "does not exist"):
            list(python_files([str(self.root / "nothing")]))

    def test_replaced(self) -> None:
        """Mode and link stay; where it fails the old content does, and nothing is left beside it."""
        file, link = self.root / "f.py", self.root / "l.py"
        file.write_bytes(b"old")
        file.chmod(0o750)
        link.symlink_to(file)
        replace_file(link, b"new")
        self.assertTrue(link.is_symlink())
        self.assertEqual((file.read_bytes(), file.stat().st_mode & 0o777), (b"new", 0o750))
        with mock.patch.object(os, "replace", side_effect=OSError), self.assertRaises(OSError):
            replace_file(file, b"newer")
        self.assertEqual((file.read_bytes(), len(os.listdir(self.root))), (b"new", 2))


if __name__ == "__main__":
    unittest.main()
