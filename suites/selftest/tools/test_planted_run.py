"""Tests that a planted run has its environment, leaves the user's state alone, and is ended in time."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.runner import journal
from tools import planted_run

TESTS = "suites.selftest.tools.planted.sums.SingleTest"


class RunTest(unittest.TestCase):
    """``run``, of the small suite of ``planted``."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def run_one(
        self, test: str, environ: dict[str, str] | None = None, seconds: float | None = None
    ) -> planted_run.Done:
        return planted_run.run(
            [f"{TESTS}.{test}"], self.path / "run", self.path / "state", environ or {}, seconds=seconds
        )

    def test_environment_and_state(self) -> None:
        with mock.patch.dict(os.environ, {"HARNESS_STATE_DIR": str(self.path / "users")}):
            self.assertEqual(self.run_one("test_other_matter").code, 0)
            self.assertEqual(self.run_one("test_other_matter", {"PLANTED_TO_FAIL": "1"}).code, 1)
        self.assertFalse((self.path / "users").exists())
        self.assertEqual([record.ok for record in journal.read(self.path / "run").records], [False])

    def test_words(self) -> None:
        done = self.run_one("test_nowhere")
        self.assertEqual(done.code, 2)
        self.assertIn("test_nowhere", done.words)

    def test_too_long(self) -> None:
        """A run that does not end is ended, with its workers."""
        mutant = {"SUITES_MUTANT": "selftest.tools.planted:never_done", "SUITES_MARKS": str(self.path)}
        done = self.run_one("test_waits_until_done", mutant, seconds=1.0)
        self.assertEqual(done, planted_run.Done(None, "not at its end after 1 s"))
