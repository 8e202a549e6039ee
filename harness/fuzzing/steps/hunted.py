"""``StepPrograms``: random train steps through the tracer of ``harness.graphs``, as a fuzzer of the hunt."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness.errors import UsageError
from harness.fuzzing.hunted import Hunted, Place, Rejected
from harness.fuzzing.steps import training
from harness.fuzzing.steps.program import StepProgram, drawn, from_json, simpler, to_json
from harness.fuzzing.training import model_of

#: How many ranks programs have. Those of one seed have the same number, so that their ranks are kept.
WORLD_SIZES = (1, 1, 2)
_SCRIPT = """\
import sys

sys.path.insert(0, {tree!r})

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

from harness.fuzzing.steps.program import Call, StepProgram
from harness.fuzzing.steps.training import check

PROGRAM = {program!r}


{source}

def main(rank, path):
    store = torch.distributed.FileStore(path, PROGRAM.world_size)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=PROGRAM.world_size)
    check(PROGRAM, Model, rank)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as path:
        size = PROGRAM.world_size
        torch.multiprocessing.start_processes(main, (f"{{path}}/store",), nprocs=size, start_method="fork")
"""


class StepPrograms(Hunted[StepProgram]):
    """Traced train steps, against eager in one process that computes the gradients of all ranks."""

    name = "steps"
    timeout_s = 120.0
    imports = ("torch._dynamo", "torch._inductor.config")

    def drawn(self, seed: int) -> Iterator[StepProgram]:
        """Programs without end for a number of ranks that the seed decides."""
        choice = random.Random(f"{self.name} {seed}")
        world_size = choice.choice(WORLD_SIZES)
        return (drawn(choice, world_size) for _ in itertools.count())

    def world_size(self, program: StepProgram) -> int:
        """The ranks that train."""
        return program.world_size

    def run(self, program: StepProgram, place: Place) -> None:
        """Trains in one rank; what the tracer says that it cannot trace is rejected."""
        try:
            training.check(program, model_of(program.source), place.rank)
        except UsageError as error:
            raise Rejected(str(error)) from error

    def script(self, program: StepProgram) -> str:
        """The module, and the call of this project that traces it."""
        tree = str(Path(harness.__file__).resolve().parents[1])
        return _SCRIPT.format(tree=tree, program=program, source=program.source)

    def simpler(self, program: StepProgram) -> Iterator[StepProgram]:
        """Programs with fewer calls, blocks or options, or plainer ones."""
        return simpler(program)

    def structure(self, program: StepProgram) -> str:
        """The blocks, the optimizer, options, and kinds of calls."""
        options = [f"{name}={value}" for name, value in (*program.options, *program.compiled)]
        calls = [f"call({call.batches}, {call.rows}{'' if call.trains else ', evaluates'})"
                 for call in program.calls]  # fmt: skip
        return "; ".join((*program.blocks, program.optimizer, *options, *calls))

    def to_json(self, program: StepProgram) -> dict[str, Any]:
        """A program as values of JSON."""
        return to_json(program)

    def from_json(self, value: Any) -> StepProgram:
        """The program that ``to_json`` wrote."""
        return from_json(value)
