"""Tests the small models: their shapes, and what sharding relies on."""

from __future__ import annotations

import unittest

import torch

from harness import MLP, DoubleLinear, MLPModule, MLPStack, MLPStacked, RMSNormPython
from harness.models.layers import SaveForwardInputsModel


class LayersTest(unittest.TestCase):
    """In this process."""

    def test_mlp(self) -> None:
        """Two layers with a ReLU after each, and the buffer on top."""
        model, x = MLP(4, with_buffer=True, dim_multiplier=3), torch.randn(2, 4)
        shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        self.assertEqual(shapes["in_proj.weight"], (12, 4))
        hidden = torch.relu(x @ model.in_proj.weight.T + model.in_proj.bias)
        out = torch.relu(hidden @ model.out_proj.weight.T + model.out_proj.bias) + model.buffer
        torch.testing.assert_close(model(x), out)
        assert model.buffer is not None
        before = model.buffer.clone()
        model.reset_parameters()
        self.assertFalse(torch.equal(model.buffer, before))

    def test_stack(self) -> None:
        """The widths of the parts; the norm comes last."""
        widths = [part.in_proj.out_features for part in MLPStack(4)]
        self.assertEqual(widths, [12, 16, 12])
        self.assertIsInstance(MLPStack(4, with_seq_parallel=True)[3], torch.nn.LayerNorm)

    def test_mlp_module(self) -> None:
        """Two are equal whatever was drawn before, until they are drawn anew."""
        first, x = MLPModule("cpu"), torch.randn(3, 10)
        torch.manual_seed(99)
        second = MLPModule("cpu")
        torch.testing.assert_close(first(x), second(x))
        second.reset_parameters()
        self.assertFalse(torch.equal(first(x), second(x)))
        torch.testing.assert_close(MLPStacked("cpu", 2)(x), first(first(x)))

    def test_double_linear(self) -> None:
        x = torch.randn(2, 4)
        self.assertEqual(len(DoubleLinear(4)(x)), 2)
        self.assertEqual(DoubleLinear(4, use_second_linear=False)(x).shape, (2, 4))

    def test_rms_norm(self) -> None:
        x = torch.randn(2, 4)
        torch.testing.assert_close(RMSNormPython(4)(x), torch.nn.functional.rms_norm(x, (4,), eps=1e-6))

    def test_saved_inputs(self) -> None:
        """Inputs are noted before they are cast."""
        seen: dict[torch.nn.Module, torch.Tensor] = {}
        model, x = SaveForwardInputsModel(seen, cast_forward_inputs=True), torch.randn(1, 100).double()
        self.assertEqual(model(x).dtype, torch.float32)
        self.assertEqual(
            [seen[m].dtype for m in (model, model.c1, model.c2)], [x.dtype, x.dtype, torch.float32]
        )


if __name__ == "__main__":
    unittest.main()
