"""Where tests that name no device have their tensors: on the device of the run's target."""

from __future__ import annotations

import unittest

import torch

from harness.targets.current import current


def default_to_target(case: unittest.TestCase) -> None:
    """Makes the target's first device the default one of torch until the test is over; nothing on the CPU."""
    target = current()
    if target.device_type == "cpu":
        return
    target.set_device(0)
    torch.set_default_device(target.device(0))
    case.addCleanup(torch.set_default_device, None)
