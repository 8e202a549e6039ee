"""The ground that the FSDP suites stand on: ranks, wrapping, and training beside a reference.

A test trains a sharded, compiled model for three steps, each rank on rows of its own, and compares what this
rank then holds, shard by shard, with what one process computes from all rows (``reference``). Nothing is
gathered for the comparison, so that a faulty gather cannot agree with itself.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor

from harness import slow_test
from harness.cases import defaults
from harness.cases.dynamo import DynamoDistributedMultiProcTestCase, _dynamo_dist_per_rank_init
from harness.conformance_features import Feature, of_method
from harness.targets import Capability, needs, require
from suites.counted import CountedBackend, CountsCompiles
from suites.fsdp import reference
from suites.fsdp.models import Block
from suites.fsdp.reference import Batch, Tensors
from suites.fsdp.traffic import Traffic, communicated
from suites.inductor import settle

#: What the order of adding up a few dozen float32 numbers around 0.1 may change in three steps. A gradient
#: that lacks a rank's part is off by ten thousand times as much.
ROUNDED = {"rtol": 1e-5, "atol": 5e-6}
STEPS = 3
#: What wrappers put into a parameter's name.
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


def plain_name(name: str) -> str:
    """A parameter's name without what FSDP, the compiler and checkpointing put into it."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def is_block(module: nn.Module) -> bool:
    """Whether a module is a ``Block``."""
    return isinstance(module, Block)


def checkpointed(model: nn.Module, which: Callable[[nn.Module], bool] = is_block) -> nn.Module:
    """The model, with ``which`` of its modules to be recomputed in the backward; changes it in place."""
    apply_activation_checkpointing(model, check_fn=which)
    return model


def function_name(node: fx.Node) -> str | None:
    """The name of the function that a node calls; None for a node that calls none."""
    return node.target.__name__ if node.op == "call_function" else None


