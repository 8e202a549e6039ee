"""Tests what a test function on ranks is told of its rank."""

from __future__ import annotations

import unittest
from unittest import mock

import torch

from harness.cases.rank_context import RankContext
from harness.errors import UsageError


class DeviceTest(unittest.TestCase):
    """``RankContext.device``; the process group is tested on real ranks with the pytest plugin."""

    def test_table(self) -> None:
        """The CPU, or the accelerator of the backend; ranks share accelerators where these are fewer."""
        table = {None: "cpu", "gloo": "cpu", "cpu:gloo": "cpu", "of_a_third_party": "cpu", "nccl": "cuda"}
        for backend, kind in table.items():
            with self.subTest(backend=backend):
                device = RankContext(3, 4, backend, "").device
                self.assertEqual(device.type, kind)
                count = max(1, torch.cuda.device_count())
                self.assertEqual(device.index, 3 % count if kind == "cuda" else None)

    def test_group_of_another_backend(self) -> None:
        """A group that the test makes itself sets the device of the backend that it is given."""
        context = RankContext(3, 4, None, "none")
        with (
            mock.patch("torch.cuda.device_count", return_value=2),
            mock.patch("torch.cuda.set_device") as set_device,
            mock.patch("torch.distributed.FileStore", side_effect=StopIteration),
            self.assertRaises(StopIteration),
        ):
            context.init_process_group("nccl")
        set_device.assert_called_once_with(torch.device("cuda", 1))

    def test_group_without_a_device(self) -> None:
        """On a machine without the backend's devices, the error says so, and what skips the test there."""
        with (
            mock.patch("torch.cuda.device_count", return_value=0),
            mock.patch("torch.cuda.set_device", side_effect=AssertionError("no device to set")),
            self.assertRaisesRegex(
                UsageError, r"'nccl' needs a device of type cuda.*@harness.skip_if_lt_x_gpu\(4\)"
            ),
        ):
            RankContext(3, 4, "nccl", "none").init_process_group()


if __name__ == "__main__":
    unittest.main()
