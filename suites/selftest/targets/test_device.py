"""Tests the functions for a device whose target's author says nothing, on the CPU."""

from __future__ import annotations

import unittest

from harness.targets import device


class CpuTest(unittest.TestCase):
    """The CPU has one device, which needs neither choice nor synchronisation."""

    def test_functions(self) -> None:
        """They can all be called, for any rank."""
        for index in (0, 3):
            device.set_device("cpu", index)
            device.synchronize("cpu")
        self.assertEqual(device.device_count("cpu"), 1)

    def test_unset_is_never_called(self) -> None:
        """What stands for a function that was not given is none."""
        with self.assertRaises(AssertionError):
            device.unset(0)


if __name__ == "__main__":
    unittest.main()
