"""Tests what of torch's state is found that a new process would not have."""

from __future__ import annotations

import sys
import types
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from harness.system import torch_state


class MadeHereTest(unittest.TestCase):
    """``made_here``, in this process."""

    def test_nothing(self) -> None:
        """A process that has only imported torch has nothing that a new one would not have."""
        self.assertEqual(torch_state.made_here(), ())

    def test_groups(self) -> None:
        """Process groups of any backend, until they are destroyed."""
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())
        self.assertTrue(torch_state.has_groups())
        self.assertEqual(torch_state.made_here(), ("process groups",))
        dist.destroy_process_group()
        self.assertFalse(torch_state.has_groups())

    def test_modes(self) -> None:
        """Modes and settings by their names."""
        with torch.no_grad():
            self.assertEqual(torch_state.made_here(), ("grad mode",))
        with torch.device("meta"):
            self.assertEqual(torch_state.made_here(), ("default device", "function modes"))
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assertEqual(torch_state.made_here(), ("default dtype",))

    def test_precision_by_both_ways(self) -> None:
        """Where both ways to set the precision of products were used, torch does not tell it."""
        matmul = torch.backends.cuda.matmul
        self.addCleanup(setattr, matmul, "fp32_precision", matmul.fp32_precision)
        before = torch_state.values(), torch_state.of_imports()
        matmul.fp32_precision = "tf32"
        self.assertRaises(RuntimeError, torch.get_float32_matmul_precision)
        self.assertNotEqual(torch_state.values(), before[0])
        self.assertNotEqual(torch_state.of_imports(), before[1])

    def test_without_torch(self) -> None:
        """Nothing where torch is not imported, or is being imported."""
        for torch_module in (None, types.ModuleType("torch")):
            with mock.patch.dict(sys.modules, {"torch": torch_module}):
                self.assertEqual((torch_state.values(), torch_state.made_here()), ((), ()))


if __name__ == "__main__":
    unittest.main()
