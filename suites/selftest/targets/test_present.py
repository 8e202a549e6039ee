"""Tests what targets demand whose backends are seldom there: they load, or say in one line why not."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path

import torch
import torch.distributed as dist

from suites.selftest.targets import plugins

#: By name, whether it can be tested here, and else what is said.
SHIPPED = {
    "nccl": (dist.is_nccl_available() and torch.cuda.device_count() > 0, "NCCL|no cuda device"),
    "mpi": (dist.is_mpi_available(), "is built without MPI"),
    "ucc": (dist.is_ucc_available(), "is built without UCC"),
    "torchcomms": (importlib.util.find_spec("torchcomms") is not None, "torchcomms is not installed"),
}


class DemandTest(unittest.TestCase):
    """``suites/targets`` for other people's backends."""

    def test_each_loads_or_says_why_not(self) -> None:
        """A run ends before its first test, by one line and the exit code of a usage error."""
        for name, (here, why) in SHIPPED.items():
            with self.subTest(target=name), tempfile.TemporaryDirectory() as directory:
                done = plugins.run(
                    Path(directory),
                    *(str(plugins.TREE / "run_tests.py"), "c10d.test_barriers"),
                    *("--plugin", f"suites.targets.{name}"),
                    *(("--list",) if here else ()),
                )
                if here:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    continue
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)
                self.assertRegex(done.stderr, f"the plugin suites.targets.{name} does not import: .*({why})")


if __name__ == "__main__":
    unittest.main()
