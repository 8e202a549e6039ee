"""Tests that the constants agree with torch's own."""

from __future__ import annotations

import unittest

from torch.testing._internal import common_utils

from harness.requirements import machine_flags


class FlagsTest(unittest.TestCase):
    """On this machine."""

    def test_as_upstream(self) -> None:
        for name in (
            "TEST_CUDA",
            "TEST_XPU",
            "TEST_HPU",
            "TEST_WITH_ROCM",
            "IS_LINUX",
            "IS_MACOS",
            "IS_WINDOWS",
            "IS_CI",
            "IS_SANDCASTLE",
            "TEST_WITH_SLOW",
            "TEST_WITH_DEV_DBG_ASAN",
            "FILE_SCHEMA",
        ):
            with self.subTest(name):
                self.assertEqual(bool(getattr(machine_flags, name)), bool(getattr(common_utils, name)))
        self.assertEqual(machine_flags.MI300_ARCH, common_utils.MI300_ARCH)


if __name__ == "__main__":
    unittest.main()
