"""Tests what is known of the process groups that a test leaves, and how they are destroyed."""

from __future__ import annotations

import sys
import unittest
from unittest import mock

import torch.distributed as dist

from harness.ranks import process_groups


def init_group() -> None:
    """Makes a default group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class ProcessGroupsTest(unittest.TestCase):
    """Groups of this process."""

    def setUp(self) -> None:
        process_groups.reset_group_count()
        self.addCleanup(process_groups.reset_group_count)
        self.addCleanup(process_groups.destroy_groups_unless, keep=False)

    def test_names_and_number(self) -> None:
        """Groups are known by name; the number of those that were begun does not fall with one's end."""
        self.assertEqual((process_groups.group_names(), process_groups.groups_begun()), (frozenset(), 0))
        init_group()
        second = dist.new_group([0])
        self.assertEqual((process_groups.group_names(), process_groups.groups_begun()), ({"0", "1"}, 2))
        dist.destroy_process_group(second)
        self.assertEqual((process_groups.group_names(), process_groups.groups_begun()), ({"0"}, 2))

    def test_given_up(self) -> None:
        """A group that was not made counts until it is forgotten, which needs a process without groups."""
        with self.assertRaises(Exception):  # noqa: B017 - which exception it is, torch decides
            dist.init_process_group("gloo", store=dist.HashStore(), rank=3, world_size=2)
        self.assertGreater(process_groups.groups_begun(), 0)
        process_groups.reset_group_count()
        self.assertEqual(process_groups.groups_begun(), 0)
        init_group()
        process_groups.reset_group_count()
        self.assertEqual(process_groups.groups_begun(), 1)

    def test_destroy_unless(self) -> None:
        """Groups are destroyed unless they are to be kept; the answer says whether there were any."""
        self.assertFalse(process_groups.destroy_groups_unless(keep=False))
        init_group()
        self.assertFalse(process_groups.destroy_groups_unless(keep=True))
        self.assertTrue(dist.is_initialized())
        self.assertTrue(process_groups.destroy_groups_unless(keep=False))
        self.assertFalse(dist.is_initialized())

    def test_destroy_on_exit(self) -> None:
        """Only groups of backends that hold more than sockets and memory are destroyed before an exit."""
        process_groups.destroy_on_exit()  # without a group
        init_group()
        for backends, destroyed in (
            ("cpu:gloo", False),
            ("gloo", False),
            ("cpu:gloo,cuda:gloo", False),
            ("fake", False),
            ("cpu:undefined,meta:fake", False),
            ("cuda:nccl", True),
            ("cpu:gloo,cuda:nccl", True),
            ("hccl", True),
        ):
            with (
                self.subTest(backends),
                mock.patch.object(dist, "get_backend_config", return_value=backends),
                mock.patch.object(dist, "destroy_process_group") as destroy,
            ):
                process_groups.destroy_on_exit()
                self.assertEqual(destroy.called, destroyed)

    def test_without_torch(self) -> None:
        """A process that has not imported torch.distributed has no groups, and nothing imports it."""
        with mock.patch.dict(sys.modules):
            del sys.modules["torch.distributed"]
            self.assertEqual((process_groups.group_names(), process_groups.groups_begun()), (frozenset(), 0))
            self.assertFalse(process_groups.destroy_groups_unless(keep=False))
            process_groups.reset_group_count()
            process_groups.destroy_on_exit()
            self.assertNotIn("torch.distributed", sys.modules)


if __name__ == "__main__":
    unittest.main()
