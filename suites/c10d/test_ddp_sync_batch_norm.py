"""``SyncBatchNorm`` in DDP: statistics of all ranks' rows, also when some ranks have no rows.

On devices that torch has no kernels of it for, as the CPU, it runs on the reference kernels of
``batch_norm_kernels``; what goes between ranks is torch's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import needs
from suites.c10d.batch_norm_kernels import sync_batch_norm_on
from suites.c10d.ddp_base import DdpTestCase

#: Statistics are added up in another order, and variances come from their inverse roots.
NORMALIZED = {"rtol": 1e-4, "atol": 1e-4}


def has_kernels(device_type):
    """Return whether torch, or the maker of the device, has kernels of synchronized statistics for it."""
    key = torch._C._dispatch_key_for_device(device_type)
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::batch_norm_stats", key)


def batch_norm_only():
    return nn.Sequential(nn.BatchNorm2d(2))


def mixed_layers():
    return nn.Sequential(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.Linear(28, 2))


class SyncBatchNormTest(DdpTestCase):
    """Batch normalization over the rows of all ranks."""

    def setUpRank(self):
        super().setUpRank()
        if not has_kernels(self.device_type):
            self.enterContext(sync_batch_norm_on(self.device_type))

    def enterContext(self, context):
        """unittest's, which has it from Python 3.11 on."""
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def pair(self, model):
        """Return a plain model and a copy in DDP, converted once it is there; both in training mode.

        DDP does not take a converted model on the CPU, but does not look again.
        """
        model = model.to(self.device).train()
        return model, nn.SyncBatchNorm.convert_sync_batchnorm(self.wrap(model), self.group)

    def check_not_nan(self, ddp, x):
        """Check that neither the output nor a gradient of its sum holds a NaN."""
        output = ddp(x)
        self.assertFalse(output.isnan().any())
        output.sum().backward()
        for parameter in ddp.parameters():
            self.assertFalse(parameter.grad.isnan().any())

    def check_like_plain(self, plain, ddp, counts, *shape, input_grad):
        """Compare outputs, gradients and running statistics, rank r having ``counts[r]`` rows of all.

        The loss is a sum, so what DDP averages is the whole divided by the number of ranks.
        """
        plain.zero_grad()
        ddp.zero_grad()
        joined = self.draw(sum(counts), *shape).requires_grad_(input_grad)
        expected = plain(joined)
        weights = torch.randn_like(expected)
        (expected * weights).sum().backward()
        begin = sum(counts[: self.rank])
        mine = slice(begin, begin + counts[self.rank])
        x = joined.detach()[mine].requires_grad_(input_grad)
        actual = ddp(x)
        (actual * weights[mine]).sum().backward()
        self.assertEqual(actual, expected[mine], **NORMALIZED)
        if input_grad and counts[self.rank]:  # without rows there is no gradient, not even an empty one
            self.assertEqual(x.grad, joined.grad[mine], **NORMALIZED)
        for wrapped, parameter in zip(ddp.parameters(), plain.parameters(), strict=True):
            self.assertEqual(wrapped.grad * self.world_size, parameter.grad, **NORMALIZED)
        for wrapped, buffer in zip(ddp.buffers(), plain.buffers(), strict=True):
            self.assertEqual(wrapped, buffer, **NORMALIZED)

    def rows_but_on_rank_0(self, count):
        """Return the numbers of rows by rank: none on rank 0, ``count`` on the others."""
        return [0, *[count] * (self.world_size - 1)]

    def test_sync_batch_norm_only_empty_input(self):
        counts, shape = self.rows_but_on_rank_0(1), (2, 11, 13)
        for input_grad in (True, False):
            plain, ddp = self.pair(batch_norm_only())
            self.check_like_plain(plain, ddp, counts, *shape, input_grad=input_grad)
            for rows in (counts[self.rank], 0):
                x = torch.zeros(rows, *shape, device=self.device, requires_grad=input_grad)
                self.check_not_nan(ddp, x)

    def test_sync_batch_norm_empty_input(self):
        counts, shape = self.rows_but_on_rank_0(3), (2, 30, 30)
        plain, ddp = self.pair(mixed_layers())
        self.check_like_plain(plain, ddp, counts, *shape, input_grad=False)
        for rows in (counts[self.rank], 0):
            self.check_not_nan(ddp, torch.zeros(rows, *shape, device=self.device))

    def test_sync_batch_norm_of_all_rows(self):
        # Different numbers of rows a rank, twice: the running statistics of the first go into the second.
        plain, ddp = self.pair(mixed_layers())
        for _ in range(2):
            counts = [2 + rank for rank in range(self.world_size)]
            self.check_like_plain(plain, ddp, counts, 2, 30, 30, input_grad=True)

    def test_batch_norm_without_sync(self):
        # Not converted it takes each rank's own statistics: the tests above would see the difference.
        plain = batch_norm_only().to(self.device)
        ddp = self.wrap(plain)
        x = self.draw(self.world_size, 2, 11, 13)
        self.assertNotEqual(ddp(self.mine(x)), self.mine(plain(x)), **NORMALIZED)
        ddp(self.mine(x)).square().sum().mul(self.rank + 1.0).backward()
        lone = batch_norm_only().to(self.device)
        for rank in range(self.world_size):
            lone(x.chunk(self.world_size)[rank]).square().sum().mul(rank + 1.0).backward()
        for wrapped, parameter in zip(ddp.parameters(), lone.parameters(), strict=True):
            self.assertEqual(wrapped.grad * self.world_size, parameter.grad, **NORMALIZED)


@needs(device_type="cpu")
class SyncBatchNormOnCpuTest(DdpTestCase):
    """``SyncBatchNorm`` as torch ships it."""

    def test_sync_batch_norm_refuses_cpu_tensors(self):
        ddp = nn.SyncBatchNorm.convert_sync_batchnorm(self.wrap(batch_norm_only()), self.group)
        with self.refused(ValueError, "SyncBatchNorm expected input tensor to be on GPU or XPU or"):
            ddp(torch.ones(1, 2, 11, 13))

    def test_ddp_refuses_sync_batch_norm_on_cpu(self):
        converted = nn.SyncBatchNorm.convert_sync_batchnorm(batch_norm_only(), self.group)
        with self.refused(ValueError, "SyncBatchNorm layers only work with GPU modules"):
            self.wrap(converted, device_ids=None)


if __name__ == "__main__":
    run_tests()
