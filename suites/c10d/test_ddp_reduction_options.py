"""DDP's options of how gradients and buffers are exchanged: with each comes what one process computes."""

from __future__ import annotations

import copy
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.c10d.base import gloo_only
from suites.c10d.ddp_base import DdpTestCase
from suites.c10d.inputs import EXACTLY


class Layers(nn.Module):
    """Three layers, of which a forward leaves out the first."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2, bias=False)
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, rows):
        return self.second(self.first(rows).tanh())


def loss(model, rows):
    """Return the mean over rows, so that averages over equal numbers of rows are averages over all."""
    return model(rows).square().mean()


def noting(reduced, bucket):
    """Add up a bucket over the ranks, and note how many numbers it has."""
    reduced.append(bucket.buffer().numel())
    return default_hooks.allreduce_hook(dist.group.WORLD, bucket)


class ReductionOptionsTest(DdpTestCase):
    """Training steps beside one process that has all rows."""

    def check_steps(self, plain, **options):
        """Check gradients and parameters over three steps; returns what was wrapped."""
        ddp = self.wrap(plain, find_unused_parameters=True, **options)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (plain, ddp)]
        for step in range(3):
            rows = self.draw(2 * self.world_size, 3)
            # Gradients that are zeroed, and gradients that are not there.
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=bool(step % 2))
            self.backward_beside(plain, ddp, rows, loss)
            with self.subTest(step=step, **{name: str(value) for name, value in options.items()}):
                self.same_gradients(plain, ddp)
                for optimizer in optimizers:
                    optimizer.step()
                self.same_parameters(plain, ddp)
        return ddp

    @unittest.skipUnless(torch_at_least("2.12"), "DDP has batched_grad_copy from torch 2.12 on")
    def test_batched_grad_copy(self):
        for view in (False, True):
            for bucket_cap_mb in (25, 0.00001):
                self.check_steps(
                    Layers().to(self.device),
                    batched_grad_copy=True,
                    gradient_as_bucket_view=view,
                    bucket_cap_mb=bucket_cap_mb,
                )

    def test_unused_parameters_that_are_not_reduced(self):
        """Where no rank uses any parameter of a bucket, nothing is exchanged for it; its gradients stay."""
        plain = Layers().to(self.device)
        kept = torch.full((2, 2), 1.0 + self.rank, device=self.device)
        for skips in (True, False):
            ddp = self.check_steps(
                copy.deepcopy(plain), skip_all_reduce_unused_params=skips, bucket_cap_mb=1e-5
            )
            reduced = []
            ddp.register_comm_hook(reduced, noting)
            ddp.module.unused.weight.grad = kept.clone()
            loss(ddp, self.draw(2, 3)).backward()
            self.assertEqual(ddp.module.unused.weight.grad, kept, **EXACTLY)
            every = sum(parameter.numel() for parameter in plain.parameters())
            self.assertEqual(sum(reduced), every - (kept.numel() if skips else 0))

    @gloo_only
    def test_device_mesh(self):
        """The group of a mesh of one dimension; beside a group, or of two, it is refused."""
        mesh = init_device_mesh(self.device_type, (self.world_size,))
        self.check_steps(Layers().to(self.device), process_group=None, device_mesh=mesh)
        with self.assertRaisesRegex(RuntimeError, "both process_group and device_mesh"):
            self.wrap(Layers().to(self.device), process_group=dist.group.WORLD, device_mesh=mesh)
        with self.assertRaisesRegex(RuntimeError, "Only 1D device mesh"):
            square = init_device_mesh(self.device_type, (1, self.world_size))
            self.wrap(Layers().to(self.device), process_group=None, device_mesh=square)

    @unittest.skipUnless(torch_at_least("2.13"), "DDP has forward_sync_buffers from torch 2.13 on")
    def test_forward_sync_buffers(self):
        """It alone decides what later forwards do; at first all have the buffers of rank 0."""
        model = nn.Linear(3, 2).to(self.device)
        model.register_buffer("number", torch.zeros(1, device=self.device))
        for synchronized, options in (
            (True, {}),
            (True, {"forward_sync_buffers": True}),
            (False, {"forward_sync_buffers": False}),
            (False, {"forward_sync_buffers": False, "broadcast_buffers": True}),
        ):
            ddp = self.wrap(copy.deepcopy(model), **options)
            self.assertEqual(ddp.module.number.item(), 0)
            plain = copy.deepcopy(ddp.module)
            for step in range(1, 4):
                ddp.module.number.fill_(10 * step + self.rank)
                self.backward_beside(plain, ddp, self.draw(2 * self.world_size, 3), loss)
                self.same_gradients(plain, ddp)
                expected = 10 * step + (0 if synchronized else self.rank)
                self.assertEqual(ddp.module.number.item(), expected, str(options))


if __name__ == "__main__":
    run_tests()
