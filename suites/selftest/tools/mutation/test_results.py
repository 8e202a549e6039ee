"""Tests that results of mutants are kept line by line, and read again."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.errors import UsageError
from tools.mutation import results
from tools.mutation.results import Result, Verdict

CAUGHT = Result("torch/a.py:1.0-1.1:constant:0", Verdict.CAUGHT, ("m.C.t",), "AssertionError: 1 != 2")
SURVIVED = Result("torch/b.py:1.0-1.1:constant:0", Verdict.SURVIVED, ("m.C.t", "m.C.u"), left_out=3)


class ResultsTest(unittest.TestCase):
    """A directory's results."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def test_kept(self) -> None:
        self.assertEqual(results.read(self.path), {})
        for result in (CAUGHT, SURVIVED):
            results.append(self.path, result)
        self.assertEqual(results.read(self.path), {CAUGHT.mutant: CAUGHT, SURVIVED.mutant: SURVIVED})
        self.assertEqual(CAUGHT.file, "torch/a.py")

    def test_a_line_that_was_cut_off(self) -> None:
        """The last line of a run that was killed is left out, and its mutant tried again."""
        results.append(self.path, CAUGHT)
        with open(self.path / results.NAME, "a") as stream:
            stream.write('{"mutant": "torch/b')
        self.assertEqual(results.read(self.path), {CAUGHT.mutant: CAUGHT})

    def test_no_results(self) -> None:
        for line in ("words", "{}", "[]", '{"mutant": "a", "verdict": "eaten", "tests": [], "words": ""}'):
            (self.path / results.NAME).write_text(f"{line}\n")
            with self.subTest(line), self.assertRaisesRegex(UsageError, ":1 is no result of a mutant"):
                results.read(self.path)
