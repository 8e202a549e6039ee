"""Tests ``Transformer``: what it computes does not depend on how it is parallel."""

from __future__ import annotations

import copy
import unittest

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness import FSDPTest, ModelArgs, Transformer
from harness.releases import torch_at_least


class ParallelTest(FSDPTest):
    """On two ranks."""

    world_size = 2

    def test_same_logits(self) -> None:
        """By sequence or not, with local heads or not; the tied weight stays one parameter."""
        mesh = init_device_mesh("cpu", (2,))
        for by_sequence in (False, True):
            for local_heads in (False, True):
                with self.subTest(by_sequence=by_sequence, local_heads=local_heads):
                    if not local_heads and not torch_at_least("2.12"):
                        self.skipTest("DTensor of torch 2.11 flattens no dimensions of which one is sharded")
                    # DTensor's sharding of the masked form is known on GPUs only.
                    plain = Transformer(ModelArgs(dropout_p=0.0, use_attn_mask=local_heads))
                    tokens = torch.arange(32).view(2, 16) % 8
                    tp = Transformer.parallelize(copy.deepcopy(plain), mesh, by_sequence, local_heads)
                    with sdpa_kernel(SDPBackend.MATH):  # of which DTensor knows the sharding on a CPU
                        self.assertEqual(tp(tokens), plain(tokens), atol=1e-5, rtol=1e-5)
                    self.assertIs(tp.output.weight, tp.tok_embeddings.weight)


class AloneTest(unittest.TestCase):
    """In this process."""

    def test_causal(self) -> None:
        """A later token changes nothing before it; without the mask it does."""
        first = torch.tensor([[1, 2, 3, 4]])
        second = torch.tensor([[1, 2, 3, 5]])
        for mask in (True, False):
            torch.manual_seed(0)
            model = Transformer(ModelArgs(dropout_p=0.0, use_attn_mask=mask))
            same = torch.allclose(model(first)[:, :3], model(second)[:, :3])
            self.assertEqual(same, mask)

    def test_checkpointed(self) -> None:
        """Recomputed activations give the same gradients."""
        gradients = []
        for again in (True, False):
            torch.manual_seed(0)
            model = Transformer(ModelArgs(dropout_p=0.0, checkpoint_activations=again))
            model(torch.tensor([[1, 2]])).sum().backward()
            gradients.append(model.norm.weight.grad)
        torch.testing.assert_close(*gradients)

    def test_wrong_sizes(self) -> None:
        with self.assertRaisesRegex(ValueError, "heads cannot share"):
            Transformer(ModelArgs(dim=6))
        with self.assertRaisesRegex(ValueError, "max_seq_len is 16"):
            Transformer(ModelArgs())(torch.zeros(1, 17, dtype=torch.long))


if __name__ == "__main__":
    unittest.main()
