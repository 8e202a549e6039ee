"""``VerificationResult``: the graphs that its properties return."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from harness import TestCase
from harness.graphs.capture import CapturedGraph, Role
from harness.graphs.verified import VerificationResult


def captured(role: Role, function: Callable[[torch.Tensor], torch.Tensor] = torch.sin) -> CapturedGraph:
    """The graph of ``function``, captured in a role."""
    return CapturedGraph.of(role, make_fx(function)(torch.ones(2)))


class VerifiedTest(TestCase):
    """The properties of a ``VerificationResult``."""

    def test_training(self) -> None:
        """Each property returns the graph of its role, and its text starts with the role."""
        verified = VerificationResult(
            (captured("joint", torch.neg), captured("forward"), captured("backward", torch.cos)),
            returned=None,
        )
        x = torch.tensor([0.5, 1.0])
        for role, module, text, expected in (
            ("forward", verified.forward, verified.forward_text, x.sin()),
            ("backward", verified.backward, verified.backward_text, x.cos()),
        ):
            with self.subTest(role):
                assert module is not None
                self.assertEqual(module(x), expected)
                self.assertTrue(text.startswith(f"{role}("), text)

    def test_inference(self) -> None:
        """Without a backward the inference graph is the forward, and the other graphs are missing."""
        verified = VerificationResult((captured("inference"),), returned=None)
        self.assertIsNotNone(verified.forward)
        self.assertTrue(verified.forward_text.startswith("inference("))
        self.assertIsNone(verified.backward)
        self.assertEqual(verified.backward_text, "")
        self.assertIsNone(verified.graph("joint"))

    def test_several_graphs(self) -> None:
        """Of several graphs with one role the last is returned."""
        first, last = captured("forward"), captured("forward", torch.cos)
        verified = VerificationResult((first, captured("backward"), last), returned=None)
        self.assertIs(verified.graph("forward"), last)
        self.assertIs(verified.graph("inference", "forward"), last)
        self.assertIn("cos", verified.forward_text)
        self.assertIsNone(verified.graph("joint"))

    def test_no_graph(self) -> None:
        """Where nothing was compiled there is no graph."""
        verified = VerificationResult((), returned=3)
        self.assertEqual((verified.forward, verified.forward_text, verified.returned), (None, "", 3))


if __name__ == "__main__":
    unittest.main()
