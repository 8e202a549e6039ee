"""Tests what the machine offers according to its files, and where runs keep their files."""

from __future__ import annotations

import unittest

from harness.runner import capacity, journal, run_directory
from suites.selftest.runner import runs


class MachineTest(unittest.TestCase):
    """Memory and accelerators."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def test_memory(self) -> None:
        """The memory is in megabytes."""
        file = self.directory / "meminfo"
        file.write_text("MemTotal:       2048000 kB\nMemFree: 1 kB\n")
        self.assertEqual(capacity.memory_mb(file), 2000)
        self.assertIsNone(capacity.memory_mb(self.directory / "none"))

    def test_accelerators(self) -> None:
        """Accelerators are device files, as far as the environment shows them."""
        for name in ("nvidia0", "nvidia1", "nvidiactl", "null"):
            (self.directory / name).touch()
        table: tuple[tuple[dict[str, str], int], ...]
        table = (({}, 2), ({"CUDA_VISIBLE_DEVICES": "1"}, 1), ({"CUDA_VISIBLE_DEVICES": ""}, 0))
        for environ, wanted in (*table, ({"CUDA_VISIBLE_DEVICES": "-1"}, 0)):
            self.assertEqual(capacity.accelerators(environ, self.directory), wanted)


class StateTest(unittest.TestCase):
    """Directories of runs."""

    def setUp(self) -> None:
        self.state = run_directory.state({}, runs.new_directory(self))

    def test_latest(self) -> None:
        """The latest run is known once it is remembered, and forgotten with its directory."""
        self.assertIsNone(self.state.latest())
        directory = self.state.new_run(0.0)
        self.state.remember(directory)
        self.assertEqual(self.state.latest(), directory)
        self.assertEqual((self.state.path / ".gitignore").read_text(), "*\n")
        directory.rmdir()
        self.assertIsNone(self.state.latest())

    def test_old_runs_go(self) -> None:
        """Only the newest runs are kept."""
        day = 24 * 3600.0
        made = [self.state.new_run(i * day) for i in range(run_directory.KEPT_RUNS + 3)]
        self.assertEqual([d for d in made if d.exists()], made[3:])

    def test_a_run_that_is_still_going_stays(self) -> None:
        """A run that is still going is kept until it is over."""
        day = 24 * 3600.0
        first = self.state.new_run(0.0)
        with journal.create(first):
            for i in range(1, run_directory.KEPT_RUNS + 3):
                self.state.new_run(i * day)
            self.assertTrue(first.exists())
        self.state.new_run(100 * day)
        self.assertFalse(first.exists())


if __name__ == "__main__":
    unittest.main()
