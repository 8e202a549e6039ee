"""``CollectivePrograms``: random programs of collectives and messages, as a fuzzer for the hunt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist

from harness.fuzzing.draw import BATCH, drawn_from, programs
from harness.fuzzing.execute import destroyed, run_program
from harness.fuzzing.hunted import Hunted, Place
from harness.fuzzing.program import Program, from_json, to_json
from harness.fuzzing.shrink import simpler
from harness.fuzzing.source import source_of

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

WORLD_SIZES = (2, 3, 4)


class CollectivePrograms(Hunted[Program]):
    """Programs on gloo, whose sub-groups are made before each program and destroyed after it."""

    name = "collectives"
    timeout_s = 20.0

    def drawn(self, seed: int) -> Iterable[Program]:
        """A batch of programs for one world size, which follows from the seed."""
        return drawn_from(programs(WORLD_SIZES[seed % len(WORLD_SIZES)]), BATCH, seed)

    def world_size(self, program: Program) -> int:
        """That of the program."""
        return program.world_size

    def run(self, program: Program, place: Place) -> None:
        """Runs the program and compares every tensor with the numpy interpreter's."""
        everyone = tuple(range(program.world_size))
        groups: dict[tuple[int, ...], Any] = {everyone: dist.group.WORLD}
        with ExitStack() as made:
            for ranks in program.groups:
                if ranks != everyone:
                    groups[ranks] = dist.new_group(list(ranks))
                    made.callback(destroyed, groups[ranks])
            run_program(program, place.rank, groups, place.store, torch.device("cpu"))

    def script(self, program: Program) -> str:
        """The calls of all ranks, and what they must have in the end."""
        return source_of(program)

    def simpler(self, program: Program) -> Iterator[Program]:
        """With fewer or plainer steps."""
        return simpler(program)

    def structure(self, program: Program) -> str:
        """The kinds of the steps and their settings, without sizes and ranks."""
        return re.sub(r"\d+", "#", "; ".join(map(repr, program.steps)))

    def to_json(self, program: Program) -> Any:
        """As ``ProgramTestCase`` sends it to its ranks."""
        return to_json(program)

    def from_json(self, value: Any) -> Program:
        """From what ``to_json`` made."""
        return from_json(value)
