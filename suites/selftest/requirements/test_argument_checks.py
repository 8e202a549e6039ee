"""Self-tests of harness.requirements.argument_checks: wrong arguments fail on the decorator's line."""

from __future__ import annotations

import math
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from harness import requirements as r


def body(self: object) -> None:
    """Stands for a test that is passed where an argument is expected, as in a use without parentheses."""


anything: Any = body

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: r.skip_if_lt_x_gpu(-1), "x is -1; give a whole number, 0 or more"),
    (lambda: r.skip_if_lt_x_gpu(anything), "x is <function body"),
    (lambda: r.skip_if_lt_x_gpu(True), "x is True"),
    (lambda: r.at_least_x_gpu(-1), "x is -1"),
    (lambda: r.requires_world_size(0), "n is 0; give a whole number, 1 or more"),
    (lambda: r.requires_world_size(anything), "n is <function body"),
    (lambda: r.nccl_skip_if_lt_x_gpu("nccl", -2), "x is -2"),
    (lambda: r.nccl_skip_if_lt_x_gpu("ncll", 2), "unknown backend 'ncll'; give one of gloo, nccl"),
    (lambda: r.require_n_gpus_for_nccl_backend(2, "cuda"), "unknown backend 'cuda'"),
    (lambda: r.requires_accelerator_dist_backend([]), "no backend given; name at least one of"),
    (lambda: r.requires_accelerator_dist_backend(["necl"]), "unknown backend 'necl'"),
    (lambda: r.requires_backend(), "no backend given"),
    (lambda: r.requires_backend("gloo", "glue"), "unknown backend 'glue'"),
    (lambda: r.requires_backend(anything), "unknown backend <function body"),
    (lambda: r.requires_device_type("gpu"), "unknown device type 'gpu'; give one of cpu, cuda"),
    (lambda: r.requires_device_type(), "no device type given"),
    (lambda: r.requires_nccl_version(anything, "x"), "give the version as a tuple"),
    (lambda: r.requires_nccl_version((), "x"), "give the version as a tuple"),
    (lambda: r.requires_nccl_version((2, -1), "x"), "a part of version is -1"),
    (lambda: r.requires_nccl_version((2,), anything), "give the reason as a string"),
    (lambda: r.skip_if_rocm_ver_lessthan_multiprocess(anything), "give the version as a tuple"),
    (lambda: r.skip_if_rocm_arch_multiprocess(anything), "give ROCm architectures"),
    (lambda: r.skip_if_rocm_arch_multiprocess(()), "give ROCm architectures"),
    (lambda: r.skip_if_rocm_arch_multiprocess(("mi300",)), "give ROCm architectures"),
    (lambda: r.skip_but_pass_in_sandcastle(anything), "give the reason as a string"),
    (lambda: r.skipIfRocm(msg=anything), "give the reason as a string"),
    (lambda: r.timeout(0), "seconds is 0; give a number of seconds above 0"),
    (lambda: r.timeout(math.inf), "seconds is inf"),
    (lambda: r.timeout(math.nan), "seconds is nan"),
    (lambda: r.timeout(anything), "seconds is <function body"),
    (lambda: r.cpu_slots(0), "n is 0; give a whole number, 1 or more"),
    (lambda: r.memory_mb(-1), "n is -1"),
    (lambda: r.exclusive(anything.__doc__), "is no test; put the decorator on"),
    (lambda: r.with_dist_debug_levels([]), "give a non-empty list out of OFF, INFO, DETAIL"),
    (lambda: r.with_dist_debug_levels(["INFO", "LOUD"]), "'LOUD'"),
    (lambda: r.with_dist_debug_levels(anything), "debug levels are <function body"),
    (lambda: r.with_dist_debug_levels("LOUD"), "'LOUD'"),
    (lambda: r.retry_on_connect_failures(connect_errors=anything), "give the messages to retry on"),
    (lambda: r.retry_on_connect_failures(connect_errors=()), "give the messages to retry on"),
    (lambda: r.retry_on_connect_failures(connect_errors=("",)), "give the messages to retry on"),
    (lambda: r.skip_if_no_gpu(type("NoTestCase", (), {})), "NoTestCase is no unittest.TestCase"),
]


class Arguments(unittest.TestCase):
    """Wrong arguments of every decorator, and names that only a loaded torch knows."""

    def test_wrong_ones(self) -> None:
        """Each wrong argument is a ValueError whose message says what to give instead."""
        for number, (call, message) in enumerate(WRONG):
            with self.subTest(number=number, message=message):
                with self.assertRaises(ValueError) as caught:
                    call()
                self.assertIn(message, str(caught.exception))

    def test_what_a_plug_in_has_registered_with_a_loaded_torch_is_known(self) -> None:
        loaded = {
            "torch": mock.Mock(**{"_C._get_privateuse1_backend_name": lambda: "npu"}),
            "torch.distributed": mock.Mock(**{"Backend.backend_list": ["gloo", "lccl"]}),
        }
        with mock.patch.dict("sys.modules", loaded):
            backend, device = r.requires_backend("lccl"), r.requires_device_type("npu")
        decorated = backend(device(body))
        merged = r.requirements_of(type("Case", (unittest.TestCase,), {"test_it": decorated}), "test_it")
        reasons = [item.reason for item in merged.items]
        self.assertEqual(reasons, ["needs a torch build with the lccl backend", "needs a npu device"])


if __name__ == "__main__":
    unittest.main()
