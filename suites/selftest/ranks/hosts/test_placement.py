"""Tests on which hosts the ranks of a test are placed."""

from __future__ import annotations

import unittest

from hypothesis import strategies as st

from harness.ranks.hosts.placement import place
from suites.selftest.properties import given


class PlacementTest(unittest.TestCase):
    """Where ``place`` puts ranks."""

    def test_table(self) -> None:
        """Packed on as few hosts as have room, or spread over all; ranks of a host follow each other."""
        for world_size, slots, placement, first, placed in (
            (2, [2, 2], "packed", 0, [0, 0]),
            (2, [2, 2], "packed", 1, [1, 1]),
            (2, [1, 4], "packed", 0, [1, 1]),  # the one with room for all
            (3, [2, 2], "packed", 0, [0, 0, 1]),
            (3, [2, 2], "packed", 1, [1, 1, 0]),
            (4, [1, 2, 1], "packed", 0, [0, 1, 1, 2]),
            (7, [2, 2], "packed", 0, [0, 0, 0, 0, 1, 1, 1]),
            (4, [8, 8], "spread", 0, [0, 0, 1, 1]),
            (5, [8, 8], "spread", 1, [0, 0, 0, 1, 1]),
            (1, [8, 8], "spread", 1, [1]),
        ):
            with self.subTest(world_size=world_size, slots=slots, placement=placement, first=first):
                self.assertEqual(place(world_size, slots, placement, first), placed)

    def test_least(self) -> None:
        """A test that asks for hosts is on as many, packed or not; fewer hosts or ranks are refused."""
        for world_size, slots, placement, least, placed in (
            (2, [2, 2], "packed", 2, [0, 1]),
            (4, [8, 8, 8], "packed", 2, [0, 0, 1, 1]),
            (4, [1, 2, 1], "packed", 2, [0, 1, 1, 2]),
            (4, [8, 8, 8], "spread", 2, [0, 0, 1, 2]),
        ):
            with self.subTest(world_size=world_size, slots=slots, placement=placement):
                self.assertEqual(place(world_size, slots, placement, least=least), placed)
        for world_size, slots in ((1, [2, 2]), (2, [2])):
            with self.subTest(world_size=world_size, slots=slots), self.assertRaises(ValueError):
                place(world_size, slots, "packed", least=2)

    @given(
        st.integers(1, 40),
        st.lists(st.integers(1, 9), min_size=1, max_size=5),
        st.sampled_from(["packed", "spread"]),
        st.integers(0, 9),
    )
    def test_every_rank_has_a_host(self, size: int, slots: list[int], placement: str, first: int) -> None:
        """Each rank has one of the hosts, in blocks; packed on one host where one has room for all."""
        placed = place(size, slots, placement, first)
        counts = [placed.count(host) for host in range(len(slots))]
        self.assertEqual(sum(counts), size)
        self.assertEqual(placed, [host for host in dict.fromkeys(placed) for _ in range(counts[host])])
        if placement == "packed" and size <= max(slots):
            self.assertEqual(len(set(placed)), 1)


if __name__ == "__main__":
    unittest.main()
