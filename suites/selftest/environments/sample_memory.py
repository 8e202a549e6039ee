"""The test module for a small limit of memory: rank 1 takes all that there is."""

from __future__ import annotations

from harness import MultiProcessTestCase

CHUNK_BYTES = 8 << 20
# Far more than the limit, and not too much for a machine without one.
MOST_CHUNKS = 128


class Fresh(MultiProcessTestCase):
    """Tests on new ranks."""

    world_size = 2

    def test_passes(self) -> None:
        """Rank 1 takes memory."""
        self.take()

    def test_fails(self) -> None:
        """Rank 1 takes memory again."""
        self.take()

    def take(self) -> None:
        """Takes memory and uses it, on rank 1."""
        held = [b"x" * CHUNK_BYTES for _ in range(MOST_CHUNKS * self.rank)]
        self.assertEqual(len(held), 0)


class Kept(MultiProcessTestCase):
    """Tests on ranks that are kept."""

    world_size = 2
    rank_modes = ("pooled",)

    test_first = Fresh.test_passes
    test_second = Fresh.test_fails
    take = Fresh.take
