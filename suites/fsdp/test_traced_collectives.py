"""Fully sharded training whose collectives are in the captured graphs: counted, weighed, and right in value.

FSDP2 keeps its collectives out of dynamo's graphs (``test_fully_shard_training``). Sharded parameters that
the model gathers itself, as DTensors, are the same parallelism in a form that is traced: an all-gather of
each parameter in the forward graph, a reduce-scatter of each gradient in the backward graph.
"""

from __future__ import annotations

import copy
import sys
import unittest
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.func import functional_call
from torch.utils.checkpoint import CheckpointPolicy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import collectives_of
from harness.releases import torch_at_least
from suites.fsdp import reference
from suites.fsdp.base import FsdpTestCase
from suites.fsdp.models import Net

#: Bytes of a parameter's element.
FLOAT32 = 4
#: Blocks of the net. The collectives of another one would be the same again.
BLOCKS = 1


class GatheringNet(torch.nn.Module):
    """A ``Net`` whose parameters are rows of DTensors: the forward gathers each of them whole.

    Its backward sums each gradient over the ranks, and leaves each rank the rows that are its own.
    """

    def __init__(self, net, mesh):
        super().__init__()
        self.mesh = mesh
        self.net = copy.deepcopy(net)
        for module in list(self.net.modules()):
            for name, parameter in list(module.named_parameters(recurse=False)):
                rows = distribute_tensor(parameter.detach(), mesh, [Shard(0)], src_data_rank=None)
                module.register_parameter(name, torch.nn.Parameter(rows))

    def forward(self, x):
        whole = {
            name: rows.redistribute(self.mesh, [Replicate()]).to_local(grad_placements=[Partial()])
            for name, rows in self.net.named_parameters()
        }
        return functional_call(self.net, whole, (x,))


class TracedBodies:
    """Three steps of a net that is compiled in one piece, collectives and all."""

    sharding = "in the graph"

    # A guard on a DTensor outlives the compiler's reset, and keeps the mesh and its group: ranks that are
    # kept would be found to have leaked their connections.
    rank_modes = ("fresh",)

    def check_training(self, compiler, **options):
        """Train; returns the graphs that came to ``compiler``, forward and backward."""
        model = Net(BLOCKS)
        mesh = init_device_mesh(self.device_type, (self.world_size,))
        sharded = GatheringNet(model.to(self.device), mesh)
        graphs = []

        def keep(graph, inputs):
            graphs.append(graph)
            return compiler(graph, inputs)

        backend = aot_autograd(fw_compiler=keep, bw_compiler=keep, **options)
        compiled = torch.compile(sharded, backend=backend, fullgraph=True)

        def shards(values):
            return reference.row_shards(values, self.rank, self.world_size)

        rows = reference.batches(3, self.world_size, Net.WIDTHS)
        traffic = self.train(compiled, sharded.net, model.cpu(), shards, rows, share=1 / self.world_size)
        self.assertEqual(traffic, [Counter()] * len(rows))  # none beside those in the graphs
        self.assertEqual(len(graphs), 2)
        return graphs

    def check_collectives(self, graph, *, name, reduction):
        """Check that a graph has this collective for each parameter, whole, and none besides."""
        found = collectives_of(graph)
        sizes = sorted(FLOAT32 * parameter.numel() for parameter in Net(BLOCKS).parameters())
        self.assertEqual(sorted(each.payload_bytes for each in found), sizes)
        for each in found:
            self.assertEqual((each.name, each.reduction, each.waited), (name, reduction, True))

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 does not trace them")
    def test_one_collective_each(self):
        """Each parameter is gathered once, in the forward; each gradient is reduced and scattered once."""
        forward, backward = self.check_training(boxed_nop)
        self.check_collectives(forward, name="all_gather_into_tensor", reduction="")
        self.check_collectives(backward, name="reduce_scatter_tensor", reduction="sum")


class TracedCollectivesWorldSize2Test(TracedBodies, FsdpTestCase):
    """Two ranks."""

    @unittest.skipUnless(torch_at_least("2.12"), "torch 2.11 does not trace them")
    def test_gathered_again(self):
        """Gathered parameters that may not be kept are gathered again in the backward, those that it needs.

        That is what sharding after the forward is in a graph: biases have no part in any gradient, and the
        first layer's weight has none in a gradient that is asked for.
        """
        forward, backward = self.check_training(boxed_nop, partition_fn=recompute_gathers)
        self.check_collectives(forward, name="all_gather_into_tensor", reduction="")
        counted = Counter(each.name for each in collectives_of(backward))
        self.assertEqual(counted, {"all_gather_into_tensor": 3, "reduce_scatter_tensor": 8})


class TracedCollectivesWorldSize4Test(TracedBodies, FsdpTestCase):
    """Four ranks."""

    world_size = 4


def recompute_gathers(joint, inputs, **options):
    """A partitioner that saves for the backward nothing that was gathered."""
    for node in joint.graph.nodes:
        if "all_gather_into_tensor" in str(node.target) or "wait_tensor" in str(node.target):
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
            node.meta["ac_graph_id"] = 0
    return min_cut_rematerialization_partition(joint, inputs, **options)


if __name__ == "__main__":
    run_tests()
