"""Tests where runs keep their files: the state directory, a directory for each run, and the latest run."""

from __future__ import annotations

import os
import unittest

from harness.errors import UsageError
from harness.runner import journal, run_directory
from harness.settings import EnvVar
from suites.selftest.runner import runs

DAY_S = 24 * 3600.0


class PlaceTest(unittest.TestCase):
    """``state``, which says where the state directory is."""

    def test_table(self) -> None:
        """The variable decides, relative to the working directory; unset or empty means ``.harness``."""
        cwd = runs.new_directory(self)
        table: tuple[tuple[dict[str, str], str], ...] = (
            ({}, f"{cwd}/.harness"),
            ({EnvVar.STATE_DIR: ""}, f"{cwd}/.harness"),
            ({EnvVar.STATE_DIR: "below/here"}, f"{cwd}/below/here"),
            ({EnvVar.STATE_DIR: "/elsewhere"}, "/elsewhere"),
        )
        for environ, wanted in table:
            with self.subTest(environ):
                state = run_directory.state(environ, cwd)
                self.assertEqual(str(state.path), wanted)
                self.assertEqual(state.cache, state.path / "cache")
        self.assertEqual(list(cwd.iterdir()), [], "asking made something")


class RunsTest(unittest.TestCase):
    """``StateDirectory``: the directories of runs."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.state = run_directory.state({}, self.directory)

    def test_new_run(self) -> None:
        """A run's directory is named by date and process, and git ignores the state directory."""
        directory = self.state.new_run(0.0)
        self.assertEqual(directory.parent, self.state.path / "runs")
        self.assertRegex(directory.name, rf"^19(70|69)-\d\d-\d\dT\d\d-\d\d-\d\d-{os.getpid()}$")
        self.assertEqual((self.state.path / ".gitignore").read_text(), "*\n")
        self.assertEqual(self.state.new_run(0.0).name, f"{directory.name}-2")
        self.assertEqual(self.state.new_run(0.0).name, f"{directory.name}-3")

    def test_latest(self) -> None:
        """The latest run is known once it is remembered, and forgotten with its directory."""
        self.assertIsNone(self.state.latest())
        for now in (0.0, DAY_S):
            directory = self.state.new_run(now)
            self.state.remember(directory)
            self.assertEqual(self.state.latest(), directory)
        directory.rmdir()
        self.assertIsNone(self.state.latest())

    def test_latest_is_no_run_of_the_state_directory(self) -> None:
        """A run with a directory of the user's is the latest one also if nothing else is kept."""
        self.state.remember(self.directory)
        self.assertEqual(self.state.latest(), self.directory)

    def test_state_directory_that_cannot_be_made(self) -> None:
        """Without a state directory no run can be made, and remembering one does nothing."""
        (self.directory / "file").touch()
        state = run_directory.StateDirectory(self.directory / "file" / "below")
        with self.assertRaises(OSError):
            state.new_run(0.0)
        state.remember(self.directory)
        self.assertIsNone(state.latest())

    def test_old_runs_go(self) -> None:
        """Only the newest runs are kept."""
        made = [self.state.new_run(i * DAY_S) for i in range(run_directory.KEPT_RUNS + 3)]
        self.assertEqual([d for d in made if d.exists()], made[3:])

    def test_a_run_that_is_still_going_stays(self) -> None:
        """A run that is still going is kept until it is over."""
        first = self.state.new_run(0.0)
        with journal.create(first):
            for i in range(1, run_directory.KEPT_RUNS + 3):
                self.state.new_run(i * DAY_S)
            self.assertTrue(first.exists())
        self.state.new_run(100 * DAY_S)
        self.assertFalse(first.exists())


class WritableTest(unittest.TestCase):
    """``check_writable``, which looks at --report-dir before the first test."""

    def test_makes_the_directory(self) -> None:
        """The directory is made with its parents, and nothing is left in it."""
        directory = runs.new_directory(self) / "a" / "b"
        run_directory.check_writable(directory)
        run_directory.check_writable(directory)
        self.assertEqual(list(directory.iterdir()), [])

    def test_refused(self) -> None:
        """A directory that cannot be made is refused in one line that names the option, path and reason."""
        file = runs.new_directory(self) / "file"
        file.touch()
        with self.assertRaises(UsageError) as caught:
            run_directory.check_writable(file / "below")
        self.assertEqual(
            str(caught.exception), f"--report-dir {file}/below cannot be written: Not a directory"
        )


if __name__ == "__main__":
    unittest.main()
