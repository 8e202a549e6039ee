"""Tests what the machine offers according to its files and the environment."""

from __future__ import annotations

import unittest

from harness.runner import capacity
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

    def test_of_the_target(self) -> None:
        """What the target has counted holds in place of the machine's device files, none of its own too."""
        for found in (0, 8):
            self.assertEqual(capacity.capacity(2, {}, of_target=found).accelerators, found)


if __name__ == "__main__":
    unittest.main()
