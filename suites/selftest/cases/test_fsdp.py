"""Tests the base classes of FSDP tests on real ranks: their group, what they train, and threads."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from harness import MLP, FSDPTest, FSDPTestContinuous, FSDPTestMultiThread, get_devtype, requires_world_size
from harness.cases import defaults


def train(case: unittest.TestCase) -> None:
    """Shards a model by FSDP2 and computes gradients; fails unless each rank has a shard of them."""
    model = MLP(8, device=get_devtype())
    fully_shard(model)
    model(torch.ones(2, 8, device=get_devtype())).sum().backward()
    for parameter in model.parameters():
        case.assertEqual(parameter.grad.to_local().shape, parameter.to_local().shape)


class FreshTest(FSDPTest):
    """Fresh ranks, each with the default group before the test begins."""

    world_size = 2

    def test_group(self) -> None:
        """The group is over all ranks, and is the one that the case names."""
        self.assertIs(self.process_group, dist.group.WORLD)
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, 2))
        self.assertTrue(self.init_method.endswith(self.file_name))

    def test_train(self) -> None:
        train(self)

    def test_subtests(self) -> None:
        """Each combination of arguments runs once."""
        seen: list[int] = []
        self.run_subtests({"number": [1, 2]}, lambda number: seen.append(number))
        self.assertEqual(seen, [1, 2])


class FakeGroupTest(FSDPTest):
    """A class that asks for a fake group."""

    world_size = 2
    fake_pg = True

    def test_group(self) -> None:
        """Collectives of the group compute nothing."""
        self.assertEqual(dist.get_backend(), "fake")
        one = torch.ones(1)
        dist.all_reduce(one)
        self.assertEqual(one, torch.ones(1))


class KeptTest(FSDPTestContinuous):
    """Pooled ranks that keep the group."""

    world_size = 2

    def test_group(self) -> None:
        self.assertEqual(self.process_group.size(), 2)

    def test_train(self) -> None:
        train(self)


class ThreadsTest(FSDPTestMultiThread):
    """Ranks that are threads."""

    world_size = 2

    def test_train(self) -> None:
        train(self)

    def test_subtests(self) -> None:
        """Each combination of arguments runs once."""
        seen: list[int] = []
        self.run_subtests({"number": [1, 2]}, lambda number: seen.append(number))
        self.assertEqual(seen, [1, 2])


class RequiredSizeTest(unittest.TestCase):
    """``requires_world_size`` on a test of a class that does not say its world size."""

    def test_number(self) -> None:
        """It is the number of ranks, of processes and of threads."""
        for base in (FSDPTest, FSDPTestMultiThread):
            body = {"test_a": requires_world_size(3)(lambda self: None), "test_b": lambda self: None}
            case = type("Sized", (base,), body)
            self.assertEqual(case("test_a").world_size, 3)
            self.assertEqual(case("test_b").world_size, defaults.rank_per_accelerator())


if __name__ == "__main__":
    unittest.main()
