"""Training with compiled FSDP1 on one, two and four ranks: what one process computes from all rows.

What a backend compiles does not depend on the number of ranks, so not all pairs of the two are tried.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.fsdp import ShardingStrategy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import BlocksByInductor, FourRanks, FsdpTestCase, checkpointed
from suites.fsdp.models import ELEMENTS, Block, Net


class TrainingBodies:
    """Three steps; whole or with each block for itself, recomputed in the backward or not."""

    sharding = "FSDP1"

    backend = "aot_eager"

    def check_training(self, *, nested, recomputed, calls, gathers=4, **options):
        """Train; the one graph calls these functions so often, and serves all steps and blocks.

        Its backward has the products of the layers, and those that are computed again.
        """
        model = Net()
        sharded = self.fsdp1(model, *([Block] if nested else []), **options)
        if recomputed:
            checkpointed(sharded)
        counter = self.counted(self.backend)
        names = [name for name, _ in model.named_parameters()]
        units = Net.units() if nested else [names]

        def shards(values):
            return reference.flat_shards(values, units, self.rank, self.world_size)

        rows = reference.batches(3, self.world_size, Net.WIDTHS)
        traffic = self.train(torch.compile(sharded, backend=counter), sharded, model, shards, rows)
        self.check_graphs(counter, calls)
        self.check_products(counter, blocks_alone=nested, recomputed=recomputed)
        self.assertEqual(traffic, [self.expected_traffic(nested, gathers)] * len(rows))

    def expected_traffic(self, nested: bool, gathers: int) -> Counter:
        """What each step sends: a shard of each unit's parameters, and all of its gradients.

        The root's parameters stay from the forward to the backward; a block's are gathered for both, which
        makes four ``gathers``. One rank alone shards nothing, and reduces its gradients with itself.
        """
        root, block = (ELEMENTS["own"], ELEMENTS["block"]) if nested else (ELEMENTS["all"], 0)
        if self.world_size == 1:
            sent = Counter({("all_reduce", root): 1, ("all_reduce", block): 2})
        else:
            sent = Counter(
                {
                    ("all_gather", root // self.world_size): 1,
                    ("all_gather", block // self.world_size): gathers,
                    ("reduce_scatter", root): 1,
                    ("reduce_scatter", block): 2,
                }
            )
        return Counter({what: count for what, count in sent.items() if what[1]})

    def test_whole(self):
        self.check_training(nested=False, recomputed=False, calls={"linear": 6, "relu": 2, "tanh": 1})

    def test_whole_with_checkpointed_blocks(self):
        self.check_training(
            nested=False, recomputed=True, calls={"linear": 2, "tanh": 1, "tag_activation_checkpoint": 2}
        )

    def test_nested(self):
        self.check_training(nested=True, recomputed=False, calls={"linear": 2, "relu": 1, "add": 1})

    def test_nested_with_checkpointed_blocks(self):
        self.check_training(nested=True, recomputed=True, calls={"linear": 0, "tag_activation_checkpoint": 1})


class Fsdp1TrainingWorldSize1Test(TrainingBodies, FsdpTestCase):
    """One rank, whose graphs run as they were captured."""

    world_size, backend = 1, "eager"


class Fsdp1TrainingWorldSize2Test(TrainingBodies, FsdpTestCase):
    """Two ranks."""

    def test_kept_after_forward(self):
        """Blocks that stay gathered from the forward to the backward."""
        self.check_training(
            nested=True,
            recomputed=False,
            calls={"linear": 2, "relu": 1, "add": 1},
            gathers=2,
            sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
        )


class Fsdp1TrainingWorldSize4Test(FourRanks, TrainingBodies, FsdpTestCase):
    """Four ranks, whose graphs run as they were captured."""


class Fsdp1TrainingInductorTest(BlocksByInductor, TrainingBodies, FsdpTestCase):
    """Graphs that are compiled to C++: of blocks; the whole is ``test_fsdp1``'s."""


if __name__ == "__main__":
    run_tests()
