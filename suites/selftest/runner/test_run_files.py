"""Tests what is written of a run before its first test, and what the user hears where that fails."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.report.base import RunInfo
from harness.runner import journal
from harness.runner.run_files import make_directory, open_journal
from suites.selftest.runner import runs
from suites.selftest.runner.command_line.test_invocation import invocation
from suites.selftest.runner.runs import RunnerCase


class DirectoryTest(unittest.TestCase):
    """``make_directory`` and ``open_journal`` where files can be made, and where they cannot."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.file = self.directory / "file"
        self.file.touch()

    def test_named(self) -> None:
        """A directory that the user names is taken; one that cannot be made is the user's mistake."""
        named = self.directory / "out"
        self.assertEqual(make_directory(invocation("--report-dir", str(named))), (named, ()))
        with self.assertRaisesRegex(UsageError, "file/below"):
            make_directory(invocation("--report-dir", str(self.file / "below")))

    def test_state_directory(self) -> None:
        """A run without a name gets a directory of its own, or goes on without and says so."""
        state = self.directory / "state"
        made, messages = make_directory(invocation(HARNESS_STATE_DIR=str(state)))
        self.assertEqual((made.parent if made else None, messages), (state / "runs", ()))
        made, messages = make_directory(invocation(HARNESS_STATE_DIR=str(self.file / "below")))
        self.assertIsNone(made)
        self.assertRegex(messages[0], "no journal and no reports are written: .*file/below: Not a directory")

    def test_journal(self) -> None:
        """The journal has its first line, and the run is remembered as the last one."""
        run = invocation(HARNESS_STATE_DIR=str(self.directory / "state"))
        directory = self.directory / "out"
        directory.mkdir()
        opened, messages = open_journal(run, RunInfo(directory=directory, tests=("m.T.test",)))
        assert opened is not None
        opened.close()
        self.assertEqual(messages, ())
        self.assertEqual(journal.read(directory).info.tests, ("m.T.test",))
        self.assertEqual(run.state.latest(), directory)

    def test_no_journal(self) -> None:
        """Where the journal cannot be made, results are kept in memory and the user hears of it."""
        run = invocation(HARNESS_STATE_DIR=str(self.directory / "state"))
        self.assertEqual(open_journal(run, RunInfo()), (None, ()))
        opened, messages = open_journal(run, RunInfo(directory=self.file))
        self.assertIsNone(opened)
        self.assertRegex(messages[0], "no journal is written: .*file: Not a directory; results are kept")
        self.assertIsNone(run.state.latest())


class LogsTest(RunnerCase):
    """The logs of ranks in a run's directory."""

    def test_each_attempt_has_its_own(self) -> None:
        """A rerun keeps the logs of the attempt that failed; what another run has left there is removed."""
        self.write(
            "test_l",
            """
            from harness.cases.multiprocess import MultiProcessTestCase

            class Ranks(MultiProcessTestCase):
                world_size = 2
                def tearDown(self): super().tearDown(); open("again", "w").close()
                def test_once(self):
                    again = os.path.exists("again")
                    print("passes" if again else "fails")
                    self.assertTrue(again)
            """,
        )
        logs = self.directory / "out" / "logs"
        logs.mkdir(parents=True)
        for name in ("test_l.Ranks.test_gone.rank0.log", "notes.log"):
            (logs / name).touch()
        done = self.run_tests("test_l", "--reruns", "1", "--report-dir", "out")
        self.assertEqual(done.code, 0, done.out)
        texts = {path.name: path.read_text() for path in logs.iterdir()}
        expected = {
            f"test_l.Ranks.test_once{attempt}.rank{rank}.log": f"{said}\n"
            for attempt, said in (("", "fails"), (".attempt2", "passes"))
            for rank in (0, 1)
        }
        self.assertEqual(texts, {**expected, "notes.log": ""})
        first = done.records[0].ranks[0].log
        self.assertIn("fails", Path(first or "").read_text())


if __name__ == "__main__":
    unittest.main()
