"""``DdpProgram``: a module of blocks, options of DDP and steps, as a value with the module's source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.blocks import BLOCKS, model_source

#: The communication hooks that programs register.
HOOKS = ("", "allreduce", "python")


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step: ``batches`` backwards, all but the last without synchronisation.

    ``keeps``: gradients are set to zero before it, not to None. ``evaluates``: the module is called without
    gradients before it.
    """

    batches: int = 1
    keeps: bool = False
    evaluates: bool = False


@dataclass(frozen=True, slots=True)
class DdpProgram:
    """The blocks by name, the options of DDP that are not defaults, and the steps.

    With ``joins`` the ranks train under ``join()`` and rank 0 has one step less than the others.
    """

    world_size: int
    blocks: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]
    steps: tuple[Step, ...]
    hook: str = ""
    joins: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for blocks and hooks that are not there, and for what DDP documents not to do."""
        unknown = [each for each in self.blocks if each not in BLOCKS]
        if unknown or self.hook not in HOOKS:
            raise UsageError(f"no such block or hook: {[*unknown, self.hook]}")
        options = dict(self.options)
        finds, static = options.get("find_unused_parameters"), options.get("static_graph")
        for each in (BLOCKS[name] for name in self.blocks):
            if (each.unused and not (finds or static)) or (each.varies and static):
                raise UsageError("a parameter without a gradient takes find_unused_parameters")

    @property
    def source(self) -> str:
        """The class ``Model``, whose ``forward`` returns what the loss is made of, and what is ignored."""
        return model_source(self.blocks)


def to_json(program: DdpProgram) -> dict[str, Any]:
    """A program as values of JSON."""
    return asdict(program)


def from_json(data: dict[str, Any]) -> DdpProgram:
    """The program that ``to_json`` wrote."""
    return DdpProgram(
        data["world_size"],
        tuple(data["blocks"]),
        tuple((name, value) for name, value in data["options"]),
        tuple(Step(**each) for each in data["steps"]),
        data["hook"],
        data["joins"],
    )
