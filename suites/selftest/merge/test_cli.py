"""Tests ``torch-harness merge``: exit codes and messages."""

from __future__ import annotations

import contextlib
import io
import os
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from harness.merge.cli import main
from harness.merge.parts import Part
from harness.outcomes import Status
from harness.runner import journal
from harness.settings import EnvVar
from suites.selftest.merge.samples import halves, part, record
from suites.selftest.runner import runs


class CommandTest(unittest.TestCase):
    """On journals in a temporary directory."""

    def setUp(self) -> None:
        self.root = runs.new_directory(self)
        state = mock.patch.dict(os.environ, {EnvVar.STATE_DIR: str(self.root / "state")})
        state.start()
        self.addCleanup(state.stop)

    def leave(self, name: str, run: Part) -> str:
        """Writes the journal of a run into a directory of that name, and returns the directory's path."""
        directory = self.root / name
        directory.mkdir()
        with journal.create(directory) as made:
            made.begin(run.info)
            for each in run.run.records:
                made.add(each)
            if run.run.ended is not None:
                made.end(run.run.ended, 200.0, run.run.messages)
        return str(directory)

    def merge(self, *runs_: Part, into: str = "whole") -> tuple[int, str, str]:
        """Runs the command on these; returns its exit code, output and messages."""
        names = [self.leave(f"{into}-{number}", each) for number, each in enumerate(runs_)]
        return self.command(*names, "--report-dir", str(self.root / into))

    def command(self, *words: str) -> tuple[int, str, str]:
        """Runs the command with these words."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                code = main(words, "torch-harness merge")
            except SystemExit as ending:
                code = int(ending.code or 0)
        return code, out.getvalue(), err.getvalue()

    def test_exit_codes(self) -> None:
        """Failed before absent, as for a run; flaky by what the runs were told; nothing at all is 5."""
        one, two = halves()
        again = part((1, 2), "13", [record("1", started_at=201.0)], started_at=200.0)
        strict: dict[str, Any] = {"options": {"flaky": "fail"}}
        flaky = (*halves("1", **strict), part((1, 2), "13", again.run.records, started_at=200.0, **strict))
        nothing = part(None, "", [], selection=())
        for name, given, code in (
            ("all", (one, two), 0),
            ("failed", halves("2"), 1),
            ("absent", (two,), 3),
            ("failed and absent", (halves("2")[1],), 1),
            ("a test absent", (part((1, 2), "13", [record("1")]), two), 3),
            ("flaky", (*halves("1"), again), 0),
            ("flaky counts", flaky, 1),
            ("nothing", (nothing,), 5),
            ("two runs", (one, part((1, 3), "2", [record("2")])), 2),
            ("skipped", (part(None, "1", [record("1", Status.SKIPPED)], selection=()),), 0),
        ):
            with self.subTest(name):
                found, out, err = self.merge(*given, into=name.replace(" ", "-"))
                self.assertEqual(found, code, out + err)

    def test_absent_is_named(self) -> None:
        """The shard and its tests are named, and the counts are the last line."""
        _, out, err = self.merge(halves()[1])
        self.assertIn(
            "absent: 2 tests of shard 1/2, of which there is no directory: m.T.test_1, m.T.test_3\n", out
        )
        self.assertTrue(out.endswith("2 passed, 0 failed, 0 skipped\n"), out)
        self.assertEqual(err, "")

    def test_wrong_directories(self) -> None:
        """One line names what is wrong, and nothing is written."""
        one = self.leave("one", halves()[0])
        out = str(self.root / "out")
        for words, said in (
            ((str(self.root / "none"), "--report-dir", out), "none holds no run"),
            ((one, "--report-dir", one), "is one of the runs"),
            (
                (one, self.leave("three", part((1, 3), "2", [])), "--report-dir", out),
                "shard 1/2, and shard 1/3",
            ),
            ((one, "--report-dir", "/dev/null/x"), "cannot be written"),
        ):
            with self.subTest(words):
                code, printed, err = self.command(*words)
                self.assertEqual((code, printed), (2, ""))
                self.assertRegex(err, f"^torch-harness merge: error: .*{said}.*\n$")
        self.assertFalse(Path(out).exists())
        self.assertEqual(self.command(one)[0], 2)

    def test_run_that_went_on(self) -> None:
        """The whole run is the last run, for ``--last-failed`` and ``--resume``."""
        self.merge(*halves("2"))
        latest = Path((self.root / "state" / "latest").read_text().strip())
        self.assertEqual(latest, self.root / "whole")
        info = journal.read(latest).info
        self.assertEqual((len(info.tests), info.shard), (4, None))


if __name__ == "__main__":
    unittest.main()
