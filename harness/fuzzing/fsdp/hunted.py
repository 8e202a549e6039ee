"""``FsdpPrograms``: modules, plans, options and steps of FSDP2 as a fuzzer of the hunt, and their scripts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import astuple
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from harness.fuzzing.fsdp import meshes, training
from harness.fuzzing.fsdp.draw import drawn
from harness.fuzzing.fsdp.program import FsdpProgram, from_json, to_json
from harness.fuzzing.fsdp.shrink import simpler
from harness.fuzzing.hunted import Hunted, Place, Rejected
from harness.fuzzing.training import model_of
from harness.fuzzing.training_script import script

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: How many ranks programs have. Those of one seed have the same number, so that their ranks are kept.
WORLD_SIZES = (2, 2, 3, 4)
_NAMES = ("MESH", "UNITS", "IGNORED", "OPTIONS", "STEPS", "OPTIMIZER")
# A process's meshes, which are kept from program to program.
_meshes: dict[tuple[int, ...], DeviceMesh] = {}


class FsdpPrograms(Hunted[FsdpProgram]):
    """Modules trained with FSDP2, against one process that shards nothing."""

    name = "fsdp"
    timeout_s = 60.0
    imports: ClassVar[tuple[str, ...]] = (
        *("torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch._dynamo"),
        "functorch.compile",
    )
    #: The programs, the one of a seed, how one is checked, and the modules of which its script is made.
    kind: ClassVar[type[FsdpProgram]] = FsdpProgram
    program_of: Callable[[int, int], FsdpProgram] = staticmethod(drawn)
    check: Callable[..., None] = staticmethod(training.check)
    modules: ClassVar[tuple[ModuleType, ...]] = (meshes, training)

    def drawn(self, seed: int) -> Iterator[FsdpProgram]:
        """Programs without end for a number of ranks that the seed decides."""
        choice = random.Random(seed)
        world_size = choice.choice(WORLD_SIZES)
        return (self.program_of(choice.getrandbits(48), world_size) for _ in itertools.count())

    def world_size(self, program: FsdpProgram) -> int:
        """The ranks that train."""
        return program.world_size

    def run(self, program: FsdpProgram, place: Place) -> None:
        """Trains in one rank; what FSDP says not to support is rejected."""
        try:
            self.check(model_of(program.source), *_arguments(program), _meshes)
        except (NotImplementedError, ValueError, RuntimeError) as error:
            if "not support" in str(error) or "unsupported" in str(error):
                raise Rejected(str(error)) from error
            raise

    def script(self, program: FsdpProgram) -> str:
        """The program as a script in plain torch."""
        pairs = zip(_NAMES, _arguments(program), strict=True)
        values = [f"WORLD = {program.world_size}", *(f"{name} = {value!r}" for name, value in pairs)]
        call = f"{self.check.__name__}(Model, {', '.join(_NAMES)})"
        return script(self.modules, program.source, values, call)

    def simpler(self, program: FsdpProgram) -> Iterator[FsdpProgram]:
        """Programs with fewer steps, blocks or options, or plainer ones."""
        return simpler(program)

    def structure(self, program: FsdpProgram) -> str:
        """The blocks with their roles, the mesh's dimensions, options, optimizer and kinds of steps."""
        blocks = [f"{role} {name}".strip() for name, role in program.blocks]
        if program.inner is not None:
            blocks.insert(program.inner, "unit inner:" if program.unit else "inner:")
        options = [name if value is True else f"{name}={value}" for name, value in program.options]
        steps = [_words(each) for each in program.steps]
        mesh = f"mesh({'x'.join(map(str, program.mesh))})"
        return "; ".join([*blocks, mesh, *options, program.optimizer, *steps])

    def to_json(self, program: FsdpProgram) -> dict[str, Any]:
        """A program as values of JSON."""
        return to_json(program)

    def from_json(self, value: Any) -> FsdpProgram:
        """The program that ``to_json`` wrote."""
        return from_json(value, self.kind)


def _arguments(program: FsdpProgram) -> tuple[Any, ...]:
    return (
        program.mesh,
        program.modules("unit"),
        program.modules("ignored"),
        dict(program.options),
        [astuple(each) for each in program.steps],
        program.optimizer,
    )


def _words(step: Any) -> str:
    way = f", {step.way}" if step.batches > 1 else ""
    flags = [name for name in ("keeps", "evaluates", "clips") if getattr(step, name)]
    restores = [f"restores {step.restores}"] if step.restores else []
    return f"step({', '.join([f'{step.batches}{way}', *flags, *restores])})"
