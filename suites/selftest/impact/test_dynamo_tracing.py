"""Tests that functions which dynamo traces are noted, and what is asked of dynamo before it is imported."""

from __future__ import annotations

import sys
import types
import unittest
from unittest import mock

from harness.impact import dynamo_tracing
from suites.selftest.impact.test_recorder import RecordedCase


class TracedTest(RecordedCase):
    """A Python that notes what a test executes, with torch."""

    def test_traced_by_dynamo(self) -> None:
        """A function that dynamo traces into a compiled one is the test's, though it is never called."""
        code = """
        import torch
        import first, second
        run = torch.compile(lambda x: x + len(second.f()), backend="eager", fullgraph=True)
        with during("x"):
            run(torch.ones(1))
        """
        self.assertEqual(self.recorded(code), {"x": {"first", "second"}})


class NotImportedTest(unittest.TestCase):
    """``watch`` and ``hide`` before dynamo's modules are there, or as they are being imported."""

    def test_later(self) -> None:
        """They say that they have done nothing, so that they are called again."""
        name = "torch._dynamo.symbolic_convert"
        code = (lambda: None).__code__
        for modules in ({}, {name: types.ModuleType(name)}):
            with self.subTest(modules=modules), mock.patch.object(sys, "modules", modules):
                self.assertFalse(dynamo_tracing.watch(self.fail))
                self.assertFalse(dynamo_tracing.hide(code))
        skipped = mock.Mock()
        modules = {"torch._dynamo.eval_frame": mock.Mock(skip_code=skipped)}
        with mock.patch.object(sys, "modules", modules):
            self.assertTrue(dynamo_tracing.hide(code))
        skipped.assert_called_once_with(code)


if __name__ == "__main__":
    unittest.main()