def held(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What this rank holds by name: its shards of the gradients and of the parameters, copied to the CPU.

    FSDP1's are flat. A parameter of which this rank has nothing has an empty gradient, which FSDP1 gives as
    None.
    """
    gradients, parameters = {}, {}
    for wrapped, parameter in module.named_parameters():
        name, gradient = plain_name(wrapped), parameter.grad
        if isinstance(parameter, DTensor):
            assert isinstance(gradient, DTensor), f"{name} has no sharded gradient"
            shard, slope = parameter.to_local(), gradient.to_local()
        else:
            shard = parameter.detach().flatten()
            slope = shard[:0] if gradient is None else gradient.flatten()
        parameters[name], gradients[name] = shard.detach().cpu().clone(), slope.cpu().clone()
    return gradients, parameters


@needs(operation="all_gather_into_tensor")
@needs(operation="reduce_scatter_tensor")
class FsdpTestCase(CountsCompiles, DynamoDistributedMultiProcTestCase):
    """A test on ranks that have joined a group and found the compiler clean.

    The generators are seeded alike in all ranks, so models made in a test are the same on each.
    """

    world_size = 2
    rank_modes = ("pooled", "fresh")
    #: Which FSDP the class is about, for the report about a target.
    sharding = "FSDP2"

    def setUpRank(self) -> None:
        super().setUpRank()
        for around in (
            _dynamo_dist_per_rank_init(self.rank, self.world_size),
            warnings.catch_warnings(),
        ):
            around.__enter__()
            self.addCleanup(around.__exit__, None, None, None)
        settle()
        # What FSDP1 says of a group of one is what is wanted of it here.
        warnings.filterwarnings("ignore", message="FSDP is switching to use `NO_SHARD`")

    def conformance_feature(self) -> Feature:
        """What a test tries of FSDP, by its method, and which FSDP it is."""
        return of_method(self, "FSDP features", sharding=self.sharding, world_size=str(self.world_size))

    @property
    def device(self) -> torch.device:
        """Where this rank's tensors live: an accelerator, those of its host in turn, or the CPU."""
        return defaults.device_of(self.rank, self.device_type)

    def fsdp1(self, model: nn.Module, *units: type[nn.Module], **options: Any) -> nn.Module:
        """A copy of the model in FSDP1, with its original parameters; modules of ``units`` in FSDP1 too."""
        require(Capability.FSDP1)
        options = {
            "use_orig_params": True,
            "device_id": self.device,  # FSDP1 takes the CPU only if it is told to
            "auto_wrap_policy": ModuleWrapPolicy(set(units)) if units else None,
            **options,
        }
        return FullyShardedDataParallel(copy.deepcopy(model), **options)

    def fsdp2(self, model: nn.Module, *units: type[nn.Module], **options: Any) -> nn.Module:
        """The model, moved and sharded in place by FSDP2; modules of ``units`` for themselves."""
        model.to(self.device)
        for module in list(model.modules()):
            if isinstance(module, units):
                fully_shard(module, **options)
        return fully_shard(model, **options)

    def train(
        self,
        compiled: Callable[[Tensor], Tensor],
        sharded: nn.Module,
        plain: nn.Module,
        shards: Callable[[Tensors], Tensors],
        rows: Sequence[Batch],
        *,
        share: float = 1,
    ) -> list[Traffic]:
        """Train beside the plain model and compare after each step; returns what each step communicated.

        ``compiled`` computes with the parameters of ``sharded``; ``shards`` says what this rank holds of
        whole tensors. Compared are this rank's loss, gradients and updated parameters. ``share`` is the part
        of a rank's gradient that goes into that of all: 1 where they are averaged already.
        """
        optimizer = torch.optim.SGD(sharded.parameters(), **reference.SGD)
        traffic = []
        steps = reference.train_alone(plain, rows)
        for number, (batch, expected) in enumerate(zip(rows, steps, strict=True)):
            optimizer.zero_grad()
            with communicated() as counted:
                loss = reference.loss_of(compiled, batch.of(self.rank).to(self.device))
                (loss * share).backward()
            traffic.append(counted)
            gradients, _ = held(sharded)
            optimizer.step()
            _, parameters = held(sharded)
            for what, actual, wanted in (
                ("loss", loss.detach().cpu(), expected.losses[self.rank]),
                ("gradients", gradients, shards(expected.gradients)),
                ("parameters", parameters, shards(expected.parameters)),
            ):
                self.assertEqual(actual, wanted, f"{what} of step {number}", **ROUNDED)
        return traffic

    def check_products(self, counter: CountedBackend, *, blocks_alone: bool, recomputed: bool) -> None:
        """Check how many matrix products the one backward of a ``Net`` has, or of a block by itself.

        Each layer has two, but the stem none for the gradient of the model's input. What is recomputed is the
        first layer of each block, and in the whole the second of the first block too, whose output the next
        one starts from.
        """
        if counter.name != "eager":
            whole, block = 1 + 2 * 4 + 2, 4
            again = 1 if blocks_alone else 3
            self.assertEqual(counter.products(), [(block if blocks_alone else whole) + recomputed * again])

    def check_graphs(self, counter: CountedBackend, *graphs: Mapping[str, int]) -> None:
        """Check how many graphs the backend got, and in each how often it calls the functions named."""
        called = [Counter(map(function_name, graph.graph.nodes)) for graph in counter.graphs]
        self.assertEqual(counter.frame_count, len(graphs), called)
        for number, (found, wanted) in enumerate(zip(called, graphs, strict=True)):
            self.assertEqual({name: found[name] for name in wanted}, dict(wanted), f"in graph {number}")


class BlocksByInductor:
    """What goes before bodies of training for inductor, which takes long: all but recomputed blocks are slow.

    Whole models, and what their forward saves, inductor compiles in ``test_fsdp_inductor``.
    """

    backend = "inductor"

    @slow_test
    def test_whole(self):
        super().test_whole()

    @slow_test
    def test_whole_with_checkpointed_blocks(self):
        super().test_whole_with_checkpointed_blocks()

    @slow_test
    def test_nested(self):
        super().test_nested()


class FourRanks:
    """What goes before bodies of training for four ranks, whose graphs run as they were captured.

    What is recomputed does not depend on the number of ranks: that is slow.
    """

    world_size, backend = 4, "eager"

    @slow_test
    def test_whole_with_checkpointed_blocks(self):
        super().test_whole_with_checkpointed_blocks()

    @slow_test
    def test_nested_with_checkpointed_blocks(self):
        super().test_nested_with_checkpointed_blocks()
