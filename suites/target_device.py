"""Where tests that name no device have their tensors: on the device of the run's target."""

from __future__ import annotations

import unittest

import torch

from harness.targets.current import current


class TargetField:
    """A class attribute that is a field of the target, read when it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> str:
        return str(getattr(current(), self._name))


class OnTargetDevice:
    """For cases on ranks that make their groups themselves: tensors without a device are on the target's."""

    device_type = TargetField("device_type")

    def setUpRank(self) -> None:
        super().setUpRank()
        default_to_target(self, self.rank)


def default_to_target(case: unittest.TestCase, rank: int = 0) -> None:
    """Makes the target's device of a rank torch's default until the test is over; nothing on the CPU."""
    target = current()
    if target.device_type == "cpu":
        return
    device = target.device(rank)
    target.set_device(device.index or 0)
    torch.set_default_device(device)
    case.addCleanup(torch.set_default_device, None)
