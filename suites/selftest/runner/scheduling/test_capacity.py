"""Tests what the machine offers according to its files and the environment."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.requirements.machine import MachineFacts
from harness.runner.scheduling import capacity
from harness.targets.device_set import DeviceSet
from suites.selftest.runner import runs


class MachineTest(unittest.TestCase):
    """Memory and accelerators."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def test_memory(self) -> None:
        """The memory is that of requirements, which know a control group's limit."""
        facts = MachineFacts(platform="linux", memory_mb=2000)
        with mock.patch.object(capacity, "probe_system", lambda: facts):
            self.assertEqual(capacity.capacity(2, {}).memory_mb, 2000)

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
        names = tuple(map(str, range(8)))
        for devices, number in (
            (DeviceSet(), 0),
            (DeviceSet(names, "CUDA_VISIBLE_DEVICES"), 8),
            (DeviceSet(names), 1),  # no test can be given devices of its own, so one at a time has them
        ):
            self.assertEqual(capacity.capacity(2, {}, of_target=devices).accelerators, number)


if __name__ == "__main__":
    unittest.main()
