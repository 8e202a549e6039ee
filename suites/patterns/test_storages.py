"""Storages that compiled code shrinks to nothing and grows again, as FSDP does with gathered parameters."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import load_tests, requires_cuda, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.patterns.base import PatternTestCase, accelerator, fullgraph


class DistributedPatternTests(PatternTestCase):
    """Resizing within a graph happens where the program says, on the storage that the caller has."""

    def check_resize_to_zero(self, device):
        @fullgraph
        def function(x):
            y = torch.sin(x)
            x.untyped_storage().resize_(0)
            return torch.cos(y)

        x = torch.randn(10, device=device)
        expected = torch.cos(torch.sin(x))
        with torch.no_grad(), self.compiles(inductor=1):
            actual = function(x)
        self.assertEqual(actual, expected)
        self.assertEqual(x.untyped_storage().size(), 0)

    def test_storage_resize_zero_cpu(self):
        self.check_resize_to_zero("cpu")

    @requires_cuda
    def test_storage_resize_zero_gpu(self):
        self.check_resize_to_zero(accelerator())

    def check_resize_from_zero(self, device):
        @fullgraph
        def function(x, out):
            y = torch.sin(x)
            assert out.untyped_storage().size() == 0
            out.untyped_storage().resize_(x.untyped_storage().size())
            out.copy_(torch.cos(y))

        x, out = torch.randn(10, device=device), torch.randn(10, device=device)
        out.untyped_storage().resize_(0)
        expected = torch.cos(torch.sin(x))
        with torch.no_grad(), self.compiles(inductor=1):
            function(x, out)
        self.assertEqual(out.untyped_storage().size(), x.untyped_storage().size())
        self.assertEqual(out, expected)

    def test_storage_resize_nonzero_cpu(self):
        self.check_resize_from_zero("cpu")

    @requires_cuda
    def test_storage_resize_nonzero_gpu(self):
        self.check_resize_from_zero(accelerator())

    def test_storage_size_is_not_guarded(self):
        """A graph is compiled for the storage that it met first, so a program must not branch on its size."""

        @torch.compile(backend="aot_eager", fullgraph=True)
        def function(x):
            return x.untyped_storage().size() == 0, torch.ones(1)

        full, empty = torch.randn(4), torch.randn(4)
        empty.untyped_storage().resize_(0)
        with self.compiles(aot_eager=1):
            self.assertEqual([function(x)[0] for x in (full, empty)], [False, False])


if __name__ == "__main__":
    run_tests()
