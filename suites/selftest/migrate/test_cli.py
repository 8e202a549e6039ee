"""Tests ``torch-harness migrate``: exit codes, output, and that the rest is done where a file fails."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.migrate.cli import main

GOOD = "from torch.testing._internal.common_utils import TestCase\n"
LEFT = "from torch.testing._internal.common_utils import gradcheck\n"


class CommandTest(unittest.TestCase):
    """In a temporary directory."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)

    def migrate(self, *words: str) -> tuple[int, str, str]:
        """Runs the command; returns its exit code, output and messages."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                code = main([*words, str(self.root)], "torch-harness migrate")
            except SystemExit as ending:
                code = int(ending.code or 0)
        return code, out.getvalue(), err.getvalue()

    def test_done(self) -> None:
        """A dry run prints a diff and changes nothing; the run itself changes the file once."""
        file = self.root / "a.py"
        file.write_text(GOOD)
        code, out, _ = self.migrate("--dry-run")
        self.assertEqual((code, file.read_text()), (0, GOOD))
        self.assertIn("+from harness import TestCase\n", out)
        self.assertEqual(self.migrate()[0], 0)
        self.assertEqual(file.read_text(), "from harness import TestCase\n")
        self.assertIn("changed 0 of 1 files", self.migrate()[2])

    def test_left_and_failed(self) -> None:
        """What is left is listed; a file that is no Python does not keep the others from being done."""
        (self.root / "a.py").write_text(LEFT + GOOD)
        code, _, err = self.migrate()
        self.assertEqual(code, 1)
        self.assertIn("a.py:1: left common_utils.gradcheck: torch.autograd", err)
        (self.root / "b.py").write_text("torch.testing(\n")
        (self.root / "c.py").write_text(GOOD)
        code, _, err = self.migrate()
        self.assertEqual((code, (self.root / "c.py").read_text()), (2, "from harness import TestCase\n"))
        self.assertRegex(err, r"b\.py: error: line \d is no Python")

    def test_usage(self) -> None:
        self.assertEqual(self.migrate("/nowhere/at/all")[0], 2)
        self.assertEqual(self.migrate("--wrong")[0], 2)
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            code, _, err = self.migrate()
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertIn("pip install", err)


if __name__ == "__main__":
    unittest.main()
