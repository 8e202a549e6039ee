"""Tests which accelerators a process is said to have used."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness.system import accelerators


def module(*, initialized: bool) -> Any:
    """torch's module for a device type."""
    return SimpleNamespace(is_initialized=lambda: initialized)


class InUseTest(unittest.TestCase):
    """What ``in_use`` finds in the modules of torch."""

    def test_table(self) -> None:
        """Those with a context count, that of a device type which somebody has named too."""
        used, idle = module(initialized=True), module(initialized=False)
        core = SimpleNamespace(_get_privateuse1_backend_name=lambda: "mine")
        table: tuple[tuple[Any, list[str]], ...] = (
            (None, []),
            (SimpleNamespace(), []),
            (SimpleNamespace(cuda=idle, xpu=idle, _C=core), []),
            (SimpleNamespace(cuda=used, xpu=idle, _C=core), ["cuda"]),
            (SimpleNamespace(cuda=idle, mine=used, _C=core), ["mine"]),
            (SimpleNamespace(cuda=SimpleNamespace(), hpu=used, mine=idle, _C=core), ["hpu"]),
        )
        for torch, found in table:
            with self.subTest(torch=torch), mock.patch.dict(sys.modules, {"torch": torch}):
                self.assertEqual(list(accelerators.in_use()), found)


class GpuFilesTest(unittest.TestCase):
    """What is done about GPUs, by doubles of their device files and of torch's modules."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.devices = Path(directory.name)

    def test_files(self) -> None:
        """NVIDIA's and ROCm's files count, and files of drivers without a device do not."""
        for name in ("null", "nvidiactl", "nvidia-uvm", "dri"):
            (self.devices / name).touch()
        self.assertFalse(accelerators.has_gpu(self.devices))
        for name in ("nvidia0", "kfd"):
            (self.devices / name).touch()
            self.assertTrue(accelerators.has_gpu(self.devices))
            (self.devices / name).unlink()
        self.assertFalse(accelerators.has_gpu(self.devices / "none"))

    def test_environment(self) -> None:
        """GPUs are counted without their runtime unless the user has said how; without any nothing is set."""
        counted = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        self.assertEqual(accelerators.keep_forkable({}, self.devices), {})
        (self.devices / "nvidia3").touch()
        self.assertEqual(accelerators.keep_forkable({}, self.devices), counted)
        self.assertEqual(accelerators.keep_forkable({"PYTORCH_NVML_BASED_CUDA_CHECK": "0"}, self.devices), {})

    def test_questions(self) -> None:
        """A fork is asked about GPUs where there are any, and about a device type that somebody has named."""
        cuda, mine = (SimpleNamespace(_is_in_bad_fork=lambda: True) for _ in range(2))
        core = SimpleNamespace(_get_privateuse1_backend_name=lambda: "mine")
        torch = SimpleNamespace(cuda=cuda, xpu=SimpleNamespace(), mine=mine, _C=core)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            self.assertEqual(len(accelerators.questions_for_a_fork(self.devices)), 1)
            (self.devices / "nvidia0").touch()
            self.assertEqual(len(accelerators.questions_for_a_fork(self.devices)), 2)
        with mock.patch.dict(sys.modules, {"torch": None}):
            self.assertEqual(accelerators.questions_for_a_fork(self.devices), [])


if __name__ == "__main__":
    unittest.main()
