"""Tests that an error in one reporter does not cost the others."""

from __future__ import annotations

import unittest

from harness.report.base import QuietReporter, RunInfo
from harness.report.summary import Summary
from harness.runner.reporters import Reporters


class Recording(QuietReporter):
    """Notes what it is told, and raises at the end if it was given an error."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.messages: list[str] = []
        self.finished = False

    def message(self, text: str) -> None:
        self.messages.append(text)

    def finish(self, summary: Summary) -> None:
        self.finished = True
        if self.error is not None:
            raise self.error


class BrokenReporterTest(unittest.TestCase):
    """Reporters that raise at the end."""

    def test_the_others_finish_and_are_told(self) -> None:
        table = (
            (PermissionError(13, "Permission denied", "junit.xml"), "junit.xml: Permission denied"),
            (OSError("no space"), "no space"),
            (
                ModuleNotFoundError("No module named 'jinja2'"),
                "ModuleNotFoundError: No module named 'jinja2'",
            ),
            (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError"),
        )
        for error, said in table:
            with self.subTest(error=type(error).__name__):
                console, broken, last = Recording(), Recording(error), Recording()
                reporters = Reporters([console, broken, last])
                reporters.start(RunInfo())
                reporters.finish(Summary(()))
                self.assertTrue(console.finished and last.finished)
                self.assertEqual(len(reporters.failures), 1)
                self.assertIn(said, console.messages[0])


if __name__ == "__main__":
    unittest.main()
