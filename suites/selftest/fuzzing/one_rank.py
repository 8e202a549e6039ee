"""``OneRankCase``: random programs of collectives on a process group of one rank, in this process."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch.distributed as dist

from harness.fuzzing import Program
from harness.fuzzing.execute import run_program

ALONE = (0,)
CPU = torch.device("cpu")


class OneRankCase(unittest.TestCase):
    """Base class of tests with such a group."""

    def setUp(self) -> None:
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.board = dist.PrefixStore("board", store)

    def run_steps(self, *steps: Any) -> None:
        """Runs the steps of a program."""
        run_program(Program(1, steps), 0, {ALONE: dist.group.WORLD}, self.board, CPU)
