"""Tests ``DistributedTestBase``: ranks that start in ``setUp``, and the process group for a device."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from harness import DistributedTestBase
from harness.errors import UsageError


class RanksTest(DistributedTestBase):
    """Tests on two ranks."""

    world_size = 2

    def test_environment(self) -> None:
        """Each rank finds the world size in its environment."""
        self.assertEqual(os.environ["WORLD_SIZE"], "2")

    def test_group(self) -> None:
        """``create_pg`` makes the default group, over all ranks and for the device's backend."""
        group = self.create_pg("cpu")
        self.assertIs(group, dist.group.WORLD)
        self.assertEqual((dist.get_backend(), dist.get_world_size(), dist.get_rank()), ("gloo", 2, self.rank))
        total = torch.tensor([self.rank + 1])
        dist.all_reduce(total)
        self.assertEqual(total, torch.tensor([3]))

    def test_smaller_group(self) -> None:
        """``create_pg`` makes a group of fewer ranks if it is told so."""
        if self.rank == 0:
            self.create_pg("cpu", world_size=1)
            self.assertEqual(dist.get_world_size(), 1)


class ParentTest(unittest.TestCase):
    """The process that starts the ranks."""

    def test_environment(self) -> None:
        """It has its own ``WORLD_SIZE``, or none, again after the test."""
        for before in ("99", None):
            with self.subTest(before=before), mock.patch.dict(os.environ):
                os.environ.pop("WORLD_SIZE", None)
                if before is not None:
                    os.environ["WORLD_SIZE"] = before
                result = RanksTest("test_environment").run()
                assert result is not None
                self.assertTrue(result.wasSuccessful(), result)
                self.assertEqual(os.environ.get("WORLD_SIZE"), before)

    def test_group(self) -> None:
        """``create_pg`` in ``setUp`` is told what runs where."""
        with self.assertRaisesRegex(UsageError, "call it in the test or in setUpRank"):
            RanksTest("test_group").create_pg("cpu")


class DeviceTest(unittest.TestCase):
    """Backends and devices, on a case that starts no ranks."""

    def setUp(self) -> None:
        """Makes a case that stands for rank 3 of 4, on a machine with three devices of any kind."""
        self.case = type("Case", (DistributedTestBase,), {"world_size": 4})()
        self.case.rank, self.case.file_name = 3, "/nowhere"
        self.module = mock.Mock()
        self.module.device_count.return_value = 3
        self.start(mock.patch.object(torch, "get_device_module", return_value=self.module))

    def start(self, patch: Any) -> Any:
        """Applies a patch until the test is over."""
        self.addCleanup(patch.stop)
        return patch.start()

    def test_backend(self) -> None:
        """Each kind of accelerator has its backend, whatever the index; all else has gloo."""
        table = {
            "cpu": "gloo",
            "cuda": "nccl",
            "cuda:1": "nccl",
            "hpu": "hccl",
            "xpu:0": "xccl",
            "mps": "gloo",
        }
        self.assertEqual({device: self.case.backend(device) for device in table}, table)
        self.assertEqual(self.case.backend(torch.device("cuda", 0)), "nccl")

    def test_rank_to_device(self) -> None:
        """Ranks go round the devices that the machine has."""
        self.assertEqual(self.case.rank_to_device("cuda:0"), {0: [0], 1: [1], 2: [2], 3: [0]})
        torch.get_device_module.assert_called_with("cuda")

    def test_group_on_an_accelerator(self) -> None:
        """The rank's own device becomes the current and the default one; on gloo neither is touched."""
        store = self.start(mock.patch.object(dist, "FileStore"))
        init = self.start(mock.patch.object(dist, "init_process_group"))
        default = self.start(mock.patch.object(torch, "set_default_device"))
        self.case.rank = 1
        self.case.create_pg("cuda")
        store.assert_called_once_with("/nowhere", 4)
        init.assert_called_once_with(backend="nccl", world_size=4, rank=1, store=store.return_value)
        default.assert_called_once_with("cuda:1")
        self.module.set_device.assert_called_once_with(1)
        self.case.create_pg("cpu")
        self.assertEqual(init.call_args.kwargs["backend"], "gloo")
        default.assert_called_once()
        self.module.set_device.assert_called_once()


if __name__ == "__main__":
    unittest.main()
