"""Makes DDP programs simpler by one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.ddp.program import DdpProgram, Step


def simpler(program: DdpProgram) -> Iterator[DdpProgram]:
    """Programs simpler by one change: fewer steps, blocks and options first, then plainer ones."""
    for changes in _changes(program):
        try:
            yield replace(program, **changes)
        except UsageError:  # a block that takes an option
            continue


def _changes(program: DdpProgram) -> Iterator[dict[str, Any]]:
    for name in ("steps", "blocks", "options"):
        items = getattr(program, name)
        for number in reversed(range(len(items))):
            if name != "steps" or len(items) > 1:
                yield {name: (*items[:number], *items[number + 1 :])}
    if program.joins:
        yield {"joins": False}
    if program.hook:
        yield {"hook": ""}
    if program.world_size > 2:
        yield {"world_size": 2}
    for number, block in enumerate(program.blocks):
        if block != "linear":
            yield {"blocks": (*program.blocks[:number], "linear", *program.blocks[number + 1 :])}
    for number, step in enumerate(program.steps):
        for plainer in _plainer(step):
            yield {"steps": (*program.steps[:number], plainer, *program.steps[number + 1 :])}


def _plainer(step: Step) -> Iterator[Step]:
    for change in ({"batches": 1}, {"batches": 2}, {"keeps": False}, {"evaluates": False}):
        if change.get("batches", 0) <= step.batches and (plainer := replace(step, **change)) != step:
            yield plainer
