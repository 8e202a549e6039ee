"""Tests that models train in FSDP1 as in DDP, and that a model that does not is told so."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from harness import (
    AlwaysWrapNestedWrappedModule,
    DEVICEInitMode,
    DummyDDP,
    FSDPInitMode,
    FSDPTest,
    MixtureOfExperts,
    NestedWrappedModule,
    NestedWrappedModuleWithDelay,
    NonUniformReqGradNWM,
    TransformerWithSharedParams,
)

RECURSIVE, AFTER = FSDPInitMode.RECURSIVE, DEVICEInitMode.DEVICE_AFTER


class ParityTest(FSDPTest):
    """Each model beside itself in DDP, on two ranks."""

    world_size = 2

    def test_nested(self) -> None:
        self._test_fsdp_parity(NestedWrappedModule, RECURSIVE, DEVICEInitMode.DEVICE_BEFORE)

    def test_always_wrapped(self) -> None:
        self._test_fsdp_parity(AlwaysWrapNestedWrappedModule, RECURSIVE, AFTER)

    def test_one_trained_layer(self) -> None:
        self._test_fsdp_parity(NonUniformReqGradNWM, RECURSIVE, AFTER, use_orig_params=True)

    def test_experts(self) -> None:
        """Every rank has another expert, so the reference is no DDP."""
        self._test_fsdp_parity(MixtureOfExperts, RECURSIVE, AFTER, ref_init_fn=DummyDDP)

    def test_delayed(self) -> None:
        delays = {"delay_after_loss_ms": 1, "delay_before_reduction_ms": 1}
        self._test_fsdp_parity(NestedWrappedModuleWithDelay, RECURSIVE, AFTER, init_kwargs=delays)

    def test_shared_parameters(self) -> None:
        self._test_fsdp_parity(TransformerWithSharedParams, RECURSIVE, AFTER)

    def test_wrong_gradient(self) -> None:
        """A reference that trains on another gradient is not taken for equal."""

        class Doubled(DummyDDP):
            """A model whose output is twice as large."""

            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return 2 * super().forward(*args, **kwargs)

        with self.assertRaisesRegex(AssertionError, "not close"):
            self._test_fsdp_parity(NestedWrappedModule, RECURSIVE, AFTER, ref_init_fn=Doubled)

    def test_wrong_saving(self) -> None:
        """Parameters that a state dict loses are noticed."""
        with mock.patch.object(nn.Module, "load_state_dict"), self.assertRaises(AssertionError):
            self._test_fsdp_parity(NestedWrappedModule, RECURSIVE, AFTER)

    def test_nothing_to_compare(self) -> None:
        with self.assertRaisesRegex(ValueError, "nothing to compare"):
            self._test_fsdp_parity(NestedWrappedModule, FSDPInitMode.NO_FSDP, AFTER)

    def test_loss_dtype(self) -> None:
        """A loss of another dtype than the parameters' is a failure."""

        class Halved(NestedWrappedModule):
            """A model whose loss is in half precision."""

            def get_loss(self, input: tuple[Tensor, ...], output: Tensor) -> Tensor:
                return super().get_loss(input, output).to(torch.bfloat16)

        with self.assertRaisesRegex(AssertionError, "loss's dtype"):
            self._test_fsdp_parity(Halved, RECURSIVE, AFTER)


if __name__ == "__main__":
    unittest.main()
