"""The ground that the suites of compiled DDP stand on: groups, counted graphs, and what a model has learned.

A compiled model is compared with a copy that nothing compiled, wrapped or shared anything with: what a step
made of it is read and taken away (``learn``), so that no comparison can be one of a thing with itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo import config, device_interface, distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

from harness.cases.defaults import backend_for
from harness.cases.dynamo import (
    DynamoDistributedMultiProcTestCase,
    DynamoDistributedSingleProcTestCase,
    _dynamo_dist_per_rank_init,
)
from harness.conformance_features import Feature, of_class
from harness.targets import Capability, needs
from suites import inductor
from suites.counted import CountsCompiles

#: What wrappers put into a parameter's name. The last is within the first.
WRAPPERS = ("_checkpoint_wrapped_module.", "_orig_mod.", "module.")

#: Tolerances of what a step has made of a model, unless said otherwise.
RTOL, ATOL = 1.3e-6, 1e-5


@dataclass(frozen=True)
class Learned:
    """What a step has made of a model: its output and loss, and by name the gradients and the parameters.

    A parameter without a gradient has None. ``inputs``: the gradients of those inputs that want one.
    """

    output: Any
    loss: Tensor
    gradients: dict[str, Tensor | None]
    parameters: dict[str, Tensor]
    inputs: tuple[Tensor | None, ...]


def plain_name(name: str) -> str:
    """A parameter's name without what DDP, the compiler and checkpointing put into it."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def mean_square(output: Tensor) -> Tensor:
    """A loss that every element of the output has a part in."""
    return output.float().square().mean()


def learn(
    model: Callable[..., Any],
    *inputs: Any,
    of: nn.Module | None = None,
    loss: Callable[[Any], Tensor] = mean_square,
    **named: Any,
) -> Learned:
    """Run a forward and a backward, take the gradients away from the model, and return copies of it all.

    ``of`` has the parameters where ``model`` is a function.
    """
    module = model if of is None else of
    assert isinstance(module, nn.Module), "what is no module has to say whose parameters it trains"
    output = model(*inputs, **named)
    value = loss(output)
    value.backward()
    gradients, parameters = {}, {}
    for name, parameter in module.named_parameters():
        gradients[plain_name(name)] = None if parameter.grad is None else parameter.grad.clone()
        parameters[plain_name(name)] = parameter.detach().clone()
        parameter.grad = None
    leaves = [each for each in inputs if isinstance(each, Tensor) and each.requires_grad]
    of_inputs = tuple(None if leaf.grad is None else leaf.grad.clone() for leaf in leaves)
    for leaf in leaves:
        leaf.grad = None
    outputs = tree_map_only(Tensor, lambda each: each.detach().clone(), output)
    return Learned(outputs, value.detach().clone(), gradients, parameters, of_inputs)


class ComparesLearned(CountsCompiles):
    """What cases have to compare models with."""

    def same_learned(
        self, actual: Learned, expected: Learned, *, rtol: float = RTOL, atol: float = ATOL
    ) -> None:
        """Check all of it, each gradient by its name; one that is missing has to miss in both.

        Of a gradient ``atol`` is part of its largest element: that of a mean over many elements is small.
        """
        self.assertEqual(actual.output, expected.output, rtol=rtol, atol=atol)
        self.assertEqual(actual.loss, expected.loss, rtol=rtol, atol=atol)
        self.assertEqual(list(actual.gradients), list(expected.gradients))
        for name, gradient in expected.gradients.items():
            with self.subTest(gradient=name):
                self.same_gradient(actual.gradients[name], gradient, rtol, atol)
        self.assertEqual(actual.parameters, expected.parameters, rtol=rtol, atol=atol)
        self.assertEqual(len(actual.inputs), len(expected.inputs))
        for number, (one, other) in enumerate(zip(actual.inputs, expected.inputs, strict=True)):
            with self.subTest(input=number):
                self.same_gradient(one, other, rtol, atol)

    def same_gradient(self, actual: Tensor | None, expected: Tensor | None, rtol: float, atol: float) -> None:
        """Check a gradient, with ``atol`` for a part of its largest element."""
        largest = 0.0 if expected is None else expected.abs().max().item()
        self.assertEqual(actual, expected, rtol=rtol, atol=atol * largest)


