"""The ground that the DDP suites stand on: two ranks, a wrapped model, and its like on all rows at once.

Owns the comparison with a reference that DDP has no part in: a copy of the model, in each rank by itself, is
given the rows of all ranks. Averaged over equal numbers of rows, its gradients are what DDP must arrive at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._dynamo  # DDP imports it when it is made: a second, which ranks need not spend each by itself
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from harness.conformance_features import Feature, of_class
from harness.targets import Capability, needs
from suites.c10d.base import C10dTestCase

#: What the order of adding up a few dozen float32 rows may change, in gradients and weights around 0.1.
#: A gradient that lacks a rank's part is off by a thousand times as much.
ROUNDED = {"rtol": 1.3e-6, "atol": 2e-6}
#: Seeds the weights and the rows: all ranks draw the same, and each takes its own part of the rows.
SEED = 31415


@needs(Capability.DDP)
class DdpTestCase(C10dTestCase):
    """A test of ``DistributedDataParallel`` on two ranks that have joined a default group."""

    world_size = 2

    def setUpRank(self) -> None:
        super().setUpRank()
        torch.manual_seed(SEED)

    def conformance_feature(self) -> Feature:
        """What a test tries of DDP, by its class."""
        return of_class(self, "DDP features", world_size=str(self.world_size))

    def wrap(self, model: nn.Module, *, alike: bool = True, **options: Any) -> DistributedDataParallel:
        """Return a copy of the model in DDP, on this rank's device.

        What DDP takes from rank 0 when it is made is wrong in the other ranks' copies, so that every test
        needs it to be taken. The model is the same on all ranks, unless they are not ``alike``.
        """
        device_ids = None if self.device_type == "cpu" else [self.device]
        options = {"device_ids": device_ids, "process_group": self.group, **options}
        wrapped = copy.deepcopy(model)
        if self.rank and options.get("init_sync", True):
            taken = [*wrapped.parameters()]
            taken += wrapped.buffers() if options.get("broadcast_buffers", True) else ()
            for tensor in taken:
                tensor.data += 1 + self.rank
        ddp = DistributedDataParallel(wrapped, **options)
        if alike and options.get("init_sync", True):
            for parameter, original in zip(wrapped.parameters(), model.parameters(), strict=True):
                self.same(parameter, original)
        return ddp

    def mine(self, rows: Tensor) -> Tensor:
        """Return this rank's part of the rows of all ranks."""
        return rows.chunk(self.world_size)[self.rank]

    def draw(self, *shape: int) -> Tensor:
        """Return normally distributed numbers, the same on each rank, on this rank's device."""
        return torch.randn(*shape).to(self.device)

    def backward_beside(
        self,
        plain: nn.Module,
        ddp: DistributedDataParallel,
        rows: Tensor,
        loss: Callable[[nn.Module, Tensor], Tensor],
    ) -> None:
        """Run ``loss(model, rows).backward()``: the plain model on all rows, the wrapped one on its own."""
        loss(plain, rows).backward()
        loss(ddp, self.mine(rows)).backward()

    def same_gradients(
        self, plain: nn.Module, ddp: DistributedDataParallel, tolerance: Mapping[str, float] = ROUNDED
    ) -> None:
        """Check that both have the same gradients, or both have none, parameter by parameter."""
        wrapped = dict(ddp.module.named_parameters())
        self.assertEqual(list(wrapped), [name for name, _ in plain.named_parameters()])
        for name, parameter in plain.named_parameters():
            with self.subTest(parameter=name):
                self.assertIs(wrapped[name].grad is None, parameter.grad is None)
                if parameter.grad is not None:
                    self.assertEqual(wrapped[name].grad, parameter.grad, **tolerance)

    def same_parameters(self, plain: nn.Module, ddp: DistributedDataParallel) -> None:
        """Check that both hold the same numbers, parameter by parameter."""
        wrapped = dict(ddp.module.named_parameters())
        self.assertEqual(list(wrapped), [name for name, _ in plain.named_parameters()])
        for name, parameter in plain.named_parameters():
            with self.subTest(parameter=name):
                self.assertEqual(wrapped[name], parameter, **ROUNDED)

    def skip_where_powersgd_needs_a_gpu(self) -> None:
        """Skip gradients of the CPU on a machine with a GPU, where torch's PowerSGD waits for their GPU."""
        if self.device_type == "cpu" and torch.cuda.is_available():
            self.skipTest("torch's PowerSGD takes gradients on the CPU only where there is no GPU")

    def logged(self, ddp: DistributedDataParallel, key: str, default: Any = 0) -> Any:
        """Return what DDP has logged under ``key``; it leaves keys out that have nothing to say."""
        data = ddp._get_ddp_logging_data()
        self.assertEqual((data["rank"], data["world_size"]), (self.rank, self.world_size))
        return data.get(key, default)
