"""Training with compiled FSDP2 on one, two and four ranks: what one process computes from all rows.

What a backend compiles does not depend on the number of ranks, so not all pairs of the two are tried.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.utils import counters
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import BlocksByInductor, FourRanks, FsdpTestCase, checkpointed
from suites.fsdp.models import ELEMENTS, Block, Net


class TrainingBodies:
    """Three steps; whole or with each block for itself, recomputed in the backward or not."""

    backend = "aot_eager"

    def check_training(
        self, *, units=(), recomputed=False, blocks_alone=False, graphs=(), gathers=4, **options
    ):
        """Train; ``graphs`` are the calls in each of the compiler's graphs, which serve all steps.

        Modules of ``units`` are sharded for themselves, with ``options``; all of them together are gathered
        ``gathers`` times a step. Compiled is the whole model once it is sharded, or each of its blocks in
        place before that.
        """
        model = Net()
        counter = self.counted(self.backend)
        trained = copy.deepcopy(model)
        if recomputed:
            checkpointed(trained)
        if blocks_alone:
            for block in trained.blocks:
                block.compile(backend=counter)
        sharded = self.fsdp2(trained, *units, **options)
        compiled = sharded if blocks_alone else torch.compile(sharded, backend=counter)

        def shards(values):
            return reference.row_shards(values, self.rank, self.world_size)

        rows = reference.batches(3, self.world_size, Net.WIDTHS)
        traffic = self.train(compiled, sharded, model, shards, rows)
        self.check_graphs(counter, *graphs)
        if graphs:
            alone = blocks_alone or bool(units)
            self.check_products(counter, blocks_alone=alone, recomputed=recomputed)
        self.assertEqual(traffic, [self.expected_traffic(bool(units), gathers)] * len(rows))

    def expected_traffic(self, nested: bool, gathers: int) -> Counter:
        """What each step sends: a shard of each unit's parameters, and all of its gradients.

        The root's parameters stay from the forward to the backward; a block's are gathered for both. One rank
        alone sends nothing. No graph has a collective in it: the hooks that start them are not traced.
        """
        root, block = (ELEMENTS["own"], ELEMENTS["block"]) if nested else (ELEMENTS["all"], 0)
        sent = {
            ("all_gather", root // self.world_size): 1,
            ("all_gather", block // self.world_size): gathers,
            ("reduce_scatter", root): 1,
            ("reduce_scatter", block): 2,
        }
        alone = self.world_size == 1
        return Counter({what: count for what, count in sent.items() if what[1] and not alone})

    def test_whole(self):
        self.check_training(graphs=[{"linear": 6, "relu": 2, "tanh": 1}])

    def test_whole_with_checkpointed_blocks(self):
        calls = {"linear": 2, "tanh": 1, "tag_activation_checkpoint": 2}
        self.check_training(recomputed=True, graphs=[calls])

    def test_nested(self):
        self.check_training(units=[Block], graphs=[{"linear": 2, "relu": 1, "add": 1}])

    def test_nested_with_checkpointed_blocks(self):
        calls = {"linear": 0, "tag_activation_checkpoint": 1}
        self.check_training(units=[CheckpointWrapper], recomputed=True, graphs=[calls])


class BlockBodies(TrainingBodies):
    """The compiled parts stand inside the sharded ones, and other orders of wrapping."""

    def test_compiled_blocks(self):
        """Blocks that are compiled in place and sharded: the hooks around them stay out of the graphs."""
        graph = {"linear": 2, "relu": 1, "add": 1}
        self.check_training(units=[Block], blocks_alone=True, graphs=[graph])
        self.assertEqual(dict(counters["graph_break"]), {})

    def test_compiled_blocks_in_a_whole(self):
        """Blocks compiled in place in a model that is one unit."""
        self.check_training(blocks_alone=True, graphs=[{"linear": 2, "relu": 1, "add": 1}])
        self.assertEqual(dict(counters["graph_break"]), {})

    def test_compiled_checkpointed_blocks(self):
        """Blocks that are compiled as they are recomputed."""
        calls = {"linear": 0, "tag_activation_checkpoint": 1}
        self.check_training(units=[CheckpointWrapper], recomputed=True, blocks_alone=True, graphs=[calls])
        self.assertEqual(dict(counters["graph_break"]), {})

    def test_kept_after_forward(self):
        """Blocks that stay gathered from the forward to the backward."""
        graph = {"linear": 2, "relu": 1, "add": 1}
        self.check_training(units=[Block], graphs=[graph], gathers=2, reshard_after_forward=False)

    def test_sharded_inside_checkpoint(self):
        """The hooks of a block that is sharded inside what is recomputed cannot be traced with it: nothing is
        compiled, and the numbers are right."""
        self.check_training(units=[Block], recomputed=True)
        self.assertEqual(len(counters["graph_break"]), 1)


class FullyShardTrainingWorldSize1Test(TrainingBodies, FsdpTestCase):
    """One rank, whose graphs run as they were captured."""

    world_size, backend = 1, "eager"


class FullyShardTrainingWorldSize2Test(BlockBodies, FsdpTestCase):
    """Two ranks."""


class FullyShardTrainingWorldSize4Test(FourRanks, TrainingBodies, FsdpTestCase):
    """Four ranks, whose graphs run as they were captured."""


class FullyShardTrainingInductorTest(BlocksByInductor, TrainingBodies, FsdpTestCase):
    """Graphs that are compiled to C++: of blocks; the whole is ``test_fully_shard``'s."""


if __name__ == "__main__":
    run_tests()
