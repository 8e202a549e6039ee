"""Tests that servers count GPUs without their runtime and can be forked, by a double of torch's module."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness.system import accelerators, fork_safety, gpu_count


class Cuda:
    """What torch's module for CUDA does: it asks NVML, or the runtime, after which forks are cut off."""

    def __init__(self, devices: int, *, nvml: bool) -> None:
        self._devices = devices
        self._nvml = nvml
        self._runtime_of = 0
        self.asked = 0
        self._cached_device_count: int | None = None

    def device_count(self) -> int:
        """The number of devices, by whichever of the two answers."""
        if self._cached_device_count is not None:
            return self._cached_device_count
        self.asked += 1
        if not self._nvml:
            warnings.warn("Can't initialize NVML", stacklevel=2)
            self._runtime_of = os.getpid()
        return self._devices

    def is_initialized(self) -> bool:
        """Whether there is a context: never here."""
        return False

    def _is_in_bad_fork(self) -> bool:
        return self._runtime_of not in (0, os.getpid())


class GpuCountTest(unittest.TestCase):
    """``tell``, ``heed_environment`` and ``forget``, as a server and its ranks call them in turn."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.devices = Path(directory.name)
        self.enterContext(mock.patch.object(gpu_count, "_told", None))
        self.enterContext(
            mock.patch.object(
                accelerators,
                "questions_for_a_fork",
                lambda: [sys.modules["torch"].cuda._is_in_bad_fork],
            )
        )
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("error")

    def enterContext(self, context: Any) -> Any:
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def told(self, cuda: Cuda, *, gpu: bool = True) -> int | None:
        """What ``tell`` leaves in torch's module on a machine with such GPUs, or without any."""
        if gpu:
            (self.devices / "nvidia0").touch()
        core = SimpleNamespace(_get_privateuse1_backend_name=lambda: "privateuseone")
        self.enterContext(mock.patch.dict(sys.modules, {"torch": SimpleNamespace(cuda=cuda, _C=core)}))
        gpu_count.tell(sys.modules["torch"], self.devices)
        return cuda._cached_device_count

    def test_runtime(self) -> None:
        """Where only the runtime counts, this process knows the number and its forks can use GPUs."""
        cuda = Cuda(4, nvml=False)
        self.assertEqual(self.told(cuda), 4)
        self.assertEqual(cuda.device_count(), 4)
        self.assertTrue(fork_safety.fork_keeps_devices())

    def test_nvml(self) -> None:
        """This process asks NVML nothing either; without a GPU nobody is asked."""
        self.assertIsNone(self.told(Cuda(0, nvml=False), gpu=False))
        cuda = Cuda(4, nvml=True)
        self.assertEqual(self.told(cuda), 4)
        self.assertEqual((cuda.device_count(), cuda.asked), (4, 0))

    def test_after_the_runtime(self) -> None:
        """Where the process has asked the runtime already nothing helps its forks, and nothing is said."""
        cuda = Cuda(4, nvml=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cuda.device_count()
        self.assertIsNone(self.told(cuda))
        self.assertFalse(fork_safety.fork_keeps_devices())

    def test_none_usable(self) -> None:
        """A number of zero is told, too: a machine's file is there, and the runtime uses none."""
        self.assertEqual(self.told(Cuda(0, nvml=False)), 0)

    def test_fewer_visible(self) -> None:
        """A worker whose batch has some of the GPUs counts those; ROCm's variable comes first."""
        cuda = Cuda(4, nvml=False)
        self.told(cuda)
        table: tuple[tuple[dict[str, str], int], ...] = (
            ({}, 4),
            ({"CUDA_VISIBLE_DEVICES": "3,1"}, 2),
            ({"CUDA_VISIBLE_DEVICES": "2,2"}, 1),
            ({"CUDA_VISIBLE_DEVICES": ""}, 0),
            ({"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5"}, 4),
            ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0,1"}, 1),
        )
        for environ, count in table:
            with self.subTest(environ=environ):
                gpu_count.heed_environment(environ, self.devices)
                self.assertEqual(cuda.device_count(), count)
                # What is_available asks: not the runtime.
                self.assertEqual(environ["PYTORCH_NVML_BASED_CUDA_CHECK"], "1")

    def test_forget(self) -> None:
        """A rank's torch counts for itself, whatever a server was told."""
        cuda = Cuda(4, nvml=False)
        self.told(cuda)
        gpu_count.forget()
        self.assertIsNone(cuda._cached_device_count)
        gpu_count.heed_environment({"CUDA_VISIBLE_DEVICES": "1"}, self.devices)
        self.assertIsNone(cuda._cached_device_count)


if __name__ == "__main__":
    unittest.main()
