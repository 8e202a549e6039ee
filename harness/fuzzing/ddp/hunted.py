"""``DdpPrograms``: random modules, options and steps of DDP as a fuzzer of the hunt, and their scripts."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Iterator
from typing import Any

from harness.fuzzing.ddp import training
from harness.fuzzing.ddp.draw import drawn
from harness.fuzzing.ddp.program import DdpProgram, from_json, to_json
from harness.fuzzing.ddp.shrink import simpler
from harness.fuzzing.hunted import Hunted, Place, Rejected

#: How many ranks programs have. Those of one seed have the same number, so that their ranks are kept.
WORLD_SIZES = (2, 2, 3)
_MAIN = """\
def main(rank, path):
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(path, WORLD), rank=rank, world_size=WORLD
    )
    check(Model, rank, WORLD, OPTIONS, STEPS, HOOK, JOINS)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    import torch.multiprocessing

    with tempfile.NamedTemporaryFile() as file:
        torch.multiprocessing.start_processes(main, (file.name,), nprocs=WORLD, start_method="fork")
"""


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
                training.model_of(program.source),
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
        text = inspect.getsource(training)
        body = text[text.index("import contextlib") :]
        values = (
            f"WORLD, HOOK, JOINS = {program.world_size}, {program.hook!r}, {program.joins}",
            f"OPTIONS = {dict(program.options)}",
            f"STEPS = {_steps(program)}",
        )
        parts = ("from __future__ import annotations\n", body, program.source, "\n".join(values), _MAIN)
        return "\n\n".join(parts)

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
