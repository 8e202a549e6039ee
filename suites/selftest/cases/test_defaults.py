"""Tests the world size, device and backend that follow from the machine."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from harness.cases import defaults
from harness.requirements import MachineFacts


class MachineTest(unittest.TestCase):
    """What is chosen on machines of several kinds."""

    def on(self, **facts: Any) -> Any:
        """Pretends that the machine is another."""
        return mock.patch.object(defaults, "probe", lambda: MachineFacts(**facts))

    def test_table(self) -> None:
        """World size and device types are those of upstream's ``common_dtensor``."""
        table = (
            ((), False, 4, "cpu", "cpu"),
            ((("mps", 1),), False, 4, "cpu", "cpu"),
            ((("cuda", 1),), False, 4, "cpu", "cuda"),
            ((("cuda", 2),), False, 2, "cuda", "cuda"),
            ((("cuda", 3),), False, 3, "cuda", "cuda"),
            ((("cuda", 8),), False, 4, "cuda", "cuda"),
            ((("cuda", 1),), True, 2, "cpu", "cuda"),
            ((("xpu", 8),), False, 4, "xpu", "xpu"),
        )
        for accelerators, rocm, ranks, kind, first in table:
            with (
                self.subTest(accelerators=accelerators, rocm=rocm),
                self.on(accelerators=accelerators, rocm=rocm),
            ):
                self.assertEqual(defaults.num_devices(), ranks)
                self.assertEqual(defaults.device_type_for(ranks), kind)
                self.assertEqual(defaults.accelerator()[0], first)

    def test_backend(self) -> None:
        """The backend is torch's own choice."""
        self.assertEqual([defaults.backend_for(d) for d in ("cpu", "cuda")], ["gloo", "nccl"])


if __name__ == "__main__":
    unittest.main()
