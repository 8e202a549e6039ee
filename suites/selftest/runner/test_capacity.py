"""Tests what the machine offers according to its files and the environment."""

from __future__ import annotations

import os
import unittest

from harness.runner import capacity
from suites.selftest.runner import runs


class MachineTest(unittest.TestCase):
    """Processors, memory and accelerators."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def test_processors(self) -> None:
        """The quota of a control group limits the processors, and an odd file does not."""
        file = self.directory / "cpu.max"
        here = len(os.sched_getaffinity(0))
        for text, wanted in (("100000 100000", 1), ("max 100000", here), ("50000 100000", 1), ("junk", here)):
            file.write_text(text)
            self.assertEqual(capacity.processors(file), wanted)
        self.assertEqual(capacity.processors(self.directory / "none"), here)

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


if __name__ == "__main__":
    unittest.main()
