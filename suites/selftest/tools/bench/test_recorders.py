"""Tests the recorders with which the checker's is compared: that ranks use them, and that one counts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from suites.selftest.forked_case import ForkedCase
from tools.bench.recorders import CHECKER, RECORDERS, environment

ROOT = Path(__file__).resolve().parents[4]
# What makes calls as a rank does, and says who recorded how many of them.
PROGRAM = """
import mmap, torch
import torch.distributed as dist
from harness import rank_merging
from harness.communication.taps import taps
from harness.communication.call_log import LOG_BYTES, CallLog, read
memory = mmap.mmap(-1, LOG_BYTES)
taps.install(CallLog(memory))
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
dist.all_reduce(torch.ones(2), async_op=True).wait()
recorder = taps.prepare().recorder
print(type(recorder).__name__, vars(recorder).get("_numbers", {}), len(read(memory)))
print(rank_merging.with_communication.__module__)
dist.destroy_process_group()  # else gloo's threads may end the interpreter by SIGABRT as it exits
"""
# The same in turns in one process, and at last without; says how many calls each of two has recorded by then.
IN_TURNS = """
import mmap, torch
import torch.distributed as dist
from unittest import mock
from harness.communication.taps import taps
from harness.communication.call_log import LOG_BYTES, CallLog
from tools.bench import recorders
log = CallLog(mmap.mmap(-1, LOG_BYTES))
original, counter = dist.ProcessGroup.allreduce, recorders._Counter
checks = recorders.Replacements(lambda: taps.install(log))
counts = recorders.Replacements(recorders.counting)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
made = log.count
with mock.patch.object(counter, "began", autospec=True, side_effect=counter.began) as began:
    for way in (checks, counts, checks):
        with way.in_place():
            dist.all_reduce(torch.ones(2))
        print(log.count - made, began.call_count)
    dist.all_reduce(torch.ones(2))
print(log.count - made, began.call_count, dist.ProcessGroup.allreduce is original)
dist.destroy_process_group()
"""


class RecordersTest(unittest.TestCase):
    """``environment`` and ``use``, in an interpreter of their own."""

    def test_each(self) -> None:
        """Under its variables an interpreter records by that recorder; only the checker writes a log."""
        expected = {
            "without": "_Counter {} 0\ntools.bench.recorders\n",
            "counting": "_Counter {'0': 2} 0\ntools.bench.recorders\n",
            CHECKER: "Recorder {} 3\nharness.rank_merging\n",
        }
        for name in RECORDERS:
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                environ = {**os.environ, **environment(name, Path(directory), ROOT)}
                command = [sys.executable, "-c", PROGRAM]
                said = subprocess.run(command, env=environ, text=True, stdout=subprocess.PIPE, check=True)
                self.assertEqual(said.stdout, expected[name])


class ReplacementsTest(ForkedCase):
    """``Replacements``: several recorders in one process."""

    def test_in_turns(self) -> None:
        """In one process each is used within its region alone."""
        said = subprocess.run([sys.executable, "-c", IN_TURNS], cwd=ROOT, text=True, stdout=subprocess.PIPE)
        self.assertEqual((said.returncode, said.stdout), (0, "1 0\n1 1\n2 1\n2 1 True\n"))


if __name__ == "__main__":
    unittest.main()
