"""Several parts of a tensor that a rank holds as one, ``LocalShardsWrapper``: what checkpoints read of it."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.spmd.sharding_model import small_numbers


class LocalShardsTest(TestCase):
    """Columns of a matrix, and parts of a vector."""

    def parts(self, *shapes):
        return [torch.from_numpy(small_numbers(index, shape)) for index, shape in enumerate(shapes)]

    def setUp(self):
        super().setUp()
        self.columns = self.parts((4, 2), (4, 3))
        self.offsets = [(0, 0), (0, 2)]
        self.held = LocalShardsWrapper(self.columns, self.offsets)

    def test_sizes(self):
        self.assertEqual(self.held.shape, (4, 5))
        self.assertEqual(self.held.local_sizes(), [(4, 2), (4, 3)])
        self.assertEqual(self.held.local_offsets(), self.offsets)
        self.assertFalse(self.held.is_empty_shard())
        self.assertEqual(self.held._get_tensor_size_bytes(), 20 * 4)
        vector = LocalShardsWrapper(self.parts((3,), (4,), (1,)), [(0,), (3,), (7,)])
        self.assertEqual(vector.shape, (8,))
        one = LocalShardsWrapper(self.parts((3, 2)), [(1, 0)])
        self.assertEqual((one.shape, one.local_offsets()), ((3, 2), [(1, 0)]))
        nothing = LocalShardsWrapper([], [])
        self.assertEqual(
            (nothing.shape, nothing.local_shards(), nothing.is_empty_shard()), ((0, 0), [], True)
        )
        self.assertEqual((nothing.device.type, nothing.is_meta), ("meta", True))
        self.assertEqual((self.held.device.type, self.held.is_meta), ("cpu", False))

    def test_parts_by_their_place(self):
        """By number and place, by place alone; nothing else is there."""
        for number, place in enumerate(self.offsets):
            for hint in (number, None, 1 - number, 7):
                index = MetadataIndex("w", torch.Size(place), hint)
                self.assertIs(self.held.__get_tensor_shard__(index), self.columns[number])
        with self.assertRaisesRegex(ValueError, "Could not find shard"):
            self.held.__get_tensor_shard__(MetadataIndex("w", torch.Size((0, 1))))
        nothing = LocalShardsWrapper([], [])
        self.assertEqual(nothing.__get_tensor_shard__(MetadataIndex("w", torch.Size((0, 1)))).numel(), 0)

    def test_what_is_written(self):
        """An item for each part, of a tensor whose whole is larger."""
        items = self.held.__create_write_items__("w", torch.empty(8, 9))
        self.assertEqual([item.index.offset for item in items], self.offsets)
        self.assertEqual([item.tensor_data.chunk.sizes for item in items], [(4, 2), (4, 3)])
        self.assertEqual({item.tensor_data.size for item in items}, {torch.Size((8, 9))})
        self.assertEqual({item.index.fqn for item in items}, {"w"})
        chunks = [
            ChunkStorageMetadata(torch.Size(place), part.size())
            for place, part in zip(self.offsets, self.columns, strict=True)
        ]
        self.assertEqual(self.held.__create_chunk_list__(), chunks)

    def test_operators(self):
        """Each is done part by part; copies are others' memory, and what has no meaning is refused."""
        copied = self.held.clone()
        self.assertTrue(torch.equal(copied, self.held))
        self.columns[1][0, 0] += 1
        self.assertFalse(torch.equal(copied, self.held))
        self.assertEqual(copied.local_shards()[1][0, 0], self.columns[1][0, 0] - 1)
        moved = LocalShardsWrapper(self.columns, [(0, 0), (1, 2)])
        self.assertFalse(torch.equal(moved, self.held))
        self.assertFalse(torch.equal(LocalShardsWrapper(self.columns[:1], self.offsets[:1]), self.held))
        wide = self.held.to(torch.float64)
        self.assertEqual([part.dtype for part in wide.local_shards()], [torch.float64] * 2)
        self.assertEqual(wide.local_offsets(), self.offsets)
        self.assertEqual([part.shape for part in self.held.view(4, 5).local_shards()], [(4, 2), (4, 3)])
        with self.assertRaises(AssertionError):
            self.held.view(5, 4)
        one = LocalShardsWrapper(self.parts((3, 2)), [(1, 0)])
        self.assertEqual(one.view(6).local_shards()[0].shape, (6,))
        with self.assertRaisesRegex(NotImplementedError, "not supported for LocalShardsWrapper"):
            self.held + 1
        with self.assertRaises(NotImplementedError):
            self.held.clone(memory_format=torch.channels_last)

    def test_gradients(self):
        self.held.requires_grad_()
        self.assertTrue(all(part.requires_grad for part in self.held.local_shards()))
        self.assertTrue(self.held.storage_metadata().properties.requires_grad)
        detached = self.held.detach()
        self.assertFalse(any(part.requires_grad for part in detached.local_shards()))
        self.assertFalse(detached.storage_metadata().properties.requires_grad)


if __name__ == "__main__":
    run_tests()
