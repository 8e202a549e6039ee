"""Tests what a target's accelerators are called, and by which variable a process sees only some of them."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.targets import Target, device_set
from harness.targets.device_set import DeviceSet, names, of_target


class NamesTest(unittest.TestCase):
    """``names``: what the variable takes for each device."""

    def test_table(self) -> None:
        """Those that the user has left to this run, by number or UUID; numbers where nothing is said."""
        table = (
            ("", 3, ("0", "1", "2")),
            ("5,7", 2, ("5", "7")),
            (" 5 , 7 ", 2, ("5", "7")),
            ("GPU-1a,GPU-2b,GPU-3c", 2, ("GPU-1a", "GPU-2b")),  # a third that the runtime does not see
            ("5", 2, ("0", "1")),  # the variable is not the one that decided
            ("", 0, ()),
        )
        for said, count, found in table:
            with self.subTest(said=said, count=count):
                self.assertEqual(names(said, count), found)


class OfTargetTest(unittest.TestCase):
    """``of_target``, with doubles of what torch says."""

    def found(self, target: Target, *, rocm: bool = False, **environ: str) -> DeviceSet | None:
        """The devices in a process with these variables."""
        with mock.patch.object(device_set, "_is_rocm", lambda: rocm):
            return of_target(target, environ)

    def test_table(self) -> None:
        """Each device type has its variable, and a target may say another; a set of ROCm's is by HIP's."""
        cuda, private = (Target("mine", kind, {}, device_count=lambda: 2) for kind in ("cuda", "private"))
        said = Target("mine", "private", {}, device_count=lambda: 2, visible_devices="MY_DEVICES")
        both = ("0", "1")
        self.assertIsNone(self.found(Target("gloo", "cpu", {})))
        self.assertEqual(self.found(cuda), DeviceSet(both, "CUDA_VISIBLE_DEVICES"))
        self.assertEqual(
            self.found(cuda, CUDA_VISIBLE_DEVICES="2,3"), DeviceSet(("2", "3"), "CUDA_VISIBLE_DEVICES")
        )
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            found = self.found(cuda, rocm=True, **{name: "2,3"})
            self.assertEqual(found, DeviceSet(("2", "3"), "HIP_VISIBLE_DEVICES"))
        self.assertEqual(self.found(private), DeviceSet(both, ""))
        shared = Target("mine", "cuda", {}, device_count=lambda: 2, ranks_per_device=2)
        self.assertEqual(self.found(shared), DeviceSet(("0", "1", "0", "1"), "CUDA_VISIBLE_DEVICES"))
        self.assertEqual(self.found(said, MY_DEVICES="6,4"), DeviceSet(("6", "4"), "MY_DEVICES"))

    def test_at_once(self) -> None:
        """Without a variable one test has all devices at a time."""
        self.assertEqual(DeviceSet(("0", "1"), "MY_DEVICES").at_once, 2)
        self.assertEqual(DeviceSet(("0", "1")).at_once, 1)
        self.assertEqual(DeviceSet().at_once, 0)


if __name__ == "__main__":
    unittest.main()
