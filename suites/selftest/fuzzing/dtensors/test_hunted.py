"""Tests DTensor programs as the hunt's: the ranks they take, their structure, and what counts as rejected."""

from __future__ import annotations

import itertools
import unittest
from unittest import mock

from harness.fuzzing.dtensors import hunted
from harness.fuzzing.dtensors.hunted import WORLD_SIZES, DTensorPrograms
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.hunted import Place

PROGRAM = DTensorProgram(
    (2,), (Input((2,), ("Shard(0)",)),), (Statement("-{0}", (0,)), Statement("", (1,), ("Shard(0)",))), True
)
PLACE = Place(0, 2, None)


class HuntedTest(unittest.TestCase):
    def test_ranks(self) -> None:
        """All programs of a seed have as many ranks, those of other seeds other numbers."""
        fuzzer = DTensorPrograms()
        sizes: list[int] = []
        for seed in range(12):
            own = {fuzzer.world_size(p) for p in itertools.islice(fuzzer.drawn(seed), 2)}
            self.assertEqual(len(own), 1)
            sizes += own
        self.assertEqual(set(sizes), set(WORLD_SIZES))

    def test_structure(self) -> None:
        """Placements come first, without dimensions; sizes decide whether shards are even."""
        fuzzer = DTensorPrograms()
        self.assertEqual(fuzzer.structure(PROGRAM), "Shard; -{0}; redistribute; backward")
        even, partial = Input((4,), ("Shard(0)",)), Input((4,), ("Partial('max')",))
        negated = Statement("-{0}", (0,))
        for inputs, said in (
            ((even,), "Shard; -{0}"),
            ((Input((5,), ("Shard(0)",)),), "uneven Shard; -{0}"),
            ((partial, even), "Partial(max), Shard; -{0}"),
            ((Input((5,), ("Replicate()",)),), "Replicate; -{0}"),
            ((Input((5,), ("Partial()",)),), "Partial(sum); -{0}"),
        ):
            with self.subTest(said):
                self.assertEqual(fuzzer.structure(DTensorProgram((2,), inputs, (negated,))), said)

    def test_uneven_by_two_dimensions_of_the_mesh(self) -> None:
        """Three elements are left to each half of a mesh, and cannot be halved again."""
        for size, said in ((4, "Shard; -{0}"), (6, "uneven Shard; -{0}")):
            twice = Input((size,), ("Shard(0)", "Shard(0)"))
            program = DTensorProgram((2, 2), (twice,), (Statement("-{0}", (0,)),))
            with self.subTest(size):
                self.assertEqual(DTensorPrograms().structure(program), said)

    def test_ends(self) -> None:
        """What a program fails with comes out as it is."""
        failing = mock.Mock(side_effect=[AssertionError("value of v1 differs"), None])
        with mock.patch.object(hunted, "failure", failing):
            with self.assertRaisesRegex(AssertionError, "value of v1"):
                DTensorPrograms().run(PROGRAM, PLACE)
            DTensorPrograms().run(PROGRAM, PLACE)


if __name__ == "__main__":
    unittest.main()
