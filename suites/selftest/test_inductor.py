"""Inductor's settings in the suites: no test is told what another one was."""

from __future__ import annotations

import importlib
import unittest
from unittest import mock

from torch._inductor import cpu_vec_isa

from harness import DynamoTestCase

inductor = importlib.import_module("suites.inductor")  # suites are not typed


class VectorsTest(DynamoTestCase):
    """Vector instructions, which inductor looks for once a process."""

    def test_each_test_has_its_own(self) -> None:
        machine = cpu_vec_isa.VecAVX2()
        known = mock.patch.multiple(
            cpu_vec_isa,
            x86_isa_checker=lambda: [str(machine)],
            supported_vec_isa_list=[machine],
        )
        platform = mock.patch("platform.machine", lambda: "x86_64")
        tries = mock.patch.object(cpu_vec_isa.VecISA, "check_build", return_value=True)
        with known, platform, tries as tried, mock.patch("sys.platform", "linux"):
            found = []
            for say in (inductor.settle, inductor.allow_vectors, inductor.settle):
                say()
                found.append(cpu_vec_isa.valid_vec_isa_list())
        cpu_vec_isa.valid_vec_isa_list.cache_clear()
        self.assertEqual(found, [[], [machine], []])
        tried.assert_not_called()  # a trial takes the compiler of C++ seconds


if __name__ == "__main__":
    unittest.main()
