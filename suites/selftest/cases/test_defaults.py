"""Tests the world size, device and backend that follow from the machine."""

from __future__ import annotations

import sys
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from harness.cases import defaults
from harness.requirements import MachineFacts
from harness.system import accelerators as used_accelerators
from harness.targets import Target


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

    def test_world_size(self) -> None:
        """Upstream's number of ranks by GPUs, without what starts CUDA's runtime: ``is_available``."""
        for count, ranks in ((0, 4), (1, 2), (2, 2), (3, 3), (4, 4), (8, 4)):
            double = SimpleNamespace(cuda=SimpleNamespace(device_count=lambda count=count: count))
            with self.subTest(count=count), mock.patch.dict(sys.modules, {"torch": double}):
                self.assertEqual(defaults.world_size(), ranks)


class TargetTest(unittest.TestCase):
    """What is chosen in a run that asks for a target."""

    def target(self, device_type: str, count: int, ranks_per_device: int = 1) -> Any:
        """Pretends that the run asks for a target with so many devices."""
        used: list[int] = []
        self.used = used
        found = Target(
            *("mine", device_type, {}),
            device_count=lambda: count,
            set_device=used.append,
            ranks_per_device=ranks_per_device,
        )
        return mock.patch.multiple(defaults, target_given=lambda environ: True, current=lambda: found)

    def test_cpu(self) -> None:
        """On the CPU the backend is the target's, whatever accelerators the machine has."""
        machine = mock.patch.object(defaults, "probe", lambda: MachineFacts(accelerators=(("cuda", 8),)))
        with machine, self.target("cpu", 1):
            self.assertEqual(defaults.accelerator(), ("cpu", 0))
            self.assertEqual((defaults.rank_per_accelerator(), defaults.num_devices()), (2, 4))
            self.assertEqual([defaults.backend_for(d) for d in ("cpu", "cuda")], ["mine", "nccl"])

    def test_accelerator(self) -> None:
        """An accelerator has the target's number of devices and backend, and the target sets a rank's own."""
        for count, ranks in ((1, 1), (2, 2), (8, 8)):
            with self.subTest(count), self.target("xpu", count):
                self.assertEqual(defaults.accelerator(), ("xpu", count))
                self.assertEqual(defaults.rank_per_accelerator(), ranks)
                self.assertEqual(defaults.device_type_for(2), "xpu")
                self.assertEqual([defaults.backend_for(d) for d in ("xpu", "cpu")], ["mine", "gloo"])
                defaults.use_device(count - 1)
                self.assertEqual(self.used, [count - 1])

    def test_shared_accelerator(self) -> None:
        """A single one that takes several ranks has two of FSDP's tests; more have one each as ever."""
        for count, ranks in ((1, 2), (4, 4)):
            with self.subTest(count), self.target("xpu", count, ranks_per_device=8):
                self.assertEqual(defaults.rank_per_accelerator(), ranks)
                self.assertEqual(defaults.most_ranks(), 8 * count)
        with self.target("xpu", 3):
            self.assertEqual(defaults.most_ranks(), 3)
        with self.target("cpu", 1):
            self.assertEqual(defaults.most_ranks(), 0)

    def test_device_of_a_rank(self) -> None:
        """The target's devices or the machine's in turn; the CPU where a test is on it, whatever is there."""
        with self.target("xpu", 2):
            self.assertEqual([defaults.device_of(rank, "xpu").index for rank in range(3)], [0, 1, 0])
            self.assertEqual(defaults.device_of(1, "cpu"), torch.device("cpu"))
        module = SimpleNamespace(device_count=lambda: 3)
        with mock.patch.object(torch, "get_device_module", return_value=module):
            self.assertEqual(defaults.device_of(4, "cuda"), torch.device("cuda", 1))

    def test_await_devices(self) -> None:
        """The target waits for its device, torch's module for any other, and nobody where none is used."""
        waited: list[str] = []

        def module(kind: str) -> Any:
            return SimpleNamespace(synchronize=lambda: waited.append(kind))

        def of_target() -> None:
            waited.append("the target's")

        target = Target("mine", "xpu", {}, synchronize=of_target)
        for plugged, used, wanted in (
            (target, (), []),
            (target, ("xpu", "cuda"), ["the target's", "cuda"]),
            (None, ("xpu",), ["xpu"]),
        ):
            waited.clear()
            modules = {kind: module(kind) for kind in used}
            with (
                self.subTest(plugged=plugged, used=used),
                mock.patch.object(defaults, "_asked_for", lambda plugged=plugged: plugged),
                mock.patch.object(used_accelerators, "in_use", lambda modules=modules: modules),
            ):
                defaults.await_devices()
                self.assertEqual(waited, wanted)


if __name__ == "__main__":
    unittest.main()
