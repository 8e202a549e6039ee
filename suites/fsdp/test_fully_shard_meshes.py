"""FSDP2 on four ranks: meshes of two dimensions, pairs that keep the whole, and norms over all shards."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED
from suites.fsdp.models import WIDTH, Block
from suites.fsdp.plain_copy import PlainCopyTestCase


@needs(Capability.SUB_GROUPS)
class FullyShardMeshTest(PlainCopyTestCase):
    """Four ranks on meshes that are not one line of all of them."""

    world_size = 4

    def hybrid(self, **options):
        """The model cut over pairs of ranks, the pairs alike."""
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("replicate", "shard"))
        return self.made(mesh=mesh, **options)

    def test_shards_are_alike_across_replicas(self):
        sharded = self.hybrid()
        for parameter in sharded.parameters():
            self.assertEqual(parameter.placements, (Replicate(), Shard(0)))
        for step in range(2):
            sharded.zero_grad()
            self.plain.zero_grad()
            self.backward(sharded)
            self.backward_alone()
            with self.subTest(step=step):
                self.check_gradients(sharded)

    def test_replicas_that_are_reduced_at_the_last_batch(self):
        """Before that, the ranks of a pair alone add up."""
        sharded = self.hybrid(reshard_after_forward=False)
        for last in (False, False, True):
            sharded.set_requires_all_reduce(last)
            sharded.set_is_last_backward(last)
            self.backward(sharded)
            self.backward_alone()
        self.check_gradients(sharded)

    def test_without_synchronization_across_either(self):
        sharded = self.hybrid()
        for last in (False, True):
            sharded.set_requires_gradient_sync(last)
            self.backward(sharded)
            self.backward_alone()
            if not last:
                for name, parameter in sharded.named_parameters():
                    self.assertIsNone(parameter.grad, name)
        self.check_gradients(sharded)

    def test_pairs_keep_the_whole_after_the_forward(self):
        """With ``reshard_after_forward=2`` two ranks hold what one has after a forward, and one step is as
        any other."""
        sharded = self.made(reshard_after_forward=2)
        block = sharded.blocks[0]
        self.assertEqual(block.up.weight.to_local().shape, (4, WIDTH))
        for step in range(2):
            sharded.zero_grad()
            self.plain.zero_grad()
            loss = reference.loss_of(sharded, self.batch.of(self.rank))
            held = block.up.weight
            rows = self.plain.blocks[0].up.weight.chunk(2)[self.rank % 2]
            self.assertEqual(held.to_local(), rows)
            loss.backward()
            self.backward_alone()
            self.assertEqual(block.up.weight.to_local().shape, (4, WIDTH))
            with self.subTest(step=step):
                self.check_gradients(sharded)

    @needs(Capability.FUNCTIONAL)
    def test_layers_that_are_cut_over_both_dimensions(self):
        """Tensor parallelism within pairs of ranks, FSDP2 over them: rows of a layer are cut twice."""
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("data", "tensor"))
        data, tensor = mesh.get_coordinate()
        model = copy.deepcopy(self.plain)
        for block in model.blocks:
            parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        sharded = self.fsdp2(model, Block, mesh=mesh["data"])
        own = reference.Batch(self.batch.inputs.chunk(2)[data], self.batch.targets.chunk(2)[data])
        plain = dict(self.plain.named_parameters())
        for _ in range(2):
            reference.loss_of(sharded, own).backward()
            self.backward_alone()
        for name, parameter in sharded.named_parameters():
            self.assertEqual(parameter.full_tensor(), plain[name], name)
            self.assertEqual(parameter.grad.full_tensor(), plain[name].grad, name, **ROUNDED)
        up, down = sharded.blocks[1].up.weight, sharded.blocks[1].down.weight
        rows = plain["blocks.1.up.weight"].grad.chunk(2)[tensor].chunk(2)[data]
        self.assertEqual(up.grad.to_local(), rows, **ROUNDED)
        part = plain["blocks.1.down.weight"].grad.chunk(2, 1)[tensor].chunk(2)[data]
        self.assertEqual(down.grad.to_local(), part, **ROUNDED)

    def test_norms_and_clipping(self):
        """The norm of all gradients, and what is clipped by it, is the whole model's."""
        for norm_type in (2.0, 1.0, float("inf")):
            sharded = self.made()
            self.plain.zero_grad()
            self.backward(sharded)
            self.backward_alone()
            with self.subTest(norm_type=norm_type):
                expected = nn.utils.clip_grad_norm_(self.plain.parameters(), 0.05, norm_type)
                found = nn.utils.clip_grad_norm_(sharded.parameters(), 0.05, norm_type)
                self.assertEqual(found.full_tensor(), expected, **ROUNDED)
                self.assertGreater(expected.item(), 0.05)
                self.check_gradients(sharded)


if __name__ == "__main__":
    run_tests()
