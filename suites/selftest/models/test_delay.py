"""Tests which device a delay keeps busy, and for how long."""

from __future__ import annotations

import time
import unittest
from unittest import mock

import torch

from harness.models import delay
from harness.requirements import MachineFacts


class DelayTest(unittest.TestCase):
    """With stand-ins for clock and device."""

    def test_where(self) -> None:
        for accelerators, slept, cycles in (((), [0.005], []), ((("cuda", 1),), [], [10])):
            facts = MachineFacts(accelerators=accelerators)
            with (
                self.subTest(accelerators),
                mock.patch.object(delay, "probe", return_value=facts),
                mock.patch.object(delay, "get_cycles_per_ms", return_value=2.0),
                mock.patch.object(time, "sleep") as sleep,
                mock.patch.object(torch.cuda, "_sleep") as device,
            ):
                delay.delay(0)
                delay.delay(5)
                self.assertEqual([call.args[0] for call in sleep.call_args_list], slept)
                self.assertEqual([call.args[0] for call in device.call_args_list], cycles)


if __name__ == "__main__":
    unittest.main()
