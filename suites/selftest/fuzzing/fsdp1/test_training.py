"""Tests how the units of a module are wrapped, and that training is compared, in one rank."""

from __future__ import annotations

import unittest
import warnings

import torch.distributed
from torch.distributed.fsdp import FullyShardedDataParallel

from harness.fuzzing.blocks import model_source
from harness.fuzzing.fsdp.meshes import mesh_of
from harness.fuzzing.fsdp1.training import check_fsdp1, wrapped
from harness.fuzzing.training import made, model_of

MODEL = model_of(model_source(("shared", "odd", "shared")))
STEP = (1, "once", False, False, "", False)


class TrainingTest(unittest.TestCase):
    def setUp(self) -> None:
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # FSDP1 says that one rank shards nothing
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        )
        self.addCleanup(torch.distributed.destroy_process_group)

    def test_units(self) -> None:
        """A module that stands under two names is wrapped once, under both of them."""
        for names in (["shared0", "odd1", "shared2"], ["shared2", "odd1"]):
            module = made(MODEL)
            wrapped(module, mesh_of((1,)), names, [], {"orig": True})
            self.assertIs(module.get_submodule("shared0"), module.get_submodule("shared2"))
            units = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
            self.assertEqual(len(units), 2)

    def test_compared(self) -> None:
        """What trains in the same way passes; a buffer, a parameter or a gradient that differs is named."""
        check_fsdp1(MODEL, (1,), ["odd1"], [], {"orig": True}, [STEP, STEP], "adam")
        others = [made(MODEL), made(MODEL)]
        with torch.no_grad():
            others[1].get_parameter("first.bias").add_(1)
        models = iter(others)
        with self.assertRaisesRegex(AssertionError, r"^gradient of \S+ differs\nafter step 0"):
            check_fsdp1(lambda: next(models, made(MODEL)), (1,), [], [], {"orig": True}, [STEP], "sgd")


if __name__ == "__main__":
    unittest.main()
