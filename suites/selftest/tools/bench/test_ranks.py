"""Tests the program ``ranks.py`` as a whole, with small settings: the form of its output, not its times."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from suites.selftest.forked_case import ForkedCase
from tools.bench import ranks

TREE = Path(__file__).resolve().parents[4]


class WholeRun(ForkedCase):
    """A real run with the bare program and the fork server."""

    def test_measures_prints_and_writes(self) -> None:
        """Every cell has a value, both in the tables and in the JSON file."""
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "bench.json")
            arguments = [
                "--sizes",
                "2",
                "--rounds",
                "1",
                "--contenders",
                "bare,forkserver",
                "--json",
                str(file),
            ]
            done = subprocess.run(
                [sys.executable, TREE / "tools" / "bench" / "ranks.py", *arguments],
                cwd=directory,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self._check_tables(done.stdout)
            self._check_file(json.loads(file.read_text()))

    def _check_tables(self, text: str) -> None:
        self.assertRegex(text, r"measured +bare program +fork server +of bare")
        self.assertRegex(text, r"\none test, 2 ranks +[\d.]+ m?s +[\d.]+ m?s +[\d.]+ x")
        self.assertRegex(text, r"\nmemory per added rank +-?[\d.]+ MB +-?[\d.]+ MB")
        self.assertRegex(text, r"\n(reached|MISSED )  2 ranks at most 1.5 x bare: ")

    def _check_file(self, data: dict[str, list[dict[str, Any]]]) -> None:
        there = {(c["kind"], c["world_size"], c["contender"]) for c in data["cells"]}
        both = {
            (kind, n, who)
            for kind, n in [("test", 2), ("memory", 2), ("memory", 8)]
            for who in ("bare", "forkserver")
        }
        self.assertEqual(there, both | {("death-seen", 4, "forkserver"), ("death-unseen", 4, "forkserver")})
        for cell in data["cells"]:
            self.assertEqual(([type(v) for v in cell["values"]], cell["errors"]), ([float], []), cell)


class Arguments(unittest.TestCase):
    """Wrong arguments end the program with one line and exit code 2."""

    def _refused(self, *arguments: str) -> str:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
            ranks.main(arguments)
        self.assertEqual(ended.exception.code, 2)
        return errors.getvalue().splitlines()[-1]

    def test_sizes(self) -> None:
        """World sizes are whole numbers above 0."""
        self.assertIn("'0': write a whole number above 0", self._refused("--sizes", "2,0"))
        self.assertIn("'x': write a whole number above 0", self._refused("--rounds", "x"))

    def test_names(self) -> None:
        """An unknown name is refused with a list of the known ones."""
        self.assertIn("choose from bare, forkserver, spawn, upstream", self._refused("--contenders", "ours"))
        self.assertIn("choose from test, memory", self._refused("--kinds", "speed"))
