"""Tests what is told of two trainings of a module: that differences are seen, and which come first."""

from __future__ import annotations

import unittest

import torch

from harness.fuzzing.training import difference, differences


class DifferencesTest(unittest.TestCase):
    def test_difference(self) -> None:
        """What is told of two tensors begins with the name, and says what kind of difference it is."""
        one = torch.ones(2, dtype=torch.float64)
        self.assertEqual(difference("g", one, one + 1e-12, 1e-8), "")
        self.assertEqual(difference("g", None, None, 1e-8), "")
        self.assertEqual(difference("g", one * torch.nan, one * torch.nan, 1e-8), "")
        for got, right, text in (
            (one, one + 1e-4, "g differs"),
            (one, one * torch.nan, "g differs"),
            (None, one, "g is None"),
            (one, None, "g is there, but should be None"),
            (one, one.float(), "g has torch.float64"),
            (one, one[:1], r"g has .*\(2,\)"),
        ):
            with self.subTest(text):
                self.assertRegex(difference("g", got, right, 1e-8), text)

    def test_tolerance(self) -> None:
        """Where a parameter is of float32, the gradients of others are as exact as that is."""
        double, single = torch.ones(2, dtype=torch.float64), torch.ones(2)
        for own, count in (({"a": double}, 1), ({"a": double, "b": single}, 0)):
            with self.subTest(own):
                found = {**own, "a": double + 1e-6}
                self.assertEqual(len(differences([found], [own])), count)

    def test_rounding(self) -> None:
        """What is left of large gradients that cancel is no difference, in that step and in later ones."""
        zero, noise = torch.zeros(1, dtype=torch.float64), torch.full((1,), 9.0, dtype=torch.float64)
        for largest, count in ((1.0, 2), (1e17, 0), (torch.inf, 2), (torch.nan, 2)):
            large = {"gradient of b": torch.full((2,), largest, dtype=torch.float64), "gradient of c": None}
            with self.subTest(largest):
                found = [{**large, "gradient of a": noise}, {"a": noise}]
                right = [{**large, "gradient of a": zero}, {"a": zero}]
                self.assertEqual(len(differences(found, right)), count)

    def test_rounding_by_precision(self) -> None:
        """Gradients of float32 leave more than those of float64: a bias before a norm had 2e-3 of 20."""
        zero, left = torch.zeros(1), torch.full((1,), 2e-3)
        for dtype, count in ((torch.float32, 0), (torch.float64, 1)):
            with self.subTest(dtype):
                large = {"gradient of b": torch.full((2,), 20.0, dtype=dtype)}
                self.assertEqual(len(differences([{**large, "a": left}], [{**large, "a": zero}])), count)

    def test_training_that_diverges(self) -> None:
        """What was rounded grows with it: a bias before a norm had 1e6 of 3e18 in float64."""
        zero, left = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e6, dtype=torch.float64)
        for size, count in ((3e18, 0), (3e12, 1)):
            with self.subTest(size):
                large = {"gradient of b": torch.full((2,), size, dtype=torch.float64)}
                self.assertEqual(len(differences([{**large, "a": left}], [{**large, "a": zero}])), count)

    def test_steps(self) -> None:
        """The first step that differs is named, and later steps of other ranks do not count."""
        one, other = {"g": torch.ones(1)}, {"g": torch.zeros(1)}
        self.assertEqual(differences([one], [one, other]), [])
        self.assertIn("after step 1", differences([one, one], [one, other])[0])


if __name__ == "__main__":
    unittest.main()
