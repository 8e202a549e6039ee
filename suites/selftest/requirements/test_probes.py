"""Self-tests of harness.requirements.probes: the facts of this machine and of made-up ones."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from harness.requirements import probe, probes
from harness.system import control_group


class ThisMachine(unittest.TestCase):
    """The facts of the machine that runs this test."""

    def test_agrees_with_torch(self) -> None:
        facts = probe()
        self.assertEqual(facts.devices("cuda"), torch.cuda.device_count())
        self.assertEqual("gloo" in facts.backends, torch.distributed.is_gloo_available())
        self.assertEqual("nccl" in facts.backends, torch.distributed.is_nccl_available())
        self.assertEqual(facts.rocm_version is not None, torch.version.hip is not None)
        self.assertEqual(facts.platform, sys.platform)
        self.assertNotIn("undefined", facts.backends)

    def test_makes_no_accelerator_context(self) -> None:
        probes._probe.cache_clear()
        probe()
        self.assertFalse(torch.cuda.is_initialized())

    def test_is_found_out_once_for_each_set_of_visible_devices(self) -> None:
        first = probe()
        self.assertIs(probe(), first)
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "17,18"}):
            self.assertIsNot(probe(), first)
        self.assertIs(probe(), first)

    def test_multicast_without_cuda(self) -> None:
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            self.assertFalse(probes.multicast_here())


class Accelerators(unittest.TestCase):
    """Machines made of stand-ins for torch, which have only what the probe reads."""

    def found(self, current: str | None, **counts: int) -> dict[str, int]:
        device = SimpleNamespace(type=current) if current else None
        fake: Any = SimpleNamespace(
            accelerator=SimpleNamespace(current_accelerator=lambda: device),
            **{
                kind: SimpleNamespace(device_count=lambda count=count: count)
                for kind, count in counts.items()
            },
        )
        return probes._accelerators(fake)

    def test_machines(self) -> None:
        self.assertEqual(self.found(None, cuda=0, xpu=0), {})
        self.assertEqual(self.found("cuda", cuda=8, xpu=0), {"cuda": 8})
        self.assertEqual(self.found("hpu", cuda=0, hpu=4), {"hpu": 4})
        self.assertEqual(self.found("xpu", xpu=2), {"xpu": 2})
        self.assertEqual(self.found("npu", cuda=0, npu=3), {"npu": 3})
        self.assertEqual(self.found("privateuseone"), {})

    def test_metal_must_be_available_as_well(self) -> None:
        for available, expected in ((True, {"mps": 1}), (False, {})):
            fake: Any = SimpleNamespace(
                accelerator=SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type="mps")),
                backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda value=available: value)),
                mps=SimpleNamespace(device_count=lambda: 1),
            )
            self.assertEqual(probes._accelerators(fake), expected)

    def test_a_build_without_distributed_has_no_backend(self) -> None:
        fake: Any = SimpleNamespace(distributed=SimpleNamespace(is_available=lambda: False))
        self.assertEqual(probes._backends(fake, {}), frozenset())

    def test_hccl_comes_with_the_device(self) -> None:
        self.assertIn("hccl", probes._backends(torch, {"hpu": 1}))
        self.assertNotIn("hccl", probes._backends(torch, {"xpu": 1}))

    def test_the_suffix_of_an_nccl_version_is_left_out(self) -> None:
        with mock.patch("torch.cuda.nccl.version", return_value=(2, 27, 3, "meta")):
            self.assertEqual(probes._nccl_version(), (2, 27, 3))


class Rocm(unittest.TestCase):
    """Architectures and versions of ROCm."""

    def arch(self, *targets: int) -> str | None:
        with tempfile.TemporaryDirectory() as directory:
            for number, target in enumerate(targets):
                node = Path(directory, str(number))
                node.mkdir()
                text = f"cpu_cores_count 0\nsimd_count 4\ngfx_target_version {target}\nname\n"
                (node / "properties").write_text(text)
            return probes.rocm_arch(Path(directory))

    def test_the_first_node_that_is_a_gpu(self) -> None:
        self.assertEqual(self.arch(0, 90402, 90010), "gfx942")
        self.assertEqual(self.arch(90010), "gfx90a")
        self.assertEqual(self.arch(0, 0, 110001), "gfx1101")
        self.assertEqual(self.arch(121000), "gfx12a0")
        self.assertEqual(self.arch(*[0] * 9, 90008, 100300), "gfx908")

    def test_a_machine_without_one(self) -> None:
        self.assertIsNone(self.arch(0, 0))
        self.assertIsNone(probes.rocm_arch(Path("/nonexistent")))

    def test_versions(self) -> None:
        self.assertEqual(probes.parse_version("6.3.42134-a9a80e791"), (6, 3, 42134))
        self.assertEqual(probes.parse_version("7.0.rc1"), (7, 0))
        self.assertEqual(probes.parse_version(""), ())


class Modules(unittest.TestCase):
    """Modules that may be missing."""

    def test_presence_is_found_out_without_an_import(self) -> None:
        self.assertTrue(probes.module_is_there("unittest.mock"))
        self.assertTrue(probes.module_is_there("this"))
        self.assertNotIn("this", sys.modules)
        self.assertFalse(probes.module_is_there("no_such_package.sub"))
        with mock.patch.dict(sys.modules, {"json": None}):
            self.assertFalse(probes.module_is_there("json"))

    def test_an_import_needs_the_names_too(self) -> None:
        self.assertTrue(probes.module_imports("json", ("loads",)))
        self.assertFalse(probes.module_imports("json", ("loads", "no_such_name")))
        self.assertFalse(probes.module_imports("no_such_package"))


class Memory(unittest.TestCase):
    """The memory that this process may use."""

    def test_a_group_limit_below_the_machine_counts(self) -> None:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // probes.MIB
        for limit, wanted in ((None, whole), (1 << 59, whole), (64 << 20, 64)):
            with (
                self.subTest(limit=limit),
                mock.patch.object(control_group, "memory_limit", return_value=limit),
            ):
                self.assertEqual(probes._memory_mb(), wanted)


if __name__ == "__main__":
    unittest.main()
