"""The test module that runs in each environment: fresh and kept ranks that pass, and a rank that fails.

It imports no torch, so that a run of it takes half a second.
"""

from __future__ import annotations

from harness import MultiProcessTestCase


class Fresh(MultiProcessTestCase):
    """Tests on new ranks."""

    world_size = 2

    def test_passes(self) -> None:
        """Both ranks pass."""
        self.assertIn(self.rank, (0, 1))

    def test_fails(self) -> None:
        """Rank 1 fails."""
        self.assertEqual(self.rank, 0, "rank one is wrong")


class Kept(MultiProcessTestCase):
    """Tests on ranks that are kept."""

    world_size = 2
    rank_modes = ("pooled",)

    def test_first(self) -> None:
        """Both ranks pass."""

    def test_second(self) -> None:
        """Both ranks pass again."""
