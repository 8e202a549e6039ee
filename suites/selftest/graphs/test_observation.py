"""``observe``: the contents of an ``Observation``."""

from __future__ import annotations

import unittest

import torch

from harness import TestCase
from harness.graphs.observation import PreparedCall, observe, weighted_sum


class ObservationTest(TestCase):
    """``observe`` on functions whose behaviour is known."""

    def prepared(self, *arguments: torch.Tensor, leaves: tuple[torch.Tensor, ...] = ()) -> PreparedCall:
        """A call with the arguments a, b and c."""
        named = list(zip("abc", arguments, strict=False))
        return PreparedCall(
            torch.clone, arguments, named, [(f"leaf {index}", leaf) for index, leaf in enumerate(leaves)]
        )

    def test_moments(self) -> None:
        """There is a moment after the call, the backward, and each write to an output, with its error."""
        leaf = torch.ones(2, requires_grad=True)
        x = torch.ones(2)

        def f(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            b.add_(1)
            return a, b.view(2)

        seen = observe(f, self.prepared(leaf, x, leaves=(leaf,)), write=True)
        labels = [
            "after the call",
            "after the backward",
            "after writing to output 0",
            "after writing to output 1",
        ]
        self.assertEqual([moment.label for moment in seen.moments], labels)
        values = [moment.inputs["b"].values for moment in seen.moments]
        self.assertEqual(
            torch.stack([v for v in values if v is not None])[:, 0], torch.tensor([2.0, 2, 2, 4])
        )
        self.assertIsInstance(seen.moments[2].error, RuntimeError)
        self.assertIsNone(seen.moments[3].error)

    def test_gradients(self) -> None:
        """Gradients are taken through each output alone, and are None where nothing flows."""
        one, other = (torch.ones(3, requires_grad=True) for _ in "ab")
        seen = observe(
            lambda a, b: (a * 2, b + a, a.detach()),
            self.prepared(one, other, leaves=(one, other)),
            write=False,
        )
        found = {
            key: None if gradient is None else gradient.values for key, gradient in seen.gradients.items()
        }
        weights = torch.tensor([0.25, 0.5, 0.75])
        self.assertEqual(
            found,
            {
                ("output 0", "leaf 0"): 2 * weights,
                ("output 0", "leaf 1"): None,
                ("output 1", "leaf 0"): weights,
                ("output 1", "leaf 1"): weights,
            },
        )
        self.assertIsNone(one.grad)

    def test_gradients_of_written_inputs(self) -> None:
        """Gradients are taken through inputs that were written to but not returned, or through given ones."""
        leaf, other = (torch.ones(2, requires_grad=True) for _ in "ab")

        def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            a.mul_(3)
            return b.mul_(2)

        def seen(written: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
            arguments = leaf * 1, other * 1, other * 1
            prepared = self.prepared(*arguments, leaves=(leaf, other))
            run = observe(f, prepared, write=False, written=written)
            return run.written, [key for key, gradient in run.gradients.items() if gradient is not None]

        self.assertEqual(seen(None), (("a",), [("the output", "leaf 1"), ("a", "leaf 0")]))
        self.assertEqual(seen(()), ((), [("the output", "leaf 1")]))
        self.assertEqual(seen(("b", "c"))[0], ("c",))

    def test_written_input_without_backward(self) -> None:
        """A written input whose backward fails is left out, and the leaves keep no gradient of it."""
        leaf = torch.ones(2, requires_grad=True)

        def f(a: torch.Tensor) -> None:
            a.copy_(a.sin())
            a.mul_(2)

        seen = observe(f, self.prepared(leaf * 1, leaves=(leaf,)), write=False)
        self.assertEqual((seen.written, seen.gradients, leaf.grad), ((), {}, None))

    def test_weights(self) -> None:
        """The weighted sum is a real scalar for any dtype and layout."""
        for tensor in (torch.ones(2, 2), torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse()):
            total = weighted_sum(tensor.requires_grad_())
            self.assertEqual((total.shape, total.is_complex()), ((), False))


if __name__ == "__main__":
    unittest.main()
