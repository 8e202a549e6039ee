"""Makes FSDP programs simpler by one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.fsdp.program import FsdpProgram, Step

_PLAIN = Step()


def simpler(program: FsdpProgram) -> Iterator[FsdpProgram]:
    """Programs simpler by one change: fewer steps, blocks and options first, then plainer ones."""
    for changes in _changes(program):
        try:
            yield replace(program, **changes)
        except UsageError:  # options and a mesh that do not fit any more
            continue


def _changes(program: FsdpProgram) -> Iterator[dict[str, Any]]:
    for name in ("steps", "options"):
        items = getattr(program, name)
        for number in reversed(range(len(items))):
            if name != "steps" or len(items) > 1:
                yield {name: (*items[:number], *items[number + 1 :])}
    for number in reversed(range(len(program.blocks))):
        moved = program.inner is not None and number < program.inner
        yield {
            "blocks": (*program.blocks[:number], *program.blocks[number + 1 :]),
            "inner": program.inner - 1 if program.inner is not None and moved else program.inner,
        }
    if program.inner is not None:
        yield {"inner": None, "unit": False}
    if program.unit:
        yield {"unit": False}
    if program.optimizer != "sgd":
        yield {"optimizer": "sgd"}
    if len(program.mesh) > 1:
        yield {"mesh": (program.world_size,)}
    if program.world_size > 2:
        yield {"mesh": (2,) if len(program.mesh) == 1 else (1, 2)}
    for number, (block, role) in enumerate(program.blocks):
        for plainer in ({(block, ""), ("linear", role)}) - {(block, role)}:
            if not (block == "linear" and plainer[0] != "linear"):
                yield {"blocks": (*program.blocks[:number], plainer, *program.blocks[number + 1 :])}
    for number, step in enumerate(program.steps):
        for other in _plainer(step):
            yield {"steps": (*program.steps[:number], other, *program.steps[number + 1 :])}


def _plainer(step: Step) -> Iterator[Step]:
    for name in ("batches", "way", "keeps", "evaluates", "restores", "clips"):
        default = getattr(_PLAIN, name)
        if getattr(step, name) != default:
            yield replace(step, **{name: default})
    if step.batches > 2:
        yield replace(step, batches=2)
