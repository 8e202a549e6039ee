"""``DdpPrograms``: random modules, options and steps of DDP as a fuzzer of the hunt, and their scripts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from harness.fuzzing.ddp import training
from harness.fuzzing.ddp.draw import drawn
from harness.fuzzing.ddp.program import DdpProgram, from_json, to_json
from harness.fuzzing.ddp.shrink import simpler
from harness.fuzzing.hunted import Hunted, Place, Rejected
from harness.fuzzing.training import model_of
from harness.fuzzing.training_script import script

#: How many ranks programs have. Those of one seed have the same number, so that their ranks are kept.
WORLD_SIZES = (2, 2, 3)
_CALL = "check(Model, rank, WORLD, OPTIONS, STEPS, HOOK, JOINS)"


class DdpPrograms(Hunted[DdpProgram]):
    """Modules trained with DDP, against one process that computes what all ranks do."""

    name = "ddp"
    timeout_s = 60.0
    imports = ("torch._dynamo",)  # DDP imports it when it is made

    def drawn(self, seed: int) -> Iterator[DdpProgram]:
        """Programs without end for a number of ranks that the seed decides."""
        choice = random.Random(seed)
        world_size = choice.choice(WORLD_SIZES)
        return (drawn(choice.getrandbits(48), world_size) for _ in itertools.count())

    def world_size(self, program: DdpProgram) -> int:
        """The ranks that train."""
        return program.world_size

    def run(self, program: DdpProgram, place: Place) -> None:
        """Trains in one rank; what DDP says not to support is rejected."""
        try:
            training.check(
                model_of(program.source),
                place.rank,
                place.world_size,
                dict(program.options),
                _steps(program),
                program.hook,
                program.joins,
            )
        except RuntimeError as error:
            if "not supported" in str(error) or "unsupported" in str(error):
                raise Rejected(str(error)) from error
            raise

    def script(self, program: DdpProgram) -> str:
        """The program as a script in plain torch."""
        values = (
            f"WORLD, HOOK, JOINS = {program.world_size}, {program.hook!r}, {program.joins}",
            f"OPTIONS = {dict(program.options)}",
            f"STEPS = {_steps(program)}",
        )
        return script((training,), program.source, values, _CALL)

    def simpler(self, program: DdpProgram) -> Iterator[DdpProgram]:
        """Programs with fewer steps, blocks or options, or plainer ones."""
        return simpler(program)

    def structure(self, program: DdpProgram) -> str:
        """The blocks, options, hook and kinds of steps."""
        options = [name if value is True else f"{name}={value}" for name, value in program.options]
        steps = [f"step({each.batches}{', keeps' * each.keeps}{', evaluates' * each.evaluates})"
                 for each in program.steps]  # fmt: skip
        rest = [*options, *([program.hook] if program.hook else []), *(["joins"] if program.joins else [])]
        return "; ".join([*program.blocks, *rest, *steps])

    def to_json(self, program: DdpProgram) -> dict[str, Any]:
        """A program as values of JSON."""
        return to_json(program)

    def from_json(self, value: Any) -> DdpProgram:
        """The program that ``to_json`` wrote."""
        return from_json(value)


def _steps(program: DdpProgram) -> list[tuple[int, bool, bool]]:
    return [(each.batches, each.keeps, each.evaluates) for each in program.steps]
