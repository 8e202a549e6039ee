"""Tests groups without peers."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist

from harness import DummyProcessGroup, FakeStore, with_dist, with_fake_comms


class FakeGroupsTest(unittest.TestCase):
    """In this process."""

    @with_fake_comms(rank=1, world_size=8)  # type: ignore[untyped-decorator]  # bare or with arguments
    def test_decorated(self) -> None:
        """The process is that rank, and a collective returns without computing."""
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (1, 8))
        one = torch.ones(1)
        dist.all_reduce(one)
        self.assertEqual(float(one), 1.0)

    def test_group_ends(self) -> None:
        with with_dist(), self.assertRaisesRegex(RuntimeError, "already"), with_dist():
            pass
        self.assertFalse(dist.is_initialized())

    def test_store(self) -> None:
        dist.init_process_group("fake", rank=3, world_size=4, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)
        self.assertEqual(dist.get_rank(), 3)

    def test_dummy(self) -> None:
        group = DummyProcessGroup(2, 4)
        self.assertEqual((group.rank(), group.size()), (2, 4))
        self.assertEqual(group.allreduce([torch.ones(1)]).get_future().value(), 1)


if __name__ == "__main__":
    unittest.main()