class DdpCompileTestCase(ComparesLearned, DynamoDistributedSingleProcTestCase):
    """A test of compiled DDP in one process, which is all of its process group. DDPOptimizer is on."""

    def conformance_feature(self) -> Feature:
        """What a test tries of compiled DDP, by its class."""
        return of_class(self, "compiled DDP", world_size="1")

    def setUp(self) -> None:
        super().setUp()
        config.optimize_ddp = True
        inductor.settle()

    def wrap(self, model: nn.Module, **options: Any) -> DistributedDataParallel:
        """Put a copy of the model into DDP."""
        options = {"device_ids": self.device_ids, **options}
        return DistributedDataParallel(copy.deepcopy(model), **options)


class NoDevice(nullcontext):
    """What a device's context is where there are none."""

    def __init__(self, index: int) -> None:
        super().__init__(index)


class CompilersTalk:
    """For cases on ranks whose compilers may ask each other (``enable_compiler_collectives``).

    On the CPU torch 2.13 takes that for granted which only accelerators have.
    """

    @property
    def backend(self) -> str:
        # Gloo by itself is for every device type, and torch asks for a group of one.
        return f"{self.device_type}:{backend_for(self.device_type)}"

    def setUpRank(self) -> None:
        self.patch(distributed, "_COMPILE_PG", None)  # the group that torch makes, and never forgets
        if self.device_type == "cpu":  # torch asks for a device a rank, and a context to be on it
            self.patch(torch.accelerator, "device_count", lambda: self.world_size)
            self.patch(device_interface.CpuInterface, "device", NoDevice)
        super().setUpRank()

    def patch(self, owner: Any, name: str, value: Any) -> None:
        """Put something in a name's place until the test is over."""
        patched = mock.patch.object(owner, name, value, create=True)
        patched.start()
        self.addCleanup(patched.stop)


@needs(Capability.DDP)
class DdpRanksTestCase(ComparesLearned, DynamoDistributedMultiProcTestCase):
    """A test of compiled DDP on ranks that have joined a group, with a clean compiler, when it starts.

    DDPOptimizer is on. The generators are seeded alike in all ranks. Tests that use inductor need ranks of
    their own, because it leaves threads and a variable of the environment behind.
    """

    world_size = 2
    rank_modes: tuple[str, ...] = ("pooled", "fresh")

    def conformance_feature(self) -> Feature:
        """What a test tries of compiled DDP, by its class."""
        return of_class(self, "compiled DDP", world_size=str(self.world_size))

    @property
    def backend(self) -> str | None:
        """The backend of the group; None, the one for this rank's device."""
        return None

    def setUpRank(self) -> None:
        super().setUpRank()
        joined = _dynamo_dist_per_rank_init(self.rank, self.world_size, self.backend)
        joined.__enter__()
        self.addCleanup(joined.__exit__, None, None, None)
        config.optimize_ddp = True
        inductor.settle()

    def wrap(self, model: nn.Module, **options: Any) -> DistributedDataParallel:
        """Put a copy of the model, where this rank's tensors live, into DDP.

        Ranks but the first begin with other numbers, in place of which DDP puts the first one's.
        """
        own = copy.deepcopy(model).to(self.device_type)
        with torch.no_grad():
            for value in (*own.parameters(), *own.buffers()):
                value.add_(self.rank)
        return DistributedDataParallel(own, **options)

    def mine(self, rows: Tensor) -> Tensor:
        """Return this rank's part of the rows of all ranks."""
        return rows.chunk(self.world_size)[self.rank]

    def draw(self, *shape: int) -> Tensor:
        """Return normally distributed numbers, the same on each rank, where this rank's tensors live."""
        return torch.randn(*shape).to(self.device_type)

    def agreed(self, value: Any) -> Any:
        """Check that all ranks have come to the same value, and return it."""
        everywhere: list[Any] = [None] * self.world_size
        dist.all_gather_object(everywhere, value)
        for rank, other in enumerate(everywhere):
            self.assertEqual(other, value, f"rank {rank} beside rank {self.rank}")
        return value
