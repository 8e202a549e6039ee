"""Tests the models of which tests keep layers out of FSDP1."""

from __future__ import annotations

import unittest

import torch

import harness


class SkipModelTest(unittest.TestCase):
    """Outside of ``enable_wrap`` nothing is wrapped."""

    def test_forward(self) -> None:
        self.assertEqual(harness.SkipModel(double_nest=True)(torch.ones(2, 10)).shape, (2, 10))


if __name__ == "__main__":
    unittest.main()
