"""Tests which all-reduces are merged into one bucket, and that no result is read before it is computed."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from harness.graphs import collectives_of, count_collectives, unwaited
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sum_step

MIB = 2**20


def layers(*widths: int) -> nn.Sequential:
    """Linear layers in float32, each with a weight and a bias."""
    return nn.Sequential(*[nn.Linear(one, other) for one, other in itertools.pairwise(widths)])


class BucketsTest(StepTestCase):
    """A step with buckets is bitwise equal to the eager step."""

    def buckets(self, module: nn.Module, bucket_mb: float, function: Any = sum_step) -> list[int]:
        """The payloads of a step's all-reduces in bytes, in the graph's order."""
        compiled = self.same_as_eager(
            module,
            function,
            optimizer=lambda m: SGD(m.parameters(), lr=0.1, momentum=0.9),
            bucket_mb=bucket_mb,
            warm_up=True,
        )
        self.assertEqual(unwaited(compiled.gm.graph), [])
        return [each.payload_bytes for each in collectives_of(compiled.gm)]

    def test_all_in_one(self) -> None:
        self.assertEqual(self.buckets(layers(3, 4, 2), 1), [4 * (3 * 4 + 4 + 4 * 2 + 2)])

    def test_limit(self) -> None:
        # In the order of backward: bias and weight of the second layer (8 and 32 bytes), then of the first
        # (16 and 48).
        cases = ((40, [40, 16, 48]), (56, [56, 48]), (64, [56, 48]), (104, [104]), (10, [8, 32, 16, 48]))
        for limit, payloads in cases:
            with self.subTest(limit=limit):
                self.assertEqual(self.buckets(layers(3, 4, 2), limit / MIB), payloads)

    def test_dtypes_apart(self) -> None:
        class Mixed(nn.Module):  # type: ignore[misc]  # torch is not followed
            """A layer of float32 around one of float64."""

            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3).double()
                self.third = nn.Linear(3, 2)

            def forward(self, x: Tensor) -> Tensor:
                """Applies the layers one after another, with casts in between."""
                return self.third(self.second(self.first(x).double()).float())

        self.assertEqual(sorted(self.buckets(Mixed(), 1)), [4 * (12 + 8), 8 * 12])

    def test_gradients_that_are_read_in_between(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            hidden = module[0](x)
            inner = hidden.detach().requires_grad_()
            module[1](inner).sum().backward()
            scale = module[
                1
            ].weight.grad.sum()  # a sum over ranks, which the first layer's gradients are made of
            hidden.backward(inner.grad * scale)
            optimizer.step()
            return scale

        self.assertEqual(self.buckets(layers(3, 4, 2), 1, step), [40, 64])

    def test_other_all_reduces_stay(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            loss = sum_step(module, optimizer, x)
            total = torch.ops._c10d_functional.all_reduce(loss, "sum", "0")
            return torch.ops._c10d_functional.wait_tensor(total)

        found = self.buckets(layers(3, 2), 1, step)
        self.assertEqual(found, [4 * 8, 4])

    def test_transposed_gradients(self) -> None:
        module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        compiled = self.same_as_eager(module, inputs=[[x], [x + 1]], bucket_mb=1)
        self.assertEqual(count_collectives(compiled.gm), {"all_reduce": 1})

    def test_overrides_see_buckets(self) -> None:
        seen: list[Any] = []

        def transformation(gm: Any) -> Any:
            seen.append(count_collectives(gm))
            return gm

        module, optimizer, x = self.linear()
        step = compile(gm_transformation=transformation, bucket_mb=1)(sum_step)
        step(module, optimizer, x)
        self.assertEqual(seen, [{"all_reduce": 1}])
        self.assertEqual(count_collectives(compiled_of(step).gm), {"all_reduce": 1})


if __name__ == "__main__":
    unittest.main()
