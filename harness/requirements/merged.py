"""All requirements of one test in one view, and the verdict over them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from harness.requirements.kinds import (
    AcceleratorPerRank,
    Accelerators,
    Importable,
    Requirement,
    WorldSizeDemand,
)
from harness.requirements.machine import MachineFacts, Occasion
from harness.requirements.scheduling import CpuSlots, Exclusive, Memory, Slow, Timeout

Kind = TypeVar("Kind", bound=Requirement)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What one test asks for. Picklable, hashable, made without torch.

    `items` has every single requirement, with its reason, in the order in which they are judged: the class's
    before the method's, an outer decorator before an inner one. The other fields sum them up.
    """

    items: tuple[Requirement, ...] = ()
    world_size: int | None = None
    """How many ranks to launch the test with; None leaves it to the class."""
    min_gpus: int = 0
    """Accelerators that the test occupies whatever its world size, of the type it asks for or of any."""
    gpu_per_rank: bool = False
    slow: bool = False
    timeout_s: float | None = None
    exclusive: bool = False
    cpu_slots: int | None = None
    """Processors that the test keeps busy; None means one for each rank."""
    memory_mb: int | None = None
    """Peak memory of all ranks together, MiB; None where nobody said."""
    imports: tuple[str, ...] = ()
    """Modules outside our dependencies that must be importable."""

    def gpus(self, world_size: int) -> int:
        """Accelerators that the test occupies when it runs with `world_size` ranks where there are any."""
        return max(self.min_gpus, world_size if self.gpu_per_rank else 0)


def merge(on_method: Iterable[Requirement], on_class: Iterable[Requirement] = ()) -> Requirements:
    """The sum of the requirements of a method and of its class, both given with the outermost first.

    Demands of which there can be only one (world size, timeout) are taken from the outermost decorator of the
    method, else of the class. Amounts take the largest, conditions hold all together.
    """
    return _merged(tuple(on_method), tuple(on_class))


@functools.lru_cache(maxsize=256)
def _merged(method: tuple[Requirement, ...], cls: tuple[Requirement, ...]) -> Requirements:
    nearest, items = method + cls, cls + method
    sizes, timeouts = _of(WorldSizeDemand, nearest), _of(Timeout, nearest)
    return Requirements(
        items=items,
        world_size=sizes[0].size if sizes else None,
        min_gpus=max((item.count for item in _of(Accelerators, items)), default=0),
        gpu_per_rank=bool(sizes) or bool(_of(AcceleratorPerRank, items)),
        slow=bool(_of(Slow, items)),
        timeout_s=timeouts[0].seconds if timeouts else None,
        exclusive=bool(_of(Exclusive, items)),
        cpu_slots=max((item.count for item in _of(CpuSlots, items)), default=None),
        memory_mb=max((item.mebibytes for item in _of(Memory, items)), default=None),
        imports=tuple(dict.fromkeys(item.module for item in _of(Importable, items))),
    )


def unmet(requirements: Requirements, facts: MachineFacts, occasion: Occasion | None = None) -> str | None:
    """The reason why a test with these requirements skips, or None where it runs. Pure.

    Without an occasion nothing is known but the machine: conditions on the world size hold for now, and slow
    tests are not asked for. In a sandcastle, where some tests pass in place of a skip, those count as met:
    the decorator on the test sees to it.
    """
    now = occasion or Occasion()
    for item in requirements.items:
        if item.passes_in_sandcastle and now.sandcastle:
            continue
        reason = item.unmet(facts, now)
        if reason is not None:
            return reason
    return None


def _of(kind: type[Kind], items: tuple[Requirement, ...]) -> tuple[Kind, ...]:
    return tuple(item for item in items if isinstance(item, kind))
