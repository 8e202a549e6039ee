"""Cases whose tests share their ranks, in upstream's style."""

# mypy: ignore-errors
# Untyped, like the upstream files for which it stands.
import os
import sys
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import TEST_SKIPS, MultiProcContinuousTest
from torch.testing._internal.common_utils import run_tests


class Continuous(MultiProcContinuousTest):
    @classmethod
    def backend_str(cls):
        return "gloo"

    @classmethod
    def device_type(cls):
        return "cpu"


class SharedRanksTest(Continuous):
    world_size = 2

    def test_1_reduces(self):
        value = torch.ones(1)
        dist.all_reduce(value)
        self.assertEqual(value.item(), self.world_size)

    def test_2_fails(self):
        self.assertEqual(self.rank, 0)

    def test_3_goes_on(self):
        self.assertEqual(dist.get_rank(self.pg), self.rank)

    def test_4_skips(self):
        raise unittest.SkipTest("a reason")

    def test_5_skips_by_exit_code(self):
        sys.exit(TEST_SKIPS["odd_worldsize"].exit_code)

    def test_6_dies(self):
        if self.rank == 1:
            os._exit(3)

    def test_7_is_well_again(self):
        dist.barrier()
        self.assertEqual(torch.initial_seed(), 1234)

    def test_8_exits(self):
        sys.exit(4)


class OwnGroupTest(Continuous):
    """Three ranks by a property, and a group that a hook makes."""

    @property
    def world_size(self):
        return 3

    @world_size.setter
    def world_size(self, value):
        assert value == 3

    @classmethod
    def _init_pg(cls, rank, world_size, rdvz_file):
        super()._init_pg(rank, world_size, rdvz_file)
        cls.evens = dist.new_group([0, 2])

    def test_group(self):
        if self.rank != 1:
            value = torch.ones(1)
            dist.all_reduce(value, group=self.evens)
            self.assertEqual(value.item(), 2)


class UnfitGroupTest(Continuous):
    world_size = 2

    @classmethod
    def _init_pg(cls, rank, world_size, rdvz_file):
        sys.exit(TEST_SKIPS["multi-gpu-2"].exit_code)

    def test_one(self):
        self.fail("not reached")

    def test_two(self):
        self.fail("not reached")


class NoBackendTest(Continuous):
    world_size = 2

    @classmethod
    def backend_str(cls):
        return "mpi"

    def test_not_there(self):
        self.fail("not reached")


if __name__ == "__main__":
    run_tests()
