"""Version counters that compiled code sets back or preserves, so that autograd does not notice a write."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.testing import CompileCounter

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.patterns.base import PatternTestCase, fullgraph


class DistributedPatternTests(PatternTestCase):
    """What eager does with a counter, compiled code does."""

    def test_unsafe_set_version_counter1(self):
        counter = CompileCounter()

        def function(w, x):
            x = x.sin()
            version = w._version
            w.copy_(x + 1)
            torch._C._autograd._unsafe_set_version_counter((w,), (version,))
            return w, version

        compiled = fullgraph(function, counter)
        with torch.no_grad():
            for version in (3, 0, 1):
                w = torch.randn(16)
                for _ in range(version):
                    w.fill_(1)
                self.assertEqual(w._version, version)
                x = torch.randn(16)
                result, seen = compiled(w, x)
                self.assertIs(result, w)
                self.assertEqual(w, x.sin() + 1)
                self.assertEqual((seen, w._version), (version, version))
        self.assertEqual(counter.frame_count, 1)  # the version is no guard

    def check_write_that_autograd_does_not_see(self, overwrite):
        def function(w, x):
            result = w.sin()
            with torch.no_grad():
                overwrite(w, x)
            return result

        w, x = torch.randn(1, requires_grad=True), torch.randn(1)
        before = w.detach().clone()
        with self.compiles(aot_eager=1):
            result = fullgraph(function, "aot_eager")(w, x)
        result.sum().backward()
        self.assertEqual(result, before.sin())
        self.assertEqual(w, x)
        # The backward reads w late: it meets the number that was written, and raises nothing.
        self.assertEqual(w.grad, x.cos())

    def test_unsafe_set_version_counter2(self):
        def overwrite(w, x):
            version = w._version
            w.copy_(x)
            torch._C._autograd._unsafe_set_version_counter((w,), (version,))

        self.check_write_that_autograd_does_not_see(overwrite)

    def test_unsafe_preserve_version_counter1(self):
        counter = CompileCounter()

        def function(w, x):
            x = x.sin()
            with torch.autograd._unsafe_preserve_version_counter(w):
                w.copy_(x + 1)
            return w

        with torch.no_grad():
            w, x = torch.randn(16).fill_(0).fill_(1), torch.randn(16)
            before = w._version
            self.assertEqual(before, 2)
            result = fullgraph(function, counter)(w, x)
        self.assertIs(result, w)
        self.assertEqual(w, x.sin() + 1)
        self.assertEqual(w._version, before)
        self.assertEqual(counter.frame_count, 1)

    def test_unsafe_preserve_version_counter2(self):
        def overwrite(w, x):
            with torch.autograd._unsafe_preserve_version_counter(w):
                w.copy_(x)

        self.check_write_that_autograd_does_not_see(overwrite)

    def test_write_that_autograd_sees(self):
        """Without any of that the backward refuses, eager and compiled: so the others prove something."""

        def function(w, x):
            result = w.sin()
            with torch.no_grad():
                w.copy_(x)
            return result

        for run, graphs in ((function, 0), (fullgraph(function, "eager"), 1)):
            w, x = torch.randn(1, requires_grad=True), torch.randn(1)
            with self.compiles(eager=graphs):
                result = run(w, x)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                result.sum().backward()


if __name__ == "__main__":
    run_tests()
