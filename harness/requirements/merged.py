"""All requirements of one test in one view, and the verdict over them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from harness.requirements.kinds import (
    AcceleratorPerRank,
    Accelerators,
    Backends,
    DeviceTypes,
    Importable,
    NotOnPlatform,
    NotOnRocm,
    Requirement,
    WorldSizeDemand,
    WorldSizeEven,
    WorldSizeMinimum,
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
    min_world_size: int | None = None
    """With fewer ranks than this the test skips; it says nothing on how many to launch."""
    even_world_size: bool = False
    min_gpus: int = 0
    """Accelerators that the test occupies whatever its world size, of the type it asks for or of any."""
    gpu_per_rank: bool = False
    allow_cpu: bool = True
    """Whether none of the demands for accelerators rules out a machine that has none."""
    backends: tuple[tuple[str, ...], ...] = ()
    """Groups of alternatives: of each group one backend must be there."""
    device_types: tuple[tuple[str, ...], ...] = ()
    """Groups of alternatives: of each group one device type must be there."""
    slow: bool = False
    timeout_s: float | None = None
    exclusive: bool = False
    cpu_slots: int | None = None
    """Processors that the test keeps busy; None means one for each rank."""
    memory_mb: int | None = None
    """Peak memory of all ranks together, MiB; None where nobody said."""
    excluded_platforms: tuple[str, ...] = ()
    """As sys.platform names them, and "rocm" where no ROCm build will do."""
    imports: tuple[str, ...] = ()
    """Modules outside our dependencies that must be importable."""

    reasons: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", tuple(item.reason for item in self.items))

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
    counts = _of(Accelerators, items)
    device_types = tuple(item.any_of for item in _of(DeviceTypes, items))
    per_rank = bool(_of(AcceleratorPerRank, items))
    return Requirements(
        items=items,
        world_size=sizes[0].size if sizes else None,
        min_world_size=max((item.size for item in _of(WorldSizeMinimum, items)), default=None),
        even_world_size=bool(_of(WorldSizeEven, items)),
        min_gpus=max((item.count for item in counts), default=0),
        gpu_per_rank=per_rank or bool(sizes),
        allow_cpu=not per_rank
        and all(item.allow_cpu or item.count == 0 for item in counts)
        and all(item.allow_cpu for item in sizes)
        and all("cpu" in group for group in device_types),
        backends=tuple(item.any_of for item in _of(Backends, items)),
        device_types=device_types,
        slow=bool(_of(Slow, items)),
        timeout_s=timeouts[0].seconds if timeouts else None,
        exclusive=bool(_of(Exclusive, items)),
        cpu_slots=max((item.count for item in _of(CpuSlots, items)), default=None),
        memory_mb=max((item.mebibytes for item in _of(Memory, items)), default=None),
        excluded_platforms=_unique(
            chain(
                (item.platform for item in _of(NotOnPlatform, items)),
                ("rocm" for item in _of(NotOnRocm, items) if not item.archs),
            )
        ),
        imports=_unique(item.module for item in _of(Importable, items)),
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


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
